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


class BalanceInParts:
    """`LinearProblem.balanced` for duals that are seen part by part."""

    def __init__(self, total: float) -> None:
        self._sums = [-total]
        self._rooms = {True: np.zeros(3), False: np.zeros(3)}

    def add(self, problem: LinearProblem, beta: Vector) -> None:
        self._sums.append(float(np.sum(beta, dtype=np.longdouble)))
        for down, rooms in self._rooms.items():
            rooms += [float(room.sum()) for room in problem.rooms(beta, down)]

    @property
    def excess(self) -> float:
        """By how much the sum of the duals is off."""
        return math.fsum(self._sums)

    def repair(self) -> Repair:
        excess = self.excess
        there = np.abs(self._rooms[excess > 0.0])
        enough = np.flatnonzero(there >= abs(excess))
        kind = int(enough[0]) if len(enough) else 2
        return Repair(excess > 0.0, kind, min(1.0, abs(excess) / there[kind]) if excess != 0.0 and there[kind] > 0.0 else 0.0)
