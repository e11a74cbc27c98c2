"""The one-class machine with the API of scikit-learn and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from maxmargin.cluster import by_partition
from maxmargin.control import Progress
from maxmargin.estimators import validation
from maxmargin.estimators.arrays import fits_in_kind, in_kind
from maxmargin.estimators.base import KernelMachine
from maxmargin.estimators.callback_tree import with_callbacks
from maxmargin.estimators.names import AnyKernel, BackendName, CacheSize, FastSolverName, Gamma
from maxmargin.estimators.parameters import store_parameters
from maxmargin.samples import Samples
from maxmargin.tasks import Fitted, OneClassTask
from maxmargin.training import Outcome

Vector = NDArray[np.float64]


class OneClassSVM(OutlierMixin, KernelMachine):  # type: ignore[misc]
    r"""Outlier detection by a one-class support vector machine, exact, with a duality-gap certificate.

    .. math:: \min_{w, \rho} \tfrac12 \lVert w \rVert^2 - \nu \Big(\sum_i s_i\Big) \rho
              + \sum_i s_i \, \max(0, \rho - w \cdot \phi(x_i))

    with s_i the weight of sample i. At most a share nu of the (weighted) samples are outliers, at least a share nu are
    support vectors.

    A drop-in for :class:`sklearn.svm.OneClassSVM`.

    Parameters
    ----------
    kernel, degree, gamma, coef0, tol
        As in :class:`SVC`.
    nu : float in (0, 1], default=0.5
        The largest share of outliers in the training set.
    shrinking, cache_size, verbose, max_iter, sigma, gap_tol, max_seconds, callbacks, solver, backend, warm_start
        As in :class:`SVC`; the solver is ``block-smo``.

    Attributes
    ----------
    offset_ : float
        rho: the decision function is ``score_samples(X) - offset_``.
    certificate_, status_, trace_, fit_seconds_
        As in :class:`SVC`.

    See Also
    --------
    sklearn.svm.OneClassSVM : The machine of scikit-learn.
    maxmargin.plots.OneClassDisplay : A picture of the region.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import OneClassSVM
    >>> X, _ = load_iris(return_X_y=True)
    >>> model = OneClassSVM(nu=0.1).fit(X)
    >>> bool((model.predict(X) == -1).mean() <= 0.1)
    True
    """

    def __init__(
        self,
        *,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        gamma: Gamma = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
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

    @fits_in_kind
    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machine; y is ignored. Ctrl-C ends the fit, and the model reached so far is kept with its certificate."""
        return self._fit(X, y, sample_weight)

    def _check_parameters(self) -> None:
        validation.share("nu", self.nu)
        super()._check_parameters()

    def _validate(self, X: Any, y: Any, sample_weight: Any) -> tuple[Samples, None, Vector]:
        X = validation.samples(self, X, reset=True)
        weights = validation.sample_weights(sample_weight, X)
        validation.require_weight(weights)
        return self._resolve_kernel(X, None if sample_weight is None else weights), None, weights

    def _formulate(self, targets: None, weights: Vector) -> OneClassTask:
        return OneClassTask(weights, float(self.nu))

    def _keep(self, samples: Samples, fitted: Fitted, outcomes: Sequence[Outcome]) -> None:
        super()._keep(samples, fitted, outcomes)
        self.n_iter_ = int(self.n_iter_[0])

    @in_kind
    @by_partition
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The signed distance from the plane, up to a factor: negative for outliers."""
        return np.asarray(self.score_samples(X) + self.intercept_[0])

    @in_kind
    @by_partition
    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision without its offset."""
        return np.asarray(self._sums(X)[0, 0])

    @in_kind
    @by_partition
    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """1 for inliers, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
