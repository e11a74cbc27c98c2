"""A failing problem made smaller while it still fails in the same way.

In turn, until nothing helps any more: drop samples (halves, quarters, ..., one by one), drop features, replace
parameters by their defaults, drop weights, use the plain layout and float64, round the numbers. Each step keeps a
change if the same check fails with the same kind of finding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .problems import Problem

DIGITS = (1, 2, 3, 5, 8)
PLAIN_NUMBERS = {
    "C": 1.0,
    "gamma": 1.0,
    "coef0": 1.0,
    "tol": 1e-3,
    "gap_tol": 1e-3,
    "nu": 0.5,
    "epsilon": 0.1,
    "alpha": 1.0,
    "intercept_scaling": 1.0,
}


def shrink(problem: Problem, fails: Callable[[Problem], bool], seconds: float = 60.0) -> Problem:
    """The smallest problem found in this time. `fails` says whether a problem still fails in the same way."""
    end = time.monotonic() + seconds
    seen = size(problem)
    while True:
        for step in (_drop_samples, _drop_features, _drop_options, _simplify_data, _round_numbers):
            problem = _follow(step, problem, fails, end)
        if size(problem) == seen or time.monotonic() > end:
            return problem
        seen = size(problem)


def size(problem: Problem) -> tuple[int, ...]:
    """The size of a problem, which shrinking reduces."""
    digits = sum(len(repr(float(value))) for value in problem.X.ravel()[:2000])
    return (problem.X.size, len(problem.params), problem.sample_weight is not None, problem.layout != "C", digits)


def _follow(
    step: Callable[[Problem], Iterator[Problem]], problem: Problem, fails: Callable[[Problem], bool], end: float
) -> Problem:
    """Take each change that keeps the failure, and go on from there."""
    while time.monotonic() < end:
        for candidate in step(problem):
            if time.monotonic() > end:
                return problem
            if _valid(candidate) and fails(candidate):
                problem = candidate
                break
        else:
            return problem
    return problem


def _valid(problem: Problem) -> bool:
    if problem.X.size == 0 or (problem.classifies and len(np.unique(problem.y)) < 2):
        return False
    return problem.sample_weight is None or bool((problem.sample_weight > 0).any())


def _drop_samples(problem: Problem) -> Iterator[Problem]:
    n = len(problem.X)
    block = n // 2
    while block >= 1:
        for start in range(0, n, block):
            rows = np.delete(np.arange(n), slice(start, start + block))
            if len(rows):
                yield problem.take(rows)
        block //= 2


def _drop_features(problem: Problem) -> Iterator[Problem]:
    d = problem.X.shape[1]
    if problem.precomputed or d == 1:
        return
    block = d // 2
    while block >= 1:
        for start in range(0, d, block):
            columns = np.delete(np.arange(d), slice(start, start + block))
            if len(columns):
                yield replace(problem, X=np.ascontiguousarray(problem.X[:, columns]))
        block //= 2


def _drop_options(problem: Problem) -> Iterator[Problem]:
    """Default parameters, plain numbers, no weights, no history."""
    if problem.sample_weight is not None:
        yield replace(problem, sample_weight=None)
        if len(np.unique(problem.sample_weight)) > 2:
            yield replace(problem, sample_weight=np.where(problem.sample_weight > 1, 2.0, 1.0))
    if problem.first:
        params = {name: value for name, value in problem.params.items() if name != "warm_start"}
        yield replace(problem, first={}, params=params)
    if len(problem.path) > 1:
        for k in range(len(problem.path)):
            yield replace(problem, path=problem.path[:k] + problem.path[k + 1 :])
    for name in problem.params:
        if name not in ("alpha", "warm_start", *problem.first):
            yield replace(problem, params={key: value for key, value in problem.params.items() if key != name})
    for name, value in problem.params.items():
        plain = PLAIN_NUMBERS.get(name)
        if plain is not None and isinstance(value, float) and value != plain:
            yield replace(problem, params={**problem.params, name: plain})
        if isinstance(value, float) and np.isfinite(value) and value != float(f"{value:.1g}"):
            yield replace(problem, params={**problem.params, name: float(f"{value:.1g}")})


def _simplify_data(problem: Problem) -> Iterator[Problem]:
    if problem.layout != "C":
        yield replace(problem, layout="C")
    if problem.layout not in ("C", "csr"):
        yield replace(problem, layout="csr")
    if problem.X.dtype != np.float64:
        yield replace(problem, X=problem.X.astype(np.float64))
    if problem.classifies and problem.y is not None:
        classes, labels = np.unique(problem.y, return_inverse=True)
        if not np.array_equal(classes, np.arange(len(classes))) and not isinstance(problem.params.get("class_weight"), dict):
            yield replace(problem, y=labels)
        if len(classes) > 2:
            yield replace(problem, y=np.where(problem.y == classes[0], classes[0], classes[1]))
    elif problem.y is not None and problem.y.ndim == 2:
        yield replace(problem, y=np.ascontiguousarray(problem.y[:, 0]))


def _round_numbers(problem: Problem) -> Iterator[Problem]:
    """Fewer digits: all at once, then feature by feature."""
    for values, rebuilt in _number_fields(problem):
        for digits in DIGITS:
            rounded = _rounded(values, digits)
            if not np.array_equal(rounded, values):
                yield rebuilt(rounded)
    if not problem.precomputed and problem.X.shape[1] > 1:
        for column in range(problem.X.shape[1]):
            X = problem.X.copy()
            X[:, column] = _rounded(X[:, column], 1)
            if not np.array_equal(X, problem.X):
                yield replace(problem, X=X)


def _number_fields(problem: Problem) -> Iterator[tuple[Any, Callable[[Any], Problem]]]:
    yield problem.X, lambda values: replace(problem, X=values)
    if not problem.classifies and problem.y is not None:
        yield problem.y, lambda values: replace(problem, y=values)
    if problem.sample_weight is not None:
        yield problem.sample_weight, lambda values: replace(problem, sample_weight=values)


def _rounded(values: Any, digits: int) -> Any:
    """The values rounded to `digits` digits each."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(values.astype(float)))))
        rounded = np.where(values == 0, 0.0, np.round(values.astype(float) * power) / power)
    return np.where(np.isfinite(rounded), rounded, values).astype(values.dtype)
