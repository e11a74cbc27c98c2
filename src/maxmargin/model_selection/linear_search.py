"""Search over a grid of C for linear machines: every fold reads the same data, and each C starts from the solutions before it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from maxmargin.control import Control, Progress
from maxmargin.estimators import LinearSVC, validation
from maxmargin.estimators.linear import check_linear_parameters, train_folds
from maxmargin.estimators.names import ClassWeight, LinearSolverName
from maxmargin.estimators.parameters import store_parameters
from maxmargin.model_selection.axes import geometric_or_given
from maxmargin.model_selection.grid import Fit
from maxmargin.model_selection.search import C_RANGE, FoldedData, Results, Search, Targets, weighted_score

Vector = NDArray[np.float64]

SHARED = (
    *("penalty", "loss", "dual", "tol", "multi_class", "fit_intercept", "intercept_scaling", "class_weight"),
    *("gap_tol", "solver"),
)


class LinearSVCCV(ClassifierMixin, Search):  # type: ignore[misc]
    """LinearSVC with C chosen by cross-validation, every fit certified.

    The same result as ``GridSearchCV(LinearSVC(), {"C": Cs}, cv=cv)``. The machines of all folds and classes are trained side by
    side on the same data, of which no fold takes a copy to train on, and each C starts from the solutions of the C before it.

    Parameters
    ----------
    Cs : int or sequence, default=10
        The values to try, or their number: then they form a geometric range.
    cv, scoring, refit
        As in :class:`SVCCV`.
    penalty, loss, dual, tol, multi_class, fit_intercept, intercept_scaling, class_weight, gap_tol, solver
        As in :class:`LinearSVC`.
    max_seconds, callbacks, verbose
        As in :class:`SVCCV`, for the whole grid.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, best_estimator_, n_splits_, classes_, scorer_, multimetric_, status_
        As in :class:`SVCCV`.

    See Also
    --------
    SVCCV : The same for kernels, over C and gamma.
    C_path : Machines along a path of C, without cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = LinearSVCCV(Cs=[0.01, 0.1, 1.0, 10.0], cv=3).fit(X, y)
    >>> search.best_params_
    {'C': 10.0}
    >>> search.best_estimator_.coef_.shape
    (3, 4)
    """

    def __init__(
        self,
        *,
        Cs: int | Sequence[float] = 10,
        cv: Any = None,
        scoring: Any = None,
        refit: bool | str | Callable[[dict[str, Any]], int] = True,
        penalty: Literal["l1", "l2"] = "l2",
        loss: Literal["hinge", "squared_hinge"] = "squared_hinge",
        dual: bool | Literal["auto"] = "auto",
        tol: float | None = None,
        multi_class: Literal["ovr", "crammer_singer"] = "ovr",
        fit_intercept: bool | Literal["regularized"] = True,
        intercept_scaling: float = 1.0,
        class_weight: ClassWeight = None,
        gap_tol: float | None = 1e-3,
        max_seconds: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        verbose: bool = False,
        solver: LinearSolverName = "auto",
    ) -> None:
        store_parameters(locals())

    def _template(self) -> LinearSVC:
        return LinearSVC(**{name: getattr(self, name) for name in SHARED})

    def _check_template(self, template: LinearSVC) -> None:
        check_linear_parameters(template)

    def _learning(self, y: Any) -> LinearClasses:
        self.classes_, labels = validation.classes_and_labels(y)
        return LinearClasses(self, y, self.classes_, labels)

    def _axes(self, template: Any, X: Any, weights: Vector | None) -> tuple[Any, dict[str, list[float]], list[dict[str, float]]]:
        values = geometric_or_given("Cs", self.Cs, C_RANGE, 1.0)
        return X, {"C": values}, [{"C": C} for C in sorted(values)]

    def _grid(
        self, template: Any, samples: Any, learning: Any, data: FoldedData, results: Results, scorers: Mapping[str, Any]
    ) -> LinearGrid:
        return LinearGrid(template, samples, learning.targets, data, results.points, scorers)

    def _describe(self, machine: Any) -> str:
        return f"{np.count_nonzero(machine.coef_)} weights"

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The decision values of the best machine."""
        return np.asarray(self._best().decision_function(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The score of the best machine by `scoring`; the accuracy by default."""
        return self._score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClasses(Targets):
    """Classes for linear machines to learn."""

    def __init__(self, search: LinearSVCCV, y: NDArray[Any], classes: NDArray[Any], labels: NDArray[np.intp]) -> None:
        self.targets, self._search, self._classes, self._labels = y, search, classes, labels

    def require_trainable(self, weights: Vector) -> None:
        factors = validation.class_weights(self._search.class_weight, self._classes, self._labels, weights)
        validation.require_two_classes(self._labels, weights * factors[self._labels])


@dataclass(frozen=True)
class LinearGrid:
    """The machine at each point, in their order, on all folds at a time."""

    machine: LinearSVC
    X: Any
    y: NDArray[Any]
    data: FoldedData
    points: Sequence[Mapping[str, float]]
    scorers: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.points) * len(self.data.folds)

    def run(self, control: Control) -> Generator[Fit, None, None]:
        """Yield the fits of a point when its folds are all done, until the last point or the end that the control asks for."""
        machine, n_folds = self.machine.set_params(warm_start=True), len(self.data.folds)
        weights = [self.data.weights_of(fold) for fold in range(n_folds)]
        for point, parameters in enumerate(self.points):
            started = time.perf_counter()
            trained = train_folds(machine.set_params(**parameters), self.X, self.y, weights, control.share())
            if control.ended() is not None:
                break
            seconds = (time.perf_counter() - started) / n_folds
            for fold, one in enumerate(trained):
                scored = time.perf_counter()
                scores = self._scores(one, self.data.folds[fold])
                took = time.perf_counter() - scored
                yield Fit(0, point, fold, scores, one.certificate_.relative_gap, one.status_, seconds, took)
        machine.set_params(warm_start=False)

    def _scores(self, machine: LinearSVC, held_out: NDArray[np.bool_]) -> dict[str, float]:
        own = self.data.own_weights
        share = None if own is None else own[held_out]
        known = self.X[held_out], self.y[held_out]
        return {name: weighted_score(scorer, machine, *known, share) for name, scorer in self.scorers.items()}
