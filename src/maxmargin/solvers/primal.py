r"""The primal problem as its solvers need it, without labels.

    min    1/2 |w|^2 + sum_i loss_i(E_i),   E_i = w . phi(x_i) + b + linear_i          given features phi, linear = -y

The loss of a sample is the support function of its box, smoothed by its shift:

    loss_i(E) = max { -beta E - 1/2 shift_i beta^2 : lower_i <= beta <= upper_i }

For the box [0, C] that is C max(0, -E), the hinge, as -E = 1 - f(x) where y = 1; for [0, inf) and the shift 1 / 2C it is
C max(0, -E)^2, the quadratic loss. The maximiser is minus the derivative of the loss (a subgradient for the hinge): what
pulls at the weights. It lies in the box, and at the optimum w = sum_i beta_i phi(x_i): a dual point comes with every primal one.

The hard margin has no price, so its box has no end and its loss is infinite. Methods that minimise the loss alone give it the
price 1 (`unit_prices`) and scale what they find (`canonical`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram

Vector = NDArray[np.float64]

MOST_FREE = 500  # largest number of free duals whose linear system is solved


def features_of(gram: Gram) -> Any:
    """The features phi of each variable with K = phi phi', dense or CSR in float64: the samples themselves, less their centre."""
    if not gram.kernel.explicit:
        raise ValueError(
            f"the {gram.kernel.name} kernel has no explicit features, which a solver of the primal problem needs: "
            "use kernel='linear', or a solver of the dual such as solver='block-smo'"
        )
    features = gram.samples.rows.astype(np.float64)
    return features if gram.samples.centre is None else features - gram.samples.centre


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
    beta = pull(errors + best_bias(problem, outputs, shift), lower, upper, shift)
    free = (beta > lower) & (beta < upper)
    if free.any():  # remove the rounding error of the sum
        beta[free] -= beta.sum() / free.sum()
    return np.clip(beta, lower, upper)


def best_bias(problem: DualProblem, outputs: Vector, shift: Vector | float) -> float:
    """The bias with the smallest sum of losses at the outputs w . phi(x_i); if no sample needs slack, the middle of the range."""
    errors, lower, upper = outputs + problem.linear, problem.lower, problem.upper
    least = -float(errors[upper > 0.0].min(initial=np.inf))  # from here on no sample that wants to rise has slack
    most = -float(errors[lower < 0.0].max(initial=-np.inf))
    if least <= most:
        return 0.5 * (least + most)
    total = scipy.optimize.brentq(
        lambda bias: float(pull(errors + bias, lower, upper, shift).sum()), -errors.max(), -errors.min(), xtol=1e-15
    )
    return float(total)


def gradient_at(problem: DualProblem, features: Any, beta: Vector) -> Vector:
    """(K + diag(shift)) beta + linear for K = features features', without K."""
    gradient = np.asarray(features @ (features.T @ beta)) + problem.linear
    return gradient if problem.shift is None else gradient + problem.shift * beta


def refine_free(problem: DualProblem, features: Any, beta: Vector, gradient: Vector) -> Vector:
    """`beta` after a Newton step on the duals that are not at a bound, K_ff d + v = -G_f with sum(d) = 0. It restores digits that
    a small slack times a large price has lost. `beta` is returned unchanged if no dual is free, or too many are."""
    free = np.flatnonzero((beta > problem.lower) & (beta < problem.upper))
    m, coupled = len(free), int(problem.coupled)
    if not 0 < m <= MOST_FREE:
        return beta
    rows = features[free]
    products = rows @ rows.T
    system, right = np.zeros((m + coupled, m + coupled)), np.zeros(m + coupled)
    system[:m, :m] = products.toarray() if sp.issparse(products) else products
    system[:m, :m] += np.diag(problem.shift[free]) if problem.shift is not None else 0.0
    system[m:, :m] = system[:m, m:] = 1.0
    right[:m] = -gradient[free]
    refined = beta.copy()
    refined[free] += np.linalg.lstsq(system, right)[0][:m]
    return problem.feasible(refined)


def unit_prices(problem: DualProblem) -> DualProblem:
    """A hard-margin problem with slack at the price 1."""
    return replace(problem, lower=np.maximum(problem.lower, -1.0), upper=np.minimum(problem.upper, 1.0))


def smallest_margin(problem: DualProblem, outputs: Vector) -> float:
    """The smallest functional margin at the outputs w . phi(x_i) of a hard-margin problem, with the best bias for it."""
    lowest = float(outputs[np.isinf(problem.upper)].min(initial=np.inf))
    highest = float(outputs[np.isinf(problem.lower)].max(initial=-np.inf))
    return 0.5 * (lowest - highest) if problem.coupled else min(lowest, -highest)


def canonical(problem: DualProblem, features: Any, beta: Vector) -> tuple[Vector, bool]:
    """The multiple of `beta` whose hyperplane has a smallest functional margin of 1, and whether it exists: whether the
    hyperplane separates the classes."""
    margin = smallest_margin(problem, np.asarray(features @ (features.T @ beta)))
    return (beta / margin, True) if 0.0 < margin < np.inf else (beta, False)
