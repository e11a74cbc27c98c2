"""A fitted model and its training set as dual problems, with the dual points that the library reached.

A model stores one coefficient per support vector. The dual variables beta follow from them:

    SVC           the coefficients
    NuSVC         rho times the coefficients: the model was divided by its margin rho = nu (sum_i s_i) / (sum_i |coefficient_i|)
    SVR           two variables per sample, the positive and the negative part of its coefficient
    NuSVR         as for SVR, with both halves raised until their sums are right, which changes neither machine nor dual value
    OneClassSVM   the coefficients
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from maxmargin.audits.fitted import Fitted
from maxmargin.audits.matching import find_rows, first_difference
from maxmargin.backends import Backend
from maxmargin.estimators import validation
from maxmargin.formulations import DualProblem, costs, make_loss
from maxmargin.gram import AugmentedGram, Gram
from maxmargin.kernels import Kernel
from maxmargin.samples import Samples
from maxmargin.tasks import (
    ByClass,
    ClassificationTask,
    CostMachine,
    NuMachine,
    NuTube,
    OneClassTask,
    RegressionTask,
    Task,
    Tube,
)

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

EXACT = np.dtype(np.float64)


@dataclass(frozen=True)
class Posed:
    """The problem that a machine was meant to solve, over its part of the kernel matrix, and the dual point it reached. `margin`
    is what a nu-classifier was divided by; a negative one has reversed the machine."""

    problem: DualProblem
    gram: Gram
    beta: Vector
    bias: float
    margin: float | None = None


def pose(
    fitted: Fitted, kernel: Kernel, samples: Samples, y: Any, weights: Vector, backend: Backend
) -> tuple[Task, list[Posed], Indices]:
    """The task that a model was trained for, its machines as dual points of the problems, and the sample numbers of its support
    vectors."""
    labels, rank = np.zeros(len(samples), dtype=np.intp), weights  # what tells equal rows of X apart
    if fitted.classifies:
        classes, labels = _labels(fitted, samples, y)
        rank = weights = weights * validation.class_weights(fitted.class_weight, classes, labels, weights)[labels]
    elif fitted.regresses:
        rank = _targets(fitted, samples, y)
    coefficients = _over_all_samples(fitted, samples.rows, weights, rank, labels)
    task = _classification(fitted, labels, len(classes), weights) if fitted.classifies else _other_task(fitted, rank, weights)
    gram = backend.gram(kernel, samples if task.order is None else samples.take(task.order), EXACT, 0, task.segments)
    grams = task.parts(AugmentedGram(gram) if fitted.augmented else gram)
    if len(fitted.intercepts) != len(task.problems):
        raise ValueError(
            f"the model has {len(fitted.intercepts)} intercepts, and its classes need {len(task.problems)}: y must hold the "
            "labels it was fitted on"
        )
    machines = []
    encoded = task.encode(coefficients)
    for problem, part, (beta, divisor), bias in zip(task.problems, grams, encoded, fitted.intercepts, strict=True):
        margin = divisor * float(np.sign((problem.upper + problem.lower) @ beta)) if fitted.machine == "NuSVC" else None
        machines.append(Posed(problem, part, beta, divisor * float(bias), margin))
    return task, machines, np.flatnonzero(coefficients.any(axis=0))


def _classification(fitted: Fitted, labels: Indices, n_classes: int, weights: Vector) -> Task:
    by_class = ByClass.of(labels, n_classes, fitted.strategy)
    machine: CostMachine | NuMachine
    if fitted.machine == "SVC":
        machine = CostMachine(fitted.parameter("C"), make_loss(fitted.loss or "hinge"), fitted.fit_intercept)
    else:
        machine = NuMachine(fitted.parameter("nu"), clipped=True)
    return ClassificationTask(by_class, weights[by_class.order], machine, fitted.strategy)


def _other_task(fitted: Fitted, targets: Vector, weights: Vector) -> Task:
    if not fitted.regresses:
        return OneClassTask(weights, fitted.parameter("nu"))
    tube: Tube | NuTube
    if fitted.machine == "SVR":
        loss = make_loss(fitted.loss or "epsilon_insensitive")
        tube = Tube(fitted.parameter("epsilon"), loss, fitted.fit_intercept)
    else:
        tube = NuTube(fitted.parameter("nu"))
    return RegressionTask(targets, costs(fitted.parameter("C"), weights), tube)


def _labels(fitted: Fitted, samples: Samples, y: Any) -> tuple[NDArray[Any], Indices]:
    """The classes of the model, and for each sample the number of its class."""
    labels = _column(fitted, samples, y)
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


def _targets(fitted: Fitted, samples: Samples, y: Any) -> Vector:
    targets = _column(fitted, samples, y)
    if targets.dtype.kind not in "iufb" or not np.isfinite(targets).all():
        raise ValueError("y has targets that are not finite numbers: pass those the model was fitted on")
    return targets.astype(np.float64)


def _column(fitted: Fitted, samples: Samples, y: Any) -> NDArray[Any]:
    if y is None:
        what = "labels" if fitted.classifies else "targets"
        raise ValueError(f"y=None: the {what} that this {fitted.machine} was fitted on are needed: audit(model, X, y)")
    column: NDArray[Any] = column_or_1d(y)
    check_consistent_length(samples.X, column)
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
