"""A feasible start for problems whose variables have a given sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def fill_up(capacity: Vector, total: float) -> Vector:
    """Fill the variables up to their capacity one after the other until their sum is `total`."""
    before = np.concatenate([[0.0], np.cumsum(capacity[:-1])])
    return np.clip(total - before, 0.0, capacity)
