"""The judges judge each other: the oracle of the tests against the 80-bit one of the fuzzer, the one of the benchmarks, and
optima that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import maxmargin
from benchmarks.truth import Duals, truth_about
from fuzz.exact_kernels import ExactKernel
from fuzz.oracle import evaluate
from fuzz.problems import Problem
from fuzz.returned import exact_kernel, machines_of
from tests import oracle

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
LABELS = (X[:, 0] + 0.5 * RNG.normal(size=N) > 0).astype(int)
CLASSES = np.digitize(X[:, 1] + 0.3 * RNG.normal(size=N), [-0.5, 0.5])
TARGETS = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=N)
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 2.0], N)
MODELS: dict[str, tuple[dict[str, Any], Any]] = {
    "SVC": ({"C": 3.0, "class_weight": {0: 2.0}}, LABELS),
    "SVC squared": ({"loss": "squared_hinge", "fit_intercept": False}, LABELS),
    "SVC hard margin": ({"C": np.inf}, LABELS),
    "SVC one-vs-one": ({}, CLASSES),
    "SVC one-vs-rest": ({"multi_class": "ovr"}, CLASSES),
    "SVC joint": ({"multi_class": "crammer_singer"}, CLASSES),
    "SVC joint of two": ({"multi_class": "crammer_singer"}, LABELS),
    "SVR": ({"C": 3.0}, TARGETS),
    "SVR squared": ({"loss": "squared_epsilon_insensitive"}, TARGETS),
    "NuSVC": ({"nu": 0.3}, LABELS),
    "NuSVC one-vs-one": ({"nu": 0.2}, CLASSES),
    "NuSVR": ({"nu": 0.4}, TARGETS),
    "OneClassSVM": ({"nu": 0.3}, None),
}


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "exponential", "sigmoid"])
def test_kernels_are_those_of_the_80_bit_oracle(kernel: str) -> None:
    """Also far from the origin: distances are sums of differences."""
    far = X + 1e3
    exact = ExactKernel(kernel, far, gamma=0.3, coef0=0.5, degree=2).block(np.arange(N), np.arange(20)).values
    found = oracle.kernel_matrix(kernel, far, far[:20], gamma=0.3, coef0=0.5, degree=2)
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-13, atol=1e-300)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("tol", [1e-6, 0.3])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_the_80_bit_oracle(name: str, weights: Any, tol: float) -> None:
    """At the optimum and far from it, of every machine of a model."""
    (estimator, *_), (options, y) = name.split(), MODELS[name]
    parameters = {"gamma": 0.5, "tol": tol, "gap_tol": None} | options
    model = getattr(maxmargin, estimator)(**parameters).fit(X, y, sample_weight=weights)
    problem = Problem(estimator, parameters, X, y, weights)
    truths = oracle.judge(model, oracle.kernel_of(model, X), y, weights)
    exact = [point.truth() for point in evaluate(exact_kernel(model, problem), machines_of(model, problem))]
    for ours, theirs in zip(truths, exact, strict=True):
        assert ours.outside <= 1e-13
        assert max(theirs.box_residual, theirs.equality_residual) <= 1e-13
        assert ours.dual == pytest.approx(theirs.dual, abs=1e-12 * ours.size)
        close = 1e-8 if estimator == "OneClassSVM" else 1e-12  # its offset_, which the other takes, is a little below rho
        assert ours.primal == pytest.approx(theirs.primal, abs=close * ours.size)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("SVC", {"C": 3.0}), ("SVC one-vs-one", {"C": 1.0}), ("SVR", {"C": 3.0, "epsilon": 0.1}), ("OneClassSVM", {"nu": 0.3})],
)
def test_values_are_those_of_the_benchmarks(name: str, settings: dict[str, float]) -> None:
    """Whose bias is the best one: that of the library, at the optimum."""
    estimator, y = name.split()[0], MODELS[name][1]
    model = getattr(maxmargin, estimator)(gamma=0.5, tol=1e-9, **settings).fit(X, y)
    n_support = getattr(model, "n_support_", np.array([len(model.support_)]))
    theirs = truth_about(estimator, X, y, Duals(model.support_, n_support, model.dual_coef_), gamma=0.5, **settings)
    ours = oracle.judge(model, oracle.kernel_of(model, X), y)
    assert sum(truth.primal for truth in ours) == pytest.approx(theirs.primal, rel=1e-8)
    assert sum(truth.dual for truth in ours) == pytest.approx(theirs.dual, rel=1e-12)


def test_a_point_outside_the_constraints_is_told() -> None:
    K, signs, C = oracle.kernel_matrix("rbf", X), 2.0 * LABELS - 1.0, np.full(N, 2.0)
    inside = np.where(signs > 0, 1.0 / (signs > 0).sum(), -1.0 / (signs < 0).sum())
    assert oracle.classifier(K, signs, C, inside, 0.0).outside <= 1e-15
    assert oracle.classifier(K, signs, C, 2.0 * N * inside, 0.0).outside > 0.5  # above the box
    assert oracle.classifier(K, signs, C, -inside, 0.0).outside > 1e-3  # below it
    assert oracle.classifier(K, signs, C, inside * (signs > 0), 0.0).outside == pytest.approx(1.0)  # a sum that is not zero
    assert oracle.classifier(K, signs, C, inside * (signs > 0), None).outside == 0.0


def test_the_optimum_of_a_projection_is_known() -> None:
    """min 1/2 |alpha - z|^2 over the simplex, solved by sorting."""
    z = RNG.normal(size=12)
    falling = np.sort(z)[::-1]
    thresholds = (np.cumsum(falling) - 1.0) / np.arange(1, 13)
    nearest = np.maximum(0.0, z - thresholds[falling > thresholds][-1])
    problem = oracle.Quadratic(np.eye(12), -z, np.inf, np.ones((1, 12)), np.ones(1))
    assert oracle.optimal_value(problem) == pytest.approx(z @ nearest - 0.5 * nearest @ nearest, rel=1e-11)


def test_optima_lie_between_the_values_of_a_joint_machine() -> None:
    K, cost, own = oracle.kernel_matrix("rbf", X), WEIGHTS, np.arange(3)[:, None] == CLASSES
    zero = oracle.crammer_singer(K, own, cost, np.zeros((3, N)))
    assert zero.outside == 0.0
    assert zero.dual < oracle.crammer_singer_optimum(K, own, cost) < zero.primal
