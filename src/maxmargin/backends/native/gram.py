"""The kernel matrix in compiled code: rows computed on demand, or a matrix stored as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.native.core import core
from maxmargin.backends.native.packing import (
    DOUBLE,
    NOTHING,
    SPARSE_COST,
    Indices,
    Matrix,
    Vector,
    centre_for,
    compiled_kernel,
    linear_sums,
    pack,
)
from maxmargin.gram import (
    BlockGram,
    DistanceErrors,
    ExactSums,
    Gram,
    errors_of_distances,
    rounding_of_distances,
    rounding_of_sums,
)
from maxmargin.kernels import FEW_FEATURES, Kernel, NamedKernel, Precomputed
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.samples import MatrixSamples, Samples

#: A kernel entry of at most this many multiplications is computed again in less time than it takes to write it to fresh memory
#: and read it back: rows are not kept.
CHEAP_ENTRY = 200
#: The same limits for the kernel matrix of a pool, whose entries are read many times: it is never stored, or not always.
CHEAP_IN_POOL, EXPENSIVE_IN_POOL = 16, 40
#: Additions whose rounding errors add up in a sum of native/src/exact_sums.cpp: ADDITIONS_OF_PANELS for sparse samples and for
#: dense ones with at most MOST_FOR_PANELS features, ADDITIONS_OF_PRODUCTS for the others.
MOST_FOR_PANELS, ADDITIONS_OF_PANELS, ADDITIONS_OF_PRODUCTS = 256, 12, 56


class _ForProofs:
    """What exact sums need to know of the samples, computed once for a matrix and all its restrictions."""

    def __init__(self, kernel: Kernel, samples: Samples) -> None:
        self._kernel, self._samples = kernel, samples

    @cached_property
    def samples(self) -> Samples:
        return self._samples.around(centre_for(self._kernel, self._samples, DOUBLE, FEW_FEATURES))

    @cached_property
    def n_terms(self) -> int:
        return self._samples.n_terms

    @cached_property
    def sizes(self) -> Vector | float:
        return self._samples.sizes(self._kernel)

    @property
    def additions(self) -> int:
        """Additions whose rounding errors add up in a sum."""
        few = self._samples.sparse or self._samples.shape[1] <= MOST_FOR_PANELS
        return ADDITIONS_OF_PANELS if few or self._kernel.name == "laplacian" else ADDITIONS_OF_PRODUCTS

    @cached_property
    def packed(self) -> Any:
        """All samples, packed apart from those that the solver sees."""
        return pack(self.samples, DOUBLE, self.samples.centre)

    @cached_property
    def errors(self) -> tuple[float, float, Vector, Vector, Vector]:
        """The `SumErrors` of native/include/maxmargin/proofs.hpp."""
        unit, sizes = self._kernel.rounding(self.n_terms) + self.additions * UNIT_ROUNDOFF, self.sizes
        if isinstance(sizes, float):
            unit, sizes = unit * sizes**2, NOTHING
        found = errors_of_distances(self._kernel, self.samples, self.n_terms) or DistanceErrors(NOTHING, NOTHING, 0.0)
        return unit, found.constant, sizes, np.ascontiguousarray(found.of_products), found.of_centre


class NativeGram(Gram):
    """Rows of a kernel that the compiled code knows, in float32 or float64, cached where that is faster than computing."""

    def __init__(
        self, kernel: Kernel, samples: Samples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]
    ) -> None:
        self.kernel, self._packed, self.dtype = kernel, samples, np.dtype(dtype)
        self.for_proofs = _ForProofs(kernel, samples)
        self._rows_of: dict[tuple[tuple[int, ...], ...], Indices] = {}  # what `rows_of` has found, for all restrictions
        self._budget = cache_bytes
        self._edges = segments
        self._chosen = tuple(range(len(segments) - 1))
        self._size = segments[-1]
        cost, half = _entry_cost(samples), cache_bytes // 2  # one half for rows, the other for a pool
        self._bytes_of_rows = half if cost > CHEAP_ENTRY else 0
        self.largest_pool = int((half / self.dtype.itemsize) ** 0.5) if cost > CHEAP_IN_POOL else 0
        self.expensive = cost > EXPENSIVE_IN_POOL
        kind = core.Tile32 if self.dtype == np.float32 else core.Tile64
        self._tile: Any = kind()
        self._pool: Any = kind()

    @cached_property
    def compiled(self) -> Any:
        """The compiled matrix, with a copy of the samples that only solvers need: exact sums do without."""
        packed = pack(self._packed, self.dtype, centre_for(self.kernel, self._packed, self.dtype))
        make = core.Gram32 if self.dtype == np.float32 else core.Gram64
        return make(compiled_kernel(self.kernel), packed, list(self._edges), self._bytes_of_rows)

    def reuse(self, other: NativeGram) -> None:
        """Take over the memory that another matrix, of the same arithmetic, has for tiles and pools."""
        self._tile, self._pool = other._tile, other._pool

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _members(self) -> Indices | None:
        """The variables as rows of the compiled matrix; None: all of them, in order."""
        return None if self._chosen == tuple(range(len(self._edges) - 1)) else rows_of([self])

    @cached_property
    def samples(self) -> Samples:  # type: ignore[override]
        return self._packed if self._members is None else self._packed.take(self._members)

    @property
    def remembers(self) -> bool:
        return bool(self.compiled.cached_blocks >= len(self) * len(self._chosen))

    def rows(self) -> Indices:
        """The rows of the compiled matrix that belong to the variables."""
        return np.arange(self._edges[-1], dtype=np.int32) if self._members is None else self._members

    def _rows(self, variables: Indices) -> Indices:
        return variables if self._members is None else self._members[variables]

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        self.compiled.fill_tile(self._rows(members), self._tile)
        if shift is not None:
            self._tile.add_to_diagonal(shift)
        return self._tile

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        first, second = self._packed.take(self._rows(rows)), self._packed.take(self._rows(columns))
        centre = centre_for(self.kernel, first, self.dtype)
        each = np.ones(len(first))  # sums of one term each are the entries
        sums = np.zeros((len(first), 1, len(second)))
        packed = pack(first, self.dtype, centre), pack(second, self.dtype, centre)
        core.weighted_sums(compiled_kernel(self.kernel), *packed, each[None], list(range(1, len(first) + 1)), sums)
        return sums[:, 0].astype(self.dtype, copy=False)

    def diagonal(self) -> Vector:
        return self._diagonal[self.rows()]

    @cached_property
    def _diagonal(self) -> Vector:
        return np.ones(self._edges[-1]) if self.kernel.shift_invariant else self.compiled.diagonal()

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        if len(weights) == 1:
            self.compiled.accumulate(self._rows(rows), weights[0], list(self._chosen), out[0], None)
        else:
            self.compiled.accumulate_each(self._rows(rows), np.ascontiguousarray(weights), list(self._chosen), out)

    def accumulate_besides(self, known: Indices, rows: Indices, weights: Vector, out: Vector) -> bool:
        of_all = np.zeros(self._edges[-1], dtype=np.uint8)
        of_all[self._rows(known)] = 1
        return bool(self.compiled.accumulate(self._rows(rows), weights, list(self._chosen), out, of_all))

    def expect(self, rows: Indices) -> None:
        self.compiled.expect(self._rows(rows))

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        values = np.zeros((len(weights), len(at)))
        rows, at = self._rows(rows), self._rows(at)
        if self.kernel.explicit:
            _, offset, values, sizes = linear_sums(self._packed, rows, weights, at)
            n_terms = len(rows) + self._packed.shape[1]
            doubt = UNIT_ROUNDOFF * np.abs(values) + 2.0 * (n_terms * UNIT_ROUNDOFF) ** 2 * sizes
            return ExactSums(values, doubt, (float(offset[0]), float(offset[1])))
        if not len(rows) or not len(at):
            return ExactSums(values, 0.0)
        known = self.for_proofs
        support, queries = known.samples.take(rows), known.samples.take(at)
        packed = pack(support, DOUBLE, support.centre), pack(queries, DOUBLE, support.centre)
        core.exact_sums(compiled_kernel(self.kernel), *packed, np.ascontiguousarray(weights), values)
        error = rounding_of_sums(self.kernel, known.n_terms, known.sizes, rows, weights, at, known.additions)
        return ExactSums(values, error + rounding_of_distances(self.kernel, support, queries, weights))

    def subset(self, members: Indices) -> NativeGram:
        rows = self._rows(members)
        part = copy(self)
        for name in ("_diagonal", "samples"):
            vars(part).pop(name, None)
        part._packed, part.compiled = self._packed.take(rows), self.compiled.subset(rows)
        part.for_proofs, part._rows_of = _ForProofs(self.kernel, part._packed), {}
        part._edges, part._chosen, part._members, part._size = (0, len(rows)), (0,), None, len(rows)
        return part

    def stored(self, members: Indices) -> Gram:
        self.compiled.fill_tile(self._rows(members), self._pool)
        return MatrixGram(self.kernel, self._pool.array(), None, (0, len(members)), (0,))

    def restrict(self, segments: tuple[int, ...]) -> NativeGram:
        part = object.__new__(NativeGram)  # several times faster than copy(self)
        vars(part).update(vars(self), compiled=self.compiled)
        for name in ("samples", "_members"):
            vars(part).pop(name, None)
        part._chosen, part._size = segments, sum([self._edges[s + 1] - self._edges[s] for s in segments])
        return part

    def in_float64(self) -> Gram:
        if self.dtype == np.float64:
            return self
        wide = NativeGram(self.kernel, self._packed, DOUBLE, self._budget, self._edges)
        wide._chosen, wide._size = self._chosen, self._size
        return wide

    def release(self) -> None:
        if self._members is not None:
            self.compiled.release_cross_blocks()


def rows_of(parts: Sequence[NativeGram]) -> Indices:
    """The rows of the compiled matrix that belong to the variables of some parts of it, one part after the other."""
    found, chosen = parts[0]._rows_of, tuple([part._chosen for part in parts])
    if chosen not in found:
        edges = parts[0]._edges
        everything = np.arange(edges[-1], dtype=np.int32)
        found[chosen] = np.concatenate([everything[edges[s] : edges[s + 1]] for own in chosen for s in own])
    return found[chosen]


class MatrixGram(Gram):
    """A kernel matrix stored as a whole, or some segments of it: in float64, or in float32 with its float64 version in `exact`
    (a pool has none: it is not asked for exact sums). It is never written to, so several threads may read it, each through a
    restriction of its own."""

    def __init__(
        self,
        kernel: Kernel,
        matrix: NDArray[Any],
        exact: MatrixGram | None,
        edges: tuple[int, ...],
        chosen: tuple[int, ...],
        rounding: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.matrix, self._exact, self.rounding = matrix, exact, rounding
        self.dtype = matrix.dtype
        self._edges, self._chosen = edges, chosen
        self._segments = [(edges[s], edges[s + 1]) for s in chosen]
        self._members = np.concatenate([np.arange(*segment, dtype=np.int32) for segment in self._segments])
        kind = core.Tile32 if self.dtype == np.float32 else core.Tile64
        self._tile: Any = kind()
        self._all: Any = kind()
        self.largest = float(matrix.diagonal().max())
        self.is_tile = len(self) == len(matrix)

    @property
    def samples(self) -> Samples:
        return MatrixSamples(self.in_float64().matrix, self._members)

    def rows(self) -> Indices:
        """The rows of the stored matrix that belong to the variables."""
        return self._members

    def __len__(self) -> int:
        return len(self._members)

    @property
    def remembers(self) -> bool:
        return True

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        if shift is None and self.is_tile and len(members) == len(self):
            self._all.view(self.matrix)
            return self._all
        core.fill_tile_from(self.matrix, self._members[members], self._tile)
        if shift is not None:
            self._tile.add_to_diagonal(shift)
        return self._tile

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        return np.array(self.matrix[np.ix_(self._members[rows], self._members[columns])])

    def diagonal(self) -> Vector:
        return np.asarray(self.in_float64().matrix.diagonal()[self._members])

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        for own, sums in zip(weights, out, strict=True):
            at = 0
            for first, last in self._segments:
                core.accumulate_from(self.matrix, self._members[rows], own, first, last, sums[at : at + last - first])
                at += last - first

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        """Sums from the stored float64 matrix, which was checked against freshly computed entries (`model_selection.grid`)."""
        if self._exact is not None:
            return self._exact.exact_sums(rows, weights, at)
        values = np.stack([self._sums(rows, own, at) for own in weights])
        unit = self.rounding + len(rows) * UNIT_ROUNDOFF
        return ExactSums(values, unit * self.largest * np.abs(weights).sum(axis=1, keepdims=True))

    def _sums(self, rows: Indices, weights: Vector, at: Indices) -> Vector:
        if len(rows) * len(self) <= len(at) * len(self.matrix):  # rows of the support vectors, not rows `at`
            everywhere = np.zeros((1, len(self)))
            self.accumulate(rows, weights[None], everywhere)
            return np.asarray(everywhere[0, at])
        spread = np.zeros(len(self.matrix))
        np.add.at(spread, self._members[rows], weights)  # a row may occur twice
        out = np.empty(len(at))
        core.products_from(self.matrix, self._members[at], spread, out)
        return out

    def subset(self, members: Indices) -> Gram:
        chosen = self._members[members]
        samples = MatrixSamples(self.in_float64().matrix, chosen)
        return BlockGram(Precomputed(), samples, 0, (0, len(chosen)))

    def restrict(self, segments: tuple[int, ...]) -> MatrixGram:
        exact = None if self._exact is None else self._exact.restrict(segments)
        return MatrixGram(self.kernel, self.matrix, exact, self._edges, segments, self.rounding)

    def in_float64(self) -> MatrixGram:
        return self if self._exact is None else self._exact

    def release(self) -> None:
        """Nothing to do: there is no cache."""


def make_whole(
    kernel: NamedKernel, pairing: Matrix, segments: tuple[int, ...], rounding: float, reused: MatrixGram | None
) -> MatrixGram:
    """The whole matrix from the `pairing` of all samples, in the memory of a matrix that is no longer needed, if there is one:
    touching fresh memory takes longer than computing the matrix."""
    if reused is not None:
        rounded, matrix = reused.matrix, reused.in_float64().matrix
    else:
        rounded, matrix = (_padded(len(pairing), np.dtype(dtype)) for dtype in (np.float32, np.float64))
    if kernel.name in core.kernel_names:
        core.apply_kernel_to(compiled_kernel(kernel), pairing, matrix, rounded)
    else:
        matrix[:] = kernel.of_pairing(pairing)
        rounded[:] = matrix
    everyone = tuple(range(len(segments) - 1))
    return MatrixGram(kernel, rounded, MatrixGram(kernel, matrix, None, segments, everyone, rounding), segments, everyone)


def _padded(n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An n by n array with rows padded by zeros, so that the whole matrix can serve as a tile."""
    width = -(-n // core.chunk) * core.chunk
    matrix = np.empty((n, width), dtype)
    matrix[:, n:] = 0.0
    return matrix[:, :n]


def _entry_cost(samples: Samples) -> float:
    """The cost of a kernel entry, in multiplications of dense samples."""
    if not samples.sparse:
        return float(samples.X.shape[1])
    n_values, n_samples = int(samples.X.nnz), int(samples.X.shape[0])
    return SPARSE_COST * n_values / max(1, n_samples)
