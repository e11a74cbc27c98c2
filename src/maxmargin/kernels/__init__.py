"""The kernels k(x, z).

A kernel is an immutable value that evaluates blocks of rows of X against each other in float64. It never sees labels or dual
variables. The fast backends evaluate the named kernels themselves; the methods here are their reference, and the only
implementation for a precomputed matrix or a callable.
"""

# For other rooms, not for users: constants, and the kernels by name
from maxmargin.kernels.base import FEW_FEATURES as FEW_FEATURES
from maxmargin.kernels.base import FEW_FEATURES_IN_FLOAT32 as FEW_FEATURES_IN_FLOAT32
from maxmargin.kernels.base import KERNELS as KERNELS
from maxmargin.kernels.base import Kernel, NamedKernel

from maxmargin.kernels.standard import RBF, Exponential, Laplacian, Linear, Polynomial, Sigmoid  # isort: skip
from maxmargin.kernels.matern import Matern32

from maxmargin.kernels.custom import Custom, Precomputed  # isort: skip
from maxmargin.kernels.choose import is_precomputed, kernel_names, make_kernel

__all__ = [
    "RBF",
    "Custom",
    "Exponential",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern32",
    "NamedKernel",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "is_precomputed",
    "kernel_names",
    "make_kernel",
]


def __dir__() -> list[str]:
    return __all__
