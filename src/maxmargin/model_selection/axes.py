"""The values of a parameter along a path, or along an axis of a grid."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from maxmargin.estimators import validation


def geometric_or_given(name: str, spec: Any, exponents: tuple[float, float], unit: float) -> list[float]:
    """The values that were given; if `spec` is a count, as many values of a geometric range around `unit`, between these powers
    of ten."""
    if isinstance(spec, Integral) and not isinstance(spec, bool) and int(spec) > 0:
        return [float(value) for value in unit * np.logspace(*exponents, int(spec))]
    return numbers(name, spec, or_else=", or how many of them to try")


def numbers(name: str, spec: Any, *, zero_ok: bool = False, or_else: str = "") -> list[float]:
    """The values that were given, each once, in their order."""
    if isinstance(spec, str) or not np.iterable(spec) or not len(list(spec)):
        raise validation.InvalidParameterError(name, spec, f"must be a sequence of positive numbers{or_else}")
    hint = "" if zero_ok else " and finite"
    return list(dict.fromkeys(validation.positive(name, value, zero_ok=zero_ok, hint=hint) for value in spec))
