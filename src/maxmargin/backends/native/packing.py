"""Samples and kernels in the form that the compiled code takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse as sp

from maxmargin.backends.native.core import core
from maxmargin.kernels import FEW_FEATURES_IN_FLOAT32, Kernel
from maxmargin.samples import CsrSamples, DenseSamples, Samples, csr_arrays, dwarfs_spread

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

DOUBLE = np.dtype(np.float64)
NOTHING = np.empty(0)  # in place of a centre: the samples are not centred; in place of errors: they are zero
NO_SAMPLES = np.empty(0, dtype=np.int32)
#: A value of a sparse sample costs as much as this many of a dense one.
SPARSE_COST = 2.0
#: Data of at least this density, and not too wide, is worked on as dense rows.
DENSE_ENOUGH = 0.25
#: CSR data with more columns than this stays sparse.
WIDEST_DENSE = 4096
#: Dense data with fewer columns than this, or fewer samples, stays dense: making it sparse would take longer than it saves.
NARROWEST_SPARSE, FEWEST_SPARSE = 16, 1024
#: Samples from which the density of dense data is estimated.
SAMPLES_FOR_DENSITY = 256
#: Samples from which the usual value of each column is estimated.
SAMPLES_FOR_MEDIAN = 64
#: CSR samples with more columns than this for each stored value have mostly empty columns, which are left out.
MOST_COLUMNS_PER_VALUE = 4


def knows(kernel: Kernel) -> bool:
    """Whether there is compiled code for this kernel."""
    return kernel.name in core.kernel_names


def can_pack(kernel: Kernel, samples: Samples) -> bool:
    """Whether the compiled code can evaluate this kernel on these samples."""
    too_wide = kernel.name == "laplacian" and isinstance(samples, CsrSamples) and samples.shape[1] > WIDEST_DENSE
    return knows(kernel) and not too_wide


def compiled_kernel(kernel: Kernel) -> Any:
    return core.make_kernel(
        kernel.name,
        float(getattr(kernel, "gamma", 1.0)),
        float(getattr(kernel, "coef0", 0.0)),
        float(getattr(kernel, "degree", 3.0)),
    )


def suitable(kernel: Kernel, samples: Samples, may_move: bool = False) -> Samples:
    """The samples as dense rows or as CSR, whichever is faster, whatever container they came in. CSR loses its empty columns, if
    there are very many. If the samples `may_move`, a point that makes more values zero may be subtracted from all of them."""
    if isinstance(samples, DenseSamples):
        point = _usual_values(kernel, may_move, samples)
        return samples if point is None else _as_csr(point, samples)[0]
    if not isinstance(samples, CsrSamples):
        return samples
    n, d = samples.X.shape
    if kernel.name == "laplacian" or (samples.X.nnz >= DENSE_ENOUGH * n * d and d <= WIDEST_DENSE):
        return samples.dense()
    return without_empty_columns(samples)[0]


def suitable_together(kernel: Kernel, *sets: Samples) -> list[Samples]:
    """Several sets of samples, all as dense rows or all as CSR, less the same point. They are CSR if all are, or become so
    because all have mostly usual values."""
    if all(isinstance(some, DenseSamples) for some in sets) and (point := _usual_values(kernel, True, *sets)) is not None:
        sets = tuple(_as_csr(point, *sets))
    if kernel.name == "laplacian" or not all(isinstance(some, CsrSamples) for some in sets):
        return [some.dense() if isinstance(some, CsrSamples) else some for some in sets]
    return without_empty_columns(*sets)


def _usual_values(kernel: Kernel, may_move: bool, *sets: Samples) -> NDArray[Any] | None:
    """A value for each column from which so few entries of dense samples differ, judged by some samples, that CSR of the
    differences is faster; None if there is no such point.

    It is zero or, if the samples may move and the kernel does not notice, the median, which is the value of most entries if there
    is one: the zero of a 0/1 column, or what standardising has made of it.
    """
    if kernel.name == "laplacian" or any(some.centre is not None or some.X.ndim != 2 for some in sets):
        return None
    if sets[0].shape[1] < NARROWEST_SPARSE or min(map(len, sets)) < FEWEST_SPARSE:
        return None
    drawn = [some.take(np.arange(0, len(some), max(1, len(some) // SAMPLES_FOR_DENSITY))).rows for some in sets]
    point = np.zeros_like(drawn[0][0])
    if may_move and kernel.shift_invariant:
        few = drawn[0][:: max(1, len(drawn[0]) // SAMPLES_FOR_MEDIAN)]
        point = np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
    return point if all(np.count_nonzero(some != point) < DENSE_ENOUGH * some.size for some in drawn) else None


def _as_csr(point: NDArray[Any], *sets: Samples) -> list[Samples]:
    """Dense samples less a point, in CSR; the differences are in float64, because they decide what a certificate proves.

    Columns whose differences are mostly negative change their sign, all of them at once, which a kernel that does not notice the
    point does not notice either: where the point is the usual value of 0/1 columns, all differences are one.
    """
    moved, point, excess = bool(point.any()), point.astype(DOUBLE), np.zeros(len(point), dtype=np.int64)
    rows = [np.ascontiguousarray(samples.X) for samples in sets]
    starts = [np.zeros(len(X) + 1, dtype=np.int64) for X in rows]
    for X, of_rows in zip(rows, starts, strict=True):
        core.count_differences(X, point, of_rows[1:], excess)
    signs = np.where(moved & (excess < 0), -1.0, 1.0)
    differences = []
    for samples, X, of_rows in zip(sets, rows, starts, strict=True):
        size = of_rows[-1]
        of_rows = of_rows.astype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)
        columns, values = np.empty(size, of_rows.dtype), np.empty(size, DOUBLE if moved else X.dtype)
        core.take_differences(X, point, signs, of_rows, columns, values)
        differences.append(CsrSamples(sp.csr_array((values, columns, of_rows), shape=X.shape), samples.index))
        differences[-1].moved = moved
    return list(differences)


def without_empty_columns(*sets: Samples) -> list[Samples]:
    """CSR samples without their empty columns, if there are so many that a table of all columns would take more memory than the
    samples."""
    containers = [some.X for some in sets]
    if not sp.issparse(containers[0]) or containers[0].shape[1] <= MOST_COLUMNS_PER_VALUE * (1 + sum(X.nnz for X in containers)):
        return list(sets)
    present, places = np.unique(np.concatenate([X.indices for X in containers]), return_inverse=True)
    parts = np.split(places.astype(containers[0].indptr.dtype), np.cumsum([X.nnz for X in containers])[:-1])
    return [
        some.within(sp.csr_array((X.data, part, X.indptr), shape=(X.shape[0], max(1, len(present)))))
        for some, X, part in zip(sets, containers, parts, strict=True)
    ]


def pack(samples: Samples, dtype: np.dtype[Any], centre: Vector | None = None) -> Any:
    """A compiled copy of the samples, in their order, less `centre`."""
    kind = core.Samples32 if dtype == np.float32 else core.Samples64
    X = samples.X
    if samples.sparse:
        return kind.from_csr(*csr_arrays(X), X.shape[1], samples.index)
    return kind.from_dense(np.ascontiguousarray(X), NOTHING if centre is None else centre, samples.index)


def centre_for(
    kernel: Kernel, samples: Samples, dtype: np.dtype[Any], most_for_differences: int = FEW_FEATURES_IN_FLOAT32
) -> Vector | None:
    """The centre to subtract from the samples: a point in their middle if that changes no kernel value and saves digits.

    In float64 the subtraction itself costs samples far from the centre their last digit, so it is done only where distances come
    from dot products (more features than `most_for_differences`) and the offset of the samples is much larger than their spread.
    """
    if samples.centre is not None or not kernel.shift_invariant or not isinstance(samples, DenseSamples):
        return samples.centre
    if dtype == DOUBLE and (samples.shape[1] <= most_for_differences or kernel.name == "laplacian"):
        return None
    centre = samples.middle()
    if dtype == DOUBLE and centre is not None and not dwarfs_spread(centre, samples):
        return None
    return centre


def linear_sums(samples: Samples, rows: Indices, weights: Matrix, at: Indices) -> tuple[Matrix, Vector, Matrix, Matrix]:
    """The weights of each output, offsets, sums and the sizes of their terms, as defined in
    native/include/maxmargin/linear_sums.hpp."""
    X, centre = samples.X, NOTHING if samples.centre is None else samples.centre
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    told = centre, samples.places(rows), weights, samples.places(at)
    if isinstance(samples, CsrSamples):
        starts, features, values = csr_arrays(X)
        found = core.linear_sums_csr(starts, features, values, X.shape[1], *told)
    else:
        found = core.linear_sums(X if X.strides[1] == X.itemsize else np.ascontiguousarray(X), *told)
    w, offsets, sums, sizes = found
    return w.reshape(len(weights), -1), offsets, sums.reshape(len(weights), -1), sizes.reshape(len(weights), -1)
