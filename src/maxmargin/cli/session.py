"""What `maxmargin train` and `tune` do: read, choose a machine, split, fit a pipeline on one part, test it on the other."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone, is_outlier_detector, is_regressor
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics import get_scorer_names, mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_validate, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

import maxmargin
from maxmargin import io
from maxmargin.cli import datasets
from maxmargin.cli.kernel_matrix import block, kernel_values
from maxmargin.cli.machines import MACHINES, Machine
from maxmargin.io import Columns, Table
from maxmargin.kernels import make_kernel
from maxmargin.model_selection.axes import geometric_or_given, numbers
from maxmargin.model_selection.search import C_RANGE, GAMMA_RANGE

DENSE_FROM = 0.5  # share of stored entries from which a sparse matrix is slower than a dense one
LARGEST_TO_STANDARDIZE = 1e150  # largest feature value whose square fits into float64
# A target with more classes than MANY_CLASSES and few samples of each is an identifier or a quantity, not a class; a machine
# for each pair of its values would take minutes and gigabytes.
MANY_CLASSES = 200
FEW_SAMPLES = 10  # samples of a class, on average
TEST_SIZE = 0.25
#: The values of each parameter that a grid without them tries, or their number.
GRID = {"C": 5, "gamma": 5, "nu": (0.05, 0.1, 0.2, 0.35, 0.5), "epsilon": (0.1,), "alpha": 5}
ALPHA_RANGE = (-4.0, 1.0)  # in powers of ten


@dataclass(frozen=True)
class Split:
    """Training samples and test samples; without a test both are all samples."""

    X_train: Any
    X_test: Any
    y_train: Any  # None without labels
    y_test: Any
    has_test: bool
    given: tuple[Any, Any] | None = None  # all samples that were given for training, if some were set aside for the test

    @property
    def set_aside(self) -> bool:
        """Whether the test samples were taken from those that were given for training."""
        return self.given is not None

    @property
    def everything(self) -> Split:
        """All samples that were given for training, in their order, without a test."""
        X, y = self.given or (self.X_train, self.y_train)
        return Split(X, X, y, y, has_test=False)


@dataclass(frozen=True)
class Fit:
    """A fitted pipeline, its scores and times, and whether its fit was interrupted."""

    pipeline: Pipeline
    interrupted: bool
    train_scores: Mapping[str, float]
    test_scores: Mapping[str, float] | None
    predict_seconds: float
    n_predicted: int

    @property
    def machine(self) -> Any:
        """The machine at the end of the pipeline."""
        return self.pipeline.steps[-1][1]


# --- read ----------------------------------------------------------------------------------------------------------------------


def read(file: Path, target: str | None = None, **reading: Any) -> Table:
    """Read a data file; `-` is the standard input."""
    if str(file) == "-":
        return io.read_table("standard input", target, file=sys.stdin.buffer, **reading)
    return io.read_table(file, target, **reading)


def load(file: Path | None, options: Mapping[str, Any]) -> tuple[Table, Table | None]:
    """Read the table to train on, and the one to test on if there is one."""
    if file is None:
        if given := next((name for name in ("target", "test", "drop", "impute", "n_features") if options[name]), None):
            raise ValueError(f"--{given.replace('_', '-')} is for a FILE; the embedded sets have their labels")
        if options["kernel"] == "precomputed":
            raise ValueError("--kernel precomputed is for a FILE of kernel values; the embedded sets have features")
        return datasets.embedded(options["dataset"] or datasets.NAMES[0], options["seed"]), None
    if options["dataset"] is not None:
        raise ValueError(f"FILE and --dataset {options['dataset']}: give one of them")
    if options["test"] and options["test_size"]:
        raise ValueError("--test and --test-size: give one of them")
    machine = MACHINES.get(options["machine"] or "")
    missing = "refuse" if options["impute"] is None else "keep"
    reading = {
        "labelled": machine is None or machine.task != "novelty",
        "missing": missing,
        "text": "one-hot" if options["one_hot"] else "refuse",
        "drop": options["drop"],
        "n_features": options["n_features"] if options["n_features"] else None,
    }
    if options["kernel"] == "precomputed":
        table = kernel_values(read(file, options["target"], zero_based=True, **reading))
        if not options["test"]:
            return table, None
        test = read(options["test"], columns=Columns.of(table), zero_based=True, wider=True)
        return table, kernel_values(test, table.X.shape[0])
    table = read(file, options["target"], **reading)
    if not options["test"]:
        return table, None
    width = int(table.X.shape[1])
    if not issparse(table.X):
        return table, read(options["test"], columns=Columns.of(table), n_features=width, missing=missing)
    test = read(options["test"], n_features=options["n_features"])
    width = max(width, int(test.X.shape[1]))  # a file lacks the last features if they are 0 in all of its samples
    return _widened(table, width), _widened(test, width)


def _widened(table: Table, width: int) -> Table:
    X: Any = csr_matrix(table.X)
    return replace(table, X=csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)))


def as_trained(X: Any, *, dense: bool | None = None) -> Any:
    """Return X, made dense if `dense` is true, or by default if it is a sparse matrix that is mostly filled."""
    if not issparse(X):
        return X
    if dense is None:
        dense = X.nnz > DENSE_FROM * X.shape[0] * X.shape[1]
    return X.toarray() if dense else X


# --- choose --------------------------------------------------------------------------------------------------------------------


def choose_machine(name: str | None, table: Table) -> tuple[Machine, str]:
    """The machine of this name, or the one for the target of the table, and why; a target that does not fit is refused."""
    machine = MACHINES[name or "svc"]
    if machine.task == "novelty":
        return machine, ""
    if table.y is None:
        raise ValueError(f"{table.source}: no labels to train on")
    quantity = _quantity(table.y)
    if name is None and quantity:
        return MACHINES["svr"], f"regression, because the target {quantity}"
    if machine.task == "values" and table.y.dtype.kind not in "iuf":
        raise ValueError(
            f"{table.source}: the target is text, such as {str(table.y[0])!r}, and {name} needs numbers (try --machine svc)"
        )
    if machine.task == "classes" and quantity:
        raise ValueError(
            f"{table.source}: the target column {quantity}, and classes are needed (use --machine svr for regression, or name "
            "another column with --target)"
        )
    n_classes = len(np.unique(table.y)) if machine.task == "classes" else 0
    if n_classes == 1:
        raise ValueError(
            f"{table.source}: all samples are of the class {table.y[0]}, and two classes are needed (use --machine one-class "
            "to learn what is usual, or is this the target column? name another with --target)"
        )
    if _too_many(n_classes, table.y):
        raise ValueError(
            f"{table.source}: {n_classes} classes for {len(table.y)} samples (is this the target column? name another with "
            "--target; SVC in Python takes so many classes)"
        )
    return machine, ""


def _quantity(y: NDArray[Any]) -> str:
    """Why a target is a quantity and not a class; empty if it may be a class."""
    if y.dtype.kind not in "iuf":
        return ""
    if type_of_target(y) == "continuous":
        return "has fractions"
    n_values = len(np.unique(y))
    return f"has {n_values} different numbers in {len(y)} samples" if _too_many(n_values, y) else ""


def _too_many(n_classes: int, y: NDArray[Any]) -> bool:
    return n_classes > MANY_CLASSES and len(y) < FEW_SAMPLES * n_classes


def class_weight(given: Sequence[str], y: NDArray[Any] | None) -> dict[str, Any]:
    """The parameter class_weight, if it was given: "balanced", or CLASS=WEIGHT for classes of y."""
    if not given:
        return {}
    if list(given) == ["balanced"]:
        return {"class_weight": "balanced"}
    if y is None:
        raise ValueError(f"--class-weight {given[0]}: there are no classes")
    classes = {str(label): label for label in np.unique(y)}
    classes |= {f"+{label}": label for label in classes.values() if not isinstance(label, str)}  # LIBSVM's files have +1
    weights = {}
    for word in given:
        label, equals, text = word.rpartition("=")
        if not equals or label not in classes:
            known = ", ".join(list(classes)[: len(np.unique(y))])
            raise ValueError(f"--class-weight {word}: must be balanced, or CLASS=WEIGHT with one of the classes {known}")
        try:
            weights[classes[label]] = float(text)
        except ValueError:
            raise ValueError(f"--class-weight {word}: {text!r} is not a number") from None
    return {"class_weight": weights}


# --- split, fit, measure -------------------------------------------------------------------------------------------------------


def split(
    table: Table, test: Table | None, machine: Machine, test_size: float | None, seed: int, *, of_kernel: bool = False
) -> Split:
    """Take `test` for the test, or set a share of the samples aside, stratified by class; none if it is 0. `of_kernel` says that
    the table is a kernel matrix."""
    X, y = as_trained(table.X), table.y
    if machine.task == "novelty" and not _says_inliers(y):
        y = None  # novelty is learned without labels; those that say what is an inlier are for the test
    if test is not None:
        _require_same_kind(table, test, machine)
        y_test = test.y if machine.task != "novelty" or _says_inliers(test.y) else None
        return Split(X, as_trained(test.X, dense=not issparse(X)), y, y_test, has_test=True)
    if test_size == 0:
        return Split(X, X, y, y, has_test=False)
    labels = None
    if machine.task == "classes":
        labels = np.asarray(y)
        classes, counts = np.unique(labels, return_counts=True)
        if counts.min() < 2:
            regression = "--machine svr for regression, " if classes.dtype.kind in "iuf" else ""
            raise ValueError(
                f"{table.source}: class {classes[counts.argmin()]} has a single sample, and a "
                f"stratified split needs two (use {regression}--test-size 0, or is this the target column?)"
            )
    size = TEST_SIZE if test_size is None else test_size
    if labels is not None and min(size, 1 - size) * len(labels) < len(classes):
        raise ValueError(
            f"{table.source}: {len(labels)} samples of {len(classes)} classes are too few to set {size:g} of each class aside "
            "(use --test-size 0, or --test)"
        )
    train, aside = train_test_split(np.arange(X.shape[0]), test_size=size, stratify=labels, random_state=seed)
    y_train, y_test = (None, None) if y is None else (y[train], y[aside])
    X_train, X_test = (block(X, rows, train, of_kernel=of_kernel) for rows in (train, aside))
    return Split(X_train, X_test, y_train, y_test, has_test=True, given=(X, y))


def _says_inliers(y: NDArray[Any] | None) -> bool:
    """Whether the labels are 1 for inliers and -1 for outliers."""
    return y is not None and y.dtype.kind in "iuf" and set(np.unique(y)) <= {1, -1}


def _require_same_kind(table: Table, test: Table, machine: Machine) -> None:
    if machine.task != "novelty" and test.y is None:
        raise ValueError(f"{test.source}: no labels to test with")
    if table.y is not None and test.y is not None and not same_kind(table.y, test.y):
        kind = "text" if test.y.dtype.kind == "U" else "numbers"
        raise ValueError(f"{test.source}: its labels are {kind}, unlike those of {table.source}")


def same_kind(ours: Any, theirs: Any) -> bool:
    """Whether both label arrays are numbers or both are text, so that they can be compared."""
    return (ours.dtype.kind in "OU") == (theirs.dtype.kind in "OU")


def make_pipeline(machine: Any, X: Any, standardize: bool | None, impute: float | str | None = None) -> Pipeline:
    """Return a pipeline of an imputer, a scaler and the machine; `standardize=None` scales dense data only."""
    steps: list[tuple[str, Any]] = [] if impute is None else [("impute", make_imputer(impute))]
    if standardize is None:
        standardize = not issparse(X)
    if standardize:
        _require_moderate(X)
        steps.append(("scale", StandardScaler(with_mean=not issparse(X))))
    return Pipeline([*steps, ("machine", machine)])


def make_imputer(impute: float | str) -> SimpleImputer:
    """An imputer of a number, or of a statistic of each column."""
    strategy = {"strategy": impute} if isinstance(impute, str) else {"strategy": "constant", "fill_value": impute}
    return SimpleImputer(**strategy, keep_empty_features=True)


def _require_moderate(X: Any) -> None:
    values = np.abs(X.data if issparse(X) else X)
    largest = float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0
    if largest > LARGEST_TO_STANDARDIZE:
        raise ValueError(f"the features have values as large as {largest:.3g}, too large to be standardised: are they mistakes?")


def fit(pipeline: Pipeline, data: Split) -> Fit:
    """Fit the pipeline and measure it. Ctrl-C ends the fit early, and the model reached so far is measured."""
    interrupted = False
    try:
        pipeline.fit(data.X_train, data.y_train)
    except KeyboardInterrupt:
        interrupted = True
        try:
            check_is_fitted(pipeline.steps[-1][1], "status_")
        except NotFittedError:
            raise KeyboardInterrupt from None
    return measure(pipeline, data, interrupted)


def refit(pipeline: Pipeline, data: Split) -> Fit:
    """Fit a copy of the pipeline on all samples that were given for training."""
    return fit(clone(pipeline), data.everything)


def measure(pipeline: Pipeline, data: Split, interrupted: bool = False) -> Fit:
    """Measure the scores and the prediction time of a fitted pipeline."""
    machine = pipeline.steps[-1][1]
    if "callbacks" in machine.get_params():
        machine.set_params(callbacks=None)  # a saved model must not keep the progress bar
    start = perf_counter()
    predicted = pipeline.predict(data.X_test)
    seconds = perf_counter() - start
    found = scores(machine, predicted, data.y_test)
    return Fit(
        pipeline=pipeline,
        interrupted=interrupted,
        train_scores=scores(machine, pipeline.predict(data.X_train), data.y_train) if data.has_test else found,
        test_scores=found if data.has_test else None,
        predict_seconds=seconds,
        n_predicted=len(predicted),
    )


def scores(machine: Any, predicted: NDArray[Any], y: NDArray[Any] | None) -> dict[str, float]:
    """How well predictions fit the labels: the accuracy of classes, R² and the mean squared error of values. Of a machine that
    learns novelty, the share of inliers, and the accuracy if there are labels."""
    found = {"inliers": float(np.mean(predicted == 1))} if is_outlier_detector(machine) else {}
    if y is None:
        return found
    if is_regressor(machine):
        found = {"R2": float(r2_score(y, predicted))} if len(y) > 1 else {}
        return {**found, "MSE": float(mean_squared_error(y, predicted))}
    # a label that the machine does not know is an error, of whatever type
    return {**found, "accuracy": float(np.mean(predicted == y))}


# --- cross-validate and search -------------------------------------------------------------------------------------------------


def folds(machine: Machine, n_folds: int, seed: int) -> Any:
    """Return the splits of a cross-validation."""
    kind = StratifiedKFold if machine.task == "classes" else KFold
    return kind(n_folds, shuffle=True, random_state=seed)


def validate(pipeline: Pipeline, data: Split, machine: Machine, n_folds: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """The scores on each fold of a cross-validation over all samples that were given for training."""

    def score(fitted: Any, X: Any, y: Any = None) -> dict[str, float]:
        return scores(fitted.steps[-1][1], fitted.predict(X), y)

    whole = data.everything
    found = cross_validate(
        pipeline, whole.X_train, whole.y_train, cv=folds(machine, n_folds, seed), scoring=score, error_score="raise"
    )
    return {name.removeprefix("test_"): values for name, values in found.items() if name.startswith("test_")}


def make_search(machine: Machine, template: Any, axes: Mapping[str, Any], X: Any, cv: Any, scoring: Any, callbacks: Any) -> Any:
    """The search over a grid: the class of the package for this machine, or GridSearchCV; `axes` are values or their number."""
    if scoring is not None and scoring not in get_scorer_names():
        raise ValueError(f"--scoring {scoring}: scikit-learn has no score of this name (such as accuracy, f1_macro, roc_auc, r2)")
    for name in axes:
        if name not in machine.axes:
            raise ValueError(f"--{name}s: the machine {machine.name} is tuned over {', '.join(machine.axes)}")
    if machine.search is not None:
        kind = getattr(maxmargin, machine.search)
        names = set(kind().get_params())
        shared = {name: value for name, value in template.get_params(deep=False).items() if name in names}
        grid = {f"{name}s": value for name, value in axes.items()}
        return kind(**shared | grid | {"cv": cv, "scoring": scoring, "callbacks": callbacks})
    if machine.task == "novelty":
        scoring = scoring or "accuracy"
    gamma = _scale_gamma(template.kernel, X) if "gamma" in machine.axes else None
    tuned = [name for name in machine.axes if name != "gamma" or gamma is not None]
    grid = {name: _values(name, axes.get(name, GRID[name]), gamma or 1.0) for name in tuned}
    return GridSearchCV(template, grid, cv=cv, scoring=scoring, error_score=np.nan)


def _scale_gamma(kernel: str, X: Any) -> float | None:
    """What gamma="scale" is for these samples; None for a kernel without gamma."""
    unresolved = make_kernel(kernel, "scale")
    return getattr(unresolved.resolved(unresolved.samples(X)), "gamma", None)


def _values(name: str, given: Any, scale_gamma: float) -> list[float]:
    """The values along an axis of a grid; those of gamma lie around `scale_gamma`."""
    if name == "gamma":
        return geometric_or_given("gammas", given, GAMMA_RANGE, scale_gamma)
    if name in ("C", "alpha"):
        return geometric_or_given(f"{name}s", given, C_RANGE if name == "C" else ALPHA_RANGE, 1.0)
    return numbers(f"{name}s", given, zero_ok=name == "epsilon")


def prepared(pipeline: Pipeline, X: Any) -> Any:
    """The samples as the machine at the end of the pipeline sees them."""
    steps = pipeline.steps[:-1]
    return clone(Pipeline(steps)).fit_transform(X) if steps else X


def search(pipeline: Pipeline, data: Split) -> bool:
    """Fit the search at the end of the pipeline; return whether Ctrl-C ended it early."""
    found = pipeline.steps[-1][1]
    try:
        with warnings.catch_warnings():
            # A point that cannot be trained, such as a nu beyond the feasible ones, is shown as missing in the report.
            warnings.simplefilter("ignore", FitFailedWarning)
            warnings.filterwarnings("ignore", "One or more of the test scores")
            pipeline.fit(data.X_train, data.y_train)
    except KeyboardInterrupt:
        if not hasattr(found, "cv_results_"):
            raise KeyboardInterrupt from None
        return True
    return False


def with_best(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the best machine in place of the search."""
    *steps, (_, found) = pipeline.steps
    return Pipeline([*steps, ("machine", found.best_estimator_)])
