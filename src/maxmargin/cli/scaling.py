"""Scaling by scikit-learn with LIBSVM's range files, and what `check` says about a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from maxmargin.io import Columns, Table
from maxmargin.io.range_file import Ranges, TargetRange
from maxmargin.io.write import MOST_DENSE

MOST_NAMED = 10  # features that are named one by one
WIDE = 100.0  # times the typical spread of a feature: a spread beyond that outweighs the others
MOST_CLASSES = 20  # classes that are listed one by one


def ranges_of(table: Table, to: tuple[float, float] | None, target_to: tuple[float, float] | None = None) -> Ranges:
    """The ranges that scale a table to `to`, or, if it is None, to mean 0 and standard deviation 1: the range from one deviation
    below the mean to one above becomes [-1, 1]. The target is scaled to `target_to`, or not at all."""
    ranges = _feature_ranges(table, to)
    return ranges if target_to is None else replace(ranges, target=_target_range(table, target_to))


def _feature_ranges(table: Table, to: tuple[float, float] | None) -> Ranges:
    X: Any = table.X
    if to is not None:
        if not to[0] < to[1]:
            raise ValueError(f"--lower {to[0]:g} and --upper {to[1]:g}: the first must be smaller")
        return Ranges(*to, *_extremes(X), Columns.of(table))
    with np.errstate(invalid="ignore"):  # of a column without a value
        scaler = StandardScaler().fit(_dense(X))
    spread = np.where(scaler.var_ > 0, scaler.scale_, 0.0)
    mean = np.nan_to_num(scaler.mean_)
    return Ranges(-1.0, 1.0, mean - spread, mean + spread, Columns.of(table))


def _extremes(X: Any) -> tuple[Any, Any]:
    """The smallest and the largest value of each feature; of one without a value, 0."""
    if issparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    return np.nan_to_num(np.fmin.reduce(X, axis=0)), np.nan_to_num(np.fmax.reduce(X, axis=0))


def _target_range(table: Table, to: tuple[float, float]) -> TargetRange:
    if not to[0] < to[1]:
        raise ValueError(f"-y {to[0]:g} {to[1]:g}: the first must be smaller")
    y = _numeric_target(table)
    return TargetRange(*to, float(y.min()), float(y.max()))


def _numeric_target(table: Table) -> Any:
    if table.y is None or table.y.dtype.kind not in "iuf":
        found = "has no target" if table.y is None else f"has labels that are text, such as {str(table.y[0])!r}"
        raise ValueError(f"{table.source} {found}: only a target of numbers can be scaled")
    return table.y


def scaled(table: Table, ranges: Ranges) -> Table:
    """The table with its features, and its target if it has a range, scaled. As in svm-scale, a constant feature becomes 0, and a
    constant target the lower end. Missing values stay missing."""
    if (target := ranges.target) is not None and table.y is not None:
        scaler = MinMaxScaler((target.lower, target.upper)).fit([[target.smallest], [target.largest]])
        table = replace(table, y=scaler.transform(_numeric_target(table)[:, None].astype(np.float64))[:, 0])
    n_features = int(table.X.shape[1])
    ends = np.full((2, max(n_features, len(ranges.smallest))), np.nan)
    ends[:, : len(ranges.smallest)] = ranges.smallest, ranges.largest
    constant = ~(ends[0] < ends[1])
    ends[:, constant] = [[0.0], [1.0]]
    if n_features < len(ranges.smallest) and not issparse(table.X):
        raise ValueError(f"{table.source} has {n_features} features, and the ranges are of {len(ranges.smallest)}")
    X = _dense(table.X, ends.shape[1])
    scaler = MinMaxScaler((ranges.lower, ranges.upper)).fit(ends)
    result = np.where(constant & ~np.isnan(X), 0.0, scaler.transform(X))
    return replace(table, X=csr_matrix(result) if issparse(table.X) else result)


def _dense(X: Any, width: int | None = None) -> Any:
    if not issparse(X):
        return X
    width = width or X.shape[1]
    if X.shape[0] * width > MOST_DENSE:
        raise ValueError(
            f"{X.shape[0]} x {width} entries are too many to scale one by one, zeros included (train --standardize scales a "
            "sparse file and keeps its zeros)"
        )
    return csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width)).toarray()


def facts_of(table: Table) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """What is in a table: rows of a name, a text, and the facts behind it."""
    X: Any = table.X
    n_samples, n_features = X.shape
    yield "file", table.source, {"source": table.source}
    yield "samples", f"{n_samples}", {"n_samples": n_samples}
    share = f", {X.nnz / (n_samples * n_features):.1%} of the values not zero" if issparse(X) else ""
    yield "features", f"{n_features}{share}", {"n_features": n_features}
    if table.y is not None:
        yield from _facts_of_labels(table.y)
    missing = int(np.isnan(X.data if issparse(X) else X).sum())
    if missing:
        yield "missing", f"{missing} values", {"n_missing": missing}
        return
    low, high = _extremes(X)
    yield "values", f"from {low.min():g} to {high.max():g}", {"smallest": low.min(), "largest": high.max()}
    constant = np.flatnonzero(low == high)
    yield "constant", _named(constant, table) if constant.size else "no feature", {"constant": constant + 1}
    spread = high - low
    wide = np.flatnonzero(spread > WIDE * max(float(np.median(spread)), np.finfo(float).tiny))
    if wide.size:
        text = f"{_named(wide, table)} (far wider than the others: scale, or train with --standardize)"
        yield "wide", text, {"wide": wide + 1}


def _facts_of_labels(y: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    values, counts = np.unique(y, return_counts=True)
    if y.dtype.kind == "f" or (y.dtype.kind in "iu" and len(values) > MOST_CLASSES):
        text = f"{len(values)} different numbers from {values[0]:g} to {values[-1]:g}"
        yield "target", text, {"target_range": (values[0], values[-1])}
        return
    counted = dict(zip(values.tolist(), counts.tolist(), strict=True))
    listed = f" ({', '.join(f'{k}: {n}' for k, n in counted.items())})" if len(values) <= MOST_CLASSES else ""
    yield "classes", f"{len(values)}{listed}", {"classes": counted}


def _named(columns: Any, table: Table) -> str:
    names = [table.feature_names[j] if table.feature_names else str(j + 1) for j in columns[:MOST_NAMED]]
    more = f", … ({len(columns)} in all)" if len(columns) > MOST_NAMED else ""
    return ", ".join(names) + more
