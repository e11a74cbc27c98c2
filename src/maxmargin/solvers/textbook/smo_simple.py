r"""Sequential minimal optimisation as lectures sketch it: each violator moves together with a partner drawn at random.

    min    1/2 beta' (K + diag(shift)) beta + linear' beta
    s.t.   lower <= beta <= upper,   sum(beta) = 0

    a = 0, b = 0, passes = 0
    while passes < max_passes
        changed = 0
        for i = 1, ..., n
            E_i = f(x_i) - y_i
            if (a_i < C and y_i E_i < -tol) or (a_i > 0 and y_i E_i > tol)
                choose j != i at random
                update a_i, a_j and b                                                          (`pair_step`)
                changed = changed + 1
        passes = passes + 1 if changed = 0, else 0

**Signed duals.** With beta = y alpha and linear = -y the error of sample i is E_i = f(x_i) - y_i = G_i + b, where G is the
gradient of the objective. The two conditions then need no label: beta_i may rise and E_i < 0, or it may fall and E_i > 0.
The biases b_i and b_j that make E_i = 0 or E_j = 0 after the step are -G_i and -G_j there: the lecture's
b - E_i - y_i dalpha_i K_ii - y_j dalpha_j K_ij. With the quadratic loss K stands for K + diag(1 / 2C_i).

**To the letter.** By default every line is the sketch's, in the user's order of the samples, and the model keeps the sketch's
bias. Three things follow from that. An update counts as a change even if it moves nothing, so the run ends only when no
sample violates its condition at the present b. These conditions hold to tol, so two samples can still differ by 2 tol: the
KKT violation of the certificate is at most 2 tol, not tol. And b belongs to the last update, not to all samples, so
another bias may have a smaller primal value. Each has an option that departs from the sketch:

    counts="moves"          an update that moves nothing is not a change
    threshold="half_tol"    a sample is a violator from tol / 2 on, so that the KKT violation ends below tol
    stops="tol"             the run also ends as soon as the conditions of the certificate hold, whatever b is
    bias="best"             the model keeps the bias with the smallest primal value

A random partner is often a poor one, so this takes many more steps than `smo_platt`: it is here to be read.

**What the sketch leaves open.** With a hard margin partners are drawn until one moves, and the best multiple of the duals is
taken after each pass: that the classes cannot be separated must not be missed by bad luck. If samples ask to be moved in
`PATIENCE` passes in a row and none can be, the run ends as stalled: tol is below rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.control import Control
from maxmargin.formulations import DualProblem
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course, kernel_matrix
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, count, one_of, seed
from maxmargin.solvers.separability import best_multiple
from maxmargin.solvers.textbook.pair_step import Matrix, best_step, bias_after, move, violates

Vector = NDArray[np.float64]

PATIENCE = 100  # passes in a row with violators of which none can be moved


@dataclass(frozen=True)
class Options(SolverOptions):
    """`max_passes`: the number of passes in a row without a change that ends the run. `counts`, `threshold`, `stops`, `bias`: see
    above; the defaults follow the sketch. `seed`: the random seed of the partners."""

    max_passes: int = count(20)
    counts: str = one_of("updates", "moves")
    threshold: str = one_of("tol", "half_tol")
    stops: str = one_of("passes", "tol")
    bias: str = one_of("running", "best")
    seed: int = seed()


def solve(job: Job, options: Options = Options()) -> Solution:
    problem, control, course = job.problem, job.control, Course(job)
    run = _Run(problem, kernel_matrix(job.gram, problem.shift), course.begin(), options)
    tol = job.stop.tol if options.threshold == "tol" else 0.5 * job.stop.tol
    passes = idle = 0
    while not _ends(status := course.ended(run.beta, run.gradient), control, options) and passes < options.max_passes:
        if idle == PATIENCE:
            status = status or Status.STALLED
            break
        updates = moves = 0
        for i in range(len(problem)):
            error = run.gradient_of(i) + run.bias
            if violates(problem, run.beta, i, error, tol):
                moves += run.update(i)
                updates += 1
                if course.step() or run.unbounded:
                    break
        if run.unbounded:
            status = Status.UNBOUNDED
            break
        changed = updates if options.counts == "updates" else moves
        passes = 0 if changed else passes + 1
        idle = idle + 1 if updates and not moves else 0
        run.renew()
    solution = course.solution(run.beta, run.gradient, status or Status.STOPPED_BY_OPTION)
    return solution if options.bias == "best" else replace(solution, bias=run.bias)


def _ends(status: Status | None, control: Control, options: Options) -> bool:
    """Whether this status ends the run. Convergence does not by default: the sketch has its own rule, which counts passes."""
    if status is None:
        return False
    return not status.converged or options.stops == "tol" or control.ended() is not None


class _Run:
    """The state of one run: the duals, the bias, and the random numbers that choose partners."""

    def __init__(self, problem: DualProblem, K: Matrix, beta: Vector, options: Options) -> None:
        self._problem, self._K = problem, K
        self._random = np.random.default_rng(options.seed)
        self.beta, self.bias = beta, 0.0
        self.gradient = K @ beta + problem.linear
        if beta.any():
            self.bias = -float(np.mean(problem.levels(beta, self.gradient)))
        self.unbounded = False

    def gradient_of(self, i: int) -> float:
        return float(self._K[i] @ self.beta + self._problem.linear[i])

    def update(self, i: int) -> bool:
        """Draw a partner, move both to the best point of their segment and set the bias; return whether they moved."""
        problem, K, beta = self._problem, self._K, self.beta
        G_i = self.gradient_of(i)
        for j in self._partners(i):
            G_j = self.gradient_of(j)
            t = best_step(problem, K, beta, i, j, G_i - G_j)
            if t or not problem.hard:
                break
        if math.isinf(t):
            self.unbounded = True
            return False
        move(problem, beta, i, -t)
        move(problem, beta, j, t)
        self.bias = bias_after(problem, beta, i, j, G_i + t * (K[i, j] - K[i, i]), G_j + t * (K[j, j] - K[i, j]))
        return t != 0.0

    def _partners(self, i: int) -> list[int]:
        """One partner j != i at random; with a hard margin all of them in a random order."""
        others = len(self.beta) - 1
        drawn = self._random.permutation(others) if self._problem.hard else [self._random.integers(others)]
        return [int(j) + int(j >= i) for j in drawn]

    def renew(self) -> None:
        """Recompute the gradient at the end of a pass; with a hard margin, at the best multiple of the duals."""
        self.gradient = self._K @ self.beta + self._problem.linear
        if self._problem.hard:
            stretch = best_multiple(self._problem, self.beta, self.gradient)
            self.beta, self.bias = stretch * self.beta, stretch * self.bias
            self.gradient = self._K @ self.beta + self._problem.linear
