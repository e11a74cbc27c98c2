"""Kernel regression: scikit-learn's contract, KernelRidge's answers, and a certificate that can be believed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin.backends import make_backend
from maxmargin.control import Control, Stop
from maxmargin.estimators.kernel_regression import KernelRegressor, TrainingKernel
from maxmargin.kernels import RBF
from maxmargin.samples import make_samples
from maxmargin.solution import Status
from maxmargin.solvers import ridge
from maxmargin.theory.mercer import product_features, product_kernel
from tests import oracle
from tests.wording import of_parameter

VARIANTS = [
    KernelRegressor(),
    KernelRegressor(kernel="linear"),
    KernelRegressor(kernel="laplacian"),
    KernelRegressor(solver="cg"),
    KernelRegressor(backend="reference"),
]


@parametrize_with_checks(VARIANTS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=150)


def relative_error(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


# --- the same model as KernelRidge ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "linear"},
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "laplacian", "gamma": 0.2},
        {"kernel": "poly", "gamma": 0.5, "coef0": 1.0, "degree": 3},
        {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.1},
    ],
    ids=lambda kernel: kernel["kernel"],
)
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_kernel_ridge(data, kernel, solver, weighted):
    X, y = data
    weights = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y)) if weighted else None
    ours = KernelRegressor(0.5, solver=solver, random_state=0, **kernel).fit(X, y, weights)
    theirs = KernelRidge(alpha=0.5, **kernel).fit(X, y, weights)
    assert ours.status_ is Status.CONVERGED
    assert ours.solver_ == solver
    assert relative_error(ours.dual_coef_, theirs.dual_coef_) < 1e-8
    queries = np.random.default_rng(2).normal(size=(40, 4))
    assert relative_error(ours.predict(queries), theirs.predict(queries)) < 1e-8
    assert ours.certificate_.holds(1e-15)


@pytest.mark.parametrize("alpha", [10.0, 1e-2, 1e-5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equals_kernel_ridge_with_a_float32_factor(alpha, dtype):
    """More samples than are factored in float64; the ridge term decides whether float32 will do."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ridge.SMALL + 300, 6)).astype(dtype)
    y = np.sin(X[:, 0]).astype(dtype)
    ours = KernelRegressor(alpha, gamma=0.2).fit(X, y)
    theirs = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.2).fit(X.astype(np.float64), y.astype(np.float64))
    assert ours.arithmetic_.startswith("float64" if alpha == 1e-5 else "float32")
    assert ours.certificate_.holds(1e-12)
    assert relative_error(ours.dual_coef_, theirs.dual_coef_) < 1e-8
    assert relative_error(ours.predict(X), theirs.predict(X.astype(np.float64))) < 1e-8


def test_a_float32_factor_that_fails_is_done_again_in_float64(data):
    X, y = np.repeat(data[0], 2, axis=0), np.repeat(data[1], 2)
    problem = ridge.RidgeProblem(y[:, None], np.ones(len(y)), 1e-8)
    matrix = TrainingKernel(RBF(0.3), make_samples(X), make_backend("native"))
    solution = ridge.solve_by_factor(problem, matrix, Stop(1e-7), Control(), np.dtype(np.float32))
    assert solution.arithmetic.startswith("float64")
    assert solution.status is Status.CONVERGED
    np.testing.assert_allclose(RBF(0.3).block(X, X) @ solution.scaled[:, 0], y, atol=1e-5)


def test_several_outputs(data):
    X, y = data
    Y = np.stack([y, np.cos(X[:, 1]), np.zeros(len(y))], axis=1)
    for solver in ("cholesky", "cg"):
        model = KernelRegressor(0.1, gamma=0.3, solver=solver, random_state=0).fit(X, Y)
        theirs = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.3).fit(X, Y)
        assert model.dual_coef_.shape == (150, 3)
        assert relative_error(model.dual_coef_, theirs.dual_coef_) < 1e-8
        assert relative_error(model.predict(X[:7]), theirs.predict(X[:7])) < 1e-8
        assert not model.dual_coef_[:, 2].any()
        alone = KernelRegressor(0.1, gamma=0.3, solver=solver, random_state=0).fit(X, Y[:, :1])
        assert alone.predict(X[:7]).shape == (7, 1)
        assert relative_error(alone.dual_coef_[:, 0], model.dual_coef_[:, 0]) < 1e-8


def test_sparse_precomputed_and_callable_are_the_same(data):
    X, y = data
    dense = KernelRegressor(0.2, gamma=0.3).fit(X, y)
    sparse = KernelRegressor(0.2, gamma=0.3).fit(csr_matrix(X), y)
    K = oracle.kernel_of(dense, X)
    matrix = KernelRegressor(0.2, kernel="precomputed").fit(K, y)
    own = KernelRegressor(0.2, kernel=partial(oracle.kernel_matrix, "rbf", gamma=0.3)).fit(X, y)
    for model in (sparse, matrix, own):
        assert relative_error(model.dual_coef_, dense.dual_coef_) < 1e-9
    for values in (sparse.predict(csr_matrix(X)), sparse.predict(X), matrix.predict(K), own.predict(X)):
        assert relative_error(values, dense.predict(X)) < 1e-9


def test_things_that_are_no_rows_of_numbers():
    words = np.array(["sun", "moon", "star", "sunny", "moony", "a", "bb"])

    def letters(A, B):
        return np.array([[float(sum(a.count(c) * b.count(c) for c in set(a))) for b in B] for a in A])

    model = KernelRegressor(0.1, kernel=letters).fit(words, [len(word) for word in words])
    np.testing.assert_allclose(model.predict(words), [len(word) for word in words], atol=0.3)


def test_kernel_regression_is_linear_regression_on_the_features(data):
    """The cubic features of the lecture: 1 + x.z + (x.z)^2 + (x.z)^3, against the primal solution."""
    X, y = data
    phi = product_features(X, 3)
    w = np.linalg.solve(phi.T @ phi + 2.0 * np.eye(phi.shape[1]), phi.T @ y)
    model = KernelRegressor(2.0, kernel=product_kernel(3)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), phi @ w, atol=1e-8)
    np.testing.assert_allclose(phi.T @ model.dual_coef_, w, atol=1e-8)


def test_search_over_parameters(data):
    X, y = data
    search = GridSearchCV(KernelRegressor(), {"alpha": [1e-2, 1.0, 100.0], "gamma": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_["alpha"] < 100.0
    assert search.best_score_ > 0.5


# --- the certificate -----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e2))
def test_the_gap_is_primal_less_dual_at_any_point(seed, alpha):
    rng = np.random.default_rng(seed)
    A, y, s = rng.normal(size=(8, 5)), rng.normal(size=8), rng.uniform(0.2, 3.0, 8)
    K, beta = A @ A.T, rng.normal(size=8)
    problem = ridge.RidgeProblem(y[:, None], s, alpha)
    scaled, sums = (beta / np.sqrt(s))[:, None], (K @ beta)[:, None]
    truth = oracle.kernel_ridge(K, y, s, alpha, beta)
    assert problem.primal_value(scaled, sums) == pytest.approx(truth.primal)
    gap = 0.5 * np.sum(problem.residual(scaled, sums) ** 2)
    assert gap == pytest.approx(truth.gap, rel=1e-9, abs=1e-9 * truth.size)
    best = oracle.kernel_ridge(K, y, s, alpha, np.linalg.solve(K + alpha * np.diag(1.0 / s), y))
    assert best.gap == pytest.approx(0.0, abs=1e-9 * best.size)
    assert truth.dual - 1e-9 * best.size <= best.primal <= truth.primal + 1e-9 * best.size


def test_the_certificate_of_an_unfinished_fit_bounds_the_distance_to_the_optimum(data):
    X, y = data
    best = KernelRegressor(0.1, gamma=0.3).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*Relative gap"):
        early = KernelRegressor(0.1, gamma=0.3, solver="sgd", max_iter=3, random_state=0).fit(X, y)
    K = oracle.kernel_of(best, X)
    truth, optimum = (oracle.kernel_ridge(K, y, np.ones(len(y)), 0.1, model.dual_coef_) for model in (early, best))
    assert early.certificate_.primal == pytest.approx(truth.primal)
    assert early.certificate_.dual == pytest.approx(truth.dual)
    assert early.certificate_.gap >= truth.primal - optimum.primal > 0
    assert not early.certificate_.holds(1e-6)
    assert early.trace_.gap[-1] == pytest.approx(truth.gap)
    assert early.trace_.dual[-1] == pytest.approx(truth.dual)
    assert early.certificate_.gap_terms.sum() == pytest.approx(early.certificate_.gap)
    assert best.certificate_.gap_terms.shape == (len(y),)
    assert "duality gap" in str(best.certificate_)


# --- the lecture's algorithm ---------------------------------------------------------------------------------------


def lecture(K, t, rate, batches, alpha=0.0):
    """The dual formulation word for word, one beta at a time from a copy of the old ones."""
    beta = np.zeros(len(t))
    for batch in batches:
        old = beta.copy()
        for i in batch:
            beta[i] = old[i] + rate / len(batch) * (t[i] - sum(old[j] * K[i, j] for j in range(len(t))) - alpha * old[i])
    return beta


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_sgd_is_the_dual_algorithm_of_the_lecture(alpha):
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(12, 2)), rng.normal(size=12)
    model = KernelRegressor(alpha, kernel="linear", solver="sgd", batch_size=5, learning_rate=0.05, max_iter=2, random_state=7)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, t)
    draws = np.random.default_rng(np.random.RandomState(7).randint(2**31))
    orders = [draws.permutation(12) for _ in range(2)]
    batches = [batch for order in orders for batch in (order[:5], order[5:10], order[10:])]  # the last has what is left
    np.testing.assert_allclose(model.dual_coef_, lecture(X @ X.T, t, 0.05, batches, alpha), rtol=1e-10)


@pytest.mark.parametrize("batch_size", [1, 20, 1000])
def test_sgd_comes_to_the_exact_solution(data, batch_size):
    X, y = data
    exact = KernelRegressor(1.0, gamma=0.3).fit(X, y)
    model = KernelRegressor(1.0, gamma=0.3, solver="sgd", batch_size=batch_size, tol=1e-6, max_iter=-1, random_state=0).fit(
        X, y, np.ones(len(y))
    )
    assert model.status_ is Status.CONVERGED
    assert relative_error(model.predict(X), exact.predict(X)) < 1e-5
    assert (np.diff(model.trace_.dual) >= -1e-9).all()  # the automatic rate never loses ground
    assert model.n_iter_ == len(model.trace_.gap)


def test_sgd_takes_weights_and_several_outputs(data):
    X, y = data
    weights = np.random.default_rng(3).choice([0.0, 1.0, 3.0], len(y))
    Y = np.stack([y, -2 * y], axis=1)
    exact = KernelRegressor(1.0, gamma=0.3).fit(X, Y, weights)
    model = KernelRegressor(1.0, gamma=0.3, solver="sgd", tol=1e-6, max_iter=-1, random_state=0).fit(X, Y, weights)
    assert relative_error(model.predict(X), exact.predict(X)) < 1e-4
    assert not model.dual_coef_[weights == 0].any()


def test_sgd_without_the_matrix_in_memory_is_the_same(data):
    X, y = data
    one = KernelRegressor(solver="sgd", random_state=0).fit(X, y)
    other = clone(one).set_params(cache_size=1e-3).fit(X, y)
    np.testing.assert_allclose(other.dual_coef_, one.dual_coef_, rtol=1e-9)


def test_a_learning_rate_too_large_is_an_error(data):
    X, y = data
    with pytest.raises(ValueError, match=r"learning_rate=1000\.0: the steps diverge.*learning_rate='auto'"):
        KernelRegressor(solver="sgd", learning_rate=1e3, random_state=0).fit(X, y)


# --- memory, limits, hard problems ---------------------------------------------------------------------------------


def test_auto_goes_by_memory(data):
    X, y = data
    assert KernelRegressor().fit(X, y).solver_ == "cholesky"
    small = KernelRegressor(cache_size=0.1, random_state=0).fit(X, y)  # the matrix has 0.18 MB
    assert small.solver_ == "cg"
    assert relative_error(small.dual_coef_, KernelRegressor().fit(X, y).dual_coef_) < 1e-8


def test_landmarks_save_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    y = np.sin(3 * X[:, 0])
    with_landmarks = KernelRegressor(1e-3, gamma=0.5, solver="cg", random_state=0).fit(X, y)
    without = KernelRegressor(1e-3, gamma=0.5, solver="cg", cache_size=1e-4, random_state=0).fit(X, y)
    assert with_landmarks.n_iter_ < 0.5 * without.n_iter_
    assert relative_error(with_landmarks.predict(X), without.predict(X)) < 1e-7


def test_plain_regression_interpolates(data):
    X, y = data
    model = KernelRegressor(0.0, gamma=2.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-8)


def test_what_cannot_be_solved_ends_with_a_warning_and_a_certificate():
    X, y = np.ones((6, 2)), np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])  # the same sample with two targets
    with pytest.warns(ConvergenceWarning, match="larger alpha"):
        model = KernelRegressor(0.0, gamma=1.0).fit(X, y)
    assert not model.status_.converged
    assert model.certificate_.relative_gap > 0.1
    assert np.isfinite(model.dual_coef_).all()


def test_time_limit(data):
    X, y = data
    with pytest.warns(ConvergenceWarning, match="max_seconds"):
        model = KernelRegressor(1e-6, solver="sgd", tol=1e-12, max_iter=-1, max_seconds=0.05, random_state=0).fit(X, y)
    assert model.status_ is Status.MAX_SECONDS


def test_zero_targets(data):
    X, _ = data
    model = KernelRegressor().fit(X, np.zeros(len(X)))
    assert not model.dual_coef_.any()
    assert model.status_ is Status.CONVERGED


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, "alpha=-1.0: must be a finite number >= 0"),
        ({"kernel": "cosine"}, "kernel='cosine': must be one of linear"),
        ({"solver": "lsqr"}, "The 'solver' parameter of KernelRegressor must be one of auto, cholesky, cg, sgd"),
        ({"batch_size": 0}, "batch_size=0: must be a whole number >= 1"),
        ({"learning_rate": -0.1}, "learning_rate=-0.1: must be positive (or 'auto')"),
        ({"tol": 0.0}, "tol=0.0: must be positive"),
        ({"gamma": "wide"}, "gamma='wide': must be 'scale', 'auto' or a positive number"),
        ({"gamma": 0.3, "sigma": 1.0}, "give one of them"),
        ({"max_iter": -3}, "max_iter=-3: must be a whole number >= 0, or -1 for no limit"),
    ],
)
def test_errors_say_the_way_out(data, parameters, message):
    with pytest.raises(ValueError, match=of_parameter(message, "KernelRegressor").removeprefix("^")):
        KernelRegressor(**parameters).fit(*data)


def test_errors_about_the_data(data):
    X, y = data
    with pytest.raises(ValueError, match="square matrix"):
        KernelRegressor(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="all samples have zero"):
        KernelRegressor().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="not finite: scale the features"):
        KernelRegressor(kernel="poly").fit(X * 1e200, y)
