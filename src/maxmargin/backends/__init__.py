"""Where numbers live and who computes them.

A backend is three things: the kernel matrix of a training set (`Gram`), a point that lives where the numbers are (`Point`), and a
solver of working sets (`InnerSolver`). The outer loop of a solver asks them; they decide no policy.

    native      C++ (float32 and float64, dense and CSR), the default
    reference   NumPy, the readable twin and the test oracle
    cuda        an NVIDIA card: torch for arrays, our own CUDA kernels; cuda:all spreads machines over all cards
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from maxmargin.backends.base import NEVER, Backend, InnerSolver, Limit, SamplesLostError, TileResult
from maxmargin.backends.native import NativeBackend
from maxmargin.backends.point import MeasuredViolation, Part, Point, Violation
from maxmargin.backends.reference import ReferenceBackend


def make_cuda(all_cards: bool = False) -> Backend:
    """The backend of torch's current card, or of all cards. It is imported late: it needs torch."""
    try:
        from maxmargin.backends.cuda.backend import make_backend_of_all_cards, make_cuda_backend

        return make_backend_of_all_cards() if all_cards else make_cuda_backend()
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"backend='cuda' needs the package {missing.name!r}: pip install 'maxmargin[cuda]', or use backend='auto'"
        ) from missing


BACKENDS: dict[str, Callable[[], Backend]] = {
    "native": NativeBackend,
    "reference": ReferenceBackend,
    "cuda": make_cuda,
    "cuda:all": partial(make_cuda, all_cards=True),
}


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
    "InnerSolver",
    "Limit",
    "MeasuredViolation",
    "NativeBackend",
    "Part",
    "Point",
    "ReferenceBackend",
    "SamplesLostError",
    "TileResult",
    "Violation",
    "make_backend",
    "make_cuda",
]
