"""Problems, and how they are given to the library."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maxmargin

from .layouts import arrange

CLASSIFIERS = ("SVC", "NuSVC", "SVCCV", "LinearSVC")
LINEAR = ("LinearSVC", "LinearSVR", "LinearOneClassSVM")
SEARCHES = ("SVCCV", "SVRCV")


@dataclass(frozen=True)
class Problem:
    """An estimator, its parameters (the others have their defaults) and a training set.

    ``X`` is dense; `arranged` is what the library gets. ``path`` are the values of C of a `C_path`, ``first`` the
    parameters of a fit before the one that is judged, for ``warm_start``."""

    estimator: str
    params: Mapping[str, Any]
    X: NDArray[Any]
    y: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None = None
    layout: str = "C"
    path: tuple[float, ...] = ()
    first: Mapping[str, Any] = field(default_factory=dict)

    @property
    def classifies(self) -> bool:
        return self.estimator in CLASSIFIERS

    @property
    def linear(self) -> bool:
        """Whether the estimator is a linear machine, which has weights instead of duals, and no backend."""
        return self.estimator in LINEAR

    @property
    def precomputed(self) -> bool:
        return bool(self.params.get("kernel") == "precomputed")

    def arranged(self) -> Any:
        return arrange(self.X, self.layout)

    def take(self, rows: NDArray[Any]) -> Problem:
        """The problem restricted to some of the samples."""
        X = self.X[np.ix_(rows, rows)] if self.precomputed else self.X[rows]
        y = None if self.y is None else self.y[rows]
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        return replace(self, X=np.ascontiguousarray(X), y=y, sample_weight=weights)

    def __str__(self) -> str:
        n, d = self.X.shape
        params = ", ".join(f"{name}={spell(value)}" for name, value in self.params.items())
        more = f", Cs={list(self.path)}" if self.path else ""
        more += f", after {dict(self.first)}" if self.first else ""
        weights = ", weights" if self.sample_weight is not None else ""
        name = f"C_path({self.estimator})" if self.path else self.estimator
        return f"{name}({params}){more} on {n} x {d} {self.X.dtype} {self.layout}{weights}"


def spell(value: Any) -> str:
    """A parameter value as Python code."""
    if callable(value):
        return str(value.__name__)
    return "np.inf" if isinstance(value, float) and np.isinf(value) else repr(value)


def make_estimator(problem: Problem, backend: str) -> Any:
    """The estimator with its parameters; ``gap_tol`` is left out if this version of the estimator does not have it."""
    kind = getattr(maxmargin, problem.estimator)
    params = dict(problem.params)
    if "gap_tol" not in inspect.signature(kind).parameters:
        params.pop("gap_tol", None)
    return kind(**params) if problem.linear else kind(backend=backend, **params)


def fit(problem: Problem, backend: str) -> list[Any]:
    """The fitted models: one, or one for each value of a path."""
    X = problem.arranged()
    model = make_estimator(problem, backend)
    if problem.path:
        path = maxmargin.C_path(X, problem.y, problem.path, estimator=model, sample_weight=problem.sample_weight)
        return list(path.machines)
    if problem.first:
        final = {name: model.get_params()[name] for name in problem.first}
        model.set_params(**problem.first)
        _fit_once(model, X, problem)
        model.set_params(**final)
    _fit_once(model, X, problem)
    return [model]


def _fit_once(model: Any, X: Any, problem: Problem) -> None:
    if problem.sample_weight is None:
        model.fit(X, problem.y)
    else:
        model.fit(X, problem.y, sample_weight=problem.sample_weight)
