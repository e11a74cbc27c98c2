"""The estimators: machines with scikit-learn's interface.

`fit` is five verbs, the same for every estimator: validate, formulate, place, solve, certify. An estimator may use
scikit-learn's validation, the formulations, kernels and solvers. It never loops over samples and names no device.

An estimator is imported when it is used for the first time, so that `from maxmargin import SVC` does not wait for the others.
"""

from typing import TYPE_CHECKING

from maxmargin.late_imports import imported_late

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


__getattr__ = imported_late(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return __all__
