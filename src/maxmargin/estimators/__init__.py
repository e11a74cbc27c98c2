"""The estimators: machines with scikit-learn's interface.

`fit` is five verbs, the same for every estimator: validate, formulate, place, solve, certify. An estimator may use
scikit-learn's validation, the formulations, kernels and solvers. It never loops over samples and names no device.

An estimator is imported when it is used for the first time, so that `from maxmargin import SVC` does not wait for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin.estimators.kernel_regression import KernelRegressor
    from maxmargin.estimators.linear import LinearOneClassSVM, LinearSVC, LinearSVR
    from maxmargin.estimators.one_class import OneClassSVM
    from maxmargin.estimators.svc import SVC, NuSVC
    from maxmargin.estimators.svr import SVR, NuSVR

_MODULE_OF = {
    "SVC": "svc",
    "SVR": "svr",
    "KernelRegressor": "kernel_regression",
    "LinearOneClassSVM": "linear",
    "LinearSVC": "linear",
    "LinearSVR": "linear",
    "NuSVC": "svc",
    "NuSVR": "svr",
    "OneClassSVM": "one_class",
}

__all__ = ["SVC", "SVR", "KernelRegressor", "LinearOneClassSVM", "LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'maxmargin.estimators' has no attribute {name!r}")
    value = getattr(import_module(f"maxmargin.estimators.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
