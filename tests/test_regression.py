"""SVR and NuSVR are drop-ins for scikit-learn's, and do what those do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVR, NuSVR, Status

TIGHT = {"tol": 1e-8}


def diabetes() -> tuple[Any, Any]:
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X[::2]), (y[::2] - y.mean()) / y.std()


def waves(n: int = 200, noise: float = 0.2) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + noise * rng.normal(size=n)


DATA = {"diabetes": diabetes(), "waves": waves()}
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"coef0": 1.0, "degree": 2},
    "rbf": {},
    "sigmoid": {"gamma": 1e-3},
}
MACHINES = [
    (SVR, sklearn.svm.SVR, {"C": 0.5}),
    (SVR, sklearn.svm.SVR, {"C": 20.0, "epsilon": 0.3}),
    (NuSVR, sklearn.svm.NuSVR, {"C": 0.5, "nu": 0.303}),
    (NuSVR, sklearn.svm.NuSVR, {"C": 2.0, "nu": 0.603}),
]

# --- like scikit-learn's ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs", "options"), MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.filterwarnings("ignore:Stopped at a stationary point")
def test_same_model_as_scikit_learn(name: str, kernel: str, ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    X, y = DATA[name]
    options = options | KERNELS[kernel]
    mine, its = (machine(kernel=kernel, **options, **TIGHT).fit(X, y) for machine in (ours, theirs))
    sums, their_sums = mine.predict(X) - mine.intercept_, its.predict(X) - its.intercept_
    np.testing.assert_allclose(sums, their_sums, atol=1e-4 * options["C"])  # LIBSVM rounds kernel values to float32
    np.testing.assert_allclose(mine.intercept_, its.intercept_, atol=1e-4 * options["C"])
    for attribute in ("dual_coef_", "support_", "support_vectors_", "n_support_", "intercept_"):
        own, other = np.asarray(getattr(mine, attribute)), np.asarray(getattr(its, attribute))
        assert own.dtype == other.dtype, attribute
        assert own.ndim == other.ndim, attribute
    assert type(mine.n_iter_) is type(its.n_iter_)
    assert mine.n_features_in_ == its.n_features_in_
    if kernel == "linear":
        np.testing.assert_allclose(mine.coef_, its.coef_, atol=1e-4 * options["C"])


@pytest.mark.parametrize(("ours", "theirs", "options"), MACHINES[:3])
@pytest.mark.parametrize("name", DATA)
def test_same_support_vectors_as_scikit_learn(name: str, ours: Any, theirs: Any, options: dict[str, Any]) -> None:
    X, y = DATA[name]
    mine, its = (machine(**options, **TIGHT).fit(X, y) for machine in (ours, theirs))
    np.testing.assert_array_equal(mine.support_, its.support_)
    np.testing.assert_array_equal(mine.n_support_, its.n_support_)
    np.testing.assert_allclose(mine.dual_coef_, its.dual_coef_, atol=1e-3 * options["C"])


@pytest.mark.parametrize("options", [{"C": 0.5, "nu": 0.3}, {"C": 5.0, "nu": 0.6}, {"C": 1.0, "nu": 0.05}])
@pytest.mark.parametrize("name", DATA)
def test_epsilon_is_the_one_with_which_the_other_machine_is_the_same(name: str, options: dict[str, Any]) -> None:
    X, y = DATA[name]
    model = NuSVR(**options, **TIGHT).fit(X, y)
    assert model.epsilon_ > 0
    for machine in (SVR, sklearn.svm.SVR):
        same = machine(C=options["C"], epsilon=model.epsilon_, **TIGHT).fit(X, y)
        np.testing.assert_allclose(same.predict(X), model.predict(X), atol=1e-5)


# --- what they promise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.5, 0.8])
def test_nu_bounds_the_share_outside_the_tube_and_that_of_support_vectors(nu: float, weighted: bool) -> None:
    """Outside <= nu <= support vectors, with shares of the weight."""
    X, y = waves(300)
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], size=300) if weighted else np.ones(300)
    model = NuSVR(nu=nu, **TIGHT).fit(X, y, sample_weight=weights)
    outside = np.abs(y - model.predict(X)) > model.epsilon_ + 1e-6
    assert weights[outside].sum() <= nu * weights.sum()
    assert weights[model.support_].sum() >= nu * weights.sum() * (1 - 1e-9)


def test_the_tube_of_every_nu_is_narrower_than_that_of_a_smaller_one() -> None:
    X, y = waves(300)
    widths = [NuSVR(nu=nu).fit(X, y).epsilon_ for nu in (0.05, 0.1, 0.3, 0.6, 0.9, 1.0)]
    assert widths == sorted(widths, reverse=True)
    assert min(widths) > -1e-9


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_samples_inside_the_tube_do_not_matter(loss: str) -> None:
    X, y = waves()
    model = SVR(epsilon=0.3, loss=loss, gamma=0.5, **TIGHT).fit(X, y)
    distance = np.abs(y - model.predict(X))
    inside = np.setdiff1d(np.arange(len(y)), model.support_)
    assert len(inside) > 50
    assert distance[inside].max() <= 0.3 + 1e-6
    alone = SVR(epsilon=0.3, loss=loss, gamma=0.5, **TIGHT).fit(X[model.support_], y[model.support_])
    np.testing.assert_allclose(alone.predict(X), model.predict(X), atol=1e-5)


def test_squared_loss_without_a_tube_is_ridge_regression() -> None:
    """min 1/2 |w|^2 + C sum (y - w.x)^2 is ridge regression with alpha = 1 / 2C."""
    X, y = make_regression(80, 5, noise=10.0, random_state=0)
    y = y / y.std()
    for fit_intercept in (True, False):
        ours = SVR(kernel="linear", C=2.0, epsilon=0.0, loss="squared_epsilon_insensitive", fit_intercept=fit_intercept, **TIGHT)
        ridge = Ridge(alpha=1 / 4.0, fit_intercept=fit_intercept).fit(X, y)
        np.testing.assert_allclose(ours.fit(X, y).coef_[0], ridge.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.intercept_, ridge.intercept_, atol=1e-6)


def test_without_an_intercept() -> None:
    X, y = waves()
    model = SVR(kernel="linear", fit_intercept=False, **TIGHT).fit(X, y + 1.0)
    assert (model.intercept_ == 0).all()
    assert model.certificate_.equality_residual == 0
    np.testing.assert_allclose(model.predict(X), X @ model.coef_[0], atol=1e-10)


def test_a_line_is_found_exactly() -> None:
    X, _ = waves()
    y = X @ [2.0, -1.0] + 3.0
    for model in (SVR(kernel="linear", C=1e3, epsilon=0.0, **TIGHT), NuSVR(kernel="linear", C=1e3, **TIGHT)):
        model.fit(X, y)
        np.testing.assert_allclose(model.coef_, [[2.0, -1.0]], atol=1e-5)
        np.testing.assert_allclose(model.intercept_, 3.0, atol=1e-5)
    np.testing.assert_allclose(model.epsilon_, 0.0, atol=1e-5)
    assert model.score(X, y) == pytest.approx(LinearRegression().fit(X, y).score(X, y))


def test_moving_and_scaling_the_targets() -> None:
    """(y, C, epsilon) -> (a y + b, a C, a epsilon) is f -> a f + b: the objective is a^2 times what it was."""
    X, y = waves()
    for loss, price in (("epsilon_insensitive", 7.0), ("squared_epsilon_insensitive", 1.0)):
        one = SVR(C=2.0, epsilon=0.1, loss=loss, **TIGHT).fit(X, y)
        other = SVR(C=2.0 * price, epsilon=0.7, loss=loss, **TIGHT).fit(X, 7.0 * y - 50.0)
        np.testing.assert_allclose(other.predict(X), 7.0 * one.predict(X) - 50.0, atol=1e-4)
        assert other.certificate_.dual == pytest.approx(49.0 * one.certificate_.dual, rel=1e-6)
    one, other = NuSVR(C=2.0, **TIGHT).fit(X, y), NuSVR(C=14.0, **TIGHT).fit(X, 7.0 * y - 50.0)
    assert other.epsilon_ == pytest.approx(7.0 * one.epsilon_, rel=1e-5)


# --- targets of every kind --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVR, NuSVR])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("value", [0.0, 5.0, -1e6])
def test_constant_targets(machine: Any, kernel: str, value: float) -> None:
    X, _ = waves()
    model = machine(kernel=kernel).fit(X, np.full(len(X), value))
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(model.predict(X), value, atol=0.11 if machine is SVR else 1e-3)
    assert model.certificate_.gap <= 1e-6 * max(1.0, abs(value))


@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_one_sample(machine: Any) -> None:
    model = machine().fit([[1.0, 2.0]], [3.0])
    np.testing.assert_allclose(model.predict([[1.0, 2.0], [5.0, 5.0]]), 3.0, atol=0.1 + 1e-9)


@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_targets_of_every_type(machine: Any) -> None:
    X, y = waves()
    whole = np.round(3 * y)
    expected = machine().fit(X, whole).predict(X)
    for targets in (whole.astype(int), whole.astype(np.float32), whole.tolist(), pd.Series(whole), whole.astype(object)):
        np.testing.assert_array_equal(machine().fit(X, targets).predict(X), expected)
    truth = machine().fit(X, y > 0).predict(X)
    np.testing.assert_array_equal(machine().fit(X, (y > 0).astype(float)).predict(X), truth)


@pytest.mark.parametrize("machine", [SVR, NuSVR])
def test_data_frames(machine: Any) -> None:
    X, y = waves()
    frame = pd.DataFrame(X, columns=["height", "width"])
    model = machine().fit(frame, pd.Series(y))
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(model.predict(frame), machine().fit(X, y).predict(X))


# --- as citizens of scikit-learn --------------------------------------------------------------------------------------


def test_grid_search_finds_what_scikit_learn_finds() -> None:
    X, y = DATA["diabetes"]
    grid = {"svr__C": [0.1, 1.0], "svr__epsilon": [0.1, 0.5]}
    pipelines = (make_pipeline(StandardScaler(), machine(tol=1e-6)) for machine in (SVR, sklearn.svm.SVR))
    ours, theirs = (GridSearchCV(pipeline, grid, cv=3).fit(X, y) for pipeline in pipelines)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-5)
    assert ours.best_params_ == theirs.best_params_


def test_cross_validation_of_a_precomputed_kernel() -> None:
    X, y = DATA["diabetes"]
    scores = cross_val_score(NuSVR(kernel="precomputed", tol=1e-6), X @ X.T, y, cv=3)
    np.testing.assert_allclose(scores, cross_val_score(NuSVR(kernel="linear", tol=1e-6), X, y, cv=3), atol=1e-6)
