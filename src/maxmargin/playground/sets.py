"""The classic data sets of the page, and CSV files. A set is a list of points [x, y, class], and the machine that suits it."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.datasets import load_iris, make_blobs, make_circles, make_moons
from sklearn.preprocessing import scale

from maxmargin.io.columns import Reading
from maxmargin.io.delimited import parse_csv
from maxmargin.io.table import DataFileError, Table
from maxmargin.playground.task import LARGEST_COORDINATE, MOST_CLASSES, MOST_POINTS

Matrix = NDArray[np.float64]
Set = dict[str, Any]

DIGITS = 4  # decimal places of generated points


def moons(random: Generator) -> Set:
    return _classes(*make_moons(160, noise=0.2, random_state=int(random.integers(2**31))))


def circles(random: Generator) -> Set:
    return _classes(*make_circles(160, noise=0.12, factor=0.45, random_state=int(random.integers(2**31))))


def blobs(random: Generator) -> Set:
    centres = [(-1.6, -0.9), (1.6, -0.9), (0.0, 1.5)]
    X, y = make_blobs(150, centers=centres, cluster_std=0.62, random_state=int(random.integers(2**31)))
    return _classes(X, y)


def separable(random: Generator) -> Set:
    X = random.normal(size=(60, 2)) * (0.75, 0.5)
    y = np.arange(60) % 2
    return _classes(X + np.where(y, 1.25, -1.25)[:, None] * (0.8, 0.9), y)


def xor(random: Generator) -> Set:
    X = random.uniform(-1.5, 1.5, size=(160, 2))
    return _classes(X + 0.12 * np.sign(X), (X[:, 0] * X[:, 1] > 0).astype(int))


def spirals(random: Generator) -> Set:
    y = np.arange(160) % 2
    turn = np.sqrt(random.uniform(0.03, 1.0, size=160)) * 2.6 * np.pi
    X = turn[:, None] / 8.0 * np.stack([np.cos(turn + np.pi * y), np.sin(turn + np.pi * y)], axis=1)
    return _classes(X + random.normal(scale=0.03, size=X.shape), y)


def iris(_: Generator) -> Set:
    bunch = load_iris()
    columns = [2, 3]
    return _classes(bunch.data[:, columns], bunch.target) | {"axes": [bunch.feature_names[k] for k in columns]}


def outliers(random: Generator) -> Set:
    inside = random.normal(size=(110, 2)) @ np.array([[0.8, 0.35], [0.0, 0.45]])
    X = np.concatenate([inside, random.uniform(-2.6, 2.6, size=(14, 2))])
    return _classes(X, np.zeros(len(X))) | {"machine": "OneClassSVM"}


def sine(random: Generator) -> Set:
    x = np.sort(random.uniform(-3.0, 3.0, size=90))
    return _curve(x, 1.2 * np.sin(1.6 * x) + random.normal(scale=0.18, size=90))


def line_with_outliers(random: Generator) -> Set:
    x = np.sort(random.uniform(-3.0, 3.0, size=60))
    y = 0.5 * x + random.normal(scale=0.15, size=60)
    y[::12] += 1.8
    return _curve(x, y)


SETS: dict[str, Callable[[Generator], Set]] = {
    "moons": moons,
    "circles": circles,
    "xor": xor,
    "spirals": spirals,
    "separable": separable,
    "blobs": blobs,
    "iris": iris,
    "outliers": outliers,
    "sine": sine,
    "line": line_with_outliers,
}


def make_set(name: str, seed: int = 0) -> Set:
    """The data set with this name; `seed` is the random seed of those that are generated."""
    if name not in SETS:
        raise ValueError(f"set={name!r}: must be one of {', '.join(SETS)}")
    made = SETS[name](np.random.default_rng(seed))
    return made | {"points": [[round(x, DIGITS), round(y, DIGITS), label] for x, y, label in made["points"]]}


def read_set(content: bytes, name: str, columns: Sequence[int] = (), standardise: bool = False) -> Set:
    """The points of a CSV file. `columns` are the features to draw, by default the first two.

    Labels of few kinds are classes, and two features are the coordinates. Numbers of many kinds are the targets of a regression,
    drawn over one feature. With `standardise`, features get mean 0 and variance 1.
    """
    table = parse_csv(content.removeprefix(codecs.BOM_UTF8), name, Reading())
    X, labels = np.asarray(table.X), np.asarray(table.y)
    if len(X) > MOST_POINTS:
        raise DataFileError(name, f"{len(X)} rows are too many to draw (take a sample of at most {MOST_POINTS})")
    kinds = np.unique(labels)
    is_curve = len(kinds) > MOST_CLASSES and labels.dtype.kind in "iuf"
    if not is_curve and len(kinds) > MOST_CLASSES:
        raise DataFileError(name, f"{len(kinds)} classes are too many to draw (keep the rows of at most {MOST_CLASSES})")
    needed = 1 if is_curve else 2
    if X.shape[1] < needed:
        raise DataFileError(name, f"{X.shape[1]} column of features where {needed} are needed (add one beside the labels)")
    chosen = _chosen(columns, needed, X.shape[1], name)
    if standardise:
        X = scale(X)
    if np.abs(X[:, chosen]).max() > LARGEST_COORDINATE:
        raise DataFileError(name, f"a value beyond ±{LARGEST_COORDINATE:g} (standardise the columns)")
    drawn = _curve(X[:, chosen[0]], labels) if is_curve else _classes(X[:, chosen], np.searchsorted(kinds, labels))
    names = _names(table)
    axes = [*(names[k] for k in chosen), *(["target"] if is_curve else [])]
    return drawn | {"axes": axes, "columns": names, "chosen": chosen, "labels": [str(kind) for kind in kinds[:MOST_CLASSES]]}


def _chosen(columns: Sequence[int], needed: int, available: int, name: str) -> list[int]:
    chosen = list(columns[:needed]) if len(columns) >= needed else list(range(needed))
    if not all(0 <= column < available for column in chosen):
        raise DataFileError(name, f"columns {chosen}: must be from 0 to {available - 1}")
    return chosen


def _names(table: Table) -> list[str]:
    return list(table.feature_names or (f"column {k + 1}" for k in range(table.X.shape[1])))


def _classes(X: Matrix, y: NDArray[Any]) -> Set:
    return {"points": [[*row, int(label)] for row, label in zip(X.tolist(), y, strict=True)], "machine": "SVC"}


def _curve(x: NDArray[np.float64], y: NDArray[Any]) -> Set:
    points = np.stack([x, y], axis=1).tolist()
    return {"points": [[*row, 0] for row in points], "machine": "SVR"}
