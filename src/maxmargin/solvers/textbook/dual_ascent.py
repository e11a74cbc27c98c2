r"""Stochastic gradient ascent on the dual with the augmented kernel, one component at a time.

    max    J(alpha) = sum_k alpha_k - 1/2 sum_kl alpha_k alpha_l y_k y_l K~(x_k, x_l)
    s.t.   0 <= alpha_k <= C                                        (alpha_k >= 0 with the quadratic loss)

given the augmented kernel K~ = K + 1, with the quadratic loss K~ + diag(1 / 2C_k). A feature that is always 1 turns the bias
into a weight like the others, so there is no equality constraint, and the duals can move one by one:

    repeat
        for k = 1, ..., n
            alpha_k = alpha_k + eta_k dJ/dalpha_k,   eta_k = 1 / K~(x_k, x_k)
            clip alpha_k to [0, C]
    until the change of alpha in a pass is at most epsilon

Instead of one after the other the components can be taken in a random order, or greedily, at each step the one with the
largest gain of J: ``order``.

In signed duals beta = y alpha the component of the gradient is -G_k, and this is beta_k - eta_k G_k, clipped to its box.
Along one coordinate J is a parabola with curvature K~(x_k, x_k), so this step length is Newton's and ends at its top: the
method is coordinate ascent with exact line search, and it converges because it never overshoots.

**Another machine.** The bias is now part of what is regularised: min 1/2 (|w|^2 + b^2) + loss. The optimum is therefore not
quite that of the machine with a free intercept. Without an intercept K~ is K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.control import Control
from maxmargin.formulations import DualProblem
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course, kernel_matrix
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, number, one_of, seed
from maxmargin.solvers.separability import best_multiple

Vector = NDArray[np.float64]

FLAT = 1e-12  # smallest diagonal entry, relative to the largest: smaller ones are replaced by it
HUGE = 1e100  # a dual beyond this grows without bound, and the pass ends; its square is still finite


@dataclass(frozen=True)
class Options(SolverOptions):
    """`epsilon`: the run ends when the change of the duals in a pass is at most this long, and not by `tol` (0: `tol` ends the
    run). `order`: the duals one after the other; in a new random order in each pass, drawn with `seed`; or at each step the dual
    whose move raises J most, with n steps in a pass."""

    epsilon: float = number(0.0, rule="a number, at least 0")
    order: str = one_of("cyclic", "random", "greedy")
    seed: int = seed()


def solve(job: Job, options: Options = Options()) -> Solution:
    """Minimise a problem without an equality constraint."""
    problem, control, course = job.problem, job.control, Course(job)
    K = kernel_matrix(job.gram, problem.shift)
    eta = 1.0 / np.maximum(K.diagonal(), FLAT * max(float(K.diagonal().max()), 1.0))
    random, n = np.random.default_rng(options.seed), len(problem)
    beta, change = course.begin(), np.inf
    gradient = K @ beta + problem.linear
    while not _ends(status := course.ended(beta, gradient), control, options) and change > options.epsilon:
        before = beta.copy()
        for k in random.permutation(n) if options.order == "random" else range(n):
            if options.order == "greedy":
                k = _largest_gain(problem, beta, K @ beta + problem.linear, eta)
            slope = K[k] @ beta + problem.linear[k]
            beta[k] = min(max(beta[k] - eta[k] * slope, problem.lower[k]), problem.upper[k])
            if course.step() or abs(beta[k]) > HUGE:
                break
        change = float(np.linalg.norm(beta - before))
        beta *= best_multiple(problem, beta, K @ beta + problem.linear)
        gradient = K @ beta + problem.linear
    return course.solution(beta, gradient, status or (Status.STOPPED_BY_OPTION if options.epsilon else Status.STALLED))


def _ends(status: Status | None, control: Control, options: Options) -> bool:
    """Whether this status ends the run. With an epsilon, convergence does not: the change in a pass decides."""
    if status is None:
        return False
    return not status.converged or not options.epsilon or control.ended() is not None


def _largest_gain(problem: DualProblem, beta: Vector, gradient: Vector, eta: Vector) -> int:
    """The component whose exact, clipped step raises J most: by -G step - step^2 / 2 eta."""
    step = np.clip(beta - eta * gradient, problem.lower, problem.upper) - beta
    return int(np.argmax(-gradient * step - 0.5 * step**2 / eta))
