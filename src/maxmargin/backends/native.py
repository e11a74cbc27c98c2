"""The C++ backend: which compiled routine for which data, and the thread settings it needs."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack
from threadpoolctl import OpenBLASController, ThreadpoolController

from maxmargin.backends import waiting
from maxmargin.backends.base import Backend, Indices, Limit, Matrix, TileResult, Vector, Violation
from maxmargin.formulations import CrammerSingerProblem, DualProblem
from maxmargin.gram import (
    NO_CENTRE,
    BlockGram,
    Gram,
    explicit_features,
    linear_centre,
    rounding_of_distances,
    rounding_of_sums,
    sums_by_blocks,
    terms_of,
)
from maxmargin.kernels import (
    FEW_FEATURES,
    FEW_FEATURES_IN_FLOAT32,
    UNIT_ROUNDOFF,
    Kernel,
    NamedKernel,
    Precomputed,
    centre_of,
    dwarfs_spread,
)

with waiting.asleep():
    from maxmargin import _native

_native.use_blas(
    {name: cython_blas.__pyx_capi__[name] for name in ("sgemm", "dgemm")}
    | {name: cython_lapack.__pyx_capi__[name] for name in ("dpotrf", "dpotrs")}
)

DOUBLE = np.dtype(np.float64)
NO_SAMPLES = np.empty(0, dtype=np.int32)
#: Additions whose rounding errors add up in a sum of native/src/exact_sums.cpp: TERMS_OF_PANELS for sparse samples and for dense
#: ones with at most MOST_FOR_PANELS features, TERMS_OF_PRODUCTS for the others.
MOST_FOR_PANELS, TERMS_OF_PANELS, TERMS_OF_PRODUCTS = 256, 12, 56
#: Fewer float64 kernel entries than this are computed in less time than finding a centre takes.
TOO_FEW_TO_CENTRE = 100_000
#: A kernel entry of at most this many multiplications is computed again faster than it is read back from memory.
CHEAP_ENTRY = 200
#: CSR data of at least this density, and not too wide, is worked on as dense rows.
DENSE_ENOUGH = 0.3
WIDEST_DENSE = 4096
#: CSR samples with more columns than this for each stored value have mostly empty columns, which are left out.
MOST_COLUMNS_PER_VALUE = 4
#: With fewer kernel entries than this BLAS starts no threads by itself, and changing its thread setting would take longer.
WORTH_SETTING_THREADS = 1_000_000


class NativeBackend(Backend):
    name: ClassVar[str] = "native"

    def gram(
        self,
        kernel: Kernel,
        X: Any,
        dtype: np.dtype[Any],
        cache_bytes: int,
        segments: tuple[int, ...],
        balanced: bool = False,
    ) -> Gram:
        if not _evaluates(kernel, X):
            return BlockGram(kernel, X, cache_bytes, segments, balanced)
        return NativeGram(kernel, _narrow(_packable(kernel, X))[0], dtype, cache_bytes, segments, balanced)

    def pairing(self, kernel: NamedKernel, X: Any) -> NDArray[np.float64]:
        if not _evaluates(kernel, X):
            return super().pairing(kernel, X)
        (X,) = _narrow(_packable(kernel, X))
        values = np.empty((X.shape[0], X.shape[0]))
        _native.pair_all(_native_kernel(kernel), _samples(X, DOUBLE, _centre(kernel, X, DOUBLE)), values)
        return values

    def whole(
        self,
        kernel: NamedKernel,
        pairing: NDArray[np.float64],
        segments: tuple[int, ...],
        rounding: float,
        instead_of: Gram | None = None,
    ) -> Gram:
        if isinstance(instead_of, MatrixGram):  # touching fresh memory takes longer than computing the matrix
            rounded, matrix = instead_of._matrix, instead_of.in_float64()._matrix
        else:
            rounded, matrix = (_padded(len(pairing), np.dtype(dtype)) for dtype in (np.float32, np.float64))
        _native.apply_kernel_to(_native_kernel(kernel), pairing, matrix, rounded)
        everyone = tuple(range(len(segments) - 1))
        return MatrixGram(rounded, MatrixGram(matrix, None, segments, everyone, rounding), segments, everyone)

    def measure_violation(self, problem: DualProblem, beta: Vector, gradient: Vector) -> Violation:
        return _native.measure_violation(beta, problem.lower, problem.upper, gradient, problem.edges)

    def choose_working_set(
        self,
        problem: DualProblem,
        beta: Vector,
        gradient: Vector,
        violation: Violation,
        threshold: float,
        size: int,
        extra_share: float,
        seed: int,
    ) -> tuple[Indices, bool]:
        assert isinstance(violation, _native.Violation)
        return _native.choose_working_set(
            beta, problem.lower, problem.upper, gradient, problem.edges, violation, threshold, size, extra_share, seed
        )

    def solve_tile(
        self, tile: Any, problem: DualProblem, beta: Vector, gradient: Vector, tolerance: float, limit: Limit
    ) -> TileResult:
        bounds = problem.lower, problem.upper
        return TileResult(*_native.solve_tile(_compiled(tile), *bounds, beta, gradient, problem.edges, tolerance, *limit))

    def solve_joint_tile(
        self, tile: Any, problem: CrammerSingerProblem, B: Matrix, gradient: Matrix, tolerance: float, limit: Limit
    ) -> TileResult:
        return TileResult(*_native.solve_joint_tile(_compiled(tile), problem.upper, B, gradient, tolerance, *limit))

    def solve_tiles(
        self,
        grams: Sequence[Gram],
        joined: DualProblem,
        ends: NDArray[np.intp],
        beta: Vector,
        gradient: Vector,
        tolerance: float,
        polish: float,
        limit: Limit,
    ) -> list[TileResult]:
        parts = [gram for gram in grams if isinstance(gram, NativeGram)]
        if len(parts) < len(grams):
            return super().solve_tiles(grams, joined, ends, beta, gradient, tolerance, polish, limit)
        results = _native.solve_tiles(
            parts[0]._gram,
            ends.tolist(),
            np.concatenate([part._everyone() for part in parts]),
            joined.lower,
            joined.upper,
            np.empty(0) if joined.shift is None else joined.shift,
            beta,
            gradient,
            joined.coupled,
            tolerance,
            polish,
            *limit,
        )
        return [TileResult(*result) for result in results]

    def weighted_sums(
        self,
        kernel: Kernel,
        support: Any,
        queries: Any,
        weights: NDArray[np.float64],
        groups: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        if sp.issparse(support) != sp.issparse(queries):  # a dense query of a sparse model, or the reverse
            support, queries = _dense(support), _dense(queries)
        if not _evaluates(kernel, support):
            return sums_by_blocks(kernel, support, queries, weights, groups)
        if kernel.name == "laplacian":
            support, queries = _dense(support), _dense(queries)
        support, queries = _narrow(support, queries)
        dtype = queries.dtype
        few = dtype == DOUBLE and support.shape[0] * queries.shape[0] <= TOO_FEW_TO_CENTRE
        centre = NO_CENTRE if few else _centre(kernel, support, dtype)
        sums = np.zeros((len(groups), len(weights), queries.shape[0]))
        _native.weighted_sums(
            _native_kernel(kernel),
            _samples(support, dtype, centre),
            _samples(queries, dtype, centre),
            np.ascontiguousarray(weights, dtype=np.float64),
            [int(end) for end in np.cumsum(groups)],
            sums,
        )
        return sums

    def linear_weights(self, vectors: Any, coefficients: Matrix) -> Matrix:
        return _linear_sums(vectors, None, np.arange(vectors.shape[0], dtype=np.int32), coefficients, NO_SAMPLES)[0]

    @property
    def n_threads(self) -> int:
        return _native.n_threads()

    def use_one_thread(self) -> None:
        _native.use_threads(1)

    def session(self, entries: int) -> AbstractContextManager[Any]:
        return nullcontext() if entries < WORTH_SETTING_THREADS else _blas_threads_off


class NativeGram(Gram):
    """Rows of a named kernel, computed in C++ in float32 or float64, cached where that is faster than computing."""

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        dtype: np.dtype[Any],
        cache_bytes: int,
        segments: tuple[int, ...],
        balanced: bool = False,
    ) -> None:
        self.kernel = kernel
        self.X = X
        self._balanced = balanced
        self.dtype = np.dtype(dtype)
        self._budget = cache_bytes
        self._edges = segments
        self._chosen = tuple(range(len(segments) - 1))
        self._members: Indices | None = None  # variables as rows of the compiled matrix; None: all of them, in order
        self._origin: Indices | None = None  # samples of the compiled matrix as rows of X; None: all of them, in order
        single = self.dtype == np.float32
        kept = cache_bytes if _entry_cost(X) > CHEAP_ENTRY else 0
        self._linear_centre = linear_centre(kernel, X, balanced)
        centre = _centre(kernel, X, self.dtype) if self._linear_centre is None else self._linear_centre
        self._gram = (_native.Gram32 if single else _native.Gram64)(
            _native_kernel(kernel), _samples(X, self.dtype, centre), list(segments), kept
        )
        self._tile: Any = (_native.Tile32 if single else _native.Tile64)()

    def __len__(self) -> int:
        return self._edges[-1] if self._members is None else len(self._members)

    def _global(self, local: Indices) -> Indices:
        return local if self._members is None else self._members[local]

    def _in_X(self, local: Indices) -> Indices:
        return self._global(local) if self._origin is None else self._origin[self._global(local)]

    def _everyone(self) -> Indices:
        return np.arange(self._edges[-1], dtype=np.int32) if self._members is None else self._members

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        self._gram.fill_tile(self._global(members), self._tile)
        if shift is not None:
            self._tile.add_to_diagonal(shift)
        return self._tile

    def largest_diagonal(self) -> float:
        return self._largest_diagonal

    @cached_property
    def _largest_diagonal(self) -> float:
        return 1.0 if self.kernel.shift_invariant else float(self._gram.diagonal().max())

    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        self._gram.accumulate(self._global(rows), weights, list(self._chosen), out)

    def accumulate_each(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        self._gram.accumulate_each(self._global(rows), np.ascontiguousarray(weights), list(self._chosen), out)

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Matrix | float]:
        sums = np.zeros((len(weights), len(at)))
        if not len(rows) or not len(at):
            return sums, 0.0
        rows, at = self._in_X(rows), self._in_X(at)
        if self.sums_are_cheap:
            _, _, sums, sizes = _linear_sums(self.X, self._linear_centre, rows, weights, at)
            n_terms = len(rows) + self.X.shape[1]
            return sums, UNIT_ROUNDOFF * np.abs(sums) + 2.0 * (n_terms * UNIT_ROUNDOFF) ** 2 * sizes
        support, queries = self.X[rows], self.X[at]
        centre = self._exact_centre
        pair = _samples(support, DOUBLE, centre), _samples(queries, DOUBLE, centre)
        _native.exact_sums(_native_kernel(self.kernel), *pair, np.ascontiguousarray(weights), sums)
        panels = sp.issparse(self.X) or self.X.shape[1] <= MOST_FOR_PANELS or self.kernel.name == "laplacian"
        terms = TERMS_OF_PANELS if panels else TERMS_OF_PRODUCTS
        error = rounding_of_sums(self.kernel, self._n_terms, self._sizes, rows, weights, at, terms)
        if not self.kernel.shift_invariant:
            return sums, error
        return sums, error + rounding_of_distances(self.kernel, centre, support, queries, weights)

    def largest_norm(self, rows: Indices, weights: Vector) -> float:
        sizes = np.broadcast_to(self._sizes, self.X.shape[0])
        return float(np.abs(weights) @ sizes[self._in_X(rows)])

    @cached_property
    def _exact_centre(self) -> Vector:
        return _centre(self.kernel, self.X, DOUBLE, FEW_FEATURES)

    @cached_property
    def _n_terms(self) -> int:
        return terms_of(self.X)

    @cached_property
    def _sizes(self) -> Vector | float:
        return self.kernel.sizes(self.X)

    @property
    def may_be_indefinite(self) -> bool:
        return not self.kernel.definite

    @property
    def is_centred(self) -> bool:
        return self._linear_centre is not None

    def offset(self, rows: Indices, weights: Vector) -> tuple[float, float]:
        value, rounding = _linear_sums(self.X, self._linear_centre, self._in_X(rows), weights[None, :], NO_SAMPLES)[1]
        return float(value), float(rounding)

    @property
    def sums_are_cheap(self) -> bool:
        return self.kernel.name == "linear"

    def features(self) -> Any:
        members = self._in_X(np.arange(len(self), dtype=np.int32))
        return explicit_features(self.kernel, self.X, members, self._linear_centre)

    def in_float64(self) -> Gram:
        if self.dtype == np.float64:
            return self
        X = self.X if self._origin is None else self.X[self._origin]
        wide = NativeGram(self.kernel, X, DOUBLE, self._budget, self._edges, self._balanced)
        wide._chosen, wide._members = self._chosen, self._members
        return wide

    @property
    def remembers(self) -> bool:
        return self._gram.cached_blocks >= len(self) * len(self._chosen)

    def subset(self, members: Indices) -> NativeGram:
        part = object.__new__(NativeGram)
        part.__dict__.update(self.__dict__)
        part._edges, part._chosen, part._members = (0, len(members)), (0,), None
        part._origin = self._in_X(members)
        part._gram = self._gram.subset(self._global(members))
        part.__dict__.pop("_largest_diagonal", None)
        return part

    def release(self) -> None:
        if self._members is not None:
            self._gram.release_cross_blocks()

    def restrict(self, segments: tuple[int, ...]) -> NativeGram:
        part = object.__new__(NativeGram)
        part.__dict__.update(self.__dict__)
        part._chosen = segments
        part._members = np.concatenate([np.arange(self._edges[s], self._edges[s + 1], dtype=np.int32) for s in segments])
        return part


class MatrixGram(Gram):
    """A kernel matrix stored as a whole, or some segments of it: in float64, or in float32 with its float64 version in `exact`.
    It is never written to: each thread may have a `view` of its own."""

    def __init__(
        self,
        matrix: NDArray[Any],
        exact: MatrixGram | None,
        edges: tuple[int, ...],
        chosen: tuple[int, ...],
        rounding: float = 0.0,
    ) -> None:
        self._matrix, self._exact, self._rounding = matrix, exact, rounding
        self.dtype = matrix.dtype
        self._edges, self._chosen = edges, chosen
        self._segments = [(edges[s], edges[s + 1]) for s in chosen]
        self._members = np.concatenate([np.arange(*segment, dtype=np.int32) for segment in self._segments])
        kind = _native.Tile32 if self.dtype == np.float32 else _native.Tile64
        self._tile: Any = kind()
        self._all: Any = kind()
        self._largest = float(matrix.diagonal().max())

    def __len__(self) -> int:
        return len(self._members)

    def view(self) -> MatrixGram:
        return self.restrict(self._chosen)

    @property
    def is_tile(self) -> bool:
        return len(self) == len(self._matrix)

    def tile(self, members: Indices, shift: Vector | None = None) -> Any:
        if shift is None and self.is_tile and len(members) == len(self):
            self._all.view(self._matrix)
            return self._all
        _native.fill_tile_from(self._matrix, self._members[members], self._tile)
        if shift is not None:
            self._tile.add_to_diagonal(shift)
        return self._tile

    def largest_diagonal(self) -> float:
        return self._largest

    def accumulate(self, rows: Indices, weights: Vector, out: Vector) -> None:
        at = 0
        for first, last in self._segments:
            _native.accumulate_from(self._matrix, self._members[rows], weights, first, last, out[at : at + last - first])
            at += last - first

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Matrix | float]:
        """Sums from the stored float64 matrix, which was checked against freshly computed entries (`model_selection.grid`)."""
        if self._exact is not None:
            return self._exact.exact_sums(rows, weights, at)
        sums = np.stack([self._sums(rows, own, at) for own in weights])
        unit = self._rounding + len(rows) * UNIT_ROUNDOFF
        return sums, unit * self._largest * np.abs(weights).sum(axis=1, keepdims=True)

    def _sums(self, rows: Indices, weights: Vector, at: Indices) -> Vector:
        if len(rows) * len(self) <= len(at) * len(self._matrix):  # rows of the support vectors, not rows `at`
            everywhere = np.zeros(len(self))
            self.accumulate(rows, weights, everywhere)
            return np.asarray(everywhere[at])
        spread = np.zeros(len(self._matrix))
        np.add.at(spread, self._members[rows], weights)  # a row may occur twice
        out = np.empty(len(at))
        _native.products_from(self._matrix, self._members[at], spread, out)
        return out

    def largest_norm(self, rows: Indices, weights: Vector) -> float:
        return float(np.abs(weights).sum() * np.sqrt(self._largest))

    def entries(self, rows: Indices, columns: Indices) -> Matrix:
        """Entries of the float64 matrix; rows and columns are sample numbers of the whole training set."""
        return np.array(self.in_float64()._matrix[np.ix_(rows, columns)])

    def in_float64(self) -> MatrixGram:
        return self if self._exact is None else self._exact

    @property
    def remembers(self) -> bool:
        return True

    def subset(self, members: Indices) -> Gram:
        chosen = self._members[members]
        return BlockGram(Precomputed(), self.in_float64()._matrix[np.ix_(chosen, chosen)], 0, (0, len(chosen)))

    def release(self) -> None:
        """Nothing to do: there is no cache."""

    def restrict(self, segments: tuple[int, ...]) -> MatrixGram:
        exact = None if self._exact is None else self._exact.restrict(segments)
        return MatrixGram(self._matrix, exact, self._edges, segments, self._rounding)


def _compiled(tile: Any) -> Any:
    """A tile in the form that the compiled code takes; arrays are converted."""
    if not isinstance(tile, np.ndarray):
        return tile
    copy = _native.Tile64()
    copy.assign(tile)
    return copy


def _padded(n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An n by n array with rows padded by zeros, so that the whole matrix can serve as a tile."""
    width = -(-n // _native.chunk) * _native.chunk
    matrix = np.empty((n, width), dtype)
    matrix[:, n:] = 0.0
    return matrix[:, :n]


def _evaluates(kernel: Kernel, X: Any) -> bool:
    """Whether the compiled code knows this kernel on this kind of data."""
    return kernel.named and not (kernel.name == "laplacian" and sp.issparse(X) and X.shape[1] > WIDEST_DENSE)


def _packable(kernel: Kernel, X: Any) -> Any:
    """X as dense C-contiguous rows, or as CSR. CSR data becomes dense if it is nearly dense, or if the kernel needs Manhattan
    distances."""
    if not sp.issparse(X):
        return X
    if kernel.name == "laplacian":
        return _dense(X)
    density = X.nnz / max(1, X.shape[0] * X.shape[1])
    return _dense(X) if density >= DENSE_ENOUGH and X.shape[1] <= WIDEST_DENSE else X


def _dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else X


def _entry_cost(X: Any) -> float:
    return float(X.nnz / max(1, X.shape[0]) if sp.issparse(X) else X.shape[1])


def _native_kernel(kernel: Kernel) -> Any:
    return _native.make_kernel(
        kernel.name,
        float(getattr(kernel, "gamma", 1.0)),
        float(getattr(kernel, "coef0", 0.0)),
        float(getattr(kernel, "degree", 3.0)),
    )


def _centre(kernel: Kernel, X: Any, dtype: np.dtype[Any], most_for_differences: int = FEW_FEATURES_IN_FLOAT32) -> Vector:
    """The centre to subtract from the samples: a point in their middle if that changes no kernel value and saves digits.

    In float64 the subtraction itself costs samples far from the centre their last digit, so it is done only where distances come
    from dot products (more features than `most_for_differences`) and the offset of the samples is much larger than their spread.
    """
    if not kernel.shift_invariant or sp.issparse(X) or X.shape[0] == 0:
        return NO_CENTRE
    if dtype == DOUBLE and (X.shape[1] <= most_for_differences or kernel.name == "laplacian"):
        return NO_CENTRE
    centre = centre_of(X)
    if dtype == DOUBLE and not dwarfs_spread(centre, X):
        return NO_CENTRE
    return centre


def _narrow(*sets: Any) -> list[Any]:
    """CSR samples without their empty columns, if there are so many that a table of all columns would take more memory than the
    samples."""
    if not sp.issparse(sets[0]) or sets[0].shape[1] <= MOST_COLUMNS_PER_VALUE * (1 + sum(some.nnz for some in sets)):
        return list(sets)
    present, places = np.unique(np.concatenate([some.indices for some in sets]), return_inverse=True)
    parts = np.split(places.astype(sets[0].indptr.dtype), np.cumsum([some.nnz for some in sets])[:-1])
    shapes = [(some.shape[0], max(1, len(present))) for some in sets]
    return [sp.csr_array((some.data, part, some.indptr), shape=s) for some, part, s in zip(sets, parts, shapes, strict=True)]


def _samples(X: Any, dtype: np.dtype[Any], centre: Vector) -> Any:
    kind = _native.Samples32 if dtype == np.float32 else _native.Samples64
    if sp.issparse(X):
        return kind.from_csr(X.indptr, X.indices.astype(X.indptr.dtype, copy=False), X.data, X.shape[1])
    return kind.from_dense(np.ascontiguousarray(X), centre)


def _linear_sums(
    X: Any, centre: Vector | None, rows: Indices, weights: Matrix, at: Indices
) -> tuple[Matrix, Vector, Matrix, Matrix]:
    """The weights of each output, offsets, sums and the sizes of their terms, as defined in
    native/include/maxmargin/linear_sums.hpp."""
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    told = NO_CENTRE if centre is None else centre, rows, weights, at
    if sp.issparse(X):
        features = X.indices.astype(X.indptr.dtype, copy=False)
        found = _native.linear_sums_csr(X.indptr, features, X.data, X.shape[1], *told)
    else:
        found = _native.linear_sums(X if X.strides[1] == X.itemsize else np.ascontiguousarray(X), *told)
    w, offsets, sums, sizes = found
    return w.reshape(len(weights), -1), offsets, sums.reshape(len(weights), -1), sizes.reshape(len(weights), -1)


class _BlasThreadsOff:
    """Restrict BLAS to one thread while any fit runs: our own threads call it, and two spinning thread pools on the same cores
    cost up to half the time. Fits are counted, because the setting is global to the process and fits may overlap in several
    threads."""

    def __init__(self) -> None:
        self._controller: ThreadpoolController | None = None
        self._start()
        if hasattr(os, "register_at_fork"):  # a lock held by another thread at the fork would never be released in the child
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._controller is None:
                    self._controller = ThreadpoolController()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
                self._limiter.__enter__()
            self._inside += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                # threadpoolctl >= 3.8 lets only the thread that set a limit lift it; the last fit may run in another thread
                hand_over = getattr(OpenBLASController, "clear_controlling_thread", None)
                if hand_over is not None:
                    hand_over(force=True)
                self._limiter.__exit__(None, None, None)


_blas_threads_off = _BlasThreadsOff()
