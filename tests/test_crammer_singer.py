"""Crammer and Singer's machine: its problem as stated, its proof, and what it has to do with other machines."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC
from maxmargin.formulations import CrammerSingerProblem, crammer_singer_problem
from maxmargin.model_selection import SVCCV, C_path
from maxmargin.solution import Status
from maxmargin.solvers import crammer_singer
from tests import oracle

Matrix = NDArray[np.float64]


def machine(**parameters: Any) -> SVC:
    return SVC(multi_class="crammer_singer", **parameters)


def clouds(n: int, n_classes: int, seed: int = 0, spread: float = 2.0) -> tuple[Matrix, NDArray[np.int64]]:
    X, y = make_blobs(n, 3, centers=n_classes, cluster_std=spread, center_box=(-3, 3), random_state=seed)
    return X, y


def truth_of(model: SVC, X: Any, y: Any, weight: Any = None) -> oracle.Truth:
    """The truth about a fitted machine, which is feasible to the last digits."""
    (truth,) = oracle.judge(model, oracle.kernel_of(model, X), y, weight)
    assert truth.outside <= 1e-15
    return truth


# --- the problem ------------------------------------------------------------------------------------------------------


@st.composite
def points(draw: st.DrawFn) -> tuple[CrammerSingerProblem, Matrix, Matrix, Matrix, Matrix]:
    """A problem, a feasible point of it, the kernel matrix, the costs and the labels."""
    n, k = draw(st.integers(1, 12)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.permutation(np.arange(n + k) % k)  # each class is there
    cost = rng.exponential(size=n + k) * (rng.random(n + k) < 0.8)
    cost[[int(np.flatnonzero(labels == c)[0]) for c in range(k)]] += 0.1
    factor = rng.normal(size=(n + k, draw(st.integers(1, 4))))
    problem = crammer_singer_problem(labels, cost)
    shares = rng.dirichlet(np.full(k, draw(st.sampled_from([0.05, 1.0]))), n + k).T * cost
    if draw(st.booleans()):
        shares = problem.upper.copy()  # the point zero, with some samples moved to another corner
        for i in np.flatnonzero(rng.random(n + k) < 0.3):
            shares[:, i] = 0.0
            shares[rng.integers(k), i] = cost[i]
    return problem, problem.upper - shares, factor @ factor.T, cost, labels


@given(points())
def test_the_gap_is_a_sum_of_one_term_per_sample(point):
    problem, B, K, cost, labels = point
    truth = oracle.crammer_singer(K, labels == np.arange(len(B))[:, None], cost, B)
    gradient = B @ K + problem.linear
    terms = problem.gap_terms(B, gradient)
    size = 1.0 + truth.size
    assert truth.outside <= 1e-13
    assert (terms >= 0.0).all()
    assert terms.sum() == pytest.approx(truth.gap, abs=1e-12 * size)
    assert problem.dual_value(B, gradient) == pytest.approx(truth.dual, abs=1e-12 * size)
    assert (terms <= cost * problem.violations(B, gradient) + 1e-12 * size).all()


@given(points(), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.1, 1.0]))
def test_no_gradient_within_the_error_has_larger_terms(point, seed, error):
    problem, B, K, *_ = point
    gradient = B @ K + problem.linear
    bound = problem.gap_terms(B, gradient, error)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        other = gradient + error * rng.choice([-1.0, 1.0], size=gradient.shape)
        assert (problem.gap_terms(B, other) <= bound * (1.0 + 1e-12) + 1e-12).all()


@given(points(), st.integers(0, 2**32 - 1))
def test_a_sample_adds_nothing_while_its_gradient_changes_by_less_than_half_the_clearance(point, seed):
    problem, B, K, *_ = point
    gradient = B @ K + problem.linear
    clearance = problem.clearance(B, gradient)
    clear = clearance > 0.0
    np.testing.assert_array_equal(np.isneginf(clearance), (problem.shares(B) > 0.0).sum(axis=0) > 1)
    change = 0.499 * np.minimum(np.maximum(clearance, 0.0), 1e6)
    moved = gradient + change * np.random.default_rng(seed).choice([-1.0, 1.0], size=gradient.shape)
    assert (problem.gap_terms(B, moved)[clear] <= 1e-12).all()
    assert (problem.violations(B, moved)[clear] <= 1e-12).all()
    assert (problem.violations(B, gradient)[~clear & np.isfinite(clearance)] >= 0.0).all()


@given(points(), points(), st.floats(0.1, 10.0))
def test_points_are_made_feasible_and_carried_over_to_other_costs(point, other, factor):
    problem, B, *_ = point
    rough = problem.feasible(B + 0.1 * np.sin(np.arange(B.size)).reshape(B.shape))
    larger = CrammerSingerProblem(problem.linear, factor * problem.upper)
    for where, feasible in ((problem, rough), (larger, larger.carry_over(problem, B)[0])):
        assert (feasible <= where.upper).all()
        np.testing.assert_allclose(where.residuals(feasible), 0.0, atol=1e-13 * (1.0 + where.upper.max()))
    carried, growth = larger.carry_over(problem, B)
    np.testing.assert_allclose(carried, factor * B, atol=1e-12 * (1.0 + np.abs(B).max()))
    assert growth == pytest.approx(factor)
    assert not carried[:, ~B.any(axis=0)].any()  # what was exactly zero is


# --- the solution -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
def test_the_optimum_is_that_of_an_interior_point_method(C, backend):
    X, y = clouds(30, 3)
    weight = np.where(np.arange(30) % 5 == 0, 0.0, 1.0 + np.arange(30) % 3)
    model = machine(C=C, gamma=0.3, tol=1e-9, backend=backend).fit(X, y, weight)
    optimum = oracle.crammer_singer_optimum(oracle.kernel_of(model, X), y == np.arange(3)[:, None], C * weight)
    assert model.certificate_.dual == pytest.approx(optimum, rel=1e-9)
    assert model.certificate_.holds(1e-7)


@pytest.mark.parametrize(("n_classes", "C"), [(3, 1.0), (5, 0.02), (12, 10.0)])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
def test_the_certificate_is_that_of_the_statement(kernel, n_classes, C):
    X, y = clouds(150, n_classes, seed=n_classes)
    weight = np.random.default_rng(0).exponential(size=len(y))
    model = machine(kernel=kernel, C=C, gamma=0.5).fit(X, y, weight)
    proof = model.certificate_
    truth = truth_of(model, X, y, weight)
    assert proof.dual == pytest.approx(truth.dual, rel=1e-9)
    assert proof.primal == pytest.approx(truth.primal, rel=1e-9)
    assert proof.gap >= truth.gap - 1e-10 * truth.primal
    assert (proof.gap_terms >= 0.0).all()
    assert proof.kkt_violation <= model.tol
    assert proof.box_residual == 0.0
    assert proof.equality_residual <= 1e-13
    assert model.status_ is Status.CONVERGED
    F = model.decision_function(X)
    np.testing.assert_allclose(F.sum(axis=1), 0.0, atol=1e-9)  # as the coefficients of each sample do
    own = y == model.classes_[:, None]
    B = np.zeros(own.shape)
    B[:, model.support_] = model.dual_coef_
    G = F.T + 1.0 - own
    terms = ((own * C * weight - B) * (G.max(axis=0) - G)).sum(axis=0)
    np.testing.assert_allclose(proof.gap_terms, terms, atol=1e-8)  # in the order of the samples
    assert model.margin_ == pytest.approx(1.0 / np.sqrt((B * F.T).sum()))


def test_backends_agree():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16.0, y[:400]
    fitted = [machine(C=5.0, gamma=0.1, tol=1e-6, backend=backend).fit(X, y) for backend in ("native", "reference")]
    np.testing.assert_allclose(*[model.decision_function(X) for model in fitted], atol=1e-4)
    assert fitted[0].certificate_.dual == pytest.approx(fitted[1].certificate_.dual, rel=1e-7)


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_many_samples_are_solved_in_float32_and_proved_in_float64(C):
    X, y = clouds(1500, 6, spread=1.5)
    model = machine(C=C, gamma=0.2).fit(X, y)
    assert model.arithmetic_ == "float32 kernel"
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.kkt_violation <= 1.01 * model.tol
    truth = truth_of(model, X, y)
    assert model.certificate_.gap >= truth.gap - 1e-9 * truth.primal
    assert abs(model.certificate_.dual - truth.dual) <= model.certificate_.value_error + 1e-9 * truth.primal
    assert max(model.trace_.dual) <= model.certificate_.primal + model.certificate_.value_error


def test_a_run_that_float32_does_not_settle_goes_on_in_float64(monkeypatch):
    monkeypatch.setattr(crammer_singer, "MOST_CORRECTIONS", 0)
    X, y = clouds(1100, 4, spread=1.5)
    model = machine(C=1e3, gamma=0.2).fit(X, y)
    assert model.arithmetic_ == "float64 kernel"
    assert model.certificate_.kkt_violation <= model.tol


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_small_working_sets_lead_to_the_same_optimum(monkeypatch, backend):
    X, y = clouds(120, 5)
    whole = machine(gamma=0.3, tol=1e-6).fit(X, y)
    monkeypatch.setattr(crammer_singer, "SMALLEST", 10)
    monkeypatch.setattr(crammer_singer, "LARGEST", 12)
    parts = machine(gamma=0.3, tol=1e-6, backend=backend).fit(X, y)
    assert len(parts.trace_.gap) > 10
    assert parts.certificate_.dual == pytest.approx(whole.certificate_.dual, rel=1e-6)
    assert parts.certificate_.kkt_violation <= 1e-6
    assert (np.diff(parts.trace_.dual) > -1e-9).all()


def test_the_linear_machine_is_that_of_liblinear():
    for X, y in (load_iris(return_X_y=True), clouds(200, 5)):
        X = StandardScaler().fit_transform(X)
        ours = machine(kernel="linear", C=0.5, tol=1e-6).fit(X, y)
        theirs = LinearSVC(multi_class="crammer_singer", fit_intercept=False, C=0.5, tol=1e-7, max_iter=1_000_000).fit(X, y)

        def primal(W: Matrix, X: Matrix = X, y: Any = y) -> float:
            scores, own = X @ W.T, y[:, None] == np.arange(len(W))
            slack = (scores + 1.0 - own - scores[own][:, None]).max(axis=1)
            return 0.5 * float((W**2).sum()) + 0.5 * float(slack.sum())

        assert ours.coef_.shape == theirs.coef_.shape
        assert primal(ours.coef_) == pytest.approx(ours.certificate_.primal, rel=1e-9)
        assert primal(theirs.coef_) == pytest.approx(ours.certificate_.dual, rel=1e-4)
        assert primal(theirs.coef_) >= ours.certificate_.dual * (1.0 - 1e-12)
        np.testing.assert_allclose(ours.decision_function(X), X @ ours.coef_.T, atol=1e-9)


# --- two classes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 3.0])
def test_two_classes_are_the_binary_machine_with_twice_the_cost(C):
    X, y = clouds(80, 2)
    weight = 0.5 + np.arange(80) % 4
    joint = machine(C=C, gamma=0.3, tol=1e-9).fit(X, y, weight)
    binary = SVC(C=2 * C, gamma=0.3, tol=1e-9, fit_intercept=False).fit(X, y, weight)
    assert joint.decision_function(X).shape == (80,)
    np.testing.assert_allclose(joint.decision_function(X), binary.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(joint.predict(X), joint.classes_[(joint.decision_function(X) > 0).astype(int)])
    assert joint.certificate_.dual == pytest.approx(0.5 * binary.certificate_.dual, rel=1e-9)
    assert joint.certificate_.primal == pytest.approx(0.5 * binary.certificate_.primal, rel=1e-6)
    assert joint.dual_coef_.shape == (1, len(joint.support_))
    np.testing.assert_array_equal(joint.support_, binary.support_)
    np.testing.assert_allclose(joint.dual_coef_, binary.dual_coef_, atol=1e-5)
    assert joint.intercept_ == 0.0


# --- weights and data -------------------------------------------------------------------------------------------------


def test_weights_count_samples():
    X, y = clouds(90, 4)
    weight = np.arange(90) % 3
    weighted = machine(gamma=0.3, tol=1e-8).fit(X, y, weight)
    repeated = machine(gamma=0.3, tol=1e-8).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)
    assert weighted.certificate_.dual == pytest.approx(repeated.certificate_.dual, rel=1e-7)
    assert not np.isin(np.flatnonzero(weight == 0), weighted.support_).any()
    assert not weighted.certificate_.gap_terms[weight == 0].any()


def test_class_weights_are_those_of_the_samples():
    X, y = clouds(60, 3)
    one = machine(gamma=0.3, tol=1e-8, class_weight={0: 2.0, 2: 0.3}).fit(X, y)
    other = machine(gamma=0.3, tol=1e-8).fit(X, y, np.array([2.0, 1.0, 0.3])[y])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("form", ["csr", "precomputed", "callable", "float32", "labels"])
def test_every_kind_of_data(form):
    X, y = clouds(100, 3)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    plain = machine(gamma=0.3, tol=1e-7).fit(X, y)
    expected = plain.decision_function(X)
    if form == "precomputed":
        K = oracle.kernel_of(plain, X)
        found = machine(kernel="precomputed", tol=1e-7).fit(K, y).decision_function(K)
    elif form == "callable":
        found = machine(kernel=partial(oracle.kernel_matrix, "rbf", gamma=0.3), tol=1e-7).fit(X, y).decision_function(X)
    elif form == "labels":
        names = np.array(["b", "c", "a"])
        model = machine(gamma=0.3, tol=1e-7).fit(X, names[y])
        found = model.decision_function(X)[:, [1, 2, 0]]
        elsewhere = X + 0.1  # on a training sample two scores may be the same
        np.testing.assert_array_equal(model.predict(elsewhere), names[plain.predict(elsewhere)])
    else:
        data = sp.csr_array(X) if form == "csr" else X.astype(np.float32)
        model = machine(gamma=0.3, tol=1e-7).fit(data, y)
        assert sp.issparse(model.dual_coef_) == (form == "csr")
        found = model.decision_function(data)
    np.testing.assert_allclose(found, expected, atol=1e-4)


# without an intercept, a kernel whose features have a constant: one check wants all samples in one class. Others have features
# around 100, of which this kernel makes values of 1e12: float64 does not resolve tol there, and it is right that the fit says so
@pytest.mark.filterwarnings("ignore:Stalled")
@parametrize_with_checks([machine(), machine(kernel="poly", coef0=1.0, warm_start=True)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# --- control ----------------------------------------------------------------------------------------------------------


def test_steps_and_seconds_are_limited():
    X, y = clouds(300, 4)
    for limits, status in (({"max_iter": 30}, Status.MAX_ITER), ({"max_seconds": 1e-9}, Status.MAX_SECONDS)):
        with pytest.warns(ConvergenceWarning):
            model = machine(C=100.0, gamma=0.3, **limits).fit(X, y)
        assert model.status_ is status
        assert model.n_iter_[0] <= 30
        truth = truth_of(model, X, y)
        assert model.certificate_.primal == pytest.approx(truth.primal)
        assert model.certificate_.dual == pytest.approx(truth.dual)


def test_a_relative_gap_is_enough():
    X, y = clouds(300, 4)
    model = machine(gamma=0.3, gap_tol=0.05, tol=np.inf).fit(X, y)
    assert model.status_ is Status.GAP_REACHED
    assert model.certificate_.holds(0.05)
    assert model.certificate_.kkt_violation > 1e-3


def test_callbacks_see_the_course_and_may_end_it():
    X, y = clouds(300, 4)
    seen: list[Any] = []
    model = machine(gamma=0.3, callbacks=[seen.append]).fit(X, y)
    assert len(seen) == len(model.trace_.gap)
    assert [progress.iteration for progress in seen] == model.trace_.iteration
    assert {progress.n_machines for progress in seen} == {1}
    assert seen[-1].fraction == 1.0
    assert 0 < seen[-1].steps <= model.n_iter_[0]
    assert model.trace_.relative_gap() < 1e-2
    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped = machine(gamma=0.3, tol=1e-9, callbacks=[lambda progress: progress.iteration == 1]).fit(X, y)
    assert stopped.status_ is Status.STOPPED_BY_CALLBACK


def test_ctrl_c_leaves_a_model_with_its_certificate():
    X, y = clouds(300, 4)
    model = machine(gamma=0.3, tol=1e-9, callbacks=[lambda progress: signal.raise_signal(signal.SIGINT)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    assert model.certificate_.gap >= 0.0
    assert len(model.predict(X)) == 300


def test_a_kernel_that_is_none_ends_at_a_stationary_point():
    X, y = clouds(60, 3)
    K = np.sin(X @ X.T)
    with pytest.warns(ConvergenceWarning, match="stationary"):
        model = machine(kernel="precomputed").fit(K, y)
    assert model.certificate_.kkt_violation <= model.tol


def test_a_warm_start_continues():
    X, y = clouds(200, 4)
    warm = machine(C=1.0, gamma=0.3, tol=1e-6, warm_start=True).fit(X, y)
    first = warm.n_iter_[0]
    assert warm.fit(X, y).n_iter_[0] < first / 10
    np.testing.assert_allclose(
        warm.set_params(C=2.0).fit(X, y).decision_function(X),
        machine(C=2.0, gamma=0.3, tol=1e-6).fit(X, y).decision_function(X),
        atol=1e-4,
    )
    assert warm.fit(X, y, (y < 3).astype(float)).status_.converged  # a class less
    for strategy in ("ovr", "crammer_singer", "ovo", "crammer_singer"):
        for labels in (y, y > 1):
            assert warm.set_params(multi_class=strategy).fit(X, labels).status_.converged
    path = C_path(X, y, [0.1, 1.0], estimator=machine(gamma=0.3))
    assert [proof.holds(1e-2) for proof in path.certificates] == [True, True]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": np.inf}, r"C=inf: with multi_class='crammer_singer' it must be finite"),
        ({"loss": "squared_hinge"}, r"loss='squared_hinge': multi_class='crammer_singer' has the hinge loss"),
        ({"solver": "block-smo"}, r"solver='block-smo': .* has a solver of its own \(use solver='auto'\)"),
        ({"probability": "loo"}, r"probability='loo': .*CalibratedClassifierCV"),
    ],
)
def test_what_the_machine_does_not_have(parameters, message):
    X, y = clouds(30, 3)
    with pytest.raises(ValueError, match=message):
        machine(**parameters).fit(X, y)


def test_what_is_of_binary_machines_only():
    from maxmargin.audits import audit
    from maxmargin.estimators.probabilities import loo_decisions

    X, y = clouds(60, 3)
    model = machine().fit(X, y)
    with pytest.raises(ValueError, match="a grid is one of binary machines"):
        SVCCV(Cs=[1.0], gammas=[0.1], multi_class="crammer_singer").fit(X, y)
    with pytest.raises(ValueError, match="must be 'ovo' or 'ovr'"):
        loo_decisions(model, X, y)
    with pytest.raises(ValueError, match="read its certificate_"):
        audit(model, X, y)
    with pytest.raises(ValueError, match="must be one of ovo, ovr, crammer_singer"):
        SVC(multi_class="all").fit(X, y)
