"""Machines for two or more classes: which samples each machine sees, and which class follows from their decisions.

The samples are sorted by class, so that the samples of a class are one segment and a machine sees two or all segments.

    two classes        one machine; positive: the second class
    one-vs-one         a machine for each pair i < j; positive: i; votes as LIBSVM counts them
    one-vs-rest        a machine for each class; positive: that class
    crammer_singer     one machine of all classes, with a score for each; the highest is predicted

The coefficients of one-vs-one are stored as LIBSVM and scikit-learn store them: a support vector of class i takes part
in the n_classes - 1 machines of that class, and row m of `dual_coef_` holds its coefficient against class m (m < i) or
m + 1 (m >= i). One-vs-rest has a row for each machine, Crammer and Singer's machine one for each class; of two classes it has
one row, the difference of the two, as scikit-learn has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BINARY_STRATEGIES = ("ovo", "ovr")
JOINT_STRATEGY = "crammer_singer"
STRATEGIES = (*BINARY_STRATEGIES, JOINT_STRATEGY)
#: The score of a class without weight: below the highest score of the other classes, which is at least 0.
SCORE_OF_WEIGHTLESS_CLASS = -1.0


class Machine(NamedTuple):
    """A binary problem: the classes (segments) it sees and the positive one among them. Or a problem of all classes, without a
    positive one."""

    classes: tuple[int, ...]
    positive: int | None

    def members(self, edges: Sequence[int]) -> NDArray[np.int32]:
        """The samples that the machine sees, as positions in the sorted training set."""
        return np.concatenate([np.arange(edges[c], edges[c + 1], dtype=np.int32) for c in self.classes])

    def signs(self, edges: Sequence[int]) -> Vector:
        return np.concatenate([np.full(edges[c + 1] - edges[c], 1.0 if c == self.positive else -1.0) for c in self.classes])


def machines(n_classes: int, strategy: str) -> list[Machine]:
    """The binary problems of a multi-class problem, or the one problem of all classes."""
    if strategy == JOINT_STRATEGY:
        return [Machine(tuple(range(n_classes)), positive=None)]
    if n_classes == 2:
        return [Machine((0, 1), positive=1)]
    if strategy == "ovo":
        return [Machine((i, j), positive=i) for i, j in combinations(range(n_classes), 2)]
    return [Machine(tuple(range(n_classes)), positive=c) for c in range(n_classes)]


def gather_coefficients(
    plan: Sequence[Machine], betas: Sequence[Vector], edges: Sequence[int], strategy: str
) -> tuple[NDArray[np.intp], Matrix]:
    """The support vectors (ascending positions in the sorted training set) and their coefficients in the layout above."""
    n, n_classes = edges[-1], len(edges) - 1
    one_vs_one = n_classes > 2 and strategy == "ovo"
    coefficients = np.zeros((n_classes - 1 if one_vs_one else len(plan), n))
    for index, (machine, beta) in enumerate(zip(plan, betas, strict=True)):
        if one_vs_one:
            i, j = machine.classes
            size = edges[i + 1] - edges[i]
            coefficients[j - 1, edges[i] : edges[i + 1]] = beta[:size]
            coefficients[i, edges[j] : edges[j + 1]] = beta[size:]
        else:
            coefficients[index, machine.members(edges)] = beta
    support = np.nonzero(coefficients.any(axis=0))[0]
    return support, coefficients.take(support, axis=1)


def spread_coefficients(plan: Sequence[Machine], coefficients: Matrix, edges: Sequence[int], strategy: str) -> list[Vector]:
    """The coefficients of each machine for the samples it sees: the inverse of `gather_coefficients`. The columns are sorted by
    class and cut at `edges`: all samples, or the support vectors alone."""
    if len(edges) == 3 or strategy != "ovo":
        return [coefficients[index, machine.members(edges)] for index, machine in enumerate(plan)]
    of_class = [coefficients[:, first:last] for first, last in pairwise(edges)]
    return [np.concatenate([of_class[i][j - 1], of_class[j][i]]) for i, j in (machine.classes for machine in plan)]


def gather_scores(B: Matrix, rows: NDArray[np.integer], n_classes: int) -> tuple[NDArray[np.intp], Matrix, Vector]:
    """The support vectors, coefficients and intercepts of a machine of all classes, from the solution B, whose rows are the
    classes `rows`; the other classes have no weight."""
    coefficients, intercepts = np.zeros((n_classes, B.shape[1])), np.full(n_classes, SCORE_OF_WEIGHTLESS_CLASS)
    coefficients[rows], intercepts[rows] = B, 0.0
    if n_classes == 2:
        coefficients, intercepts = coefficients[[1]] - coefficients[[0]], np.zeros(1)
    support = np.flatnonzero(coefficients.any(axis=0))
    return support, np.ascontiguousarray(coefficients[:, support]), intercepts


def pair_decisions(sums: NDArray[np.float64], intercepts: Vector) -> Matrix:
    """One-vs-one decisions, a column per pair, from sums[c, m] = the part of class c's support vectors in row m."""
    n_classes, _, n_queries = sums.shape
    pairs = list(combinations(range(n_classes), 2))
    decisions = np.empty((n_queries, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        decisions[:, column] = sums[i, j - 1] + sums[j, i] + intercepts[column]
    return decisions


def choose_class(decisions: Matrix, n_classes: int, strategy: str, break_ties: bool = False) -> NDArray[np.intp]:
    """The number of the predicted class, from the decisions of all machines: by the sign, the vote of the pairs (ties broken by
    the sums of decisions if asked), or the highest score."""
    if n_classes == 2:
        return (decisions[:, 0] > 0).astype(np.intp)
    if strategy != "ovo":
        return np.asarray(decisions.argmax(axis=1))
    return np.asarray(one_vs_rest_scores(decisions, n_classes).argmax(axis=1)) if break_ties else votes(decisions, n_classes)


def votes(decisions: Matrix, n_classes: int) -> NDArray[np.intp]:
    """The class with the most votes; of several, the first."""
    counts = np.zeros((len(decisions), n_classes), dtype=np.intp)
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        first = decisions[:, column] > 0
        counts[:, i] += first
        counts[:, j] += ~first
    return np.asarray(counts.argmax(axis=1))


def one_vs_rest_scores(decisions: Matrix, n_classes: int) -> Matrix:
    """A score per class from one-vs-one decisions: votes, with ties broken by the sums of decisions.

    The sums are squeezed into (-1/3, 1/3), so they order classes with equal votes and never outweigh a vote.
    """
    counts = np.zeros((len(decisions), n_classes))
    sums = np.zeros((len(decisions), n_classes))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        decision = decisions[:, column]
        sums[:, i] += decision
        sums[:, j] -= decision
        counts[:, i] += decision >= 0  # scikit-learn gives a decision of zero to i here, LIBSVM's vote to j
        counts[:, j] += decision < 0
    return counts + sums / (3.0 * (np.abs(sums) + 1.0))
