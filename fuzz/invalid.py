"""Input that no fit can accept, by name: calls that have to end in a ValueError or a TypeError with a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

import maxmargin

N, D = 20, 3


def _data(rng: Generator) -> tuple[Any, Any]:
    X = rng.normal(size=(N, D))
    return X, (X[:, 0] > np.median(X[:, 0])).astype(int)


def _csr(rng: Generator) -> sp.csr_matrix:
    return sp.csr_matrix(rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6) + np.eye(N, D))


def _damaged(change: Callable[[sp.csr_matrix], None], when: str) -> Callable[[Generator], Any]:
    """A CSR matrix whose arrays contradict each other, in fit or in predict."""

    def call(rng: Generator) -> Any:
        X = _csr(rng)
        y = _data(rng)[1]
        kernel = str(rng.choice(["linear", "rbf", "laplacian", "poly"]))
        backend = str(rng.choice(["native", "reference"]))
        if when == "predict":
            model = maxmargin.SVC(kernel=kernel, backend=backend).fit(X, y)
            other = _csr(rng)
            change(other)
            return model.predict(other)
        change(X)
        return maxmargin.SVC(kernel=kernel, backend=backend).fit(X, y)

    return call


def _index_beyond(X: sp.csr_matrix) -> None:
    X.indices[0] = 10**6


def _index_far_beyond(X: sp.csr_matrix) -> None:
    X.indices[1] = 2**31 - 2


def _index_one_beyond(X: sp.csr_matrix) -> None:
    X.indices[0] = X.shape[1]


def _index_negative(X: sp.csr_matrix) -> None:
    X.indices[0] = -1


def _rows_beyond(X: sp.csr_matrix) -> None:
    X.indptr[-1] = len(X.data) + 10**6


def _rows_backwards(X: sp.csr_matrix) -> None:
    X.indptr[2] = X.indptr[1] - 1 if X.indptr[1] else X.indptr[-1]
    X.indptr[1] = X.indptr[-1]


def _rows_negative(X: sp.csr_matrix) -> None:
    X.indptr[1] = -5


def _fewer_values(X: sp.csr_matrix) -> None:
    X.data = X.data[: len(X.data) // 2]


CSR_DAMAGE = (
    _index_beyond,
    _index_far_beyond,
    _index_one_beyond,
    _index_negative,
    _rows_beyond,
    _rows_backwards,
    _rows_negative,
    _fewer_values,
)


def _estimator(rng: Generator) -> Any:
    kinds = (
        maxmargin.SVC,
        maxmargin.NuSVC,
        maxmargin.SVR,
        maxmargin.NuSVR,
        maxmargin.OneClassSVM,
        maxmargin.KernelRegressor,
    )
    return kinds[int(rng.integers(len(kinds)))]()


def _with_X(change: Callable[[Any, Generator], Any]) -> Callable[[Generator], Any]:
    def call(rng: Generator) -> Any:
        X, y = _data(rng)
        return _estimator(rng).fit(change(X, rng), y)

    return call


def _with_y(change: Callable[[Any, Generator], Any]) -> Callable[[Generator], Any]:
    def call(rng: Generator) -> Any:
        X, y = _data(rng)
        kinds = (maxmargin.SVC, maxmargin.NuSVC, maxmargin.SVR, maxmargin.NuSVR, maxmargin.KernelRegressor)
        return kinds[int(rng.integers(len(kinds)))]().fit(X, change(y, rng))

    return call


def _with_weights(weights: Callable[[Generator], Any]) -> Callable[[Generator], Any]:
    def call(rng: Generator) -> Any:
        X, y = _data(rng)
        return _estimator(rng).fit(X, y, sample_weight=weights(rng))

    return call


def _with_params(**params: Any) -> Callable[[Generator], Any]:
    def call(rng: Generator) -> Any:
        X, y = _data(rng)
        return maxmargin.SVC(**params).fit(X, y)

    return call


def _poke(value: Any) -> Callable[[Any, Generator], Any]:
    def change(X: Any, rng: Generator) -> Any:
        X = X.astype(float)
        X.flat[int(rng.integers(X.size))] = value
        return X

    return change


def _kernel_that_returns(value: Callable[[Any, Any], Any]) -> Callable[[Generator], Any]:
    def call(rng: Generator) -> Any:
        X, y = _data(rng)
        return maxmargin.SVC(kernel=value).fit(X, y)

    return call


INVALID: dict[str, Callable[[Generator], Any]] = {
    **{f"CSR{change.__name__} in {when}": _damaged(change, when) for change in CSR_DAMAGE for when in ("fit", "predict")},
    "X NaN": _with_X(_poke(np.nan)),
    "X inf": _with_X(_poke(np.inf)),
    "X one-dimensional": _with_X(lambda X, rng: X[:, 0]),
    "X three-dimensional": _with_X(lambda X, rng: X[:, :, None]),
    "X complex": _with_X(lambda X, rng: X + 1j),
    "X words": _with_X(lambda X, rng: np.full(X.shape, "word")),
    "X objects": _with_X(lambda X, rng: np.full(X.shape, None)),
    "X no samples": _with_X(lambda X, rng: X[:0]),
    "X no features": _with_X(lambda X, rng: X[:, :0]),
    "X ragged": _with_X(lambda X, rng: [[1.0], [1.0, 2.0]]),
    "X None": _with_X(lambda X, rng: None),
    "X dict": _with_X(lambda X, rng: {"a": 1}),
    "y too short": _with_y(lambda y, rng: y[:-1]),
    "y NaN": _with_y(_poke(np.nan)),
    "y inf": _with_y(_poke(np.inf)),
    "y None": _with_y(lambda y, rng: None),
    "y matrix of objects": _with_y(lambda y, rng: np.full((len(y), 2), "a", dtype=object)),
    "y complex": _with_y(lambda y, rng: y + 1j),
    "one class": lambda rng: maxmargin.SVC().fit(_data(rng)[0], np.zeros(N)),
    "weights too short": _with_weights(lambda rng: np.ones(N - 1)),
    "weights NaN": _with_weights(lambda rng: np.full(N, np.nan)),
    "weights inf": _with_weights(lambda rng: np.full(N, np.inf)),
    "weights zero": _with_weights(lambda rng: np.zeros(N)),
    "weights negative": _with_weights(lambda rng: -np.ones(N)),
    "weights matrix": _with_weights(lambda rng: np.ones((N, 2))),
    "C zero": _with_params(C=0.0),
    "C NaN": _with_params(C=np.nan),
    "C word": _with_params(C="1"),
    "C None": _with_params(C=None),
    "C array": _with_params(C=np.array([1.0, 2.0])),
    "gamma negative": _with_params(gamma=-1.0),
    "gamma NaN": _with_params(gamma=np.nan),
    "gamma word": _with_params(gamma="wide"),
    "kernel unknown": _with_params(kernel="cosine"),
    "degree negative": _with_params(kernel="poly", degree=-1),
    "coef0 inf": _with_params(kernel="poly", coef0=np.inf),
    "tol zero": _with_params(tol=0.0),
    "tol NaN": _with_params(tol=np.nan),
    "gap_tol negative": _with_params(gap_tol=-1.0),
    "max_iter fraction": _with_params(max_iter=1.5),
    "max_seconds negative": _with_params(max_seconds=-1.0),
    "cache_size zero": _with_params(cache_size=0),
    "solver unknown": _with_params(solver="magic"),
    "backend unknown": _with_params(backend="abacus"),
    "nu zero": lambda rng: maxmargin.NuSVC(nu=0.0).fit(*_data(rng)),
    "nu too large": lambda rng: maxmargin.OneClassSVM(nu=1.1).fit(_data(rng)[0]),
    "epsilon negative": lambda rng: maxmargin.SVR(epsilon=-0.1).fit(*_data(rng)),
    "alpha NaN": lambda rng: maxmargin.KernelRegressor(alpha=np.nan).fit(*_data(rng)),
    "precomputed not square": _with_params(kernel="precomputed"),
    "kernel function of wrong shape": _kernel_that_returns(lambda A, B: np.ones((len(A), len(B) + 1))),
    "kernel function of NaN": _kernel_that_returns(lambda A, B: np.full((len(A), len(B)), np.nan)),
    "kernel function of None": _kernel_that_returns(lambda A, B: None),
    "kernel function of words": _kernel_that_returns(lambda A, B: np.full((len(A), len(B)), "x")),
    "predict with other features": lambda rng: maxmargin.SVC().fit(*_data(rng)).predict(np.ones((2, D + 1))),
    "predict NaN": lambda rng: maxmargin.SVC().fit(*_data(rng)).predict(np.full((2, D), np.nan)),
}
