"""SVC and SVR with a linear kernel and many samples are trained by the solvers of linear machines, to the same certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification, make_regression

from maxmargin import SVC, SVR
from maxmargin.formulations import classification_problem, regression_problem
from maxmargin.solution import Status
from maxmargin.solvers.linear.kernel_machine import linear_problem

X, Y = make_classification(1200, 15, n_informative=8, flip_y=0.1, random_state=0)
X3, Y3 = make_classification(2400, 15, n_informative=8, n_classes=3, random_state=0)
XR, T = make_regression(1200, 8, noise=10.0, random_state=0)
T = T / T.std()
WIDE = sp.random(1100, 3000, 0.01, format="csr", random_state=0)
CLASS_OF_WIDE = (np.asarray(WIDE.sum(axis=1)).ravel() > WIDE.sum(axis=1).mean()).astype(int)


def same_machine(cls: type, X: Any, y: Any, weights: Any = None, **parameters: Any) -> None:
    ours = cls(kernel="linear", **parameters).fit(X, y, weights)
    fast = cls(kernel="linear", solver="block-smo", gap_tol=1e-7, **parameters).fit(X, y, weights)
    assert ours.solver_ == "linear"
    assert "linear machines" in ours.solver_reason_
    assert ours.status_ is Status.CONVERGED
    proof = ours.certificate_
    assert proof.feasible
    assert proof.complete
    assert proof.kkt_violation <= 1e-3
    assert proof.holds(1e-3)
    assert proof.primal == pytest.approx(fast.certificate_.primal, rel=2e-3)
    assert proof.dual <= fast.certificate_.primal * (1.0 + 1e-9)
    duals = ours.dual_coef_.toarray() if sp.issparse(ours.dual_coef_) else ours.dual_coef_
    vectors = ours.support_vectors_.toarray() if sp.issparse(ours.support_vectors_) else ours.support_vectors_
    coef = ours.coef_.toarray() if sp.issparse(ours.coef_) else ours.coef_
    if len(coef) == 1:
        assert_allclose(duals @ vectors, coef, atol=1e-9)
    assert len(ours.support_) == duals.shape[1] == ours.n_support_.sum()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_classification(loss, fit_intercept, C):
    if fit_intercept and loss == "hinge":  # weights of zero, and different ones
        weights = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
        same_machine(SVC, X, Y, weights, loss=loss, C=C)
    else:
        same_machine(SVC, X, Y, loss=loss, C=C, fit_intercept=fit_intercept)


def test_samples_far_from_the_origin():
    same_machine(SVC, X + 1e4, Y, C=0.1)


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_three_classes(strategy):
    same_machine(SVC, X3, Y3, multi_class=strategy)


def test_sparse_samples_with_more_features():
    same_machine(SVC, WIDE, CLASS_OF_WIDE)
    same_machine(SVC, WIDE.astype(np.float32), CLASS_OF_WIDE, loss="squared_hinge")


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_regression(loss, fit_intercept):
    same_machine(SVR, XR, T, loss=loss, epsilon=0.1, fit_intercept=fit_intercept)


def test_the_two_problems_have_the_same_values():
    """The dual value of a point is the same, as a point of the kernel machine and of the linear one."""
    rng = np.random.default_rng(0)
    n, A = 50, rng.standard_normal((50, 4))
    K, cost = A @ A.T, rng.random(50) + 0.1
    signs, targets = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.standard_normal(n)
    for loss in ("hinge", "squared_hinge"):
        problem = classification_problem(signs, cost, loss)
        posed = linear_problem(problem, doubled=False)
        beta = signs * cost * rng.random(n)
        gradient = K @ beta + problem.linear + (0.0 if problem.shift is None else problem.shift * beta)
        q = 0.0 if problem.shift is None else 1.0 / (2.0 * np.abs(posed.reach))
        value = posed.targets @ beta - 0.5 * (q * beta**2).sum() - 0.5 * np.sum((A.T @ beta) ** 2)
        assert problem.dual_value(beta, gradient) == pytest.approx(value)
        assert np.array_equal(posed.box, [problem.lower, problem.upper])
    problem = regression_problem(targets, cost, 0.3)
    posed = linear_problem(problem, doubled=True)
    beta = cost * rng.uniform(-1.0, 1.0, n)
    halves = np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)])
    gradient = np.tile(K @ beta, 2) + problem.linear
    value = targets @ beta - 0.3 * np.abs(beta).sum() - 0.5 * np.sum((A.T @ beta) ** 2)
    assert problem.dual_value(halves, gradient) == pytest.approx(value)
    assert_allclose(posed.targets, targets, atol=1e-12)
    assert posed.epsilon == pytest.approx(0.3)


def test_auto_leaves_what_the_linear_solvers_cannot_do():
    few = SVC(kernel="linear").fit(X[:500], Y[:500])
    limited = SVC(kernel="linear", max_iter=10**6).fit(X, Y)
    huber = SVC(kernel="linear", loss="huber_hinge").fit(X, Y)
    curved = SVC(kernel="rbf").fit(X, Y)
    assert {model.solver_ for model in (few, limited, huber, curved)} == {"block-smo"}
    with pytest.raises(
        ValueError, match="solver='linear': it solves the primal problem, for which the rbf kernel has no features"
    ):
        SVC(solver="linear").fit(X, Y)
    with pytest.raises(ValueError, match="solver='linear': it does not take the huber_epsilon_insensitive loss"):
        SVR(kernel="linear", solver="linear", loss="huber_epsilon_insensitive").fit(XR, T)


def test_the_fast_solver_goes_on_where_the_linear_ones_fall_short(monkeypatch):
    monkeypatch.setattr("maxmargin.solvers.linear.kernel_machine.LEAST_ROUNDS", 1)
    monkeypatch.setattr("maxmargin.solvers.linear.kernel_machine.SAMPLES_PER_ROUND", 10**9)
    model = SVC(kernel="linear", C=0.1).fit(X, Y)
    assert model.solver_ == "linear"
    assert model.n_iter_[0] > 1
    assert model.status_ is Status.CONVERGED


def test_a_warm_start_and_limits_of_time():
    model = SVC(kernel="linear", warm_start=True, C=0.1).fit(X, Y)
    cold = model.n_iter_[0]
    model.fit(X, Y)
    assert model.n_iter_[0] < cold
    with pytest.warns(UserWarning, match="max_seconds"):
        ended = SVC(kernel="linear", max_seconds=1e-9).fit(X, Y)
    assert ended.status_ is Status.MAX_SECONDS
    assert ended.certificate_.feasible
