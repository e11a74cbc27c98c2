"""Whether the parts of a fitted model that came from a file fit each other: compiled code would read beyond the ends of arrays
that do not."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.certificates import Certificate
from maxmargin.kernels import Custom, Kernel, Precomputed
from maxmargin.solution import Status, Trace

TYPES = {"certificate_": Certificate, "status_": Status, "trace_": Trace, "kernel_": Kernel, "calibration_": tuple}
#: The attributes that decisions are computed from, for machines with support vectors, kernel regression and linear machines
NEEDED = {
    "support_": ("kernel_", "support_vectors_", "dual_coef_", "intercept_", "n_support_"),
    "X_fit_": ("kernel_", "dual_coef_"),
    "coef_": ("intercept_", "n_features_in_"),
}


def require_sound(model: Any) -> None:
    """Raise a ValueError unless `model` is fitted, and its arrays are finite and fit each other."""
    attributes = vars(model)
    for name, kind in TYPES.items():
        if name in attributes and not isinstance(attributes[name], kind):
            raise ValueError(f"{name} is not a {kind.__name__}")
    family = next((name for name in NEEDED if name in attributes), None)
    if family is None:
        raise ValueError(f"the model has none of {', '.join(NEEDED)}: it is not fitted")
    for name in NEEDED[family]:
        if name not in attributes:
            raise ValueError(f"the model has no {name}")
    if "kernel_" in attributes and model.kernel_.named and not all(map(_is_finite, vars(model.kernel_).values())):
        raise ValueError("kernel_ has parameters that are not finite numbers")
    if "classes_" in attributes and (np.ndim(model.classes_) != 1 or len(model.classes_) < 2):
        raise ValueError("classes_ is not an array of two or more classes")
    match family:
        case "support_":
            _require_sound_machine(model)
        case "X_fit_":
            coefficients = _array(model, "dual_coef_")
            _require_sound_samples(model, "X_fit_", coefficients.shape[0])
        case "coef_":
            n_machines = np.size(model.intercept_ if isinstance(model.intercept_, float) else _array(model, "intercept_"))
            _array(model, "coef_", "f", *((n_machines,) if np.ndim(model.coef_) == 2 else ()), model.n_features_in_)
            _require_maps(model, n_machines)


def _require_sound_machine(model: Any) -> None:
    n_rows, n_machines, n_groups = _layout(model)
    support = _array(model, "support_", "i", np.size(model.support_))
    n = len(support)
    _array(model, "dual_coef_", "f", n_rows, n)
    _array(model, "intercept_", "f", n_machines)
    counts = _array(model, "n_support_", "i", n_groups)
    if counts.min() < 0 or counts.sum() != n:
        raise ValueError(f"n_support_ does not count the {n} support vectors")
    _require_sound_samples(model, "support_vectors_", n)
    if isinstance(model.kernel_, Precomputed) and not np.all((support >= 0) & (support < model.n_features_in_)):
        raise ValueError("support_ has numbers that are not those of training samples")
    _require_maps(model, n_machines)


def _require_maps(model: Any, n_machines: int) -> None:
    maps = getattr(model, "calibration_", ())
    if len(maps) not in (0, n_machines) or not all(map(callable, maps)):
        raise ValueError(f"calibration_ does not have a map for each of the {n_machines} machines")


def _layout(model: Any) -> tuple[int, int, int]:
    """The rows of `dual_coef_`, the machines, and the groups of support vectors."""
    if not hasattr(model, "classes_"):
        return 1, 1, 1
    n_classes = len(model.classes_)
    if n_classes == 2:
        return 1, 1, 2
    if model.multi_class == "ovo":
        return n_classes - 1, n_classes * (n_classes - 1) // 2, n_classes
    return n_classes, n_classes, n_classes


def _require_sound_samples(model: Any, name: str, n: int) -> None:
    """Check the samples that the kernel compares a query with."""
    width = getattr(model, "n_features_in_", None)
    if width is None and isinstance(model.kernel_, Custom):  # its samples may be anything
        if np.shape(getattr(model, name))[:1] != (n,):
            raise ValueError(f"{name} does not have {n} samples")
        return
    if type(width) is not int:
        raise ValueError("n_features_in_ is not a whole number")
    if isinstance(model.kernel_, Precomputed):
        _array(model, name, "f", 0, 0)
    else:
        _array(model, name, "f", n, width)


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and bool(np.isfinite(float(value)))


def _array(model: Any, name: str, kinds: str = "f", *shape: int) -> Any:
    """An attribute that must be a dense or CSR array of finite numbers, with a dtype of these kinds and, if given, this shape.

    Compiled code reads numbers of 32 and 64 bits."""
    value = getattr(model, name)
    if not isinstance(value, np.ndarray) and not sp.issparse(value):
        raise ValueError(f"{name} is not an array")
    if value.dtype.kind not in kinds or value.dtype.itemsize not in (4, 8) or value.ndim not in (1, 2):
        raise ValueError(f"{name} is an array of {value.ndim} dimensions and type {value.dtype}")
    if shape and value.shape != shape:
        raise ValueError(f"{name} has shape {value.shape}, and must have {shape}")
    if not np.isfinite(value.data if sp.issparse(value) else value).all():
        raise ValueError(f"{name} has values that are not finite")
    return value
