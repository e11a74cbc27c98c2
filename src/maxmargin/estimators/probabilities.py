"""Probabilities of the classifiers, from the decisions of a machine about samples that it has not seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

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
from maxmargin.certificates import Certificate
from maxmargin.estimators import validation
from maxmargin.estimators.base import LARGEST_IN_FLOAT32, ROUNDING, SMALL, KernelMachine
from maxmargin.estimators.by_class import ByClass
from maxmargin.formulations import DualProblem
from maxmargin.gram import linear_centre
from maxmargin.kernels import Kernel, Precomputed
from maxmargin.multiclass import JOINT_STRATEGY, spread_coefficients
from maxmargin.solution import Solution

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

N_FOLDS = 5
#: Number of multiplications from which several BLAS threads are faster than one; fewer are faster with one, above all on busy
#: cores.
WORTH_THREADS = 5_000_000_000
#: A stored coefficient within this relative distance of its bound counts as at the bound.
AT_BOUND = 1e-12


class ProbabilisticMachine(KernelMachine):
    """A classifier that can keep a map from decisions to probabilities for each of its machines."""

    calibration_: tuple[Map, ...]

    @abstractmethod
    def _formulate(self, by_class: ByClass, weights: Vector) -> list[DualProblem]: ...

    @abstractmethod
    def _scale(self, problem: DualProblem, proof: Certificate) -> float: ...

    def _augments_kernel(self) -> bool:
        """Whether the intercept is regularised like a weight, as with the kernel K + 1."""
        return False

    @abstractmethod
    def _choose(self, decisions: Matrix) -> NDArray[np.intp]: ...

    @abstractmethod
    def _decisions(self, X: ArrayLike) -> Matrix: ...

    @abstractmethod
    def _decisions_at(self, queries: Any) -> Matrix: ...

    def _check_probability(self) -> None:
        if not isinstance(self.probability, bool | np.bool_):
            validation.choice("probability", self.probability, ("loo", "cv"), ", or False for none")
        validation.choice("calibration", self.calibration, tuple(MAPS))

    def _hold_out(self, by_class: ByClass) -> list[NDArray[np.bool_]]:
        """Masks of the samples that each fold of a cross-validation holds out; no folds unless probability="cv"."""
        if self.probability != "cv":
            return []
        random = check_random_state(0 if self.random_state is None else self.random_state)
        return stratified_folds(by_class.labels, N_FOLDS, random)

    # --- calibrate ------------------------------------------------------------------------------------------------

    def _calibrate(
        self,
        X: Any,
        by_class: ByClass,
        weights: Vector,
        problems: Sequence[DualProblem],
        solutions: Sequence[Solution],
        proofs: Sequence[Certificate],
        held_out: Sequence[NDArray[np.bool_]],
    ) -> None:
        """Fit a map for each machine on its decisions about samples it has not seen: leave-one-out decisions or, if samples were
        held out, decisions of the machines of the folds, which follow the others in the lists."""
        self.calibration_ = ()
        self.__dict__.pop("loo_error_", None)
        if not self.probability:
            return
        runs = [_Run(*run, self._scale(run[0], run[2])) for run in zip(problems, solutions, proofs, strict=True)]
        weights, unseen, maps = weights[by_class.order], [], []
        for index, (machine, members) in enumerate(by_class.machines()):
            run, *folds = runs[index :: len(by_class.plan)]
            if folds and all(fold.begun for fold in folds):
                decisions = np.empty(len(members))
            else:
                decisions = run.scale * self._leave_one_out(
                    X, by_class.order[members], run.problem, run.solution.beta, run.solution.gradient, run.proof.bias_of_sums
                )
            for out, fold in zip(held_out, folds, strict=True):
                if fold.begun:
                    decisions[out[members]] = fold.decisions()[out[members]]
            unseen.append(decisions)
            maps.append(MAPS[self.calibration].fit(decisions, machine.signs(by_class.edges) > 0.0, weights[members]))
        self.calibration_ = tuple(maps)
        if not held_out:
            self.loo_error_ = self._error(X, by_class, weights, unseen)
        trouble = [run.solution.status for run in runs if not run.solution.status.converged]
        if trouble and self.status_.converged:  # a fold has not converged
            self.status_, self.fit_status_ = trouble[0], 1

    def _leave_one_out(
        self, X: Any, samples: NDArray[np.intp], problem: DualProblem, beta: Vector, gradient: Vector, bias: float
    ) -> Vector:
        """The leave-one-out decision about each sample of a machine, from the kernel matrix of its samples; in float32 where the
        rounding error of a kernel value times a coefficient is negligible."""
        centre = linear_centre(self.kernel_, X, problem.balanced)
        if centre is not None:  # centring changes no span and saves digits
            X = X - centre
        square, value = self._reach(X)
        error = ROUNDING * value * float(np.abs(beta).max(initial=0.0))
        single = len(samples) > SMALL and max(square, value) <= LARGEST_IN_FLOAT32 and error <= self.tol
        backend = make_backend(self.backend)
        K = KernelBlocks(self.kernel_, X, samples, backend, np.dtype(np.float32 if single else np.float64))
        work = triangular_work(problem, beta)
        with nullcontext() if work > WORTH_THREADS else backend.session(work):
            return leave_one_out_decisions(problem, beta, gradient, bias, K)

    def _error(self, X: Any, by_class: ByClass, weights: Vector, unseen: Sequence[Vector]) -> float:
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
            asked = np.where(np.isnan(asked), self._decisions_at(X[by_class.order[doubtful]]), asked)
        right[doubtful] = self._choose(asked) == labels[doubtful]
        return float(np.average(~right, weights=weights))

    # --- use ------------------------------------------------------------------------------------------------------

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
            raise AttributeError(
                f"{what} is not available when probability=False: fit {name}(probability='loo'), whose probabilities come "
                f"from leave-one-out decisions without a refit, or {name}(probability='cv')"
            )

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


@dataclass(frozen=True)
class KernelBlocks:
    """Blocks of the kernel matrix over some samples of X, computed anew in a given arithmetic."""

    kernel: Kernel
    X: Any
    samples: NDArray[np.intp]
    backend: Backend
    dtype: np.dtype[Any]

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        first, second = self.samples[rows], self.samples[columns]
        if not self.kernel.named:
            return self.kernel.block(self.X[first], second if isinstance(self.kernel, Precomputed) else self.X[second])
        A, B = self.X[first].astype(self.dtype, copy=False), self.X[second].astype(self.dtype, copy=False)
        with self.backend.session(len(first) * len(second)):
            each = np.ones(len(first))  # sums of one term each are the entries
            sums = self.backend.weighted_sums(self.kernel, A, B, each[None], each.astype(np.intp))
        return sums[:, 0].astype(self.dtype, copy=False)

    def diagonal(self, at: Indices) -> Vector:
        samples = self.samples[at]
        if isinstance(self.kernel, Precomputed):
            return np.asarray(self.X[samples, samples], dtype=np.float64)
        return self.kernel.diag(self.X[samples])


@dataclass(frozen=True)
class _Run:
    """A trained machine: its problem, solution and certificate."""

    problem: DualProblem
    solution: Solution
    proof: Certificate
    scale: float

    @property
    def begun(self) -> bool:
        """Whether there was time to train the machine at all."""
        return bool(np.isfinite(self.solution.violation))

    def decisions(self) -> Vector:
        found = self.solution
        return self.scale * training_decisions(self.problem, found.beta, found.gradient, self.proof.bias_of_sums)


def loo_decisions(
    model: ProbabilisticMachine, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> NDArray[np.float64]:
    """The decision at each training sample by the machine without that sample, by the span rule: no refit.

    `model` is a classifier that was fitted on X, y and sample_weight, with probabilities or without. The result has one value per
    sample for two classes, else a column for each machine: n_classes for one-vs-rest, n_classes (n_classes - 1) / 2 for
    one-vs-one. Comparing the signs with those of y gives an estimate of the error on new data.
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
    samples, y = validation.samples(model, X, y, reset=False)
    if samples.shape != model.shape_fit_:
        raise ValueError(f"X has shape {samples.shape}: must be the training set of the model, of shape {model.shape_fit_}")
    labels = np.searchsorted(model.classes_, y)
    if not np.array_equal(model.classes_[np.minimum(labels, len(model.classes_) - 1)], y):
        raise ValueError(f"y has classes that the model was not fitted on: must be among {model.classes_.tolist()}")
    weights = validation.sample_weights(sample_weight, samples) * model.class_weight_[labels]
    by_class = ByClass.of(labels, len(model.classes_), model.multi_class)
    problems = model._formulate(by_class, weights[by_class.order])
    betas = _coefficients(model, by_class)
    margins = np.broadcast_to(getattr(model, "rho_", 1.0), len(problems))
    decisions = model._decisions_at(samples)
    for column, members, problem, beta, bias, rho in zip(
        decisions.T, by_class.members, problems, betas, model.intercept_, margins, strict=True
    ):
        seen = by_class.order[members]
        beta = _snap(rho * beta, problem)
        gradient = rho * (column[seen] - bias) + problem.linear
        if problem.shift is not None:
            gradient += problem.shift * beta
        column[seen] = model._leave_one_out(samples, seen, problem, beta, gradient, rho * bias) / rho
    return decisions[:, 0] if len(problems) == 1 else decisions


def _coefficients(model: ProbabilisticMachine, by_class: ByClass) -> list[Vector]:
    """The dual coefficients of each machine for the samples it sees."""
    stored: Any = model.dual_coef_
    rows = np.zeros((stored.shape[0], len(by_class.order)))
    rows[:, model.support_] = stored.toarray() if sp.issparse(stored) else stored
    return spread_coefficients(by_class.plan, rows[:, by_class.order], by_class.edges, model.multi_class)


def _snap(beta: Vector, problem: DualProblem) -> Vector:
    """Move coefficients back to bounds that they miss only because they were divided by rho and multiplied again."""
    for bound in (problem.lower, problem.upper):
        near = np.isfinite(bound) & (np.abs(beta - bound) <= AT_BOUND * np.abs(bound))
        beta = np.where(near, bound, beta)
    return beta
