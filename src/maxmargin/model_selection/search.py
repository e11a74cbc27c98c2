"""The whole grid of C and gamma by cross-validation, with the results that scikit-learn's GridSearchCV gives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import make_backend
from maxmargin.callbacks import ProgressBar
from maxmargin.control import Control, Progress, Stop
from maxmargin.estimators import SVC, SVR, validation
from maxmargin.kernels import make_kernel
from maxmargin.model_selection.grid import Fit, Grid
from maxmargin.model_selection.tasks import Answers, ClassAnswers, Classification, Regression, Task, ValueAnswers
from maxmargin.solution import Status

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: The default range of C, in powers of ten, and of gamma around 1 / (n_features * X.var()).
C_RANGE = (-2.0, 3.0)
GAMMA_RANGE = (-2.5, 2.0)
BEST_POSSIBLE = 1.0  # score: of accuracy, R^2 and most others


class GridSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The base of SVCCV and SVRCV, which bring the machine and what it learns."""

    status_: Status
    best_params_: dict[str, float]

    @abstractmethod
    def _template(self) -> SVC | SVR:
        """The machine with its parameters, except those of the grid."""

    @abstractmethod
    def _task(self, template: Any, y: Any, weights: Vector) -> tuple[Task, NDArray[Any]]:
        """What is learned, and the targets."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:
        """Fit the grid, then the best machine on all samples.

        Ctrl-C keeps what is done: ``cv_results_`` has NaN where nothing is; the best machine so far is not fitted.
        """
        callbacks = [*(self.callbacks or ()), *([ProgressBar()] if self.verbose else ())]
        control = Control(self.max_seconds, callbacks=callbacks)
        template = self._template()
        template._check_parameters()
        samples, y = validation.samples(template, X, y, reset=True, numeric_targets=not is_classifier(template))
        self.n_features_in_ = samples.shape[1]
        weights = validation.sample_weights(sample_weight, samples)
        task, targets = self._task(template, y, weights)
        gammas, points = self._axes(template, samples, None if sample_weight is None else weights)
        folds = self._folds(samples, targets, groups, task)
        results = _Results(gammas, points, len(folds))
        ordered = samples[task.order]
        grid = Grid(
            task,
            ordered,
            [make_kernel(self.kernel, gamma, float(self.coef0), self.degree) for gamma in gammas],
            points,
            folds,
            self._scorer(is_classifier(template), ordered, targets[task.order]),
            make_backend(self.backend),
            Stop(self.tol),
            validation.cache_bytes(self.cache_size, enough=8 * len(targets) ** 2),
            results.hopeless if self.reject_hopeless else lambda kernel, point: False,
        )
        control.n_machines = len(grid)
        with control.running():
            for number, fit in enumerate(grid.run(control)):
                results.add(fit)
                control.machine = number
                control.report(0, fit.relative_gap, fit.relative_gap, 1.0)
        self._keep(results, control)
        if control.interrupted:
            raise KeyboardInterrupt(Status.INTERRUPTED.value)
        if self.refit:
            self.best_estimator_ = template.set_params(**self.best_params_).fit(samples, y, sample_weight)
            self.status_ = self.best_estimator_.status_
        self.fit_seconds_ = control.seconds
        return self

    def _scorer(self, classifier: bool, X: Any, targets: NDArray[Any]) -> Callable[[Answers, Mask], float]:
        """The score of the answers about held-out samples."""
        scorer = check_scoring(ClassAnswers() if classifier else ValueAnswers(), scoring=self.scoring)
        if self.scoring is None and classifier:  # the accuracy; scikit-learn's checks of its arguments cost more than many a fit
            return lambda answers, held_out: float(np.mean(answers.predictions == targets[held_out]))
        return lambda answers, held_out: float(scorer(answers, X[held_out], targets[held_out]))

    def _axes(self, template: Any, X: Any, weights: Vector | None) -> tuple[list[float], list[dict[str, float]]]:
        """The values of gamma, and the other parameters in the order in which one solution helps the next."""
        template._resolve_kernel(X, weights)
        gammas = _values("gammas", self.gammas, GAMMA_RANGE, template.gamma_)
        axes = {"C": _values("Cs", self.Cs, C_RANGE, 1.0), **self._more_axes()}
        points = sorted(ParameterGrid(axes), key=lambda point: (*(point[name] for name in axes if name != "C"), point["C"]))
        return gammas, points

    def _more_axes(self) -> dict[str, list[float]]:
        return {}

    def _folds(self, X: Any, targets: NDArray[Any], groups: Any, task: Task) -> list[Mask]:
        """The samples that each fold holds out, in the order of the kernel matrix."""
        splits = check_cv(self.cv, targets, classifier=isinstance(task, Classification)).split(X, targets, groups)
        folds = []
        for train, test in splits:
            held_out = np.zeros(len(targets), dtype=bool)
            held_out[test] = True
            if (held_out[train]).any() or len(train) + len(test) < len(targets):
                raise ValueError(f"cv={self.cv!r}: each split must put every sample into one of its two parts")
            folds.append(held_out[task.order])
        return folds

    def _keep(self, results: _Results, control: Control) -> None:
        self.n_splits_ = results.n_folds
        self.cv_results_ = results.table()
        self.status_ = control.ended() or Status.CONVERGED
        means = self.cv_results_["mean_test_score"]
        if np.isnan(means).all():
            return
        self.best_index_ = int(np.nanargmax(means))
        self.best_score_ = float(means[self.best_index_])
        self.best_params_ = self.cv_results_["params"][self.best_index_]

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """What the best machine predicts."""
        return np.asarray(self._best().predict(X))

    @property
    def certificate_(self) -> Any:
        """The certificate of the best machine."""
        return self._best().certificate_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SVCCV(ClassifierMixin, GridSearch):  # type: ignore[misc]
    """SVC with C and gamma chosen by cross-validation, every fit certified.

    The same result as ``GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=cv)``, from one kernel matrix per gamma.

    Parameters
    ----------
    Cs, gammas : int or sequence of floats, default=10
        The values to try; a number of them means a geometric range, for gamma around ``"scale"``.
    cv, scoring, refit
        As in :class:`sklearn.model_selection.GridSearchCV`.
    reject_hopeless : bool, default=False
        Skip the folds of a point that could not become the best even if it scored 1 on all of them; they are NaN in
        ``cv_results_``. The best point is the same.
    kernel, degree, coef0, loss, class_weight, multi_class, fit_intercept, tol, cache_size, backend
        As in :class:`SVC`.
    max_seconds, callbacks, verbose
        As in :class:`SVC`, for the whole grid; ``verbose=True`` shows one bar with the time left.

    Attributes
    ----------
    cv_results_ : dict
        As GridSearchCV gives it, with the relative duality gap of each fit besides (``split0_relative_gap``, ...).
    best_params_, best_score_, best_index_, best_estimator_, n_splits_, classes_
        As GridSearchCV gives them.
    """

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        gammas: int | Sequence[float] = 10,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        reject_hopeless: bool = False,
        kernel: str = "rbf",
        degree: float = 3,
        coef0: float = 0.0,
        loss: str = "hinge",
        class_weight: Any = None,
        multi_class: str = "ovo",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        cache_size: float | str = "auto",
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        verbose: bool = False,
        backend: str = "auto",
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.reject_hopeless = reject_hopeless
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.cache_size = cache_size
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.verbose = verbose
        self.backend = backend

    def _template(self) -> SVC:
        return SVC(
            kernel=self.kernel,
            degree=self.degree,
            coef0=self.coef0,
            loss=self.loss,
            class_weight=self.class_weight,
            multi_class=self.multi_class,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            cache_size=self.cache_size,
            backend=self.backend,
        )

    def _task(self, template: Any, y: Any, weights: Vector) -> tuple[Task, NDArray[Any]]:
        self.classes_, labels = validation.classes_and_labels(y)
        return Classification(template, self.classes_, labels, weights), y

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values of the best machine."""
        return np.asarray(self._best().decision_function(X))


class SVRCV(RegressorMixin, GridSearch):  # type: ignore[misc]
    """SVR with C, gamma and epsilon chosen by cross-validation, every fit certified.

    The same result as ``GridSearchCV(SVR(), {"C": Cs, "gamma": gammas, "epsilon": epsilons}, cv=cv)``, from one kernel
    matrix per gamma. Parameters and attributes are those of :class:`SVCCV` and :class:`SVR`.
    """

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        gammas: int | Sequence[float] = 10,
        epsilons: Sequence[float] = (0.1,),
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        reject_hopeless: bool = False,
        kernel: str = "rbf",
        degree: float = 3,
        coef0: float = 0.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        cache_size: float | str = "auto",
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        verbose: bool = False,
        backend: str = "auto",
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.epsilons = epsilons
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.reject_hopeless = reject_hopeless
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.cache_size = cache_size
        self.max_seconds = max_seconds
        self.callbacks = callbacks
        self.verbose = verbose
        self.backend = backend

    def _template(self) -> SVR:
        return SVR(
            kernel=self.kernel,
            degree=self.degree,
            coef0=self.coef0,
            loss=self.loss,
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            cache_size=self.cache_size,
            backend=self.backend,
        )

    def _more_axes(self) -> dict[str, list[float]]:
        return {"epsilon": [validation.positive("epsilons", value, zero_ok=True) for value in self.epsilons]}

    def _task(self, template: Any, y: Any, weights: Vector) -> tuple[Task, NDArray[Any]]:
        targets = validation.finite_targets(template, y)
        return Regression(template, targets, weights), targets


class _Results:
    """What is known of the grid."""

    def __init__(self, gammas: Sequence[float], points: Sequence[Mapping[str, float]], n_folds: int) -> None:
        self.gammas, self.points, self.n_folds = gammas, points, n_folds
        shape = (len(gammas), len(points), n_folds)
        self.scores, self.gaps, self.fit_seconds, self.score_seconds = (np.full(shape, np.nan) for _ in range(4))

    def add(self, fit: Fit) -> None:
        at = (fit.kernel, fit.point, fit.fold)
        self.scores[at], self.gaps[at] = fit.score, fit.relative_gap
        self.fit_seconds[at], self.score_seconds[at] = fit.fit_seconds, fit.score_seconds

    def hopeless(self, kernel: int, point: int) -> bool:
        """Whether the mean of this point stays below the best known one even if all its other folds score 1."""
        means = self.scores.mean(axis=2)  # NaN where a fold is missing
        known = self.scores[kernel, point]
        possible = np.where(np.isnan(known), BEST_POSSIBLE, known).mean()
        return bool(possible < np.nanmax(means)) if not np.isnan(means).all() else False

    def table(self) -> dict[str, Any]:
        """The dictionary of GridSearchCV, its candidates in the order of ParameterGrid."""
        candidates = [
            (dict(sorted({**point, "gamma": gamma}.items())), (k, p))
            for k, gamma in enumerate(self.gammas)
            for p, point in enumerate(self.points)
        ]
        candidates.sort(key=lambda one: tuple(one[0].values()))
        params = [parameters for parameters, _ in candidates]
        at = tuple(np.array([place for _, place in candidates]).T)
        scores, gaps = self.scores[at], self.gaps[at]
        mean = scores.mean(axis=1)
        table: dict[str, Any] = {
            "mean_fit_time": self.fit_seconds[at].mean(axis=1),
            "std_fit_time": self.fit_seconds[at].std(axis=1),
            "mean_score_time": self.score_seconds[at].mean(axis=1),
            "std_score_time": self.score_seconds[at].std(axis=1),
            **{f"param_{name}": np.ma.MaskedArray([one[name] for one in params]) for name in params[0]},
            "params": params,
            **{f"split{i}_test_score": scores[:, i] for i in range(self.n_folds)},
            "mean_test_score": mean,
            "std_test_score": scores.std(axis=1),
            "rank_test_score": rankdata(-np.nan_to_num(mean, nan=-np.inf), method="min").astype(np.int32),
            **{f"split{i}_relative_gap": gaps[:, i] for i in range(self.n_folds)},
        }
        return table


def _values(name: str, spec: Any, exponents: tuple[float, float], unit: float) -> list[float]:
    """The values of an axis, ascending; a number of them is a geometric range around `unit`."""
    if isinstance(spec, Integral) and not isinstance(spec, bool):
        if spec < 1:
            raise ValueError(f"{name}={spec!r}: must be a sequence of positive numbers, or how many of them to try")
        return [float(value) for value in unit * np.logspace(*exponents, int(spec))]
    if isinstance(spec, str) or not np.iterable(spec) or not len(list(spec)):
        raise ValueError(f"{name}={spec!r}: must be a sequence of positive numbers, or how many of them to try")
    return sorted({validation.positive(name, value) for value in spec})
