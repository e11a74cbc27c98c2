"""The fast solver: decomposition into tiles, each solved by second-order SMO with Newton steps.

    repeat
        1. working set: the free variables, and violators drawn at random (at most TILE in all)
        2. its kernel tile; the inner solve minimises over it, to a tenth of the present violation
        3. kernel rows of the variables that moved update the gradient of all
    until no variable violates the optimality conditions by more than tol

A problem that fits into one tile is one tile.

**Arithmetic.** Duals and gradients are float64. Kernel entries are float32 while that suffices: an entry off by e_ij puts
the gradient off by sum_j e_ij beta_j, so the error grows with |beta|, that is with C. Therefore, when the float32
iteration has converged, the gradient is computed anew in float64 where it decides anything: at the free variables and at
those near the level that separates rising from falling (the *band*). The difference tells how large the error is. If the
band is small, the problem restricted to it is solved once more in float64, from the exact gradient; if it is not, the
whole iteration goes on in float64 from where it is.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import Backend, Violation
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status, Trace

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

TILE = 2048  # variables of a working set
LARGEST_BAND = 3072  # variables of the float64 problem that ends a float32 run
STEPS_AT_ONCE = 20_000  # of an inner solve, so that an interrupt is seen within a fraction of a second
INNER_REDUCTION = 0.1  # of the violation, by one inner solve
SAFETY = 4.0  # times the largest rounding error of the gradient that was seen
POLISH = 1e-12  # the violation to which a single float64 tile is solved
TOUCHING = 1e-12  # hard margin: squared distance of the hulls, relative to the data, that counts as none
INDEFINITE = 1e-6  # relative negative curvature beyond rounding


def solve(
    problem: DualProblem,
    gram: Gram,
    backend: Backend,
    stop: Stop,
    control: Control,
    start: Vector | None = None,
) -> Solution:
    """Minimise `problem` over the kernel matrix `gram` from `start` (zero if none is given)."""
    run = _Run(problem, gram, backend, stop, control, start)
    status = run.in_one_tile() if len(problem) <= TILE else run.by_tiles()
    if run.lowest_curvature < -INDEFINITE and status is Status.CONVERGED:
        status = Status.STATIONARY
    return Solution(
        run.beta, run.gradient, status, run.violation.value, run.steps, run.trace, f"{run.gram.dtype} kernel"
    )


class _Run:
    """The state of one solve: beta, the gradient there, and what has been seen on the way."""

    def __init__(
        self,
        problem: DualProblem,
        gram: Gram,
        backend: Backend,
        stop: Stop,
        control: Control,
        start: Vector | None,
    ) -> None:
        self.problem, self.gram, self.backend, self.stop, self.control = problem, gram, backend, stop, control
        self.beta = np.zeros(len(problem)) if start is None else np.clip(start, problem.lower, problem.upper)
        self.gradient = problem.linear.copy()
        self.steps = 0
        self.lowest_curvature = 0.0
        self.trace = Trace()
        self.violation = Violation(np.inf, 0.0, 0)
        self._worst_violation = 0.0
        if start is not None:
            moved = np.flatnonzero(self.beta).astype(np.int32)
            self._add_to_gradient(moved, self.beta[moved])

    # --- the outer loop -------------------------------------------------------------------------------------------

    def by_tiles(self) -> Status:
        tol = self.stop.tol
        for iteration in itertools.count():
            self._measure()
            if (ended := self._ended(iteration)) is not None:
                return ended
            if self.violation.value <= tol:
                if self._settle_in_float64():
                    return Status.CONVERGED
                continue
            members = self.backend.choose_working_set(
                self.problem, self.beta, self.gradient, self.violation, 0.25 * tol, TILE, seed=iteration
            )
            if not self._improve(members, INNER_REDUCTION * max(tol, self.violation.value)):
                return Status.STALLED
        raise AssertionError("unreachable")

    def in_one_tile(self) -> Status:
        """All variables at once: solve to tol, then polish, which Newton steps make nearly free."""
        if self.gram.dtype != np.float64:
            return self.by_tiles()
        everything = np.arange(len(self.problem), dtype=np.int32)
        tile = self.gram.tile(everything, self.problem.shift)
        for iteration in itertools.count():
            result = self.backend.solve_tile(
                tile, self.problem, self.beta, self.gradient, self.stop.tol, self.control.steps_left(STEPS_AT_ONCE)
            )
            self._count(result.steps)
            self.lowest_curvature = min(self.lowest_curvature, result.lowest_curvature)
            self._measure()
            if (ended := self._ended(iteration)) is not None:
                return ended
            if self.violation.value <= self.stop.tol:
                break
            if result.steps == 0:
                return Status.STALLED
        polish = self.control.steps_left(10 * len(self.problem) + 100)
        result = self.backend.solve_tile(tile, self.problem, self.beta, self.gradient, POLISH, polish)
        self._count(result.steps)
        self._measure()
        return Status.CONVERGED

    # --- its steps ------------------------------------------------------------------------------------------------

    def _improve(self, members: Indices, tolerance: float) -> bool:
        """Minimise over `members`; False if nothing moved."""
        problem = self.problem.restrict(members)
        beta, gradient = self.beta[members], self.gradient[members]
        result = self.backend.solve_tile(
            self.gram.tile(members, problem.shift),
            problem,
            beta,
            gradient,
            tolerance,
            self.control.steps_left(STEPS_AT_ONCE),
        )
        self._count(result.steps)
        self.lowest_curvature = min(self.lowest_curvature, result.lowest_curvature)
        return self._move(members, beta)

    def _move(self, members: Indices, after: Vector) -> bool:
        change = after - self.beta[members]
        moved = change != 0.0
        if not moved.any():
            return False
        self._add_to_gradient(members[moved], change[moved])
        self.beta[members] = after
        return True

    def _add_to_gradient(self, rows: Indices, change: Vector) -> None:
        self.gram.accumulate(rows, change, self.gradient)
        if self.problem.shift is not None:
            self.gradient[rows] += self.problem.shift[rows] * change

    def _settle_in_float64(self) -> bool:
        """After a float32 run: make the gradient exact where it matters; True if the point is still optimal to tol."""
        if self.gram.dtype == np.float64:
            return True
        tol = self.stop.tol
        band = self._band(2.0 * tol)
        exact = self._exact_gradient(band)
        error = SAFETY * float(np.abs(exact - self.gradient[band]).max(initial=0.0))
        if error > 0.5 * tol:  # then samples further out may be on the wrong side too
            band = self._band(2.0 * tol + 2.0 * error)
            exact = self._exact_gradient(band)
        if len(band) > LARGEST_BAND:
            self._go_on_in_float64()
            return False
        problem = self.problem.restrict(band)
        beta, gradient = self.beta[band], exact.copy()
        result = self.backend.solve_tile(
            self.gram.exact_tile(band, problem.shift),
            problem,
            beta,
            gradient,
            INNER_REDUCTION * tol,
            self.control.steps_left(STEPS_AT_ONCE),
        )
        self._count(result.steps)
        self._move(band, beta)
        self.gradient[band] = gradient
        self._measure()
        return self.violation.value <= tol

    def _band(self, width: float) -> Indices:
        free = (self.beta > self.problem.lower) & (self.beta < self.problem.upper)
        near = np.abs(self.gradient - self.violation.level) <= width
        return np.flatnonzero(free | near).astype(np.int32)

    def _exact_gradient(self, at: Indices) -> Vector:
        support = np.flatnonzero(self.beta).astype(np.int32)
        gradient = self.gram.exact_sums(support, self.beta[support], at) + self.problem.linear[at]
        if self.problem.shift is not None:
            gradient += self.problem.shift[at] * self.beta[at]
        return gradient

    def _go_on_in_float64(self) -> None:
        self.gram = self.gram.in_float64()
        self.gradient = self.problem.linear.copy()
        support = np.flatnonzero(self.beta).astype(np.int32)
        self._add_to_gradient(support, self.beta[support])

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def _count(self, steps: int) -> None:
        self.steps += steps
        self.control.steps += steps

    def _measure(self) -> None:
        self.violation = self.backend.measure_violation(self.problem, self.beta, self.gradient)
        self._worst_violation = max(self._worst_violation, self.violation.value)

    def _ended(self, iteration: int) -> Status | None:
        """Record this iteration; the reason to end, if there is one other than tol."""
        problem, violation = self.problem, self.violation
        dual = problem.dual_value(self.beta, self.gradient)
        gap = float(problem.gap_terms(self.beta, self.gradient, violation.level).sum())
        relative = gap / max(abs(dual + gap), abs(dual), np.finfo(float).tiny)
        self.trace.append(self.control.seconds, iteration, violation.value, dual, gap)
        if problem.hard and self._hulls_meet():
            return Status.NOT_SEPARABLE
        told = self.control.report(iteration, violation.value, relative, self._fraction())
        if self.stop.gap_tol is not None and relative <= self.stop.gap_tol:
            return Status.GAP_REACHED
        if violation.value <= self.stop.tol:
            return None
        return told or self.control.ended()

    def _fraction(self) -> float:
        """Log-scale progress of the violation from its worst to tol."""
        worst, now, tol = self._worst_violation, self.violation.value, self.stop.tol
        if now <= tol or worst <= tol:
            return 1.0
        return float(np.log(worst / now) / np.log(worst / tol))

    def _hulls_meet(self) -> bool:
        """beta / (sum |beta| / 2) is a point of each class's convex hull; beta' K beta is their squared distance."""
        mass = 0.5 * float(np.abs(self.beta).sum())
        if mass == 0.0:
            return False
        distance = float(self.beta @ (self.gradient - self.problem.linear)) / mass**2
        return distance <= TOUCHING * self.gram.largest_diagonal()
