"""A training set sorted by class, so that the samples of a class are one segment of the kernel matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

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
        order = np.argsort(labels, kind="stable")
        edges = np.searchsorted(labels[order], np.arange(n_classes + 1))
        return cls(order, tuple(int(edge) for edge in edges), machines(n_classes, strategy))

    @property
    def labels(self) -> NDArray[np.intp]:
        """The class of each sample, in sorted order."""
        return np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))

    @cached_property
    def members(self) -> list[NDArray[np.int32]]:
        """The samples that each machine sees, as positions in the sorted training set."""
        return [machine.members(self.edges) for machine in self.plan]

    @property
    def together(self) -> tuple[NDArray[np.int32], Vector, list[int]]:
        """The members of all machines one after the other, whether each is positive (1 or -1), and where each machine ends."""
        seen = [(c, 1.0 if c == machine.positive else -1.0) for machine in self.plan for c in machine.classes]
        sizes = [self.edges[c + 1] - self.edges[c] for c, _ in seen]
        ends = accumulate(sum(self.edges[c + 1] - self.edges[c] for c in machine.classes) for machine in self.plan)
        return np.concatenate(self.members), np.repeat([sign for _, sign in seen], sizes), list(ends)

    @property
    def orders(self) -> list[NDArray[np.intp]]:
        """The user's order of the samples of each machine, as positions among the samples that it sees."""
        return [np.argsort(self.order[seen]) for seen in self.members]

    def count(self, some: NDArray[np.integer]) -> NDArray[np.int32]:
        """How many of some positions, in ascending order, each class has."""
        before = np.searchsorted(some, self.edges)
        return (before[1:] - before[:-1]).astype(np.int32)

    def machines(self) -> Iterator[tuple[Machine, NDArray[np.int32]]]:
        return zip(self.plan, self.members, strict=True)

    def parts(self, gram: Gram) -> list[Gram]:
        """The kernel matrix of each machine; they share one cache."""
        everyone = tuple(range(len(self.edges) - 1))
        return [gram if machine.classes == everyone else gram.restrict(machine.classes) for machine in self.plan]
