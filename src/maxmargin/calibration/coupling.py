"""From the probabilities of several machines to those of the classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

#: Pair probabilities are clipped to [LEAST_PROBABILITY, 1 - LEAST_PROBABILITY], so that no single pair can veto all others.
LEAST_PROBABILITY = 1e-7
SAMPLES_AT_ONCE = 4096


def couple_pairs(pairs: Matrix, n_classes: int) -> Matrix:
    r"""Class probabilities p from those of the pairs: column (i, j), i < j, holds r_ij = P(i | i or j).

        min over p    sum_{i < j} (r_ji p_i - r_ij p_j)^2    s.t.   sum(p) = 1

    the second method of Wu, Lin and Weng. With Q_ii = sum_{s != i} r_si^2 and Q_ij = -r_ji r_ij this is the linear system
    [[Q, 1], [1', 0]] [p; z] = [0; 1]; its solution has no negative p.
    """
    return np.concatenate(
        [_couple(pairs[start : start + SAMPLES_AT_ONCE], n_classes) for start in range(0, len(pairs), SAMPLES_AT_ONCE)]
    )


def _couple(pairs: Matrix, n_classes: int) -> Matrix:
    r = np.zeros((len(pairs), n_classes, n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r[:, i, j] = np.clip(pairs[:, column], LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        r[:, j, i] = 1.0 - r[:, i, j]
    system = np.zeros((len(pairs), n_classes + 1, n_classes + 1))
    system[:, :n_classes, :n_classes] = -r * r.transpose(0, 2, 1)
    every = np.arange(n_classes)
    system[:, every, every] = (r**2).sum(axis=1)
    system[:, :n_classes, n_classes] = system[:, n_classes, :n_classes] = 1.0
    right = np.zeros((n_classes + 1, 1))
    right[n_classes] = 1.0
    solution = np.linalg.solve(system, np.broadcast_to(right, (len(pairs), n_classes + 1, 1)))[:, :n_classes, 0]
    return normalise(np.maximum(solution, 0.0))


def normalise(each: Matrix) -> Matrix:
    """Class probabilities from those of each class against the rest: divided by their sum, or all equal if the sum is zero."""
    total = each.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(each, total, out=np.full_like(each, 1.0 / each.shape[1]), where=total > 0.0))
