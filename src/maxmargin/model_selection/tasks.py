"""The learning tasks of a grid: dual problems from a fold and its parameters, and predictions from their solutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from maxmargin.backends import Backend
from maxmargin.certificates import Certificate
from maxmargin.estimators import SVC, SVR, validation
from maxmargin.estimators.base import KernelMachine
from maxmargin.estimators.by_class import ByClass
from maxmargin.formulations import DualProblem, costs
from maxmargin.gram import DoubledGram, Gram
from maxmargin.kernels import Kernel, Precomputed
from maxmargin.multiclass import JOINT_STRATEGY, gather_coefficients, one_vs_rest_scores, pair_decisions
from maxmargin.solution import Solution

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]
Machine = TypeVar("Machine", bound=KernelMachine)


class Task(ABC):
    """A training set in the order of the kernel matrix, cut at `edges`."""

    order: NDArray[np.intp]
    edges: tuple[int, ...]

    @abstractmethod
    def formulate(self, held_out: Mask, parameters: Mapping[str, float]) -> list[DualProblem]:
        """The dual problems of the machines, trained without the held-out samples (a mask in the order of the matrix)."""

    @abstractmethod
    def can_train_without(self, held_out: Mask) -> bool:
        """Whether the other samples are enough to train on."""

    @abstractmethod
    def parts(self, gram: Gram) -> list[Gram]:
        """The kernel matrix of each machine."""

    @abstractmethod
    def answer(
        self,
        problems: Sequence[DualProblem],
        solutions: Sequence[Solution],
        proofs: Sequence[Certificate],
        held_out: Mask,
        kernel: Kernel,
        X: Any,
        backend: Backend,
    ) -> Answers:
        """The answers of the trained machines for the held-out samples. X is in the order of the matrix."""


class Answers(BaseEstimator):  # type: ignore[misc]
    """A stand-in for a fitted model, for scorers: its predictions are stored."""

    def __init__(self, predictions: Any = None, decisions: Any = None, classes: Any = None) -> None:
        self.predictions = predictions
        self.decisions = decisions
        self.classes = classes

    def fit(self, X: Any, y: Any) -> Answers:
        return self

    def predict(self, X: Any) -> Any:
        return self.predictions


class ClassAnswers(ClassifierMixin, Answers):  # type: ignore[misc]
    """Answers of a classifier."""

    @property
    def classes_(self) -> Any:
        return self.classes

    def decision_function(self, X: Any) -> Any:
        return self.decisions

    def predict_proba(self, X: Any) -> Any:
        raise ValueError(
            "scoring asks for probabilities, and the machines of a grid have none: use a scorer of predictions or decisions, or "
            "GridSearchCV(SVC(probability='loo'), ...)"
        )


class ValueAnswers(RegressorMixin, Answers):  # type: ignore[misc]
    """Answers of a regression."""


class Classification(Task):
    def __init__(self, template: SVC, classes: NDArray[Any], labels: NDArray[np.intp], weights: Vector) -> None:
        if template.multi_class == JOINT_STRATEGY:
            raise ValueError(
                f"multi_class={template.multi_class!r}: a grid is one of binary machines (use multi_class='ovo' or 'ovr', or "
                "sklearn.model_selection.GridSearchCV)"
            )
        self._template, self._classes, self._labels, self._weights = template, classes, labels, weights
        self._template.classes_ = classes
        self._by_class = ByClass.of(labels, len(classes), template.multi_class)
        self.order, self.edges = self._by_class.order, self._by_class.edges
        validation.require_two_classes(self._by_class.labels, self._shares(np.zeros(len(labels), dtype=bool)))

    def _shares(self, held_out: Mask) -> Vector:
        """The weights of the samples times those of their classes."""
        weights = self._weights.copy()
        weights[self.order[held_out]] = 0.0
        factors = validation.class_weights(self._template.class_weight, self._classes, self._labels, weights)
        return np.asarray((weights * factors[self._labels])[self.order])

    def formulate(self, held_out: Mask, parameters: Mapping[str, float]) -> list[DualProblem]:
        return list(_with(self._template, parameters)._formulate(self._by_class, self._shares(held_out)))

    def can_train_without(self, held_out: Mask) -> bool:
        return len(np.unique(self._by_class.labels[self._shares(held_out) > 0.0])) > 1

    def parts(self, gram: Gram) -> list[Gram]:
        return self._by_class.parts(gram)

    def answer(
        self,
        problems: Sequence[DualProblem],
        solutions: Sequence[Solution],
        proofs: Sequence[Certificate],
        held_out: Mask,
        kernel: Kernel,
        X: Any,
        backend: Backend,
    ) -> Answers:
        n_classes, biases = len(self._classes), np.array([proof.bias for proof in proofs])
        one_vs_one = n_classes > 2 and self._template.multi_class == "ovo"
        if one_vs_one:  # a machine saw the samples of two classes only
            plan, betas = self._by_class.plan, [solution.beta for solution in solutions]
            support, weights = gather_coefficients(plan, betas, self.edges, "ovo")
            sizes = np.diff(np.searchsorted(support, self.edges))
            vectors = support if isinstance(kernel, Precomputed) else X[support]
            decisions = pair_decisions(backend.weighted_sums(kernel, vectors, X[held_out], weights, sizes), biases)
        else:
            values = [_values(p, s)[held_out] for p, s in zip(problems, solutions, strict=True)]
            decisions = np.stack(values, axis=1) + biases
            if n_classes > 2:  # a class whose samples are all held out is never predicted
                decisions[:, [not (problem.upper > 0.0).any() for problem in problems]] = -np.inf
        chosen = self._classes[self._template._choose(decisions)]
        if n_classes == 2:
            return ClassAnswers(chosen, decisions[:, 0], self._classes)
        scores = one_vs_rest_scores(decisions, n_classes) if one_vs_one else decisions
        return ClassAnswers(chosen, scores, self._classes)


class Regression(Task):
    def __init__(self, template: SVR, targets: Vector, weights: Vector) -> None:
        self._template, self._targets, self._weights = template, targets, weights
        self.order, self.edges = np.arange(len(targets)), (0, len(targets))
        validation.require_weight(weights)

    def formulate(self, held_out: Mask, parameters: Mapping[str, float]) -> list[DualProblem]:
        machine = _with(self._template, parameters)
        cost = costs(float(machine.C), np.where(held_out, 0.0, self._weights))
        return [machine._formulate(self._targets, cost)]

    def can_train_without(self, held_out: Mask) -> bool:
        return bool((self._weights[~held_out] > 0.0).any())

    def parts(self, gram: Gram) -> list[Gram]:
        return [DoubledGram(gram)]

    def answer(
        self,
        problems: Sequence[DualProblem],
        solutions: Sequence[Solution],
        proofs: Sequence[Certificate],
        held_out: Mask,
        kernel: Kernel,
        X: Any,
        backend: Backend,
    ) -> Answers:
        return ValueAnswers(_values(problems[0], solutions[0])[: len(held_out)][held_out] + proofs[0].bias)


def _with(template: Machine, parameters: Mapping[str, float]) -> Machine:
    """A copy of the machine with these parameters; not by scikit-learn's clone, which takes longer than many a fit."""
    machine = copy(template)
    for name, value in parameters.items():
        setattr(machine, name, value)
    return machine


def _values(problem: DualProblem, solution: Solution) -> Vector:
    """K beta, at the held-out samples too: the gradient less the linear term (the shift has no effect there, as beta = 0)."""
    return solution.gradient - problem.linear
