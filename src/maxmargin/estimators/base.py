"""What every kernel machine has in common: its kernel, the arithmetic it needs, its training and its fitted attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from itertools import cycle
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from maxmargin import cluster
from maxmargin.backends import BACKENDS, Backend, make_backend
from maxmargin.calibration import start_from
from maxmargin.callbacks import ProgressBar
from maxmargin.control import Control, Stop
from maxmargin.estimators import diagnosis, validation
from maxmargin.estimators.callback_tree import CallbackSupportMixin, CallbackTree
from maxmargin.estimators.notebook import ShownInNotebooks
from maxmargin.estimators.parameters import NestedParameters
from maxmargin.estimators.portable import Portable
from maxmargin.formulations import DualProblem
from maxmargin.gram import AugmentedGram, Gram
from maxmargin.kernels import FEW_FEATURES_IN_FLOAT32, KERNELS, RBF, Kernel, Laplacian, is_precomputed, make_kernel
from maxmargin.rounding import FLOAT32_ENTRY
from maxmargin.samples import Samples
from maxmargin.solution import Status
from maxmargin.solvers import FAST, SOLVERS, Choice, Job, Solver, SolverOptions, require_known
from maxmargin.tasks import Fitted, Task
from maxmargin.training import Outcome, make_case, train_each

Vector = NDArray[np.float64]

#: A machine with at most this many variables is solved in one float64 tile, exactly up to rounding.
SMALL = 1024
#: With fewer kernel entries, of all machines, a fit that is solved in one call takes about a millisecond.
MANY_ENTRIES = 200_000
#: The largest kernel values and squared features whose sums still fit into float32.
LARGEST_IN_FLOAT32 = 1e30
#: The largest relative error of a float32 kernel value with which a query is answered in float32.
MOST_LOST = 1e-4
#: The largest change of a kernel value, by rounding samples to float32, with which a machine is trained in float32.
STEEP = 1e-2
#: With larger kernel values the candidates for a working pair, which are rated in float32, cannot be told apart.
LARGEST_KERNEL_VALUE = 1e36

_ADVICE = {
    Status.STOPPED_BY_OPTION: "Allow the solver more in solver_options, or use solver='auto', which goes on to tol.",
    Status.STATIONARY: "Use a positive semi-definite kernel, or take the certificate for a measure of stationarity.",
    Status.UNBOUNDED: "Use a positive semi-definite kernel, or a finite C with a loss that is not squared.",
    Status.NOT_SEPARABLE: "Use a finite C, or a kernel in which the classes can be separated.",
    Status.SEPARATES: "Use solver='auto' for the widest margin.",
    Status.NO_MARGIN: "Use a larger nu, or a kernel in which the classes are easier to separate.",
}


class KernelMachine(ShownInNotebooks, Portable, CallbackSupportMixin, NestedParameters, BaseEstimator):  # type: ignore[misc]
    """The base class of the estimators. A subclass adds its parameters, how it validates targets, and its task."""

    _kept_parts: list[Gram] | None = None

    #: The solvers that can train this kind of machine.
    _solvers: ClassVar[Mapping[str, Solver]] = {FAST.name: SOLVERS[FAST.name]}

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Train the machine: validate, formulate, place, solve, certify. The last three are `_train`."""
        with validation.ParametersOf(self):
            self._check_parameters()
            tree = CallbackTree(self)
            control = self._make_control(tree)
        with self._opened(X, y, sample_weight) as (X, y, sample_weight):
            with validation.ParametersOf(self):
                samples, targets, weights = self._validate(X, y, sample_weight)
            task = self._formulate(targets, weights)
            folds = self._folds(task)
            tree.begin(len(task.problems) * (1 + len(folds)), X=samples.rows, y=y, metadata={"sample_weight": sample_weight})
            outcomes, of_folds = self._train(samples, task, folds, control, tree)
            self._keep(samples, task.decode(outcomes), outcomes)
            self._calibrate(samples, task, outcomes, list(zip(folds, of_folds, strict=True)), weights)
            self._finish(samples, control, tree)
        return self

    # --- validate -------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        """Check the parameters that all machines have; a subclass checks its own besides."""
        validation.tolerances(self.tol, self.gap_tol)
        validation.kernel_parameters(self)
        validation.callbacks(self.callbacks)
        if self.max_seconds is not None:
            validation.positive("max_seconds", self.max_seconds)
        validation.choice("backend", self.backend, ("auto", *BACKENDS))
        validation.steps("max_iter", self.max_iter)
        validation.cache_bytes(self.cache_size, enough=0)
        require_known(self.solver, self._solvers)

    def _make_control(self, tree: CallbackTree) -> Control:
        """The control of a fit: its clock, its limits and its callbacks."""
        watching = [tree.report] if tree.watched else []
        callbacks = [*watching, *(self.callbacks or ()), *([ProgressBar()] if self.verbose else ())]
        return Control(self.max_seconds, self.max_iter, callbacks)

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[tuple[Any, Any, Any]]:
        """The training set for the time of the fit; the rows of a Dask collection stay on the workers."""
        if cluster.is_collection(X):
            self._check_for_cluster()
        return cluster.opened(X, y, sample_weight)

    def _check_for_cluster(self) -> None:
        """Raise a ValueError if this machine cannot be trained on a cluster."""
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel='precomputed' with a Dask collection: must be a kernel of the rows, which stay on the workers"
            )
        for name, allowed in (("backend", ("auto", "native")), ("solver", ("auto", FAST.name))):
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name}={value!r} with a Dask collection: must be one of {', '.join(allowed)}")

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Samples, Any, Vector]:
        """The samples, targets and weights of a training set; the kernel is resolved on them."""
        raise NotImplementedError

    def _resolve_kernel(self, X: Any, weights: Vector | None) -> Samples:
        """Make the kernel for a training set, and the training set into its samples."""
        self.kernel_, samples = resolve_kernel(self, X, weights)
        self.gamma_ = gamma_of(self)
        return samples

    # --- formulate ------------------------------------------------------------------------------------------------

    def _formulate(self, targets: Any, weights: Vector) -> Task:
        """The task of learning these targets."""
        raise NotImplementedError

    def _folds(self, task: Task) -> list[Task]:
        """The same task without some samples, once for each fold of a cross-validation; none by default."""
        return []

    # --- place, solve, certify ------------------------------------------------------------------------------------

    def _backend_for(self, samples: Samples) -> Backend:
        """The backend; by default the processor, and a card for samples that are there."""
        return make_backend(samples.home if self.backend == "auto" else self.backend)

    def _choose_solver(self, task: Task) -> tuple[Choice, SolverOptions | None]:
        """The solver of the problems, and its options."""
        return FAST, None

    def _train(
        self, samples: Samples, task: Task, folds: Sequence[Task], control: Control, tree: CallbackTree
    ) -> tuple[list[Outcome], list[list[Outcome]]]:
        """Solve the problems of the task over their parts of the kernel matrix, and certify the solutions; then those of each
        fold, from these solutions."""
        on_cluster = isinstance(samples, cluster.PartitionedSamples)
        self.__dict__.pop("cluster_", None)
        backend = cluster.ClusterBackend() if on_cluster else self._backend_for(samples)
        choice, options = (FAST, None) if on_cluster else self._choose_solver(task)
        self.solver_, self.solver_reason_ = choice.name, choice.reason
        orders = task.orders if choice.goes_by_order else None
        if on_cluster:
            self.cluster_ = samples.X.team.traffic
            control.count_bytes = lambda: self.cluster_.bytes
        control.n_machines = len(task.problems) * (1 + len(folds))
        stop = Stop(self.tol, self.gap_tol)
        entries = len(samples) ** 2
        with backend.session(entries), control.running(briefly=entries * control.n_machines < MANY_ENTRIES):
            parts = self._place(backend, samples, task, choice)

            def run(problems: Sequence[DualProblem], starts: list[Vector] | None) -> list[Outcome]:
                begins: Sequence[Vector | None] = starts or [None] * len(problems)
                jobs = [Job(p, part, backend, stop, control, start) for p, part, start in zip(problems, cycle(parts), begins)]
                cases = [make_case(job, task.kept_levels) for job in jobs]
                trained = train_each(choice, cases, options, orders)
                outcomes = []
                for _ in cases:
                    with tree.machine():
                        outcomes.append(next(trained))
                return outcomes

            outcomes = run(task.problems, self._starts(task.problems))
            further = [problem for fold in folds for problem in fold.problems]
            starts = None
            if max(map(len, further), default=0) > SMALL:  # smaller folds are solved side by side, which is faster
                wholes = zip(further, cycle(outcomes))
                starts = [start_from(problem, whole.problem, whole.solution) for problem, whole in wholes]
            of_folds = run(further, starts) if further else []
        self._last = (task.problems, [one.solution.beta for one in outcomes]) if self.warm_start else None
        n = len(outcomes)
        return outcomes, [of_folds[k * n : (k + 1) * n] for k in range(len(folds))]

    def _place(self, backend: Backend, samples: Samples, task: Task, choice: Choice) -> Sequence[Gram]:
        """The kernel matrix of each problem. For a machine of `fit_each` it is made once."""
        kept = self._kept_parts
        if kept:
            return kept
        # a textbook algorithm gets the samples as they are, not centred
        gram = self._gram(backend, samples, task, centred=choice.continues)
        parts = [AugmentedGram(part) if choice.augments_kernel else part for part in task.parts(gram)]
        if kept is not None:
            kept.extend(parts)
        return parts

    def _gram(self, backend: Backend, samples: Samples, task: Task, centred: bool) -> Gram:
        """The kernel matrix of the training set in the order of the task. The samples of a linear kernel are centred if that is
        asked for and makes no difference to the machine."""
        reach = self._reach(samples)
        exact = max(reach) > LARGEST_IN_FLOAT32 or max(map(len, task.problems)) <= SMALL or self._is_steep(reach[0])
        budget = validation.cache_bytes(self.cache_size, enough=16 * len(samples) ** 2)  # float64 rows, and a pool
        if task.order is not None and not _is_sorted(task.order):
            samples = samples.take(task.order)
        if centred and self.kernel_.explicit and task.balanced:
            samples = samples.around(samples.middle())
        return backend.gram(self.kernel_, samples, np.dtype(np.float64 if exact else np.float32), budget, task.segments)

    def _is_steep(self, square: float) -> bool:
        """Whether rounding samples with squared norms up to `square` to float32 changes values of a shift-invariant kernel
        noticeably: by its slope times the rounding error of a sample."""
        if not self.kernel_.shift_invariant or not self.kernel_.named:
            return False
        return bool(FLOAT32_ENTRY * self.kernel_.slope() * np.sqrt(square) > STEEP)

    def _reach(self, samples: Samples) -> tuple[float, float]:
        """Upper bounds on the squared norms of samples like these (or gamma, if that is larger) and on their kernel values; a
        ValueError if they are too large."""
        if not self.kernel_.named:  # a precomputed or callable kernel is evaluated in float64
            return np.inf, np.inf
        entry = samples.largest_entry()
        square, value = samples.shape[1] * entry * entry, 1.0
        if not self.kernel_.shift_invariant:
            with np.errstate(over="ignore", invalid="ignore"):  # at one feature with the largest norm
                value = abs(float(self.kernel_.diag(np.array([[np.sqrt(square)]]))[0]))
        if not square < np.inf or not value <= LARGEST_KERNEL_VALUE:
            raise ValueError(
                f"X has values as large as {entry:.3g}, too large for the {self.kernel_.name} kernel. The dual "
                "coefficients or intercepts are not finite at that scale: standardise the features, for example with "
                "sklearn.preprocessing.StandardScaler"
            )
        return max(square, float(getattr(self.kernel_, "gamma", 0.0))), value

    def _starts(self, problems: Sequence[DualProblem]) -> list[Vector] | None:
        """The points to start from: those of the last fit if `warm_start` is set and it had the same machines, else None."""
        last = getattr(self, "_last", None)
        if not self.warm_start or last is None or [p.linear.shape for p in last[0]] != [p.linear.shape for p in problems]:
            return None
        return [new.carry_over(old, beta)[0] for new, old, beta in zip(problems, *last, strict=True)]

    # --- keep -----------------------------------------------------------------------------------------------------

    def _keep(self, samples: Samples, fitted: Fitted, outcomes: Sequence[Outcome]) -> None:
        """Store the machine as attributes, in scikit-learn's layout, and the course of its fit."""
        coefficients, intercepts = fitted.coefficients, fitted.intercepts
        if not (np.isfinite(coefficients).all() and np.isfinite(intercepts).all()):
            raise ValueError("The dual coefficients or intercepts are not finite: scale the features")
        support = fitted.support.astype(np.int32)
        vectors = samples.take(support).vectors  # these may be lost, on a cluster
        sparse = samples.sparse and self.kernel_.named
        self.dual_coef_ = sp.csr_matrix(coefficients) if sparse else coefficients
        self.support_ = support
        self.support_vectors_ = vectors
        self.n_support_, self.intercept_ = fitted.n_support, intercepts
        self.shape_fit_ = samples.shape
        self.__dict__.update(fitted.further)
        solutions = [one.solution for one in outcomes]
        self.certificate_ = fitted.certificate
        self.n_iter_: Any = np.array([solution.steps for solution in solutions], dtype=np.int32)
        self.trace_ = solutions[-1].trace
        self.arithmetic_ = solutions[0].arithmetic
        trouble = [solution.status for solution in solutions if not solution.status.converged]
        self.status_ = trouble[0] if trouble else solutions[0].status
        doubtful = self.status_.converged or self.status_ is Status.STALLED
        if doubtful and diagnosis.is_indefinite(self.kernel_, samples, self.support_):
            self.status_ = Status.STATIONARY
        self.fit_status_ = 0 if self.status_.converged else 1

    def _calibrate(
        self,
        samples: Samples,
        task: Task,
        outcomes: Sequence[Outcome],
        folds: Sequence[tuple[Task, Sequence[Outcome]]],
        weights: Vector,
    ) -> None:
        """Learn probabilities from decisions about samples that a machine has not seen; only classifiers do."""

    def _finish(self, samples: Samples, control: Control, tree: CallbackTree) -> None:
        """End a fit: tell the callbacks, raise again the error that has ended it, or Ctrl-C, and warn if the fit has not
        converged."""
        self.fit_seconds_ = control.seconds
        tree.end()
        if control.failure is not None:
            raise type(control.failure)(
                f"{control.failure}. The model that was reached is kept. Its certificate has a dual value, and no bound on the "
                "gap: the losses of the lost rows are not known"
            ) from control.failure
        if control.interrupted:
            raise KeyboardInterrupt(str(self.status_))
        if self.status_.converged:
            return
        proof, status = self.certificate_, self.status_
        reached = (
            f"Relative gap {proof.relative_gap:.2g} (gap_tol={self.gap_tol}), KKT violation {proof.kkt_violation:.2g} "
            f"(tol={self.tol:g})."
        )
        advice = _ADVICE.get(status) or f"{reached} Likely cause: {diagnosis.likely_cause(self, samples.rows)}."
        if status is Status.MAX_ITER:  # scikit-learn's sentence, which users know and may filter
            advice = (
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your data with "
                f"StandardScaler or MinMaxScaler. {advice}"
            )
        diagnosis.warn(f"{status} {advice}")

    # --- use ------------------------------------------------------------------------------------------------------

    def _sums(self, X: ArrayLike, groups: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """sums[g, m, q]: the kernel sum over the support vectors of group g in machine m at query q. By default, and always for a
        linear kernel, one group holds all support vectors."""
        self._require_fitted()
        return self._sums_at(validation.samples(self, X, reset=False), groups)

    def _require_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError before the first fit. Its own check looks at all attributes, which takes longer
        than to answer for a few rows."""
        if "dual_coef_" not in vars(self):
            check_is_fitted(self)

    def _sums_at(self, queries: Any, groups: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """Like `_sums`, for validated queries."""
        queries, weights = like(queries, self.support_vectors_), _dense(self.dual_coef_)
        linear = self.kernel_.explicit
        if groups is None:
            groups = np.array([len(self.support_)])
        if not len(self.support_):  # the fit was stopped before its first step, or each pair has weight in one class only
            return np.zeros((len(groups), len(self._coefficients()) if linear else len(weights), queries.shape[0]))
        samples, support = self.kernel_.samples(queries), self._support()
        samples.require_defined(self.kernel_, support)
        lost = self._lost_in_float32(samples, support, weights)
        if lost is not None and lost.all():
            queries, lost = queries.astype(np.float64), None
            samples = self.kernel_.samples(queries)
        if linear:
            return np.asarray(queries @ self._linear_weights().T).T[None]
        backend = self._backend_for(samples)
        with backend.session(len(support) * len(samples)):
            sums = backend.weighted_sums(self.kernel_, support, samples, weights, groups)
            if lost is not None:
                again = self.kernel_.samples(queries[lost].astype(np.float64))
                sums[:, :, lost] = backend.weighted_sums(self.kernel_, support, again, weights, groups)
        return sums

    def _lost_in_float32(self, queries: Samples, support: Samples, weights: NDArray[np.float64]) -> NDArray[np.bool_] | None:
        """Which float32 queries have to be answered in float64: all, if features or coefficients are too large; else those for
        which distances would lose too many digits. None if no query has to.

        A squared distance from dot products is off by u (|x|^2 + |z|^2), so a value of the RBF kernel by gamma u (|x|^2 + |z|^2)
        exp(-gamma |x - z|^2). As |x - z| is at least the difference of the norms, that is at most u (2 t + sqrt(t) + 1) with t =
        gamma |x|^2, whatever z is: support vectors that are far out matter only to queries that are. Differences of features
        are off by u (|x| + |z|), because the features are rounded when their centre is subtracted, and the value by u (sqrt(t)
        + 1).
        """
        square, value = self._reach(queries)
        if queries.dtype != np.float32 or not self.kernel_.named:
            return None
        largest_square, largest_value = self._reach(support)
        error = FLOAT32_ENTRY * max(value, largest_value) * float(np.linalg.norm(weights))
        if max(square, largest_square, value, largest_value) > LARGEST_IN_FLOAT32 or error > self.tol:
            return np.ones(len(queries), dtype=np.bool_)
        if not self.kernel_.shift_invariant:
            return None
        gamma = float(getattr(self.kernel_, "gamma", 1.0))
        of_differences = self.kernel_.name == Laplacian.name or (
            not queries.sparse and queries.shape[1] <= FEW_FEATURES_IN_FLOAT32
        )

        def bound(norms: NDArray[np.float64]) -> NDArray[np.float64]:
            if of_differences:
                return self.kernel_.slope() * np.sqrt(norms) + 1.0
            t = gamma * norms
            return 2.0 * t + np.sqrt(t) + 1.0 if self.kernel_.name == RBF.name else t

        most, out_of_reach = MOST_LOST / FLOAT32_ENTRY, np.array([max(square, largest_square)])
        if bound(out_of_reach)[0] <= most:
            return None
        norms = queries.squared_norms()
        if not of_differences and self.kernel_.name != RBF.name:
            norms = np.maximum(norms, support.squared_norms().max(initial=0.0))
        lost = bound(norms) > most
        return lost if lost.any() else None

    def _support(self) -> Samples:
        """The support vectors as samples."""
        return self.kernel_.support(self.support_vectors_, self.support_)

    @property
    def coef_(self) -> Any:
        """The weights of a linear model, a row for each machine; sparse if the training data was."""
        if not (self.kernel_ if hasattr(self, "kernel_") else make_kernel(self.kernel)).explicit:
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        weights = vars(self).get("_on_host", self)._linear_weights()
        coefficients: Any = sp.csr_matrix(weights) if sp.issparse(self.dual_coef_) else weights
        values: Any = coefficients.data if sp.issparse(coefficients) else coefficients
        values.flags.writeable = False  # the array is computed anew each time, so a write to it would be lost
        return coefficients

    def _linear_weights(self) -> NDArray[np.float64]:
        """The weights of each machine, rounded once: with large features, parts that were rounded before the addition would
        cancel."""
        return make_backend(self.backend).linear_weights(self._support(), self._coefficients())

    def _coefficients(self) -> NDArray[np.float64]:
        """A row for each machine, with a coefficient for each support vector."""
        return _dense(self.dual_coef_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.array_api_support = True
        return tags


def resolve_kernel(machine: Any, X: Any, weights: Vector | None) -> tuple[Kernel, Samples]:
    """The kernel of a machine for a training set, with its parameters as numbers, and the training set as its samples."""
    if is_precomputed(machine.kernel) and X.shape[0] != X.shape[1]:
        raise ValueError(
            f"X has shape {X.shape}: with kernel='precomputed' it must be a square matrix, "
            f"k(x_i, x_j) for all pairs of the {X.shape[0]} training samples"
        )
    gamma = machine.gamma if isinstance(machine.gamma, str) else float(machine.gamma)
    if machine.sigma is not None and isinstance(machine.kernel, str):
        gamma = KERNELS[machine.kernel].gamma_of(float(machine.sigma))
    kernel = make_kernel(machine.kernel, gamma, float(machine.coef0), machine.degree)
    samples = kernel.samples(X)
    resolved = kernel.resolved(samples, weights)
    samples.require_defined(resolved, samples)
    return resolved, samples


def gamma_of(machine: Any) -> float:
    """The gamma of a fitted machine's kernel; for a kernel without one, the parameter itself if it is a number, else 1."""
    given = 1.0 if isinstance(machine.gamma, str) else float(machine.gamma)
    return float(getattr(machine.kernel_, "gamma", given))


def check_parameters(machine: KernelMachine) -> None:
    """Check the parameters of a machine without fitting it."""
    machine._check_parameters()


def fit_each(machine: Any, settings: Sequence[Mapping[str, Any]], X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Fit a machine with one setting of its parameters after the other, none of which changes the kernel, each from the solution
    before; return the fitted machines. Kernel machines share one kernel matrix; linear machines have none."""
    machines = []
    if isinstance(machine, KernelMachine):
        machine._kept_parts = []
    try:
        for parameters in settings:
            machine.set_params(**parameters).fit(X, y, sample_weight)
            fitted = copy(machine)
            fitted._last = None
            vars(fitted).pop("_kept_parts", None)
            machines.append(fitted)
    finally:
        vars(machine).pop("_kept_parts", None)
    return machines


def _is_sorted(order: NDArray[np.intp]) -> bool:
    """Whether a permutation changes nothing. Its ends tell most that do, at once."""
    return bool(order[0] == 0 and order[-1] == len(order) - 1 and (order[1:] > order[:-1]).all())


def like(queries: Any, container: Any) -> Any:
    """The queries, sparse or dense as the container is."""
    if sp.issparse(container) == sp.issparse(queries):
        return queries
    return sp.csr_array(queries) if sp.issparse(container) else queries.toarray()


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
