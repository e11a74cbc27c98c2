"""A fitted model as the oracle's machines, from its public attributes and the data as the user gave them.

The layout of ``dual_coef_`` is scikit-learn's: one row for two classes, positive for the second. One-vs-one of k
classes has k - 1 rows; a support vector of class i has its coefficient against class j in row j - 1 if i < j and in
row j if i > j, and a machine for i < j is positive for i. One-vs-rest has a row for each class. Crammer and Singer's
machine too; of two classes it has the difference of the two."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .exact_kernels import Exact, ExactKernel, Real
from .machines import FREE, NONE, WEIGHT, Classification, NuClassification, NuRegression, OneClass, Regression
from .oracle import Joint, Ridge
from .problems import Problem

AUGMENTING = "dual-ascent"  # the solver whose intercept is a weight


def exact_kernel(model: Any, problem: Problem) -> ExactKernel:
    """The kernel matrix of the training set, with the gamma that the model used."""
    if callable(model.kernel):
        return ExactKernel.of_callable(model.kernel, problem.X)
    if model.kernel == "precomputed":
        return ExactKernel("matrix", problem.X)
    return ExactKernel(model.kernel, problem.X, float(model.gamma_), float(model.coef0), float(model.degree))


def sample_weights(problem: Problem) -> Exact:
    n = len(problem.X)
    given = np.ones(n) if problem.sample_weight is None else problem.sample_weight
    return np.maximum(given, 0).astype(Real)


def class_weights(model: Any, problem: Problem) -> Exact:
    """The weight of each class by its definition: balanced is total weight / (classes x weight of the class)."""
    classes = np.unique(problem.y)
    spec = model.class_weight
    if spec is None:
        return np.ones(len(classes), dtype=Real)
    if isinstance(spec, str):
        weights = sample_weights(problem)
        totals = np.array([weights[problem.y == name].sum() for name in classes], dtype=Real)
        totals = np.where(totals > 0, totals, 1)
        return totals.sum() / (len(classes) * totals)
    return np.array([spec.get(name, 1.0) for name in classes.tolist()], dtype=Real)


def coefficients(model: Any, n: int) -> Exact:
    """A row of coefficients for each row of ``dual_coef_``, a column for each training sample."""
    rows = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else np.asarray(model.dual_coef_)
    full = np.zeros((len(rows), n), dtype=Real)
    full[:, np.asarray(model.support_)] = rows
    return full


def machines_of(model: Any, problem: Problem) -> list[Any]:
    """The machines of a model, in the order of its intercepts."""
    kind = type(model).__name__
    if kind == "KernelRegressor":
        return [_ridge(model, problem)]
    if kind in ("SVC", "NuSVC"):
        if getattr(model, "multi_class", "ovo") == "crammer_singer":
            return [_joint(model, problem)]
        return list(_binary(model, problem))
    weights, beta = sample_weights(problem), coefficients(model, len(problem.X))[0]
    everyone, bias = np.arange(len(beta)), Real(model.intercept_[0])
    if kind == "OneClassSVM":
        return [OneClass(everyone, beta, bias, weights, Real(model.nu))]
    y, cost = np.asarray(problem.y).astype(Real), Real(model.C) * weights
    if kind == "NuSVR":
        return [NuRegression(everyone, beta, bias, y, cost, Real(model.nu), Real(model.epsilon_))]
    squared = model.loss == "squared_epsilon_insensitive"
    intercept = FREE if model.fit_intercept else NONE
    return [Regression(everyone, beta, bias, y, cost, Real(model.epsilon), squared, intercept=intercept)]


def pairs_and_signs(labels: NDArray[np.intp], n_classes: int, strategy: str) -> Iterator[tuple[Any, Any, int | None]]:
    """The members of each binary machine, their signs, and its row of coefficients (None: in the one-vs-one layout)."""
    everyone = np.arange(len(labels))
    if n_classes == 2:
        yield everyone, np.where(labels == 1, 1, -1), 0
    elif strategy == "ovr":
        for c in range(n_classes):
            yield everyone, np.where(labels == c, 1, -1), c
    else:
        for i, j in combinations(range(n_classes), 2):
            members = np.flatnonzero((labels == i) | (labels == j))
            yield members, np.where(labels[members] == i, 1, -1), None


def _binary(model: Any, problem: Problem) -> Iterator[Any]:
    n_classes, rows = len(model.classes_), coefficients(model, len(problem.X))
    labels = np.searchsorted(model.classes_, np.asarray(problem.y))
    weights = sample_weights(problem) * class_weights(model, problem)[labels]
    strategy = getattr(model, "multi_class", "ovo")
    pairs = list(combinations(range(n_classes), 2))
    for index, (members, signs, row) in enumerate(pairs_and_signs(labels, n_classes, strategy)):
        if row is None:
            i, j = pairs[index]
            beta = np.where(labels[members] == i, rows[j - 1, members], rows[i, members])
        else:
            beta = rows[row, members]
        part, bias = weights[members], Real(model.intercept_[index])
        if type(model).__name__ == "NuSVC":
            yield _nu(model, members, beta, bias, signs.astype(Real), part, index)
            continue
        with np.errstate(invalid="ignore"):
            cost = np.where(part > 0, Real(model.C) * part, 0)
        intercept = WEIGHT if model.solver == AUGMENTING else FREE
        squared = model.loss == "squared_hinge"
        yield Classification(
            members, beta, bias, signs.astype(Real), cost, squared, intercept=intercept if model.fit_intercept else NONE
        )


def _nu(model: Any, members: Any, beta: Exact, bias: Any, signs: Exact, weight: Exact, index: int) -> NuClassification:
    """The machine of a NuSVC. Its solution was divided by rho, unless rho is not positive; the class sums tell which."""
    rho, nu = Real(np.atleast_1d(model.rho_)[index]), Real(model.nu)
    total = nu * weight.sum()
    as_is = abs(np.abs(beta).sum() - total)
    scale = rho if abs(rho * np.abs(beta).sum() - total) < as_is else Real(1)
    return NuClassification(members, scale * beta, scale * bias, signs, weight, nu, rho, scale=scale)


def _joint(model: Any, problem: Problem) -> Joint:
    labels = np.searchsorted(model.classes_, np.asarray(problem.y))
    cost = Real(model.C) * sample_weights(problem) * class_weights(model, problem)[labels]
    rows = coefficients(model, len(problem.X))
    taking_part = np.unique(labels[cost > 0])
    if len(model.classes_) == 2:
        rows = np.vstack([-rows[0] / 2, rows[0] / 2])
    return Joint(rows[taking_part], labels == taking_part[:, None], cost)


def _ridge(model: Any, problem: Problem) -> Ridge:
    n = len(problem.X)
    beta = np.asarray(model.dual_coef_).reshape(n, -1).astype(Real)
    target = np.asarray(problem.y).reshape(n, -1).astype(Real)
    return Ridge(beta, target, sample_weights(problem), Real(model.alpha))
