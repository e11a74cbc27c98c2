"""The problems: the data sets, their settings, and the groups in which results are compared.

A data folder holds ``load.py``, where ``load(name)`` gives X, y, X_test, y_test and ``SETS[name]`` (classes) or
``REGRESSION[name]`` (targets, which are standardised here) begins with C, gamma. With it, the groups are the full ones. Without,
scikit-learn's own and generated sets stand in, so that the command runs anywhere.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One problem to solve: a set, a machine with an RBF kernel, and its settings. ``None`` means the set's own C, a machine
    without nu, or a cache without a limit."""

    group: str
    set: str
    C: float | None = None
    cache_megabytes: int | None = None
    machine: str = "SVC"
    nu: float | None = None

    @property
    def name(self) -> str:
        words = [self.set]
        if self.C is not None:
            words.append(f"C={self.C:g}")
        if self.nu is not None:
            words.append(f"nu={self.nu:g}")
        if self.cache_megabytes is not None:
            words.append(f"cache={self.cache_megabytes}MB")
        return " ".join(words)


@dataclass(frozen=True)
class Problem:
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    C: float
    gamma: float


SPARSE = {"a9a", "mushrooms"}  # stored as CSR
ENTRANTS = {  # the contestants of some groups; the other groups have all
    "memory": ("maxmargin",),
    "mnist": ("maxmargin", "intelex-float32"),
    "one-class": ("maxmargin", "scikit-learn", "libsvm"),  # scikit-learn-intelex has no such machine
}

SMALL = [Case("small", name) for name in ("iris", "wine", "breast_cancer")]
MEMORY_BUDGET = 200  # MB
MARGIN_ERRORS, OUTLIERS = 0.4, 0.1  # the nu of the groups "nu" and "one-class"


def family(regression: tuple[str, ...], other: tuple[str, ...]) -> list[Case]:
    """The machines other than C-SVC: regression on some sets, nu-classification and one-class machines on others."""
    return [
        *(Case("regression", name, machine="SVR") for name in regression),
        *(Case("nu", name, machine="NuSVC", nu=MARGIN_ERRORS) for name in other),
        *(Case("one-class", name, machine="OneClassSVM", nu=OUTLIERS) for name in other),
    ]


FULL = [
    *(Case("binary", name) for name in ("spambase", "magic", "ijcnn1", "electricity", "a9a")),
    *(Case("multiclass", name) for name in ("usps", "letter", "pendigits")),
    *SMALL,
    Case("large-C", "spambase", C=1e3),
    Case("large-C", "german", C=1e3),
    Case("large-C", "svmguide1", C=1e4),
    Case("large-C", "magic", C=1e3),
    Case("memory", "a9a"),
    Case("memory", "a9a", cache_megabytes=MEMORY_BUDGET),
    Case("mnist", "mnist"),
    *family(("cadata", "cpusmall", "abalone"), ("magic", "a9a")),
]
BUNDLED = [
    *(Case("binary", name) for name in ("breast_cancer", "gaussians", "moons")),
    *(Case("multiclass", name) for name in ("digits", "blobs")),
    *SMALL,
    Case("large-C", "breast_cancer", C=1e3),
    Case("large-C", "moons", C=1e3),
    *family(("diabetes", "friedman"), ("breast_cancer", "gaussians")),
]


def cases(data: Path | None) -> list[Case]:
    return BUNDLED if data is None else FULL


def problem(name: str, C: float | None, data: Path | None) -> Problem:
    """The set with this name, from the data folder if it is there, else from scikit-learn."""
    if data is not None:
        store = module_at(data / "load.py")
        settings = store.SETS | store.REGRESSION
        if name in settings:
            own_C, gamma, *_ = settings[name]
            X, y, X_test, y_test = store.load(name)
            if name in store.REGRESSION:
                y, y_test = standardised(y, y_test)
            return Problem(X, y, X_test, y_test, C=C or own_C, gamma=gamma)
    return bundled(name, C or 1.0)


def standardised(train: Any, test: Any) -> tuple[Any, Any]:
    """Training and test set, standardised by the mean and the spread of the training set."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    spread = np.where(spread == 0, 1, spread)
    return (train - mean) / spread, (test - mean) / spread


def bundled(name: str, C: float) -> Problem:
    """A set of scikit-learn's, standardised, 80/20 with seed 0, gamma = 1 / number of features."""
    from sklearn import datasets

    make = {
        "iris": lambda: datasets.load_iris(return_X_y=True),
        "wine": lambda: datasets.load_wine(return_X_y=True),
        "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
        "digits": lambda: datasets.load_digits(return_X_y=True),
        "gaussians": lambda: datasets.make_classification(12_500, 20, n_informative=10, flip_y=0.05, random_state=0),
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
    return Problem(X_train, y_train, X_test, y_test, C=C, gamma=1 / X.shape[1])


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not a Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
