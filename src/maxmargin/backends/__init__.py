"""Where numbers live and who computes them.

A backend makes the Gram of a training set and does for the solver's outer loop what is worth doing fast: measure the
violation, choose a working set, solve a tile, sum kernel rows. It decides no policy.

    native      C++ (float32 and float64, dense and CSR), the default
    reference   NumPy, the readable twin and the test oracle
"""

from __future__ import annotations

from maxmargin.backends.base import NEVER, Backend, Limit, MeasuredViolation, TileResult, Violation
from maxmargin.backends.native import NativeBackend
from maxmargin.backends.reference import ReferenceBackend

BACKENDS: dict[str, type[Backend]] = {"native": NativeBackend, "reference": ReferenceBackend}


def make_backend(name: str) -> Backend:
    """The backend of that name; 'auto' is the native one."""
    if name == "auto":
        return NativeBackend()
    if name not in BACKENDS:
        raise ValueError(f"backend={name!r}: must be 'auto' or one of {', '.join(BACKENDS)}")
    return BACKENDS[name]()


__all__ = [
    "BACKENDS",
    "NEVER",
    "Backend",
    "Limit",
    "MeasuredViolation",
    "NativeBackend",
    "ReferenceBackend",
    "TileResult",
    "Violation",
    "make_backend",
]
