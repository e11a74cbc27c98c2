r"""L-BFGS on the primal problem: quasi-Newton steps in the d + 1 weights, however many samples there are.

    min    1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w . x_i + b))^2

The quadratic loss has a continuous derivative, which is all that L-BFGS (SciPy's) needs. The dual point of a primal one is
the pull of each sample, beta_i = 2 C_i xi_i y_i, with the bias at which these sum to zero (`primal.balanced_pull`). At the
optimum w = sum_i beta_i x_i; before it the two differ, and the model and its certificate are those of the dual point.

**The end.** Near the optimum the objective is too flat for a line search to see, long before the duals, which are 2 C_i times
a slack, have all their digits. But then the samples with slack are known; as long as these stay the same the objective is a
parabola, and Newton's step, a linear system in the d + 1 weights, goes to its bottom.

**The hinge, with a caveat.** It has a kink, at which L-BFGS's model of the curvature is wrong and its line search may
stop anywhere. So it is smoothed: within a width mu C_i of the kink it is a parabola, mu being a shift of the dual problem.
Smoothing costs at most 1/2 mu sum_i C_i^2 of the gap and mu C_i of the violation; mu falls tenfold from stage to stage until
the latter is below tol. The certificate is about the hinge as it is, and says what came of it: for a tight tolerance use
a solver of the dual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.backends import Backend
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course
from maxmargin.solvers.options import SolverOptions, count
from maxmargin.solvers.primal import balanced_pull, gradient_at, pull

Vector = NDArray[np.float64]

FIRST_SMOOTHING = 1.0  # of the margin: the width within which the hinge is a parabola at first
SMOOTHING_STEP = 0.1
WIDEST = 2000  # features up to which Newton's system is solved
LAST_SMOOTHING = 1e-6  # from here on the kink is too sharp for L-BFGS


@dataclass(frozen=True)
class Options(SolverOptions):
    """`memory`: pairs of steps and changes of the derivative from which the curvature is modelled. `max_iterations` of
    L-BFGS in all."""

    memory: int = count(10)
    max_iterations: int = count(10_000)


def solve(
    problem: DualProblem,
    gram: Gram,
    backend: Backend,
    stop: Stop,
    control: Control,
    start: Vector | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Solution:
    """Minimise the primal of `problem` over the features of `gram` from the point of `start`, or from zero."""
    course = Course(problem, gram, stop, control)
    descent = _Descent(problem, gram.features(), course, course.begin(start))
    for shift in _shifts(problem, stop.tol):
        descent.minimise(shift, options)
        if descent.iterations >= options.max_iterations:
            break
        descent.polish(shift)
    ending = Status.STOPPED_BY_OPTION if descent.iterations >= options.max_iterations else Status.STALLED
    return course.solution(descent.point, descent.gradient, descent.status or ending)


def _shifts(problem: DualProblem, tol: float) -> list[Vector | float]:
    """The problem's own, or those that smooth the hinge: less and less, until it makes no difference to `tol`."""
    if problem.shift is not None:
        return [problem.shift]
    largest = float(np.maximum(problem.upper, -problem.lower).max())
    last = max(0.5 * tol, LAST_SMOOTHING) / FIRST_SMOOTHING
    stages = max(0, int(np.ceil(np.log(last) / np.log(SMOOTHING_STEP))))
    return [FIRST_SMOOTHING * SMOOTHING_STEP**stage / largest for stage in range(stages + 1)]


class _Descent:
    """The weights (w, b) on their way down, and the dual point that belongs to them."""

    def __init__(self, problem: DualProblem, features: Any, course: Course, beta: Vector) -> None:
        self._problem, self._features, self._course = problem, features, course
        self._weights = np.append(features.T @ beta, 0.0)
        self.point, self.gradient = beta, gradient_at(problem, features, beta)
        self.status = course.ended(self.point, self.gradient)
        self.iterations = 0

    def minimise(self, shift: Vector | float, options: Options) -> None:
        """L-BFGS with the loss of this shift, from the present weights, unless the run has ended."""
        if self.status is not None:
            return

        def note(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            self.iterations += 1
            self._go_to(intermediate_result.x.copy(), shift)
            if self.status is not None:
                raise StopIteration

        scipy.optimize.minimize(
            lambda weights: self._value_and_slope(weights, shift),
            self._weights,
            jac=True,
            method="L-BFGS-B",
            callback=note,
            options={
                "maxcor": options.memory,
                "maxiter": options.max_iterations - self.iterations,
                "maxfun": 100 * options.max_iterations,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )

    def polish(self, shift: Vector | float) -> None:
        """Newton steps for as long as they lower the violation."""
        if len(self._weights) > WIDEST:
            return
        before = np.inf
        while self.status is None and (violation := self._problem.violation(self.point, self.gradient)) < before:
            before, kept = violation, (self._weights, self.point, self.gradient)
            self._go_to(self._weights - self._newton_step(shift), shift)
        if self.status is None:
            self._weights, self.point, self.gradient = kept

    def _go_to(self, weights: Vector, shift: Vector | float) -> None:
        self._weights = weights
        self.point = balanced_pull(self._problem, self._features @ weights[:-1], shift)
        self.gradient = gradient_at(self._problem, self._features, self.point)
        self._course.step()
        self.status = self._course.ended(self.point, self.gradient)

    def _errors(self, weights: Vector) -> Vector:
        return np.asarray(self._features @ weights[:-1] + weights[-1] + self._problem.linear)

    def _newton_step(self, shift: Vector | float) -> Vector:
        """Hessian^-1 slope: the Hessian is that of 1/2 |w|^2 and of the samples within the parabola of their loss."""
        beta = pull(self._errors(self._weights), self._problem.lower, self._problem.upper, shift)
        free = (beta > self._problem.lower) & (beta < self._problem.upper)
        rows = self._features[free]
        curvature = np.broadcast_to(1.0 / np.asarray(shift), len(beta))[free]
        weighted = rows.T.multiply(curvature).tocsr() if sp.issparse(rows) else rows.T * curvature
        products = weighted @ rows
        d = len(self._weights) - 1
        hessian = np.zeros((d + 1, d + 1))
        hessian[:d, :d] = np.eye(d) + (products.toarray() if sp.issparse(products) else products)
        hessian[:d, d] = hessian[d, :d] = np.asarray(weighted.sum(axis=1)).ravel()
        hessian[d, d] = curvature.sum()
        if not self._problem.coupled:
            hessian[d, :d] = hessian[:d, d] = 0.0
        slope = self._value_and_slope(self._weights, shift)[1]
        return np.asarray(np.linalg.lstsq(hessian, slope)[0])

    def _value_and_slope(self, weights: Vector, shift: Vector | float) -> tuple[float, Vector]:
        """1/2 |w|^2 + sum_i loss_i(E_i), and its derivative: (w, 0) minus the pull of the samples."""
        w, errors = weights[:-1], self._errors(weights)
        beta = pull(errors, self._problem.lower, self._problem.upper, shift)
        value = 0.5 * float(w @ w) - float(beta @ errors + 0.5 * (shift * beta) @ beta)
        slope_of_bias = -float(beta.sum()) if self._problem.coupled else 0.0
        return value, np.append(w - self._features.T @ beta, slope_of_bias)
