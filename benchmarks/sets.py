"""The data of a case: its set, scaled and in its container.

A data folder holds ``load.py``, where ``load(name)`` gives X, y, X_test, y_test and ``SETS[name]`` (classes) or
``REGRESSION[name]`` (targets, which are standardised here) begins with C, gamma. A folder without ``load.py`` holds the training
sets that `pack` wrote, one file each. Without a folder, scikit-learn's own and generated sets stand in, so that the command runs
anywhere.
"""

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from .cases import Case

LARGEST_TABLE = 2**16  # indices of two bytes


@dataclass(frozen=True)
class Problem:
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    C: float
    gamma: float


def problem(case: Case, data: Path | None) -> Problem:
    """The data and settings of a case; the set comes from the data folder if it is there, else from scikit-learn."""
    found = stored(case.set, data) or bundled(case.set)
    if case.rows is not None and case.rows > len(found.y):
        raise SystemExit(f"set {case.set!r}, rows={case.rows}: the training set has only {len(found.y)}; ask for fewer")
    X, y = found.X[: case.rows], found.y[: case.rows]
    if case.order is not None:
        turn = np.random.default_rng(case.order).permutation(len(y))
        X, y = X[turn], y[turn]
    X, X_test = scaled(case.scaling, X, found.X_test)
    C, gamma = (own if given is None else given for own, given in ((found.C, case.C), (found.gamma, case.gamma)))
    return Problem(in_container(X, case.layout), y, in_container(X_test, case.layout), found.y_test, C, gamma)


@lru_cache(maxsize=1)  # the growth of a fit with the rows asks for the same set again
def stored(name: str, data: Path | None) -> Problem | None:
    """The set with this name in the data folder. ``mnist-parity`` is mnist with two classes, the even and the odd digits;
    ``covtype-seven`` is covtype with all its classes, of which its loader makes two."""
    if data is None:
        return None
    if not (data / "load.py").exists():
        return packed(name, data)
    store = module_at(data / "load.py")
    settings = store.SETS | store.REGRESSION
    source = name.removesuffix("-parity").removesuffix("-seven")
    if source not in settings:
        return None
    C, gamma, *_ = settings[source]
    X, y, X_test, y_test = store.load(source)
    if name.endswith("-parity"):
        y, y_test = y % 2, y_test % 2
    if name.endswith("-seven"):
        with np.load(data / "covtype_i16.npz") as file:
            y, y_test = np.split(file["y"][np.random.default_rng(0).permutation(len(file["y"]))], [len(y)])  # as its loader does
    if name in store.REGRESSION:
        y, y_test = standardised(y, y_test)
    return Problem(X, y, X_test, y_test, C, gamma)


def pack(given: Problem, path: Path) -> None:
    """Write the training set to a small file, without loss: where its distinct values are few, as a table and indices into it."""
    X = in_container(given.X, "dense")
    values = np.unique(X)
    samples = {"X": X}
    if len(values) <= LARGEST_TABLE:
        samples = {"values": values, "indices": np.searchsorted(values, X).astype(np.min_scalar_type(len(values) - 1))}
    np.savez_compressed(path, y=given.y, C=given.C, gamma=given.gamma, **samples)


def packed(name: str, folder: Path) -> Problem | None:
    """The set that `pack` wrote under this name; its test set is empty."""
    path = folder / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        X, y = file["X"] if "X" in file else file["values"][file["indices"]], file["y"]
        return Problem(X, y, X[:0], y[:0], float(file["C"]), float(file["gamma"]))


def scaled(scaling: str, train: Any, test: Any) -> tuple[Any, Any]:
    """Training and test set, scaled by what the training set says; in the dtype that they had."""
    if scaling == "stored":
        return train, test
    scale = {"standardised": standardised, "unit": to_unit_interval}[scaling]
    dense = [X.toarray() if issparse(X) else X for X in (train, test)]
    X, X_test = scale(*(X.astype(np.float64) for X in dense))
    return X.astype(train.dtype), X_test.astype(train.dtype)


def in_container(X: Any, layout: str) -> Any:
    """These samples as "dense" or "csr"."""
    if layout == "csr":
        return csr_matrix(X)
    return np.ascontiguousarray(X.toarray() if issparse(X) else X)


def standardised(train: Any, test: Any) -> tuple[Any, Any]:
    """Training and test set, standardised by the mean and the spread of the training set."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread = np.where(spread == 0, 1, spread)
    return (train - mean) / spread, (test - mean) / spread


def to_unit_interval(train: Any, test: Any) -> tuple[Any, Any]:
    """Training and test set, scaled so that each column of the training set reaches from 0 to 1."""
    low, width = train.min(axis=0), np.ptp(train, axis=0)
    width = np.where(width == 0, 1, width)
    return (train - low) / width, (test - low) / width


def bundled(name: str) -> Problem:
    """A set of scikit-learn's or a generated one, standardised, 80/20 with seed 0, C = 1, gamma = 1 / number of features."""
    from sklearn import datasets

    make = {
        "iris": lambda: datasets.load_iris(return_X_y=True),
        "wine": lambda: datasets.load_wine(return_X_y=True),
        "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
        "digits": lambda: datasets.load_digits(return_X_y=True),
        "gaussians": lambda: datasets.make_classification(12_500, 20, n_informative=10, flip_y=0.05, random_state=0),
        "gaussians-400k": lambda: datasets.make_classification(400_000, 20, n_informative=10, flip_y=0.05, random_state=0),
        "census": lambda: census(40_701),
        "moons": lambda: datasets.make_moons(12_500, noise=0.25, random_state=0),
        "blobs": lambda: datasets.make_blobs(6_000, 10, centers=8, cluster_std=5.0, random_state=0),
        "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
        "friedman": lambda: datasets.make_friedman1(6_000, 10, noise=1.0, random_state=0),
    }
    if name not in make:
        raise SystemExit(f"set {name!r}: not in the data folder, and not among those scikit-learn gives ({', '.join(make)})")
    X, y = make[name]()
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [int(0.8 * len(X))])
    X_train, X_test = standardised(X[train], X[test])
    y_train, y_test = standardised(y[train], y[test]) if y.dtype.kind == "f" else (y[train], y[test])
    return Problem(X_train, y_train, X_test, y_test, C=1.0, gamma=1 / X.shape[1])


def census(rows: int) -> tuple[Any, Any]:
    """A table as a census gives it: six numbers and eight categories, one-hot in 102 columns; noisy classes, 25 % positive."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(rows, 6))
    numbers[:, 3:] = np.exp(numbers[:, 3:])  # skewed, as incomes are
    columns, score = [numbers], np.sin(numbers[:, 0]) + numbers[:, 1] * numbers[:, 2] / 2 + np.log(numbers[:, 3])
    for levels in (42, 16, 15, 9, 7, 6, 5, 2):
        frequency = 1.0 / np.arange(1, levels + 1)
        level = rng.choice(levels, size=rows, p=frequency / frequency.sum())
        columns.append(np.eye(levels)[level])
        score += rng.normal(scale=0.5, size=levels)[level]
    score += rng.normal(scale=score.std() / 2, size=rows)
    return np.hstack(columns), (score > np.quantile(score, 0.75)).astype(int)


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
