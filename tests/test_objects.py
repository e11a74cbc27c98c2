"""Kernels and losses as objects with parameters of their own: the Matérn kernel, the hinge with a rounded corner."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV

from maxmargin import SVC, SVCCV, SVR, KernelRegressor
from maxmargin.formulations import HuberHinge, SquaredHinge
from maxmargin.kernels import RBF, Matern32, Polynomial
from maxmargin.theory.bias import biases
from maxmargin.theory.optimality import kkt_report

X, y = make_moons(160, noise=0.25, random_state=0)
SIGNS = 2.0 * y - 1.0
TARGETS = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2


def matern(A: np.ndarray, B: np.ndarray, gamma: float) -> np.ndarray:
    """(1 + t) exp(-t), t = sqrt(3) gamma |a - b|, in 80-bit arithmetic."""
    distances = np.sqrt(((A[:, None, :].astype(np.longdouble) - B[None].astype(np.longdouble)) ** 2).sum(axis=2))
    t = np.sqrt(np.longdouble(3.0)) * gamma * distances
    return (1.0 + t) * np.exp(-t)


def huber(slack: np.ndarray, delta: float) -> np.ndarray:
    return np.where(slack <= delta, slack**2 / (2.0 * delta), slack - delta / 2.0)


@pytest.mark.parametrize("n_features", [2, 80])
def test_the_matern_kernel_is_its_formula_to_the_rounding_it_claims(n_features: int) -> None:
    A = np.random.default_rng(0).normal(size=(40, n_features)) / np.sqrt(n_features)
    kernel = Matern32(1.7)
    off = np.abs(kernel.exact_block(A, A) - matern(A, A, 1.7)).astype(float)
    allowed = kernel.rounding(n_features)
    if n_features > 64:  # distances from dot products
        products = kernel.rounding_of_products((A**2).sum(axis=1), n_features)
        allowed = allowed + products[:, None] + products[None, :]
    assert (off <= allowed).all()
    assert np.linalg.eigvalsh(kernel.block(A, A)).min() > 0.0
    assert kernel.diag(A).tolist() == [1.0] * 40


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_machine_with_the_matern_kernel_is_that_of_its_matrix(backend: str) -> None:
    K = matern(X, X, 2.0).astype(float)
    by_matrix = SVC(kernel="precomputed", C=3.0).fit(K, y)
    for kernel in (Matern32(2.0), "matern32"):
        model = SVC(kernel=kernel, gamma=2.0, C=3.0, backend=backend).fit(X, y)
        assert model.certificate_.holds(1e-3)
        assert model.certificate_.primal == pytest.approx(by_matrix.certificate_.primal, rel=1e-6)
        np.testing.assert_allclose(model.decision_function(X), by_matrix.decision_function(K), atol=1e-4)
    ridge, expected = KernelRegressor(0.1, kernel=Matern32(2.0)), KernelRegressor(0.1, kernel="precomputed")
    np.testing.assert_allclose(ridge.fit(X, TARGETS).predict(X), expected.fit(K, TARGETS).predict(K), atol=1e-8)


def test_a_grid_over_a_kernel_that_no_compiled_code_knows() -> None:
    search = SVCCV(kernel="matern32", Cs=[1.0, 10.0], gammas=[0.5, 2.0], cv=3).fit(X, y)
    theirs = GridSearchCV(SVC(kernel=Matern32()), {"C": [1.0, 10.0], "kernel__gamma": [0.5, 2.0]}, cv=3).fit(X, y)
    np.testing.assert_allclose(np.sort(search.cv_results_["mean_test_score"]), np.sort(theirs.cv_results_["mean_test_score"]))
    assert search.best_score_ == pytest.approx(theirs.best_score_)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("delta", [0.1, 0.5, 3.0])
def test_the_certificate_of_the_huber_hinge_is_its_formula(delta: float, backend: str) -> None:
    model = SVC(gamma=1.0, C=2.0, loss=HuberHinge(delta), backend=backend).fit(X, y)
    decisions, K = model.decision_function(X), RBF(1.0).block(X, X)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    primal = 0.5 * beta @ K @ beta + 2.0 * huber(np.maximum(0.0, 1.0 - SIGNS * decisions), delta).sum()
    dual = SIGNS @ beta - 0.5 * beta @ K @ beta - 0.5 * delta / 2.0 * beta @ beta
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate_.dual == pytest.approx(dual, rel=1e-9)
    assert model.certificate_.holds(1e-3)
    assert np.abs(beta).max() <= 2.0


def test_the_huber_hinge_lies_between_the_hinge_and_the_squared_hinge() -> None:
    hinge = SVC(gamma=1.0).fit(X, y).certificate_.primal
    assert SVC(gamma=1.0, loss=HuberHinge(1e-6)).fit(X, y).certificate_.primal == pytest.approx(hinge, rel=1e-5)
    wide = SVC(gamma=1.0, C=1.0, loss=HuberHinge(1e3)).fit(X, y)  # no slack is as large as delta
    squared = SVC(gamma=1.0, C=1.0 / 2e3, loss="squared_hinge").fit(X, y)
    assert wide.certificate_.primal == pytest.approx(squared.certificate_.primal, rel=1e-6)


def test_regression_with_a_rounded_corner() -> None:
    model = SVR(gamma=1.0, C=5.0, epsilon=0.05, loss="huber_epsilon_insensitive").fit(X, TARGETS)
    slack = np.maximum(0.0, np.abs(TARGETS - model.predict(X)) - 0.05)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    primal = 0.5 * beta @ RBF(1.0).block(X, X) @ beta + 5.0 * huber(slack, HuberHinge().delta).sum()
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate_.holds(1e-3)


def test_parameters_of_objects_are_parameters_of_the_machine() -> None:
    kernel = Polynomial(degree=2, gamma="scale", coef0=1.0)
    model = SVC(kernel=kernel, loss=HuberHinge(0.3))
    assert model.get_params()["kernel__degree"] == 2
    changed = clone(model).set_params(kernel__degree=3, loss__delta=0.4, C=2.0)
    assert (changed.kernel.degree, changed.loss.delta, changed.C) == (3, 0.4, 2.0)
    assert (kernel.degree, model.loss.delta) == (2, 0.3)  # objects are not changed in place
    assert changed.fit(X, y).kernel_.gamma == pytest.approx(1.0 / (2.0 * X.var()))
    with pytest.raises(ValueError, match="Invalid parameter 'kernel__sigma'"):
        model.set_params(kernel__sigma=1.0)
    with pytest.raises(
        ValueError, match=r"The 'kernel\.gamma' parameter of SVC must be positive \(or 'scale', or 'auto'\)\. Got -1\.0 instead"
    ):
        SVC(kernel=RBF(-1.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"delta=0\.0: must be positive"):
        HuberHinge(0.0)


def test_the_theory_knows_a_loss_by_name_or_as_an_object() -> None:
    named, given = (SVC(gamma=1.0, loss=loss).fit(X, y) for loss in ("squared_hinge", SquaredHinge()))
    assert biases(named, X, y) == biases(given, X, y)
    assert kkt_report(given, X, y).problem == kkt_report(named, X, y).problem == "quadratic loss (k = 2)"
    with pytest.raises(TypeError, match="loss='huber_hinge': the theory here"):
        kkt_report(SVC(loss="huber_hinge").fit(X, y), X, y)
