"""The engine of a card: our CUDA kernels (`sources`), which compute kernel values and make the steps of a tile."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray

from maxmargin.backends.base import NEVER, Limit, TileResult
from maxmargin.backends.cuda.compiler import CudaError
from maxmargin.backends.cuda.engine import Engine, pairing_of
from maxmargin.backends.cuda.packing import WIDTH, Packed
from maxmargin.backends.cuda.point import EXTREMES
from maxmargin.backends.cuda.program import PORTABLE_CLUSTER, Kernel, capability_of, kernel
from maxmargin.backends.cuda.solver import DeviceSolver, Vectors
from maxmargin.backends.cuda.tile import DeviceTile
from maxmargin.kernels import NamedKernel

THREADS = 256  # of a block that computes kernel values
SIDES = {torch.float32: 128, torch.float64: 64}  # samples of one side of its tile
NAMES = {torch.float32: "float", torch.float64: "double"}
MOST_TILES = 64  # tiles that a block adds up; more support vectors are cut into chunks, each for another block
BLOCKS_PER_PROCESSOR = 16  # blocks for each multiprocessor of the card, so that they end at about the same time
OUTPUTS_AT_ONCE = 4  # rows of weights for which each kernel value is computed once

SHARE_OF_MEMORY = 0.5  # share of the free memory of the card that tiles may take
SHARE_FOR_SAMPLES = 0.4  # the same for samples; vectors of the problem and the sums of a pass have the rest
STEPS_AT_ONCE = 100_000  # steps of one launch, a fraction of a second, between two looks at the clock
WITH_CLUSTERS = 90  # the least compute capability


class CardEngine(Engine):
    failures = (torch.AcceleratorError, CudaError)

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._processors = torch.cuda.get_device_properties(device).multi_processor_count
        free = free_memory(device)
        self.inner = CardSolver(device, SHARE_OF_MEMORY * free)
        self.budget = SHARE_FOR_SAMPLES * free

    def use(self) -> None:
        torch.cuda.set_device(self.device)

    def finish(self) -> None:
        torch.cuda.synchronize(self.device)

    def sums(self, kernel: NamedKernel, queries: Packed, support: Packed, weights: torch.Tensor) -> torch.Tensor:
        if not queries.n or not support.n:
            return torch.zeros(len(weights), queries.n, dtype=torch.float64, device=self.device)
        sums = []
        for some in weights.split(OUTPUTS_AT_ONCE):
            outputs = 1 if len(some) == 1 else OUTPUTS_AT_ONCE
            spread = torch.zeros(outputs, support.width, dtype=queries.table.dtype, device=self.device)
            spread[: len(some), : support.n] = some
            sums.append(self._sums(kernel, queries, support, spread)[: len(some), : queries.n])
        return sums[0] if len(sums) == 1 else torch.cat(sums)

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

    def carried(self, chunks: Iterable[torch.Tensor | NDArray[Any]]) -> Iterator[torch.Tensor]:
        """Chunks of the host travel from pinned memory on a stream of their own. There are three at most on the card: one whose
        work has just ended, one in use, and one on its way."""
        ours, theirs = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)
        used: torch.cuda.Event | None = None
        ahead: tuple[torch.Tensor, torch.cuda.Event] | None = None
        for chunk in chunks:
            if isinstance(chunk, torch.Tensor):  # on a card already
                yield chunk.to(self.device)
                continue
            pinned = torch.from_numpy(chunk).pin_memory()
            if used is not None:
                used.synchronize()
            with torch.cuda.stream(theirs):
                rows = pinned.to(self.device, non_blocking=True)
                arrives = theirs.record_event()
            if ahead is not None:
                yield _arrived(*ahead, ours)
                used = ours.record_event()
            ahead = rows, arrives
        if ahead is not None:
            yield _arrived(*ahead, ours)


def _arrived(rows: torch.Tensor, arrives: torch.cuda.Event, stream: torch.cuda.Stream) -> torch.Tensor:
    """Rows that come on another stream, for use on this one."""
    stream.wait_event(arrives)
    rows.record_stream(stream)
    return rows


def free_memory(device: torch.device) -> float:
    """The bytes that torch may still take on a card: those that nobody has and those that it keeps for later use, within the
    share of the card that the process may have (`torch.cuda.set_per_process_memory_fraction`)."""
    free, total = torch.cuda.mem_get_info(device)
    stats = torch.cuda.memory_stats(device)
    allocated = stats.get("allocated_bytes.all.current", 0)
    free += stats.get("reserved_bytes.all.current", 0) - allocated
    allowed = torch.cuda.get_per_process_memory_fraction(device) * total - allocated
    return float(max(0.0, min(free, allowed)))


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
CLUSTERS = (Shape(1, 256, 4), Shape(16, 128, 1), Shape(16, 256, 1), Shape(16, 256, 2), Shape(16, 256, 4), Shape(16, 512, 4))
SMALLER_CLUSTERS = (Shape(1, 256, 4), Shape(8, 256, 1), Shape(8, 256, 2), Shape(8, 512, 2), Shape(8, 512, 4))
BLOCKS = (Shape(1, 256, 4), Shape(1, 512, 4), Shape(1, 512, 8))


class CardSolver(DeviceSolver):
    """Second-order SMO by thread-block clusters. It takes no Newton steps: on large tiles these take as long as the pair steps
    that they save."""

    def __init__(self, device: torch.device, budget: float) -> None:
        super().__init__(device, budget)
        self._shapes = self._possible_shapes()
        fits = int(math.sqrt(self._budget / 8)) // WIDTH * WIDTH
        self.largest_tile = max(WIDTH, min(self._shapes[-1].most - EXTREMES, fits))
        self.tile = max(WIDTH, self.largest_tile // 4)

    def _possible_shapes(self) -> Sequence[Shape]:
        if capability_of(torch.cuda.current_device()) < WITH_CLUSTERS:
            return BLOCKS
        largest = CLUSTERS[-1]
        try:
            fits = _solver(torch.float32, 1, largest).most_clusters(largest.threads, largest.blocks) > 0
        except RuntimeError:  # the card takes no clusters of this size
            fits = False
        return CLUSTERS if fits else SMALLER_CLUSTERS

    def _steps(
        self, tiles: Sequence[DeviceTile], vectors: Vectors, groups: int, split: int | None, tolerance: float, limit: Limit
    ) -> list[TileResult]:
        sizes = list(map(len, tiles))
        shape = next(shape for shape in self._shapes if shape.most >= max(sizes))
        program = _solver(tiles[0].matrix.dtype, groups, shape)
        if shape.blocks > PORTABLE_CLUSTER:
            program.most_clusters(shape.threads, shape.blocks)  # clusters of this size have to be allowed first
        rows = [
            (tile.matrix.data_ptr(), tile.matrix.stride(0), first, n | (n if split is None else split) << 32)
            for tile, n, first in zip(tiles, sizes, accumulate([0, *sizes[:-1]]), strict=True)
        ]
        told = torch.tensor(rows, dtype=torch.int64, device=self._device)
        results = torch.zeros(len(tiles), 4, dtype=torch.float64, device=self._device)
        end = time.perf_counter() + limit.seconds
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
