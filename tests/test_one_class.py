"""OneClassSVM is a drop-in for scikit-learn's: outliers, their share, and what the plane is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import OneClassSVM, Status

TIGHT = {"tol": 1e-8}


def cloud(n: int = 200, d: int = 3) -> Any:
    """With a few samples far away."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[::20] *= 4.0
    return X


DATA = {
    "cloud": cloud(),
    "iris": load_iris().data,
    "wine": StandardScaler().fit_transform(load_wine().data),
}
KERNELS: dict[str, dict[str, Any]] = {"poly": {"coef0": 1.0, "degree": 2}, "rbf": {}}


@pytest.mark.parametrize("nu", [0.053, 0.503, 0.903])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
def test_same_model_as_scikit_learn(name: str, kernel: str, nu: float) -> None:
    X = DATA[name]
    options = {"nu": nu, "kernel": kernel} | KERNELS[kernel] | TIGHT
    ours, theirs = (machine(**options).fit(X) for machine in (OneClassSVM, sklearn.svm.OneClassSVM))
    scale = np.abs(theirs.score_samples(X)).max()
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-5 * scale)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5 * scale)
    np.testing.assert_allclose(ours.offset_, theirs.offset_, atol=1e-5 * scale)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5 * scale)
    apart = np.abs(theirs.decision_function(X)) > 1e-4 * scale  # samples on the plane are inliers here, anything there
    np.testing.assert_array_equal(ours.predict(X)[apart], theirs.predict(X)[apart])
    assert (ours.predict(X)[~apart] == 1).all()
    for attribute in ("dual_coef_", "support_", "support_vectors_", "n_support_", "intercept_", "offset_"):
        mine, its = np.asarray(getattr(ours, attribute)), np.asarray(getattr(theirs, attribute))
        assert mine.dtype == its.dtype, attribute
        assert mine.ndim == its.ndim, attribute
    assert type(ours.n_iter_) is type(theirs.n_iter_)


@pytest.mark.parametrize("name", ["cloud", "wine"])
def test_same_support_vectors_as_scikit_learn(name: str) -> None:
    ours, theirs = (machine(nu=0.303, **TIGHT).fit(DATA[name]) for machine in (OneClassSVM, sklearn.svm.OneClassSVM))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 0.9])
def test_nu_bounds_the_share_of_outliers_and_that_of_support_vectors(nu: float, weighted: bool) -> None:
    X = cloud(300)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], size=300) if weighted else np.ones(300)
    model = OneClassSVM(nu=nu).fit(X, sample_weight=weights)
    outliers = model.predict(X) == -1
    assert weights[outliers].sum() <= nu * weights.sum()
    assert weights[model.support_].sum() >= nu * weights.sum() * (1 - 1e-9)
    assert set(np.flatnonzero(outliers)) <= set(model.support_)


def test_what_is_far_away_is_an_outlier() -> None:
    X = cloud()
    model = OneClassSVM(nu=0.05, gamma=0.1).fit(X)
    assert (model.predict([[20.0, 20.0, 20.0], [0.0, 0.0, 0.0]]) == [-1, 1]).all()
    far = np.linalg.norm(X, axis=1) > 6.0
    assert far.any()
    assert model.decision_function(X)[far].max() <= 1e-6
    assert np.median(model.decision_function(X)[~far]) > 0.1


def test_the_plane_is_as_far_from_the_origin_as_the_hull() -> None:
    """With sum(beta) = 1 and no bound that counts, w is the point of the convex hull next to the origin."""
    X = np.array([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0], [2.0, 2.0]])
    model = OneClassSVM(nu=0.25, kernel="linear", **TIGHT).fit(X)
    np.testing.assert_allclose(model.coef_, [[1.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(model.offset_, 1.0)
    assert model.certificate_.dual == pytest.approx(-0.5)


def test_a_nu_of_one_takes_every_sample_as_it_is() -> None:
    """All duals are at their bound: Parzen's density."""
    X = cloud()
    model = OneClassSVM(nu=1.0, gamma=0.3).fit(X)
    assert len(model.support_) == len(X)
    np.testing.assert_allclose(model.score_samples(X), rbf_kernel(X, gamma=0.3).sum(axis=0))


def test_y_is_ignored() -> None:
    X = cloud()
    expected = OneClassSVM().fit(X).decision_function(X)
    for y in (np.zeros(len(X)), ["anything"], object()):
        np.testing.assert_array_equal(OneClassSVM().fit(X, y).decision_function(X), expected)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
def test_constant_features(kernel: str) -> None:
    model = OneClassSVM(kernel=kernel, max_seconds=20.0).fit(np.full((30, 2), 3.0))
    assert model.status_ is Status.CONVERGED
    assert (model.predict([[3.0, 3.0]]) == 1).all()


def test_one_sample() -> None:
    model = OneClassSVM(gamma=1.0).fit([[1.0, 2.0]])
    assert model.predict([[1.0, 2.0], [9.0, 9.0]]).tolist() == [1, -1]


def test_centred_data_of_a_linear_machine_have_no_plane() -> None:
    """The origin is among the samples: w and rho are zero."""
    X = np.vstack([cloud(), -cloud()])
    model = OneClassSVM(kernel="linear", nu=0.5, max_seconds=20.0).fit(X)
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-6)
    np.testing.assert_allclose(model.offset_, 0.0, atol=1e-6)


def test_data_frames_and_pipelines() -> None:
    frame = pd.DataFrame(cloud(), columns=["a", "b", "c"])
    model = OneClassSVM(nu=0.1).fit(frame)
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(model.fit_predict(frame), model.predict(frame))
    pipeline = make_pipeline(StandardScaler(), OneClassSVM(nu=0.1))
    expected = make_pipeline(StandardScaler(), sklearn.svm.OneClassSVM(nu=0.1, tol=1e-8)).fit(frame).score_samples(frame)
    np.testing.assert_allclose(pipeline.fit(frame).score_samples(frame), expected, atol=1e-4)
