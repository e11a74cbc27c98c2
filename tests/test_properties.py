"""What must hold of every machine, whatever the data: hypothesis looks for data where it does not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from tests import oracle

# a nu that happens to be too small for a margin; such cases are left out
pytestmark = pytest.mark.filterwarnings("ignore:No margin")

Matrix = NDArray[np.float64]
#: Machines are solved to TOL here, so what is equal in theory is nearly so in the numbers.
TOL, CLOSE = 1e-9, 1e-6


@dataclass(frozen=True)
class Case:
    """A small training set and the machine to train on it."""

    X: Matrix
    y: Matrix
    options: dict[str, Any]
    machine: type = SVC

    def fit(self, X: Matrix | None = None, y: Matrix | None = None, weight: Matrix | None = None, **other: Any) -> Any:
        model = self.machine(**self.options | other)
        return model.fit(self.X if X is None else X, self.y if y is None else y, sample_weight=weight)


def decisions(model: Any, X: Matrix) -> Matrix:
    return model.predict(X) if isinstance(model, (SVR, NuSVR)) else model.decision_function(X)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two clouds that overlap or not, sometimes on a grid, where samples coincide; kernels with a unique solution."""
    n, d = draw(st.integers(4, 40)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = np.where(np.arange(n) % draw(st.integers(2, 4)) == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + draw(st.sampled_from([0.0, 1.0, 3.0])) * y[:, None]
    if draw(st.booleans()):
        X = np.round(X)
    options = {
        "kernel": draw(st.sampled_from(["rbf", "laplacian", "exponential"])),
        "gamma": draw(st.sampled_from([0.1, 1.0])),
        "C": draw(st.sampled_from([0.1, 1.0, 30.0])),
        "loss": draw(st.sampled_from(["hinge", "squared_hinge"])),
        "fit_intercept": draw(st.booleans()),
        "tol": TOL,
    }
    return Case(X, y, options)


@st.composite
def family(draw: st.DrawFn) -> Case:
    """The other machines: noisy targets, a cloud with outliers, or two classes that a nu-machine can tell apart."""
    case = draw(cases())
    machine = draw(st.sampled_from([SVR, NuSVR, NuSVC, OneClassSVM]))
    options = {name: case.options[name] for name in ("kernel", "gamma", "tol")}
    y = case.y
    if machine in (SVR, NuSVR):
        options["C"] = case.options["C"]
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        y = np.sin(case.X[:, 0]) + draw(st.sampled_from([0.0, 0.3])) * rng.normal(size=len(y))
    if machine is SVR:
        options["epsilon"] = draw(st.sampled_from([0.0, 0.1, 0.5]))
        options["loss"] = draw(st.sampled_from(["epsilon_insensitive", "squared_epsilon_insensitive"]))
    else:
        options["nu"] = draw(st.sampled_from([0.1, 0.4, 0.7]))
    if machine is NuSVC:  # feasible, even with one row less; and not so small that the machine is divided by nearly zero
        options["nu"] = draw(st.sampled_from([0.45, 0.6])) * 2.0 * float(np.mean(y > 0))
    return Case(case.X, y, options, machine)


def assert_same_decisions(one: Matrix, other: Matrix) -> None:
    np.testing.assert_allclose(one, other, rtol=CLOSE, atol=CLOSE * max(1.0, float(np.abs(one).max())))


@given(cases() | family(), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(case, random):
    order = np.array(random.sample(range(len(case.y)), len(case.y)))
    one, other = case.fit(), case.fit(case.X[order], case.y[order])
    assume(one.status_.converged)
    assert_same_decisions(decisions(one, case.X), decisions(other, case.X))
    np.testing.assert_allclose(one.certificate_.gap_terms[order], other.certificate_.gap_terms, atol=CLOSE)


@given(cases())
def test_swapping_the_labels_turns_the_decision_around(case):
    assert_same_decisions(case.fit().decision_function(case.X), -case.fit(y=-case.y).decision_function(case.X))


@given(cases() | family(), st.data())
def test_a_row_twice_is_a_row_of_weight_two(case, data):
    row = data.draw(st.integers(0, len(case.y) - 1))
    twice = case.fit(np.vstack([case.X, case.X[[row]]]), np.append(case.y, case.y[row]))
    weight = np.ones(len(case.y))
    weight[row] = 2.0
    heavy = case.fit(weight=weight)
    assume(twice.status_.converged)
    assert_same_decisions(decisions(twice, case.X), decisions(heavy, case.X))
    assert twice.certificate_.dual == pytest.approx(heavy.certificate_.dual, rel=CLOSE)


@given(cases() | family(), st.data())
def test_a_row_of_weight_zero_is_not_there(case, data):
    row = data.draw(st.integers(2 * (len(case.y) > 4), len(case.y) - 1))
    kept = np.arange(len(case.y)) != row
    assume(len(np.unique(case.y[kept])) > 1)
    weight = kept.astype(float)
    without, light = case.fit(case.X[kept], case.y[kept]), case.fit(weight=weight)
    assume(without.status_.converged)
    assert row not in light.support_
    assert light.certificate_.gap_terms[row] == 0.0
    assert_same_decisions(decisions(without, case.X), decisions(light, case.X))


@given(cases(), st.sampled_from([1e-3, 0.1, 7.0, 1e4]))
def test_scaling_the_kernel_is_scaling_C(case, factor):
    """Put beta = beta' / c into the dual of (c K, C / c): its objective is that of (K, C) in beta', divided by c, and
    the box and the constraint are the same. So f(x) = sum beta c k = sum beta' k does not change at all."""
    one = case.fit()
    K = oracle.kernel_of(one, case.X)
    other = case.fit(factor * K, kernel="precomputed", C=case.options["C"] / factor)
    assert_same_decisions(one.decision_function(case.X), other.decision_function(factor * K))
    assert other.certificate_.dual * factor == pytest.approx(one.certificate_.dual, rel=CLOSE)


@given(cases() | family(), st.integers(0, 30))
def test_a_certificate_bounds_the_distance_to_any_better_solution(case, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # whether a few steps are enough depends on the data
        early = case.fit(max_iter=steps).certificate_
    best = case.fit().certificate_
    assert early.gap >= 0.0
    assert (early.gap_terms >= 0.0).all()
    assert early.primal - early.dual == pytest.approx(early.gap, rel=1e-9, abs=1e-12)
    slack = CLOSE * abs(best.dual)
    assert early.dual <= best.primal + slack
    assert early.primal >= best.dual - slack
    assert early.gap >= best.dual - early.dual - slack
