"""maxmargin: exact support vector machines, each with a duality-gap certificate."""

from importlib.metadata import PackageNotFoundError, version

from maxmargin.audits import Audit, audit
from maxmargin.certificates import Certificate
from maxmargin.estimators import SVC, SVR, KernelRegressor, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators.probabilities import loo_decisions
from maxmargin.model_selection import SVCCV, SVRCV, C_path
from maxmargin.primal_or_dual import primal_or_dual
from maxmargin.solution import Status

try:
    __version__ = version("maxmargin")
except PackageNotFoundError:  # running from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "SVRCV",
    "Audit",
    "C_path",
    "Certificate",
    "KernelRegressor",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "Status",
    "__version__",
    "audit",
    "loo_decisions",
    "primal_or_dual",
]
