"""What the classifiers have in common: machines for two or more classes, and the prediction that follows from their decisions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.cluster import by_partition
from maxmargin.estimators import validation
from maxmargin.estimators.arrays import fits_in_kind, in_kind
from maxmargin.estimators.callback_tree import with_callbacks
from maxmargin.estimators.probabilities import ProbabilisticMachine
from maxmargin.estimators.scores import Classifier
from maxmargin.multiclass import choose_class, machines, one_vs_rest_scores, pair_decisions, spread_coefficients
from maxmargin.samples import Samples
from maxmargin.tasks import ByClass

Vector = NDArray[np.float64]


class KernelClassifier(Classifier, ProbabilisticMachine):  # type: ignore[misc]
    """The base class of SVC and NuSVC, which add their parameters and their task."""

    multi_class = "ovo"

    @fits_in_kind
    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machine. Files of :func:`maxmargin.io.open_rows` have their labels with them, and need no y. Ctrl-C ends the
        fit: the model reached so far is kept with its certificate, and Ctrl-C is raised again."""
        return self._fit(X, y, sample_weight)

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Samples, NDArray[np.intp], Vector]:
        X, y = validation.samples(self, X, y, reset=True)
        self.classes_, labels = validation.classes_and_labels(y)
        weights = validation.sample_weights(sample_weight, X)
        self.class_weight_ = validation.class_weights(self.class_weight, self.classes_, labels, weights)
        if sample_weight is not None or self.class_weight is not None:
            validation.require_two_classes(labels, weights * self.class_weight_[labels])
        return self._resolve_kernel(X, None if sample_weight is None else weights), labels, weights

    def _sorted(self, labels: NDArray[np.intp], weights: Vector) -> tuple[ByClass, Vector]:
        """The training set sorted by class, and the weights of its samples times those of their classes, in that order."""
        by_class = ByClass.of(labels, len(self.classes_), self.multi_class)
        return by_class, (weights * self.class_weight_.take(labels)).take(by_class.order)

    # --- use ------------------------------------------------------------------------------------------------------

    @in_kind
    @by_partition
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample, by the sign of the decision, the vote of the pairs, or the highest score."""
        if self.break_ties and self.decision_function_shape == "ovo":
            check_is_fitted(self)
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        decisions = self._decisions(X)
        return np.asarray(self.classes_[self._choose(decisions)])

    def _choose(self, decisions: NDArray[np.float64]) -> NDArray[np.intp]:
        """The number of the predicted class, from the decisions of all machines."""
        return choose_class(decisions, len(self.classes_), self.multi_class, self.break_ties)

    @in_kind
    @by_partition
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values: one per sample for two classes, else one per class or (one-vs-one) one per pair."""
        decisions = self._decisions(X)
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self.multi_class != "ovo" or self.decision_function_shape == "ovo":
            return decisions
        return one_vs_rest_scores(decisions, len(self.classes_))

    def _decisions(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values, a column for each machine."""
        self._require_fitted()
        return self._decisions_at(validation.samples(self, X, reset=False))

    def _decisions_at(self, queries: Any) -> NDArray[np.float64]:
        if self._by_pairs and not self.kernel_.explicit:
            return pair_decisions(self._sums_at(queries, self.n_support_), self.intercept_)
        return np.asarray(self._sums_at(queries)[0].T + self.intercept_)

    @property
    def _by_pairs(self) -> bool:
        """Whether `dual_coef_` has the one-vs-one layout."""
        return len(self.classes_) > 2 and self.multi_class == "ovo"

    def _coefficients(self) -> NDArray[np.float64]:
        kept = super()._coefficients()
        if not self._by_pairs:
            return kept
        edges = [0, *np.cumsum(self.n_support_).tolist()]
        plan = machines(len(self.classes_), self.multi_class)
        coefficients = np.zeros((len(plan), kept.shape[1]))
        for row, machine, own in zip(coefficients, plan, spread_coefficients(plan, kept, edges, self.multi_class), strict=True):
            row[machine.members(edges)] = own
        return coefficients
