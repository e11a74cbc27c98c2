"""The answers of trained machines about samples that their fold holds out, in the form that scorers take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from maxmargin.backends import Backend
from maxmargin.gram import Gram, sums_of_groups
from maxmargin.kernels import Kernel
from maxmargin.multiclass import choose_class, gather_coefficients, one_vs_rest_scores, pair_decisions
from maxmargin.samples import Samples
from maxmargin.tasks import ClassificationTask, RegressionTask
from maxmargin.training import Outcome

Vector = NDArray[np.float64]
#: A function from a fold, its trained machines, the kernel matrix, its kernel and samples, and the backend
Answer = Callable[[Any, Sequence[Outcome], Gram, Kernel, Samples, Backend], "Answers"]


class Answers(BaseEstimator):  # type: ignore[misc]
    """A stand-in for a fitted model, for scorers: its predictions are stored."""

    def __init__(self, predictions: Any = None, decisions: Any = None) -> None:
        self.predictions = predictions
        self.decisions = decisions

    def fit(self, X: Any, y: Any) -> Answers:
        return self

    def predict(self, X: Any) -> Any:
        return self.predictions


class ClassAnswers(ClassifierMixin, Answers):  # type: ignore[misc]
    """Answers of a classifier; `of_pairs`: the decisions have a column for each pair of classes."""

    def __init__(self, predictions: Any = None, decisions: Any = None, classes: Any = None, of_pairs: bool = False) -> None:
        super().__init__(predictions, decisions)
        self.classes = classes
        self.of_pairs = of_pairs

    @property
    def classes_(self) -> Any:
        return self.classes

    def decision_function(self, X: Any) -> Any:
        return one_vs_rest_scores(self.decisions, len(self.classes)) if self.of_pairs else self.decisions

    def predict_proba(self, X: Any) -> Any:
        raise ValueError(
            "scoring asks for probabilities, and the machines of a grid have none: use a scorer of predictions or decisions, or "
            "GridSearchCV(SVC(probability='loo'), ...)"
        )


class ValueAnswers(RegressorMixin, Answers):  # type: ignore[misc]
    """Answers of a regression."""


def class_answers(classes: NDArray[Any]) -> Answer:
    """Answers of classifiers with these classes."""

    def answer(
        fold: ClassificationTask, outcomes: Sequence[Outcome], gram: Gram, kernel: Kernel, samples: Samples, backend: Backend
    ) -> ClassAnswers:
        assert fold.held_out is not None
        biases = np.array([one.proof.bias for one in outcomes])
        one_vs_one = len(classes) > 2 and fold.strategy == "ovo"
        if one_vs_one:  # a machine saw the samples of two classes only
            edges = fold.by_class.edges
            support, weights = gather_coefficients(fold.by_class.plan, [one.solution.beta for one in outcomes], edges, "ovo")
            sizes, asked = fold.by_class.count(support), np.flatnonzero(fold.held_out).astype(np.int32)
            if gram.is_tile:  # the kernel matrix is in memory
                sums = sums_of_groups(gram.in_float64().block(asked, support.astype(np.int32)), weights, sizes)
            else:
                sums = backend.weighted_sums(kernel, samples.take(support), samples.take(asked), weights, sizes)
            decisions = pair_decisions(sums, biases)
        else:
            decisions = np.stack([_values(one)[fold.held_out] for one in outcomes], axis=1) + biases
            if len(classes) > 2:  # a class whose samples are all held out is never predicted
                decisions[:, [not (one.problem.upper > 0.0).any() for one in outcomes]] = -np.inf
        chosen = classes[choose_class(decisions, len(classes), fold.strategy)]
        return ClassAnswers(chosen, decisions[:, 0] if len(classes) == 2 else decisions, classes, one_vs_one)

    return answer


def value_answers(
    fold: RegressionTask, outcomes: Sequence[Outcome], gram: Gram, kernel: Kernel, samples: Samples, backend: Backend
) -> ValueAnswers:
    """Answers of a regression."""
    assert fold.held_out is not None
    return ValueAnswers(_values(outcomes[0])[: len(fold.held_out)][fold.held_out] + outcomes[0].proof.bias)


def _values(one: Outcome) -> Vector:
    """K beta, at the held-out samples too: the gradient less the linear term (the shift has no effect there, as beta = 0)."""
    return np.asarray(one.solution.gradient - one.problem.linear)
