"""Training sets that are read in chunks of rows: memory maps, files, and what users iterate over.

A source is a function that returns an iterator over `Chunk`, as often as it is called. The chunks are read and checked in a
thread of its own, one ahead of the one that is worked on.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.estimators import validation

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

BYTES_OF_CHUNK = 64_000_000
RUNS_OF_CHUNK = 256  # of consecutive rows, where the order is random: a disk reads them nearly as fast as the whole
LARGEST_INDEX = int(np.iinfo(np.int32).max)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Chunk(NamedTuple):
    """Some rows, dense in C order or CSR with sorted and unique columns, in float32 or float64; their targets, if they have
    any, their weights, and their numbers."""

    X: Any
    y: NDArray[Any] | None
    weights: Vector
    at: slice | Indices


class ChunkedRows:
    """A training set in chunks. `items` returns an iterator over what the user gives for each chunk; `shuffled`, if there is
    one, does the same in a random order, with the numbers of the rows. Once `n_features` is set, chunks must have that many."""

    def __init__(
        self,
        estimator: Any,
        items: Callable[[], Iterator[Any]],
        has_targets: bool,
        shuffled: Callable[[np.random.Generator], Iterator[Any]] | None = None,
    ) -> None:
        self._estimator, self._items, self._has_targets, self._shuffled = estimator, items, has_targets, shuffled
        self.n_features: int | None = None
        self._dense_width: int | None = None

    def __call__(self, random: np.random.Generator | None = None) -> Iterator[Chunk]:
        """Read all rows once, one chunk ahead; in a random order if `random` is given and the source allows it."""
        chunks = self._in_order() if random is None or self._shuffled is None else self._at_random(self._shuffled(random))
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, chunks, None)
            while (chunk := coming.result()) is not None:
                coming = reader.submit(next, chunks, None)
                yield chunk

    def _in_order(self) -> Iterator[Chunk]:
        first = 0
        for item in self._items():
            X, y, weights = self._checked(item, first)
            if X.shape[0]:
                yield Chunk(X, y, weights, slice(first, first + X.shape[0]))
            first += X.shape[0]

    def _at_random(self, items: Iterator[Any]) -> Iterator[Chunk]:
        for at, *item in items:
            yield Chunk(*self._checked(tuple(item), int(at[0])), at)

    def _checked(self, item: Any, first: int) -> tuple[Any, NDArray[Any] | None, Vector]:
        X, y, weights = _parts_of(item)
        if self._has_targets and y is None:
            raise ValueError(
                f"X: the chunk at row {first} has no targets; {type(self._estimator).__name__} needs chunks (X, y) or (X, y, "
                "sample_weight)"
            )
        X = self._with_width(_checked_rows(X), first)
        with _rows_counted_from(first):
            validation.require_finite(self._estimator, X)
        n = X.shape[0]
        targets = None
        if self._has_targets:
            targets = np.asarray(y)
            if targets.shape not in ((n,), (n, 1)):
                raise ValueError(f"X: the chunk at row {first} has {n} rows and targets of shape {targets.shape}: must be ({n},)")
            targets = targets.reshape(n)
        return X, targets, validation.sample_weights(weights, X)

    def _with_width(self, X: Any, first: int) -> Any:
        """X, widened to the number of columns if it is sparse, as the last columns of a chunk may be empty."""
        n_features = X.shape[1]
        if not sp.issparse(X) and self._dense_width is None:
            self._dense_width = n_features
        wanted = self.n_features or (None if sp.issparse(X) else self._dense_width)
        if wanted is None or n_features == wanted:
            return X
        if sp.issparse(X) and n_features < wanted:
            from maxmargin.io.rows import wider

            return wider(X, wanted)
        raise ValueError(f"X: the chunk at row {first} has {n_features} columns, the rows before it {wanted}")


def widened(chunk: Chunk, n_features: int) -> Chunk:
    """The chunk with so many columns: the last ones of a sparse chunk may be empty."""
    if chunk.X.shape[1] == n_features:
        return chunk
    if not sp.issparse(chunk.X):
        raise ValueError(f"X: a part has {chunk.X.shape[1]} columns, and another one {n_features}")
    from maxmargin.io.rows import wider

    return chunk._replace(X=wider(chunk.X, n_features))


def _parts_of(item: Any) -> tuple[Any, Any, Any]:
    """The rows, targets and weights of what a user's iterator gives: X, or a tuple of up to three."""
    if not isinstance(item, tuple):
        return item, None, None
    if not 1 <= len(item) <= 3:
        raise ValueError(f"X: a chunk is a tuple of {len(item)}; it must be (X,), (X, y) or (X, y, sample_weight)")
    X, y, weights = (*item, None, None)[:3]
    return X, y, weights


def _checked_rows(X: Any) -> Any:
    """Rows in float32 or float64, in C order or CSR with sorted and unique columns; converted if they are something else."""
    if sp.issparse(X):
        if X.shape[1] > LARGEST_INDEX:
            raise ValueError(f"X has {X.shape[1]} columns: at most {LARGEST_INDEX} are possible (hash the features)")
        rows: Any = X.tocsr()
        rows = rows if rows.dtype in _FLOATS else rows.astype(np.float64)
        validation.require_valid_sparse(rows)
        return validation.canonical(rows)
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"X: a chunk has shape {rows.shape}; it must have two dimensions, rows and columns")
    if rows.dtype.kind not in "biuf":
        raise ValueError(f"X: a chunk has dtype {rows.dtype}; it must hold numbers")
    return np.ascontiguousarray(rows, dtype=rows.dtype if rows.dtype in _FLOATS else np.float64)


class _rows_counted_from:  # noqa: N801 (a context, used like a function)
    """Say in an error about a chunk where the chunk begins."""

    def __init__(self, first: int) -> None:
        self._first = first

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if isinstance(error, ValueError) and self._first:
            raise ValueError(f"{error} (rows are counted from row {self._first} of the whole, where the chunk begins)") from None


# --- what is read in chunks -------------------------------------------------------------------------------------------


def in_chunks(estimator: Any, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> ChunkedRows | None:
    """The training set as chunks, if it is one of chunks, a memory map that is to be read in chunks, or if a checkpoint is asked
    for; else None."""
    has_targets = bool(estimator.__sklearn_tags__().target_tags.required)
    if is_chunked(X):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(f"{name} must be None where X is an iterable of chunks: each chunk is (X, y, sample_weight)")
        arrays = X.matrix() if hasattr(X, "matrix") else None  # of the files of io.open_rows, if they have a cache
        if arrays is not None:
            matrix = MatrixInChunks(*arrays)
            return ChunkedRows(estimator, matrix.in_order, has_targets, matrix.at_random)
        items = X if callable(X) else _re_iterable(X)
        return ChunkedRows(estimator, lambda: iter(items()), has_targets)
    if checkpoint is None and not (is_memory_mapped(X) and _is_too_large(X)):
        return None
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if has_targets:
        validation.require_targets(estimator, y)
    targets = None if y is None else np.asarray(y)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    for name, vector in (("y", targets), ("sample_weight", weights)):
        if vector is not None and vector.shape[:1] != X.shape[:1]:
            raise ValueError(f"{name} has shape {vector.shape}: it must have one entry for each of the {X.shape[0]} rows of X")
    matrix = MatrixInChunks(X, targets, weights)
    return ChunkedRows(estimator, matrix.in_order, has_targets, matrix.at_random)


def is_chunked(X: Any) -> bool:
    """Whether X is a function that returns an iterator, or an iterable of chunks, and not a matrix."""
    if any(hasattr(X, name) for name in ("shape", "__array__", "__array_interface__", "__dataframe__")):
        return False
    if callable(X):
        return True
    if isinstance(X, list | tuple):
        rows = X[0][0] if len(X) and isinstance(X[0], tuple) and len(X[0]) else X[0] if len(X) else None
        return getattr(rows, "ndim", 0) == 2
    return isinstance(X, Iterable) and not isinstance(X, str | bytes)


def _re_iterable(X: Iterable[Any]) -> Callable[[], Iterator[Any]]:
    if iter(X) is X:
        raise TypeError(
            f"X is a {type(X).__name__}, which can be read once only, and a fit reads the rows several times: pass a function "
            "that returns a new iterator (fit(make_chunks), not fit(make_chunks())), or an object with __iter__"
        )
    return lambda: iter(X)


def is_memory_mapped(X: Any) -> bool:
    """Whether the numbers of X (of a compressed sparse matrix: its data) lie in a memory-mapped file."""
    if sp.issparse(X) and X.format not in ("csr", "csc"):
        return False
    array = X.data if sp.issparse(X) else X
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return isinstance(array, mmap.mmap)


def _is_too_large(X: Any) -> bool:
    """Whether a memory map is to be read in chunks: it would take a copy to convert it, or fill half of the free memory."""
    data = X.data if sp.issparse(X) else X
    n_bytes = data.nbytes + (X.indices.nbytes if sp.issparse(X) else 0)
    if n_bytes > validation.free_memory() // 2:
        return True
    if sp.issparse(X):
        return X.format == "csr" and data.dtype not in _FLOATS
    return data.dtype not in _FLOATS or not (X.ndim == 2 and X.flags.c_contiguous)


class MatrixInChunks:
    """The rows of a dense or CSR matrix. They are copied from where they lie: a memory map is read here, and not where it is
    computed with."""

    def __init__(self, X: Any, y: Any = None, weights: Any = None) -> None:
        if sp.issparse(X) and X.format != "csr":
            raise ValueError(f"X is a sparse matrix in {X.format} format: to be read in chunks of rows it must be CSR")
        self._X, self._y, self._weights = X, y, weights
        n = X.shape[0]
        n_bytes = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
        self._height = max(1, min(n, BYTES_OF_CHUNK * n // max(n_bytes, 1)))  # of a chunk
        self._run = max(1, self._height // RUNS_OF_CHUNK)

    def in_order(self) -> Iterator[tuple[Any, Any, Any]]:
        n = self._X.shape[0]
        for first in range(0, n, self._height):
            yield self._take([slice(first, min(first + self._height, n))])

    def at_random(self, random: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Chunks of short runs of rows, in a random order."""
        n = self._X.shape[0]
        runs = random.permutation(-(-n // self._run)) * self._run
        for start in range(0, len(runs), RUNS_OF_CHUNK):
            own = [slice(first, min(first + self._run, n)) for first in runs[start : start + RUNS_OF_CHUNK].tolist()]
            yield np.concatenate([np.arange(one.start, one.stop) for one in own]), *self._take(own)

    def _take(self, runs: list[slice]) -> tuple[Any, Any, Any]:
        X, vectors = self._X, (self._y, self._weights)
        if sp.issparse(X):
            spans = [slice(int(X.indptr[run.start]), int(X.indptr[run.stop])) for run in runs]
            for span, run in zip(spans, runs, strict=True):
                if not 0 <= span.start <= span.stop <= len(X.data):
                    raise ValueError(f"X is not a valid sparse matrix: indptr is {span.start} at row {run.start}")
            lengths = np.concatenate([np.diff(X.indptr[run.start : run.stop + 1]) for run in runs])
            starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            parts = [np.concatenate([array[span] for span in spans]) for array in (X.data, X.indices)]
            rows: Any = sp.csr_array((*parts, starts), shape=(len(lengths), X.shape[1]))
        else:
            rows = np.concatenate([X[run] for run in runs])
        return rows, *(None if one is None else np.concatenate([one[run] for run in runs]) for one in vectors)
