"""The commands and their options. Options that are not given have the defaults of `SVC` or `SVCCV`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import click
import joblib
import numpy as np
from scipy.sparse import issparse

from maxmargin import SVC, SVCCV, audits
from maxmargin.cli import INTERRUPTED, datasets, session
from maxmargin.cli.play import play
from maxmargin.cli.report import grid_report, report
from maxmargin.io import DataFileError, read_table
from maxmargin.io.bytes_and_text import open_bytes

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_PICTURE = Path("maxmargin.png")
RESCUED_MODEL = Path("maxmargin-interrupted.joblib")  # where the model of an interrupted fit is saved without --save
NOT_PROVED = 1  # exit code of an audit whose relative gap is above --gap-tol
SHARED_OPTIONS = ("kernel", "loss", "degree", "coef0", "tol", "max_seconds", "cache_size", "multi_class")
MACHINE_OPTIONS = (*SHARED_OPTIONS, "C", "gamma", "sigma", "gap_tol")
GRID_OPTIONS = (*SHARED_OPTIONS, "Cs", "gammas", "scoring")


class BadInput(click.ClickException):
    """An error that ends the command with one line on stderr and exit code 2."""

    exit_code = 2

    def __init__(self, reason: object) -> None:
        super().__init__(" ".join(str(reason).split()))


class NumberOr(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An option value that is a number, or one of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = "|".join(("number", *words))

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        if value in self.words:
            return str(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number and not {' or '.join(self.words)}", param, ctx)


class Interruptible(click.Group):
    """Commands that Ctrl-C ends with one line on stderr and exit code 130, unless a command handles it itself."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Interruptible, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="maxmargin", message="%(prog)s %(version)s")
def maxmargin() -> None:
    """Exact support vector machines, each with a certificate of its optimality."""


maxmargin.add_command(play)


class NumbersOrCount(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An option value that is a list of numbers separated by commas, or how many values the grid is to choose."""

    name = "count|a,b,c"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | list[float]:
        try:
            return int(value) if value.isdigit() else [float(word) for word in value.split(",") if word.strip()]
        except ValueError:
            self.fail(f"{value!r} is not a count, and not numbers between commas such as 0.1,1,10", param, ctx)


def _combined(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several options into one decorator, in this order."""

    def decorate(command: Command) -> Command:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


data_options = _combined(
    click.argument("file", required=False, type=click.Path(path_type=Path)),
    click.option(
        "--dataset",
        type=click.Choice(datasets.NAMES),
        help="Embedded data set, used without FILE.  [default: breast_cancer]",
    ),
    click.option(
        "--target",
        help="Label column of a CSV file, name or index.  [default: target, label, class, y, the last]",
    ),
    click.option(
        "--test-size",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.25,
        show_default=True,
        help="Share of the samples set aside for the test, stratified; 0 for no test.",
    ),
    click.option(
        "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Random seed of the train/test split."
    ),
    click.option(
        "--standardize/--no-standardize",
        default=None,
        help="Scale features to unit variance.  [default: dense data only]",
    ),
)
machine_options = _combined(
    click.option("--kernel", help="Kernel: linear, poly, rbf, …, as in SVC."),
    click.option("--loss", help="Loss: hinge or squared_hinge."),
    click.option("--degree", type=int, help="Degree of the polynomial kernel."),
    click.option("--coef0", type=float, help="Constant of the polynomial and sigmoid kernels."),
    click.option("--tol", type=float, help="Largest KKT violation that counts as converged."),
    click.option("--max-seconds", type=float, help="Time limit; the model reached by then is kept."),
    click.option("--cache-size", type=NumberOr("auto"), help="Megabytes for kernel rows."),
    click.option("--multi-class", help="Strategy for several classes: ovo, ovr or crammer_singer."),
)
output_options = _combined(
    click.option("--save", type=click.Path(path_type=Path), help="File to write the model to, e.g. model.joblib."),
    click.option("--progress/--no-progress", default=None, help="Show a progress bar.  [default: on a terminal]"),
)


@maxmargin.command()
@data_options
@click.option("-C", "--C", "C", type=float, help="Price of a margin violation; inf for a hard margin.")
@click.option("--gamma", type=NumberOr("scale", "auto"), help="Kernel coefficient.")
@click.option("--sigma", type=float, help="Width of the kernel, instead of gamma.")
@machine_options
@click.option("--gap-tol", type=float, help="Largest relative duality gap that counts as converged.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help=f"File to write the picture to.  [default: {DEFAULT_PICTURE}]",
)
@click.option("--no-plot", is_flag=True, help="Draw no picture.")
@output_options
def train(file: Path | None, **options: Any) -> None:
    """Train an SVC on FILE (CSV or LIBSVM), test it, report, and draw its decision boundary.

    Without FILE an embedded data set is used. Ctrl-C ends the fit early and keeps the model reached so far.
    """
    with bad_input_in_one_line(), warnings_in_one_line():
        picture = _check_picture(options["plot"], options["no_plot"])
        _check_folder(options["save"])
        table = _load(file, options)
        data = session.split(table, options["test_size"], options["seed"])
        machine = SVC(**_given(options, MACHINE_OPTIONS), callbacks=_callbacks(options["progress"]))
        pipeline = session.make_pipeline(machine, data.X_train, options["standardize"])
        fitted = session.fit(pipeline, data)
        if fitted.interrupted:
            click.echo("interrupted: this is the model reached so far\n", err=True)
        click.echo(report(table, data, fitted) + "\n")

        model_path = options["save"] or (RESCUED_MODEL if fitted.interrupted else None)
        if model_path:
            joblib.dump(fitted.pipeline, model_path)
            click.echo(f"model saved to {click.format_filename(model_path)}")
        if fitted.interrupted:
            sys.exit(INTERRUPTED)
        if picture and table.X.shape[1] < 2:
            click.echo("no picture: it needs two features")
        elif picture:
            from maxmargin.cli.picture import draw

            click.echo(f"picture written to {click.format_filename(draw(table, data, fitted, picture))}")


@maxmargin.command()
@data_options
@click.option("--Cs", "Cs", type=NumbersOrCount(), help="Values of C, such as 0.1,1,10, or their number.  [default: 10]")
@click.option("--gammas", type=NumbersOrCount(), help="Values of gamma, or their number.  [default: 10]")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Number of folds of the cross-validation.")
@click.option("--scoring", help="Score that decides which point is best, by scikit-learn's name.  [default: accuracy]")
@machine_options
@click.option("--plot", type=click.Path(path_type=Path), help="File to write a heat map of the scores to.")
@output_options
def tune(file: Path | None, folds: int, **options: Any) -> None:
    """Choose C and gamma of an SVC for FILE by cross-validation, then train, test and report the best.

    Each fit of the grid is certified. Ctrl-C ends the search and reports the best point so far.
    """
    with bad_input_in_one_line(), warnings_in_one_line():
        picture = _check_picture(options["plot"], no_plot=options["plot"] is None)
        _check_folder(options["save"])
        table = _load(file, options)
        data = session.split(table, options["test_size"], options["seed"])
        search = SVCCV(**_given(options, GRID_OPTIONS), cv=session.folds(folds, options["seed"]))
        search.set_params(callbacks=_callbacks(options["progress"]))
        pipeline = session.make_pipeline(search, data.X_train, options["standardize"])
        interrupted = session.search(pipeline, data)
        click.echo(grid_report(search) + "\n")
        if picture:
            from maxmargin.cli.picture import draw_grid

            click.echo(f"picture written to {click.format_filename(draw_grid(search, picture))}\n")
        if interrupted:
            sys.exit(INTERRUPTED)
        if not hasattr(search, "best_estimator_"):
            raise BadInput(f"--max-seconds {options['max_seconds']:g}: too few for one point of the grid on all folds")
        fitted = session.measure(session.with_best(pipeline), data)
        click.echo(report(table, data, fitted) + "\n")
        if options["save"]:
            joblib.dump(fitted.pipeline, options["save"])
            click.echo(f"model saved to {click.format_filename(options['save'])}")


@maxmargin.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="File to write the labels to.  [default: stdout]",
)
@click.option("--target", help="Label column of a CSV file, if it has one: name or index.")
def predict(model: Path, file: Path, output: Path | None, target: str | None) -> None:
    """Predict the label of each sample of FILE with a MODEL that `train --save` wrote.

    The output has one label per line. If FILE has labels, the accuracy is reported on stderr.
    Open only models you trust: a joblib file can run any code.
    """
    with bad_input_in_one_line(), warnings_in_one_line():
        _check_folder(output)
        pipeline = _load_model(model)
        table = read_table(file, target, n_features=pipeline.n_features_in_)
        with failure_blamed_on(model):
            trained_dense = not issparse(pipeline.steps[-1][1].support_vectors_)
            labels = pipeline.predict(session.as_trained(table.X, dense=trained_dense))
        text = "".join(f"{label}\n" for label in labels)
        if output:
            output.write_text(text, encoding="utf-8")
            click.echo(f"{len(labels)} labels written to {click.format_filename(output)}", err=True)
        else:
            click.echo(text, nl=False)
        if table.y is not None and _same_kind(table.y, labels):
            click.echo(f"accuracy {np.mean(labels == table.y):.1%}", err=True)


@maxmargin.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--target", help="Target column of a CSV file: name or index.")
@click.option("-C", "--C", "C", type=float, help="The C that MODEL was fitted with, if MODEL does not store it.")
@click.option("--nu", type=float, help="The nu that MODEL was fitted with, if MODEL does not store it.")
@click.option("--epsilon", type=float, help="The epsilon that MODEL was fitted with, if MODEL does not store it.")
@click.option("--tol", type=float, help="The tol that MODEL was fitted with, if MODEL does not store it.")
@click.option("--gap-tol", type=float, help=f"Exit with code {NOT_PROVED} if the relative gap is larger.")
def audit(model: Path, file: Path, target: str | None, gap_tol: float | None, **options: Any) -> None:
    """Prove how near a MODEL of any library is to the optimum on FILE, the data it was fitted on.

    MODEL is a LIBSVM model file, which stores neither C, nu nor epsilon, or a joblib file with a fitted SVC, NuSVC, SVR,
    NuSVR, OneClassSVM or a pipeline that ends in one. Open only models you trust: a joblib file can run any code.
    """
    with bad_input_in_one_line(), warnings_in_one_line():
        fitted = model if audits.is_model_file(model) else _unpickle(model, "a LIBSVM model file, nor one ")
        with failure_blamed_on(model):
            n_features = getattr(fitted, "n_features_in_", None)
        table = read_table(file, target, n_features=n_features)
        given = {name: value for name, value in options.items() if value is not None}
        with failure_blamed_on(model):
            found = audits.audit(fitted, session.as_trained(table.X), table.y, **given)
        click.echo(str(found))
        if gap_tol is not None and not found.holds(gap_tol):
            sys.exit(NOT_PROVED)


@contextmanager
def bad_input_in_one_line() -> Iterator[None]:
    """Report errors in the data, the options or the file system in one line, without a traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has closed it; click handles that
        raise
    except MemoryError as error:
        raise BadInput(f"not enough memory: {error}") from error
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(error) from error


@contextmanager
def failure_blamed_on(model: Path) -> Iterator[None]:
    """Report an error in the use of a model in one line with the name of its file: a damaged pickle may fail late."""
    try:
        yield
    except (click.ClickException, DataFileError):
        raise
    except Exception as error:
        raise BadInput(f"{click.format_filename(model)}: {_message_of(error)}") from error


def _message_of(error: Exception) -> str:
    """The message of an error, preceded by its type if the message was not written for users of the command line."""
    written_for_users = isinstance(error, ValueError | TypeError) and str(error)
    return str(error) if written_for_users else f"{type(error).__name__}: {error}"


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print warnings as one line on stderr, without the code they came from."""

    def show(message: Warning | str, *_: Any) -> None:
        click.echo(f"warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _load(file: Path | None, options: dict[str, Any]) -> Any:
    if file is None:
        if options["target"] is not None:
            raise BadInput("--target is for a FILE; the embedded sets have their labels")
        return datasets.embedded(options["dataset"] or datasets.NAMES[0], options["seed"])
    if options["dataset"] is not None:
        raise BadInput(f"FILE and --dataset {options['dataset']}: give one of them")
    return read_table(file, options["target"])


def _given(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the options that were given; the others have the estimator's defaults."""
    if options["kernel"] == "precomputed":
        raise BadInput("--kernel precomputed: a file of samples has features (use SVC in Python)")
    return {name: options[name] for name in names if options[name] is not None}


def _callbacks(progress: bool | None) -> list[Any] | None:
    """Return a progress bar if it was asked for; by default on a terminal, if tqdm is installed."""
    if progress is None:
        progress = sys.stderr.isatty() and find_spec("tqdm") is not None
    if not progress:
        return None
    from maxmargin.callbacks import ProgressBar

    return [ProgressBar()]


def _check_picture(plot: Path | None, no_plot: bool) -> Path | None:
    """Return the path of the picture, or None; a path that cannot be written is refused now, not after the fit."""
    if no_plot:
        return None
    if plot is None and find_spec("matplotlib") is None:
        click.echo("no picture: it needs matplotlib (pip install 'maxmargin[plot]')", err=True)
        return None
    from maxmargin.plots.canvas import check_path

    return check_path(plot or DEFAULT_PICTURE)


def _check_folder(path: Path | None) -> None:
    if path is not None and not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}")


def _unpickle(path: Path, nor: str = "") -> Any:
    """Return what joblib loads from `path`; `nor` names the other kind of file that would have been accepted, for the message."""
    with open_bytes(path):  # a missing file, a folder and a pipe are refused by name
        pass
    try:
        model = joblib.load(path)
    except Exception as error:  # a damaged pickle can raise anything
        not_a_model = f"{'neither ' if nor else 'not a model '}{nor}that joblib or `train --save` wrote"
        raise BadInput(f"{click.format_filename(path)}: {not_a_model} ({_message_of(error)})") from error
    with failure_blamed_on(path):
        if isinstance(model, str | PathLike):  # `audit` would take it for the name of a file
            raise TypeError(f"holds a {type(model).__name__}, not a model")
        _require_sound(model.steps[-1][1] if hasattr(model, "steps") else model)
    return model


def _require_sound(machine: Any) -> None:
    """Refuse a machine whose arrays do not fit each other: compiled code would read beyond their ends."""
    vectors, coefficients = (getattr(machine, name, None) for name in ("support_vectors_", "dual_coef_"))
    if vectors is None or coefficients is None or getattr(machine, "kernel", None) == "precomputed":
        return
    for matrix in (vectors, coefficients):
        if issparse(matrix):
            matrix.check_format(full_check=True)
    expected = coefficients.shape[-1], getattr(machine, "n_features_in_", vectors.shape[1])
    if vectors.shape != expected:
        raise ValueError(f"the model is damaged: its support vectors have shape {vectors.shape}, and must have {expected}")
    if machine.support_.shape != expected[:1]:
        raise ValueError(f"the model is damaged: support_ has shape {machine.support_.shape}, and must have {expected[:1]}")


def _load_model(path: Path) -> Any:
    model = _unpickle(path)
    with failure_blamed_on(path):
        if not hasattr(model, "steps") or not hasattr(model, "n_features_in_"):
            kind = type(model).__name__
            raise BadInput(f"{path}: holds a {kind}, not a model that `train --save` wrote")
        if not hasattr(model.steps[-1][1], "support_vectors_"):
            raise BadInput(f"{path}: ends in a {type(model.steps[-1][1]).__name__}, not in a fitted support vector machine")
    return model


def _same_kind(ours: Any, theirs: Any) -> bool:
    """Whether both label arrays are numbers or both are text, so that they can be compared."""
    return (ours.dtype.kind in "OU") == (theirs.dtype.kind in "OU")
