"""What every kernel machine has in common: its kernel, the arithmetic it needs, its training and its fitted attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import cycle
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import BACKENDS, Backend, make_backend
from maxmargin.calibration import start_from
from maxmargin.callbacks import ProgressBar
from maxmargin.certificates import Certificate
from maxmargin.control import Control, Stop
from maxmargin.estimators import diagnosis, validation
from maxmargin.estimators.tasks import CallbackSupportMixin, TaskTree
from maxmargin.formulations import DualProblem
from maxmargin.gram import AugmentedGram, Gram
from maxmargin.kernels import FEW_FEATURES_IN_FLOAT32, Precomputed, make_kernel, resolve_gamma, rough_squared_norms
from maxmargin.solution import Solution, Status
from maxmargin.solvers import FAST, SOLVERS, Choice, Solver, SolverOptions, require_known
from maxmargin.training import make_case, train_each

Vector = NDArray[np.float64]

#: A machine with at most this many variables is solved in one float64 tile, exactly up to rounding.
SMALL = 1024
#: The largest kernel values and squared features whose sums still fit into float32.
LARGEST_IN_FLOAT32 = 1e30
#: Rounding error of a float32 kernel value, relative to the largest one.
ROUNDING = 2.0**-22
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


class KernelMachine(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """The base class of the estimators. Their `fit` is: validate, formulate, `_train` (place, solve, certify), keep."""

    #: The solvers that can train this kind of machine.
    _solvers: ClassVar[Mapping[str, Solver]] = {FAST.name: SOLVERS[FAST.name]}

    def _check_shared_parameters(self) -> None:
        validation.tolerances(self.tol, self.gap_tol)
        validation.kernel_parameters(self)
        validation.callbacks(self.callbacks)
        if self.max_seconds is not None:
            validation.positive("max_seconds", self.max_seconds)
        validation.choice("backend", self.backend, ("auto", *BACKENDS))
        validation.steps("max_iter", self.max_iter)
        require_known(self.solver, self._solvers)

    def _make_control(self, tasks: TaskTree) -> Control:
        """The control of a fit: its clock, its limits and its callbacks."""
        callbacks = [tasks.report, *(self.callbacks or ()), *([ProgressBar()] if self.verbose else ())]
        return Control(self.max_seconds, self.max_iter, callbacks)

    def _resolve_kernel(self, X: Any, weights: Vector | None) -> None:
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}: with kernel='precomputed' it must be a square matrix, "
                f"k(x_i, x_j) for all pairs of the {X.shape[0]} training samples"
            )
        self.gamma_ = resolve_gamma(self.gamma, self.sigma, self.kernel, X, weights)
        self.kernel_ = make_kernel(self.kernel, self.gamma_, float(self.coef0), self.degree)
        self.kernel_.require_defined(X, X)

    # --- place, solve, certify ------------------------------------------------------------------------------------

    def _choose_solver(self, problems: Sequence[DualProblem]) -> tuple[Choice, SolverOptions | None]:
        """The solver of the problems, and its options."""
        return FAST, None

    def _train(
        self,
        problems: Sequence[DualProblem],
        place: Callable[[Backend, bool], Sequence[Gram]],
        n_samples: int,
        control: Control,
        tasks: TaskTree,
        folds: Sequence[Sequence[DualProblem]] = (),
        orders: Callable[[], Sequence[NDArray[np.intp]]] | None = None,
    ) -> tuple[list[Solution], list[Certificate]]:
        """Solve each problem over its part of the kernel matrix, and certify the solutions. Then solve the problems of each fold,
        which are the same problems with samples held out, from these solutions; their results follow in the lists. `orders` gives
        the user's order of the samples of each problem, for solvers whose algorithm depends on it."""
        backend = make_backend(self.backend)
        choice, options = self._choose_solver(problems)
        self.solver_, self.solver_reason_ = choice.name, choice.reason
        told_orders = orders() if orders is not None and choice.goes_by_order else None
        control.n_machines = len(problems) * (1 + len(folds))
        solutions: list[Solution] = []
        proofs: list[Certificate] = []
        with backend.session(n_samples**2), control.running():
            # a textbook algorithm gets the samples as they are, not centred
            parts = self._parts(backend, place, choice.continues)
            if choice.augments_kernel:
                parts = [AugmentedGram(part) for part in parts]

            def run(some: Sequence[DualProblem], grams: Sequence[Gram], starts: list[Vector] | None) -> None:
                cases = [make_case(*case, self._kept_levels) for case in zip(some, grams, strict=True)]
                stop = Stop(self.tol, self.gap_tol)
                trained = train_each(choice, cases, backend, stop, control, starts, options, told_orders)
                for _ in cases:
                    with tasks.machine():
                        solution, proof = next(trained)
                        solutions.append(solution)
                        proofs.append(proof)

            run(problems, parts, self._starts(problems))
            further = [problem for fold in folds for problem in fold]
            starts = None
            if max(map(len, further), default=0) > SMALL:  # smaller folds are solved side by side, which is faster
                wholes = zip(further, cycle(problems), cycle(solutions[:]))
                starts = [start_from(problem, whole, solution) for problem, whole, solution in wholes]
            run(further, list(parts) * len(folds), starts)
        self._last = (problems, [solution.beta for solution in solutions[: len(problems)]]) if self.warm_start else None
        return solutions, proofs

    def _kept_levels(self, best: Vector) -> Vector:
        """The levels of the model (for one group, minus the bias), given the levels with the smallest gap."""
        return best

    def _parts(self, backend: Backend, place: Callable[[Backend, bool], Sequence[Gram]], balanced: bool) -> Sequence[Gram]:
        kept: list[Gram] | None = getattr(self, "_kept_parts", None)
        if kept is None:
            return place(backend, balanced)
        if not kept:
            kept.extend(place(backend, balanced))
        return kept

    @contextmanager
    def _keeping_the_kernel_matrix(self) -> Iterator[None]:
        """Let all fits within this context, which must have the same samples and kernel, share one kernel matrix and its
        cache."""
        self._kept_parts: list[Gram] | None = []
        try:
            yield
        finally:
            self._kept_parts = None

    def _snapshot(self) -> Self:
        """A copy of the machine as it is now, without the state that the next fit starts from."""
        twin = copy(self)
        twin._last = twin._kept_parts = None
        return twin

    def _starts(self, problems: Sequence[DualProblem]) -> list[Vector] | None:
        """The points to start from: those of the last fit if `warm_start` is set and it had the same machines, else None."""
        last = getattr(self, "_last", None)
        if not self.warm_start or last is None or [p.linear.shape for p in last[0]] != [p.linear.shape for p in problems]:
            return None
        return [new.carry_over(old, beta)[0] for new, old, beta in zip(problems, *last, strict=True)]

    def _gram(
        self,
        backend: Backend,
        X: Any,
        order: NDArray[np.intp] | None,
        edges: tuple[int, ...],
        problems: Sequence[DualProblem],
        balanced: bool,
    ) -> Gram:
        """The kernel matrix of the training set in this order, cut at `edges`, for these problems. The samples are centred if
        `balanced` is set and the problems allow it."""
        reach = self._reach(X)
        exact = max(reach) > LARGEST_IN_FLOAT32 or max(map(len, problems)) <= SMALL or self._is_steep(reach[0])
        dtype = np.dtype(np.float64 if exact else np.float32)
        budget = validation.cache_bytes(self.cache_size, enough=8 * X.shape[0] ** 2)
        if order is not None:
            X = X[np.ix_(order, order)] if isinstance(self.kernel_, Precomputed) else X[order]
        return backend.gram(self.kernel_, X, dtype, budget, edges, balanced and all(problem.balanced for problem in problems))

    def _is_steep(self, square: float) -> bool:
        """Whether rounding samples with squared norms up to `square` to float32 changes values of a shift-invariant kernel
        noticeably: by its slope times the rounding error of a sample."""
        if not self.kernel_.shift_invariant or not self.kernel_.named:
            return False
        gamma = float(getattr(self.kernel_, "gamma", 1.0))
        slope = np.sqrt(gamma) if self.kernel_.name == "rbf" else gamma
        return bool(ROUNDING * slope * np.sqrt(square) > STEEP)

    def _reach(self, X: Any) -> tuple[float, float]:
        """Upper bounds on the squared norms of samples like these (or gamma, if that is larger) and on their kernel values; a
        ValueError if they are too large."""
        if not self.kernel_.named:  # a precomputed or callable kernel is evaluated in float64
            return np.inf, np.inf
        entry = validation.largest_entry(X)
        square, value = X.shape[1] * entry * entry, 1.0
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

    # --- keep -----------------------------------------------------------------------------------------------------

    def _keep_support(self, X: Any, support: NDArray[np.intp], coefficients: NDArray[np.float64], bias: Vector) -> None:
        """Store the machine: the sample numbers of its support vectors, and a row of coefficients and an intercept per
        machine."""
        self.dual_coef_ = sp.csr_matrix(coefficients) if sp.issparse(X) and self.kernel_.named else coefficients
        self.support_ = support.astype(np.int32)
        self.support_vectors_ = np.empty((0, 0)) if isinstance(self.kernel_, Precomputed) else X[self.support_]
        self.intercept_ = bias
        if not (np.isfinite(coefficients).all() and np.isfinite(bias).all()):
            raise ValueError("The dual coefficients or intercepts are not finite: scale the features")
        self.shape_fit_ = X.shape

    def _keep_course(self, X: Any, solutions: Sequence[Solution], certificate: Certificate) -> None:
        """Store the trace, the status and the certificate of the fit."""
        self.certificate_ = certificate
        self.n_iter_: Any = np.array([solution.steps for solution in solutions], dtype=np.int32)
        self.trace_ = solutions[-1].trace
        self.arithmetic_ = solutions[0].arithmetic
        trouble = [solution.status for solution in solutions if not solution.status.converged]
        self.status_ = trouble[0] if trouble else solutions[0].status
        doubtful = self.status_.converged or self.status_ is Status.STALLED
        if doubtful and diagnosis.is_indefinite(self.kernel_, X, self.support_):
            self.status_ = Status.STATIONARY
        self.fit_status_ = 0 if self.status_.converged else 1

    def _finish(self, X: Any, control: Control, tasks: TaskTree) -> None:
        """End a fit: tell the callbacks, raise KeyboardInterrupt again after Ctrl-C, and warn if the fit has not converged."""
        self.fit_seconds_ = control.seconds
        tasks.end()
        if control.interrupted:
            raise KeyboardInterrupt(self.status_.value)
        if self.status_.converged:
            return
        proof, status = self.certificate_, self.status_
        reached = (
            f"Relative gap {proof.relative_gap:.2g} (gap_tol={self.gap_tol}), KKT violation {proof.kkt_violation:.2g} "
            f"(tol={self.tol:g})."
        )
        advice = _ADVICE.get(status) or f"{reached} Likely cause: {diagnosis.likely_cause(self, X)}."
        if status is Status.MAX_ITER:  # scikit-learn's sentence, which users know and may filter
            advice = (
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your data with "
                f"StandardScaler or MinMaxScaler. {advice}"
            )
        callers = 3 + hasattr(type(self).fit, "__wrapped__")  # this method, fit, perhaps its decorator, the user
        warnings.warn(f"{status.value} {advice}", ConvergenceWarning, stacklevel=callers)

    # --- use ------------------------------------------------------------------------------------------------------

    def _sums(self, X: ArrayLike, groups: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """sums[g, m, q]: the kernel sum over the support vectors of group g in machine m at query q. By default, and always for a
        linear kernel, one group holds all support vectors."""
        check_is_fitted(self)
        return self._sums_at(validation.samples(self, X, reset=False), groups)

    def _sums_at(self, queries: Any, groups: NDArray[np.integer] | None = None) -> NDArray[np.float64]:
        """Like `_sums`, for validated queries."""
        if sp.issparse(self.support_vectors_) != sp.issparse(queries):  # queries get the container of the training set
            queries = sp.csr_array(queries) if sp.issparse(self.support_vectors_) else queries.toarray()
        weights: Any = self.dual_coef_
        if sp.issparse(weights):
            weights = weights.toarray()
        queries = self._in_suitable_arithmetic(queries, weights)
        linear = self.kernel_.name == "linear"
        if groups is None:
            groups = np.array([len(self.support_)])
        if not len(self.support_):  # the fit was stopped before its first step, or each pair has weight in one class only
            return np.zeros((len(groups), len(self._coefficients()) if linear else len(weights), queries.shape[0]))
        self.kernel_.require_defined(queries, self._support())
        backend = make_backend(self.backend)
        if linear:
            return np.asarray(queries @ self._linear_weights().T).T[None]
        with backend.session(len(self.support_) * queries.shape[0]):
            return backend.weighted_sums(self.kernel_, self._support(), queries, weights, groups)

    def _in_suitable_arithmetic(self, queries: Any, weights: NDArray[np.float64]) -> Any:
        """The queries in the arithmetic of the answer: float32 if they are float32, unless features or coefficients are too large
        for it, or distances from dot products (of CSR, or of many features) would lose too many digits."""
        square, value = self._reach(queries)
        if queries.dtype != np.float32 or not self.kernel_.named:
            return queries
        square, value = np.maximum((square, value), self._reach(self.support_vectors_))
        error = ROUNDING * value * float(np.linalg.norm(weights))
        lost = 0.0
        if self.kernel_.shift_invariant and (sp.issparse(queries) or queries.shape[1] > FEW_FEATURES_IN_FLOAT32):
            farthest = max(float(rough_squared_norms(some).max(initial=0.0)) for some in (queries, self.support_vectors_))
            lost = ROUNDING * float(getattr(self.kernel_, "gamma", 1.0)) * farthest
        suffices = max(square, value) <= LARGEST_IN_FLOAT32 and error <= self.tol and lost <= MOST_LOST
        return queries if suffices else queries.astype(np.float64)

    def _support(self) -> Any:
        """What the kernel compares a query with: the support vectors, or their sample numbers for a precomputed kernel."""
        return self.support_ if isinstance(self.kernel_, Precomputed) else self.support_vectors_

    @property
    def coef_(self) -> Any:
        """The weights of a linear model, a row for each machine; sparse if the training data was."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        weights = self._linear_weights()
        coefficients: Any = sp.csr_matrix(weights) if sp.issparse(self.dual_coef_) else weights
        values: Any = coefficients.data if sp.issparse(coefficients) else coefficients
        values.flags.writeable = False  # the array is computed anew each time, so a write to it would be lost
        return coefficients

    def _linear_weights(self) -> NDArray[np.float64]:
        """The weights of each machine, rounded once: with large features, parts that were rounded before the addition would
        cancel."""
        return make_backend(self.backend).linear_weights(self.support_vectors_, self._coefficients())

    def _coefficients(self) -> NDArray[np.float64]:
        """A row for each machine, with a coefficient for each support vector."""
        kept: Any = self.dual_coef_
        return np.asarray(kept.toarray() if sp.issparse(kept) else kept)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def squared_norm(problem: DualProblem, beta: Vector, proof: Certificate) -> float:
    """||w||^2 = beta' K beta, from the dual value -(1/2 beta'(K + diag(shift)) beta + linear' beta)."""
    norm = -2.0 * (proof.dual + float(problem.linear @ beta))
    if problem.shift is not None:
        norm -= float(problem.shift @ beta**2)
    if not problem.coupled:  # without an equality constraint the bias is a weight like the others
        norm -= proof.bias**2
    return max(norm, 0.0) + 0.0  # not -0.0, which would make the margin -inf
