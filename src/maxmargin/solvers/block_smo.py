"""The fast solver: decomposition on three levels, the lowest of them second-order SMO with Newton steps.

    repeat
        1. working set: the free variables, and violators drawn at random
        2. minimise over the working set, to a tenth of the present violation
        3. kernel rows of the variables that moved update the gradient of all
    until no variable violates the optimality conditions by more than tol

A working set of at most TILE variables is a dense tile, minimised in one call of the backend. Where kernel rows are
computed anew each time they are needed, step 3 costs the most by far, so the working set of a large problem is a
*pool* of many tiles, minimised by this same loop over the pool alone; what its variables did to each other on the way
there never reaches the rest of the problem, only where they ended.

A problem that fits into one tile is one tile.

**The end.** Where all violations are within tol but the relative gap is above gap_tol, which a large C can bring about, tol is
lowered and the loop goes on.

**Arithmetic.** Duals and gradients are float64. Kernel entries are float32 while that suffices: an entry off by e_ij
puts the gradient off by sum_j e_ij beta_j, so the error grows with |beta|, that is with C. Therefore, when a tile holds
all free variables and all violators, which is how a run ends, the gradient is computed anew in float64 at its members
(iterative refinement). The difference tells how large the error is: members of the tile are then exact, and the others
are on their side of the level by more than the error. If so many are close to it that they make no tile, the whole
iteration goes on in float64 from where it is.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import NEVER, Backend, Limit, MeasuredViolation, Violation
from maxmargin.control import Control, Stop, fraction_done
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers.record import STEPS_AT_ONCE, Record
from maxmargin.solvers.separability import hulls_meet

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

TILE = 1536  # variables of a working set that is one tile
POOL_SHARE = 0.125  # size of a pool, as a share of all variables
EXTRA_SHARE = 0.5  # variables added to a complete working set, as a share of it: those most likely to become violators next
EXTRA_SHARE_OF_POOL = 100.0  # the same share for a pool: in effect no limit but the pool's own size
EXTRA_SHARE_IF_CACHED = 0.05  # the same share where kernel rows are cached, so that another iteration costs little
LARGEST_TILE = 3072  # variables of the tile that ends a float32 run, with those that rounding may have misplaced
CORRECTION_RANGE = 500.0  # gradients are corrected in float64 once the violation is below this many times tol
MOST_CORRECTIONS = 6  # corrections of a float32 run before it goes on in float64
INNER_REDUCTION = 0.1  # factor by which one inner solve reduces the violation
LAST_REDUCTION = 0.01  # further factor for an inner solve that is likely to be the last one
FAST_FALL = 0.3  # a violation below this share of the one before shows that the end is near
NEGLIGIBLE_VIOLATION = 0.25  # share of tol: a variable on the wrong side by less is not a violator
SAFETY = 4.0  # factor on the largest rounding error of the gradient that was seen
POLISHED_VIOLATION = 1e-12  # violation to which a single float64 tile is solved
KERNEL_ROUNDING = 2.0**-22  # rounding error of a float32 kernel entry, relative to the diagonal
ENTRY_ROUNDING = 2.0**-24  # rounding error of an entry computed in float64 and then rounded: four standard deviations
SAMPLES_FOR_START = 256  # samples of each group that stand for all of it in the search for a start
TINY = float(np.finfo(float).tiny)
PROBE_SIZE = 256  # variables of the first tile, on which the time per kernel entry is measured
SHARE_OF_TIME = 0.5  # share of the remaining time that the kernel matrix of one tile may take
MOST_TIGHTENINGS = 12  # times that tol is lowered because the gap is too large
LEAST_TOLERANCE = 1e-15  # smallest tolerance, relative to the terms of a gradient: smaller differences are rounding
NEGATIVE_CURVATURE = 1e-6  # relative negative curvature that rounding does not explain


def solve(
    problem: DualProblem,
    gram: Gram,
    backend: Backend,
    stop: Stop,
    control: Control,
    start: Vector | None = None,
    known: tuple[Vector, Vector] | None = None,
) -> Solution:
    """Minimise `problem` over the kernel matrix `gram` from `start` (None: from the problem's own start). `known` is a point near
    the start and the gradient at that point; by default the point is zero, where the gradient is the linear term."""
    if start is not None:
        beta = problem.feasible(start)
    elif problem.start is None:
        beta = np.zeros(len(problem))
    else:
        beta = problem.start.copy() if len(problem) <= TILE else _promising_start(problem, problem.start, gram)
    point, gradient = (np.zeros(len(problem)), problem.linear) if known is None else known
    run = _Run(problem, gram, backend, stop.tol, control, beta, gradient.copy())
    run.add_to_gradient(*_support(beta - point))
    if gram.is_tile and problem.shift is None:
        status = _solve_whole(run, stop)
    elif len(problem) <= TILE and gram.dtype == np.float64:
        status = _solve_one_tile(run, stop, POLISHED_VIOLATION if np.isfinite(stop.tol) else None)
    else:
        status = run.iterate(stop)
    run.gram.release()
    if run.indefinite and status is Status.CONVERGED:
        status = Status.STATIONARY
    found = run.beta, run.gradient, status, run.violation.value, run.steps, run.record.trace
    return Solution(*found, f"{run.gram.dtype} kernel", run.up_to_date)


def _promising_start(problem: DualProblem, start: Vector, gram: Gram) -> Vector:
    """The point to which a step of Frank and Wolfe's method leads from a few samples that stand for all. In problems with sums to
    keep, many variables end at a bound; this step tells which."""
    rng = np.random.default_rng(0)
    few = [
        rng.permutation(np.arange(g.start, g.stop, dtype=np.int32)[problem.upper[g] > problem.lower[g]])[:SAMPLES_FOR_START]
        for g in problem.groups
    ]
    weights = [np.full(len(some), start[g].sum() / max(len(some), 1)) for some, g in zip(few, problem.groups, strict=True)]
    gradient = problem.linear.copy()
    gram.accumulate(np.concatenate(few), np.concatenate(weights), gradient)
    return problem.vertex(gradient)


def _solve_whole(run: _Run, stop: Stop) -> Status:
    """Minimise over all variables at once, with the whole kernel matrix in memory: in float32 as long as rounding errors stay
    below tol, else in float64."""
    error = max(ENTRY_ROUNDING * run.gram.largest_diagonal(), TINY)
    largest_norm = INNER_REDUCTION * stop.tol / error  # of beta, for float32
    if run.gram.dtype == np.float32 and np.linalg.norm(run.beta) <= largest_norm:
        run.tol = (1.0 - INNER_REDUCTION) * stop.tol
        status = _solve_one_tile(run, stop)
        if not status.converged or (np.linalg.norm(run.beta) <= largest_norm and run.tol >= 0.5 * stop.tol):
            return status
    if run.gram.dtype == np.float32:
        run.go_on_in_float64()
    run.tol = min(run.tol, stop.tol)
    return _solve_one_tile(run, stop)


def _solve_one_tile(run: _Run, stop: Stop, polish: float | None = None) -> Status:
    """Minimise over all variables at once to tol, then to `polish` if it is given: Newton steps make that nearly free on a small
    tile."""
    everything = np.arange(len(run.problem), dtype=np.int32)
    tile = run.gram.tile(everything, run.problem.shift)
    for iteration in itertools.count():
        before = run.beta.copy(), run.gradient.copy()
        steps = run.minimise_tile(tile, run.problem, run.beta, run.gradient, run.tol)
        if run.unbounded:
            run.beta, run.gradient = before
            return Status.UNBOUNDED
        run.measure()
        if polish is not None and run.violation.value <= run.tol:
            _polish(run, tile, polish)
            polish = None
        ended, within = run.ended(iteration, stop), run.violation.value <= run.tol
        if within and ended is not Status.NOT_SEPARABLE and run.close_enough(stop):
            return Status.CONVERGED
        if ended is not None:
            return ended
        if not within and (steps == 0 or run.record.stalled):
            return run.control.ended() or Status.STALLED
    raise AssertionError("unreachable")


def _polish(run: _Run, tile: object, tolerance: float) -> None:
    before = run.beta.copy(), run.gradient.copy(), run.violation
    run.minimise_tile(tile, run.problem, run.beta, run.gradient, tolerance, 10 * len(run.problem) + 100)
    run.measure()
    if run.violation.value > run.tol:  # the violation does not fall with every step, and the steps ran out too early
        run.beta, run.gradient, run.violation = before


def solve_small(
    problems: Sequence[DualProblem],
    grams: Sequence[Gram],
    backend: Backend,
    stop: Stop,
    control: Control,
    starts: Sequence[Vector] | None = None,
) -> dict[int, Solution]:
    """Solve the problems that fit into one tile each, side by side, from `starts` or from zero. The solutions are returned by the
    number of the problem; one that needs the full solver has the status STOPPED_BY_OPTION, or is missing.

    A float32 tile suffices where rounding errors stay below tol: its entries are off by KERNEL_ROUNDING, independently, so the
    gradient is off by about KERNEL_ROUNDING |beta|.
    """
    small = [i for i, problem in enumerate(problems) if len(problem) <= LARGEST_TILE and _batchable(problem)]
    if not small or not np.isfinite(stop.tol):
        return {}
    exact = grams[0].dtype == np.float64
    tolerance = stop.tol if exact else INNER_REDUCTION * stop.tol
    joined = DualProblem.join([problems[i] for i in small])
    ends = np.cumsum([len(problems[i]) for i in small])
    beta, gradient = np.zeros(len(joined)), joined.linear.copy()
    if starts is not None:
        for i, part in zip(small, _parts(ends), strict=True):
            beta[part] = problems[i].feasible(starts[i])
            add_to_gradient(problems[i], grams[i], gradient[part], *_support(beta[part]))
    results = backend.solve_tiles(
        [grams[i] for i in small],
        joined,
        ends,
        beta,
        gradient,
        tolerance,
        POLISHED_VIOLATION if exact else tolerance,
        Limit(control.steps_left(STEPS_AT_ONCE), min(control.seconds_left, NEVER)),
    )
    firsts = ends - np.diff(ends, prepend=0)
    levels = np.repeat([result.level for result in results], ends - firsts)
    with np.errstate(over="ignore", invalid="ignore"):  # an unbounded problem is left to the full solver
        gaps = np.add.reduceat(joined.gap_terms(beta, gradient, levels), firsts)
        duals = -0.5 * np.add.reduceat(beta * (gradient + joined.linear), firsts)
        norms = np.sqrt(np.add.reduceat(beta**2, firsts))
    settled = exact | (KERNEL_ROUNDING * norms * grams[0].largest_diagonal() <= tolerance)
    solutions = {}
    arithmetic = f"{grams[0].dtype} kernel"
    for k, (i, result, part) in enumerate(zip(small, results, _parts(ends), strict=True)):
        control.steps += result.steps
        trace = Trace()
        trace.append(control.seconds, 0, result.violation, float(duals[k]), float(gaps[k]))
        if result.lowest_curvature < -NEGATIVE_CURVATURE:
            continue
        done = result.violation <= stop.tol and settled[k] and stop.close(trace.relative_gap())
        status = Status.CONVERGED if done else Status.STOPPED_BY_OPTION
        solutions[i] = Solution(beta[part], gradient[part], status, result.violation, result.steps, trace, arithmetic)
    return solutions


def _parts(ends: NDArray[np.intp]) -> list[slice]:
    return [slice(*part) for part in itertools.pairwise([0, *ends.tolist()])]


def _support(beta: Vector) -> tuple[Indices, Vector]:
    """The variables that are not zero, and their values."""
    support = np.flatnonzero(beta).astype(np.int32)
    return support, beta[support]


def add_to_gradient(problem: DualProblem, gram: Gram, gradient: Vector, rows: Indices, change: Vector) -> None:
    """Add to `gradient` what a change of the variables `rows` does to it."""
    if not len(rows):
        return
    gram.accumulate(rows, change, gradient)
    if problem.shift is not None:
        gradient[rows] += problem.shift[rows] * change


def _batchable(problem: DualProblem) -> bool:
    return not problem.hard and problem.split is None and problem.start is None


class _Run:
    """The state of one run: the point beta, the gradient there, and what the run has observed so far."""

    def __init__(
        self,
        problem: DualProblem,
        gram: Gram,
        backend: Backend,
        tol: float,
        control: Control,
        beta: Vector,
        gradient: Vector,
        pools: bool = True,
    ) -> None:
        self.problem, self.gram, self.backend, self.control = problem, gram, backend, control
        self.tol = tol
        self.beta, self.gradient = beta, gradient
        self.up_to_date = True
        self.steps = 0
        self.lowest_curvature = 0.0
        self.record = Record(len(problem))
        self.violation: Violation = MeasuredViolation(np.inf, (), 0)
        self.relative_gap = np.inf
        self._last_violation = np.inf
        self._worst_violation = 0.0
        self._corrections = 0
        self._tightenings = 0
        self._entry_seconds: float | None = None
        self._exact = gram.dtype == np.float64  # whether the gradient is exact where it decides anything
        n = gram.n_samples
        self._pool_size = max(2 * TILE, int(POOL_SHARE * n)) if pools and n > 4 * TILE and not gram.remembers else 0

    # --- the loop -------------------------------------------------------------------------------------------------

    def iterate(self, stop: Stop | None = None) -> Status:
        """Improve working sets until the violation is within tol and the gap within gap_tol. With a `stop` this run is the whole
        problem: its iterations are recorded and reported, and it ends with an exact gradient. Without one it is a pool."""
        for iteration in itertools.count():
            self.measure()
            ended = self.control.ended() if stop is None else self.ended(iteration, stop)
            within = self.violation.value <= self.tol and (stop is None or self._exact)
            if within and ended is not Status.NOT_SEPARABLE and (stop is None or self.close_enough(stop)):
                return Status.CONVERGED
            if ended is not None:
                return ended
            extra_share = EXTRA_SHARE_IF_CACHED if self.gram.remembers else EXTRA_SHARE
            members, complete = self._choose(self._tile_size(), iteration, extra_share)
            near = self.violation.value <= (CORRECTION_RANGE * self.tol if complete else self.tol)
            if near and stop is not None and not self._exact:
                moved = self._correct(members, complete)
            elif complete or not self._pool_size:
                moved = self._improve_tile(members, self._target(members, complete))
            else:
                moved = self._improve_pool(self._choose(self._pool_size, iteration, EXTRA_SHARE_OF_POOL)[0])
            if self.unbounded:
                return Status.UNBOUNDED
            if not self.up_to_date:
                return Status.MAX_SECONDS
            if not moved or self.record.stalled:
                return self.control.ended() or Status.STALLED
        raise AssertionError("unreachable")

    def close_enough(self, stop: Stop) -> bool:
        """Whether the gap is small enough, or cannot be made smaller; if neither, `tol` is lowered for the next iterations."""
        if stop.close(self.relative_gap) or self.indefinite or self._tightenings == MOST_TIGHTENINGS:
            return True
        tol = stop.tighter(self.tol, self.violation.value, self.relative_gap)
        if tol <= LEAST_TOLERANCE * self.gram.largest_diagonal() * float(np.abs(self.beta).sum()):
            return True
        self._tightenings += 1
        self.tol = tol
        return False

    def _tile_size(self) -> int:
        """The size of the next tile: room for all free variables and as many others, as far as possible, because a tile with only
        some of many free variables takes very many small steps; but no larger than the remaining time allows."""
        size = min(max(TILE, 2 * self.violation.n_free), LARGEST_TILE)
        if not self.control.limits_seconds:
            return size
        if self._entry_seconds is None:
            self._fill_tile(np.arange(min(PROBE_SIZE, len(self.problem)), dtype=np.int32), None)
        assert self._entry_seconds is not None
        affordable = np.sqrt(SHARE_OF_TIME * self.control.seconds_left / max(self._entry_seconds, TINY))
        return int(min(size, max(affordable, PROBE_SIZE)))

    def _choose(self, size: int, seed: int, extra_share: float) -> tuple[Indices, bool]:
        return self.backend.choose_working_set(
            self.problem, self.beta, self.gradient, self.violation, NEGLIGIBLE_VIOLATION * self.tol, size, extra_share, seed
        )

    def _target(self, members: Indices, complete: bool = False) -> float:
        """The violation to which a working set is minimised. A working set is likely to be the last one if it holds all free
        variables and violators, most of its members are free, and the violation has just fallen fast."""
        last = complete and 2 * self.violation.n_free >= len(members) and self.violation.value <= FAST_FALL * self._last_violation
        return INNER_REDUCTION * max(self.tol, (LAST_REDUCTION if last else 1.0) * self.violation.value)

    def _improve_tile(self, members: Indices, target: float) -> bool:
        """Minimise over a dense tile; return whether any variable moved."""
        problem = self.problem.restrict(members)
        beta, gradient = self.beta[members], self.gradient[members]
        self.minimise_tile(self._fill_tile(members, problem.shift), problem, beta, gradient, target)
        return not self.unbounded and self._move(members, beta)

    def _fill_tile(self, members: Indices, shift: Vector | None) -> object:
        if not self.control.limits_seconds:
            return self.gram.tile(members, shift)
        begun = time.perf_counter()
        tile = self.gram.tile(members, shift)
        self._entry_seconds = (time.perf_counter() - begun) / len(members) ** 2
        return tile

    def _improve_pool(self, members: Indices) -> bool:
        """Minimise over a pool, by the same loop over its members alone; return whether any variable moved."""
        pool = _Run(
            self.problem.restrict(members),
            self.gram.subset(members),
            self.backend,
            self._target(members),
            self.control,
            self.beta[members],
            self.gradient[members],
            pools=False,
        )
        pool.iterate()
        self.steps += pool.steps
        self.lowest_curvature = min(self.lowest_curvature, pool.lowest_curvature)
        return self._move(members, pool.beta)

    def _correct(self, members: Indices, complete: bool) -> bool:
        """One step of iterative refinement: from the float64 gradient at `members`, minimise over their tile.

        The float32 tile is good enough for this: it puts the gradient off by its error times the change, which is small. If the
        members do not include all free variables and violators, the float64 gradient is only compared with the present one.
        """
        self._corrections += 1
        if not self._has_time_for(2 * len(members) * int(np.count_nonzero(self.beta))):
            self.up_to_date = False
            return True
        exact = self._exact_gradient(members)
        error = SAFETY * float(np.abs(exact - self.gradient[members]).max(initial=0.0))
        if complete and error > NEGLIGIBLE_VIOLATION * self.tol:  # variables outside may be on the wrong side too
            members = self._band(members, 2.0 * (self.tol + error))
            exact = self._exact_gradient(members) if len(members) <= LARGEST_TILE else exact
        hopeless = len(members) > LARGEST_TILE or self._corrections > MOST_CORRECTIONS
        if hopeless or (not complete and error > self.tol):
            self.go_on_in_float64()
            return True
        problem, before = self.problem.restrict(members), self.beta[members]
        beta = before.copy()
        if complete and not self.unbounded:
            target = INNER_REDUCTION * max(self.tol, INNER_REDUCTION * self.violation.value)
            self.minimise_tile(self._fill_tile(members, problem.shift), problem, beta, exact, target)
            self._move(members, beta)
        self.gradient[members] = exact
        off = KERNEL_ROUNDING * float(np.linalg.norm(beta - before)) * self.gram.largest_diagonal()
        self._exact = off <= NEGLIGIBLE_VIOLATION * self.tol
        return True

    def minimise_tile(
        self,
        tile: object,
        problem: DualProblem,
        beta: Vector,
        gradient: Vector,
        tolerance: float,
        at_most: int = STEPS_AT_ONCE,
    ) -> int:
        """Solve a tile in place; return the number of steps."""
        limit = Limit(self.control.steps_left(at_most), min(self.control.seconds_left, NEVER))
        result = self.backend.solve_tile(tile, problem, beta, gradient, tolerance, limit)
        self.steps += result.steps
        self.control.steps += result.steps
        self.lowest_curvature = min(self.lowest_curvature, result.lowest_curvature)
        return result.steps

    def _move(self, members: Indices, after: Vector) -> bool:
        change = after - self.beta[members]
        moved = change != 0.0
        if not moved.any():
            return False
        self.up_to_date = self._has_time_for(int(moved.sum()) * self.gram.n_samples)
        if self.up_to_date:
            self.add_to_gradient(members[moved], change[moved])
        self.beta[members] = after
        self._exact = self.gram.dtype == np.float64
        return True

    def add_to_gradient(self, rows: Indices, change: Vector) -> None:
        add_to_gradient(self.problem, self.gram, self.gradient, rows, change)

    def _has_time_for(self, entries: int) -> bool:
        """Whether `entries` kernel entries can be computed in the remaining time."""
        return self._entry_seconds is None or entries * self._entry_seconds <= self.control.seconds_left

    # --- from float32 to float64 ----------------------------------------------------------------------------------

    def _band(self, members: Indices, width: float) -> Indices:
        """`members`, and all variables whose gradient is within `width` of the level."""
        near = np.abs(self.gradient - self._level()) <= width
        near[members] = True
        return np.flatnonzero(near).astype(np.int32)

    def _exact_gradient(self, at: Indices) -> Vector:
        support, beta = _support(self.beta)
        sums, _ = self.gram.exact_sums(support, beta[None, :], at)
        gradient: Vector = sums[0] + self.problem.linear[at]
        if self.problem.shift is not None:
            gradient += self.problem.shift[at] * self.beta[at]
        return gradient

    def go_on_in_float64(self) -> None:
        self.gram = self.gram.in_float64()
        self.gradient = self.problem.linear.copy()
        self.add_to_gradient(*_support(self.beta))
        self._exact = True

    @property
    def indefinite(self) -> bool:
        """Whether the run has met negative curvature: then the kernel is not positive semi-definite."""
        return self.lowest_curvature < -NEGATIVE_CURVATURE

    @property
    def unbounded(self) -> bool:
        """Whether the objective has no lower bound: the run has met negative curvature, and some box is infinite."""
        return self.indefinite and not (np.isfinite(self.problem.upper).all() and np.isfinite(self.problem.lower).all())

    def _level(self) -> float | Vector:
        return self.problem.at_variables(self.violation.levels)

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def measure(self) -> None:
        self._last_violation = self.violation.value
        self.violation = self.backend.measure_violation(self.problem, self.beta, self.gradient)
        self._worst_violation = max(self._worst_violation, self.violation.value)

    def ended(self, iteration: int, stop: Stop) -> Status | None:
        """Record and report this iteration; return the reason to end, if there is one other than tol and gap_tol."""
        problem, violation = self.problem, self.violation
        dual = problem.dual_value(self.beta, self.gradient)
        gap = float(problem.gap_terms(self.beta, self.gradient, self._level()).sum())
        size = float(np.abs(self.beta) @ (np.abs(self.gradient) + np.abs(problem.linear)))  # of the terms of the dual value
        self.record.add(self.control.seconds, iteration, violation.value, dual, gap, size, self.steps, self.tol)
        self.relative_gap = self.record.trace.relative_gap()
        if self.record.astray and not self.indefinite:
            return Status.STALLED
        if problem.hard and hulls_meet(problem, self.beta, self.gradient, self.gram.largest_diagonal()):
            return Status.NOT_SEPARABLE
        told = self.control.report(iteration, violation.value, self.relative_gap, self._fraction(stop))
        return told or self.control.ended()

    def _fraction(self, stop: Stop) -> float:
        return fraction_done(stop, self._worst_violation, self.violation.value, self.relative_gap)
