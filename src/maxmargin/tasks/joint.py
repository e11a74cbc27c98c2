"""Crammer and Singer's machine: one problem of all classes at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np

from maxmargin.certificates import Certificate
from maxmargin.formulations import CrammerSingerProblem, costs, crammer_singer_problem
from maxmargin.multiclass import gather_scores
from maxmargin.tasks.base import Fitted, Indices, Matrix, Task, Vector
from maxmargin.tasks.by_class import ByClass
from maxmargin.tasks.classification import in_order_of_samples
from maxmargin.training import Outcome


class JointTask(Task):
    balanced = False  # type: ignore[assignment]

    def __init__(self, by_class: ByClass, weights: Vector, C: float) -> None:
        self.by_class, self.weights, self._C = by_class, weights, C
        self.order = by_class.order
        self.segments = (0, by_class.edges[-1])

    @cached_property
    def problems(self) -> list[CrammerSingerProblem]:  # type: ignore[override]
        return [crammer_singer_problem(self.by_class.labels, costs(self._C, self.weights))]

    @property
    def orders(self) -> list[Indices]:
        return self.by_class.orders

    def _weighted(self, weights: Vector) -> Self:
        return type(self)(self.by_class, weights, self._C)

    def decode(self, outcomes: Sequence[Outcome]) -> Fitted:
        (one,) = outcomes
        problem, B = one.problem, one.solution.beta
        rows = np.unique(self.by_class.labels[problem.upper.any(axis=0)])
        support, coefficients, intercepts = gather_scores(B, rows, len(self.by_class.edges) - 1)
        squared_norm = -2.0 * (one.proof.dual + float(np.vdot(problem.linear, B)))
        return Fitted(
            support=self.by_class.order[support],
            n_support=self.by_class.count(support),
            coefficients=coefficients,
            intercepts=intercepts,
            certificate=self.together([one.proof]),
            further={"margin_": 1.0 / math.sqrt(squared_norm) if squared_norm > 0.0 else math.inf},
        )

    def encode(self, coefficients: Matrix) -> list[tuple[Vector, float]]:
        raise NotImplementedError("the machine of all classes is not encoded again: nothing audits it")

    def together(self, proofs: Sequence[Certificate]) -> Certificate:
        return in_order_of_samples(proofs, self.by_class)
