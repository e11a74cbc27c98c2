"""The compiled solver of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.backends.base import InnerSolver, Limit, TileResult
from maxmargin.backends.native.core import core
from maxmargin.backends.native.gram import NativeGram, rows_of
from maxmargin.backends.point import Part
from maxmargin.gram import Gram


class NativeSolver(InnerSolver):
    def solve(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        problem = part.problem
        state = problem.lower, problem.upper, part.beta, part.gradient, problem.edges
        return TileResult(*core.solve_tile(_compiled(tile), *state, tolerance, *limit))

    def solve_joint(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        state = part.problem.upper, part.beta, part.gradient
        return TileResult(*core.solve_joint_tile(_compiled(tile), *state, tolerance, *limit))

    def solve_each(
        self,
        grams: Sequence[Gram],
        joined: Part,
        ends: Sequence[int],
        tolerance: float,
        polish: float,
        limit: Limit,
    ) -> list[TileResult]:
        parts = [gram for gram in grams if isinstance(gram, NativeGram)]
        if len(parts) < len(grams):
            return super().solve_each(grams, joined, ends, tolerance, polish, limit)
        problem = joined.problem
        results = core.solve_tiles(
            parts[0].compiled,
            ends,
            rows_of(parts),
            problem.lower,
            problem.upper,
            np.empty(0) if problem.shift is None else problem.shift,
            joined.beta,
            joined.gradient,
            problem.coupled,
            tolerance,
            polish,
            *limit,
        )
        return [TileResult(*result) for result in results]


def _compiled(tile: Any) -> Any:
    """A tile in the form that the compiled code takes; arrays are converted."""
    if not isinstance(tile, np.ndarray):
        return tile
    copy = core.Tile64()
    copy.assign(tile)
    return copy
