"""Search over a grid of C and gamma by cross-validation, with the results of scikit-learn's GridSearchCV."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import make_backend
from maxmargin.callbacks import ProgressBar
from maxmargin.control import Control, Progress, Stop
from maxmargin.estimators import SVC, SVR, validation
from maxmargin.estimators.base import check_parameters, resolve_kernel
from maxmargin.estimators.names import (
    AnyKernel,
    BackendName,
    CacheSize,
    CalibrationName,
    ClassLoss,
    ClassWeight,
    DecisionShape,
    Gamma,
    Probability,
    RegressionLoss,
)
from maxmargin.estimators.notebook import ShownInNotebooks
from maxmargin.estimators.parameters import NestedParameters, store_parameters
from maxmargin.formulations import costs, make_loss
from maxmargin.kernels import Kernel, is_precomputed, make_kernel
from maxmargin.model_selection.answers import Answer, Answers, ClassAnswers, ValueAnswers, class_answers, value_answers
from maxmargin.model_selection.axes import geometric_or_given, numbers
from maxmargin.model_selection.grid import Fit, Grid
from maxmargin.multiclass import JOINT_STRATEGY
from maxmargin.samples import Samples
from maxmargin.solution import Status
from maxmargin.tasks import ByClass, ClassificationTask, CostMachine, RegressionTask, Task, Tube

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: The default range of C, in powers of ten, and of gamma around 1 / (n_features * X.var()).
C_RANGE = (-2.0, 3.0)
GAMMA_RANGE = (-2.5, 2.0)
BEST_POSSIBLE = 1.0  # the largest possible score of accuracy, R^2 and all other named scorers, except UNBOUNDED_SCORES
UNBOUNDED_SCORES = ("mutual_info_score", "positive_likelihood_ratio")
ROUNDING = 1e-12  # rounding error of a mean score
SHARED = ("kernel", "degree", "coef0", "loss", "fit_intercept", "tol", "gap_tol", "cache_size", "backend")
BEST = ("best_estimator_", "best_index_", "best_score_", "best_params_")
ONE_SCORER = "score"  # the name of a scorer that is alone


class Search(ShownInNotebooks, MetaEstimatorMixin, NestedParameters, BaseEstimator):  # type: ignore[misc]
    """The base class of the searches: their `fit`, their results, and the use of the best machine."""

    status_: Status
    best_params_: dict[str, float]

    @abstractmethod
    def _template(self) -> Any:
        """The machine with all parameters except those of the grid."""

    def _check_template(self, template: Any) -> None:
        check_parameters(template)

    @abstractmethod
    def _learning(self, y: Any) -> Targets:
        """What the machines of the grid learn."""

    @abstractmethod
    def _axes(self, template: Any, X: Any, weights: Vector | None) -> tuple[Any, dict[str, list[float]], list[dict[str, float]]]:
        """The samples; the values of each parameter; and the points, without the parameter of the kernel, in an order in which
        each solution helps the next."""

    @abstractmethod
    def _grid(self, template: Any, samples: Any, learning: Any, data: FoldedData, results: Results, scorers: Any) -> RunsFits:
        """The fits of the grid, to be run."""

    def _settings(self, best: Mapping[str, float]) -> dict[str, Any]:
        """The parameters of the machine that belong to a point of the grid."""
        return dict(best)

    def _describe(self, machine: Any) -> str:
        """What is to be said of the best machine, in few words."""
        return f"{len(machine.support_)} support vectors"

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None) -> Self:
        """Fit the grid, then the best machine on all samples.

        If Ctrl-C, ``max_seconds`` or a callback ends the search early, the finished fits are kept, and ``cv_results_`` has NaN
        for the others. The best of the points that are finished on all folds is still fitted on all samples, except after Ctrl-C,
        which is raised again.
        """
        template = self._template()
        with validation.ParametersOf(self):
            self._check_parameters()
            self._check_template(template)
            callbacks = [*(self.callbacks or ()), *([ProgressBar()] if self.verbose else ())]
            control = Control(self.max_seconds, callbacks=callbacks)
            X_seen, y = validation.samples(template, X, y, reset=True, numeric_targets=not is_classifier(template))
            self._take_features_over(template)
            weights = validation.sample_weights(sample_weight, X_seen)
            own_weights = None if sample_weight is None else weights
            learning = self._learning(y)
            learning.require_trainable(weights)
            samples, axes, points = self._axes(template, X_seen, own_weights)
        folds = self._folds(X_seen, groups, learning, weights)
        scorers = self._scorers(ClassAnswers() if is_classifier(template) else ValueAnswers())
        results = Results(axes, points, len(folds), self._metrics_by_rank(scorers))
        grid = self._grid(template, samples, learning, FoldedData(folds, weights, own_weights), results, scorers)
        control.n_machines = len(grid)
        with control.running(), closing(grid.run(control)) as fits:
            for number, fit in enumerate(fits, start=1):
                results.add(fit)
                control.report(0, results.largest_gap, results.largest_gap, 1.0)
                control.machine = number
        self._keep(results, control, scorers)
        if control.interrupted:
            raise KeyboardInterrupt(str(Status.INTERRUPTED))
        if self.refit and hasattr(self, "best_params_"):
            self.best_estimator_ = template.set_params(**self._settings(self.best_params_)).fit(X, y, sample_weight)
            if self.status_.converged:
                self.status_ = self.best_estimator_.status_
        self.fit_seconds_ = control.seconds
        return self

    def _check_parameters(self) -> None:
        """Check the parameters of the search; the machine checks its own."""
        validation.callbacks(self.callbacks)
        if self.max_seconds is not None:
            validation.positive("max_seconds", self.max_seconds)
        if self._several_scorers:
            if not isinstance(self.scoring, Mapping) and not all(isinstance(one, str) for one in self.scoring):
                raise validation.InvalidParameterError(
                    "scoring", self.scoring, "must have the names of scorers, or be a dict with callables"
                )
            if not (self.refit is False or callable(self.refit) or (isinstance(self.refit, str) and self.refit in self.scoring)):
                raise ValueError(
                    "For multi-metric scoring, the parameter refit must be set to a scorer key or a callable, or to False for no "
                    f"best machine. {self.refit!r} was passed; the scorers are {', '.join(self.scoring)}"
                )
        elif not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            rule = "must be None, the name of a scorer, a callable, or a list or dict of several scorers"
            raise validation.InvalidParameterError("scoring", self.scoring, rule)

    @property
    def _several_scorers(self) -> bool:
        return isinstance(self.scoring, list | tuple | set | Mapping)

    def _scorers(self, estimator: Any) -> dict[str, Any]:
        """The scorers by name, for an estimator with the answers of this one."""
        if not self._several_scorers:
            return {ONE_SCORER: check_scoring(estimator, scoring=self.scoring)}
        named = self.scoring if isinstance(self.scoring, Mapping) else dict(zip(self.scoring, self.scoring, strict=True))
        return {name: check_scoring(estimator, scoring=one) for name, one in named.items()}

    def _metrics_by_rank(self, scorers: Mapping[str, Any]) -> list[str]:
        """The names of the scorers; the first is the one that chooses the best point, if one does."""
        return sorted(scorers, key=lambda name: name != self.refit)

    def _take_features_over(self, template: Any) -> None:
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update({name: value for name, value in vars(template).items() if name.endswith("_in_")})

    def _folds(self, X: Any, groups: Any, learning: Targets, weights: Vector) -> list[Mask]:
        """The samples that each fold holds out."""
        targets = learning.targets
        splits = check_cv(self.cv, targets, classifier=is_classifier(self)).split(X, targets, groups)
        folds = []
        for train, test in splits:
            held_out = np.zeros(len(targets), dtype=bool)
            held_out[test] = True
            if not np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(targets))):
                raise ValueError(
                    f"cv={self.cv!r}: each split must put every sample into one of its two parts, once "
                    "(use GridSearchCV for splits that leave samples out or repeat them)"
                )
            folds.append(held_out)
            if not learning.can_train(np.where(held_out, 0.0, weights)):
                raise ValueError(
                    f"cv={self.cv!r}: fold {len(folds) - 1} leaves samples of one class only, or none with a weight, to train "
                    "on; use fewer folds, StratifiedKFold, or shuffle=True"
                )
        return folds

    def _keep(self, results: Results, control: Control, scorers: Mapping[str, Any]) -> None:
        for name in BEST:  # remove the results of an earlier fit
            self.__dict__.pop(name, None)
        self.n_splits_ = results.n_folds
        self.multimetric_ = self._several_scorers
        self.scorer_ = dict(scorers) if self.multimetric_ else scorers[ONE_SCORER]
        self.cv_results_ = results.table()
        self.status_ = (control.ended() if results.n_missing else None) or results.status(
            np.inf if self.tol is None else self.tol
        )
        means = self.cv_results_[f"mean_test_{results.metrics[0]}"]
        if callable(self.refit):
            self.best_index_ = int(self.refit(self.cv_results_))
        elif not np.isnan(means).all() and not (self.multimetric_ and self.refit is False):
            self.best_index_ = int(np.nanargmax(means))
            self.best_score_ = float(means[self.best_index_])
        if hasattr(self, "best_index_"):
            self.best_params_ = self.cv_results_["params"][self.best_index_]
        if not self.status_.converged and not results.n_missing:
            warnings.warn(
                f"{len(results.trouble)} of {results.gaps.size} fits of the grid did not converge; the largest relative gap is "
                f"{results.largest_gap:.3g}, and cv_results_ has all of them. The first: {results.trouble[0]} Standardise "
                "the features, or try smaller values of Cs.",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif not self.status_.converged and not control.interrupted:
            found = "the best of the points that are done on all folds was chosen"
            found = found if hasattr(self, "best_params_") else "no point is done on all folds, so there is no best one"
            warnings.warn(
                f"The grid was ended early ({self.status_.name}): {results.n_missing} of {results.gaps.size} fits are missing, "
                f"and {found}. Allow more time, or try fewer values.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_", msg="This %(name)s has no best machine: call fit with refit=True, to its end.")
        return self.best_estimator_

    def _score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> float:
        best = self._best()
        scorers = self._scorers(best)
        if callable(self.refit) and self.multimetric_:
            raise ValueError(
                f"refit={self.refit!r}: a function chose the best point, so none of {', '.join(scorers)} is its score"
            )
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(scorers[self._metrics_by_rank(scorers)[0]](best, X, y, **weighted))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The predictions of the best machine."""
        return np.asarray(self._best().predict(X))

    @property
    def certificate_(self) -> Any:
        """The certificate of the best machine."""
        return self._best().certificate_

    def _report(self) -> list[tuple[str, object]]:
        table = self.cv_results_
        rows: list[tuple[str, object]] = [("status", self.status_)]
        if hasattr(self, "best_params_"):
            rows.append(("best", ", ".join(f"{name} = {value:.4g}" for name, value in self.best_params_.items())))
        if hasattr(self, "best_score_"):
            spread = float(table[f"std_test_{self.refit if self.multimetric_ else ONE_SCORER}"][self.best_index_])
            rows.append((f"mean test score, {self.n_splits_} folds", f"{self.best_score_:.4g} ± {spread:.2g}"))
        gaps = np.array([table[f"split{k}_relative_gap"] for k in range(self.n_splits_)])
        rows.append(
            ("fits", f"{np.isfinite(gaps).sum()} of {gaps.size}, relative gap at most {np.nanmax(gaps, initial=0.0):.2g}")
        )
        if hasattr(self, "best_estimator_"):
            proof, machine = self.certificate_, self.best_estimator_
            rows.append(("best machine", f"{self._describe(machine)}, relative gap {proof.relative_gap:.2g}"))
        return [*rows, ("seconds", self.fit_seconds_)]


class GridSearch(Search):
    """The base class of SVCCV and SVRCV, which add the machine and its task."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.reject_hopeless and (self._several_scorers or callable(self.scoring) or self.scoring in UNBOUNDED_SCORES):
            raise ValueError(
                f"reject_hopeless=True with scoring={self.scoring!r}: a point is hopeless if the largest possible score could "
                "not save it, and that is known of one scorer with a bound only; use another one, or reject_hopeless=False"
            )

    def _kernel(self, gamma: float | str) -> Kernel:
        """The kernel with this gamma; a kernel object keeps its other parameters."""
        if isinstance(self.kernel, Kernel):
            return replace(self.kernel, gamma=gamma) if hasattr(self.kernel, "gamma") else self.kernel  # type: ignore[type-var]
        return make_kernel(self.kernel, gamma, float(self.coef0), self.degree)

    def _axes(
        self, template: Any, X: Any, weights: Vector | None
    ) -> tuple[Samples, dict[str, list[float]], list[dict[str, float]]]:
        """The samples; the values of each parameter; and the points without gamma in an order in which each solution helps the
        next."""
        kernel, samples = resolve_kernel(template, X, weights)
        axes = {"C": geometric_or_given("Cs", self.Cs, C_RANGE, 1.0), **self._more_axes()}
        points = sorted(ParameterGrid(axes), key=lambda point: (*(point[name] for name in axes if name != "C"), point["C"]))
        gamma = float(getattr(kernel, "gamma", 1.0))
        gammas: Any = self.gammas if hasattr(kernel, "gamma") or not isinstance(self.gammas, Integral) else [gamma]
        if hasattr(kernel, "gamma") and np.iterable(gammas) and not isinstance(gammas, str):
            words = {word: getattr(self._kernel(word).resolved(samples, weights), "gamma", word) for word in ("scale", "auto")}
            gammas = [words.get(one, one) if isinstance(one, str) else one for one in gammas]
        return samples, {**axes, "gamma": geometric_or_given("gammas", gammas, GAMMA_RANGE, gamma)}, points

    def _more_axes(self) -> dict[str, list[float]]:
        return {}

    def _settings(self, best: Mapping[str, float]) -> dict[str, Any]:
        nested = {"gamma": "kernel__gamma"} if isinstance(self.kernel, Kernel) and hasattr(self.kernel, "gamma") else {}
        return {nested.get(name, name): value for name, value in best.items()}

    def _grid(
        self, template: Any, samples: Samples, learning: _Learning, data: FoldedData, results: Results, scorers: Mapping[str, Any]
    ) -> Grid:
        order = learning.order
        samples = samples if order is None else samples.take(order)
        if make_kernel(self.kernel).explicit and template.fit_intercept:
            samples = samples.around(samples.middle())  # saves digits where one feature is large
        kernels = [self._kernel(gamma) for gamma in results.axes["gamma"]]
        for kernel in kernels:
            samples.require_defined(kernel, samples)

        def task(fold: int, point: int) -> Task:
            held_out = data.folds[fold]
            made = learning.task(results.points[point], data.weights_of(fold))
            return made.without(held_out if order is None else held_out[order])

        return Grid(
            task,
            len(data.folds),
            len(results.points),
            learning.segments,
            samples,
            kernels,
            learning.answer,
            self._score_of(scorers, is_classifier(template), samples, learning.targets, data.own_weights, order),
            make_backend(self.backend),
            Stop(self.tol, self.gap_tol),
            validation.cache_bytes(self.cache_size, enough=8 * len(data.weights) ** 2),
            results.hopeless if self.reject_hopeless else None,
        )

    def _score_of(
        self,
        scorers: Mapping[str, Any],
        classifier: bool,
        samples: Samples,
        targets: NDArray[Any],
        weights: Vector | None,
        order: NDArray[np.intp] | None,
    ) -> Callable[[Answers, Mask], dict[str, float]]:
        """A function that scores answers about held-out samples; weighted if the samples are and the scorer can, as in
        GridSearchCV. Masks and samples are in the order of the kernel matrix, targets and weights in their own."""
        if order is not None:
            targets, weights = targets[order], None if weights is None else weights[order]

        def score(answers: Answers, held_out: Mask) -> dict[str, float]:
            known, share = targets[held_out], None if weights is None else weights[held_out]
            if self.scoring is None and classifier:  # scikit-learn's checks of its arguments cost more than many a fit
                return {ONE_SCORER: float(np.average(answers.predictions == known, weights=share))}
            X = samples.take(np.flatnonzero(held_out)).rows
            return {name: weighted_score(scorer, answers, X, known, share) for name, scorer in scorers.items()}

        return score

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_precomputed(self.kernel)
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags


def _offers_probabilities(search: SVCCV) -> bool:
    if not search.probability:
        raise AttributeError(
            "it is not available when probability=False: fit SVCCV(probability='loo') or SVCCV(probability='cv')"
        )
    return True


class SVCCV(ClassifierMixin, GridSearch):  # type: ignore[misc]
    """SVC with C and gamma chosen by cross-validation, every fit certified.

    The same result as ``GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=cv)``, from one kernel matrix per gamma.

    Parameters
    ----------
    Cs, gammas : int or sequence, default=10
        The values to try, or their number: then they form a geometric range, for gamma around ``"scale"`` (a kernel without
        gamma has one value). Among the values of gamma may be ``"scale"`` and ``"auto"``; their numbers, which are in
        ``cv_results_``, are those of all samples.
    cv : int, splitter or iterable, default=None
        As in :class:`sklearn.model_selection.GridSearchCV`, with splits that leave no sample out.
    scoring : str, callable, list or dict, default=None
        A scorer, or several, as in GridSearchCV; they use predictions or decisions.
    refit : bool, str or callable, default=True
        Whether the best machine is fitted on all samples; with several scorers the name of the one that decides, False, or a
        function from ``cv_results_`` to the number of the best point.
    reject_hopeless : bool, default=False
        Skip the remaining folds of a point that could not become the best even with a score of 1 on all of them; they are NaN in
        ``cv_results_``. The best point is the same.
    kernel, degree, coef0, loss, class_weight, multi_class, fit_intercept, tol, gap_tol, cache_size, backend
        As in :class:`SVC`.
    max_seconds, callbacks, verbose
        As in :class:`SVC`, for the whole grid; ``verbose=True`` shows one bar with the time left.
    probability, calibration
        As in :class:`SVC`, for the best machine: whether there is ``predict_proba``.

    Attributes
    ----------
    cv_results_ : dict
        As in GridSearchCV, with the relative duality gap of each fit in addition (``split0_relative_gap``, ...).
    best_params_, best_score_, best_index_, best_estimator_, n_splits_, classes_, scorer_, multimetric_
        As in GridSearchCV.
    status_ : Status
        Converged if all fits have converged, those of the folds and the last one; else the status of the first that has not.

    See Also
    --------
    SVRCV : The same for regression.
    C_path : Machines along a path of C, without cross-validation.
    maxmargin.plots.GridDisplay : A picture of the scores.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SVCCV(Cs=[0.1, 1.0, 10.0], gammas=["scale", 0.1], cv=3).fit(X, y)
    >>> search.best_params_["C"]
    10.0
    >>> several = SVCCV(Cs=[1.0], gammas=[0.1], cv=3, scoring=["accuracy", "f1_macro"], refit="f1_macro").fit(X, y)
    >>> bool(several.best_score_ == several.cv_results_["mean_test_f1_macro"].max())
    True
    """

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        gammas: int | Sequence[Gamma] = 10,
        cv: Any = None,
        scoring: Any = None,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        reject_hopeless: bool = False,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        coef0: float = 0.0,
        loss: ClassLoss = "hinge",
        class_weight: ClassWeight = None,
        multi_class: DecisionShape = "ovo",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        gap_tol: float | None = 1e-3,
        cache_size: CacheSize = "auto",
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        verbose: bool = False,
        backend: BackendName = "auto",
        probability: Probability = False,
        calibration: CalibrationName = "sigmoid",
    ) -> None:
        store_parameters(locals())

    def _template(self) -> SVC:
        return SVC(
            **{name: getattr(self, name) for name in (*SHARED, "class_weight", "multi_class", "probability", "calibration")}
        )

    def _learning(self, y: Any) -> _Learning:
        if self.multi_class == JOINT_STRATEGY:
            raise ValueError(
                f"multi_class={self.multi_class!r}: a grid is one of binary machines (use multi_class='ovo' or 'ovr', or "
                "sklearn.model_selection.GridSearchCV)"
            )
        self.classes_, labels = validation.classes_and_labels(y)
        return _Classification(self, y, self.classes_, labels)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values of the best machine."""
        return np.asarray(self._best().decision_function(X))

    @available_if(_offers_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The class probabilities of the best machine, a column for each of ``classes_``."""
        return np.asarray(self._best().predict_proba(X))

    @available_if(_offers_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The logarithm of `predict_proba`."""
        return np.asarray(self._best().predict_log_proba(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The score of the best machine by `scoring`; the accuracy by default."""
        return self._score(X, y, sample_weight)


class SVRCV(RegressorMixin, GridSearch):  # type: ignore[misc]
    """SVR with C, gamma and epsilon chosen by cross-validation, every fit certified.

    The same result as ``GridSearchCV(SVR(), {"C": Cs, "gamma": gammas, "epsilon": epsilons}, cv=cv)``, from one kernel
    matrix per gamma.

    Parameters
    ----------
    Cs, gammas : int or sequence, default=10
        As in :class:`SVCCV`.
    epsilons : sequence of float, default=(0.1,)
        The half-widths of the tube to try.
    cv, scoring, refit, reject_hopeless
        As in :class:`SVCCV`.
    kernel, degree, coef0, loss, fit_intercept, tol, gap_tol, cache_size, backend
        As in :class:`SVR`.
    max_seconds, callbacks, verbose
        As in :class:`SVCCV`.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, best_estimator_, n_splits_, status_
        As in :class:`SVCCV`.

    See Also
    --------
    SVCCV : The same for classification.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVRCV
    >>> x = np.linspace(0.0, 6.0, 60)
    >>> search = SVRCV(Cs=[0.01, 10.0], gammas=[1.0], epsilons=[0.05, 0.5], cv=3).fit(x[:, None], np.sin(x))
    >>> sorted(search.best_params_)
    ['C', 'epsilon', 'gamma']
    """

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        gammas: int | Sequence[Gamma] = 10,
        epsilons: Sequence[float] = (0.1,),
        cv: Any = None,
        scoring: Any = None,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        reject_hopeless: bool = False,
        kernel: AnyKernel = "rbf",
        degree: float = 3,
        coef0: float = 0.0,
        loss: RegressionLoss = "epsilon_insensitive",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        gap_tol: float | None = 1e-3,
        cache_size: CacheSize = "auto",
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        verbose: bool = False,
        backend: BackendName = "auto",
    ) -> None:
        store_parameters(locals())

    def _template(self) -> SVR:
        return SVR(**{name: getattr(self, name) for name in SHARED})

    def _more_axes(self) -> dict[str, list[float]]:
        return {"epsilon": numbers("epsilons", self.epsilons, zero_ok=True)}

    def _learning(self, y: Any) -> _Learning:
        return _Regression(self, validation.finite_targets(self, y))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The score of the best machine by `scoring`; R^2 by default."""
        return self._score(X, y, sample_weight)


class Targets(ABC):
    """What the machines of a grid learn. Weights are in the order of the samples, zero for those that are held out."""

    targets: NDArray[Any]

    @abstractmethod
    def require_trainable(self, weights: Vector) -> None:
        """Raise a ValueError if these weights leave too little to train on."""

    def can_train(self, weights: Vector) -> bool:
        try:
            self.require_trainable(weights)
        except ValueError:
            return False
        return True


class _Learning(Targets):
    """The targets of kernel machines: a task for each point of the grid and each set of training samples."""

    order: NDArray[np.intp] | None = None
    segments: tuple[int, ...]
    answer: Answer

    @abstractmethod
    def task(self, parameters: Mapping[str, float], weights: Vector) -> Task: ...


class _Classification(_Learning):
    def __init__(self, search: SVCCV, y: NDArray[Any], classes: NDArray[Any], labels: NDArray[np.intp]) -> None:
        self._search, self._classes, self._labels = search, classes, labels
        self._by_class = ByClass.of(labels, len(classes), search.multi_class)
        self.targets, self.order, self.segments = y, self._by_class.order, self._by_class.edges
        self.answer = class_answers(classes)

    def _shares(self, weights: Vector) -> Vector:
        factors = validation.class_weights(self._search.class_weight, self._classes, self._labels, weights)
        return np.asarray(weights * factors[self._labels])

    def task(self, parameters: Mapping[str, float], weights: Vector) -> Task:
        search = self._search
        machine = CostMachine(float(parameters["C"]), make_loss(search.loss), search.fit_intercept)
        return ClassificationTask(self._by_class, self._shares(weights)[self._by_class.order], machine, search.multi_class)

    def require_trainable(self, weights: Vector) -> None:
        validation.require_two_classes(self._labels, self._shares(weights))


class _Regression(_Learning):
    def __init__(self, search: SVRCV, targets: Vector) -> None:
        self._search, self.targets, self.segments = search, targets, (0, len(targets))
        self.answer = value_answers

    def task(self, parameters: Mapping[str, float], weights: Vector) -> Task:
        tube = Tube(float(parameters["epsilon"]), make_loss(self._search.loss), self._search.fit_intercept)
        return RegressionTask(self.targets, costs(float(parameters["C"]), weights), tube)

    def require_trainable(self, weights: Vector) -> None:
        validation.require_weight(weights)


class RunsFits(Protocol):
    """The fits of a grid."""

    def __len__(self) -> int: ...

    def run(self, control: Control) -> Generator[Fit, None, None]: ...


@dataclass(frozen=True)
class FoldedData:
    """The samples that each fold holds out, the weights of the samples, and whether they were given."""

    folds: Sequence[Mask]
    weights: Vector
    own_weights: Vector | None

    def weights_of(self, fold: int) -> Vector:
        """The weights of the samples that a fold trains on; zero for the others."""
        return np.where(self.folds[fold], 0.0, self.weights)


class Results:
    """The results of the grid so far."""

    def __init__(
        self, axes: Mapping[str, list[float]], points: Sequence[Mapping[str, float]], n_folds: int, metrics: Sequence[str]
    ) -> None:
        self.axes, self.points, self.n_folds, self.metrics = axes, points, n_folds, metrics
        shape = (len(axes.get("gamma", (None,))), len(points), n_folds)
        self.gaps, self.fit_seconds, self.score_seconds = (np.full(shape, np.nan) for _ in range(3))
        self.scores = {name: np.full(shape, np.nan) for name in metrics}
        self.n_missing = self.gaps.size
        self.largest_gap = 0.0
        self.trouble: list[Status] = []  # statuses of fits that have not converged

    def status(self, tol: float) -> Status:
        """The status of all fits together."""
        if self.trouble:
            return self.trouble[0]
        return Status.CONVERGED if np.isfinite(tol) else Status.GAP_REACHED

    def add(self, fit: Fit) -> None:
        at = (fit.kernel, fit.point, fit.fold)
        self.n_missing -= 1
        self.gaps[at] = fit.relative_gap
        for name, score in fit.scores.items():
            self.scores[name][at] = score
        if fit.status is not None and not fit.status.converged:
            self.trouble.append(fit.status)
        self.fit_seconds[at], self.score_seconds[at] = fit.fit_seconds, fit.score_seconds
        self.largest_gap = float(np.fmax(self.largest_gap, fit.relative_gap))  # NaN if the point was rejected

    def hopeless(self, kernel: int, point: int) -> bool:
        """Whether the mean score of a point stays below the best one so far even if all its other folds score 1."""
        scores = self.scores[self.metrics[0]]
        means = scores.mean(axis=2)  # NaN where a fold is missing
        if np.isnan(means).all():
            return False
        known = scores[kernel, point]
        possible = np.where(np.isnan(known), BEST_POSSIBLE, known).mean()
        return bool(possible < np.nanmax(means) - ROUNDING)

    def table(self) -> dict[str, Any]:
        """The dictionary of GridSearchCV, its candidates in the order of ParameterGrid."""
        params = list(ParameterGrid(dict(self.axes)))
        points = [{name: value for name, value in one.items() if name != "gamma"} for one in params]
        kernels = [self.axes["gamma"].index(one["gamma"]) if "gamma" in one else 0 for one in params]
        at = kernels, [self.points.index(point) for point in points]
        gaps = self.gaps[at]
        table: dict[str, Any] = {
            "mean_fit_time": self.fit_seconds[at].mean(axis=1),
            "std_fit_time": self.fit_seconds[at].std(axis=1),
            "mean_score_time": self.score_seconds[at].mean(axis=1),
            "std_score_time": self.score_seconds[at].std(axis=1),
            **{f"param_{name}": np.ma.MaskedArray([one[name] for one in params]) for name in params[0]},
            "params": params,
            **{column: values for name in self.metrics for column, values in self._columns(name, self.scores[name][at]).items()},
            **{f"split{i}_relative_gap": gaps[:, i] for i in range(self.n_folds)},
        }
        return table

    def _columns(self, name: str, scores: NDArray[np.float64]) -> dict[str, Any]:
        """The columns of one scorer."""
        mean = scores.mean(axis=1)
        return {
            **{f"split{i}_test_{name}": scores[:, i] for i in range(self.n_folds)},
            f"mean_test_{name}": mean,
            f"std_test_{name}": scores.std(axis=1),
            f"rank_test_{name}": rankdata(-np.nan_to_num(mean, nan=-np.inf), method="min").astype(np.int32),
        }


def weighted_score(scorer: Any, answers: Any, X: Any, y: NDArray[Any], weights: Vector | None) -> float:
    """The score of answers, weighted if there are weights and the scorer takes them."""
    if weights is not None:
        with suppress(TypeError):
            return float(scorer(answers, X, y, sample_weight=weights))
    return float(scorer(answers, X, y))
