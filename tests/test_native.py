"""The compiled module through the backend contract: its kernel values and sums against those of the oracle and of NumPy."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from maxmargin import SVC, LinearSVC, _native
from maxmargin.backends import Limit, NativeBackend, Part, ReferenceBackend
from maxmargin.backends.native.packing import suitable
from maxmargin.formulations import classification_problem
from maxmargin.gram import Gram
from maxmargin.kernels import RBF, Laplacian, make_kernel
from maxmargin.samples import CsrSamples, DenseSamples, make_samples
from tests import oracle

KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.5, "coef0": 1.0, "degree": 3},
    "homogeneous": {"gamma": 0.5, "degree": 2},
    "fractional": {"gamma": 0.2, "coef0": 9.0, "degree": 1.5},
    "rbf": {"gamma": 0.7},
    "laplacian": {"gamma": 0.4},
    "exponential": {"gamma": 0.6},
    "sigmoid": {"gamma": 0.3, "coef0": -0.2},
}
STORAGES = ("dense", "csr32", "csr64")
#: How far a kernel value may be off, relative to one and to itself (the exponential kernel's: see `tolerance`).
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}
N_SAMPLES, N_FEATURES = 150, 7
EDGES = (0, 40, 41, 100, N_SAMPLES)

native, reference = NativeBackend(), ReferenceBackend()


def named(name: str) -> str:
    return {"homogeneous": "poly", "fractional": "poly"}.get(name, name)


def kernel_of(name: str):
    return make_kernel(named(name), **KERNELS[name])


def tolerance(name: str, dtype: str) -> float:
    """The root of a squared distance near zero turns an error of eps into one of sqrt(eps)."""
    return 4.0 * np.sqrt(TOLERANCE[dtype]) if name == "exponential" else TOLERANCE[dtype]


def samples(storage: str, dtype: str, n_features: int = N_FEATURES, seed: int = 0) -> Any:
    """Rows of length about one, of which sparse storage keeps a fifth of the entries."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_SAMPLES, n_features)) / np.sqrt(n_features)
    if storage == "dense":
        return X.astype(dtype)
    X = sp.csr_array((X * (rng.random(X.shape) < 0.2)).astype(dtype))
    index = np.int32 if storage == "csr32" else np.int64
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def assert_close(ours: np.ndarray, theirs: np.ndarray, tolerance: float, n_terms: int = 1) -> None:
    """Each is a sum of `n_terms` kernel values."""
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=n_terms * tolerance)


def matrix(tile: Any) -> np.ndarray:
    return tile if isinstance(tile, np.ndarray) else tile.to_array()


def twins(name: str, X: Any, dtype: str, cache_bytes: int = 0) -> tuple[Gram, np.ndarray]:
    """The native Gram, and the whole kernel matrix of the oracle."""
    gram = native.gram(kernel_of(name), make_samples(X), np.dtype(dtype), cache_bytes, EDGES)
    return gram, oracle.kernel_matrix(named(name), X, **KERNELS[name])


def everything() -> np.ndarray:
    return np.arange(N_SAMPLES, dtype=np.int32)


cases = pytest.mark.parametrize(("name", "storage", "dtype"), list(product(KERNELS, STORAGES, TOLERANCE)))


@cases
def test_tile(name, storage, dtype):
    gram, K = twins(name, samples(storage, dtype), dtype)
    members = everything()[::-3].copy()
    shift = np.linspace(0.0, 1.0, len(members))
    inside = np.ix_(members, members)
    assert_close(matrix(gram.tile(members)), K[inside], tolerance(name, dtype))
    assert_close(matrix(gram.tile(members, shift)), K[inside] + np.diag(shift), tolerance(name, dtype))


@cases
def test_accumulate(name, storage, dtype):
    gram, K = twins(name, samples(storage, dtype), dtype)
    rows, weights = everything()[::4].copy(), np.linspace(-1.0, 2.0, len(everything()[::4]))
    out = np.ones((1, N_SAMPLES))
    gram.accumulate(rows, weights[None], out)
    assert_close(out[0], 1.0 + K[:, rows] @ weights, tolerance(name, dtype), len(rows))


@cases
def test_accumulate_besides_what_is_known(name, storage, dtype):
    gram, K = twins(name, samples(storage, dtype), dtype)
    known, rows = everything()[::3].copy(), np.delete(everything(), slice(5, None, 12))
    others, weights = np.setdiff1d(everything(), known), np.linspace(-1.0, 2.0, len(rows))
    for part, members in ((gram, everything()), (gram.restrict((0, 1, 2)), everything()[: EDGES[3]])):
        out, before = np.ones(len(members)), gram.compiled.entries_computed
        inside = rows < len(members)
        part.accumulate_besides(known[known < len(members)], rows[inside], weights[inside], out)
        at = others[others < len(members)]
        expected = 1.0 + K[np.ix_(at, rows[inside])] @ weights[inside]
        assert_close(out[at], expected, tolerance(name, dtype), len(rows))
        if part is gram:
            assert gram.compiled.entries_computed - before == len(rows) * len(others)


@cases
def test_exact_sums(name, storage, dtype):
    gram, K = twins(name, samples(storage, dtype), dtype)
    rows, at = everything()[::4].copy(), everything()[5:90:7].copy()
    weights = np.linspace(-1.0, 2.0, len(rows))
    expected = K[np.ix_(at, rows)] @ weights
    sums, error, _ = gram.exact_sums(rows, weights[None, :], at)
    assert_close(sums[0], expected, tolerance(name, "float64"), len(rows))
    rounding = 1e-14 * (np.abs(K[np.ix_(at, rows)]) @ np.abs(weights))  # of what is expected
    assert (np.abs(sums[0] - expected) <= np.broadcast_to(error, sums.shape)[0] + rounding).all()


@cases
def test_weighted_sums(name, storage, dtype):
    kernel = kernel_of(name)
    support, queries = make_samples(samples(storage, dtype)), make_samples(samples(storage, dtype, seed=1)[:67])
    weights = np.random.default_rng(2).normal(size=(3, N_SAMPLES))
    groups = np.array([30, 0, 69, 51])
    ours = native.weighted_sums(kernel, support, queries, weights, groups)
    theirs = reference.weighted_sums(kernel, support, queries, weights, groups)
    assert ours.shape == theirs.shape == (4, 3, 67)
    assert_close(ours, theirs, tolerance(name, dtype), N_SAMPLES)


@pytest.mark.parametrize(("name", "dtype"), list(product(KERNELS, TOLERANCE)))
def test_dense_queries_of_a_sparse_model(name, dtype):
    support, queries = samples("csr32", dtype), samples("csr32", dtype, seed=1)
    weights, groups = np.ones((1, N_SAMPLES)), np.array([N_SAMPLES])
    kernel, dense = kernel_of(name), make_samples(queries.toarray())
    expected = native.weighted_sums(kernel, make_samples(support), make_samples(queries), weights, groups)
    mixed = native.weighted_sums(kernel, make_samples(support), dense, weights, groups)
    assert_close(mixed, expected, tolerance(name, dtype), N_SAMPLES)


@pytest.mark.parametrize("n_features", [1, 12, 13, 64, 256, 257, 300])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_every_way_to_a_distance(n_features, dtype):
    """Differences, dot products over panels, matrix products: the number of features decides."""
    gram, K = twins("rbf", samples("dense", dtype, n_features), dtype)
    assert_close(matrix(gram.tile(everything())), K, TOLERANCE[dtype])
    out = np.zeros(N_SAMPLES)
    gram.accumulate(everything(), np.ones((1, N_SAMPLES)), out[None])
    assert_close(out, K.sum(axis=1), TOLERANCE[dtype], N_SAMPLES)


@pytest.mark.parametrize("rows_kept", [0, 1, 7, 60, N_SAMPLES])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_no_cache_changes_a_sum(rows_kept, dtype):
    """Rows come, are evicted and are half filled by machines that see some classes only."""
    budget = rows_kept * N_SAMPLES * np.dtype(dtype).itemsize
    gram, K = twins("rbf", samples("dense", dtype, 60), dtype, budget)
    rng = np.random.default_rng(rows_kept)
    for _ in range(40):
        segments = tuple(int(s) for s in np.sort(rng.choice(4, rng.integers(1, 5), replace=False)))
        part = gram.restrict(segments)
        members = np.concatenate([np.arange(EDGES[s], EDGES[s + 1]) for s in segments])
        rows = rng.choice(len(members), rng.integers(1, len(members) + 1), replace=False).astype(np.int32)
        weights, out = rng.normal(size=len(rows)), np.zeros(len(members))
        part.accumulate(rows, weights[None], out[None])
        expected = K[np.ix_(members, members[rows])] @ weights
        assert_close(out, expected, TOLERANCE[dtype], N_SAMPLES)


@pytest.mark.parametrize("storage", STORAGES)
def test_subset_is_the_matrix_of_its_members(storage):
    gram, K = twins("rbf", samples(storage, "float64"), "float64")
    members = everything()[10:130:3].copy()
    part, inside = gram.subset(members), K[np.ix_(members, members)]
    out = np.zeros((1, len(members)))
    part.accumulate(np.arange(len(members), dtype=np.int32), np.ones((1, len(members))), out)
    assert_close(out[0], inside.sum(axis=0), 1e-13, len(members))
    assert_close(matrix(part.tile(np.arange(len(part), dtype=np.int32))), inside, 1e-13)


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_solve_tile_reaches_the_tolerance(coupled, loss, dtype):
    gram, K = twins("rbf", samples("dense", dtype), dtype)
    signs = np.where(np.arange(N_SAMPLES) % 2, 1.0, -1.0)
    problem = classification_problem(signs, np.full(N_SAMPLES, 3.0), loss, coupled)
    beta, gradient = np.zeros(N_SAMPLES), problem.linear.copy()
    part = Part(problem, beta, gradient)
    result = native.inner.solve(gram.tile(everything(), problem.shift), part, 1e-4, Limit(100_000))
    true_gradient = K @ beta + problem.linear + (0.0 if problem.shift is None else problem.shift * beta)
    assert result.violation <= 1e-4
    assert problem.violation(beta, true_gradient) <= 2e-4
    assert ((beta >= problem.lower) & (beta <= problem.upper)).all()
    if coupled:
        assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()


def test_instruction_set_is_a_known_one():
    assert _native.instruction_set() in {"x86-64-v4", "x86-64-v3", "baseline"}


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="no native kernel is called gauss"):
        _native.make_kernel("gauss", 1.0, 0.0, 3.0)


# --- sums of the linear kernel ----------------------------------------------------------------------------------------


def awkward(storage: str, dtype: str) -> Any:
    """Small features, one that is large and hardly varies, and zeros."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=(30, 3)) * (rng.random((30, 3)) < 0.6), 1e-6 * rng.normal(size=30)])
    X = np.column_stack([X, 1.7e9 + 1e3 * rng.random(30)]).astype(dtype)
    return X if storage == "dense" else sp.csr_array(X)


@pytest.mark.parametrize("backend", [native, reference], ids=["native", "reference"])
@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize(("storage", "dtype"), list(product(("dense", "csr"), TOLERANCE)))
def test_linear_sums_are_exact_but_for_one_rounding(backend: Any, balanced: bool, storage: str, dtype: str) -> None:
    """Against rational numbers: no sum is off by more than it says, and that is next to nothing."""
    X = awkward(storage, dtype)
    rng = np.random.default_rng(4)
    rows, at = np.arange(0, 30, 2, dtype=np.int32), np.arange(1, 30, 3, dtype=np.int32)
    weights = rng.integers(-1000, 1000, size=(2, len(rows))) / 64.0
    weights[:, -1] -= weights.sum(axis=1)  # exactly zero, so that a centre changes nothing but the level
    placed = make_samples(X)
    gram = backend.gram(
        kernel_of("linear"), placed.around(placed.middle()) if balanced else placed, np.dtype(np.float64), 0, (0, 30)
    )
    sums, error, _ = gram.exact_sums(rows, weights, at)
    exact = [[Fraction(float(value)) for value in row] for row in (X if storage == "dense" else X.toarray())]
    for own, found, off in zip(weights, sums, np.broadcast_to(error, sums.shape), strict=True):
        w = [sum(Fraction(beta) * exact[i][k] for beta, i in zip(own.tolist(), rows, strict=True)) for k in range(5)]
        offset = sum(Fraction(part) for part in gram.exact_sums(rows, own[None], at).offset)  # of the centre, if any
        for q, value, bound in zip(at, found.tolist(), off.tolist(), strict=True):
            product = sum(x * weight for x, weight in zip(exact[q], w, strict=True))
            assert abs(product - offset - Fraction(value)) <= Fraction(bound)
            if backend is native:  # which has twice the digits of float64
                assert bound <= 2e-16 * abs(value) + 1e-7


# --- exceptions -------------------------------------------------------------------------------------------------------

STARVED = """
import resource
import numpy as np
from maxmargin import _native
from maxmargin.backends import native  # for BLAS

rng = np.random.default_rng(0)
X, nowhere = rng.normal(size=(1000, 300)), np.empty(0)
kernel, samples = _native.make_kernel("rbf", 0.001, 0.0, 3.0), _native.Samples64.from_dense(X, nowhere, None)
weights, out, grouped = np.ones((1, 1000)), np.zeros((1, 1000)), np.zeros((1, 1, 1000))
calls = {
    "exact_sums": lambda: _native.exact_sums(kernel, samples, samples, weights, out),
    "weighted_sums": lambda: _native.weighted_sums(kernel, samples, samples, weights, [1000], grouped),
}
for call in calls.values():
    call()  # threads and buffers of BLAS
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used, used))
hoard = []
for size in (1 << 20, 1 << 18, 1 << 16):
    try:
        while True:
            hoard.append(bytearray(size))
    except MemoryError:
        pass
raised = []
for name, call in calls.items():
    try:
        call()
    except MemoryError:
        raised.append(name)
del hoard
print(*raised)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_what_goes_wrong_in_a_parallel_region_is_a_python_exception() -> None:
    """No memory for the buffer of a thread: MemoryError, and the process lives on."""
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr or f"ended by signal {-done.returncode}"
    assert done.stdout.split() == ["exact_sums", "weighted_sums"]


def test_columns_of_a_sparse_row_that_do_not_ascend_are_refused() -> None:
    """By the compiled code itself, whatever checks come before it."""
    starts, values = np.array([0, 2], dtype=np.int32), np.ones(2)
    for features in ([1, 0], [1, 1], [-1, 0], [0, 3]):
        with pytest.raises(ValueError, match="must ascend from 0 and stay below the number of columns"):
            _native.Samples64.from_csr(starts, np.array(features, dtype=np.int32), values, 3, None)


# --- storage by content -----------------------------------------------------------------------------------------------


def mostly_zeros(n: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return np.where(rng.random((n, 40)) < 0.1, rng.normal(size=(n, 40)), 0.0)


@pytest.mark.parametrize(("n", "sparse"), [(1500, True), (500, False)])
def test_the_arithmetic_follows_the_data_not_their_container(n: int, sparse: bool) -> None:
    X = mostly_zeros(n)
    kinds = [type(suitable(RBF(gamma=0.1), make_samples(container))) for container in (X, sp.csr_array(X))]
    assert kinds == ([CsrSamples, CsrSamples] if sparse else [DenseSamples, CsrSamples])
    assert type(suitable(Laplacian(gamma=0.1), make_samples(X))) is DenseSamples  # there is no sparse Manhattan distance
    assert type(suitable(RBF(gamma=0.1), make_samples(X + 1.0))) is DenseSamples


def test_a_machine_of_mostly_zeros_is_the_same_in_either_container() -> None:
    X = mostly_zeros(2600)
    y = np.sign(X[:, 0] + X[:, 1] + 0.1)
    dense, sparse = (SVC(gamma=0.1).fit(container, y[:1500]) for container in (X[:1500], sp.csr_array(X[:1500])))
    np.testing.assert_allclose(dense.decision_function(X[1500:]), sparse.decision_function(sp.csr_array(X[1500:])), atol=2e-3)
    assert dense.certificate_.dual == pytest.approx(sparse.certificate_.dual, rel=1e-3)
    assert not sp.issparse(dense.support_vectors_)


def usual_values(n: int, dtype: str, offset: float) -> NDArray[np.floating]:
    """Standardised 0/1 columns of different frequencies, all moved by an offset: no entry is zero, and most are the usual one."""
    rng = np.random.default_rng(0)
    X = (rng.random((n, 40)) < np.geomspace(0.002, 0.4, 40)).astype(np.float64)
    return ((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9) + offset).astype(dtype)


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", [RBF(gamma=0.02), make_kernel("exponential", gamma=0.1)], ids=str)
def test_sums_of_samples_that_were_moved(kernel: Any, dtype: str, offset: float) -> None:
    """They are those of the samples themselves, to the error that is told."""
    X = usual_values(1500, dtype, offset)
    gram = native.gram(kernel, make_samples(X), np.dtype(np.float32), 0, (0, len(X)))
    assert isinstance(gram.samples, CsrSamples)
    rows, at = np.arange(0, 1500, 3, dtype=np.int32), np.arange(7, 1500, 50, dtype=np.int32)
    weights = np.random.default_rng(1).normal(size=(1, len(rows)))
    wide = X.astype(np.longdouble)
    squares = np.stack([((wide[rows] - x) ** 2).sum(axis=1) for x in wide[at]])
    powers = squares if kernel.name == "rbf" else np.sqrt(squares)
    expected = np.exp(-np.longdouble(kernel.gamma) * powers) @ weights[0].astype(np.longdouble)
    sums, error, _ = gram.exact_sums(rows, weights, at)
    off = np.abs(sums[0] - expected).astype(float)
    assert (off <= np.broadcast_to(error, sums.shape)[0]).all()
    assert off.max() <= 1e-11
    approximate = np.zeros((1, len(X)))
    gram.accumulate(rows, weights, approximate)
    np.testing.assert_allclose(approximate[0, at], sums[0], atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_machine_of_mostly_usual_values(dtype: str) -> None:
    """It is that of the 0/1 columns without offset, for queries that are moved with the support vectors too."""
    X = usual_values(3500, dtype, 2.0)
    y = np.sign(X[:, 30:].sum(axis=1) - 20.0 + np.random.default_rng(2).normal(size=3500))
    model = SVC(gamma=0.3).fit(X[:2000], y[:2000])
    assert model.status_.converged
    assert len(model.support_) > 1024
    expected = oracle.kernel_matrix("rbf", X[2000:], model.support_vectors_, gamma=0.3) @ model.dual_coef_[0]
    found = model.decision_function(X[2000:])
    np.testing.assert_allclose(found, expected + model.intercept_[0], atol=1e-3 if dtype == "float32" else 1e-10)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    for kernel in (RBF(gamma=0.1), Laplacian(gamma=0.1), make_kernel("poly")):
        moves = isinstance(suitable(kernel, make_samples(X), may_move=True), CsrSamples)
        assert moves == (kernel.name == "rbf")
    assert type(suitable(RBF(gamma=0.1), make_samples(X))) is DenseSamples


@pytest.mark.parametrize("machine", [SVC(gamma=0.1), SVC(kernel="linear"), LinearSVC(), LinearSVC(penalty="l1")], ids=str)
def test_arrays_of_sparse_rows_that_are_not_contiguous(machine: Any) -> None:
    """No value is rounded to float32 on the way into the compiled code, whatever the layout of its array."""
    X = sp.csr_array(mostly_zeros(400))
    y = np.sign(X.sum(axis=1) + 0.1)
    plain = clone(machine).fit(X, y)
    apart = sp.csr_array(X.shape)
    apart.indptr = X.indptr.astype(np.int64)
    apart.indices, apart.data = np.repeat(X.indices, 2)[::2], np.repeat(X.data, 2)[::2]
    assert clone(machine).fit(apart, y).certificate_.dual == plain.certificate_.dual


def test_values_of_another_type_are_refused() -> None:
    X = np.ones((3, 2), dtype=np.float16)
    with pytest.raises(TypeError):
        _native.LinearRows.from_dense(X)
    with pytest.raises(TypeError):
        _native.Samples64.from_dense(X, np.empty(0), None)
