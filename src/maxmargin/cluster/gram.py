"""The kernel matrix of rows on a cluster. Tiles and pools are computed here, from fetched rows; sums over all rows, by workers.

A sum of kernel rows needs each support vector beside each row at which it is asked. Of these two sets the smaller one travels:
either every worker gets all support vectors, and answers for its own rows; or it gets all rows that are asked about, and sums
over its own support vectors.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.native import NativeBackend
from maxmargin.backends.native.gram import NativeGram
from maxmargin.cluster.piece import Arrangement, added
from maxmargin.cluster.samples import PartitionedSamples
from maxmargin.gram import ExactSums, Gram
from maxmargin.kernels import Kernel
from maxmargin.samples import make_samples

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

ROWS_TO_JUDGE = 64  # rows by which the cost of a kernel entry is judged
FEWEST_MEMBERS = 256  # of a working set, however little memory there is for their rows


class ClusterGram(Gram):
    def __init__(
        self, kernel: Kernel, samples: PartitionedSamples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]
    ) -> None:
        self.kernel, self._samples, self.dtype = kernel, samples, np.dtype(dtype)
        self._edges = segments
        self.rows = samples.X
        self.rows.budget = cache_bytes // 2  # one half for rows, the other for a pool
        self.most_members = max(FEWEST_MEMBERS, cache_bytes // (samples.dtype.itemsize * max(1, samples.n_terms)))
        few = np.arange(min(ROWS_TO_JUDGE, len(samples)), dtype=np.int32)
        self._last: Gram | None = None  # the matrix that was computed here last, whose memory the next one uses again
        self.largest_pool = self._matrix_of(few, cache_bytes).largest_pool
        self.expensive = self.largest_pool > 0  # a pass costs rounds and messages besides its entries, so there shall be few

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def samples(self) -> PartitionedSamples:
        return self._samples

    @property
    def numbers(self) -> NDArray[np.integer]:
        """The number of each variable's row in the collection."""
        return self._samples.numbers

    @property
    def remembers(self) -> bool:
        return False

    def arrangement(self, local: Indices, copies: int = 1) -> Arrangement:
        """How the workers see the rows `local` of a partition."""
        return Arrangement(self.kernel, self.dtype, self._samples.centre, local, copies)

    @cached_property
    def split(self) -> list[tuple[NDArray[np.intp], Indices]]:
        """For each partition, its variables, and their rows there."""
        return self.rows.split(self.numbers)

    # --- here -----------------------------------------------------------------------------------------------------

    def subset(self, members: Indices) -> Gram:
        return self._matrix_of(members)

    def stored(self, members: Indices) -> Gram:
        return self._matrix_of(members).stored(np.arange(len(members), dtype=np.int32))

    def _matrix_of(self, members: Indices, cache_bytes: int = 0) -> Gram:
        """The matrix over the variables `members`, whose rows are fetched."""
        samples = make_samples(self.rows.fetch(self.numbers[members])).around(self._samples.centre)
        matrix = NativeBackend().gram(self.kernel, samples, self.dtype, cache_bytes, (0, len(members)))
        if isinstance(matrix, NativeGram) and isinstance(self._last, NativeGram) and self._last.dtype == matrix.dtype:
            matrix.reuse(self._last)
        self._last = matrix
        return matrix

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        return self.subset(members).tile(np.arange(len(members), dtype=np.int32), shift)

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        both = np.arange(len(rows) + len(columns), dtype=np.int32)
        return self.subset(np.concatenate([rows, columns])).block(both[: len(rows)], both[len(rows) :])

    # --- on the workers -------------------------------------------------------------------------------------------

    def diagonal(self) -> Vector:
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Vector:
        return np.ones(len(self)) if self.kernel.shift_invariant else self._samples.diagonal(self.kernel)

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        told = [(self.arrangement(local),) for _, local in self.split]
        for _, answers in self.rows.ask_about("kernel_sums", self.numbers[rows], weights, told):
            for (variables, _), sums in zip(self.split, answers, strict=True):
                out[:, variables] += sums

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        support, queries = self.numbers[rows], self.numbers[at]
        centre, ask = self._samples.centre, self.rows.ask_about
        values, errors = np.zeros((2, len(weights), len(at)))
        offset = 0.0, 0.0
        if not len(rows) or not len(at):
            return ExactSums(values, errors)
        here = len(rows) < len(at)
        split = self.rows.split(queries if here else support)
        among = [p for p, (_, local) in enumerate(split) if len(local)]
        if here:
            places = [(self.kernel, centre, split[p][1]) for p in among]
            parts = [answers for _, answers in ask("exact_sums_here", support, weights, places, among)]
            for p, found in zip(among, map(added, zip(*parts, strict=True)), strict=True):
                values[:, split[p][0]], errors[:, split[p][0]], offset = found
        else:
            told = [(self.kernel, centre, split[p][1], np.ascontiguousarray(weights[:, split[p][0]])) for p in among]
            for some, answers in ask("exact_sums_of_mine", queries, None, told, among):
                values[:, some], errors[:, some], offset = added(answers)
        return ExactSums(values, errors, offset)

    def restrict(self, segments: tuple[int, ...]) -> ClusterGram:
        chosen = np.concatenate([np.arange(self._edges[s], self._edges[s + 1]) for s in segments])
        part = copy(self)
        part._samples = self._samples.take(chosen)
        for name in ("split", "_diagonal"):
            vars(part).pop(name, None)
        return part

    def in_float64(self) -> ClusterGram:
        wide = copy(self)
        wide.dtype = np.dtype(np.float64)
        return wide

    def release(self) -> None:
        """Nothing to do: the rows that were fetched serve all machines."""
