"""The true duality gap of a fitted C-SVC: float64, from scratch, from nothing but its dual coefficients.

Any library's model is judged here by the same few lines. In signed duals β = yα the problem of one pair of classes is

    min   ½ βᵀKβ − yᵀβ          (the dual D is minus this)
    s.t.  0 ≤ y_i β_i ≤ C,   Σ β_i = 0
    given K_ij = exp(−γ ‖x_i − x_j‖²),  y ∈ {−1, +1}ⁿ,  C > 0

and its primal, for the function f = Kβ + b,

    P(β, b) = ½ βᵀKβ + C Σ_i max(0, 1 − y_i f_i)

Three decisions make the number mean the same for every model:

* The bias is the best one, argmin_b P, not the model's: the gap then belongs to the dual solution alone.
* Any β is a legal primal point, so P is taken at the coefficients exactly as the model holds them.
* Only a feasible β bounds the optimum from below, so D is taken at the nearest one: the Euclidean projection of the model's β
  onto box ∩ {Σβ = 0}, over its support vectors. For float64 solvers it moves nothing beyond rounding; a float32 solver that
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
    """What a model is worth. The violations are the largest over all pairs, in units of C and of Σ|β|."""

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


def true_gap(X: Any, y: NDArray[Any], duals: Duals, C: float, gamma: float) -> Truth:
    """The truth about a (one-vs-one) C-SVC with an RBF kernel, trained on X, y."""
    pairs = [true_gap_of_pair(X, y, *pair, C, gamma) for pair in duals.pairs()]
    return Truth(
        primal=sum(pair.primal for pair in pairs),
        dual=sum(pair.dual for pair in pairs),
        box_violation=max(pair.box_violation for pair in pairs),
        equality_violation=max(pair.equality_violation for pair in pairs),
    )


def true_gap_of_pair(X: Any, y: NDArray[Any], support: NDArray[np.int64], beta: Vector, C: float, gamma: float) -> Truth:
    """The truth about one binary machine."""
    positive, negative = np.unique(y[support])
    members = np.flatnonzero((y == positive) | (y == negative))
    sign = np.where(y[members] == positive, 1.0, -1.0)

    used = beta != 0
    support, beta = support[used], beta[used].astype(np.float64)
    side = np.where(y[support] == positive, 1.0, -1.0)
    if side @ beta < 0:  # libraries differ in which class of a pair they call positive
        beta = -beta
    lower, upper = np.minimum(0, C * side), np.maximum(0, C * side)
    feasible = project(beta, lower, upper)

    X = densify(X[members])
    where = np.searchsorted(members, support)
    f = kernel_product(X, X[where], np.column_stack([beta, feasible]), gamma)
    f_given, f_feasible = f.T
    norm_given, norm_feasible = beta @ f_given[where], feasible @ f_feasible[where]

    slack = 1 - sign * (f_given + best_bias(f_given, sign))
    return Truth(
        primal=norm_given / 2 + C * np.maximum(0, slack).sum(),
        dual=side @ feasible - norm_feasible / 2,
        box_violation=max(0.0, (lower - beta).max(), (beta - upper).max()) / C,
        equality_violation=abs(beta.sum()) / np.abs(beta).sum(),
    )


def project(beta: Vector, lower: Vector, upper: Vector) -> Vector:
    """argmin ‖β' − β‖² s.t. lower ≤ β' ≤ upper, Σβ' = 0: that is clip(β − t) with the t at which its falling sum is zero."""
    left, right = (beta - upper).min(), (beta - lower).max()
    middle = 0.0
    while left < middle < right:  # ends when no float64 lies between the two
        if np.clip(beta - middle, lower, upper).sum() > 0:
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
