"""The machines that the command line can train, by name. A machine of the package becomes a choice by its line in this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import maxmargin

Task = Literal["classes", "values", "novelty"]


@dataclass(frozen=True)
class Machine:
    """A machine: its name here and in the package, what it learns, and how it is tuned."""

    name: str
    estimator: str
    task: Task
    axes: tuple[str, ...]  # the parameters that `tune` chooses
    libsvm: int | None = None  # its number in LIBSVM's option -s
    search: str | None = None  # the class of the package that searches its grid; without one, GridSearchCV does

    def make(self, **parameters: Any) -> Any:
        """Return the estimator; a parameter that it does not have is an error that names the machines that have it."""
        kind = getattr(maxmargin, self.estimator)
        known = kind().get_params()
        for name in parameters:
            if name not in known:
                others = [one.name for one in MACHINES.values() if name in getattr(maxmargin, one.estimator)().get_params()]
                option = name if len(name) == 1 else name.replace("_", "-")
                has = f"has no {name}" + (f" ({', '.join(others)} have)" if others else "")
                raise ValueError(f"--{option}: the machine {self.name} {has}")
        return kind(**parameters)


ALL = (
    Machine("svc", "SVC", "classes", ("C", "gamma"), libsvm=0, search="SVCCV"),
    Machine("nusvc", "NuSVC", "classes", ("nu", "gamma"), libsvm=1),
    Machine("one-class", "OneClassSVM", "novelty", ("nu", "gamma"), libsvm=2),
    Machine("svr", "SVR", "values", ("C", "gamma", "epsilon"), libsvm=3, search="SVRCV"),
    Machine("nusvr", "NuSVR", "values", ("C", "gamma", "nu"), libsvm=4),
    Machine("kernel-ridge", "KernelRegressor", "values", ("alpha", "gamma")),
    Machine("linear-svc", "LinearSVC", "classes", ("C",)),
    Machine("linear-svr", "LinearSVR", "values", ("C", "epsilon")),
    Machine("linear-one-class", "LinearOneClassSVM", "novelty", ("nu",)),
)
MACHINES = {machine.name: machine for machine in ALL if machine.estimator in maxmargin.__all__}
LIBSVM_TYPES = {str(machine.libsvm): name for name, machine in MACHINES.items() if machine.libsvm is not None}
LIBSVM_KERNELS = {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid", "4": "precomputed"}
