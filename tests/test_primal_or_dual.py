"""Primal or dual: the table, the choice, and that solver='auto' makes it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from maxmargin import SVC, Status
from maxmargin.kernels import RBF
from maxmargin.primal_or_dual import primal_or_dual
from maxmargin.solvers import SOLVERS, choose
from maxmargin.solvers.choose import Situation, choose_solver


def many_samples(n=1500, d=3, seed=0):
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.4, 1, -1)
    X = random.normal(size=(n, d))
    X[:, 0] += 0.8 * y
    return X, y


# --- the table -----------------------------------------------------------------------------------------------------


def test_the_table():
    advice = primal_or_dual(5000, 10, feature_dimension=66, n_support=300, passes=50)
    assert advice.primal.parameters == advice.primal.model_size == advice.primal.inference == 66
    assert advice.primal.training == (50 * 5000 * 66,) * 2
    assert advice.dual.parameters == 5000
    assert advice.dual.model_size == advice.dual.inference == 300 * 10
    assert advice.dual.training == (5000 * 10, 5000**2 * 10)
    assert advice.choice == "primal"
    text = str(advice)
    assert all(words in text for words in ("parameters", "model size", "training cost", "inference cost", advice.reason))
    assert "5e+04 to 2.5e+08" in text


def test_all_samples_may_be_support_vectors():
    assert primal_or_dual(1000, 10).dual.inference == 1000 * 10


@pytest.mark.parametrize(
    ("n_samples", "n_features", "dimension", "choice", "because"),
    [
        (100_000, 20, None, "primal", "20 parameters instead of 100000"),
        (100_000, 20, 1771, "primal", "1771 features"),
        (100_000, 20, math.inf, "dual", "infinitely many features"),
        (2_000, 1_000, None, "dual", "1000 features for 2000 samples"),
        (300, 5, None, "dual", "cost more than all pairs"),
        (100_000, 20, 53_130, "dual", "5.313e+04 features for 100000 samples"),
    ],
)
def test_the_choice(n_samples, n_features, dimension, choice, because):
    advice = primal_or_dual(n_samples, n_features, dimension)
    assert advice.choice == choice
    assert because in advice.reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0, "n_features": 3}, "n_samples=0: must be positive"),
        ({"n_samples": 10, "n_features": -1}, "n_features=-1: must be positive"),
        ({"n_samples": 10, "n_features": 3, "feature_dimension": 0}, r"feature_dimension=0\.0: must be positive"),
        ({"n_samples": 10, "n_features": 3, "n_support": 11}, "n_support=11: must be between 0 and n_samples=10"),
        ({"n_samples": 10, "n_features": 3, "passes": 0}, "passes=0: must be positive"),
    ],
)
def test_impossible_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        primal_or_dual(**arguments)


# --- solver='auto' -------------------------------------------------------------------------------------------------


def test_auto_trains_the_primal_where_it_is_the_better_problem():
    """Without compiled code; with it, the solvers of linear machines do (test_linear_kernel.py)."""
    X, y = many_samples()
    chosen = SVC(kernel="linear", loss="squared_hinge", backend="reference").fit(X, y)
    assert chosen.solver_ == "lbfgs"
    assert "1500 samples of 3 features" in chosen.solver_reason_
    assert primal_or_dual(*X.shape).reason in chosen.solver_reason_
    asked = SVC(kernel="linear", loss="squared_hinge", solver="block-smo").fit(X, y)
    assert (asked.solver_, asked.solver_reason_) == ("block-smo", "block-smo, as asked")
    assert chosen.status_ is Status.CONVERGED
    assert chosen.certificate_.kkt_violation <= chosen.tol
    assert chosen.certificate_.holds(1e-6)
    assert chosen.certificate_.primal == pytest.approx(asked.certificate_.primal, rel=1e-6)


@pytest.mark.parametrize(
    ("parameters", "n", "because"),
    [
        ({"kernel": "linear"}, 1500, "the hinge has a kink"),
        ({"kernel": "linear", "loss": "squared_hinge", "C": np.inf}, 1500, "hard margin"),
        ({"kernel": "rbf", "loss": "squared_hinge"}, 1500, "infinitely many features"),
        ({"kernel": "poly", "degree": 2, "coef0": 1.0, "loss": "squared_hinge"}, 4000, "poly kernel"),
        ({"kernel": "linear", "loss": "squared_hinge"}, 200, "cost more than all pairs"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_auto_trains_the_dual_elsewhere_and_says_why(parameters, n, because):
    X, y = many_samples(n)
    model = SVC(max_iter=2000, **parameters).fit(X, y)
    assert model.solver_ == "block-smo"
    assert model.solver_reason_.startswith("block-smo, a solver of the dual")
    assert because in model.solver_reason_


def test_auto_goes_on_in_the_dual_where_the_primal_falls_short(monkeypatch):
    X, y = many_samples(1100)
    whole = SVC(kernel="linear", loss="squared_hinge").fit(X, y)
    stopping = replace(
        SOLVERS["lbfgs"],
        solve=lambda job, options: choose.lbfgs.solve(job, replace(options, max_iterations=2)),
    )
    monkeypatch.setitem(SOLVERS, "lbfgs", stopping)
    with pytest.warns(match="solver's own rule"):
        alone = SVC(kernel="linear", loss="squared_hinge", solver="lbfgs").fit(X, y)
    assert alone.certificate_.kkt_violation > 1e-3
    both = SVC(kernel="linear", loss="squared_hinge", backend="reference").fit(X, y)
    assert both.solver_ == "lbfgs"
    assert both.status_ is Status.CONVERGED
    assert both.n_iter_[0] > alone.n_iter_[0]
    assert both.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=1e-6)


def test_auto_looks_at_the_largest_machine():
    X, _ = many_samples(2400)
    model = SVC(kernel="linear", loss="squared_hinge").fit(X, np.arange(2400) % 3)
    assert "1600 samples" in model.solver_reason_


def test_what_was_asked_for_is_refused_where_it_cannot_be():
    wide = Situation(RBF(), "hinge", True, 20_000, 5)
    with pytest.raises(
        ValueError,
        match=r"solver='smo-platt': it keeps the whole kernel matrix, so 20000 samples are too "
        r"many \(at most 10000\)\. Here you can use block-smo",
    ):
        choose_solver("smo-platt", wide)
    assert choose_solver("block-smo", wide).name == "block-smo"
