"""Kernels as theory: what makes a function a kernel, and the feature maps behind some of them.

A function k is a kernel, k(x, z) = phi(x) . phi(z) for some feature map phi, if and only if each of its matrices
K_ij = k(x_i, x_j) is symmetric and positive semi-definite (Mercer). `mercer` examines one such matrix: it can refute that k is a
kernel, with coefficients as a witness, but never prove it.

The feature maps here are explicit, for small degrees. Kernels are used because these maps grow so fast:

    polynomial_features   (gamma <x, z> + coef0)^degree      all monomials of exactly that degree, or up to it
    product_features      sum_{k <= degree} <x, z>^k         all ordered products of up to so many features
    gaussian_features     exp(-gamma |x - z|^2)              monomials of all degrees: the series, cut off
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import factorial
from sklearn.preprocessing import PolynomialFeatures

from maxmargin.kernels.base import Kernel, Matrix
from maxmargin.kernels.choose import make_kernel
from maxmargin.kernels.standard import polynomial_dimension

Vector = NDArray[np.float64]

ROUNDING = 8.0 * float(np.finfo(float).eps)  # an eigenvalue below this times the size of a matrix and its largest value is zero
MOST_FEATURES = 1_000_000  # largest number of features of an explicit map


# --- Mercer --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MercerReport:
    """What one kernel matrix says about its kernel.

    ``witness`` is the unit vector z with the smallest z' K z, which is ``smallest_eigenvalue``: if that is negative beyond
    ``tolerance`` there is no feature map, as |sum_i z_i phi(x_i)|^2 cannot be negative.
    """

    n_samples: int
    symmetry_error: float
    smallest_eigenvalue: float
    largest_eigenvalue: float
    tolerance: float
    witness: Vector = field(repr=False, compare=False)

    @property
    def symmetric(self) -> bool:
        return self.symmetry_error <= self.tolerance

    @property
    def positive_semidefinite(self) -> bool:
        return self.smallest_eigenvalue >= -self.tolerance

    @property
    def valid(self) -> bool:
        return self.symmetric and self.positive_semidefinite

    @property
    def verdict(self) -> str:
        """A sentence about whether the matrix refutes the kernel."""
        if not self.symmetric:
            return f"Not a kernel: k(x, z) and k(z, x) differ by {self.symmetry_error:.3g}."
        if not self.positive_semidefinite:
            return (
                f"Not a kernel: the smallest eigenvalue is {self.smallest_eigenvalue:.3g}, and with the coefficients in "
                "`witness` a squared length would be negative."
            )
        return (
            f"A kernel as far as these {self.n_samples} samples can tell: the matrix is symmetric and no eigenvalue is "
            f"negative (smallest {self.smallest_eigenvalue:.3g})."
        )

    def __str__(self) -> str:
        rows = [
            ("samples", f"{self.n_samples}"),
            ("symmetry error", f"{self.symmetry_error:.3g}"),
            ("smallest eigenvalue", f"{self.smallest_eigenvalue:.6g}"),
            ("largest eigenvalue", f"{self.largest_eigenvalue:.6g}"),
            ("counts as zero", f"{self.tolerance:.3g}"),
        ]
        width = max(len(label) for label, _ in rows)
        return "\n".join([self.verdict, *(f"  {label:<{width}}  {value}" for label, value in rows)])


def mercer(kernel: Kernel | str | Callable[..., Any] | Any, X: Any = None) -> MercerReport:
    """Examine a kernel matrix, or the matrix of a kernel (an object, a name or a callable) on the samples X."""
    matrix = _matrix(kernel, X)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"the kernel matrix has shape {matrix.shape}: must be square, k(x_i, x_j) for all pairs of samples")
    if not np.isfinite(matrix).all():
        raise ValueError("the kernel matrix has values that are not finite: no kernel has; scale the samples if they are large")
    eigenvalues, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T))
    return MercerReport(
        n_samples=len(matrix),
        symmetry_error=float(np.abs(matrix - matrix.T).max()),
        smallest_eigenvalue=float(eigenvalues[0]),
        largest_eigenvalue=float(eigenvalues[-1]),
        tolerance=ROUNDING * len(matrix) * float(np.abs(matrix).max()),
        witness=vectors[:, 0],
    )


def _matrix(kernel: Any, X: Any) -> Matrix:
    if not (isinstance(kernel, (Kernel, str)) or callable(kernel)):
        if X is not None:
            raise ValueError("X is given beside a kernel matrix: pass mercer(matrix), or mercer(kernel, X)")
        return np.asarray(kernel.toarray() if sp.issparse(kernel) else kernel, dtype=np.float64)
    if X is None:
        raise ValueError(f"X=None: mercer({kernel!r}, X) needs the samples that the kernel compares")
    chosen = kernel if isinstance(kernel, Kernel) else make_kernel(kernel)
    samples = X if sp.issparse(X) else np.asarray(X)
    return chosen.block(samples, samples)


# --- feature maps --------------------------------------------------------------------------------------------------


def polynomial_features(X: Any, degree: int, gamma: float = 1.0, coef0: float = 0.0) -> Matrix:
    """phi(x) with phi(x) . phi(z) = (gamma <x, z> + coef0)^degree: a column for each monomial.

    With (sqrt(gamma) x, sqrt(coef0)) in place of x the kernel is homogeneous, and by the multinomial theorem the monomial
    with exponents a has the factor sqrt(degree! / (a_1! ... a_n!)).
    """
    samples = _dense(X)
    if not isinstance(degree, (int, np.integer)) or degree < 0:
        raise ValueError(f"degree={degree!r}: must be a whole number >= 0 (other degrees have no finite feature map)")
    if gamma <= 0 or coef0 < 0:
        raise ValueError(
            f"gamma={gamma!r}, coef0={coef0!r}: gamma must be positive and coef0 >= 0; else the kernel is not positive "
            "semi-definite and has no feature map"
        )
    _refuse_too_many(polynomial_dimension(samples.shape[1], degree, homogeneous=coef0 == 0.0), degree)
    if degree == 0:
        return np.ones((len(samples), 1))
    constant = np.full((len(samples), 1 if coef0 > 0.0 else 0), np.sqrt(coef0))
    monomials = PolynomialFeatures((degree, degree), include_bias=False)
    values = monomials.fit_transform(np.hstack([constant, np.sqrt(gamma) * samples]))
    return np.asarray(values * np.sqrt(factorial(degree) / factorial(monomials.powers_).prod(axis=1)))


def product_features(X: Any, degree: int) -> Matrix:
    """1, all x_i, all x_i x_j, all x_i x_j x_k, ...: phi(x) . phi(z) = sum_{k <= degree} <x, z>^k.

    The products are ordered, x_1 x_2 and x_2 x_1 are two of them: the cubic features from which kernel linear regression is
    usually explained.
    """
    samples = _dense(X)
    n, n_features = samples.shape
    _refuse_too_many(sum(n_features**k for k in range(degree + 1)), degree)
    parts = [np.ones((n, 1))]
    for _ in range(degree):
        parts.append(np.einsum("ni,nj->nij", parts[-1], samples).reshape(n, -1))
    return np.hstack(parts)


def product_kernel(degree: int) -> Callable[[Any, Any], Matrix]:
    """The kernel of `product_features` as a callable k(A, B), for any machine."""

    def kernel(A: Any, B: Any) -> Matrix:
        products = _dense(A) @ _dense(B).T
        return np.asarray(sum(products**k for k in range(degree + 1)))

    return kernel


def gaussian_features(X: Any, degree: int, gamma: float = 1.0) -> Matrix:
    """phi(x) with phi(x) . phi(z) close to exp(-gamma |x - z|^2): the series of exp(2 gamma <x, z>) up to `degree`.

    The map itself has infinitely many features; what is cut off is at most (2 gamma |x| |z|)^(degree+1) / (degree+1)!.
    """
    samples = _dense(X)
    envelope = np.exp(-gamma * np.einsum("ij,ij->i", samples, samples))[:, None]
    terms = [polynomial_features(samples, k, 2.0 * gamma) / np.sqrt(factorial(k)) for k in range(degree + 1)]
    return np.asarray(envelope * np.hstack(terms))


def _dense(X: Any) -> Matrix:
    return np.atleast_2d(np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64))


def _refuse_too_many(n_features: int, degree: int) -> None:
    if n_features > MOST_FEATURES:
        raise ValueError(
            f"degree={degree}: the map would have {n_features:,} features, more than {MOST_FEATURES:,}; use the kernel, which "
            "needs none of them"
        )
