"""A first point for problems whose variables have a sum to keep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def fill_up(capacity: Vector, total: float) -> Vector:
    """Each variable in its turn gets all it can hold, until `total` is given out."""
    before = np.concatenate([[0.0], np.cumsum(capacity[:-1])])
    return np.clip(total - before, 0.0, capacity)
