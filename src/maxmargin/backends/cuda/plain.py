"""The engine in torch's own words: the twin of our CUDA code for machines without a card, where tests run. Tiles are solved on
the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from maxmargin.backends.base import Limit, TileResult
from maxmargin.backends.cuda.engine import PAIRINGS, Engine, pairing_of
from maxmargin.backends.cuda.packing import Packed
from maxmargin.backends.cuda.solver import DeviceSolver, Vectors
from maxmargin.backends.cuda.tile import DeviceTile
from maxmargin.backends.native.inner import NativeSolver
from maxmargin.backends.point import Part
from maxmargin.formulations import DualProblem
from maxmargin.kernels import NamedKernel

QUERIES_AT_ONCE = 1024

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "linear": lambda pairs, kernel: pairs,
    "poly": lambda pairs, kernel: (kernel.gamma * pairs + kernel.coef0) ** kernel.degree,
    "sigmoid": lambda pairs, kernel: torch.tanh(kernel.gamma * pairs + kernel.coef0),
    "rbf": lambda squares, kernel: torch.exp(-kernel.gamma * squares),
    "exponential": lambda squares, kernel: torch.exp(-kernel.gamma * squares.sqrt()),
    "matern32": lambda squares, kernel: _matern(kernel.gamma * (3.0 * squares).sqrt()),
    "laplacian": lambda sums, kernel: torch.exp(-kernel.gamma * sums),
}


class PlainSolver(DeviceSolver):
    """Steps by the solver of the host."""

    def _steps(
        self, tiles: Sequence[DeviceTile], vectors: Vectors, groups: int, split: int | None, tolerance: float, limit: Limit
    ) -> list[TileResult]:
        results, first = [], 0
        for tile in tiles:
            beta, gradient, lower, upper = (vector[first : first + len(tile)].numpy() for vector in vectors)  # views
            problem = DualProblem(np.zeros(len(tile)), lower, upper, coupled=groups > 0, split=split)
            results.append(NativeSolver().solve(tile.to_array(), Part(problem, beta, gradient), tolerance, limit))
            first += len(tile)
        return results


class PlainEngine(Engine):
    def __init__(self, device: torch.device, budget: float = np.inf) -> None:
        self.device, self.inner, self.budget = device, PlainSolver(device), budget

    def sums(self, kernel: NamedKernel, queries: Packed, support: Packed, weights: torch.Tensor) -> torch.Tensor:
        sums = weights.new_empty(len(weights), queries.n, dtype=torch.float64)
        for start in range(0, queries.n, QUERIES_AT_ONCE):
            some = queries.take(torch.arange(start, min(start + QUERIES_AT_ONCE, queries.n), device=self.device))
            K = self.values(kernel, some, support)[:, : support.n].double()
            sums[:, start : start + some.n] = weights.double() @ K.T
        return sums

    def additions(self, n_support: int) -> int:
        return n_support

    def values(self, kernel: NamedKernel, first: Packed, second: Packed) -> torch.Tensor:
        A, B = first.table.T[: first.n], second.table.T
        pairing = pairing_of(kernel, first)
        if pairing == "ABSOLUTE":
            pairs = torch.cdist(A, B, p=1.0)
        elif pairing == "SQUARED":
            pairs = torch.cdist(A, B, compute_mode="donot_use_mm_for_euclid_dist").square()
        else:
            pairs = A @ B.T
            if PAIRINGS[kernel.name] == "SQUARED":
                pairs = (first.norms[: first.n, None] + second.norms - 2.0 * pairs).clamp(min=0.0)
        return FUNCTIONS[kernel.name](pairs, kernel)


def _matern(t: torch.Tensor) -> torch.Tensor:
    return (1.0 + t) * torch.exp(-t)
