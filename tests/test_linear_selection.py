"""Paths and grids of linear machines give what separate fits and GridSearchCV give."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import C_path, LinearSVC, LinearSVCCV, LinearSVR
from maxmargin.plots import PathDisplay

Cs = [1.0, 0.01, 0.1]
X_CANCER, Y_CANCER = load_breast_cancer(return_X_y=True)
CANCER = scale(X_CANCER)[:240], Y_CANCER[:240]
IRIS = scale(load_iris().data), load_iris().target


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"loss": "hinge", "class_weight": "balanced"},
        {"fit_intercept": "regularized", "solver": "descent"},
        {"multi_class": "crammer_singer"},
        {"penalty": "l1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("data", [CANCER, IRIS], ids=["two classes", "three classes"])
def test_the_grid_is_that_of_grid_search_cv(data, parameters):
    cv, settings = StratifiedKFold(3), {"gap_tol": 1e-6, **parameters}
    ours = LinearSVCCV(Cs=Cs, cv=cv, **settings).fit(*data)
    theirs = GridSearchCV(LinearSVC(**settings), {"C": Cs}, cv=cv).fit(*data)
    assert_array_equal(ours.cv_results_["param_C"], theirs.cv_results_["param_C"])
    assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1.0 / 80)
    assert ours.best_params_ == ours.cv_results_["params"][ours.best_index_]
    gaps = np.array([ours.cv_results_[f"split{k}_relative_gap"] for k in range(3)])
    assert (gaps <= 1e-6).all()
    assert_array_equal(ours.predict(data[0]), LinearSVC(C=ours.best_params_["C"], **settings).fit(*data).predict(data[0]))
    assert ours.certificate_.holds(1e-6)


def test_weights_scorers_and_names(tmp_path):
    X, y = CANCER
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])
    search = LinearSVCCV(Cs=Cs, cv=3, scoring={"f1": make_scorer(f1_score), "accuracy": "accuracy"}, refit="f1")
    search.fit(frame, y, weights)
    assert set(search.scorer_) == {"f1", "accuracy"}
    assert list(search.feature_names_in_) == list(frame.columns)
    assert search.score(frame, y) > 0.9
    repeated = LinearSVCCV(Cs=Cs, cv=[(np.arange(80, 240), np.arange(80))]).fit(sp.csr_matrix(X), y)
    assert repeated.n_splits_ == 1


def test_each_c_starts_from_the_solution_before_it():
    """A path over many close values of C takes fewer passes than as many fits from zero."""
    X, y = CANCER
    values = np.geomspace(0.1, 1.0, 8)
    machine = LinearSVC(solver="descent", gap_tol=1e-5)
    path = C_path(X, y, values, estimator=machine)
    alone = [LinearSVC(C=C, solver="descent", gap_tol=1e-5).fit(X, y) for C in values]
    assert sum(one.n_passes_ for one in path.machines[1:]) < 0.6 * sum(one.n_passes_ for one in alone[1:])
    assert path.coefficients.shape == (8, 1, 30)
    for one, other in zip(path.machines, alone, strict=True):
        assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=2e-5)
    display = PathDisplay.from_path(path)
    assert next(line.get_label() for line in display.ax_.get_lines()) == "training score"


def test_a_path_of_regressions():
    X, y = load_diabetes(return_X_y=True)
    path = C_path(scale(X), scale(y), [0.1, 1.0], estimator=LinearSVR(epsilon=0.1), validation_set=(scale(X), scale(y)))
    assert path.coefficients.shape == (2, 1, 10)
    assert path.intercepts.shape == (2, 1)
    assert all(proof.holds(1e-3) for proof in path.certificates)


def test_a_time_limit_keeps_the_points_that_are_done():
    calls: list[Any] = []
    with pytest.warns(ConvergenceWarning, match="ended early"):
        search = LinearSVCCV(Cs=Cs, cv=3, callbacks=[lambda p: calls.append(p) or len(calls) >= 4]).fit(*CANCER)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores[1])  # the smallest C comes first
    assert np.isnan(scores[[0]]).all()


def test_ctrl_c_ends_the_search():
    def interrupt(progress: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        LinearSVCCV(Cs=Cs, cv=3, callbacks=[interrupt]).fit(*CANCER)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Cs": []}, "The 'Cs' parameter of LinearSVCCV"),
        ({"Cs": [-1.0]}, "The 'Cs' parameter of LinearSVCCV"),
        ({"loss": "log"}, "The 'loss' parameter of LinearSVCCV"),
        ({"cv": [(np.arange(100), np.arange(100, 200))]}, "each split must put every sample into one of its two parts"),
    ],
)
def test_errors_name_the_argument_and_the_rule(parameters, message):
    with pytest.raises(ValueError, match=message):
        LinearSVCCV(**parameters).fit(*CANCER)


@parametrize_with_checks([LinearSVCCV(Cs=[0.1, 1.0], cv=2)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)
