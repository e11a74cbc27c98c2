"""Samples: from well behaved to hostile.

A set has a base (the distribution of the points) and, at random, a hardship or two (scales, offsets, outliers, duplicates).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def choose(rng: Generator, weights: dict[Any, float]) -> Any:
    """One of the keys, drawn with these weights."""
    keys = list(weights)
    shares = np.array(list(weights.values()), dtype=float)
    return keys[int(rng.choice(len(keys), p=shares / shares.sum()))]


def power_of_ten(rng: Generator, low: float, high: float) -> float:
    """10 to a power between `low` and `high`, rounded to few digits half of the time."""
    value = 10.0 ** rng.uniform(low, high)
    return float(f"{value:.1g}") if rng.random() < 0.5 else float(value)


# --- bases -----------------------------------------------------------------------------------------------------------


def gaussian(rng: Generator, n: int, d: int) -> Matrix:
    return rng.normal(size=(n, d))


def clusters(rng: Generator, n: int, d: int) -> Matrix:
    centres = rng.normal(scale=5.0, size=(int(rng.integers(2, 6)), d))
    return centres[rng.integers(len(centres), size=n)] + rng.normal(scale=0.3, size=(n, d))


def integers(rng: Generator, n: int, d: int) -> Matrix:
    return rng.integers(0, int(rng.integers(2, 10)), size=(n, d)).astype(float)


def one_hot(rng: Generator, n: int, d: int) -> Matrix:
    X = np.zeros((n, d))
    X[np.arange(n), rng.integers(d, size=n)] = 1.0
    return X


def sparse(rng: Generator, n: int, d: int) -> Matrix:
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < rng.uniform(0.01, 0.3))


def cauchy(rng: Generator, n: int, d: int) -> Matrix:
    return rng.standard_cauchy(size=(n, d))


def uniform(rng: Generator, n: int, d: int) -> Matrix:
    return rng.uniform(0.0, 1.0, size=(n, d))


BASES: dict[Callable[[Generator, int, int], Matrix], float] = {
    gaussian: 6,
    clusters: 3,
    integers: 2,
    one_hot: 1,
    sparse: 2,
    cauchy: 1.5,
    uniform: 2,
}


# --- hardships -------------------------------------------------------------------------------------------------------


def constant_columns(rng: Generator, X: Matrix) -> Matrix:
    X[:, rng.random(X.shape[1]) < 0.5] = choose(rng, {0.0: 1, 1.0: 1, 0.1: 1, 1e6: 1})
    return X


def exact_duplicates(rng: Generator, X: Matrix) -> Matrix:
    n = len(X)
    keep = int(rng.integers(1, n + 1))
    return X[rng.integers(keep, size=n)]


def near_duplicates(rng: Generator, X: Matrix) -> Matrix:
    X = exact_duplicates(rng, X)
    return X + 10.0 ** rng.uniform(-13, -6) * rng.normal(size=X.shape)


def outliers(rng: Generator, X: Matrix) -> Matrix:
    for _ in range(int(rng.integers(1, 4))):
        X[rng.integers(len(X)), rng.integers(X.shape[1])] = rng.choice([-1.0, 1.0]) * power_of_ten(rng, 2, 18)
    return X


def column_scales(rng: Generator, X: Matrix) -> Matrix:
    return X * 10.0 ** rng.uniform(-8, 8, size=X.shape[1])


def global_scale(rng: Generator, X: Matrix) -> Matrix:
    return X * power_of_ten(rng, -8, 8)


def large_offset(rng: Generator, X: Matrix) -> Matrix:
    """Add an offset as columns of dates have it: Unix time stamps are 1.6e9 seconds, years are 2024."""
    X[:, rng.integers(X.shape[1])] += choose(rng, {1.6e9: 2, 2024.0: 1, 1e5: 1, -1e7: 1})
    return X


def time_stamps(rng: Generator, X: Matrix) -> Matrix:
    X[:, rng.integers(X.shape[1])] = np.round(1.6e9 + 3e7 * rng.random(len(X)))
    return X


HARDSHIPS: dict[Callable[[Generator, Matrix], Matrix], float] = {
    constant_columns: 1,
    exact_duplicates: 1.5,
    near_duplicates: 1.5,
    outliers: 1.5,
    column_scales: 1,
    global_scale: 2,
    large_offset: 1,
    time_stamps: 0.5,
}


def make_samples(rng: Generator, n: int, d: int) -> Matrix:
    """n samples of d features."""
    X = choose(rng, BASES)(rng, n, d)
    for _ in range(choose(rng, {0: 6, 1: 4, 2: 1})):
        X = choose(rng, HARDSHIPS)(rng, X)
    return np.ascontiguousarray(X)
