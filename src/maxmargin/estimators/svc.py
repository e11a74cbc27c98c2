"""C-support vector classification with the API of scikit-learn and a certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import BACKENDS, Backend, make_backend
from maxmargin.callbacks import ProgressBar
from maxmargin.certificates import Certificate, certify, combine
from maxmargin.control import Control, Progress, Stop
from maxmargin.estimators import diagnosis, validation
from maxmargin.estimators.tasks import CallbackSupportMixin, TaskTree, with_callbacks
from maxmargin.formulations import DualProblem, classification_problem, costs
from maxmargin.gram import Gram
from maxmargin.kernels import KERNEL_NAMES, Precomputed, make_kernel, resolve_gamma
from maxmargin.multiclass import (
    STRATEGIES,
    Machine,
    gather_coefficients,
    machines,
    one_vs_rest_scores,
    pair_decisions,
    votes,
)
from maxmargin.solution import Solution, Status
from maxmargin.solvers import choose_solver, solve_each

LOSSES = ("hinge", "squared_hinge")
#: Up to this many samples in a machine its one tile is float64, and the solution is exact to rounding.
SMALL = 1024
#: Kernel values and squares of features up to this leave float32 room for sums.
LARGEST_IN_FLOAT32 = 1e30
#: The error of a float32 kernel value, relative to the largest.
ROUNDING = 2.0**-22
#: Beyond this the working pairs, which are rated in float32, cannot be told apart.
LARGEST_KERNEL_VALUE = 1e36


class SVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""C-support vector classification, exact, with a duality-gap certificate.

    .. math:: \min_{w, b} \tfrac12 \lVert w \rVert^2 + \sum_i C_i \, \max(0, 1 - y_i (w \cdot \phi(x_i) + b))

    A drop-in for :class:`sklearn.svm.SVC`; what is not described here means what it means there.

    Parameters
    ----------
    C : float, default=1.0
        The price of slack. ``numpy.inf`` is the hard margin.
    kernel : str or callable, default="rbf"
        ``linear``, ``poly``, ``rbf``, ``laplacian``, ``exponential``, ``sigmoid``, ``precomputed``, or a callable
        ``k(A, B)`` that is asked for blocks of the kernel matrix.
    degree, gamma, coef0
        The parameters of the kernel; ``gamma="scale"`` is ``1 / (n_features * X.var())``, weighted if the samples are.
    shrinking : bool, default=True
        Accepted for compatibility; the solver decides by itself.
    probability : bool, default=False
        Not available here; use :class:`sklearn.calibration.CalibratedClassifierCV`.
    tol : float, default=1e-3
        The largest violation of the optimality conditions that is accepted.
    cache_size : float or "auto", default="auto"
        A budget in MB for kernel rows that is kept; "auto" is half of the free memory.
    class_weight, verbose, max_iter, decision_function_shape, break_ties, random_state
        As in scikit-learn; ``max_iter`` counts pair steps over all machines, ``verbose=True`` shows a progress bar.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Whether slack counts as it is or squared.
    sigma : float, optional
        Another way to say gamma: ``1 / (2 sigma^2)`` for rbf, ``1 / sigma`` for the other kernels.
    fit_intercept : bool, default=True
        Without an intercept the equality constraint of the dual disappears.
    gap_tol : float, optional
        Stop as soon as the relative duality gap is below this, whatever ``tol`` says.
    max_seconds : float, optional
        Stop after this time with the model as it is, and its certificate.
    callbacks : list of callables, optional
        Each is called with a :class:`maxmargin.callbacks.Progress`; returning True stops the fit. With scikit-learn 1.9
        or newer, ``set_callbacks`` takes those of :mod:`sklearn.callback` besides.
    solver : str, default="auto"
        The algorithm; ``solver_`` tells what ran.
    multi_class : {"ovo", "ovr"}, default="ovo"
        A machine for each pair of classes, or for each class against the rest.
    backend : {"auto", "native", "reference"}, default="auto"
        Who computes.

    Attributes
    ----------
    certificate_ : Certificate
        Primal value, dual value, duality gap, KKT violation; ``print`` it.
    status_ : Status
        How the fit ended; its value is a sentence.
    margin_ : float or array
        The geometric margin 1 / ||w|| in feature space, one for each machine.
    trace_ : Trace
        The course of the fit (of its last machine).
    fit_seconds_ : float
        The time the fit took.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, classes_, class_weight_
        As in scikit-learn; so are ``n_iter_``, ``fit_status_`` and ``shape_fit_``.
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[..., Any] = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float | str = "auto",
        class_weight: Any = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        loss: str = "hinge",
        sigma: float | None = None,
        fit_intercept: bool = True,
        gap_tol: float | None = None,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: str = "auto",
        multi_class: str = "ovo",
        backend: str = "auto",
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.loss = loss
        self.sigma = sigma
        self.fit_intercept = fit_intercept
        self.gap_tol = gap_tol
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.solver = solver
        self.multi_class = multi_class
        self.backend = backend

    # --- fit ------------------------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machine; Ctrl-C leaves the model as far as it came, with its certificate, and is raised again."""
        self._check_parameters()
        tasks = TaskTree(self)
        callbacks = [tasks.report, *(self.callbacks or ()), *([ProgressBar()] if self.verbose else ())]
        control = Control(self.max_seconds, self.max_iter, callbacks)

        X, labels, weights = self._validate(X, y, sample_weight)
        order, edges = _sort_by_class(labels, len(self.classes_))
        plan = machines(len(self.classes_), self.multi_class)
        members = [machine.members(edges) for machine in plan]
        cost = costs(float(self.C), weights, self.class_weight_[labels])[order]
        problems = [
            classification_problem(machine.signs(edges), cost[seen], self.loss, self.fit_intercept)
            for machine, seen in zip(plan, members, strict=True)
        ]
        backend = make_backend(self.backend)
        tasks.begin(len(plan), X=X, y=y, metadata={"sample_weight": sample_weight})
        control.n_machines = len(plan)
        with backend.session(len(order) ** 2), control.running():
            gram = self._place(backend, X, order, edges, largest=max(len(problem) for problem in problems))
            everyone = tuple(range(len(self.classes_)))
            parts = [gram if m.classes == everyone else gram.restrict(m.classes) for m in plan]
            stop = Stop(self.tol, self.gap_tol)
            ahead = solve_each(self.solver_, problems, parts, backend, stop, control)
            solutions, proofs = [], []
            for control.machine, (problem, part) in enumerate(zip(problems, parts, strict=True)):
                with tasks.machine():
                    solutions.append(next(ahead))
                    proofs.append(_certify(problem, part, solutions[-1]))
        self._keep(X, order, edges, plan, problems, solutions, proofs)
        self.certificate_ = _in_order_of_samples(proofs, members, order)
        self.fit_seconds_ = control.seconds
        tasks.end()
        if control.interrupted:
            raise KeyboardInterrupt(self.status_.value)
        self._speak_of_trouble(X)
        return self

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, infinite_ok="hard margin", hint=" (use C=numpy.inf for a hard margin)")
        validation.positive("tol", self.tol)
        validation.finite("coef0", self.coef0)
        validation.positive("degree", self.degree, zero_ok=True)
        if self.gap_tol is not None:
            validation.positive("gap_tol", self.gap_tol)
        if self.max_seconds is not None:
            validation.positive("max_seconds", self.max_seconds)
        if not isinstance(self.gamma, str):
            validation.positive("gamma", self.gamma, hint=" (or 'scale', or 'auto')")
        elif self.gamma not in ("scale", "auto"):
            raise ValueError(f"gamma={self.gamma!r}: must be 'scale', 'auto' or a positive number")
        if self.sigma is not None:
            validation.positive("sigma", self.sigma)
            if self.gamma != "scale":
                raise ValueError(f"sigma={self.sigma!r} and gamma={self.gamma!r}: they say the same; give one of them")
        if not callable(self.kernel):
            validation.choice("kernel", self.kernel, KERNEL_NAMES, ", or a callable k(A, B)")
        validation.choice("loss", self.loss, LOSSES)
        validation.choice("multi_class", self.multi_class, STRATEGIES)
        validation.choice("decision_function_shape", self.decision_function_shape, STRATEGIES)
        validation.choice("backend", self.backend, ("auto", *BACKENDS))
        validation.steps("max_iter", self.max_iter)
        if self.probability:
            raise ValueError(
                "probability=True: not available; wrap the machine instead: "
                "sklearn.calibration.CalibratedClassifierCV(SVC(), ensemble=False)"
            )
        self.solver_ = choose_solver(self.solver)

    def _validate(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, NDArray[np.intp], NDArray[np.float64]]:
        X, y = validation.samples(self, X, y, reset=True)
        if y.dtype.kind not in "iubU":
            check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class "
                f"({self.classes_.tolist()[0]!r}): a classifier needs samples of two classes at least"
            )
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}: with kernel='precomputed' it must be a square matrix, "
                f"k(x_i, x_j) for all pairs of the {X.shape[0]} training samples"
            )
        weights = validation.sample_weights(sample_weight, X)
        self.class_weight_ = validation.class_weights(self.class_weight, self.classes_, labels, weights)
        validation.require_two_classes(labels, weights * self.class_weight_[labels])
        gamma = resolve_gamma(self.gamma, self.sigma, self.kernel, X, None if sample_weight is None else weights)
        self.kernel_ = make_kernel(self.kernel, gamma, float(self.coef0), self.degree)
        self.gamma_ = gamma
        return X, labels, weights

    def _place(
        self, backend: Backend, X: Any, order: NDArray[np.intp], edges: tuple[int, ...], largest: int
    ) -> Gram:
        """The kernel matrix of the training set, sorted by class."""
        exact = max(self._reach(X)) > LARGEST_IN_FLOAT32 or largest <= SMALL
        dtype = np.dtype(np.float64 if exact else np.float32)
        budget = validation.cache_bytes(self.cache_size, enough=8 * len(order) ** 2)
        if isinstance(self.kernel_, Precomputed):
            X = X[np.ix_(order, order)]
        elif not _ascending(order):
            X = X[order]
        return backend.gram(self.kernel_, X, dtype, budget, edges)

    def _reach(self, X: Any) -> tuple[float, float]:
        """How large squares of features and kernel values can get with samples like these; too large is an error."""
        if not self.kernel_.named:  # computed in float64 by their owner
            return np.inf, np.inf
        entry = validation.largest_entry(X)
        square, value = X.shape[1] * entry * entry, 1.0
        if not self.kernel_.shift_invariant:
            largest = np.full((1, X.shape[1]), entry)  # no sample is larger than this one
            with np.errstate(over="ignore", invalid="ignore"):
                value = abs(float(self.kernel_.diag(largest)[0]))
        if not square < np.inf or not value <= LARGEST_KERNEL_VALUE:
            raise ValueError(
                f"X has values as large as {entry:.3g}, too large for the {self.kernel_.name} kernel. The dual "
                "coefficients or intercepts are not finite at that scale: standardise the features, for example with "
                "sklearn.preprocessing.StandardScaler"
            )
        return square, value

    def _keep(
        self,
        X: Any,
        order: NDArray[np.intp],
        edges: tuple[int, ...],
        plan: Sequence[Machine],
        problems: Sequence[Any],
        solutions: Sequence[Solution],
        proofs: Sequence[Certificate],
    ) -> None:
        """The solution as attributes, in scikit-learn's layout."""
        support, coefficients = gather_coefficients(plan, [s.beta for s in solutions], edges, self.multi_class)
        self.dual_coef_ = sp.csr_matrix(coefficients) if sp.issparse(X) and self.kernel_.named else coefficients
        self.support_ = order[support].astype(np.int32)
        self.n_support_ = np.diff(np.searchsorted(support, edges)).astype(np.int32)
        precomputed = isinstance(self.kernel_, Precomputed)
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[self.support_]
        self.intercept_ = np.array([proof.bias if self.fit_intercept else 0.0 for proof in proofs])
        if not (np.isfinite(coefficients).all() and np.isfinite(self.intercept_).all()):
            raise ValueError("The dual coefficients or intercepts are not finite: scale the features")
        self.shape_fit_ = X.shape
        self.n_iter_ = np.array([s.steps for s in solutions], dtype=np.int32)
        self.trace_ = solutions[-1].trace
        trouble = [s.status for s in solutions if not s.status.converged]
        self.status_ = trouble[0] if trouble else solutions[0].status
        if not trouble and diagnosis.is_indefinite(self.kernel_, X, self.support_):
            self.status_ = Status.STATIONARY
        self.fit_status_ = 0 if self.status_.converged else 1
        norms = [_squared_norm(p, s.beta, proof) for p, s, proof in zip(problems, solutions, proofs, strict=True)]
        with np.errstate(divide="ignore"):
            margins = 1.0 / np.sqrt(np.array(norms))
        self.margin_ = float(margins[0]) if len(margins) == 1 else margins
        self.arithmetic_ = solutions[0].arithmetic

    def _speak_of_trouble(self, X: Any) -> None:
        proof, status = self.certificate_, self.status_
        if status.converged:
            return
        reached = f"Relative gap {proof.relative_gap:.2g}, KKT violation {proof.kkt_violation:.2g} (tol={self.tol:g})."
        match status:
            case Status.STATIONARY:
                advice = "Use a positive semi-definite kernel, or take the certificate for a measure of stationarity."
            case Status.UNBOUNDED:
                advice = "Use a positive semi-definite kernel, or a finite C with the hinge loss."
            case Status.NOT_SEPARABLE:
                advice = "Use a finite C, or a kernel in which the classes can be separated."
            case _:
                advice = f"{reached} Likely cause: {diagnosis.likely_cause(self, X)}."
        if status is Status.MAX_ITER:  # the sentence that users of scikit-learn know, and filter
            advice = (
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your data with "
                f"StandardScaler or MinMaxScaler. {advice}"
            )
        callers = 3 + hasattr(type(self).fit, "__wrapped__")  # here, fit, perhaps its decorator, the user
        warnings.warn(f"{status.value} {advice}", ConvergenceWarning, stacklevel=callers)

    # --- predict --------------------------------------------------------------------------------------------------

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each sample: the sign of the decision, or the vote of the pairs."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        decisions = self._decisions(X)
        n_classes = len(self.classes_)
        if n_classes == 2:
            chosen = (decisions[:, 0] > 0).astype(np.intp)
        elif self.multi_class == "ovr":
            chosen = decisions.argmax(axis=1)
        elif self.break_ties:
            chosen = one_vs_rest_scores(decisions, n_classes).argmax(axis=1)
        else:
            chosen = votes(decisions, n_classes)
        return np.asarray(self.classes_[chosen])

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values: one per sample for two classes, else one per class or (one-vs-one) one per pair."""
        check_is_fitted(self)
        decisions = self._decisions(X)
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self.multi_class == "ovr" or self.decision_function_shape == "ovo":
            return decisions
        return one_vs_rest_scores(decisions, len(self.classes_))

    def _decisions(self, X: ArrayLike) -> NDArray[np.float64]:
        """The value of each machine, a column each."""
        queries = validation.samples(self, X, reset=False)
        if sp.issparse(self.support_vectors_) != sp.issparse(queries):  # as the training set is, so the queries
            queries = sp.csr_array(queries) if sp.issparse(self.support_vectors_) else queries.toarray()
        weights: Any = self.dual_coef_
        if sp.issparse(weights):
            weights = weights.toarray()
        queries = self._in_suitable_arithmetic(queries, weights)
        if not len(self.support_):  # stopped before the first step, or all weight in one class of each pair
            return np.tile(self.intercept_, (queries.shape[0], 1))
        backend = make_backend(self.backend)
        one_vs_one = len(self.classes_) > 2 and self.multi_class == "ovo"
        groups = self.n_support_ if one_vs_one else np.array([len(self.support_)])
        with backend.session(len(self.support_) * queries.shape[0]):
            sums = backend.weighted_sums(self.kernel_, self._support(), queries, weights, groups)
        if one_vs_one:
            return pair_decisions(sums, self.intercept_)
        return np.asarray(sums[0].T + self.intercept_)

    def _in_suitable_arithmetic(self, queries: Any, weights: NDArray[np.float64]) -> Any:
        """float32 queries are answered in float32, unless features or coefficients are too large for that."""
        square, value = self._reach(queries)
        if queries.dtype != np.float32 or not self.kernel_.named:
            return queries
        square, value = np.maximum((square, value), self._reach(self.support_vectors_))
        error = ROUNDING * value * float(np.linalg.norm(weights))
        return queries if max(square, value) <= LARGEST_IN_FLOAT32 and error <= self.tol else queries.astype(np.float64)

    def _support(self) -> Any:
        """What the kernel compares a query with."""
        return self.support_ if isinstance(self.kernel_, Precomputed) else self.support_vectors_

    @property
    def coef_(self) -> Any:
        """The weights of a linear machine, a row for each; sparse if the training data was."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        vectors, weights = self.support_vectors_, self.dual_coef_
        if len(self.classes_) == 2 or self.multi_class == "ovr":
            coefficients = weights @ vectors
        else:
            ends = np.concatenate([[0], np.cumsum(self.n_support_)])
            segments = [slice(*pair) for pair in pairwise(ends)]
            parts = [
                weights[[j - 1], segments[i]] @ vectors[segments[i]] + weights[[i], segments[j]] @ vectors[segments[j]]
                for i, j in combinations(range(len(self.classes_)), 2)
            ]
            coefficients = sp.vstack(parts, format="csr") if sp.issparse(vectors) else np.vstack(parts)
        values: Any = coefficients.data if sp.issparse(coefficients) else coefficients
        values.flags.writeable = False  # computed anew each time: a write to it would be lost
        return coefficients

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _sort_by_class(labels: NDArray[np.intp], n_classes: int) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """The samples class by class, in their own order within a class, and where each class starts and ends."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(n_classes + 1))
    return order, tuple(int(edge) for edge in edges)


def _ascending(order: NDArray[np.intp]) -> bool:
    return bool((order[1:] > order[:-1]).all())


def _certify(problem: DualProblem, gram: Gram, solution: Solution) -> Certificate:
    support = np.flatnonzero(solution.beta).astype(np.int32)
    beta = solution.beta[support]
    largest = gram.largest_diagonal()
    return certify(problem, solution.beta, lambda at: gram.exact_sums(support, beta, at), solution.gradient, largest)


def _squared_norm(problem: Any, beta: NDArray[np.float64], proof: Certificate) -> float:
    """||w||^2 = beta' K beta, from the dual value -(1/2 beta'(K + diag(shift)) beta + linear' beta)."""
    norm = -2.0 * (proof.dual + float(problem.linear @ beta))
    if problem.shift is not None:
        norm -= float(problem.shift @ beta**2)
    return max(norm, 0.0)


def _in_order_of_samples(
    proofs: Sequence[Certificate], members: Sequence[NDArray[np.int32]], order: NDArray[np.intp]
) -> Certificate:
    """The certificate with its gap terms in the order of the training samples."""
    terms = np.zeros((len(proofs), len(order)))
    for row, seen, proof in zip(terms, members, proofs, strict=True):
        row[order[seen]] = proof.gap_terms
    if len(proofs) == 1:
        return replace(proofs[0], gap_terms=terms[0])
    return combine(proofs, terms)
