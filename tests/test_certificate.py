"""A certificate is never optimistic: the true gap, evaluated plainly in float64, is at most what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, Certificate, NuSVC, OneClassSVM, Status, training
from maxmargin.backends import make_backend
from maxmargin.certificates import certificate_of, certify, recompute
from maxmargin.formulations import DualProblem, classification_problem
from maxmargin.gram import BlockGram, DoubledGram, ExactSums, Gram
from maxmargin.kernels import make_kernel
from maxmargin.samples import make_samples
from maxmargin.solution import Solution
from tests import oracle

#: What the plain evaluation itself may lose, relative to the objective.
NOISE = 1e-12


def check(model: SVC, X: Any, y: Any, weights: Any = None, at_most: float = 1.01, rounding: float = 1e-9) -> None:
    """true gap <= reported gap <= at_most times it, but for rounding; the values are those of the model."""
    proof = model.certificate_
    truths = oracle.judge(model, oracle.kernel_of(model, X), y, weights)
    for truth, part in zip(truths, proof.parts or [proof], strict=True):
        size = max(abs(truth.primal), abs(truth.dual))
        assert truth.outside <= NOISE
        assert truth.gap <= part.gap + NOISE * size
        assert part.gap <= at_most * truth.gap + rounding * size
        assert part.primal == pytest.approx(truth.primal, rel=1e-5)
        assert part.dual == pytest.approx(truth.dual, rel=1e-5)
        assert abs(part.dual - truth.dual) <= part.value_error + NOISE * size
        assert abs(part.primal - truth.primal) <= part.value_error + (part.gap - truth.gap) + NOISE * size
        assert part.value_error == 0.0 or part.arithmetic != "float64"
        check_relative_gap(part)
        assert truth.gap / size <= part.relative_gap + NOISE
        assert part.gap_terms.min() >= 0
        assert part.gap_terms.sum() == pytest.approx(part.gap, rel=1e-6, abs=NOISE * size)
    check_relative_gap(proof)
    if proof.parts:
        assert proof.gap == pytest.approx(sum(part.gap for part in proof.parts))
        assert proof.primal == pytest.approx(sum(part.primal for part in proof.parts))
        assert proof.value_error == pytest.approx(sum(part.value_error for part in proof.parts))
        assert proof.kkt_violation == max(part.kkt_violation for part in proof.parts)
        assert proof.gap_terms.shape == (len(proof.parts), len(y))
    else:
        assert proof.gap_terms.shape == (len(y),)
    assert proof.gap_terms.sum() == pytest.approx(proof.gap, rel=1e-6, abs=1e-9 * abs(proof.primal))


def check_relative_gap(proof: Certificate) -> None:
    """The gap is the difference of the values, and relative to the larger of them, less how far off that may be."""
    size = max(abs(proof.primal), abs(proof.dual))
    assert proof.gap == pytest.approx(proof.primal - proof.dual, abs=NOISE * size)
    assert proof.relative_gap == pytest.approx(proof.gap / (size - proof.value_error), rel=1e-12)


BREAST = StandardScaler().fit_transform(load_breast_cancer().data), load_breast_cancer().target
IRIS = load_iris(return_X_y=True)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "poly"])
def test_two_classes(kernel: str, loss: str, fit_intercept: bool, backend: str) -> None:
    X, y = BREAST[0][::2], BREAST[1][::2]
    model = SVC(kernel=kernel, coef0=1.0, loss=loss, fit_intercept=fit_intercept, backend=backend).fit(X, y)
    check(model, X, y)
    assert model.certificate_.holds(1e-3)
    assert model.certificate_.arithmetic == "float64"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1e-3, 1e3, 1e6])
def test_small_and_large_C(loss: str, C: float) -> None:
    """What rounding can do to a gap grows with C, and the certificate allows for it."""
    X, y = BREAST
    check(SVC(C=C, loss=loss).fit(X, y), X, y, rounding=1e-9 if C < 1e6 else 1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_hard_margin(kernel: str, fit_intercept: bool) -> None:
    X, y = IRIS[0][:100], IRIS[1][:100]
    model = SVC(C=np.inf, kernel=kernel, fit_intercept=fit_intercept).fit(X, y)
    check(model, X, y)
    assert model.certificate_.holds(1e-6)
    norm = 2.0 * model.certificate_.dual  # at the optimum |w|^2 = sum alpha = 2 dual
    assert model.margin_ == pytest.approx(1.0 / np.sqrt(norm), rel=1e-6)


def test_a_hard_margin_that_was_stopped() -> None:
    """Some margins are below 1 then, and the primal value is that of the machine scaled until they are not."""
    X, y = BREAST[0][:150], BREAST[1][:150]
    model = SVC(C=np.inf, max_iter=30)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert 0.1 < ((2 * y - 1) * model.decision_function(X)).min() < 0.99
    check(model, X, y)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("gap_tol", [None, 0.1])
def test_several_classes(multi_class: str, loss: str, gap_tol: float | None) -> None:
    X, y = IRIS
    check(SVC(multi_class=multi_class, loss=loss, gap_tol=gap_tol).fit(X, y), X, y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights(loss: str, classes: int) -> None:
    rng = np.random.default_rng(0)
    X, y = IRIS[0][: 50 * classes], IRIS[1][: 50 * classes]
    X = X + 0.3 * rng.normal(size=X.shape)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], size=len(y))
    check(SVC(loss=loss, class_weight={0: 2.0}).fit(X, y, sample_weight=weights), X, y, weights)


@pytest.mark.parametrize("max_iter", [0, 1, 10, 50, 100])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_model_that_was_stopped(max_iter: int, loss: str, fit_intercept: bool) -> None:
    """The certificate is about the model as it stands, with its intercept, however far it came."""
    X, y = BREAST
    model = SVC(loss=loss, fit_intercept=fit_intercept, max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    check(model, X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.certificate_.bias == model.intercept_[0]
    assert not model.certificate_.holds(1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_intercept_is_the_best_there_is(loss: str) -> None:
    """No other intercept has a smaller primal value, even where the fit was stopped."""
    X, y = BREAST
    model = SVC(loss=loss, max_iter=40)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    K, signs, (beta,) = oracle.kernel_of(model, X), 2.0 * y - 1.0, oracle.coefficients(model, len(y))
    best, *others = (
        oracle.classifier(K, signs, np.ones(len(y)), beta, model.intercept_[0] + step, loss).primal
        for step in (0.0, -1e-1, -1e-3, 1e-3, 1e-1)
    )
    assert best <= min(others) * (1 + NOISE)


@pytest.fixture(scope="module")
def many() -> tuple[Any, Any]:
    """More samples than are recomputed without a second thought, in float32 kernel arithmetic."""
    return make_classification(6000, 10, n_informative=6, flip_y=0.05, class_sep=0.7, random_state=0)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_many_samples(many: tuple[Any, Any], C: float) -> None:
    X, y = many
    model = SVC(C=C, max_seconds=60).fit(X, y)
    check(model, X, y, at_most=1.1)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.holds(1e-3)


def test_many_samples_are_checked_where_it_matters(many: tuple[Any, Any]) -> None:
    model = SVC().fit(*many)
    assert "float32" in model.arithmetic_
    assert "samples whose share of the gap can differ from zero" in model.certificate_.arithmetic


@pytest.mark.parametrize("parameters", [{"max_iter": 300}, {"gap_tol": 0.05}, {"loss": "squared_hinge", "gap_tol": 0.05}])
def test_many_samples_stopped_early(many: tuple[Any, Any], parameters: dict[str, Any]) -> None:
    X, y = many
    model = SVC(**parameters)
    if "max_iter" in parameters:
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(X, y)
    else:
        model.fit(X, y)
        assert model.certificate_.holds(0.06)
    check(model, X, y, at_most=1.1)


@pytest.mark.parametrize("lie", [0.0, 1e-6, 1e-2, 0.3])
def test_a_wrong_claim_of_a_solver_is_not_believed(lie: float) -> None:
    X, y = make_classification(1500, 10, n_informative=6, flip_y=0.05, random_state=0)
    model = SVC(gap_tol=0.01).fit(X, y)
    K, signs, (beta,) = oracle.kernel_of(model, X), 2.0 * y - 1.0, oracle.coefficients(model, len(y))
    problem = classification_problem(signs, np.ones(len(y)))
    claim = K @ beta - signs + lie * np.random.default_rng(0).uniform(-1, 1, size=len(y))
    honest, checked = (
        certify(problem, beta, recompute(problem, beta, lambda at: ExactSums((K[at] @ beta)[None], 0.0), one), lambda: 1.0)
        for one in (None, claim)
    )
    assert checked.gap == pytest.approx(honest.gap, rel=1e-9)
    assert honest.arithmetic == "float64"
    assert "samples whose share" in checked.arithmetic


def test_a_claim_is_not_believed_because_an_earlier_proof_has_mended_it_where_it_looked() -> None:
    """A solver that is continued with the gradient of a proof claims what is exact there, and wrong elsewhere as before."""
    X, y = make_classification(3000, 10, n_informative=6, flip_y=0.05, random_state=0)
    model = SVC(gap_tol=0.01).fit(X, y)
    K, signs, (beta,) = oracle.kernel_of(model, X), 2.0 * y - 1.0, oracle.coefficients(model, len(y))
    problem = classification_problem(signs, np.ones(len(y)))
    truth = problem.dual_value(beta, K @ beta - signs)

    def exact(at: Any) -> ExactSums:
        return ExactSums((K[at] @ beta)[None], 0.0)

    claim = K @ beta - signs + 1e-3 * np.random.default_rng(0).uniform(0.5, 1.0, size=len(y))
    for _ in range(4):
        gradient = recompute(problem, beta, exact, claim)
        assert gradient.checked < len(y)
        proof = certify(problem, beta, gradient, lambda: 1.0)
        assert abs(proof.dual - truth) <= proof.value_error
        claim = gradient.values


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("lie", [None, 0.0, 1e-2])
@pytest.mark.parametrize(
    ("kernel", "n_features", "sparse"),
    [("rbf", 3, False), ("rbf", 80, False), ("rbf", 300, False), ("rbf", 20, True), ("poly", 5, False), ("laplacian", 6, False)],
)
def test_machines_that_are_certified_together_get_the_certificates_of_each(
    kernel: str, n_features: int, sparse: bool, lie: float | None, coupled: bool
) -> None:
    """The compiled certificates of several machines at once and the plain one of each machine agree, far from the optimum too,
    and neither believes a claim that is wrong."""
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(700, n_features))
    X = X * (rng.random(X.shape) < 0.3) if sparse else X + 100.0
    backend, chosen = make_backend("native"), make_kernel(kernel, gamma=0.5 / n_features, coef0=1.0, degree=2)
    gram = backend.gram(chosen, make_samples(sp.csr_array(X) if sparse else X), np.dtype(np.float64), 0, (0, 200, 300, 700))
    parts = [gram.restrict((0, 2)), gram.restrict((1, 2)), gram]
    signs = [np.where(rng.random(len(part)) < 0.5, 1.0, -1.0) for part in parts]
    problems = [classification_problem(s, rng.uniform(0.0, 2.0, len(s)), fit_intercept=coupled) for s in signs]
    where = [rng.choice([0.0, 0.5, 1.0], len(problem), p=[0.5, 0.2, 0.3]) for problem in problems]
    betas = [p.feasible(p.lower + w * (p.upper - p.lower)) for p, w in zip(problems, where, strict=True)]
    everyone = [np.arange(len(part), dtype=np.int32) for part in parts]

    def sums(part: Gram, beta: Any, at: Any) -> ExactSums:
        return part.exact_sums(np.flatnonzero(beta).astype(np.int32), beta[None, beta != 0.0], at)

    gradients = [sums(*one).values[0] + p.linear for p, *one in zip(problems, parts, betas, everyone, strict=True)]
    claims: Sequence[Any] = () if lie is None else [g + lie * rng.uniform(-1.0, 1.0, len(g)) for g in gradients]
    together = backend.prove_each(parts, problems, betas, claims)
    assert together is not None
    for k, (problem, part, beta, (numbers, terms)) in enumerate(zip(problems, parts, betas, together, strict=True)):
        claim, middle = (claims[k], problem.middles(beta, claims[k])) if claims else (None, None)
        gradient = recompute(problem, beta, lambda at, part=part, beta=beta: sums(part, beta, at), claim, middle)
        expected = certify(problem, beta, gradient, lambda: 1.0)
        found = certificate_of(problem, numbers, terms, 0.0)
        size = expected.primal
        if lie:  # each checks the claim at other samples, and widens its band accordingly
            honest = certify(
                problem, beta, recompute(problem, beta, lambda at, part=part, beta=beta: sums(part, beta, at)), float
            )
            assert honest.gap <= found.gap * (1.0 + 1e-12)
            assert found.gap == pytest.approx(expected.gap, rel=0.01)
            assert abs(found.dual - honest.dual) <= found.value_error + 1e-12 * size
            continue
        assert found.gap == pytest.approx(expected.gap, rel=1e-9)
        assert found.levels == pytest.approx(expected.levels, abs=1e-9)
        assert found.dual == pytest.approx(expected.dual, abs=found.value_error + expected.value_error + 1e-12 * size)
        assert found.kkt_violation == pytest.approx(expected.kkt_violation, rel=1e-9)
        assert found.rounding == pytest.approx(expected.rounding, rel=0.05, abs=1e-13 * size)
        assert found.bias == pytest.approx(expected.bias, abs=1e-9)
        assert found.size == pytest.approx(expected.size)
        assert found.feasible == expected.feasible
        assert found.complete == expected.complete
        np.testing.assert_allclose(found.gap_terms, expected.gap_terms, atol=1e-9 * size)


def test_a_point_that_is_not_a_number_is_not_certified() -> None:
    backend, X = make_backend("native"), np.random.default_rng(0).normal(size=(40, 2))
    gram = backend.gram(make_kernel("rbf", gamma=1.0), make_samples(X), np.dtype(np.float64), 0, (0, 40))
    problem = classification_problem(np.repeat([1.0, -1.0], 20), np.ones(40))
    beta = np.zeros(40)
    beta[3] = np.nan
    ((numbers, terms),) = backend.prove_each([gram], [problem], [beta], ()) or []
    assert not certificate_of(problem, numbers, terms, 0.0).meets(1e6, None)


def test_sparse_data_get_the_same_certificate(many: tuple[Any, Any]) -> None:
    X, y = many[0] * (np.random.default_rng(0).random(many[0].shape) < 0.2), many[1]
    model = SVC(gamma=0.2).fit(sp.csr_array(X), y)
    check(model, X, y, at_most=1.1)


def test_several_classes_of_many_samples() -> None:
    """What the values of the machines may be off, those of all together may be off by the sum."""
    X, y = make_classification(6000, 10, n_classes=3, n_informative=6, class_sep=0.7, random_state=0)
    model = SVC().fit(X, y)
    assert model.certificate_.value_error > 0.0
    check(model, X, y, at_most=1.1)


def test_a_sample_that_is_wrong_holds_the_largest_share() -> None:
    """The gap terms answer which samples hold the model back."""
    X, y = BREAST
    model = SVC(max_iter=30)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    margins = (2 * y - 1) * model.decision_function(X)
    untouched = np.setdiff1d(np.arange(len(y)), model.support_)
    expected = np.maximum(0.0, 1.0 - margins[untouched])  # C times the slack of a sample whose dual is still zero
    np.testing.assert_allclose(model.certificate_.gap_terms[untouched], expected, atol=1e-9)


def test_printed() -> None:
    X, y = BREAST
    text = str(SVC().fit(X, y).certificate_)
    rows = dict(line.strip().split("  ", 1) for line in text.splitlines()[1:])
    assert text.splitlines()[0] == "certificate"
    assert list(rows) == [
        "primal value",
        "dual value",
        "duality gap",
        "relative gap",
        "KKT violation",
        "box residual",
        "equality residual",
        "computed in",
    ]
    assert str(SVC().fit(*IRIS).certificate_).startswith("certificate of 3 machines together\n")


def test_holds() -> None:
    proof = SVC(gap_tol=0.05).fit(*BREAST).certificate_
    assert 0 < proof.relative_gap <= 0.05
    assert proof.holds(proof.relative_gap)
    assert not proof.holds(0.99 * proof.relative_gap)


# --- problems that check themselves -----------------------------------------------------------------------------------

SOUND: dict[str, Any] = {"linear": np.zeros(3), "lower": np.zeros(3), "upper": np.ones(3)}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"lower": np.zeros(2)}, r"lower has shape \(2,\): must be \(3,\)"),
        ({"upper": np.ones((3, 1))}, "upper has shape"),
        ({"shift": np.ones(4)}, "shift has shape"),
        ({"start": np.zeros(1)}, "start has shape"),
        ({"linear": np.array([0.0, np.nan, 0.0])}, "linear must be finite"),
        ({"linear": np.array([0.0, np.inf, 0.0])}, "linear must be finite"),
        ({"lower": np.array([0.0, 2.0, 0.0])}, "lower must not be above upper"),
        ({"upper": np.array([1.0, np.nan, 1.0])}, "lower must not be above upper"),
        ({"shift": np.array([1.0, 0.0, 1.0])}, "shift must be positive"),
        ({"shift": np.array([1.0, -1.0, 1.0])}, "shift must be positive"),
        ({"shift": np.array([1.0, np.nan, 1.0])}, "shift must be positive"),
        ({"start": np.array([0.0, 1.5, 0.0])}, "start must be inside the box"),
        ({"start": np.array([0.0, np.nan, 0.0])}, "start must be inside the box"),
        ({"split": 4}, "split=4"),
        ({"split": -1}, "split=-1"),
    ],
)
def test_a_problem_checks_itself(parts: dict[str, Any], message: str) -> None:
    """A dual problem that is none cannot be made."""
    with pytest.raises(ValueError, match=message):
        DualProblem(**SOUND | parts)


def test_a_sound_problem_can_be_made() -> None:
    """Boxes of no width or without an end, a start at a bound, an empty group."""
    DualProblem(**SOUND)
    problem = DualProblem(**SOUND | {"upper": np.array([0.0, np.inf, 1.0]), "start": np.array([0.0, 3.0, 1.0]), "split": 3})
    assert problem.hard
    with pytest.raises(AttributeError):
        problem.split = 1  # type: ignore[misc]


# --- one formula of the gap -------------------------------------------------------------------------------------------


def problem_of(kind: str, signs: Any, C: Any, coupled: bool) -> DualProblem:
    problem = classification_problem(signs, C, "hinge" if kind == "hinge" else "squared_hinge", coupled)
    if kind != "huber":
        return problem
    return replace(problem, lower=np.where(signs < 0, -0.25 * C, 0.0), upper=np.where(signs > 0, 0.25 * C, 0.0))


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("kind", ["hinge", "squared_hinge", "huber"])
def test_the_gap_of_every_box_and_shift(kind: str, coupled: bool) -> None:
    """At any feasible point and level its terms sum to primal minus dual, as textbooks write them, and none is negative."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 15))
        factor, signs, C = rng.normal(size=(n, 3)), np.where(np.arange(n) % 2, 1.0, -1.0), 10.0 ** rng.uniform(-2, 2, n)
        K, problem = factor @ factor.T, problem_of(kind, signs, C, coupled)
        beta = problem.feasible(signs * C * rng.choice([0.0, 0.1, 0.2, 1.0], n))
        gradient = K @ beta + problem.linear + (0.0 if problem.shift is None else problem.shift * beta)

        def primal(level: float, *point: Any) -> float:
            return oracle.classifier(*point, -level, kind).primal

        level = float(rng.normal()) if coupled else 0.0
        truth = oracle.classifier(K, signs, C, beta, -level if coupled else None, kind)
        assert truth.outside <= 1e-12
        terms = problem.gap_terms(beta, gradient, level)
        assert terms.min() >= 0.0
        assert terms.sum() == pytest.approx(truth.gap, abs=1e-12 * truth.size)
        if coupled:
            point, options = (K, signs, C, beta), {"xatol": 1e-10}
            best = minimize_scalar(primal, args=point, bounds=(-50.0, 50.0), method="bounded", options=options).fun
            assert primal(problem.best_level(beta, gradient), *point) <= best + 1e-9 * truth.size
        assert problem.dual_value(beta, gradient) == pytest.approx(truth.dual, abs=1e-12 * truth.size)


@pytest.mark.parametrize("kind", ["hinge", "squared_hinge", "huber"])
def test_the_gap_of_the_worst_gradient(kind: str) -> None:
    """With a bound on the errors of a gradient, the terms are at least those of any gradient that is so close."""
    rng = np.random.default_rng(1)
    signs, C = np.where(np.arange(40) % 2, 1.0, -1.0), np.full(40, 2.0)
    problem = problem_of(kind, signs, C, True)
    beta, gradient = problem.feasible(signs * rng.uniform(0, 1, 40)), rng.normal(size=40)
    error = 10.0 ** rng.uniform(-6, 0, 40)
    worst = problem.gap_terms(beta, gradient, 0.3, error)
    for _ in range(200):
        near = gradient + error * rng.uniform(-1, 1, 40)
        assert (problem.gap_terms(beta, near, 0.3) <= worst + 1e-15).all()


# --- independence -----------------------------------------------------------------------------------------------------


class Trap:
    """Stands for what a solver writes to."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a certificate has asked a solver for {name}")


def spoil(gram: Gram) -> None:
    """Spoil rows and tiles that a solver has computed."""
    if isinstance(gram, DoubledGram):
        spoil(gram.inner)
    elif isinstance(gram, BlockGram):
        for row in gram._cache._rows.values():
            row[:] = np.nan
    else:
        gram.compiled = gram._tile = Trap()  # type: ignore[attr-defined]


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize(
    "estimator",
    [SVC(), SVC(loss="squared_hinge"), SVC(multi_class="crammer_singer"), SVR(), NuSVC(nu=0.2), OneClassSVM(nu=0.2)],
    ids=str,
)
def test_a_certificate_reads_nothing_that_a_solver_has_written(
    estimator: Any, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, tiles and the gradient of a solver may be spoilt once it is done: the certificate stays the same."""
    n = 1500 if backend == "native" and not isinstance(estimator, OneClassSVM) else 150  # one whose gradient is a mere claim
    X, y = make_classification(n, 10, n_informative=6, flip_y=0.05, random_state=0)
    target = X[:, 0] * y if isinstance(estimator, SVR) else y
    estimator.set_params(backend=backend)
    plain = estimator.fit(X, target).certificate_
    solve_ahead, solve, spoilt = training.solve_ahead, training.solve, []

    def spoil_after(job: Any, solution: Solution) -> Solution:
        spoil(job.gram)
        spoilt.append(job.gram)
        noise = np.random.default_rng(0).normal(size=solution.gradient.shape)
        return replace(solution, gradient=solution.gradient + noise)

    def solve_ahead_and_spoil(choice: Any, jobs: Any) -> dict[int, Solution]:
        return {number: spoil_after(jobs[number], one) for number, one in solve_ahead(choice, jobs).items()}

    def solve_and_spoil(choice: Any, job: Any, ahead: Any, *others: Any) -> Solution:
        return spoil_after(job, solve(choice, job, ahead, *others)) if ahead is None else ahead

    monkeypatch.setattr(training, "solve_ahead", solve_ahead_and_spoil)
    monkeypatch.setattr(training, "solve", solve_and_spoil)
    proof = estimator.fit(X, target).certificate_
    assert spoilt
    assert proof.gap == pytest.approx(plain.gap, rel=0.05, abs=1e-9 * abs(plain.primal))
    assert abs(proof.dual - plain.dual) <= proof.value_error + plain.value_error + 1e-9 * abs(plain.primal)
    assert proof.kkt_violation == pytest.approx(plain.kkt_violation, rel=0.05, abs=1e-9)
    assert estimator.status_.converged
