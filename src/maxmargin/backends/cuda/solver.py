"""The solver of tiles that lie in the memory of a device, in rounds: first over all variables of a tile, then over the few that
still move.

    repeat
        1. the free variables, the violators, and half as many again of those that are nearest to violating
        2. minimise over them, to a tenth of the present violation; over all variables if these are most of them
        3. rows of the matrix update the gradient of the others
    until the violation is within the tolerance

A step over few variables takes less time than one over many, and most of the steps are made when few variables are left: on
magic three quarters of them, over a twentieth of the variables. Where these are few enough, the solver of the host is faster
still; and it takes Newton steps, which end what pair steps do not.
"""

from __future__ import annotations

import itertools
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from maxmargin.backends.base import InnerSolver, Limit, TileResult
from maxmargin.backends.cuda.gram import DeviceGram, SplitTile
from maxmargin.backends.cuda.packing import upload
from maxmargin.backends.cuda.point import DevicePoint
from maxmargin.backends.cuda.tile import DeviceTile
from maxmargin.backends.native.inner import NativeSolver
from maxmargin.backends.point import Indices, Part, Vector
from maxmargin.gram import Gram

MOST_ON_HOST = 1024  # variables of a tile that the host solves
EXTRA_SHARE = 0.5  # variables added to those that move, as a share of them
FEW = 0.5  # share of the variables of a tile below which a round has a tile of its own
REDUCTION = 0.1  # factor by which a round reduces the violation
PATIENCE = 3  # rounds without a fall of the violation, which rounding errors prevent, before a tile is given up
NEGLIGIBLE = 0.25  # share of the tolerance: a variable on the wrong side by less is not a violator
ROUNDING = 1e-5  # share of the tolerance by which a device misses it, since it compares gradients in float32
EVERYWHERE = slice(None)

Tile = DeviceTile | SplitTile


class Vectors(NamedTuple):
    """Duals, gradient and box of the variables of one tile, or of several one after the other, on a device."""

    beta: torch.Tensor
    gradient: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor

    @classmethod
    def of(cls, part: Part, device: torch.device, here: slice = EVERYWHERE) -> Vectors:
        vectors = part.beta, part.gradient, part.problem.lower, part.problem.upper
        return cls(*upload(np.stack([vector[here] for vector in vectors]), device))

    def fetch(self, part: Part, here: slice = EVERYWHERE) -> None:
        """Copy the new duals and gradient to the part."""
        part.beta[here], part.gradient[here] = torch.stack([self.beta, self.gradient]).cpu().numpy()


class DeviceSolver(InnerSolver):
    """Tiles of up to `MOST_ON_HOST` variables are solved on the host. A subclass makes the steps on the device."""

    uses_pools = False
    last_share = 0.65  # steps are what a fit costs
    last_share_of_several = 0.03
    steps_at_once = 300_000  # less than a second, for which Ctrl-C has to wait; few working sets take so many
    entries_at_once = np.inf  # `solve_each` knows how many fit into the memory

    def __init__(self, device: torch.device, budget: float = np.inf) -> None:
        """`budget`: the bytes that tiles may take together."""
        self._device, self._budget = device, budget

    @abstractmethod
    def _steps(
        self, tiles: Sequence[DeviceTile], vectors: Vectors, groups: int, split: int | None, tolerance: float, limit: Limit
    ) -> list[TileResult]:
        """Make pair steps over each of the tiles, whose variables follow each other in `vectors`, until its violation is within
        the tolerance. `groups` is the number of sums to keep; with two, the second group begins at `split`."""

    def solve(self, tile: Tile, part: Part, tolerance: float, limit: Limit) -> TileResult:
        problem = replace(part.problem, shift=None)  # the diagonal of the tile has it
        one_round = tolerance >= REDUCTION * problem.violation(part.beta, part.gradient)
        if not tile.is_split and (len(tile) <= MOST_ON_HOST or one_round):
            return self._minimise(tile, part, tolerance, limit)
        point = DevicePoint(problem, tile, *(upload(vector, self._device) for vector in (part.beta, part.gradient)))
        end = time.perf_counter() + limit.seconds
        n_steps, lowest_curvature = 0, 0.0
        lowest, idle = np.inf, 0
        for number in itertools.count():
            violation = point.measure()
            idle = 0 if violation.value < lowest else idle + 1
            lowest = min(lowest, violation.value)
            left = Limit(limit.steps - n_steps, end - time.perf_counter())
            if violation.value <= tolerance or idle > PATIENCE or left.steps <= 0 or left.seconds <= 0.0:
                break
            most = self.largest_tile if tile.is_split else len(tile)
            members, _ = point.choose(violation, NEGLIGIBLE * tolerance, most, EXTRA_SHARE, number)
            few = tile.is_split or len(members) <= FEW * len(tile)
            if not few:
                members = np.arange(len(tile), dtype=np.int32)
            some = point.take(members)
            target = max((1.0 - ROUNDING) * tolerance, REDUCTION * violation.value)
            result = self._minimise(tile.part(members) if few else tile, some, target, left)
            point.move(members, some.beta, propagate=few)
            if not few:
                point.correct(members, some.gradient)
            n_steps += result.steps
            lowest_curvature = min(lowest_curvature, result.lowest_curvature)
            if not result.steps:
                break
        found = point.collect()
        part.beta[:], part.gradient[:] = found.beta, found.gradient
        return TileResult(n_steps, violation.value, lowest_curvature, violation.levels[0] if violation.levels else 0.0)

    def _minimise(self, tile: Tile, part: Part, tolerance: float, limit: Limit) -> TileResult:
        """Minimise over all variables of a tile, in place, without rounds; a tile that does not fit needs rounds of its own."""
        if isinstance(tile, SplitTile):
            return self.solve(tile, part, tolerance, limit)
        if len(tile) <= MOST_ON_HOST:
            return NativeSolver().solve(tile.to_array(), part, tolerance, limit)
        vectors, problem = Vectors.of(part, self._device), part.problem
        (result,) = self._steps([tile], vectors, len(problem.groups), problem.split, tolerance, limit)
        vectors.fetch(part)
        return result

    def solve_joint(self, tile: Tile, part: Part, tolerance: float, limit: Limit) -> TileResult:
        """On the host: a sample's step over all machines is small, and there is one step for each sample."""
        return NativeSolver().solve_joint(tile.to_array(), part, tolerance, limit)

    def solve_each(
        self,
        grams: Sequence[Gram],
        joined: Part,
        ends: Sequence[int],
        tolerance: float,
        polish: float,
        limit: Limit,
    ) -> list[TileResult]:
        """Several tiles make their steps side by side, as many as fit into the memory. They are parts of one kernel matrix: where
        that has fewer entries than they have together, it is computed instead of them."""
        if len(grams) == 1 or max(map(len, grams)) <= MOST_ON_HOST:
            return super().solve_each(grams, joined, ends, tolerance, polish, limit)
        problem, groups = joined.problem, int(joined.problem.coupled)
        sizes, budget = [gram.dtype.itemsize * len(gram) ** 2 for gram in grams], self._budget
        whole = None
        if problem.shift is None and isinstance(grams[0], DeviceGram):
            everyone = grams[0].everyone
            size = everyone.dtype.itemsize * len(everyone) ** 2
            if size < min(sum(sizes), 0.5 * budget):
                with suppress(torch.OutOfMemoryError):
                    whole, budget = everyone.whole_tile(_all(everyone)), budget - size
        results: list[TileResult] = []
        starts = [0, *ends[:-1]]
        while len(results) < len(grams):
            tiles: list[DeviceTile] = []
            room = budget
            for gram, start, size in zip(*(some[len(results) :] for some in (grams, starts, sizes)), strict=True):
                room -= size
                if tiles and room < 0:
                    break
                shift = None if problem.shift is None else problem.shift[start : start + len(gram)]
                try:
                    tiles.append(_tile_of(gram, shift, whole))
                except torch.OutOfMemoryError:
                    break
            here = slice(starts[len(results)], ends[len(results) + max(1, len(tiles)) - 1])
            if not tiles:  # not even one fits
                results += self._solve_in_rounds(grams[len(results)], joined, here, tolerance, polish, limit)
                continue
            vectors = Vectors.of(joined, self._device, here)
            found = self._steps(tiles, vectors, groups, None, tolerance, limit)
            if polish < tolerance:
                most = 10 * max(map(len, tiles)) + 100
                more = self._steps(tiles, vectors, groups, None, polish, limit.of_steps(most))
                found = [
                    TileResult(one.steps + two.steps, two.violation, min(one.lowest_curvature, two.lowest_curvature), two.level)
                    for one, two in zip(found, more, strict=True)
                ]
            vectors.fetch(joined, here)
            results += found
            del tiles
        return results

    def _solve_in_rounds(
        self, gram: Gram, joined: Part, here: slice, tolerance: float, polish: float, limit: Limit
    ) -> list[TileResult]:
        """Solve one of several problems alone."""
        problem = joined.problem.restrict(np.arange(here.start, here.stop))
        part = Part(problem, joined.beta[here], joined.gradient[here])
        return super().solve_each([gram], part, [len(gram)], tolerance, polish, limit)


def _tile_of(gram: Gram, shift: Vector | None, whole: DeviceTile | None) -> DeviceTile:
    """The tile of all variables, cut out of the whole kernel matrix if there is one; an error if it does not fit."""
    if isinstance(gram, DeviceGram):
        return gram.whole_tile(_all(gram), shift) if whole is None else gram.part_of(whole)
    tile = gram.tile(_all(gram), shift)
    if isinstance(tile, SplitTile):
        raise torch.OutOfMemoryError("a kernel matrix does not fit")
    return tile  # type: ignore[no-any-return]


def _all(gram: Gram) -> Indices:
    return np.arange(len(gram), dtype=np.int32)
