"""What every textbook solver does besides its algorithm: begin, record and report each pass, and check whether to end.

The algorithm itself then fits on one screen. These solvers keep the duals and the whole kernel matrix (or, in the primal, the
features) in float64, which is possible for up to a few thousand samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.control import Control, Stop, fraction_done
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers.separability import hulls_meet

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NEGATIVE_CURVATURE = 1e-6  # negative curvature, relative to the diagonal, that rounding does not explain


def kernel_matrix(gram: Gram, shift: Vector | None) -> Matrix:
    """The whole matrix K + diag(shift)."""
    tile = gram.in_float64().tile(np.arange(len(gram), dtype=np.int32), shift)
    return tile if isinstance(tile, np.ndarray) else np.asarray(tile.to_array())


class Course:
    """The course of one run: its trace, its steps, and the reasons to end it."""

    def __init__(self, problem: DualProblem, gram: Gram, stop: Stop, control: Control) -> None:
        self._problem, self._stop, self._control = problem, stop, control
        self._largest_diagonal = gram.largest_diagonal()
        self._endless = not bool(np.isfinite(problem.upper).all() and np.isfinite(problem.lower).all())
        self._trace = Trace()
        self._steps = 0

    def begin(self, start: Vector | None) -> Vector:
        """The point to begin from: `start` made feasible, or the problem's own, or zero."""
        if start is not None:
            return self._problem.feasible(start)
        return np.zeros(len(self._problem)) if self._problem.start is None else self._problem.start.copy()

    def step(self, count: int = 1) -> bool:
        """Count steps; return whether the run has to end."""
        self._steps += count
        self._control.steps += count
        return self._control.ended() is not None

    def ended(self, beta: Vector, gradient: Vector) -> Status | None:
        """Record and report a pass that led to `beta`; return the reason to end, if there is one."""
        problem, stop = self._problem, self._stop
        violation = problem.violation(beta, gradient)
        dual = problem.dual_value(beta, gradient)
        gap = float(problem.gap_terms(beta, gradient, problem.best_level(beta, gradient)).sum())
        self._trace.append(self._control.seconds, len(self._trace.gap), violation, dual, gap)
        relative = self._trace.relative_gap()
        fraction = fraction_done(stop, max(self._trace.violation), violation, relative)
        told = self._control.report(len(self._trace.gap) - 1, violation, relative, fraction)
        if self._falls_for_ever(beta, gradient):
            return Status.UNBOUNDED
        if violation <= stop.tol and stop.close(relative):
            return Status.CONVERGED
        if hulls_meet(problem, beta, gradient, self._largest_diagonal):
            return Status.NOT_SEPARABLE
        return told or self._control.ended()

    @property
    def gap(self) -> float:
        """The duality gap of the last pass."""
        return self._trace.gap[-1]

    @property
    def relative_gap(self) -> float:
        return self._trace.relative_gap()

    def solution(self, beta: Vector, gradient: Vector, status: Status) -> Solution:
        violation = self._problem.violation(beta, gradient)
        return Solution(beta, gradient, status, violation, self._steps, self._trace, "float64 kernel")

    def _falls_for_ever(self, beta: Vector, gradient: Vector) -> bool:
        """Whether beta' K beta < 0 and nothing bounds the duals, so that larger multiples of beta have ever lower objectives."""
        curvature = float(beta @ (gradient - self._problem.linear))
        return self._endless and curvature < -NEGATIVE_CURVATURE * self._largest_diagonal * float(beta @ beta)
