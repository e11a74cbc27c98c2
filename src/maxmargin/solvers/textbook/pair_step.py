r"""The step that both SMO algorithms take: two duals move, so that their sum stays.

beta_j rises by t and beta_i falls by t. On that line the objective is a parabola with slope G_j - G_i and curvature
K_ii + K_jj - 2 K_ij (minus the eta of the lectures, which maximise), and the box leaves a segment of it:

    t = (G_i - G_j) / curvature     clipped to   L <= beta_j + t <= H
    L = max(lower_j, beta_i + beta_j - upper_i)
    H = min(upper_j, beta_i + beta_j - lower_i)

With beta = y alpha these are the lectures' formulas. G_i - G_j is E_i - E_j, since the bias cancels. For y_i = y_j = 1 the
segment is [max(0, alpha_i + alpha_j - C), min(C, alpha_i + alpha_j)]; for y_i = -1, y_j = 1 it is
[max(0, alpha_j - alpha_i), min(C, C + alpha_j - alpha_i)]; the other two cases are these seen from the other end.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem
from maxmargin.rounding import NEGATIVE_CURVATURE

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

FLAT = 1e-12  # curvature, relative to the diagonal, below which a parabola counts as a line: the step goes to the segment's end
NEGLIGIBLE = 1e-12  # a change of a dual, relative to the dual, that does not count
ROUNDING = 4.0 * float(np.finfo(float).eps)


def best_step(problem: DualProblem, K: Matrix, beta: Vector, i: int, j: int, difference: float) -> float:
    """The t with the lowest objective, for G_i - G_j = `difference`; 0 if it makes no difference.

    It is infinite if the objective falls for ever: the curvature is negative, and the segment has no end.
    """
    lowest = max(problem.lower[j] - beta[j], beta[i] - problem.upper[i])
    highest = min(problem.upper[j] - beta[j], beta[i] - problem.lower[i])
    scale = K[i, i] + K[j, j]
    curvature = scale - 2.0 * K[i, j]
    t = float(np.clip(difference / max(curvature, FLAT * abs(scale)), lowest, highest)) if scale else 0.0
    if curvature < -NEGATIVE_CURVATURE * abs(scale) and math.isinf(highest if t > 0 else lowest):
        return math.copysign(math.inf, t)
    return t if abs(t) > NEGLIGIBLE * (abs(beta[j]) + abs(beta[j] + t)) else 0.0


def move(problem: DualProblem, beta: Vector, k: int, t: float) -> None:
    """Add t to beta_k; if only rounding separates the result from a bound, set it to the bound."""
    value = float(beta[k]) + t
    for bound in (float(problem.lower[k]), float(problem.upper[k])):
        if math.isclose(value, bound, rel_tol=ROUNDING):
            value = bound
    beta[k] = value


def is_free(problem: DualProblem, beta: Vector, k: int) -> bool:
    """Whether beta_k is strictly inside its box: 0 < alpha_k < C."""
    return bool(problem.lower[k] < beta[k] < problem.upper[k])


def bias_after(problem: DualProblem, beta: Vector, i: int, j: int, G_i: float, G_j: float) -> float:
    """The bias after a step, in three cases: a free dual has E = G + b = 0; if neither is, any bias between will do."""
    if is_free(problem, beta, i):
        return -G_i
    if is_free(problem, beta, j):
        return -G_j
    return -0.5 * (G_i + G_j)


def violates(problem: DualProblem, beta: Vector, k: int, error: float, tol: float) -> bool:
    """Whether sample k, with the error E_k, is on the wrong side: it may rise and E_k < 0, or fall and E_k > 0."""
    return bool((beta[k] < problem.upper[k] and error < -tol) or (beta[k] > problem.lower[k] and error > tol))
