"""The backend of cards. Where there is a card it is tested; elsewhere the same outer loop runs on torch's CPU device, with kernel
values by `plain` and tiles solved on the host."""

# ruff: noqa: E402 (what follows needs torch, which may be missing)

from __future__ import annotations

import os
import signal
import sys
import threading
import weakref
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

torch = pytest.importorskip("torch")

import maxmargin.backends as backends
from maxmargin import SVC, SVCCV, SVR, KernelRegressor, NuSVC, NuSVR, OneClassSVM
from maxmargin.backends import Limit, Part, ReferenceBackend, SamplesLostError, TileResult
from maxmargin.backends.cuda import backend as module
from maxmargin.backends.cuda.backend import DeviceBackend
from maxmargin.backends.cuda.gram import SplitTile, Stored
from maxmargin.backends.cuda.packing import pack
from maxmargin.backends.cuda.plain import PlainEngine, PlainSolver
from maxmargin.backends.cuda.point import EXTREMES
from maxmargin.backends.cuda.rows import DeviceRows
from maxmargin.backends.cuda.several import SeveralBackend
from maxmargin.backends.cuda.solver import Vectors
from maxmargin.backends.cuda.streaming import Streamed
from maxmargin.formulations import DualProblem
from maxmargin.gram import BlockGram, DoubledGram
from maxmargin.kernels import RBF, Exponential, Laplacian, Linear, Matern32, Polynomial, Sigmoid
from maxmargin.samples import DenseSamples, make_samples
from maxmargin.solution import Status
from maxmargin.training import shares_of_work

HAS_CARD = torch.cuda.is_available()
needs_card = pytest.mark.skipif(not HAS_CARD, reason="no card")
KERNELS = [
    Linear(),
    Polynomial(degree=3, gamma=0.2, coef0=1.0),
    Polynomial(degree=2.5, gamma=0.01, coef0=9.0),
    Sigmoid(gamma=0.05),
    RBF(gamma=0.1),
    Exponential(gamma=0.3),
    Matern32(gamma=0.3),
    Laplacian(gamma=0.1),
]
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def make_device_backend() -> DeviceBackend:
    return module.make_cuda_backend() if HAS_CARD else DeviceBackend(PlainEngine(torch.device("cpu")))


@pytest.fixture(autouse=True)
def on_some_device(monkeypatch):
    """Run backend="cuda" on the CPU device where there is no card."""
    monkeypatch.setitem(backends.BACKENDS, "cuda", make_device_backend)


def make_data(n: int, d: int = 5, n_classes: int = 2, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    target = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    return X, np.digitize(target, np.quantile(target, np.arange(1, n_classes) / n_classes)), target


# --- kernel values and sums -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel.name}-{getattr(kernel, 'degree', '')}")
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize(("n", "q", "d"), [(130, 70, 3), (33, 300, 40)])
def test_values_and_sums_are_those_of_the_kernel(kernel, dtype, n, q, d):
    rng = np.random.default_rng(1)
    A, B, weights = rng.normal(size=(n, d)), rng.normal(size=(q, d)), rng.normal(size=(5, n))
    engine = make_device_backend()._engine
    kind = torch.float32 if dtype == FLOAT32 else torch.float64
    first, second = (pack(torch.tensor(some, device=engine.device), kind, None) for some in (A, B))
    exact, unit = kernel.exact_block(B, A), 1e-5 if dtype == FLOAT32 else 1e-13
    values = engine.values(kernel, second, first)
    assert torch.isfinite(values).all()
    np.testing.assert_allclose(values[:, :n].cpu().numpy(), exact, atol=unit * np.abs(exact).max())
    among_themselves, expected = engine.values(kernel, first, first)[:, :n].cpu().numpy(), kernel.exact_block(A, A)
    np.testing.assert_allclose(among_themselves, expected, atol=unit * np.abs(expected).max())
    for rows in (weights, weights[:1]):
        sums = engine.sums(kernel, second, first, torch.tensor(rows, device=engine.device)).cpu().numpy()
        np.testing.assert_allclose(sums, rows @ exact.T, atol=unit * float((np.abs(rows) @ np.abs(exact).T).max()))


@pytest.mark.parametrize("kernel", [RBF(gamma=0.1), Polynomial(gamma=0.1, coef0=1.0), Linear()], ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("doubled", [False, True])
def test_the_matrix_is_that_of_the_host(kernel, doubled):
    X, *_ = make_data(200)
    samples, segments = DenseSamples(X), (0, 120, 200)
    matrices = [
        make_device_backend().gram(kernel, samples, FLOAT64, 0, segments),
        BlockGram(kernel, samples, 0, segments),
    ]
    rng = np.random.default_rng(2)
    for part in (
        lambda gram: gram,
        lambda gram: gram.restrict((1,)),
        lambda gram: gram.subset(np.arange(7, 90, 3, dtype=np.int32)),
    ):
        device, host = (DoubledGram(part(gram)) if doubled else part(gram) for gram in matrices)
        assert len(device) == len(host)
        rows, at = rng.choice(len(host), 9).astype(np.int32), rng.choice(len(host), 11).astype(np.int32)
        weights = rng.normal(size=(2, 9))
        np.testing.assert_allclose(device.block(rows, at), host.block(rows, at), rtol=1e-12)
        np.testing.assert_allclose(device.diagonal(), host.diagonal(), rtol=1e-12)
        sums = [np.zeros((2, len(host))) for _ in range(2)]
        for gram, out in zip((device, host), sums, strict=True):
            gram.accumulate(rows, weights, out)
        np.testing.assert_allclose(*sums, atol=1e-10)
        exact, expected = device.exact_sums(rows, weights, at), host.exact_sums(rows, weights, at)
        assert (np.abs(exact.values - expected.values) <= exact.error + expected.error).all()
        assert np.max(exact.error) < 1e-10


# --- the point --------------------------------------------------------------------------------------------------------


def make_problems(n: int) -> dict[str, DualProblem]:
    side = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    lower, upper = np.where(side > 0, 0.0, -1.0), np.where(side > 0, 1.0, 0.0)
    lower[5] = upper[5] = 0.0  # a sample without weight
    without_end = DualProblem(-side, np.where(side > 0, 0.0, -np.inf), np.where(side > 0, np.inf, 0.0))
    return {
        "hinge": DualProblem(-side, lower, upper),
        "no intercept": DualProblem(-side, lower, upper, coupled=False),
        "squared hinge": DualProblem(-side, without_end.lower, without_end.upper, shift=np.full(n, 0.3)),
        "rounded hinge": DualProblem(-side, lower, upper, shift=np.full(n, 0.3)),
        "two groups": DualProblem(np.zeros(n), np.zeros(n), np.ones(n), split=n // 3),
        "hard margin": without_end,
    }


@pytest.mark.parametrize("name", make_problems(60))
def test_a_point_answers_as_that_of_the_host(name):
    X, *_ = make_data(60)
    problem, samples, kernel = make_problems(60)[name], DenseSamples(X), RBF(gamma=0.2)
    rng = np.random.default_rng(3)
    finite_lower, finite_upper = np.maximum(problem.lower, -2.0), np.minimum(problem.upper, 2.0)
    beta = rng.uniform(finite_lower, finite_upper)
    beta[::4], beta[1::4] = problem.lower[::4], problem.upper[1::4]
    beta[~np.isfinite(beta)] = 0.5
    beta = np.clip(beta, problem.lower, problem.upper)
    device, reference = make_device_backend(), ReferenceBackend()
    points = [
        backend.place(problem, backend.gram(kernel, samples, FLOAT64, 0, (0, 60)), np.zeros(60), problem.linear.copy())
        for backend in (device, reference)
    ]
    everything = np.arange(60, dtype=np.int32)
    for point in points:
        assert point.move(everything, beta)
        assert not point.move(everything[:9], beta[:9])
    here, there = points
    measured = [point.measure() for point in points]
    assert measured[0].n_free == measured[1].n_free
    np.testing.assert_allclose(measured[0].value, measured[1].value, rtol=1e-10)
    np.testing.assert_allclose(measured[0].levels, measured[1].levels, rtol=1e-10)
    np.testing.assert_allclose(here.gap(measured[0]), there.gap(measured[1]), rtol=1e-9)
    np.testing.assert_allclose(here.sums(), there.sums(), rtol=1e-10)
    np.testing.assert_allclose(here.exact(everything), there.exact(everything), atol=1e-12)
    np.testing.assert_array_equal(here.band(everything[:3], measured[0], 0.3), there.band(everything[:3], measured[1], 0.3))
    for size, share in ((60, 0.2), (60, 100.0)):
        chosen = [point.choose(one, 0.1, size, share, 0) for point, one in zip(points, measured, strict=True)]
        assert chosen[0][1]
        assert chosen[1][1]
        np.testing.assert_array_equal(chosen[0][0], chosen[1][0])
    some, complete = here.choose(measured[0], 0.1, 12, 0.0, 0)
    assert not complete
    assert 8 <= len(some) <= 16
    assert np.isin(some, everything).all()
    pools = [point.pool(everything[10:40], point.take(everything[10:40]), False) for point in points]
    np.testing.assert_allclose(pools[0].collect().gradient, pools[1].collect().gradient, atol=1e-12)
    here.correct(everything[:2], np.array([7.0, 8.0]))
    assert here.take(everything[:3]).gradient[:2].tolist() == [7.0, 8.0]
    np.testing.assert_allclose(here.in_float64().collect().gradient, there.in_float64().collect().gradient, atol=1e-12)


# --- tiles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hinge", "no intercept", "squared hinge", "rounded hinge", "two groups"])
@pytest.mark.parametrize("n", [2, 60, 1500, pytest.param(2500, marks=needs_card)])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_a_tile_is_solved_on_the_device(name, n, dtype, monkeypatch):
    monkeypatch.setattr("maxmargin.backends.cuda.solver.MOST_ON_HOST", 0)
    X, *_ = make_data(n)
    problem = make_problems(n)[name] if n > 5 else DualProblem(np.array([-1.0, 1.0]), np.array([0.0, -1.0]), np.array([1.0, 0.0]))
    gram = make_device_backend().gram(RBF(gamma=0.2), DenseSamples(X), dtype, 0, (0, n))
    beta = 0.5 * np.minimum(problem.upper, 1.0) if name == "two groups" and n > 5 else np.zeros(n)
    everything = np.arange(n, dtype=np.int32)
    tile = gram.tile(everything, problem.shift)
    gradient = problem.linear.copy()
    gram.accumulate(everything, beta[None], gradient[None])
    part = Part(problem, beta.copy(), gradient)
    result = make_device_backend().inner.solve(tile, part, 1e-4, Limit(300_000))
    assert result.violation <= 1e-4
    assert (problem.lower <= part.beta).all()
    assert (part.beta <= problem.upper).all()
    for group in problem.groups:
        assert abs(part.beta[group].sum() - beta[group].sum()) < 1e-9
    again = part.beta @ gram.block(everything, everything).astype(np.float64) + problem.linear
    again += 0.0 if problem.shift is None else problem.shift * part.beta
    assert problem.violation(part.beta, again) <= (2e-4 if dtype == FLOAT32 else 1.001e-4)


@pytest.mark.parametrize("name", ["hinge", "no intercept", "two groups"])
@pytest.mark.parametrize("n", [900, 1500, *(pytest.param(n, marks=needs_card) for n in (3000, 6000, 12_000, 20_000))])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_a_few_steps_keep_gradient_and_sums(name, n, dtype):
    """For each shape of a cluster. So few steps that tools that watch every access to memory can follow (`make sanitize-gpu`)."""
    problem, gram = (
        make_problems(n)[name],
        make_device_backend().gram(RBF(gamma=0.2), DenseSamples(make_data(n)[0]), dtype, 0, (0, n)),
    )
    beta = 0.5 * np.minimum(problem.upper, 1.0) if name == "two groups" else np.zeros(n)
    everything = np.arange(n, dtype=np.int32)
    gradient = problem.linear.copy()
    gram.accumulate(everything, beta[None], gradient[None])
    part, solver = Part(problem, beta.copy(), gradient), make_device_backend().inner
    vectors = Vectors.of(part, gram.device)
    (result,) = solver._steps([gram.tile(everything)], vectors, len(problem.groups), problem.split, 1e-9, Limit(40))
    vectors.fetch(part)
    assert result.steps == 40
    moved = (part.beta != beta).nonzero()[0].astype(np.int32)
    assert 0 < len(moved) <= 80
    gram.accumulate(moved, (part.beta - beta)[None, moved], gradient[None])
    np.testing.assert_allclose(part.gradient, gradient, atol=2e-5 if dtype == FLOAT32 else 1e-12)
    for group in problem.groups:
        assert abs(part.beta[group].sum() - beta[group].sum()) < 1e-9


def test_the_last_steps_are_made_over_few_variables(monkeypatch):
    n, sizes = 3000, []
    gram = make_device_backend().gram(RBF(gamma=0.2), DenseSamples(make_data(n)[0]), FLOAT32, 0, (0, n))
    solver, problem = make_device_backend().inner, make_problems(n)["hinge"]
    monkeypatch.setattr("maxmargin.backends.cuda.solver.MOST_ON_HOST", 0)
    minimise = solver._minimise
    monkeypatch.setattr(solver, "_minimise", lambda tile, *told: sizes.append(len(tile)) or minimise(tile, *told))
    part = Part(problem, np.zeros(n), problem.linear.copy())
    solver.solve(gram.tile(np.arange(n, dtype=np.int32)), part, 1e-3, Limit(300_000))
    assert sizes[0] == n
    assert 0 < sizes[-1] < n / 2
    assert problem.violation(part.beta, part.gradient) <= 1e-3


def test_a_tile_whose_violation_does_not_fall_is_given_up(monkeypatch):
    n, rounds = 1500, []
    gram = make_device_backend().gram(RBF(gamma=0.2), DenseSamples(make_data(n)[0]), FLOAT32, 0, (0, n))
    solver, problem = make_device_backend().inner, make_problems(n)["hinge"]
    monkeypatch.setattr(solver, "_minimise", lambda *told: rounds.append(None) or TileResult(1, 1.0, 0.0, 0.0))  # moves nothing
    part = Part(problem, np.zeros(n), problem.linear.copy())
    result = solver.solve(gram.tile(np.arange(n, dtype=np.int32)), part, 1e-3, Limit(1_000))
    assert result.steps == len(rounds) < 10
    assert result.violation > 1e-3


def test_a_working_set_and_its_extremes_fit_into_a_cluster(monkeypatch):
    card = pytest.importorskip("maxmargin.backends.cuda.card")
    monkeypatch.setattr(card.CardSolver, "_possible_shapes", lambda _: card.CLUSTERS)
    solver = card.CardSolver(torch.device("cpu"), 1e12)
    n = 500
    gram = make_device_backend().gram(RBF(gamma=0.2), DenseSamples(make_data(n)[0]), FLOAT64, 0, (0, n))
    problem = DualProblem(np.zeros(n), np.zeros(n), np.ones(n), split=n // 3)
    point = make_device_backend().place(problem, gram, np.full(n, 0.5), np.random.default_rng(0).normal(size=n))
    chosen, complete = point.choose(point.measure(), 0.0, 100, 0.0, 0)
    assert not complete
    assert 100 < len(chosen) <= 100 + EXTREMES
    assert solver.largest_tile + EXTREMES <= card.CLUSTERS[-1].most


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_machines_side_by_side_share_one_kernel_matrix(multi_class, monkeypatch):
    monkeypatch.setattr("maxmargin.backends.cuda.solver.MOST_ON_HOST", 0)
    features, labels, _ = make_data(2400, n_classes=4)
    sizes = []
    backend = make_device_backend()
    values = backend._engine.values

    def recorded(kernel, first, second):
        sizes.extend([first.n] if first is second else [])
        return values(kernel, first, second)

    monkeypatch.setattr(backend._engine, "values", recorded)
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: backend)
    here, there = (SVC(multi_class=multi_class, backend=name).fit(features, labels) for name in ("cuda", "native"))
    assert here.status_.converged
    assert sizes == [2400]
    for one, other in zip(here.certificate_.parts, there.certificate_.parts, strict=True):
        rounding = one.value_error + other.value_error  # of the values; that of the gaps is in the gaps
        assert abs(one.dual - other.dual) <= one.gap + other.gap + rounding


# --- machines ---------------------------------------------------------------------------------------------------------

X, y, target = make_data(700)
_, of_four, _ = make_data(700, n_classes=4)
MACHINES = {
    "rbf": (SVC(), y),
    "large C": (SVC(C=1000.0), y),
    "linear": (SVC(kernel="linear"), y),
    "polynomial": (SVC(kernel="poly", coef0=1.0), y),
    "laplacian": (SVC(kernel="laplacian"), y),
    "exponential": (SVC(kernel="exponential"), y),
    "squared hinge": (SVC(loss="squared_hinge"), y),
    "hard margin": (SVC(C=np.inf, gamma=9.0), y),
    "no intercept": (SVC(fit_intercept=False), y),
    "one against one": (SVC(decision_function_shape="ovo"), of_four),
    "one against the rest": (SVC(multi_class="ovr"), of_four),
    "all classes at once": (SVC(multi_class="crammer_singer"), of_four),
    "regression": (SVR(), target),
    "nu": (NuSVC(nu=0.4), y),
    "nu regression": (NuSVR(), target),
    "one class": (OneClassSVM(nu=0.2), None),
}


@pytest.mark.parametrize("name", MACHINES)
def test_machines_reach_the_optimum_of_the_host(name):
    machine, targets = MACHINES[name]
    there, here = (clone(machine).set_params(gap_tol=1e-6, backend=backend).fit(X, targets) for backend in ("native", "cuda"))
    proof, expected = here.certificate_, there.certificate_
    assert here.status_.converged
    assert proof.meets(machine.tol, 1e-6)
    assert abs(proof.dual - expected.dual) <= 2.1e-6 * abs(expected.primal)
    answer = "predict" if isinstance(machine, SVR | NuSVR) else "decision_function"
    on_device = getattr(here, answer)(X)
    np.testing.assert_allclose(on_device, getattr(here.set_params(backend="native"), answer)(X), atol=1e-9)


def test_large_problems_end_in_float32_with_an_exact_gradient():
    features, labels, _ = make_data(5000, seed=1)
    there, here = (SVC(C=10.0, backend=name).fit(features.astype(np.float32), labels) for name in ("native", "cuda"))
    assert here.status_.converged
    assert here.arithmetic_ == "float32 kernel"
    assert abs(here.certificate_.dual - there.certificate_.dual) <= here.certificate_.gap + there.certificate_.gap
    assert (here.predict(features) == there.predict(features)).mean() > 0.998


@pytest.mark.parametrize(
    "machine", [SVC(kernel="precomputed"), SVC(kernel="precomputed", C=np.inf)], ids=["hinge", "hard margin"]
)
def test_precomputed_matrices(machine):
    K = RBF(gamma=2.0).block(X, X)
    there, here = (clone(machine).set_params(backend=name).fit(K[:600, :600], of_four[:600]) for name in ("native", "cuda"))
    assert here.status_.converged
    np.testing.assert_allclose(here.certificate_.dual, there.certificate_.dual, rtol=1e-3)
    np.testing.assert_allclose(here.decision_function(K[600:, :600]), there.decision_function(K[600:, :600]), atol=0.02)


@pytest.mark.parametrize("d", [9, 12, 13])
def test_few_large_features_keep_their_digits(d):
    """Their squared distances come from differences, whatever number of features a table is padded to; those of more features
    are answered in float64 where dot products lose too many digits."""
    rng = np.random.default_rng(d)
    features = (200.0 * rng.random((60, d))).astype(np.float32)
    features[30:] = features[:30] + rng.normal(size=(30, d)).astype(np.float32)
    model = SVR(C=10.0, gamma=0.1, backend="cuda").fit(features, rng.normal(size=60))
    K = RBF(gamma=0.1).exact_block(features.astype(np.float64), model.support_vectors_.astype(np.float64))
    np.testing.assert_allclose(model.predict(features), K @ model.dual_coef_[0] + model.intercept_, atol=2e-4)


def test_sparse_samples_become_dense_rows():
    features = np.where(np.abs(X) < 1.0, 0.0, X)
    dense, sparse = (SVC(backend="cuda").fit(some, y) for some in (features, sp.csr_array(features)))
    np.testing.assert_allclose(dense.certificate_.dual, sparse.certificate_.dual, rtol=1e-6)
    np.testing.assert_allclose(dense.decision_function(features), sparse.decision_function(sp.csr_array(features)), atol=1e-4)


@pytest.mark.parametrize("solver", ["dual-ascent", "qp", "lbfgs"])
def test_other_solvers_use_the_matrix_on_the_device(solver):
    if solver == "qp":
        pytest.importorskip("clarabel")
    machine = SVC(kernel="linear", loss="squared_hinge", solver=solver, C=0.1)
    there, here = (machine.set_params(backend=name).fit(X[:80], y[:80]).certificate_.primal for name in ("native", "cuda"))
    np.testing.assert_allclose(here, there, rtol=1e-3)


def test_kernel_regression():
    there, here = (KernelRegressor(backend=name).fit(X, target).predict(X) for name in ("native", "cuda"))
    np.testing.assert_allclose(here, there, atol=1e-5)


@pytest.mark.parametrize("targets", [y, of_four], ids=["two classes", "four classes"])
def test_grids(targets):
    there, here = (
        SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], cv=3, backend=name).fit(X, targets) for name in ("native", "cuda")
    )
    np.testing.assert_allclose(here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"], atol=0.003)
    assert max(here.cv_results_[f"split{k}_relative_gap"].max() for k in range(3)) < 1e-3


def test_support_vectors_stay_on_the_device(monkeypatch):
    model, other = (SVC(gamma=gamma, backend="cuda").fit(X, y) for gamma in (0.1, 1.0))
    module._RESIDENTS.clear()
    packed = []
    monkeypatch.setattr("maxmargin.backends.cuda.streaming.pack", lambda *told: packed.append(None) or pack(*told))
    first = model.decision_function(X)
    other.decision_function(X)
    assert len(packed) == 4  # support vectors and queries of two models
    np.testing.assert_array_equal(model.decision_function(X), first)
    assert len(packed) == 5
    del model, other
    assert not module._RESIDENTS


# --- samples that are too many for the memory -------------------------------------------------------------------------


def make_small_backend(budget: float) -> DeviceBackend:
    """A backend with little memory for samples."""
    backend = make_device_backend()
    backend._engine.budget = budget
    return backend


@pytest.fixture
def parts(monkeypatch):
    """Run backend="cuda" with 40 kB for samples, and count the parts of them that are sent to the device."""
    sent = []
    backend = make_small_backend(40_000)
    carried = backend._engine.carried

    def counted(chunks):
        for rows in carried(chunks):
            sent.append(len(rows))
            yield rows

    monkeypatch.setattr(backend._engine, "carried", counted)
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: backend)
    return sent


def as_given(features):
    return features


@pytest.mark.parametrize("container", [as_given, sp.csr_array, torch.tensor], ids=["dense", "CSR", "on the device"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("kernel", [RBF(gamma=0.1), Polynomial(gamma=0.1, coef0=1.0)], ids=lambda kernel: kernel.name)
def test_sums_in_parts_are_those_of_the_whole(container, dtype, kernel):
    features, *_ = make_data(900, d=20)
    rows = container(features)
    samples = DeviceRows(rows).as_samples() if isinstance(rows, torch.Tensor) else make_samples(rows)
    samples = samples.take(np.random.default_rng(5).permutation(900)[:800])
    whole, streamed = (
        backend.gram(kernel, samples, dtype, 0, (0, 800)) for backend in (make_device_backend(), make_small_backend(200_000))
    )
    everything, some = np.arange(800, dtype=np.int32), np.arange(3, 800, 2, dtype=np.int32)
    weights = np.random.default_rng(6).normal(size=(2, 800))
    unit = 1e-6 if dtype == FLOAT32 else 1e-14
    for one, other in ((whole, streamed), (whole.subset(some), streamed.subset(some))):
        n = len(one)
        sums = [np.zeros((2, n)) for _ in range(2)]
        for gram, out in zip((one, other), sums, strict=True):
            gram.accumulate(everything[:n], weights[:, :n], out)
        np.testing.assert_allclose(*sums, atol=unit * np.abs(weights).sum() * one.diagonal().max())
        np.testing.assert_array_equal(other.block(some[:9], some[:5]), one.block(some[:9], some[:5]))
        exact, expected = (gram.exact_sums(everything[:n], weights[:, :n], everything[:n]) for gram in (other, one))
        assert (np.abs(exact.values - expected.values) <= exact.error + expected.error).all()
    assert isinstance(streamed._training_set._table(torch.float64), Streamed)
    assert not isinstance(whole._training_set._table(torch.float64), Streamed)


STREAMED = ("rbf", "polynomial", "squared hinge", "one against one", "all classes at once", "regression", "nu", "one class")


@pytest.mark.parametrize("name", STREAMED)
def test_machines_of_streamed_samples_reach_the_same_optimum(name, parts):
    machine, targets = MACHINES[name]
    there, here = (clone(machine).set_params(gap_tol=1e-6, backend=backend).fit(X, targets) for backend in ("native", "cuda"))
    assert max(parts) <= 128 < len(X)
    assert len(parts) > 5
    proof, expected = here.certificate_, there.certificate_
    assert here.status_.converged
    assert proof.meets(machine.tol, 1e-6)
    assert abs(proof.dual - expected.dual) <= 2.1e-6 * abs(expected.primal)
    parts.clear()
    answer = "predict" if isinstance(machine, SVR) else "decision_function"
    on_device = getattr(here, answer)(X)
    assert max(parts) <= 128
    np.testing.assert_allclose(on_device, getattr(here.set_params(backend="native"), answer)(X), atol=1e-9)


def test_large_problems_of_streamed_samples_end_in_float32(parts):
    features, labels, _ = make_data(5000, seed=1)
    there, here = (SVC(C=10.0, backend=name).fit(features.astype(np.float32), labels) for name in ("native", "cuda"))
    assert here.status_.converged
    assert here.arithmetic_ == "float32 kernel"
    assert max(parts) <= 128
    assert abs(here.certificate_.dual - there.certificate_.dual) <= here.certificate_.gap + there.certificate_.gap


def test_many_rows_stay_on_the_host_if_they_do_not_fit(parts, monkeypatch):
    monkeypatch.setattr("maxmargin.estimators.arrays.LARGE", 1)
    monkeypatch.setattr(DeviceRows, "__init__", lambda *_: pytest.fail("all rows were sent to the device"))
    assert SVC(backend="cuda").fit(X, y).status_.converged
    assert parts


def test_samples_are_streamed_if_memory_runs_out(monkeypatch):
    """Another process may take what was free when the budget was made."""
    expected = SVC(gap_tol=1e-6, backend="cuda").fit(X, y)
    made = []
    monkeypatch.setattr(Streamed, "take", lambda *told, take=Streamed.take: made.append(None) or take(*told))
    monkeypatch.setattr("maxmargin.backends.cuda.gram.pack", fail_for_memory)
    model = SVC(gap_tol=1e-6, backend="cuda").fit(X, y)
    assert made
    assert model.status_.converged
    assert abs(model.certificate_.dual - expected.certificate_.dual) <= 2.1e-6 * expected.certificate_.primal


@pytest.mark.parametrize("budget", [40_000, np.inf], ids=["on the host", "on the device"])
def test_precomputed_matrices_that_are_too_large(budget, monkeypatch):
    """For the device, or for one tile."""
    backend = make_small_backend(budget)
    monkeypatch.setattr(backend.inner, "largest_tile", 256)
    monkeypatch.setattr(backend.inner, "tile", 128)
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: backend)
    K, sizes = RBF(gamma=2.0).block(X, X), []
    solve = backend.inner.solve
    monkeypatch.setattr(backend.inner, "solve", lambda tile, *told: sizes.append(len(tile)) or solve(tile, *told))
    if budget < np.inf:
        monkeypatch.setattr(Stored, "_matrix", property(lambda _: pytest.fail("the matrix was copied to the device")))
    there, here = (SVC(kernel="precomputed", gap_tol=1e-6, backend=name).fit(K, y) for name in ("native", "cuda"))
    assert here.status_.converged
    assert 0 < max(sizes) <= 256 + EXTREMES
    assert abs(here.certificate_.dual - there.certificate_.dual) <= 2.1e-6 * there.certificate_.primal
    np.testing.assert_allclose(here.decision_function(K), there.decision_function(K), atol=0.01)


class LittleMemory:
    """Let kernel matrices on a device have so many entries together, and no more."""

    def __init__(self, engine, most: int) -> None:
        self.most, self.failures, self.sizes, self._values, self._live = most, 0, [], engine.values, []
        engine.values = self

    def __call__(self, kernel, first, second):
        self._live = [one for one in self._live if one() is not None]
        if sum(one().numel() for one in self._live) + first.n * second.n > self.most:
            self.failures += 1
            raise torch.OutOfMemoryError("no memory")
        K = self._values(kernel, first, second)
        self._live.append(weakref.ref(K))
        self.sizes.append(first.n)
        return K


@pytest.fixture
def little_memory(monkeypatch):
    """Run backend="cuda" with memory for kernel matrices of 200 variables; host and device are told apart at 100 of them."""
    for name in ("solver.MOST_ON_HOST", "gram.LEAST_TILE"):
        monkeypatch.setattr(f"maxmargin.backends.cuda.{name}", 100)
    monkeypatch.setattr("maxmargin.backends.cuda.plain.QUERIES_AT_ONCE", 16)
    backend = make_device_backend()
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: backend)
    memory = LittleMemory(backend._engine, 256 * 200)
    memory.backend = backend
    return memory


@pytest.mark.parametrize("name", [*STREAMED, "large C", "one against the rest", "no intercept"])
def test_working_sets_are_smaller_if_memory_runs_out(name, little_memory):
    machine, targets = MACHINES[name]
    there, here = (clone(machine).set_params(gap_tol=1e-6, backend=backend).fit(X, targets) for backend in ("native", "cuda"))
    assert little_memory.failures
    assert max(little_memory.sizes) <= 225
    proof, expected = here.certificate_, there.certificate_
    assert here.status_.converged
    assert proof.meets(machine.tol, 1e-6)
    assert abs(proof.dual - expected.dual) <= 2.1e-6 * abs(expected.primal)


@pytest.mark.parametrize("kind", ["one against one", "doubled"])
def test_as_many_machines_side_by_side_as_fit(kind, little_memory, monkeypatch):
    """Two of four machines fit at a time, though the budget promises more; or none of two does."""
    steps, together = little_memory.backend.inner._steps, []
    monkeypatch.setattr(
        little_memory.backend.inner, "_steps", lambda tiles, *told: together.append(len(tiles)) or steps(tiles, *told)
    )
    little_memory.most = 256 * 350 if kind == "one against one" else 256 * 150
    if kind == "doubled":
        grams = [DoubledGram(little_memory.backend.gram(RBF(gamma=0.2), DenseSamples(X[:90]), FLOAT64, 0, (0, 90)))] * 2
    else:
        gram = little_memory.backend.gram(RBF(gamma=0.2), DenseSamples(X), FLOAT64, 0, (0, 175, 350, 525, 700))
        grams = [gram.restrict((number,)) for number in range(4)]
    problems = [make_problems(len(gram))["squared hinge" if kind == "doubled" else "hinge"] for gram in grams]
    joined = DualProblem.join(problems)
    part = Part(joined, np.zeros(len(joined)), joined.linear.copy())
    ends = np.cumsum([len(gram) for gram in grams]).tolist()
    results = little_memory.backend.inner.solve_each(grams, part, ends, 1e-4, 1e-4, Limit(300_000))
    assert little_memory.failures
    assert len(results) == len(grams)
    if kind == "one against one":
        assert together == [2, 2]
    for gram, problem, start, end, result in zip(grams, problems, [0, *ends], ends, results, strict=False):
        everything = np.arange(len(gram), dtype=np.int32)
        beta = part.beta[start:end]
        little_memory.most = 10**9
        again = beta @ gram.block(everything, everything) + problem.linear
        again += 0.0 if problem.shift is None else problem.shift * beta
        assert result.violation <= 1e-4
        assert problem.violation(beta, again) <= 1.01e-4


def test_a_split_tile_is_the_tile():
    shift = np.linspace(0.1, 0.5, 50)
    gram = make_device_backend().gram(RBF(gamma=0.2), DenseSamples(X), FLOAT64, 0, (0, len(X)))
    members = np.arange(7, 57, dtype=np.int32)
    tile, split = gram.whole_tile(members, shift), SplitTile(gram.subset(members), shift)
    np.testing.assert_allclose(split.to_array(), tile.to_array(), rtol=1e-12)
    some = np.arange(3, 40, 5, dtype=np.int32)
    np.testing.assert_allclose(split.part(some).to_array(), tile.part(some).to_array(), rtol=1e-12)
    rows, weights = torch.tensor(some, device=gram.device), torch.ones(2, len(some), dtype=torch.float64, device=gram.device)
    np.testing.assert_allclose(split.sums(rows, weights).cpu(), tile.sums(rows, weights).cpu(), rtol=1e-12)


def test_no_room_for_the_least_tile(little_memory):
    little_memory.most = 256 * 20
    with pytest.raises(MemoryError, match=r"do not fit into the memory of .*; use backend='auto'"):
        SVC(backend="cuda").fit(X, y)


@pytest.mark.parametrize(("fraction", "free"), [(1.0, 700.0), (0.5, 300.0), (0.1, 0.0)])
def test_the_budget_is_what_torch_may_still_take(fraction, free, monkeypatch):
    """Of 1000 bytes 600 are free, and torch has 300, of which it uses 200."""
    card = pytest.importorskip("maxmargin.backends.cuda.card")
    stats = {"reserved_bytes.all.current": 300, "allocated_bytes.all.current": 200}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (600, 1000))
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda _: stats)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _: fraction)
    assert card.free_memory(torch.device("cpu")) == free


def test_chunks_travel_one_ahead(monkeypatch):
    """The engine of a card, with stand-ins for the streams: a chunk is handed out when it has arrived, and a copy begins only
    when the work on the chunk two before it has ended."""
    card = pytest.importorskip("maxmargin.backends.cuda.card")
    log = []

    class Event:
        def __init__(self, what):
            self.what = what

        def synchronize(self):
            log.append(("host waits", self.what))

    class Stream:
        def __init__(self, *_):
            self.n = 0

        def record_event(self):
            self.n += 1
            return Event(self.n)

        def wait_event(self, event):
            log.append(("work waits for copy", event.what))

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda rows: rows)
    monkeypatch.setattr(torch.Tensor, "to", lambda rows, *_, non_blocking: log.append(("copy", int(rows[0]))) or rows)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda *_: None)
    engine = object.__new__(card.CardEngine)
    engine.device = torch.device("cpu")
    chunks = [np.array([number]) for number in range(1, 5)]
    for rows in engine.carried(chunks):
        log.append(("work", int(rows[0])))
    assert [what for what in log if what[0] == "work"] == [("work", number) for number in range(1, 5)]
    for number in range(1, 5):
        assert log.index(("copy", number)) < log.index(("work waits for copy", number)) < log.index(("work", number))
    for number in range(1, 4):  # one ahead
        assert log.index(("copy", number + 1)) < log.index(("work", number))
    for number in range(1, 3):
        assert log.index(("work", number)) < log.index(("host waits", number)) < log.index(("copy", number + 2))


# --- several devices --------------------------------------------------------------------------------------------------


class Counting(PlainEngine):
    """A device that counts its kernel sums and the rows of its kernel matrices."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.n_sums, self.n_rows = 0, 0

    def sums(self, *told):
        self.n_sums += 1
        return super().sums(*told)

    def values(self, kernel, first, second):
        self.n_rows += first.n
        return super().values(kernel, first, second)


@pytest.fixture
def engines(monkeypatch):
    """Two stand-ins for cards, which backend="cuda:all" uses. Products of matrices have other rounding errors with other
    numbers of threads, so torch has one."""
    two = Counting(), Counting()
    monkeypatch.setitem(backends.BACKENDS, "cuda:all", lambda: SeveralBackend(two))
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: DeviceBackend(PlainEngine(torch.device("cpu"))))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield two
    torch.set_num_threads(n_threads)


def fit_on_one_and_two(machine, *data):
    return (clone(machine).set_params(backend=name).fit(*data) for name in ("cuda", "cuda:all"))


@pytest.mark.parametrize("largest_tile", [3072, 200], ids=["side by side", "one after the other"])
@pytest.mark.parametrize("machine", [SVC(), SVC(multi_class="ovr"), SVC(loss="squared_hinge")], ids=["ovo", "ovr", "shift"])
def test_machines_are_spread_over_devices(machine, largest_tile, engines, monkeypatch):
    monkeypatch.setattr(PlainSolver, "largest_tile", largest_tile)
    monkeypatch.setattr(PlainSolver, "tile", min(largest_tile, 1536))
    one, two = fit_on_one_and_two(machine, X, of_four)
    assert all(engine.n_sums >= 2 for engine in engines)  # certificates, too
    assert two.status_.converged
    np.testing.assert_array_equal(two.dual_coef_, one.dual_coef_)
    np.testing.assert_array_equal(two.intercept_, one.intercept_)
    for here, there in zip(two.certificate_.parts, one.certificate_.parts, strict=True):
        assert (here.primal, here.dual, here.gap) == (there.primal, there.dual, there.gap)
    np.testing.assert_array_equal(two.predict(X), one.predict(X))


def test_machines_are_spread_by_their_work():
    assert shares_of_work([10, 100, 10, 20], 2) == [[1], [0, 2, 3]]
    assert shares_of_work([5, 5, 5, 5], 3) == [[0, 3], [1], [2]]
    assert shares_of_work([7], 2) == [[0]]


def test_folds_of_probabilities_are_spread_over_devices(engines):
    one, two = fit_on_one_and_two(SVC(probability="cv"), X, y)
    assert all(engine.n_rows for engine in engines)
    np.testing.assert_array_equal(two.predict_proba(X), one.predict_proba(X))


@pytest.mark.parametrize("whole", [8192, 100], ids=["matrices as a whole", "matrices in parts"])
@pytest.mark.parametrize("targets", [y, of_four], ids=["two classes", "four classes"])
def test_grids_are_spread_over_devices(whole, targets, engines, monkeypatch):
    monkeypatch.setattr("maxmargin.model_selection.grid.LARGEST_WHOLE_MATRIX", whole)
    used = [0, 0]
    for number, engine in enumerate(engines):

        def solve(*told, number=number, solve=engine.inner.solve):
            used[number] += 1
            return solve(*told)

        monkeypatch.setattr(engine.inner, "solve", solve)
    one, two = fit_on_one_and_two(SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], cv=4, refit=False), X[:400], targets[:400])
    assert min(used) > 0
    for name in ("mean_test_score", *(f"split{fold}_relative_gap" for fold in range(4))):
        np.testing.assert_array_equal(two.cv_results_[name], one.cv_results_[name])


def test_a_single_machine_and_limits_stay_on_one_device(engines):
    SVC(backend="cuda:all").fit(X, y)
    SVC(backend="cuda:all", max_seconds=100.0).fit(X, of_four)
    SVC(backend="cuda:all", max_iter=10**6).fit(X, of_four)
    assert engines[0].n_rows > 0
    assert engines[1].n_rows == 0


def test_callbacks_are_told_of_machines_on_several_devices(engines):
    seen, threads = [], set()

    def watch(progress):
        seen.append((progress.machine, progress.n_machines))
        threads.add(threading.current_thread())

    SVC(backend="cuda:all", callbacks=[watch]).fit(X, of_four)
    assert seen == [(number, 6) for number in range(6)]
    assert threads == {threading.main_thread()}


def test_an_error_of_one_device_is_raised(engines, monkeypatch):
    monkeypatch.setattr(engines[1], "values", fail_for_memory)
    with pytest.raises(MemoryError, match="do not fit into the memory of"):
        SVC(backend="cuda:all").fit(X, of_four)


def test_all_cards_are_those_that_torch_sees(monkeypatch):
    current, made = [1], []

    class On:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            current.append(self.number)

        def __exit__(self, *_):
            current.pop()

    def make():
        made.append(current[-1])
        return DeviceBackend(PlainEngine(torch.device("cpu")))

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "device", On)
    monkeypatch.setattr(module, "make_cuda_backend", make)
    assert backends.make_backend("cuda:all").n_devices == 3
    assert made == [1, 0, 2]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    current[:] = [0]
    assert backends.make_backend("cuda:all").n_devices == 1


# --- a card that fails, Ctrl-C, forks ---------------------------------------------------------------------------------


class Failing(PlainEngine):
    """A device that fails after so many calls of its kernels. From then on nothing can be read from it."""

    def __init__(self, calls: int, monkeypatch) -> None:
        super().__init__(torch.device("cpu"))
        self.calls = calls
        for name in ("cpu", "numpy", "tolist", "__getitem__", "__add__"):
            monkeypatch.setattr(torch.Tensor, name, self._dying(getattr(torch.Tensor, name)))

    def _dying(self, method):
        def called(tensor, *told):
            self._look()
            return method(tensor, *told)

        return called

    def _look(self):
        if self.calls < 0:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure\nCompile with ...")

    def values(self, *told):
        self.calls -= 1
        self._look()
        return super().values(*told)


def test_the_failing_device(monkeypatch):
    rows = torch.ones(2)
    engine = Failing(0, monkeypatch)
    rows.cpu()
    with pytest.raises(torch.AcceleratorError):
        engine.values(None, None, None)
    with pytest.raises(torch.AcceleratorError):
        rows.cpu()


@pytest.mark.parametrize("on_device", [False, True], ids=["rows of the host", "rows that were sent"])
@pytest.mark.parametrize("calls", [30, 60])
@pytest.mark.parametrize("machine", [SVC(C=10.0, gamma=1.0), SVR(C=10.0, gamma=1.0)], ids=["SVC", "SVR"])
def test_a_card_that_fails_leaves_the_model_that_was_reached(machine, calls, on_device, monkeypatch):
    monkeypatch.setattr(PlainSolver, "largest_tile", 100)
    monkeypatch.setattr(PlainSolver, "tile", 100)
    monkeypatch.setattr("maxmargin.estimators.arrays.LARGE", 1 if on_device else 10**9)
    features, labels, values = make_data(1100)
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: DeviceBackend(engine))
    with monkeypatch.context() as patched:
        engine = Failing(calls, patched)
        model = clone(machine).set_params(backend="cuda")
        with pytest.raises(SamplesLostError, match=r"cpu has failed .* \(CUDA error: unspecified launch failure\)\. The model"):
            model.fit(features, values if isinstance(machine, SVR) else labels)
    assert engine.calls < 0
    best = clone(machine).fit(features, values if isinstance(machine, SVR) else labels).certificate_
    proof = model.certificate_
    assert model.status_ is Status.SOURCE_FAILED
    assert not proof.complete
    assert 0.0 < proof.dual <= best.primal
    assert len(model.support_) > 0
    np.testing.assert_array_equal(model.support_vectors_, features[model.support_])
    model.set_params(backend="native").predict(features)


def test_a_card_that_fails_early_leaves_the_machine_that_predicts_a_constant(monkeypatch):
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: DeviceBackend(engine))
    with monkeypatch.context() as patched:
        engine = Failing(0, patched)
        model = SVC(backend="cuda")
        with pytest.raises(SamplesLostError, match="The model that was reached is kept"):
            model.fit(X, y)
    assert len(model.support_) == 0
    assert model.certificate_.dual == 0.0
    engine = Failing(0, monkeypatch)
    with pytest.raises(SamplesLostError, match="has failed in the middle"):
        SVC(backend="cuda", multi_class="crammer_singer").fit(X, of_four)


def test_rows_on_a_card_that_fails_are_lost(monkeypatch):
    monkeypatch.setattr("maxmargin.estimators.arrays.is_on_card", lambda rows: isinstance(rows, torch.Tensor))
    monkeypatch.setattr(PlainSolver, "largest_tile", 100)
    monkeypatch.setattr(PlainSolver, "tile", 100)
    rows = torch.tensor(X)
    engine = Failing(30, monkeypatch)
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: DeviceBackend(engine))
    with pytest.raises(SamplesLostError, match="the rows were on cpu only, which has failed, so there is no model"):
        SVC(C=10.0, gamma=1.0, backend="cuda").fit(rows, y)


def test_one_of_two_cards_fails(engines, monkeypatch):
    def fail(*_):
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(engines[1], "values", fail)
    model = SVC(backend="cuda:all")
    with pytest.raises(SamplesLostError, match="The model that was reached is kept"):
        model.fit(X, of_four)
    expected = SVC(backend="cuda").fit(X, of_four)
    reached = [here.dual / there.dual for here, there in zip(model.certificate_.parts, expected.certificate_.parts, strict=True)]
    assert sorted(np.round(reached, 2)) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["cuda", "cuda:all"])
def test_ctrl_c_keeps_the_model(name, engines, monkeypatch):
    """The signal comes in the middle of a certificate or a pass, from the thread that computes it."""
    monkeypatch.setattr(PlainSolver, "largest_tile", 100)
    monkeypatch.setattr(PlainSolver, "tile", 100)
    calls, sums = [], PlainEngine.sums

    def interrupted(*told):
        calls.append(None)
        if len(calls) == 8:
            os.kill(os.getpid(), signal.SIGINT)
        return sums(*told)

    monkeypatch.setattr(PlainEngine, "sums", interrupted)
    model = SVC(C=10.0, gamma=1.0, backend=name)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, of_four)
    assert model.status_ is Status.INTERRUPTED
    assert np.isfinite(model.certificate_.gap)
    assert model.certificate_.dual > 0.0
    model.predict(X)


def test_a_forked_process_cannot_use_the_card_of_its_parent(monkeypatch):
    def refuse():
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. Use the 'spawn' start method")

    monkeypatch.setitem(backends.BACKENDS, "cuda", backends.make_cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", refuse)
    with pytest.raises(RuntimeError, match=r"backend='cuda' cannot use the card in this process: .*spawn.*use backend='auto'"):
        SVC(backend="cuda").fit(X, y)


# --- what is missing --------------------------------------------------------------------------------------------------


def test_no_card(monkeypatch):
    monkeypatch.setitem(backends.BACKENDS, "cuda", backends.make_cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=r"needs an NVIDIA card and its driver, and torch .* use backend='auto'"):
        SVC(backend="cuda").fit(X, y)


def test_packages_that_are_missing(monkeypatch):
    monkeypatch.setitem(backends.BACKENDS, "cuda", backends.make_cuda)
    monkeypatch.setitem(sys.modules, "maxmargin.backends.cuda.backend", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package .*: pip install 'maxmargin\[cuda\]'"):
        SVC(backend="cuda").fit(X, y)


def fail_for_memory(*_):
    raise torch.OutOfMemoryError("no memory")


def test_too_little_memory(monkeypatch):
    """Not even parts of the samples fit."""
    monkeypatch.setattr("maxmargin.backends.cuda.gram.upload_rows", fail_for_memory)
    monkeypatch.setattr("maxmargin.backends.cuda.streaming.pack", fail_for_memory)
    with pytest.raises(MemoryError, match=r"do not fit into the memory of .*; use backend='auto'"):
        SVC(backend="cuda").fit(X, y)


def test_a_card_that_is_too_old(monkeypatch):
    monkeypatch.setitem(backends.BACKENDS, "cuda", backends.make_cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (6, 1))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "an old card")
    with pytest.raises(RuntimeError, match=r"compute capability 7\.5 or later, and an old card has 6\.1"):
        SVC(backend="cuda").fit(X, y)


@pytest.mark.parametrize(
    ("machine", "features", "message"),
    [
        (SVC(kernel=lambda A, B: A @ B.T), X, "backend='cuda' has no kernel .*: it has linear, poly"),
        (SVC(), sp.csr_array((700, 5000)), "sparse samples with 5000 features are too wide"),
    ],
)
def test_what_the_backend_does_not_take(machine, features, message):
    with pytest.raises(ValueError, match=message):
        machine.set_params(backend="cuda").fit(features, y)
