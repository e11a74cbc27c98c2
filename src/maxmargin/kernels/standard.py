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
from math import comb
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from maxmargin.kernels.base import FEW_FEATURES, NEAR_SHARE, UNIT_ROUNDOFF, Matrix, NamedKernel, centre_of

PAIRS_AT_ONCE = 4096
ROWS_AT_ONCE = 512
ROUNDING = 1e-13  # rounding error of a dot product in float64, relative to the norms


def _wide(A: Any) -> Any:
    """A in float64; CSR with 32-bit indices, as scikit-learn's distances require."""
    if not sp.issparse(A):
        return np.asarray(A, dtype=np.float64)
    parts = (A.data.astype(np.float64), A.indices.astype(np.int32), A.indptr.astype(np.int32))
    return sp.csr_matrix(parts, shape=A.shape)


def _dots(A: Any, B: Any) -> Matrix:
    products = A.astype(np.float64) @ B.astype(np.float64).T
    return np.asarray(products.todense() if sp.issparse(products) else products)


def squared_norms(A: Any) -> NDArray[np.float64]:
    """|a|^2 for each sample of A, in float64."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()
    wide = np.asarray(A, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def rough_squared_norms(A: Any) -> NDArray[np.float64]:
    """Like `squared_norms`, in the arithmetic of A, which saves a copy; accurate to at least six digits."""
    norms = np.asarray(A.multiply(A).sum(axis=1)).ravel() if sp.issparse(A) else np.einsum("ij,ij->i", A, A)
    return norms.astype(np.float64)


def _squared_distances(A: Any, B: Any) -> Matrix:
    """The squared distances |a|^2 + |b|^2 - 2 a . b of centred samples; from differences where nearly all digits would cancel."""
    if sp.issparse(A):
        P, Q = A, B
    else:
        centre = centre_of(B)
        P, Q = A - centre, B - centre
    norms = squared_norms(P)[:, None] + squared_norms(Q)[None, :]
    squares = norms - 2.0 * _dots(P, Q)
    near = np.nonzero(squares < NEAR_SHARE * norms)
    for start in range(0, len(near[0]), PAIRS_AT_ONCE):
        rows, columns = (places[start : start + PAIRS_AT_ONCE] for places in near)
        squares[rows, columns] = squared_norms(_in_float64(A[rows]) - _in_float64(B[columns]))
    return np.maximum(squares, 0.0)


def _in_float64(A: Any) -> Any:
    return A.astype(np.float64)


def _rounding_of_distances(n_terms: int) -> float:
    """The rounding error of a kernel exp(-gamma s) or exp(-gamma sqrt(s)), s a sum of squared differences: a relative error e of
    s changes the kernel by at most e max_t t exp(-t) < e / 2."""
    return (n_terms + 10) * UNIT_ROUNDOFF


def _relative_error_of_products(n_terms: int) -> float:
    """The relative error of a squared distance from dot products that is not computed again from differences."""
    return 2.0 * (n_terms + 3) * UNIT_ROUNDOFF / NEAR_SHARE


def _exact_distances(A: Any, B: Any) -> Matrix:
    """Squared distances from differences, if there are few enough features; else from dot products."""
    if sp.issparse(A) or A.shape[1] > FEW_FEATURES:
        return _squared_distances(A, B)
    return np.asarray(cdist(_in_float64(A), _in_float64(B), "sqeuclidean"))


@dataclass(frozen=True)
class Linear(NamedKernel):
    name: ClassVar[str] = "linear"

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _dots(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def diag(self, A: Any) -> NDArray[np.float64]:
        return squared_norms(A)

    def sizes(self, A: Any) -> NDArray[np.float64]:
        return np.sqrt(squared_norms(A))

    def rounding(self, n_terms: int) -> float:
        return (n_terms + 2) * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Polynomial(NamedKernel):
    name: ClassVar[str] = "poly"
    degree: float = 3
    gamma: float = 1.0
    coef0: float = 0.0

    @property
    def definite(self) -> bool:  # type: ignore[override]
        return self.coef0 >= 0 and self._whole

    def pairing(self, A: Any, B: Any) -> Matrix:
        return _dots(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._power(self.gamma * values + self.coef0)

    def diag(self, A: Any) -> NDArray[np.float64]:
        return self._power(self.gamma * squared_norms(A) + self.coef0)

    def _power(self, base: NDArray[Any]) -> NDArray[Any]:
        """base ** degree. With a fractional degree, a negative base is a zero that was rounded (`require_defined` refuses
        others)."""
        return np.asarray((base if self._whole else np.maximum(base, 0)) ** self.degree)

    @property
    def _whole(self) -> bool:
        return float(self.degree).is_integer()

    def require_defined(self, A: Any, B: Any) -> None:
        if self._whole:
            return
        sizes = np.sqrt(squared_norms(B))
        for start in range(0, A.shape[0], ROWS_AT_ONCE):
            rows = A[start : start + ROWS_AT_ONCE]
            base = self.gamma * _dots(rows, B) + self.coef0
            least = self.gamma * np.sqrt(squared_norms(rows))[:, None] * sizes + abs(self.coef0)
            if (below := base < -ROUNDING * least).any():
                i, j = (int(place[0]) for place in np.nonzero(below))
                raise ValueError(
                    f"kernel='poly' with degree={self.degree!r} has no value for samples {start + i} and {j}: gamma <x, z> + "
                    f"coef0 is {base[i, j]:.3g} there, and a negative number has whole powers only; use a whole degree, or a "
                    "coef0 so large that none is negative"
                )

    def sizes(self, A: Any) -> NDArray[np.float64]:
        """Sizes by Cauchy and Schwarz: gamma |a||b| + |c| <= sqrt((gamma |a|^2 + |c|) (gamma |b|^2 + |c|))."""
        return (self.gamma * squared_norms(A) + abs(self.coef0)) ** (0.5 * self.degree)

    def rounding(self, n_terms: int) -> float:
        return (self.degree * (n_terms + 4) + 8) * UNIT_ROUNDOFF


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

    def sizes(self, A: Any) -> float:
        return 1.0

    def rounding(self, n_terms: int) -> float:
        return _rounding_of_distances(n_terms)

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64]:
        """A squared distance is off by 2 (n + 3) u (|a|^2 + |b|^2), and by no more than its relative error allows."""
        absolute = 2.0 * (n_terms + 3) * UNIT_ROUNDOFF * self.gamma * squared_norms
        return np.minimum(absolute, 0.5 * _relative_error_of_products(n_terms))

    def exact_block(self, A: Any, B: Any) -> Matrix:
        return self.of_pairing(_exact_distances(A, B))


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

    def sizes(self, A: Any) -> float:
        return 1.0

    def rounding(self, n_terms: int) -> float:
        return (n_terms + 10) * UNIT_ROUNDOFF


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

    def sizes(self, A: Any) -> float:
        return 1.0

    def rounding(self, n_terms: int) -> float:
        return _rounding_of_distances(n_terms)

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64]:
        """Like `RBF`; the root of a squared distance s >= NEAR_SHARE (|a|^2 + |b|^2) is off by the error of s over 2 sqrt(s)."""
        absolute = (n_terms + 3) * UNIT_ROUNDOFF * self.gamma * np.sqrt(squared_norms / NEAR_SHARE)
        return np.minimum(absolute, 0.5 * _relative_error_of_products(n_terms))

    def exact_block(self, A: Any, B: Any) -> Matrix:
        return self.of_pairing(_exact_distances(A, B))


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
        return np.tanh(self.gamma * squared_norms(A) + self.coef0)

    def sizes(self, A: Any) -> NDArray[np.float64]:
        return np.sqrt(1.0 + self.gamma * squared_norms(A) + abs(self.coef0))

    def rounding(self, n_terms: int) -> float:
        return (n_terms + 16) * UNIT_ROUNDOFF


def polynomial_dimension(n_features: int, degree: int, homogeneous: bool = False) -> int:
    """How many features the polynomial kernel has: (n + d - 1 choose d) of degree d, (n + d choose d) up to degree d."""
    return comb(n_features + degree - (1 if homogeneous else 0), degree)
