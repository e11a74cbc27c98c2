"""The readable twin: NumPy, float64, one line for each line of the mathematics. Good to a few thousand samples."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from maxmargin.backends.base import Backend, InnerSolver, Limit, Matrix, TileResult, Vector
from maxmargin.backends.point import HostPoint, Indices, MeasuredViolation, Part, Point, Violation
from maxmargin.formulations import CrammerSingerProblem, DualProblem
from maxmargin.gram import BlockGram, Gram, sums_by_blocks
from maxmargin.kernels import Kernel, NamedKernel, Precomputed
from maxmargin.samples import MatrixSamples, Samples

CURVATURE_FLOOR = 1e-12  # least curvature of a pair, relative to its diagonal, as in LIBSVM: duplicates have zero
RIDGE = 1e-14  # added to the diagonal: what rounding takes from the eigenvalues of a matrix with unit diagonal
LEAST_CURVATURE = 1e-34  # curvature that samples with all features zero are taken to have
SHARE_FOR_FREE = 0.75  # share of a working set for free variables when not all of them fit


class ReferencePoint(HostPoint):
    """A point that is measured and chosen from in NumPy."""

    def measure(self) -> Violation:
        problem, beta, gradient = self.problem, self._beta, self._gradient
        rise, fall = beta < problem.upper, beta > problem.lower
        levels = [_level(gradient[group], rise[group], fall[group]) for group in problem.groups]
        return MeasuredViolation(problem.violation(beta, gradient), levels, int((rise & fall).sum()))

    def choose(self, violation: Violation, threshold: float, size: int, extra_share: float, seed: int) -> tuple[Indices, bool]:
        rng = np.random.default_rng(seed)
        problem, beta, gradient = self.problem, self._beta, self._gradient
        rise, fall = beta < problem.upper, beta > problem.lower
        above = gradient - problem.at_variables(violation.levels)
        wrong_by = np.maximum(np.where(rise, -above, -np.inf), np.where(fall, above, -np.inf))  # a fixed variable: -inf
        is_free, violates = rise & fall, wrong_by > threshold
        free, violators = np.flatnonzero(is_free), np.flatnonzero(violates & ~is_free)
        n_wanted = len(free) + len(violators)
        extra = np.empty(0, dtype=np.intp)
        if n_wanted <= size:
            next_ones = np.flatnonzero(~violates & ~is_free & (rise | fall))
            room = min(int(extra_share * n_wanted), size - n_wanted)
            extra = next_ones[np.argsort(-wrong_by[next_ones], kind="stable")[:room]]
        free = _draw(rng, free, max(int(SHARE_FOR_FREE * size), size - len(violators)))
        violators = _draw(rng, violators, size - len(free))
        extremes = [
            group.start + int(np.where(may_move, sign * gradient, np.inf)[group].argmin())
            for group in problem.groups or [slice(0, len(beta))]
            for may_move, sign in ((rise, 1.0), (fall, -1.0))
            if may_move[group].any()
        ]
        chosen = np.unique(np.concatenate([free, violators, extra, np.array(extremes, dtype=np.intp)]))
        return chosen.astype(np.int32), n_wanted <= size


class ReferenceSolver(InnerSolver):
    """Second-order SMO with Newton steps, one step at a time."""

    def solve(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        K, problem, beta, gradient = tile, part.problem, part.beta, part.gradient
        move = _pair_step if problem.coupled else _coordinate_step
        steps, patience, lowest_curvature = 0, 100, 0.0
        end = time.perf_counter() + limit.seconds
        while (violation := problem.violation(beta, gradient)) > tolerance and steps < limit.steps:
            if time.perf_counter() > end:
                break
            if steps >= patience:  # one Newton step replaces the last thousands of pair steps
                _newton_step(K, problem, beta, gradient)
                patience = steps + 100 + len(beta) // 2
                if problem.violation(beta, gradient) <= tolerance:
                    continue
            lowest_curvature = min(lowest_curvature, move(K, problem, beta, gradient))
            steps += 1
        level = float(problem.middles(beta, gradient)[0]) if problem.coupled else 0.0
        return TileResult(steps, violation, lowest_curvature, level)

    def solve_joint(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        problem, B, gradient = part.problem, part.beta, part.gradient
        steps, lowest_curvature = 0, 0.0
        end = time.perf_counter() + limit.seconds
        while (violations := problem.violations(B, gradient)).max() > tolerance and steps < limit.steps:
            if time.perf_counter() > end:
                break
            i = int(violations.argmax())
            lowest_curvature = min(lowest_curvature, float(np.sign(tile[i, i])))
            _sample_step(tile, problem, B, gradient, i)
            steps += 1
        return TileResult(steps, float(violations.max()), lowest_curvature, 0.0)


class ReferenceBackend(Backend):
    name: ClassVar[str] = "reference"
    inner: InnerSolver = ReferenceSolver()

    def evaluates(self, kernel: Kernel) -> bool:
        return True

    def gram(
        self, kernel: Kernel, samples: Samples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]
    ) -> BlockGram:
        return BlockGram(kernel, samples, cache_bytes, segments)

    def place(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Point:
        return ReferencePoint(problem, gram, beta, gradient)

    def whole(
        self,
        kernel: NamedKernel,
        pairing: Matrix,
        segments: tuple[int, ...],
        rounding: float,
        instead_of: Gram | None = None,
    ) -> Gram:
        return BlockGram(Precomputed(), MatrixSamples(kernel.of_pairing(pairing)), 0, segments)

    def weighted_sums(
        self, kernel: Kernel, support: Samples, queries: Samples, weights: Matrix, groups: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        return sums_by_blocks(kernel, support, queries, weights, groups)


def _draw(rng: np.random.Generator, candidates: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    return candidates if len(candidates) <= count else rng.choice(candidates, count, replace=False)


def _level(gradient: Vector, rise: NDArray[np.bool_], fall: NDArray[np.bool_]) -> float:
    """The median gradient of the free variables of a group (of two middle ones the larger); without free variables, the middle
    between those that may rise and those that may fall."""
    free = np.sort(gradient[rise & fall])
    if len(free):
        return float(free[len(free) // 2])
    ends = np.array([gradient[rise].min(initial=np.inf), gradient[fall].max(initial=-np.inf)])
    return float(np.mean(ends[np.isfinite(ends)])) if np.isfinite(ends).any() else 0.0


def _pair_step(K: NDArray[np.float64], problem: DualProblem, beta: Vector, gradient: Vector) -> float:
    """Move the best pair of all groups; the second-order pair of a group is i = argmin_{may rise} G and
    j = argmax_{may fall} (G_j - G_i)^2 / curvature."""
    rise, fall = beta < problem.upper, beta > problem.lower
    best, i, j = -1.0, 0, 0
    for group in problem.groups:
        if not rise[group].any():
            continue
        lowest = group.start + int(np.where(rise, gradient, np.inf)[group].argmin())
        excess = np.where(fall, np.maximum(gradient - gradient[lowest], 0.0), 0.0)[group]
        diagonals = K[lowest, lowest] + K.diagonal()[group]
        gain = excess**2 / np.maximum(diagonals - 2.0 * K[lowest, group], _floor(diagonals))
        if gain.max() > best:
            best, i, j = float(gain.max()), lowest, group.start + int(gain.argmax())
    diagonals = K[i, i] + K[j, j]
    met, floor = float(diagonals - 2.0 * K[i, j]), float(_floor(diagonals))
    step = min((gradient[j] - gradient[i]) / max(met, floor), problem.upper[i] - beta[i], beta[j] - problem.lower[j])
    beta[i] = problem.upper[i] if step == problem.upper[i] - beta[i] else beta[i] + step
    beta[j] = problem.lower[j] if step == beta[j] - problem.lower[j] else beta[j] - step
    gradient += step * (K[i] - K[j])
    return met / max(float(diagonals), floor)


def _floor(diagonals: Any) -> Any:
    return CURVATURE_FLOOR * np.maximum(diagonals, 0.0) + LEAST_CURVATURE


def _coordinate_step(K: NDArray[np.float64], problem: DualProblem, beta: Vector, gradient: Vector) -> float:
    """Move one variable, for problems without an equality constraint: the one with the largest decrease G^2 / K_kk."""
    slope = np.where(gradient < 0, -gradient * (beta < problem.upper), gradient * (beta > problem.lower))
    k = int((slope**2 / np.maximum(K.diagonal(), LEAST_CURVATURE)).argmax())
    before = beta[k]
    beta[k] = np.clip(before - gradient[k] / max(K[k, k], LEAST_CURVATURE), problem.lower[k], problem.upper[k])
    gradient += (beta[k] - before) * K[k]
    return float(min(K[k, k], 0.0))


def _sample_step(K: Matrix, problem: CrammerSingerProblem, B: Matrix, gradient: Matrix, i: int) -> None:
    """Move one sample to its minimum: its shares are max(0, D - theta) / a, a = K_ii, D = G + a S, and add up to C_i."""
    total, curvature = problem.upper[:, i].sum(), max(K[i, i], LEAST_CURVATURE)
    ceilings = gradient[:, i] + curvature * problem.shares(B)[:, i]
    descending = -np.sort(-ceilings)
    thetas = (np.cumsum(descending) - curvature * total) / np.arange(1, len(descending) + 1)
    theta = thetas[np.flatnonzero(descending >= thetas)[-1]]
    shares = np.maximum(0.0, ceilings - theta) / curvature
    shares[ceilings.argmax()] += total - shares.sum()  # the rounding error of the sum
    change = problem.upper[:, i] - shares - B[:, i]
    B[:, i] = problem.upper[:, i] - shares
    gradient += np.outer(change, K[i])


def _newton_step(K: NDArray[np.float64], problem: DualProblem, beta: Vector, gradient: Vector) -> None:
    """Minimise over the free variables as if they had no box, and go towards that minimum as far as the box allows.

    The change sums to zero in each group, so the sums stay the same."""
    free = np.flatnonzero((beta < problem.upper) & (beta > problem.lower))
    if len(free) < 2:
        return
    scale = 1.0 / np.sqrt(np.maximum(K.diagonal()[free], LEAST_CURVATURE))  # unit diagonal, whatever the sizes of the samples
    try:
        factor = scipy.linalg.cho_factor(scale[:, None] * K[np.ix_(free, free)] * scale + RIDGE * np.eye(len(free)))
    except scipy.linalg.LinAlgError:
        return

    def inverse(columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(scale * scipy.linalg.cho_solve(factor, (scale * columns).T).T)

    change = -inverse(gradient[free])
    marks = [(free >= group.start) & (free < group.stop) for group in problem.groups]
    if marks := [mark.astype(float) for mark in marks if mark.any()]:  # stay on sum(beta) = const in each group
        ones = np.array(marks)
        reach_of_ones = inverse(ones)
        change -= np.linalg.lstsq(ones @ reach_of_ones.T, ones @ change)[0] @ reach_of_ones
        change -= ones.T @ ((ones @ change) / ones.sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        room = np.where(change > 0, problem.upper[free] - beta[free], beta[free] - problem.lower[free])
        reach = float(np.where(change != 0, room / np.abs(change), np.inf).min())
        curvature = float(change @ K[np.ix_(free, free)] @ change)
    slope = float(gradient[free] @ change)
    if not slope < 0.0:
        return
    step = min(1.0, reach, -slope / curvature if curvature > 0.0 else np.inf) * change
    beta[free] = np.clip(beta[free] + step, problem.lower[free], problem.upper[free])
    gradient += K[:, free] @ step
