"""A point of a dual problem, where it lives.

A solver's outer loop moves a point by a handful of verbs and never sees a full vector, so that duals and gradient can lie in the
memory of the host, on a device, or in pieces on several machines:

    measure    the violation, the level of each group, and how many variables are free
    choose     a working set: free variables and violators
    take       the duals and the gradient of a working set, on the host
    move       new duals for a working set; kernel rows update the gradient of all variables
    exact      the gradient at some variables, computed anew in float64
    correct    a new gradient for some variables
    sums, gap  the dual value and the duality gap
    band       a working set and all variables near the level
    pool       the point over some variables alone, for a loop of its own
    in_float64 the same point, its gradient computed anew with float64 kernel entries
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem, Sums
from maxmargin.gram import Gram

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]


class Violation(Protocol):
    """The violation of a point (`DualProblem.violation`), the median gradient of the free variables of each group, and the number
    of free variables. Each backend has its own kind, and takes back what it has measured."""

    @property
    def value(self) -> float: ...
    @property
    def levels(self) -> Sequence[float]: ...
    @property
    def n_free(self) -> int: ...


@dataclass(frozen=True)
class MeasuredViolation:
    """A `Violation` made in Python."""

    value: float
    levels: Sequence[float]
    n_free: int


@dataclass(frozen=True)
class Part:
    """A problem restricted to some variables, with their duals and their gradient on the host, for an inner solve to change."""

    problem: Any
    beta: NDArray[np.float64]
    gradient: NDArray[np.float64]

    def copy(self) -> Part:
        return Part(self.problem, self.beta.copy(), self.gradient.copy())


class Point(ABC):
    """A dual point and the gradient of the objective there, over one kernel matrix."""

    problem: DualProblem
    gram: Gram
    #: Whether the gradient belongs to the duals; it does not after a move without time for kernel rows.
    up_to_date: bool = True

    @abstractmethod
    def measure(self) -> Violation: ...

    @abstractmethod
    def choose(self, violation: Violation, threshold: float, size: int, extra_share: float, seed: int) -> tuple[Indices, bool]:
        """The free variables and the violators beyond `threshold`, at most about `size` of them, sorted; and whether these are
        all there are. If so, the variables nearest to becoming violators are added, up to the share `extra_share` of the set."""

    @abstractmethod
    def take(self, members: Indices) -> Part: ...

    @abstractmethod
    def move(self, members: Indices, beta: Vector, propagate: bool = True, gradient: Vector | None = None) -> bool:
        """Give `members` new duals and, if asked, update the gradient of all variables; return whether anything changed. That of
        the members after the move need not be computed if it is given."""

    @abstractmethod
    def exact(self, at: Indices) -> Vector: ...

    @abstractmethod
    def correct(self, members: Indices, gradient: Vector) -> None: ...

    @abstractmethod
    def sums(self) -> Sums: ...

    @abstractmethod
    def gap(self, violation: Violation) -> float:
        """The duality gap at the measured levels."""

    @abstractmethod
    def band(self, members: Indices, violation: Violation, width: float) -> Indices:
        """`members`, and all variables whose gradient is within `width` of the measured level."""

    @abstractmethod
    def pool(self, members: Indices, part: Part, stored: bool) -> Point:
        """The point over `members` alone, whose duals and gradient are those of `part` and are changed in place; its kernel
        matrix is stored as a whole if asked."""

    @abstractmethod
    def in_float64(self) -> Self: ...

    @abstractmethod
    def collect(self) -> Part:
        """All duals and the whole gradient, on the host: the end of a run."""


class HostPoint(Point):
    """A point in the memory of the host. A backend adds how it measures and chooses."""

    def __init__(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> None:
        self.problem, self.gram = problem, gram
        self._beta, self._gradient = beta, gradient

    def take(self, members: Indices) -> Part:
        return Part(self.problem.restrict(members), self._beta[members], self._gradient[members])

    def move(self, members: Indices, beta: Vector, propagate: bool = True, gradient: Vector | None = None) -> bool:
        change = beta - self._beta[members]
        moved = change != 0.0
        if not moved.any():
            return False
        if propagate:
            self.gram.expect(members[(beta > self.problem.lower[members]) & (beta < self.problem.upper[members])])
            known = None if gradient is None else (members, gradient)
            add_to_gradient(self.problem, self.gram, self._gradient, members[moved], change[moved], known)
        self._beta[members] = beta
        return True

    def exact(self, at: Indices) -> Vector:
        support = support_of(self._beta)
        gradient: Vector = self.gram.exact_sums(support, self._beta[None, support], at).values[0] + self.problem.linear[at]
        return gradient if self.problem.shift is None else gradient + self.problem.shift[at] * self._beta[at]

    def correct(self, members: Indices, gradient: Vector) -> None:
        self._gradient[members] = gradient

    def sums(self) -> Sums:
        return self.problem.sums(self._beta, self._gradient)

    def gap(self, violation: Violation) -> float:
        level = self.problem.at_variables(violation.levels)
        return float(self.problem.gap_terms(self._beta, self._gradient, level).sum())

    def band(self, members: Indices, violation: Violation, width: float) -> Indices:
        near = np.abs(self._gradient - self.problem.at_variables(violation.levels)) <= width
        near[members] = True
        return np.flatnonzero(near).astype(np.int32)

    def pool(self, members: Indices, part: Part, stored: bool) -> Self:
        gram = self.gram.stored(members) if stored else self.gram.subset(members)
        return type(self)(part.problem, gram, part.beta, part.gradient)

    def in_float64(self) -> Self:
        wide, gradient = self.gram.in_float64(), self.problem.linear.copy()
        support = support_of(self._beta)
        add_to_gradient(self.problem, wide, gradient, support, self._beta[support])
        return type(self)(self.problem, wide, self._beta, gradient)

    def collect(self) -> Part:
        return Part(self.problem, self._beta, self._gradient)


def support_of(beta: Vector) -> Indices:
    """The variables that are not zero."""
    return np.flatnonzero(beta).astype(np.int32)


def add_to_gradient(
    problem: DualProblem,
    gram: Gram,
    gradient: Vector,
    rows: Indices,
    change: Vector,
    known: tuple[Indices, Vector] | None = None,
) -> None:
    """Add to `gradient` what a change of the variables `rows` does to it. Of some variables the result may be `known`; it is used
    where that saves time. (A working set knows its own gradient a little less exactly than a sum over all changes does.)"""
    if not len(rows):
        return
    if known is None:
        gram.accumulate(rows, change[None], gradient[None])
    elif gram.accumulate_besides(known[0], rows, change, gradient):
        gradient[known[0]] = known[1]
        return
    if problem.shift is not None:
        gradient[rows] += problem.shift[rows] * change
