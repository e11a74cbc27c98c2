"""The mixins of scikit-learn, with a score for Dask collections: predictions are made partition by partition."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from maxmargin import cluster
from maxmargin.estimators.arrays import on_host


class Classifier(ClassifierMixin):  # type: ignore[misc]
    predict: Any

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy, the (weighted) share of samples that are predicted right."""
        predicted, y, sample_weight = map(on_host, cluster.computed(self.predict(X), y, sample_weight))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))


class Regressor(RegressorMixin):  # type: ignore[misc]
    predict: Any

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R², the coefficient of determination."""
        predicted, y, sample_weight = map(on_host, cluster.computed(self.predict(X), y, sample_weight))
        return float(r2_score(y, predicted, sample_weight=sample_weight))
