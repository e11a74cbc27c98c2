r"""L-BFGS on the primal problem: quasi-Newton steps in the d + 1 weights, however many samples there are.

    min    1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w . x_i + b))^2

The quadratic loss has a continuous derivative, which is all that L-BFGS (SciPy's) needs. The dual point of a primal one is
the pull of each sample, beta_i = 2 C_i xi_i y_i, with the bias at which these sum to zero (`primal.balanced_pull`). At the
optimum w = sum_i beta_i x_i; before it the two differ, and the model and its certificate are those of the dual point.

**The end.** With a large C the objective is a narrow valley: its sides rise as C does, its floor as 1/2 |w|^2, and a line
search soon sees no slope any more, long before the duals, which are 2 C_i times a slack, have all their digits. But within a
set of samples with slack the objective is a parabola, and Newton's step, a linear system in the d + 1 weights, goes to its
bottom. So Newton's steps finish what L-BFGS began, each as long as the exact minimum along it: the derivative along a line is
piecewise linear and rises, so that its zero is found by bisection. There are finitely many parabolas, and every step goes
down (Keerthi and DeCoste 2005), whatever C is. With more than `WIDEST` features the system is too large, L-BFGS is alone,
and a large C may end as stalled.

**The hinge** has a kink, at which L-BFGS's model of the curvature is wrong. So it is smoothed: within a width mu C_i of the
kink it is a parabola, mu being a shift of the dual problem, which costs at most 1/2 mu sum_i C_i^2 of the gap and mu C_i of
the violation. mu falls tenfold from stage to stage until the violation is below tol and the relative gap below gap_tol (1e-3
where none is given). The certificate is about the hinge as it is. Each stage is another objective, so violation and gap may
rise where one begins; what is returned is the best point of all, by its gap.

**The hard margin** is here what some textbooks make of it: the loss alone, without 1/2 |w|^2 (and smoothed over a width of 1),

    min    sum_i max(0, 1 - y_i (w . x_i + b))

It is zero for every hyperplane that separates the classes, once its scale is large enough, so the method ends at one of them,
and nothing makes its margin wide: the status says so. If the minimum is not zero, the pulls at it sum to zero with and without
the samples as factors: the point in which the convex hulls of the classes meet.
A model is a point of the dual cone, w = sum_i alpha_i y_i x_i with alpha >= 0 (and sum_i alpha_i y_i = 0), and w need not be
one. So the nearest of them to w is kept. That is a projection onto a cone D, w = p + q with q . d <= 0 for all d of D, and
the difference of a positive and a negative sample is such a d: p separates any two of them by as much as w at least, and
|p| <= |w|. The margin of what is kept is not narrower. In the end the hyperplane is scaled to its canonical form, with a
smallest functional margin of 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.control import Stop
from maxmargin.formulations import DualProblem
from maxmargin.solution import Solution, Status
from maxmargin.solvers import block_smo
from maxmargin.solvers.course import Course
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, count
from maxmargin.solvers.primal import balanced_pull, best_bias, canonical, features_of, gradient_at, pull, refine_free, unit_prices

Vector = NDArray[np.float64]

FIRST_SMOOTHING = 1.0  # width of the parabola that replaces the kink of the hinge in the first stage, in units of the margin
SMOOTHING_STEP = 0.1  # factor on the width from one stage to the next
LAST_SMOOTHING = 1e-9  # smallest width: rounding errors of the margins are larger than smaller ones
DEFAULT_GAP_TOL = 1e-3  # relative gap to which the hinge is solved if gap_tol is None
WIDEST = 2000  # largest number of features with which Newton's system is solved
NEWTON_FROM = 1e-10  # relative decrease of the objective in a step of L-BFGS below which Newton's method takes over
NEWTON_STEPS = 200  # limit on the steps of a stage, many more than were ever necessary
ROUNDING = 4.0 * float(np.finfo(float).eps)  # a step shorter than this, relative to the weights, does not count
BISECTIONS = 100  # limit on the bisections of a line search: more than float64 can use
HARD_MARGIN_SMOOTHING = 1.0  # width over which the loss of the hard margin is smoothed, in units of the margin
PROJECTION_TOLERANCE = 1e-9  # accuracy of the projection of a separating w, relative to the largest margin


@dataclass(frozen=True)
class Options(SolverOptions):
    """`memory`: the number of steps, with their changes of the derivative, from which the curvature is modelled.
    `max_iterations`: the limit on all iterations of L-BFGS."""

    memory: int = count(10)
    max_iterations: int = count(10_000)


def solve(job: Job, options: Options = Options()) -> Solution:
    """Minimise the primal of a problem over the features of its samples."""
    problem, course = job.problem, Course(job)
    if problem.hard:
        return _separate(job, course, options)
    descent = _Descent(problem, features_of(job.gram), course, job.stop, course.begin())
    for shift in _shifts(problem):
        descent.minimise(shift, options)
        if descent.iterations < options.max_iterations:
            descent.finish(shift)
        if descent.status is not None or descent.iterations >= options.max_iterations:
            break
    ending = Status.STOPPED_BY_OPTION if descent.iterations >= options.max_iterations else Status.STALLED
    return course.solution(*descent.best(), descent.status or ending)


def _shifts(problem: DualProblem) -> list[Vector | float]:
    """The shifts of the stages: the problem's own shift, or a decreasing sequence that smooths the hinge less and less."""
    if problem.shift is not None:
        return [problem.shift]
    largest = float(np.maximum(problem.upper, -problem.lower).max()) or 1.0  # zero: no sample has a weight
    stages = round(np.log(LAST_SMOOTHING / FIRST_SMOOTHING) / np.log(SMOOTHING_STEP))
    return [FIRST_SMOOTHING * SMOOTHING_STEP**stage / largest for stage in range(stages + 1)]


class _Descent:
    """The state of one run: the weights (w, b), the dual point that belongs to them, and the best dual point so far."""

    def __init__(self, problem: DualProblem, features: Any, course: Course, stop: Stop, beta: Vector, ridge: float = 1.0) -> None:
        self._problem, self._features, self._course, self._ridge = problem, features, course, ridge
        self._accepted = DEFAULT_GAP_TOL if stop.gap_tol is None else stop.gap_tol
        self.weights = np.append(features.T @ beta, 0.0)
        self.point, self.gradient = beta, gradient_at(problem, features, beta)
        self._best = (np.inf, self.point, self.gradient)
        self.iterations = 0
        self.status: Status | None = None
        self._judge()

    def best(self) -> tuple[Vector, Vector]:
        """The point to return, and its gradient: the last one if it is a solution, else the one with the smallest gap."""
        solved = self.status is not None and self.status.converged
        return (self.point, self.gradient) if solved else self._best[1:]

    @property
    def _newton_can_finish(self) -> bool:
        return len(self.weights) <= WIDEST

    def minimise(self, shift: Vector | float, options: Options) -> None:
        """Run L-BFGS with the loss of this shift, from the present weights, unless the run has ended."""
        if self.status is None:
            self._go_to(self.weights.copy(), shift)  # the pulls of this loss may be the solution already
        if self.status is not None:
            return

        def note(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            self.iterations += 1
            self._go_to(intermediate_result.x.copy(), shift)
            if self.status is not None:
                raise StopIteration

        scipy.optimize.minimize(
            lambda weights: self._value_and_slope(weights, shift),
            self.weights,
            jac=True,
            method="L-BFGS-B",
            callback=note,
            options={
                "maxcor": options.memory,
                "maxiter": options.max_iterations - self.iterations,
                "maxfun": 100 * options.max_iterations,
                "ftol": NEWTON_FROM if self._newton_can_finish else 0.0,
                "gtol": 0.0,
            },
        )

    def finish(self, shift: Vector | float) -> None:
        """Take Newton steps to the minimum of the objective with this shift, until one no longer decreases it; then one Newton
        step in the duals that are not at a bound."""
        if not self._newton_can_finish:
            return
        for _ in range(NEWTON_STEPS):
            if self.status is not None:
                return
            if self._problem.coupled:
                self.weights[-1] = best_bias(self._problem, self._features @ self.weights[:-1], shift)
            step = -self._newton_step(shift)
            length = self._line_search(step, shift)
            if length * np.linalg.norm(step) <= ROUNDING * np.linalg.norm(self.weights):
                break
            self._go_to(self.weights + length * step, shift)
        if self._ridge and self.status is None:
            self._be_at(refine_free(self._problem, self._features, self.point, self.gradient))

    def _go_to(self, weights: Vector, shift: Vector | float) -> None:
        self.weights = weights
        self._be_at(balanced_pull(self._problem, self._features @ weights[:-1], shift))

    def _be_at(self, point: Vector) -> None:
        self.point, self.gradient = point, gradient_at(self._problem, self._features, point)
        self._course.step()
        self._judge()

    def _judge(self) -> None:
        """Decide whether to end at the present point; convergence counts only with a small gap."""
        self.status = self._course.ended(self.point, self.gradient)
        if self._course.gap <= self._best[0]:
            self._best = (self._course.gap, self.point, self.gradient)
        if self.status is Status.CONVERGED and self._course.relative_gap > self._accepted:
            self.status = None

    def _errors(self, weights: Vector) -> Vector:
        return np.asarray(self._features @ weights[:-1] + weights[-1] + self._problem.linear)

    def _newton_step(self, shift: Vector | float) -> Vector:
        """Newton's step Hessian^-1 slope: the Hessian is that of 1/2 |w|^2 and of the samples within the parabola of their loss.
        If no sample has slack, the step leads to zero weights, with a bias such that both classes meet their margins at the same
        time."""
        beta = pull(self._errors(self.weights), self._problem.lower, self._problem.upper, shift)
        if not beta.any():
            return self._ridge * self.weights
        free = (beta > self._problem.lower) & (beta < self._problem.upper)
        rows = self._features[free]
        curvature = np.broadcast_to(1.0 / np.asarray(shift), len(beta))[free]
        weighted = rows.T.multiply(curvature).tocsr() if sp.issparse(rows) else rows.T * curvature
        products = weighted @ rows
        d = len(self.weights) - 1
        hessian = np.zeros((d + 1, d + 1))
        hessian[:d, :d] = self._ridge * np.eye(d) + (products.toarray() if sp.issparse(products) else products)
        hessian[:d, d] = hessian[d, :d] = np.asarray(weighted.sum(axis=1)).ravel()
        hessian[d, d] = curvature.sum()
        if not self._problem.coupled:
            hessian[d, :d] = hessian[:d, d] = 0.0
        slope = self._value_and_slope(self.weights, shift)[1]
        return np.asarray(np.linalg.lstsq(hessian, slope)[0])

    def _line_search(self, step: Vector, shift: Vector | float) -> float:
        """The length at which the objective is lowest along `step`: 1 if no better one can be told apart, 0 if it only rises."""
        problem, w, direction = self._problem, self.weights[:-1], step[:-1]
        errors = self._errors(self.weights)
        change = np.asarray(self._features @ direction + (step[-1] if problem.coupled else 0.0))

        def slope(length: float) -> float:
            beta = pull(errors + length * change, problem.lower, problem.upper, shift)
            return float(self._ridge * (w + length * direction) @ direction - beta @ change)

        start, whole = slope(0.0), slope(1.0)
        if start >= 0.0:
            return 0.0
        if abs(whole) <= 1e-12 * abs(start):
            return 1.0
        low, high = (0.0, 1.0) if whole > 0.0 else (1.0, 2.0)
        while slope(high) < 0.0 and high < 1e6:
            low, high = high, 2.0 * high
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
        return high  # just beyond a kink rather than before it, so that its sample takes part in the next step

    def _value_and_slope(self, weights: Vector, shift: Vector | float) -> tuple[float, Vector]:
        """1/2 |w|^2 + sum_i loss_i(E_i), and its derivative: (w, 0) minus the pull of the samples."""
        w, errors = weights[:-1], self._errors(weights)
        beta = pull(errors, self._problem.lower, self._problem.upper, shift)
        value = 0.5 * self._ridge * float(w @ w) - float(beta @ errors + 0.5 * (shift * beta) @ beta)
        slope_of_bias = -float(beta.sum()) if self._problem.coupled else 0.0
        return value, np.append(self._ridge * w - self._features.T @ beta, slope_of_bias)


# --- the hard margin -----------------------------------------------------------------------------------------------


def _separate(job: Job, course: Course, options: Options) -> Solution:
    """Find a hyperplane that separates the classes: one where the sum of the losses, without 1/2 |w|^2, is zero."""
    problem, features = job.problem, features_of(job.gram)
    descent = _Descent(unit_prices(problem), features, course, job.stop, np.zeros(len(problem)), ridge=0.0)
    descent.minimise(HARD_MARGIN_SMOOTHING, options)
    if descent.iterations < options.max_iterations:
        descent.finish(HARD_MARGIN_SMOOTHING)
    if descent.status is not None:
        return course.solution(descent.point, descent.gradient, descent.status)
    towards = replace(problem, linear=-np.asarray(features @ descent.weights[:-1]))
    near = Stop(PROJECTION_TOLERANCE * max(float(np.abs(towards.linear).max()), 1.0))
    point, separates = canonical(problem, features, block_smo.solve(job._replace(problem=towards, stop=near, start=None)).beta)
    ending = Status.STOPPED_BY_OPTION if descent.iterations >= options.max_iterations else Status.STALLED
    status = course.ended(point, gradient_at(problem, features, point))
    return course.solution(point, gradient_at(problem, features, point), status or (Status.SEPARATES if separates else ending))
