"""The contract of a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.certificates import Certificate
from maxmargin.gram import Gram
from maxmargin.training import Outcome

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Fitted:
    """A trained machine in the layout of scikit-learn: the sample numbers of its support vectors and how many each class has, a
    row of coefficients and an intercept for each machine, the certificate with gap terms in the order of the samples, and
    further attributes by name."""

    support: Indices
    n_support: NDArray[np.int32]
    coefficients: Matrix
    intercepts: Vector
    certificate: Certificate
    further: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """A training set without its features, and the machines that learn from it."""

    #: The samples in the order of the kernel matrix; None: in their own order.
    order: Indices | None = None
    #: Where the kernel matrix is cut: 0, ..., n.
    segments: tuple[int, ...]
    #: The weight of each sample, in the order of the kernel matrix.
    weights: Vector
    #: The dual problem of each machine.
    problems: Sequence[Any]
    #: A function from the levels with the smallest gap to those of the machine; None: it has the same. The level of one group is
    #: minus the intercept.
    kept_levels: Callable[[Vector], Vector] | None = None
    #: The samples that a fold holds out, a mask in the order of the kernel matrix; None: the task is no fold.
    held_out: Mask | None = None

    @property
    def n_samples(self) -> int:
        return self.segments[-1]

    @property
    def balanced(self) -> bool:
        """Whether the duals of every machine sum to zero, so that the samples of a linear kernel may be centred."""
        return all(problem.balanced for problem in self.problems)

    def parts(self, gram: Gram) -> list[Gram]:
        """The kernel matrix of each machine; they share one cache."""
        return [gram] * len(self.problems)

    @property
    def orders(self) -> list[Indices] | None:
        """The user's order of the variables of each problem, for solvers whose steps depend on it; None: as they are."""
        return None

    def without(self, held_out: Mask) -> Self:
        """The task of training without some samples, a mask in the order of the kernel matrix. They stay in the problems, as
        variables with a box of zero width."""
        fold = self._weighted(np.where(held_out, 0.0, self.weights))
        fold.held_out = held_out
        return fold

    @abstractmethod
    def _weighted(self, weights: Vector) -> Self:
        """The same task with other weights."""

    @abstractmethod
    def decode(self, outcomes: Sequence[Outcome]) -> Fitted:
        """The machine that the solutions of the problems make."""

    @abstractmethod
    def encode(self, coefficients: Matrix) -> list[tuple[Vector, float]]:
        """The duals of each machine from its coefficients for all samples, in their own order; and the factor by which
        `decode` has divided these duals."""

    @abstractmethod
    def together(self, proofs: Sequence[Certificate]) -> Certificate:
        """One certificate of all machines, with gap terms in the order of the samples."""
