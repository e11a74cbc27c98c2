"""What the classifiers have in common: machines for two or more classes, and the prediction that follows from their decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import Backend
from maxmargin.certificates import Certificate, combine
from maxmargin.estimators import validation
from maxmargin.estimators.base import squared_norm
from maxmargin.estimators.by_class import ByClass
from maxmargin.estimators.probabilities import ProbabilisticMachine
from maxmargin.estimators.tasks import TaskTree, with_callbacks
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.multiclass import gather_coefficients, machines, one_vs_rest_scores, pair_decisions, spread_coefficients, votes
from maxmargin.solution import Solution

Vector = NDArray[np.float64]


class KernelClassifier(ClassifierMixin, ProbabilisticMachine):  # type: ignore[misc]
    """The base class of SVC and NuSVC, which add the dual problem of a binary machine and the scale of its solution."""

    multi_class = "ovo"

    @abstractmethod
    def _check_parameters(self) -> None: ...

    @abstractmethod
    def _formulate(self, by_class: ByClass, weights: Vector) -> list[DualProblem]:
        """The dual problem of each machine; `weights` are sample weights times class weights, in sorted order."""

    def _formulate_fold(self, by_class: ByClass, weights: Vector) -> list[DualProblem]:
        """Like `_formulate`, for a fold, in which held-out samples have zero weight."""
        return self._formulate(by_class, weights)

    def _scale(self, problem: DualProblem, proof: Certificate) -> float:
        """The factor that turns the solution into the machine that is kept."""
        return 1.0

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machine. Ctrl-C ends the fit: the model reached so far is kept with its certificate, and Ctrl-C is raised
        again."""
        self._check_parameters()
        tasks = TaskTree(self)
        control = self._make_control(tasks)
        X, labels, weights = self._validate(X, y, sample_weight)
        by_class = ByClass.of(labels, len(self.classes_), self.multi_class)
        shares = (weights * self.class_weight_[labels])[by_class.order]
        problems = self._formulate(by_class, shares)
        held_out = self._hold_out(by_class)
        folds = [self._formulate_fold(by_class, np.where(out, 0.0, shares)) for out in held_out]
        tasks.begin(len(problems) * (1 + len(folds)), X=X, y=y, metadata={"sample_weight": sample_weight})

        def place(backend: Backend, balanced: bool) -> list[Gram]:
            order = by_class.order if by_class.needs_sorting else None
            return by_class.parts(self._gram(backend, X, order, by_class.segments, problems, balanced))

        solutions, proofs = self._train(problems, place, len(labels), control, tasks, folds, lambda: by_class.orders)
        n = len(problems)
        self._keep(X, by_class, problems, solutions[:n], proofs[:n])
        self._calibrate(X, by_class, weights, [*problems, *chain(*folds)], solutions, proofs, held_out)
        self._finish(X, control, tasks)
        return self

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, NDArray[np.intp], Vector]:
        X, y = validation.samples(self, X, y, reset=True)
        self.classes_, labels = validation.classes_and_labels(y)
        weights = validation.sample_weights(sample_weight, X)
        self.class_weight_ = validation.class_weights(self.class_weight, self.classes_, labels, weights)
        validation.require_two_classes(labels, weights * self.class_weight_[labels])
        self._resolve_kernel(X, None if sample_weight is None else weights)
        return X, labels, weights

    def _keep(
        self,
        X: Any,
        by_class: ByClass,
        problems: Sequence[DualProblem],
        solutions: Sequence[Solution],
        proofs: Sequence[Certificate],
    ) -> None:
        """Store the solution as attributes, in scikit-learn's layout."""
        scales = [self._scale(problem, proof) for problem, proof in zip(problems, proofs, strict=True)]
        seen = [by_class.order[members] for members in by_class.members]
        kept = [self._kept(X, *one) for one in zip(seen, scales, problems, solutions, proofs, strict=True)]
        betas, biases = [beta for beta, _ in kept], [bias for _, bias in kept]
        support, coefficients = gather_coefficients(by_class.plan, betas, by_class.edges, self.multi_class)
        self._keep_support(X, by_class.order[support], coefficients, np.array(biases))
        self.n_support_ = np.diff(np.searchsorted(support, by_class.edges)).astype(np.int32)
        self._keep_course(X, solutions, in_order_of_samples(proofs, by_class))
        norms = [squared_norm(p, s.beta, proof) for p, s, proof in zip(problems, solutions, proofs, strict=True)]
        with np.errstate(divide="ignore"):
            margins = 1.0 / (np.array(scales) * np.sqrt(norms))
        self.margin_ = float(margins[0]) if len(margins) == 1 else margins

    def _kept(
        self, X: Any, samples: NDArray[np.intp], scale: float, problem: DualProblem, solution: Solution, proof: Certificate
    ) -> tuple[Vector, float]:
        """The duals and the intercept of one machine, times its scale; `samples` are the rows of X that it sees."""
        return scale * solution.beta, scale * proof.bias

    # --- use ------------------------------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample, by the sign of the decision, the vote of the pairs, or the highest score."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return np.asarray(self.classes_[self._choose(self._decisions(X))])

    def _choose(self, decisions: NDArray[np.float64]) -> NDArray[np.intp]:
        """The number of the predicted class, from the decisions of all machines."""
        n_classes = len(self.classes_)
        if n_classes == 2:
            return (decisions[:, 0] > 0).astype(np.intp)
        if self.multi_class != "ovo":
            return np.asarray(decisions.argmax(axis=1))
        if self.break_ties:
            return np.asarray(one_vs_rest_scores(decisions, n_classes).argmax(axis=1))
        return votes(decisions, n_classes)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values: one per sample for two classes, else one per class or (one-vs-one) one per pair."""
        check_is_fitted(self)
        decisions = self._decisions(X)
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self.multi_class != "ovo" or self.decision_function_shape == "ovo":
            return decisions
        return one_vs_rest_scores(decisions, len(self.classes_))

    def _decisions(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values, a column for each machine."""
        check_is_fitted(self)
        return self._decisions_at(validation.samples(self, X, reset=False))

    def _decisions_at(self, queries: Any) -> NDArray[np.float64]:
        if self._by_pairs and self.kernel_.name != "linear":
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


def in_order_of_samples(proofs: Sequence[Certificate], by_class: ByClass) -> Certificate:
    """The certificate with its gap terms in the order of the training samples."""
    terms = np.zeros((len(proofs), len(by_class.order)))
    for row, seen, proof in zip(terms, by_class.members, proofs, strict=True):
        row[by_class.order[seen]] = proof.gap_terms
    if len(proofs) == 1:
        return replace(proofs[0], gap_terms=terms[0])
    return combine(proofs, terms)
