"""The contract of a backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.formulations import CrammerSingerProblem, DualProblem
from maxmargin.gram import Gram
from maxmargin.kernels import Kernel, NamedKernel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

ROWS_AT_ONCE = 512
NEVER = 1e30  # seconds: no deadline


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
class TileResult:
    """The result of solving a tile. `lowest_curvature` is the most negative pair curvature met, relative to the diagonal; `level`
    is the middle between the gradients of the variables (of the first group) that may still rise and of those that may fall."""

    steps: int
    violation: float
    lowest_curvature: float
    level: float


class Limit(NamedTuple):
    """The limits of an inner solve: pair steps, and seconds."""

    steps: int
    seconds: float = NEVER

    def of_steps(self, steps: int) -> Limit:
        return self._replace(steps=steps)


class Backend(ABC):
    """The operations that the outer loop of a solver needs."""

    name: ClassVar[str]

    @abstractmethod
    def gram(
        self,
        kernel: Kernel,
        X: Any,
        dtype: np.dtype[Any],
        cache_bytes: int,
        segments: tuple[int, ...],
        balanced: bool = False,
    ) -> Gram:
        """The kernel matrix of X, with its rows cut at `segments` (0, ..., n). If the duals of each problem over it are
        `balanced`, that is, sum to zero, the samples of a linear kernel may be centred (`Gram.offset`)."""

    def pairing(self, kernel: NamedKernel, X: Any) -> NDArray[np.float64]:
        """The dot product or distance that the kernel is a function of, for all pairs of samples."""
        n = X.shape[0]
        values = np.empty((n, n))
        for start in range(0, n, ROWS_AT_ONCE):
            values[start : start + ROWS_AT_ONCE] = kernel.pairing(X[start : start + ROWS_AT_ONCE], X)
        return values

    @abstractmethod
    def whole(
        self,
        kernel: NamedKernel,
        pairing: NDArray[np.float64],
        segments: tuple[int, ...],
        rounding: float,
        instead_of: Gram | None = None,
    ) -> Gram:
        """The whole kernel matrix, computed from the `pairing` of all samples, with its columns cut at `segments`. `instead_of`
        is a matrix that is no longer needed and whose memory is reused. Entries may be off by `rounding` (`Kernel.rounding`)."""

    @abstractmethod
    def measure_violation(self, problem: DualProblem, beta: Vector, gradient: Vector) -> Violation: ...

    @abstractmethod
    def choose_working_set(
        self,
        problem: DualProblem,
        beta: Vector,
        gradient: Vector,
        violation: Violation,
        threshold: float,
        size: int,
        extra_share: float,
        seed: int,
    ) -> tuple[Indices, bool]:
        """The free variables and the violators beyond `threshold`, at most about `size` of them, sorted; and whether these are
        all there are. If so, a backend may add the variables nearest to becoming violators, up to the share `extra_share` of the
        set."""

    @abstractmethod
    def solve_tile(
        self, tile: Any, problem: DualProblem, beta: Vector, gradient: Vector, tolerance: float, limit: Limit
    ) -> TileResult:
        """Minimise over one tile, in place: `problem`, `beta` and `gradient` are restricted to its members."""

    @abstractmethod
    def solve_joint_tile(
        self, tile: Any, problem: CrammerSingerProblem, B: Matrix, gradient: Matrix, tolerance: float, limit: Limit
    ) -> TileResult:
        """Like `solve_tile`, for a problem with several rows of variables."""

    def solve_tiles(
        self,
        grams: Sequence[Gram],
        joined: DualProblem,
        ends: NDArray[np.intp],
        beta: Vector,
        gradient: Vector,
        tolerance: float,
        polish: float,
        limit: Limit,
    ) -> list[TileResult]:
        """Minimise several problems of one tile each, in place: to `tolerance`, and from there to `polish` where that is cheap.
        The problems are concatenated in `joined`, `beta` and `gradient`; problem i ends at `ends[i]`."""
        results = []
        for gram, start, end in zip(grams, [0, *ends[:-1]], ends, strict=True):
            members = np.arange(start, end)
            problem, b, g = joined.restrict(members), beta[start:end], gradient[start:end]
            tile = gram.tile(members.astype(np.int32) - np.int32(start), problem.shift)
            result = self.solve_tile(tile, problem, b, g, tolerance, limit)
            if result.violation <= tolerance and polish < tolerance:
                more = self.solve_tile(tile, problem, b, g, polish, limit.of_steps(10 * len(problem) + 100))
                result = TileResult(result.steps + more.steps, more.violation, result.lowest_curvature, more.level)
            results.append(result)
        return results

    @abstractmethod
    def weighted_sums(
        self,
        kernel: Kernel,
        support: Any,
        queries: Any,
        weights: NDArray[np.float64],
        groups: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """sums[g, m, q] = sum of weights[m, s] k(support_s, query_q) over the support vectors s of group g.

        `groups` are the sizes of consecutive groups of support vectors. The sums are computed in the arithmetic of the queries.
        """

    def linear_weights(self, vectors: Any, coefficients: Matrix) -> Matrix:
        """coefficients @ vectors, the weights of linear machines, rounded once."""
        wide = np.longdouble
        dense = vectors.toarray() if sp.issparse(vectors) else vectors
        return np.asarray(coefficients.astype(wide) @ dense.astype(wide), dtype=np.float64)

    @property
    def n_threads(self) -> int:
        """How many threads a computation uses."""
        return 1

    def use_one_thread(self) -> None:
        """Use one thread from now on for computations requested by the calling thread."""
        return None  # a backend without threads of its own has nothing to do

    def session(self, entries: int) -> AbstractContextManager[Any]:
        """A context with the settings (of threads, say) that this backend needs to compute about `entries` kernel entries."""
        return nullcontext()
