"""Kernel linear regression, with a ridge term, exact, and with a certificate."""

from __future__ import annotations

import time
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from maxmargin.backends import BACKENDS, Backend, make_backend
from maxmargin.certificates import Certificate, relative_gap
from maxmargin.cluster import by_partition
from maxmargin.control import Control, Stop
from maxmargin.estimators import diagnosis, validation
from maxmargin.estimators.base import gamma_of, like, resolve_kernel
from maxmargin.estimators.names import AnyKernel, BackendName, CacheSize, Gamma, RidgeSolverName
from maxmargin.estimators.notebook import ShownInNotebooks
from maxmargin.estimators.parameters import NestedParameters, store_parameters
from maxmargin.estimators.portable import Portable
from maxmargin.kernels import Kernel, Precomputed, is_precomputed
from maxmargin.rounding import EPSILON
from maxmargin.samples import MatrixSamples, Samples
from maxmargin.solution import Status
from maxmargin.solvers import ridge
from maxmargin.solvers.ridge import RidgeProblem, RidgeSolution

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.integer[Any]]

SOLVERS = ("cholesky", "cg", "sgd")
INDEFINITE = "Use a positive semi-definite kernel, or take the certificate for a measure of stationarity."
TOLERANCE = {"cholesky": 1e-10, "cg": 1e-10, "sgd": 1e-3}  # the meaning of tol="auto"


class KernelRegressor(MultiOutputMixin, RegressorMixin, ShownInNotebooks, Portable, NestedParameters, BaseEstimator):  # type: ignore[misc]
    r"""Linear regression in the feature space of a kernel, with a ridge term, exact, with a duality-gap certificate.

    .. math:: \min_w \tfrac12 \sum_i s_i (y_i - w \cdot \phi(x_i))^2 + \tfrac{\alpha}{2} \lVert w \rVert^2,
              \qquad w = \sum_i \beta_i \phi(x_i)

    The model of :class:`sklearn.kernel_ridge.KernelRidge`. There is no intercept: centre y, or take a kernel whose feature
    map has a constant, such as ``poly`` with ``coef0=1``.

    Parameters
    ----------
    alpha : float, default=1.0
        The ridge term; zero is plain linear regression.
    kernel, degree, gamma, coef0, sigma
        As in :class:`maxmargin.SVC`.
    solver : {"auto", "cholesky", "cg", "sgd"}, default="auto"
        ``cholesky`` factors the kernel matrix, ``cg`` is conjugate gradients without the matrix in memory, ``sgd`` is the
        dual mini-batch gradient ascent. ``auto`` is ``cholesky`` if the matrix fits into ``cache_size``, else ``cg``;
        ``solver_`` tells what ran.
    tol : float or "auto", default="auto"
        The largest residual of the normal equations that is accepted, relative to the largest target; "auto" is 1e-3
        for ``sgd`` and 1e-10 for the others.
    gap_tol : float or None, default=1e-3
        The largest relative duality gap that is accepted, in addition to ``tol``; None accepts any gap.
    max_iter : int, default=1000
        A limit on the conjugate gradient steps, or on the epochs of ``sgd``; -1 for no limit.
    max_seconds : float, optional
        A time limit. The model reached by then is kept, with its certificate.
    cache_size : float or "auto", default="auto"
        A budget in MB for the kernel matrix; "auto" is half of the free memory.
    batch_size : int, default=32
        The number of samples in a step of ``sgd``.
    learning_rate : float or "auto", default="auto"
        The learning rate of ``sgd``; "auto" is a rate with which every step makes progress.
    random_state : int, RandomState instance or None, default=None
        The random seed of the batches of ``sgd`` and of the landmarks of ``cg``.
    backend : {"auto", "native", "reference", "cuda", "cuda:all"}, default="auto"
        The implementation that computes kernel values and sums: compiled code (``native``, which is also "auto"), NumPy, or an
        NVIDIA card (of which "cuda:all" uses one here, too).

    Attributes
    ----------
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_targets)
        The coefficients beta.
    X_fit_ : array or CSR
        The training samples, which the kernel compares a query with; empty for a precomputed kernel.
    certificate_ : Certificate
        Primal value, dual value, duality gap, and as ``kkt_violation`` the largest residual of the normal equations.
    status_ : Status
        How the fit ended; its value is a sentence.
    trace_ : Trace
        The course of the fit: an entry for each epoch of ``sgd``, or for each true residual that another solver computed.
    n_iter_, solver_, arithmetic_, kernel_, gamma_, fit_seconds_
        Steps, solver, arithmetic, kernel, gamma and time of the fit.

    See Also
    --------
    SVR : A tube in place of the squared loss, so that few samples are support vectors.
    sklearn.kernel_ridge.KernelRidge : The model of scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import KernelRegressor
    >>> x = np.linspace(0.0, 6.0, 50)
    >>> model = KernelRegressor(alpha=1e-3, gamma=1.0).fit(x[:, None], np.sin(x))
    >>> bool(model.score(x[:, None], np.sin(x)) > 0.999), model.certificate_.holds(1e-3)
    (True, True)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        sigma: float | None = None,
        solver: RidgeSolverName = "auto",
        tol: float | Literal["auto"] = "auto",
        gap_tol: float | None = 1e-3,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        cache_size: CacheSize = "auto",
        batch_size: int = 32,
        learning_rate: float | Literal["auto"] = "auto",
        random_state: Any = None,
        backend: BackendName = "auto",
    ) -> None:
        store_parameters(locals())

    # --- fit ------------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the model. Ctrl-C ends the fit: the model reached so far is kept with its certificate, and Ctrl-C is raised
        again."""
        with validation.ParametersOf(self):
            self._check_parameters()
            control = Control(self.max_seconds, self.max_iter)
            samples, target, weights = self._validate(X, y, sample_weight)
        problem = RidgeProblem(target.reshape(len(target), -1), weights, float(self.alpha))
        K = TrainingKernel(self.kernel_, samples, make_backend(self.backend))
        with control.running(), np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are an error below
            solution = self._solve(problem, K, control)
        beta = problem.root * solution.scaled
        if not np.isfinite(beta).all():
            raise ValueError("The dual coefficients are not finite: scale the features and the targets, or raise alpha")
        self.dual_coef_ = beta if target.ndim == 2 else beta[:, 0]
        self.X_fit_ = samples.vectors
        self.certificate_ = _certify(problem, K, solution.scaled)
        self.status_ = self._decide(samples, problem, solution.status)
        self.trace_, self.n_iter_ = solution.trace, solution.steps
        self.arithmetic_ = solution.arithmetic
        self.fit_seconds_ = control.seconds
        if control.interrupted:
            raise KeyboardInterrupt(str(self.status_))
        self._warn_if_not_converged()
        return self

    def _check_parameters(self) -> None:
        validation.positive("alpha", self.alpha, zero_ok=True)
        validation.kernel_parameters(self)
        if isinstance(self.tol, str) and self.tol == "auto":
            validation.tolerances(1.0, self.gap_tol)
        else:
            validation.tolerances(self.tol, self.gap_tol)
        if self.learning_rate != "auto":
            validation.positive("learning_rate", self.learning_rate, hint=" (or 'auto')")
        if self.max_seconds is not None:
            validation.positive("max_seconds", self.max_seconds)
        validation.choice("solver", self.solver, ("auto", *SOLVERS))
        validation.choice("backend", self.backend, ("auto", *BACKENDS))
        validation.steps("max_iter", self.max_iter)
        if isinstance(self.batch_size, bool) or not isinstance(self.batch_size, Integral) or self.batch_size < 1:
            raise validation.InvalidParameterError("batch_size", self.batch_size, "must be a whole number >= 1")

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Samples, Matrix, Vector]:
        validation.require_targets(self, y)
        X = validation.samples(self, X, reset=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        weights = validation.sample_weights(sample_weight, X)
        if not weights.any():
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        self.kernel_, samples = resolve_kernel(self, X, None if sample_weight is None else weights)
        self.gamma_ = gamma_of(self)
        return samples, y, weights

    def _solve(self, problem: RidgeProblem, K: TrainingKernel, control: Control) -> RidgeSolution:
        """Solve with the solver that was asked for; "auto" is a factor of the matrix if that fits into memory, else `cg`."""
        matrix_bytes = 8 * len(K) ** 2
        budget = validation.cache_bytes(self.cache_size, enough=matrix_bytes)
        there_is_time = not control.limits_seconds or ridge.seconds_per_entry(K) * len(K) ** 2 <= 0.5 * control.seconds_left
        if (self.solver == "sgd" or not self.kernel_.named) and budget >= matrix_bytes and there_is_time:
            K = K.stored()
        dtype = np.dtype(np.float64) if self.solver in ("cg", "sgd") else ridge.factor_dtype(problem, K)
        self.solver_ = self.solver
        if self.solver == "auto":
            self.solver_ = "cholesky" if dtype.itemsize * len(K) ** 2 <= budget else "cg"
        stop = Stop(self._tolerance(), self.gap_tol)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        match self.solver_:
            case "cholesky":
                return ridge.solve_by_factor(problem, K, stop, control, dtype)
            case "cg":
                n_landmarks = min(ridge.LANDMARKS, budget // (8 * len(K)))
                return ridge.solve_by_conjugate_gradients(problem, K, stop, control, n_landmarks, rng)
        rate = ridge.safe_rate(problem, K) if self.learning_rate == "auto" else float(self.learning_rate)
        solution = ridge.solve_by_gradient_ascent(problem, K, stop, control, int(self.batch_size), rate, rng)
        if solution.status is Status.UNBOUNDED:
            raise ValueError(
                f"learning_rate={self.learning_rate!r}: the steps diverge; use a smaller one (learning_rate='auto' is "
                f"{ridge.safe_rate(problem, K):.3g} here), and a positive semi-definite kernel"
            )
        return solution

    def _decide(self, samples: Samples, problem: RidgeProblem, claim: Status) -> Status:
        """The status that the certificate proves; if it does not prove convergence, how the run ended."""
        proof, accepted = self.certificate_, float(problem.accepted_residual(self._tolerance()).max(initial=0.0))
        if proof.meets(accepted, self.gap_tol):
            seen = np.flatnonzero(problem.weight)
            ridge_terms = np.divide(problem.alpha, problem.weight, out=np.zeros_like(problem.weight), where=problem.weight > 0.0)
            if diagnosis.is_indefinite(self.kernel_, samples, seen, ridge_terms):  # the dual problem is not concave
                return Status.STATIONARY
            return Status.CONVERGED if np.isfinite(accepted) else Status.GAP_REACHED
        if not claim.converged:
            return claim
        return Status.STOPPED_BY_OPTION if self.solver_ == "sgd" else Status.STALLED

    def _tolerance(self) -> float:
        return TOLERANCE[self.solver_] if self.tol == "auto" else float(self.tol)

    def _warn_if_not_converged(self) -> None:
        if self.status_.converged:
            return
        proof = self.certificate_
        if self.status_ is Status.STATIONARY:
            diagnosis.warn(f"{self.status_} {INDEFINITE}")
            return
        advice = {
            "sgd": "Use more epochs (max_iter), a larger tol, or solver='auto', which is exact.",
            "cg": "Use a larger alpha, or more steps (max_iter).",
        }.get(self.solver_, "Use a larger alpha: the kernel matrix is nearly singular.")
        diagnosis.warn(
            f"{self.status_} Relative gap {proof.relative_gap:.2g}, largest residual {proof.kkt_violation:.2g}. {advice}"
        )

    # --- predict --------------------------------------------------------------------------------------------------

    @by_partition
    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """sum_i beta_i k(x_i, x) for each sample x, in float64."""
        check_is_fitted(self)
        queries = self.kernel_.samples(like(validation.samples(self, X, reset=False), self.X_fit_))
        beta = self.dual_coef_.reshape(len(self.dual_coef_), -1)
        training = self.kernel_.support(self.X_fit_, np.arange(len(beta)))
        queries.require_defined(self.kernel_, training)
        values = TrainingKernel(self.kernel_, training, make_backend(self.backend)).sums_at(queries, beta)
        return values if self.dual_coef_.ndim == 2 else values[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags


class TrainingKernel:
    """The kernel matrix of the training set in the form that the solvers need: blocks and products, in float64."""

    def __init__(self, kernel: Kernel, samples: Samples, backend: Backend) -> None:
        self._kernel, self._backend = kernel, backend
        self._samples = _wide(samples)

    def __len__(self) -> int:
        return len(self._samples)

    def block(self, rows: Indices, columns: Indices) -> Matrix:
        return self._samples.take(rows).block(self._kernel, self._samples.take(columns))

    def diagonal(self) -> Vector:
        return self._samples.diagonal(self._kernel)

    def times(self, vectors: Matrix, at: Indices | None = None) -> Matrix:
        return self.sums_at(self._samples if at is None else self._samples.take(at), vectors)

    def sums_at(self, queries: Samples, vectors: Matrix) -> Matrix:
        """sum_i vectors_i k(x_i, query) for queries that need not be training samples."""
        if self._samples.stored:
            return np.asarray(_wide(queries).block(self._kernel, self._samples) @ vectors)
        n, weights = len(self), np.ascontiguousarray(vectors.T)
        with self._backend.session(n * len(queries)):
            sums = self._backend.weighted_sums(self._kernel, self._samples, _wide(queries), weights, np.array([n]))
        return np.asarray(sums[0].T)

    def exact_sums(self, vectors: Matrix) -> tuple[Matrix, Matrix]:
        """K @ vectors by the exact sums of certificates (`Gram.exact_sums`), and a bound on their rounding errors."""
        n = len(self)
        everyone = np.arange(n, dtype=np.int32)
        with self._backend.session(n * n):
            gram = self._backend.gram(self._kernel, self._samples, np.dtype(np.float64), 0, (0, n))
            sums = gram.exact_sums(everyone, np.ascontiguousarray(vectors.T), everyone)
        return sums.values.T, np.broadcast_to(sums.error, sums.values.shape).T

    def stored(self) -> TrainingKernel:
        """The same matrix stored in memory: useful if computing a kernel value takes longer than reading it back."""
        everything = np.arange(len(self))
        return TrainingKernel(Precomputed(), MatrixSamples(self.block(everything, everything)), self._backend)


def _wide(samples: Samples) -> Samples:
    """The samples in float64 if they are numbers; other samples of a callable kernel as they are."""
    return samples.astype(np.float64) if samples.dtype.kind == "f" else samples


def _certify(problem: RidgeProblem, K: TrainingKernel, scaled: Matrix) -> Certificate:
    """The certificate of beta = S c, c = `scaled`, from newly computed kernel sums; each residual is as large as rounding
    allows."""
    started = time.perf_counter()
    beta = problem.root * scaled
    sums, error = K.exact_sums(beta)
    residual = problem.residual(scaled, sums)
    error = problem.root * error + EPSILON * (np.abs(problem.root * problem.target) + problem.alpha * np.abs(scaled))
    terms = 0.5 * np.sum((np.abs(residual) + error) ** 2, axis=1)
    gap = float(terms.sum())
    rounding = gap - 0.5 * float(np.sum(residual**2))
    primal = problem.primal_value(scaled, sums)
    zero = 4.0 * EPSILON * 0.5 * float(np.sum((problem.root * problem.target) ** 2))
    return Certificate(
        primal=primal,
        dual=primal - gap,
        gap=gap,
        relative_gap=relative_gap(gap, rounding, primal - gap, 0.0, lambda: zero),
        kkt_violation=float(np.abs(residual).max(initial=0.0)),
        box_residual=0.0,
        equality_residual=0.0,
        arithmetic="float64",
        bias=0.0,
        levels=(),
        rounding=rounding,
        size=float(np.abs(beta).sum()),
        seconds=time.perf_counter() - started,
        gap_terms=terms,
    )
