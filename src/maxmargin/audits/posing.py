"""A fitted model and its training set as dual problems, with the dual points that the library reached.

A model stores one coefficient per support vector. The dual variables beta follow from them:

    SVC           the coefficients
    NuSVC         rho times the coefficients: the model was divided by its margin rho = nu (sum_i s_i) / (sum_i |coefficient_i|)
    SVR           two variables per sample, the positive and the negative part of its coefficient
    NuSVR         as for SVR, with both halves raised until their sums are right, which changes neither machine nor dual value
    OneClassSVM   the coefficients
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from maxmargin.audits.fitted import Fitted
from maxmargin.audits.matching import find_rows, first_difference
from maxmargin.backends import Backend
from maxmargin.certificates import TINY, Certificate
from maxmargin.estimators import validation
from maxmargin.estimators.by_class import ByClass
from maxmargin.estimators.classifier import in_order_of_samples
from maxmargin.formulations import (
    DualProblem,
    classification_problem,
    costs,
    merge_halves,
    nu_classification_problem,
    nu_regression_problem,
    one_class_problem,
    regression_problem,
)
from maxmargin.formulations.filling import fill_up
from maxmargin.gram import AugmentedGram, DoubledGram, Gram
from maxmargin.kernels import Kernel, Precomputed
from maxmargin.multiclass import spread_coefficients

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

EXACT = np.dtype(np.float64)


@dataclass(frozen=True)
class Posed:
    """The problem that a machine was meant to solve, over its part of the kernel matrix, and the dual point it reached. `rho` is
    the margin that a nu-classifier was divided by; a negative one has reversed the machine."""

    problem: DualProblem
    gram: Gram
    beta: Vector
    bias: float
    margin: float | None = None


@dataclass(frozen=True)
class Task:
    """The machines of a model, the sample numbers of their support vectors, and the function that combines their certificates
    into one, with gap terms in the order of the samples."""

    machines: Sequence[Posed]
    support: Indices
    together: Callable[[Sequence[Certificate]], Certificate]


def pose(fitted: Fitted, kernel: Kernel, X: Any, y: Any, weights: Vector, backend: Backend) -> Task:
    """State the dual problems of a model, by its kind of machine."""
    if fitted.classifies:
        return _pose_classification(fitted, kernel, X, y, weights, backend)
    n = X.shape[0]
    gram = backend.gram(kernel, X, EXACT, 0, (0, n))
    bias = float(fitted.intercepts[0])
    if not fitted.regresses:
        beta = _over_all_samples(fitted, X, weights, weights, np.zeros(n, dtype=np.intp))[0]
        problem = one_class_problem(weights, fitted.parameter("nu"))
        return Task([Posed(problem, gram, beta, bias)], np.flatnonzero(beta), lambda proofs: proofs[0])
    targets = _targets(fitted, X, y)
    beta = _over_all_samples(fitted, X, weights, targets, np.zeros(n, dtype=np.intp))[0]
    cost = costs(fitted.parameter("C"), weights)
    halves = np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)])
    if fitted.machine == "SVR":
        loss = fitted.loss or "epsilon_insensitive"
        problem = regression_problem(targets, cost, fitted.parameter("epsilon"), loss, fitted.fit_intercept)
    else:
        problem = nu_regression_problem(targets, cost, fitted.parameter("nu"))
        lacking = 0.5 * (fitted.parameter("nu") * float(cost.sum()) - float(np.abs(beta).sum()))
        both = fill_up(np.maximum(cost - np.abs(beta), 0.0), max(lacking, 0.0))
        halves += np.concatenate([both, -both])
    return Task(
        [Posed(problem, DoubledGram(gram), halves, bias)],
        np.flatnonzero(beta),
        lambda proofs: replace(proofs[0], gap_terms=merge_halves(proofs[0].gap_terms)),
    )


def _pose_classification(fitted: Fitted, kernel: Kernel, X: Any, y: Any, weights: Vector, backend: Backend) -> Task:
    classes, labels = _labels(fitted, X, y)
    weights = weights * validation.class_weights(fitted.class_weight, classes, labels, weights)[labels]
    coefficients = _over_all_samples(fitted, X, weights, weights, labels)
    by_class = ByClass.of(labels, len(classes), fitted.strategy)
    order = by_class.order
    sorted_X = X[np.ix_(order, order)] if isinstance(kernel, Precomputed) else X[order]
    gram = backend.gram(kernel, sorted_X, EXACT, 0, by_class.edges)
    grams = by_class.parts(AugmentedGram(gram) if fitted.augmented else gram)
    betas = spread_coefficients(by_class.plan, coefficients[:, order], by_class.edges, fitted.strategy)
    if len(fitted.intercepts) != len(betas):
        raise ValueError(
            f"the model has {len(fitted.intercepts)} intercepts, and {len(classes)} classes need {len(betas)}: y must hold the "
            "labels it was fitted on"
        )
    machines = []
    for (machine, members), gram, beta, bias in zip(by_class.machines(), grams, betas, fitted.intercepts, strict=True):
        signs, weight = machine.signs(by_class.edges), weights[order][members]
        if fitted.machine == "SVC":
            cost = costs(fitted.parameter("C"), weight)
            problem = classification_problem(signs, cost, fitted.loss or "hinge", fitted.fit_intercept)
            machines.append(Posed(problem, gram, beta, float(bias)))
        else:
            problem = nu_classification_problem(signs, weight, fitted.parameter("nu"))
            rho = fitted.parameter("nu") * float(weight.sum()) / max(float(np.abs(beta).sum()), TINY)
            machines.append(Posed(problem, gram, rho * beta, rho * float(bias), rho * np.sign(float(signs @ beta))))
    return Task(machines, np.flatnonzero(coefficients.any(axis=0)), lambda proofs: in_order_of_samples(proofs, by_class))


def _labels(fitted: Fitted, X: Any, y: Any) -> tuple[NDArray[Any], Indices]:
    """The classes of the model, and for each sample the number of its class."""
    labels = _column(fitted, X, y)
    classes = fitted.classes
    if classes is None:
        appearing, first = np.unique(labels, return_index=True)
        classes = appearing[np.argsort(first)]
    number_of = {label: number for number, label in enumerate(classes.tolist())}
    unknown = [label for label in np.unique(labels).tolist() if label not in number_of]
    if unknown:
        raise ValueError(
            f"y has the label {unknown[0]!r}, which the model does not know (it knows {', '.join(map(repr, number_of))}): pass "
            "the labels it was fitted on"
        )
    return classes, np.array([number_of[label] for label in labels.tolist()], dtype=np.intp)


def _targets(fitted: Fitted, X: Any, y: Any) -> Vector:
    targets = _column(fitted, X, y)
    if targets.dtype.kind not in "iufb" or not np.isfinite(targets).all():
        raise ValueError("y has targets that are not finite numbers: pass those the model was fitted on")
    return targets.astype(np.float64)


def _column(fitted: Fitted, X: Any, y: Any) -> NDArray[Any]:
    if y is None:
        what = "labels" if fitted.classifies else "targets"
        raise ValueError(f"y=None: the {what} that this {fitted.machine} was fitted on are needed: audit(model, X, y)")
    column: NDArray[Any] = column_or_1d(y)
    check_consistent_length(X, column)
    return column


def _over_all_samples(fitted: Fitted, X: Any, weights: Vector, rank: Vector, labels: Indices) -> NDArray[np.float64]:
    """The coefficients of all training samples; zero for samples that are not support vectors."""
    coefficients = np.zeros((len(fitted.coefficients), X.shape[0]))
    if fitted.support is None:
        strength = fitted.coefficients[0] if fitted.regresses else np.abs(fitted.coefficients).sum(axis=0)
        counts = np.array([len(strength)]) if fitted.n_support is None else fitted.n_support
        class_of_vector = np.repeat(np.arange(len(counts)), counts)
        support = find_rows(fitted.vectors, X, strength, rank, class_of_vector, labels, fitted.digits)
    else:
        support = _numbers(fitted, X, weights, fitted.support)
        _check_classes(fitted, weights, labels[support])
    coefficients[:, support] = fitted.coefficients
    return coefficients


def _numbers(fitted: Fitted, X: Any, weights: Vector, support: Indices) -> Indices:
    """The rows of X that are the support vectors: the numbers that the model stores, after a check that they are right.

    scikit-learn leaves samples of zero weight out and numbers the rest. With a precomputed or callable kernel it also predicts
    with these wrong numbers, so there the wrong numbers are the model.
    """
    n = X.shape[0]
    if fitted.n_samples not in (None, n) or support.max(initial=-1) >= n:
        expected = f"on {fitted.n_samples}" if fitted.n_samples is not None else f"on {support.max() + 1} at least"
        raise ValueError(f"X has {n} samples, and the model was fitted {expected}: pass its training set, in the same order")
    if fitted.vectors is None or fitted.vectors.shape[1] != X.shape[1]:
        return support
    different = first_difference(fitted.vectors, X, support)
    if different is None:
        return support
    taking_part = np.flatnonzero(weights > 0.0)
    if support.max() < len(taking_part) < n and first_difference(fitted.vectors, X, taking_part[support]) is None:
        return taking_part[support]
    raise ValueError(
        f"row {support[different]} of X is not the support vector that the model has there: X must be the training set, in the "
        "same order and scaled as it was for the fit, and sample_weight that of the fit"
    )


def _check_classes(fitted: Fitted, weights: Vector, labels: Indices) -> None:
    """Check that each class has as many support vectors as the model says, unless their sample numbers may be wrong."""
    counts = fitted.n_support if fitted.classifies else None
    if counts is None or (fitted.vectors is None and (weights == 0.0).any()):
        return
    if (seen := np.bincount(labels, minlength=len(counts))).tolist() != counts.tolist():
        raise ValueError(
            f"y gives the classes {seen.tolist()} support vectors, and the model {counts.tolist()}: pass the labels that it was "
            "fitted on, in the order of the samples"
        )
