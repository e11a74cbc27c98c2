"""The pictures that `maxmargin train` and `tune` write."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from maxmargin.cli.session import Fit, Split
from maxmargin.io import Table
from maxmargin.plots import decision_boundary, heat_map, principal_plane, save

MOST_SAMPLES = 3000  # training samples of a machine that is trained for the picture only
MOST_SECONDS = 20.0  # time limit of that machine
MOST_DENSE = 1_000_000  # entries of a matrix that is made dense for the picture


def draw(table: Table, data: Split, fitted: Fit, path: Path) -> Path:
    """Write the decision boundary to `path`.

    With two features it is the boundary of the model itself. With more, a slice of the model would show
    samples on the wrong side and support vectors off the margin, because they lie off the slice. So a
    machine with the same parameters is trained on the first two principal components, and the title says so.
    """
    axes = Figure(figsize=(7.2, 6.4), layout="constrained").add_subplot()
    if data.X_train.shape[1] == 2:
        decision_boundary(fitted.pipeline, data.X_train, data.y_train, axes, table.feature_names)
    else:
        _draw_principal_plane(data, fitted, axes)
    return save(axes, path)


def draw_grid(search: Any, path: Path) -> Path:
    """Write the heat map of a grid to `path`."""
    return save(heat_map(search, Figure(figsize=(7.0, 5.0), layout="constrained").add_subplot()), path)


def _draw_principal_plane(data: Split, fitted: Fit, axes: Any) -> None:
    steps = fitted.pipeline[:-1]
    X, y = _subsample(steps.transform(data.X_train) if len(steps) else data.X_train, data.y_train)
    n_features = X.shape[1]
    X = _without_empty_columns(X)
    plane, names = principal_plane(X)
    Z = plane.transform(X)
    machine = clone(fitted.machine)
    limit = min(machine.max_seconds or MOST_SECONDS, MOST_SECONDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the gap in the title tells if the machine has not converged
        machine.set_params(max_seconds=limit).fit(Z, y)
    decision_boundary(
        machine, Z, y, axes,
        feature_names=names,
        note="a machine with the same parameters, trained for this picture on the first two\n"
        f"principal components of the {n_features} features ({len(y)} samples)",
    )  # fmt: skip


def _without_empty_columns(X: Any) -> Any:
    """Return X without its empty columns: they change no principal component, but each would cost memory.

    A sparse matrix becomes dense if the rest is small, because principal components of CSR need three columns.
    """
    if not issparse(X):
        return X
    filled, indices = np.unique(X.indices, return_inverse=True)
    shape = (X.shape[0], max(len(filled), 2))
    left = csr_matrix((X.data, indices, X.indptr), shape=shape)
    return left.toarray() if shape[0] * shape[1] <= MOST_DENSE else left


def _subsample(X: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    if len(y) <= MOST_SAMPLES:
        return X, y
    every = np.arange(len(y))
    few, _ = train_test_split(every, train_size=MOST_SAMPLES, stratify=y, random_state=0)
    return X[few], y[few]
