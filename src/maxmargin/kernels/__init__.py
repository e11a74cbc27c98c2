"""The kernels k(x, z).

A kernel is an immutable value that evaluates blocks of rows of X against each other in float64. It never sees labels or dual
variables. The fast backends evaluate the named kernels themselves; the methods here are their reference, and the only
implementation for a precomputed matrix or a callable.
"""

from maxmargin.kernels.base import (
    FEW_FEATURES,
    FEW_FEATURES_IN_FLOAT32,
    UNIT_ROUNDOFF,
    Kernel,
    NamedKernel,
    centre_of,
    dwarfs_spread,
)
from maxmargin.kernels.choose import KERNEL_NAMES, make_kernel, resolve_gamma
from maxmargin.kernels.custom import Custom, Precomputed
from maxmargin.kernels.standard import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid, rough_squared_norms

__all__ = [
    "FEW_FEATURES",
    "FEW_FEATURES_IN_FLOAT32",
    "KERNEL_NAMES",
    "RBF",
    "UNIT_ROUNDOFF",
    "Custom",
    "Exponential",
    "Kernel",
    "Laplacian",
    "Linear",
    "NamedKernel",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "centre_of",
    "dwarfs_spread",
    "make_kernel",
    "resolve_gamma",
    "rough_squared_norms",
]
