"""Probabilities of the classifiers, from the decisions of a machine about samples that it has not seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import Backend, make_backend
from maxmargin.calibration import (
    MAPS,
    Map,
    Sigmoid,
    couple_pairs,
    leave_one_out_decisions,
    normalise,
    stratified_folds,
    training_decisions,
    triangular_work,
)
from maxmargin.estimators import validation
from maxmargin.estimators.arrays import in_kind
from maxmargin.estimators.base import SMALL, KernelMachine
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.multiclass import JOINT_STRATEGY
from maxmargin.rounding import FLOAT32_ENTRY
from maxmargin.samples import Samples
from maxmargin.tasks import ByClass, ClassificationTask, Task
from maxmargin.training import Outcome

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

N_FOLDS = 5
#: Number of multiplications from which several BLAS threads are faster than one; fewer are faster with one, above all on busy
#: cores.
WORTH_THREADS = 5_000_000_000
#: A stored coefficient within this relative distance of its bound counts as at the bound.
AT_BOUND = 1e-12


class Probabilities:
    """A mix-in for classifiers that can keep a map from decisions to probabilities for each of their machines."""

    calibration_: tuple[Map, ...]
    probability: Any
    calibration: Any
    multi_class: Any
    classes_: NDArray[Any]

    #: The values of `probability`, besides False and True, which is the first.
    _ways: ClassVar[Mapping[str, str]] = {
        "loo": "whose probabilities come from leave-one-out decisions without a refit",
        "cv": "",
    }

    @abstractmethod
    def _decisions(self, X: ArrayLike) -> Matrix:
        """The decisions of the machines, a column for each."""

    def _check_probability(self) -> None:
        if not isinstance(self.probability, bool | np.bool_):
            validation.choice("probability", self.probability, tuple(self._ways), ", or False for none")
        validation.choice("calibration", self.calibration, tuple(MAPS))

    @property
    def predict_proba(self) -> Callable[[ArrayLike], Matrix]:
        """Class probabilities, a column for each of ``classes_``. Each machine's decision is mapped to a probability; those of
        several machines are combined by pairwise coupling or, for one-vs-rest, divided by their sum.

        `predict` does not use probabilities: it is the sign of the decision, or the vote, with or without them. For two classes
        the more probable class differs from the predicted one only where the decision lies between 0 and -probB_ / probA_ (up to
        rounding): there the decision leans to a class, because of class weights, for example. For more classes they differ where
        pairs disagree and are close.
        """
        self._require_probability("predict_proba")
        return self._probabilities

    @property
    def predict_log_proba(self) -> Callable[[ArrayLike], Matrix]:
        """The logarithm of `predict_proba`."""
        self._require_probability("predict_log_proba")
        return self._log_probabilities

    def _require_probability(self, what: str) -> None:
        if not self.probability:
            name = type(self).__name__
            ways = ", or ".join(f"{name}(probability={way!r}){', ' * bool(says)}{says}" for way, says in self._ways.items())
            raise AttributeError(f"{what} is not available when probability=False: fit {ways}")

    @in_kind
    def _probabilities(self, X: ArrayLike) -> Matrix:
        check_is_fitted(self)
        if not self.calibration_:
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False: fit again, now that probability is "
                f"{self.probability!r}"
            )
        decisions = self._decisions(X)
        each = np.stack([to_probability(column) for to_probability, column in zip(self.calibration_, decisions.T, strict=True)])
        if len(self.classes_) == 2:
            return np.stack([1.0 - each[0], each[0]], axis=1)
        return normalise(each.T) if self.multi_class == "ovr" else couple_pairs(each.T, len(self.classes_))

    @in_kind
    def _log_probabilities(self, X: ArrayLike) -> Matrix:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._probabilities(X)))

    @property
    def probA_(self) -> Vector:
        """The slopes of the sigmoids P(f) = 1 / (1 + exp(probA_ f + probB_)), one for each machine."""
        return np.array([sigmoid.slope for sigmoid in self._sigmoids()])

    @property
    def probB_(self) -> Vector:
        """The offsets of the sigmoids, one for each machine. P is the probability of the class with f > 0: the second of two
        classes, or class i of a pair (i, j)."""
        return np.array([sigmoid.offset for sigmoid in self._sigmoids()])

    def _sigmoids(self) -> Sequence[Sigmoid]:
        found = [one for one in getattr(self, "calibration_", ()) if isinstance(one, Sigmoid)]
        if not found:
            raise AttributeError("probA_ and probB_ are there after a fit with probability='loo' and calibration='sigmoid'")
        return found


class ProbabilisticMachine(Probabilities, KernelMachine):
    """A kernel machine with probabilities."""

    def _augments_kernel(self) -> bool:
        """Whether the intercept is regularised like a weight, as with the kernel K + 1."""
        return False

    @abstractmethod
    def _choose(self, decisions: Matrix) -> NDArray[np.intp]: ...

    @abstractmethod
    def _decisions_at(self, queries: Any) -> Matrix: ...

    def _check_for_cluster(self) -> None:
        super()._check_for_cluster()
        if self.probability:
            raise ValueError(
                f"probability={self.probability!r} with a Dask collection: must be False (use "
                "sklearn.calibration.CalibratedClassifierCV with FrozenEstimator on rows that were held out)"
            )

    def _folds(self, task: Task) -> list[Task]:
        """The folds of a cross-validation if probability="cv"; else none."""
        if self.probability != "cv" or not isinstance(task, ClassificationTask):
            return []
        random = check_random_state(0 if self.random_state is None else self.random_state)
        return [task.without(out) for out in stratified_folds(task.by_class.labels, N_FOLDS, random)]

    # --- calibrate ------------------------------------------------------------------------------------------------

    def _calibrate(
        self,
        samples: Samples,
        task: Task,
        outcomes: Sequence[Outcome],
        folds: Sequence[tuple[Task, Sequence[Outcome]]],
        weights: Vector,
    ) -> None:
        """Fit a map for each machine on its decisions about samples it has not seen: leave-one-out decisions or, if there are
        folds, decisions of their machines about the samples that they hold out."""
        self.calibration_ = ()
        self.__dict__.pop("loo_error_", None)
        if not self.probability:
            return
        assert isinstance(task, ClassificationTask)
        by_class, unseen, maps = task.by_class, [], []
        own_weights = weights[by_class.order]
        for index, (machine, members) in enumerate(by_class.machines()):
            one, of_folds = outcomes[index], [(fold.held_out, found[index]) for fold, found in folds]
            if of_folds and all(_begun(found) for _, found in of_folds):
                decisions = np.empty(len(members))
            else:
                duals = one.solution.beta, one.solution.gradient, one.proof.bias_of_sums
                decisions = task.machine.scale(one.problem, one.proof) * self._leave_one_out(one.gram, one.problem, *duals)
            for held_out, found in of_folds:
                if _begun(found):
                    out = held_out[members]  # type: ignore[index]
                    decisions[out] = task.machine.scale(found.problem, found.proof) * _decisions(found)[out]
            unseen.append(decisions)
            maps.append(MAPS[self.calibration].fit(decisions, machine.signs(by_class.edges) > 0.0, own_weights[members]))
        self.calibration_ = tuple(maps)
        if not folds:
            self.loo_error_ = self._error(samples, by_class, own_weights, unseen)
        statuses = [found.solution.status for _, outcomes_of_fold in folds for found in outcomes_of_fold]
        trouble = [status for status in statuses if not status.converged]
        if trouble and self.status_.converged:  # a fold has not converged
            self.status_, self.fit_status_ = trouble[0], 1

    def _leave_one_out(self, gram: Gram, problem: DualProblem, beta: Vector, gradient: Vector, bias: float) -> Vector:
        """The leave-one-out decision about each sample of a machine, from its kernel matrix; in float32 where the rounding error
        of a kernel value times a coefficient is negligible."""
        if gram.dtype == np.float32:
            error = FLOAT32_ENTRY * float(gram.diagonal().max(initial=0.0)) * float(np.abs(beta).max(initial=0.0))
            if len(problem) <= SMALL or error > self.tol:
                gram = gram.subset(np.arange(len(gram), dtype=np.int32)).in_float64()
        backend = make_backend(self.backend)
        work = triangular_work(problem, beta)
        with nullcontext() if work > WORTH_THREADS else backend.session(work):
            return leave_one_out_decisions(problem, beta, gradient, bias, _InSession(gram, backend))

    def _error(self, samples: Samples, by_class: ByClass, weights: Vector, unseen: Sequence[Vector]) -> float:
        """The share of samples, by weight, that the decisions `unseen` of the machines classify wrongly.

        A sample is classified correctly if every machine of its class decides for its class, whatever the other machines say. So
        the other machines are only evaluated at the remaining samples.
        """
        labels = by_class.labels
        decisions = np.full((len(labels), len(unseen)), np.nan)
        right = np.ones(len(labels), dtype=bool)
        for column, (machine, members), values in zip(decisions.T, by_class.machines(), unseen, strict=True):
            column[members] = values
            right[members] &= values * machine.signs(by_class.edges) > 0.0
        doubtful = np.flatnonzero(~right)
        asked = decisions[doubtful]
        if np.isnan(asked).any():
            asked = np.where(np.isnan(asked), self._decisions_at(samples.take(by_class.order[doubtful]).rows), asked)
        right[doubtful] = self._choose(asked) == labels[doubtful]
        return float(np.average(~right, weights=weights))


@dataclass(frozen=True)
class _InSession:
    """The kernel matrix for the span rule, whose BLAS calls may use threads: blocks are computed in a session of the backend."""

    gram: Gram
    backend: Backend

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        with self.backend.session(len(rows) * len(columns)):
            return self.gram.block(rows, columns)

    def diagonal(self) -> Vector:
        return self.gram.diagonal()


def _begun(one: Outcome) -> bool:
    """Whether there was time to train the machine at all."""
    return bool(np.isfinite(one.solution.violation))


def _decisions(one: Outcome) -> Vector:
    """The decision at each sample of the machine's problem."""
    return training_decisions(one.problem, one.solution.beta, one.solution.gradient, one.proof.bias_of_sums)


def loo_decisions(
    model: ProbabilisticMachine, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> NDArray[np.float64]:
    """The decision at each training sample by the machine without that sample, by the span rule: no refit.

    Comparing the signs with those of y gives an estimate of the error on new data.

    Parameters
    ----------
    model : SVC or NuSVC
        A classifier that was fitted on X, y and sample_weight, with probabilities or without.
    X, y, sample_weight
        Its training data.

    Returns
    -------
    ndarray
        One value per sample for two classes, else a column for each machine: n_classes for one-vs-rest,
        n_classes (n_classes - 1) / 2 for one-vs-one.

    See Also
    --------
    SVC : ``probability="loo"`` fits probabilities to these decisions; ``loo_error_`` is the share of errors.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import SVC, loo_decisions
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> decisions = loo_decisions(SVC().fit(scale(X), y), scale(X), y)
    >>> round(float(((decisions > 0) == y).mean()), 3)
    0.974
    """
    if not isinstance(model, ProbabilisticMachine):
        raise TypeError(f"model={model!r}: must be a fitted classifier such as SVC or NuSVC")
    check_is_fitted(model)
    if model.multi_class == JOINT_STRATEGY:
        raise ValueError(f"multi_class={model.multi_class!r}: must be 'ovo' or 'ovr', as the span rule is of binary machines")
    if model._augments_kernel():
        raise ValueError(
            f"solver={model.solver!r}: its intercept is a weight, which the span rule does not know about; use another solver, "
            "or fit_intercept=False"
        )
    container, y = validation.samples(model, X, y, reset=False)
    samples = model.kernel_.samples(container)
    if samples.shape != model.shape_fit_:
        raise ValueError(f"X has shape {samples.shape}: must be the training set of the model, of shape {model.shape_fit_}")
    labels = np.searchsorted(model.classes_, y)
    if not np.array_equal(model.classes_[np.minimum(labels, len(model.classes_) - 1)], y):
        raise ValueError(f"y has classes that the model was not fitted on: must be among {model.classes_.tolist()}")
    task = model._formulate(labels, validation.sample_weights(sample_weight, container))
    assert isinstance(task, ClassificationTask)
    stored: Any = model.dual_coef_
    rows = np.zeros((stored.shape[0], len(samples)))
    rows[:, model.support_] = stored.toarray() if sp.issparse(stored) else stored
    decisions = model._decisions_at(container)
    grams = task.parts(model._gram(make_backend(model.backend), samples, task, centred=True))
    machines = zip(decisions.T, task.by_class.members, task.problems, grams, task.encode(rows), model.intercept_, strict=True)
    for column, members, problem, gram, (duals, rho), bias in machines:
        seen = task.by_class.order[members]
        beta = _snap(duals, problem)
        gradient = rho * (column[seen] - bias) + problem.linear
        if problem.shift is not None:
            gradient += problem.shift * beta
        column[seen] = model._leave_one_out(gram, problem, beta, gradient, rho * bias) / rho
    return decisions[:, 0] if len(grams) == 1 else decisions


def _snap(beta: Vector, problem: DualProblem) -> Vector:
    """Move coefficients back to bounds that they miss only because they were divided by rho and multiplied again."""
    for bound in (problem.lower, problem.upper):
        near = np.isfinite(bound) & (np.abs(beta - bound) <= AT_BOUND * np.abs(bound))
        beta = np.where(near, bound, beta)
    return beta
