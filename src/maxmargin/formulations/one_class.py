"""The one-class machine as a dual problem.

    min over w, rho    1/2 |w|^2 - nu (sum_i s_i) rho + sum_i s_i max(0, rho - w . phi(x_i))

with s_i the weight of sample i: the plane farthest from the origin that leaves at most a share nu of the samples behind.
The linear term is zero, the box [0, s_i], the sum nu (sum_i s_i); the level is rho.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.filling import fill_up
from maxmargin.formulations.problem import DualProblem

Vector = NDArray[np.float64]


def one_class_problem(weight: Vector, nu: float) -> DualProblem:
    """The dual problem of the one-class machine for samples with these weights."""
    return DualProblem(
        linear=np.zeros(len(weight)),
        lower=np.zeros(len(weight)),
        upper=weight,
        start=fill_up(weight, nu * float(weight.sum())),
    )
