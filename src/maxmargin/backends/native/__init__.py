"""The C++ backend: which compiled routine for which data, and the thread settings it needs.

packing     samples and kernels in the form that the compiled code takes
gram        the kernel matrix: computed on demand, or stored as a whole
point       measuring and choosing in compiled code
inner       the solver of tiles
threads, waiting   BLAS with one thread while ours run; threads that sleep while they wait
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.base import NEVER, Backend, InnerSolver, Link, Matrix, Proved, Vector
from maxmargin.backends.native.core import core
from maxmargin.backends.native.gram import MatrixGram, NativeGram, make_whole, rows_of
from maxmargin.backends.native.inner import NativeSolver
from maxmargin.backends.native.packing import (
    DOUBLE,
    NO_SAMPLES,
    NOTHING,
    can_pack,
    centre_for,
    compiled_kernel,
    knows,
    linear_sums,
    pack,
    suitable,
    suitable_together,
)
from maxmargin.backends.native.point import NativePoint
from maxmargin.backends.native.threads import blas_threads_off
from maxmargin.backends.point import Point
from maxmargin.certificates import Numbers
from maxmargin.formulations import DualProblem
from maxmargin.gram import BlockGram, Gram, sums_by_blocks
from maxmargin.kernels import Kernel, NamedKernel
from maxmargin.samples import Samples

#: Fewer float64 kernel entries than this are computed in less time than finding a centre takes.
TOO_FEW_TO_CENTRE = 100_000
#: With fewer kernel entries than this no matrix is so large that BLAS starts threads by itself.
WORTH_SETTING_THREADS = 50_000
#: Problems of more variables than this are not solved in chains: a chain is one call, which neither shows progress nor can be
#: interrupted, and should end within a second.
LONGEST_ROW_OF_CHAIN = 4096
NO_MATRIX = np.empty((0, 0), dtype=np.float32)  # for a chain without float32 entries


class NativeBackend(Backend):
    name: ClassVar[str] = "native"
    inner: InnerSolver = NativeSolver()

    def evaluates(self, kernel: Kernel) -> bool:
        return knows(kernel)

    def gram(self, kernel: Kernel, samples: Samples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]) -> Gram:
        if not can_pack(kernel, samples):
            return BlockGram(kernel, samples, cache_bytes, segments)
        return NativeGram(kernel, suitable(kernel, samples, may_move=True), dtype, cache_bytes, segments)

    def prove_each(
        self, grams: Sequence[Gram], problems: Sequence[DualProblem], betas: Sequence[Vector], claims: Sequence[Vector]
    ) -> list[Proved] | None:
        parts = [gram for gram in grams if isinstance(gram, NativeGram)]
        if len(parts) < len(grams) or parts[0].kernel.explicit:
            return None
        joined, beta = DualProblem.join(problems), np.concatenate(betas)
        ends = list(accumulate(map(len, betas)))
        known, terms = parts[0].for_proofs, np.empty(len(beta))
        proofs = core.prove_each(
            compiled_kernel(parts[0].kernel),
            known.packed,
            *known.errors,
            ends,
            rows_of(parts),
            joined.linear,
            joined.lower,
            joined.upper,
            beta,
            np.concatenate([NOTHING, *claims]),
            joined.coupled,
            terms,
        )
        pieces = [terms[start:end] for start, end in pairwise([0, *ends])]
        return [(_numbers(proof, joined.coupled), piece) for proof, piece in zip(proofs, pieces, strict=True)]

    def solve_chain(
        self, gram: Gram, problems: Sequence[DualProblem], tol: float, gap_tol: float | None, seconds: float
    ) -> list[Link]:
        if not isinstance(gram, MatrixGram) or len(gram) > LONGEST_ROW_OF_CHAIN:
            return []
        linear, coupled = problems[0].linear, problems[0].coupled
        if not all(np.array_equal(linear, problem.linear) for problem in problems[1:]):
            return []
        shape = len(problems), len(gram)
        beta, gradients, terms = np.empty(shape), np.empty(shape), np.empty(shape)
        exact = gram.in_float64()
        found = core.solve_chain(
            exact.matrix,
            gram.matrix if gram is not exact else NO_MATRIX,
            exact.rows(),
            linear,
            coupled,
            tol,
            math.inf if gap_tol is None else gap_tol,
            exact.largest,
            exact.rounding,
            np.stack([problem.lower for problem in problems]),
            np.stack([problem.upper for problem in problems]),
            beta,
            gradients,
            terms,
            min(seconds, NEVER),
        )
        return [Link(steps, beta[k], gradients[k], _numbers(proof, coupled), terms[k]) for k, (steps, proof) in enumerate(found)]

    def place(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Point:
        return NativePoint(problem, gram, beta, gradient)

    def pairing(self, kernel: NamedKernel, samples: Samples) -> Matrix:
        if not can_pack(kernel, samples):
            return super().pairing(kernel, samples)
        samples = suitable(kernel, samples)
        values = np.empty((len(samples), len(samples)))
        core.pair_all(compiled_kernel(kernel), pack(samples, DOUBLE, centre_for(kernel, samples, DOUBLE)), values)
        return values

    def whole(
        self,
        kernel: NamedKernel,
        pairing: Matrix,
        segments: tuple[int, ...],
        rounding: float,
        instead_of: Gram | None = None,
    ) -> Gram:
        reused = instead_of if isinstance(instead_of, MatrixGram) else None
        return make_whole(kernel, pairing, segments, rounding, reused)

    def weighted_sums(
        self, kernel: Kernel, support: Samples, queries: Samples, weights: Matrix, groups: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        dtype = queries.dtype
        support, queries = suitable_together(kernel, support, queries)
        if not can_pack(kernel, support):
            return sums_by_blocks(kernel, support, queries, weights, groups)
        few = dtype == DOUBLE and len(support) * len(queries) <= TOO_FEW_TO_CENTRE
        centre = support.centre if few else centre_for(kernel, support, dtype)
        sums = np.zeros((len(groups), len(weights), len(queries)))
        core.weighted_sums(
            compiled_kernel(kernel),
            pack(support, dtype, centre),
            pack(queries, dtype, centre),
            np.ascontiguousarray(weights, dtype=np.float64),
            list(accumulate(groups.tolist())),
            sums,
        )
        return sums

    def linear_weights(self, support: Samples, coefficients: Matrix) -> Matrix:
        return linear_sums(support, np.arange(len(support), dtype=np.int32), coefficients, NO_SAMPLES)[0]

    @property
    def n_threads(self) -> int:
        return core.n_threads()

    def use_one_thread(self) -> None:
        core.use_threads(1)

    def session(self, entries: int) -> AbstractContextManager[Any]:
        return nullcontext() if entries < WORTH_SETTING_THREADS else blas_threads_off


def _numbers(proof: tuple[Any, ...], coupled: bool) -> Numbers:
    """The numbers of a compiled certificate, whose first one is the level."""
    return Numbers(proof[:1] if coupled else (), *proof[1:])
