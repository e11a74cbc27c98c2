"""Rounding units, and the tolerances that stand for rounding, in one place.

A tolerance that is a choice (a share of tol, a number of steps) stays with the code that makes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

EPSILON = float(np.finfo(float).eps)  # distance from 1 to the next float64
UNIT_ROUNDOFF = 0.5 * EPSILON  # largest relative rounding error of one float64 operation
TINY = float(np.finfo(float).tiny)  # smallest normal float64, for denominators that may be zero

#: Rounding error of a kernel entry computed in float32, relative to the largest diagonal entry.
FLOAT32_ENTRY = 2.0**-22
#: The same of an entry that is computed in float64 and then rounded to float32: four standard deviations.
ROUNDED_ENTRY = 2.0**-24

POLISHED_VIOLATION = 1e-12  # violation to which a problem of one float64 tile is solved in the end
LEAST_TOLERANCE = 1e-15  # smallest tolerance, relative to the terms of a gradient: smaller differences are rounding
NEGATIVE_CURVATURE = 1e-6  # negative curvature, relative to the diagonal, that rounding does not explain


def rounding_of_gradient(beta: NDArray[np.float64], diagonal: NDArray[np.float64]) -> float:
    """The size of rounding errors of a gradient in float64: smaller violations tell nothing, and might not be reached."""
    return EPSILON * float(np.abs(beta).sum()) * float(diagonal.max(initial=0.0))
