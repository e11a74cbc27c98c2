"""`maxmargin train` and `maxmargin tune`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxmargin.cli import INTERRUPTED
from maxmargin.cli.errors import BadInput, require_folder, whole_or_absent
from maxmargin.cli.options import (
    OUTPUT,
    LibsvmLetters,
    NumberOr,
    NumbersOrCount,
    OneOf,
    PowersOfTwo,
    data_options,
    machine_options,
    output_options,
)

if TYPE_CHECKING:
    from maxmargin.cli.report import Report
    from maxmargin.cli.session import Fit, Split
    from maxmargin.io import Table

DEFAULT_PICTURE = Path("maxmargin.png")
RESCUED_MODEL = Path("maxmargin-interrupted.joblib")  # where the model of an interrupted fit is saved without --save
SHARED_PARAMETERS = (
    "kernel", "loss", "degree", "coef0", "tol", "gap_tol", "max_seconds", "cache_size", "multi_class",
)  # fmt: skip
PARAMETERS = (*SHARED_PARAMETERS, "C", "gamma", "sigma", "nu", "epsilon", "alpha", "probability")
AXES = ("C", "gamma", "epsilon", "nu", "alpha")
DEFAULT_SCORES = {"classes": "accuracy", "values": "R²", "novelty": "accuracy"}


@click.command(cls=LibsvmLetters)
@data_options
@click.option("-c", "-C", "--C", "C", type=float, help="Price of a margin violation; inf for a hard margin.")
@click.option("-g", "--gamma", type=NumberOr("scale", "auto"), help="Kernel coefficient.")
@click.option("--sigma", type=float, help="Width of the kernel, instead of gamma.")
@click.option("-n", "--nu", type=float, help="Share of margin errors and support vectors of nusvc, nusvr and one-class.")
@click.option("-p", "--epsilon", type=float, help="Half the width of the tube of svr.")
@click.option("--alpha", type=float, help="Ridge of kernel-ridge.")
@machine_options
@click.option(
    "-b", "--probability",
    type=OneOf(["none", "loo", "cv"], {"0": "none", "1": "loo"}),
    help="Fit probabilities too, to decisions of leaving one out or of a cross-validation.",
)  # fmt: skip
@click.option("-v", "--cv", type=click.IntRange(2), help="Folds of a cross-validation; trains no model unless it is saved.")
@click.option("--plot", type=OUTPUT, help=f"File to write the picture to.  [default: {DEFAULT_PICTURE} without FILE]")
@click.option("--no-plot", is_flag=True, help="Draw no picture.")
@output_options
def train(file: Path | None, model: Path | None, **options: Any) -> None:
    """Train a machine on FILE (CSV, LIBSVM or Parquet; - is stdin), test it and report.

    A quarter of the samples is set aside for the test. MODEL is the file to write the model to; it is trained again on all
    samples before it is written. Without FILE an embedded data set is used. Ctrl-C ends the fit early and keeps the model
    reached so far. LIBSVM's letters (-s -t -c -g -n -p -d -r -e -m -b -v -wi -q) work.
    """
    from maxmargin.cli import session
    from maxmargin.cli.report import Report, report_data, report_fit, report_folds, report_hint

    report = Report(options["as_json"], options["quiet"])
    save = _where_to_save(model, options["save"])
    picture = _check_picture(options["plot"], options["no_plot"] or bool(file and not options["plot"]))
    if options["cv"] and (options["test"] or options["test_size"]):
        raise BadInput("-v tests on each fold: leave --test and --test-size out")
    table, test = session.load(file, options)
    machine, reason = session.choose_machine(options["machine"], table)
    of_kernel = options["kernel"] == "precomputed"
    if options["plot"] and (machine.name != "svc" or of_kernel):
        raise BadInput(
            f"--plot: a picture shows the boundary of an svc; {'a kernel matrix' if of_kernel else machine.name} has none"
        )
    test_size = 0 if options["cv"] else options["test_size"]
    data = session.split(table, test, machine, test_size, options["seed"], of_kernel=of_kernel)
    parameters = given_parameters(options, PARAMETERS) | session.class_weight(options["class_weight"], data.y_train)
    estimator = machine.make(**parameters, **_watched(machine, options["progress"]))
    pipeline = session.make_pipeline(estimator, data.X_train, _standardize(options, save), options["impute"])
    if options["cv"]:
        report_data(report, table, data, machine, reason, pipeline.named_steps, options["cv"])
        report_folds(report, session.validate(pipeline, data, machine, options["cv"], options["seed"]))
        if not save:
            report.show()
            return
    fitted = session.fit(pipeline, data)
    if fitted.interrupted:
        click.echo("interrupted: this is the model reached so far\n", err=True)
    if not options["cv"]:
        report_data(report, table, data, machine, reason, pipeline.named_steps)
    report_fit(report, machine.name, fitted)
    report_hint(report, table, machine)
    if save or fitted.interrupted:
        _save(report, fitted, data, table, save or RESCUED_MODEL)
    if picture and not fitted.interrupted and machine.name == "svc":
        _draw(report, table, data, fitted, picture)
    report.show()
    if fitted.interrupted:
        sys.exit(INTERRUPTED)


@click.command(cls=LibsvmLetters)
@data_options
@click.option("--Cs", "C", type=NumbersOrCount(), help="Values of C, such as 0.1,1,10, or their number.  [default: 10]")
@click.option("--gammas", "gamma", type=NumbersOrCount(), help="Values of gamma, or their number.  [default: 10]")
@click.option("--epsilons", "epsilon", type=NumbersOrCount(), help="Values of epsilon of svr.  [default: 0.1]")
@click.option("--nus", "nu", type=NumbersOrCount(), help="Values of nu of nusvc, nusvr and one-class.")
@click.option("--alphas", "alpha", type=NumbersOrCount(), help="Values of alpha of kernel-ridge, or their number.")
@click.option("--log2c", type=PowersOfTwo(), help="Exponents of C to the base 2, as in LIBSVM's grid.py.")
@click.option("--log2g", type=PowersOfTwo(), help="Exponents of gamma to the base 2.")
@click.option("--log2p", type=PowersOfTwo(), help="Exponents of epsilon to the base 2.")
@click.option(
    "-v", "--folds", type=click.IntRange(2), default=5, show_default=True, help="Number of folds of the cross-validation."
)
@click.option("--scoring", help="Score that decides which point is best, by scikit-learn's name.  [default: accuracy, R²]")
@machine_options
@click.option("--scores", type=OUTPUT, help="CSV file to write the score of each point to.")
@click.option("--plot", type=OUTPUT, help="File to write a heat map of the scores to.")
@output_options
def tune(file: Path | None, model: Path | None, folds: int, **options: Any) -> None:
    """Choose the parameters of a machine for FILE by cross-validation, then train, test and report the best.

    The grid is over C and gamma, and nu, epsilon or alpha where the machine has them; each fit of svc and svr is certified.
    MODEL is the file to write the best model to; it is trained again on all samples before. Ctrl-C ends the search and reports
    the best point so far.
    """
    from maxmargin.cli import session
    from maxmargin.cli.report import Report, report_data, report_fit, report_grid, report_hint

    report = Report(options["as_json"], options["quiet"])
    save = _where_to_save(model, options["save"])
    picture = _check_picture(options["plot"], no_plot=options["plot"] is None)
    require_folder(options["scores"])
    axes = _axes(options)
    table, test = session.load(file, options)
    machine, reason = session.choose_machine(options["machine"], table)
    of_kernel = options["kernel"] == "precomputed"
    data = session.split(table, test, machine, options["test_size"], options["seed"], of_kernel=of_kernel)
    template = machine.make(
        **given_parameters(options, SHARED_PARAMETERS), **session.class_weight(options["class_weight"], data.y_train)
    )
    if data.y_train is None:
        raise BadInput(f"{table.source}: tuning {machine.name} needs labels, 1 for inliers and -1 for outliers")
    cv = session.folds(machine, folds, options["seed"])
    callbacks = _watched(machine, options["progress"]).get("callbacks")
    pipeline = session.make_pipeline(template, data.X_train, _standardize(options, save), options["impute"])
    prepared = session.prepared(pipeline, data.X_train)
    search = session.make_search(machine, template, axes, prepared, cv, options["scoring"], callbacks)
    pipeline.steps[-1] = ("machine", search)
    interrupted = session.search(pipeline, data)
    report_grid(report, search, DEFAULT_SCORES[machine.task])
    if options["scores"]:
        with whole_or_absent(options["scores"]):
            write_scores(search.cv_results_, options["scores"])
        report.note(f"scores written to {click.format_filename(options['scores'])}", scores=str(options["scores"]))
    if picture:
        from maxmargin.cli.picture import draw_grid

        report.note(f"picture written to {click.format_filename(draw_grid(search, picture))}", picture=str(picture))
    if interrupted or not hasattr(search, "best_estimator_"):
        report.show()
        if interrupted:
            sys.exit(INTERRUPTED)
        raise BadInput(f"--max-seconds {options['max_seconds']:g}: too few for one point of the grid on all folds")
    fitted = session.measure(session.with_best(pipeline), data)
    report_data(report, table, data, machine, reason, pipeline.named_steps)
    report_fit(report, machine.name, fitted)
    report_hint(report, table, machine)
    if save:
        _save(report, fitted, data, table, save)
    report.show()


def given_parameters(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that were given; the others have the estimator's defaults."""
    found = {name: options[name] for name in names if options[name] is not None}
    if found.get("probability") == "none":
        del found["probability"]
    return found


def _axes(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of each parameter of the grid that were given."""
    given = {name: options[name] for name in AXES if options[name] is not None}
    for name, exponents in (("C", "log2c"), ("gamma", "log2g"), ("epsilon", "log2p")):
        if options[exponents] is not None:
            if name in given:
                raise BadInput(f"--{name}s and --{exponents}: give one of them")
            given[name] = options[exponents]
    return given


def _watched(machine: Any, progress: bool | None) -> dict[str, Any]:
    """Return a progress bar for the machine if it was asked for; by default on a terminal."""
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress or "callbacks" not in machine.make().get_params():
        return {}
    from maxmargin.callbacks import ProgressBar

    return {"callbacks": [ProgressBar()]}


def _where_to_save(model: Path | None, save: Path | None) -> Path | None:
    if model and save:
        raise BadInput(f"MODEL {model} and --save {save}: give one of them")
    require_folder(model or save)
    return model or save


def _standardize(options: Mapping[str, Any], save: Path | None) -> bool | None:
    """Whether to scale the features; a LIBSVM model file has no place for a scale, so by default there is none."""
    given: bool | None = options["standardize"]
    if options["kernel"] == "precomputed":
        for name in ("standardize", "impute"):
            if options[name]:
                raise BadInput(f"--{name} is for features, and FILE has kernel values")
        return False
    return False if given is None and save is not None and save.suffix.lower() == ".model" else given


def _check_picture(plot: Path | None, no_plot: bool) -> Path | None:
    """Return the path of the picture, or None; a path that cannot be written is refused now, not after the fit."""
    if no_plot:
        return None
    if plot is None and find_spec("matplotlib") is None:
        click.echo("no picture: it needs matplotlib (pip install 'maxmargin[plot]')", err=True)
        return None
    from maxmargin.plots.canvas import check_path

    return check_path(plot or DEFAULT_PICTURE)


def _save(report: Report, fitted: Fit, data: Split, table: Table, path: Path) -> None:
    """Write the model, trained again on all samples if some were set aside for the test."""
    from maxmargin.cli import models, session

    again = ""
    if data.set_aside and not fitted.interrupted:
        fitted = session.refit(fitted.pipeline, data)
        gap = fitted.machine.certificate_.relative_gap
        how = "as far as Ctrl-C let it" if fitted.interrupted else f"relative gap {gap:.1e}"
        again = f", trained again on all {data.everything.X_train.shape[0]} samples: {how}"
    with whole_or_absent(path):
        models.save(fitted.pipeline, path, table)
    report.note(f"model saved to {click.format_filename(path)}{again}", model=str(path), saved_on_all_samples=bool(again))


def _draw(report: Report, table: Table, data: Split, fitted: Fit, picture: Path) -> None:
    if table.X.shape[1] < 2:
        report.note("no picture: it needs two features")
        return
    from maxmargin.cli.picture import draw

    report.note(f"picture written to {click.format_filename(draw(table, data, fitted, picture))}", picture=str(picture))


def write_scores(table: Mapping[str, Any], path: Path) -> None:
    """Write the points of a grid with their scores, and their gaps where they were certified, as CSV."""
    import csv

    names = [name for name in table if name.startswith("param_")]
    scores = [name for name in table if name.endswith("_test_score") or name.endswith("_relative_gap")]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(name.removeprefix("param_") for name in names), *scores])
        writer.writerows(zip(*(table[name] for name in [*names, *scores]), strict=True))
