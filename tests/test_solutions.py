"""Distance to stored solutions of high accuracy (tests/data/make_solutions.py), which another method computed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from data.make_solutions import DATA, FILE, Machine, kernel_matrix

from maxmargin import SVC

STORED = [Machine(**entry) for entry in json.loads(FILE.read_text())]
RELATIVE = 1e-6


def identify(machine: Machine) -> str:
    C = "inf" if machine.C is None else f"{machine.C:g}"
    intercept = "" if machine.fit_intercept else ", no intercept"
    return f"{machine.kernel} {machine.loss} C={C}{intercept} on {machine.data}"


def fitted(machine: Machine, backend: str, **options) -> SVC:
    X, y = DATA[machine.data]()
    C = np.inf if machine.C is None else machine.C
    options = {"kernel": machine.kernel} | machine.parameters | options
    model = SVC(C=C, loss=machine.loss, fit_intercept=machine.fit_intercept, tol=1e-5, backend=backend, **options)
    return model.fit(X, y)


def dual_value(machine: Machine, model: SVC) -> float:
    """sum(alpha) - 1/2 beta' K beta, from the coefficients alone."""
    K, y = machine.quadratic()
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    assert (y * beta >= 0).all()
    if machine.loss == "hinge" and machine.C is not None:
        assert np.abs(beta).max() <= machine.C
    if machine.fit_intercept:
        assert abs(beta.sum()) <= 1e-10 * np.abs(beta).sum()
    return float(y @ beta - 0.5 * beta @ K @ beta)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("machine", STORED, ids=identify)
def test_dual_objective(machine, backend):
    if backend == "reference" and machine.data == "many clouds":
        backend = "native"  # the twin is for small sets: here with every kernel row computed anew
        model = fitted(machine, backend, cache_size=1)
    else:
        model = fitted(machine, backend)
    assert model.status_.converged, model.status_.value
    assert dual_value(machine, model) == pytest.approx(machine.objective, rel=RELATIVE)
    certificate = model.certificate_
    assert certificate.dual == pytest.approx(machine.objective, rel=RELATIVE)
    assert certificate.primal >= machine.objective * (1 - RELATIVE)  # the optimum lies between the two


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("kind", ["precomputed", "callable"])
def test_kernels_that_only_the_user_knows(kind, backend):
    for machine in STORED:
        if machine.kernel != "rbf" or machine.data != "clouds":
            continue
        X, y = DATA[machine.data]()
        if kind == "precomputed":
            X, kernel = kernel_matrix("rbf", X, **machine.parameters), "precomputed"
        else:
            gamma = machine.parameters["gamma"]

            def kernel(A, B, gamma=gamma):
                return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(axis=-1))

        machine_here = {"C": machine.C, "loss": machine.loss, "fit_intercept": machine.fit_intercept}
        model = SVC(**machine_here, kernel=kernel, tol=1e-5, backend=backend).fit(X, y)
        assert dual_value(machine, model) == pytest.approx(machine.objective, rel=RELATIVE)


def test_every_kernel_and_loss_is_stored():
    wanted = {(kernel, loss) for kernel in ("linear", "poly", "rbf", "laplacian", "exponential", "sigmoid")
              for loss in ("hinge", "squared_hinge")}  # fmt: skip
    assert {(machine.kernel, machine.loss) for machine in STORED} == wanted
    assert any(machine.C is None for machine in STORED)
    assert {machine.fit_intercept for machine in STORED} == {True, False}
