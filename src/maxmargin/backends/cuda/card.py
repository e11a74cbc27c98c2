"""The engine of a card: our CUDA kernels (`sources`), and a solver that keeps tiles in the memory of the card."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.base import NEVER, InnerSolver, Limit, TileResult
from maxmargin.backends.cuda.engine import Engine, pairing_of
from maxmargin.backends.cuda.packing import WIDTH, Packed, upload
from maxmargin.backends.cuda.program import PORTABLE_CLUSTER, Kernel, capability_of, kernel
from maxmargin.backends.native.inner import NativeSolver
from maxmargin.backends.point import Part
from maxmargin.gram import Gram
from maxmargin.kernels import NamedKernel

THREADS = 256  # of a block that computes kernel values
SIDES = {torch.float32: 128, torch.float64: 64}  # samples of one side of its tile
NAMES = {torch.float32: "float", torch.float64: "double"}
MOST_TILES = 64  # tiles that a block adds up; more support vectors are cut into chunks, each for another block
BLOCKS_PER_PROCESSOR = 16  # blocks for each multiprocessor of the card, so that they end at about the same time
OUTPUTS_AT_ONCE = 4  # rows of weights for which each kernel value is computed once

SHARE_OF_MEMORY = 0.5  # share of the free memory of the card that tiles may take
STEPS_AT_ONCE = 100_000  # steps of one launch, a fraction of a second, between two looks at the clock
MOST_ON_HOST = 1024  # variables of a tile that the host solves
WITH_CLUSTERS = 90  # the least compute capability


class CardEngine(Engine):
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._processors = torch.cuda.get_device_properties(device).multi_processor_count
        self.inner = CardSolver(device)

    def sums(self, kernel: NamedKernel, queries: Packed, support: Packed, weights: torch.Tensor) -> torch.Tensor:
        dtype = queries.table.dtype
        sums = torch.zeros(len(weights), queries.n, dtype=torch.float64, device=self.device)
        if not queries.n or not support.n:
            return sums
        for first in range(0, len(weights), OUTPUTS_AT_ONCE):
            some = weights[first : first + OUTPUTS_AT_ONCE]
            outputs = 1 if len(some) == 1 else OUTPUTS_AT_ONCE
            spread = torch.zeros(outputs, support.width, dtype=dtype, device=self.device)
            spread[: len(some), : support.n] = some
            sums[first : first + len(some)] = self._sums(kernel, queries, support, spread)[: len(some), : queries.n]
        return sums

    def _sums(self, kernel: NamedKernel, queries: Packed, support: Packed, weights: torch.Tensor) -> torch.Tensor:
        side = SIDES[queries.table.dtype]
        columns, tiles = queries.width // side, support.width // side
        at_once = min(MOST_TILES, -(-columns * tiles // (BLOCKS_PER_PROCESSOR * self._processors)))
        chunks = -(-tiles // at_once)
        out = torch.empty(chunks, len(weights), queries.width, dtype=torch.float64, device=self.device)
        told = (queries.table, queries.norms, _long(queries.width), support.table, support.norms, _long(support.width))
        arguments = (*told, len(queries.table), weights, at_once, out, *_parameters(kernel))
        _pairs("kernel_sums", kernel, queries, len(weights)).launch((columns, chunks), THREADS, arguments)
        return out.sum(0)

    def additions(self, n_support: int) -> int:
        tiles = -(-n_support // SIDES[torch.float64])
        return 16 + int(self._processors) * BLOCKS_PER_PROCESSOR + MOST_TILES + -(-tiles // MOST_TILES)

    def values(self, kernel: NamedKernel, first: Packed, second: Packed) -> torch.Tensor:
        dtype = first.table.dtype
        K = torch.empty(first.n, second.width, dtype=dtype, device=self.device)
        sets = (first.table, first.norms, _long(first.width), second.table, second.norms, _long(second.width))
        grid = second.width // SIDES[dtype], -(-first.n // SIDES[dtype])
        _pairs("kernel_values", kernel, first).launch(grid, THREADS, (*sets, len(first.table), K, first.n, *_parameters(kernel)))
        return K

    def tile(self, matrix: torch.Tensor, n: int) -> CardTile:
        return CardTile(matrix)


@dataclass(frozen=True)
class CardTile:
    """A square matrix in the memory of the card; its rows are padded with finite values."""

    matrix: torch.Tensor

    def __len__(self) -> int:
        return len(self.matrix)

    def to_array(self) -> NDArray[np.float64]:
        return np.asarray(self.matrix[:, : len(self)].double().cpu().numpy())


def _pairs(template: str, function: NamedKernel, samples: Packed, *further: int) -> Kernel:
    """The instance of a template of pairs.cu for a kernel function."""
    choices = (NAMES[samples.table.dtype], pairing_of(function, samples), function.name.upper(), *map(str, further))
    return kernel("pairs.cu", f"{template}<{', '.join(choices)}>")


def _parameters(kernel: NamedKernel) -> tuple[float, float, float]:
    """gamma, coef0 and degree; numbers that are not used for parameters that the kernel does not have."""
    return float(getattr(kernel, "gamma", 1.0)), float(getattr(kernel, "coef0", 0.0)), float(getattr(kernel, "degree", 3.0))


def _long(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


class Shape(NamedTuple):
    """The shape of a launch: blocks of a cluster, threads of a block, variables of a thread."""

    blocks: int
    threads: int
    each: int

    @property
    def most(self) -> int:
        return self.blocks * self.threads * self.each


#: Shapes by increasing size; the first that is large enough is taken.
CLUSTERS = (Shape(1, 256, 4), Shape(8, 256, 1), Shape(16, 256, 1), Shape(16, 256, 2), Shape(16, 256, 4), Shape(16, 512, 4))
SMALLER_CLUSTERS = (Shape(1, 256, 4), Shape(8, 256, 1), Shape(8, 256, 2), Shape(8, 512, 2), Shape(8, 512, 4))
BLOCKS = (Shape(1, 256, 4), Shape(1, 512, 4), Shape(1, 512, 8))


class CardSolver(InnerSolver):
    """Second-order SMO by thread-block clusters, many tiles side by side. It takes no Newton steps: on large tiles these take as
    long as the pair steps that they save. Small tiles are solved on the host, which takes Newton steps and is
    faster there."""

    uses_pools = False
    last_share = 0.5  # steps are what a fit costs
    steps_at_once = 2_000_000  # about five seconds, for which Ctrl-C has to wait; few working sets take so many

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._shapes = self._possible_shapes()
        free, _ = torch.cuda.mem_get_info(device)
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        self._budget = SHARE_OF_MEMORY * free
        fits = int(math.sqrt(self._budget / 8)) // WIDTH * WIDTH
        self.largest_tile = max(WIDTH, min(self._shapes[-1].most, fits))
        self.tile = max(WIDTH, self.largest_tile // 2)

    def _possible_shapes(self) -> Sequence[Shape]:
        if capability_of(torch.cuda.current_device()) < WITH_CLUSTERS:
            return BLOCKS
        largest = CLUSTERS[-1]
        try:
            fits = _solver(torch.float32, 1, largest).most_clusters(largest.threads, largest.blocks) > 0
        except RuntimeError:  # the card takes no clusters of this size
            fits = False
        return CLUSTERS if fits else SMALLER_CLUSTERS

    def solve(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        if len(tile) <= MOST_ON_HOST:
            return NativeSolver().solve(tile.to_array(), part, tolerance, limit)
        state = _State.of(part, self._device)
        (result,) = self._launch([tile], state, [0], len(part.problem.groups), tolerance, limit, part.problem.split)
        state.fetch(part)
        return result

    def solve_joint(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
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
        if max(map(len, grams)) <= MOST_ON_HOST:
            return super().solve_each(grams, joined, ends, tolerance, polish, limit)
        state, problem, groups = _State.of(joined, self._device), joined.problem, int(joined.problem.coupled)
        results: list[TileResult] = []
        starts = [0, *ends[:-1]]
        while len(results) < len(grams):
            tiles: list[CardTile] = []
            room = self._budget
            for gram, start in zip(grams[len(results) :], starts[len(results) :], strict=True):
                room -= gram.dtype.itemsize * len(gram) ** 2
                if tiles and room < 0:
                    break
                shift = None if problem.shift is None else problem.shift[start : start + len(gram)]
                tiles.append(gram.tile(np.arange(len(gram), dtype=np.int32), shift))
            firsts = starts[len(results) : len(results) + len(tiles)]
            found = self._launch(tiles, state, firsts, groups, tolerance, limit)
            if polish < tolerance:
                most = 10 * max(map(len, tiles)) + 100
                more = self._launch(tiles, state, firsts, groups, polish, limit.of_steps(most))
                found = [
                    TileResult(one.steps + two.steps, two.violation, min(one.lowest_curvature, two.lowest_curvature), two.level)
                    for one, two in zip(found, more, strict=True)
                ]
            results += found
            del tiles
        state.fetch(joined)
        return results

    def _launch(
        self,
        tiles: Sequence[CardTile],
        state: _State,
        firsts: Sequence[int],
        groups: int,
        tolerance: float,
        limit: Limit,
        split: int | None = None,
    ) -> list[TileResult]:
        """Solve tiles whose variables begin at `firsts`, side by side."""
        shape = next(shape for shape in self._shapes if shape.most >= max(map(len, tiles)))
        program = _solver(tiles[0].matrix.dtype, groups, shape)
        if shape.blocks > PORTABLE_CLUSTER:
            program.most_clusters(shape.threads, shape.blocks)  # clusters of this size have to be allowed first
        rows = [
            (tile.matrix.data_ptr(), tile.matrix.stride(0), first, len(tile) | (len(tile) if split is None else split) << 32)
            for tile, first in zip(tiles, firsts, strict=True)
        ]
        told = torch.tensor(rows, dtype=torch.int64, device=self._device)
        results = torch.zeros(len(tiles), 4, dtype=torch.float64, device=self._device)
        end = time.perf_counter() + limit.seconds
        vectors = (state.beta, state.gradient, state.lower, state.upper)
        done = 0
        while True:
            steps = min(STEPS_AT_ONCE, limit.steps - done)
            arguments = (told, *vectors, results, float(tolerance), _long(steps))
            program.launch((shape.blocks * len(tiles), 1), shape.threads, arguments, shape.blocks)
            done += steps
            found = [TileResult(int(one), *others) for one, *others in results.tolist()]
            going_on = any(one.violation > tolerance and one.steps == done for one in found)
            if not going_on or done >= limit.steps or (limit.seconds < NEVER and time.perf_counter() > end):
                return found


def _solver(dtype: torch.dtype, groups: int, shape: Shape) -> Kernel:
    return kernel("solve.cu", f"solve_tiles<{NAMES[dtype]}, {groups}, {shape.each}, {shape.threads}>")


@dataclass(frozen=True)
class _State:
    """The vectors of a `Part` on the device."""

    beta: torch.Tensor
    gradient: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor

    @classmethod
    def of(cls, part: Part, device: torch.device) -> _State:
        vectors = np.stack([part.beta, part.gradient, part.problem.lower, part.problem.upper])
        return cls(*upload(vectors, device))

    def fetch(self, part: Part) -> None:
        """Copy the new duals and gradient to the part."""
        part.beta[:], part.gradient[:] = torch.stack([self.beta, self.gradient]).cpu().numpy()
