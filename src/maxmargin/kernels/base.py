"""The contract of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


class Kernel(ABC):
    """k(x, z) for blocks of samples (dense or CSR rows)."""

    name: ClassVar[str]
    #: True if every kernel matrix is positive semi-definite, False if that is not known.
    definite: bool = True
    #: Whether k(x + c, z + c) = k(x, z), so that the samples may be centred to lose fewer digits.
    shift_invariant: ClassVar[bool] = False
    #: Whether a backend may evaluate it from its name and parameters alone.
    named: ClassVar[bool] = False

    @abstractmethod
    def block(self, A: Any, B: Any) -> Matrix:
        """The matrix k(a, b), a row for each sample of A and a column for each of B, in float64."""

    def diag(self, A: Any) -> NDArray[np.float64]:
        """k(a, a) for each sample of A."""
        return np.array([self.block(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(A.shape[0])])


class NamedKernel(Kernel):
    """A kernel that is a function of the dot product of two samples, or of their distance."""

    named: ClassVar[bool] = True

    @abstractmethod
    def pairing(self, A: Any, B: Any) -> Matrix:
        """That number for all pairs, in float64; it does not depend on the parameters of the kernel."""

    @abstractmethod
    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        """The kernel where the pairing has these values, in their arithmetic."""

    def block(self, A: Any, B: Any) -> Matrix:
        return self.of_pairing(self.pairing(A, B))
