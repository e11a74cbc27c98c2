"""Labels, regression targets and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .features import choose, power_of_ten

Vector = NDArray[np.float64]


def make_labels(rng: Generator, X: NDArray[Any], n_classes: int) -> NDArray[Any]:
    """A label for each sample; each of the classes has one at least (there are as many samples as classes at least)."""
    n = len(X)
    kind = choose(rng, {"separable": 3, "noisy": 4, "random": 2, "imbalanced": 1.5, "single": 1, "conflicting": 1})
    scores = _scores(rng, X)
    labels = np.searchsorted(np.quantile(scores, np.arange(1, n_classes) / n_classes), scores)
    match kind:
        case "noisy":
            wrong = rng.random(n) < rng.uniform(0.02, 0.3)
            labels = np.where(wrong, rng.integers(n_classes, size=n), labels)
        case "random":
            labels = rng.integers(n_classes, size=n)
        case "imbalanced":
            shares = 10.0 ** rng.uniform(-2, 0, size=n_classes)
            labels = rng.choice(n_classes, size=n, p=shares / shares.sum())
        case "single":
            labels = np.zeros(n, dtype=int)
        case "conflicting" if n > 2 * n_classes:  # pairs of equal samples in different classes
            X[1::2][: n // 2] = X[::2][: n // 2]
            labels[1::2] = (labels[::2][: n // 2] + 1) % n_classes
    labels[rng.permutation(n)[:n_classes]] = np.arange(n_classes)
    return _names(rng, n_classes)[labels]


def _scores(rng: Generator, X: NDArray[Any]) -> Vector:
    """A value by which the samples can be told apart: a line, or a distance; ties are broken at random."""
    size = np.abs(X).max(axis=0).astype(float)
    unit = X / np.where(size > 0, size, 1.0)
    line, distance = unit @ rng.normal(size=X.shape[1]), np.linalg.norm(unit - unit.mean(axis=0), axis=1)
    score = line if rng.random() < 0.5 else distance
    return np.asarray(score + 1e-9 * rng.normal(size=len(X)), dtype=float)


def _names(rng: Generator, n_classes: int) -> NDArray[Any]:
    """What the classes are called."""
    kinds = {"numbers": 5, "signs": 2, "floats": 1, "strings": 1, "scattered": 1, "booleans": 0.5}
    match choose(rng, kinds):
        case "signs" if n_classes == 2:
            return np.array([-1, 1])
        case "floats":
            return np.arange(n_classes) - 1.0
        case "strings":
            return np.array(["ant", "bee", "cat", "dog", "elk"][:n_classes])
        case "scattered":
            return np.sort(rng.choice(1000, size=n_classes, replace=False)) - 500
        case "booleans" if n_classes == 2:
            return np.array([False, True])
    return np.arange(n_classes)


def make_values(rng: Generator, X: NDArray[Any]) -> Vector:
    """A regression target for each sample."""
    n = len(X)
    kinds = {
        "smooth": 5,
        "noise": 2,
        "scaled": 3,
        "constant": 1,
        "in the tube": 1,
        "cauchy": 1,
        "integers": 1,
        "offset": 1,
    }
    smooth = np.sin(3.0 * _scores(rng, X)) + 0.1 * rng.normal(size=n)
    match choose(rng, kinds):
        case "noise":
            return rng.normal(size=n)
        case "scaled":
            return smooth * power_of_ten(rng, -8, 8)
        case "constant":
            return np.full(n, choose(rng, {0.0: 1, 1.0: 1, -3.7: 1, 1e6: 1, 1e-9: 1}))
        case "in the tube":
            return 0.05 * np.tanh(smooth)
        case "cauchy":
            return rng.standard_cauchy(size=n) * power_of_ten(rng, -3, 6)
        case "integers":
            return rng.integers(-5, 6, size=n).astype(float)
        case "offset":
            return smooth + power_of_ten(rng, 2, 9)
    return smooth


def make_weights(rng: Generator, n: int) -> Vector | None:
    match choose(rng, {"none": 14, "small": 3, "decades": 2, "zeros": 2, "whole": 1, "tiny": 0.5}):
        case "small":
            return rng.choice([0.5, 1.0, 2.0], size=n)
        case "decades":
            return 10.0 ** rng.uniform(-6, 6, size=n)
        case "zeros":
            return rng.choice([0.0, 1.0, 2.5], size=n)
        case "whole":
            return rng.integers(1, 5, size=n).astype(float)
        case "tiny":
            return np.full(n, power_of_ten(rng, -8, 3))
    return None


def make_class_weight(rng: Generator, classes: NDArray[Any]) -> Any:
    match choose(rng, {"none": 16, "balanced": 3, "dict": 2, "partial": 1, "zero": 0.3}):
        case "balanced":
            return "balanced"
        case "dict":
            return {name: power_of_ten(rng, -2, 2) for name in classes.tolist()}
        case "partial":
            return {classes.tolist()[0]: power_of_ten(rng, -3, 3)}
        case "zero" if len(classes) > 2:
            return {classes.tolist()[0]: 0.0}
    return None
