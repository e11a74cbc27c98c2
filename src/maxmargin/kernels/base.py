"""The contract of a kernel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.samples import Samples, make_samples

Matrix = NDArray[np.float64]
#: A positive number; or "scale" or "auto", until the kernel is resolved.
Gamma = Any

#: A squared distance from dot products that is below this share of the squared norms is computed again, from differences.
NEAR_SHARE = 2.0**-10
#: Up to this many features, exact distances of dense samples are sums of differences.
FEW_FEATURES = 64
#: The same for float32 values (native/include/maxmargin/samples.hpp).
FEW_FEATURES_IN_FLOAT32 = 12


KERNELS: dict[str, type[Kernel]] = {}  # by name; a kernel enters when its class is made


class Kernel(ABC):
    """k(x, z) for blocks of samples (dense or CSR rows): an immutable value with parameters of its own.

    The base class. A subclass is a frozen dataclass with a ``name``, whose fields are its parameters, and with the method
    ``block``. A parameter `gamma` may be "scale" or "auto" until `resolved`.

    See Also
    --------
    NamedKernel : The base class of kernels that compiled code may evaluate.
    Custom : A kernel function without parameters.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.kernels import Kernel
    >>> @dataclass(frozen=True)
    ... class Shifted(Kernel):
    ...     name: ClassVar[str] = "shifted"  # SVC(kernel="shifted") works too
    ...     by: float = 1.0
    ...
    ...     def block(self, A, B):
    ...         return A @ B.T + self.by
    >>> X, y = load_iris(return_X_y=True)
    >>> round(SVC(kernel=Shifted(by=2.0)).fit(X, y).score(X, y), 2)
    0.99
    """

    name: ClassVar[str]
    #: True if every kernel matrix is positive semi-definite, False if that is not known.
    definite: bool = True
    #: Whether k(x + c, z + c) = k(x, z), so that the samples may be centred to lose fewer digits.
    shift_invariant: ClassVar[bool] = False
    #: Whether a backend may evaluate it from its name and parameters alone.
    named: ClassVar[bool] = False
    #: Whether k(x, z) is the dot product of the samples as they are, so that a machine has a weight for each feature.
    explicit: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            KERNELS[cls.name] = cls

    @staticmethod
    def gamma_of(sigma: float) -> float:
        """The gamma of a kernel with the length scale sigma."""
        return 1.0 / sigma

    def resolved(self, samples: Samples, weights: NDArray[np.float64] | None = None) -> Self:
        """The kernel with gamma as a number: "scale" is 1 / (n_features Var(X)), "auto" is 1 / n_features. With weights the
        variance is that of a training set in which each sample occurs as often as it weighs."""
        gamma = getattr(self, "gamma", None)
        if not isinstance(gamma, str):
            return self
        with np.errstate(over="ignore", invalid="ignore"):  # the error is raised where the kernel matrix is made
            variance = samples.variance(weights) if gamma == "scale" else 1.0
        return replace(self, gamma=1.0 / (samples.shape[1] * variance) if variance > 0.0 else 1.0)  # type: ignore[type-var]

    @abstractmethod
    def block(self, A: Any, B: Any) -> Matrix:
        """The matrix k(a, b), a row for each sample of A and a column for each of B, in float64."""

    def samples(self, X: Any) -> Samples:
        """A validated container as samples that this kernel compares."""
        return make_samples(X)

    def support(self, vectors: Any, numbers: NDArray[np.integer]) -> Samples:
        """The support vectors of a fitted model, given what it has kept of them and their sample numbers."""
        return make_samples(vectors)

    def diag(self, A: Any) -> NDArray[np.float64]:
        """k(a, a) for each sample of A."""
        return np.array([self.block(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(A.shape[0])])

    def feature_dimension(self, n_features: int) -> float:
        """The number of features of the kernel's feature map; infinite if it is infinite or not known."""
        return math.inf

    def require_defined(self, A: Any, B: Any) -> None:
        """Raise a ValueError if the kernel is not defined for some pair of samples from A and B."""
        return None

    def sizes(self, A: Any) -> NDArray[np.float64] | float:
        """Numbers s with |k(a, b)| <= s_a s_b for all samples; a single number if they are all the same."""
        return float(np.sqrt(np.abs(self.diag(A)).max(initial=0.0)))

    def rounding(self, n_terms: int) -> float:
        """A number r such that k(a, b) of samples with `n_terms` features, computed in float64, is off by at most r s_a s_b."""
        return 0.0  # the values of a precomputed or callable kernel are taken as exact

    def slope(self) -> float:
        """The steepest slope of a shift-invariant kernel, up to a factor of about one: how much a kernel value changes if a
        sample moves."""
        return float(getattr(self, "gamma", 1.0))

    def rounding_of_products(self, squared_norms: NDArray[np.float64], n_terms: int) -> NDArray[np.float64] | float:
        """Numbers t such that k(a, b) has a further error of at most t_a + t_b if it is computed from dot products of samples
        with these norms instead of from differences."""
        return 0.0

    def exact_block(self, A: Any, B: Any) -> Matrix:
        """Like `block`, as exact as float64 allows."""
        return self.block(A, B)


class NamedKernel(Kernel):
    """A kernel that is a function of the dot product of two samples, or of their distance.

    The base class of the kernels that compiled code evaluates by their names and parameters.

    See Also
    --------
    Kernel : The base class of all kernels.

    Examples
    --------
    >>> from maxmargin.kernels import RBF, Custom, NamedKernel
    >>> issubclass(RBF, NamedKernel), issubclass(Custom, NamedKernel)
    (True, False)
    """

    named: ClassVar[bool] = True

    @abstractmethod
    def pairing(self, A: Any, B: Any) -> Matrix:
        """The dot product or distance for all pairs of samples, in float64; it does not depend on the kernel's parameters."""

    @abstractmethod
    def of_pairing(self, values: NDArray[Any]) -> NDArray[Any]:
        """The kernel values for these values of the pairing, in their arithmetic."""

    def block(self, A: Any, B: Any) -> Matrix:
        return self.of_pairing(self.pairing(A, B))
