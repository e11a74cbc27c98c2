"""The kernel matrix of one training set; entries are computed only when they are needed.

A Gram knows one kernel, one X and its memory budget. It does not know why a row is needed. `BlockGram` works for every kernel,
with NumPy blocks; a backend may have a faster one for the kernels it knows. `AugmentedGram` is K + 1 for any K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.kernels import FEW_FEATURES, UNIT_ROUNDOFF, Kernel, Precomputed, centre_of, rough_squared_norms

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

ROWS_AT_ONCE = 256
QUERIES_AT_ONCE = 2048
NO_CENTRE = np.empty(0)  # in place of a centre: the samples are not centred


class Gram(ABC):
    """Rows and tiles of a kernel matrix K, and sums of its rows."""

    #: The arithmetic the entries are computed in.
    dtype: np.dtype[Any]

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    def n_samples(self) -> int:
        """The number of samples, which is the number of entries to compute for a row; variables may share a sample."""
        return len(self)

    @property
    def is_tile(self) -> bool:
        """Whether the tile of all variables costs nothing, because the whole matrix is in memory."""
        return False

    @abstractmethod
    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        """The tile K[members, members] + diag(shift), in the form that the backend's `solve_tile` takes."""

    @abstractmethod
    def largest_diagonal(self) -> float:
        """The largest k(x, x)."""

    @abstractmethod
    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        """out += K[:, rows] @ weights."""

    def accumulate_each(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        """out[m] += K[:, rows] @ weights[m] for each m. A kernel row may be computed once for all m."""
        for own, sums in zip(weights, out, strict=True):
            chosen = np.flatnonzero(own)
            self.accumulate(rows[chosen], own[chosen], sums)

    @abstractmethod
    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Matrix | float]:
        """The sums weights @ K[rows, at], and a bound on their rounding errors: a number, a column or a matrix.

        Every entry is computed anew in float64, whatever `dtype` is, from the samples alone: nothing that a solver could have
        written (a cached row, a tile) is read. Certificates are computed from these sums.
        """

    @property
    def may_be_indefinite(self) -> bool:
        """Whether the matrix is that of a named kernel that need not be positive semi-definite, for which errors of a solver's
        gradient say little about each other."""
        return False

    @property
    def is_centred(self) -> bool:
        """Whether the samples were centred, so that this matrix differs from the kernel matrix of X."""
        return False

    def offset(self, rows: Indices, weights: Vector) -> tuple[float, float]:
        """The offset to add to sums of this matrix to make them sums of the kernel (zero unless the samples were centred), as a
        float64 value and its rounding error."""
        return 0.0, 0.0

    def entries(self, rows: Indices, columns: Indices) -> Matrix:
        """The block of float64 entries K[rows, columns], as certificates use them."""
        raise NotImplementedError(f"{type(self).__name__} has no entries to show")

    @abstractmethod
    def largest_norm(self, rows: Indices, weights: Vector) -> float:
        """The bound sum_a |weights_a| sqrt(k(x_a, x_a)) on the norm of sum_a weights_a phi(x_a)."""

    def constant_weight(self, rows: Indices, weights: Vector) -> float:
        """The weight of the constant feature 1, which is a bias, if this matrix has one besides the kernel's features; else
        zero."""
        return 0.0

    @property
    def sums_are_cheap(self) -> bool:
        """Whether `exact_sums` over all samples costs no more than a pass over the data, because K is a product of two
        factors."""
        return False

    @abstractmethod
    def in_float64(self) -> Gram:
        """The same matrix with entries computed in float64."""

    @property
    @abstractmethod
    def remembers(self) -> bool:
        """Whether computed rows are cached, so that using them again costs little."""

    def view(self) -> Gram:
        """The same matrix for use in another thread, if several threads may read it."""
        return self

    @abstractmethod
    def subset(self, members: Indices) -> Gram:
        """The matrix over the samples `members`, in that order, without the cached rows."""

    @abstractmethod
    def release(self) -> None:
        """Free cached values that are useful for this part of the training set only."""

    @abstractmethod
    def restrict(self, segments: tuple[int, ...]) -> Gram:
        """The matrix over some of the segments of the training set, with a shared cache."""

    def features(self) -> Any:
        """The features Phi with K = Phi Phi', a row for each variable, dense or CSR in float64, if the kernel has explicit
        ones."""
        raise NotImplementedError(f"{type(self).__name__} has no explicit features")


class DoubledGram(Gram):
    """The matrix for two variables per sample: [[K, K], [K, K]], where K is computed once."""

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

    def _merged(self, variables: Indices, weights: Matrix) -> tuple[Indices, Matrix]:
        """The samples of some variables, each once, and for each the sum of the weights of its two variables, which may
        cancel."""
        samples, places = np.unique(self._sample(variables), return_inverse=True)
        merged = np.zeros((len(weights), len(samples)))
        np.add.at(merged.T, places, weights.T)
        return samples, merged

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Matrix | float]:
        samples, places = np.unique(self._sample(at), return_inverse=True)
        sums, error = self.single.exact_sums(*self._merged(rows, weights), samples)
        return sums[:, places], np.broadcast_to(error, sums.shape)[:, places]

    def largest_norm(self, rows: Indices, weights: Vector) -> float:
        return self.single.largest_norm(self._sample(rows), weights)

    @property
    def may_be_indefinite(self) -> bool:
        return self.single.may_be_indefinite

    @property
    def is_centred(self) -> bool:
        return self.single.is_centred

    def offset(self, rows: Indices, weights: Vector) -> tuple[float, float]:
        return self.single.offset(self._sample(rows), weights)

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
    """Rows of any kernel in float64, computed by `kernel.block` in blocks, never the whole matrix at once."""

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        cache_bytes: int,
        segments: tuple[int, ...],
        balanced: bool = False,
    ) -> None:
        self.kernel = kernel
        self._X = X
        self._centre = linear_centre(kernel, X, balanced)
        self._segments = segments
        self._members = np.arange(segments[-1], dtype=np.int32)
        self._cache = RowCache(cache_bytes)

    def __len__(self) -> int:
        return len(self._members)

    @cached_property
    def _sizes(self) -> Vector | float:
        return self.kernel.sizes(self._X)

    def _compute(self, rows: Indices, columns: Indices, exact: bool = False) -> NDArray[np.float64]:
        if isinstance(self.kernel, Precomputed):
            return self.kernel.block(self._X[rows], columns)
        A, B = self._X[rows], self._X[columns]
        if self._centre is not None:
            A, B = A - self._centre, B - self._centre
        return self.kernel.exact_block(A, B) if exact else self.kernel.block(A, B)

    def _block(self, rows: Indices, columns: Indices) -> NDArray[np.float64]:
        """The block K[rows, columns]; if there is room for all of K, no entry is computed twice."""
        if self.remembers and len(rows) and not isinstance(self.kernel, Precomputed):
            return self._rows(rows)[:, columns]
        return self._compute(rows, columns)

    def _rows(self, rows: Indices) -> NDArray[np.float64]:
        """The rows K[rows, :] over the whole training set, from the cache as far as it holds them."""
        found = {int(row): self._cache.get(int(row)) for row in rows}
        missing = np.array([row for row, values in found.items() if values is None], dtype=np.int32)
        if len(missing):
            everything = np.arange(self._segments[-1], dtype=np.int32)
            for row, values in zip(missing, self._compute(missing, everything), strict=True):
                found[int(row)] = values
                self._cache.put(int(row), values.copy())
        return np.stack([found[int(row)] for row in rows])  # type: ignore[misc]

    def entries(self, rows: Indices, columns: Indices) -> Matrix:
        return self._compute(self._members[rows], self._members[columns])

    def tile(self, members: Indices, shift: Vector | None = None) -> NDArray[np.float64]:
        chosen = self._members[members]
        K = self._block(chosen, chosen)
        return K if shift is None else K + np.diag(shift)

    def largest_diagonal(self) -> float:
        return self._largest_diagonal

    @cached_property
    def _largest_diagonal(self) -> float:
        return float(self.kernel.diag(self._X if self._centre is None else self._X - self._centre).max())

    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        self.accumulate_each(rows, weights[None, :], out[None, :])

    def accumulate_each(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            out += weights[:, part] @ self._rows(self._members[rows[part]])[:, self._members]

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Matrix | float]:
        rows, at = self._members[rows], self._members[at]
        if self.sums_are_cheap:
            return self._linear_sums(rows, weights, at)[1:]
        sums = np.zeros((len(weights), len(at)))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            sums += weights[:, part] @ self._compute(rows[part], at, exact=True)
        terms = ROWS_AT_ONCE + len(rows) // ROWS_AT_ONCE + 2
        error = rounding_of_sums(self.kernel, terms_of(self._X), self._sizes, rows, weights, at, terms)
        if not self.kernel.shift_invariant:
            return sums, error
        return sums, error + rounding_of_distances(self.kernel, NO_CENTRE, self._X[rows], self._X[at], weights)

    def largest_norm(self, rows: Indices, weights: Vector) -> float:
        sizes = np.broadcast_to(self._sizes, self._segments[-1])
        return float(np.abs(weights) @ sizes[self._members[rows]])

    def _linear_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Any, Matrix, Matrix]:
        """Offsets, sums and bounds on their rounding errors, in NumPy's widest arithmetic. The samples at `rows` are not centred,
        so that a nonzero sum of weights has the same effect here as in the model."""
        wide, unit = np.longdouble, float(np.finfo(np.longdouble).eps)
        S, A = _dense(self._X[rows]), _dense(self._X[at])
        centre = np.zeros(S.shape[1]) if self._centre is None else self._centre
        w = weights.astype(wide) @ S.astype(wide)
        sums = np.asarray(w @ (A.astype(wide) - centre).T, dtype=np.float64)
        sizes = (np.abs(weights) @ np.abs(S)) @ (np.abs(A) + np.abs(centre)).T
        error = UNIT_ROUNDOFF * np.abs(sums) + (len(rows) + S.shape[1]) * unit * sizes
        return w @ centre.astype(wide), sums, error

    @property
    def is_centred(self) -> bool:
        return self._centre is not None

    def offset(self, rows: Indices, weights: Vector) -> tuple[float, float]:
        offset = self._linear_sums(self._members[rows], weights[None, :], rows[:0])[0][0]
        return float(offset), float(offset - float(offset))

    @property
    def sums_are_cheap(self) -> bool:
        return self.kernel.name == "linear"

    def features(self) -> Any:
        return explicit_features(self.kernel, self._X, self._members, self._centre)

    def in_float64(self) -> Gram:
        return self

    @property
    def remembers(self) -> bool:
        n = self._segments[-1]
        return self._cache.budget_bytes >= 8 * n * n

    def subset(self, members: Indices) -> BlockGram:
        return self._over(self._members[members])

    def _over(self, members: Indices) -> BlockGram:
        part = copy(self)
        part._members = members
        return part

    def release(self) -> None:
        """Nothing to do: a cached row spans the whole training set."""

    def restrict(self, segments: tuple[int, ...]) -> BlockGram:
        edges = self._segments
        members = np.concatenate([np.arange(edges[s], edges[s + 1], dtype=np.int32) for s in segments])
        return self._over(members)


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

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Matrix | float]:
        sums, error = self._gram.exact_sums(rows, weights, at)
        ones = weights.sum(axis=1, keepdims=True)
        return sums + ones, error + len(rows) * UNIT_ROUNDOFF * np.abs(weights).sum(axis=1, keepdims=True)

    def largest_norm(self, rows: Indices, weights: Vector) -> float:
        return self._gram.largest_norm(rows, weights) + float(np.abs(weights).sum())

    def constant_weight(self, rows: Indices, weights: Vector) -> float:
        return float(weights.sum())

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


def linear_centre(kernel: Kernel, X: Any, balanced: bool) -> Vector | None:
    """The centre to subtract from the samples of a linear kernel, or None. If the duals sum to zero, that changes only the
    intercept. It saves the digits that a large feature (a year, a time stamp) would cost the others."""
    return centre_of(X) if balanced and kernel.name == "linear" and not sp.issparse(X) and X.shape[0] else None


def terms_of(X: Any) -> int:
    """The largest number of products in a dot product of two samples; one for samples that are not rows of numbers."""
    if sp.issparse(X):
        return int(np.diff(X.indptr).max(initial=1))
    return int(X.shape[1]) if X.ndim == 2 else 1


def rounding_of_sums(
    kernel: Kernel,
    n_features: int,
    sizes: Vector | float,
    rows: Indices,
    weights: Matrix,
    at: Indices,
    terms: int,
) -> Matrix | float:
    """A bound on the rounding error of weights @ K[rows, at], from the rounding of each entry and of sums in which `terms`
    additions follow each other. `sizes` are the `Kernel.sizes` of all samples."""
    unit = kernel.rounding(n_features) + terms * UNIT_ROUNDOFF
    if isinstance(sizes, float):
        return np.asarray(unit * sizes**2 * np.abs(weights).sum(axis=1, keepdims=True))
    return np.asarray(unit * (np.abs(weights) @ sizes[rows])[:, None] * sizes[at])


def rounding_of_distances(kernel: Kernel, centre: Vector, support: Any, queries: Any, weights: Matrix) -> Matrix | float:
    """A bound on the further error of sums of a shift-invariant kernel if squared distances come from dot products of samples
    less a centre (empty: none). With few features distances come from differences, and the bound is zero.

    Subtracting the centre puts a sample x at distance r_x from it off by u r_x. If one of two samples is much farther out than
    the other, their distance is about as large, and its relative error is a few u. Else the distance is off by at most 3 u
    min(r_x, r_z), which moves exp(-gamma s) by at most 0.86 sqrt(gamma) times that, and exp(-gamma sqrt(s)) by gamma times it.
    """
    n_terms = max(terms_of(support), terms_of(queries))
    if not sp.issparse(support) and (support.ndim != 2 or support.shape[1] <= FEW_FEATURES):
        return 0.0
    squares = [1.01 * rough_squared_norms(some - centre if len(centre) else some) for some in (support, queries)]
    sizes = np.abs(weights)
    total = sizes.sum(axis=1, keepdims=True)
    of_support, of_queries = (kernel.rounding_of_products(norms, n_terms) for norms in squares)
    error = (sizes @ np.broadcast_to(of_support, sizes.shape[1]))[:, None] + total * of_queries
    if len(centre):
        gamma = float(getattr(kernel, "gamma", 1.0))
        unit = 3.0 * UNIT_ROUNDOFF * (np.sqrt(gamma) if kernel.name == "rbf" else gamma)
        radii = [np.sqrt(norms) for norms in squares]
        error = error + unit * np.minimum(total * radii[1], (sizes @ radii[0])[:, None]) + 6.0 * UNIT_ROUNDOFF * total
    return np.asarray(error)


def explicit_features(kernel: Kernel, X: Any, members: Indices, centre: Vector | None) -> Any:
    """The features phi(x) of the samples `members`: for the linear kernel, the samples themselves, less the centre."""
    if kernel.name != "linear":
        raise ValueError(
            f"the {kernel.name} kernel has no explicit features, which a solver of the primal problem needs: "
            "use kernel='linear', or a solver of the dual such as solver='block-smo'"
        )
    features = X[members].astype(np.float64)
    return features if centre is None else features - centre


def _dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else X


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
