r"""Classification of several classes by one machine (Crammer and Singer 2001) as a dual problem.

    min over w_1 .. w_k   1/2 sum_m |w_m|^2 + sum_i C_i xi_i
    with                  xi_i = max_m (e_mi + (w_m - w_{y_i}) . phi(x_i)),   e_mi = 0 if m = y_i, else 1

A sample has slack if the score w_m . phi(x) of some other class comes closer than 1 to that of its own; the class with the
highest score is predicted. There is no intercept, as in the paper.

**The dual.** With one multiplier S_mi >= 0 for each term of each maximum, sum_m S_mi = C_i, the gradient of the Lagrangian
vanishes at w_m = sum_i B_mi phi(x_i), B_mi = C_i [m = y_i] - S_mi. In terms of B:

    min    1/2 sum_m B_m' K B_m + sum_mi e_mi B_mi
    s.t.   B_mi <= C_i [m = y_i],   sum_m B_mi = 0 for each sample i

The scores of the training samples are F = B K, the gradient is G = F + e.

**The duality gap.** e is zero at y_i, so xi_i = M_i - G_{y_i, i} with M_i = max_m G_mi, and primal - dual is
sum_mi B_mi G_mi + sum_i C_i (M_i - G_{y_i, i}). As the B_mi of a sample add up to zero, M_i may be taken from each G_mi:

    gap = sum_i sum_m S_mi (M_i - G_mi),

one term >= 0 per sample. It is zero if the sample has its shares S where G is highest: these are the optimality conditions, and
max_m G_mi - min_{m: S_mi > 0} G_mi is how far the sample violates them. The term is at most C_i times that.

**Two classes.** Then B_1 = -B_0, and 2 B_1 solves the dual of the binary machine without an intercept with 2 C: its objective
there is twice as large, its decisions are F_1 - F_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class CrammerSingerProblem:
    """The dual problem above: matrices have a row for each class and a column for each sample.

    min    1/2 sum_m B_m' K B_m + sum_mi linear_mi B_mi
    s.t.   B <= upper,   sum_m B_mi = 0 for each sample i
    """

    linear: Matrix
    upper: Matrix

    hard: ClassVar[bool] = False  # C is finite
    balanced: ClassVar[bool] = False  # the variables of a sample sum to zero, those of a class do not
    start: ClassVar[None] = None  # zero is feasible

    def __len__(self) -> int:
        return int(self.linear.shape[1])

    def shares(self, B: Matrix) -> Matrix:
        """The shares S = upper - B; those of a sample add up to its C_i."""
        return self.upper - B

    def dual_value(self, B: Matrix, gradient: Matrix) -> float:
        """The dual value, minus the objective: sum_m B_m' K B_m = sum_mi B_mi (G_mi - linear_mi)."""
        return float(-0.5 * np.vdot(B, gradient + self.linear))

    def gap_terms(self, B: Matrix, gradient: Matrix, error: float | Vector = 0.0) -> Vector:
        """The duality gap, sample by sample. Each term is >= 0; their sum is primal - dual.

        If no entry of `gradient` is off by more than `error` (of its sample), no term is larger than what is returned here.
        """
        highest = gradient.max(axis=0)
        if np.ndim(error) == 0 and error == 0.0:
            return np.asarray((self.shares(B) * (highest - gradient)).sum(axis=0))
        below = np.maximum(_highest_of_others(gradient) - gradient + 2.0 * error, 0.0)
        return np.asarray((self.shares(B) * below).sum(axis=0))

    def violations(self, B: Matrix, gradient: Matrix) -> Vector:
        """The violation of each sample: how far the gradient of its shares is below its highest gradient."""
        with_share = np.where(self.upper > B, gradient, np.inf).min(axis=0)
        return np.asarray(np.maximum(gradient.max(axis=0) - with_share, 0.0))

    def violation(self, B: Matrix, gradient: Matrix) -> float:
        return float(self.violations(B, gradient).max())

    def clearance(self, B: Matrix, gradient: Matrix) -> Vector:
        """How far the gradient may change before a sample adds to the gap: how far the one class with all of its shares is above
        the others. It is infinite for a sample without shares, and minus infinity if several classes have shares."""
        shared = self.upper > B
        ahead = np.where(shared, gradient - _highest_of_others(gradient), np.inf).min(axis=0)
        return np.asarray(np.where(shared.sum(axis=0) > 1, -np.inf, ahead))

    def residuals(self, B: Matrix) -> Vector:
        """The residual of each equality constraint."""
        return np.asarray(B.sum(axis=0))

    def feasible(self, B: Matrix) -> Matrix:
        """A point near `B` that satisfies the constraints: negative shares become zero, and the shares of each sample are scaled
        so that they add up to C_i."""
        shares, total = np.maximum(self.shares(B), 0.0), self.upper.sum(axis=0)
        whole = shares.sum(axis=0)
        shares *= np.divide(total, whole, out=np.zeros_like(total), where=whole > 0.0)
        shares[shares.argmax(axis=0), np.arange(len(self))] += total - shares.sum(axis=0)  # the rounding error of the sum
        return np.asarray(np.where(whole > 0.0, self.upper - shares, 0.0))

    def carry_over(self, other: CrammerSingerProblem, B: Matrix) -> tuple[Matrix, float]:
        """A start for this problem from `B`, the solution of `other`, the same problem with other C_i: the shares grow with C_i.
        And the factor r for which this start is close to r B."""
        total, old = self.upper.sum(axis=0), other.upper.sum(axis=0)
        growth = np.divide(total, old, out=np.zeros_like(total), where=old > 0.0)
        return self.feasible(self.upper - growth * other.shares(B)), float(np.median(growth[old > 0.0]))

    def restrict(self, members: NDArray[np.integer]) -> CrammerSingerProblem:
        """The problem over the samples `members`, with the others fixed."""
        return CrammerSingerProblem(np.ascontiguousarray(self.linear[:, members]), np.ascontiguousarray(self.upper[:, members]))


def crammer_singer_problem(labels: NDArray[np.integer], cost: Vector) -> CrammerSingerProblem:
    """The dual problem. Its rows are the classes, in ascending order, that have a sample with a cost C_i > 0."""
    own = labels == np.unique(labels[cost > 0.0])[:, None]
    return CrammerSingerProblem(linear=1.0 - own, upper=own * cost)


def _highest_of_others(gradient: Matrix) -> Matrix:
    """For each entry, the highest one of the other rows in its column."""
    columns = np.arange(gradient.shape[1])
    winner = gradient.argmax(axis=0)
    others = gradient.copy()
    others[winner, columns] = -np.inf
    highest = np.broadcast_to(gradient[winner, columns], gradient.shape).copy()
    highest[winner, columns] = others.max(axis=0)
    return highest
