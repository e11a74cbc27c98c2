"""The bias by the rules of the textbooks: when they agree, and by how much they are off when they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs, make_moons

from maxmargin import SVC, NuSVC
from maxmargin.theory.bias import biases, max_min, over_free, over_support


@pytest.fixture(scope="module")
def apart():
    X, y = make_blobs([30, 20], centers=[[0, 0], [6, 5]], random_state=1)
    return X, np.where(y == 1, 1.0, -1.0)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(120, noise=0.3, random_state=0)
    return X, np.where(y == 1, 1.0, -1.0)


def slack(model, X, signs):
    return np.maximum(0.0, 1.0 - signs * model.decision_function(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_with_a_hard_margin_all_rules_agree(apart, kernel):
    X, y = apart
    model = SVC(C=np.inf, kernel=kernel, tol=1e-10).fit(X, y)
    found = biases(model, X, y)
    assert found.kept == model.intercept_[0]
    assert (found.over_support, found.over_free, found.max_min) == pytest.approx([found.kept] * 3, abs=1e-7)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_with_the_hinge_loss_only_the_free_support_vectors_know(moons, kernel):
    X, y = moons
    model = SVC(C=2.0, kernel=kernel, tol=1e-10).fit(X, y)
    found = biases(model, X, y)
    assert found.over_free == pytest.approx(found.kept, abs=1e-7)
    error = np.mean((y * slack(model, X, y))[model.support_])
    assert abs(error) > 1e-3
    assert found.over_support == pytest.approx(found.kept + error, abs=1e-7)
    assert abs(found.max_min - found.kept) > 1e-2  # the classes overlap


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_with_the_quadratic_loss_the_slacks_cancel(moons, kernel):
    X, y = moons
    model = SVC(C=2.0, kernel=kernel, loss="squared_hinge", tol=1e-10).fit(X, y)
    found = biases(model, X, y)
    assert slack(model, X, y)[model.support_].min() > 1e-4
    assert (found.over_support, found.over_free) == pytest.approx([found.kept] * 2, abs=1e-7)


def test_with_prices_that_differ_they_do_not_cancel(moons):
    X, y = moons
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    model = SVC(loss="squared_hinge", tol=1e-10).fit(X, y, sample_weight=weights)
    found = biases(model, X, y, sample_weight=weights)
    assert abs(found.over_support - found.kept) > 1e-3


def test_weights_decide_who_is_free(moons):
    X, y = moons
    weights = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.5)
    model = SVC(C=2.0, class_weight={-1.0: 0.5}, tol=1e-10).fit(csr_matrix(X), y, sample_weight=weights)
    found = biases(model, csr_matrix(X), y, sample_weight=weights)
    assert found.over_free == pytest.approx(found.kept, abs=1e-7)
    alone = SVC(C=3.0, class_weight={-1.0: 0.5}, gamma=model.gamma_, tol=1e-10).fit(X[weights > 0], y[weights > 0])
    same = biases(alone, X[weights > 0], y[weights > 0])
    assert (found.over_support, found.max_min) == pytest.approx((same.over_support, same.max_min), abs=1e-7)


def test_without_free_support_vectors_their_mean_is_undefined():
    X, y = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0])
    found = biases(SVC(C=0.1, kernel="linear").fit(X, y), X, y)
    assert math.isnan(found.over_free)
    assert found.over_support == pytest.approx(0.0, abs=1e-12)


def test_the_rules_themselves():
    signs, scores = np.array([1.0, 1.0, -1.0, -1.0]), np.array([3.0, 1.5, 0.5, -2.0])
    alpha = np.array([0.0, 1.0, 0.7, 0.3])
    assert over_support(signs, scores, alpha) == pytest.approx((-0.5 - 1.5 + 1.0) / 3)
    assert over_free(signs, scores, alpha, 1.0) == pytest.approx((-1.5 + 1.0) / 2)
    assert max_min(signs, scores) == -1.0


def test_it_prints(moons):
    X, y = moons
    text = str(biases(SVC().fit(X, y), X, y))
    assert all(words in text for words in ("all support vectors", "free ones", "max/min", "kept"))


def test_what_it_cannot_be_asked(moons):
    X, y = moons
    with pytest.raises(TypeError, match="NuSVC has no C"):
        biases(NuSVC(nu=0.3).fit(X, y), X, y)
    with pytest.raises(ValueError, match="pass the 120 samples the model was trained on"):
        biases(SVC().fit(X, y), X[:50], y[:50])
    many = np.arange(len(y)) % 3
    model = SVC().fit(X, many)
    with pytest.raises(ValueError, match="3 classes"):
        biases(model, X, many)
