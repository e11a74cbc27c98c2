"""The machine of a single class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np

from maxmargin.certificates import Certificate
from maxmargin.formulations import DualProblem, one_class_problem
from maxmargin.tasks.base import Fitted, Matrix, Task, Vector
from maxmargin.training import Outcome

#: Samples within this relative distance of the plane are on it: they are inliers, whatever the rounding of their decisions.
ON_THE_PLANE = 1e-10


class OneClassTask(Task):
    def __init__(self, weights: Vector, nu: float) -> None:
        self.weights, self.nu = weights, nu
        self.segments = (0, len(weights))

    @cached_property
    def problems(self) -> list[DualProblem]:  # type: ignore[override]
        return [one_class_problem(self.weights, self.nu)]

    def kept_levels(self, best: Vector) -> Vector:
        """rho, lowered by a tiny amount, so that samples on the plane are inliers whatever the rounding of their decisions."""
        return best - ON_THE_PLANE * np.abs(best)

    def _weighted(self, weights: Vector) -> Self:
        return type(self)(weights, self.nu)

    def decode(self, outcomes: Sequence[Outcome]) -> Fitted:
        (one,) = outcomes
        support = np.flatnonzero(one.solution.beta)
        intercept = np.array([one.proof.bias])
        return Fitted(
            support=support,
            n_support=np.array([len(support)], dtype=np.int32),
            coefficients=one.solution.beta[None, support],
            intercepts=intercept,
            certificate=self.together([one.proof]),
            further={"offset_": -intercept},
        )

    def encode(self, coefficients: Matrix) -> list[tuple[Vector, float]]:
        return [(coefficients[0], 1.0)]

    def together(self, proofs: Sequence[Certificate]) -> Certificate:
        return proofs[0]
