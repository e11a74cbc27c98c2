"""Probabilities without refits: the span rule against refits, the maps and the coupling against their definitions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, LinearSVC, NuSVC
from maxmargin.calibration import (
    FeatureRows,
    Isotonic,
    Sigmoid,
    couple_pairs,
    leave_one_out,
    normalise,
    squared_spans,
    start_from,
    stratified_folds,
)
from maxmargin.estimators import probabilities
from maxmargin.estimators.probabilities import loo_decisions
from maxmargin.formulations import DualProblem, classification_problem, nu_classification_problem
from maxmargin.solution import Solution, Status, Trace
from tests import oracle

TIGHT = 1e-9
MACHINES = [
    SVC(gamma=0.5, tol=TIGHT),
    SVC(gamma=0.5, tol=TIGHT, fit_intercept=False),
    SVC(gamma=0.5, tol=TIGHT, loss="squared_hinge"),
    SVC(gamma=0.5, tol=TIGHT, loss="squared_hinge", fit_intercept=False),
    SVC(gamma=2.0, tol=TIGHT, C=np.inf),
    SVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, C=0.3, tol=TIGHT),
    SVC(gamma=0.5, C=0.01, tol=TIGHT),
]


@pytest.fixture(scope="module")
def noisy() -> tuple[Any, Any]:
    """Two classes that overlap, with a border that is no line."""
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 3))
    return X, (X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * random.normal(size=100) > 0.3).astype(int)


def name(estimator: Any) -> str:
    return str(estimator)


# --- leave one out ----------------------------------------------------------------------------------------------------


class Matrix:
    """A kernel matrix that is there."""

    def __init__(self, K: Any) -> None:
        self.K = K

    def block(self, rows: Any, columns: Any) -> Any:
        return self.K[np.ix_(rows, columns)]

    def diagonal(self) -> Any:
        return self.K.diagonal()


def spans_by_definition(problem: DualProblem, beta: Any, K: Any) -> Any:
    """K_ii - v' B^-1 v with B inverted as it stands, once for each sample."""
    M = K + np.diag(np.zeros(len(beta)) if problem.shift is None else problem.shift)
    E = np.zeros((len(beta), len(problem.groups)))
    for column, group in enumerate(problem.groups):
        E[group, column] = 1.0
    spans = np.zeros(len(beta))
    for i in np.flatnonzero(beta):
        F = np.setdiff1d(np.flatnonzero((problem.lower < beta) & (beta < problem.upper)), i)
        B = np.block([[M[np.ix_(F, F)], E[F]], [E[F].T, np.zeros((E.shape[1], E.shape[1]))]])
        v = np.concatenate([K[F, i], E[i]])
        spans[i] = K[i, i] - v @ np.linalg.solve(B, v)
    return spans


def problems() -> Iterator[Any]:
    signs = np.where(np.arange(40) < 18, 1.0, -1.0)
    cost = np.linspace(0.5, 2.0, 40)
    yield pytest.param(classification_problem(signs, cost), id="hinge")
    yield pytest.param(classification_problem(signs, cost, fit_intercept=False), id="no intercept")
    yield pytest.param(classification_problem(signs, cost, "squared_hinge"), id="squared hinge")
    yield pytest.param(nu_classification_problem(signs, cost, 0.5), id="nu")


@pytest.fixture
def sharp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The span rule as it is, with no softer margin."""
    monkeypatch.setattr(leave_one_out, "WIDTH", 0.0)


@pytest.mark.usefixtures("sharp")
@pytest.mark.parametrize("problem", list(problems()))
def test_spans_are_what_they_are_said_to_be(problem: DualProblem) -> None:
    """At any point of the problem: some variables at zero, some at their bound, some between."""
    random = np.random.default_rng(1)
    K = oracle.kernel_matrix("rbf", random.normal(size=(40, 4)), gamma=0.3)
    share = random.choice([0.0, 1.0, 0.3, 0.6], size=40)
    reach = np.minimum(np.maximum(problem.upper, -problem.lower), 2.0)
    beta = np.where(problem.upper > 0, 1.0, -1.0) * share * reach
    spans = squared_spans(problem, beta, random.normal(size=40), Matrix(K))
    np.testing.assert_allclose(spans, spans_by_definition(problem, beta, K), rtol=1e-7, atol=1e-9)
    assert (spans[beta != 0] > 0).all()


@pytest.mark.parametrize("constant", [0.0, 1.5])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("problem", list(problems()))
def test_spans_by_few_features_are_those_by_the_kernel_matrix(problem: DualProblem, sparse: bool, constant: float) -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(40, 4))
    share = random.choice([0.0, 1.0, 0.3, 0.6], size=40)
    reach = np.minimum(np.maximum(problem.upper, -problem.lower), 2.0)
    beta, gradient = np.where(problem.upper > 0, 1.0, -1.0) * share * reach, random.normal(size=40)
    rows = FeatureRows(sp.csr_matrix(X) if sparse else X, constant)
    assert rows.n_features < 10
    K = Matrix(X @ X.T + constant**2)
    np.testing.assert_allclose(rows.block(np.arange(3), np.arange(40)), K.K[:3], atol=1e-12)
    expected = squared_spans(problem, beta, gradient, K)
    np.testing.assert_allclose(squared_spans(problem, beta, gradient, rows), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("most", [1000, 15])
@pytest.mark.parametrize("nu", [False, True])
def test_a_softer_margin_is_a_shift(nu: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All within h of the margin, or the nearest of them, are free, with a shift of 2h over the width of their box."""
    random = np.random.default_rng(1)
    K = oracle.kernel_matrix("rbf", random.normal(size=(40, 4)), gamma=0.3)
    signs, cost = np.where(np.arange(40) < 18, 1.0, -1.0), random.uniform(0.5, 2.0, 40)
    problem = nu_classification_problem(signs, cost, 0.5) if nu else classification_problem(signs, cost)
    beta = signs * cost * random.choice([0.0, 1.0, 0.5], size=40)
    gradient = 3.0 * signs + random.uniform(-0.7, 0.7, 40)
    levels = problem.levels(beta, gradient)
    margin = 0.5 * abs(levels[0] - levels[1]) if nu else 1.0
    distance = np.abs(gradient - problem.at_variables(levels))
    really = (beta != 0) & (np.abs(beta) < cost)
    monkeypatch.setattr(leave_one_out, "LEAST_FREE", most)
    monkeypatch.setattr(leave_one_out, "GROWTH_OF_FREE", 1.0)
    monkeypatch.setattr(leave_one_out, "WIDTH", 0.2)
    width = 0.2 * margin
    soft = really | (distance < width)
    assert soft.sum() > really.sum() > 2
    if soft.sum() > most:
        width = np.sort(distance[soft & ~really])[most - really.sum()]
        soft = really | (distance < width)
    bounds = {"lower": np.where(soft, -np.inf, beta), "upper": np.where(soft, np.inf, beta)}
    within = replace(problem, **bounds, shift=2 * width / cost, start=beta)
    expected = spans_by_definition(within, beta, K)
    np.testing.assert_allclose(squared_spans(problem, beta, gradient, Matrix(K)), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("sharp")
def test_float32_blocks_and_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    K = oracle.kernel_matrix("rbf", random.normal(size=(60, 3)), gamma=0.3)
    problem = classification_problem(np.where(random.random(60) < 0.5, 1.0, -1.0), np.ones(60))
    beta = (problem.lower + problem.upper) * random.choice([0.0, 0.5, 1.0], size=60)
    exact = squared_spans(problem, beta, np.zeros(60), Matrix(K))
    monkeypatch.setattr(leave_one_out, "COLUMNS_AT_ONCE", 7)
    np.testing.assert_allclose(squared_spans(problem, beta, np.zeros(60), Matrix(K)), exact)
    single = squared_spans(problem, beta, np.zeros(60), Matrix(K.astype(np.float32)))
    np.testing.assert_allclose(single, exact, atol=5e-3)
    monkeypatch.setattr(leave_one_out, "MOST_FREE", 10)
    assert (squared_spans(problem, beta, np.zeros(60), Matrix(K)) >= exact - 1e-9).all()  # farther from a part of F


@pytest.mark.usefixtures("sharp")
def test_where_less_than_two_are_free_the_nearest_to_the_margin_stand_in() -> None:
    random = np.random.default_rng(3)
    K = oracle.kernel_matrix("rbf", random.normal(size=(20, 2)), gamma=0.3)
    signs = np.where(np.arange(20) % 2, 1.0, -1.0)
    problem = classification_problem(signs, np.ones(20))
    gradient = random.normal(size=20)
    spans = squared_spans(problem, signs, gradient, Matrix(K))  # all at their bound
    first, second = np.argsort(np.abs(gradient - problem.best_level(signs, gradient)))[:2]
    assert spans[first] == pytest.approx(2.0 - 2.0 * K[first, second])  # the distance from the only other one
    for i in np.setdiff1d(np.arange(20), [first, second]):
        share = np.linspace(-5, 5, 100_001)  # the distance from the line through both
        line = 1.0 + share**2 + (1 - share) ** 2 + 2 * share * (1 - share) * K[first, second]
        assert spans[i] == pytest.approx((line - 2 * share * K[i, first] - 2 * (1 - share) * K[i, second]).min(), abs=1e-6)
    free = classification_problem(signs, np.ones(20), fit_intercept=False)
    np.testing.assert_allclose(squared_spans(free, signs, gradient, Matrix(K)), 1.0)  # from nothing: |phi(x_i)|


@pytest.mark.usefixtures("sharp")
def test_no_decision_is_outside_the_range_of_the_training_set() -> None:
    """C so large that the support set cannot stay: the rule, a straight line, would lead far outside."""
    X, y = make_moons(300, noise=0.35, random_state=0)
    model = SVC(C=1e3, kernel="linear").fit(X, y)
    decisions, without = model.decision_function(X), loo_decisions(model, X, y)
    assert without.min() >= decisions.min() - 1e-9
    assert without.max() <= decisions.max() + 1e-9


def refitted(model: Any, X: Any, y: Any) -> tuple[Any, list[Any]]:
    """Decisions by real refits without each sample, and the machines that made them."""
    machines = [type(model)(**model.get_params()).fit(np.delete(X, i, 0), np.delete(y, i)) for i in range(len(y))]
    return np.array([machine.decision_function(X[[i]])[0] for i, machine in enumerate(machines)]), machines


def support_set(model: Any, n: int) -> Any:
    """For each sample -1, 0 or 1: no support vector, free, at its bound."""
    alpha = np.zeros(n)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    bound = model.C if model.loss == "hinge" else np.inf
    return np.where(alpha == 0.0, -1, np.where(alpha < bound, 0, 1))


@pytest.mark.parametrize("machine", MACHINES, ids=name)
def test_decisions_without_a_sample_against_refits(machine: Any, noisy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = noisy
    model = machine.fit(X, y)
    decisions, (true, machines) = model.decision_function(X), refitted(model, X, y)
    without = loo_decisions(model, X, y)
    assert np.corrcoef(without, true)[0, 1] > max(0.96, np.corrcoef(decisions, true)[0, 1])
    assert abs(np.mean((without > 0) != y) - np.mean((true > 0) != y)) < 0.04

    monkeypatch.setattr(leave_one_out, "WIDTH", 0.0)
    without = loo_decisions(model, X, y)
    state = support_set(model, len(y))
    np.testing.assert_allclose(without[state < 0], true[state < 0], atol=1e-6)  # no support vector: exact
    stays = np.array([np.array_equal(np.delete(state, i), support_set(m, len(y) - 1)) for i, m in enumerate(machines)])
    exact = stays & (state >= 0)
    np.testing.assert_allclose(without[exact], true[exact], atol=1e-6)  # the support set stays: exact
    assert exact.any()


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_few_free_samples_do_not_mislead(C: float, noisy: Any) -> None:
    """A linear machine has about as many free samples as features, and far more at their bound."""
    X, y = noisy
    model = SVC(kernel="linear", C=C, tol=TIGHT).fit(X, y)
    without, (true, _) = loo_decisions(model, X, y), refitted(model, X, y)
    error = np.sqrt(np.mean((without - true) ** 2))
    assert error < 0.7 * np.sqrt(np.mean((model.decision_function(X) - true) ** 2))


def test_nu_machines_without_a_sample(noisy: Any) -> None:
    X, y = noisy
    model = NuSVC(nu=0.4, gamma=0.5, tol=TIGHT).fit(X, y)
    without, (true, _) = loo_decisions(model, X, y), refitted(model, X, y)
    assert np.corrcoef(without, true)[0, 1] > max(0.98, np.corrcoef(model.decision_function(X), true)[0, 1])
    twin = SVC(C=1.0 / model.rho_, gamma=0.5, tol=TIGHT).fit(X, y)
    assert np.corrcoef(without, loo_decisions(twin, X, y))[0, 1] > 0.99


@pytest.mark.parametrize(
    "machine",
    [SVC(), SVC(multi_class="ovr"), NuSVC(nu=0.6), SVC(break_ties=True, class_weight="balanced"), SVC(loss="squared_hinge")],
    ids=name,
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_error_is_that_of_the_decisions(machine: Any, n_classes: int) -> None:
    """`loo_error_` asks machines that did not see a sample only where they matter; here all are asked."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes][:, :2], y[y < n_classes]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = machine.set_params(probability="loo").fit(X, y, weights)
    decisions = loo_decisions(model, X, y, weights)
    chosen = model._choose(decisions.reshape(len(y), -1))
    assert model.loo_error_ == pytest.approx(np.average(chosen != y, weights=weights), abs=1e-12)
    assert model.loo_error_ > 1.0 - model.score(X, y, weights) - 1e-12


@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.4), SVC(loss="squared_hinge", class_weight="balanced")], ids=name)
def test_the_maps_are_those_of_the_decisions(machine: Any, noisy: Any) -> None:
    """What the fit knows and what can be told of its result afterwards are the same."""
    X, y = noisy
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = machine.set_params(probability="loo").fit(X, y, weights)
    sigmoid = Sigmoid.fit(loo_decisions(model, X, y, weights), y == 1, weights)
    np.testing.assert_allclose([model.probA_[0], model.probB_[0]], [sigmoid.slope, sigmoid.offset], rtol=1e-7)


def test_the_error_estimates_that_on_new_data() -> None:
    X, y = make_moons(4000, noise=0.3, random_state=0)
    model = SVC(probability="loo", C=10.0).fit(X[:500], y[:500])
    assert model.loo_error_ == pytest.approx(1.0 - model.score(X[500:], y[500:]), abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda X, y: (X[1:], y[1:]), r"X has shape \(99, 3\): must be the training set of the model, of shape \(100, 3\)"),
        (lambda X, y: (X, y + 1), r"y has classes that the model was not fitted on: must be among \[0, 1\]"),
    ],
)
def test_decisions_are_about_the_training_set(wrong: Any, message: str, noisy: Any) -> None:
    model = SVC().fit(*noisy)
    with pytest.raises(ValueError, match=message):
        loo_decisions(model, *wrong(*noisy))
    with pytest.raises(TypeError, match="must be a fitted classifier"):
        loo_decisions("SVC", *noisy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"multi_class": "crammer_singer"}, "multi_class='crammer_singer': must be 'ovo' or 'ovr'"),
        ({"solver": "dual-ascent"}, "solver='dual-ascent': its intercept is a weight"),
    ],
)
def test_machines_that_the_rule_is_not_about(parameters: dict[str, Any], message: str, noisy: Any) -> None:
    X, y = noisy
    with pytest.raises(ValueError, match=f"^{message}"):
        loo_decisions(SVC(**parameters, tol=1e-2).fit(X, y), X, y)
    with pytest.raises(ValueError, match=r"^probability='loo'.*(use|has)"):
        SVC(**parameters, probability="loo").fit(X, y)


# --- what does not matter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", ["loo", "cv"])
def test_the_same_each_time_and_in_every_thread(probability: str) -> None:
    X, y = load_iris(return_X_y=True)

    def probabilities_of(_: int) -> Any:
        return SVC(probability=probability).fit(X, y).predict_proba(X)

    first = probabilities_of(0)
    with ThreadPoolExecutor(2) as pool:
        for other in pool.map(probabilities_of, range(6)):
            np.testing.assert_array_equal(other, first)


def test_order_names_and_copies(noisy: Any) -> None:
    X, y = noisy
    order = np.random.default_rng(0).permutation(len(y))
    model = SVC(tol=TIGHT).fit(X, y)
    without = loo_decisions(model, X, y)
    shuffled = loo_decisions(SVC(tol=TIGHT).fit(X[order], y[order]), X[order], y[order])
    np.testing.assert_allclose(shuffled, without[order], atol=1e-7)
    renamed = np.where(y == 1, "a", "b")
    np.testing.assert_allclose(loo_decisions(SVC(tol=TIGHT).fit(X, renamed), X, renamed), -without, atol=1e-7)
    twice = np.vstack([X, X]), np.concatenate([y, y])  # K_FF is singular where both copies are free
    assert np.isfinite(loo_decisions(SVC(tol=TIGHT, C=np.inf, gamma=2.0).fit(*twice), *twice)).all()


@pytest.mark.parametrize("probability", ["loo", "cv"])
def test_samples_without_weight(probability: str, noisy: Any) -> None:
    X, y = noisy
    weights = np.ones(len(y))
    weights[::7] = 0.0
    kept = weights > 0
    some = SVC(probability=probability, gamma=0.5, tol=TIGHT).fit(X, y, weights)
    if probability == "loo":
        fewer = SVC(probability=probability, gamma=0.5, tol=TIGHT).fit(X[kept], y[kept])
        np.testing.assert_allclose(some.predict_proba(X), fewer.predict_proba(X), atol=1e-6)
        assert some.loo_error_ == pytest.approx(fewer.loo_error_)
    np.testing.assert_allclose(some.predict_proba(X).sum(axis=1), 1.0)


def test_a_weight_is_left_out_as_a_whole(noisy: Any) -> None:
    X, y = noisy
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    model = SVC(gamma=0.5, tol=TIGHT).fit(X, y, weights)
    without = loo_decisions(model, X, y, weights)
    true = np.array(
        [
            SVC(gamma=0.5, tol=TIGHT).fit(X, y, np.where(np.arange(len(y)) == i, 0.0, weights)).decision_function(X[[i]])[0]
            for i in range(len(y))
        ]
    )
    assert np.corrcoef(without, true)[0, 1] > max(0.98, np.corrcoef(model.decision_function(X), true)[0, 1])


@pytest.mark.parametrize("probability", ["loo", "cv"])
def test_other_forms_of_the_same_data(probability: str, noisy: Any) -> None:
    X, y = noisy
    dense = SVC(probability=probability, gamma=0.5, tol=TIGHT).fit(X, y).predict_proba(X)
    parameters: dict[str, Any] = {"probability": probability, "tol": TIGHT}
    sparse = sp.csr_array(X)
    K = oracle.kernel_matrix("rbf", X, gamma=0.5)
    for model, data in [
        (SVC(gamma=0.5, **parameters), sparse),
        (SVC(kernel="precomputed", **parameters), K),
        (SVC(kernel=partial(oracle.kernel_matrix, "rbf", gamma=0.5), **parameters), X),
        (SVC(gamma=0.5, backend="reference", **parameters), X),
    ]:
        np.testing.assert_allclose(model.fit(data, y).predict_proba(data), dense, atol=1e-5)


def test_large_problems_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_moons(1500, noise=0.3, random_state=0)
    single = SVC(probability="loo", C=3.0).fit(X, y)
    monkeypatch.setattr(probabilities, "SMALL", 2000)
    double = SVC(probability="loo", C=3.0).fit(X, y)
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=1e-4)
    assert single.loo_error_ == pytest.approx(double.loo_error_, abs=1e-3)
    assert not np.array_equal(single.probA_, double.probA_)


# --- cross-validation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVC(gamma=0.5, tol=TIGHT), NuSVC(nu=0.4, gamma=0.5, tol=TIGHT)], ids=name)
def test_folds_are_those_of_real_refits(machine: Any, noisy: Any) -> None:
    X, y = noisy
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model = machine.set_params(probability="cv", random_state=3).fit(X, y)
    decisions = np.empty(len(y))
    for out in stratified_folds(y, probabilities.N_FOLDS, np.random.RandomState(3)):
        refit = type(machine)(**machine.get_params() | {"probability": False}).fit(X[~out], y[~out])
        decisions[out] = refit.decision_function(X[out])
    sigmoid = Sigmoid.fit(decisions, y == 1, np.ones(len(y)))
    np.testing.assert_allclose([model.probA_[0], model.probB_[0]], [sigmoid.slope, sigmoid.offset], rtol=1e-5)
    assert not hasattr(model, "loo_error_")


def test_folds_are_seeded_and_change_nothing_else(noisy: Any) -> None:
    X, y = noisy
    plain, one, same, other = (
        SVC(probability=probability, random_state=seed).fit(X, y)
        for probability, seed in ((False, None), ("cv", 1), ("cv", 1), ("cv", 2))
    )
    np.testing.assert_array_equal(one.predict_proba(X), same.predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))
    for attribute in ("dual_coef_", "intercept_", "support_", "n_iter_"):
        np.testing.assert_array_equal(getattr(plain, attribute), getattr(one, attribute))
    assert plain.certificate_.gap == one.certificate_.gap


def test_every_fold_has_its_share_of_every_class() -> None:
    labels = np.repeat([0, 1, 2], [50, 13, 2])
    folds = stratified_folds(labels, 5, np.random.RandomState(0))
    np.testing.assert_array_equal(np.sum(folds, axis=0), 1)
    for label, least, most in ((0, 10, 10), (1, 2, 3), (2, 0, 1)):
        counts = [np.sum(labels[out] == label) for out in folds]
        assert min(counts) == least
        assert max(counts) == most


def test_a_fold_starts_near_the_solution_of_all() -> None:
    """Feasible, and only variables near the margin moved besides those held out."""
    random = np.random.default_rng(0)
    signs = np.where(random.random(200) < 0.5, 1.0, -1.0)
    whole = classification_problem(signs, np.ones(200))
    beta = signs * random.choice([0.0, 0.5, 1.0], size=200)
    beta = whole.feasible(beta)
    gradient = random.normal(size=200)
    out = random.random(200) < 0.2
    part = classification_problem(signs, np.where(out, 0.0, 1.0))
    solution = Solution(beta, gradient, Status.CONVERGED, 0.0, 0, Trace(), "")
    start = start_from(part, whole, solution)
    assert (start >= part.lower).all()
    assert (start <= part.upper).all()
    assert abs(start.sum()) < 1e-12
    moved = ~out & (start != beta)
    missing = abs(beta[out].sum())
    assert moved.sum() <= 3 * missing + 3
    nearest = np.abs(gradient - whole.best_level(beta, gradient))
    assert nearest[moved].max() < np.median(nearest)


def test_folds_that_time_did_not_allow() -> None:
    """The maps are then fitted on leave-one-out decisions, and the fit says that it was stopped."""
    X, y = make_blobs(300, centers=3, cluster_std=3.0, random_state=0)
    stop = [lambda progress: progress.machine >= 3]
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model = SVC(probability="cv", callbacks=stop, max_iter=10**9).fit(X, y)  # with limited steps one machine after the other
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert log_loss(y, model.predict_proba(X)) < 1.0


# --- maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear to accept sample_weight")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_maps_against_scikit_learn(method: str, weighted: bool) -> None:
    """On decisions of a machine that is not fitted again."""
    X, y = make_moons(400, noise=0.4, random_state=0)
    model = SVC().fit(X[:100], y[:100])
    X, y = X[100:], y[100:]
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y)) if weighted else None
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method=method, ensemble=False).fit(X, y, sample_weight=weights)
    decisions = model.decision_function(X)
    ours = {"sigmoid": Sigmoid, "isotonic": Isotonic}[method].fit(
        decisions, y == 1, np.ones(len(y)) if weights is None else weights
    )
    np.testing.assert_allclose(ours(decisions), theirs.predict_proba(X)[:, 1], atol=1e-5)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("shape", ["apart", "mixed", "equal", "reversed", "one class"])
def test_the_sigmoid_is_at_its_minimum(size: float, shape: str) -> None:
    """Both derivatives of the likelihood vanish, for decisions of any size and kind."""
    random = np.random.default_rng(0)
    positive = random.random(200) < 0.3
    decisions = random.normal(size=200) + {"apart": 10.0, "mixed": 1.0, "reversed": -1.0}.get(shape, 0.0) * positive
    if shape == "equal":
        decisions = np.ones(200)
    if shape == "one class":
        positive[:] = True
    weights = random.uniform(0.5, 2.0, 200)
    above, below = weights[positive].sum(), weights[~positive].sum()
    target = np.where(positive, (above + 1) / (above + 2), 1 / (below + 2))
    sigmoid = Sigmoid.fit(size * decisions, positive, weights)
    residual = weights * (sigmoid(size * decisions) - target)
    assert abs(residual.sum()) < 1e-6 * weights.sum()
    assert abs(residual @ decisions) < 1e-6 * (weights @ np.abs(decisions))


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_probabilities_rise_with_the_decision(calibration: str, noisy: Any) -> None:
    X, y = noisy
    model = SVC(probability="loo", calibration=calibration).fit(X, y)
    order = np.argsort(model.decision_function(X))
    probabilities = model.predict_proba(X)[order, 1]
    assert (np.diff(probabilities) >= 0).all()
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1
    assert np.ptp(probabilities) > 0.5


# --- coupling ---------------------------------------------------------------------------------------------------------


def test_coupling_of_pairs_that_agree() -> None:
    """If r_ij = p_i / (p_i + p_j) for some p, then it is p."""
    p = np.random.default_rng(0).dirichlet(np.ones(5), size=30)
    pairs = np.stack([p[:, i] / (p[:, i] + p[:, j]) for i, j in combinations(range(5), 2)], axis=1)
    np.testing.assert_allclose(couple_pairs(pairs, 5), p, atol=1e-5)


def test_coupling_is_at_its_minimum() -> None:
    """Whatever the pairs say: probabilities, and no way along sum(p) = 1 is down."""
    random = np.random.default_rng(0)
    pairs = random.choice([0.0, 1e-9, 0.2, 0.5, 0.9, 1.0], size=(5000, 6))
    p = couple_pairs(pairs, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p >= 0).all()

    def value(p: Any) -> Any:
        clipped = np.clip(pairs, 1e-7, 1 - 1e-7)
        terms = zip(combinations(range(4), 2), clipped.T, strict=True)
        return sum(((1 - r) * p[:, i] - r * p[:, j]) ** 2 for (i, j), r in terms)

    for _ in range(20):
        direction = random.normal(size=4)
        direction -= direction.mean()
        assert (value(p + 1e-3 * direction) >= value(p) - 1e-12).all()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_coupling_against_libsvm() -> None:
    """From the decisions and sigmoids of scikit-learn's machine to its probabilities, which LIBSVM couples by iteration."""
    svm = pytest.importorskip("sklearn.svm")
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]
    try:
        theirs = svm.SVC(probability=True, random_state=0, decision_function_shape="ovo").fit(X, y)
        pairs = 1.0 / (1.0 + np.exp(theirs.decision_function(X) * theirs.probA_ + theirs.probB_))
    except (AttributeError, TypeError):
        pytest.skip("this scikit-learn has no probabilities of its own any more")
    np.testing.assert_allclose(couple_pairs(pairs, 3), theirs.predict_proba(X), atol=5e-3)


def test_one_vs_rest_is_normalised() -> None:
    np.testing.assert_allclose(normalise(np.array([[0.2, 0.2, 0.4], [0.0, 0.0, 0.0]])), [[0.25, 0.25, 0.5], [1 / 3] * 3])


# --- the estimators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVC, NuSVC])
def test_a_machine_without_probabilities_says_how_to_get_them(machine: Any) -> None:
    X, y = load_iris(return_X_y=True)
    model = machine().fit(X, y)
    for method in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match=rf"{method} .* fit {machine.__name__}\(probability='loo'\)"):
            getattr(model, method)
    for attribute in ("probA_", "probB_", "loo_error_"):
        assert not hasattr(model, attribute)
    model.set_params(probability="loo")
    with pytest.raises(NotFittedError, match="not available when fitted with probability=False: fit again"):
        model.predict_proba(X)
    with pytest.raises(NotFittedError):
        machine(probability="loo").predict_proba(X)
    assert hasattr(model.fit(X, y), "loo_error_")
    assert not hasattr(model.set_params(probability=False).fit(X, y), "loo_error_")


def test_true_means_leaving_one_out(noisy: Any) -> None:
    X, y = noisy
    one, other = SVC(probability=True).fit(X, y), SVC(probability="loo").fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.loo_error_ == other.loo_error_


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1.0, 1: 20.0}])
def test_prediction_and_probability_of_two_classes(class_weight: Any, noisy: Any) -> None:
    """They differ only where the decision lies between zero and that at which the classes are equally probable."""
    X, y = noisy
    model = SVC(probability="loo", class_weight=class_weight).fit(X, y)
    decisions, middle = model.decision_function(X), -model.probB_[0] / model.probA_[0]
    between = (decisions > min(0.0, middle)) == (decisions < max(0.0, middle))
    differ = model.predict_proba(X).argmax(axis=1) != model.predict(X)
    np.testing.assert_array_equal(differ, between & (decisions != middle))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1.0 / (1.0 + np.exp(model.probA_[0] * decisions + model.probB_[0])))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("probability", ["loo", "cv"])
@pytest.mark.parametrize("machine", [SVC(), SVC(multi_class="ovr"), NuSVC(nu=0.7)], ids=name)
def test_probabilities_of_several_classes(machine: Any, probability: str, calibration: str) -> None:
    X, y = make_blobs(400, centers=4, cluster_std=2.5, random_state=1)
    model = machine.set_params(probability=probability, calibration=calibration).fit(X[:200], y[:200])
    probabilities = model.predict_proba(X[200:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.mean(probabilities.argmax(axis=1) == model.predict(X[200:])) > 0.9
    assert log_loss(y[200:], normalise(np.maximum(probabilities, 1e-3))) < 0.75 * np.log(4)
    assert len(model.calibration_) == len(model.intercept_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "machine",
    [
        SVC(C=1e-6),
        SVC(C=1e-6, fit_intercept=False),
        SVC(C=1e6, kernel="linear"),
        SVC(gamma=1e-12),
        SVC(gamma=1e12),
        SVC(kernel="linear", C=np.inf),
        NuSVC(nu=0.3, gamma=100.0),
    ],
    ids=name,
)
@pytest.mark.parametrize("probability", ["loo", "cv"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_machines_have_finite_probabilities(machine: Any, probability: str) -> None:
    X, y = make_blobs(60, centers=3, random_state=0)
    model = machine.set_params(probability=probability).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("probability", ["loo", "cv"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kernel", ["linear", "rbf", "sigmoid"])
def test_poor_data_has_finite_probabilities(probability: str, kernel: str) -> None:
    """Samples that are all the same or zero, a class of one or two samples."""
    random = np.random.default_rng(0)
    for X in (np.zeros((12, 2)), np.ones((12, 2)), random.normal(size=(12, 2))):
        for y in (np.arange(12) % 2, (np.arange(12) == 0).astype(int), np.minimum(np.arange(12) // 2, 2)):
            model = SVC(probability=probability, kernel=kernel, gamma=1.0).fit(X, y)
            assert np.isfinite(model.predict_proba(X)).all()


def test_columns_with_names(noisy: Any) -> None:
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X[:, :2], columns=["a", "b"])
    model = SVC(probability="loo").fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame), SVC(probability="loo").fit(X[:, :2], y).predict_proba(X[:, :2]))
    assert loo_decisions(model, frame, y).shape == (150, 3)


@pytest.mark.parametrize("probability", ["loo", "cv"])
def test_as_good_as_refits(probability: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:380], order[380:]
    ours = SVC(probability=probability).fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    theirs = CalibratedClassifierCV(SVC(), ensemble=False).fit(X[train], y[train]).predict_proba(X[test])[:, 1]
    for score in (log_loss, brier_score_loss):
        assert score(y[test], ours) < 1.05 * score(y[test], theirs)


@parametrize_with_checks(
    [SVC(probability="loo"), SVC(probability="cv"), LinearSVC(probability="loo")],
    expected_failed_checks=lambda model: {
        **dict.fromkeys(
            ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
            "a sample with a weight is left out as a whole, its copies one by one",
        ),
        **({"check_classifiers_train": "predict goes by the sign of the decision"} if isinstance(model, LinearSVC) else {}),
    },
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("weight", [1.0, 1e6, 1e12])
def test_equal_decisions_have_the_probability_of_the_classes(weight: float) -> None:
    """Their Newton matrix is singular, and heavy weights leave nothing of a small ridge."""
    decisions, positive = np.full(300, 0.7), np.arange(300) < 100
    sigmoid = Sigmoid.fit(decisions, positive, np.full(300, weight))
    assert np.allclose(sigmoid(decisions), 1 / 3, rtol=0.0, atol=1e-3)
