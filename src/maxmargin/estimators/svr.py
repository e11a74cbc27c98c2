"""Support vector regression with the API of scikit-learn and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.cluster import by_partition
from maxmargin.control import Progress
from maxmargin.estimators import validation
from maxmargin.estimators.arrays import fits_in_kind, in_kind
from maxmargin.estimators.base import KernelMachine
from maxmargin.estimators.callback_tree import with_callbacks
from maxmargin.estimators.names import (
    AnyKernel,
    ApproximationName,
    BackendName,
    CacheSize,
    FastSolverName,
    Gamma,
    RegressionLoss,
    RegressionSolverName,
)
from maxmargin.estimators.nystroem import Approximable
from maxmargin.estimators.parameters import store_parameters
from maxmargin.estimators.scores import Regressor
from maxmargin.formulations import LinearProblem, costs, linear_regression, make_loss
from maxmargin.samples import Samples
from maxmargin.solvers import SOLVERS, Choice, Situation, Solver, SolverOptions, choose_solver
from maxmargin.tasks import Fitted, NuTube, RegressionTask, Task, Tube
from maxmargin.training import Outcome

Vector = NDArray[np.float64]

LINEAR_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")
FINITE = " and finite (a large C is a tube that hardly any sample leaves)"


class KernelRegression(Regressor, KernelMachine):  # type: ignore[misc]
    """The base class of SVR and NuSVR, which add their parameters and their task."""

    @fits_in_kind
    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machine. Files of :func:`maxmargin.io.open_rows` have their targets with them, and need no y. Ctrl-C ends the
        fit: the model reached so far is kept with its certificate, and Ctrl-C is raised again."""
        return self._fit(X, y, sample_weight)

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Samples, Vector, Vector]:
        X, targets = validation.samples_and_targets(self, X, y)
        weights = validation.sample_weights(sample_weight, X)
        validation.require_weight(weights)
        return self._resolve_kernel(X, None if sample_weight is None else weights), targets, weights

    def _keep(self, samples: Samples, fitted: Fitted, outcomes: Sequence[Outcome]) -> None:
        super()._keep(samples, fitted, outcomes)
        self.n_iter_ = int(self.n_iter_[0])

    @in_kind
    @by_partition
    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The predicted target of each sample."""
        return np.asarray(self._sums(X)[0, 0] + self.intercept_[0])


class SVR(Approximable, KernelRegression):
    r"""Epsilon-support vector regression, exact, with a duality-gap certificate.

    .. math:: \min_{w, b} \tfrac12 \lVert w \rVert^2 + \sum_i C_i \, \max(0, |y_i - w \cdot \phi(x_i) - b| - \epsilon)

    A drop-in for :class:`sklearn.svm.SVR`; parameters and attributes that are not described here mean the same as there, or as in
    :class:`SVC`.

    Parameters
    ----------
    kernel, degree, gamma, coef0
        As in :class:`SVC`.
    tol : float, default=1e-3
        The largest violation of the optimality conditions that is accepted, in units of y; ``gap_tol``, the largest relative
        gap, is as in :class:`SVC`.
    C : float, default=1.0
        The price of leaving the tube.
    epsilon : float, default=0.1
        Half the width of the tube, in units of y.
    shrinking, cache_size, verbose, max_iter
        As in :class:`SVC`.
    loss : str or Loss, default="epsilon_insensitive"
        The loss of the distance from the tube: the distance itself (``epsilon_insensitive``), its square
        (``squared_epsilon_insensitive``), or the square up to a point and linear from there on (``huber_epsilon_insensitive``).
    sigma, fit_intercept, gap_tol, max_seconds, callbacks, solver, backend, warm_start
        As in :class:`SVC`; the solver is ``block-smo``, or ``linear`` for a linear kernel and more than 1024 samples.
    approximation, n_components, polish, random_state
        As in :class:`SVC`; ``random_state`` chooses the landmarks.

    Attributes
    ----------
    certificate_, status_, trace_, fit_seconds_
        As in :class:`SVC`; the gap has one term per sample.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_
        As in scikit-learn.

    See Also
    --------
    SVRCV : C, gamma and epsilon chosen by cross-validation.
    NuSVR : A share of samples outside the tube in place of epsilon.
    KernelRegressor : Squared loss: every sample is a support vector.
    maxmargin.plots.TubeDisplay : A picture of the tube.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVR
    >>> x = np.linspace(0.0, 6.0, 50)
    >>> model = SVR(C=10.0, epsilon=0.1).fit(x[:, None], np.sin(x))
    >>> bool(abs(model.predict(x[:, None]) - np.sin(x)).max() <= 0.1 + model.tol)
    True
    """

    _solvers: ClassVar[Mapping[str, Solver]] = {name: SOLVERS[name] for name in ("block-smo", "linear")}

    def __init__(
        self,
        *,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: CacheSize = "auto",
        verbose: bool = False,
        max_iter: int = -1,
        loss: RegressionLoss = "epsilon_insensitive",
        sigma: float | None = None,
        fit_intercept: bool = True,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: RegressionSolverName = "auto",
        backend: BackendName = "auto",
        warm_start: bool = False,
        approximation: ApproximationName = None,
        n_components: int = 1000,
        polish: bool = False,
        random_state: Any = None,
    ) -> None:
        store_parameters(locals())

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, hint=FINITE)
        validation.positive("epsilon", self.epsilon, zero_ok=True)
        validation.loss(self.loss, regression=True)
        super()._check_parameters()
        self._check_approximation(make_loss(self.loss).regression_name, LINEAR_LOSSES)

    def _linear_problems(self, targets: Vector, weights: Vector) -> list[LinearProblem]:
        cost, loss = float(self.C) * weights, make_loss(self.loss).regression_name
        bias = "free" if self.fit_intercept else "none"
        return [linear_regression(targets, cost, float(self.epsilon), loss, bias, 1.0)]

    def _exact_start(self, beta: Vector, targets: Vector) -> Vector:
        return np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)])  # a variable for each side of the tube

    def _choose_solver(self, task: Task) -> tuple[Choice, SolverOptions | None]:
        situation = Situation(
            kernel=self.kernel_,
            loss=make_loss(self.loss).regression_name,
            intercept=self.fit_intercept,
            n_samples=task.n_samples,
            n_features=getattr(self, "n_features_in_", 1),
            limits_steps=self.max_iter >= 0,
            compiled=self.backend != "reference",
        )
        return choose_solver(self.solver, situation), None

    def _formulate(self, targets: Vector, weights: Vector) -> RegressionTask:
        tube = Tube(float(self.epsilon), make_loss(self.loss), self.fit_intercept)
        return RegressionTask(targets, costs(float(self.C), weights), tube)


class NuSVR(KernelRegression):
    r"""Nu-support vector regression, exact, with a duality-gap certificate.

    .. math:: \min_{w, b, \epsilon} \tfrac12 \lVert w \rVert^2 + \nu \Big(\sum_i C_i\Big) \epsilon
              + \sum_i C_i \, \max(0, |y_i - w \cdot \phi(x_i) - b| - \epsilon)

    The tube is as wide as it has to be for at most a share nu of the (weighted) samples to lie outside of it.

    A drop-in for :class:`sklearn.svm.NuSVR`.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        The share of the samples that may lie outside the tube.
    C, kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter
        As in :class:`SVR`.
    sigma, gap_tol, max_seconds, callbacks, solver, backend, warm_start
        As in :class:`SVR`.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube that was found.
    certificate_, status_, trace_, fit_seconds_, support_, support_vectors_, n_support_, dual_coef_, intercept_
        As in :class:`SVR`.

    See Also
    --------
    SVR : The width of the tube in place of nu.
    maxmargin.plots.TubeDisplay : A picture of the tube.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import NuSVR
    >>> x = np.linspace(0.0, 6.0, 50)
    >>> y = np.sin(x) + 0.1 * np.cos(40.0 * x)
    >>> model = NuSVR(nu=0.3, C=10.0).fit(x[:, None], y)
    >>> bool((abs(model.predict(x[:, None]) - y) > model.epsilon_ + model.tol).mean() <= 0.3)
    True
    """

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
        cache_size: CacheSize = "auto",
        verbose: bool = False,
        max_iter: int = -1,
        sigma: float | None = None,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: FastSolverName = "auto",
        backend: BackendName = "auto",
        warm_start: bool = False,
    ) -> None:
        store_parameters(locals())

    def _check_parameters(self) -> None:
        validation.positive("C", self.C, hint=FINITE)
        validation.share("nu", self.nu)
        super()._check_parameters()

    def _formulate(self, targets: Vector, weights: Vector) -> RegressionTask:
        return RegressionTask(targets, costs(float(self.C), weights), NuTube(float(self.nu)))
