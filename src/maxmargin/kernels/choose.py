"""Make a kernel from the user's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.kernels.base import Kernel
from maxmargin.kernels.custom import Custom, Precomputed
from maxmargin.kernels.standard import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid

#: Times the largest entry: a standard deviation that is smaller is rounding.
CONSTANT = 16.0 * float(np.finfo(float).eps)
KERNEL_NAMES = ("linear", "poly", "rbf", "laplacian", "exponential", "sigmoid", "precomputed")


def make_kernel(kernel: str | Callable[..., Any], gamma: float = 1.0, coef0: float = 0.0, degree: float = 3) -> Kernel:
    """The kernel with this name, or around this callable, with those of the parameters that it uses."""
    if callable(kernel):
        return Custom(kernel)
    match kernel:
        case "linear":
            return Linear()
        case "poly":
            return Polynomial(degree=degree, gamma=gamma, coef0=coef0)
        case "rbf":
            return RBF(gamma)
        case "laplacian":
            return Laplacian(gamma)
        case "exponential":
            return Exponential(gamma)
        case "sigmoid":
            return Sigmoid(gamma, coef0)
        case "precomputed":
            return Precomputed()
    raise ValueError(f"kernel={kernel!r}: must be one of {', '.join(KERNEL_NAMES)}, or a callable k(A, B)")


def resolve_gamma(
    gamma: str | float,
    sigma: float | None,
    kernel: str | Callable[..., Any],
    X: Any,
    weights: NDArray[np.float64] | None = None,
) -> float:
    """gamma as a number: 'scale' is 1 / (n_features Var(X)), 'auto' is 1 / n_features; a given sigma determines it instead.

    With weights the variance is that of a training set in which each sample occurs as often as it weighs.
    """
    if sigma is not None:
        return float(1.0 / (2.0 * sigma**2) if kernel == "rbf" else 1.0 / sigma)
    if not isinstance(gamma, str):
        return float(gamma)
    if not isinstance(kernel, str) or kernel in ("linear", "precomputed"):
        return 1.0  # these kernels have no gamma
    if gamma == "auto":
        return 1.0 / int(X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # the error is raised where the kernel matrix is made
        variance = _variance(X, weights)
    return 1.0 / (int(X.shape[1]) * variance) if variance > 0 else 1.0


def _variance(X: Any, weights: NDArray[np.float64] | None) -> float:
    """The variance of all entries of X, in two passes, so that a large mean cancels no digits; zero if all are the same but for
    rounding. What rounding has left of the mean is corrected in the second pass."""
    n, d = (int(size) for size in X.shape)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    mean = float(share @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()) / d
    values = X.data if sp.issparse(X) else X
    deviations = np.subtract(values, mean, dtype=np.float64)
    if sp.issparse(X):
        zeros = d - np.diff(X.indptr)
        first, second = (sp.csr_array((some, X.indices, X.indptr), shape=X.shape) for some in (deviations, deviations**2))
        linear, square = first.sum(axis=1) - zeros * mean, second.sum(axis=1) + zeros * (mean * mean)
    else:
        linear, square = deviations.sum(axis=1), np.square(deviations, out=deviations).sum(axis=1)
    left_of_mean, least = float(share @ linear) / d, CONSTANT * float(np.abs(values).max(initial=0.0))
    variance = float(share @ square) / d - left_of_mean * left_of_mean
    return 0.0 if variance <= least * least else variance
