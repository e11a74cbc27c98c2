"""Distance to stored solutions of high accuracy (tests/data/make_solutions.py), which another method computed."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

import maxmargin
from tests import oracle
from tests.data.make_solutions import DATA, FILE, Machine

STORED = [Machine(**entry) for entry in json.loads(FILE.read_text())]
KERNELS = ("linear", "poly", "rbf", "laplacian", "exponential", "sigmoid")
#: What the evaluation of a value may lose, relative to its parts, which cancel.
ROUNDING = 1e-12
TOL = 1e-5


def identify(machine: Machine) -> str:
    options = {"C": machine.C, "epsilon": machine.epsilon, "nu": machine.nu}
    words = [machine.estimator, machine.kernel, machine.loss, *(f"{k}={v:g}" for k, v in options.items() if v is not None)]
    intercept = "" if machine.fit_intercept else ", no intercept"
    return " ".join(word for word in words if word) + f"{intercept} on {machine.data}"


def options_of(machine: Machine) -> dict[str, Any]:
    """What the estimator takes, without the kernel."""
    options = {"C": machine.C, "loss": machine.loss, "epsilon": machine.epsilon, "nu": machine.nu}
    options = {name: value for name, value in options.items() if value is not None}
    if machine.estimator == "SVC" and machine.C is None:
        options["C"] = np.inf
    return options if machine.fit_intercept else options | {"fit_intercept": False}


def fitted(machine: Machine, backend: str, X: Any = None, **other: Any) -> Any:
    samples, y = DATA[machine.data]()
    options = {"kernel": machine.kernel} | machine.parameters | options_of(machine) | other
    model = getattr(maxmargin, machine.estimator)(tol=TOL, backend=backend, **options)
    return model.fit(samples if X is None else X, y)


def check(machine: Machine, model: Any) -> None:
    """dual <= optimum <= primal, exactly; and both close to it. The optimum is that of the other method."""
    assert model.status_.converged, model.status_.value
    proof = model.certificate_
    (truth,) = oracle.judge(model, machine.kernel_matrix(), DATA[machine.data]()[1])
    rounding = ROUNDING * truth.size + 2 * oracle.ACCURACY * abs(machine.objective)
    assert truth.outside <= 1e-10
    assert truth.dual <= machine.objective + rounding
    assert machine.objective <= truth.dual + proof.gap + rounding
    assert proof.gap <= 1e-6 * abs(machine.objective) + TOL * float(np.abs(model.dual_coef_).sum())
    assert abs(proof.dual - truth.dual) <= proof.value_error + rounding


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("machine", STORED, ids=identify)
def test_dual_objective(machine: Machine, backend: str) -> None:
    if backend == "reference" and machine.data.startswith("many"):  # the twin is for small sets
        check(machine, fitted(machine, "native", cache_size=1))  # here with every kernel row computed anew
    else:
        check(machine, fitted(machine, backend))


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("kind", ["precomputed", "callable"])
def test_kernels_that_only_the_user_knows(kind: str, backend: str) -> None:
    machines = [machine for machine in STORED if machine.kernel == "rbf" and machine.data in ("clouds", "waves")]
    assert {machine.estimator for machine in machines} == {"SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"}
    for machine in machines:
        if kind == "precomputed":
            model = fitted(machine, backend, machine.kernel_matrix(), kernel="precomputed")
        else:
            model = fitted(machine, backend, kernel=partial(oracle.kernel_matrix, "rbf", **machine.parameters))
        check(machine, model)


def test_every_kernel_and_formulation_is_stored() -> None:
    losses = {
        "SVC": ("hinge", "squared_hinge"),
        "SVR": ("epsilon_insensitive", "squared_epsilon_insensitive"),
        "NuSVC": (None,),
        "NuSVR": (None,),
        "OneClassSVM": (None,),
    }
    wanted = {(machine, kernel, loss) for machine, of_it in losses.items() for kernel in KERNELS for loss in of_it}
    assert {(machine.estimator, machine.kernel, machine.loss) for machine in STORED} == wanted
    for estimator in ("SVC", "SVR"):
        assert {machine.fit_intercept for machine in STORED if machine.estimator == estimator} == {True, False}
    assert any(machine.C is None for machine in STORED if machine.estimator == "SVC")
