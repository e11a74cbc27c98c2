"""Tests of `truth`: its statements about small problems."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from benchmarks.truth import Duals, Truth, best_bias, kernel_product, least_slack, project, truth_about
from tests import oracle


def standardised(X: Any) -> Any:
    return (X - X.mean(0)) / X.std(0)


IRIS, WINE, DIABETES = (load(return_X_y=True) for load in (load_iris, load_wine, load_diabetes))
PROBLEMS: dict[str, tuple[type, Any, Any, dict[str, float]]] = {
    "SVC, two that do not overlap": (SVC, *(part[:100] for part in IRIS), {"C": 10.0, "gamma": 0.3}),
    "SVC, two that overlap": (SVC, *(part[50:] for part in IRIS), {"C": 10.0, "gamma": 0.3}),
    "SVC, three": (SVC, *WINE, {"C": 10.0, "gamma": 0.3}),
    "SVR": (SVR, DIABETES[0], standardised(DIABETES[1]), {"C": 10.0, "gamma": 0.1, "epsilon": 0.1}),
    "NuSVC, two": (NuSVC, *(part[50:] for part in IRIS), {"nu": 0.3, "gamma": 0.3}),
    "NuSVC, three": (NuSVC, *WINE, {"nu": 0.43, "gamma": 0.1}),
    "OneClassSVM": (OneClassSVM, WINE[0], WINE[1], {"nu": 0.1, "gamma": 0.1}),
}
problems = pytest.mark.parametrize(("machine", "X", "y", "settings"), PROBLEMS.values(), ids=PROBLEMS)


def judged(model: Any, X: Any, y: Any, settings: dict[str, float], moved_by: float = 0.0) -> Truth:
    noise = moved_by * np.random.default_rng(0).normal(size=model.dual_coef_.shape)
    n_support = getattr(model, "n_support_", np.array([len(model.support_)]))
    duals = Duals(model.support_, n_support, model.dual_coef_ * (1.0 + noise))
    return truth_about(type(model).__name__, X, y, duals, **settings)


@problems
def test_gap_vanishes_with_the_tolerance(machine: type, X: Any, y: Any, settings: dict[str, float]) -> None:
    X = standardised(X)
    loose, tight = (judged(machine(**settings, tol=tol).fit(X, y), X, y, settings) for tol in (1.0, 1e-9))
    assert loose.relative_gap > 10 * tight.relative_gap
    assert -1e-12 < tight.relative_gap < 1e-6  # LIBSVM keeps kernel values in float32, so it can do no better than about 1e-7
    assert tight.box_violation < 1e-12
    assert tight.equality_violation < 1e-12


@problems
def test_bounds_enclose_the_optimum_even_for_an_infeasible_model(
    machine: type, X: Any, y: Any, settings: dict[str, float]
) -> None:
    X = standardised(X)
    model = machine(**settings, tol=1e-9).fit(X, y)
    best, worse = judged(model, X, y, settings), judged(model, X, y, settings, moved_by=0.3)
    assert max(worse.box_violation, worse.equality_violation) > 1e-2
    assert worse.dual < best.dual + 1e-7 * abs(best.dual)
    assert best.dual <= best.primal < worse.primal


@problems
def test_the_model_s_own_bias_is_no_better(machine: type, X: Any, y: Any, settings: dict[str, float]) -> None:
    """The values that the oracle of the tests finds with the bias (and rho) of scikit-learn."""
    X = standardised(X)
    if len(np.unique(y)) == 3 and machine is not OneClassSVM:
        X, y = X[y < 2], y[y < 2]
    model = machine(**settings, tol=1e-6).fit(X, y)
    K, (beta,) = oracle.kernel_matrix("rbf", X, gamma=settings["gamma"]), oracle.coefficients(model, len(X))
    bias, one = model.intercept_[0], np.ones(len(X))
    signs = np.where(y == y.max(), 1.0, -1.0)
    match model:
        case NuSVC():  # scikit-learn divides by rho
            rho = settings["nu"] * len(X) / np.abs(beta).sum()
            own = oracle.nu_classifier(K, signs, one, settings["nu"], rho * beta, rho * bias, rho)
        case OneClassSVM():
            own = oracle.one_class(K, one, settings["nu"], beta, -bias)
        case SVR():
            own = oracle.regression(K, y, settings["C"] * one, settings["epsilon"], beta, bias)
        case _:
            own = oracle.classifier(K, signs, settings["C"] * one, beta, bias)
    truth = judged(model, X, y, settings)
    assert truth.primal <= own.primal + 1e-9 * abs(own.primal)
    assert truth.primal == pytest.approx(own.primal, rel=1e-4)
    assert truth.dual == pytest.approx(own.dual, rel=1e-9)


def test_least_slack_is_no_worse_at_any_other_level() -> None:
    margins = np.random.default_rng(1).normal(size=20)
    for total in (0.5, 3.0, 7.2, 19.9, 20.0):
        levels = np.linspace(-5, 5, 4001)
        values = np.maximum(0, levels[:, None] - margins).sum(axis=1) - total * levels
        assert least_slack(margins, total) <= values.min() + 1e-12


def test_best_bias_is_no_worse_than_any_other() -> None:
    random = np.random.default_rng(1)
    for positives in (1, 7, 19):
        f, sign = random.normal(size=20), np.where(np.arange(20) < positives, 1.0, -1.0)
        biases = np.append(np.linspace(-5, 5, 2001), best_bias(f, sign))
        losses = np.maximum(0, 1 - sign * (f + biases[:, None])).sum(axis=1)
        assert losses[-1] <= losses.min() + 1e-12


def test_projection_is_feasible_and_leaves_the_feasible_alone() -> None:
    beta = np.array([0.5, 1.0, -0.7, -0.8])
    lower, upper = np.array([0.0, 0, -1, -1]), np.array([1.0, 1, 0, 0])
    np.testing.assert_allclose(project(beta, lower, upper), beta, atol=1e-15)
    for total in (0.0, 1.5, -2.0, 2.0):  # the last two are all that the box allows
        moved = project(beta + np.array([0.3, 0.5, 0.1, -0.4]), lower, upper, total)
        assert abs(moved.sum() - total) < 1e-14
        assert (lower <= moved).all()
        assert (moved <= upper).all()


def test_kernel_product_far_from_the_origin() -> None:
    A = np.random.default_rng(2).normal(size=(50, 3)) + 1e4
    direct = oracle.kernel_matrix("rbf", A, gamma=0.5)
    np.testing.assert_allclose(kernel_product(A, A, np.eye(50), 0.5), direct, rtol=1e-11)
