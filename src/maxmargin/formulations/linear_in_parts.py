"""Linear machines whose samples are seen part by part: what is known of the whole, and the balance of its duals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.linear import LinearProblem

Vector = NDArray[np.float64]


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
    """`LinearProblem.balanced` for duals that are seen part by part: their sums, and the sums of their rooms, down and up."""

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
