"""scikit-learn's own checks of an estimator, none expected to fail."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC

VARIANTS = [
    SVC(),
    SVC(kernel="linear"),
    SVC(kernel="laplacian"),
    SVC(loss="squared_hinge"),
    SVC(multi_class="ovr"),
    SVC(fit_intercept=False),
    SVC(backend="reference"),
]


@parametrize_with_checks(VARIANTS)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
