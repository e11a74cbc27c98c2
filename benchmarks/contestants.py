"""Who takes part: each library behind scikit-learn's fit / predict, with the dtype and memory layouts it is offered."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

TOLERANCE = 1e-3
PEER_CACHE_MEGABYTES = 200  # scikit-learn's default


@dataclass(frozen=True)
class Contestant:
    """A library and how it gets its data.

    ``dtype`` None keeps the array as the set stores it. ``layouts`` are tried in turn on sparse sets, and the faster counts.
    """

    name: str
    module: str
    dtype: str | None
    layouts: tuple[str, ...]
    machine: Callable[[float, float, int | None], Any]

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None

    def takes(self, X: Any, layout: str) -> Any:
        if issparse(X) and layout == "dense":
            X = X.toarray()
        return X if self.dtype is None else X.astype(self.dtype)


def maxmargin(C: float, gamma: float, cache: int | None) -> Any:
    from maxmargin import SVC

    return SVC(C=C, gamma=gamma, tol=TOLERANCE, cache_size="auto" if cache is None else cache)


def scikit_learn(C: float, gamma: float, cache: int | None) -> Any:
    from sklearn.svm import SVC

    return SVC(C=C, gamma=gamma, tol=TOLERANCE, cache_size=cache or PEER_CACHE_MEGABYTES)


def intelex(C: float, gamma: float, cache: int | None) -> Any:
    from sklearnex.svm import SVC

    return SVC(C=C, gamma=gamma, tol=TOLERANCE, cache_size=cache or PEER_CACHE_MEGABYTES)


def libsvm(C: float, gamma: float, cache: int | None) -> Any:
    return LibsvmMachine(f"-q -c {C!r} -g {gamma!r} -e {TOLERANCE} -m {cache or PEER_CACHE_MEGABYTES}")


class LibsvmMachine:
    """LIBSVM's own Python interface with scikit-learn's attributes. ``prepare`` builds its node lists, outside the timing."""

    def __init__(self, options: str) -> None:
        self.options = options

    def prepare(self, X: Any, y: Any) -> None:
        from libsvm.svm import svm_problem

        self.classes_, codes = np.unique(y, return_inverse=True)
        self.problem = svm_problem(codes.astype(np.float64), csr_matrix(X))

    def fit(self, X: Any, y: Any) -> "LibsvmMachine":
        from libsvm.svmutil import svm_train

        self.model = svm_train(self.problem, self.options)
        return self

    def predict(self, X: Any) -> Any:
        from libsvm.svmutil import svm_predict

        codes, _, _ = svm_predict([], csr_matrix(X), self.model, "-q")
        return self.classes_[np.asarray(codes, dtype=int)]

    @property
    def support_(self) -> Any:
        return np.asarray(self.model.get_sv_indices()) - 1

    @property
    def n_support_(self) -> Any:
        return np.asarray(self.model.nSV[: self.model.nr_class])

    @property
    def dual_coef_(self) -> Any:
        return np.asarray(self.model.get_sv_coef()).T


OURS = "maxmargin"
CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(OURS, "maxmargin", None, ("csr",), maxmargin),
        Contestant("intelex-float32", "sklearnex", "float32", ("dense", "csr"), intelex),
        Contestant("intelex-float64", "sklearnex", "float64", ("dense", "csr"), intelex),
        Contestant("scikit-learn", "sklearn", "float64", ("csr", "dense"), scikit_learn),
        Contestant("libsvm", "libsvm", "float64", ("csr",), libsvm),
    )
}
