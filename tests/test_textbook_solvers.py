"""The solvers of the textbooks: each reaches its certified gap, agrees with the fast one, obeys, and says when it cannot.

The figures are relative duality gaps, proved by the certificate. Those of qp, smo-platt and dual-ascent are what tight
settings give; the others are first-order methods or draw at random, and theirs are the honest figure at a cost that is
fair for problems of this size.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, NuSVR, Status
from maxmargin.formulations import classification_problem
from maxmargin.gram import AugmentedGram, BlockGram
from maxmargin.kernels import make_kernel
from maxmargin.samples import make_samples
from maxmargin.solvers import SOLVERS
from maxmargin.solvers.primal import balanced_pull, pull
from maxmargin.solvers.separability import best_multiple, hulls_meet
from maxmargin.solvers.textbook.pair_step import best_step, bias_after, move
from tests import oracle

# --- twenty small problems -----------------------------------------------------------------------------------------


def squared(A: Any, B: Any) -> Any:
    """A kernel of the user: for the matrices and the callables."""
    return (A @ B.T + 1.0) ** 2


@dataclass(frozen=True)
class Problem:
    """A data set of two classes that are `apart` by so many deviations, a `share` of them positive, and a machine for it."""

    kernel: str
    loss: str
    C: float
    n: int
    apart: float
    share: float = 0.5
    seed: int = 0

    @property
    def name(self) -> str:
        price = "hard" if np.isinf(self.C) else f"C{self.C:g}"
        return f"{self.kernel}-{self.loss}-{price}-n{self.n}-apart{self.apart:g}-share{self.share:g}"

    @property
    def parameters(self) -> dict[str, Any]:
        kernel = squared if self.kernel == "callable" else self.kernel
        return {"kernel": kernel, "gamma": 0.4, "coef0": 1.0, "degree": 2, "loss": self.loss, "C": self.C}

    def k(self, A: Any, B: Any) -> Any:
        return (
            squared(A, B) if self.kernel in ("callable", "precomputed") else oracle.kernel_matrix(self.kernel, A, B, 0.4, 1.0, 2)
        )

    def samples(self) -> tuple[Any, Any, Any]:
        """A training set and other samples, before they become rows of a matrix."""
        random = np.random.default_rng(self.seed)
        y = np.where(random.random(self.n) < self.share, 1, -1)
        y[:2] = 1, -1
        X = random.normal(size=(len(y), 3))
        X[:, 0] += 0.5 * self.apart * y
        return X, y, 2.0 * random.normal(size=(300, 3))

    def inputs(self) -> tuple[Any, Any, Any]:
        """The same as an estimator wants them."""
        X, y, queries = self.samples()
        return (self.k(X, X), y, self.k(queries, X)) if self.kernel == "precomputed" else (X, y, queries)

    def band(self, *models: SVC) -> Any:
        """By how much the decisions of machines may differ at the other samples, given how close to the optimum they are.

        The primal is 1-strongly convex in w: |w - w*|^2 <= 2 gap, so f can be off by sqrt(2 gap k(x, x)), and by the bias.
        """
        sizes = np.array([self.k(query[None], query[None])[0, 0] for query in self.samples()[2]])
        reach = sum(np.sqrt(2.0 * model.certificate_.gap) for model in models)
        return reach * np.sqrt(sizes) + np.ptp([model.intercept_[0] for model in models]) + 1e-9


PROBLEMS = [
    Problem("linear", "hinge", 1.0, 60, 1.5),
    Problem("linear", "hinge", 0.1, 120, 1.0, share=0.15, seed=1),
    Problem("linear", "hinge", 1.0, 80, 6.0, seed=2),
    Problem("linear", "hinge", np.inf, 60, 8.0, seed=3),
    Problem("linear", "squared_hinge", 0.5, 60, 1.5, seed=4),
    Problem("linear", "squared_hinge", 0.2, 100, 1.0, share=0.2, seed=5),
    Problem("poly", "hinge", 0.5, 60, 1.5, seed=6),
    Problem("poly", "squared_hinge", 0.1, 60, 2.0, share=0.2, seed=7),
    Problem("poly", "hinge", np.inf, 40, 8.0, seed=8),
    Problem("rbf", "hinge", 1.0, 100, 1.5, seed=9),
    Problem("rbf", "hinge", 5.0, 60, 4.0, share=0.2, seed=10),
    Problem("rbf", "hinge", np.inf, 40, 5.0, seed=11),
    Problem("rbf", "squared_hinge", 0.3, 60, 1.0, seed=12),
    Problem("laplacian", "hinge", 1.0, 60, 1.0, seed=13),
    Problem("laplacian", "squared_hinge", 1.0, 60, 3.0, share=0.2, seed=14),
    Problem("exponential", "hinge", 2.0, 60, 1.5, share=0.3, seed=15),
    Problem("exponential", "squared_hinge", 1.0, 50, 6.0, seed=16),
    Problem("precomputed", "hinge", 0.3, 60, 1.5, seed=17),
    Problem("callable", "hinge", 0.3, 60, 2.0, share=0.3, seed=18),
    Problem("callable", "squared_hinge", 0.1, 50, 1.5, seed=19),
    Problem("linear", "squared_hinge", 1.0, 80, 7.0, share=0.15, seed=1),
]

each_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


def train(problem: Problem, X: Any, y: Any, **parameters: Any) -> SVC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SVC(**problem.parameters | parameters).fit(X, y)


def assert_agreement(problem: Problem, model: SVC, objective: float, sure: float) -> None:
    """A feasible point; the objective of the fast solver; and its predictions, wherever machines as close to the optimum as
    these must agree, which is a share of at least `sure` of the samples."""
    X, y, queries = problem.inputs()
    fast = train(problem, X, y, tol=1e-10)
    assert model.certificate_.box_residual == 0.0
    assert model.certificate_.equality_residual <= 1e-12 * max(1.0, np.abs(model.dual_coef_).sum())
    assert model.certificate_.dual == pytest.approx(fast.certificate_.dual, rel=objective)
    certain = np.abs(fast.decision_function(queries)) > problem.band(model, fast)
    assert certain.mean() >= sure
    assert (model.predict(queries) == fast.predict(queries))[certain].all()


# --- each reaches its gap and agrees with the fast one -------------------------------------------------------------


@each_problem
@pytest.mark.parametrize(("solver", "tol"), [("qp", 1e-6), ("smo-platt", 1e-7)])
def test_the_exact_solvers_of_the_dual(problem, solver, tol):
    X, y, _ = problem.inputs()
    model = train(problem, X, y, solver=solver, tol=tol)
    assert (model.solver_, model.status_) == (solver, Status.CONVERGED)
    assert model.certificate_.holds(1e-6), str(model.certificate_)
    assert_agreement(problem, model, objective=1e-6, sure=0.9)


@each_problem
def test_dual_ascent_and_the_fast_solver_on_the_augmented_kernel(problem):
    X, y, queries = problem.inputs()
    model = train(problem, X, y, solver="dual-ascent", tol=1e-7)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.holds(1e-6), str(model.certificate_)
    assert model.intercept_[0] == pytest.approx(model.dual_coef_.sum(), abs=1e-12)
    X, y, others = problem.samples()
    augmented = {"kernel": lambda A, B: problem.k(A, B) + 1.0, "fit_intercept": False}
    fast = train(problem, X, y, tol=1e-10, **augmented)
    assert model.certificate_.dual == pytest.approx(fast.certificate_.dual, rel=1e-6)
    difference = np.abs(model.decision_function(queries) - fast.decision_function(others))
    norms = np.sqrt(1.0 + np.array([problem.k(query[None], query[None])[0, 0] for query in others]))
    reach = np.sqrt(2.0 * model.certificate_.gap) + np.sqrt(2.0 * fast.certificate_.gap)
    assert (difference <= reach * norms + 1e-9).all()


@each_problem
def test_simple_smo(problem):
    X, y, _ = problem.inputs()
    model = train(problem, X, y, solver="smo-simple", tol=1e-4, solver_options={"max_passes": 100}, random_state=0)
    assert model.status_ in (Status.CONVERGED, Status.STOPPED_BY_OPTION)
    assert model.certificate_.holds(1e-3), str(model.certificate_)
    assert_agreement(problem, model, objective=1e-5, sure=0.5)


LINEAR = [problem for problem in PROBLEMS if problem.kernel == "linear"]
SOFT_LINEAR = [problem for problem in LINEAR if np.isfinite(problem.C)]


@pytest.mark.parametrize("problem", LINEAR, ids=lambda problem: problem.name)
def test_qp_in_the_primal(problem):
    X, y, _ = problem.inputs()
    model = train(problem, X, y, solver="qp", solver_options={"form": "primal"}, tol=1e-6)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.holds(1e-6), str(model.certificate_)
    assert_agreement(problem, model, objective=1e-6, sure=0.9)


@pytest.mark.parametrize("problem", SOFT_LINEAR, ids=lambda problem: problem.name)
def test_lbfgs(problem):
    X, y, _ = problem.inputs()
    model = train(problem, X, y, solver="lbfgs", tol=1e-4)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.holds(1e-8 if problem.loss == "squared_hinge" else 1e-4), str(model.certificate_)
    assert_agreement(problem, model, objective=1e-5, sure=0.9)


@pytest.mark.parametrize("problem", [p for p in SOFT_LINEAR if p.loss == "hinge"], ids=lambda problem: problem.name)
@pytest.mark.parametrize(
    ("options", "gap"),
    [
        ({}, 0.03),
        ({"learning_rate": "constant", "eta0": 0.01, "epochs": 500}, 0.1),
        ({"batch_size": 10, "eta0": 0.02, "epochs": 200}, 0.3),
    ],
)
def test_subgradient_descent(problem, options, gap):
    X, y, _ = problem.inputs()
    model = train(problem, X, y, solver="subgradient", solver_options=options, random_state=0)
    assert model.status_ is Status.STOPPED_BY_OPTION
    assert model.certificate_.holds(gap), str(model.certificate_)
    assert_agreement(problem, model, objective=gap, sure=0.0)


# --- the algorithms are those of the textbooks ---------------------------------------------------------------------

alphas = st.floats(0.0, 2.0)
labels = st.sampled_from([-1.0, 1.0])


@given(st.tuples(alphas, alphas), st.tuples(labels, labels), st.integers(0, 2**16))
@settings(max_examples=200)
def test_the_pair_step_is_the_lectures_update(alpha, t, seed):
    """a_j - t_j (E_i - E_j) / eta, clipped to [L, H] in two cases; a_i follows; b in three cases."""
    random, C = np.random.default_rng(seed), 2.0
    X = random.normal(size=(2, 2))
    K, others, b = X @ X.T, random.normal(size=2), random.normal()
    (a_i, a_j), (t_i, t_j) = alpha, t
    E_i, E_j = (K @ (np.array(alpha) * t) + others) + b - np.array(t)
    eta = 2.0 * K[0, 1] - K[0, 0] - K[1, 1]
    if t_i == t_j:
        low, high = max(0.0, a_i + a_j - C), min(C, a_i + a_j)
    else:
        low, high = max(0.0, a_j - a_i), min(C, C + a_j - a_i)
    new_j = np.clip(a_j - t_j * (E_i - E_j) / eta, low, high)
    new_i = a_i - t_i * t_j * (new_j - a_j)
    b_i = b - E_i - t_i * (new_i - a_i) * K[0, 0] - t_j * (new_j - a_j) * K[0, 1]
    b_j = b - E_j - t_i * (new_i - a_i) * K[0, 1] - t_j * (new_j - a_j) * K[1, 1]
    new_b = b_i if 0.0 < new_i < C else b_j if 0.0 < new_j < C else 0.5 * (b_i + b_j)

    problem = classification_problem(np.array(t), np.full(2, C))
    beta = np.array(alpha) * t
    G = K @ beta + others + problem.linear
    step = best_step(problem, K, beta, 0, 1, G[0] - G[1])
    after = beta + step * np.array([-1.0, 1.0])
    assert after == pytest.approx([t_i * new_i, t_j * new_j], abs=1e-9)
    after = np.array([t_i * new_i, t_j * new_j])  # so that both see the same duals at their bounds
    G = K @ after + others + problem.linear
    assert bias_after(problem, after, 0, 1, G[0], G[1]) == pytest.approx(new_b, abs=1e-8)


@given(st.floats(1e-3, 1e3), st.floats(0.0, 1.0), labels)
@settings(max_examples=300)
def test_a_step_to_the_end_of_the_box_lands_there(C, share, sign):
    problem = classification_problem(np.array([sign]), np.array([C]))
    for end in (0.0, sign * C):
        beta = np.array([share * sign * C])
        move(problem, beta, 0, end - beta[0])
        assert beta[0] == end


def test_dual_ascent_stops_when_the_duals_change_by_less_than_epsilon():
    X, y, _ = PROBLEMS[9].samples()
    coarse, fine = (
        train(PROBLEMS[9], X, y, solver="dual-ascent", tol=1e-9, solver_options={"epsilon": epsilon}) for epsilon in (1e-2, 1e-4)
    )
    assert coarse.status_ is fine.status_ is Status.STOPPED_BY_OPTION
    assert coarse.n_iter_[0] < fine.n_iter_[0]
    assert coarse.certificate_.gap > fine.certificate_.gap


# --- to the letter: the page's algorithm in exact arithmetic, line by line, against the solver after every pass ---------

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)


def few_whole_numbers(seed: int, n: int, apart: float = 2.0) -> tuple[Any, Any]:
    """Samples with whole features, no two alike, in an order that is not that of their classes."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.where(np.arange(n) % 2, 1, -1))
    X = np.rint(random.normal(scale=2.0, size=(n, 2)) + apart * y[:, None])
    while len(np.unique(X, axis=0)) < n:
        X = np.rint(X + random.normal(scale=1.0, size=(n, 2)))
    assert (np.diff(y) < 0).any()
    return X, y


def exact(values: Any) -> Any:
    """An array of fractions."""
    return np.vectorize(lambda value: Fraction(int(value)), otypes=[object])(values)


def alphas_of(model: SVC) -> Any:
    found = np.zeros(model.shape_fit_[0])
    found[model.support_] = np.abs(model.dual_coef_[0])
    return found


def assert_same_passes(literal: list[Any], X: Any, y: Any, **parameters: Any) -> None:
    """`literal` has the updates so far and the alphas after each pass, and the bias where the algorithm has one."""
    whole = train(MOONS, X, y, **parameters)
    assert len(whole.trace_.gap) - 1 == len(literal)
    assert whole.n_iter_[0] == literal[-1][0]
    for updates, alpha, *bias in literal:
        if updates:
            model = train(MOONS, X, y, **parameters, max_iter=updates)
            assert alphas_of(model) == pytest.approx(alpha.astype(float), abs=1e-9)
            assert [model.intercept_[0]] * len(bias) == pytest.approx([float(b) for b in bias], abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_dual_ascent_is_the_chapters_algorithm_pass_by_pass(loss, seed):
    """Algorithm 21.1: for k = 1, ..., n in the order of the samples, until a pass changes alpha by at most epsilon."""
    (X, y), C, epsilon = few_whole_numbers(seed, 10), HALF, 0.01
    n, Y = len(y), exact(y)
    K = exact(X @ X.T) + 1
    if loss == "squared_hinge":
        K = K + exact(np.eye(n)) / (2 * C)
    eta = [1 / K[k, k] for k in range(n)]
    passes, after = [], exact(np.zeros(n))
    while True:
        alpha = after.copy()
        for k in range(n):
            alpha[k] = alpha[k] + eta[k] * (1 - Y[k] * sum(alpha[i] * Y[i] * K[i, k] for i in range(n)))
            if alpha[k] < 0:
                alpha[k] = Fraction(0)
            if alpha[k] > C and loss == "hinge":
                alpha[k] = C
        alpha = np.array([value.limit_denominator(10**14) for value in alpha])  # else they have thousands of digits
        passes.append(((len(passes) + 1) * n, alpha))
        change = sum((alpha - after) ** 2)
        after = alpha
        if change <= Fraction(epsilon) ** 2:
            break
    assert len(passes) > 3
    options = {"epsilon": epsilon}
    assert_same_passes(passes, X, y, C=float(C), loss=loss, solver="dual-ascent", solver_options=options)


@pytest.mark.parametrize("seed", range(4))
def test_the_sketch_of_smo_pass_by_pass(seed):
    """The lecture's algorithm, with its partners drawn as the solver draws them."""
    (X, y), C, tol, max_passes = few_whole_numbers(seed, 8), THIRD, Fraction(1, 1000), 3
    N, t, K = len(y), exact(y), exact(X @ X.T)
    random = np.random.default_rng(5)
    a, b, passes, updates, done = exact(np.zeros(N)), Fraction(0), 0, 0, []

    def output(i: int) -> Fraction:
        return sum(a[m] * t[m] * K[i, m] for m in range(N)) + b

    while passes < max_passes:
        changed_as = 0
        for i in range(N):
            E_i = output(i) - t[i]
            if (a[i] < C and t[i] * E_i < -tol) or (a[i] > 0 and t[i] * E_i > tol):
                j = int(random.integers(N - 1))
                j = j + 1 if j >= i else j
                E_j = output(j) - t[j]
                eta = 2 * K[i, j] - K[i, i] - K[j, j]
                if t[i] == t[j]:
                    low, high = max(0, a[i] + a[j] - C), min(C, a[i] + a[j])
                else:
                    low, high = max(0, a[j] - a[i]), min(C, C + a[j] - a[i])
                new_j = min(max(a[j] - t[j] * (E_i - E_j) / eta, low), high)
                new_i = a[i] - t[i] * t[j] * (new_j - a[j])
                b_j = b - E_j - t[i] * (new_i - a[i]) * K[i, j] - t[j] * (new_j - a[j]) * K[j, j]
                b_i = b - E_i - t[i] * (new_i - a[i]) * K[i, i] - t[j] * (new_j - a[j]) * K[j, i]
                a[i], a[j] = new_i, new_j
                b = b_i if 0 < new_i < C else b_j if 0 < new_j < C else (b_i + b_j) / 2
                changed_as = changed_as + 1
        updates += changed_as
        done.append((updates, a.copy(), b))
        passes = passes + 1 if changed_as == 0 else 0
    assert len(done) > 2 * max_passes
    options = {"max_passes": max_passes, "seed": 5}
    assert_same_passes(done, X, y, C=float(C), tol=float(tol), solver="smo-simple", solver_options=options)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_form_of_smo_pass_by_pass(seed):
    """All i, all j != i, until the conditions hold for some bias."""
    (X, y), C, tol = few_whole_numbers(seed, 7), HALF, Fraction(1, 1000)
    D, t, K = len(y), exact(y), exact(X @ X.T)
    a, done = exact(np.zeros(D)), []

    def violated() -> bool:
        G = [sum(a[m] * t[m] * K[i, m] for m in range(D)) - t[i] for i in range(D)]  # y(x_i) - t_i, but for the bias
        at_least = [-G[i] for i in range(D) if (a[i] < C and t[i] == 1) or (a[i] > 0 and t[i] == -1)]  # b is
        at_most = [-G[i] for i in range(D) if (a[i] < C and t[i] == -1) or (a[i] > 0 and t[i] == 1)]
        return max(at_least) - min(at_most) > tol

    while violated():
        for i in range(D):
            for j in range(D):
                if j != i:
                    E_i, E_j = (sum(a[m] * t[m] * K[k, m] for m in range(D)) - t[k] for k in (i, j))
                    zeta = a[i] * t[i] + a[j] * t[j]
                    best = a[j] - t[j] * (E_i - E_j) / (2 * K[i, j] - K[i, i] - K[j, j])
                    ends = sorted((zeta - t[i] * end) * t[j] for end in (0, C))
                    a[j] = min(max(best, ends[0], 0), ends[1], C)
                    a[i] = (zeta - a[j] * t[j]) * t[i]
        done.append(((len(done) + 1) * D * (D - 1), a.copy()))
    assert done
    assert_same_passes(done, X, y, C=float(C), tol=float(tol), solver="smo-all-pairs")


def test_coordinate_ascent_by_the_largest_gain_pass_by_pass():
    """At each step the one variable of all n whose exact maximum raises J most."""
    (X, y), C = few_whole_numbers(3, 9), HALF
    n, Y, passes = len(y), exact(y), 4
    Q = (exact(X @ X.T) + 1) * np.outer(Y, Y)
    alpha, done = exact(np.zeros(n)), []
    for _ in range(passes):
        for _ in range(n):
            slope = 1 - Q @ alpha
            best = [min(max(alpha[k] + slope[k] / Q[k, k], Fraction(0)), C) for k in range(n)]
            moves = [best[k] - alpha[k] for k in range(n)]
            gains = [slope[k] * moves[k] - HALF * Q[k, k] * moves[k] ** 2 for k in range(n)]
            k = gains.index(max(gains))
            alpha[k] = best[k]
        done.append(((len(done) + 1) * n, alpha.copy()))
    for updates, after in done:
        model = train(MOONS, X, y, C=0.5, solver="dual-ascent", solver_options={"order": "greedy"}, tol=1e-12, max_iter=updates)
        assert alphas_of(model) == pytest.approx(after.astype(float), abs=1e-9)


@each_problem
def test_the_largest_gain_first_comes_to_the_same_solution(problem):
    X, y, _ = problem.inputs()
    greedy, cyclic = (
        train(problem, X, y, solver="dual-ascent", solver_options={"order": order}, tol=1e-6) for order in ("greedy", "cyclic")
    )
    assert greedy.status_ is Status.CONVERGED
    assert greedy.certificate_.dual == pytest.approx(cyclic.certificate_.dual, rel=1e-5)


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("dual-ascent", {"epsilon": 0.1}),
        ("smo-simple", {"seed": 3}),
        ("smo-platt", {"seed": 3}),
        ("subgradient", {"seed": 3, "batch_size": 7, "epochs": 20}),
    ],
)
def test_each_machine_of_several_classes_sees_its_samples_in_the_order_of_the_user(solver, options):
    X, y = load_iris(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(len(y))[:90]
    X, y = X[mixed] - X.mean(axis=0), y[mixed]
    model = train(MOONS, X, y, solver=solver, solver_options=options, C=0.1)
    for index, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        pair = np.isin(y, (i, j))
        alone = train(MOONS, X[pair], y[pair], solver=solver, solver_options=options, C=0.1)
        assert model.n_iter_[index] == alone.n_iter_[0]
        assert model.coef_[index] == pytest.approx(-alone.coef_[0], abs=1e-9)  # the first class is positive in a pair


# --- what departs from the sketch has a name ---------------------------------------------------------------------------


def test_the_sketch_ends_within_twice_the_tolerance_and_half_of_it_within_one():
    X, y, _ = PROBLEMS[9].samples()
    violations = {}
    for threshold in ("tol", "half_tol"):
        models = [
            train(PROBLEMS[9], X, y, solver="smo-simple", tol=1e-2, solver_options={"threshold": threshold, "seed": seed})
            for seed in range(8)
        ]
        violations[threshold] = [model.certificate_.kkt_violation for model in models]
        for model in models:
            reached = model.certificate_.kkt_violation <= 1e-2
            assert model.status_ is (Status.CONVERGED if reached else Status.STOPPED_BY_OPTION)
    assert 1e-2 < max(violations["tol"]) <= 2e-2
    assert max(violations["half_tol"]) <= 1e-2


def test_the_sketch_keeps_its_own_bias():
    X, y, _ = PROBLEMS[9].samples()
    running, best = (
        train(PROBLEMS[9], X, y, solver="smo-simple", tol=1e-2, solver_options={"bias": bias, "seed": 1})
        for bias in ("running", "best")
    )
    assert (running.dual_coef_ == best.dual_coef_).all()
    assert running.intercept_[0] != best.intercept_[0]
    assert running.certificate_.bias == running.intercept_[0]
    assert running.certificate_.dual == best.certificate_.dual
    assert running.certificate_.primal > best.certificate_.primal
    w = running.dual_coef_ @ running.kernel_.block(running.support_vectors_, running.support_vectors_) @ running.dual_coef_.T
    slack = np.maximum(0.0, 1.0 - y * running.decision_function(X)).sum()  # C = 1
    assert running.certificate_.primal == pytest.approx(0.5 * w.item() + slack, rel=1e-9)


def test_the_sketch_goes_on_until_nobody_asks_and_stops_at_tol_if_told_so():
    X, y, _ = PROBLEMS[9].samples()
    literal, early = (
        train(PROBLEMS[9], X, y, solver="smo-simple", solver_options={"stops": stops, "threshold": "half_tol", "seed": 2})
        for stops in ("passes", "tol")
    )
    assert early.status_ is Status.CONVERGED
    assert early.n_iter_[0] < literal.n_iter_[0]
    assert len(early.trace_.gap) < len(literal.trace_.gap)


def test_updates_that_move_nothing_count_by_the_sketch():
    """Two samples of one class at zero cannot move: their sum is fixed. Here both violators of the first pass draw such a one."""
    X, y = np.array([[2.0], [1.0], [-1.0], [-2.0]]), np.array([1, 1, -1, -1])

    def draws(seed: int) -> list[int]:
        random = np.random.default_rng(seed)
        return [int(random.integers(3)) for _ in range(2)]

    seed = next(seed for seed in range(1000) if draws(seed) == [0, 2])
    options = {"max_passes": 1, "seed": seed}
    moves = train(MOONS, X, y, solver="smo-simple", solver_options=options | {"counts": "moves"})
    updates = train(MOONS, X, y, solver="smo-simple", solver_options=options)
    assert moves.n_iter_[0] == 2
    assert not len(moves.support_)
    assert moves.status_ is Status.STOPPED_BY_OPTION
    assert updates.n_iter_[0] > 2
    assert updates.certificate_.holds(1e-3)


def test_a_tolerance_below_rounding_ends_as_stalled():
    X, y, _ = MOONS.samples()
    model = train(MOONS, X[:20], y[:20], solver="smo-simple", tol=1e-18)
    assert model.status_ is Status.STALLED
    assert model.certificate_.holds(1e-9)


def test_subgradient_descent_is_gradient_descent_on_the_objective():
    X, y, _ = PROBLEMS[0].samples()
    C, eta, steps = 0.5, 0.01, 50
    w = np.zeros(3)
    for _ in range(steps):
        inside = y * (X @ w) < 1.0
        w = w - eta * (w - C * (y[inside, None] * X[inside]).sum(axis=0))
    options = {"learning_rate": "constant", "eta0": eta, "epochs": steps}
    model = train(PROBLEMS[0], X, y, C=C, solver="subgradient", solver_options=options, fit_intercept=False)
    assert model.coef_[0] == pytest.approx(w, abs=1e-10)


def test_a_constant_rate_comes_close_fast_and_a_decaying_one_closer():
    X, y, _ = PROBLEMS[0].samples()

    def gap(**options: Any) -> float:
        return float(train(PROBLEMS[0], X, y, solver="subgradient", solver_options=options).certificate_.relative_gap)

    decaying = gap(epochs=600)
    assert gap(learning_rate="constant", eta0=0.1, epochs=600) > 10.0 * decaying
    assert gap(learning_rate="constant", eta0=0.01, epochs=600) > decaying


@given(st.integers(0, 2**16), st.sampled_from([None, 0.3]), st.booleans())
@settings(max_examples=50)
def test_the_pull_is_the_best_dual_point_of_its_box(seed, shift, coupled):
    """It minimises beta E + 1/2 shift beta^2; balanced, over points that sum to zero."""
    random, n = np.random.default_rng(seed), 8
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    problem = classification_problem(signs, random.uniform(0.1, 2.0, n), "hinge", coupled)
    outputs = random.normal(size=n)

    def value(beta: Any) -> float:
        return float(beta @ (outputs + problem.linear) + 0.5 * (shift or 0.0) * beta @ beta)

    beta = balanced_pull(problem, outputs, shift)
    assert (beta >= problem.lower).all()
    assert (beta <= problem.upper).all()
    assert not coupled or abs(beta.sum()) < 1e-12
    if not coupled:
        assert (beta == pull(outputs + problem.linear, problem.lower, problem.upper, shift)).all()
    for _ in range(20):
        other = problem.feasible(random.uniform(problem.lower, problem.upper))
        assert value(beta) <= value(other) + 1e-9


# --- the hard margin -----------------------------------------------------------------------------------------------

HARD = [
    ("block-smo", {}),
    ("smo-simple", {}),
    ("smo-all-pairs", {}),
    ("smo-platt", {}),
    ("dual-ascent", {}),
    ("qp", {"form": "dual"}),
    ("qp", {"form": "primal"}),
]


def overlapping() -> tuple[Any, Any]:
    X, y, _ = Problem("linear", "hinge", np.inf, 50, 1.0).samples()
    return X, y


def touching() -> tuple[Any, Any]:
    """Apart but for one sample that both classes claim."""
    X, y, _ = Problem("linear", "hinge", np.inf, 40, 8.0, seed=1).samples()
    return np.vstack([X, [[0.0, 0.0, 0.0]] * 2]), np.append(y, [1, -1])


@pytest.mark.parametrize("random_state", [0, 1])
@pytest.mark.parametrize("data", [overlapping, touching])
@pytest.mark.parametrize(("solver", "options"), HARD)
def test_classes_that_cannot_be_separated(data, solver, options, random_state):
    X, y = data()
    model = SVC(C=np.inf, kernel="linear", solver=solver, solver_options=options, random_state=random_state)
    with pytest.warns(ConvergenceWarning, match="Not separable: the hard-margin problem has no solution"):
        model.fit(X, y)
    assert model.status_ is Status.NOT_SEPARABLE
    assert np.isinf(model.certificate_.relative_gap)
    beta = model.dual_coef_[0]  # the proof: of each class a mean, and the two means are the same
    mass = 0.5 * np.abs(beta).sum()
    assert abs(beta.sum()) <= 1e-5 * mass
    assert np.abs(beta @ model.support_vectors_).max() <= 1e-5 * mass


@pytest.mark.parametrize(("solver", "options"), HARD)
def test_classes_that_can_be_separated_are(solver, options):
    problem = PROBLEMS[3]
    X, y, _ = problem.samples()
    model = train(problem, X, y, solver=solver, solver_options=options, tol=1e-6)
    assert model.status_ is Status.CONVERGED
    assert (y * model.decision_function(X)).min() == pytest.approx(1.0, abs=1e-5)


def test_the_dual_of_meeting_hulls_grows_without_bound():
    """K = 0 for two samples of one place: any multiple of the ray is feasible, and better."""
    problem = classification_problem(np.array([1.0, -1.0]), np.full(2, np.inf))
    beta, gradient = np.array([1.0, -1.0]), problem.linear
    assert hulls_meet(problem, problem.sums(beta, gradient), 1.0)
    factor = best_multiple(problem, beta, gradient)
    assert factor > 1e12
    assert problem.dual_value(factor * beta, gradient) > 1e12
    apart = gradient + np.array([[2.0, 0.0], [0.0, 2.0]]) @ beta
    assert not hulls_meet(problem, problem.sums(beta, apart), 2.0)
    assert best_multiple(problem, beta, apart) == 0.5  # the hulls are 2 apart: the dual value is 2 / 4


# --- the loss alone ----------------------------------------------------------------------------------------------------

LOSS_ALONE = [
    ("subgradient", {}),
    ("subgradient", {"learning_rate": "constant", "eta0": 0.01}),
    ("subgradient", {"batch_size": 10}),
    ("lbfgs", {}),
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("solver", "options"), LOSS_ALONE)
def test_the_loss_alone_separates_but_not_by_the_widest_margin(solver, options, intercept, seed):
    X, y, _ = Problem("linear", "hinge", np.inf, 50, 9.0, seed=seed).samples()
    X = X * [1.0, 1.0, 4.0] + (5.0 if intercept else 0.0)
    parameters = {"C": np.inf, "fit_intercept": intercept, "kernel": "linear"}
    widest = SVC(**parameters, tol=1e-8).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"Separates the classes; the margin is not the widest\. Use solver='auto'"):
        model = SVC(**parameters, solver=solver, solver_options=options, random_state=0).fit(X, y)
    assert model.status_ is Status.SEPARATES
    assert not model.status_.converged
    margins = y * model.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=1e-9)  # the canonical hyperplane
    assert model.margin_ == pytest.approx(margins.min() / np.linalg.norm(model.coef_), rel=1e-9)
    assert model.margin_ < widest.margin_ * (1.0 - 1e-6)
    assert model.certificate_.box_residual == 0.0
    assert model.certificate_.equality_residual <= 1e-12
    assert model.certificate_.primal >= widest.certificate_.dual >= model.certificate_.dual


def test_the_loss_alone_by_subgradients_is_the_pages_rule():
    """w <- w + eta sum of y_i x_i over y_i w . x_i < 1, which has no bias, until there is no such sample."""
    X, y, _ = Problem("linear", "hinge", np.inf, 40, 3.0, seed=3).samples()
    X, eta, w, steps = X[y * X[:, 0] > 0.3], 0.003, np.zeros(3), 0
    y = np.sign(X[:, 0])
    while (inside := y * (X @ w) < 1.0).any():
        w = w + eta * (y[inside, None] * X[inside]).sum(axis=0)
        steps += 1
    assert steps > 10
    options = {"learning_rate": "constant", "eta0": eta, "epochs": 10_000}
    model = train(MOONS, X, y, C=np.inf, solver="subgradient", solver_options=options, fit_intercept=False)
    assert model.n_iter_[0] == steps
    assert model.coef_[0] == pytest.approx(w / (y * (X @ w)).min(), abs=1e-9)


def test_the_loss_alone_of_classes_that_cannot_be_separated():
    X, y = overlapping()
    tired = train(MOONS, X, y, C=np.inf, solver="subgradient", solver_options={"epochs": 50})
    assert tired.status_ is Status.STOPPED_BY_OPTION
    assert (y * tired.decision_function(X)).min() < 0.0
    proved = train(MOONS, X, y, C=np.inf, solver="lbfgs")
    assert proved.status_ is Status.NOT_SEPARABLE
    beta = proved.dual_coef_[0]
    assert np.abs(beta @ proved.support_vectors_).max() <= 1e-5 * np.abs(beta).sum()
    with pytest.raises(ValueError, match=r"batch_size=1: must be at least 2 with C=inf and an intercept"):
        SVC(kernel="linear", C=np.inf, solver="subgradient", solver_options={"batch_size": 1}).fit(X, y)


def test_what_lbfgs_keeps_of_a_separating_hyperplane_has_no_narrower_margin():
    """The weights of L-BFGS themselves, by SciPy, on the loss alone."""
    X, y, _ = Problem("linear", "hinge", np.inf, 30, 9.0, seed=1).samples()

    def loss(weights: Any) -> tuple[float, Any]:
        lacking = np.maximum(0.0, 1.0 - y * (X @ weights[:3] + weights[3]))
        parabola = np.where(lacking < 1.0, 0.5 * lacking**2, lacking - 0.5)
        slope = -y * np.minimum(lacking, 1.0)
        return float(parabola.sum()), np.append(slope @ X, slope.sum())

    found = minimize(loss, np.zeros(4), jac=True, method="L-BFGS-B", options={"ftol": 0.0, "gtol": 0.0}).x
    outputs = X @ found[:3]
    theirs = 0.5 * (outputs[y > 0].min() - outputs[y < 0].max()) / np.linalg.norm(found[:3])
    model = train(MOONS, X, y, C=np.inf, solver="lbfgs")
    assert theirs > 0.0
    assert model.margin_ >= theirs * (1.0 - 1e-6)


def test_auto_does_not_take_the_loss_alone_for_a_hard_margin():
    random = np.random.default_rng(0)
    y = np.where(random.random(3000) < 0.5, 1, -1)
    X = random.normal(size=(3000, 2)) + 9.0 * y[:, None]
    model = SVC(kernel="linear", C=np.inf).fit(X, y)
    assert model.solver_ == "block-smo"
    assert "not by the widest margin" in model.solver_reason_


# --- L-BFGS with a high price of slack ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scale", [0.1, 10.0])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1e3, 1e5, 1e7])
@pytest.mark.parametrize("apart", [2.0, 8.0])
def test_lbfgs_with_a_high_price(C, loss, scale, seed, apart):
    """Separable or not, whatever the scale: a narrow valley, at whose bottom it used to stall with a gap of 1."""
    problem = Problem("linear", loss, C, 60, apart, seed=seed)
    X, y, _ = problem.samples()
    model = train(problem, scale * X, y, solver="lbfgs")
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.kkt_violation <= 1e-3
    assert model.certificate_.holds(1e-3), str(model.certificate_)


@pytest.mark.parametrize(("loss", "iterations"), [("hinge", 3), ("hinge", 30), ("squared_hinge", 3), ("squared_hinge", 10)])
def test_lbfgs_returns_its_best_point(loss, iterations):
    problem = Problem("linear", loss, 1e4, 60, 2.0)
    X, y, _ = problem.samples()
    model = train(problem, X, y, solver="lbfgs", tol=1e-10, solver_options={"max_iterations": iterations})
    assert model.status_ is Status.STOPPED_BY_OPTION
    assert model.certificate_.gap <= min(model.trace_.gap) * (1.0 + 1e-5) + 1e-9


def test_lbfgs_with_more_features_than_newton_takes(monkeypatch):
    monkeypatch.setattr("maxmargin.solvers.lbfgs.WIDEST", 3)
    X, y, _ = MOONS.samples()
    alone = train(MOONS, X, y, solver="lbfgs", tol=1e-2)
    assert alone.certificate_.holds(0.1)
    hard = train(MOONS, X, y, solver="lbfgs", C=1e6, tol=1e-8)
    assert hard.status_.converged or hard.status_ is Status.STALLED
    assert hard.certificate_.gap <= min(hard.trace_.gap) * (1.0 + 1e-3)


# --- all keep the contract -----------------------------------------------------------------------------------------

NAMES = [name for name in SOLVERS if name != "block-smo"]
every_solver = pytest.mark.parametrize("solver", NAMES)
MOONS = Problem("linear", "hinge", 1.0, 60, 1.5)


@every_solver
def test_the_trace_shows_weak_duality(solver):
    X, y, _ = MOONS.samples()
    trace = train(MOONS, X, y, solver=solver).trace_
    assert len(trace.gap) >= 2
    assert min(trace.primal) >= max(trace.dual) - 1e-9
    assert trace.gap[-1] < 0.1 * trace.gap[0]


@every_solver
def test_callbacks_see_it_and_may_end_it(solver):
    X, y, _ = MOONS.samples()
    seen: list[Any] = []
    train(MOONS, X, y, solver=solver, callbacks=[seen.append])
    assert len(seen) >= 2
    assert seen[-1].gap < seen[0].gap
    assert [progress.fraction for progress in seen] == sorted(progress.fraction for progress in seen)
    stopped = train(MOONS, X, y, solver=solver, tol=1e-9, callbacks=[lambda progress: True])
    assert stopped.status_ is Status.STOPPED_BY_CALLBACK
    assert len(stopped.trace_.gap) == 1


@every_solver
def test_limits(solver):
    X, y, _ = MOONS.samples()
    few = train(MOONS, X, y, solver=solver, tol=1e-9, max_iter=3)
    assert few.status_ is Status.MAX_ITER
    assert few.n_iter_[0] == 3
    assert few.certificate_.box_residual == 0.0
    assert train(MOONS, X, y, solver=solver, tol=1e-9, max_seconds=1e-9).status_ is Status.MAX_SECONDS
    by_tolerance = {"stops": "tol", "bias": "best"} if solver == "smo-simple" else {}  # by default it counts passes
    close = train(MOONS, X, y, solver=solver, tol=np.inf, gap_tol=0.05, solver_options=by_tolerance)
    assert close.status_ is Status.GAP_REACHED
    assert close.certificate_.holds(0.05)


@pytest.mark.parametrize("solver", [name for name in NAMES if name != "dual-ascent"])  # which solves another problem
def test_a_solution_is_a_good_place_to_begin(solver):
    X, y, _ = MOONS.samples()
    model = SVC(**MOONS.parameters, solver="block-smo", tol=1e-9, warm_start=True).fit(X, y)
    again = model.set_params(solver=solver, tol=1e-3).fit(X, y)
    assert again.status_ is Status.CONVERGED
    assert again.certificate_.holds(1e-3)


@every_solver
@pytest.mark.parametrize("backend", ["native", "reference"])
def test_three_classes_weights_and_sparse_samples(solver, backend):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 2.0], len(y))
    parameters = {"kernel": "linear", "C": 0.1, "backend": backend}
    options = {"epochs": 200} if solver == "subgradient" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(**parameters, solver=solver, solver_options=options, random_state=0)
        model.fit(csr_matrix(X), y, sample_weight=weights)
    assert len(model.certificate_.parts) == 3
    assert model.certificate_.holds(0.05), str(model.certificate_)
    assert weights[model.support_].min() > 0.0
    fast = SVC(**parameters, tol=1e-6).fit(X, y, sample_weight=weights)
    assert np.mean(model.predict(X) == fast.predict(X)) >= 0.95


@pytest.mark.parametrize("solver", ["smo-simple", "smo-platt", "subgradient"])
def test_random_state_decides_what_is_drawn(solver):
    X, y, _ = MOONS.samples()
    options = {"batch_size": 10, "epochs": 20} if solver == "subgradient" else {}

    def course(**parameters: Any) -> Any:
        return train(MOONS, X, y, solver=solver, tol=0.1, **parameters).trace_.dual

    first = course(random_state=0, solver_options=options)
    assert first == course(random_state=0, solver_options=options)
    assert first != course(random_state=1, solver_options=options)
    assert course(solver_options=options | {"seed": 5}) == course(random_state=3, solver_options=options | {"seed": 5})


@pytest.mark.parametrize("solver", ["smo-simple", "smo-all-pairs", "smo-platt", "dual-ascent", "qp"])
def test_a_kernel_that_is_none_ends_too(solver):
    X, y, _ = MOONS.samples()
    bounded = train(MOONS, X, y, kernel="sigmoid", solver=solver, max_iter=20_000)
    assert bounded.status_ in (Status.STATIONARY, Status.STALLED, Status.STOPPED_BY_OPTION, Status.MAX_ITER)
    minus = -np.eye(len(y))
    for parameters in ({"C": np.inf}, {"loss": "squared_hinge", "C": 1e3}):
        model = train(MOONS, minus, y, kernel="precomputed", solver=solver, max_iter=20_000, **parameters)
        assert not model.status_.converged
        assert np.isfinite(model.dual_coef_).all()


def test_the_intercept_of_dual_ascent_is_a_weight():
    X, y, _ = MOONS.samples()
    model = train(MOONS, X, y, solver="dual-ascent", tol=1e-8)
    wide = np.hstack([X, np.ones((len(y), 1))])
    explicit = train(MOONS, wide, y, solver="dual-ascent", fit_intercept=False, tol=1e-8)
    assert np.append(model.coef_[0], model.intercept_) == pytest.approx(explicit.coef_[0], abs=1e-6)
    assert model.margin_ == pytest.approx(1.0 / np.linalg.norm(model.coef_), rel=1e-9)
    assert model.certificate_.bias == model.intercept_[0]
    assert train(MOONS, X, y, solver="dual-ascent", fit_intercept=False).intercept_[0] == 0.0


def test_k_plus_one_is_the_kernel_of_one_more_feature():
    X, _, _ = MOONS.samples()
    inner = BlockGram(make_kernel("linear"), make_samples(X), 0, (0, 20, 60))
    augmented, everyone = AugmentedGram(inner), np.arange(60, dtype=np.int32)
    wide = np.hstack([X, np.ones((60, 1))])
    K, weights = wide @ wide.T, np.linspace(-1.0, 1.0, 5)
    assert len(augmented) == 60
    assert augmented.tile(everyone) == pytest.approx(K)
    assert augmented.tile(everyone[:7], np.ones(7)) == pytest.approx(K[:7, :7] + np.eye(7))
    assert augmented.diagonal() == pytest.approx(K.diagonal())
    assert augmented.block(everyone[2:5], everyone[:9]) == pytest.approx(K[2:5, :9])
    out = np.zeros((1, 60))
    augmented.accumulate(everyone[:5], weights[None], out)
    assert out[0] == pytest.approx(K[:, :5] @ weights)
    sums, *_ = augmented.exact_sums(everyone[:5], weights[None, :], everyone[10:13])
    assert sums[0] == pytest.approx(K[10:13, :5] @ weights)
    assert augmented.subset(everyone[3:9]).tile(everyone[:6]) == pytest.approx(K[3:9, 3:9])
    assert augmented.restrict((1,)).tile(everyone[:40]) == pytest.approx(K[20:, 20:])
    assert augmented.in_float64().remembers == inner.remembers
    augmented.release()


# --- what is wrong is said clearly ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"solver": "smo"},
            r"solver='smo': must be 'auto' or one of block-smo, smo-simple, smo-all-pairs, smo-platt, dual-ascent",
        ),
        ({"solver_options": {"seed": 1}}, r"solver='auto' has no option 'seed'; it takes no options"),
        ({"solver": "block-smo", "solver_options": {"tile": 9}}, r"solver='block-smo' has no option 'tile'; it takes no options"),
        ({"solver": "smo-simple", "solver_options": {"passes": 1}}, r"no option 'passes'; it takes max_passes, counts"),
        ({"solver": "smo-simple", "solver_options": {"bias": 0.0}}, r"bias=0\.0: must be one of running, best"),
        ({"solver": "smo-all-pairs", "solver_options": {"seed": 1}}, r"solver='smo-all-pairs' has no option 'seed'"),
        ({"solver": "smo-simple", "solver_options": {"max_passes": 0}}, r"max_passes=0: must be a positive whole number"),
        ({"solver": "smo-platt", "solver_options": {"seed": -1}}, r"seed=-1: must be a whole number, at least 0"),
        ({"solver": "dual-ascent", "solver_options": {"epsilon": -1.0}}, r"epsilon=-1\.0: must be a number, at least 0"),
        ({"solver": "dual-ascent", "solver_options": {"order": "up"}}, r"order='up': must be one of cyclic, random, greedy"),
        ({"solver": "qp", "solver_options": {"form": "both"}}, r"form='both': must be one of dual, primal"),
        ({"solver": "subgradient", "solver_options": {"eta0": 0.0}}, r"eta0=0\.0: must be a number in \(0, 1\]"),
        (
            {"solver": "subgradient", "solver_options": {"batch_size": 0}},
            r"batch_size=0: must be a positive whole number, or None",
        ),
        (
            {"solver": "subgradient", "solver_options": {"learning_rate": 1}},
            r"learning_rate=1: must be one of decaying, constant",
        ),
        ({"solver": "lbfgs", "solver_options": {"memory": 2.5}}, r"memory=2\.5: must be a positive whole number"),
        (
            {"solver": "smo-platt", "fit_intercept": False},
            r"solver='smo-platt': it moves pairs of duals, for which there must be an",
        ),
        ({"solver": "lbfgs", "kernel": "rbf"}, r"solver='lbfgs': it solves the primal problem, for which the rbf kernel has no"),
        ({"solver": "subgradient", "loss": "squared_hinge"}, r"solver='subgradient': it does not take the squared_hinge loss"),
        ({"solver": "qp", "kernel": "rbf", "solver_options": {"form": "primal"}}, r"the rbf kernel has no explicit features"),
        (
            {"solver": "dual-ascent", "probability": "loo"},
            r"probability='loo' with solver='dual-ascent': its intercept is a weight",
        ),
    ],
)
def test_errors(parameters, message):
    X, y, _ = MOONS.samples()
    with pytest.raises(ValueError, match=message):
        SVC(**{"kernel": "linear"} | parameters).fit(X, y)


def test_other_machines_have_the_fast_solver_only():
    X, y, _ = MOONS.samples()
    assert SVR().fit(X, y).solver_ == "block-smo"
    with pytest.raises(ValueError, match=r"solver='qp': must be 'auto' or one of block-smo$"):
        NuSVR(solver="qp").fit(X, y)
    with pytest.raises(ValueError, match=r"solver='qp': must be 'auto' or one of block-smo, linear$"):
        SVR(solver="qp").fit(X, y)


def test_qp_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    X, y, _ = MOONS.samples()
    with pytest.raises(ImportError, match=r"solver='qp' needs Clarabel: pip install maxmargin\[qp\]"):
        SVC(solver="qp").fit(X, y)
