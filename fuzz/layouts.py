"""Memory layouts: the same numbers stored in many ways. The results of a library must not depend on the layout.

All layouts hold exactly the values of the dense array they are made from: where CSR has an entry twice, its two
parts are halves of a binary number and add up exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

DENSE = ("C", "F", "strided", "reversed", "readonly")
SPARSE = ("csr", "csr-int64", "csr-unsorted", "csr-duplicates", "csr-zeros", "csr-readonly", "csr-array", "csc")


def arrange(X: NDArray[Any], layout: str) -> Any:
    """`X` (dense, C order) in this layout."""
    match layout:
        case "C":
            return X
        case "F":
            return np.asfortranarray(X)
        case "strided":
            wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan, dtype=X.dtype)
            wide[::2, 1::3] = X
            return wide[::2, 1::3]
        case "reversed":
            return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
        case "readonly":
            X = X.copy()
            X.flags.writeable = False
            return X
        case "csc":
            return sp.csc_matrix(X)
        case "csr-array":
            return sp.csr_array(X)
    return _csr(X, layout)


def _csr(X: NDArray[Any], layout: str) -> sp.csr_matrix:
    matrix = sp.csr_matrix(X)
    match layout:
        case "csr-int64":
            matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
        case "csr-unsorted":
            rows = [_entries(row)[::-1] for row in X]
            matrix = _from_rows(rows, X)
        case "csr-duplicates":
            rows = [[pair for entry in _entries(row) for pair in _halves(*entry)] for row in X]
            matrix = _from_rows(rows, X)
        case "csr-zeros":
            rows = [[(k, row[k]) for k in range(len(row)) if row[k] != 0 or k % 3 == 0] for row in X]
            matrix = _from_rows(rows, X)
        case "csr-readonly":
            for part in (matrix.data, matrix.indices, matrix.indptr):
                part.flags.writeable = False
    return matrix


def _entries(row: NDArray[Any]) -> list[tuple[int, Any]]:
    return [(int(k), row[k]) for k in np.flatnonzero(row)]


def _halves(column: int, value: Any) -> list[tuple[int, Any]]:
    half = value * type(value)(0.5)
    return [(column, half), (column, half)] if half + half == value else [(column, value)]


def _from_rows(rows: list[list[tuple[int, Any]]], X: NDArray[Any]) -> sp.csr_matrix:
    """A matrix with exactly these entries: nothing is sorted, summed or dropped."""
    indices = np.array([column for row in rows for column, _ in row], dtype=np.int32)
    data = np.array([value for row in rows for _, value in row], dtype=X.dtype)
    ends = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return sp.csr_matrix((data, indices, ends), shape=X.shape)
