"""The compiled module, loaded so that its threads sleep while they wait, with the BLAS of SciPy."""

from __future__ import annotations

from scipy.linalg import cython_blas, cython_lapack

from maxmargin.backends.native import waiting

with waiting.asleep():
    from maxmargin import _native as core

core.use_blas(
    {name: cython_blas.__pyx_capi__[name] for name in ("sgemm", "dgemm", "dtrsm")}
    | {name: cython_lapack.__pyx_capi__[name] for name in ("dpotrf", "dpotrs")}
)

__all__ = ["core"]
