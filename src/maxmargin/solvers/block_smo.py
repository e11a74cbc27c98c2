"""The fast solver: decomposition on three levels, the lowest of them second-order SMO with Newton steps.

    repeat
        1. working set: the free variables, and violators drawn at random
        2. minimise over the working set, to a tenth of the present violation
        3. kernel rows of the variables that moved update the gradient of all
    until no variable violates the optimality conditions by more than tol

A small working set is a dense tile, minimised in one call of the backend, which says how large tiles are. Where kernel rows are
computed anew each time they are needed, step 3 costs the most by far, so the working set of a large problem is a
*pool* of many tiles, minimised over the pool alone; what its variables did to each other on the way there never reaches
the rest of the problem, only where they ended. Where entries are expensive, the kernel matrix of a pool is stored, and
the pool is one large tile, with room for all free variables; else it is minimised by this same loop. In step 3 the
matrix is told which variables end free: these will move again, and it may keep their rows.

A problem that fits into one tile is one tile.

**The end.** Where all violations are within tol but the relative gap is above gap_tol, which a large C can bring about, tol is
lowered and the loop goes on.

**Arithmetic.** Duals and gradients are float64. Kernel entries are float32 while that suffices: an entry off by e_ij
puts the gradient off by sum_j e_ij beta_j, so the error grows with |beta|, that is with C. Therefore, when a tile holds
all free variables and all violators, which is how a run ends, the gradient is computed anew in float64 at its members
(iterative refinement). The difference tells how large the error is: members of the tile are then exact, and the others
are on their side of the level by more than the error. If so many are close to it that they make no working set, the whole
iteration goes on in float64 from where it is. Where a random draw of the members shows that the error is negligible,
nothing is computed anew; the certificate, in float64 and from the samples alone, has the last word in any case.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import NEVER, Backend, Limit, MeasuredViolation, Part, Point, Violation
from maxmargin.backends.point import add_to_gradient, support_of
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.rounding import (
    FLOAT32_ENTRY,
    LEAST_TOLERANCE,
    NEGATIVE_CURVATURE,
    POLISHED_VIOLATION,
    ROUNDED_ENTRY,
    TINY,
    rounding_of_gradient,
)
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers.job import Job
from maxmargin.solvers.record import Record
from maxmargin.solvers.separability import hulls_meet

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

MOST_POLISHED = 1536  # variables of a problem that is one tile in float64, where polishing the solution costs next to nothing
POOL_SHARE = 0.125  # size of a pool, as a share of all variables
POOL_SHARE_IF_STORED = 0.3  # the same share where entries are expensive and the kernel matrix of a pool is stored
POOL_PER_FREE = 2.0  # least size of a pool that is stored, in units of the number of free variables: it should hold all of them
EXTRA_SHARE = 0.5  # variables added to a complete working set, as a share of it: those most likely to become violators next
EXTRA_SHARE_OF_POOL = 100.0  # the same share for a pool: in effect no limit but the pool's own size
EXTRA_SHARE_IF_CACHED = 0.05  # the same share where kernel rows are cached, so that another iteration costs little
CORRECTION_RANGE = 500.0  # gradients are corrected in float64 once the violation is below this many times tol
CHECKED_MEMBERS = 64  # members of a working set whose gradient is compared with the float64 one
MOST_CORRECTIONS = 6  # corrections of a float32 run before it goes on in float64
INNER_REDUCTION = 0.1  # factor by which one inner solve reduces the violation
LAST_REDUCTION = 0.01  # further factor for an inner solve that is likely to be the last one
FAST_FALL = 0.3  # a violation below this share of the one before shows that the end is near
NEGLIGIBLE_VIOLATION = 0.25  # share of tol: a variable on the wrong side by less is not a violator
SAFETY = 4.0  # factor on the largest rounding error of the gradient that was seen
SAMPLES_FOR_START = 256  # samples of each group that stand for all of it in the search for a start
PROBE_SIZE = 256  # variables of the first tile, on which the time per kernel entry is measured
SHARE_OF_TIME = 0.5  # share of the remaining time that the kernel matrix of one tile may take
MOST_TIGHTENINGS = 12  # times that tol is lowered because the gap is too large


def solve(job: Job) -> Solution:
    problem, gram = job.problem, job.gram
    beta = _start(problem, gram) if job.start is None else problem.feasible(job.start)
    near, gradient = (np.zeros(len(problem)), problem.linear) if job.known is None else job.known
    point = job.backend.place(problem, gram, near.copy(), gradient.copy())
    point.move(np.arange(len(problem), dtype=np.int32), beta)
    run = _Run(point, job.backend, job.stop, job.control)
    if gram.is_tile and problem.shift is None:
        status = _solve_whole(run)
    elif len(problem) <= MOST_POLISHED and gram.dtype == np.float64:
        status = _solve_one_tile(run, POLISHED_VIOLATION if np.isfinite(job.stop.tol) else None)
    else:
        status = run.iterate()
    run.point.gram.release()
    if run.indefinite and status is Status.CONVERGED:
        status = Status.STATIONARY
    end = run.point.collect()
    found = end.beta, end.gradient, status, run.violation.value, run.steps, run.record.trace
    return Solution(*found, f"{run.point.gram.dtype} kernel", run.point.up_to_date)


def _start(problem: DualProblem, gram: Gram) -> Vector:
    """The point to begin from. In problems with sums to keep, many variables end at a bound. A step of Frank and Wolfe's method
    from a few samples, which stand for all, tells which."""
    if problem.start is None:
        return np.zeros(len(problem))
    if len(problem) <= MOST_POLISHED:
        return problem.start.copy()
    rng = np.random.default_rng(0)
    few = [
        rng.permutation(np.arange(g.start, g.stop, dtype=np.int32)[problem.upper[g] > problem.lower[g]])[:SAMPLES_FOR_START]
        for g in problem.groups
    ]
    totals = [problem.start[g].sum() for g in problem.groups]
    weights = [np.full(len(some), total / max(len(some), 1)) for some, total in zip(few, totals, strict=True)]
    gradient = problem.linear.copy()
    gram.accumulate(np.concatenate(few), np.concatenate(weights)[None], gradient[None])
    return problem.vertex(gradient)


def _solve_whole(run: _Run) -> Status:
    """Minimise over all variables at once, with the whole kernel matrix in memory: in float32 as long as rounding errors stay
    below tol, else in float64."""
    tol = run.stop.tol
    error = max(ROUNDED_ENTRY * run.largest_diagonal, TINY)
    largest_norm = INNER_REDUCTION * tol / error  # of beta, for float32
    if run.point.gram.dtype == np.float32 and run.norm() <= largest_norm:
        run.tol = (1.0 - INNER_REDUCTION) * tol
        status = _solve_one_tile(run)
        if not status.converged or (run.norm() <= largest_norm and run.tol >= 0.5 * tol):
            return status
    if run.point.gram.dtype == np.float32:
        run.point = run.point.in_float64()
    run.tol = min(run.tol, tol)
    return _solve_one_tile(run)


def _solve_one_tile(run: _Run, polish: float | None = None) -> Status:
    """Minimise over all variables at once to tol, then to `polish` if it is given: Newton steps make that nearly free on a small
    tile."""
    everything = np.arange(len(run.problem), dtype=np.int32)
    tile = run.point.gram.tile(everything, run.problem.shift)
    part = run.point.take(everything)
    while True:
        steps = run.minimise(tile, part, run.tol)
        if run.unbounded:
            return Status.UNBOUNDED
        run.put(everything, part)
        if polish is not None and run.violation.value <= run.tol:
            better, rounding = part.copy(), rounding_of_gradient(part.beta, run.point.gram.diagonal())
            run.minimise(tile, better, max(polish, rounding), 10 * len(everything) + 100)
            run.put(everything, better)
            if run.violation.value > run.tol:  # the violation does not fall with every step, and the steps ran out too early
                run.put(everything, part)
            else:
                part = better
            polish = None
        ended, within = run.ended(), run.violation.value <= run.tol
        if within and ended is not Status.NOT_SEPARABLE and run.close_enough():
            return Status.CONVERGED
        if ended is not None:
            return ended
        if not within and (steps == 0 or run.record.stalled):
            return run.control.ended() or Status.STALLED


def solve_small(jobs: Sequence[Job]) -> dict[int, Solution]:
    """Solve the problems that fit into one tile each, side by side; the jobs differ in problem, kernel matrix and start only. The
    solutions are returned by the number of the job; one that needs the full solver has the status STOPPED_BY_OPTION, or is
    missing. The gap is not looked at.

    A float32 tile suffices where rounding errors stay below tol: its entries are off by FLOAT32_ENTRY, independently, so the
    gradient is off by about FLOAT32_ENTRY |beta|.
    """
    stop, control, inner = jobs[0].stop, jobs[0].control, jobs[0].backend.inner
    small = [i for i, job in enumerate(jobs) if len(job.problem) <= inner.largest_tile and job.problem.starts_at_zero]
    if not small or not np.isfinite(stop.tol):
        return {}
    grams = [jobs[i].gram for i in small]
    exact = grams[0].dtype == np.float64
    negligible = inner.last_share * stop.tol  # an error of the gradient by rounding
    tolerance = stop.tol if exact else negligible if len(small) == 1 else inner.last_share_of_several * stop.tol
    joined = DualProblem.join([jobs[i].problem for i in small])
    ends = list(itertools.accumulate(len(jobs[i].problem) for i in small))
    parts = [slice(*part) for part in itertools.pairwise([0, *ends])]
    beta, gradient = np.zeros(len(joined)), joined.linear.copy()
    for i, part in zip(small, parts, strict=True):
        if jobs[i].start is not None:
            beta[part] = jobs[i].problem.feasible(jobs[i].start)
            support = support_of(beta[part])
            add_to_gradient(jobs[i].problem, jobs[i].gram, gradient[part], support, beta[part][support])
    results = inner.solve_each(
        grams,
        Part(joined, beta, gradient),
        ends,
        tolerance,
        POLISHED_VIOLATION if exact else tolerance,
        Limit(control.steps_left(inner.steps_at_once), min(control.seconds_left, NEVER)),
    )
    arithmetic, unit = "float64 kernel", 0.0
    if not exact:
        arithmetic, unit = "float32 kernel", FLOAT32_ENTRY * float(grams[0].diagonal().max())
    solutions = {}
    for i, result, part in zip(small, results, parts, strict=True):
        control.steps += result.steps
        if result.lowest_curvature < -NEGATIVE_CURVATURE:
            continue
        done = result.violation <= stop.tol and (exact or unit * float(np.linalg.norm(beta[part])) <= negligible)
        status = Status.CONVERGED if done else Status.STOPPED_BY_OPTION
        solutions[i] = Solution(beta[part], gradient[part], status, result.violation, result.steps, Trace(), arithmetic)
    return solutions


class _Run:
    """One run: the point that it moves, and what it has observed so far. Without a `stop` it is a run over a pool, to `tol`."""

    def __init__(self, point: Point, backend: Backend, stop: Stop | None, control: Control, tol: float | None = None) -> None:
        self.point, self.backend, self.control = point, backend, control
        self.problem = point.problem
        self.whole, self.stop = stop is not None, stop or Stop(np.inf if tol is None else tol, None)
        self.tol = self.stop.tol
        self.steps = 0
        self.lowest_curvature = 0.0
        self.record = Record(len(point.problem), self.stop, control)
        self.violation: Violation = MeasuredViolation(np.inf, (), 0)
        self._last_violation = np.inf
        self._corrections = 0
        self._tightenings = 0
        self._entry_seconds: float | None = None
        gram = point.gram
        self._exact = gram.dtype == np.float64  # whether the gradient is exact where it decides anything
        self._inner = backend.inner
        self._uses_pools = self.whole and self._inner.uses_pools and gram.n_samples > 4 * self._inner.tile

    # --- the loop -------------------------------------------------------------------------------------------------

    def iterate(self) -> Status:
        """Improve working sets until the violation is within tol and the gap within gap_tol. A run over the whole problem is
        recorded and reported, and ends with an exact gradient; one over a pool is not."""
        for iteration in itertools.count():
            self.measure()
            ended = self.ended() if self.whole else self.control.ended()
            within = self.violation.value <= self.tol and (self._exact or not self.whole)
            if within and ended is not Status.NOT_SEPARABLE and (not self.whole or self.close_enough()):
                return Status.CONVERGED
            if ended is not None:
                return ended
            members, complete = self._working_set(iteration)
            near = self.violation.value <= (CORRECTION_RANGE * self.tol if complete else self.tol)
            if near and self.whole and not self._exact:
                moved = self._correct(members, complete, iteration)
            else:
                moved = self._improve(members, self._target(members, complete))
            if self.unbounded:
                return Status.UNBOUNDED
            if not self.point.up_to_date:
                return Status.MAX_SECONDS
            if not moved or self.record.stalled:
                return self.control.ended() or Status.STALLED
        raise AssertionError("unreachable")

    def close_enough(self) -> bool:
        """Whether the gap is small enough, or cannot be made smaller; if neither, `tol` is lowered for the next iterations."""
        if self.stop.close(self.record.relative_gap) or self.indefinite or self._tightenings == MOST_TIGHTENINGS:
            return True
        tol = self.stop.tighter(self.tol, self.violation.value, self.record.relative_gap)
        if tol <= LEAST_TOLERANCE * self.largest_diagonal * self.point.sums().mass:
            return True
        self._tightenings += 1
        self.tol = tol
        return False

    def _tile_size(self) -> int:
        """The size of the next tile: room for all free variables and as many others, as far as possible, because a tile with only
        some of many free variables takes very many small steps."""
        return self._affordable(min(max(self._inner.tile, 2 * self.violation.n_free), self._inner.largest_tile))

    def _pool_size(self) -> int:
        gram, n_free = self.point.gram, self.violation.n_free
        size = max(2.0 * self._inner.tile, POOL_SHARE * gram.n_samples)
        if self._stores_pools:
            size = max(2.0 * self._inner.tile, POOL_PER_FREE * n_free, POOL_SHARE_IF_STORED * gram.n_samples * gram.expensive)
            size = min(size, gram.largest_pool)
        return self._affordable(int(size))

    @property
    def _stores_pools(self) -> bool:
        """Whether the kernel matrix of a pool is stored: where entries are expensive; and where there are so many free variables
        that a tile cannot hold them, and moving them in parts would take very many steps."""
        gram = self.point.gram
        return gram.largest_pool >= 2 * self._inner.tile and (
            gram.expensive or POOL_PER_FREE * self.violation.n_free > self._inner.largest_tile
        )

    def _affordable(self, size: int) -> int:
        """The given size of a working set, or a smaller one: there must be memory for its samples, and time for its kernel
        matrix."""
        size = int(min(size, self.point.gram.most_members))
        if not self.control.limits_seconds:
            return size
        if self._entry_seconds is None:
            self._fill_tile(np.arange(min(PROBE_SIZE, len(self.problem)), dtype=np.int32), None)
        assert self._entry_seconds is not None
        affordable = np.sqrt(SHARE_OF_TIME * self.control.seconds_left / max(self._entry_seconds, TINY))
        return int(min(size, max(affordable, PROBE_SIZE)))

    def _choose(self, size: int, seed: int, extra_share: float) -> tuple[Indices, bool]:
        return self.point.choose(self.violation, NEGLIGIBLE_VIOLATION * self.tol, size, extra_share, seed)

    def _target(self, members: Indices, complete: bool = False) -> float:
        """The violation to which a working set is minimised. A working set is likely to be the last one if it holds all free
        variables and violators, most of its members are free, and the violation has just fallen fast."""
        last = complete and 2 * self.violation.n_free >= len(members) and self.violation.value <= FAST_FALL * self._last_violation
        reduction = INNER_REDUCTION * (LAST_REDUCTION if last else 1.0)
        return max(self._inner.last_share * self.tol, reduction * self.violation.value)

    def _working_set(self, iteration: int) -> tuple[Indices, bool]:
        extra_share = EXTRA_SHARE_IF_CACHED if self.point.gram.remembers else EXTRA_SHARE
        members, complete = self._choose(self._tile_size(), iteration, extra_share)
        # Of the first working set, drawn blindly, most variables end at zero. Where rows are kept, a small one loses nothing.
        first = iteration == 0 and self.point.gram.remembers
        if complete or first or not self._uses_pools:
            return members, complete
        return self._choose(self._pool_size(), iteration, EXTRA_SHARE_OF_POOL)

    def _improve(self, members: Indices, target: float) -> bool:
        """Minimise over a working set: a tile, or a pool if it is larger; return whether any variable moved."""
        part = self.point.take(members)
        self._minimise_over(members, part, target)
        return not self.unbounded and self._move(members, part)

    def _minimise_over(self, members: Indices, part: Part, target: float) -> None:
        """Minimise over a working set, given as `part`, in place. A pool whose kernel matrix is stored is one large tile; another
        is minimised by this same loop."""
        if len(members) <= self._inner.largest_tile or not self._uses_pools:
            self.minimise(self._fill_tile(members, part.problem.shift), part, target)
            return
        point = self.point.pool(members, part, self._stores_pools and len(members) <= self.point.gram.largest_pool)
        if point.gram.is_tile:  # stored
            everything = np.arange(len(members), dtype=np.int32)
            self.minimise(point.gram.tile(everything, part.problem.shift), part, target)
            return
        pool = _Run(point, self.backend, None, self.control, target)
        pool.iterate()
        self.steps += pool.steps
        self.lowest_curvature = min(self.lowest_curvature, pool.lowest_curvature)

    def _fill_tile(self, members: Indices, shift: Vector | None) -> object:
        begun = time.perf_counter()
        tile = self.point.gram.tile(members, shift)
        if self.control.limits_seconds:
            self._entry_seconds = (time.perf_counter() - begun) / len(members) ** 2
        return tile

    def _correct(self, members: Indices, complete: bool, iteration: int) -> bool:
        """Make sure that rounding hides no violation: compare the gradient with the float64 one at some of the members. If the
        difference is negligible, float32 suffices, and the run ends here if the violation is within tol by more than twice that.

        Else, one step of iterative refinement: the gradient is computed anew in float64 at all free variables and violators, and
        at all others that may be on the wrong side of the level, and the objective is minimised over these. Float32 entries are
        good enough for this: they put the gradient off by their error times the change, which is small. If these variables are
        too many, the run goes on in float64.
        """
        if not self._has_time_for(2 * len(members) * self.point.sums().n_support):
            self.point.up_to_date = False
            return True
        some = np.random.default_rng(iteration).choice(members, min(CHECKED_MEMBERS, len(members)), replace=False)
        error = float(np.abs(self.point.exact(some) - self.point.take(some).gradient).max(initial=0.0))
        if error <= NEGLIGIBLE_VIOLATION * self.tol:
            self._exact = self.violation.value + 2.0 * error <= self.tol
            return self._exact or self._improve(members, self._target(members, complete))
        self._corrections += 1
        most = self._pool_size() if self._uses_pools else self._inner.largest_tile
        members, complete = self._choose(most, iteration, 0.0 if self._uses_pools else EXTRA_SHARE)
        members = self.point.band(members, self.violation, 2.0 * (self.tol + SAFETY * error))
        if not complete or len(members) > most or self._corrections > MOST_CORRECTIONS:
            self.point, self._exact = self.point.in_float64(), True
            return True
        part = replace(self.point.take(members), gradient=self.point.exact(members))
        before = part.beta.copy()
        self._minimise_over(members, part, max(self._inner.last_share * self.tol, INNER_REDUCTION**2 * self.violation.value))
        self._move(members, part)
        self.point.correct(members, part.gradient)
        off = FLOAT32_ENTRY * float(np.linalg.norm(part.beta - before)) * self.largest_diagonal
        self._exact = off <= NEGLIGIBLE_VIOLATION * self.tol
        return True

    def minimise(self, tile: object, part: Part, tolerance: float, at_most: int | None = None) -> int:
        """Solve a tile in place; return the number of steps."""
        limit = Limit(self.control.steps_left(at_most or self._inner.steps_at_once), min(self.control.seconds_left, NEVER))
        result = self._inner.solve(tile, part, tolerance, limit)
        self.steps += result.steps
        self.control.steps += result.steps
        self.lowest_curvature = min(self.lowest_curvature, result.lowest_curvature)
        return result.steps

    def put(self, members: Indices, part: Part) -> None:
        """Replace duals and gradient of all variables, after they were minimised together, and measure the point."""
        self.point.move(members, part.beta, propagate=False)
        self.point.correct(members, part.gradient)
        self.measure()

    def _move(self, members: Indices, part: Part) -> bool:
        n_moved = np.count_nonzero(part.beta != self.point.take(members).beta) if self.control.limits_seconds else 0
        has_time = self._has_time_for(int(n_moved) * self.point.gram.n_samples)
        moved = self.point.move(members, part.beta, has_time, part.gradient)
        self.point.up_to_date = has_time or not moved
        self._exact = (self._exact and not moved) or self.point.gram.dtype == np.float64
        return moved

    def _has_time_for(self, entries: int) -> bool:
        """Whether `entries` kernel entries can be computed in the remaining time."""
        return self._entry_seconds is None or entries * self._entry_seconds <= self.control.seconds_left

    # --- what the run knows ---------------------------------------------------------------------------------------

    @property
    def indefinite(self) -> bool:
        """Whether the run has met negative curvature: then the kernel is not positive semi-definite."""
        return self.lowest_curvature < -NEGATIVE_CURVATURE

    @property
    def unbounded(self) -> bool:
        """Whether the objective has no lower bound: the run has met negative curvature, and some box is infinite."""
        return self.indefinite and not self.problem.bounded

    @cached_property
    def largest_diagonal(self) -> float:
        return float(self.point.gram.diagonal().max())

    def norm(self) -> float:
        """The Euclidean norm of the duals."""
        return float(np.linalg.norm(self.point.collect().beta))

    def measure(self) -> None:
        self._last_violation = self.violation.value
        self.violation = self.point.measure()

    def ended(self) -> Status | None:
        """Record and report this iteration; return the reason to end, if there is one other than tol and gap_tol."""
        sums, gap = self.point.sums(), self.point.gap(self.violation)
        told = self.record.add(self.violation.value, sums.dual, gap, sums.terms, self.steps, self.tol)
        if self.record.astray and not self.indefinite:
            return Status.STALLED
        if self.problem.hard and hulls_meet(self.problem, sums, self.largest_diagonal):
            return Status.NOT_SEPARABLE
        return told
