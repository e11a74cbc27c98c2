"""Distances, margins and slack: by the definitions, and the same for (w, b) and for the machine it came from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.theory import geometry
from maxmargin.theory.geometry import Hyperplane, Side

MEASURES = (
    geometry.functional_margins,
    geometry.geometric_margins,
    geometry.slack,
    lambda plane, X, y: geometry.directed_distance(plane, X),
    lambda plane, X, y: geometry.distance(plane, X),
    lambda plane, X, y: geometry.margin_width(plane),
)


@pytest.fixture(scope="module")
def separable():
    X, y = make_blobs([30, 25], centers=[[0, 0], [5, 4]], random_state=1)
    y = np.where(y == 1, 1, -1)
    return X, y, SVC(C=np.inf, kernel="linear", tol=1e-8).fit(X, y)


@pytest.fixture(scope="module")
def overlapping():
    X, y = make_moons(150, noise=0.3, random_state=0)
    y = np.where(y == 1, 1, -1)
    return X, y


def plane_of(model):
    return Hyperplane(np.asarray(model.coef_)[0], model.intercept_[0])


# --- a plain hyperplane --------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_distance_is_that_to_the_projection(seed):
    rng = np.random.default_rng(seed)
    X, plane = rng.normal(size=(7, 3)), Hyperplane(rng.normal(size=3) + 0.1, rng.normal())
    foot = plane.project(X)
    np.testing.assert_allclose(plane.h(foot), 0.0, atol=1e-12)
    np.testing.assert_allclose(geometry.distance(plane, X), np.linalg.norm(X - foot, axis=1), atol=1e-12)
    signed = np.sum((X - foot) * plane.w, axis=1) / plane.norm
    np.testing.assert_allclose(geometry.directed_distance(plane, X), signed, atol=1e-12)


def test_origin_has_distance_b_over_norm():
    plane = Hyperplane([3.0, 4.0], -10.0)
    assert plane.norm == 5.0
    assert geometry.directed_distance(plane, [0.0, 0.0]) == [-2.0]
    assert geometry.distance(plane, [[0.0, 0.0]]) == [2.0]
    assert geometry.margin_width(plane) == 0.4


@settings(max_examples=30)
@given(st.floats(1e-3, 1e3), st.integers(0, 2**32 - 1))
def test_scale_changes_the_functional_margin_alone(factor, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 2)), rng.choice([-1, 1], 9)
    plane = Hyperplane(rng.normal(size=2) + 0.1, rng.normal())
    larger = plane.scaled(factor)
    assert geometry.functional_margin(larger, X, y) == pytest.approx(factor * geometry.functional_margin(plane, X, y))
    assert geometry.geometric_margin(larger, X, y) == pytest.approx(geometry.geometric_margin(plane, X, y))
    unit = plane.scaled(1.0 / plane.norm)
    np.testing.assert_allclose(geometry.functional_margins(unit, X, y), geometry.geometric_margins(plane, X, y))


def test_canonical(separable):
    X, y, _ = separable
    plane = Hyperplane([1.0, 1.0], -5.0)
    scaled = geometry.canonical(plane, X, y)
    assert geometry.functional_margin(scaled, X, y) == pytest.approx(1.0)
    assert geometry.geometric_margin(scaled, X, y) == pytest.approx(1.0 / scaled.norm)
    np.testing.assert_allclose(geometry.distance(scaled, X), geometry.distance(plane, X))


def test_sparse_samples():
    X, plane = np.array([[1.0, 0.0], [0.0, 2.0]]), Hyperplane([1.0, -1.0], 0.5)
    np.testing.assert_array_equal(plane.h(csr_matrix(X)), plane.h(X))


# --- a machine -----------------------------------------------------------------------------------------------------


def test_machine_and_its_weights_agree(overlapping):
    X, y = overlapping
    model = SVC(C=0.7, kernel="linear", tol=1e-8).fit(X, y)
    plain, feature = plane_of(model), geometry.of(model)
    for measure in MEASURES:
        np.testing.assert_allclose(measure(feature, X, y), measure(plain, X, y), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "precomputed"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_norm_in_feature_space(overlapping, kernel, loss):
    X, y = overlapping
    K = X @ X.T if kernel == "precomputed" else None
    model = SVC(C=2.0, kernel=kernel, loss=loss, tol=1e-8).fit(X if K is None else K, y)
    support = model.support_
    matrix = K[np.ix_(support, support)] if K is not None else model.kernel_.block(X[support], X[support])
    beta = model.dual_coef_[0]
    assert geometry.of(model).norm ** 2 == pytest.approx(beta @ matrix @ beta, rel=1e-8)


def test_the_hard_margin_is_the_widest(separable):
    X, y, model = separable
    plane = geometry.of(model)
    assert geometry.geometric_margin(plane, X, y) == pytest.approx(model.margin_, rel=1e-6)
    assert geometry.margin_width(plane) == pytest.approx(2 * model.margin_)
    assert geometry.functional_margin(plane, X, y) == pytest.approx(1.0, abs=1e-6)
    for angle in np.linspace(0, 2 * np.pi, 61):
        turned = Hyperplane([np.cos(angle), np.sin(angle)], 0.0)
        ends = turned.h(X[y > 0]).min(), turned.h(X[y < 0]).max()
        centred = Hyperplane(turned.w, -0.5 * sum(ends))
        assert geometry.geometric_margin(centred, X, y) <= model.margin_ * (1 + 1e-6)


def test_canonical_of_a_machine_that_separates():
    X, y = make_circles(60, factor=0.3, noise=0.05, random_state=0)
    model = SVC(C=0.5).fit(X, y)  # separates, but its margin has samples inside
    plane = geometry.of(model)
    assert geometry.functional_margin(plane, X, y) < 1.0
    scaled = geometry.canonical(plane, X, y)
    assert geometry.functional_margin(scaled, X, y) == pytest.approx(1.0)
    assert geometry.geometric_margin(scaled, X, y) == pytest.approx(1.0 / scaled.norm)
    assert geometry.geometric_margin(scaled, X, y) == pytest.approx(geometry.geometric_margin(plane, X, y))


def test_labels_of_any_kind_and_pipelines(overlapping):
    X, y = overlapping
    names = np.where(y > 0, "yes", "no")
    model = make_pipeline(StandardScaler(), SVC()).fit(X, names)
    plane = geometry.of(model)
    margins = geometry.functional_margins(plane, X, names)
    np.testing.assert_array_equal(margins > 0, model.predict(X) == names)


# --- slack ---------------------------------------------------------------------------------------------------------


def test_sides_by_definition():
    plane = Hyperplane([1.0], 0.0)
    X, y = np.array([[3.0], [1.0], [0.4], [0.0], [-2.0], [-1.0]]), np.array([1, 1, 1, 1, 1, -1])
    np.testing.assert_allclose(geometry.slack(plane, X, y), [0.0, 0.0, 0.6, 1.0, 3.0, 0.0])
    assert geometry.sides(plane, X, y).tolist() == [
        Side.OUTSIDE,
        Side.ON_MARGIN,
        Side.INSIDE,
        Side.MISCLASSIFIED,
        Side.MISCLASSIFIED,
        Side.ON_MARGIN,
    ]
    assert geometry.sides(plane, X, y, tolerance=0.7).tolist().count(Side.ON_MARGIN) == 3


def test_slack_is_the_loss_in_the_primal_value(overlapping):
    X, y = overlapping
    model = SVC(C=3.0, tol=1e-8).fit(X, y)
    plane = geometry.of(model)
    primal = 0.5 * plane.norm**2 + 3.0 * geometry.slack(plane, X, y).sum()
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-7)


def test_support_vectors_on_the_margin_and_with_slack(overlapping):
    X, y = overlapping
    model = SVC(C=1.0, tol=1e-8).fit(X, y)
    found = geometry.support_vectors(model, X, y, tolerance=1e-6)
    size = np.abs(model.dual_coef_[0])
    np.testing.assert_array_equal(found.on_margin, np.sort(model.support_[size < 1.0]))
    np.testing.assert_array_equal(found.with_slack, np.sort(model.support_[size == 1.0]))
    where = geometry.sides(geometry.of(model), X, y, tolerance=1e-6)
    assert set(where[found.on_margin]) == {Side.ON_MARGIN}
    assert set(where[found.with_slack]) == {Side.INSIDE, Side.MISCLASSIFIED}
    others = np.setdiff1d(np.arange(len(y)), model.support_)
    assert set(where[others]) == {Side.OUTSIDE}


def test_with_the_quadratic_loss_all_support_vectors_have_slack(overlapping):
    X, y = overlapping
    model = SVC(C=1.0, loss="squared_hinge", tol=1e-8).fit(X, y)
    found = geometry.support_vectors(model, X, y, tolerance=1e-6)
    assert not len(found.on_margin)
    xi = geometry.slack(geometry.of(model), X, y)[model.support_]
    np.testing.assert_allclose(xi, np.abs(model.dual_coef_[0]) / 2.0, atol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_higher_price_narrows_the_margin_and_lessens_the_slack(overlapping, kernel, loss):
    X, y = overlapping
    planes = [geometry.of(SVC(C=C, kernel=kernel, loss=loss, gamma=1.0, tol=1e-8).fit(X, y)) for C in (0.01, 0.1, 1.0, 10.0)]
    assert (np.diff([geometry.margin_width(plane) for plane in planes]) < 0).all()
    power = 2 if loss == "squared_hinge" else 1
    assert (np.diff([np.sum(geometry.slack(plane, X, y) ** power) for plane in planes]) < 0).all()


def test_an_outlier_costs_the_hard_margin_more_than_the_soft(separable):
    X, y, alone = separable
    middle = 0.5 * (X[y > 0].mean(axis=0) + X[y < 0].mean(axis=0))
    X, y = np.vstack([X, middle + 0.3 * (X[y < 0].mean(axis=0) - middle)]), np.append(y, 1)
    hard, soft = (SVC(C=C, kernel="linear", tol=1e-8).fit(X, y) for C in (np.inf, 0.05))
    assert hard.margin_ < 0.6 * alone.margin_
    assert soft.margin_ > alone.margin_
    assert geometry.slack(geometry.of(hard), X, y).max() < 1e-6
    assert geometry.slack(geometry.of(soft), X, y)[-1] > 0.5


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_errors_say_the_way_out(overlapping):
    X, y = overlapping
    plane = Hyperplane([1.0, 0.0], 0.0)
    with pytest.raises(ValueError, match=r"labels \[0, 1\].*numpy.where"):
        geometry.slack(plane, X, np.where(y > 0, 1, 0))
    with pytest.raises(ValueError, match=r"functional margin of the data set is -.*slack"):
        geometry.canonical(plane, X, y)
    with pytest.raises(ValueError, match="w is zero"):
        geometry.margin_width(Hyperplane([0.0, 0.0], 1.0))
    with pytest.raises(ValueError, match="finite numbers"):
        Hyperplane([[1.0, 2.0]], 0.0)
    with pytest.raises(ValueError, match="one label for each"):
        geometry.functional_margins(plane, X, y[:5])
    three = SVC().fit(X, np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match=r"3 classes.*one pair of classes at a time"):
        geometry.of(three)
    with pytest.raises(ValueError, match=r"label 7.*trained on"):
        geometry.slack(geometry.of(SVC().fit(X, y)), X, np.full(len(X), 7))
