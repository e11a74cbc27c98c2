"""Samples: a training set, or queries, as everything below the estimators speaks of them.

    DenseSamples    rows of numbers, or whatever else a callable kernel compares
    CsrSamples      sparse rows
    MatrixSamples   rows of a precomputed kernel matrix: a sample is a row, and a training sample a column too

Samples are a container X as the user gave it, and an order. The order is an index into X, not a copy, so that sorting a training
set or choosing some of its samples costs nothing; a backend reads X through it when it packs the samples for its own use.
`make_samples` chooses the kind by what the data are; a kernel may have a kind of its own (`Kernel.samples`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

CONSTANT = 16.0 * float(np.finfo(float).eps)  # times the largest entry: a standard deviation that is smaller is rounding
SAMPLES_FOR_CENTRE = 15  # samples whose median is the centre
ENTRIES_AT_ONCE = 1 << 17  # entries of samples whose squares, say, are in memory at the same time
LARGE_OFFSET = 16.0  # an offset costs digits if its square is above this many times the median squared distance from the centre


class KernelFunction(Protocol):
    """The part of a kernel that samples need: its values for blocks of rows."""

    def block(self, A: Any, B: Any) -> Matrix: ...
    def exact_block(self, A: Any, B: Any) -> Matrix: ...
    def diag(self, A: Any) -> Vector: ...
    def sizes(self, A: Any) -> Vector | float: ...
    def require_defined(self, A: Any, B: Any) -> None: ...


class Samples(ABC):
    """Samples in a given order. `index` are their places in the container X; None: all of X, as it is."""

    #: A point that is subtracted from every sample before a kernel sees it; None: nothing is.
    centre: Vector | None = None
    #: Whether a point was subtracted from the rows when the container was made.
    moved: bool = False
    #: Whether the kernel values of these samples are in memory already.
    stored: bool = False
    #: Whether the rows are sparse.
    sparse: bool = False
    #: The backend where the rows are.
    home: str = "auto"

    def __init__(self, X: Any, index: Indices | None = None) -> None:
        self.X, self.index = X, index
        # what is known of all of X, shared by all samples that are taken from it: squared norms, and the largest entry
        self._norms: list[Vector] = []
        self._largest: list[float] = []

    def __len__(self) -> int:
        return int(self.X.shape[0]) if self.index is None else len(self.index)

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.X.shape
        return shape if self.index is None else (len(self.index), *shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.X.dtype
        return dtype

    def take(self, rows: NDArray[np.integer]) -> Self:
        """The samples `rows`, in that order."""
        chosen = self._copy()
        chosen.index = (rows if self.index is None else self.index[rows]).astype(np.int32, copy=False)
        return chosen

    def _copy(self) -> Self:
        same = object.__new__(type(self))  # several times faster than copy(self), and small problems take samples often
        vars(same).update(vars(self))
        return same

    def within(self, X: Any) -> Self:
        """The same samples in another container."""
        same = self._copy()
        same.X, same._norms, same._largest = X, [], []
        return same

    def astype(self, dtype: Any) -> Self:
        """The samples in another arithmetic."""
        return self.within(self.X.astype(dtype, copy=False))

    def places(self, rows: Indices) -> Indices:
        """The places of the samples `rows` in the container."""
        return rows if self.index is None else self.index[rows]

    @property
    def rows(self) -> Any:
        """The samples in the container that the user gave."""
        return self.X if self.index is None else self.X[self.index]

    @property
    def vectors(self) -> Any:
        """What a fitted model keeps of its support vectors."""
        return self.rows

    def _compared(self) -> Any:
        """What the kernel function gets."""
        return self.rows

    def block(self, kernel: KernelFunction, others: Self, exact: bool = False) -> Matrix:
        """k(x, z), a row for each sample x and a column for each z of `others`; as exact as float64 allows if asked."""
        evaluate = kernel.exact_block if exact else kernel.block
        return evaluate(self._compared(), others._compared())

    def diagonal(self, kernel: KernelFunction) -> Vector:
        """k(x, x) for each sample."""
        return kernel.diag(self._compared())

    def sizes(self, kernel: KernelFunction) -> Vector | float:
        """Numbers s with |k(x, z)| <= s_x s_z for all samples; a single number if they are all the same."""
        sizes = kernel.sizes(self.X)
        return sizes if isinstance(sizes, float) or self.index is None else sizes[self.index]

    def require_defined(self, kernel: KernelFunction, others: Self) -> None:
        """Raise a ValueError if the kernel is not defined for some pair of samples."""
        kernel.require_defined(self.rows, others.rows)

    @abstractmethod
    def variance(self, weights: Vector | None) -> float:
        """The variance of all entries; zero if they are the same but for rounding. With weights it is that of samples that occur
        as often as they weigh."""

    def largest_entry(self) -> float:
        """The largest absolute value of an entry of the container."""
        if not self._largest:
            self._largest.append(self._largest_entry())
        return self._largest[0]

    @abstractmethod
    def _largest_entry(self) -> float: ...

    def squared_norms(self) -> Vector:
        """|x|^2 for each sample, in the arithmetic of the container: accurate to at least six digits."""
        if not self._norms:
            everything = self._copy()
            everything.index = None
            self._norms.append(everything._squared_norms())
        return self._norms[0] if self.index is None else self._norms[0][self.index]

    @abstractmethod
    def _squared_norms(self) -> Vector: ...

    @property
    @abstractmethod
    def n_terms(self) -> int:
        """The largest number of products in a dot product of two samples; one for samples that are not rows of numbers."""

    def middle(self) -> Vector | None:
        """A point in the middle of the samples; None where subtracting it would cost more than it saves."""
        return None

    def around(self, centre: Vector | None) -> Self:
        """The samples less `centre`, for a kernel that does not notice, or a machine that makes up for it."""
        if centre is self.centre:
            return self
        moved = self._copy()
        moved.centre, moved._norms = centre, []
        return moved


class DenseSamples(Samples):
    def _compared(self) -> Any:
        return self.rows if self.centre is None else self.rows - self.centre

    def variance(self, weights: Vector | None) -> float:
        rows = self.rows
        mean = mean_of_entries(rows.sum(axis=1, dtype=np.float64), weights, rows.shape[1])
        linear, square = zip(*(_sums_of_deviations(block, mean) for block in _blocks(rows)), strict=True)
        return variance_of_entries(_joined(linear), _joined(square), weights, rows.shape[1], self.largest_entry())

    def _largest_entry(self) -> float:
        return _largest(self.X)

    def _squared_norms(self) -> Vector:
        rows = self._compared()
        return np.asarray(np.einsum("ij,ij->i", rows, rows), dtype=np.float64)

    @property
    def n_terms(self) -> int:
        return int(self.X.shape[1]) if self.X.ndim == 2 else 1

    def middle(self) -> Vector | None:
        step = max(1, len(self) // SAMPLES_FOR_CENTRE)
        return middle_of(self.take(np.arange(0, len(self), step)[:SAMPLES_FOR_CENTRE]).rows) if len(self) else None


class CsrSamples(Samples):
    sparse = True

    def variance(self, weights: Vector | None) -> float:
        rows = self.rows
        d = rows.shape[1]
        mean = mean_of_entries(np.asarray(rows.sum(axis=1, dtype=np.float64)).ravel(), weights, d)
        deviations, zeros = rows.data - mean, d - np.diff(rows.indptr)
        first, second = (
            sp.csr_array((some, rows.indices, rows.indptr), shape=rows.shape) for some in (deviations, deviations**2)
        )
        linear, square = first.sum(axis=1) - zeros * mean, second.sum(axis=1) + zeros * (mean * mean)
        return variance_of_entries(linear, square, weights, d, self.largest_entry())

    def _largest_entry(self) -> float:
        return _largest(self.X.data)

    def _squared_norms(self) -> Vector:
        norms = [np.asarray(block.multiply(block).sum(axis=1), dtype=np.float64).ravel() for block in _blocks(self.rows)]
        return _joined(norms)

    @property
    def n_terms(self) -> int:
        lengths = np.diff(self.X.indptr)
        return int((lengths if self.index is None else lengths[self.index]).max(initial=1))

    def dense(self) -> DenseSamples:
        return DenseSamples(self.rows.toarray())


class MatrixSamples(Samples):
    """Samples of a precomputed kernel: rows of the matrix. Against others they are compared by the columns of these; queries have
    rows only, a fitted model has columns only."""

    stored = True

    @property
    def vectors(self) -> Any:
        return np.empty((0, 0))

    def _columns(self) -> NDArray[np.integer]:
        return np.arange(self.X.shape[1]) if self.index is None else self.index

    def block(self, kernel: KernelFunction, others: Self, exact: bool = False) -> Matrix:
        columns = others._columns()
        return np.asarray(self.X[:, columns] if self.index is None else self.X[np.ix_(self.index, columns)], dtype=np.float64)

    def diagonal(self, kernel: KernelFunction) -> Vector:
        return np.asarray(self.X.diagonal() if self.index is None else self.X[self.index, self.index], dtype=np.float64)

    def sizes(self, kernel: KernelFunction) -> float:
        return float(np.sqrt(self.largest_entry()))

    def require_defined(self, kernel: KernelFunction, others: Self) -> None:
        return None

    def variance(self, weights: Vector | None) -> float:
        raise TypeError("a precomputed kernel has no gamma that the variance of its samples could choose")

    def _largest_entry(self) -> float:
        return _largest(self.X)

    def _squared_norms(self) -> Vector:
        return self.diagonal(None)  # type: ignore[arg-type]

    @property
    def n_terms(self) -> int:
        return 1


def make_samples(X: Any) -> Samples:
    """The samples of a validated container of features; one that is neither an array nor CSR has a kind of its own."""
    if hasattr(X, "as_samples"):
        return X.as_samples()  # type: ignore[no-any-return]
    return CsrSamples(X) if sp.issparse(X) else DenseSamples(X)


def csr_arrays(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Starts, places and values of CSR or CSC data as compiled code takes them: contiguous, and the first two of one type. They
    are those of X wherever possible."""
    starts, columns, values = (np.ascontiguousarray(some) for some in (X.indptr, X.indices, X.data))
    index = np.promote_types(starts.dtype, columns.dtype)
    return starts.astype(index, copy=False), columns.astype(index, copy=False), values


def _blocks(rows: Any) -> Iterator[Any]:
    """Some rows at a time, so few that what is computed from them stays in a cache."""
    n, width = rows.shape
    step = max(1, int(ENTRIES_AT_ONCE / max(1.0, rows.nnz / n if n and sp.issparse(rows) else width)))
    if n <= step:
        yield rows
    else:
        yield from (rows[start : start + step] for start in range(0, n, step))


def _joined(parts: Sequence[Vector]) -> Vector:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _sums_of_deviations(rows: NDArray[Any], mean: float) -> tuple[Vector, Vector]:
    """The sums of the deviations from `mean` in each row, and of their squares."""
    deviations = np.subtract(rows, mean, dtype=np.float64)
    linear = deviations.sum(axis=1)
    return linear, np.square(deviations, out=deviations).sum(axis=1)


def middle_of(rows: NDArray[Any]) -> Vector:
    """A point in the middle of dense samples that no outlier moves: the median of a few of them.

    Subtracting it changes no distance and saves digits. The mean would not do: with one sample at 1e18 it is so large that
    subtracting it leaves nothing of the others.
    """
    few = np.asarray(rows[:: max(1, rows.shape[0] // SAMPLES_FOR_CENTRE)][:SAMPLES_FOR_CENTRE], dtype=np.float64)
    return np.asarray(np.sort(few, axis=0)[len(few) // 2])


def dwarfs_spread(centre: Vector, samples: Samples) -> bool:
    """Whether samples are much farther from the origin than from their centre."""
    few = samples.take(np.arange(min(SAMPLES_FOR_CENTRE, len(samples)))).rows
    squares = np.sort(np.square(few - centre).sum(axis=1))  # numpy.median takes several times as long as this sort
    spread = float(squares[len(squares) // 2])
    return bool(centre @ centre > LARGE_OFFSET * spread)


def _largest(values: NDArray[Any]) -> float:
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))


def _shares(n: int, weights: Vector | None) -> Vector:
    return np.full(n, 1.0 / n) if weights is None else weights / weights.sum()


def mean_of_entries(sums: Vector, weights: Vector | None, d: int) -> float:
    """The mean of all entries, from the sums over the features of each sample."""
    return float(_shares(len(sums), weights) @ sums) / d


def variance_of_entries(linear: Vector, square: Vector, weights: Vector | None, d: int, largest: float) -> float:
    """The variance from the sums, over the features of each sample, of the deviations from the mean and of their squares. The
    deviations correct what rounding has left of the mean, so that a large mean cancels no digits."""
    share = _shares(len(linear), weights)
    left_of_mean, least = float(share @ linear) / d, CONSTANT * largest
    variance = float(share @ square) / d - left_of_mean * left_of_mean
    return 0.0 if variance <= least * least else variance
