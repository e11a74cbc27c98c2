"""Maps from a decision to the probability of the positive class; both are monotone.

sigmoid    P = 1 / (1 + exp(slope f + offset))       Platt's
isotonic   a step function that never falls           for thousands of samples
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

Vector = NDArray[np.float64]

NEWTON_STEPS = 100
HALVINGS = 30
SUFFICIENT_DECREASE = 1e-4  # share of the decrease predicted by the slope that a step must achieve
LAST_DECREMENT = 1e-12  # Newton decrement per unit of weight; a step below it is the last one, because each squares the error
RIDGE = 1e-12  # added to the Hessian, which is singular if all decisions are the same


@dataclass(frozen=True)
class Sigmoid:
    r"""P(f) = 1 / (1 + exp(slope f + offset)).

        min over slope, offset    - sum_i w_i [t_i log P(f_i) + (1 - t_i) log(1 - P(f_i))]

    With N+ and N- the weights of the two classes the targets are t = (N+ + 1) / (N+ + 2) and 1 / (N- + 2), not one and
    zero: what a uniform prior makes of so many samples (Platt). So decisions that separate the classes have a finite
    slope. Newton's method with a line search (Lin, Lin and Weng), on decisions scaled to at most one.
    """

    name: ClassVar[str] = "sigmoid"
    slope: float
    offset: float

    @classmethod
    def fit(cls, decisions: Vector, positive: NDArray[np.bool_], weights: Vector) -> Self:
        above, below = float(weights[positive].sum()), float(weights[~positive].sum())
        target = np.where(positive, (above + 1.0) / (above + 2.0), 1.0 / (below + 2.0))
        scale = float(np.abs(decisions).max(initial=0.0)) or 1.0
        features = np.stack([decisions / scale, np.ones(len(decisions))])
        point = np.array([0.0, np.log((below + 1.0) / (above + 1.0))])

        def value(point: Vector) -> float:
            z = point @ features  # P = 1 / (1 + exp(z)), so -log P = log(1 + exp(z)) and -log(1 - P) = that - z
            return float(weights @ (np.logaddexp(0.0, z) - (1.0 - target) * z))

        now = value(point)
        for _ in range(NEWTON_STEPS):
            probability = expit(-point @ features)
            gradient = features @ (weights * (target - probability))
            curvature = weights * probability * (1.0 - probability)
            hessian = (features * curvature) @ features.T
            hessian += RIDGE * max(1.0, np.trace(hessian)) * np.eye(2)  # equal decisions leave it singular
            step = -np.linalg.solve(hessian, gradient)
            slope = float(gradient @ step)
            for halving in range(HALVINGS):
                candidate = point + 0.5**halving * step
                then = value(candidate)
                if then <= now + SUFFICIENT_DECREASE * 0.5**halving * slope:
                    break
            else:
                break  # only rounding errors remain
            point, now = candidate, then
            if -slope <= LAST_DECREMENT * (above + below):
                break
        return cls(float(point[0]) / scale, float(point[1]))

    def __call__(self, decisions: Vector) -> Vector:
        return np.asarray(expit(-(self.slope * decisions + self.offset)))


@dataclass(frozen=True)
class Isotonic:
    """The step function that never falls with the least squared error, linear between its steps and level outside."""

    name: ClassVar[str] = "isotonic"
    thresholds: Vector  # decisions, ascending
    probabilities: Vector  # of these decisions

    @classmethod
    def fit(cls, decisions: Vector, positive: NDArray[np.bool_], weights: Vector) -> Self:
        regression = IsotonicRegression(y_min=0.0, y_max=1.0).fit(decisions, positive.astype(np.float64), weights)
        return cls(regression.X_thresholds_, regression.y_thresholds_)

    def __call__(self, decisions: Vector) -> Vector:
        return np.interp(decisions, self.thresholds, self.probabilities)


Map = Sigmoid | Isotonic
MAPS: dict[str, type[Map]] = {kind.name: kind for kind in (Sigmoid, Isotonic)}
