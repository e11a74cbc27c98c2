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

**Arithmetic.** Duals and gradients are float64. Kernel entries are float32 while that suffices: an entry off by e_ij
puts the gradient off by sum_j e_ij beta_j, so the error grows with |beta|, that is with C. Therefore, when a tile holds
all free variables and all violators, which is how a run ends, the gradient is computed anew in float64 at its members
(iterative refinement). The difference tells how large the error is: members of the tile are then exact, and the others
are on their side of the level by more than the error. If so many are close to it that they make no tile, the whole
iteration goes on in float64 from where it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import Backend, Violation
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers.separability import hulls_meet

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

TILE = 1536  # variables of a working set that is one tile
POOL_SHARE = 0.125  # of all variables, in a working set that is a pool
MORE = 0.5  # of a complete working set, added from the variables next to it: they are likely to become violators
ALL_MORE = 100.0  # the same for a pool: as many as it holds
FEW_MORE = 0.05  # the same where another iteration costs little, because kernel rows are remembered
LARGEST_TILE = 3072  # variables of the tile that ends a float32 run, with those that rounding may have misplaced
NEAR = 500.0  # times tol: the violation from which on gradients are corrected
MOST_CORRECTIONS = 6  # of a float32 run before it goes on in float64
STEPS_AT_ONCE = 150_000  # of an inner solve, so that an interrupt is seen within a fraction of a second
INNER_REDUCTION = 0.1  # of the violation, by one inner solve
LAST_REDUCTION = 0.01  # besides, where it is likely to be the last one
FALLEN = 0.3  # of the violation before: how far it falls where the end is near
NEGLIGIBLE = 0.25  # of tol: a variable this little on the wrong side is no violator
SAFETY = 4.0  # times the largest rounding error of the gradient that was seen
POLISH = 1e-12  # the violation to which a single float64 tile is solved
ROUNDING = 2.0**-22  # of a float32 kernel entry, relative to the diagonal
ENTRY_ROUNDING = 2.0**-24  # of an entry that was computed in float64 and then rounded: four standard deviations
DRAWN = 256  # samples of each group that stand for all, where a start is looked for
TINY = float(np.finfo(float).tiny)
IDLE = 1e-14  # relative rise of the dual value that counts as none
PATIENCE = 20  # iterations without a rise before a run counts as stalled
INDEFINITE = 1e-6  # relative negative curvature beyond rounding


def solve(
    problem: DualProblem,
    gram: Gram,
    backend: Backend,
    stop: Stop,
    control: Control,
    start: Vector | None = None,
    known: tuple[Vector, Vector] | None = None,
) -> Solution:
    """Minimise `problem` over the kernel matrix `gram` from `start`, or the problem's own. `known` is a point near it and the
    gradient there; without it that is zero, and the linear term."""
    if start is not None:
        beta = problem.feasible(start)
    elif problem.start is None:
        beta = np.zeros(len(problem))
    else:
        beta = problem.start.copy() if len(problem) <= TILE else _promising_start(problem, problem.start, gram)
    point, gradient = (np.zeros(len(problem)), problem.linear) if known is None else known
    run = _Run(problem, gram, backend, stop.tol, control, beta, gradient.copy())
    change = beta - point
    run.add_to_gradient(np.flatnonzero(change).astype(np.int32), change[change != 0.0])
    if gram.is_tile and problem.shift is None:
        status = _solve_whole(run, stop)
    elif len(problem) <= TILE and gram.dtype == np.float64:
        status = _solve_one_tile(run, stop, POLISH)
    else:
        status = run.iterate(stop)
    run.gram.release()
    if run.lowest_curvature < -INDEFINITE and status is Status.CONVERGED:
        status = Status.STATIONARY
    return Solution(
        run.beta, run.gradient, status, run.violation.value, run.steps, run.trace, f"{run.gram.dtype} kernel"
    )


def _promising_start(problem: DualProblem, start: Vector, gram: Gram) -> Vector:
    """Where Frank and Wolfe's method would go from a few samples that stand for all: where sums have to be kept, many
    variables end at a bound, and this tells which."""
    rng = np.random.default_rng(0)
    few = [rng.permutation(np.arange(g.start, g.stop, dtype=np.int32)[problem.upper[g] > problem.lower[g]])[:DRAWN]
           for g in problem.groups]
    weights = [np.full(len(some), start[g].sum() / max(len(some), 1)) for some, g in zip(few, problem.groups, strict=True)]
    gradient = problem.linear.copy()
    gram.accumulate(np.concatenate(few), np.concatenate(weights), gradient)
    return problem.vertex(gradient)


def _solve_whole(run: _Run, stop: Stop) -> Status:
    """All variables at once, over a matrix that is there as a whole: in float32 if rounding cannot reach tol, else (or if it
    could by the end) in float64."""
    light = INNER_REDUCTION * stop.tol / (ENTRY_ROUNDING * run.gram.largest_diagonal())  # the |beta| up to which it cannot
    if run.gram.dtype == np.float32 and np.linalg.norm(run.beta) <= light:
        status = _solve_one_tile(run, replace(stop, tol=(1.0 - INNER_REDUCTION) * stop.tol))
        if not status.converged or np.linalg.norm(run.beta) <= light:
            return status
    if run.gram.dtype == np.float32:
        run.go_on_in_float64()
    return _solve_one_tile(run, stop)


def _solve_one_tile(run: _Run, stop: Stop, polish: float | None = None) -> Status:
    """All variables at once: solve to tol, then perhaps polish, which Newton steps make nearly free where the tile is small."""
    everything = np.arange(len(run.problem), dtype=np.int32)
    tile = run.gram.tile(everything, run.problem.shift)
    for iteration in itertools.count():
        before = run.beta.copy(), run.gradient.copy()
        steps = run.minimise_tile(tile, run.problem, run.beta, run.gradient, stop.tol)
        if run.unbounded:
            run.beta, run.gradient = before
            return Status.UNBOUNDED
        run.measure()
        if (ended := run.ended(iteration, stop)) is not None:
            return ended
        if run.violation.value <= stop.tol:
            break
        if steps == 0 or run.idle:
            return Status.STALLED
    if polish is not None:
        before = run.beta.copy(), run.gradient.copy()
        run.minimise_tile(tile, run.problem, run.beta, run.gradient, polish, 10 * len(run.problem) + 100)
        run.measure()
        if run.violation.value > stop.tol:  # it does not fall with every step, and the steps ran out too early
            run.beta, run.gradient = before
            run.measure()
    return Status.CONVERGED


def solve_small(
    problems: Sequence[DualProblem],
    grams: Sequence[Gram],
    backend: Backend,
    stop: Stop,
    control: Control,
) -> dict[int, Solution]:
    """Those of the problems that are one tile each, solved side by side; without those that want a closer look.

    A float32 tile will do where rounding cannot reach tol: its entries are off by ROUNDING, independently, so the
    gradient is off by about ROUNDING |beta|.
    """
    small = [i for i, problem in enumerate(problems) if len(problem) <= LARGEST_TILE and _batchable(problem)]
    if not small or stop.gap_tol is not None:
        return {}
    exact = grams[0].dtype == np.float64
    tolerance = stop.tol if exact else INNER_REDUCTION * stop.tol
    joined = DualProblem.join([problems[i] for i in small])
    ends = np.cumsum([len(problems[i]) for i in small])
    beta, gradient = np.zeros(len(joined)), joined.linear.copy()
    results = backend.solve_tiles(
        [grams[i] for i in small],
        joined,
        ends,
        beta,
        gradient,
        tolerance,
        POLISH if exact else tolerance,
        control.steps_left(STEPS_AT_ONCE),
    )
    starts = ends - np.diff(ends, prepend=0)
    levels = np.repeat([result.level for result in results], ends - starts)
    with np.errstate(over="ignore", invalid="ignore"):  # a problem that is unbounded gets a closer look
        gaps = np.add.reduceat(joined.gap_terms(beta, gradient, levels), starts)
        duals = -0.5 * np.add.reduceat(beta * (gradient + joined.linear), starts)
        norms = np.sqrt(np.add.reduceat(beta**2, starts))
    settled = exact | (ROUNDING * norms * grams[0].largest_diagonal() <= tolerance)
    solutions = {}
    arithmetic = f"{grams[0].dtype} kernel"
    for k, (i, result) in enumerate(zip(small, results, strict=True)):
        control.steps += result.steps
        if result.violation > stop.tol or result.lowest_curvature < -INDEFINITE or not settled[k]:
            continue
        part = slice(starts[k], ends[k])
        trace = Trace()
        trace.append(control.seconds, 0, result.violation, float(duals[k]), float(gaps[k]))
        solutions[i] = Solution(
            beta[part], gradient[part], Status.CONVERGED, result.violation, result.steps, trace, arithmetic
        )
    return solutions


def _batchable(problem: DualProblem) -> bool:
    return not problem.hard and problem.split is None and problem.start is None


class _Run:
    """A point on its way: beta, the gradient there, and what has been seen."""

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
        self.steps = 0
        self.lowest_curvature = 0.0
        self.trace = Trace()
        self.violation = Violation(np.inf, (), 0)
        self._last_violation = np.inf
        self._worst_violation = 0.0
        self.idle = 0  # iterations since the dual value last rose
        self._corrections = 0
        self._exact = gram.dtype == np.float64  # whether the gradient is exact where it decides anything
        n = gram.n_samples
        self._pool_size = max(2 * TILE, int(POOL_SHARE * n)) if pools and n > 4 * TILE and not gram.remembers else 0

    # --- the loop -------------------------------------------------------------------------------------------------

    def iterate(self, stop: Stop | None = None) -> Status:
        """Improve working sets until the violation is within tol. With a `stop` this is the whole problem: iterations
        are recorded and reported, and the end is exact."""
        for iteration in itertools.count():
            self.measure()
            ended = self.control.ended() if stop is None else self.ended(iteration, stop)
            if ended is Status.GAP_REACHED:
                return ended
            if self.violation.value <= self.tol and (stop is None or self._exact):
                return Status.CONVERGED
            if ended is not None:
                return ended
            members, complete = self._choose(self._tile_size(), iteration, FEW_MORE if self.gram.remembers else MORE)
            near = self.violation.value <= (NEAR * self.tol if complete else self.tol)
            if near and stop is not None and not self._exact:
                moved = self._correct(members, complete)
            elif complete or not self._pool_size:
                moved = self._improve_tile(members, self._target(members, complete))
            else:
                moved = self._improve_pool(self._choose(self._pool_size, iteration, ALL_MORE)[0])
            if self.unbounded:
                return Status.UNBOUNDED
            if not moved or self.idle > PATIENCE:
                return Status.STALLED
        raise AssertionError("unreachable")

    def _tile_size(self) -> int:
        """Large enough for all free variables and as many others, if that can be: where many are free, a tile of some of them
        takes very many small steps."""
        return min(max(TILE, 2 * self.violation.n_free), LARGEST_TILE)

    def _choose(self, size: int, seed: int, more: float) -> tuple[Indices, bool]:
        return self.backend.choose_working_set(
            self.problem, self.beta, self.gradient, self.violation, NEGLIGIBLE * self.tol, size, more, seed
        )

    def _target(self, members: Indices, complete: bool = False) -> float:
        """The violation to which a working set is minimised. One that holds all free variables and violators, most of them
        free, is likely to be the last one if few have become violators since the one before."""
        last = complete and 2 * self.violation.n_free >= len(members) and self.violation.value <= FALLEN * self._last_violation
        return INNER_REDUCTION * max(self.tol, (LAST_REDUCTION if last else 1.0) * self.violation.value)

    def _improve_tile(self, members: Indices, target: float) -> bool:
        """Minimise over a dense tile; False if nothing moved."""
        problem = self.problem.restrict(members)
        beta, gradient = self.beta[members], self.gradient[members]
        self.minimise_tile(self.gram.tile(members, problem.shift), problem, beta, gradient, target)
        return not self.unbounded and self._move(members, beta)

    def _improve_pool(self, members: Indices) -> bool:
        """Minimise over a pool, by this loop over the pool alone; False if nothing moved."""
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

        The float32 tile serves for that: it puts the gradient off by its error times the change, which is small. If the
        members are not all free variables and violators, the gradient is only compared.
        """
        self._corrections += 1
        exact = self._exact_gradient(members)
        error = SAFETY * float(np.abs(exact - self.gradient[members]).max(initial=0.0))
        if complete and error > NEGLIGIBLE * self.tol:  # then others may be on the wrong side too
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
            self.minimise_tile(self.gram.tile(members, problem.shift), problem, beta, exact, target)
            self._move(members, beta)
        self.gradient[members] = exact
        off = ROUNDING * float(np.linalg.norm(beta - before)) * self.gram.largest_diagonal()
        self._exact = off <= NEGLIGIBLE * self.tol
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
        """Solve a tile in place; the number of steps it took."""
        result = self.backend.solve_tile(
            tile, problem, beta, gradient, tolerance, self.control.steps_left(at_most)
        )
        self.steps += result.steps
        self.control.steps += result.steps
        self.lowest_curvature = min(self.lowest_curvature, result.lowest_curvature)
        return result.steps

    def _move(self, members: Indices, after: Vector) -> bool:
        change = after - self.beta[members]
        moved = change != 0.0
        if not moved.any():
            return False
        self.add_to_gradient(members[moved], change[moved])
        self.beta[members] = after
        self._exact = self.gram.dtype == np.float64
        return True

    def add_to_gradient(self, rows: Indices, change: Vector) -> None:
        if not len(rows):
            return
        self.gram.accumulate(rows, change, self.gradient)
        if self.problem.shift is not None:
            self.gradient[rows] += self.problem.shift[rows] * change

    # --- from float32 to float64 ----------------------------------------------------------------------------------

    def _band(self, members: Indices, width: float) -> Indices:
        """`members`, and all whose gradient is within `width` of the level."""
        near = np.abs(self.gradient - self._level()) <= width
        near[members] = True
        return np.flatnonzero(near).astype(np.int32)

    def _exact_gradient(self, at: Indices) -> Vector:
        support = np.flatnonzero(self.beta).astype(np.int32)
        gradient = self.gram.exact_sums(support, self.beta[support], at) + self.problem.linear[at]
        if self.problem.shift is not None:
            gradient += self.problem.shift[at] * self.beta[at]
        return gradient

    def go_on_in_float64(self) -> None:
        self.gram = self.gram.in_float64()
        self.gradient = self.problem.linear.copy()
        support = np.flatnonzero(self.beta).astype(np.int32)
        self.add_to_gradient(support, self.beta[support])
        self._exact = True

    @property
    def unbounded(self) -> bool:
        """Whether the objective was seen to fall for ever: negative curvature, and a box that does not end."""
        if self.lowest_curvature >= -INDEFINITE:
            return False
        return not (np.isfinite(self.problem.upper).all() and np.isfinite(self.problem.lower).all())

    def _level(self) -> float | Vector:
        return self.problem.at_variables(self.violation.levels)

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def measure(self) -> None:
        self._last_violation = self.violation.value
        self.violation = self.backend.measure_violation(self.problem, self.beta, self.gradient)
        self._worst_violation = max(self._worst_violation, self.violation.value)

    def ended(self, iteration: int, stop: Stop) -> Status | None:
        """Record and report this iteration; the reason to end, if there is one other than tol."""
        problem, violation = self.problem, self.violation
        dual = problem.dual_value(self.beta, self.gradient)
        gap = float(problem.gap_terms(self.beta, self.gradient, self._level()).sum())
        relative = gap / max(abs(dual + gap), abs(dual), TINY)
        best = max(self.trace.dual, default=-np.inf)
        self.idle = 0 if dual > best + IDLE * abs(dual) else self.idle + 1
        self.trace.append(self.control.seconds, iteration, violation.value, dual, gap)
        if problem.hard and hulls_meet(problem, self.beta, self.gradient, self.gram.largest_diagonal()):
            return Status.NOT_SEPARABLE
        told = self.control.report(iteration, violation.value, relative, self._fraction())
        if stop.gap_tol is not None and relative <= stop.gap_tol:
            return Status.GAP_REACHED
        if violation.value <= stop.tol:
            return None
        return told or self.control.ended()

    def _fraction(self) -> float:
        """Log-scale progress of the violation from its worst to tol."""
        worst, now = self._worst_violation, self.violation.value
        if now <= self.tol or worst <= self.tol:
            return 1.0
        return float(np.log(worst / now) / np.log(worst / self.tol))
