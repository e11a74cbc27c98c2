"""Support vector classification of two classes as a dual problem.

    loss            box of sample i                          shift
    hinge           [0, C_i] if y = +1, [-C_i, 0] if y = -1  none
    squared_hinge   [0, inf) or (-inf, 0]                    1 / (2 C_i)
    hard margin     [0, inf) or (-inf, 0]                    none          (C = inf, either loss)

The linear term is -y throughout. The primal problem is min 1/2 |w|^2 + sum_i C_i xi_i (or xi_i^2) with
xi_i = max(0, 1 - y_i (w . phi(x_i) + b)). A sample with zero weight has a box of zero width: it takes no part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.problem import DualProblem

Vector = NDArray[np.float64]


def costs(C: float, sample_weight: Vector, class_weight: Vector) -> Vector:
    """C_i = C times the weights of the sample and of its class; a weight of zero gives zero even if C is infinite."""
    weight = sample_weight * class_weight
    if np.isinf(C):
        return np.where(weight > 0.0, np.inf, 0.0)
    return C * weight


def classification_problem(
    signs: Vector, cost: Vector, loss: str = "hinge", fit_intercept: bool = True
) -> DualProblem:
    """The dual problem of one binary machine; ``signs`` are +1 and -1, ``cost`` is C_i."""
    positive = signs > 0
    quadratic = loss == "squared_hinge" and not np.isinf(cost).any()
    reach = np.where(cost > 0.0, np.inf, 0.0) if quadratic else cost
    shift = None
    if quadratic:
        shift = np.divide(0.5, cost, out=np.ones_like(cost), where=cost > 0.0)
    return DualProblem(
        linear=-signs,
        lower=np.where(positive, 0.0, -reach),
        upper=np.where(positive, reach, 0.0),
        shift=shift,
        coupled=fit_intercept,
    )
