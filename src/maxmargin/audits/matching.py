"""Find support vectors that are stored without sample numbers among the training samples.

A support vector is a row of X, entry by entry; a model file that printed it with few digits is compared with X printed the same
way. Where several samples are identical, the model does not say which of them a coefficient belongs to. The dual optimum does:
among samples with the same x, a larger target has a larger coefficient, and among samples with the same target too, any may have
any coefficient that fits its box. So the k-th smallest coefficient goes to the sample of the k-th smallest rank.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]


def find_rows(
    vectors: Any, X: Any, strength: Vector, rank: Vector, class_of_vector: Indices, class_of_row: Indices, digits: int | None
) -> Indices:
    """The number of the row of X that each support vector equals; rows have the class of the vector, and no row is used twice.

    `strength` is the coefficient of a vector, or its size; `rank` says which of several identical rows gets the larger one.
    """
    rows: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, key in enumerate(_keys(X, class_of_row, digits)):
        rows[key].append(number)
    wanted: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for number, key in enumerate(_keys(vectors, class_of_vector, digits)):
        wanted[key].append(number)
    found = np.empty(len(strength), dtype=np.intp)
    for key, members in wanted.items():
        candidates = rows.get(key, [])
        if len(candidates) < len(members):
            raise ValueError(_not_a_row(members[0], len(members), len(candidates)))
        found[members] = _assign(strength[members], np.array(candidates), rank)
    return found


def _assign(strength: Vector, candidates: Indices, rank: Vector) -> Indices:
    """Assign each coefficient to one of several identical rows; rows without one have a coefficient of zero."""
    padded = np.concatenate([strength, np.zeros(len(candidates) - len(strength))])
    chosen = np.empty(len(padded), dtype=np.intp)
    chosen[np.argsort(padded, kind="stable")] = candidates[np.argsort(rank[candidates], kind="stable")]
    return chosen[: len(strength)]


def first_difference(vectors: Any, X: Any, support: Indices) -> int | None:
    """The first support vector that differs from the sample with its number; None if all agree."""
    everyone = np.zeros(len(support), dtype=np.intp)
    pairs = zip(_keys(vectors, everyone, None), _keys(X[support], everyone, None), strict=True)
    return next((number for number, (ours, theirs) in enumerate(pairs) if ours != theirs), None)


def _keys(X: Any, classes: Indices, digits: int | None) -> list[tuple[int, bytes]]:
    """A key for each row that is equal for equal rows of the same class: its nonzero entries and their columns."""
    A = sp.csr_array(X, dtype=np.float64, copy=True)
    A.sum_duplicates()
    if digits is not None:
        A.data = np.array([float(f"{value:.{digits}g}") for value in A.data.tolist()], dtype=np.float64)
    A.eliminate_zeros()
    columns, ends = A.indices.astype(np.int64), A.indptr
    parts = [slice(*edge) for edge in pairwise(ends)]
    return [(int(c), columns[part].tobytes() + A.data[part].tobytes()) for c, part in zip(classes, parts, strict=True)]


def _not_a_row(vector: int, copies: int, candidates: int) -> str:
    if candidates:
        return (
            f"support vector {vector} occurs {copies} times in the model and {candidates} times in X with that label: X and y "
            "must be the training set, complete"
        )
    return (
        f"support vector {vector} is not a row of X with its label: X and y must be the training set, scaled as it was for "
        "the fit"
    )
