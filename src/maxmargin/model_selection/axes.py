"""The values of a parameter along a path, or an axis of a grid."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from maxmargin.estimators import validation


def geometric_or_given(name: str, spec: Any, exponents: tuple[float, float], unit: float) -> list[float]:
    """The numbers that were given; a number of them is a geometric range around `unit`, from one power of ten to another."""
    if isinstance(spec, Integral) and not isinstance(spec, bool) and int(spec) > 0:
        return [float(value) for value in unit * np.logspace(*exponents, int(spec))]
    return numbers(name, spec, or_else=", or how many of them to try")


def numbers(name: str, spec: Any, *, zero_ok: bool = False, or_else: str = "") -> list[float]:
    """The numbers that were given, each once, in their order."""
    if isinstance(spec, str) or not np.iterable(spec) or not len(list(spec)):
        raise ValueError(f"{name}={spec!r}: must be a sequence of positive numbers{or_else}")
    hint = "" if zero_ok else " and finite"
    return list(dict.fromkeys(validation.positive(name, value, zero_ok=zero_ok, hint=hint) for value in spec))
