"""Whether an input may be refused.

A library may refuse input that has no solution or no meaning in float64. It may not refuse ordinary data. Input that is
hard but possible lies between the two; its refusal is not a finding, but `harm` has to name the reason."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .exact_kernels import ExactKernel
from .problems import Problem

LARGEST_VALUE, SMALLEST_VALUE = 1e20, 1e-20  # range of ordinary kernel values
LARGEST_TARGET = 1e12
MOST_SAMPLES = 200  # samples whose kernel matrix is examined


def harm(problem: Problem) -> str | None:
    """The reason why a refusal is acceptable; None if it is not."""
    return _in_weights(problem) or _in_targets(problem) or _in_kernel(problem)


def _in_weights(problem: Problem) -> str | None:
    weights = np.ones(len(problem.X)) if problem.sample_weight is None else problem.sample_weight
    if not (weights > 0).any():
        return "no sample has a weight"
    if not problem.classifies:
        return None
    factors = problem.params.get("class_weight")
    if isinstance(factors, dict):
        weights = weights * np.array([factors.get(name, 1.0) for name in np.asarray(problem.y).tolist()])
    classes = np.unique(problem.y)
    totals = np.array([weights[problem.y == name].sum() for name in classes])
    if (totals > 0).sum() < 2:
        return "one class has all the weight"
    if factors == "balanced":
        totals = np.where(totals > 0, totals.sum() / len(classes), 0.0)
    if problem.estimator == "SVCCV" and (totals == 0).any():
        return "a class without weight"
    if problem.estimator == "NuSVC":
        with np.errstate(invalid="ignore"):
            most = min(2.0 * min(a, b) / (a + b) for a, b in combinations(totals, 2))
        if not problem.params["nu"] <= most * (1 - 1e-9):
            return "nu is too large for the smaller class"
    return None


def _in_targets(problem: Problem) -> str | None:
    if problem.classifies or problem.y is None:
        return None
    return "targets are huge" if float(np.abs(problem.y).max()) > LARGEST_TARGET else None


def weighted_variance(problem: Problem) -> float:
    """The variance of all entries of X, by which gamma='scale' is chosen, in 80-bit arithmetic."""
    X = problem.X.astype(np.longdouble)
    weights = np.ones(len(X)) if problem.sample_weight is None else np.maximum(problem.sample_weight, 0.0)
    if not weights.sum() > 0.0:
        return 0.0
    share = weights.astype(np.longdouble) / weights.sum()
    return float((share @ (X - (share @ X).mean()) ** 2).mean())


def _in_kernel(problem: Problem) -> str | None:
    """Kernel values that are extreme or not finite; a ridge term that is negligible beside them; an indefinite kernel."""
    broken_power = problem.params.get("degree", 3) % 1 != 0  # one negative dot product of all makes it undefined
    step = 1 if broken_power else -(-len(problem.X) // MOST_SAMPLES)
    X = problem.X[:MOST_SAMPLES, :MOST_SAMPLES] if problem.precomputed else problem.X[::step]
    if not problem.precomputed:  # and the largest sample, which the selection may miss
        X = np.vstack([X, problem.X[[int(np.abs(problem.X).max(axis=1).argmax())]]])
    kernel = "linear" if problem.linear else problem.params["kernel"]
    gamma = problem.params.get("gamma", "scale")
    if callable(kernel):
        exact = ExactKernel.of_callable(kernel, X)
    elif kernel == "precomputed":
        exact = ExactKernel("matrix", X)
    else:
        if "sigma" in problem.params:
            gamma = 1.0 / problem.params["sigma"] ** (2 if kernel == "rbf" else 1)
        if isinstance(gamma, str):
            spread = weighted_variance(problem)
            gamma = 1.0 / X.shape[1] if gamma == "auto" else 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
        gammas = problem.params.get("gammas", [gamma])
        exact = ExactKernel(kernel, X, max(gammas), problem.params.get("coef0", 0.0), problem.params.get("degree", 3))
    everyone = np.arange(len(X))
    block = exact.block(everyone, everyone)
    largest = float(np.abs(block.magnitudes).max())
    entry = float(np.abs(problem.X).max())
    if not np.isfinite(block.values).all():
        return "kernel values are not finite"
    if not SMALLEST_VALUE <= largest <= LARGEST_VALUE or entry > LARGEST_VALUE:
        return "kernel values are huge or tiny"
    if problem.estimator == "KernelRegressor" and problem.params["alpha"] < 1e-8 * largest:
        return "the ridge is nothing beside the kernel"
    eigenvalues = np.linalg.eigvalsh(block.values.astype(float))
    if eigenvalues[0] < -1e-6 * eigenvalues[-1]:
        return "the kernel is not positive semi-definite"
    return None
