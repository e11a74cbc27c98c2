"""The readable twin: NumPy, float64, one line for each line of the mathematics. Good to a few thousand samples."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from maxmargin.backends.base import Backend, Indices, TileResult, Vector, Violation
from maxmargin.formulations import DualProblem
from maxmargin.gram import BlockGram, sums_by_blocks
from maxmargin.kernels import Kernel

CURVATURE_FLOOR = 1e-12  # of a pair, as in LIBSVM: duplicates have none
SHARE_FOR_FREE = 0.75  # of a working set, when there are more free variables than fit


class ReferenceBackend(Backend):
    name: ClassVar[str] = "reference"

    def gram(
        self, kernel: Kernel, X: Any, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]
    ) -> BlockGram:
        return BlockGram(kernel, X, cache_bytes, segments)

    def measure_violation(self, problem: DualProblem, beta: Vector, gradient: Vector) -> Violation:
        rise, fall = beta < problem.upper, beta > problem.lower
        free = rise & fall
        if not problem.coupled:
            level = 0.0
        elif free.any():
            level = float(np.median(gradient[free]))
        else:
            ends = [edge for edge in (gradient[rise].min(initial=np.inf), gradient[fall].max(initial=-np.inf))
                    if np.isfinite(edge)]
            level = float(np.mean(ends)) if ends else 0.0
        return Violation(problem.violation(beta, gradient), level, int(free.sum()))

    def choose_working_set(
        self,
        problem: DualProblem,
        beta: Vector,
        gradient: Vector,
        violation: Violation,
        threshold: float,
        size: int,
        seed: int,
    ) -> tuple[Indices, bool]:
        rng = np.random.default_rng(seed)
        rise, fall = beta < problem.upper, beta > problem.lower
        free = np.flatnonzero(rise & fall)
        wrong_side = (rise & (gradient < violation.level - threshold)) | (
            fall & (gradient > violation.level + threshold)
        )
        violators = np.flatnonzero(wrong_side & ~(rise & fall))
        complete = len(free) + len(violators) <= size
        room_for_free = max(int(SHARE_FOR_FREE * size), size - len(violators))
        if len(free) > room_for_free:
            free = rng.choice(free, room_for_free, replace=False)
        if len(violators) > size - len(free):
            violators = rng.choice(violators, size - len(free), replace=False)
        worst = [np.flatnonzero(side)[[pick]] for side, pick in (
            (rise, gradient[rise].argmin() if rise.any() else None),
            (fall, gradient[fall].argmax() if fall.any() else None),
        ) if pick is not None]
        return np.unique(np.concatenate([free, violators, *worst])).astype(np.int32), complete

    def solve_tile(
        self, tile: Any, problem: DualProblem, beta: Vector, gradient: Vector, tolerance: float, max_steps: int
    ) -> TileResult:
        K = tile
        move = _pair_step if problem.coupled else _coordinate_step
        steps, patience, lowest_curvature = 0, 100, 0.0
        while (violation := problem.violation(beta, gradient)) > tolerance and steps < max_steps:
            if steps >= patience:  # the tail: ten thousand pair steps, or one Newton step
                _newton_step(K, problem, beta, gradient)
                patience = steps + 100 + len(beta) // 2
                if problem.violation(beta, gradient) <= tolerance:
                    continue
            lowest_curvature = min(lowest_curvature, move(K, problem, beta, gradient))
            steps += 1
        return TileResult(steps, violation, lowest_curvature, self.measure_violation(problem, beta, gradient).level)

    def weighted_sums(
        self,
        kernel: Kernel,
        support: Any,
        queries: Any,
        weights: NDArray[np.float64],
        groups: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        return sums_by_blocks(kernel, support, queries, weights, groups)


def _pair_step(K: NDArray[np.float64], problem: DualProblem, beta: Vector, gradient: Vector) -> float:
    """The second-order pair: i = argmin_{may rise} G, j = argmax_{may fall} (G_j - G_i)^2 / curvature."""
    rise, fall = beta < problem.upper, beta > problem.lower
    i = int(np.where(rise, gradient, np.inf).argmin())
    excess = np.where(fall, np.maximum(gradient - gradient[i], 0.0), 0.0)
    curvature = K[i, i] + K.diagonal() - 2.0 * K[i]
    j = int((excess**2 / np.maximum(curvature, CURVATURE_FLOOR)).argmax())
    step = min(
        excess[j] / max(curvature[j], CURVATURE_FLOOR), problem.upper[i] - beta[i], beta[j] - problem.lower[j]
    )
    beta[i] = problem.upper[i] if step == problem.upper[i] - beta[i] else beta[i] + step
    beta[j] = problem.lower[j] if step == beta[j] - problem.lower[j] else beta[j] - step
    gradient += step * (K[i] - K[j])
    return float(curvature[j] / max(K[i, i] + K[j, j], CURVATURE_FLOOR))


def _coordinate_step(K: NDArray[np.float64], problem: DualProblem, beta: Vector, gradient: Vector) -> float:
    """Without the equality constraint: the single variable with the largest decrease G^2 / K_kk."""
    slope = np.where(gradient < 0, -gradient * (beta < problem.upper), gradient * (beta > problem.lower))
    k = int((slope**2 / np.maximum(K.diagonal(), CURVATURE_FLOOR)).argmax())
    before = beta[k]
    beta[k] = np.clip(before - gradient[k] / max(K[k, k], CURVATURE_FLOOR), problem.lower[k], problem.upper[k])
    gradient += (beta[k] - before) * K[k]
    return float(min(K[k, k], 0.0))


def _newton_step(K: NDArray[np.float64], problem: DualProblem, beta: Vector, gradient: Vector) -> None:
    """Minimise over the free variables as if they had no box, and go there as far as the box allows."""
    free = np.flatnonzero((beta < problem.upper) & (beta > problem.lower))
    if len(free) < 2:
        return
    ridge = 1e-14 * float(K.diagonal()[free].max())
    try:
        factor = scipy.linalg.cho_factor(K[np.ix_(free, free)] + ridge * np.eye(len(free)))
    except scipy.linalg.LinAlgError:
        return
    change = -scipy.linalg.cho_solve(factor, gradient[free])
    if problem.coupled:  # stay on sum(beta) = const
        ones = scipy.linalg.cho_solve(factor, np.ones(len(free)))
        change -= ones * (change.sum() / ones.sum())
        change -= change.mean()  # what rounding left of the sum
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(change > 0, problem.upper[free] - beta[free], beta[free] - problem.lower[free])
        reach = float(np.where(change != 0, room / np.abs(change), np.inf).min())
    scale = min(1.0, reach)
    if not gradient[free] @ change < 0:
        return
    beta[free] = np.clip(beta[free] + scale * change, problem.lower[free], problem.upper[free])
    gradient += scale * (K[:, free] @ change)
