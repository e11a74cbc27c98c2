"""What every textbook solver does besides its algorithm: begin, record and report each pass, and check whether to end.

The algorithm itself then fits on one screen. These solvers keep the duals and the whole kernel matrix (or, in the primal, the
features) in float64, which is possible for up to a few thousand samples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.gram import Gram
from maxmargin.rounding import NEGATIVE_CURVATURE
from maxmargin.solution import Solution, Status
from maxmargin.solvers.job import Job
from maxmargin.solvers.record import Record
from maxmargin.solvers.separability import hulls_meet

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def kernel_matrix(gram: Gram, shift: Vector | None) -> Matrix:
    """The whole matrix K + diag(shift)."""
    tile = gram.in_float64().tile(np.arange(len(gram), dtype=np.int32), shift)
    return tile if isinstance(tile, np.ndarray) else np.asarray(tile.to_array())


class Course:
    """The course of one run: its trace, its steps, and the reasons to end it."""

    def __init__(self, job: Job) -> None:
        self._problem, self._start, self._stop, self._control = job.problem, job.start, job.stop, job.control
        self._largest_diagonal = float(job.gram.diagonal().max())
        self._record = Record(len(job.problem), job.stop, job.control)
        self._steps = 0

    def begin(self) -> Vector:
        """The point to begin from: the start of the job made feasible, or the problem's own, or zero."""
        if self._start is not None:
            return np.asarray(self._problem.feasible(self._start))
        return np.zeros(len(self._problem)) if self._problem.start is None else np.array(self._problem.start)

    def step(self, count: int = 1) -> bool:
        """Count steps; return whether the run has to end."""
        self._steps += count
        self._control.steps += count
        return self._control.ended() is not None

    def ended(self, beta: Vector, gradient: Vector) -> Status | None:
        """Record and report a pass that led to `beta`; return the reason to end, if there is one."""
        problem, stop = self._problem, self._stop
        violation = problem.violation(beta, gradient)
        sums = problem.sums(beta, gradient)
        gap = float(problem.gap_terms(beta, gradient, problem.best_level(beta, gradient)).sum())
        told = self._record.add(violation, sums.dual, gap, sums.terms, self._steps)
        # beta' K beta < 0 and nothing bounds the duals: larger multiples of beta have ever lower objectives
        falls = sums.curvature < -NEGATIVE_CURVATURE * self._largest_diagonal * float(beta @ beta)
        if falls and not problem.bounded:
            return Status.UNBOUNDED
        if violation <= stop.tol and stop.close(self.relative_gap):
            return Status.CONVERGED
        return Status.NOT_SEPARABLE if hulls_meet(problem, sums, self._largest_diagonal) else told

    @property
    def gap(self) -> float:
        """The duality gap of the last pass."""
        return self._record.trace.gap[-1]

    @property
    def relative_gap(self) -> float:
        return self._record.relative_gap

    def solution(self, beta: Vector, gradient: Vector, status: Status) -> Solution:
        violation = self._problem.violation(beta, gradient)
        return Solution(beta, gradient, status, violation, self._steps, self._record.trace, "float64 kernel")
