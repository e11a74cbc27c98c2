"""What lives on a worker: the rows of one partition, and the part of a point that belongs to them.

A question (`team`) is a method of `Piece`. Those that change the point raise its version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.backends.native import NativeBackend
from maxmargin.backends.native.core import core
from maxmargin.backends.native.packing import can_pack, centre_for, compiled_kernel, pack, suitable
from maxmargin.backends.native.threads import blas_threads_off
from maxmargin.cluster.kept import KeptRows, Message, stacked
from maxmargin.formulations import DualProblem, Sums
from maxmargin.gram import ExactSums, sums_by_blocks
from maxmargin.kernels import Kernel
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.samples import CsrSamples, Samples, make_samples

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

LONGEST_SKETCH = 512  # values that stand for the gradients of the free variables of a group
BYTES_AT_ONCE = 8_000_000  # of the rows of which a copy is made at a time
DOUBLE = np.dtype(np.float64)


class Shape(NamedTuple):
    """What there is to know about a partition before a fit."""

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    sparse: bool
    largest: float  # absolute value of an entry
    n_terms: int  # the largest number of products in a dot product of two rows


class Summary(NamedTuple):
    """A part of a point in a few numbers. For each group: the lowest gradient of variables that may rise, the highest of those
    that may fall, how many are free, and some of the sorted gradients of these, evenly spaced (all, if they are few)."""

    lowest: list[float]
    highest: list[float]
    n_free: list[int]
    sketches: list[Vector]
    sums: Sums


class Wanted(NamedTuple):
    """The candidates for a working set that a part is asked for: from which violation on a variable is a violator, and how many
    violators and others."""

    threshold: float = 0.0
    n_violators: int = 0
    n_next: int = 0

    def covers(self, other: Wanted) -> bool:
        return self.threshold == other.threshold and self.n_violators >= other.n_violators and self.n_next >= other.n_next


class Candidates(NamedTuple):
    """The share of a part in the gap; and what it offers for a working set, as numbers of its variables: how many are violators
    at a bound, and a random draw of these; those nearest to becoming violators, with the distance by which they are not; and, for
    each group, the lowest variable that may rise and the highest that may fall, with their gradients (None: there is none)."""

    gap: float
    n_violators: int
    violators: Indices
    next_ones: Indices
    distances: Vector
    extremes: list[tuple[tuple[float, int] | None, tuple[float, int] | None]]


@dataclass(frozen=True)
class Arrangement:
    """How a machine sees the rows of a partition: the rows that take part, in the order of its variables; the kernel, its
    arithmetic, and the centre of the samples; and how many variables a row has."""

    kernel: Kernel
    dtype: np.dtype[Any]
    centre: Vector | None
    rows: Indices
    copies: int = 1


class Piece:
    def __init__(self, block: Any, number: int, key: str) -> None:
        self.block, self.number, self.key = block, number, key
        self.version: object = None
        self._kept = KeptRows()  # of other partitions
        self._problem: DualProblem | None = None

    # --- the rows -------------------------------------------------------------------------------------------------

    def describe(self) -> Shape:
        samples = make_samples(self.block)
        n_rows, n_features = self.block.shape
        return Shape(n_rows, n_features, self.block.dtype, sp.issparse(self.block), samples.largest_entry(), samples.n_terms)

    def rows(self, chosen: Indices) -> Any:
        return self.block[chosen]

    def moments(self, mean: float, weights: Vector | None) -> tuple[float, float, float]:
        """The sum of the weights; and the weighted sums of all entries less `mean`, and of their squares."""
        block, d = self.block, self.block.shape[1]
        weights = np.ones(block.shape[0]) if weights is None else weights
        if sp.issparse(block):
            deviations, lengths = block.data - mean, np.diff(block.indptr)
            of_each, zeros = np.repeat(weights, lengths), float(weights @ (d - lengths))
            return (
                float(weights.sum()),
                float(of_each @ deviations) - zeros * mean,
                float(of_each @ deviations**2) + zeros * mean**2,
            )
        linear = square = 0.0
        for some in _at_once(block, len(block)):
            deviations = np.subtract(block[some], mean, dtype=np.float64)
            linear += float(weights[some] @ deviations.sum(axis=1))
            square += float(weights[some] @ np.square(deviations, out=deviations).sum(axis=1))
        return float(weights.sum()), linear, square

    def diagonal(self, kernel: Kernel, chosen: Indices, centre: Vector | None) -> Vector:
        return self._samples(chosen, centre).diagonal(kernel)

    def kernel_sums(self, told: tuple[Message, Matrix], arrangement: Arrangement) -> Matrix:
        """The sums weights @ K[support, rows]; the message is the rows of the support vectors."""
        message, weights = told
        return _Columns(arrangement, self._samples(arrangement.rows, arrangement.centre)).sums(message.read(self._kept), weights)

    def exact_sums_here(self, told: tuple[Message, Matrix], kernel: Kernel, centre: Vector | None, at: Indices) -> ExactSums:
        """The exact sums over all support vectors, whose rows are the message, at the rows `at`."""
        message, weights = told
        return exact_sums(kernel, centre, message.read(self._kept), weights, self.block, at)

    def exact_sums_of_mine(
        self, told: tuple[Message, None], kernel: Kernel, centre: Vector | None, support: Indices, weights: Matrix
    ) -> ExactSums:
        """The exact sums over the support vectors that are here, at the rows of the message."""
        queries = told[0].read(self._kept)
        everything = np.arange(queries.shape[0])
        return added(
            [
                exact_sums(kernel, centre, self.block[support[some]], weights[:, some], queries, everything)
                for some in _at_once(self.block, len(support))
            ]
        )

    def _samples(self, chosen: Indices, centre: Vector | None) -> Samples:
        return make_samples(self.block).take(chosen).around(centre)

    # --- the part of a point --------------------------------------------------------------------------------------

    def place(
        self,
        version: object,
        arrangement: Arrangement,
        problem: DualProblem,
        beta: Vector | None,
        gradient: Vector | None,
    ) -> Summary:
        """Begin a point. Duals that are None are zero; a gradient that is None is that of the duals without kernel sums."""
        self._columns = _Columns(arrangement, self._samples(arrangement.rows, arrangement.centre))
        self._copies, self._problem = arrangement.copies, problem
        self._beta = np.zeros(len(problem)) if beta is None else beta.copy()
        self._gradient = problem.linear.copy() if gradient is None else gradient.copy()
        if gradient is None and problem.shift is not None:
            self._gradient += problem.shift * self._beta
        self.version = version
        return self._summary()

    def move(self, told: tuple[Message, Matrix], version: object, members: Indices, beta: Vector) -> Summary:
        """Give some variables new duals; the message is the rows of all variables that moved, here or elsewhere, which comes with
        their changes."""
        problem, (message, changes) = self._problem, told
        assert problem is not None
        rows = message.read(self._kept)
        if len(problem):
            self._gradient += np.tile(self._columns.sums(rows, changes)[0], self._copies)
            if problem.shift is not None:
                self._gradient[members] += problem.shift[members] * (beta - self._beta[members])
        return self.put(version, members, beta)

    def put(self, version: object, members: Indices, beta: Vector) -> Summary:
        """Give some variables new duals; the gradient stays as it is."""
        self._beta[members] = beta
        self.version = version
        return self._summary()

    def correct(self, version: object, members: Indices, gradient: Vector) -> Summary:
        self._gradient[members] = gradient
        self.version = version
        return self._summary()

    def take(self, members: Indices, rows: Indices) -> tuple[Vector, Any]:
        """The gradient of some variables, and some rows."""
        return np.asarray(self._gradient[members]), self.block[rows]

    def collect(self) -> Vector:
        return self._gradient

    def near(self, levels: list[float], width: float) -> Indices:
        """The variables whose gradient is within `width` of the level."""
        assert self._problem is not None
        return np.flatnonzero(np.abs(self._gradient - self._problem.at_variables(levels)) <= width).astype(np.int32)

    def survey(self, levels: list[float], wanted: Wanted, seed: int) -> Candidates:
        problem, beta, gradient = self._problem, self._beta, self._gradient
        assert problem is not None
        threshold, n_violators, n_next = wanted
        rng = np.random.default_rng((seed, self.number))
        rise, fall = beta < problem.upper, beta > problem.lower
        level = problem.at_variables(levels)
        above = gradient - level
        wrong_by = np.maximum(np.where(rise, -above, -np.inf), np.where(fall, above, -np.inf))  # a fixed variable: -inf
        is_free, violates = rise & fall, wrong_by > threshold
        violators = np.flatnonzero(violates & ~is_free)
        next_ones = np.empty(0, dtype=np.intp)
        if len(violators) <= n_violators and n_next > 0:
            next_ones = np.flatnonzero(~violates & ~is_free & (rise | fall))
            if len(next_ones) > n_next:
                next_ones = next_ones[np.argpartition(-wrong_by[next_ones], n_next)[:n_next]]
        return Candidates(
            float(problem.gap_terms(beta, gradient, level).sum()),
            len(violators),
            rng.permutation(violators)[:n_violators].astype(np.int32),
            next_ones.astype(np.int32),
            -wrong_by[next_ones],
            [
                (_extreme(gradient, group, rise, np.argmin), _extreme(gradient, group, fall, np.argmax))
                for group in problem.groups or [slice(0, len(beta))]
            ],
        )

    def _summary(self) -> Summary:
        problem, beta, gradient = self._problem, self._beta, self._gradient
        assert problem is not None
        rise, fall = beta < problem.upper, beta > problem.lower
        groups = problem.groups or [slice(0, len(beta))]
        free = [np.sort(gradient[group][(rise & fall)[group]]) for group in groups]
        return Summary(
            [float(gradient[group][rise[group]].min(initial=np.inf)) for group in groups],
            [float(gradient[group][fall[group]].max(initial=-np.inf)) for group in groups],
            [len(values) for values in free],
            [values[np.linspace(0, len(values) - 1, min(LONGEST_SKETCH, len(values))).astype(np.intp)] for values in free],
            problem.sums(beta, gradient),
        )


class _Columns:
    """Kernel sums at the samples of a piece over support vectors from anywhere. The samples are packed for the compiled code
    once."""

    def __init__(self, arrangement: Arrangement, samples: Samples) -> None:
        self._made_of = arrangement, samples
        self._kernel, self._dtype = arrangement.kernel, arrangement.dtype
        self._sparse = isinstance(suitable(self._kernel, samples), CsrSamples) if len(samples) else samples.sparse
        self._samples = samples if samples.sparse == self._sparse else self._formed(samples.rows, samples.centre)
        self._centre = centre_for(self._kernel, self._samples, self._dtype) if len(samples) else None
        compiled = len(samples) > 0 and can_pack(self._kernel, self._samples)
        self._packed = pack(self._samples, self._dtype, self._centre) if compiled else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Columns, self._made_of  # a piece that Dask moves, or writes to disk, is packed again

    def _formed(self, rows: Any, centre: Vector | None) -> Samples:
        """The rows as CSR or dense, whichever is faster for those of this piece."""
        if sp.issparse(rows) != self._sparse:
            rows = sp.csr_array(rows) if self._sparse else rows.toarray()
        return make_samples(rows).around(centre)

    def sums(self, rows: Any, weights: Matrix) -> Matrix:
        """weights @ K[rows, samples]."""
        n_support, n = rows.shape[0], len(self._samples)
        sums = np.zeros((1, len(weights), n))
        if n_support and n:
            support = self._formed(rows, self._samples.centre)
            if self._packed is None:
                sums = sums_by_blocks(self._kernel, support, self._samples, weights, np.array([n_support]))
            else:
                packed, weights = pack(support, self._dtype, self._centre), np.ascontiguousarray(weights)
                with blas_threads_off:
                    core.weighted_sums(compiled_kernel(self._kernel), packed, self._packed, weights, [n_support], sums)
        return np.asarray(sums[0])


def _at_once(block: Any, n_rows: int) -> Iterator[slice]:
    """Cut a number of rows of a block, dense or not, into parts of limited size."""
    height = max(1, BYTES_AT_ONCE // (8 * max(1, block.shape[1])))
    return (slice(start, start + height) for start in range(0, n_rows, height))


def exact_sums(
    kernel: Kernel, centre: Vector | None, support: Any, weights: Matrix, block: Any, at: NDArray[np.integer]
) -> ExactSums:
    """The exact sums over some rows at the rows `at` of a block, as a kernel matrix over both computes them, some of them at a
    time."""
    backend, n = NativeBackend(), support.shape[0]
    parts = []
    for chosen in _at_once(block, len(at)):
        some = block[at[chosen]]
        samples = make_samples(stacked([support, some])).around(centre)
        n_all = n + some.shape[0]
        gram = backend.gram(kernel, samples, DOUBLE, 0, (0, n_all))
        everything = np.arange(n_all, dtype=np.int32)
        with backend.session(n * some.shape[0]):
            found = gram.exact_sums(everything[:n], weights, everything[n:])
        parts.append(found._replace(error=np.broadcast_to(found.error, found.values.shape)))
    if not parts:
        nothing = np.zeros((len(weights), 0))
        return ExactSums(nothing, nothing)
    values, errors = (np.concatenate(columns, axis=1) for columns in list(zip(*parts, strict=True))[:2])
    return ExactSums(values, errors, parts[0].offset)


def added(parts: Sequence[ExactSums]) -> ExactSums:
    """The sum of sums over parts of the support vectors; its additions round once more."""
    if len(parts) == 1:
        return parts[0]
    values, errors = np.zeros((2, *parts[0].values.shape))
    for part in parts:
        values += part.values
        errors += part.error + len(parts) * UNIT_ROUNDOFF * np.abs(part.values)
    offsets = [number for part in parts for number in part.offset]
    offset = fsum(offsets)
    return ExactSums(values, errors, (offset, fsum([*offsets, -offset])))


def _extreme(gradient: Vector, group: slice, may_move: NDArray[np.bool_], pick: Any) -> tuple[float, int] | None:
    inside = group.start + np.flatnonzero(may_move[group])
    if not len(inside):
        return None
    k = int(inside[pick(gradient[inside])])
    return float(gradient[k]), k
