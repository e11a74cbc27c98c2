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

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics.pairwise import manhattan_distances

from maxmargin.kernels.base import NEAR_SHARE, Gamma, Matrix, NamedKernel
from maxmargin.kernels.radial import RadialKernel, dot_products, relative_error_of_products, squared_norms
from maxmargin.rounding import UNIT_ROUNDOFF

ROWS_AT_ONCE = 512
ROUNDING = 1e-13  # rounding error of a dot product in float64, relative to the norms


def _wide(A: Any) -> Any:
    """A in float64; CSR with 32-bit indices, as scikit-learn's distances require."""
    if not sp.issparse(A):
        return np.asarray(A, dtype=np.float64)
    parts = (A.data.astype(np.float64), A.indices.astype(np.int32), A.indptr.astype(np.int32))
    return sp.csr_matrix(parts, shape=A.shape)


@dataclass(frozen=True)
class Linear(NamedKernel):
    """The linear kernel, <x, z>: the machine has a weight for each feature.

    See Also
    --------
    Polynomial : Powers of the same dot product.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Linear
    >>> Linear().block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[1.]])
    """

    name: ClassVar[str] = "linear"
    explicit: ClassVar[bool] = True

    def feature_dimension(self, n_features: int) -> float:
        return n_features

    def pairing(self, A: Any, B: Any) -> Matrix:
        return dot_products(A, B)

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
    """The polynomial kernel, (gamma <x, z> + coef0)^degree; homogeneous if coef0 = 0.

    Parameters
    ----------
    degree : float, default=3
        The degree; a fractional one needs dot products that are not negative.
    gamma : float, "scale" or "auto", default=1.0
        The factor of the dot product; the words are resolved on a training set, as in `maxmargin.SVC`.
    coef0 : float, default=0.0
        The constant.

    See Also
    --------
    Linear : The dot product itself.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Polynomial
    >>> Polynomial(degree=2, coef0=1.0).block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[4.]])
    """

    name: ClassVar[str] = "poly"
    degree: float = 3
    gamma: Gamma = 1.0
    coef0: float = 0.0

    @property
    def definite(self) -> bool:  # type: ignore[override]
        return self.coef0 >= 0 and self._whole

    def feature_dimension(self, n_features: int) -> float:
        if not self.definite:
            return math.inf
        return polynomial_dimension(n_features, int(self.degree), homogeneous=self.coef0 == 0.0)

    def pairing(self, A: Any, B: Any) -> Matrix:
        return dot_products(A, B)

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
            base = self.gamma * dot_products(rows, B) + self.coef0
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
        return np.asarray((self.gamma * squared_norms(A) + abs(self.coef0)) ** (0.5 * self.degree))

    def rounding(self, n_terms: int) -> float:
        return (self.degree * (n_terms + 4) + 8) * UNIT_ROUNDOFF


@dataclass(frozen=True)
class RBF(RadialKernel):
    """The Gaussian kernel, exp(-gamma |x - z|^2), with gamma = 1 / (2 sigma^2).

    Parameters
    ----------
    gamma : float, "scale" or "auto", default=1.0
        The factor of the distance; the words are resolved on a training set, as in `maxmargin.SVC`.

    See Also
    --------
    Exponential, Laplacian, Matern32 : Kernels with functions that are less smooth.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import RBF
    >>> RBF(gamma=0.5).block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "rbf"
    gamma: Gamma = 1.0

    @staticmethod
    def gamma_of(sigma: float) -> float:
        return 1.0 / (2.0 * sigma**2)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(-self.gamma * values))

    def slope(self) -> float:
        return float(np.sqrt(self.gamma))

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64]:
        """A squared distance is off by 2 (n + 3) u (|a|^2 + |b|^2), and by no more than its relative error allows."""
        absolute = 2.0 * (n_terms + 3) * UNIT_ROUNDOFF * self.gamma * squared_norms
        return np.asarray(np.minimum(absolute, 0.5 * relative_error_of_products(n_terms)))


@dataclass(frozen=True)
class Laplacian(NamedKernel):
    """The Laplacian kernel, exp(-gamma |x - z|_1), with the sum of absolute differences.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default=1.0
        The factor of the distance; the words are resolved on a training set, as in `maxmargin.SVC`.

    See Also
    --------
    Exponential : The same with the Euclidean distance.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Laplacian
    >>> Laplacian(gamma=0.5).block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "laplacian"
    shift_invariant: ClassVar[bool] = True
    gamma: Gamma = 1.0

    def pairing(self, A: Any, B: Any) -> Matrix:
        return np.asarray(manhattan_distances(_wide(A), _wide(B)))

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(-self.gamma * values))

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.ones(A.shape[0])

    def sizes(self, A: Any) -> float:
        return 1.0

    def rounding(self, n_terms: int) -> float:
        return (n_terms + 10) * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Exponential(RadialKernel):
    """The exponential kernel, exp(-gamma |x - z|), with the Euclidean distance.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default=1.0
        The factor of the distance; the words are resolved on a training set, as in `maxmargin.SVC`.

    See Also
    --------
    RBF : The same with the squared distance.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Exponential
    >>> Exponential(gamma=0.5).block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.6065]])
    """

    name: ClassVar[str] = "exponential"
    gamma: Gamma = 1.0

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(-self.gamma * np.sqrt(values)))

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64]:
        """Like `RBF`; the root of a squared distance s >= NEAR_SHARE (|a|^2 + |b|^2) is off by the error of s over 2 sqrt(s)."""
        absolute = (n_terms + 3) * UNIT_ROUNDOFF * self.gamma * np.sqrt(squared_norms / NEAR_SHARE)
        return np.asarray(np.minimum(absolute, 0.5 * relative_error_of_products(n_terms)))


@dataclass(frozen=True)
class Sigmoid(NamedKernel):
    """The sigmoid kernel, tanh(gamma <x, z> + coef0), which is not positive semi-definite in general.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default=1.0
        The factor of the dot product; the words are resolved on a training set, as in `maxmargin.SVC`.
    coef0 : float, default=0.0
        The constant.

    See Also
    --------
    RBF : A kernel that is positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.kernels import Sigmoid
    >>> Sigmoid(gamma=0.5).block(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.4621]])
    """

    name: ClassVar[str] = "sigmoid"
    definite: ClassVar[bool] = False  # type: ignore[misc]
    gamma: Gamma = 1.0
    coef0: float = 0.0

    def pairing(self, A: Any, B: Any) -> Matrix:
        return dot_products(A, B)

    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.tanh(self.gamma * values + self.coef0))

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.asarray(np.tanh(self.gamma * squared_norms(A) + self.coef0))

    def sizes(self, A: Any) -> NDArray[np.float64]:
        return np.asarray(np.sqrt(1.0 + self.gamma * squared_norms(A) + abs(self.coef0)))

    def rounding(self, n_terms: int) -> float:
        return (n_terms + 16) * UNIT_ROUNDOFF


def polynomial_dimension(n_features: int, degree: int, homogeneous: bool = False) -> int:
    """How many features the polynomial kernel has: (n + d - 1 choose d) of degree d, (n + d choose d) up to degree d."""
    return math.comb(n_features + degree - (1 if homogeneous else 0), degree)
