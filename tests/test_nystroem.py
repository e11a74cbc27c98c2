"""Kernel machines on Nyström features: the linear machine that they are, bounds on the exact optimum, and the way to it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import Nystroem

from maxmargin import SVC, SVR, LinearSVC, LinearSVR
from maxmargin.io import load, save


@pytest.fixture(scope="module")
def data():
    return make_classification(600, n_features=6, n_informative=4, n_redundant=0, flip_y=0.05, random_state=0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "matern32"])
@pytest.mark.parametrize("intercept", [True, False])
def test_it_is_the_linear_machine_on_the_features(data, loss, kernel, intercept):
    X, y = data
    model = SVC(
        kernel=kernel, gamma=0.2, coef0=1.0, loss=loss, approximation="nystroem", n_components=40, random_state=3,
        fit_intercept=intercept, gap_tol=1e-8,
    ).fit(X, y)  # fmt: skip
    chosen = np.random.RandomState(3).permutation(len(X))[:40]
    assert set(model.support_) == set(chosen)
    values, vectors = np.linalg.eigh(model.kernel_.block(X[chosen], X[chosen]))
    features = model.kernel_.block(X, X[chosen]) @ (vectors / np.sqrt(values))
    linear = LinearSVC(loss=loss, fit_intercept=intercept, gap_tol=1e-8).fit(features, y)
    assert model.certificate_.holds(1e-8)
    assert model.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(model.decision_function(X), linear.decision_function(features), atol=2e-3)


def test_features_in_float32_span_what_those_in_float64_do(data, monkeypatch):
    """Also the directions of small eigenvalues, which decide the last samples."""
    X, y = data
    model = SVC(
        gamma=0.02, C=100.0, loss="squared_hinge", approximation="nystroem", n_components=100, random_state=0, gap_tol=1e-7
    )
    primal = model.fit(X, y).certificate_.primal
    monkeypatch.setattr("maxmargin.estimators.nystroem.FEW_VALUES", 0)
    assert model.fit(X, y).certificate_.primal == pytest.approx(primal, rel=1e-4)


def test_the_landmarks_are_those_of_scikit_learn(data):
    X, y = data
    model = SVC(gamma=0.2, approximation="nystroem", n_components=30, random_state=1).fit(X, y)
    peer = Nystroem(gamma=0.2, n_components=30, random_state=1).fit(X)
    assert set(model.support_) == set(peer.component_indices_)
    again = SVC(gamma=0.2, approximation="nystroem", n_components=30, random_state=1).fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, again.dual_coef_)
    assert list(model.n_support_) == list(np.bincount(y[model.support_]))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_bounds_on_the_exact_optimum(data, loss):
    X, y = data
    weights = np.random.default_rng(0).integers(1, 3, len(X)).astype(float)
    exact = SVC(gamma=0.2, loss=loss, gap_tol=1e-9, tol=1e-9).fit(X, y, weights).certificate_
    gaps = []
    for m in (20, 100, 600):
        model = SVC(gamma=0.2, loss=loss, approximation="nystroem", n_components=m, gap_tol=1e-7, random_state=0)
        bounds = model.fit(X, y, weights).approximation_gap(X, y, weights)
        assert bounds.dual <= exact.primal * (1 + 1e-8)
        assert bounds.primal >= exact.dual * (1 - 1e-8)
        assert bounds.primal == pytest.approx(model.certificate_.primal, rel=1e-5)
        gaps.append(bounds.relative_gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-5  # all samples are landmarks


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression(data, loss):
    X, _ = data
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    model = SVR(gamma=0.2, loss=loss, approximation="nystroem", n_components=50, random_state=0, gap_tol=1e-7).fit(X, y)
    features = Nystroem(gamma=0.2, n_components=50, random_state=0).fit_transform(X)
    linear = LinearSVR(loss=loss, epsilon=0.1, gap_tol=1e-7).fit(features, y)
    assert model.certificate_.primal == pytest.approx(linear.certificate_.primal, rel=1e-4)
    exact = SVR(gamma=0.2, loss=loss, gap_tol=1e-8, tol=1e-8).fit(X, y)
    bounds = model.approximation_gap(X, y)
    assert bounds.dual <= exact.certificate_.primal <= bounds.primal * (1 + 1e-7)
    polished = SVR(gamma=0.2, loss=loss, approximation="nystroem", n_components=50, polish=True, random_state=0).fit(X, y)
    assert polished.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=2e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_polish_leads_to_the_exact_machine(loss, classes):
    X, y = make_classification(1500, n_features=6, n_informative=4, n_redundant=0, n_classes=classes, random_state=0)
    parameters = {"gamma": 0.2, "loss": loss, "multi_class": "ovr", "random_state": 0}
    exact = SVC(**parameters).fit(X, y)
    model = SVC(**parameters, approximation="nystroem", n_components=150, polish=True).fit(X, y)
    assert model.certificate_.holds(1e-3)
    assert model.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=2e-3)
    assert model.n_iter_.sum() < exact.n_iter_.sum()  # it starts close to the solution
    with pytest.raises(ValueError, match="polish=False"):
        model.approximation_gap(X, y)


def test_several_classes_sparse_rows_and_model_files(tmp_path):
    X, y = make_classification(500, n_features=6, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    model = SVC(multi_class="ovr", approximation="nystroem", n_components=60, random_state=0, gap_tol=1e-6).fit(X, y)
    assert model.dual_coef_.shape == (3, 60)
    assert model.score(X, y) > 0.7
    sparse = SVC(multi_class="ovr", approximation="nystroem", n_components=60, random_state=0, gap_tol=1e-6).fit(
        sp.csr_matrix(X), y
    )
    np.testing.assert_allclose(sparse.decision_function(X), model.decision_function(X), atol=1e-2)
    save(model, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "model.safetensors").predict(X), model.predict(X))


def test_features_in_float32_give_nearly_the_same_machine(data, monkeypatch):
    X, y = data
    wide = SVC(gamma=0.2, approximation="nystroem", n_components=80, random_state=0).fit(X, y)
    monkeypatch.setattr("maxmargin.estimators.nystroem.FEW_VALUES", 0)
    narrow = SVC(gamma=0.2, approximation="nystroem", n_components=80, random_state=0).fit(X, y)
    assert narrow.certificate_.primal == pytest.approx(wide.certificate_.primal, rel=2e-3)
    assert (narrow.predict(X) == wide.predict(X)).mean() > 0.99


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"approximation": "random"}, "must be one of nystroem, or None"),
        ({"n_components": 0}, "must be a whole number >= 1"),
        ({"C": np.inf}, "must be finite"),
        ({"loss": "huber_hinge"}, "must be one of hinge, squared_hinge"),
        ({"kernel": "precomputed"}, "no use for kernel='precomputed'"),
        ({"solver": "smo-platt"}, "use 'auto'"),
        ({"probability": "loo"}, "CalibratedClassifierCV"),
        ({"multi_class": "crammer_singer"}, "must be 'ovo' or 'ovr'"),
        ({"approximation": None, "polish": True}, "nothing to polish"),
    ],
)
def test_what_is_refused(data, parameters, error):
    X, y = data
    X = X @ X.T if parameters.get("kernel") == "precomputed" else X
    with pytest.raises(ValueError, match=error):
        SVC(**{"approximation": "nystroem", "n_components": 10, **parameters}).fit(X, y)
    with pytest.raises(ValueError, match="it must be 'ovr'"):
        SVC(approximation="nystroem").fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="polish=False"):
        SVC().fit(X, y).approximation_gap(X, y) if "kernel" not in parameters else SVC().fit(data[0], y).approximation_gap(*data)
