"""The judge, judged: its statements about small problems, executed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.svm import SVC

from benchmarks.truth import Duals, best_bias, kernel_product, project, true_gap


def duals_of(model: SVC) -> Duals:
    return Duals(model.support_, model.n_support_, model.dual_coef_)


@pytest.mark.parametrize("classes", [(0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_gap_vanishes_with_the_tolerance(load: Callable[..., Any], classes: tuple[int, ...]) -> None:
    X, y = load(return_X_y=True)
    X, y = ((X - X.mean(0)) / X.std(0))[np.isin(y, classes)], y[np.isin(y, classes)]
    loose, tight = (SVC(C=10.0, gamma=0.3, tol=tol).fit(X, y) for tol in (1e-1, 1e-9))
    gaps = [true_gap(X, y, duals_of(model), 10.0, 0.3).relative_gap for model in (loose, tight)]
    assert gaps[0] > 1e-3
    assert -1e-12 < gaps[1] < 1e-6  # LIBSVM keeps kernel values in float32, so it can do no better than about 1e-7


def test_bounds_enclose_the_optimum_even_for_an_infeasible_model() -> None:
    X, y = load_wine(return_X_y=True)
    X, y = (X - X.mean(0)) / X.std(0), y == 0
    model = SVC(C=1.0, gamma=0.1, tol=1e-9).fit(X, y)
    best = true_gap(X, y, duals_of(model), 1.0, 0.1)
    moved = model.dual_coef_ + np.random.default_rng(0).normal(scale=0.1, size=model.dual_coef_.shape)
    worse = true_gap(X, y, Duals(model.support_, model.n_support_, moved), 1.0, 0.1)
    assert worse.box_violation > 0.01
    assert worse.equality_violation > 1e-3
    assert worse.dual < best.dual <= best.primal < worse.primal


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
    moved = project(beta + np.array([0.3, 0.5, 0.1, -0.4]), lower, upper)
    assert abs(moved.sum()) < 1e-14
    assert (lower <= moved).all()
    assert (moved <= upper).all()


def test_kernel_product_far_from_the_origin() -> None:
    A = np.random.default_rng(2).normal(size=(50, 3)) + 1e4
    direct = np.exp(-0.5 * ((A[:, None] - A[None]) ** 2).sum(-1))
    np.testing.assert_allclose(kernel_product(A, A, np.eye(50), 0.5), direct, rtol=1e-11)
