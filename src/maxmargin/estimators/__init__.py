"""The estimators: machines with scikit-learn's interface.

`fit` is five verbs, the same for every estimator: validate, formulate, place, solve, certify. An estimator may use
scikit-learn's validation, the formulations, kernels and solvers. It never loops over samples and names no device.
"""

from maxmargin.estimators.kernel_regression import KernelRegressor
from maxmargin.estimators.linear import LinearOneClassSVM, LinearSVC, LinearSVR
from maxmargin.estimators.one_class import OneClassSVM
from maxmargin.estimators.svc import SVC, NuSVC
from maxmargin.estimators.svr import SVR, NuSVR

__all__ = ["SVC", "SVR", "KernelRegressor", "LinearOneClassSVM", "LinearSVC", "LinearSVR", "NuSVC", "NuSVR", "OneClassSVM"]


def __dir__() -> list[str]:
    return __all__
