"""Support vector regression as a dual problem.

A sample can be too far below the tube around the prediction or too far above it, so it has two variables: beta_i >= 0 pulls
the prediction up to y_i, beta_{n+i} <= 0 pulls it down. Variable v belongs to sample v mod n (`gram.DoubledGram`).

    loss                          linear (first half, second half)   box [0, .] and [., 0]   shift
    epsilon_insensitive           epsilon - y,  -epsilon - y         C_i, -C_i               none
    squared_epsilon_insensitive   epsilon - y,  -epsilon - y         inf, -inf               1 / (2 C_i)
    huber_epsilon_insensitive     epsilon - y,  -epsilon - y         C_i, -C_i               delta / C_i

The primal problem is min 1/2 |w|^2 + sum_i loss_i(xi_i) with xi_i = max(0, |y_i - w . phi(x_i) - b| - epsilon) and a loss from
`losses`.

With nu instead of epsilon the width of the tube is found as well: min 1/2 |w|^2 + nu (sum_i C_i) epsilon + sum_i C_i xi_i. The
linear term is -y for both halves, and each half has a sum of its own, nu (sum_i C_i) / 2: at most a share nu of the samples
lies outside the tube. The levels of the halves are -epsilon - b and epsilon - b.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.filling import fill_up
from maxmargin.formulations.losses import Loss, make_loss
from maxmargin.formulations.problem import DualProblem

Vector = NDArray[np.float64]


def regression_problem(
    y: Vector, cost: Vector, epsilon: float, loss: str | Loss = "epsilon_insensitive", fit_intercept: bool = True
) -> DualProblem:
    """The dual problem over 2n variables; ``cost`` is C_i."""
    zero = np.zeros(len(y))
    reach, shift = make_loss(loss).box(cost)
    return DualProblem(
        linear=np.concatenate([epsilon - y, -epsilon - y]),
        lower=np.concatenate([zero, -reach]),
        upper=np.concatenate([reach, zero]),
        shift=None if shift is None else np.tile(shift, 2),
        coupled=fit_intercept,
    )


def nu_regression_problem(y: Vector, cost: Vector, nu: float) -> DualProblem:
    """The dual problem over 2n variables in two groups; ``cost`` is C_i."""
    zero, half = np.zeros(len(y)), fill_up(cost, 0.5 * nu * float(cost.sum()))
    return DualProblem(
        linear=np.concatenate([-y, -y]),
        lower=np.concatenate([zero, -cost]),
        upper=np.concatenate([cost, zero]),
        split=len(y),
        start=np.concatenate([half, -half]),
    )


def tube(levels: tuple[float, ...]) -> float:
    """Half the width epsilon of the tube that a nu-regression found."""
    below, above = levels
    return 0.5 * (above - below)


def merge_halves(beta: Vector) -> Vector:
    """One coefficient per sample: the sum of its two variables, of which one pulls up and the other pulls down."""
    n = len(beta) // 2
    return np.asarray(beta[:n] + beta[n:])
