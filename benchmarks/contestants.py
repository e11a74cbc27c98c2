"""The contestants: each library behind scikit-learn's fit / predict, with the dtype and memory layouts of its data."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from .cases import Case
from .sets import in_container

TOLERANCE = 1e-3
PEER_CACHE_MEGABYTES = 200  # scikit-learn's default


@dataclass(frozen=True)
class Contestant:
    """A library, and the form in which it gets its data.

    ``dtype`` None keeps the dtype of the set. ``layouts`` are tried in turn on sets with many zeros, and the faster counts; None
    takes the container of the case.
    """

    name: str
    module: str
    dtype: str | None
    layouts: tuple[str, ...] | None
    machine: Callable[..., Any]  # makes a machine from its kind, a cache in MB or None, and its parameters

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module.partition(".")[0]) is not None

    def layouts_for(self, case: Case) -> tuple[str, ...]:
        if self.layouts is None:
            return (case.layout,)
        return self.layouts if case.has_many_zeros else ("dense",)

    def takes(self, X: Any, layout: str) -> Any:
        X = in_container(X, layout)
        return X if self.dtype is None else X.astype(self.dtype)


def maxmargin(kind: str, cache: int | None, **parameters: float) -> Any:
    import maxmargin

    return getattr(maxmargin, kind)(**parameters, tol=TOLERANCE, cache_size="auto" if cache is None else cache)


def scikit_learn(kind: str, cache: int | None, **parameters: float) -> Any:
    from sklearn import svm

    return getattr(svm, kind)(**parameters, tol=TOLERANCE, cache_size=cache or PEER_CACHE_MEGABYTES)


def intelex(kind: str, cache: int | None, **parameters: float) -> Any:
    from sklearnex import svm

    return getattr(svm, kind)(**parameters, tol=TOLERANCE, cache_size=cache or PEER_CACHE_MEGABYTES)


def libsvm(kind: str, cache: int | None, **parameters: float) -> Any:
    return LibsvmMachine(kind, cache or PEER_CACHE_MEGABYTES, parameters)


class LibsvmMachine:
    """LIBSVM's own Python interface with scikit-learn's attributes. ``prepare`` builds its node lists, outside the timing."""

    KINDS: ClassVar = {"SVC": 0, "NuSVC": 1, "OneClassSVM": 2, "SVR": 3}
    FLAGS: ClassVar = {"C": "-c", "gamma": "-g", "nu": "-n", "epsilon": "-p"}

    def __init__(self, kind: str, cache: int, parameters: dict[str, float]) -> None:
        self.classifies = kind in ("SVC", "NuSVC")
        words = [f"{self.FLAGS[name]} {value!r}" for name, value in parameters.items()]
        self.options = " ".join([f"-q -s {self.KINDS[kind]} -e {TOLERANCE} -m {cache}", *words])

    def prepare(self, X: Any, y: Any) -> None:
        from libsvm.svm import svm_problem

        if self.classifies:
            self.classes_, y = np.unique(y, return_inverse=True)
        self.problem = svm_problem(np.asarray(y, dtype=np.float64), csr_matrix(X))

    def fit(self, X: Any, y: Any) -> "LibsvmMachine":
        from libsvm.svmutil import svm_train

        self.model = svm_train(self.problem, self.options)
        return self

    def predict(self, X: Any) -> Any:
        from libsvm.svmutil import svm_predict

        values, _, _ = svm_predict([], csr_matrix(X), self.model, "-q")
        return self.classes_[np.asarray(values, dtype=int)] if self.classifies else np.asarray(values)

    @property
    def support_(self) -> Any:
        return np.asarray(self.model.get_sv_indices()) - 1

    @property
    def n_support_(self) -> Any:
        return np.asarray(self.model.nSV[: self.model.nr_class]) if self.classifies else np.array([len(self.support_)])

    @property
    def dual_coef_(self) -> Any:
        return np.asarray(self.model.get_sv_coef()).T


OURS = "maxmargin"
CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(OURS, "maxmargin", None, None, maxmargin),
        Contestant("intelex-float32", "sklearnex", "float32", ("dense", "csr"), intelex),
        Contestant("intelex-float64", "sklearnex", "float64", ("dense", "csr"), intelex),
        Contestant("scikit-learn", "sklearn", "float64", ("csr", "dense"), scikit_learn),
        Contestant("libsvm", "libsvm", "float64", ("csr",), libsvm),
    )
}
