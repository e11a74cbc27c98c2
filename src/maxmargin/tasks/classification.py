"""Binary machines: one for two classes, or several of pairs or of one class against the rest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from maxmargin.certificates import Certificate, combine
from maxmargin.formulations import (
    DualProblem,
    Loss,
    classification_problem,
    costs,
    largest_nu,
    nu_classification_problem,
    nu_margin,
)
from maxmargin.gram import Gram
from maxmargin.multiclass import gather_coefficients, spread_coefficients
from maxmargin.rounding import TINY
from maxmargin.samples import dwarfs_spread
from maxmargin.tasks.base import Fitted, Indices, Matrix, Task, Vector
from maxmargin.tasks.by_class import ByClass
from maxmargin.training import Outcome


class BinaryMachine(ABC):
    """A binary machine without its samples: its dual problem, and the scale of its solution."""

    @abstractmethod
    def pose_each(self, signs: Vector, weights: Vector, ends: Sequence[int]) -> list[DualProblem]:
        """The dual problem of each machine, from the signs and weights of all, one after the other; machine i ends at `ends[i]`.
        A ValueError if some problem has no feasible point."""

    def of_fold(self) -> BinaryMachine:
        """The machine for a fold, which has fewer samples."""
        return self

    @abstractmethod
    def linear_term(self, proof: Certificate) -> float:
        """linear' beta, the second part of the objective of the dual problem."""

    def squared_norm(self, one: Outcome) -> float:
        """||w||^2 = beta' K beta, from the dual value -(1/2 beta'(K + diag(shift)) beta + linear' beta)."""
        problem, beta = one.problem, one.solution.beta
        norm = -2.0 * (one.proof.dual + self.linear_term(one.proof))
        if problem.shift is not None:
            norm -= float(problem.shift @ beta**2)
        if not problem.coupled:  # without an equality constraint the bias is a weight like the others
            norm -= one.proof.bias**2
        return max(norm, 0.0)

    def scale(self, problem: DualProblem, proof: Certificate) -> float:
        """The factor that turns the solution into the machine that is kept."""
        return 1.0

    def divisor(self, coefficients: Vector, weights: Vector) -> float:
        """One over `scale`, from the machine that was kept."""
        return 1.0

    def further(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """What the solutions say besides coefficients and intercepts."""
        return {}


@dataclass(frozen=True)
class CostMachine(BinaryMachine):
    """The machine with a cost C of slack and a loss."""

    C: float
    loss: Loss
    fit_intercept: bool = True

    def pose_each(self, signs: Vector, weights: Vector, ends: Sequence[int]) -> list[DualProblem]:
        # the statement is about each sample by itself
        return classification_problem(signs, costs(self.C, weights), self.loss, self.fit_intercept).cut(ends)

    def linear_term(self, proof: Certificate) -> float:
        return -proof.size  # linear_i is -y_i, and beta_i has the sign of y_i


@dataclass(frozen=True)
class NuMachine(BinaryMachine):
    """The machine with a share nu of margin errors; it is divided by the margin rho that it finds. A fold may have too few
    samples of a class for nu; a `clipped` machine then gets the largest feasible value."""

    nu: float
    clipped: bool = False

    def pose_each(self, signs: Vector, weights: Vector, ends: Sequence[int]) -> list[DualProblem]:
        seen = [(signs[start:end], weights[start:end]) for start, end in pairwise([0, *ends])]
        largest = [largest_nu(*one) for one in seen]
        most = min(largest)
        if self.nu > most and not self.clipped:
            raise ValueError(
                f"nu={self.nu!r}: specified nu is infeasible: the largest value that the smaller class of each pair can "
                f"satisfy here is {most!r}"
            )
        return [nu_classification_problem(*one, min(self.nu, own)) for one, own in zip(seen, largest, strict=True)]

    def linear_term(self, proof: Certificate) -> float:
        return 0.0

    def of_fold(self) -> NuMachine:
        return replace(self, clipped=True)

    def scale(self, problem: DualProblem, proof: Certificate) -> float:
        rho = nu_margin(problem, proof.levels)
        return 1.0 / rho if rho > proof.kkt_violation else 1.0

    def divisor(self, coefficients: Vector, weights: Vector) -> float:
        return self.nu * float(weights.sum()) / max(float(np.abs(coefficients).sum()), TINY)

    def further(self, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        rho = np.array([nu_margin(one.problem, one.proof.levels) for one in outcomes])
        return {"rho_": float(rho[0]) if len(rho) == 1 else rho}


class ClassificationTask(Task):
    """`weights` are those of the samples times those of their classes, in the order of the kernel matrix."""

    def __init__(self, by_class: ByClass, weights: Vector, machine: BinaryMachine, strategy: str) -> None:
        self.by_class, self.weights, self.machine, self.strategy = by_class, weights, machine, strategy
        self.order = by_class.order
        self.segments = by_class.edges

    @cached_property
    def problems(self) -> list[DualProblem]:  # type: ignore[override]
        by_class = self.by_class
        return self.machine.pose_each(by_class.signs, self.weights.take(by_class.joined), by_class.ends)

    def parts(self, gram: Gram) -> list[Gram]:
        return self.by_class.parts(gram)

    @property
    def orders(self) -> list[Indices]:
        return self.by_class.orders

    def _weighted(self, weights: Vector) -> Self:
        return type(self)(self.by_class, weights, self.machine.of_fold(), self.strategy)

    def decode(self, outcomes: Sequence[Outcome]) -> Fitted:
        scales = [self.machine.scale(one.problem, one.proof) for one in outcomes]
        kept = [_scaled(one, scale) for one, scale in zip(outcomes, scales, strict=True)]
        betas, biases = [beta for beta, _ in kept], [bias for _, bias in kept]
        support, coefficients = gather_coefficients(self.by_class.plan, betas, self.by_class.edges, self.strategy)
        norms = [scale * math.sqrt(self.machine.squared_norm(one)) for scale, one in zip(scales, outcomes, strict=True)]
        margins = [math.inf if norm == 0.0 else 1.0 / norm for norm in norms]
        return Fitted(
            support=self.by_class.order[support],
            n_support=self.by_class.count(support),
            coefficients=coefficients,
            intercepts=np.array(biases),
            certificate=self.together([one.proof for one in outcomes]),
            further={"margin_": margins[0] if len(margins) == 1 else np.array(margins), **self.machine.further(outcomes)},
        )

    def encode(self, coefficients: Matrix) -> list[tuple[Vector, float]]:
        sorted_rows = coefficients[:, self.by_class.order]
        rows = spread_coefficients(self.by_class.plan, sorted_rows, self.by_class.edges, self.strategy)
        divisors = [self.machine.divisor(row, self.weights[seen]) for row, seen in zip(rows, self.by_class.members, strict=True)]
        return [(divisor * row, divisor) for row, divisor in zip(rows, divisors, strict=True)]

    def together(self, proofs: Sequence[Certificate]) -> Certificate:
        return in_order_of_samples(proofs, self.by_class)


def _scaled(one: Outcome, scale: float) -> tuple[Vector, float]:
    """The duals and the intercept of a machine, times its scale.

    The duals of a linear machine have to sum to zero after that too: with large features, what rounding leaves of their sum
    matters. The intercept is then chosen so that the first sample keeps its decision, times the scale.
    """
    if scale == 1.0:
        return one.solution.beta, one.proof.bias
    beta, samples = scale * one.solution.beta, one.gram.samples
    if samples.centre is None or not dwarfs_spread(samples.centre, samples):
        return beta, scale * one.proof.bias
    problem = one.problem
    scaled = replace(problem, lower=scale * problem.lower, upper=scale * problem.upper, split=None, start=None)
    balanced = scaled.with_exact_sums(beta)
    support, first = np.flatnonzero(balanced).astype(np.int32), np.zeros(1, dtype=np.int32)
    before, after = (one.gram.exact_sums(support, duals[None, support], first) for duals in (one.solution.beta, balanced))
    decision = scale * (float(before.values[0, 0]) + one.proof.bias_of_sums)
    return balanced, decision - float(after.values[0, 0]) - after.offset[0] - after.offset[1]


def in_order_of_samples(proofs: Sequence[Certificate], by_class: ByClass) -> Certificate:
    """The certificate of all machines, with its gap terms in the order of the training samples."""
    terms = np.zeros((len(proofs), len(by_class.order)))
    for own, members, proof in zip(terms, by_class.members, proofs, strict=True):
        own[by_class.order.take(members)] = proof.gap_terms
    return replace(proofs[0], gap_terms=terms[0]) if len(proofs) == 1 else combine(proofs, terms)
