"""The solver of Crammer and Singer's machine: decomposition, with inner solves that go from sample to sample.

    repeat
        1. working set: the violators, the samples with shares in several rows, and the next ones to become violators
        2. minimise over the working set, to a tenth of the present violation
        3. kernel rows of the samples that moved update the gradient of all, each row for all rows of B at once
    until no sample violates the optimality conditions by more than tol

The working set grows with the samples that have shares in several rows, so that in the end it holds all of them if memory
allows. If there are too many violators they are drawn at random: the worst ones resemble each other.

**Arithmetic.** B and the gradient are float64. Kernel entries are float32 while that suffices: a change of B puts the gradient
off by about FLOAT32_ENTRY times its size. When all violations are within tol but these errors add up to more than a part of it,
the gradient is computed anew in float64 wherever it decides anything: at the samples with shares in several rows, and at those
where one row is ahead of the others by no more than the error that was found.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import NEVER, Limit, Part
from maxmargin.formulations import CrammerSingerProblem
from maxmargin.rounding import FLOAT32_ENTRY, LEAST_TOLERANCE, NEGATIVE_CURVATURE, POLISHED_VIOLATION
from maxmargin.solution import Solution, Status
from maxmargin.solvers.job import Job
from maxmargin.solvers.record import STEPS_AT_ONCE, Record

Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

SMALLEST, LARGEST = 1024, 4096  # samples of a working set
SIZE_FACTOR = 1.3  # size of a working set, as a multiple of the number of samples with shares in several rows
INNER_REDUCTION = 0.1  # factor by which one inner solve reduces the violation
LEAST_TARGET = 0.5  # share of tol: no inner solve aims at a smaller violation
NEGLIGIBLE_VIOLATION = 0.25  # share of tol: a sample with a smaller violation is not a violator
SAFETY = 4.0  # factor on the largest rounding error of the gradient that was seen
MOST_CORRECTIONS = 6  # corrections of a float32 run before it goes on in float64
MOST_TIGHTENINGS = 12  # times that tol is lowered because the gap is too large


def solve(job: Job) -> Solution:
    problem = job.problem
    point, gradient = (np.zeros_like(problem.linear), problem.linear) if job.known is None else job.known
    run = _Run(job, point.copy(), gradient.copy())
    if job.start is not None:
        run.move(np.arange(len(problem), dtype=np.int32), problem.feasible(job.start))
    status = run.iterate()
    small = job.gram.dtype == np.float64 and len(problem) <= SMALLEST
    if status is Status.CONVERGED and small and np.isfinite(job.stop.tol):
        run.polish()
    run.gram.release()
    if run.lowest_curvature < -NEGATIVE_CURVATURE and status is Status.CONVERGED:
        status = Status.STATIONARY
    violation = float(run.violations.max())
    return Solution(run.B, run.gradient, status, violation, run.steps, run.record.trace, f"{run.gram.dtype} kernel")


class _Run:
    """The state of one run: the point B, the gradient there, and what the run has observed so far."""

    problem: CrammerSingerProblem

    def __init__(self, job: Job, B: Matrix, gradient: Matrix) -> None:
        self.problem, self.gram, self.backend, self.control = job.problem, job.gram, job.backend, job.control
        self.stop, self.tol = job.stop, job.stop.tol
        self.B, self.gradient = B, gradient
        self.steps = 0
        self.lowest_curvature = 0.0
        self.record = Record(len(job.problem), job.stop, job.control)
        self._error = 0.0  # estimated error of the gradient by float32 kernel entries, at samples that may violate
        self._corrections = 0
        self._tightenings = 0

    def iterate(self) -> Status:
        """Improve working sets until the violation, by a float64 gradient, is within tol."""
        for iteration in itertools.count():
            self.violations = self.problem.violations(self.B, self.gradient)
            settled = self.violations.max() <= self.tol
            ended = self._ended()
            exact = self._error <= NEGLIGIBLE_VIOLATION * self.tol
            if settled and exact and self._close_enough():
                return Status.CONVERGED
            if ended is not None:
                return ended
            if settled and not exact:
                self._correct()
            elif not self._improve(self._choose(iteration)) or self.record.stalled:
                return self.control.ended() or Status.STALLED
        raise AssertionError("unreachable")

    def _close_enough(self) -> bool:
        """Whether the gap is small enough, or cannot be made smaller; if neither, `tol` is lowered for the next iterations."""
        relative_gap = self.record.relative_gap
        if self.stop.close(relative_gap) or self._tightenings == MOST_TIGHTENINGS:
            return True
        tol = self.stop.tighter(self.tol, float(self.violations.max()), relative_gap)
        if tol <= LEAST_TOLERANCE * float(self.gram.diagonal().max()) * float(np.abs(self.B).sum()):
            return True
        self._tightenings += 1
        self.tol = tol
        return False

    def _choose(self, seed: int) -> Indices:
        """The next working set: the violators; if there is room, the other samples with shares in several rows; then the samples
        nearest to becoming violators."""
        rng = np.random.default_rng(seed)
        clearance = self.problem.clearance(self.B, self.gradient)
        violating = self.violations > NEGLIGIBLE_VIOLATION * self.tol
        size = int(np.clip(SIZE_FACTOR * np.isneginf(clearance).sum(), SMALLEST, LARGEST))
        violators, others = np.flatnonzero(violating), rng.permutation(np.flatnonzero(~violating))
        if len(violators) >= size:
            chosen = np.append(rng.choice(violators, size - 1, replace=False), self.violations.argmax())
        else:
            nearest = np.argsort(clearance[others], kind="stable")[: size - len(violators)]
            chosen = np.append(violators, others[nearest])
        return np.unique(chosen).astype(np.int32)

    def _improve(self, members: Indices) -> bool:
        """Minimise over a working set; return whether any sample moved."""
        target = max(INNER_REDUCTION * float(self.violations.max()), LEAST_TARGET * self.tol)
        return self._minimise_over(members, target, STEPS_AT_ONCE)

    def polish(self) -> None:
        """Minimise over all samples to rounding, with a limit on the steps: Newton steps make this nearly free for few
        samples."""
        self._minimise_over(np.arange(len(self.problem), dtype=np.int32), POLISHED_VIOLATION, 10 * len(self.problem) + 100)
        self.violations = self.problem.violations(self.B, self.gradient)

    def _minimise_over(self, members: Indices, target: float, at_most: int) -> bool:
        part = Part(self.problem.restrict(members), self.B[:, members].copy(), self.gradient[:, members].copy())
        limit = Limit(self.control.steps_left(at_most), min(self.control.seconds_left, NEVER))
        result = self.backend.inner.solve_joint(self.gram.tile(members), part, target, limit)
        self.steps += result.steps
        self.control.steps += result.steps
        self.lowest_curvature = min(self.lowest_curvature, result.lowest_curvature)
        return self.move(members, part.beta)

    def move(self, members: Indices, after: Matrix) -> bool:
        """Move the samples `members` to `after`; return whether any of them moved."""
        change = after - self.B[:, members]
        moved = change.any(axis=0)
        self.gram.expect(members[moved])
        self.gram.accumulate(members[moved], change[:, moved], self.gradient)
        self.B[:, members] = after
        if self.gram.dtype == np.float32:
            self._error += FLOAT32_ENTRY * float(self.gram.diagonal().max()) * float(np.linalg.norm(change))
        return bool(moved.any())

    # --- from float32 to float64 ----------------------------------------------------------------------------------

    def _correct(self) -> None:
        """Recompute the gradient in float64 at the samples where rounding could hide a violation."""
        self._corrections += 1
        if self._corrections > MOST_CORRECTIONS:
            self.gram = self.gram.in_float64()
            self.gradient, support = self.problem.linear.copy(), self._support()
            self.gram.accumulate(support, self.B[:, support], self.gradient)
        else:
            clearance = self.problem.clearance(self.B, self.gradient)
            error = self._correct_at(clearance <= 2.0 * self.tol)
            self._correct_at((clearance > 2.0 * self.tol) & (clearance <= 2.0 * SAFETY * error))
        self._error = 0.0

    def _correct_at(self, near: NDArray[np.bool_]) -> float:
        """Recompute the gradient in float64 at the samples `near`; return the largest error of the old one."""
        at, support = np.flatnonzero(near).astype(np.int32), self._support()
        exact = self.gram.exact_sums(support, self.B[:, support], at).values + self.problem.linear[:, at]
        error = float(np.abs(exact - self.gradient[:, at]).max(initial=0.0))
        self.gradient[:, at] = exact
        return error

    def _support(self) -> Indices:
        return np.flatnonzero(self.B.any(axis=0)).astype(np.int32)

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def _ended(self) -> Status | None:
        """Record and report this iteration; return the reason to end, if there is one other than tol."""
        violation = float(self.violations.max())
        dual = self.problem.dual_value(self.B, self.gradient)
        gap = float(self.problem.gap_terms(self.B, self.gradient).sum())
        terms = float(np.vdot(np.abs(self.B), np.abs(self.gradient) + np.abs(self.problem.linear)))
        told = self.record.add(violation, dual, gap, terms, self.steps, self.tol)
        return Status.STALLED if self.record.astray and self.lowest_curvature >= 0.0 else told
