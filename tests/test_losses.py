"""Losses: their gradients, how they compare, and the three losses of the machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, check_grad
from sklearn.datasets import make_moons

from maxmargin import SVC
from maxmargin.theory import losses
from maxmargin.theory.losses import MARGIN_LOSSES
from tests import oracle

SMOOTH = [losses.mse, losses.squared_error, losses.logistic, losses.quadratic_hinge]


@pytest.mark.parametrize("loss", [*SMOOTH, losses.hinge], ids=lambda loss: loss.name)
@settings(max_examples=40)
@given(t=st.sampled_from([-1.0, 1.0]), y=st.floats(-20, 20))
def test_gradient(loss, t, y):
    if loss is losses.hinge and abs(t * y - 1.0) < 1e-6:
        return  # at the kink any slope from -1 to 0 is one
    error = check_grad(lambda z: loss(t, z[0]), lambda z: loss.gradient(t, z), [y])
    assert error <= 1e-5 * max(1.0, abs(y))


@pytest.mark.parametrize("loss", [*SMOOTH, losses.hinge], ids=lambda loss: loss.name)
def test_the_gradient_supports_the_loss_from_below(loss):
    """They are convex, so a (sub)gradient at y bounds the loss everywhere: also at the kink."""
    grid = np.linspace(-3, 3, 61)
    for t in (-1, 1):
        tangents = loss(t, grid)[:, None] + loss.gradient(t, grid)[:, None] * (grid[None, :] - grid[:, None])
        assert (tangents <= loss(t, grid)[None, :] + 1e-12).all()


def test_values_of_the_comparison():
    m = np.array([-1.0, 0.0, 1.0, 3.0])
    for t in (-1, 1):  # functions of the margin t y alone
        np.testing.assert_allclose(losses.mse(t, t * m), 0.5 * (t - t * m) ** 2)  # with the factor of the regression table
        np.testing.assert_allclose(losses.squared_error(t, t * m), (m - 1) ** 2)
        np.testing.assert_allclose(losses.logistic(t, t * m), -np.log(1 / (1 + np.exp(-m))))
        np.testing.assert_allclose(losses.hinge(t, t * m), [2, 1, 0, 0])
        np.testing.assert_allclose(losses.quadratic_hinge(t, t * m), [4, 1, 0, 0])
        np.testing.assert_allclose(losses.zero_one(t, t * m), [1, 1, 0, 0])


def test_convex_losses_bound_the_errors():
    m = np.linspace(-4, 4, 201)
    for loss in (losses.squared_error, losses.hinge, losses.quadratic_hinge):
        assert (loss.of_margin(m) >= losses.zero_one.of_margin(m)).all()
    assert (2.0 * losses.mse.of_margin(m) >= losses.zero_one.of_margin(m)).all()
    assert (losses.logistic.of_margin(m) / np.log(2) >= losses.zero_one.of_margin(m)).all()
    assert set(MARGIN_LOSSES) == {"mse", "squared error", "logistic", "hinge", "quadratic hinge", "zero-one"}


def test_logistic_does_not_overflow():
    assert losses.logistic(1, -1e4) == pytest.approx(1e4)
    assert losses.logistic(1, 1e4) == 0.0
    assert losses.logistic.gradient(1, -1e4) == -1.0


# --- many classes --------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_softmax_gradient(seed, n_classes):
    rng = np.random.default_rng(seed)
    t, y = rng.integers(n_classes), rng.normal(0, 3, n_classes)
    numeric = approx_fprime(y, lambda z: losses.softmax(t, z))
    np.testing.assert_allclose(losses.softmax.gradient(t, y), numeric, atol=1e-5)
    assert losses.softmax.gradient(t, y).sum() == pytest.approx(0.0, abs=1e-12)


def test_softmax_of_two_classes_is_logistic():
    y = np.linspace(-5, 5, 21)
    decisions = np.stack([y, np.zeros_like(y)], axis=1)
    np.testing.assert_allclose(losses.softmax(np.zeros(21, int), decisions), losses.logistic(1, y))
    np.testing.assert_allclose(losses.softmax(np.ones(21, int), decisions), losses.logistic(-1, y))


def test_softmax_of_many_samples():
    rng = np.random.default_rng(0)
    t, y = rng.integers(0, 4, 8), rng.normal(size=(8, 4))
    one_by_one = [float(losses.softmax(a, b)) for a, b in zip(t, y, strict=True)]
    np.testing.assert_allclose(losses.softmax(t, y), one_by_one)
    assert losses.softmax.gradient(t, y).shape == (8, 4)


def test_errors_say_the_way_out():
    with pytest.raises(ValueError, match=r"values \[0.0, 1.0\].*-1 or \+1"):
        losses.hinge([0, 1], [0.5, 0.5])
    with pytest.raises(ValueError, match="numbers of classes, 0 to 2"):
        losses.softmax(3, [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="a row of decisions for each t"):
        losses.softmax([0, 1], [0.0, 0.0, 0.0])


# --- the losses of the machine -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.3, 5.0])
def test_the_quadratic_loss_is_a_hard_margin_in_disguise(kernel, C):
    X, y = make_moons(80, noise=0.3, random_state=3)
    quadratic = SVC(C=C, kernel=kernel, loss="squared_hinge", tol=1e-9).fit(X, y)
    K = oracle.kernel_of(quadratic, X)
    hard = SVC(C=np.inf, kernel="precomputed", tol=1e-9).fit(losses.quadratic_kernel(K, C), y)
    assert hard.status_.converged
    assert quadratic.certificate_.holds(1e-8)
    assert hard.certificate_.holds(1e-6)
    assert hard.certificate_.dual == pytest.approx(quadratic.certificate_.dual, rel=1e-7)
    alpha = np.zeros((2, len(y)))
    alpha[0, quadratic.support_], alpha[1, hard.support_] = quadratic.dual_coef_[0], hard.dual_coef_[0]
    np.testing.assert_allclose(alpha[1], alpha[0], atol=1e-5 * np.abs(alpha).max())
    np.testing.assert_allclose(hard.intercept_, quadratic.intercept_, atol=1e-5)


def test_quadratic_kernel_with_a_price_for_each_sample():
    np.testing.assert_array_equal(losses.quadratic_kernel(np.zeros((2, 2)), [0.5, 0.25]), np.diag([1.0, 2.0]))


@pytest.mark.parametrize(("name", "loss"), [("hinge", losses.hinge), ("squared_hinge", losses.quadratic_hinge)])
def test_the_machine_minimises_the_sum_of_its_losses(name, loss):
    X, y = make_moons(90, noise=0.3, random_state=1)
    t = np.where(y == 1, 1, -1)
    model = SVC(C=2.0, kernel="linear", loss=name, tol=1e-8).fit(X, y)
    w, b = np.asarray(model.coef_)[0], model.intercept_[0]

    def objective(w, b):
        return 0.5 * w @ w + 2.0 * loss(t, X @ w + b).sum()

    best = objective(w, b)
    assert best == pytest.approx(model.certificate_.primal, rel=1e-8)
    rng = np.random.default_rng(0)
    nearby = [objective(w + 1e-3 * rng.normal(size=2), b + 1e-3 * rng.normal()) for _ in range(50)]
    assert min(nearby) >= best
