"""Linear machines: the same solutions as the kernel machines, certificates that hold, the same bits on any number of threads."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification, make_regression

from maxmargin import SVC, SVR, LinearOneClassSVM, LinearSVC, LinearSVR, OneClassSVM
from maxmargin.formulations import LinearProblem
from maxmargin.solution import Status
from tests.wording import of_parameter

SOLVERS = ("newton", "descent")
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def two_classes() -> tuple[Any, Any]:
    return make_classification(300, 12, n_informative=6, flip_y=0.1, random_state=0)


@pytest.fixture(scope="module")
def four_classes() -> tuple[Any, Any]:
    return make_classification(300, 10, n_informative=6, n_classes=4, random_state=0)


@pytest.fixture(scope="module")
def regression() -> tuple[Any, Any]:
    X, y = make_regression(250, 8, noise=10.0, random_state=0)
    return X, y / 100.0


def values(problem: LinearProblem, X: Any, weights: Any, beta: Any) -> tuple[float, float]:
    """The two values as the table in formulations/linear.py states them, by plain NumPy."""
    C, side = np.abs(problem.reach), np.sign(problem.reach)
    d = X.shape[1]
    bias = weights[d] if problem.bias != "none" else 0.0
    r = problem.targets - X @ weights[:d] - problem.constant * bias
    excess = np.maximum(np.abs(r) - problem.epsilon, 0) if problem.two_sided else np.maximum(side * r, 0)
    loss = C * excess**2 if problem.squared else C * excess
    primal = 0.5 * weights[:d] @ weights[:d] + problem.total * problem.constant * bias + loss.sum()
    v = X.T @ beta
    dual = problem.targets @ beta - problem.epsilon * np.abs(beta).sum() - 0.5 * v @ v
    if problem.squared:
        dual -= (beta[C > 0] ** 2 / (4 * C[C > 0])).sum()
    if problem.bias == "regularised":
        primal += 0.5 * bias**2
        dual -= 0.5 * (problem.constant * beta.sum()) ** 2
    return float(primal), float(dual)


def problems() -> list[LinearProblem]:
    n, y, t, C = 120, np.where(RNG.random(120) < 0.4, 1.0, -1.0), RNG.standard_normal(120), RNG.random(120) + 0.1
    C[:5] = 0.0
    return [
        *(LinearProblem(y, y * C, squared=s, bias=b, constant=c) for s in (False, True) for b, c in BIASES),
        *(LinearProblem(t, C, e, True, s, b, c) for s in (False, True) for e in (0.0, 0.3) for b, c in BIASES),
        LinearProblem(np.zeros(n), C, total=0.3 * float(C.sum())),
    ]


BIASES = (("none", 1.0), ("regularised", 2.0), ("free", 1.0))


@pytest.mark.parametrize("number", range(len(problems())))
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_statement_of_the_problem_and_the_certificate(number, solver):
    """At the solver's point, and at one far from it, the certificate has the values of the statement."""
    from maxmargin.backends.linear import Rows
    from maxmargin.control import Control, Stop
    from maxmargin.estimators.linear_training import certify, train_linear

    problem = problems()[number]
    X = np.random.default_rng(1).standard_normal((len(problem), 7)) + 0.5
    (result,) = train_linear(solver, [problem], Rows(X), Stop(np.inf, 1e-6), Control(), -1)
    assert result.proof.relative_gap <= 1e-6
    far = result.weights + 0.1, problem.balanced(0.7 * result.beta)
    for weights, beta in ((result.weights, result.beta), far):
        proof = certify(problem, Rows(X), weights, beta)
        primal, dual = values(problem, X, weights, beta)
        assert proof.dual == pytest.approx(dual, rel=1e-12, abs=1e-9)
        assert proof.primal == pytest.approx(primal, rel=1e-12, abs=1e-9)
        assert proof.gap >= primal - dual - 1e-12 * abs(primal)
        assert proof.feasible


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_same_machine_as_svc(two_classes, solver, loss):
    X, y = two_classes
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    reference = SVC(kernel="linear", loss=loss, C=0.5, class_weight={0: 2.0}, gap_tol=1e-9, tol=1e-7).fit(X, y, weights)
    model = LinearSVC(loss=loss, C=0.5, class_weight={0: 2.0}, solver=solver, gap_tol=1e-7).fit(X, y, weights)
    assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-6)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-3)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=2e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_the_same_machine_as_svr(regression, solver, loss, epsilon):
    X, y = regression
    reference = SVR(kernel="linear", loss=loss, epsilon=epsilon, gap_tol=1e-9, tol=1e-7).fit(X, y)
    model = LinearSVR(loss=loss, epsilon=epsilon, solver=solver, gap_tol=1e-5).fit(X, y)
    assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-5)
    assert model.certificate_.dual <= reference.certificate_.primal * (1 + 1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_the_same_machine_as_one_class(regression, solver, nu):
    X = regression[0] + 1.5
    reference = OneClassSVM(kernel="linear", nu=nu, gap_tol=1e-9, tol=1e-7).fit(X)
    model = LinearOneClassSVM(nu=nu, solver=solver, gap_tol=1e-6).fit(X)
    assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-6)
    assert np.mean(model.predict(X) == reference.predict(X)) > 0.97


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_regularized_intercept_is_the_weight_of_a_column(two_classes, solver):
    X, y = two_classes
    model = LinearSVC(fit_intercept="regularized", intercept_scaling=3.0, solver=solver, gap_tol=1e-9).fit(X, y)
    column = LinearSVC(fit_intercept=False, solver=solver, gap_tol=1e-9).fit(np.c_[X, np.full(len(X), 3.0)], y)
    assert model.certificate_.primal == pytest.approx(column.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(model.intercept_, 3.0 * column.coef_[:, -1], atol=1e-3)


LAYOUTS = {
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_matrix,
    "csr float32": lambda X: sp.csr_matrix(X.astype(np.float32)),
    "csr int64": lambda X: sp.csr_array(
        (sp.csr_array(X).data, sp.csr_array(X).indices.astype(np.int64), sp.csr_array(X).indptr.astype(np.int64)), shape=X.shape
    ),
    "csc": sp.csc_matrix,
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_layouts(two_classes, layout, solver):
    X, y = two_classes
    X = np.where(np.abs(X) > 0.5, X, 0.0).astype(np.float32).astype(np.float64)
    plain = LinearSVC(loss="hinge", solver=solver, gap_tol=1e-7).fit(X, y)
    model = LinearSVC(loss="hinge", solver=solver, gap_tol=1e-7).fit(LAYOUTS[layout](X), y)
    assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-6)


SCRIPT = """
import numpy as np, sys
from sklearn.datasets import make_classification
from maxmargin import LinearSVC
X, y = make_classification(20000, 30, n_informative=10, n_classes=int(sys.argv[1]), random_state=0)
import hashlib
for solver in ("newton", "descent"):
    model = LinearSVC(loss="hinge", solver=solver).fit(X, y)
    print(hashlib.sha256(model.coef_.tobytes() + model.intercept_.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("n_classes", ["2", "3"])
def test_the_same_bits_on_any_number_of_threads(n_classes):
    import os

    answers = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT, n_classes],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for threads in (1, 2, 5)
    }
    assert len(answers) == 1


def test_limits_are_kept_and_said(two_classes):
    X, y = two_classes
    with pytest.warns(UserWarning, match="max_iter"):
        model = LinearSVC(loss="hinge", solver="descent", max_iter=1, gap_tol=1e-9).fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.n_iter_ == 1
    assert model.certificate_.relative_gap > 1e-9
    with pytest.warns(UserWarning, match="max_seconds"):
        model = LinearSVC(loss="hinge", solver="descent", max_seconds=1e-9).fit(X, y)
    assert model.status_ is Status.MAX_SECONDS


def test_callbacks_stop_a_fit(two_classes):
    X, y = two_classes
    seen = []
    with pytest.warns(UserWarning, match="callback"):
        LinearSVC(loss="hinge", solver="descent", gap_tol=1e-12, callbacks=[lambda p: seen.append(p) or True]).fit(X, y)
    assert len(seen) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_warm_start_saves_rounds(two_classes, solver):
    X, y = two_classes
    model = LinearSVC(loss="hinge", solver=solver, warm_start=True, gap_tol=1e-6).fit(X, y)
    cold = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ < cold / 2
    model.set_params(C=1.1).fit(X, y)
    assert model.status_.converged
    assert model.certificate_.primal == pytest.approx(
        LinearSVC(loss="hinge", C=1.1, gap_tol=1e-6).fit(X, y).certificate_.primal, rel=1e-5
    )


def test_the_choice_of_a_solver_is_told(two_classes):
    X, y = two_classes
    assert LinearSVC().fit(X, y).solver_ == "newton"
    wide = LinearSVC().fit(sp.csr_matrix((X[:, 0], (range(300), range(1000, 1300)))), y)
    assert wide.solver_ == "descent"
    assert "columns (1300)" in wide.solver_reason_
    assert LinearSVC(dual=True).fit(X, y).solver_ == "descent"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "lbfgs"}, "solver='lbfgs': must be 'auto' or one of newton, descent"),
        ({"tol": None, "gap_tol": None}, "nothing would end the fit"),
        ({"fit_intercept": "yes"}, "fit_intercept='yes': must be True, False or 'regularized'"),
        ({"fit_intercept": "regularized", "intercept_scaling": 0}, "Intercept scaling is 0 but needs to be greater than 0"),
        ({"C": -1.0}, "C=-1.0: must be positive"),
    ],
)
def test_errors_name_the_argument_and_the_rule(two_classes, parameters, message):
    with pytest.raises(ValueError, match=of_parameter(message, "LinearSVC").removeprefix("^")):
        LinearSVC(**parameters).fit(*two_classes)


def peak_of(action):
    """The largest memory of Python's and NumPy's allocations while `action` runs."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def with_wide_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_rows_reversed(X):
    """The same rows, their entries in descending order of the columns."""
    order = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in pairwise(X.indptr)])
    return type(X)((X.data[order], X.indices[order], X.indptr), shape=X.shape)


NOT_COPIED = {
    "csr_matrix": lambda X: X,
    "csr_array": sp.csr_array,
    "unsorted": with_rows_reversed,
    "int64": with_wide_indices,
    "unsorted int64": lambda X: with_wide_indices(with_rows_reversed(X)),
    "dense": lambda X: X[:, :100].toarray(),
}


@pytest.mark.parametrize("layout", NOT_COPIED)
def test_the_data_are_not_copied(layout):
    """Peak memory of Python's allocations is a small part of the data, in `fit` and in `predict`."""
    random, n, per_row, apart = np.random.default_rng(0), 60_000, 40, 25
    columns = apart * np.arange(per_row) + random.integers(apart, size=(n, per_row))
    given = random.random(n * per_row, dtype=np.float32), columns.ravel(), np.arange(0, n * per_row + 1, per_row)
    X = sp.csr_matrix(given, shape=(n, apart * per_row))
    y = (X @ random.standard_normal(X.shape[1]) > 0.0).astype(int)
    X = NOT_COPIED[layout](X)
    n_bytes = X.data.nbytes + (X.indices.nbytes if sp.issparse(X) else 0)
    model = LinearSVC(loss="hinge", gap_tol=0.5)
    model.fit(X[:100], y[:100])  # imports
    assert peak_of(lambda: model.fit(X, y)) < 0.4 * n_bytes
    assert peak_of(lambda: model.predict(X)) < 0.4 * n_bytes


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_memory_map_is_not_converted_as_a_whole(tmp_path, monkeypatch, dtype, sparse):
    monkeypatch.setattr("maxmargin.estimators.chunks.BYTES_OF_CHUNK", 200_000)
    random = np.random.default_rng(0)
    X = (random.standard_normal((20_000, 200)) * 10).astype(dtype)
    model = LinearSVC().fit(X[:200], X[:200, 0] > 0)
    expected = model.decision_function(X)
    if sparse:
        X = sp.csr_matrix(X)
        X.data = mapped(tmp_path / "data", X.data)
    else:
        X = mapped(tmp_path / "rows", X)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)
    n_bytes = X.data.nbytes + (X.indices.nbytes if sparse else 0)
    assert peak_of(lambda: model.predict(X)) < n_bytes + 60 * X.shape[0]


def mapped(path, array):
    np.save(path, array)
    return np.load(path.with_suffix(".npy"), mmap_mode="r")


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_odd_entries_of_sparse_rows(two_classes, solver, loss):
    """Entries in any order, twice, or zero: the machine is that of the dense rows."""
    X, y = two_classes
    plain = LinearSVC(loss=loss, solver=solver, gap_tol=1e-8).fit(X, y)
    csr = with_rows_reversed(sp.csr_matrix(X))
    halves = sp.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape)
    zeros = sp.csr_matrix(np.where(X > 0.5, X, 0.0) + 1.0)
    zeros.data -= 1.0
    for odd in (csr, halves):
        before = odd.indices.copy()
        model = LinearSVC(loss=loss, solver=solver, gap_tol=1e-8).fit(odd, y)
        assert model.certificate_.primal == pytest.approx(plain.certificate_.primal, rel=1e-7)
        np.testing.assert_allclose(model.decision_function(odd), model.decision_function(X), atol=1e-12)
        np.testing.assert_array_equal(odd.indices, before)  # the user's matrix stays as it is
    model = LinearSVC(loss=loss, solver=solver, gap_tol=1e-8).fit(zeros, y)
    dense = LinearSVC(loss=loss, solver=solver, gap_tol=1e-8).fit(zeros.toarray(), y)
    assert zeros.nnz == X.size
    assert model.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=1e-7)


@pytest.mark.parametrize("labels", [np.array([-100, 100], np.int8), np.array([2**64 - 3, 2**64 - 1], np.uint64)])
def test_labels_at_the_ends_of_their_type(two_classes, labels):
    X, y = two_classes
    model = LinearSVC().fit(X, labels[y])
    np.testing.assert_array_equal(model.classes_, labels)
    np.testing.assert_array_equal(model.predict(X), labels[LinearSVC().fit(X, y).predict(X)])


def test_columns_that_the_training_set_does_not_use(two_classes):
    X, y = two_classes
    wide = sp.hstack([sp.csr_matrix(X), sp.csr_matrix((len(X), 3))], format="csr")
    model = LinearSVC().fit(wide, y)
    np.testing.assert_array_equal(model.coef_[0, -3:], 0.0)
    queries = np.c_[X, np.full((len(X), 3), 1e6)]  # values where training had none do not count
    np.testing.assert_allclose(model.decision_function(queries), LinearSVC().fit(X, y).decision_function(X), atol=1e-6)
    with pytest.raises(ValueError, match="16 features"):
        model.predict(sp.csr_matrix((1, 16)))


@pytest.mark.parametrize("nu", [0.01, 0.5])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("repeats", [1, 10])
def test_one_class_around_the_origin(solver, nu, repeats):
    """The origin is among the samples: the optimum is zero, and is found without a complaint."""
    X = np.repeat(np.random.default_rng(0).standard_normal((200, 8)), repeats, axis=0)
    model = LinearOneClassSVM(nu=nu, solver=solver).fit(X)
    assert model.status_ is Status.GAP_REACHED
    assert np.linalg.norm(model.coef_) < 1e-6


def test_a_tolerance_bounds_the_violation(two_classes):
    X, y = two_classes
    model = LinearSVC(tol=1e-4, gap_tol=None).fit(X, y)
    assert model.certificate_.kkt_violation <= 1e-4


@pytest.mark.parametrize("fit_intercept", [True, False, "regularized"])
@pytest.mark.parametrize("sparse", [True, False])
def test_the_l1_penalty(two_classes, fit_intercept, sparse):
    """The certificate against a plain evaluation, zeros among the weights, and the optimum of LIBLINEAR."""
    from sklearn.svm import LinearSVC as Theirs

    X, y = two_classes
    model = LinearSVC("l1", C=0.02, fit_intercept=fit_intercept, gap_tol=1e-6).fit(sp.csr_matrix(X) if sparse else X, y)

    def objective(coef: Any, intercept: Any) -> float:
        slack = np.maximum(0.0, 1.0 - np.where(y == 1, 1.0, -1.0) * (X @ coef[0] + intercept[0]))
        bias = abs(intercept[0]) if fit_intercept == "regularized" else 0.0
        return float(np.abs(coef).sum() + bias + 0.02 * (slack**2).sum())

    assert model.certificate_.relative_gap <= 1e-6
    assert model.certificate_.primal == pytest.approx(objective(model.coef_, model.intercept_), rel=1e-9)
    assert 0 < np.count_nonzero(model.coef_) < X.shape[1]
    if fit_intercept is not True:  # LIBLINEAR has no free intercept
        theirs = Theirs(penalty="l1", dual=False, C=0.02, fit_intercept=bool(fit_intercept), tol=1e-8, max_iter=100000).fit(X, y)
        assert objective(theirs.coef_, np.atleast_1d(theirs.intercept_)) == pytest.approx(model.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("scale", [0.0, 1e-8])
def test_features_that_say_nothing_leave_the_bias_to_find(two_classes, solver, loss, scale):
    """The weights are zero or next to it, so duals that are not balanced are all that is left of the gap."""
    X, y = two_classes
    model = LinearSVC(loss=loss, C=1e-6, solver=solver).fit(scale * X[:250], y[:250])
    assert model.status_ is Status.GAP_REACHED
    share = np.mean(y[:250])
    best = 2.0 * min(share, 1.0 - share) if loss == "hinge" else 4.0 * share * (1.0 - share)
    assert model.certificate_.primal == pytest.approx(250 * 1e-6 * best, rel=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("fit_intercept", [True, False, "regularized"])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression_on_empty_rows(regression, solver, fit_intercept, loss):
    y = regression[1]
    model = LinearSVR(loss=loss, epsilon=0.1, fit_intercept=fit_intercept, solver=solver).fit(np.zeros((len(y), 3)), y)
    assert model.status_ is Status.GAP_REACHED
    assert (model.certificate_.gap_terms >= 0.0).all()
    assert not model.coef_.any()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_newton_step_that_is_far_too_long_is_not_taken(seed):
    """A large C and few errors: the losses bend at the start of a step, and are nearly flat at its end. (A search that looked at
    the slope alone ended there, and took 300 passes to come back.)"""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5000, 50), dtype=np.float32)
    y = np.where((X @ rng.standard_normal(50) > 0) ^ (rng.random(5000) < 0.02), 1, -1)
    model = LinearSVC(C=1e4, loss="hinge", solver="newton").fit(X, y)
    assert model.status_.converged
    assert model.n_passes_ < 60


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_bias_costs_descent_few_passes(loss):
    """A column that all samples share must not couple their steps."""
    X, random = sp.random(3000, 8000, density=0.005, format="csr", random_state=0), np.random.default_rng(0)
    scores = X @ random.standard_normal(8000)
    y = scores + 0.3 * scores.std() * random.standard_normal(3000) > 0.0
    free, regularised, none = (
        LinearSVC(loss=loss, fit_intercept=bias, solver="descent", gap_tol=1e-4).fit(X, y).n_passes_
        for bias in (True, "regularized", False)
    )
    assert free < 2.0 * none
    assert regularised < 1.5 * none


# --- probabilities ----------------------------------------------------------------------------------------------------


def unseen(model: LinearSVC, X: Any, y: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The leave-one-out decisions of a fit, one column for each machine."""
    from maxmargin.estimators import linear

    seen, compute = [], linear._unseen_decisions
    monkeypatch.setattr(linear, "_unseen_decisions", lambda *arguments: seen.append(compute(*arguments)) or seen[-1])
    model.fit(X, y)
    return np.column_stack(seen)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False, "regularized"])
@pytest.mark.parametrize(("loss", "least"), [("squared_hinge", 0.9995), ("hinge", 0.99)])
def test_decisions_without_a_sample_are_those_of_refits(two_classes, loss, least, fit_intercept, sparse, monkeypatch):
    X, y = two_classes[0][:120, :6], two_classes[1][:120]
    parameters = {"loss": loss, "C": 0.3, "fit_intercept": fit_intercept, "gap_tol": 1e-9}
    model = LinearSVC(probability="loo", **parameters)
    decisions = unseen(model, sp.csr_matrix(X) if sparse else X, y, monkeypatch)[:, 0]
    kept = [np.delete(np.arange(120), i) for i in range(0, 120, 3)]
    refits = [LinearSVC(**parameters).fit(X[rest], y[rest]) for rest in kept]
    expected = np.array([refit.decision_function(X[[3 * i]])[0] for i, refit in enumerate(refits)])
    assert np.corrcoef(expected, decisions[::3])[0, 1] > least
    if loss == "squared_hinge":  # exact, unless another sample crosses the margin
        sides, whole = 2 * y - 1, model.decision_function(X)
        violators = sides * whole < 1.0
        same = [
            np.array_equal((sides * refit.decision_function(X) < 1.0)[rest], violators[rest])
            for rest, refit in zip(kept, refits, strict=True)
        ]
        same &= (whole.min() < expected) & (expected < whole.max())  # what is beyond is put at the end of the range
        assert np.sum(same) >= 10
        np.testing.assert_allclose(decisions[::3][same], expected[same], atol=1e-6)
    assert model.loo_error_ == pytest.approx(np.mean((decisions > 0) != y))


def test_probabilities_of_a_linear_machine(four_classes, two_classes):
    X, y = four_classes
    model = LinearSVC(probability=True, calibration="isotonic").fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (300, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities)
    binary = LinearSVC(probability="loo").fit(*two_classes)
    assert binary.probA_[0] < 0.0
    rising = binary.predict_proba(two_classes[0])[np.argsort(binary.decision_function(two_classes[0])), 1]
    assert (np.diff(rising) >= 0.0).all()
    assert not hasattr(LinearSVC().fit(X, y), "predict_proba")
    with pytest.raises(AttributeError, match=r"fit LinearSVC\(probability='loo'\), whose"):
        LinearSVC().fit(X, y).predict_proba(X)


@pytest.mark.parametrize("parameters", [{"multi_class": "crammer_singer"}, {"penalty": "l1"}])
def test_machines_without_probabilities(four_classes, parameters):
    with pytest.raises(ValueError, match="probability='loo': a machine with"):
        LinearSVC(probability="loo", **parameters).fit(*four_classes)


def test_probabilities_with_more_features_than_samples():
    X = sp.random(200, 5000, 0.01, format="csr", random_state=0)
    y = (np.asarray(X.sum(axis=1)).ravel() > X.sum(axis=1).mean()).astype(int)
    model = LinearSVC(probability="loo").fit(X, y)
    assert 0.0 <= model.loo_error_ <= 1.0
    assert np.isfinite(model.predict_proba(X)).all()


# --- one machine of all classes ---------------------------------------------------------------------------------------


def joint_values(X: Any, labels: Any, costs: Any, weights: Any, shares: Any, bias: str, constant: float) -> tuple[float, float]:
    """The two values as linear_joint.hpp states them, by plain NumPy."""
    k = shares.shape[1]
    own = np.eye(k)[labels]
    B = costs[:, None] * own - shares
    W, b = (weights[:-1], weights[-1]) if bias != "none" else (weights, np.zeros(k))
    G = 1.0 - own + X @ W + constant * b
    V = X.T @ B
    primal = 0.5 * (W**2).sum() + costs @ (G.max(axis=1) - (G * own).sum(axis=1))
    dual = ((1.0 - own) * shares).sum() - 0.5 * (V**2).sum()
    if bias == "regularised":
        primal += 0.5 * b @ b
        dual -= 0.5 * constant**2 * (B.sum(axis=0) ** 2).sum()
    return float(primal), float(dual)


@pytest.mark.parametrize(("bias", "constant"), BIASES)
@pytest.mark.parametrize("layout", ["dense", "csr", "csr float32"])
@pytest.mark.parametrize("solver", ["descent", "tile"])
def test_the_statement_of_the_joint_machine_and_its_certificate(four_classes, bias, constant, layout, solver):
    from maxmargin.backends.linear import Rows
    from maxmargin.control import Control, Stop
    from maxmargin.estimators.linear_training import certify, train_linear
    from maxmargin.formulations import JointLinearProblem

    X, y = four_classes
    X = X.astype(np.float32).astype(np.float64)
    costs = np.random.default_rng(0).integers(0, 3, len(y)) * 0.05
    problem = JointLinearProblem(y.astype(np.int32), costs, 4, bias, constant)
    rows = Rows({"dense": X, **{name: LAYOUTS[name](X) for name in ("csr", "csr float32")}}[layout])
    (result,) = train_linear(solver, [problem], rows, Stop(np.inf, 1e-3), Control(), -1)
    assert result.status is Status.GAP_REACHED
    assert (result.beta >= 0.0).all()
    far = result.weights + 0.1, problem.balanced(problem.carried_over(problem, 0.5 * result.beta + 0.125 * costs[:, None]))
    for weights, shares in ((result.weights, result.beta), far):
        proof = certify(problem, rows, weights, shares)
        primal, dual = joint_values(X, y, costs, weights, shares, bias, constant)
        assert proof.feasible
        assert proof.dual == pytest.approx(dual, rel=1e-12)
        assert proof.primal == pytest.approx(primal, rel=1e-10)  # it has an allowance for rounding
        assert proof.gap >= primal - dual - 1e-12 * primal
    assert certify(problem, rows, *far).relative_gap > 0.01


def test_the_joint_machine_is_that_of_svc(four_classes):
    X, y = four_classes
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    reference = SVC(kernel="linear", multi_class="crammer_singer", C=0.1, gap_tol=1e-8).fit(X, y, weights)
    model = LinearSVC(multi_class="crammer_singer", C=0.1, fit_intercept=False, gap_tol=1e-5).fit(X, y, weights)
    assert model.certificate_.primal == pytest.approx(reference.certificate_.primal, rel=1e-5)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-2)
    assert model.solver_ == "tile"
    assert "all classes" in model.solver_reason_
    assert LinearSVC(multi_class="crammer_singer", C=0.1, solver="descent").fit(X, y).solver_ == "descent"


@pytest.mark.parametrize("fit_intercept", [True, "regularized"])
def test_the_joint_machine_of_two_classes_is_a_binary_one(two_classes, fit_intercept):
    """Its weights are w / 2 and -w / 2 of the binary machine with 2 C."""
    X, y = two_classes
    joint = LinearSVC(multi_class="crammer_singer", C=0.05, fit_intercept=fit_intercept, gap_tol=1e-6).fit(X, y)
    binary = LinearSVC(loss="hinge", C=0.1, fit_intercept=fit_intercept, gap_tol=1e-7).fit(X, y)
    assert 2.0 * joint.certificate_.primal == pytest.approx(binary.certificate_.primal, rel=1e-5)
    assert joint.coef_.shape == (1, 12)
    np.testing.assert_allclose(joint.coef_, binary.coef_, atol=5e-3)
    np.testing.assert_allclose(joint.intercept_, binary.intercept_, atol=5e-3)


def test_a_class_without_weight_is_never_predicted_by_the_joint_machine(four_classes):
    X, y = four_classes
    model = LinearSVC(multi_class="crammer_singer", C=0.1).fit(X, y, np.where(y == 2, 0.0, 1.0))
    assert 2 not in model.predict(X)
    assert model.decision_function(X).shape == (300, 4)
    without = LinearSVC(multi_class="crammer_singer", C=0.1).fit(X[y != 2], y[y != 2])
    assert model.certificate_.primal == pytest.approx(without.certificate_.primal, rel=2e-3)


def test_a_warm_start_of_the_joint_machine(four_classes):
    X, y = four_classes
    model = LinearSVC(multi_class="crammer_singer", C=0.1, solver="descent", warm_start=True).fit(X, y)
    cold = model.n_iter_
    model.set_params(C=0.11).fit(X, y)
    assert model.status_.converged
    assert model.n_iter_ < cold


def test_the_joint_machine_has_one_solver(four_classes):
    with pytest.raises(ValueError, match="solver='newton': must be 'auto' or 'descent' with multi_class='crammer_singer'"):
        LinearSVC(multi_class="crammer_singer", solver="newton").fit(*four_classes)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_samples", "solver"), [(800, "block-smo"), (20_000, "linear")])
def test_a_linear_kernel_copes_with_features_of_all_sizes(n_samples, solver, seed):
    """Pair steps stall there. Weights are known no better than the square root of a gap, and features of 10,000 multiply their
    error."""
    X, y = make_classification(n_samples, 20, flip_y=0.05, random_state=0)
    X *= 10.0 ** np.random.default_rng(seed).uniform(-3, 4, 20)
    model = SVC(kernel="linear", max_seconds=60).fit(X, y)
    assert model.solver_ == solver
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.meets(1e-3, 1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_column_far_from_zero_is_no_obstacle(loss):
    """A column of time stamps is nearly a multiple of the intercept's column."""
    X, y = make_classification(2000, 20, flip_y=0.05, random_state=0)
    X[:, 0] = 1.7e9 + 1e6 * X[:, 0]
    model = LinearSVC(loss=loss).fit(X, y)
    assert model.solver_ == "newton"
    assert model.status_ is Status.GAP_REACHED
    assert model.certificate_.holds(1e-3)
    assert model.n_iter_ < 100
