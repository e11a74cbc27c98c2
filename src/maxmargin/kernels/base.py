"""The contract of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

UNIT_ROUNDOFF = 0.5 * float(np.finfo(float).eps)
#: A squared distance from dot products that is below this share of the squared norms is computed again, from differences.
NEAR_SHARE = 2.0**-10
#: Up to this many features, exact distances of dense samples are sums of differences.
FEW_FEATURES = 64
#: The same for float32 values (native/include/maxmargin/samples.hpp).
FEW_FEATURES_IN_FLOAT32 = 12
SAMPLES_FOR_CENTRE = 15  # samples whose median is the centre
LARGE_OFFSET = 16.0  # an offset costs digits if its square is above this many times the median squared distance from the centre


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

    def require_defined(self, A: Any, B: Any) -> None:
        """Raise a ValueError if the kernel is not defined for some pair of samples from A and B."""
        return None

    def sizes(self, A: Any) -> NDArray[np.float64] | float:
        """Numbers s with |k(a, b)| <= s_a s_b for all samples; a single number if they are all the same."""
        return float(np.sqrt(np.abs(self.diag(A)).max(initial=0.0)))

    def rounding(self, n_terms: int) -> float:
        """A number r such that k(a, b) of samples with `n_terms` features, computed in float64, is off by at most r s_a s_b."""
        return 0.0  # the values of a precomputed or callable kernel are taken as exact

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64] | float:
        """Numbers t such that k(a, b) has a further error of at most t_a + t_b if it is computed from dot products of samples
        with these norms instead of from differences."""
        return 0.0

    def exact_block(self, A: Any, B: Any) -> Matrix:
        """Like `block`, as exact as float64 allows."""
        return self.block(A, B)


def dwarfs_spread(centre: NDArray[np.float64], X: NDArray[Any]) -> bool:
    """Whether samples are much farther from the origin than from their centre."""
    spread = float(np.median(np.square(X[:SAMPLES_FOR_CENTRE] - centre).sum(axis=1)))
    return bool(centre @ centre > LARGE_OFFSET * spread)


def centre_of(X: NDArray[Any]) -> NDArray[np.float64]:
    """A point in the middle of dense samples that no outlier moves: the median of a few of them.

    Subtracting it changes no distance and saves digits. The mean would not do: with one sample at 1e18 it is so large that
    subtracting it leaves nothing of the others.
    """
    n = X.shape[0]
    few = np.asarray(X[:: max(1, n // SAMPLES_FOR_CENTRE)][:SAMPLES_FOR_CENTRE], dtype=np.float64)
    return np.asarray(np.sort(few, axis=0)[len(few) // 2])


class NamedKernel(Kernel):
    """A kernel that is a function of the dot product of two samples, or of their distance."""

    named: ClassVar[bool] = True

    @abstractmethod
    def pairing(self, A: Any, B: Any) -> Matrix:
        """The dot product or distance for all pairs of samples, in float64; it does not depend on the kernel's parameters."""

    @abstractmethod
    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        """The kernel values for these values of the pairing, in their arithmetic."""

    def block(self, A: Any, B: Any) -> Matrix:
        return self.of_pairing(self.pairing(A, B))
