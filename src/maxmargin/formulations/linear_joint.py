r"""Crammer and Singer's linear machine of all classes, whose statement is in native/include/maxmargin/linear_joint.hpp.

The problem of formulations/crammer_singer.py for a linear kernel and data that are read row by row, with an intercept b_m for
each class. Its duals are the *shares* S_mi >= 0 of the classes in the cost C_i of a sample, sum_m S_mi = C_i. They are stored
with a row for each sample; B_mi = C_i [m = y_i] - S_mi, and w_m = sum_i B_mi x_i at the optimum.

At any W, b and any feasible shares, with V_m = sum_i B_mi x_i and G_mi = [m != y_i] + w_m . x_i + c b_m, the gap is

    1/2 sum_m |w_m - V_m|^2 + sum_i sum_m S_mi (max_l G_li - G_mi),

all terms >= 0. A regularised bias is one more weight, of a column of c. A free one asks for sum_i B_mi = 0 for each class m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.crammer_singer import CrammerSingerProblem

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class JointLinearProblem:
    """``own_class`` are the y_i, numbers from 0 to ``n_classes`` - 1; ``cost`` are the C_i."""

    own_class: NDArray[np.int32]
    cost: Vector
    n_classes: int
    bias: str = "none"
    constant: float = 1.0

    squared = False

    def __len__(self) -> int:
        return len(self.own_class)

    @property
    def value_of_zero(self) -> float:
        """The losses of the machine w = 0: one for each sample, times its cost."""
        return float(self.cost.sum())

    def origin(self, n_features: int) -> tuple[Matrix, Matrix]:
        """The shares at which all weights are zero, and these weights: a row for each feature, then one for the bias if there is
        one; a column for each class."""
        shares = np.zeros((len(self), self.n_classes))
        shares[np.arange(len(self)), self.own_class] = self.cost
        return shares, np.zeros((n_features + (self.bias != "none"), self.n_classes))

    def resembles(self, other: object) -> bool:
        """Whether `other` is this problem but for the costs and the value of the bias column."""
        same = isinstance(other, JointLinearProblem) and (self.n_classes, self.bias) == (other.n_classes, other.bias)
        return same and np.array_equal(self.own_class, other.own_class)  # type: ignore[attr-defined]

    def carried_over(self, old: JointLinearProblem, shares: Matrix) -> Matrix:
        """A start from the shares of a problem that differs in the costs only: they grow with the costs."""
        growth = np.divide(self.cost, old.cost, out=np.zeros(len(self)), where=old.cost > 0.0)
        new = shares * growth[:, None]
        new[np.arange(len(self)), self.own_class] += np.where(old.cost > 0.0, 0.0, self.cost)
        return new

    def part(self, where: slice) -> CrammerSingerProblem:
        """The problem of some samples, as the kernel machine states it: its matrices have a row for each class."""
        own = self.own_class[where] == np.arange(self.n_classes)[:, None]
        return CrammerSingerProblem(linear=1.0 - own, upper=own * self.cost[where])

    def unbalanced(self, shares: Matrix) -> Vector:
        """sum_i B_mi of each class m."""
        own = self.own_class[:, None] == np.arange(self.n_classes)
        B = np.where(own, self.cost[:, None] - shares, -shares)
        return np.asarray(np.sum(B, axis=0, dtype=np.longdouble), dtype=np.float64)

    def balanced(self, shares: Matrix) -> Matrix:
        """The shares with sum_i B_mi = 0 for each class m, which a free bias asks for.

        Classes with too large a share pass some of it on to those with too little: first at samples where both have a share,
        which costs the gap little as both are highest there; what is left, at all samples in proportion.
        """
        if self.bias != "free":
            return shares
        lacking = self.unbalanced(shares)
        if not lacking.any():
            return shares
        shares = shares.copy()
        for giver in np.flatnonzero(lacking < 0.0):
            for taker in np.flatnonzero(lacking > 0.0):
                both = np.where(shares[:, taker] > 0.0, shares[:, giver], 0.0)
                amount = min(-lacking[giver], lacking[taker], both.sum())
                if amount > 0.0:
                    moved = both * (amount / both.sum())
                    shares[:, giver] -= moved
                    shares[:, taker] += moved
                    lacking[giver] += amount
                    lacking[taker] -= amount
        given, taken = np.maximum(-lacking, 0.0), np.maximum(lacking, 0.0)
        if taken.sum() > 0.0:
            moved = shares * np.divide(given, shares.sum(axis=0), out=np.zeros(self.n_classes), where=given > 0.0)
            shares += moved.sum(axis=1)[:, None] * (taken / taken.sum()) - moved
        return np.maximum(shares, 0.0)
