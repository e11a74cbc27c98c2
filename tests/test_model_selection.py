"""Grids give what GridSearchCV gives, with certificates; paths give what separate fits give, from one kernel matrix."""

from __future__ import annotations

import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, f1_score, hinge_loss, make_scorer, max_error, r2_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVCCV, SVR, SVRCV, C_path, NuSVC, NuSVR, Status
from maxmargin.backends import make_backend, native
from maxmargin.callbacks import Progress
from maxmargin.control import Control
from maxmargin.formulations import DualProblem
from maxmargin.gram import DoubledGram, Gram
from maxmargin.kernels import RBF, NamedKernel, make_kernel
from maxmargin.model_selection import Path, grid
from maxmargin.model_selection.search import Results
from tests.wording import of_parameter

LIVENESS = 30.0  # seconds: a limit that only a hang exceeds
TIGHT = 1e-7  # tol with which two exact solvers agree on every sample
Cs, GAMMAS = [0.3, 3.0, 30.0], [0.003, 0.03, 0.3]
GRID = {"C": Cs, "gamma": GAMMAS}
Data = tuple[Any, Any]


def scaled(load: Callable[..., Data], n: int | None = None) -> Data:
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[:n], y[:n]


CANCER, WINE, IRIS = scaled(load_breast_cancer, 300), scaled(load_wine), scaled(load_iris)
DIABETES = scaled(load_diabetes, 150)[0], (scaled(load_diabetes, 150)[1] - 150.0) / 77.0


def small(**parameters: Any) -> SVCCV:
    return SVCCV(**{"Cs": Cs, "gammas": GAMMAS, "cv": 3, "tol": TIGHT} | parameters)


def small_regression(**parameters: Any) -> SVRCV:
    return SVRCV(**{"Cs": [0.3, 10.0], "gammas": [0.003, 0.03], "cv": 3, "tol": TIGHT} | parameters)


def splits(search: Any, name: str = "test_score") -> Any:
    return np.array([search.cv_results_[f"split{i}_{name}"] for i in range(search.n_splits_)])


def assert_same_search(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    """The same as GridSearchCV: scores, ranks, the choice, and the table they are in; and every fit with a proof."""
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert_allclose(splits(ours), splits(theirs), rtol=0, atol=tolerance)
    for name in ("mean_test_score", "std_test_score"):
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=0, atol=tolerance)
    if tolerance <= 1e-12:
        assert_array_equal(ours.cv_results_["rank_test_score"], theirs.cv_results_["rank_test_score"])
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=tolerance)
    assert (splits(ours, "relative_gap") < max(1e-5, ours.tol)).all()


# --- the grid is that of GridSearchCV ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    {
        "two classes": (CANCER, {}),
        "three classes": (WINE, {}),
        "three other classes": (IRIS, {}),
        "balanced": (CANCER, {"class_weight": "balanced"}),
        "weights of three classes": (WINE, {"class_weight": {0: 1.0, 1: 5.0, 2: 0.5}}),
        "polynomial": (IRIS, {"kernel": "poly", "degree": 2, "coef0": 1.0}),
        "linear": (WINE, {"kernel": "linear"}),
    }.items(),
    ids=lambda case: case[0],
)
def test_same_as_grid_search_over_scikit_learn(case: Any) -> None:
    (X, y), parameters = case[1]
    theirs = GridSearchCV(sklearn.svm.SVC(**{"tol": TIGHT} | parameters), GRID, cv=3).fit(X, y)
    ours = small(**parameters).fit(X, y)
    assert_same_search(ours, theirs)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5 + 10 * ours.tol)
    assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.certificate_.holds(ours.tol)


@pytest.mark.parametrize(("data", "gamma"), [(IRIS, 0.001), (WINE, 0.01)], ids=["iris", "wine"])
def test_a_bias_that_is_not_unique(data: Data, gamma: float) -> None:
    """Where all duals are at a bound, the bias is the middle of an interval, and no rounding of the sums may change that."""
    values = {"C": [0.1, 1.0], "gamma": [gamma]}
    theirs = GridSearchCV(sklearn.svm.SVC(tol=TIGHT), values, cv=4).fit(*data)
    assert_same_search(small(Cs=[0.1, 1.0], gammas=[gamma], cv=4).fit(*data), theirs)


@pytest.mark.parametrize("data", [CANCER, WINE, IRIS], ids=["cancer", "wine", "iris"])
def test_at_the_default_tol_a_fold_differs_by_a_sample_at_most(data: Data) -> None:
    ours, theirs = small(tol=1e-3).fit(*data), GridSearchCV(sklearn.svm.SVC(), GRID, cv=3).fit(*data)
    assert np.abs(splits(ours) - splits(theirs)).max() <= 1.5 / (len(data[1]) // 3)
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=0.01)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "exponential"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_same_as_grid_search_over_our_own(kernel: str, loss: str) -> None:
    parameters = {"kernel": kernel, "loss": loss, "degree": 2, "coef0": 0.5, "tol": TIGHT}
    theirs = GridSearchCV(SVC(**parameters), GRID, cv=3).fit(*CANCER)
    assert_same_search(small(**parameters).fit(*CANCER), theirs)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_strategies_and_intercepts(multi_class: str, loss: str, fit_intercept: bool) -> None:
    parameters = {"multi_class": multi_class, "loss": loss, "fit_intercept": fit_intercept, "tol": TIGHT}
    assert_same_search(small(**parameters).fit(*WINE), GridSearchCV(SVC(**parameters), GRID, cv=3).fit(*WINE))


def test_an_indefinite_kernel_is_searched_too() -> None:
    with pytest.warns(ConvergenceWarning, match="not positive semi-definite"):
        search = small(kernel="sigmoid", Cs=[100.0], gammas=[1.0], coef0=-1.0).fit(*CANCER)
    assert search.status_ is Status.STATIONARY
    assert search.best_score_ > 0.5


def test_the_table_is_that_of_grid_search() -> None:
    """Its keys in their order, and besides one column of gaps per fold; so pandas and plots of others can read it."""
    ours, theirs = small().fit(*IRIS), GridSearchCV(sklearn.svm.SVC(), GRID, cv=3).fit(*IRIS)
    keys = list(ours.cv_results_)
    assert keys[: len(theirs.cv_results_)] == list(theirs.cv_results_)
    assert keys[len(theirs.cv_results_) :] == [f"split{i}_relative_gap" for i in range(3)]
    for key, column in theirs.cv_results_.items():
        assert type(ours.cv_results_[key]) is type(column), key
        assert len(ours.cv_results_[key]) == len(column)
    assert ours.cv_results_["rank_test_score"].dtype == theirs.cv_results_["rank_test_score"].dtype
    for name in ("mean_fit_time", "mean_score_time"):
        assert (ours.cv_results_[name] >= 0.0).all()
    assert len(pd.DataFrame(ours.cv_results_)) == 9


def test_values_in_any_order_and_more_than_once() -> None:
    """The candidates come as they were given, which decides between equals; each is tried once."""
    some, others = [30.0, 0.3, 3.0], [0.3, 0.03]
    theirs = GridSearchCV(sklearn.svm.SVC(tol=TIGHT), {"C": some, "gamma": others}, cv=3).fit(*IRIS)
    assert_same_search(small(Cs=[*some, 0.3], gammas=np.array(others)).fit(*IRIS), theirs)


def test_the_choice_between_equals_is_the_first() -> None:
    X, y = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]), np.repeat([0, 1], 3)
    search = SVCCV(Cs=[3.0, 1.0], gammas=[0.1, 0.2], cv=3).fit(X, y)
    assert (search.cv_results_["mean_test_score"] == 1.0).all()
    assert search.best_params_ == {"C": 3.0, "gamma": 0.1}
    assert (search.cv_results_["rank_test_score"] == 1).all()


@pytest.mark.parametrize(
    ("cv", "fit"),
    [
        (StratifiedKFold(4, shuffle=True, random_state=1), {}),
        (KFold(3, shuffle=True, random_state=0), {}),
        (GroupKFold(3), {"groups": np.arange(178) % 11}),
        (PredefinedSplit(np.arange(178) % 4 - 1), {}),  # a quarter of them are never held out
        (ShuffleSplit(2, test_size=0.3, random_state=0), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_splits_of_every_kind(cv: Any, fit: dict[str, Any]) -> None:
    theirs = GridSearchCV(sklearn.svm.SVC(tol=TIGHT), GRID, cv=cv).fit(*WINE, **fit)
    assert_same_search(small(cv=cv).fit(*WINE, **fit), theirs)


def test_splits_as_a_list_and_by_default() -> None:
    folds = list(StratifiedKFold(5).split(*IRIS))
    plain = small(cv=None).fit(*IRIS)
    assert plain.n_splits_ == 5
    assert_array_equal(splits(plain), splits(small(cv=folds).fit(*IRIS)))


@pytest.mark.parametrize(
    ("data", "scoring"),
    [
        (CANCER, "roc_auc"),
        (CANCER, "average_precision"),
        (CANCER, make_scorer(f1_score, pos_label=0)),
        (WINE, "f1_macro"),
        (WINE, "balanced_accuracy"),
        (CANCER, lambda estimator, X, y: -hinge_loss(y, estimator.decision_function(X))),
    ],
    ids=["roc_auc", "average_precision", "f1 of a class", "f1_macro", "balanced_accuracy", "callable"],
)
def test_scoring(data: Data, scoring: Any) -> None:
    theirs = GridSearchCV(SVC(tol=TIGHT), GRID, cv=3, scoring=scoring).fit(*data)
    ours = small(scoring=scoring).fit(*data)
    assert_same_search(ours, theirs, tolerance=1e-5)
    assert ours.score(*data) == pytest.approx(theirs.score(*data), abs=1e-5)


def weighted_search(X: Any, y: Any, weights: Any, score: Callable[..., float]) -> Any:
    """The split scores of a grid, by plain loops."""
    found = np.empty((3, len(Cs), len(GAMMAS)))
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        for i, C in enumerate(Cs):
            for j, gamma in enumerate(GAMMAS):
                model = sklearn.svm.SVC(C=C, gamma=gamma, tol=TIGHT).fit(X[train], y[train], weights[train])
                found[fold, i, j] = score(y[test], model.predict(X[test]), sample_weight=weights[test])
    return found.reshape(3, -1)


def test_weights_count_in_training_and_in_scores() -> None:
    X, y = CANCER
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(y))
    weights[::7] = 0.0
    search = small().fit(X, y, sample_weight=weights)
    assert_allclose(splits(search), weighted_search(X, y, weights, accuracy_score), rtol=0, atol=1e-12)
    best = SVC(**search.best_params_, tol=TIGHT).fit(X, y, weights)
    assert_allclose(search.decision_function(X), best.decision_function(X), atol=1e-6)
    by_name = small(scoring="f1_macro").fit(X, y, sample_weight=weights)
    macro = weighted_search(X, y, weights, lambda *data, **weights: f1_score(*data, average="macro", **weights))
    assert_allclose(splits(by_name), macro, rtol=0, atol=1e-12)


def test_a_scorer_that_takes_no_weights_gets_none() -> None:
    X, y = DIABETES
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    search = small_regression(scoring=make_scorer(max_error, greater_is_better=False)).fit(X, y, weights)
    assert np.isfinite(splits(search)).all()


def test_sparse_samples_and_names_of_classes() -> None:
    X, y = WINE
    thin, names = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), np.array(["barolo", "grignolino", "barbera"])[y]
    theirs = GridSearchCV(sklearn.svm.SVC(tol=TIGHT), GRID, cv=3).fit(thin.toarray(), names)
    ours = small().fit(thin, names)
    assert_same_search(ours, theirs)
    assert_array_equal(ours.predict(thin), theirs.predict(thin.toarray()))
    assert sp.issparse(ours.best_estimator_.support_vectors_)


def test_frames_keep_the_names_of_their_columns() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    search = small().fit(X, y)
    assert_array_equal(search.feature_names_in_, X.columns)
    assert search.predict(X).shape == (150,)  # without the warning that it was fitted without names
    with pytest.raises(ValueError, match="feature names"):
        search.predict(X[X.columns[::-1]])
    assert not hasattr(search.fit(X.to_numpy(), y), "feature_names_in_")


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_a_precomputed_kernel(multi_class: str) -> None:
    X, y = WINE
    shuffled = np.random.default_rng(0).permutation(len(y))
    X, y = X[shuffled], y[shuffled]
    K = rbf_kernel(X, gamma=0.03)
    search = small(kernel="precomputed", gammas=7, multi_class=multi_class).fit(K, y)
    assert len(search.cv_results_["params"]) == len(Cs)  # there is no gamma to try
    named = small(gammas=[0.03], multi_class=multi_class).fit(X, y)
    assert_array_equal(splits(search), splits(named))
    assert_allclose(search.decision_function(K), named.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_a_kernel_of_the_user(multi_class: str) -> None:
    def kernel(A: Any, B: Any) -> Any:
        return rbf_kernel(A, B, gamma=0.03)

    search = small(kernel=kernel, gammas=7, multi_class=multi_class).fit(*WINE)
    assert_array_equal(splits(search), splits(small(gammas=[0.03], multi_class=multi_class).fit(*WINE)))


def test_a_class_that_a_fold_does_not_train_on() -> None:
    X, y = WINE
    y = np.where(y == 2, 1, y)
    y[:2] = 2  # both are held out in the first fold
    cv = PredefinedSplit(np.where(np.arange(178) < 2, 0, np.arange(178) % 3))
    for multi_class in ("ovo", "ovr"):
        theirs = GridSearchCV(SVC(tol=TIGHT, multi_class=multi_class), GRID, cv=cv).fit(X, y)
        assert_same_search(small(cv=cv, multi_class=multi_class).fit(X, y), theirs)


def test_ranges_around_the_scale_of_the_data() -> None:
    search = SVCCV(Cs=3, gammas=4, cv=2).fit(*WINE)
    C, gamma = (np.unique(search.cv_results_[f"param_{name}"].data) for name in ("C", "gamma"))
    assert_allclose(np.diff(np.log(C)), np.log(C[1] / C[0]))
    assert_allclose(np.diff(np.log(gamma)), np.log(gamma[1] / gamma[0]))
    assert gamma[0] < 1.0 / (13 * WINE[0].var()) < gamma[-1]
    assert (len(C), len(gamma)) == (3, 4)


# --- regression -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_regression_as_grid_search_over_scikit_learn(kernel: str) -> None:
    X, y = DIABETES
    epsilons = [0.0, 0.5, 0.1]
    parameters = {"C": [0.3, 10.0], "gamma": [0.003, 0.03], "epsilon": epsilons}
    theirs = GridSearchCV(sklearn.svm.SVR(tol=TIGHT, kernel=kernel), parameters, cv=3).fit(X, y)
    ours = small_regression(epsilons=epsilons, kernel=kernel).fit(X, y)
    assert_same_search(ours, theirs, tolerance=1e-4)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-4)


@pytest.mark.parametrize("scoring", [None, "neg_mean_squared_error"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_squared_loss_of_regression(fit_intercept: bool, scoring: str | None) -> None:
    parameters = {"loss": "squared_epsilon_insensitive", "fit_intercept": fit_intercept, "tol": TIGHT}
    values = {"C": [0.3, 10.0], "gamma": [0.003, 0.03], "epsilon": [0.1]}
    theirs = GridSearchCV(SVR(**parameters), values, cv=3, scoring=scoring).fit(*DIABETES)
    assert_same_search(small_regression(scoring=scoring, **parameters).fit(*DIABETES), theirs, tolerance=1e-5)


def test_weights_of_regression() -> None:
    X, y = DIABETES
    weights = np.random.default_rng(0).uniform(0.1, 2.0, len(y))
    search = small_regression(Cs=[3.0], gammas=[0.03]).fit(X, y, weights)
    for (train, test), score in zip(KFold(3).split(X), splits(search), strict=True):
        model = sklearn.svm.SVR(C=3.0, gamma=0.03, tol=TIGHT).fit(X[train], y[train], weights[train])
        assert score == pytest.approx(r2_score(y[test], model.predict(X[test]), sample_weight=weights[test]), abs=1e-5)


def test_twice_the_same_sample_in_regression() -> None:
    """With a tube of no width both variables of a sample may be positive, and each counts."""
    X, y = DIABETES
    search = small_regression(Cs=[0.1, 1.0, 30.0], gammas=[0.5], epsilons=[0.0]).fit(X, y)
    assert (splits(search, "relative_gap") < 1e-5).all()


# --- proofs, routes and repetition ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_every_fit_is_proved(loss: str) -> None:
    """The gap of each fit bounds how far its objective is from that of a fit of the same fold to the last digit."""
    X, y = CANCER
    search = small(tol=1e-3, loss=loss, refit=False).fit(X, y)
    gaps = splits(search, "relative_gap")
    assert np.isfinite(gaps).all()
    assert (gaps >= 0.0).all()
    assert gaps.max() < 0.05
    assert splits(small(loss=loss, refit=False).fit(X, y), "relative_gap").max() < 1e-5


def results(search: Any) -> dict[str, Any]:
    return {name: np.asarray(column).tolist() for name, column in search.cv_results_.items() if "time" not in name}


@pytest.mark.parametrize("threads", [1, 3])
def test_twice_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(make_backend("native")), "n_threads", threads)
    for data in (CANCER, WINE):
        first, second = small(tol=1e-3).fit(*data), small(tol=1e-3).fit(*data)
        assert results(first) == results(second)
        assert_array_equal(first.decision_function(data[0]), second.decision_function(data[0]))


ROUTES: list[tuple[Any, Data]] = [
    (small(), CANCER),
    (small(), WINE),
    (small(multi_class="ovr"), WINE),
    (small(loss="squared_hinge"), CANCER),
    (small(kernel="laplacian"), IRIS),
    (small_regression(), DIABETES),
]


@pytest.mark.parametrize(("search", "data"), ROUTES, ids=lambda value: type(value).__name__)
def test_matrices_too_large_to_keep(search: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search.fit(*data)
    monkeypatch.setattr(grid, "LARGEST_WHOLE_MATRIX", 10)
    assert_same_search(clone(search).fit(*data), whole, tolerance=1e-5)


@pytest.mark.parametrize(("search", "data"), ROUTES, ids=lambda value: type(value).__name__)
def test_the_readable_twin_agrees(search: Any, data: Data) -> None:
    few = {"Cs": [3.0], "gammas": [0.03, 0.3]}
    fast, plain = (clone(search).set_params(backend=name, **few).fit(*data) for name in ("native", "reference"))
    assert_same_search(plain, fast, tolerance=1e-5)


@pytest.mark.parametrize("most", [0, 1024])
def test_each_fit_helps_the_next(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along a chain of C it takes fewer steps than from the beginning each time, one by one and in one call."""
    steps = []
    answer = grid.Grid.run

    def count(self: Any, control: Any) -> Any:
        def answer_and_count(task: Any, outcomes: Any, *others: Any) -> Any:
            steps.extend(one.solution.steps for one in outcomes)
            return self.answer(task, outcomes, *others)

        return answer(replace(self, answer=answer_and_count), control)

    monkeypatch.setattr(native, "LONGEST_ROW_OF_CHAIN", most)
    monkeypatch.setattr(grid.Grid, "run", count)
    X, y = make_classification(400, 8, n_informative=5, flip_y=0.1, random_state=0)
    values = np.logspace(1, 3, 9)
    SVCCV(Cs=values, gammas=[0.1], cv=2, refit=False).fit(X, y)
    along, n_fits = sum(steps), len(steps)
    steps.clear()
    for C in values:
        SVCCV(Cs=[C], gammas=[0.1], cv=2, refit=False).fit(X, y)
    assert len(steps) == n_fits == 18
    assert along < 0.8 * sum(steps)


@pytest.mark.parametrize(
    ("settings", "largest"),
    [({}, 1e4), ({"fit_intercept": False}, 1e4), ({"kernel": "poly", "degree": 2}, 0.01), ({"multi_class": "ovr"}, 1e4)],
    ids=str,
)
@pytest.mark.parametrize(
    "data", ["iris", "breast_cancer", "1100 samples"]
)  # the last are so many that claims are looked at first
def test_chains_in_one_call_find_what_fits_one_by_one_find(
    settings: dict[str, Any], largest: float, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fit of a chain that is solved in one call has a certificate of the same quality, and the same scores."""
    sets = {
        "iris": IRIS,
        "breast_cancer": load_breast_cancer(return_X_y=True),
        "1100 samples": make_classification(1100, 6, flip_y=0.1, random_state=0),
    }
    X, y = sets[data]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    found, calls = {}, []
    solve_chain = native.core.solve_chain
    monkeypatch.setattr(native.core, "solve_chain", lambda *given: calls.append(len(given)) or solve_chain(*given))
    for most in (0, 4096):
        monkeypatch.setattr(native, "LONGEST_ROW_OF_CHAIN", most)
        search = SVCCV(
            Cs=np.geomspace(largest / 1e6, largest, 7), gammas=np.logspace(-2, 0, 3), cv=3, gap_tol=1e-5, refit=False, **settings
        )
        found[most] = search.fit(scale(X), y, sample_weight=weights).cv_results_
        assert bool(calls) == bool(most)
    for results in found.values():
        assert max(np.max(results[f"split{k}_relative_gap"]) for k in range(3)) <= 1e-5
    np.testing.assert_allclose(found[0]["mean_test_score"], found[4096]["mean_test_score"], atol=0.02)
    assert found[0]["mean_test_score"].max() == pytest.approx(found[4096]["mean_test_score"].max(), abs=0.005)


def test_nothing_is_fitted_in_the_end_if_that_is_not_wanted() -> None:
    search = small(refit=False).fit(*IRIS)
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "certificate_")
    with pytest.raises(NotFittedError, match="no best machine"):
        search.predict(IRIS[0])


def test_clones_and_pickles() -> None:
    search = small(class_weight="balanced").fit(*IRIS)
    again = pickle.loads(pickle.dumps(search))
    assert_array_equal(again.predict(IRIS[0]), search.predict(IRIS[0]))
    assert results(again) == results(search)
    fresh = clone(search)
    assert fresh.get_params() == search.get_params()
    assert not hasattr(fresh, "cv_results_")
    assert fresh.set_params(Cs=[1.0]).fit(*IRIS).best_params_["C"] == 1.0


@parametrize_with_checks([SVCCV(Cs=[1.0], gammas=[0.1], cv=3), SVRCV(Cs=[1.0, 10.0], gammas=[0.1], cv=3)])
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # some checks have few samples
        check(estimator)


# --- points that cannot win -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [CANCER, WINE], ids=["two classes", "three"])
def test_hopeless_points_are_left_out_and_the_best_is_the_same(data: Data) -> None:
    values = {"Cs": [0.01, 0.3, 30.0], "gammas": [0.003, 0.03, 30.0]}
    everything = small(**values).fit(*data)
    seen: list[Progress] = []
    search = small(reject_hopeless=True, callbacks=[seen.append], **values).fit(*data)
    assert search.best_params_ == everything.best_params_
    assert search.best_score_ == everything.best_score_
    left_out = np.isnan(splits(search))
    assert left_out.any()
    assert not left_out[:, search.best_index_].any()
    assert_array_equal(splits(search)[~left_out], splits(everything)[~left_out])
    possible = np.where(left_out, 1.0, splits(search)).mean(axis=0)
    assert (possible[left_out.any(axis=0)] < search.best_score_).all()
    assert (everything.cv_results_["mean_test_score"][left_out.any(axis=0)] < search.best_score_).all()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    assert search.status_ is Status.CONVERGED
    assert seen[-1].fraction == 1.0  # what is left out is done


@pytest.mark.parametrize(("score", "hopeless"), [(0.79, True), (0.8, False), (0.81, False)])
def test_a_point_that_can_still_be_as_good_is_not_hopeless(score: float, hopeless: bool) -> None:
    known = Results({"C": [1.0, 2.0], "gamma": [1.0]}, [{"C": 1.0}, {"C": 2.0}], 2, ["score"])
    assert not known.hopeless(0, 1)  # nothing is known
    known.scores["score"][0] = [[0.9, 0.9], [score, np.nan]]
    assert known.hopeless(0, 1) == hopeless


def test_only_scores_with_a_known_limit_can_be_hopeless() -> None:
    for scoring in (lambda *_: 2.0, "positive_likelihood_ratio"):
        with pytest.raises(ValueError, match="reject_hopeless=True with scoring="):
            small(scoring=scoring, reject_hopeless=True).fit(*CANCER)


# --- watched, limited, interrupted ------------------------------------------------------------------------------------


class OneByOne:
    """A scorer that waits after each fit until the callback has heard of it; the callback then does something."""

    def __init__(self, act: Callable[[int], bool | None]) -> None:
        self.act, self.n_heard, self.n_scored = act, 0, 0
        self._permits = threading.Semaphore(1)

    def __call__(self, answers: Any, X: Any, y: Any) -> float:
        assert self._permits.acquire(timeout=LIVENESS)
        self.n_scored += 1
        return float(np.mean(answers.predict(X) == y))

    def hear(self, progress: Progress) -> bool | None:
        self.n_heard += 1
        answer = self.act(self.n_heard)
        self._permits.release()
        return answer

    def search(self, **parameters: Any) -> SVCCV:
        return small(scoring=self, callbacks=[self.hear], cv=2, **parameters)


@pytest.fixture(params=["side by side", "in turn"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in turn":
        monkeypatch.setattr(grid, "LARGEST_WHOLE_MATRIX", 10)
    monkeypatch.setattr(type(make_backend("native")), "n_threads", 1)


@pytest.mark.usefixtures("route")
def test_ctrl_c_keeps_what_is_done_and_is_raised_again() -> None:
    def press_once(n_heard: int) -> None:
        if n_heard == 8:
            signal.raise_signal(signal.SIGINT)

    search = OneByOne(press_once).search()
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        search.fit(*IRIS)
    assert search.status_ is Status.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    scores = splits(search)
    complete = ~np.isnan(scores).any(axis=0)
    assert 8 <= np.isfinite(scores).sum() <= 9  # one may have been on its way
    assert_array_equal(np.isnan(search.cv_results_["mean_test_score"]), ~complete)
    assert complete.sum() == 3  # those of the first gamma
    assert search.best_score_ == scores[:, complete].mean(axis=0).max()
    assert_array_equal(np.isfinite(splits(search, "relative_gap")), np.isfinite(scores))
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(NotFittedError, match="no best machine"):
        search.predict(IRIS[0])


@pytest.mark.usefixtures("route")
def test_a_callback_ends_the_grid() -> None:
    search = OneByOne(lambda n_heard: n_heard == 7).search()
    with pytest.warns(ConvergenceWarning, match=r"STOPPED_BY_CALLBACK\): 1[01] of 18 fits are missing, and the best of"):
        search.fit(*IRIS)
    assert search.status_ is Status.STOPPED_BY_CALLBACK
    assert np.isnan(search.cv_results_["mean_test_score"]).sum() == 6
    assert search.best_estimator_.status_ is Status.CONVERGED
    assert search.best_params_["gamma"] == GAMMAS[-1]  # the first to be done
    assert search.score(*IRIS) > 0.9


@pytest.mark.usefixtures("route")
def test_max_seconds_ends_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that ticks once a fit."""
    clock = OneByOne(lambda n_heard: None)
    monkeypatch.setattr(Control, "seconds", property(lambda self: float(clock.n_heard)))
    search = clock.search(max_seconds=7)
    with pytest.warns(ConvergenceWarning, match="MAX_SECONDS.*are missing, and the best of the points that are done"):
        search.fit(*IRIS)
    assert search.status_ is Status.MAX_SECONDS
    assert search.best_params_["gamma"] == GAMMAS[-1]  # the first to be done
    assert search.predict(IRIS[0]).shape == (150,)

    clock = OneByOne(lambda n_heard: None)
    search.set_params(max_seconds=1, scoring=clock, callbacks=[clock.hear])
    with pytest.warns(ConvergenceWarning, match="no point is done on all folds, so there is no best one"):
        search.fit(*IRIS)
    assert not any(hasattr(search, name) for name in ("best_estimator_", "best_params_", "best_score_", "best_index_"))
    assert np.isfinite(splits(search)).any()
    with pytest.raises(NotFittedError, match="no best machine"):
        search.predict(IRIS[0])


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert results(small(max_seconds=1e6).fit(*IRIS)) == results(small().fit(*IRIS))


@pytest.mark.usefixtures("route")
def test_progress_rises_to_one_and_tells_the_time_left() -> None:
    seen: list[Progress] = []
    small(callbacks=[seen.append]).fit(*IRIS)
    fractions = [progress.fraction for progress in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert len(seen) == 27  # once a fit
    assert {progress.n_machines for progress in seen} == {27}
    assert all(0 <= progress.machine < 27 for progress in seen)
    assert all(progress.seconds_left >= 0.0 for progress in seen)
    assert seen[-1].seconds_left == 0.0
    assert seen[-1].gap < 1e-5


def test_one_bar_for_the_whole_grid(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    small(verbose=True).fit(*IRIS)
    screen = capsys.readouterr().err
    assert "machine 27/27" in screen
    assert "100%" in screen
    assert screen.count("\n") == 1


@pytest.mark.usefixtures("route")
def test_an_error_of_a_callback_or_a_scorer_is_raised_and_leaves_no_thread() -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("enough")

    before = threading.active_count()
    for parameters in ({"callbacks": [fail]}, {"scoring": fail}):
        with pytest.raises(RuntimeError, match="enough") as caught:
            small(**parameters).fit(*IRIS)
        assert threading.active_count() == before, "while somebody still looks at the traceback"
        del caught


# --- several scorers, words for gamma, probabilities --------------------------------------------------------------------


@pytest.mark.parametrize(
    "scoring", [["accuracy", "f1"], {"accuracy": "accuracy", "f1": make_scorer(f1_score)}], ids=["list", "dict"]
)
def test_several_scorers_are_those_of_grid_search(scoring: Any) -> None:
    ours = SVCCV(Cs=Cs, gammas=GAMMAS, cv=3, scoring=scoring, refit="f1", tol=TIGHT).fit(*CANCER)
    theirs = GridSearchCV(sklearn.svm.SVC(tol=TIGHT), GRID, cv=3, scoring=scoring, refit="f1").fit(*CANCER)
    columns = [name for name in theirs.cv_results_ if "_test_" in name and "rank" not in name]
    assert len(columns) == 10
    for name in columns:
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], err_msg=name)
    assert ours.best_score_ == ours.cv_results_["mean_test_f1"].max()
    assert ours.best_params_ == theirs.best_params_
    assert ours.score(*CANCER) == pytest.approx(theirs.score(*CANCER))
    assert ours.multimetric_
    assert list(ours.scorer_) == list(theirs.scorer_) == ["accuracy", "f1"]


def test_several_scorers_of_which_none_decides() -> None:
    scoring = ["accuracy", "f1"]
    undecided = SVCCV(Cs=Cs, gammas=[0.03], cv=3, scoring=scoring, refit=False).fit(*CANCER)
    assert not hasattr(undecided, "best_params_")
    last = SVCCV(Cs=Cs, gammas=[0.03], cv=3, scoring=scoring, refit=lambda table: len(table["params"]) - 1).fit(*CANCER)
    assert last.best_index_ == 2
    assert Cs[2] == last.best_estimator_.C
    assert not hasattr(last, "best_score_")
    with pytest.raises(ValueError, match="a function chose the best point, so none of accuracy, f1 is its score"):
        last.score(*CANCER)
    with pytest.raises(ValueError, match="reject_hopeless=True with scoring="):
        SVCCV(scoring=scoring, refit="f1", reject_hopeless=True).fit(*CANCER)


def test_words_for_gamma() -> None:
    X, y = IRIS
    search = SVCCV(Cs=[1.0], gammas=["scale", 0.5, "auto"], cv=3).fit(X, y)
    expected = [1.0 / (4 * X.var()), 0.5, 0.25]
    assert_allclose(np.asarray(search.cv_results_["param_gamma"], dtype=float), expected)
    weights = np.where(y == 0, 3.0, 1.0)
    weighted = SVCCV(Cs=[1.0], gammas=["scale"], cv=3).fit(X, y, weights)
    assert weighted.best_params_["gamma"] == SVC().fit(X, y, weights).gamma_


def test_a_kernel_object_takes_the_gammas_of_the_grid() -> None:
    by_name, by_object = (SVCCV(kernel=kernel, Cs=[1.0], gammas=[1e-4, 0.03], cv=3).fit(*CANCER) for kernel in ("rbf", RBF()))
    assert_array_equal(by_object.cv_results_["mean_test_score"], by_name.cv_results_["mean_test_score"])
    assert by_object.best_estimator_.kernel_ == by_name.best_estimator_.kernel_
    assert len(set(by_object.cv_results_["mean_test_score"])) == 2


def test_probabilities_of_the_best_machine() -> None:
    X, y = CANCER
    search = SVCCV(Cs=[1.0], gammas=[0.03], cv=3, probability="loo", calibration="isotonic").fit(X, y)
    best = SVC(C=1.0, gamma=0.03, probability="loo", calibration="isotonic").fit(X, y)
    assert_array_equal(search.predict_proba(X), best.predict_proba(X))
    assert_array_equal(search.predict_log_proba(X), best.predict_log_proba(X))
    assert not hasattr(SVCCV(), "predict_proba")
    with pytest.raises(NotFittedError):
        SVCCV(probability="loo").predict_proba(X)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Cs": []}, "Cs=[]: must be a sequence of positive numbers, or how many of them to try"),
        ({"Cs": 0}, "Cs=0: must be a sequence of positive numbers"),
        ({"Cs": [1.0, -2.0]}, "Cs=-2.0: must be positive and finite"),
        ({"Cs": [np.inf]}, "Cs=inf: must be positive and finite"),
        ({"Cs": 1.5}, "Cs=1.5: must be a sequence"),
        ({"gammas": "x"}, "gammas='x': must be a sequence"),
        ({"gammas": [0.0]}, "gammas=0.0: must be positive"),
        ({"gammas": True}, "gammas=True: must be a sequence"),
        ({"kernel": "cosine"}, "kernel='cosine': must be one of"),
        ({"loss": "log"}, "loss='log': must be one of"),
        ({"multi_class": "all"}, "multi_class='all': must be one of"),
        ({"tol": 0.0}, "tol=0.0: must be positive"),
        ({"max_seconds": -1}, "max_seconds=-1: must be positive"),
        ({"cache_size": "huge"}, "cache_size='huge': must be a number of MB"),
        ({"backend": "abacus"}, "backend='abacus': must be one of"),
        ({"class_weight": "fair"}, "class_weight='fair': must be None"),
        ({"scoring": 3}, "scoring=3: must be None, the name of a scorer, a callable, or a list or dict of several scorers"),
        ({"scoring": [accuracy_score]}, "The 'scoring' parameter of SVCCV must have the names of scorers, or be a dict"),
        ({"scoring": ["accuracy", "f1_macro"]}, "For multi-metric scoring, the parameter refit must be set to a scorer key"),
        ({"gammas": ["wide"]}, "gammas='wide': must be a number"),
        ({"scoring": "neg_log_loss"}, "scoring asks for probabilities"),
        ({"scoring": "beauty"}, "scoring"),
        ({"cv": 1}, "n_splits"),
        ({"cv": TimeSeriesSplit(3)}, "each split must put every sample into one of its two parts"),
        ({"cv": ShuffleSplit(2, train_size=0.5, test_size=0.2)}, "each split must put every sample into one of its two parts"),
        ({"cv": [(np.arange(150), np.arange(5))]}, "each split must put every sample into one of its two parts"),
        ({"cv": [(np.arange(10, 150) // 2, np.arange(10))]}, "each split must put every sample into one of its two parts"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_bad_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=of_parameter(message, "SVCCV").removeprefix("^")):
        small(**parameters).fit(*IRIS)


def test_numbers_that_are_none() -> None:
    with pytest.raises(TypeError, match=of_parameter("Cs='1': must be a number", "SVCCV")):
        small(Cs=["1"]).fit(*IRIS)


@pytest.mark.parametrize("epsilons", [[], 0.1, [-0.1], [np.nan]])
def test_bad_tubes(epsilons: Any) -> None:
    with pytest.raises(ValueError, match="The 'epsilons' parameter of SVRCV must be"):
        small_regression(epsilons=epsilons).fit(*DIABETES)


def test_what_cannot_be_trained() -> None:
    X, y = IRIS
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        small().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        small().fit(X, y, np.zeros(150))
    with pytest.raises(ValueError, match="belong to the same class"):
        small().fit(X, y, (y == 1).astype(float))
    with pytest.raises(ValueError, match="belong to the same class"):
        small(class_weight={0: 0.0, 1: 0.0}).fit(X, y)
    with pytest.raises(ValueError, match=r"fold 0 leaves samples of one class only.* use fewer folds, StratifiedKFold"):
        small(cv=KFold(2)).fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="n_splits=60 cannot be greater than the number of members in each class"):
        small(cv=60).fit(X, y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        small().fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small().fit(X, y[:-1])
    with pytest.raises(ValueError, match="zero or negative weights"):
        small_regression().fit(*DIABETES, np.zeros(150))
    with pytest.raises(ValueError, match="Input y contains infinity"):
        small_regression().fit(DIABETES[0], np.where(np.arange(150) == 3, np.inf, DIABETES[1]))
    with pytest.raises(ValueError, match="or none with a weight"):
        small_regression(cv=2).fit(*DIABETES, (np.arange(150) < 75).astype(float))


def test_a_class_with_fewer_members_than_folds() -> None:
    X, y = IRIS[0][:102], IRIS[1][:102]
    with pytest.warns(UserWarning, match="The least populated class in y has only 2 members"):
        search = small().fit(X, y)
    assert np.isfinite(splits(search)).all()


# --- paths ------------------------------------------------------------------------------------------------------------

PATH = np.logspace(-1, 2, 7)


@pytest.mark.parametrize("n", [300, 1400], ids=["one tile", "many"])
@pytest.mark.parametrize(
    "estimator",
    [
        SVC(),
        SVC(loss="squared_hinge"),
        SVC(kernel="linear", fit_intercept=False),
        SVC(class_weight="balanced", backend="reference"),
        SVR(),
        SVR(loss="squared_epsilon_insensitive"),
        NuSVR(nu=0.3),
    ],
    ids=repr,
)
def test_a_path_is_separate_fits(estimator: Any, n: int) -> None:
    if estimator.backend == "reference" and n > 300:
        pytest.skip("the twin is for small sets")
    X, y = make_classification(n, 6, n_informative=4, flip_y=0.1, random_state=0)
    estimator = clone(estimator).set_params(tol=1e-5)
    path = C_path(X, y, PATH[::3], estimator=estimator)
    assert len(path.machines) == len(path.certificates) == 3
    for C, machine, proof in zip(path.Cs, path.machines, path.certificates, strict=True):
        alone = clone(estimator).set_params(C=C).fit(X, y)
        assert machine.C == C
        assert machine.status_ is Status.CONVERGED
        assert proof is machine.certificate_
        assert proof.relative_gap < 1e-4
        proofs = (proof, alone.certificate_)
        optimum = max(one.dual - one.value_error for one in proofs)  # both dual values are below both primal values
        assert optimum <= min(one.primal + one.value_error for one in proofs) * (1 + 1e-9)
        assert_allclose(proof.primal, alone.certificate_.primal, rtol=1e-6)  # what float32 rounding leaves of it
        values = "decision_function" if isinstance(estimator, SVC) else "predict"
        assert_allclose(getattr(machine, values)(X), getattr(alone, values)(X), atol=2e-3)


def test_what_a_path_tells() -> None:
    X, y = IRIS
    path = C_path(X, y, [10.0, 0.1, 1.0, 0.1])
    assert isinstance(path, Path)
    assert_array_equal(path.Cs, [0.1, 1.0, 10.0])
    assert path.coefficients.shape == (3, 2, 150)  # one-vs-one: a sample takes part in two machines
    assert path.intercepts.shape == (3, 3)
    for k, machine in enumerate(path.machines):
        assert_array_equal(path.coefficients[k][:, machine.support_], machine.dual_coef_)
        assert np.count_nonzero(path.coefficients[k].any(axis=0)) == len(machine.support_)
        assert_array_equal(path.intercepts[k], machine.intercept_)
        assert path.scores[k] == machine.score(X, y)
    assert path.best() is path.machines[int(path.scores.argmax())]


def test_a_path_is_scored_on_the_validation_set() -> None:
    X, y = CANCER
    path = C_path(X[::2], y[::2], PATH, validation_set=(X[1::2], y[1::2]))
    assert_array_equal(path.scores, [machine.score(X[1::2], y[1::2]) for machine in path.machines])
    assert path.machines[0].shape_fit_ == (150, 30)


def test_paths_of_sparse_and_weighted_samples() -> None:
    X, y = WINE
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    thin = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    path = C_path(thin, y, PATH[-2:], estimator=SVC(tol=1e-6), sample_weight=weights)
    alone = SVC(C=PATH[-1], tol=1e-6).fit(thin, y, weights)
    assert_allclose(path.machines[-1].decision_function(thin), alone.decision_function(thin), atol=1e-4)
    assert path.coefficients.shape == (2, 2, 178)


def test_a_path_computes_one_kernel_matrix() -> None:
    n_entries = 0

    def kernel(A: Any, B: Any) -> Any:
        nonlocal n_entries
        n_entries += len(A) * len(B)
        return rbf_kernel(A, B, gamma=0.03)

    X, y = CANCER
    some = X[:5], y[:5]
    path = C_path(X, y, PATH, estimator=SVC(kernel=kernel), validation_set=some)
    along, n_entries = n_entries, 0
    proofs = sum(len(machine.support_) for machine in path.machines) * len(y)  # read nothing that a solver has written
    for C in PATH:
        SVC(C=C, kernel=kernel).fit(X, y).score(*some)
    checks = 7 * (128**2 + 64 * len(y) + 5 * len(y))  # is it indefinite, the diagonal, the validation set
    assert along <= len(y) ** 2 + checks + proofs
    assert n_entries >= 7 * len(y) ** 2


def test_a_path_takes_fewer_steps() -> None:
    X, y = make_classification(400, 8, n_informative=5, flip_y=0.1, random_state=0)
    values = np.logspace(1, 3, 9)
    path = C_path(X, y, values)
    along = [int(machine.n_iter_.sum()) for machine in path.machines]
    alone = [int(SVC(C=C).fit(X, y).n_iter_.sum()) for C in values]
    assert along[0] == alone[0]
    assert sum(along) < 0.8 * sum(alone)


def test_machines_of_a_path_stand_alone() -> None:
    """None of them drags the kernel matrix along, or changes when the next one is fitted."""
    X, y = CANCER
    path = C_path(X, y, PATH)
    assert len({machine.certificate_.dual for machine in path.machines}) == len(PATH)
    for machine in path.machines:
        assert len(pickle.dumps(machine)) < 8 * len(y) ** 2
    before = path.machines[0].decision_function(X)
    path.machines[0].set_params(C=1e3).fit(X, y)
    assert not np.allclose(path.machines[0].decision_function(X), before)
    assert_allclose(path.machines[-1].certificate_.dual, SVC(C=PATH[-1]).fit(X, y).certificate_.dual, rtol=1e-4)


def test_ctrl_c_ends_a_path() -> None:
    fitted: list[Progress] = []

    def press(progress: Progress) -> None:
        fitted.append(progress)
        if len(fitted) == 1:
            signal.raise_signal(signal.SIGINT)

    X, y = make_classification(2000, 8, flip_y=0.3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        C_path(X, y, PATH, estimator=SVC(callbacks=[press]))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_bad_paths() -> None:
    X, y = IRIS
    for values in ([], 1.0, "1"):
        with pytest.raises(ValueError, match=r"Cs=.*must be a sequence of positive numbers, for example numpy\.logspace"):
            C_path(X, y, values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Cs=0: must be positive and finite"):
        C_path(X, y, [0])
    for estimator in (NuSVC(nu=0.1), sklearn.svm.SVC()):
        with pytest.raises(TypeError, match="must be a machine of maxmargin that has a C"):
            C_path(X, y, [1.0], estimator=estimator)
    with pytest.raises(ValueError, match=of_parameter("epsilon=-1: must be a finite number >= 0", "SVR")):
        C_path(X, y, [1.0], estimator=SVR(epsilon=-1))


# --- points of a dual problem -----------------------------------------------------------------------------------------

numbers = st.floats(-3.0, 3.0, allow_subnormal=False).map(lambda x: round(x, 6))


@st.composite
def problems(draw: st.DrawFn, shifted: bool = False) -> DualProblem:
    """Boxes around zero, some of no width, with one sum, two or none."""
    n = draw(st.integers(1, 12))

    def vector(values: st.SearchStrategy[float]) -> Any:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    width = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.01, 5.0))
    lower, upper = -vector(width), vector(width)
    share = vector(st.floats(0.0, 1.0))
    start = None if draw(st.booleans()) else np.clip(lower + share * (upper - lower), lower, upper)
    return DualProblem(
        linear=vector(numbers),
        lower=lower,
        upper=upper,
        shift=vector(st.floats(0.1, 2.0)) if shifted else None,
        coupled=draw(st.booleans()),
        split=draw(st.one_of(st.none(), st.integers(0, n))),
        start=start,
    )


def points(problem: DualProblem) -> st.SearchStrategy[Any]:
    return st.lists(numbers, min_size=len(problem), max_size=len(problem)).map(np.array)


def assert_feasible(problem: DualProblem, beta: Any) -> None:
    assert (beta >= problem.lower).all()
    assert (beta <= problem.upper).all()
    assert_allclose(problem.residuals(beta), 0.0, atol=1e-12 * (1.0 + np.abs(beta).sum()))


@given(st.data())
def test_a_point_near_another_satisfies_the_constraints(data: st.DataObject) -> None:
    problem = data.draw(problems())
    near = problem.feasible(data.draw(points(problem)), data.draw(st.one_of(st.none(), points(problem))))
    assert_feasible(problem, near)
    assert_allclose(problem.feasible(near), near, atol=1e-14)  # there is nothing left to mend


@given(st.data())
def test_no_feasible_point_is_farther_down_than_the_vertex(data: st.DataObject) -> None:
    problem = data.draw(problems())
    gradient, other = data.draw(points(problem)), problem.feasible(data.draw(points(problem)))
    vertex = problem.vertex(gradient)
    assert_feasible(problem, vertex)
    assert gradient @ vertex <= gradient @ other + 1e-10


@given(st.data())
def test_a_solution_in_another_box_is_feasible_there(data: st.DataObject) -> None:
    old = data.draw(problems())
    factor = data.draw(st.floats(0.1, 10.0))
    start = None if old.start is None else factor * old.start
    new = DualProblem(old.linear, factor * old.lower, factor * old.upper, None, old.coupled, old.split, start)
    beta = old.feasible(data.draw(points(old)))
    for gradient in (None, data.draw(points(old))):
        carried, r = new.carry_over(old, beta, gradient)
        assert_feasible(new, carried)
        assert r == pytest.approx(factor) or r == 1.0
        same, _ = old.carry_over(old, beta, gradient)
        assert_allclose(same, beta, atol=1e-12)


@given(st.data(), st.booleans())
def test_the_gradient_at_a_multiple(data: st.DataObject, shifted: bool) -> None:
    old = data.draw(problems(shifted))
    n = len(old)
    features = np.random.default_rng(n).normal(size=(n, 3))
    K = features @ features.T

    def gradient(problem: DualProblem, beta: Any) -> Any:
        return K @ beta + problem.linear + (0.0 if problem.shift is None else problem.shift * beta)

    shift = np.linspace(0.2, 3.0, n) if shifted else None
    new = DualProblem(data.draw(points(old)), old.lower, old.upper, shift)
    beta, r = data.draw(points(old)), data.draw(st.floats(0.1, 10.0))
    assert_allclose(new.gradient_at_multiple(r, old, beta, gradient(old, beta)), gradient(new, r * beta), atol=1e-10)


# --- kernel matrices that are there as a whole ------------------------------------------------------------------------

EDGES = (0, 21, 55, 90)


def whole(backend: str, kernel: NamedKernel, X: Any, instead_of: Gram | None = None) -> Gram:
    return make_backend(backend).whole(kernel, kernel.pairing(X, X), EDGES, kernel.rounding(X.shape[1]), instead_of)


def entries(tile: Any) -> Any:
    return tile if isinstance(tile, np.ndarray) else tile.to_array()


def assert_is_matrix(gram: Gram, K: Any) -> None:
    """Tiles, sums of rows and exact sums are those of K."""
    rng = np.random.default_rng(0)
    n, accuracy = len(K), 1e-12 if gram.dtype == np.float64 else 1e-6
    assert len(gram) == n
    assert_allclose(gram.diagonal(), K.diagonal(), rtol=accuracy)
    everything = np.arange(n, dtype=np.int32)
    shift = rng.uniform(1.0, 2.0, n)
    scale = np.abs(K).max()
    for members in (everything, np.sort(rng.choice(everything, 13, replace=False))):
        plain = K[np.ix_(members, members)]
        assert_allclose(entries(gram.tile(members)), plain, atol=accuracy * scale)
        assert_allclose(entries(gram.tile(members, shift[members])), plain + np.diag(shift[members]), atol=accuracy * scale)
    for size in (1, n):
        for rows in (everything[:size], everything[-size:][::-1].copy(), np.repeat(everything[:size], 2)):
            weights = rng.normal(size=len(rows))
            sums = rng.normal(size=n)
            expected = sums + K[:, rows] @ weights
            gram.accumulate(rows, weights[None], sums[None])
            assert_allclose(sums, expected, atol=10 * accuracy * scale * n)
            for at in (everything, everything[3:4], everything[::-7].copy()):
                exact = gram.exact_sums(rows, weights[None, :], at).values[0]  # in float64 whatever the matrix is in
                assert_allclose(exact, K[np.ix_(at, rows)] @ weights, atol=1e-12 * scale * n)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("name", ["linear", "poly", "rbf", "laplacian", "exponential", "sigmoid"])
def test_whole_matrices(backend: str, name: str) -> None:
    X = np.random.default_rng(1).normal(size=(90, 4))
    kernel = make_kernel(name, gamma=0.3, coef0=0.5, degree=2)
    assert isinstance(kernel, NamedKernel)
    K = kernel.block(X, X)
    gram = whole(backend, kernel, X)
    for one in (gram, gram.in_float64()):
        assert_is_matrix(one, K)
    assert gram.in_float64().dtype == np.float64
    assert gram.remembers or backend == "reference"
    for segments in ((0, 2), (1,), (0, 1, 2)):
        members = np.concatenate([np.arange(EDGES[s], EDGES[s + 1]) for s in segments])
        part = gram.restrict(segments)
        assert_is_matrix(part, K[np.ix_(members, members)])
        assert_is_matrix(part.in_float64(), K[np.ix_(members, members)])
    some = np.array([80, 3, 41], dtype=np.int32)
    assert_allclose(entries(gram.subset(some).tile(np.arange(3, dtype=np.int32))), K[np.ix_(some, some)], atol=1e-6)
    single, twice = gram.in_float64(), DoubledGram(gram)
    rows, weights = np.array([2, 92, 5], dtype=np.int32), np.array([1.0, -0.5, 2.0])
    expected, *_ = single.exact_sums(rows % 90, weights[None, :], np.arange(90, dtype=np.int32))
    found, *_ = twice.exact_sums(rows, weights[None, :], np.arange(180, dtype=np.int32))
    assert_allclose(found, np.tile(expected, 2), atol=1e-12)


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_matrix_in_the_memory_of_another(backend: str) -> None:
    X = np.random.default_rng(1).normal(size=(90, 4))
    first, second = make_kernel("rbf", gamma=0.3), make_kernel("rbf", gamma=2.0)
    assert isinstance(first, NamedKernel)
    assert isinstance(second, NamedKernel)
    assert_is_matrix(whole(backend, second, X, instead_of=whole(backend, first, X)), second.block(X, X))
