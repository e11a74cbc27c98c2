"""A training set sorted by class, so that the samples of a class are one segment of the kernel matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from maxmargin.gram import Gram
from maxmargin.multiclass import Machine, machines

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ByClass:
    """A training set sorted by class, and the binary machines that see parts of it."""

    order: NDArray[np.intp]  # the samples class by class, in their own order within a class
    edges: tuple[int, ...]  # where each class starts and ends
    plan: Sequence[Machine]

    @classmethod
    def of(cls, labels: NDArray[np.intp], n_classes: int, strategy: str) -> ByClass:
        edges = (0, *accumulate(np.bincount(labels, minlength=n_classes).tolist()))
        return cls(labels.argsort(kind="stable"), edges, machines(n_classes, strategy))

    @property
    def labels(self) -> NDArray[np.intp]:
        """The class of each sample, in sorted order."""
        return np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))

    @cached_property
    def members(self) -> list[NDArray[np.int32]]:
        """The samples that each machine sees, as positions in the sorted training set."""
        return [self.joined[first:last] for first, last in pairwise([0, *self.ends])]

    @cached_property
    def joined(self) -> NDArray[np.int32]:
        """The members of all machines, one machine after the other."""
        everyone = np.arange(self.edges[-1], dtype=np.int32)
        of_class = [everyone[first:last] for first, last in pairwise(self.edges)]
        return np.concatenate([of_class[c] for machine in self.plan for c in machine.classes])

    @cached_property
    def ends(self) -> list[int]:
        """Where each machine ends in `joined`."""
        sizes = [last - first for first, last in pairwise(self.edges)]
        return list(accumulate([sum([sizes[c] for c in machine.classes]) for machine in self.plan]))

    @property
    def signs(self) -> Vector:
        """Of each member of `joined`, whether it is positive: 1 or -1."""
        signs, end = np.full(self.ends[-1], -1.0), 0
        for machine in self.plan:
            for c in machine.classes:
                start, end = end, end + self.edges[c + 1] - self.edges[c]
                if c == machine.positive:
                    signs[start:end] = 1.0
        return signs

    @property
    def orders(self) -> list[NDArray[np.intp]]:
        """The user's order of the samples of each machine, as positions among the samples that it sees."""
        return [np.argsort(self.order[seen]) for seen in self.members]

    def count(self, some: NDArray[np.integer]) -> NDArray[np.int32]:
        """How many of some positions, in ascending order, each class has."""
        before = some.searchsorted(self.edges)
        return (before[1:] - before[:-1]).astype(np.int32)

    def machines(self) -> Iterator[tuple[Machine, NDArray[np.int32]]]:
        return zip(self.plan, self.members, strict=True)

    def parts(self, gram: Gram) -> list[Gram]:
        """The kernel matrix of each machine; they share one cache."""
        everyone = tuple(range(len(self.edges) - 1))
        return [gram if machine.classes == everyone else gram.restrict(machine.classes) for machine in self.plan]
