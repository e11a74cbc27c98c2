"""The named kernels.

    linear        <x, z>
    poly          (gamma <x, z> + coef0)^degree          homogeneous if coef0 = 0
    rbf           exp(-gamma |x - z|^2)                   gamma = 1 / (2 sigma^2)
    laplacian     exp(-gamma |x - z|_1)                   gamma = 1 / sigma
    exponential   exp(-gamma |x - z|)                     gamma = 1 / sigma
    sigmoid       tanh(gamma <x, z> + coef0)              not positive semi-definite in general

Each is a function of one number about two samples: their dot product or a distance (`pairing`), which is the same for all
values of the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics.pairwise import manhattan_distances

from maxmargin.kernels.base import Matrix, NamedKernel

ROUNDING = 32.0 * float(np.finfo(float).eps)  # a squared distance this small, relative to the norms, is none: twins

def _wide(A: Any) -> Any:
    """A in float64; CSR with 32-bit indices, which is all that scikit-learn's distances take."""
    if not sp.issparse(A):
        return np.asarray(A, dtype=np.float64)
    parts = (A.data.astype(np.float64), A.indices.astype(np.int32), A.indptr.astype(np.int32))
    return sp.csr_matrix(parts, shape=A.shape)


def _dots(A: Any, B: Any) -> Matrix:
    products = A.astype(np.float64) @ B.astype(np.float64).T
    return np.asarray(products.todense() if sp.issparse(products) else products)


def _squared_norms(A: Any) -> NDArray[np.float64]:
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()
    wide = np.asarray(A, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def _squared_distances(A: Any, B: Any) -> Matrix:
    if not sp.issparse(A):  # centred, so that less cancels
        centre = np.asarray(B, dtype=np.float64).mean(axis=0)
        A, B = A - centre, B - centre
    norms = _squared_norms(A)[:, None] + _squared_norms(B)[None, :]
    squares = norms - 2.0 * _dots(A, B)
    return np.where(squares > ROUNDING * norms, squares, 0.0)


@dataclass(frozen=True)
class Linear(NamedKernel):
    name: ClassVar[str] = "linear"

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _dots(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def diag(self, A: Any) -> NDArray[np.float64]:
        return _squared_norms(A)


@dataclass(frozen=True)
class Polynomial(NamedKernel):
    name: ClassVar[str] = "poly"
    degree: float = 3
    gamma: float = 1.0
    coef0: float = 0.0

    @property
    def definite(self) -> bool:  # type: ignore[override]
        return self.coef0 >= 0 and float(self.degree).is_integer()

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _dots(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return (self.gamma * values + self.coef0) ** self.degree

    def diag(self, A: Any) -> NDArray[np.float64]:
        return (self.gamma * _squared_norms(A) + self.coef0) ** self.degree


@dataclass(frozen=True)
class RBF(NamedKernel):
    name: ClassVar[str] = "rbf"
    shift_invariant: ClassVar[bool] = True
    gamma: float = 1.0

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _squared_distances(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.exp(-self.gamma * values)

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Laplacian(NamedKernel):
    name: ClassVar[str] = "laplacian"
    shift_invariant: ClassVar[bool] = True
    gamma: float = 1.0

    def pairing(self, A: Any, B: Any) -> Matrix:
        return np.asarray(manhattan_distances(_wide(A), _wide(B)))

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.exp(-self.gamma * values)

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Exponential(NamedKernel):
    name: ClassVar[str] = "exponential"
    shift_invariant: ClassVar[bool] = True
    gamma: float = 1.0

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _squared_distances(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(-self.gamma * np.sqrt(values)))

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Sigmoid(NamedKernel):
    name: ClassVar[str] = "sigmoid"
    definite: ClassVar[bool] = False  # type: ignore[misc]
    gamma: float = 1.0
    coef0: float = 0.0

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _dots(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.tanh(self.gamma * values + self.coef0)

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.tanh(self.gamma * _squared_norms(A) + self.coef0)
