"""Kernels as Python functions, for ``kernel=callable``.

Each value depends on its two samples alone, to the last bit: no BLAS, whose rounding changes with the shape of a
block. The kernel matrix that the oracle asks for is then the one that the library got."""

from __future__ import annotations

from typing import Any

import numpy as np


def dense(A: Any) -> Any:
    return np.asarray(A.toarray() if hasattr(A, "toarray") else A, dtype=np.float64)


def linear_blocks(A: Any, B: Any) -> Any:
    """<a, b>"""
    return (dense(A)[:, None, :] * dense(B)[None, :, :]).sum(axis=2)


def rbf_blocks(A: Any, B: Any) -> Any:
    """exp(-|a - b|^2 / 2)"""
    return np.exp(-0.5 * ((dense(A)[:, None, :] - dense(B)[None, :, :]) ** 2).sum(axis=2))


def cauchy_blocks(A: Any, B: Any) -> Any:
    """1 / (1 + |a - b|^2)"""
    return 1.0 / (1.0 + ((dense(A)[:, None, :] - dense(B)[None, :, :]) ** 2).sum(axis=2))


def negative_distance_blocks(A: Any, B: Any) -> Any:
    """-|a - b|_1: positive semi-definite only for coefficients that add up to zero."""
    return -np.abs(dense(A)[:, None, :] - dense(B)[None, :, :]).sum(axis=2)


CALLABLES = (linear_blocks, rbf_blocks, cauchy_blocks, negative_distance_blocks)
