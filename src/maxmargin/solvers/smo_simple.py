r"""Sequential minimal optimisation as lectures sketch it: each violator moves together with a partner drawn at random.

    min    1/2 beta' (K + diag(shift)) beta + linear' beta
    s.t.   lower <= beta <= upper,   sum(beta) = 0

    repeat until max_passes passes in a row have changed nothing
        for each i with (alpha_i < C and y_i E_i < -tol) or (alpha_i > 0 and y_i E_i > tol)
            draw j != i
            minimise over alpha_i and alpha_j, clip alpha_j to [L, H], let alpha_i follow     (`pair_step`)
            b = b_i if alpha_i is free, b_j if alpha_j is free, their mean if both are at a bound

**Signed duals.** With beta = y alpha and linear = -y the error of sample i is E_i = f(x_i) - y_i = G_i + b, where G is the
gradient of the objective. The two conditions then need no label: beta_i may rise and E_i < 0, or it may fall and E_i > 0.
The biases b_i and b_j that make E_i = 0 or E_j = 0 after the step are -G_i and -G_j there: the lecture's
b - E_i - y_i dalpha_i K_ii - y_j dalpha_j K_ij. With the quadratic loss K stands for K + diag(1 / 2C_i).

Here a sample counts as a violator from tol / 2 on, so that all within it means a violation (the largest G_j - G_i of a
pair that may move) of at most tol; and only a step that moves something counts as a change. A random partner is often a
poor one, so this takes many more steps than `smo_platt`: it is here to be read. With a hard margin, partners are drawn until
one moves: that the classes cannot be separated must not be missed by bad luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import Backend
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course, kernel_matrix
from maxmargin.solvers.options import SolverOptions, count, seed
from maxmargin.solvers.pair_step import best_step, bias_after, move, violates
from maxmargin.solvers.separability import best_multiple

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Options(SolverOptions):
    """`max_passes`: passes in a row without a change that end the run. `seed`: of the partners."""

    max_passes: int = count(20)
    seed: int = seed()


def solve(
    problem: DualProblem,
    gram: Gram,
    backend: Backend,
    stop: Stop,
    control: Control,
    start: Vector | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Solution:
    """Minimise `problem` over the kernel matrix `gram` from `start`, or from zero."""
    course = Course(problem, gram, stop, control)
    K = kernel_matrix(gram, problem.shift)
    random, n, tol = np.random.default_rng(options.seed), len(problem), 0.5 * stop.tol
    beta, bias, passes = course.begin(start), 0.0, 0
    gradient = K @ beta + problem.linear
    while (status := course.ended(beta, gradient)) is None and passes < options.max_passes:
        changed = 0
        for i in range(n):
            G_i = K[i] @ beta + problem.linear[i]
            if not violates(problem, beta, i, G_i + bias, tol):
                continue
            for j in (i + 1 + random.choice(n - 1, n - 1 if problem.hard else 1, replace=False)) % n:
                G_j = K[j] @ beta + problem.linear[j]
                if t := best_step(problem, K, beta, i, j, G_i - G_j):
                    break
            if t == 0.0:
                continue
            if math.isinf(t):
                return course.solution(beta, K @ beta + problem.linear, Status.UNBOUNDED)
            move(problem, beta, i, -t)
            move(problem, beta, j, t)
            bias = bias_after(problem, beta, i, j, G_i + t * (K[i, j] - K[i, i]), G_j + t * (K[j, j] - K[i, j]))
            changed += 1
            if course.step():
                break
        passes = 0 if changed else passes + 1
        stretch = best_multiple(problem, beta, K @ beta + problem.linear)
        beta, bias = stretch * beta, stretch * bias
        gradient = K @ beta + problem.linear
    return course.solution(beta, gradient, status or Status.STOPPED_BY_OPTION)
