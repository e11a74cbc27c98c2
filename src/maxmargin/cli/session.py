"""What `maxmargin train` and `tune` do: split a table, fit a pipeline on one part, test it on the other."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from maxmargin.io import Table

DENSE_FROM = 0.5  # share of stored entries from which a sparse matrix is slower than a dense one
LARGEST_TO_STANDARDIZE = 1e150  # largest feature value whose square fits into float64
# A target with more classes than MANY_CLASSES and few samples of each is an identifier or a quantity, not a class; a machine
# for each pair of its values would take minutes and gigabytes.
MANY_CLASSES = 200
FEW_SAMPLES = 10  # samples of a class, on average


@dataclass(frozen=True)
class Split:
    """Training samples and test samples; without a test both are all samples."""

    X_train: Any
    X_test: Any
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    has_test: bool


@dataclass(frozen=True)
class Fit:
    """A fitted pipeline, its accuracies and times, and whether its fit was interrupted."""

    pipeline: Pipeline
    interrupted: bool
    train_accuracy: float
    test_accuracy: float | None
    predict_seconds: float
    n_predicted: int

    @property
    def machine(self) -> Any:
        """The `SVC` at the end of the pipeline."""
        return self.pipeline.steps[-1][1]


def as_trained(X: Any, *, dense: bool | None = None) -> Any:
    """Return X, made dense if `dense` is true, or by default if it is a sparse matrix that is mostly filled."""
    if not issparse(X):
        return X
    if dense is None:
        dense = X.nnz > DENSE_FROM * X.shape[0] * X.shape[1]
    return X.toarray() if dense else X


def split(table: Table, test_size: float, seed: int) -> Split:
    """Split a table: a stratified share `test_size` of the samples is set aside for the test, or none if it is 0."""
    X, y = as_trained(table.X), table.y
    if y is None:
        raise ValueError(f"{table.source}: no labels to train on")
    if type_of_target(y) == "continuous":
        raise ValueError(
            f"{table.source}: the target column has fractions, and classes are needed (name another column with --target)"
        )
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) > MANY_CLASSES and len(y) < FEW_SAMPLES * len(classes):
        raise ValueError(
            f"{table.source}: {len(classes)} classes for {len(y)} samples (is this the target column? name another with "
            "--target; SVC in Python takes so many classes)"
        )
    if test_size == 0:
        return Split(X, X, y, y, has_test=False)
    if counts.min() < 2:
        raise ValueError(
            f"{table.source}: class {classes[counts.argmin()]} has a single sample, and a "
            "stratified split needs two (use --test-size 0, or is this the target column?)"
        )
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=test_size, stratify=y, random_state=seed)
    return Split(X_train, X_test, y_train, y_test, has_test=True)


def make_pipeline(machine: Any, X: Any, standardize: bool | None) -> Pipeline:
    """Return a pipeline of a scaler and the machine; `standardize=None` scales dense data only."""
    if standardize is None:
        standardize = not issparse(X)
    values = X.data if issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if standardize and largest > LARGEST_TO_STANDARDIZE:
        raise ValueError(f"the features have values as large as {largest:.3g}, too large to be standardised: are they mistakes?")
    scale = [("scale", StandardScaler(with_mean=not issparse(X)))] if standardize else []
    return Pipeline([*scale, ("svc", machine)])


def fit(pipeline: Pipeline, data: Split) -> Fit:
    """Fit the pipeline and measure it. Ctrl-C ends the fit early, and the model reached so far is measured."""
    interrupted = False
    try:
        pipeline.fit(data.X_train, data.y_train)
    except KeyboardInterrupt:
        interrupted = True
        try:
            check_is_fitted(pipeline.steps[-1][1], "support_")
        except NotFittedError:
            raise KeyboardInterrupt from None
    return measure(pipeline, data, interrupted)


def folds(n_folds: int, seed: int) -> StratifiedKFold:
    """Return the splits of a cross-validation."""
    return StratifiedKFold(n_folds, shuffle=True, random_state=seed)


def search(pipeline: Pipeline, data: Split) -> bool:
    """Fit the search at the end of the pipeline; return whether Ctrl-C ended it early."""
    try:
        pipeline.fit(data.X_train, data.y_train)
    except KeyboardInterrupt:
        if not hasattr(pipeline.steps[-1][1], "cv_results_"):
            raise KeyboardInterrupt from None
        return True
    return False


def with_best(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with the best machine in place of the search."""
    *steps, (_, found) = pipeline.steps
    return Pipeline([*steps, ("svc", found.best_estimator_)])


def measure(pipeline: Pipeline, data: Split, interrupted: bool = False) -> Fit:
    """Measure the accuracies and the prediction time of a fitted pipeline."""
    pipeline.steps[-1][1].set_params(callbacks=None)  # a saved model must not keep the progress bar
    start = perf_counter()
    predicted = pipeline.predict(data.X_test)
    seconds = perf_counter() - start
    accuracy = float(np.mean(predicted == data.y_test))
    return Fit(
        pipeline=pipeline,
        interrupted=interrupted,
        train_accuracy=pipeline.score(data.X_train, data.y_train) if data.has_test else accuracy,
        test_accuracy=accuracy if data.has_test else None,
        predict_seconds=seconds,
        n_predicted=len(predicted),
    )
