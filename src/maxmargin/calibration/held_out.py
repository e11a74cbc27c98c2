"""Decisions about samples that a machine has not seen: cross-validation over one kernel matrix.

A fold is the same dual problem with boxes of zero width on the samples that it holds out. Its machine starts from the solution
on all samples, and its gradient covers the held-out samples too, so it contains their decisions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem
from maxmargin.solution import Solution


def stratified_folds(labels: NDArray[np.intp], n_folds: int, random: np.random.RandomState) -> list[NDArray[np.bool_]]:
    """Masks of the samples that each fold holds out: `n_folds` random parts of all samples, each with its share of every
    class."""
    fold = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        members = random.permutation(np.flatnonzero(labels == label))
        fold[members] = np.arange(len(members)) % n_folds
    return [fold == k for k in range(n_folds)]


def start_from(problem: DualProblem, whole: DualProblem, solution: Solution) -> NDArray[np.float64]:
    """A start for `problem`, which is `whole` with samples held out, from the solution of `whole`.

    The variables that are held out become zero. The variables nearest to the margin make up what a sum then lacks, so that few
    variables move and none leaves its bound without need.
    """
    beta, gradient = solution.beta, solution.gradient
    return problem.feasible(beta, reluctance=np.abs(gradient - whole.best_level(beta, gradient)))
