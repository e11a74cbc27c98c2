r"""Linear machines: the pair of problems of native/include/maxmargin/linear_problem.hpp, and their duality gap.

With residuals r_i = t_i - w . x_i - c b,

    min  1/2 |w|^2 + (1/2 b^2 if the bias is regularised) + m c b + sum_i loss_i(r_i)
    max  sum_i t_i beta_i - eps |beta_i| - 1/2 q_i beta_i^2  -  1/2 |sum_i beta_i (x_i, c)|^2
    s.t. l_i <= beta_i <= u_i,   sum_i beta_i = m   if the bias is free (then c is no part of the square)

    loss_i(r) = max { beta r - eps |beta| - 1/2 q_i beta^2 : l_i <= beta <= u_i }

    machine            t    box of a sample of cost C                           q       eps   m
    hinge              y    [0, C] or [-C, 0]                                   0       0     0
    squared hinge      y    [0, inf) or (-inf, 0]                               1/2C    0     0
    regression         y    [-C, C]                                             0       eps   0
    squared            y    (-inf, inf)                                         1/2C    eps   0
    one-class          0    [0, 1]                                              0       0     nu n

At any w, b and any feasible beta, with v = sum_i beta_i x_i, the gap is

    1/2 |w - v|^2 + sum_i ( loss_i(r_i) + eps |beta_i| + 1/2 q_i beta_i^2 - beta_i r_i ),

all terms >= 0. A regularised bias is one more weight, of a column of c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

BIASES = ("none", "regularised", "free")
SAMPLES_AT_ONCE = 1 << 16  # for expressions over all samples, which would need a dozen vectors of their length


@dataclass(frozen=True)
class LinearProblem:
    """``reach`` is the signed cost of a sample: its size is the cost, its sign is the side of a one-sided box."""

    targets: Vector
    reach: Vector
    epsilon: float = 0.0
    two_sided: bool = False
    squared: bool = False
    bias: str = "free"
    constant: float = 1.0
    total: float = 0.0

    def __post_init__(self) -> None:
        if self.targets.shape != self.reach.shape or self.targets.ndim != 1:
            raise ValueError(f"reach has shape {self.reach.shape}: must be that of targets, {self.targets.shape}")
        if self.bias not in BIASES:
            raise ValueError(f"bias={self.bias!r}: must be one of {', '.join(BIASES)}")

    def __len__(self) -> int:
        return len(self.targets)

    def origin(self, n_features: int) -> tuple[Vector, Vector]:
        """Duals and weights (features, then the bias if there is one) that are all zero."""
        return np.zeros(len(self)), np.zeros(n_features + (self.bias != "none"))

    def resembles(self, other: object) -> bool:
        """Whether `other` is a problem of the same samples, targets and kind of bias; its costs may differ."""
        same = isinstance(other, LinearProblem) and self.bias == other.bias
        return same and np.array_equal(self.targets, other.targets)  # type: ignore[attr-defined]

    def carried_over(self, old: LinearProblem, beta: Vector) -> Vector:
        """A start from the duals of a problem of the same samples: they keep their share of the cost."""
        ratio = np.divide(self.reach, old.reach, out=np.zeros(len(self)), where=old.reach != 0.0)
        return np.asarray(np.clip(beta * ratio, *self.box))

    @property
    def box(self) -> tuple[Vector, Vector]:
        size = np.abs(self.reach)
        end = np.where(size > 0.0, np.inf, 0.0) if self.squared else size
        if self.two_sided:
            return -end, end
        return np.where(self.reach < 0.0, -end, 0.0), np.where(self.reach > 0.0, end, 0.0)

    def losses(self, residuals: Vector) -> Vector:
        lower, upper = self.box
        excess = residuals - np.clip(residuals, -self.epsilon, self.epsilon)
        if not self.squared:
            return np.where(excess > 0.0, upper * excess, lower * excess)
        best = np.clip(2.0 * np.abs(self.reach) * excess, lower, upper)
        return 0.5 * best * excess

    @property
    def value_of_zero(self) -> float:
        """The losses of the machine w = 0."""
        return math.fsum(float(part.losses(part.targets).sum()) for part in map(self.part, self._parts()))

    def part(self, samples: slice | NDArray[np.integer]) -> LinearProblem:
        """The terms of some samples, as a problem."""
        return replace(self, targets=self.targets[samples], reach=self.reach[samples])

    def balanced(self, beta: Vector) -> Vector:
        """The duals with the sum that a free bias asks for, all in their boxes."""
        if self.bias != "free":
            return beta
        balances = (BalanceInParts.of(self.part(part), beta[part]) for part in self._parts())
        repair = reduce(BalanceInParts.plus, balances).repair(self.total)
        return np.concatenate([repair.of(self.part(part), beta[part]) for part in self._parts()]) if repair.share else beta

    def _parts(self) -> list[slice]:
        return [slice(first, first + SAMPLES_AT_ONCE) for first in range(0, len(self), SAMPLES_AT_ONCE)]

    def rooms(self, beta: Vector, down: bool) -> Iterator[Vector]:
        """How far each dual may be moved, down or up, for three kinds of duals; the first kind that has enough room is moved, in
        proportion to it: duals inside their box, then those of the side that has too much, then all."""
        lower, upper = self.box
        if down:
            side, end = beta > 0.0, np.where(beta > 0.0, np.maximum(lower, 0.0), lower)
        else:
            side, end = beta < 0.0, np.where(beta < 0.0, np.minimum(upper, 0.0), upper)
        room = np.where(np.isfinite(end), end - beta, 0.0)
        yield room * ((lower < beta) & (beta < upper) & (beta != 0.0))
        yield room * side
        yield room


@dataclass(frozen=True)
class LinearTotals:
    """A `LinearProblem` without its samples: its parameters, and the sums over the samples that solvers and certificates need.

    ``scale`` is the mean distance of a target from zero by cost, the width of the first rounded corner; ``mean_square`` is the
    mean of |x_i|^2.
    """

    n_samples: int
    cost: float
    scale: float
    mean_square: float
    value_of_zero: float
    squared: bool
    bias: str
    constant: float = 1.0
    total: float = 0.0


class Repair(NamedTuple):
    """A move of duals that makes their sum right: a share of the room of one kind of them (`LinearProblem.rooms`)."""

    down: bool = True
    kind: int = 2
    share: float = 0.0

    def of(self, problem: LinearProblem, beta: Vector) -> Vector:
        """The duals of some samples after the move."""
        return beta if self.share == 0.0 else beta + self.share * list(problem.rooms(beta, self.down))[self.kind]


@dataclass(frozen=True)
class BalanceInParts:
    """The balance of duals that are seen part by part: their sums, and the sums of their rooms, down and up."""

    sums: tuple[float, ...]
    down: Vector
    up: Vector

    @classmethod
    def of(cls, problem: LinearProblem, beta: Vector) -> BalanceInParts:
        """The balance of the duals of a part."""
        rooms = [np.array([float(room.sum()) for room in problem.rooms(beta, down)]) for down in (True, False)]
        return cls((float(np.sum(beta, dtype=np.longdouble)),), *rooms)

    def plus(self, other: BalanceInParts) -> BalanceInParts:
        return BalanceInParts(self.sums + other.sums, self.down + other.down, self.up + other.up)

    def excess(self, total: float) -> float:
        """By how much the sum of the duals is off `total`."""
        return math.fsum([*self.sums, -total])

    def repair(self, total: float) -> Repair:
        excess = self.excess(total)
        there = np.abs(self.down if excess > 0.0 else self.up)
        enough = np.flatnonzero(there >= abs(excess))
        kind = int(enough[0]) if len(enough) else 2
        return Repair(excess > 0.0, kind, min(1.0, abs(excess) / there[kind]) if excess != 0.0 and there[kind] > 0.0 else 0.0)


def linear_classification(sides: Vector, cost: Vector, loss: str, bias: str, constant: float) -> LinearProblem:
    """The machine of two classes; `sides` are +1 and -1."""
    return LinearProblem(sides, sides * cost, squared=loss == "squared_hinge", bias=bias, constant=constant)


def linear_regression(targets: Vector, cost: Vector, epsilon: float, loss: str, bias: str, constant: float) -> LinearProblem:
    squared = loss == "squared_epsilon_insensitive"
    return LinearProblem(targets, cost, epsilon, two_sided=True, squared=squared, bias=bias, constant=constant)


def linear_one_class(weights: Vector, nu: float) -> LinearProblem:
    """The machine whose bias is minus rho, the offset of the half-space."""
    return LinearProblem(np.zeros(len(weights)), weights, total=nu * float(weights.sum()))
