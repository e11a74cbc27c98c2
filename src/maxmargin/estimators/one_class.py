"""The one-class machine with the API of scikit-learn and a certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from maxmargin.backends import Backend
from maxmargin.control import Progress
from maxmargin.estimators import validation
from maxmargin.estimators.base import KernelMachine
from maxmargin.estimators.tasks import TaskTree, with_callbacks
from maxmargin.formulations import one_class_problem
from maxmargin.gram import Gram

#: Samples within this relative distance of the plane are on it: they are inliers, whatever the rounding of their decisions.
ON_THE_PLANE = 1e-10


class OneClassSVM(OutlierMixin, KernelMachine):  # type: ignore[misc]
    r"""Outlier detection by a one-class support vector machine, exact, with a duality-gap certificate.

    .. math:: \min_{w, \rho} \tfrac12 \lVert w \rVert^2 - \nu \Big(\sum_i s_i\Big) \rho
              + \sum_i s_i \, \max(0, \rho - w \cdot \phi(x_i))

    with s_i the weight of sample i. At most a share nu of the (weighted) samples are outliers, at least a share nu are
    support vectors.

    A drop-in for :class:`sklearn.svm.OneClassSVM`; the other parameters are those of :class:`SVC`.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        The largest share of outliers in the training set.

    Attributes
    ----------
    offset_ : float
        rho: the decision function is ``score_samples(X) - offset_``.
    certificate_, status_, trace_, fit_seconds_
        As in :class:`SVC`.
    """

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | str = "auto",
        verbose: bool = False,
        max_iter: int = -1,
        sigma: float | None = None,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        solver: str = "auto",
        backend: str = "auto",
        warm_start: bool = False,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.sigma = sigma
        self.gap_tol = gap_tol
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.solver = solver
        self.backend = backend
        self.warm_start = warm_start

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train the machine; y is ignored. Ctrl-C ends the fit, and the model reached so far is kept with its certificate."""
        validation.share("nu", self.nu)
        self._check_shared_parameters()
        tasks = TaskTree(self)
        control = self._make_control(tasks)
        samples = validation.samples(self, X, reset=True)
        weights = validation.sample_weights(sample_weight, samples)
        validation.require_weight(weights)
        self._resolve_kernel(samples, None if sample_weight is None else weights)
        problem = one_class_problem(weights, float(self.nu))
        tasks.begin(1, X=samples, y=y, metadata={"sample_weight": sample_weight})

        def place(backend: Backend, balanced: bool) -> list[Gram]:
            return [self._gram(backend, samples, None, (0, len(weights)), [problem], balanced)]

        solutions, proofs = self._train([problem], place, len(weights), control, tasks)
        support = np.flatnonzero(solutions[0].beta)
        self._keep_support(samples, support, solutions[0].beta[None, support], np.array([proofs[0].bias]))
        self.n_support_ = np.array([len(support)], dtype=np.int32)
        self.offset_ = -self.intercept_
        self._keep_course(samples, solutions, proofs[0])
        self.n_iter_ = int(self.n_iter_[0])
        self._finish(samples, control, tasks)
        return self

    def _kept_levels(self, best: NDArray[np.float64]) -> NDArray[np.float64]:
        """rho, lowered by a tiny amount, so that samples on the plane are inliers whatever the rounding of their decisions."""
        return best - ON_THE_PLANE * np.abs(best)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The signed distance from the plane, up to a factor: negative for outliers."""
        return np.asarray(self.score_samples(X) + self.intercept_[0])

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision without its offset."""
        return np.asarray(self._sums(X)[0, 0])

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """1 for inliers, -1 for outliers."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
