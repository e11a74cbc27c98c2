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
    """The kernel with this name, with those of the parameters that it has; a kernel around this callable; or the kernel
    itself."""
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Custom(kernel)
    if kernel not in KERNELS:
        raise ValueError(f"kernel={kernel!r}: must be one of {', '.join(kernel_names())}, a Kernel, or a callable k(A, B)")
    kind, given = KERNELS[kernel], {"gamma": gamma, "coef0": coef0, "degree": degree}
    return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})  # type: ignore[arg-type]


def kernel_names() -> tuple[str, ...]:
    """The names that `make_kernel` takes."""
    return tuple(name for name, kind in KERNELS.items() if kind is not Custom)


def is_precomputed(kernel: Any) -> bool:
    """Whether samples are rows of a kernel matrix, given what the user passed as kernel."""
    return bool((kernel.name if isinstance(kernel, Kernel) else kernel) == "precomputed")
