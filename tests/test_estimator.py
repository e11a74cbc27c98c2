"""scikit-learn's own checks of an estimator. None is expected to fail but one of NuSVC, which has a substitute here."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM

VARIANTS = [
    SVC(),
    SVC(kernel="linear"),
    SVC(kernel="laplacian"),
    SVC(loss="squared_hinge"),
    SVC(multi_class="ovr"),
    SVC(fit_intercept=False),
    SVC(backend="reference"),
    SVR(),
    SVR(kernel="linear", C=10.0),
    SVR(loss="squared_epsilon_insensitive"),
    SVR(epsilon=0.0, fit_intercept=False),
    SVR(backend="reference"),
    SVR(warm_start=True),
    NuSVR(),
    NuSVR(backend="reference"),
    NuSVC(nu=0.3),
    NuSVC(kernel="linear", nu=0.3),
    NuSVC(nu=0.3, backend="reference"),
    NuSVC(nu=0.3, warm_start=True),
    OneClassSVM(),
    OneClassSVM(kernel="poly", coef0=1.0, nu=0.1),
    OneClassSVM(backend="reference", nu=0.2),
    LinearSVC(),
    LinearSVC(loss="hinge"),
    LinearSVC(fit_intercept="regularized", warm_start=True),
    LinearSVC(multi_class="crammer_singer"),
    LinearSVR(),
    LinearSVR(loss="squared_epsilon_insensitive", fit_intercept=False),
    LinearOneClassSVM(),
]

# descents, which the checks compare to 1e-7: they are asked for more than they reach, and say so
DESCENTS = [
    LinearSVC(penalty="l1", max_iter=100_000),
    LinearSVC(solver="descent", gap_tol=1e-13, max_iter=1_000_000),
    LinearSVR(solver="descent", fit_intercept="regularized", warm_start=True, gap_tol=1e-13, max_iter=1_000_000),
]


def expected_to_fail(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, NuSVC):
        reason = "weighs a class ten million times less than the other, which leaves nu only the values below 2e-7"
        return {"check_class_weight_classifiers": reason}
    return {}


# many checks have labels at random, and then it is right that nu-machines find no margin
@pytest.mark.filterwarnings("ignore:No margin")
@parametrize_with_checks(VARIANTS, expected_failed_checks=expected_to_fail)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(DESCENTS)
def test_scikit_learn_checks_of_descents(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore:No margin")
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_class_weights_of_a_nu_machine(kernel: str) -> None:
    """check_class_weight_classifiers, with the largest nu that such weights allow, and what it asks for."""
    X, y = make_blobs(centers=2, random_state=0, cluster_std=20)
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.5, random_state=0)
    model = NuSVC(kernel=kernel, class_weight={0: 1000.0, 1: 0.0001})
    with pytest.raises(ValueError, match="specified nu is infeasible") as refusal:
        model.fit(X_train, y_train)
    largest = float(re.findall(r"[\d.e-]+$", str(refusal.value))[0])
    assert np.mean(model.set_params(nu=largest).fit(X_train, y_train).predict(X_test) == 0) > 0.87
