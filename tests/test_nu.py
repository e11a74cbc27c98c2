"""NuSVC is a drop-in for scikit-learn's that honours class weights, and says what nu can be."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, NuSVC, Status

TIGHT = {"tol": 1e-8}


def scaled(load: Any) -> tuple[Any, Any]:
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


DATA = {load.__name__[5:]: scaled(load) for load in (load_iris, load_wine, load_breast_cancer)}
KERNELS: dict[str, dict[str, Any]] = {"linear": {}, "poly": {"coef0": 1.0, "degree": 2}, "rbf": {}}


def overlapping(n: int = 300, **other: Any) -> tuple[Any, Any]:
    return make_classification(n, 6, n_informative=4, flip_y=0.15, random_state=0, **other)


# --- like scikit-learn's ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.203, 0.503])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
def test_same_model_as_scikit_learn(name: str, kernel: str, nu: float) -> None:
    X, y = DATA[name]
    ours, theirs = (m(nu=nu, kernel=kernel, **KERNELS[kernel], **TIGHT).fit(X, y) for m in (NuSVC, sklearn.svm.NuSVC))
    scale = np.abs(theirs.decision_function(X)).max()
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4 * scale)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99  # decisions of zero go either way
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    for attribute in ("dual_coef_", "support_", "support_vectors_", "n_support_", "intercept_", "n_iter_"):
        mine, its = np.asarray(getattr(ours, attribute)), np.asarray(getattr(theirs, attribute))
        assert mine.dtype == its.dtype, attribute
        assert mine.ndim == its.ndim, attribute
    assert ours.fit_status_ == theirs.fit_status_ == 0


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_same_support_vectors_as_scikit_learn(name: str) -> None:
    """Where the kernel matrix is regular the duals are unique."""
    X, y = DATA[name]
    ours, theirs = (machine(nu=0.303, **TIGHT).fit(X, y) for machine in (NuSVC, sklearn.svm.NuSVC))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_decision_function_shape(name: str, shape: str) -> None:
    X, y = DATA[name]
    ours, theirs = (machine(nu=0.303, decision_function_shape=shape, **TIGHT).fit(X, y) for machine in (NuSVC, sklearn.svm.NuSVC))
    values = theirs.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), values, atol=1e-4 * np.abs(values).max())


def test_labels_of_every_kind() -> None:
    X, y = DATA["iris"]
    names = load_iris().target_names
    expected = NuSVC(nu=0.3).fit(X, y).predict(X)
    for labels in (names[y], names[y].astype(object), y.astype(np.uint8), pd.Series(names[y])):
        np.testing.assert_array_equal(NuSVC(nu=0.3).fit(X, labels).predict(X), np.unique(np.asarray(labels))[expected])


def test_swapping_the_labels_turns_the_decision_around() -> None:
    X, y = overlapping()
    one, other = NuSVC(nu=0.5, **TIGHT).fit(X, y), NuSVC(nu=0.5, **TIGHT).fit(X, 1 - y)
    np.testing.assert_allclose(one.decision_function(X), -other.decision_function(X), atol=1e-6)
    assert one.rho_ == pytest.approx(other.rho_)


def test_the_order_of_samples_does_not_matter() -> None:
    X, y = overlapping()
    order = np.random.default_rng(0).permutation(len(y))
    one, other = NuSVC(nu=0.5, **TIGHT).fit(X, y), NuSVC(nu=0.5, **TIGHT).fit(X[order], y[order])
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(one.certificate_.gap_terms[order], other.certificate_.gap_terms, atol=1e-6)


# --- nu ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.35, 0.5, 0.8])
def test_nu_bounds_the_share_inside_the_margin_and_that_of_support_vectors(nu: float, weighted: bool) -> None:
    """Inside <= nu <= support vectors, with shares of the weight."""
    X, y = overlapping()
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], size=len(y)) if weighted else np.ones(len(y))
    model = NuSVC(nu=nu, **TIGHT).fit(X, y, sample_weight=weights)
    inside = (2 * y - 1) * model.decision_function(X) < 1.0 - 1e-6
    assert weights[inside].sum() <= nu * weights.sum()
    assert weights[model.support_].sum() >= nu * weights.sum() * (1 - 1e-9)


def test_the_margin_grows_with_nu() -> None:
    X, y = overlapping()
    margins = [NuSVC(nu=nu).fit(X, y).margin_ for nu in (0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)]
    assert margins == sorted(margins)


@pytest.mark.parametrize(("kernel", "nu"), [("rbf", 0.403), ("rbf", 0.603), ("rbf", 0.803), ("linear", 0.803), ("linear", 0.903)])
def test_rho_is_one_over_the_C_with_which_the_other_machine_is_the_same(kernel: str, nu: float) -> None:
    X, y = overlapping()
    model = NuSVC(nu=nu, kernel=kernel, **TIGHT).fit(X, y)
    assert model.rho_ > 0
    for machine in (SVC, sklearn.svm.SVC):
        same = machine(C=1.0 / model.rho_, kernel=kernel, **TIGHT).fit(X, y)
        np.testing.assert_allclose(same.decision_function(X), model.decision_function(X), atol=1e-4)
    same = SVC(C=1.0 / model.rho_, kernel=kernel, **TIGHT).fit(X, y)
    assert model.margin_ == pytest.approx(same.margin_, rel=1e-6)
    np.testing.assert_allclose(np.abs(model.dual_coef_).max(), 1.0 / model.rho_)


def test_each_pair_of_classes_has_a_margin() -> None:
    X, y = DATA["wine"]
    model = NuSVC(nu=0.3, decision_function_shape="ovo", gamma=0.1, **TIGHT).fit(X, y)
    assert model.rho_.shape == model.margin_.shape == (3,)
    for column, pair in enumerate([(0, 1), (0, 2), (1, 2)]):
        inside = np.isin(y, pair)
        alone = NuSVC(nu=0.3, gamma=0.1, **TIGHT).fit(X[inside], y[inside])
        assert model.rho_[column] == pytest.approx(alone.rho_)
        assert model.margin_[column] == pytest.approx(alone.margin_)
        np.testing.assert_allclose(model.decision_function(X)[:, column], -alone.decision_function(X), atol=1e-6)
        part = model.certificate_.parts[column]
        assert part.dual == pytest.approx(alone.certificate_.dual)
    assert model.certificate_.dual == pytest.approx(sum(part.dual for part in model.certificate_.parts))
    assert model.certificate_.holds(1e-6)


def named(refusal: pytest.ExceptionInfo[ValueError]) -> float:
    """The largest feasible nu that an error names."""
    return float(re.findall(r"here is ([\d.e-]+)$", str(refusal.value))[0])


@pytest.mark.parametrize("case", ["two classes", "three classes", "weights", "class weights"])
def test_an_infeasible_nu_is_refused_with_the_largest_feasible_one(case: str) -> None:
    X, y = DATA["wine"]
    weights, model = None, NuSVC(nu=0.99)
    if case == "two classes":
        X, y = X[20:-48], y[20:-48]  # 39 and 71
        largest = 2 * 39 / 110
    elif case == "three classes":
        largest = 2 * 48 / (48 + 71)
    elif case == "weights":
        weights = np.where(y == 0, 0.1, 1.0)
        largest = 2 * 5.9 / (5.9 + 71)
    else:
        model.set_params(class_weight={2: 0.3})
        largest = 2 * 14.4 / (14.4 + 71)
    with pytest.raises(ValueError, match=r"^nu=0\.99: specified nu is infeasible: the largest value that .* here is") as refusal:
        model.fit(X, y, sample_weight=weights)
    assert named(refusal) == pytest.approx(largest)
    model.set_params(nu=named(refusal)).fit(X, y, sample_weight=weights)
    assert model.certificate_.holds(1e-3)
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        model.set_params(nu=1.0001 * named(refusal)).fit(X, y, sample_weight=weights)


def test_a_nu_of_one_takes_every_sample_as_it_is() -> None:
    """All duals are at their bound: the difference of the two means, in feature space."""
    X, y = DATA["iris"][0][:100], DATA["iris"][1][:100]
    model = NuSVC(nu=1.0, kernel="linear").fit(X, y)
    assert len(model.support_) == 100
    np.testing.assert_allclose(model.rho_ * model.coef_[0], X[50:].sum(axis=0) - X[:50].sum(axis=0))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_nu_without_a_margin(kernel: str) -> None:
    """Labels at random, or the same samples in both classes: the reduced hulls meet, and rho is zero."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    X, y = np.vstack([X, X]), np.repeat([0, 1], 80)
    model = NuSVC(nu=0.5, kernel=kernel, max_seconds=20.0)
    with pytest.warns(ConvergenceWarning, match=r"No margin: nu is so small that the reduced convex hulls.* Use a larger nu"):
        model.fit(X, y)
    assert model.status_ is Status.NO_MARGIN
    assert model.fit_status_ == 1
    assert abs(model.rho_) <= model.tol
    assert model.certificate_.dual == pytest.approx(0.0, abs=80 * model.tol)
    assert np.isfinite(model.decision_function(X)).all()


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_class_weights_are_sample_weights(name: str) -> None:
    X, y = DATA[name]
    for factors in ({0: 2.0, 1: 0.5}, {1: 3.0}, "balanced"):
        by_class = NuSVC(nu=0.2, class_weight=factors, **TIGHT).fit(X, y)
        weights = by_class.class_weight_[y]
        assert len(np.unique(weights)) > 1
        by_sample = NuSVC(nu=0.2, gamma=by_class.gamma_, **TIGHT).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(by_class.decision_function(X), by_sample.decision_function(X), atol=1e-7)
        assert by_class.certificate_.dual == pytest.approx(by_sample.certificate_.dual)


def test_class_weight_and_sample_weight_multiply() -> None:
    X, y = DATA["breast_cancer"]
    both = NuSVC(nu=0.2, gamma=0.1, class_weight={0: 3.0}).fit(X, y, sample_weight=np.full(len(y), 0.5))
    by_hand = NuSVC(nu=0.2, gamma=0.1).fit(X, y, sample_weight=np.where(y == 0, 1.5, 0.5))
    np.testing.assert_allclose(both.decision_function(X), by_hand.decision_function(X), atol=1e-8)


def test_a_heavy_class_gets_more_of_what_is_disputed() -> None:
    X, y = overlapping()
    shares = [(NuSVC(nu=0.4, class_weight={0: weight}).fit(X, y).predict(X) == 0).mean() for weight in (0.5, 1.0, 2.0)]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


# --- as a citizen of scikit-learn -------------------------------------------------------------------------------------


def test_grid_search_finds_what_scikit_learn_finds() -> None:
    X, y = DATA["wine"]
    grid = {"nu": [0.1, 0.3, 0.6], "gamma": [0.01, 0.1]}
    ours, theirs = (GridSearchCV(machine(**TIGHT), grid, cv=3).fit(X, y) for machine in (NuSVC, sklearn.svm.NuSVC))
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert ours.best_params_ == theirs.best_params_
