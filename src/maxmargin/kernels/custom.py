"""Kernels that the user provides: a precomputed matrix, or a function of blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.kernels.base import Kernel, Matrix
from maxmargin.samples import MatrixSamples


@dataclass(frozen=True)
class Precomputed(Kernel):
    """A kernel whose values are given: its samples are rows of the kernel matrix, and know their columns.

    See Also
    --------
    Custom : A kernel function.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.kernels import RBF, Precomputed
    >>> X, y = load_iris(return_X_y=True)
    >>> K = RBF(0.5).block(X, X)
    >>> round(SVC(kernel=Precomputed()).fit(K, y).score(K, y), 2)
    0.98
    """

    name: ClassVar[str] = "precomputed"
    definite: ClassVar[bool] = False  # type: ignore[misc]

    def block(self, A: Any, B: Any) -> Matrix:
        """The columns B of the rows A."""
        return np.asarray(A[:, np.asarray(B)], dtype=np.float64)

    def samples(self, X: Any) -> MatrixSamples:
        return MatrixSamples(X)

    def support(self, vectors: Any, numbers: NDArray[np.integer]) -> MatrixSamples:
        return MatrixSamples(vectors, numbers.astype(np.int32, copy=False))


@dataclass(frozen=True)
class Custom(Kernel):
    """A kernel around a function k(A, B) that returns the matrix of kernel values between the rows of two blocks.

    Parameters
    ----------
    function : callable
        The function.

    See Also
    --------
    Precomputed : A kernel matrix.
    Kernel : The base class, for kernels with parameters.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.kernels import Custom
    >>> X, y = load_iris(return_X_y=True)
    >>> round(SVC(kernel=Custom(lambda A, B: A @ B.T)).fit(X, y).score(X, y), 2)
    0.99
    """

    function: Callable[[Any, Any], Any]
    name: ClassVar[str] = "callable"
    definite: ClassVar[bool] = False  # type: ignore[misc]

    def block(self, A: Any, B: Any) -> Matrix:
        values = self.function(A, B)
        values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
        expected = (A.shape[0], B.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"the kernel function returned shape {values.shape} for blocks of {expected[0]} and "
                f"{expected[1]} samples: it must return {expected}, one row per sample of its first argument"
            )
        if not np.isfinite(values).all():
            raise ValueError("the kernel function returned NaN or infinity")
        return values

    def diag(self, A: Any) -> NDArray[np.float64]:
        rows = 64  # small square blocks, of which only the diagonal is used
        parts = [np.diag(self.block(A[i : i + rows], A[i : i + rows])) for i in range(0, A.shape[0], rows)]
        return np.concatenate(parts) if parts else np.empty(0)
