"""scikit-learn's small print: words, namespaces, imports and metadata routing."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any, get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import maxmargin
from maxmargin import SVC, SVCCV, SVR, KernelRegressor, NuSVC, NuSVR, OneClassSVM
from maxmargin.backends import BACKENDS
from maxmargin.calibration import MAPS
from maxmargin.estimators import names
from maxmargin.formulations.losses.base import names as loss_names
from maxmargin.kernels import kernel_names
from maxmargin.multiclass import STRATEGIES
from maxmargin.solvers import SOLVERS

X, Y = load_breast_cancer(return_X_y=True)
X, Y = scale(X)[:200], Y[:200]
WEIGHTS = np.random.default_rng(0).uniform(0.1, 3.0, 200)


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (names.KernelName, kernel_names()),
        (names.ClassLossName, loss_names(regression=False)),
        (names.RegressionLossName, loss_names(regression=True)),
        (names.BackendName, ("auto", *BACKENDS)),
        (names.SolverName, ("auto", *SOLVERS)),
        (names.Strategy, STRATEGIES),
        (names.CalibrationName, tuple(MAPS)),
    ],
    ids=["kernels", "losses", "losses of regression", "backends", "solvers", "strategies", "maps"],
)
def test_the_types_name_what_is_there(words: Any, known: Any) -> None:
    assert set(get_args(words)) == set(known)


@pytest.mark.parametrize(
    "module",
    ["audits", "callbacks", "estimators", "formulations", "formulations.losses", "io", "kernels", "model_selection", "plots"],
)
def test_a_namespace_has_no_leftovers(module: str) -> None:
    found = import_module(f"maxmargin.{module}")
    assert dir(found) == sorted(found.__all__)
    assert all(hasattr(found, name) for name in found.__all__)


def test_the_namespace_of_the_package() -> None:
    assert set(maxmargin.__all__) <= set(dir(maxmargin))
    for name in set(dir(maxmargin)) - set(maxmargin.__all__):
        assert getattr(maxmargin, name).__name__ == f"maxmargin.{name}"  # a public module
    with pytest.raises(AttributeError, match="module 'maxmargin' has no attribute 'svm'"):
        maxmargin.svm  # noqa: B018


def loaded_by(statement: str) -> set[str]:
    """The packages that a statement imports in a fresh interpreter."""
    code = f"import sys; {statement}; print(*(name.partition('.')[0] for name in sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_nothing_is_imported_that_scikit_learn_does_not_import() -> None:
    """Import time: the package itself imports no numerics, and a machine nothing but the package besides scikit-learn's own."""
    assert not {"numpy", "scipy", "sklearn"} & loaded_by("import maxmargin")
    assert loaded_by("from maxmargin import SVC") - loaded_by("import sklearn.svm") == {"maxmargin"}


# --- metadata routing ---------------------------------------------------------------------------------------------------


@pytest.fixture
def routing() -> Any:
    with config_context(enable_metadata_routing=True):
        yield


def scaled(machine: Any) -> Any:
    return make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.2), SVR(), NuSVR(), OneClassSVM(), KernelRegressor()], ids=str)
def test_weights_reach_a_machine_that_asks_for_them(machine: Any) -> None:
    model = scaled(machine.set_fit_request(sample_weight=True)).fit(X, Y, sample_weight=WEIGHTS)
    direct = type(machine)(**machine.get_params()).fit(scale(X), Y, WEIGHTS)
    assert_array_equal(model.predict(X), direct.predict(scale(X)))
    without = scaled(clone(machine)).fit(X, Y)
    assert not np.array_equal(without[-1].dual_coef_, direct.dual_coef_)


@pytest.mark.usefixtures("routing")
def test_weights_that_nobody_asks_for_are_refused() -> None:
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(SVC()).fit(X, Y, sample_weight=WEIGHTS)


@pytest.mark.usefixtures("routing")
def test_weights_in_a_cross_validation() -> None:
    machine = SVC().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    found = cross_validate(scaled(machine), X, Y, params={"sample_weight": WEIGHTS}, cv=3, return_indices=True)
    for score, train, test in zip(found["test_score"], *found["indices"].values(), strict=True):
        scaler = StandardScaler().fit(X[train])
        model = SVC().fit(scaler.transform(X[train]), Y[train], WEIGHTS[train])
        assert_allclose(score, model.score(scaler.transform(X[test]), Y[test], WEIGHTS[test]))


@pytest.mark.usefixtures("routing")
def test_weights_and_groups_in_a_search() -> None:
    groups = np.arange(200) % 5
    search = SVCCV(Cs=[1.0, 10.0], gammas=[0.03], cv=GroupKFold(5), scoring=["accuracy", "f1"], refit="f1")
    search.set_fit_request(sample_weight=True, groups=True)
    routed = scaled(search).fit(X, Y, sample_weight=WEIGHTS, groups=groups)[-1]
    direct = SVCCV(**search.get_params()).fit(scale(X), Y, WEIGHTS, groups)
    assert_array_equal(routed.cv_results_["mean_test_f1"], direct.cv_results_["mean_test_f1"])
    assert routed.best_params_ == direct.best_params_
