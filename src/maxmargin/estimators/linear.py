"""Linear machines at the scale of text: drop-ins for scikit-learn's LinearSVC and LinearSVR, with certificates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import make_backend
from maxmargin.backends.linear import Columns, Rows
from maxmargin.calibration import MAPS, FeatureRows, leave_one_out_decisions
from maxmargin.callbacks import ProgressBar
from maxmargin.certificates import Certificate, combine
from maxmargin.cluster import by_partition, is_collection
from maxmargin.control import Control, Progress, Stop
from maxmargin.estimators import diagnosis, validation
from maxmargin.estimators.callback_tree import CallbackSupportMixin, CallbackTree, with_callbacks
from maxmargin.estimators.chunks import MatrixInChunks, in_chunks, is_memory_mapped
from maxmargin.estimators.linear_in_passes import IN_PASSES, Classification, Fit, OneClass, Parts, PartsHere, Regression, Task
from maxmargin.estimators.linear_on_cluster import PartsOnCluster
from maxmargin.estimators.linear_training import LinearMachineResult, Problem, Start, certify, train_linear
from maxmargin.estimators.names import CalibrationName, ClassWeight, LinearSolverName
from maxmargin.estimators.notebook import ShownInNotebooks
from maxmargin.estimators.portable import Portable
from maxmargin.estimators.probabilities import Probabilities
from maxmargin.estimators.scores import Classifier, Regressor
from maxmargin.formulations import (
    JointLinearProblem,
    LinearProblem,
    LinearTotals,
    classification_problem,
    linear_classification,
    linear_one_class,
    linear_regression,
)
from maxmargin.multiclass import JOINT_STRATEGY, SCORE_OF_WEIGHTLESS_CLASS
from maxmargin.solution import Status
from maxmargin.solvers.linear import LinearSituation, choose_linear_solver

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SVC_LOSSES = ("hinge", "squared_hinge")
SVR_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")
REGULARIZED = "regularized"
#: Parameters that do not change the problem: a checkpoint of a fit with others can be continued.
NOT_OF_THE_PROBLEM = ("callbacks", "gap_tol", "max_iter", "max_seconds", "tol", "verbose", "random_state", "warm_start")
#: Samples within this relative distance of the plane are on it: they are inliers, whatever the rounding of their decisions.
ON_THE_PLANE = 1e-10


class LinearMachine(ShownInNotebooks, Portable, CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """The base class of the linear estimators. Their `fit` is: validate, formulate, `_train` (place, solve, certify), keep."""

    kernel: ClassVar[str] = "linear"  # what validation.samples asks of an estimator

    def _check_shared_parameters(self) -> None:
        if self.tol is None and self.gap_tol is None:
            raise ValueError("tol=None and gap_tol=None: nothing would end the fit; give one of them a number")
        validation.tolerances(math.inf if self.tol is None else self.tol, self.gap_tol or (None if self.tol else 1.0))
        validation.callbacks(self.callbacks)
        if self.max_seconds is not None:
            validation.positive("max_seconds", self.max_seconds)
        validation.steps("max_iter", self.max_iter)

    def _bias(self) -> tuple[str, float]:
        """Which bias the machine has, and the value of its column."""
        given = self.fit_intercept
        if isinstance(given, str):
            if given != REGULARIZED:
                raise validation.InvalidParameterError("fit_intercept", given, f"must be True, False or {REGULARIZED!r}")
            scaling = validation.finite("intercept_scaling", self.intercept_scaling)
            if scaling == 0.0:
                raise ValueError(
                    f"Intercept scaling is {self.intercept_scaling!r} but needs to be greater than 0: use fit_intercept=False "
                    "for a machine without an intercept"
                )
            return "regularised", scaling
        return ("free" if given else "none"), 1.0

    def _stop(self) -> Stop:
        return Stop(math.inf if self.tol is None else self.tol, self.gap_tol)

    def _make_control(self, tasks: CallbackTree) -> Control:
        callbacks = [tasks.report, *(self.callbacks or ()), *([ProgressBar()] if self.verbose else ())]
        return Control(self.max_seconds, -1, callbacks)

    # --- place, solve, certify ------------------------------------------------------------------------------------

    def _train(self, X: Any, problems: Sequence[Problem], control: Control, tasks: CallbackTree) -> list[LinearMachineResult]:
        with control.running(), tasks.machine():
            return self._solve_problems(X, problems, control)

    def _solve_problems(self, X: Any, problems: Sequence[Problem], control: Control) -> list[LinearMachineResult]:
        joint = isinstance(problems[0], JointLinearProblem)
        l1 = getattr(self, "penalty", "l2") == "l1" and not joint
        rows = Columns(X) if l1 else Rows(X)
        situation = LinearSituation(X.shape[0], X.shape[1], problems[0].squared, l1, joint)
        choice = choose_linear_solver(self._asked_solver(), situation)
        self.solver_, self.solver_reason_ = choice.name, choice.reason
        with make_backend("native").session(rows.n_values):
            results = train_linear(
                choice.name, problems, rows, self._stop(), control, self.max_iter, self._starts(problems, rows)
            )
        self._last = (problems, [(result.beta, result.weights) for result in results]) if self.warm_start else None
        return results

    def _asked_solver(self) -> str:
        return str(self.solver)

    def _starts(self, problems: Sequence[Problem], rows: Rows | Columns) -> list[Start] | None:
        """The points to start from: those of the last fit if `warm_start` is set and it had the same machines, else None."""
        last = getattr(self, "_last", None)
        if not self.warm_start or last is None:
            return None
        old, points = last
        same = len(old) == len(problems) and all(new.resembles(one) for new, one in zip(problems, old, strict=True))
        if not same or points[0][1].shape != problems[0].origin(rows.n_features)[1].shape:
            return None
        return [
            (new.carried_over(one, beta), weights.copy()) for new, one, (beta, weights) in zip(problems, old, points, strict=True)
        ]

    # --- keep -----------------------------------------------------------------------------------------------------

    def _keep(
        self, problems: Sequence[Problem | LinearTotals], results: Sequence[LinearMachineResult], rows: Matrix | None = None
    ) -> None:
        """Keep the results as attributes. `rows` are the weights of the decisions, by default those of the machines."""
        n_features, constant = self.n_features_in_, problems[0].constant
        weights = np.array([result.weights for result in results] if rows is None else rows)
        self.coef_ = np.ascontiguousarray(weights[:, :n_features])
        has_bias = problems[0].bias != "none"
        self.intercept_: Any = constant * weights[:, n_features] if has_bias else np.zeros(len(weights))
        if not (np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all()):
            raise ValueError("The coefficients or intercepts are not finite: scale the features")
        proofs = [self._stated(result) for result in results]
        self.certificate_ = proofs[0] if len(proofs) == 1 else combine(proofs, np.array([proof.gap_terms for proof in proofs]))
        trouble = [result.status for result in results if not result.status.converged]
        self.status_ = trouble[0] if trouble else results[0].status
        self.trace_ = results[-1].trace
        self.n_iter_ = max(1, *(result.rounds for result in results)) if len(results) > 1 else max(1, results[0].rounds)
        self.n_passes_ = float(sum(result.passes for result in results))

    def _stated(self, result: LinearMachineResult) -> Certificate:
        """The proof of a machine. A gap of rounding, which `gap_tol` may be too small for, counts as zero if it has converged."""
        rounding = result.status.converged and self.gap_tol is not None and not result.proof.holds(self.gap_tol)
        return replace(result.proof, relative_gap=0.0) if rounding else result.proof

    def _finish(self, control: Control, tasks: CallbackTree) -> None:
        """End a fit: tell the callbacks, raise KeyboardInterrupt again after Ctrl-C, and warn if the fit has not converged."""
        self.fit_seconds_ = control.seconds
        tasks.end()
        if control.interrupted:
            raise KeyboardInterrupt(str(self.status_))
        if self.status_.converged:
            return
        reached = f"Relative gap {self.certificate_.relative_gap:.2g} (gap_tol={self.gap_tol})."
        if self.status_ is Status.MAX_ITER:  # scikit-learn's sentence, which users know and may filter
            reached = f"Liblinear failed to converge, increase the number of iterations. {reached}"
        diagnosis.warn(f"{self.status_.value} {reached}")

    def _in_parts(self, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> Parts | None:
        """The training set in parts, if it is one of chunks, a collection of Dask, or too large for memory; else None."""
        parts: Parts | None
        if is_collection(X):
            self._check_for_parts("a Dask collection needs")
            if checkpoint is not None:
                raise ValueError(f"checkpoint={checkpoint!r}: a fit to a Dask collection has none; Dask keeps what it computes")
            parts = PartsOnCluster(self, X, y, sample_weight)
        else:
            rows = in_chunks(self, X, y, sample_weight, checkpoint)
            if rows is not None:
                self._check_for_parts("rows that are read in chunks need")
            parts = None if rows is None else PartsHere(rows)
        return parts

    def _check_for_parts(self, who: str) -> None:
        if getattr(self, "penalty", "l2") == "l1":
            raise ValueError(f"penalty='l1' needs the columns of X: {who} penalty='l2'")
        if getattr(self, "multi_class", "ovr") != "ovr" or getattr(self, "probability", False):
            raise ValueError(f"{who} multi_class='ovr' and probability=False")
        if self.warm_start:
            raise ValueError(f"warm_start=True: {who} warm_start=False (use checkpoint=path to continue a fit to chunks)")

    def _fit_in_passes(self, parts: Parts, task: Task, checkpoint: Any) -> Self:
        """Fit the machines to rows that are seen in parts."""
        tasks = CallbackTree(self)
        control = self._make_control(tasks)
        for name in ("feature_names_in_", "cluster_"):
            self.__dict__.pop(name, None)
        if isinstance(parts, PartsOnCluster):
            self.cluster_ = parts.traffic
            control.count_bytes = lambda: self.cluster_.bytes
            if parts.names is not None:
                self.feature_names_in_ = parts.names
        identity = {name: repr(value) for name, value in self.get_params().items() if name not in NOT_OF_THE_PROBLEM}
        with make_backend("native").session(IN_PASSES), control.running():
            tasks.begin(1)
            with tasks.machine():
                outcome = Fit(parts, task, self._stop(), control, self.max_iter).run(self._asked_solver(), checkpoint, identity)
        self.n_features_in_ = task.n_features
        if isinstance(task, Classification):
            self.classes_, self.class_weight_ = task.classes, task.weights_of_classes
        self.solver_, self.solver_reason_ = outcome.solver, outcome.reason
        self._keep(outcome.totals, outcome.results)
        self.n_passes_ = outcome.results[0].passes  # the machines share them
        if not isinstance(self, Classifier):
            self.coef_ = self.coef_[0]
        if isinstance(task, OneClass):
            self.offset_ = -self.intercept_
        if outcome.failure is not None:
            self.fit_seconds_ = control.seconds
            raise RuntimeError(
                f"reading the rows failed in pass {self.n_iter_ + 1}: {outcome.failure}. The model of pass {self.n_iter_} is "
                f"kept, with its certificate (relative gap {self.certificate_.relative_gap:.2g})"
            ) from outcome.failure
        self._finish(control, tasks)
        return self

    # --- use ------------------------------------------------------------------------------------------------------

    def _scores(self, X: Any) -> Matrix:
        """w . x + b, a column for each machine."""
        check_is_fitted(self)
        if is_memory_mapped(X) and X.ndim == 2:  # it may be larger than memory: no copy of it as a whole, in float64 or else
            return np.concatenate([self._scores_of(rows) for rows, *_ in MatrixInChunks(X).in_order()])
        return self._scores_of(X)

    def _scores_of(self, X: ArrayLike) -> Matrix:
        """Like `_scores`, for rows that are in memory."""
        queries = validation.samples(self, X, reset=False, in_any_order=True)
        scores: list[Any] = [part @ self.coef_.T for _, part in Rows(queries).parts()]
        return np.asarray(np.concatenate([one.toarray() if sp.issparse(one) else one for one in scores]) + self.intercept_)

    def sparsify(self) -> Self:
        """Store `coef_` as a CSR matrix, which saves memory where most weights are zero (penalty='l1')."""
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Store `coef_` as an array again."""
        check_is_fitted(self)
        coefficients: Any = self.coef_
        if sp.issparse(coefficients):
            self.coef_ = coefficients.toarray()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearSVC(Probabilities, Classifier, LinearMachine):  # type: ignore[misc]
    r"""Linear support vector classification for many samples, exact, with a duality-gap certificate.

    .. math:: \min_{w, b} \tfrac12 \lVert w \rVert^2 + \sum_i C_i \, \max(0, 1 - y_i (w \cdot x_i + b))^p, \quad p = 1, 2

    A drop-in for :class:`sklearn.svm.LinearSVC`; parameters and attributes that are not described here mean the same as there.
    Several classes are told apart one-vs-rest, the machines side by side, or by one machine (``multi_class="crammer_singer"``).

    Parameters
    ----------
    penalty : {"l2", "l1"}, default="l2"
        "l1": :math:`\lVert w \rVert_1` instead of the square, with the squared hinge; most weights are zero then. It takes a copy
        of the data, column by column.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        The power p: 2 or 1.
    dual : {"auto"} or bool, default="auto"
        True asks for the solver of the dual ("descent"), False for the solver of the primal ("newton"). The model is the same.
    tol : float or None, default=None
        The largest violation of the optimality conditions that is accepted; None: the gap alone decides.
    fit_intercept : {True, False, "regularized"}, default=True
        True: an intercept that is not regularised, as in :class:`SVC`. "regularized": as in scikit-learn and LIBLINEAR, the
        weight of a constant column of value ``intercept_scaling``.
    max_iter : int, default=-1
        The largest number of epochs (descent) or Newton steps of a machine; -1: no limit.
    gap_tol : float or None, default=1e-3
        The largest relative duality gap that is accepted.
    max_seconds : float or None, default=None
        The time after which the fit ends with the model it has reached.
    callbacks : list of callables or None
        Called with a :class:`Progress`; one that returns True ends the fit.
    solver : {"auto", "newton", "descent"}, default="auto"
        The solver; "auto" chooses by shape and loss, and ``solver_reason_`` says why.
    warm_start : bool, default=False
        Start from the solution of the last fit if it had the same samples and labels; C and weights may differ.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        A machine for each class against the rest, or one machine of all classes (Crammer and Singer 2001),
        :math:`\min \tfrac12 \sum_m \lVert w_m \rVert^2 + \sum_i C_i \max_m (1 - [m = y_i] + (w_m - w_{y_i}) \cdot x_i + b_m -
        b_{y_i})`. It has the hinge loss, the penalty "l2" and one solver, and, as in scikit-learn, ``loss``, ``penalty`` and
        ``dual`` are ignored. For two classes ``coef_`` is the difference of the weights of the second and the first.
    probability : {False, "loo"} or bool, default=False
        Whether there is ``predict_proba``: by leaving one out, without a refit, as in :class:`SVC`. The decision about each
        sample by the machine without it comes from the Hessian of the primal problem, whose size is that of the features; with
        more than 4096 features from the products of at most 4096 samples. True is "loo".
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        The map from a decision to a probability.
    C, intercept_scaling, class_weight, verbose
        As in scikit-learn; ``verbose`` shows a progress bar.
    random_state : int or None, default=None
        Ignored: the solvers are deterministic, whatever the number of threads.

    Attributes
    ----------
    certificate_ : Certificate
        Primal and dual value and the gap between them, in float64, by code that no solver shares.
    status_ : Status
        How the fit ended.
    loo_error_ : float
        With ``probability="loo"``: the share of training samples (by weight) that the machine without the sample would classify
        wrongly: an estimate of the test error that needs no refit. It is too high if there are more than 4096 features and more
        than 4096 samples inside the margin.
    n_iter_ : int
        The largest number of epochs or Newton steps of a machine.
    n_passes_ : float
        The work of all machines, in passes over the training set.
    solver_, solver_reason_, trace_, fit_seconds_
        The solver that ran, why it was chosen, the course of the last machine, and the seconds of the fit.

    See Also
    --------
    SVC : Kernels, and ``kernel="linear"`` with support vectors.
    LinearSVR, LinearOneClassSVM : The same for regression and outliers.
    sklearn.svm.LinearSVC : The machine of scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVC
    >>> model = LinearSVC().fit(*load_iris(return_X_y=True))
    >>> model.coef_.shape, model.certificate_.holds(1e-3)
    ((3, 4), True)
    """

    _ways: ClassVar[Mapping[str, str]] = {"loo": "whose probabilities come from leave-one-out decisions without a refit"}

    def __init__(
        self,
        penalty: Literal["l1", "l2"] = "l2",
        loss: Literal["hinge", "squared_hinge"] = "squared_hinge",
        *,
        dual: bool | Literal["auto"] = "auto",
        tol: float | None = None,
        C: float = 1.0,
        multi_class: Literal["ovr", "crammer_singer"] = "ovr",
        fit_intercept: bool | Literal["regularized"] = True,
        intercept_scaling: float = 1.0,
        class_weight: ClassWeight = None,
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = -1,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: LinearSolverName = "auto",
        warm_start: bool = False,
        probability: bool | Literal["loo"] = False,
        calibration: CalibrationName = "sigmoid",
    ) -> None:
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.solver = solver
        self.warm_start = warm_start
        self.probability = probability
        self.calibration = calibration

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, hint=" and finite (SVC has a hard margin)")
        self._check_probability()
        validation.choice("loss", self.loss, SVC_LOSSES)
        validation.choice("penalty", self.penalty, ("l1", "l2"))
        validation.choice("multi_class", self.multi_class, ("ovr", JOINT_STRATEGY))
        self._check_shared_parameters()
        joint = self.multi_class == JOINT_STRATEGY
        if self.probability and (joint or self.penalty == "l1"):
            machine = f"multi_class={self.multi_class!r}" if joint else f"penalty={self.penalty!r}"
            raise ValueError(
                f"probability={self.probability!r}: a machine with {machine} has no probabilities of its own (use "
                "multi_class='ovr' and penalty='l2', or sklearn.calibration.CalibratedClassifierCV)"
            )
        if joint:  # as in scikit-learn, it has one loss, one penalty and one solver
            return
        if self.dual not in (True, False, "auto"):
            raise validation.InvalidParameterError("dual", self.dual, "must be True, False or 'auto'")
        if (self.penalty == "l1" and (self.loss == "hinge" or self.dual is True)) or (
            self.loss == "hinge" and self.dual is False
        ):
            raise ValueError(
                f"Unsupported set of arguments: penalty={self.penalty!r}, loss={self.loss!r}, dual={self.dual!r}; the penalty "
                "'l1' goes with the squared hinge and dual=False, the hinge with dual=True; or use dual='auto'"
            )

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *, checkpoint: Any = None) -> Self:
        """Train the machines. Ctrl-C ends the fit: the model reached so far is kept with its certificate, and Ctrl-C is raised
        again.

        Parameters
        ----------
        X : matrix, or chunks of rows
            The samples. An iterable of chunks ``(X, y)`` or ``(X, y, sample_weight)``, or a function that returns an iterator
            over them, is read once in each pass; so are the files of :func:`maxmargin.io.open_rows`, and memory maps that do not
            fit into memory.
        y : array, default=None
            The classes; None if they are in the chunks.
        sample_weight : array, default=None
            Weights of the samples, factors of C.
        checkpoint : path, default=None
            A file that is replaced after each pass over the rows, which are then always read in chunks. A fit that finds one
            goes on from it.

        Returns
        -------
        LinearSVC
            The fitted machines.
        """
        with validation.ParametersOf(self):
            self._check_parameters()
            bias, constant = self._bias()
        parts = self._in_parts(X, y, sample_weight, checkpoint)
        if parts is not None:
            task = Classification(float(self.C), self.loss, bias, constant, self.class_weight)
            return self._fit_in_passes(parts, task, checkpoint)
        tasks = CallbackTree(self)
        control = self._make_control(tasks)
        X, given = validation.samples(self, X, y, reset=True, in_any_order=True)
        self.classes_, labels = classes_and_labels(given)
        with validation.ParametersOf(self):
            problems = self._formulate(labels, validation.sample_weights(sample_weight, X), bias, constant)
        tasks.begin(len(problems), X=X, y=y, metadata={"sample_weight": sample_weight})
        results = self._train(X, problems, control, tasks)
        self._keep_machines(problems, results, labels)
        self._calibrate(X, problems, results, labels, sample_weight)
        self._finish(control, tasks)
        return self

    def _calibrate(
        self,
        X: Any,
        problems: Sequence[Problem],
        results: Sequence[LinearMachineResult],
        labels: NDArray[np.integer],
        sample_weight: ArrayLike | None,
    ) -> None:
        """Fit a map for each machine on its decisions about samples that it has not seen."""
        self.calibration_ = ()
        self.__dict__.pop("loo_error_", None)
        if not self.probability:
            return
        weights = validation.sample_weights(sample_weight, X)
        unseen, maps = np.empty((len(labels), len(problems))), []
        for column, problem, result in zip(unseen.T, problems, results, strict=True):
            assert isinstance(problem, LinearProblem)
            column[:] = _unseen_decisions(X, problem, result)
            maps.append(MAPS[self.calibration].fit(column, problem.targets > 0.0, weights))
        self.calibration_ = tuple(maps)
        self.loo_error_ = float(np.average(_choose(unseen) != labels, weights=weights))

    def _keep_machines(
        self, problems: Sequence[Problem], results: Sequence[LinearMachineResult], labels: NDArray[np.integer]
    ) -> None:
        if isinstance(problems[0], JointLinearProblem):
            self._keep_joint(problems[0], results[0], np.unique(labels[problems[0].cost > 0.0]))
        else:
            self._keep(problems, results)

    def _formulate(self, labels: NDArray[np.integer], weights: Vector, bias: str, constant: float) -> list[Problem]:
        """A problem for each class against the rest, or one for two classes, or one of all classes."""
        self.class_weight_ = validation.class_weights(self.class_weight, self.classes_, labels, weights)
        costs = self.class_weight_[labels]
        costs *= float(self.C) * weights
        validation.require_two_classes(labels, costs)
        if self.multi_class == JOINT_STRATEGY:
            present = np.unique(labels[costs > 0.0])
            numbers = np.searchsorted(present[:-1], labels).astype(np.int32)  # a class without weight counts as one that has some
            return [JointLinearProblem(numbers, costs, len(present), bias, constant)]
        positives = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return [
            linear_classification(np.where(labels == positive, 1.0, -1.0), costs, self.loss, bias, constant)
            for positive in positives
        ]

    def _keep_joint(self, problem: JointLinearProblem, result: LinearMachineResult, present: NDArray[np.integer]) -> None:
        """Keep one machine of all classes: a row for each class, or the difference of two.

        The scores of the classes that are present add up to zero, so one of them is not negative, and a class without weight is
        never predicted if its score is.
        """
        weights = np.zeros((len(self.classes_), len(result.weights)))
        weights[present] = result.weights.T
        two = len(self.classes_) == 2
        self._keep([problem], [result], weights[1:] - weights[:1] if two else weights)
        if not two:
            self.intercept_[np.setdiff1d(np.arange(len(self.classes_)), present)] = SCORE_OF_WEIGHTLESS_CLASS

    def _asked_solver(self) -> str:
        if self.solver != "auto" or self.dual == "auto" or self.penalty == "l1" or self.multi_class == JOINT_STRATEGY:
            return str(self.solver)
        return "descent" if self.dual else "newton"

    @by_partition
    def decision_function(self, X: ArrayLike) -> Matrix:
        """The decision values: one per sample for two classes, else one per class."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @by_partition
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample."""
        chosen = _choose(self._scores(X))
        return np.asarray(self.classes_[chosen])

    def _decisions(self, X: ArrayLike) -> Matrix:
        return self._scores(X)


class LinearSVR(Regressor, LinearMachine):  # type: ignore[misc]
    r"""Linear support vector regression for many samples, exact, with a duality-gap certificate.

    .. math:: \min_{w, b} \tfrac12 \lVert w \rVert^2 + \sum_i C_i \, \max(0, |y_i - w \cdot x_i - b| - \epsilon)^p, \quad p = 1, 2

    A drop-in for :class:`sklearn.svm.LinearSVR`.

    Parameters
    ----------
    epsilon : float, default=0.0
        Half the width of the tube, in units of y.
    tol, C
        As in :class:`LinearSVC`.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Whether the loss is the distance from the tube or its square.
    fit_intercept, intercept_scaling, dual, verbose, random_state, max_iter, gap_tol, max_seconds, callbacks, solver, warm_start
        As in :class:`LinearSVC`.

    Attributes
    ----------
    coef_, intercept_, certificate_, status_, n_iter_, n_passes_, solver_, solver_reason_, trace_, fit_seconds_
        As in :class:`LinearSVC`.

    See Also
    --------
    SVR : Kernels, and ``kernel="linear"`` with support vectors.
    sklearn.svm.LinearSVR : The machine of scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVR
    >>> X, _ = load_iris(return_X_y=True)
    >>> LinearSVR(epsilon=0.1).fit(X[:, :3], X[:, 3]).certificate_.holds(1e-3)
    True
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float | None = None,
        C: float = 1.0,
        loss: Literal["epsilon_insensitive", "squared_epsilon_insensitive"] = "epsilon_insensitive",
        fit_intercept: bool | Literal["regularized"] = True,
        intercept_scaling: float = 1.0,
        dual: bool | Literal["auto"] = "auto",
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int = -1,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: LinearSolverName = "auto",
        warm_start: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.solver = solver
        self.warm_start = warm_start

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *, checkpoint: Any = None) -> Self:
        """Train the machine. Ctrl-C ends the fit: the model reached so far is kept with its certificate, and Ctrl-C is raised
        again. X may be chunks of rows, and ``checkpoint`` a file, as in :meth:`LinearSVC.fit`."""
        with validation.ParametersOf(self):
            validation.positive("C", self.C, hint=" and finite")
            validation.positive("epsilon", self.epsilon, zero_ok=True)
            validation.choice("loss", self.loss, SVR_LOSSES)
            self._check_shared_parameters()
            bias, constant = self._bias()
        scale = SimpleNamespace(tol=self.tol or self.gap_tol)  # what an error about enormous targets names
        parts = self._in_parts(X, y, sample_weight, checkpoint)
        if parts is not None:
            task = Regression(float(self.C), float(self.epsilon), self.loss, bias, constant, scale)
            return self._fit_in_passes(parts, task, checkpoint)
        tasks = CallbackTree(self)
        control = self._make_control(tasks)
        if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind == "f":
            validation.finite_targets(scale, y)  # before scikit-learn refuses them without saying where
        X, given = validation.samples(self, X, y, reset=True, numeric_targets=True, in_any_order=True)
        targets = validation.finite_targets(scale, given)
        weights = validation.sample_weights(sample_weight, X)
        validation.require_weight(weights)
        problem = linear_regression(targets, float(self.C) * weights, float(self.epsilon), self.loss, bias, constant)
        tasks.begin(1, X=X, y=y, metadata={"sample_weight": sample_weight})
        self._keep([problem], self._train(X, [problem], control, tasks))
        self.coef_ = self.coef_[0]
        self._finish(control, tasks)
        return self

    def _asked_solver(self) -> str:
        if self.solver != "auto" or self.dual == "auto":
            return str(self.solver)
        return "descent" if self.dual else "newton"

    @by_partition
    def predict(self, X: ArrayLike) -> Vector:
        """The predicted target of each sample."""
        return self._scores(X).ravel()


class LinearOneClassSVM(OutlierMixin, LinearMachine):  # type: ignore[misc]
    r"""Outlier detection by a linear one-class machine for many samples, exact, with a duality-gap certificate.

    .. math:: \min_{w, \rho} \tfrac12 \lVert w \rVert^2 - \nu \Big(\sum_i s_i\Big) \rho
              + \sum_i s_i \, \max(0, \rho - w \cdot x_i)

    The machine of ``OneClassSVM(kernel="linear")``.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        The largest share of outliers in the training set.
    tol, verbose, max_iter, gap_tol, max_seconds, callbacks, solver, warm_start
        As in :class:`LinearSVC`.

    Attributes
    ----------
    offset_ : array of shape (1,)
        rho: the decision function is ``score_samples(X) - offset_``.
    coef_, intercept_, certificate_, status_, n_iter_, n_passes_, solver_, solver_reason_, trace_, fit_seconds_
        As in :class:`LinearSVC`.

    See Also
    --------
    OneClassSVM : The same with kernels.
    sklearn.linear_model.SGDOneClassSVM : An approximation by stochastic gradient descent.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearOneClassSVM
    >>> X, _ = load_iris(return_X_y=True)
    >>> bool((LinearOneClassSVM(nu=0.1).fit(X).predict(X) == -1).mean() <= 0.1)
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        tol: float | None = None,
        verbose: int = 0,
        max_iter: int = -1,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: LinearSolverName = "auto",
        warm_start: bool = False,
    ) -> None:
        self.nu = nu
        self.tol = tol
        self.verbose = verbose
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.solver = solver
        self.warm_start = warm_start

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None, *, checkpoint: Any = None) -> Self:
        """Train the machine; y is ignored. Ctrl-C ends the fit, and the model reached so far is kept with its certificate. X
        may be chunks of rows, and ``checkpoint`` a file, as in :meth:`LinearSVC.fit`."""
        with validation.ParametersOf(self):
            validation.share("nu", self.nu)
            self._check_shared_parameters()
        parts = self._in_parts(X, y, sample_weight, checkpoint)
        if parts is not None:
            return self._fit_in_passes(parts, OneClass(float(self.nu)), checkpoint)
        tasks = CallbackTree(self)
        control = self._make_control(tasks)
        X = validation.samples(self, X, reset=True, in_any_order=True)
        weights = validation.sample_weights(sample_weight, X)
        validation.require_weight(weights)
        problem = linear_one_class(weights, float(self.nu))
        tasks.begin(1, X=X, y=y, metadata={"sample_weight": sample_weight})
        (result,) = self._train(X, [problem], control, tasks)
        self._keep([problem], [self._with_the_plane_lowered(X, problem, result)])
        self.coef_ = self.coef_[0]
        self.offset_ = -self.intercept_
        self._finish(control, tasks)
        return self

    def _with_the_plane_lowered(self, X: Any, problem: LinearProblem, result: LinearMachineResult) -> LinearMachineResult:
        """The machine with rho lowered by a tiny amount, and its certificate; unchanged if the tolerances do not allow it."""
        weights = result.weights.copy()
        weights[-1] += ON_THE_PLANE * abs(weights[-1])
        lowered = replace(result, weights=weights, proof=certify(problem, Rows(X), weights, result.beta))
        stop = self._stop()
        return result if result.status.converged and not lowered.proof.meets(stop.tol, stop.gap_tol) else lowered

    @by_partition
    def score_samples(self, X: ArrayLike) -> Vector:
        """w . x of each sample: small for outliers."""
        return np.asarray(self._scores(X) - self.intercept_).ravel()

    @by_partition
    def decision_function(self, X: ArrayLike) -> Vector:
        """The signed distance from the plane, up to a factor: negative for outliers."""
        return self._scores(X).ravel()

    @by_partition
    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """1 for inliers, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)


def _choose(scores: Matrix) -> NDArray[np.intp]:
    """The number of the class with the highest score; of two classes, by the sign of the one there is."""
    return np.asarray((scores[:, 0] > 0.0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1))


def _unseen_decisions(X: Any, problem: LinearProblem, result: LinearMachineResult) -> Vector:
    """The decision about each sample by the machine without it, by the span rule (`calibration.leave_one_out`), for which the
    machine is one with the kernel X X': a regularised bias is the weight of one more feature, so part of the kernel's sums."""
    n_features, regularised = X.shape[1], problem.bias == "regularised"
    loss = "squared_hinge" if problem.squared else "hinge"
    posed = classification_problem(problem.targets, np.abs(problem.reach), loss, problem.bias == "free")
    offset = problem.constant * float(result.weights[n_features]) if problem.bias != "none" else 0.0
    sums = Rows(X).scores(result.weights[:n_features]) + (offset if regularised else 0.0)
    gradient = sums + posed.linear + (0.0 if posed.shift is None else posed.shift * result.beta)
    rows = FeatureRows(X, problem.constant if regularised else 0.0)
    return leave_one_out_decisions(posed, result.beta, gradient, 0.0 if regularised else offset, rows)


def train_folds(machine: LinearSVC, X: Any, y: NDArray[Any], weights: Sequence[Vector], control: Control) -> list[LinearSVC]:
    """A copy of the machine for each of `weights`, trained with these weights of the samples (zero: held out), all side by side.
    The machine itself keeps where they ended if `warm_start` is set, and starts there if it is trained so again."""
    bias, constant = machine._bias()
    machine.classes_, labels = classes_and_labels(y)
    machine.n_features_in_ = X.shape[1]
    folds = [copy(machine) for _ in weights]
    for fold in folds:  # it is asked about rows of X, which have no names
        fold.__dict__.pop("feature_names_in_", None)
    problems = [fold._formulate(labels, own, bias, constant) for fold, own in zip(folds, weights, strict=True)]
    results = iter(machine._solve_problems(X, [one for some in problems for one in some], control))
    for fold, some in zip(folds, problems, strict=True):
        fold._keep_machines(some, [next(results) for _ in some], labels)
        fold._last, fold.calibration_ = None, ()
    return folds


def check_linear_parameters(machine: LinearSVC) -> None:
    """Check the parameters of a machine without fitting it."""
    machine._check_parameters()
    machine._bias()


def classes_and_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.integer]]:
    """Like `validation.classes_and_labels`, without sorting where the labels are small whole numbers, and then with numbers of
    classes that take a byte where that is enough."""
    if y.dtype.kind not in "iu" or not len(y) or int(y.max()) - int(y.min()) >= len(y):
        return validation.classes_and_labels(y)
    least = y.min()
    from_least = np.subtract(y, least, dtype=np.int64, casting="unsafe")  # int8 would not do for -100 and 100
    present = np.bincount(from_least) > 0
    n_classes = int(present.sum())
    if n_classes < 2:
        return validation.classes_and_labels(y)
    numbers = (np.cumsum(present) - 1).astype(np.min_scalar_type(n_classes))
    return np.flatnonzero(present).astype(y.dtype) + least, numbers[from_least]
