"""A fitted model as text, every number read from its public attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from maxmargin.cli.session import Fit, Split
from maxmargin.io import Table
from maxmargin.plots import free_support

MOST_CLASSES = 6  # classes that are listed one by one; more are only counted
COLUMN = 17


def report(table: Table, data: Split, fitted: Fit) -> str:
    """Return the report of one `maxmargin train`."""
    rows = list(_rows(table, data, fitted))
    lines = [f"{name:<{COLUMN}}{text}" for name, text in rows]
    return "\n".join([*lines, "", str(fitted.machine.certificate_)])


def grid_report(search: Any) -> str:
    """Return the report of the grid that `maxmargin tune` fitted."""
    table = search.cv_results_
    gaps = np.array([table[f"split{fold}_relative_gap"] for fold in range(search.n_splits_)])
    values = " x ".join(f"{len(set(table[f'param_{name}']))} values of {name}" for name in table["params"][0])
    done = "" if np.isfinite(gaps).all() else f", {np.isfinite(gaps).sum()} of {gaps.size} fits done"
    rows = [("grid", f"{values}, {search.n_splits_} folds{done}")]
    if np.isfinite(gaps).any():
        rows.append(("relative gap", f"at most {np.nanmax(gaps):.1e} in each fit"))
    if hasattr(search, "best_params_"):
        point = ", ".join(f"{name} = {value:.4g}" for name, value in search.best_params_.items())
        rows.append(("best", f"{point}: {search.scoring or 'accuracy'} {search.best_score_:.4f}, the mean over the folds"))
    return "\n".join(f"{name:<{COLUMN}}{text}" for name, text in rows)


def _rows(table: Table, data: Split, fitted: Fit) -> Iterator[tuple[str, str]]:
    machine = fitted.machine
    yield "data", f"{table.source}: {_shape(table)}"
    n_train, n_test = data.X_train.shape[0], data.X_test.shape[0]
    aside = f", {n_test} set aside for the test" if data.has_test else ", no test"
    scaled = ", features standardised" if "scale" in fitted.pipeline.named_steps else ""
    yield "trained on", f"{n_train} samples{aside}{scaled}"
    yield "model", f"SVC, {machine.kernel} kernel, C = {machine.C:g}, {machine.loss} loss"
    test = "" if fitted.test_accuracy is None else f", test {fitted.test_accuracy:.1%}"
    yield "accuracy", f"train {fitted.train_accuracy:.1%}{test}"
    yield "support vectors", _support(machine, n_train)
    yield "margin 2/||w||", _margin(machine)
    yield "status", machine.status_.value
    yield (
        "time",
        f"fit {_duration(machine.fit_seconds_)}, predict {_duration(fitted.predict_seconds)} for {fitted.n_predicted} samples",
    )


def _shape(table: Table) -> str:
    classes, counts = np.unique(np.asarray(table.y), return_counts=True)
    X: Any = table.X
    n_samples, n_features = X.shape
    sparse = f" ({X.nnz / (n_samples * n_features):.1%} not zero)" if issparse(X) else ""
    text = f"{n_samples} samples, {n_features} features{sparse}, {len(classes)} classes"
    if len(classes) > MOST_CLASSES:
        return text
    return f"{text} ({', '.join(f'{k}: {n}' for k, n in zip(classes, counts, strict=True))})"


def _support(machine: Any, n_train: int) -> str:
    free = free_support(machine)
    text = f"{free.size} of {n_train} samples"
    if machine.loss == "squared_hinge":
        return text
    return f"{text}: {free.sum()} free (on the margin), {(~free).sum()} bounded (at C)"


def _margin(machine: Any) -> str:
    width = 2 * np.atleast_1d(machine.margin_)
    if width.size == 1:
        return f"{width[0]:.4g}"
    return f"{width.min():.4g} to {width.max():.4g} over {width.size} machines"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.3g} ms"
