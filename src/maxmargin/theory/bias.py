"""The bias of a machine by the rules of the textbooks, computed from the duals, and when these rules agree.

A support vector on the margin has y_i (w . phi(x_i) + b) = 1, so each of them knows the bias: b_i = y_i - w . phi(x_i). As an
optimum is only reached to a tolerance, one takes the mean:

    over_support   of b_i over all support vectors, alpha_i > 0
    over_free      of b_i over the free ones, 0 < alpha_i < C_i
    max_min        - (max_{y_i = -1} w . phi(x_i) + min_{y_i = +1} w . phi(x_i)) / 2, the middle between the classes

* Hard margin: all support vectors are on the margin, the nearest samples of both classes are among them, all three agree.
* Hinge loss: a support vector at C_i has slack, b_i = b + y_i xi_i, so the mean over all is off by the mean of y_i xi_i; that
  over the free ones is right; the nearest samples may be on the wrong side, and max_min says nothing.
* Quadratic loss: all support vectors have slack, xi_i = alpha_i / 2C_i. But with the same C for all, the mean of y_i xi_i is
  the sum of alpha_i y_i, divided by 2C times their number: zero, by the equality constraint. The mean over all is right.

The bias that a model keeps (`intercept_`) is the one with the smallest primal value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from maxmargin.formulations import costs
from maxmargin.theory import geometry
from maxmargin.theory.losses import name_of_loss

Vector = NDArray[np.float64]

AT_THE_BOUND = 1e-8  # relative distance to C_i below which an alpha counts as being at the bound


def over_support(signs: Vector, scores: Vector, alpha: Vector) -> float:
    """The mean of y_i - w . phi(x_i) over all support vectors; `scores` are w . phi(x_i), without a bias."""
    return _mean((signs - scores)[alpha > 0.0])


def over_free(signs: Vector, scores: Vector, alpha: Vector, cost: Vector | float) -> float:
    """The mean of y_i - w . phi(x_i) over the support vectors with alpha_i < C_i; NaN if there are none."""
    return _mean((signs - scores)[(alpha > 0.0) & (alpha < (1.0 - AT_THE_BOUND) * np.asarray(cost))])


def max_min(signs: Vector, scores: Vector) -> float:
    """Minus the middle between the largest score of the negative and the smallest of the positive samples."""
    return float(-0.5 * (scores[signs < 0].max() + scores[signs > 0].min()))


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else float("nan")


@dataclass(frozen=True)
class Biases:
    """The bias of one machine by each rule, and the bias that the model keeps."""

    over_support: float
    over_free: float
    max_min: float
    kept: float

    def __str__(self) -> str:
        return "\n".join(
            [
                "bias",
                f"  mean over all support vectors   {self.over_support:.10g}",
                f"  mean over the free ones         {self.over_free:.10g}",
                f"  hard-margin max/min rule        {self.max_min:.10g}",
                f"  smallest primal value (kept)    {self.kept:.10g}",
            ]
        )


def biases(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Biases:
    """The bias of a fitted binary `SVC` by each rule; X, y and weights must be its training data.

    Samples without weight take no part.
    """
    plane = geometry.of(model)
    machine, signs = plane.machine, plane.signs(y)
    if not hasattr(machine, "C"):
        raise TypeError(f"{type(machine).__name__} has no C: these are the rules for SVC; fit SVC(C=...) to look at them")
    if len(signs) != machine.shape_fit_[0]:
        raise ValueError(f"y has {len(signs)} labels: pass the {machine.shape_fit_[0]} samples the model was trained on")
    alpha = np.zeros(len(signs))
    coefficients: Any = machine.dual_coef_
    alpha[machine.support_] = np.abs(coefficients.toarray() if sp.issparse(coefficients) else coefficients)[0]
    weights = np.ones(len(signs)) if sample_weight is None else np.maximum(np.asarray(sample_weight, dtype=np.float64), 0.0)
    weights = weights * machine.class_weight_[(signs > 0).astype(np.intp)]
    cost = costs(
        np.inf if name_of_loss(machine) == "squared_hinge" else float(machine.C), weights
    )  # the squared hinge has no upper bound
    kept = float(machine.intercept_[0])
    scores, present = plane.h(X) - kept, weights > 0.0
    signs, scores, alpha, cost = signs[present], scores[present], alpha[present], cost[present]
    return Biases(over_support(signs, scores, alpha), over_free(signs, scores, alpha, cost), max_min(signs, scores), kept)
