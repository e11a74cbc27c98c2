"""Regression: two variables for each sample, one for each side of the tube."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from maxmargin.certificates import Certificate
from maxmargin.formulations import DualProblem, Loss, merge_halves, nu_regression_problem, regression_problem, tube
from maxmargin.formulations.filling import fill_up
from maxmargin.gram import DoubledGram, Gram
from maxmargin.tasks.base import Fitted, Matrix, Task, Vector
from maxmargin.training import Outcome


class Regression(ABC):
    """A regression machine without its samples: its dual problem, and what else its solution says."""

    @abstractmethod
    def pose(self, targets: Vector, cost: Vector) -> DualProblem: ...

    def fill(self, halves: Vector, cost: Vector) -> Vector:
        """The variables of both sides, raised until their sums are right, which changes neither machine nor dual value."""
        return halves

    def further(self, proof: Certificate) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Tube(Regression):
    """A tube of half-width epsilon."""

    epsilon: float
    loss: Loss
    fit_intercept: bool = True

    def pose(self, targets: Vector, cost: Vector) -> DualProblem:
        return regression_problem(targets, cost, self.epsilon, self.loss, self.fit_intercept)


@dataclass(frozen=True)
class NuTube(Regression):
    """A tube that at most a share nu of the samples leaves."""

    nu: float

    def pose(self, targets: Vector, cost: Vector) -> DualProblem:
        return nu_regression_problem(targets, cost, self.nu)

    def fill(self, halves: Vector, cost: Vector) -> Vector:
        beta = merge_halves(halves)
        lacking = 0.5 * (self.nu * float(cost.sum()) - float(np.abs(beta).sum()))
        both = fill_up(np.maximum(cost - np.abs(beta), 0.0), max(lacking, 0.0))
        return np.asarray(halves + np.concatenate([both, -both]))

    def further(self, proof: Certificate) -> dict[str, Any]:
        return {"epsilon_": tube(proof.levels)}


class RegressionTask(Task):
    """The weight of a sample is its cost C_i."""

    def __init__(self, targets: Vector, cost: Vector, machine: Regression) -> None:
        self.targets, self.weights, self.machine = targets, cost, machine
        self.segments = (0, len(targets))

    @cached_property
    def problems(self) -> list[DualProblem]:  # type: ignore[override]
        return [self.machine.pose(self.targets, self.weights)]

    def parts(self, gram: Gram) -> list[Gram]:
        return [DoubledGram(gram)]

    def _weighted(self, weights: Vector) -> Self:
        return type(self)(self.targets, weights, self.machine)

    def decode(self, outcomes: Sequence[Outcome]) -> Fitted:
        (one,) = outcomes
        beta = merge_halves(one.solution.beta)
        support = np.flatnonzero(beta)
        return Fitted(
            support=support,
            n_support=np.array([len(support)], dtype=np.int32),
            coefficients=beta[None, support],
            intercepts=np.array([one.proof.bias]),
            certificate=self.together([one.proof]),
            further=self.machine.further(one.proof),
        )

    def encode(self, coefficients: Matrix) -> list[tuple[Vector, float]]:
        beta = coefficients[0]
        halves = np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)])
        return [(self.machine.fill(halves, self.weights), 1.0)]

    def together(self, proofs: Sequence[Certificate]) -> Certificate:
        return replace(proofs[0], gap_terms=merge_halves(proofs[0].gap_terms))
