"""The proof of a linear machine: primal value at (w, b), dual value at beta and the gap between them, in one pass over the data.

The gap is the sum of formulations/linear.py, taken at the residuals that are worst within rounding. It needs of the data the
sums that native/include/maxmargin/linear_certificate.hpp states, and the vector v, the sum of beta_i x_i, all in float64
(`Evidence`); neither a solver nor its code has part in it. w and v are not the same: w is what the model holds, v what its duals
prove, and the distance between them is part of the gap. So a primal solver, whose duals do not give its weights, is judged by the
same text.

Rounding is derived there, too: the terms of the gap are those of the worst residual that it allows, and v is off by at most
`Evidence.error`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificates import ZERO, Certificate, relative_gap
from maxmargin.formulations import JointLinearProblem, LinearProblem, LinearTotals
from maxmargin.rounding import EPSILON

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


#: The entries of `Sums` that are sums over the samples, and those that are maxima.
ADDED, LARGEST = ("gaps", "plain", "duals", "total", "size", "reach"), ("violation", "box")

#: A vector v that is at most this many times the bound on its error may be the sum of duals whose v is zero.
ROUNDED_TO_ZERO = 64.0


class Sums(NamedTuple):
    """Sums over the samples; see native/include/maxmargin/linear_certificate.hpp."""

    gaps: float
    plain: float
    duals: float
    total: float
    size: float
    reach: float
    violation: float
    box: float


@dataclass(frozen=True)
class Evidence:
    """The sums over the samples, the share of each of them in the gap, v = sum_i beta_i x_i, and a bound on the error of v."""

    sums: Any  # `Sums`, or an object of the compiled code with the same names
    terms: Vector
    products: Vector
    error: float


@dataclass(frozen=True)
class EvidenceInParts:
    """The evidence about all samples from that about parts of them, without the shares in the gap. The sum of the products is
    `high + low`, where `low` is what rounding took."""

    sums: tuple[Sums, ...]
    high: Vector
    low: Vector
    error: float

    @classmethod
    def of(cls, sums: Any, products: Vector, error: float) -> EvidenceInParts:
        """The evidence of one part."""
        numbers = Sums(*(float(getattr(sums, name)) for name in Sums._fields))
        return cls((numbers,), products, np.zeros_like(products), error)

    def plus(self, other: EvidenceInParts) -> EvidenceInParts:
        total = self.high + other.high
        gained = total - self.high
        lost = (self.high - (total - gained)) + (other.high - gained)
        return EvidenceInParts(self.sums + other.sums, total, self.low + other.low + lost, self.error + other.error)

    def whole(self) -> Evidence:
        """The evidence about all samples, without the share of each of them in the gap."""
        sums = Sums(
            **{name: math.fsum(getattr(part, name) for part in self.sums) for name in ADDED},
            **{name: max(getattr(part, name) for part in self.sums) for name in LARGEST},
        )
        # the sum of the products of the parts is rounded twice
        return Evidence(sums, np.empty(0), self.high + self.low, self.error + EPSILON * sums.reach)


def certify_linear(problem: LinearProblem | LinearTotals, weights: Vector, evidence: Evidence) -> Certificate:
    """The certificate of the weights (features, then bias if there is one) and the duals that the evidence is of."""
    started = time.perf_counter()
    sums, n_features = evidence.sums, len(evidence.products)
    w, bias = weights[:n_features], float(weights[n_features]) if problem.bias != "none" else 0.0
    offset = problem.constant * bias
    apart = float(np.linalg.norm(w - evidence.products))
    square = float(evidence.products @ evidence.products)
    unbalanced = abs(sums.total - problem.total) if problem.bias == "free" else 0.0
    distances = 0.5 * (apart + evidence.error) ** 2 + abs(offset) * unbalanced
    if problem.bias == "regularised":
        square += (problem.constant * sums.total) ** 2
        distances += 0.5 * (bias - problem.constant * sums.total) ** 2
    dual = sums.duals - 0.5 * square
    gap = sums.gaps + distances
    rounding = max(0.0, sums.gaps - sums.plain) + evidence.error * (apart + 0.5 * evidence.error)
    value_error = evidence.error * (math.sqrt(square) + evidence.error)

    def zero() -> float:
        """The largest objective that cannot be told from zero: a rounding error of the losses of the machine w = 0. Where these
        are zero (one-class), the optimum lies between the dual value and zero: if v is rounding, it is zero, and the objective of
        weights that are rounded, too, is at most a rounding error of the largest |w|^2 that such duals could have."""
        if problem.value_of_zero > 0.0:
            return _zero(problem)
        return ZERO * sums.reach**2 if math.sqrt(square) <= ROUNDED_TO_ZERO * evidence.error else 0.0

    return Certificate(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=relative_gap(gap, rounding, dual, value_error, zero),
        kkt_violation=max(sums.violation, apart / max(float(np.linalg.norm(w)), 1.0)),
        box_residual=sums.box,
        equality_residual=unbalanced,
        arithmetic="float64",
        bias=offset,
        value_error=value_error,
        rounding=rounding,
        size=sums.size,
        complete=True,
        seconds=time.perf_counter() - started,
        gap_terms=evidence.terms,
    )


def certify_l1(
    problem: LinearProblem,
    weights: Vector,
    beta: Vector,
    scores: Vector,
    products: Vector,
    sizes: tuple[Vector, Vector],
) -> Certificate:
    """The certificate of a machine with an L1 penalty and a squared one-sided loss, whose statement is in linear_l1.hpp.

    `scores` are w . x_i and `products` the sums of beta_i x_ij, from scratch; `sizes` are sum_j |x_ij| and sum_i |x_ij|. The
    duals are scaled until every column allows them, whatever the rounding of its sum.
    """
    started = time.perf_counter()
    n, d = len(beta), len(products)
    w, bias = weights[:d], float(weights[d]) if problem.bias != "none" else 0.0
    offset, cost, side = problem.constant * bias, np.abs(problem.reach), np.sign(problem.reach)
    residuals = problem.targets - scores - offset
    error_of_scores = EPSILON * ((d + 2) * sizes[0] * float(np.abs(w).max(initial=0.0)) + np.abs(scores) + abs(offset))
    slack = np.maximum(side * residuals, 0.0) + error_of_scores
    total = float(np.sum(beta, dtype=np.longdouble))
    largest = float((np.abs(products) + EPSILON * (n + 2) * sizes[1] * float(np.abs(beta).max(initial=0.0))).max(initial=0.0))
    if problem.bias == "regularised":
        largest = max(largest, abs(problem.constant * total))
    unbalanced = abs(total) if problem.bias == "free" else 0.0
    beta = beta / max(largest, 1.0)
    dual_terms = problem.targets * beta - np.divide(beta**2, 4.0 * cost, out=np.zeros(n), where=cost > 0.0)
    penalty = float(np.abs(w).sum()) + (abs(bias) if problem.bias == "regularised" else 0.0)
    losses = cost * slack**2
    primal, dual = penalty + float(losses.sum()), float(dual_terms.sum())
    gap = max(primal - dual + abs(offset) * unbalanced, 0.0)
    rounding = float((2.0 * cost * slack * error_of_scores).sum())

    def zero() -> float:
        return _zero(problem)

    return Certificate(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=relative_gap(gap, rounding, dual, 0.0, zero),
        kkt_violation=math.inf if not np.isfinite(gap) else max(largest - 1.0, 0.0),
        box_residual=float(np.maximum(-side * beta, 0.0).max(initial=0.0)),
        equality_residual=unbalanced,
        arithmetic="float64",
        bias=offset,
        rounding=rounding,
        size=float(np.abs(beta).sum()),
        complete=True,
        seconds=time.perf_counter() - started,
        gap_terms=losses - dual_terms,
    )


def certify_joint(
    problem: JointLinearProblem, weights: Matrix, shares: Matrix, parts: Iterable[tuple[slice, Any]]
) -> Certificate:
    """The certificate of one machine of all classes; `parts` are the rows of the training set in float64, some at a time.

    The terms of the gap are those of the worst scores that rounding allows. The sums over the rows are taken part by part, so
    they are off by at most a rounding error for each row of a part and each part.
    """
    started = time.perf_counter()
    has_bias = problem.bias != "none"
    w, bias = (weights[:-1], weights[-1]) if has_bias else (weights, np.zeros(problem.n_classes))
    offset, norm = problem.constant * bias, float(np.sqrt((w * w).sum(axis=0).max(initial=0.0)))
    terms, products, reach = np.empty(len(problem)), np.zeros_like(w), np.zeros(problem.n_classes)
    plain = violation = box = size = uneven = 0.0
    n_parts = longest = 0
    for where, rows in parts:
        part = problem.part(where)
        B = part.upper - shares[where].T
        squares, n_terms = _squares(rows), _terms(rows)
        gradient = np.ascontiguousarray((rows @ w + offset).T) + part.linear
        error = EPSILON * ((n_terms + 2) * np.sqrt(squares) * norm + 3.0 * np.abs(gradient).max(axis=0))
        terms[where] = part.gap_terms(B, gradient, error)
        plain += float(part.gap_terms(B, gradient).sum())
        products += rows.T @ B.T
        reach += np.abs(B) @ np.sqrt(squares)
        violation = max(violation, part.violation(B, gradient))
        box = max(box, float((-shares[where]).max()))
        uneven = max(uneven, float(np.abs(part.residuals(B)).max()))
        size += float(np.abs(shares[where]).sum())
        n_parts, longest = n_parts + 1, max(longest, len(squares))
    unbalanced = problem.unbalanced(shares)
    error_of_products = (longest + n_parts + 2) * EPSILON * float(np.linalg.norm(reach))
    apart, square = float(np.linalg.norm(w - products)), float(np.vdot(products, products))
    distances = 0.5 * (apart + error_of_products) ** 2
    if problem.bias == "free":
        distances += float(np.abs(offset) @ np.abs(unbalanced))
    if problem.bias == "regularised":
        sums = problem.constant * unbalanced
        square += float(sums @ sums)
        distances += 0.5 * float((bias - sums) @ (bias - sums))
    rows_of_shares = np.arange(len(problem)), problem.own_class
    dual = float((problem.cost - shares[rows_of_shares]).sum()) - 0.5 * square
    gap = float(terms.sum()) + distances
    rounding = max(0.0, float(terms.sum()) - plain) + error_of_products * (apart + 0.5 * error_of_products)
    value_error = error_of_products * (math.sqrt(square) + error_of_products)

    def zero() -> float:
        return ZERO * float(problem.cost.sum())  # the losses of the machine w = 0

    return Certificate(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=relative_gap(gap, rounding, dual, value_error, zero),
        kkt_violation=max(violation, apart / max(float(np.linalg.norm(w)), 1.0)),
        box_residual=box,
        equality_residual=max(uneven, float(np.abs(unbalanced).max()) if problem.bias == "free" else 0.0),
        arithmetic="float64",
        bias=math.nan,
        value_error=value_error,
        rounding=rounding,
        size=size,
        complete=True,
        seconds=time.perf_counter() - started,
        gap_terms=terms,
    )


def _zero(problem: LinearProblem | LinearTotals) -> float:
    """A rounding error of the losses of the machine w = 0; those of squared losses are squared."""
    return (ZERO**2 if problem.squared else ZERO) * problem.value_of_zero


def _squares(rows: Any) -> Vector:
    """|x|^2 of each row, dense or sparse."""
    products: Any = rows.multiply(rows) if hasattr(rows, "multiply") else rows * rows
    return np.asarray(products.sum(axis=1), dtype=np.float64).ravel()


def _terms(rows: Any) -> NDArray[np.integer] | int:
    """The number of terms in a product with each row."""
    return np.diff(rows.indptr) if hasattr(rows, "indptr") else int(rows.shape[1])
