"""maxmargin: exact support vector machines, each with a duality-gap certificate.

What `__all__` lists is imported when it is used for the first time: NumPy, SciPy and scikit-learn take a second to import, and
the command line has to answer Ctrl-C during that second too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from maxmargin.primal_or_dual import primal_or_dual  # not lazily: the module of the same name would hide it

if TYPE_CHECKING:
    from maxmargin.audits import Audit, audit
    from maxmargin.certificates import Certificate
    from maxmargin.estimators import SVC, SVR, KernelRegressor, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM
    from maxmargin.estimators.probabilities import loo_decisions
    from maxmargin.io import load
    from maxmargin.model_selection import SVCCV, SVRCV, C_path, LinearSVCCV
    from maxmargin.solution import Status

    __version__: str

_MODULE_OF = {
    "SVC": "estimators",
    "SVCCV": "model_selection",
    "SVR": "estimators",
    "SVRCV": "model_selection",
    "Audit": "audits",
    "C_path": "model_selection",
    "Certificate": "certificates",
    "KernelRegressor": "estimators",
    "LinearOneClassSVM": "estimators",
    "LinearSVC": "estimators",
    "LinearSVCCV": "model_selection",
    "LinearSVR": "estimators",
    "NuSVC": "estimators",
    "NuSVR": "estimators",
    "OneClassSVM": "estimators",
    "Status": "solution",
    "audit": "audits",
    "load": "io",
    "loo_decisions": "estimators.probabilities",
}

#: The modules with further public names
_MODULES = ("callbacks", "formulations", "io", "kernels", "model_selection", "plots", "theory")

__all__ = [
    "SVC",
    "SVCCV",
    "SVR",
    "SVRCV",
    "Audit",
    "C_path",
    "Certificate",
    "KernelRegressor",
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "Status",
    "__version__",
    "audit",
    "load",
    "loo_decisions",
    "primal_or_dual",
]


def __getattr__(name: str) -> Any:
    """Import a public name, the version, or a module such as `maxmargin.kernels` on first use; later uses find it in place."""
    if name in _MODULE_OF:
        value = getattr(import_module(f"maxmargin.{_MODULE_OF[name]}"), name)
    elif name == "__version__":
        value = _version()
    else:
        value = _module(name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("maxmargin")
    except PackageNotFoundError:  # running from a source tree that is not installed
        return "0+unknown"


def _module(name: str) -> Any:
    try:
        if not name.startswith("_"):
            return import_module(f"maxmargin.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"maxmargin.{name}":  # the module exists, but needs a package that is not installed
            raise
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
