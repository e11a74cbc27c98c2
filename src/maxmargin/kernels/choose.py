"""Make a kernel from what the user gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from maxmargin.kernels.base import KERNELS, Kernel
from maxmargin.kernels.custom import Custom


def make_kernel(
    kernel: str | Kernel | Callable[..., Any], gamma: float | str = 1.0, coef0: float = 0.0, degree: float = 3
) -> Kernel:
    """The kernel with a name, around a callable, or the kernel itself.

    Parameters
    ----------
    kernel : str, Kernel or callable
        The name, the kernel, or a function k(A, B).
    gamma, coef0, degree
        The parameters of a kernel that is given by name; it takes those that it has.

    Returns
    -------
    Kernel
        The kernel.

    See Also
    --------
    kernel_names : The names.

    Examples
    --------
    >>> from maxmargin.kernels import make_kernel
    >>> make_kernel("poly", gamma=0.5, degree=2)
    Polynomial(degree=2, gamma=0.5, coef0=0.0)
    """
    if isinstance(kernel, str) and kernel in KERNELS:  # before an abstract class is asked, which takes longer
        kind, given = KERNELS[kernel], {"gamma": gamma, "coef0": coef0, "degree": degree}
        return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})  # type: ignore[arg-type]
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Custom(kernel)
    raise ValueError(f"kernel={kernel!r}: must be one of {', '.join(kernel_names())}, a Kernel, or a callable k(A, B)")


def kernel_names() -> tuple[str, ...]:
    """The names that `make_kernel` takes.

    Returns
    -------
    tuple of str
        The names, those of kernels that the user has defined too.

    See Also
    --------
    make_kernel : Makes a kernel from its name.

    Examples
    --------
    >>> from maxmargin.kernels import kernel_names
    >>> kernel_names()[:3]
    ('linear', 'poly', 'rbf')
    """
    return tuple([name for name, kind in KERNELS.items() if kind is not Custom])


def is_precomputed(kernel: Any) -> bool:
    """Whether samples are rows of a kernel matrix.

    Parameters
    ----------
    kernel : str, Kernel or callable
        What the user passed as kernel.

    Returns
    -------
    bool
        Whether it is "precomputed" or `Precomputed()`.

    See Also
    --------
    Precomputed : The kernel.

    Examples
    --------
    >>> from maxmargin.kernels import is_precomputed
    >>> is_precomputed("precomputed"), is_precomputed("rbf")
    (True, False)
    """
    if isinstance(kernel, str):
        return kernel == "precomputed"
    return isinstance(kernel, Kernel) and kernel.name == "precomputed"
