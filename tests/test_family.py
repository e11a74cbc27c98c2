"""What SVR, NuSVC, NuSVR and OneClassSVM have in common: certificates, limits, warm starts, data of every kind.

The certificate of each is held against the values that the oracle computes from nothing but the fitted attributes.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, Status
from maxmargin.backends import make_backend
from maxmargin.callbacks import Progress
from maxmargin.certificates import certify, recompute
from maxmargin.control import Control, Stop
from maxmargin.formulations import (
    DualProblem,
    nu_classification_problem,
    nu_regression_problem,
    one_class_problem,
    regression_problem,
)
from maxmargin.gram import DoubledGram, ExactSums, Gram
from maxmargin.kernels import make_kernel
from maxmargin.samples import make_samples
from maxmargin.solvers import Job, block_smo
from tests import oracle

#: What the plain evaluation itself may lose, relative to the parts of the objective.
NOISE = 1e-12
GAMMA = 0.2
LARGE = 1200  # samples


def check_certificate(model: Any, X: Any, y: Any, weights: Any = None, at_most: float = 1.01) -> None:
    """true gap <= reported gap <= at_most times it, but for rounding; one share >= 0 for each sample."""
    (truth,) = oracle.judge(model, oracle.kernel_of(model, X), y, weights)
    proof = model.certificate_
    noise = NOISE * truth.size
    assert truth.outside <= NOISE
    if isinstance(model, OneClassSVM):
        assert model.offset_ == pytest.approx(proof.levels, rel=1e-9)
    assert truth.gap <= proof.gap + noise
    assert proof.gap <= at_most * truth.gap + 1e-9 * truth.size
    assert proof.gap_terms.shape == (len(X),)
    assert proof.gap_terms.min() >= 0.0
    assert proof.gap_terms.sum() == pytest.approx(proof.gap, rel=1e-9, abs=noise)
    assert proof.primal - proof.dual == pytest.approx(proof.gap, abs=noise)
    assert abs(proof.dual - truth.dual) <= proof.value_error + noise
    assert abs(proof.primal - truth.primal) <= proof.value_error + (proof.gap - truth.gap) + noise
    larger = max(abs(proof.primal), abs(proof.dual))
    assert proof.relative_gap == pytest.approx(proof.gap / (larger - proof.value_error), rel=NOISE)
    assert truth.gap <= proof.relative_gap * max(abs(truth.primal), abs(truth.dual)) + noise
    assert proof.box_residual == 0.0
    assert proof.equality_residual <= noise


# --- who takes part ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Member:
    """A machine of the family, and a problem for it with as many samples as wanted; those of LARGE are float32's."""

    machine: type
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, **other: Any) -> Any:
        return self.machine(**{"gamma": GAMMA} | self.options | other)

    def data(self, n: int = 250, seed: int = 0) -> tuple[Any, Any]:
        """Overlapping classes, noisy targets."""
        X, labels = make_classification(n, 6, n_informative=4, flip_y=0.1, class_sep=2.0, random_state=seed)
        if self.machine not in (SVR, NuSVR):
            return X, labels
        return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * np.random.default_rng(seed + 1).normal(size=n)

    def __str__(self) -> str:
        return " ".join([self.machine.__name__, *(str(value) for value in self.options.values())])


FAMILY = [
    Member(SVR),
    Member(SVR, {"loss": "squared_epsilon_insensitive"}),
    Member(NuSVR),
    Member(NuSVC, {"nu": 0.6}),
    Member(OneClassSVM, {"nu": 0.2}),
]
family = pytest.mark.parametrize("member", FAMILY, ids=str)


def outputs(model: Any, X: Any) -> Any:
    return model.predict(X) if isinstance(model, (SVR, NuSVR)) else model.decision_function(X)


# --- certificates -----------------------------------------------------------------------------------------------------


@family
@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_certificate(member: Member, kernel: str, backend: str) -> None:
    X, y = member.data(250 if backend == "native" else 100)
    if kernel == "linear" and member.machine is OneClassSVM:
        X = X + 3.0  # else the plane farthest from the origin goes through it
    model = member(kernel=kernel, backend=backend).fit(X, y)
    check_certificate(model, X, y)
    assert model.certificate_.holds(1e-6)


@family
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_certificate_of_weighted_samples(member: Member, backend: str) -> None:
    X, y = member.data()
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], size=len(y))
    model = member(backend=backend).fit(X, y, sample_weight=weights)
    check_certificate(model, X, y, weights)
    assert not np.isin(model.support_, np.flatnonzero(weights == 0)).any()
    assert (model.certificate_.gap_terms[weights == 0] == 0).all()


@pytest.mark.parametrize("parameters", [{"epsilon": 0.0}, {"epsilon": 1.0}, {"C": 1e-3}, {"C": 1e3}, {"fit_intercept": False}])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_certificate_of_every_regression(loss: str, parameters: dict[str, Any]) -> None:
    X, y = FAMILY[0].data()
    check_certificate(SVR(gamma=GAMMA, loss=loss, **parameters).fit(X, y), X, y)


NU_MACHINES = [Member(machine, {"nu": nu}) for machine in (NuSVR, NuSVC, OneClassSVM) for nu in (0.15, 0.3, 0.9)]


@pytest.mark.parametrize("member", NU_MACHINES, ids=str)
def test_certificate_of_every_nu(member: Member) -> None:
    X, y = member.data()
    check_certificate(member().fit(X, y), X, y)


@family
@pytest.mark.parametrize("max_iter", [0, 1, 30, 60])
def test_certificate_of_a_model_that_was_stopped(member: Member, max_iter: int) -> None:
    X, y = member.data()
    model = member(max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match=rf"Solver terminated early \(max_iter={max_iter}\)"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.fit_status_ == 1
    assert np.sum(model.n_iter_) <= max_iter
    check_certificate(model, X, y)
    assert not model.certificate_.holds(1e-6)


@family
@pytest.mark.parametrize("parameters", [{}, {"gap_tol": 0.03}, {"max_iter": 300}], ids=["to tol", "to gap_tol", "stopped"])
def test_certificate_of_many_samples(member: Member, parameters: dict[str, Any]) -> None:
    """float32 kernel values, and float64 where it matters: what is said of the gap is never less than the truth."""
    X, y = member.data(3000)
    model = member(**parameters)
    if "max_iter" in parameters:
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(X, y)
    else:
        model.fit(X, y)
        assert model.certificate_.holds(1.1 * parameters.get("gap_tol", 1e-3))
    assert model.arithmetic_ == "float32 kernel"
    check_certificate(model, X, y, at_most=1.1)
    if member.options.get("loss") is None and not parameters:
        assert "samples whose share of the gap can differ from zero" in model.certificate_.arithmetic


def problem_of(member: Member, y: Any) -> DualProblem:
    """The dual problem of a member of the family without weights."""
    one = np.ones(len(y))
    match member.machine.__name__:
        case "SVR":
            return regression_problem(y, one, 0.1)
        case "NuSVR":
            return nu_regression_problem(y, one, 0.5)
        case "NuSVC":
            return nu_classification_problem(2.0 * y - 1.0, one, 0.6)
    return one_class_problem(one, 0.2)


@pytest.mark.parametrize("lie", [0.0, 1e-6, 1e-2, 0.3])
@pytest.mark.parametrize("member", [one for one in FAMILY if "loss" not in one.options], ids=str)
def test_a_wrong_claim_of_a_solver_is_not_believed(member: Member, lie: float) -> None:
    X, y = member.data(800)
    order = np.argsort(y, kind="stable") if member.machine is NuSVC else np.arange(len(y))  # a group after the other
    X, y, backend = X[order], y[order], make_backend("native")
    problem, K = problem_of(member, y), oracle.kernel_matrix("rbf", X, gamma=GAMMA)
    gram: Gram = backend.gram(make_kernel("rbf", GAMMA), make_samples(X), np.dtype(np.float64), 10**8, (0, len(y)))
    if len(problem) > len(y):
        K, gram = np.tile(K, (2, 2)), DoubledGram(gram)
    beta = block_smo.solve(Job(problem, gram, backend, Stop(gap_tol=0.01), Control())).beta
    claim = K @ beta + problem.linear + lie * np.random.default_rng(0).uniform(-1, 1, size=len(problem))
    honest, checked = (
        certify(problem, beta, recompute(problem, beta, lambda at: ExactSums((K[at] @ beta)[None], 0.0), one), lambda: 1.0)
        for one in (None, claim)
    )
    assert checked.gap == pytest.approx(honest.gap, rel=1e-9)
    assert honest.arithmetic == "float64"
    assert "samples whose share" in checked.arithmetic or lie == 0.3


# --- limits -----------------------------------------------------------------------------------------------------------


@family
def test_max_seconds(member: Member) -> None:
    X, y = member.data(LARGE)
    model = member(max_seconds=1e-6)
    with pytest.warns(ConvergenceWarning, match=r"Stopped at max_seconds before reaching tol.* Relative gap \d"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_SECONDS
    check_certificate(model, X, y, at_most=1.1)
    assert np.isfinite(outputs(model, X)).all()


@pytest.fixture
def ctrl_c() -> Callable[[Progress], None]:
    """Ctrl-C at the first report, and never again."""
    pressed: list[Progress] = []

    def press(progress: Progress) -> None:
        if not pressed:
            pressed.append(progress)
            signal.raise_signal(signal.SIGINT)

    return press


@family
def test_ctrl_c_leaves_a_model_with_its_certificate(member: Member, ctrl_c: Any) -> None:
    X, y = member.data(3000)
    model = member(callbacks=[ctrl_c], tol=1e-5)
    with pytest.raises(KeyboardInterrupt, match="Interrupted before reaching tol"):
        model.fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    check_certificate(model, X, y, at_most=1.1)
    assert np.isfinite(outputs(model, X)).all()


@family
def test_progress_ends_at_one(member: Member) -> None:
    seen: list[Progress] = []
    model = member(callbacks=[seen.append]).fit(*member.data(LARGE))
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert [progress.violation for progress in seen] == model.trace_.violation


# --- warm starts ------------------------------------------------------------------------------------------------------


STARTERS = [*FAMILY, Member(SVC), Member(SVC, {"loss": "squared_hinge"})]
starters = pytest.mark.parametrize("member", STARTERS, ids=str)
PATHS: list[tuple[Member, dict[str, float], dict[str, float]]] = [
    *((member, {"C": 100.0}, {"C": 110.0}) for member in STARTERS if member.machine in (SVC, SVR)),
    (Member(NuSVR), {"nu": 0.5, "C": 100.0}, {"nu": 0.45}),
    (Member(NuSVC), {"nu": 0.6}, {"nu": 0.57}),
    (Member(OneClassSVM), {"nu": 0.2}, {"nu": 0.18}),
]


@pytest.mark.parametrize(("member", "begin", "then"), PATHS, ids=str)
def test_a_warm_start_takes_fewer_steps_to_the_same_solution(member: Member, begin: Any, then: Any) -> None:
    cold_steps, warm_steps = 0, 0
    for seed in range(5):  # on a single set the number of steps is luck, and so is where steps at rounding level end
        X, y = member.data(LARGE, seed)
        cold = member(tol=1e-5, **begin | then).fit(X, y)
        warm = member(tol=1e-5, warm_start=True, **begin).fit(X, y).set_params(**then).fit(X, y)
        cold_steps, warm_steps = cold_steps + np.sum(cold.n_iter_), warm_steps + np.sum(warm.n_iter_)
        assert warm.status_ is Status.CONVERGED
        assert warm.certificate_.dual == pytest.approx(cold.certificate_.dual, rel=1e-5)
        expected = outputs(cold, X)
        np.testing.assert_allclose(outputs(warm, X), expected, atol=1e-4 * np.abs(expected).max())
    assert warm_steps < 0.9 * cold_steps


@starters
def test_a_warm_start_at_the_solution_has_nothing_to_do(member: Member) -> None:
    X, y = member.data()
    model = member(warm_start=True).fit(X, y)
    before = outputs(model, X)
    assert np.sum(model.fit(X, y).n_iter_) <= 5
    np.testing.assert_allclose(outputs(model, X), before, rtol=1e-6, atol=1e-8 * np.abs(before).max())


@starters
def test_a_warm_start_of_another_size_starts_anew(member: Member) -> None:
    X, y = member.data()
    model = member(warm_start=True).fit(X, y).fit(X[:-50], y[:-50])
    fresh = member().fit(X[:-50], y[:-50])
    np.testing.assert_array_equal(outputs(model, X), outputs(fresh, X))
    np.testing.assert_array_equal(model.n_iter_, fresh.n_iter_)


@starters
def test_a_warm_start_on_other_data_or_weights_is_merely_a_start(member: Member) -> None:
    X, y = member.data()
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=len(y))
    model = member(warm_start=True).fit(X, y)
    for other, of_other in ((X[::-1].copy(), y[::-1].copy()), (2.0 * X, y)):
        for weight in (weights, None):
            model.fit(other, of_other, sample_weight=weight)
            fresh = member().fit(other, of_other, sample_weight=weight)
            scale = np.abs(outputs(fresh, other)).max()
            np.testing.assert_allclose(outputs(model, other), outputs(fresh, other), atol=1e-6 * scale)
            if member.machine is not SVC:
                check_certificate(model, other, of_other, weight)


@starters
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_was_stopped_is_taken_up_where_it_was(member: Member) -> None:
    X, y = member.data()
    model = member(warm_start=True, max_iter=40)
    proofs = [model.fit(X, y).certificate_]
    while not model.status_.converged and len(proofs) < 100:
        proofs.append(model.fit(X, y).certificate_)
    assert model.status_ is Status.CONVERGED
    assert len(proofs) > 2
    assert np.diff([proof.dual for proof in proofs]).min() >= -1e-9 * proofs[-1].primal
    assert proofs[-1].dual == pytest.approx(member().fit(X, y).certificate_.dual, rel=1e-3)


@starters
def test_without_warm_start_nothing_is_kept(member: Member) -> None:
    X, y = member.data()
    model = member(warm_start=True).fit(X, y)
    model.set_params(warm_start=False).fit(X, y)
    np.testing.assert_array_equal(model.n_iter_, member().fit(X, y).n_iter_)
    assert np.sum(model.set_params(warm_start=True).fit(X, y).n_iter_) == np.sum(member().fit(X, y).n_iter_)


def test_a_warm_start_of_several_classes() -> None:
    X, y = make_classification(300, 6, n_classes=3, n_informative=4, random_state=0)
    for cold, path in ((SVC(C=30.0), {"C": 33.0}), (SVC(C=30.0, multi_class="ovr"), {"C": 33.0}), (NuSVC(nu=0.5), {"nu": 0.48})):
        warm = clone(cold).set_params(warm_start=True).fit(X, y).set_params(**path).fit(X, y)
        cold = clone(cold).set_params(**path).fit(X, y)
        assert warm.n_iter_.sum() < 0.9 * cold.n_iter_.sum()
        np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=1e-6)


# --- data -------------------------------------------------------------------------------------------------------------


@family
@pytest.mark.parametrize(("n", "dtype"), [(250, np.float64), (250, np.float32), (LARGE, np.float32)])
def test_sparse_is_dense(member: Member, n: int, dtype: Any) -> None:
    X, y = member.data(n)
    X = (X * (np.random.default_rng(0).random(X.shape) < 0.7)).astype(dtype)
    dense, sparse = member(tol=1e-5).fit(X, y), member(tol=1e-5).fit(sp.csr_array(X), y)
    expected = outputs(dense, X)
    tolerance = 1e-5 if (n, dtype) == (250, np.float64) else 1e-3
    for queries in (X, sp.csr_array(X), sp.csc_array(X)):
        np.testing.assert_allclose(outputs(sparse, queries), expected, atol=tolerance * np.abs(expected).max())
    assert sp.issparse(sparse.support_vectors_)
    assert sp.issparse(sparse.dual_coef_)
    assert sparse.support_vectors_.dtype == dtype


@family
@pytest.mark.parametrize("n", [250, LARGE])
def test_float32_is_kept(member: Member, n: int) -> None:
    X, y = member.data(n)
    narrow, wide = member(tol=1e-5).fit(X.astype(np.float32), y), member(tol=1e-5).fit(X, y)
    assert narrow.support_vectors_.dtype == np.float32
    assert narrow.dual_coef_.dtype == np.float64
    expected = outputs(wide, X)
    answers = outputs(narrow, X.astype(np.float32))
    assert answers.dtype == np.float64
    np.testing.assert_allclose(answers, expected, atol=1e-4 * np.abs(expected).max())


@family
@pytest.mark.parametrize("kind", ["precomputed", "callable"])
def test_kernels_of_the_user(member: Member, kind: str) -> None:
    X, y = member.data()
    train, rest = slice(0, 200), slice(200, None)
    expected = outputs(member().fit(X[train], y[train]), X[rest])
    if kind == "precomputed":
        K = oracle.kernel_matrix("rbf", X, gamma=GAMMA)
        model = member(kernel="precomputed").fit(K[train, train], y[train])
        answers = outputs(model, K[rest, train])
    else:
        model = member(kernel=partial(oracle.kernel_matrix, "rbf", gamma=GAMMA)).fit(X[train], y[train])
        answers = outputs(model, X[rest])
    np.testing.assert_allclose(answers, expected, atol=1e-7 * np.abs(expected).max())


@family
def test_a_small_cache_gives_the_same_solution(member: Member) -> None:
    X, y = member.data(LARGE)
    small, large = member(cache_size=1).fit(X, y), member(cache_size=1000).fit(X, y)
    check_certificate(small, X, y, at_most=1.1)
    assert small.certificate_.dual == pytest.approx(large.certificate_.dual, rel=1e-3)


@family
def test_a_zero_weight_is_removal_and_a_whole_weight_is_repetition(member: Member) -> None:
    X, y = member.data()
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = member().fit(X, y, sample_weight=weights)
    repeated = member().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    expected = outputs(repeated, X)
    np.testing.assert_allclose(outputs(weighted, X), expected, atol=1e-6 * np.abs(expected).max())
    assert weighted.certificate_.dual == pytest.approx(repeated.certificate_.dual, rel=1e-6)


@pytest.mark.parametrize("member", FAMILY[-2:], ids=str)
def test_all_weights_times_a_factor_change_nothing_but_the_scale(member: Member) -> None:
    X, y = member.data()
    one, other = (member().fit(X, y, sample_weight=np.full(len(y), weight)) for weight in (1.0, 7.0))
    factor = 7.0 if member.machine is OneClassSVM else 1.0  # the decisions of NuSVC are divided by rho
    np.testing.assert_allclose(outputs(other, X), factor * outputs(one, X), atol=1e-6 * np.abs(outputs(other, X)).max())


@family
def test_pickling(member: Member) -> None:
    X, y = member.data()
    model = member(warm_start=True).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(outputs(copy, X), outputs(model, X))
    assert copy.certificate_.gap == model.certificate_.gap
    assert copy.status_ is model.status_
    assert np.sum(copy.fit(X, y).n_iter_) <= 5  # it starts where the model ended


@family
def test_cloning_keeps_parameters_and_forgets_the_fit(member: Member) -> None:
    model = member(gap_tol=1e-2, max_seconds=9.0, warm_start=True).fit(*member.data())
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "support_")
    fresh = member(gap_tol=1e-2, max_seconds=9.0).fit(*member.data())
    assert np.sum(copy.fit(*member.data()).n_iter_) == np.sum(fresh.n_iter_)


@family
def test_a_linear_machine_has_weights(member: Member) -> None:
    X, y = member.data()
    X = X + 3.0
    model = member(kernel="linear").fit(X, y)
    assert model.coef_.shape == (1, 6)
    np.testing.assert_allclose(X @ model.coef_[0] + model.intercept_[0], outputs(model, X), atol=1e-8)
    with pytest.raises(AttributeError, match="coef_ is only available when using a linear kernel"):
        _ = member().fit(X, y).coef_
