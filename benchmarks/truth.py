"""The true duality gap of a fitted machine: float64, from scratch, from nothing but its dual coefficients.

Any library's model is judged here by the same few lines. In signed duals β (C-SVC: β = yα), with K_ij = exp(−γ ‖x_i − x_j‖²) and
f = Kβ, each machine is a dual D(β), which is to be maximised over a feasible set, and a primal P(β, b, …), to be minimised:

    machine        D                          feasible                             P
    SVC            yᵀβ − ½ βᵀKβ               0 ≤ y_i β_i ≤ C,  Σβ = 0             ½ βᵀKβ + C Σ max(0, 1 − y_i (f_i + b))
    SVR            yᵀβ − ε Σ|β| − ½ βᵀKβ      |β_i| ≤ C,  Σβ = 0                   ½ βᵀKβ + C Σ max(0, |y_i − f_i − b| − ε)
    NuSVC          −½ βᵀKβ                    0 ≤ y_i β_i ≤ 1,  Σ|β| = νn/2        ½ βᵀKβ − νnρ + Σ max(0, ρ − y_i (f_i + b))
                                              in each class
    OneClassSVM    −½ βᵀKβ                    0 ≤ β_i ≤ 1,  Σβ = νn                ½ βᵀKβ − νnρ + Σ max(0, ρ − f_i)

Three decisions make the number mean the same for every model:

* The bias (and ρ) is the best one, argmin P, not the model's: the gap then belongs to the dual solution alone.
* Any β is a legal primal point, so P is taken at the coefficients exactly as the model holds them; but for NuSVC, whose
  libraries divide them by ρ: there they are scaled back until Σ|β| = νn.
* Only a feasible β bounds the optimum from below, so D is taken at the nearest one: the Euclidean projection of the model's β
  onto the feasible set, over its support vectors. For float64 solvers it moves nothing beyond rounding; a float32 solver that
  left the box or the equality pays exactly what that costs, and by how much it left them is reported too.

P ≥ optimum ≥ D whatever the model is, so P − D bounds how far it is from optimal. A one-vs-one model minimises the sum of its
pairs' objectives; P and D are then sums over the pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BLOCK_ENTRIES = 2**23  # kernel values held at a time: 64 MB


@dataclass(frozen=True)
class Duals:
    """The dual coefficients of a model in LIBSVM's layout.

    With two classes it is one row, in any order. With k > 2, support vectors stand class by class, ``n_support`` of each, and
    there are k − 1 rows: one of class s keeps its coefficient against class t in row t − 1 if s < t, in row t if s > t.
    """

    support: NDArray[np.int64]
    n_support: NDArray[np.int64]
    dual_coef: Matrix

    def pairs(self) -> Iterator[tuple[NDArray[np.int64], Vector]]:
        """The support vectors of each pair of classes and their coefficients."""
        if len(self.dual_coef) == 1:
            yield self.support, self.dual_coef[0]
            return
        ends = np.cumsum(self.n_support)
        of_class = [np.arange(end - count, end) for end, count in zip(ends, self.n_support, strict=True)]
        for s, t in combinations(range(len(of_class)), 2):
            of_s, of_t = of_class[s], of_class[t]
            coefficients = np.concatenate([self.dual_coef[t - 1, of_s], self.dual_coef[s, of_t]])
            yield self.support[np.concatenate([of_s, of_t])], coefficients


@dataclass(frozen=True)
class Truth:
    """The true values of a model. The violations are the largest over all pairs, in units of the box and of Σ|β|."""

    primal: float
    dual: float
    box_violation: float
    equality_violation: float

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), abs(self.dual))


def truth_about(machine: str, X: Any, y: NDArray[Any], duals: Duals, *, gamma: float, **settings: float) -> Truth:
    """The truth about a machine with an RBF kernel, trained on X, y with these settings: C, epsilon, nu."""
    if machine in ("SVC", "NuSVC"):
        return true_gap_of_pairs(X, y, duals, gamma, **settings)
    support, beta = nonzero(duals.support, duals.dual_coef[0])
    if machine == "SVR":
        return true_gap_of_regression(densify(X), y, support, beta, gamma, **settings)
    return true_gap_of_one_class(densify(X), support, beta, gamma, **settings)


def true_gap_of_pairs(X: Any, y: NDArray[Any], duals: Duals, gamma: float, **settings: float) -> Truth:
    """The true gap of a (one-vs-one) classifier."""
    pairs = [true_gap_of_pair(X, y, *nonzero(*pair), gamma, **settings) for pair in duals.pairs()]
    return Truth(
        primal=sum(pair.primal for pair in pairs),
        dual=sum(pair.dual for pair in pairs),
        box_violation=max(pair.box_violation for pair in pairs),
        equality_violation=max(pair.equality_violation for pair in pairs),
    )


def true_gap_of_pair(
    X: Any,
    y: NDArray[Any],
    support: NDArray[np.int64],
    beta: Vector,
    gamma: float,
    C: float = 1.0,
    nu: float | None = None,
) -> Truth:
    """The true gap of one binary machine: C-SVC, or ν-SVC if ν is given."""
    positive, negative = np.unique(y[support])
    members = np.flatnonzero((y == positive) | (y == negative))
    sign = np.where(y[members] == positive, 1.0, -1.0)
    side = np.where(y[support] == positive, 1.0, -1.0)
    if side @ beta < 0:  # libraries differ in which class of a pair they call positive
        beta = -beta
    X, where = densify(X[members]), np.searchsorted(members, support)
    lower, upper = np.minimum(0, C * side), np.maximum(0, C * side)
    if nu is None:
        point = Point.of(X, where, beta, project(beta, lower, upper), gamma)
        slack = 1 - sign * (point.values + best_bias(point.values, sign))
        return Truth(
            primal=point.norm / 2 + C * np.maximum(0, slack).sum(),
            dual=side @ point.feasible - point.norm_of_feasible / 2,
            box_violation=outside(beta, lower, upper) / C,
            equality_violation=abs(beta.sum()) / np.abs(beta).sum(),
        )
    half = nu * len(members) / 2
    beta = beta * (2 * half / np.abs(beta).sum())
    feasible = np.empty_like(beta)
    for one in (side > 0, side < 0):
        feasible[one] = project(beta[one], lower[one], upper[one], side[one][0] * half)
    point = Point.of(X, where, beta, feasible, gamma)
    return Truth(
        primal=point.norm / 2 + sum(least_slack((sign * point.values)[sign == one], half) for one in (1, -1)),
        dual=-point.norm_of_feasible / 2,
        box_violation=outside(beta, lower, upper),
        equality_violation=abs(beta.sum()) / np.abs(beta).sum(),
    )


def true_gap_of_regression(
    X: Matrix, y: Vector, support: NDArray[np.int64], beta: Vector, gamma: float, C: float, epsilon: float
) -> Truth:
    """The true gap of ε-SVR. The best bias is the median of all y_i − f_i ± ε, the kinks of Σ max(0, |y_i − f_i − b| − ε)."""
    point = Point.of(X, support, beta, project(beta, -C, C), gamma)
    residual = y - point.values
    bias = np.median(np.concatenate([residual - epsilon, residual + epsilon]))
    loss = np.maximum(0, np.abs(residual - bias) - epsilon).sum()
    return Truth(
        primal=point.norm / 2 + C * loss,
        dual=y[support] @ point.feasible - epsilon * np.abs(point.feasible).sum() - point.norm_of_feasible / 2,
        box_violation=outside(beta, -C, C) / C,
        equality_violation=abs(beta.sum()) / np.abs(beta).sum(),
    )


def true_gap_of_one_class(X: Matrix, support: NDArray[np.int64], beta: Vector, gamma: float, nu: float) -> Truth:
    total = nu * len(X)
    point = Point.of(X, support, beta, project(beta, 0, 1, total), gamma)
    return Truth(
        primal=point.norm / 2 + least_slack(point.values, total),
        dual=-point.norm_of_feasible / 2,
        box_violation=outside(beta, 0, 1),
        equality_violation=abs(beta.sum() - total) / np.abs(beta).sum(),
    )


@dataclass(frozen=True)
class Point:
    """The coefficients of a machine, as they are and made feasible; f = Kβ of the former, and βᵀKβ of both."""

    feasible: Vector
    values: Vector
    norm: float
    norm_of_feasible: float

    @classmethod
    def of(cls, X: Matrix, support: NDArray[np.int64], beta: Vector, feasible: Vector, gamma: float) -> "Point":
        given, moved = kernel_product(X, X[support], np.column_stack([beta, feasible]), gamma).T
        return cls(feasible, given, beta @ given[support], feasible @ moved[support])


def nonzero(support: NDArray[np.int64], beta: Vector) -> tuple[NDArray[np.int64], Vector]:
    used = beta != 0
    return support[used], beta[used].astype(np.float64)


def outside(beta: Vector, lower: Any, upper: Any) -> float:
    """The largest distance of a coefficient outside its box."""
    return max(0.0, float((lower - beta).max()), float((beta - upper).max()))


def project(beta: Vector, lower: Any, upper: Any, total: float = 0.0) -> Vector:
    """argmin ‖β' − β‖² s.t. lower ≤ β' ≤ upper, Σβ' = total: clip(β − t) with the t at which its falling sum is the total."""
    left, right = float((beta - upper).min()), float((beta - lower).max())  # at these t all are at their upper, lower bound
    middle = 0.0 if left < 0 < right else (left + right) / 2
    while left < middle < right:  # ends when no float64 lies between the two
        if np.clip(beta - middle, lower, upper).sum() > total:
            left = middle
        else:
            right = middle
        middle = (left + right) / 2
    return np.clip(beta - middle, lower, upper)


def best_bias(f: Vector, sign: Vector) -> float:
    """argmin_b Σ max(0, 1 − y_i (f_i + b)).

    The sum is piecewise linear with a kink at b = y_i − f_i for each sample, where its slope grows by one, from minus the
    number of positive samples. It is flat or turns upward at the kink with that rank.
    """
    kinks = sign - f
    rank = int((sign > 0).sum()) - 1
    return float(np.partition(kinks, rank)[rank])


def least_slack(margins: Vector, total: float) -> float:
    """min_v Σ max(0, v − m_i) − total v: as many margins as `total` lie below the best v."""
    level = np.partition(margins, rank := min(int(np.ceil(total)), len(margins)) - 1)[rank]
    return float(np.maximum(0, level - margins).sum() - total * level)


def kernel_product(A: Matrix, B: Matrix, beta: Matrix, gamma: float) -> Matrix:
    """K(A, B) β, block by block. Centring keeps ‖a‖² + ‖b‖² − 2 a·b from cancelling where the data lie far from the origin."""
    centre = A.mean(axis=0)
    A, B = A - centre, B - centre
    squares_of_B = np.einsum("ij,ij->i", B, B)
    product = np.empty((len(A), beta.shape[1]))
    rows = max(1, BLOCK_ENTRIES // len(B))
    for start in range(0, len(A), rows):
        block = A[start : start + rows]
        kernel = block @ B.T
        kernel *= -2
        kernel += np.einsum("ij,ij->i", block, block)[:, None]
        kernel += squares_of_B
        np.maximum(kernel, 0, out=kernel)
        kernel *= -gamma
        np.exp(kernel, out=kernel)
        product[start : start + rows] = kernel @ beta
    return product


def densify(X: Any) -> Matrix:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
