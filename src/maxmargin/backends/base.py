"""The contract of a backend: samples and their kernel matrix, a point that lives with them, and an inner solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.point import Part, Point
from maxmargin.certificates import Numbers
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.kernels import Kernel, NamedKernel
from maxmargin.rounding import rounding_of_gradient
from maxmargin.samples import CsrSamples, Samples

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
#: The numbers of a certificate, and its gap terms.
Proved = tuple[Numbers, Vector]

ROWS_AT_ONCE = 512
NEVER = 1e30  # seconds: no deadline


class TileResult(NamedTuple):
    """The result of solving a tile. `lowest_curvature` is the most negative pair curvature met, relative to the diagonal; `level`
    is the middle between the gradients of the variables (of the first group) that may still rise and of those that may fall."""

    steps: int
    violation: float
    lowest_curvature: float
    level: float


class Link(NamedTuple):
    """A solved problem of a chain: its point and the gradient there, the numbers of its certificate and the gap terms."""

    steps: int
    beta: Vector
    gradient: Vector
    numbers: Numbers
    terms: Vector


class Limit(NamedTuple):
    """The limits of an inner solve: pair steps, and seconds."""

    steps: int
    seconds: float = NEVER

    def of_steps(self, steps: int) -> Limit:
        return self._replace(steps=steps)


class InnerSolver(ABC):
    """The solver of a working set, given its kernel matrix where that lies: a tile for the host, or whatever `Gram.tile` of the
    same backend returns."""

    #: Variables of a working set that is one tile, and of the largest tile, which ends a float32 run.
    tile: int = 768
    largest_tile: int = 3072
    #: Whether a larger working set, a pool, is worth minimising tile by tile before the gradient of all variables is updated.
    uses_pools: bool = True
    #: Share of tol to which a tile is solved in the end: a smaller one needs fewer tiles, and more steps for each.
    last_share: float = 0.1
    #: The same for problems of one tile each that are solved side by side, where more steps cost less than another tile.
    last_share_of_several: float = 0.1
    #: Steps of one solve, so that an interrupt is seen within a fraction of a second.
    steps_at_once: int = 150_000
    #: Kernel entries, for each thread, of the small problems that are solved in one call (`solve_each`), between two looks at the
    #: clock.
    entries_at_once: float = 2.5e7

    @abstractmethod
    def solve(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        """Minimise over one tile; the duals and the gradient of `part` are changed in place."""

    @abstractmethod
    def solve_joint(self, tile: Any, part: Part, tolerance: float, limit: Limit) -> TileResult:
        """Like `solve`, for a problem with several rows of variables (`CrammerSingerProblem`)."""

    def solve_each(
        self,
        grams: Sequence[Gram],
        joined: Part,
        ends: Sequence[int],
        tolerance: float,
        polish: float,
        limit: Limit,
    ) -> list[TileResult]:
        """Minimise several problems of one tile each, in place: to `tolerance`, and from there to `polish` where that is cheap.
        The problems are concatenated in `joined`; problem i ends at `ends[i]`."""
        results = []
        for gram, start, end in zip(grams, [0, *ends[:-1]], ends, strict=True):
            members = np.arange(start, end)
            part = Part(joined.problem.restrict(members), joined.beta[start:end], joined.gradient[start:end])
            tile = gram.tile(members.astype(np.int32) - np.int32(start), part.problem.shift)
            result = self.solve(tile, part, tolerance, limit)
            last = max(polish, rounding_of_gradient(part.beta, gram.diagonal()))
            if result.violation <= tolerance and last < tolerance:
                more = self.solve(tile, part, last, limit.of_steps(10 * len(members) + 100))
                result = TileResult(result.steps + more.steps, more.violation, result.lowest_curvature, more.level)
            results.append(result)
        return results


class SamplesLostError(RuntimeError):
    """Samples are lost in the middle of a run, for good."""


class Backend(ABC):
    """Where numbers live and who computes them."""

    name: ClassVar[str]
    inner: InnerSolver

    @abstractmethod
    def evaluates(self, kernel: Kernel) -> bool:
        """Whether this backend has code of its own for the kernel; it falls back to the kernel's NumPy text where not."""

    @abstractmethod
    def gram(self, kernel: Kernel, samples: Samples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]) -> Gram:
        """The kernel matrix of the samples, with its rows cut at `segments` (0, ..., n)."""

    def placed(self, X: Matrix) -> Any:
        """The rows of an array, where this backend computes."""
        return X

    def prove_each(
        self, grams: Sequence[Gram], problems: Sequence[DualProblem], betas: Sequence[Vector], claims: Sequence[Vector]
    ) -> list[Proved] | None:
        """The numbers and the gap terms of the certificates of several small machines over one kernel matrix, at the best levels,
        from the samples alone: what `certificates` computes for one. `claims` are the solver's gradients at points where it has
        converged; none if they count for nothing. None if this backend has no code for these machines."""
        return None

    def solve_chain(
        self, gram: Gram, problems: Sequence[DualProblem], tol: float, gap_tol: float | None, seconds: float
    ) -> list[Link]:
        """Solve and certify small problems over a kernel matrix in memory that differ in their boxes only, each from the solution
        of the one before: as many of the first as reach the tolerances. None by default."""
        return []

    @abstractmethod
    def place(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Point:
        """The point `beta` with its gradient, ready to be moved. The arrays are taken over."""

    def reached(self, problem: DualProblem) -> Vector | None:
        """The duals that a run of this problem has reached, for a backend that can lose samples; None if there was none."""
        return None

    def pairing(self, kernel: NamedKernel, samples: Samples) -> Matrix:
        """The dot product or distance that the kernel is a function of, for all pairs of samples."""
        n, rows = len(samples), samples.rows
        values = np.empty((n, n))
        for start in range(0, n, ROWS_AT_ONCE):
            values[start : start + ROWS_AT_ONCE] = kernel.pairing(rows[start : start + ROWS_AT_ONCE], rows)
        return values

    @abstractmethod
    def whole(
        self,
        kernel: NamedKernel,
        pairing: Matrix,
        segments: tuple[int, ...],
        rounding: float,
        instead_of: Gram | None = None,
    ) -> Gram:
        """The whole kernel matrix, computed from the `pairing` of all samples, with its columns cut at `segments`. `instead_of`
        is a matrix that is no longer needed and whose memory is reused. Entries may be off by `rounding` (`Kernel.rounding`)."""

    @abstractmethod
    def weighted_sums(
        self, kernel: Kernel, support: Samples, queries: Samples, weights: Matrix, groups: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """sums[g, m, q] = sum of weights[m, s] k(support_s, query_q) over the support vectors s of group g.

        `groups` are the sizes of consecutive groups of support vectors. The sums are computed in the arithmetic of the queries.
        """

    def linear_weights(self, support: Samples, coefficients: Matrix) -> Matrix:
        """coefficients @ support vectors, the weights of linear machines, rounded once."""
        wide = np.longdouble
        rows = support.rows.toarray() if isinstance(support, CsrSamples) else support.rows
        return np.asarray(coefficients.astype(wide) @ rows.astype(wide), dtype=np.float64)

    @property
    def n_threads(self) -> int:
        """How many threads a computation uses."""
        return 1

    def use_one_thread(self) -> None:
        """Use one thread, and one of several devices, from now on for computations requested by the calling thread."""
        return None  # a backend without threads of its own has nothing to do

    @property
    def n_devices(self) -> int:
        """Over how many devices the calling thread may spread computations, by threads that use one each."""
        return 1

    def here(self, gram: Gram) -> Gram:
        """The kernel matrix on the device that the calling thread uses."""
        return gram

    def watched(self) -> AbstractContextManager[Any]:
        """A context in which an error that means that samples are lost becomes a `SamplesLostError`."""
        return nullcontext()

    def session(self, entries: int) -> AbstractContextManager[Any]:
        """A context with the settings (of threads, say) that this backend needs to compute about `entries` kernel entries."""
        return nullcontext()
