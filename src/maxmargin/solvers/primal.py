r"""The primal problem as its solvers need it, without labels.

    min    1/2 |w|^2 + sum_i loss_i(E_i),   E_i = w . phi(x_i) + b + linear_i          given features phi, linear = -y

The loss of a sample is the support function of its box, smoothed by its shift:

    loss_i(E) = max { -beta E - 1/2 shift_i beta^2 : lower_i <= beta <= upper_i }

For the box [0, C] that is C max(0, -E), the hinge, as -E = 1 - f(x) where y = 1; for [0, inf) and the shift 1 / 2C it is
C max(0, -E)^2, the quadratic loss. The maximiser is minus the derivative of the loss (a subgradient for the hinge): what
pulls at the weights. It lies in the box, and at the optimum w = sum_i beta_i phi(x_i): a dual point comes with every primal one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem

Vector = NDArray[np.float64]


def pull(errors: Vector, lower: Vector, upper: Vector, shift: Vector | float | None) -> Vector:
    """The duals that belong to the errors E: minus the derivative of each sample's loss."""
    if shift is None:
        return np.where(errors < 0.0, upper, lower)
    return np.clip(-errors / shift, lower, upper)


def balanced_pull(problem: DualProblem, outputs: Vector, shift: Vector | float | None) -> Vector:
    """The pull at the outputs w . phi(x_i) with the best bias, at which it sums to zero; without an intercept, with none."""
    errors, lower, upper = outputs + problem.linear, problem.lower, problem.upper
    if not problem.coupled:
        return pull(errors, lower, upper, shift)
    if shift is None:
        return problem.vertex(errors)

    def total(bias: float) -> float:
        return float(pull(errors + bias, lower, upper, shift).sum())

    bias = scipy.optimize.brentq(total, -errors.max(), -errors.min(), xtol=1e-15)
    beta = pull(errors + bias, lower, upper, shift)
    free = (beta > lower) & (beta < upper)
    if free.any():  # what rounding left of the sum
        beta[free] -= beta.sum() / free.sum()
    return np.clip(beta, lower, upper)


def gradient_at(problem: DualProblem, features: Any, beta: Vector) -> Vector:
    """(K + diag(shift)) beta + linear for K = features features', without K."""
    gradient = np.asarray(features @ (features.T @ beta)) + problem.linear
    return gradient if problem.shift is None else gradient + problem.shift * beta
