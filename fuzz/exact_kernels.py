r"""The kernel matrix in 80-bit arithmetic (numpy.longdouble), from the data as the user gave them.

    linear        <x, z>                                poly      (gamma <x, z> + coef0)^degree
    rbf           exp(-gamma |x - z|^2)                 sigmoid   tanh(gamma <x, z> + coef0)
    laplacian     exp(-gamma |x - z|_1)                 exponential   exp(-gamma |x - z|)

Distances are sums over differences, so that samples far from the origin and close to each other lose nothing. Besides
each value there is its *magnitude* M: in an arithmetic with unit roundoff u an evaluation by the formula above may be
off by about u M. For a dot product that is sum_k |x_k z_k|, which may be much larger than the value; for exp(-t) it is
(1 + t) exp(-t).

Where numpy.longdouble is float64 (not on x86-64 Linux) everything here still holds, with float64's rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Real = np.longdouble
Exact = NDArray[np.longdouble]
Indices = NDArray[np.integer[Any]]

ROUNDING = float(np.finfo(Real).eps)
ENTRIES = 2**18  # kernel values held at a time


class Block(NamedTuple):
    """Kernel values and their magnitudes."""

    values: Exact
    magnitudes: Exact


@dataclass(frozen=True)
class ExactKernel:
    """k(x_i, x_j) of the training samples. ``name`` is that of a kernel, or "matrix" where X is the kernel matrix."""

    name: str
    X: NDArray[Any]
    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3

    @classmethod
    def of_callable(cls, function: Callable[[Any, Any], Any], X: NDArray[Any]) -> ExactKernel:
        """The kernel of a callable: the float64 matrix that the function returns."""
        return cls("matrix", np.asarray(function(X, X), dtype=np.float64))

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        return 0 if self.name == "matrix" else int(self.X.shape[1])

    def block(self, rows: Indices, columns: Indices) -> Block:
        """k(x_i, x_j) for i in rows and j in columns."""
        with np.errstate(all="ignore"):
            if self.name == "matrix":
                values = self.X[np.ix_(rows, columns)].astype(Real)
                return Block(values, np.abs(values))
            A, B = self.X[rows].astype(Real), self.X[columns].astype(Real)
            if self.name in ("linear", "poly", "sigmoid"):
                return self._of_products(A @ B.T, np.abs(A) @ np.abs(B).T)
            return self._of_distances(_distances(A, B, absolute=self.name == "laplacian"))

    def largest_magnitude(self) -> Any:
        """The largest magnitude of k(x, x) over all samples."""
        if self.name == "matrix":
            return np.abs(np.diag(self.X)).max().astype(Real)
        if self.name not in ("linear", "poly", "sigmoid"):
            return Real(1)
        squares = (self.X.astype(Real) ** 2).sum(axis=1)
        return self._of_products(squares, squares).magnitudes.max()

    def _of_products(self, dots: Exact, sizes: Exact) -> Block:
        if self.name == "linear":
            return Block(dots, sizes)
        gamma, coef0 = Real(self.gamma), Real(self.coef0)
        argument, size = gamma * dots + coef0, gamma * sizes + abs(coef0)
        if self.name == "sigmoid":
            values = np.tanh(argument)
            return Block(values, np.abs(values) + size * (1 - values * values))
        values = _power(argument, self.degree)
        return Block(values, (1 + Real(self.degree)) * np.where(values == 0, 0, _power(size, self.degree)))

    def _of_distances(self, distances: Exact) -> Block:
        """`distances` is |x - z|^2, for the Laplacian kernel |x - z|_1."""
        if self.name == "exponential":
            distances = np.sqrt(distances)
        argument = Real(self.gamma) * distances
        values = np.exp(-argument)
        return Block(values, values * (1 + argument))


def kernel_sums(kernel: ExactKernel, coefficients: Exact) -> tuple[Exact, Exact]:
    """K @ coefficients, and M @ |coefficients|, the sizes of the terms; a column for each column of coefficients."""
    support = np.flatnonzero(coefficients.any(axis=1))
    sums = np.zeros((len(kernel), coefficients.shape[1]), dtype=Real)
    sizes = np.zeros_like(sums)
    rows = max(1, ENTRIES // max(1, len(support)))
    weights = coefficients[support]
    for start in range(0, len(kernel), rows):
        at = np.arange(start, min(start + rows, len(kernel)))
        block = kernel.block(at, support)
        sums[at], sizes[at] = block.values @ weights, block.magnitudes @ np.abs(weights)
    return sums, sizes


def _distances(A: Exact, B: Exact, absolute: bool) -> Exact:
    """Sums of squared (or absolute) differences, column by column."""
    total = np.zeros((len(A), len(B)), dtype=Real)
    for a, b in zip(A.T, B.T, strict=True):
        difference = a[:, None] - b[None, :]
        total += np.abs(difference) if absolute else difference * difference
    return total


def _power(base: Exact, degree: float) -> Exact:
    """base^degree; whole degrees by multiplication, which is a hundred times as fast as powl."""
    if float(degree).is_integer() and 0 <= degree <= 16:
        power = np.ones_like(base)
        for _ in range(int(degree)):
            power = power * base
        return power
    return np.power(base, Real(degree))
