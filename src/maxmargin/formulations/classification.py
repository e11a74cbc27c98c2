"""Support vector classification of two classes as a dual problem.

    loss            box of sample i                          shift
    hinge           [0, C_i] if y = +1, [-C_i, 0] if y = -1  none
    squared_hinge   [0, inf) or (-inf, 0]                    1 / (2 C_i)
    huber_hinge     [0, C_i] or [-C_i, 0]                    delta / C_i
    hard margin     [0, inf) or (-inf, 0]                    none          (C = inf, whatever the loss)

The linear term is -y throughout. The primal problem is min 1/2 |w|^2 + sum_i loss_i(xi_i), where xi_i is max(0, 1 - y_i (w .
phi(x_i) + b)) and the loss comes from `losses`. A sample with zero weight has a box of zero width: it takes no part.

With nu instead of C the margin is rho instead of one, and is found as well: with s_i the weight of sample i,

    min over w, b, rho    1/2 |w|^2 - nu (sum_i s_i) rho + sum_i s_i max(0, rho - y_i (w . phi(x_i) + b))

The linear term is zero, the box [0, s_i] or [-s_i, 0], and each class has a sum of its own, nu (sum_i s_i) / 2 or minus
that: at most a share nu of the samples lies inside the margin. The levels of the classes are rho - b and -rho - b. The
machine divided by rho is the one that C = 1 / rho gives.
"""

from __future__ import annotations

from math import isinf

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.filling import fill_up
from maxmargin.formulations.losses import Loss, make_loss
from maxmargin.formulations.problem import DualProblem

Vector = NDArray[np.float64]


def costs(C: float, weight: Vector) -> Vector:
    """The costs C_i: C times the weight of each sample; a weight of zero gives zero even if C is infinite."""
    if isinf(C):
        return np.where(weight > 0.0, np.inf, 0.0)
    return C * weight


def classification_problem(signs: Vector, cost: Vector, loss: str | Loss = "hinge", fit_intercept: bool = True) -> DualProblem:
    """The dual problem of one binary machine; ``signs`` are +1 and -1, ``cost`` is C_i."""
    positive = signs > 0
    reach, shift = (cost, None) if isinf(cost.max(initial=0.0)) else make_loss(loss).box(cost)
    return DualProblem(
        linear=-signs,
        lower=np.where(positive, 0.0, -reach),
        upper=np.where(positive, reach, 0.0),
        shift=shift,
        coupled=fit_intercept,
    )


def nu_classification_problem(signs: Vector, weight: Vector, nu: float) -> DualProblem:
    """The dual problem of one binary nu-machine. Its two groups are the classes; the samples of one must precede those of the
    other."""
    split = int(np.argmax(signs != signs[0]))
    half = 0.5 * nu * float(weight.sum())
    size = np.concatenate([fill_up(part, half) for part in np.split(weight, [split])])
    return DualProblem(
        linear=np.zeros(len(signs)),
        lower=np.where(signs > 0, 0.0, -weight),
        upper=np.where(signs > 0, weight, 0.0),
        split=split,
        start=signs * size,
    )


def largest_nu(signs: Vector, weight: Vector) -> float:
    """The largest feasible nu: with a larger one the smaller class cannot reach its sum."""
    positive, negative = float(weight[signs > 0].sum()), float(weight[signs < 0].sum())
    return 2.0 * min(positive, negative) / (positive + negative) if positive + negative > 0.0 else 0.0


def nu_margin(problem: DualProblem, levels: tuple[float, ...]) -> float:
    """The margin rho that a nu-machine found, from the levels of its classes."""
    first, second = levels
    positive_first = problem.start is not None and problem.start[: problem.split].sum() > 0.0
    return 0.5 * (first - second if positive_first else second - first)
