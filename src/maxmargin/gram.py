"""The kernel matrix of one training set; entries are computed only when they are needed.

A Gram knows one kernel, one set of samples and its memory budget. It does not know why a row is needed. `BlockGram` works for
every kernel, with NumPy blocks; a backend may have a faster one for the kernels it knows. `DoubledGram` and `AugmentedGram` are
made of any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from copy import copy
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.kernels import FEW_FEATURES, Kernel
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.samples import CsrSamples, Samples

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

ROWS_AT_ONCE = 256
QUERIES_AT_ONCE = 2048


class ExactSums(NamedTuple):
    """Kernel sums, each from entries that were computed anew in float64, and a bound on their rounding errors: a number, a column
    or a matrix. `offset` is what to add to sums of a matrix of centred samples to make them sums of the kernel, one for each row,
    as float64 values and their rounding errors."""

    values: Matrix
    error: Matrix | float
    offset: tuple[float, float] = (0.0, 0.0)


class Gram(ABC):
    """Tiles, blocks and sums of rows of a kernel matrix K."""

    #: The arithmetic the entries are computed in.
    dtype: np.dtype[Any]
    kernel: Kernel
    #: A constant that is added to each kernel value: a feature whose weight is a bias.
    constant: float = 0.0
    #: Whether the tile of all variables costs nothing, because the whole matrix is in memory.
    is_tile: bool = False
    #: The largest number of variables of which `stored` has the matrix as a whole; 0 if an entry is computed again at less cost.
    largest_pool: int = 0
    #: Whether entries are so expensive that every pool is to be stored.
    expensive: bool = False
    #: The most members of a working set for whose samples there is memory; only samples that have to be fetched need any.
    most_members: float = np.inf

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def samples(self) -> Samples:
        """The samples that the variables stand for, in their order."""

    @property
    def n_samples(self) -> int:
        """The number of samples, which is the number of entries to compute for a row; variables may share a sample."""
        return len(self)

    @property
    @abstractmethod
    def remembers(self) -> bool:
        """Whether computed rows are cached, so that using them again costs little."""

    @abstractmethod
    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        """The tile K[members, members] + diag(shift), in the form that the backend's inner solver takes."""

    @abstractmethod
    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        """The block K[rows, columns] in the arithmetic of the matrix, as an array that may be overwritten."""

    @abstractmethod
    def diagonal(self) -> Vector:
        """k(x, x) for each variable."""

    @abstractmethod
    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        """out[m] += K[:, rows] @ weights[m] for each m; each kernel row is computed once."""

    def accumulate_besides(self, known: Indices, rows: Indices, weights: Vector, out: Vector) -> bool:
        """out += K[:, rows] @ weights, for a caller that knows the results of the variables `known`: if it saves time, those are
        left out; return whether they are."""
        self.accumulate(rows, weights[None], out[None])
        return False

    def expect(self, rows: Indices) -> None:
        """Note that these rows are likely to be needed again, so that they are kept when they are computed the next time."""
        return None  # a matrix without a cache of its own has nothing to keep

    @abstractmethod
    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        """The sums weights @ K[rows, at], for certificates.

        Every entry is computed anew in float64, whatever `dtype` is, from the samples alone: nothing that a solver could have
        written (a cached row, a tile) is read.
        """

    @abstractmethod
    def subset(self, members: Indices) -> Gram:
        """The matrix over the variables `members`, in that order, without the cached rows."""

    def stored(self, members: Indices) -> Gram:
        """Like `subset`, with the matrix stored as a whole, for at most `largest_pool` members. Its memory is used again by the
        next call."""
        raise NotImplementedError(f"{type(self).__name__} stores no pools")

    @abstractmethod
    def restrict(self, segments: tuple[int, ...]) -> Gram:
        """The matrix over some segments of the training set, with a shared cache."""

    @abstractmethod
    def in_float64(self) -> Gram:
        """The same matrix with entries computed in float64."""

    @abstractmethod
    def release(self) -> None:
        """Free cached values that are useful for this part of the training set only."""


class WrappedGram(Gram):
    """A matrix made of another one, `inner`."""

    def __init__(self, inner: Gram) -> None:
        self.inner = inner
        self.dtype, self.kernel = inner.dtype, inner.kernel
        self.largest_pool, self.expensive, self.most_members = inner.largest_pool, inner.expensive, inner.most_members

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def samples(self) -> Samples:
        return self.inner.samples

    @property
    def n_samples(self) -> int:
        return self.inner.n_samples

    @property
    def remembers(self) -> bool:
        return self.inner.remembers

    def restrict(self, segments: tuple[int, ...]) -> Gram:
        return type(self)(self.inner.restrict(segments))

    def in_float64(self) -> Gram:
        return type(self)(self.inner.in_float64())

    def release(self) -> None:
        self.inner.release()


class DoubledGram(WrappedGram):
    """The matrix for two variables per sample: [[K, K], [K, K]], where K is computed once."""

    def __len__(self) -> int:
        return 2 * len(self.inner)

    def _sample(self, variables: Indices) -> Indices:
        return variables % np.int32(len(self.inner))

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        return self.inner.tile(self._sample(members), shift)

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        return self.inner.block(self._sample(rows), self._sample(columns))

    def diagonal(self) -> Vector:
        return np.tile(self.inner.diagonal(), 2)

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        sums = np.zeros((len(weights), len(self.inner)))
        self.inner.accumulate(self._sample(rows), weights, sums)
        out += np.tile(sums, 2)

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        samples, places = np.unique(self._sample(at), return_inverse=True)
        sums = self.inner.exact_sums(*self._merged(rows, weights), samples)
        return ExactSums(sums.values[:, places], np.broadcast_to(sums.error, sums.values.shape)[:, places], sums.offset)

    def _merged(self, variables: Indices, weights: Matrix) -> tuple[Indices, Matrix]:
        """The samples of some variables, each once, and for each the sum of the weights of its two variables, which may
        cancel."""
        samples, places = np.unique(self._sample(variables), return_inverse=True)
        merged = np.zeros((len(weights), len(samples)))
        np.add.at(merged.T, places, weights.T)
        return samples, merged

    def expect(self, rows: Indices) -> None:
        self.inner.expect(self._sample(rows))

    def subset(self, members: Indices) -> Gram:
        return self.inner.subset(self._sample(members))

    def stored(self, members: Indices) -> Gram:
        return self.inner.stored(self._sample(members))


class AugmentedGram(WrappedGram):
    """K + 1: each sample has one more feature, whose value is 1 and whose weight is the bias."""

    constant = 1.0

    def tile(self, members: Indices, shift: Vector | None = None) -> NDArray[np.float64]:
        tile = self.inner.tile(members, shift)
        K = tile if isinstance(tile, np.ndarray) else tile.to_array()
        return K.astype(np.float64) + 1.0

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        return self.inner.block(rows, columns) + 1.0

    def diagonal(self) -> Vector:
        return self.inner.diagonal() + 1.0

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        self.inner.accumulate(rows, weights, out)
        out += weights.sum(axis=1, keepdims=True)

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        sums = self.inner.exact_sums(rows, weights, at)
        ones, sizes = weights.sum(axis=1, keepdims=True), np.abs(weights).sum(axis=1, keepdims=True)
        return ExactSums(sums.values + ones, sums.error + len(rows) * UNIT_ROUNDOFF * sizes)

    def expect(self, rows: Indices) -> None:
        self.inner.expect(rows)

    def subset(self, members: Indices) -> Gram:
        return AugmentedGram(self.inner.subset(members))

    def stored(self, members: Indices) -> Gram:
        return AugmentedGram(self.inner.stored(members))


class RowCache:
    """A cache of rows within a byte budget; it evicts the least recently used row and computes nothing."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._rows: OrderedDict[int, NDArray[Any]] = OrderedDict()

    def get(self, row: int) -> NDArray[Any] | None:
        values = self._rows.get(row)
        if values is not None:
            self._rows.move_to_end(row)
        return values

    def put(self, row: int, values: NDArray[Any]) -> None:
        if values.nbytes > self.budget_bytes:
            return
        while self.used_bytes + values.nbytes > self.budget_bytes:
            _, evicted = self._rows.popitem(last=False)
            self.used_bytes -= evicted.nbytes
        self._rows[row] = values
        self.used_bytes += values.nbytes


class BlockGram(Gram):
    """Rows of any kernel in float64, computed in blocks by the kernel's own text, never the whole matrix at once."""

    dtype = np.dtype(np.float64)

    def __init__(self, kernel: Kernel, samples: Samples, cache_bytes: int, segments: tuple[int, ...]) -> None:
        self.kernel, self._training_set = kernel, samples
        self._segments = segments
        self._members = np.arange(segments[-1], dtype=np.int32)
        self._cache = RowCache(cache_bytes)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def samples(self) -> Samples:
        return self._training_set.take(self._members)

    @property
    def remembers(self) -> bool:
        n = self._segments[-1]
        return self._cache.budget_bytes >= 8 * n * n

    def _compute(self, rows: Indices, columns: Indices, exact: bool = False) -> Matrix:
        return self._training_set.take(rows).block(self.kernel, self._training_set.take(columns), exact)

    def _rows(self, rows: Indices) -> Matrix:
        """The rows K[rows, :] over the whole training set, from the cache as far as it holds them."""
        found = {int(row): self._cache.get(int(row)) for row in rows}
        missing = np.array([row for row, values in found.items() if values is None], dtype=np.int32)
        if len(missing):
            everything = np.arange(self._segments[-1], dtype=np.int32)
            for row, values in zip(missing, self._compute(missing, everything), strict=True):
                found[int(row)] = values
                self._cache.put(int(row), values.copy())
        return np.stack([found[int(row)] for row in rows])  # type: ignore[misc]

    def tile(self, members: Indices, shift: Vector | None = None) -> Matrix:
        K = self.block(members, members)
        return K if shift is None else K + np.diag(shift)

    def block(self, rows: Indices, columns: Indices) -> Matrix:
        """K[rows, columns]; if there is room for all of K, no entry is computed twice."""
        rows, columns = self._members[rows], self._members[columns]
        if self.remembers and len(rows) and not self._training_set.stored:
            return self._rows(rows)[:, columns]
        return self._compute(rows, columns)

    def diagonal(self) -> Vector:
        return self._diagonal[self._members]

    @cached_property
    def _diagonal(self) -> Vector:
        return self._training_set.diagonal(self.kernel)

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            out += weights[:, part] @ self._rows(self._members[rows[part]])[:, self._members]

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        rows, at = self._members[rows], self._members[at]
        if self.kernel.explicit:
            return self._linear_sums(rows, weights, at)
        values = np.zeros((len(weights), len(at)))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            values += weights[:, part] @ self._compute(rows[part], at, exact=True)
        additions = ROWS_AT_ONCE + len(rows) // ROWS_AT_ONCE + 2
        error = rounding_of_sums(self.kernel, self._training_set.n_terms, self._sizes, rows, weights, at, additions)
        support, queries = self._training_set.take(rows), self._training_set.take(at)
        return ExactSums(values, error + rounding_of_distances(self.kernel, support, queries, weights))

    @cached_property
    def _sizes(self) -> Vector | float:
        return self._training_set.sizes(self.kernel)

    def _linear_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        """The sums of dot products in NumPy's widest arithmetic. The samples at `rows` are not centred, so that a nonzero sum of
        weights has the same effect here as in the model."""
        wide, unit = np.longdouble, float(np.finfo(np.longdouble).eps)
        S, A = (_dense(self._training_set.take(some)) for some in (rows, at))
        centre = np.zeros(S.shape[1]) if self._training_set.centre is None else self._training_set.centre
        w = weights.astype(wide) @ S.astype(wide)
        values = np.asarray(w @ (A.astype(wide) - centre).T, dtype=np.float64)
        sizes = (np.abs(weights) @ np.abs(S)) @ (np.abs(A) + np.abs(centre)).T
        error = UNIT_ROUNDOFF * np.abs(values) + (len(rows) + S.shape[1]) * unit * sizes
        offset = w[0] @ centre.astype(wide)
        return ExactSums(values, error, (float(offset), float(offset - float(offset))))

    def subset(self, members: Indices) -> BlockGram:
        return self._over(self._members[members])

    def restrict(self, segments: tuple[int, ...]) -> BlockGram:
        edges = self._segments
        return self._over(np.concatenate([np.arange(edges[s], edges[s + 1], dtype=np.int32) for s in segments]))

    def _over(self, members: Indices) -> BlockGram:
        part = copy(self)
        part._members = members
        return part

    def in_float64(self) -> Gram:
        return self

    def release(self) -> None:
        """Nothing to do: a cached row spans the whole training set."""


def rounding_of_sums(
    kernel: Kernel, n_terms: int, sizes: Vector | float, rows: Indices, weights: Matrix, at: Indices, additions: int
) -> Matrix | float:
    """A bound on the rounding error of weights @ K[rows, at], from the rounding of each entry and of sums in which so many
    `additions` follow each other. `sizes` are the `Kernel.sizes` of all samples, `n_terms` the terms of their dot products."""
    unit = kernel.rounding(n_terms) + additions * UNIT_ROUNDOFF
    if isinstance(sizes, float):
        return np.asarray(unit * sizes**2 * np.abs(weights).sum(axis=1, keepdims=True))
    return np.asarray(unit * (np.abs(weights) @ sizes[rows])[:, None] * sizes[at])


class DistanceErrors(NamedTuple):
    """Errors of the values of a shift-invariant kernel if squared distances come from dot products of samples less their centre,
    if they have one: k(x, z) is off by at most of_products[x] + of_products[z] + constant + min(of_centre[x], of_centre[z]).

    Subtracting the centre puts a sample x at distance r_x from it off by u r_x. If one of two samples is much farther out than
    the other, their distance is about as large, and its relative error is a few u. Else the distance is off by at most 3 u
    min(r_x, r_z), which moves the kernel by at most its slope times that.
    """

    of_products: Vector
    of_centre: Vector
    constant: float


def errors_of_distances(kernel: Kernel, samples: Samples, n_terms: int) -> DistanceErrors | None:
    """The errors of each sample, with `n_terms` terms in a dot product; None if they are zero: with few features, distances come
    from differences."""
    few = not isinstance(samples, CsrSamples) and (len(samples.shape) != 2 or samples.shape[1] <= FEW_FEATURES)
    if few or not kernel.shift_invariant:
        return None
    squares = 1.01 * samples.squared_norms()
    of_products = np.broadcast_to(kernel.rounding_of_products(squares, n_terms), squares.shape)
    if samples.centre is None and not samples.moved:
        return DistanceErrors(of_products, np.zeros_like(squares), 0.0)
    return DistanceErrors(of_products, 3.0 * UNIT_ROUNDOFF * kernel.slope() * np.sqrt(squares), 6.0 * UNIT_ROUNDOFF)


def rounding_of_distances(kernel: Kernel, support: Samples, queries: Samples, weights: Matrix) -> Matrix | float:
    """A bound on what `errors_of_distances` add to the error of the sums weights @ K[support, queries]."""
    n_terms = max(support.n_terms, queries.n_terms)
    ours, theirs = (errors_of_distances(kernel, some, n_terms) for some in (support, queries))
    if ours is None or theirs is None:
        return 0.0
    sizes = np.abs(weights)
    total, centre = sizes.sum(axis=1, keepdims=True), (sizes @ ours.of_centre)[:, None]
    products = (sizes @ ours.of_products)[:, None] + total * theirs.of_products
    return np.asarray(products + np.minimum(total * theirs.of_centre, centre) + ours.constant * total)


def _dense(samples: Samples) -> NDArray[Any]:
    rows = samples.rows
    return np.asarray(rows.toarray() if isinstance(samples, CsrSamples) else rows)


def sums_by_blocks(
    kernel: Kernel, support: Samples, queries: Samples, weights: Matrix, groups: NDArray[np.integer]
) -> NDArray[np.float64]:
    """sums[g, m, q] = sum of weights[m, s] k(query_q, support_s) over the support vectors s of group g, by blocks."""
    sums = np.empty((len(groups), len(weights), len(queries)))
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        some = np.arange(start, min(start + QUERIES_AT_ONCE, len(queries)))
        sums[:, :, start : start + len(some)] = sums_of_groups(queries.take(some).block(kernel, support), weights, groups)
    return sums


def sums_of_groups(K: Matrix, weights: Matrix, groups: NDArray[np.integer]) -> NDArray[np.float64]:
    """The same sums from the kernel matrix K of queries and support vectors."""
    ends = [0, *accumulate(groups.tolist())]
    return np.stack([weights[:, first:last] @ K[:, first:last].T for first, last in pairwise(ends)])
