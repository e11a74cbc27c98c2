"""The kernel matrix of one training set, of which only what is asked for is computed.

A Gram knows one kernel, one X and its memory budget. It does not know why a row is wanted. `BlockGram` works for every
kernel, on NumPy blocks; a backend may bring a faster one for the kernels it knows. `AugmentedGram` is K + 1 for any K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.kernels import Kernel, Precomputed

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

ROWS_AT_ONCE = 256
QUERIES_AT_ONCE = 2048


class Gram(ABC):
    """Rows and tiles of a kernel matrix K, and sums of its rows."""

    #: The arithmetic the entries are computed in.
    dtype: np.dtype[Any]

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def n_samples(self) -> int:
        """The samples behind the variables: the length of a row that has to be computed."""
        return len(self)

    @property
    def is_tile(self) -> bool:
        """Whether the tile of all variables costs nothing, because the whole matrix is there."""
        return False

    @abstractmethod
    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        """K[members, members] + diag(shift), in the form the backend's `solve_tile` takes."""

    @abstractmethod
    def largest_diagonal(self) -> float:
        """The largest k(x, x)."""

    @abstractmethod
    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        """out += K[:, rows] @ weights."""

    def accumulate_each(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        """out[m] += K[:, rows] @ weights[m] for each m. Where it pays, a kernel row is computed once for all."""
        for own, sums in zip(weights, out, strict=True):
            chosen = np.flatnonzero(own)
            self.accumulate(rows[chosen], own[chosen], sums)

    @abstractmethod
    def exact_sums(self, rows: Indices, weights: Vector, at: Indices) -> Vector:
        """K[at, rows] @ weights with every entry computed in float64, whatever `dtype` is."""

    def exact_sums_each(self, rows: Indices, weights: Matrix, at: Indices) -> Matrix:
        """`exact_sums` with each weights[m]."""
        return np.stack([self.exact_sums(rows, own, at) for own in weights])

    @property
    def sums_are_cheap(self) -> bool:
        """Whether `exact_sums` over everything costs no more than a look at the data, because K is a product of two factors."""
        return False

    @abstractmethod
    def in_float64(self) -> Gram:
        """The same matrix with entries computed in float64."""

    @property
    @abstractmethod
    def remembers(self) -> bool:
        """Whether a row that was computed once is kept, so that using it again costs little."""

    def view(self) -> Gram:
        """The same matrix for another thread, where several may read it."""
        return self

    @abstractmethod
    def subset(self, members: Indices) -> Gram:
        """The matrix over some of the samples, in that order, without what is cached."""

    @abstractmethod
    def release(self) -> None:
        """Forget what is cached and of use to this part of the training set alone."""

    @abstractmethod
    def restrict(self, segments: tuple[int, ...]) -> Gram:
        """The matrix over some of the segments the training set was cut into, sharing what is cached."""

    def features(self) -> Any:
        """Phi with K = Phi Phi', a row for each variable, dense or CSR in float64, where the kernel has such features."""
        raise NotImplementedError(f"{type(self).__name__} has no explicit features")


class DoubledGram(Gram):
    """The matrix of two variables per sample: K four times, as [[K, K], [K, K]], of which K is computed once."""

    def __init__(self, single: Gram) -> None:
        self.single = single
        self.dtype = single.dtype

    def __len__(self) -> int:
        return 2 * len(self.single)

    @property
    def n_samples(self) -> int:
        return self.single.n_samples

    def _sample(self, variables: Indices) -> Indices:
        return variables % np.int32(len(self.single))

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        return self.single.tile(self._sample(members), shift)

    def largest_diagonal(self) -> float:
        return self.single.largest_diagonal()

    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        sums = np.zeros(len(self.single))
        self.single.accumulate(self._sample(rows), weights, sums)
        out += np.tile(sums, 2)

    def exact_sums(self, rows: Indices, weights: Vector, at: Indices) -> Vector:
        samples, places = np.unique(self._sample(at), return_inverse=True)
        return self.single.exact_sums(self._sample(rows), weights, samples)[places]

    @property
    def sums_are_cheap(self) -> bool:
        return self.single.sums_are_cheap

    def in_float64(self) -> Gram:
        return DoubledGram(self.single.in_float64())

    @property
    def remembers(self) -> bool:
        return self.single.remembers

    def subset(self, members: Indices) -> Gram:
        return self.single.subset(self._sample(members))

    def release(self) -> None:
        self.single.release()

    def restrict(self, segments: tuple[int, ...]) -> Gram:
        return DoubledGram(self.single.restrict(segments))


class RowCache:
    """Keeps rows within a byte budget; evicts the least recently used, never computes."""

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
    """Rows by `kernel.block`, in float64, for any kernel: asked for blocks, never for the whole matrix at once."""

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        cache_bytes: int,
        segments: tuple[int, ...],
        members: Indices | None = None,
        cache: RowCache | None = None,
    ) -> None:
        self.kernel = kernel
        self.X = X
        self._segments = segments
        self._members = np.arange(segments[-1], dtype=np.int32) if members is None else members
        self._cache = RowCache(cache_bytes) if cache is None else cache

    def __len__(self) -> int:
        return len(self._members)

    def _compute(self, rows: Indices, columns: Indices) -> NDArray[np.float64]:
        if isinstance(self.kernel, Precomputed):
            return self.kernel.block(self.X[rows], columns)
        return self.kernel.block(self.X[rows], self.X[columns])

    def _block(self, rows: Indices, columns: Indices) -> NDArray[np.float64]:
        """K[rows, columns]; where there is room for all of K, nothing is computed twice."""
        if self.remembers and len(rows) and not isinstance(self.kernel, Precomputed):
            return self._rows(rows)[:, columns]
        return self._compute(rows, columns)

    def _rows(self, rows: Indices) -> NDArray[np.float64]:
        """K[rows, :] over the whole training set, from the cache where it has them."""
        found = {int(row): self._cache.get(int(row)) for row in rows}
        missing = np.array([row for row, values in found.items() if values is None], dtype=np.int32)
        if len(missing):
            everything = np.arange(self._segments[-1], dtype=np.int32)
            for row, values in zip(missing, self._compute(missing, everything), strict=True):
                found[int(row)] = values
                self._cache.put(int(row), values.copy())
        return np.stack([found[int(row)] for row in rows])  # type: ignore[misc]

    def tile(self, members: Indices, shift: Vector | None = None) -> NDArray[np.float64]:
        chosen = self._members[members]
        K = self._block(chosen, chosen)
        return K if shift is None else K + np.diag(shift)

    def largest_diagonal(self) -> float:
        if isinstance(self.kernel, Precomputed):
            return float(self.X.diagonal().max())
        return float(self.kernel.diag(self.X).max())

    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        self.accumulate_each(rows, weights[None, :], out[None, :])

    def accumulate_each(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            out += weights[:, part] @ self._rows(self._members[rows[part]])[:, self._members]

    def exact_sums(self, rows: Indices, weights: Vector, at: Indices) -> Vector:
        return np.asarray(self.exact_sums_each(rows, weights[None, :], at)[0])

    def exact_sums_each(self, rows: Indices, weights: Matrix, at: Indices) -> Matrix:
        out = np.zeros((len(weights), len(at)))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            out += weights[:, part] @ self._block(self._members[rows[part]], self._members[at])
        return out

    def features(self) -> Any:
        return explicit_features(self.kernel, self.X, self._members)

    def in_float64(self) -> Gram:
        return self

    @property
    def remembers(self) -> bool:
        n = self._segments[-1]
        return self._cache.budget_bytes >= 8 * n * n

    def subset(self, members: Indices) -> BlockGram:
        return BlockGram(self.kernel, self.X, 0, self._segments, self._members[members], self._cache)

    def release(self) -> None:
        """Nothing: a cached row spans the whole training set."""

    def restrict(self, segments: tuple[int, ...]) -> BlockGram:
        edges = self._segments
        members = np.concatenate([np.arange(edges[s], edges[s + 1], dtype=np.int32) for s in segments])
        return BlockGram(self.kernel, self.X, 0, edges, members, self._cache)


class AugmentedGram(Gram):
    """K + 1: each sample has one more feature, whose value is 1 and whose weight is the bias."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        self.dtype = gram.dtype

    def __len__(self) -> int:
        return len(self._gram)

    def tile(self, members: Indices, shift: Vector | None = None) -> NDArray[np.float64]:
        tile = self._gram.tile(members, shift)
        K = tile if isinstance(tile, np.ndarray) else tile.to_array()
        return K.astype(np.float64) + 1.0

    def largest_diagonal(self) -> float:
        return self._gram.largest_diagonal() + 1.0

    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        self._gram.accumulate(rows, weights, out)
        out += weights.sum()

    def exact_sums(self, rows: Indices, weights: Vector, at: Indices) -> Vector:
        return self._gram.exact_sums(rows, weights, at) + float(weights.sum())

    @property
    def sums_are_cheap(self) -> bool:
        return self._gram.sums_are_cheap

    def in_float64(self) -> Gram:
        return AugmentedGram(self._gram.in_float64())

    @property
    def remembers(self) -> bool:
        return self._gram.remembers

    def subset(self, members: Indices) -> AugmentedGram:
        return AugmentedGram(self._gram.subset(members))

    def release(self) -> None:
        self._gram.release()

    def restrict(self, segments: tuple[int, ...]) -> AugmentedGram:
        return AugmentedGram(self._gram.restrict(segments))


def explicit_features(kernel: Kernel, X: Any, members: Indices) -> Any:
    """phi(x) of some samples: of the linear kernel, the samples themselves."""
    if kernel.name != "linear":
        raise ValueError(
            f"the {kernel.name} kernel has no explicit features, which a solver of the primal problem needs: "
            "use kernel='linear', or a solver of the dual such as solver='block-smo'"
        )
    return X[members].astype(np.float64)


def sums_by_blocks(
    kernel: Kernel, support: Any, queries: Any, weights: NDArray[np.float64], groups: NDArray[np.integer]
) -> NDArray[np.float64]:
    """sums[g, m, q] = sum of weights[m, s] k(query_q, support_s) over the support vectors s of group g, by blocks."""
    ends = np.concatenate([[0], np.cumsum(groups)])
    sums = np.empty((len(groups), len(weights), queries.shape[0]))
    for start in range(0, queries.shape[0], QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        K = kernel.block(queries[part], support)
        for g in range(len(groups)):
            inside = slice(ends[g], ends[g + 1])
            sums[g, :, part] = weights[:, inside] @ K[:, inside].T
    return sums
