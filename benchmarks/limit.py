"""The limit of a fit: how long float32 BLAS takes for K[SV, all], the RBF kernel of every support vector with every sample.

Whoever checks a solution evaluates these entries at least once, so *fit / limit* is a fit in units of the least work there is.
The routine is frozen and shares nothing with the library: a faster library does not move the yardstick.

    K[all, SV] = exp(A Bᵀ),   A = [2γX, −γ‖x‖², 1] for all samples,   B = [X, 1, −γ‖x‖²] for the support vectors

in blocks that fit into the cache of a core: for each one sgemm and one exp, in place, in a buffer that is reused; a thread for
each core. Which shape of a block is fastest depends on the machine, its load and the number of columns, so each case is timed
with several shapes and the fastest call counts: a slow limit would flatter the library. Sparse data become dense. A and B are
made before the clock starts.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from threadpoolctl import threadpool_limits

Matrix = NDArray[np.float32]
SHAPES = ((1024, 256), (512, 128), (512, 512))  # rows and columns of a block: at most 1 MB
CALLS, SECONDS = 10, 1.0  # at most so many calls for each shape, in about this time; at least one


def limit_of(X: Any, support: NDArray[Any], gamma: float, threads: int) -> float:
    """The seconds of the fastest call for these samples."""
    A, B = factors(X, support, gamma)
    taken: list[float] = []
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:  # BLAS itself gets one thread in each of ours
        while len(taken) < CALLS * len(SHAPES) and sum(taken) < SECONDS:
            for shape in SHAPES:
                start = perf_counter()
                list(pool.map(partial(compute, A, B, shape, threads), range(threads)))
                taken.append(perf_counter() - start)
    return min(taken)


def compute(A: Matrix, B: Matrix, shape: tuple[int, int], threads: int, thread: int) -> None:
    for _ in blocks(A, B, shape, threads, thread):
        pass


def factors(X: Any, support: NDArray[Any], gamma: float) -> tuple[Matrix, Matrix]:
    """A and B, whose product is −γ times the squared distances."""
    X = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
    X = X - X.mean(axis=0)
    squares, one = -gamma * (X**2).sum(axis=1, keepdims=True), np.ones((len(X), 1))
    A, B = np.hstack([2 * gamma * X, squares, one]), np.hstack([X, one, squares])[support]
    return A.astype(np.float32), B.astype(np.float32)


def blocks(A: Matrix, B: Matrix, shape: tuple[int, int], threads: int, thread: int) -> Iterator[tuple[int, int, Matrix]]:
    """This thread's share of exp(A Bᵀ): the first row and column of each block, and the block, which the next one overwrites."""
    rows, columns = shape
    first, end = (len(A) * number // threads for number in (thread, thread + 1))
    buffer = np.empty(rows * columns, dtype=np.float32)
    for row in range(first, end, rows):
        for column in range(0, len(B), columns):
            left, right = A[row : min(row + rows, end)], B[column : column + columns].T
            block = buffer[: len(left) * right.shape[1]].reshape(len(left), -1)
            np.matmul(left, right, out=block)
            np.exp(block, out=block)
            yield row, column, block
