"""maxmargin: exact support vector machines, each with a duality-gap certificate."""

from importlib.metadata import PackageNotFoundError, version

from maxmargin.certificates import Certificate
from maxmargin.estimators import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.solution import Status

try:
    __version__ = version("maxmargin")
except PackageNotFoundError:  # running from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = ["SVC", "SVR", "Certificate", "NuSVC", "NuSVR", "OneClassSVM", "Status", "__version__"]
