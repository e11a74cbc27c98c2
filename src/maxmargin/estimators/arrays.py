"""Arrays of other libraries (torch, CuPy, ...): taken where they are, and answered in kind.

An array counts as one of another library if scikit-learn's array API dispatch is on, or if it lies on a card. A fit on it leaves
attributes of its namespace on its device, as scikit-learn's own estimators do (`classes_` stays a NumPy array), and answers are
of the same kind. The model with NumPy's attributes, which computes them, is kept beside them. The rows of an array on a card stay
there if the machine is trained there; labels, weights and support vectors come to the host. Large arrays of NumPy's go to the
card before anything else where ``backend="cuda"`` is asked for, since even a look at all of their values takes longer on the
host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from maxmargin.backends import make_backend
from maxmargin.kernels import NamedKernel, make_kernel
from maxmargin.solvers import FAST

Method = TypeVar("Method", bound=Callable[..., Any])

LARGE = 1 << 20  # values of an array of NumPy's that goes to the card at once
CARDS = (2, 13)  # kinds of device in DLPack: memory of CUDA's, and managed memory


@dataclass(frozen=True)
class Kind:
    """The namespace of an array, and its device."""

    namespace: Any
    device: Any

    @classmethod
    def of(cls, X: Any) -> Kind | None:
        """The kind of an array of another library; None for anything else."""
        if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack__"):
            return None
        if not get_config()["array_api_dispatch"] and not is_on_card(X):
            return None
        library = type(X).__module__.partition(".")[0]  # torch has no __array_namespace__
        return cls(X.__array_namespace__() if hasattr(X, "__array_namespace__") else sys.modules[library], X.device)

    def given(self, answer: NDArray[Any]) -> Any:
        """An answer as an array of this kind; strings stay where they are."""
        return answer if answer.dtype.kind in "OSU" else self.namespace.asarray(np.array(answer), device=self.device)


def is_on_card(X: Any) -> bool:
    return X.__dlpack_device__()[0] in CARDS


def on_host(X: Any) -> Any:
    """An array of another library as one of NumPy's; anything else as it is."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack__"):
        return X
    if hasattr(X, "detach"):  # torch
        return X.detach().cpu().numpy()
    if hasattr(X, "get"):  # CuPy
        return X.get()
    namespace = X.__array_namespace__()
    return np.asarray(X.to_device(namespace.Device("CPU_DEVICE")) if hasattr(namespace, "Device") else X)  # or array_api_strict


def fits_in_kind(fit: Method) -> Method:
    """Let `fit` take arrays of other libraries."""

    @wraps(fit)
    def fit_in_kind(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        vars(self).pop("_on_host", None)
        kind, rows = Kind.of(X), _taken(self, X)
        with _device_of(rows):
            fit(self, rows, on_host(y), on_host(sample_weight))
        if kind is None:
            return self
        model = copy(self)
        for name, value in vars(model).items():
            if isinstance(value, np.ndarray) and name != "classes_":
                setattr(self, name, kind.given(value))
        self._on_host = model
        return self

    return fit_in_kind  # type: ignore[return-value]


def in_kind(method: Method) -> Method:
    """Let a method that answers for each row of X answer in the kind of X."""

    @wraps(method)
    def answer_in_kind(self: Any, X: Any) -> Any:
        if (
            type(X) is np.ndarray and getattr(self, "backend", None) != "cuda" and "_on_host" not in vars(self)
        ):  # the usual case, at once
            return method(self, X)
        kind, model = Kind.of(X), vars(self).get("_on_host", self)
        if get_config()["array_api_dispatch"]:
            _require_same(self, kind, method.__name__)
        if model is not self:
            vars(model).update(self.get_params(deep=False))
        rows = X if hasattr(model, "feature_names_in_") and kind is None else _taken(model, X)
        with _device_of(rows):
            answer = method(model, rows)
        return answer if kind is None else kind.given(answer)

    return answer_in_kind  # type: ignore[return-value]


def _require_same(model: Any, kind: Kind | None, method: str) -> None:
    own = Kind.of(model.dual_coef_) if hasattr(model, "dual_coef_") else kind
    if own != kind:
        told = ["NumPy" if one is None else f"{one.namespace.__name__} on {one.device}" for one in (kind, own)]
        raise ValueError(
            f"{type(model).__name__}.{method}(): X is an array of {told[0]}, and the model was fitted on one of {told[1]}; they "
            "must use the same namespace and the same device"
        )


def _taken(machine: Any, X: Any) -> Any:
    """The rows of an array: on a card, if the machine computes there and they are there or many; else on the host."""
    backend = getattr(machine, "backend", "native")  # linear machines have none
    if isinstance(X, np.ndarray):
        large = backend == "cuda" and X.ndim == 2 and X.size >= LARGE
        goes = large and X.dtype in (np.float32, np.float64) and _takes_rows_on_card(machine)
    elif not hasattr(X, "__dlpack__"):
        return X
    else:
        goes = is_on_card(X) and backend in ("auto", "cuda", "cuda:all") and _takes_rows_on_card(machine)
    if not goes:
        return on_host(X)
    if isinstance(X, np.ndarray):
        return make_backend("cuda").placed(X)
    from maxmargin.backends.cuda.rows import DeviceRows

    return DeviceRows.of(X)


def _takes_rows_on_card(machine: Any) -> bool:
    if getattr(machine, "approximation", None) is not None or machine.solver not in ("auto", FAST.name):
        return False
    kernel = make_kernel(machine.kernel)
    return isinstance(kernel, NamedKernel) and not kernel.explicit


def _device_of(rows: Any) -> Any:
    return rows.current() if hasattr(rows, "current") else nullcontext()
