"""The optimality conditions of fitted machines, duality in the course of a fit, and steps over two alphas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.theory.geometry import Hyperplane
from maxmargin.theory.optimality import Duality, PairProblem, duality, kkt_report, lagrangian


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.3, random_state=0)


def case(report, name):
    (found,) = (c for c in report.cases if c.name == name)
    return found


# --- the KKT conditions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_solution_fulfils_them(moons, kernel, loss, fit_intercept):
    X, y = moons
    model = SVC(C=1.5, kernel=kernel, loss=loss, fit_intercept=fit_intercept, tol=1e-9).fit(X, y)
    report = kkt_report(model, X, y)
    assert report.holds(1e-6), str(report)
    assert sum(c.count for c in report.cases) == len(y)
    assert report.primal == pytest.approx(model.certificate_.primal, rel=1e-8)
    assert report.dual == pytest.approx(model.certificate_.dual, rel=1e-8)
    names = {c.name for c in report.conditions}
    assert names == {"primal feasibility", "dual feasibility", "complementary slackness", "stationarity"}
    assert fit_intercept == any(c.formula == "sum_i alpha_i y_i = 0" for c in report.conditions)


def test_the_case_table_counts_the_support_vectors(moons):
    X, y = moons
    model = SVC(C=1.0, tol=1e-8).fit(X, y)
    report, size = kkt_report(model, X, y), np.abs(model.dual_coef_[0])
    assert case(report, "alpha = 0").count == len(y) - len(model.support_)
    assert case(report, "0 < alpha < C").count == np.sum(size < 1.0)
    assert case(report, "alpha = C").count == np.sum(size == 1.0)


def test_the_hard_margin():
    X, y = make_blobs([20, 20], centers=[[0, 0], [6, 5]], random_state=1)
    model = SVC(C=np.inf, kernel="linear", tol=1e-9).fit(X, y)
    report = kkt_report(model, X, y)
    assert report.problem == "hard margin"
    assert report.holds(1e-6), str(report)
    assert case(report, "alpha > 0").count == len(model.support_)
    moved = SVC(C=np.inf, kernel="linear", tol=1e-9).fit(X, y)
    moved.intercept_ = moved.intercept_ + 0.25
    worst = next(c for c in kkt_report(moved, X, y).conditions if c.name == "primal feasibility")
    assert worst.violation == pytest.approx(0.25, abs=1e-6)
    assert worst.sample in model.support_


def test_a_wrong_alpha_is_found_where_it_is(moons):
    X, y = moons
    model = SVC(C=1.0, tol=1e-8).fit(X, y)
    bounded = int(np.flatnonzero(np.abs(model.dual_coef_[0]) == 1.0)[0])
    model.dual_coef_ = model.dual_coef_.copy()
    model.dual_coef_[0, bounded] *= 1.5
    report = kkt_report(model, X, y)
    beyond = next(c for c in report.conditions if c.formula.startswith("mu_i = C_i"))
    assert (beyond.violation, beyond.sample) == (pytest.approx(0.5), model.support_[bounded])
    equality = next(c for c in report.conditions if c.formula == "sum_i alpha_i y_i = 0")
    assert equality.violation == pytest.approx(0.5)
    model.dual_coef_[0, bounded] *= -1.0
    negative = next(c for c in kkt_report(model, X, y).conditions if c.formula == "alpha_i >= 0")
    assert (negative.violation, negative.sample) == (pytest.approx(1.5), model.support_[bounded])


def test_an_unfinished_fit_violates_them(moons):
    X, y = moons
    with pytest.warns(match="max_iter"):
        model = SVC(C=100.0, max_iter=20).fit(X, y)
    assert not kkt_report(model, X, y).holds(1e-3)


def test_a_decision_function_from_elsewhere_is_not_stationary(moons):
    X, y = moons
    model = SVC(tol=1e-8).fit(X, y)
    model.support_vectors_ = model.support_vectors_ + 0.01
    w = next(c for c in kkt_report(model, X, y).conditions if c.formula.startswith("w ="))
    assert w.violation > 1e-3


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_are_prices(moons, loss):
    X, y = moons
    weights = np.random.default_rng(0).choice([0.0, 0.5, 3.0], len(y))
    model = SVC(loss=loss, class_weight={0: 2.0, 1: 0.7}, tol=1e-9).fit(X, y, weights)
    report = kkt_report(model, X, y, weights)
    assert report.holds(1e-6), str(report)
    assert case(report, "C = 0").count == np.sum(weights == 0)
    assert not kkt_report(model, X, y).holds(1e-3)
    assert report.primal == pytest.approx(model.certificate_.primal, rel=1e-8)


def test_sparse_precomputed_pipeline(moons):
    X, y = moons
    K = X @ X.T
    assert kkt_report(SVC(tol=1e-8).fit(csr_matrix(X), y), csr_matrix(X), y).holds(1e-6)
    assert kkt_report(SVC(kernel="precomputed", tol=1e-8).fit(K, y), K, y).holds(1e-6)
    pipeline = make_pipeline(StandardScaler(), SVC(tol=1e-8)).fit(X, y)
    assert kkt_report(pipeline, X, y).holds(1e-6)


def test_the_report_is_readable(moons):
    X, y = moons
    text = str(kkt_report(SVC().fit(X, y), X, y))
    for words in ("hinge loss", "complementary slackness", "mu_i xi_i = 0", "0 < alpha < C", "sample ", "gap"):
        assert words in text
    assert max(map(len, text.splitlines())) < 100


def test_errors_say_the_way_out(moons):
    X, y = moons
    with pytest.raises(ValueError, match="pass the 120 samples"):
        kkt_report(SVC().fit(X, y), X[:5], y[:5])
    with pytest.raises(ValueError, match="3 classes"):
        kkt_report(SVC().fit(X, np.arange(120) % 3), X, np.arange(120) % 3)


# --- duality -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "C"), [("hinge", 0.5), ("squared_hinge", 0.5), ("hinge", np.inf)])
def test_the_solution_is_a_saddle_point_of_the_lagrangian(loss, C):
    X, y = make_blobs([25, 20], centers=[[0, 0], [6, 5]] if np.isinf(C) else [[0, 0], [2, 2]], random_state=1)
    signs = np.where(y == 1, 1.0, -1.0)
    model = SVC(kernel="linear", loss=loss, C=C, tol=1e-10).fit(X, y)
    w, b = model.coef_[0], model.intercept_[0]
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    xi = None if np.isinf(C) else np.maximum(0.0, 1.0 - signs * (X @ w + b))
    mu = C - alpha if loss == "hinge" and np.isfinite(C) else np.zeros(len(y))

    def L(w, b, xi, alpha, mu):
        return lagrangian(Hyperplane(w, b), X, signs, alpha, xi, mu, C, k=2 if loss == "squared_hinge" else 1)

    optimum = L(w, b, xi, alpha, mu)
    assert optimum == pytest.approx(model.certificate_.primal, rel=1e-8)
    assert optimum == pytest.approx(model.certificate_.dual, rel=1e-8)
    rng = np.random.default_rng(0)
    lower, higher = [], []
    for _ in range(200):  # multipliers can only lower it, the primal point can only raise it
        lower.append(L(w, b, xi, rng.exponential(2.0 * alpha.max(), len(y)), rng.exponential(1.0, len(y))))
        moved = None if xi is None else xi + rng.normal(size=len(y))
        higher.append(L(w + rng.normal(size=2), b + rng.normal(), moved, alpha, mu))
    assert max(lower) <= optimum + 1e-8
    assert max(lower) < optimum - 1e-3  # these are not at the optimum
    assert min(higher) >= optimum - 1e-8
    assert max(higher) > optimum + 1e-3


def test_a_violated_constraint_makes_the_lagrangian_grow_without_bound():
    X, signs = np.array([[-1.0], [1.0], [0.2]]), np.array([-1.0, 1.0, -1.0])
    values = [lagrangian(Hyperplane([1.0], 0.0), X, signs, [0.0, 0.0, a]) for a in (0.0, 1.0, 10.0)]
    assert values == pytest.approx([0.5, 0.5 + 1.2, 0.5 + 12.0])


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_weak_and_strong_duality_in_the_course_of_a_fit(C):
    X, y = make_moons(2500, noise=0.3, random_state=0)  # more than one tile: several iterations
    model = SVC(C=C).fit(X, y)
    found = duality(model)
    assert len(found.primal) == len(model.trace_.gap)
    assert found.weak()
    assert found.strong(1e-2)
    assert found.relative_gap == pytest.approx(model.certificate_.relative_gap, rel=0.1, abs=1e-12)
    assert str(found).startswith("weak duality holds")


def test_a_dual_value_above_a_primal_value_is_noticed():
    wrong = Duality(np.array([3.0, 2.0]), np.array([1.0, 2.5]), 2.0, 1.9)
    assert not wrong.weak()
    assert not wrong.strong()
    assert "is violated" in str(wrong)
    right = replace(wrong, dual=np.array([1.0, 1.5]))
    assert right.weak()
    assert right.strong(0.1)
    assert not right.strong(1e-2)


# --- two alphas ----------------------------------------------------------------------------------------------------


def random_pair(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 3))
    C = tuple(rng.uniform(0.5, 2.0, 2).tolist())
    pair = PairProblem(A @ A.T, tuple(rng.choice([-1.0, 1.0], 2).tolist()), C, tuple(rng.normal(1.0, 1.0, 2).tolist()))
    return pair, tuple((rng.uniform(0, 1, 2) * C).tolist())


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_a_step_finds_the_best_point_of_the_segment(seed):
    pair, start = random_pair(seed)
    step = pair.step(start)
    for point in (step.end, step.unclipped):  # the equality is kept
        assert np.dot(pair.signs, point) == pytest.approx(np.dot(pair.signs, start))
    assert all(-1e-12 <= a <= c + 1e-12 for a, c in zip(step.end, pair.C, strict=True))
    assert step.low <= start[1] <= step.high

    def on_segment(second):
        first = start[0] + pair.signs[0] * pair.signs[1] * (start[1] - second)
        return -pair.value(first, second)

    best = minimize_scalar(on_segment, bounds=(step.low, step.high), method="bounded", options={"xatol": 1e-10})
    assert pair.value(*step.end) >= -best.fun - 1e-9
    assert pair.value(*step.end) >= pair.value(*start) - 1e-12
    inside = step.low < step.unclipped[1] < step.high
    assert inside == (step.end == step.unclipped)


def test_without_curvature_the_best_point_is_an_end():
    pair = PairProblem(np.ones((2, 2)), (1.0, -1.0), (1.0, 1.0))
    step = pair.step((0.0, 0.0))
    assert step.end == (1.0, 1.0)
    assert step.high == 1.0


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_coordinate_ascent_climbs_along_the_axes(seed):
    pair, start = random_pair(seed)
    path = pair.coordinate_ascent(start, steps=30)
    assert (np.diff(pair.value(*path.T)) >= -1e-12).all()
    assert (np.diff(path, axis=0) == 0).any(axis=1).all()
    assert (path >= 0).all()
    assert (path <= np.array(pair.C)).all()


def test_the_pairs_of_a_solution_have_nothing_to_gain(moons):
    X, y = moons
    model = SVC(C=1.0, tol=1e-9).fit(X, y)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    rng = np.random.default_rng(0)
    for _ in range(30):
        i, j = rng.choice(len(y), 2, replace=False)
        pair = PairProblem.of(model, X, y, i, j)
        start = (alpha[i], alpha[j])
        assert pair.value(*pair.step(start).end) <= pair.value(*start) + 1e-9
    # and a pair that was moved away finds its way back
    free = model.support_[np.abs(model.dual_coef_[0]) < 1.0][:2]
    pair = PairProblem.of(model, X, y, *free)
    s = pair.signs[0] * pair.signs[1]
    away = 0.3 * min(alpha[free[1]], 1 - alpha[free[1]], alpha[free[0]], 1 - alpha[free[0]])
    moved = (alpha[free[0]] - s * away, alpha[free[1]] + away)
    np.testing.assert_allclose(pair.step(moved).end, alpha[free], atol=1e-6)
