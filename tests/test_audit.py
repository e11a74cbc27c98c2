"""Audits of other libraries' models, against the primal and dual values of the oracle."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin.audits import Audit, audit
from maxmargin.formulations import (
    DualProblem,
    classification_problem,
    nu_classification_problem,
    nu_regression_problem,
    one_class_problem,
    regression_problem,
)
from maxmargin.io import DataFileError
from tests import oracle
from tests.oracle import Truth

RNG = np.random.default_rng(0)
BINARY = make_classification(
    90, 5, n_informative=4, n_redundant=0, n_clusters_per_class=1, flip_y=0.05, class_sep=0.8, random_state=0
)
IRIS = load_iris().data[::2] + 0.2 * RNG.normal(size=(75, 4)), load_iris().target[::2]
UNORDERED = IRIS[0], np.array([7, -2, 4])[IRIS[1]]  # classes that do not appear in their order
TARGETS = make_regression(80, 4, noise=10.0, random_state=0)
TARGETS = TARGETS[0], TARGETS[1] / TARGETS[1].std()
DATA = {"SVC": BINARY, "NuSVC": BINARY, "SVR": TARGETS, "NuSVR": TARGETS, "OneClassSVM": (BINARY[0] + 3.0, BINARY[1])}
PARAMETERS = {
    "SVC": {"C": 2.0},
    "NuSVC": {"nu": 0.35},
    "SVR": {"C": 3.0, "epsilon": 0.2},
    "NuSVR": {"C": 3.0, "nu": 0.4},
    "OneClassSVM": {"nu": 0.3},
}
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": "scale"},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": "auto"},
}


def truth_of(
    machine: str, K: Any, y: Any, s: Any, beta: Any, b: float, C: float = 1.0, nu: float = 0.5, epsilon: float = 0.1
) -> Truth:
    """The truth about one machine with the intercept b, for weights s and coefficients as scikit-learn has them."""
    match machine:
        case "SVC":
            return oracle.classifier(K, y, C * s, beta, b)
        case "SVR":
            return oracle.regression(K, y, C * s, epsilon, beta, b)
        case "NuSVR":
            return oracle.nu_regression(K, y, C * s, nu, beta, b)
        case "NuSVC":  # scikit-learn divides by rho
            scale = nu * s.sum() / np.abs(beta).sum()
            return oracle.nu_classifier(K, y, s, nu, scale * beta, scale * b)
    return oracle.one_class(K, s, nu, beta, -b)


def check(found: Audit, machine: str, K: Any, y: Any, weights: Any, model: Any, parameters: Any, rel: float = 1e-9) -> None:
    """The audit of a binary machine, a regression or a one-class machine says what the textbook says."""
    beta, numbers = np.zeros(len(K)), np.arange(len(K))
    if type(model).__module__.startswith("sklearn."):
        numbers = numbers[weights > 0]  # scikit-learn leaves the others out
    beta[numbers[model.support_]] = model.dual_coef_[0]
    signs = np.where(y == y.max(), 1.0, -1.0) if machine in ("SVC", "NuSVC") else y
    truth = truth_of(machine, K, signs, weights, beta, float(model.intercept_[0]), **parameters)
    primal = truth.primal
    assert found.primal_as_is == pytest.approx(primal, rel=rel)
    assert found.dual == pytest.approx(truth.dual, rel=rel)
    assert found.gap_as_is == pytest.approx(truth.gap, abs=rel * abs(primal))
    assert found.gap == found.gap_as_is > 0
    assert found.gap_best_bias <= found.gap_as_is * (1 + 1e-9)
    assert found.certificate.gap == pytest.approx(found.gap_best_bias, abs=1e-9 * abs(primal))
    assert found.certificate.gap_terms.shape == (len(K),)
    assert found.certificate.gap_terms.sum() == pytest.approx(found.certificate.gap, abs=1e-9 * abs(primal))


# --- the formulations: their gap terms add up to primal - dual, at any point and any level -------------------------------


def a_point(problem: DualProblem) -> Any:
    """Somewhere inside the constraints, far from optimal."""
    lower, upper = np.maximum(problem.lower, -2.0), np.minimum(problem.upper, 2.0)
    return problem.feasible(RNG.uniform(lower, upper))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_gap_terms_of_classification(loss: str, fit_intercept: bool) -> None:
    X, y = BINARY
    K, y, C = oracle.kernel_matrix("rbf", X, gamma="scale"), 2.0 * y - 1.0, RNG.uniform(0.5, 3.0, len(y))
    problem = classification_problem(y, C, loss, fit_intercept)
    beta, b = a_point(problem), 0.3 * fit_intercept
    truth = oracle.classifier(K, y, C, beta, b if fit_intercept else None, loss)
    gradient = K @ beta - y + (beta / (2 * C) if loss == "squared_hinge" else 0.0)
    assert problem.gap_terms(beta, gradient, -b).sum() == pytest.approx(truth.gap, rel=1e-12)
    assert problem.dual_value(beta, gradient) == pytest.approx(truth.dual, rel=1e-12)
    assert truth.outside < 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_gap_terms_of_regression(loss: str, fit_intercept: bool) -> None:
    X, y = TARGETS
    K, C, epsilon, n = oracle.kernel_matrix("rbf", X, gamma="scale"), RNG.uniform(0.5, 3.0, len(y)), 0.2, len(y)
    problem = regression_problem(y, C, epsilon, loss, fit_intercept)
    halves, b = a_point(problem), 0.3 * fit_intercept
    truth = oracle.regression(K, y, C, epsilon, halves.reshape(2, n), b if fit_intercept else None, loss)
    shift = halves / np.tile(2 * C, 2) if loss == "squared_epsilon_insensitive" else 0.0
    gradient = np.tile(K @ (halves[:n] + halves[n:]), 2) + problem.linear + shift
    assert problem.gap_terms(halves, gradient, -b).sum() == pytest.approx(truth.gap, rel=1e-12)
    assert problem.dual_value(halves, gradient) == pytest.approx(truth.dual, rel=1e-12)
    assert truth.outside < 1e-12


def test_gap_terms_of_nu_classification() -> None:
    X, y = BINARY
    order = np.argsort(y, kind="stable")
    K, y, s = oracle.kernel_matrix("rbf", X[order], gamma="scale"), 2.0 * y[order] - 1.0, RNG.uniform(0.5, 3.0, len(y))
    problem = nu_classification_problem(y, s, 0.3)
    beta, b, rho = a_point(problem), 0.3, 0.7
    truth, f = oracle.nu_classifier(K, y, s, 0.3, beta, b, rho), K @ beta
    gap = problem.gap_terms(beta, f, problem.at_variables([-rho - b, rho - b])).sum()
    assert gap == pytest.approx(truth.gap, rel=1e-12)
    assert problem.dual_value(beta, f) == pytest.approx(truth.dual, rel=1e-12)
    assert truth.outside < 1e-12


def test_gap_terms_of_nu_regression() -> None:
    X, y = TARGETS
    K, C, n = oracle.kernel_matrix("rbf", X, gamma="scale"), RNG.uniform(0.5, 3.0, len(y)), len(y)
    problem = nu_regression_problem(y, C, 0.4)
    halves, b, epsilon = a_point(problem), 0.3, 0.25
    truth = oracle.nu_regression(K, y, C, 0.4, halves.reshape(2, n), b, epsilon)
    gradient = np.tile(K @ (halves[:n] + halves[n:]), 2) + problem.linear
    gap = problem.gap_terms(halves, gradient, problem.at_variables([-epsilon - b, epsilon - b])).sum()
    assert gap == pytest.approx(truth.gap, rel=1e-12)
    assert problem.dual_value(halves, gradient) == pytest.approx(truth.dual, rel=1e-12)
    assert truth.outside < 1e-12


def test_gap_terms_of_one_class() -> None:
    K, s = oracle.kernel_matrix("rbf", BINARY[0], gamma="scale"), RNG.uniform(0.5, 3.0, len(BINARY[0]))
    problem = one_class_problem(s, 0.3)
    beta, rho = a_point(problem), 0.8
    truth = oracle.one_class(K, s, 0.3, beta, rho)
    assert problem.gap_terms(beta, K @ beta, rho).sum() == pytest.approx(truth.gap, rel=1e-12)
    assert truth.outside < 1e-12


# --- scikit-learn and scikit-learn-intelex -------------------------------------------------------------------------------


def libraries() -> list[Any]:
    cases = [pytest.param("sklearn.svm", machine, id=f"sklearn-{machine}") for machine in PARAMETERS]
    return cases + [pytest.param("sklearnex.svm", machine, id=f"sklearnex-{machine}") for machine in list(PARAMETERS)[:4]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("library", "machine"), libraries())
def test_every_machine(library: str, machine: str, kernel: str, weighted: bool) -> None:
    estimators = pytest.importorskip(library)
    X, y = DATA[machine]
    weights = RNG.choice([0.0, 0.5, 1.0, 2.0], len(y)) if weighted else None
    model = getattr(estimators, machine)(**PARAMETERS[machine], **KERNELS[kernel]).fit(X, y, sample_weight=weights)
    found = audit(model, X, y, weights)
    s = np.ones(len(y)) if weights is None else weights
    check(found, machine, oracle.kernel_matrix(A=X, **KERNELS[kernel]), y, s, model, PARAMETERS[machine])
    assert found.holds(1e-2)
    assert found.kkt_violation <= 1.1e-3
    assert found.box_residual < 1e-12
    assert found.equality_residual < 1e-10
    assert found.sentence.endswith("of the optimum, relative; its stopping tolerance held.")


@pytest.mark.parametrize("library", ["sklearn.svm", "sklearnex.svm"])
@pytest.mark.parametrize("machine", ["SVC", "NuSVC"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_one_vs_one(library: str, machine: str, shuffled: bool) -> None:
    estimators = pytest.importorskip(library)
    X, y = IRIS
    if shuffled:
        order = RNG.permutation(len(y))
        X, y = X[order], y[order]
    model = getattr(estimators, machine)(**PARAMETERS[machine], gamma=0.7).fit(X, y)
    found = audit(model, X, y)
    K = oracle.kernel_matrix("rbf", X, gamma=0.7)
    truths = [
        truth_of(machine, K[np.ix_(at, at)], signs, np.ones(len(at)), beta, bias, **PARAMETERS[machine])
        for (at, signs, beta), bias in zip(
            oracle.one_vs_one(y, oracle.coefficients(model, len(y))), model.intercept_, strict=True
        )
    ]
    assert found.primal_as_is == pytest.approx(sum(truth.primal for truth in truths), rel=1e-9)
    assert found.dual == pytest.approx(sum(truth.dual for truth in truths), rel=1e-9)
    assert len(found.certificate.parts) == 3
    assert found.certificate.gap_terms.shape == (3, len(y))
    assert "3 machines together" in str(found)
    assert found.holds(1e-2)


@pytest.mark.parametrize("library", ["sklearn.svm", "sklearnex.svm"])
def test_class_weights(library: str) -> None:
    """scikit-learn's NuSVC ignores them, scikit-learn-intelex's does not, and neither is to blame for the other."""
    estimators = pytest.importorskip(library)
    X, y = BINARY
    for class_weight in ({0: 3.0}, "balanced"):
        found = audit(estimators.SVC(class_weight=class_weight, tol=1e-6).fit(X, y), X, y)
        assert found.holds(1e-6)
        assert found.box_residual == 0
    model = estimators.NuSVC(nu=0.3, class_weight={0: 1.2}, tol=1e-6).fit(X, y)
    assert audit(model, X, y).holds(1e-6)


@pytest.mark.parametrize("machine", PARAMETERS)
def test_a_tighter_tolerance_gives_a_smaller_gap(machine: str) -> None:
    X, y = DATA[machine]
    fit = getattr(sklearn.svm, machine)
    gaps = [audit(fit(tol=tol, **PARAMETERS[machine]).fit(X, y), X, y).gap for tol in (1.0, 1e-2, 1e-4, 1e-6)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3 * gaps[0]


def test_a_tube_of_no_width() -> None:
    """Then a sample may pull up and down at once, of which a model keeps the difference: the sums are more than it shows."""
    X, y = TARGETS
    parameters = {"C": 10.0, "nu": 1.0}
    model = sklearn.svm.NuSVR(tol=1e-5, gamma=5.0, **parameters).fit(X, y)
    assert np.abs(model.dual_coef_).sum() < 0.5 * 10.0 * len(y)
    found = audit(model, X, y)
    assert found.holds(1e-3)
    assert found.equality_residual < 1e-9
    check(found, "NuSVR", oracle.kernel_matrix("rbf", X, gamma=5.0), y, np.ones(len(y)), model, parameters)


def test_an_unfinished_fit_is_told() -> None:
    X, y = BINARY
    with pytest.warns(ConvergenceWarning):
        model = sklearn.svm.SVC(max_iter=5).fit(X, y)
    found = audit(model, X, y)
    assert "its stopping tolerance did not hold" in found.sentence
    assert not found.holds(0.1)
    assert 0 < found.gap_best_bias < found.gap_as_is


def test_sparse_and_float32_data() -> None:
    X, y = BINARY
    found = audit(sklearn.svm.SVC(gamma=0.3).fit(sp.csr_matrix(X), y), sp.csr_matrix(X), y)
    assert found.primal_as_is == pytest.approx(audit(sklearn.svm.SVC(gamma=0.3).fit(X, y), X, y).primal_as_is, rel=1e-9)
    single = pytest.importorskip("sklearnex.svm").SVC(gamma=0.3).fit(X.astype(np.float32), y)
    found = audit(single, X, y)  # compared with the samples as float32 has them
    assert found.holds(1e-3)
    assert found.sentence.endswith("its stopping tolerance held.")


def test_kernels_of_the_user() -> None:
    X, y = BINARY
    K = oracle.kernel_matrix("rbf", X, gamma="scale")
    expected = audit(sklearn.svm.SVC().fit(X, y), X, y)
    for model, samples in (
        (sklearn.svm.SVC(kernel="precomputed").fit(K, y), K),
        (sklearn.svm.SVC(kernel=partial(oracle.kernel_matrix, "rbf", gamma=1.0 / (5 * X.var()))).fit(X, y), X),
    ):
        assert audit(model, samples, y).primal_as_is == pytest.approx(expected.primal_as_is, rel=1e-9)


def test_a_model_that_predicts_with_the_wrong_samples() -> None:
    """scikit-learn numbers the samples without those of zero weight, but not the columns of a kernel matrix."""
    X, y = BINARY
    weights = RNG.choice([0.0, 1.0], len(y))
    found = audit(sklearn.svm.SVC(kernel="precomputed").fit(X @ X.T, y, sample_weight=weights), X @ X.T, y, weights)
    assert not found.holds(0.5)
    assert "Samples of zero weight are support vectors" in found.sentence
    taking_part = weights > 0
    model = sklearn.svm.SVC(kernel="precomputed").fit((X @ X.T)[np.ix_(taking_part, taking_part)], y[taking_part])
    assert audit(model, (X @ X.T)[np.ix_(taking_part, taking_part)], y[taking_part]).holds(1e-2)


def test_an_indefinite_kernel_has_no_gap_to_close() -> None:
    X, y = BINARY
    found = audit(sklearn.svm.SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y), X, y)
    assert "The kernel is not positive semi-definite" in found.sentence
    assert "optimum" not in found.sentence


def test_models_with_probabilities_and_pipelines() -> None:
    X, y = BINARY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # deprecated in scikit-learn 1.9
        model = sklearn.svm.SVC(probability=True, random_state=0).fit(X, y)
    assert audit(model, X, y).holds(1e-3)
    pipeline = make_pipeline(StandardScaler(), sklearn.svm.SVC()).fit(100 * X, y)
    assert audit(pipeline, 100 * X, y).holds(1e-3)


# --- models that were changed ------------------------------------------------------------------------------------------


@pytest.fixture
def model() -> Any:
    return sklearn.svm.SVC(tol=1e-5).fit(*BINARY)


def test_a_coefficient_outside_its_box(model: Any) -> None:
    honest = audit(model, *BINARY)
    bounded = np.flatnonzero(np.abs(model.dual_coef_[0]) == 1.0)[0]
    model.dual_coef_[0, bounded] *= 1.4
    found = audit(model, *BINARY)
    assert found.box_residual == pytest.approx(0.4)
    assert "leave their box, by 0.4" in found.sentence
    assert found.dual <= honest.dual * (1 + 1e-12)  # that of a feasible point: never more than the optimum
    assert found.gap_as_is > 10 * honest.gap_as_is


def test_a_coefficient_inside_its_box(model: Any) -> None:
    honest = audit(model, *BINARY)
    free = np.flatnonzero(np.abs(model.dual_coef_[0]) < 0.5)[0]
    model.dual_coef_[0, free] += 0.01 * np.sign(model.dual_coef_[0, free])
    found = audit(model, *BINARY)
    assert found.equality_residual == pytest.approx(0.01)
    assert "miss the sum they have to keep, by 0.01" in found.sentence
    assert found.dual <= honest.dual * (1 + 1e-12)
    assert found.gap_as_is > honest.gap_as_is


def test_the_primal_value_is_that_of_the_changed_model(model: Any) -> None:
    """Not that of the feasible point near it, whose dual value it is compared with."""
    model.dual_coef_[0, :3] *= [3.0, -1.0, 0.2]
    found = audit(model, *BINARY)
    beta = np.zeros(len(BINARY[1]))
    beta[model.support_] = model.dual_coef_[0]
    signs, K = 2.0 * BINARY[1] - 1, oracle.kernel_matrix("rbf", BINARY[0], gamma="scale")
    biases = [model.intercept_[0], *(signs - K @ beta)]  # the model's, and the kinks of the loss
    primal, *others = (oracle.classifier(K, signs, np.ones(len(signs)), beta, bias).primal for bias in biases)
    assert found.primal_as_is == pytest.approx(primal, rel=1e-9)
    best = min(others)
    assert found.primal_best_bias == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("machine", PARAMETERS)
def test_another_intercept(machine: str) -> None:
    X, y = DATA[machine]
    model = getattr(sklearn.svm, machine)(tol=1e-5, **PARAMETERS[machine]).fit(X, y)
    honest = audit(model, X, y)
    model.intercept_ = model.intercept_ + 0.2
    found = audit(model, X, y)
    check(found, machine, oracle.kernel_matrix("rbf", X, gamma="scale"), y, np.ones(len(y)), model, PARAMETERS[machine])
    assert found.gap_best_bias == pytest.approx(honest.gap_best_bias, rel=1e-6)
    assert found.certificate.gap == honest.certificate.gap
    assert "Its intercept is not the best" in found.sentence


def test_another_C(model: Any) -> None:
    assert "leave their box, by 0.5" in audit(model, *BINARY, C=0.5).sentence
    assert not audit(model, *BINARY, C=2.0).holds(1e-2)  # inside the box, but not its optimum
    assert "leave their box" in audit(model, *BINARY, np.full(len(BINARY[1]), 0.3)).sentence


def test_a_nu_for_which_there_is_no_margin() -> None:
    """scikit-learn divides by it all the same, and half of these models say the opposite of what they learned."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
        found = audit(sklearn.svm.NuSVC(nu=0.3, kernel="linear").fit(X, y), X, y)
        assert "use a larger nu" in found.sentence
        assert "box" not in found.sentence
        assert not found.holds(0.5)


@pytest.mark.parametrize("machine", ["NuSVC", "NuSVR", "OneClassSVM"])
def test_another_nu(machine: str) -> None:
    X, y = DATA[machine]
    model = getattr(sklearn.svm, machine)(**PARAMETERS[machine]).fit(X, y)
    assert not audit(model, X, y, nu=0.2).holds(1e-2)


# --- LIBSVM ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def svmutil() -> Any:
    return pytest.importorskip("libsvm.svmutil")


OPTIONS = {
    "SVC": "-s 0 -c 2",
    "NuSVC": "-s 1 -n 0.35",
    "SVR": "-s 3 -c 3 -p 0.2",
    "NuSVR": "-s 4 -c 3 -n 0.4",
    "OneClassSVM": "-s 2 -n 0.3",
}
LIBSVM_KERNELS = {"rbf": "-t 2 -g 0.3", "linear": "-t 0", "poly": "-t 1 -d 2 -r 1 -g 0.3", "sigmoid": "-t 3 -g 0.01"}


@pytest.mark.parametrize("kernel", LIBSVM_KERNELS)
@pytest.mark.parametrize("machine", OPTIONS)
def test_libsvm(svmutil: Any, machine: str, kernel: str, tmp_path: Any) -> None:
    """Its module's models, its files read by the module, and its files read here say the same, and what scikit-learn's say."""
    X, y = DATA[machine] if machine not in ("SVC", "NuSVC") else UNORDERED
    options = f"{OPTIONS[machine]} {LIBSVM_KERNELS[kernel]} -e 1e-6 -q"
    model = svmutil.svm_train(y, X, options)
    found = audit(model, X, y)
    assert found.library == "LIBSVM"
    assert found.machine == machine
    assert found.holds(1e-4 if kernel == "poly" else 1e-5)  # its kernel is float32
    assert found.box_residual < 1e-12
    gamma = {"rbf": 0.3, "poly": 0.3, "sigmoid": 0.01, "linear": 1.0}[kernel]
    twin = getattr(sklearn.svm, machine)(
        **PARAMETERS[machine], kernel=kernel, gamma=gamma, degree=2, coef0=float(kernel == "poly"), tol=1e-6
    ).fit(X, y)
    if kernel != "sigmoid":  # which has many stationary points
        assert audit(twin, X, y).primal_as_is == pytest.approx(found.primal_as_is, rel=1e-4)

    path = tmp_path / "libsvm.model"
    svmutil.svm_save_model(str(path), model)
    for other in (path, str(path), svmutil.svm_load_model(str(path))):
        same = audit(other, X, y, **PARAMETERS[machine], tol=1e-6)
        assert same.primal_as_is == pytest.approx(found.primal_as_is, rel=1e-12)
        assert same.dual == pytest.approx(found.dual, rel=1e-12)
        np.testing.assert_allclose(same.certificate.gap_terms, found.certificate.gap_terms, atol=1e-9)


def test_two_classes_of_libsvm_in_either_order(svmutil: Any, tmp_path: Any) -> None:
    X, y = BINARY
    for labels in (y, 1 - y, np.where(y == y[0], 7, -7), np.where(y == y[0], -7, 7)):
        model = svmutil.svm_train(labels, X, "-c 2 -g 0.3 -q")
        svmutil.svm_save_model(str(tmp_path / "model"), model)
        for found in (audit(model, X, labels), audit(tmp_path / "model", X, labels, C=2)):
            assert found.holds(1e-3)
            assert found.kkt_violation <= 1.01e-3


def test_samples_as_libsvm_takes_them(svmutil: Any) -> None:
    X, y = BINARY
    rows = [{j + 1: value for j, value in enumerate(row) if abs(value) > 0.5} for row in X]
    model = svmutil.svm_train(y.tolist(), rows, "-g 0.3 -q")
    assert audit(model, rows, y.tolist()).holds(1e-3)
    K = oracle.kernel_matrix("rbf", X, gamma=0.3)
    serial = np.column_stack([np.arange(1, len(y) + 1), K])
    dense = svmutil.svm_train(y, serial, "-t 4 -q")
    expected = audit(sklearn.svm.SVC(gamma=0.3).fit(X, y), X, y).primal_as_is
    for samples in (K, serial, [dict(enumerate(row)) for row in serial.tolist()]):
        assert audit(dense, samples, y).primal_as_is == pytest.approx(expected, rel=1e-3)


def test_class_weights_of_libsvm(svmutil: Any) -> None:
    X, y = BINARY
    model = svmutil.svm_train(y, X, "-w0 3 -q")
    with pytest.raises(ValueError, match="pass class_weight="):
        audit(model, X, y)
    assert audit(model, X, y, class_weight={0: 3.0}).holds(1e-3)


@pytest.mark.parametrize("machine", OPTIONS)
def test_duplicates_in_a_model_file(svmutil: Any, machine: str, tmp_path: Any) -> None:
    """A file does not say which of identical samples is the support vector; the certificate is the same whichever it is."""
    X, y = DATA[machine]
    chosen = RNG.integers(0, 40, 120)
    X, y = X[chosen], y[chosen]
    y = y + RNG.normal(size=len(y)) if machine in ("SVR", "NuSVR") else y  # with the same x and another target
    model = svmutil.svm_train(y, X, f"{OPTIONS[machine]} -g 0.3 -e 1e-7 -q")
    svmutil.svm_save_model(str(tmp_path / "model"), model)
    found, same = audit(model, X, y), audit(tmp_path / "model", X, y, **PARAMETERS[machine])
    assert same.gap_as_is == pytest.approx(found.gap_as_is, abs=1e-7 * abs(found.dual))
    assert same.dual == pytest.approx(found.dual, rel=1e-7)
    assert same.box_residual < 1e-12


def test_a_model_file_prints_eight_digits(svmutil: Any, tmp_path: Any) -> None:
    X, y = BINARY
    svmutil.svm_save_model(str(tmp_path / "model"), svmutil.svm_train(y, X / 3.0, "-g 0.3 -q"))
    assert audit(tmp_path / "model", X / 3.0, y, C=1.0).holds(1e-3)
    with pytest.raises(ValueError, match="support vector 0 is not a row of X"):
        audit(tmp_path / "model", X, y, C=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "solver_type L2R\n" + text, "not a LIBSVM model file"),
        (lambda text: text[: text.index("SV\n")], "support vectors where its header says"),
        (lambda text: text[: text.index("rho")], "no rho in its header"),
        (lambda text: text.replace("c_svc", "c_svm"), "svm_type c_svm: must be one of c_svc"),
        (lambda text: text.rstrip()[:-4] + ":x\n", r"line \d+: not 1 coefficients and pairs"),
    ],
)
def test_broken_model_files(svmutil: Any, tmp_path: Any, change: Any, message: str) -> None:
    path = tmp_path / "model"
    svmutil.svm_save_model(str(path), svmutil.svm_train(BINARY[1], BINARY[0], "-q"))
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message):
        audit(path, *BINARY, C=1.0)


# --- libraries that need a GPU or a compiler: stand-ins with the attributes that their documentation lists ------------------


class OnDevice:
    """An array that NumPy cannot see into, as CuPy's."""

    __array_ufunc__ = None

    def __init__(self, values: Any) -> None:
        self._values = values

    def get(self) -> Any:
        return self._values


def stand_in(module: str, name: str, **attributes: Any) -> Any:
    return type(name, (), {"__module__": module, **attributes})()


def test_cuml() -> None:
    X, y = BINARY
    model = sklearn.svm.SVC(C=0.1, tol=1e-5).fit(X.astype(np.float32), y)
    cuml = stand_in(
        "cuml.svm.svc", "SVC", C=0.1, kernel="rbf", gamma="scale", degree=3, coef0=0.0, tol=1e-5, class_weight=None,
        support_=OnDevice(model.support_.astype(np.int32)),
        support_vectors_=OnDevice(model.support_vectors_.astype(np.float32)),
        dual_coef_=OnDevice(model.dual_coef_.astype(np.float32)),
        intercept_=OnDevice(np.float32(model.intercept_[0])),
        classes_=OnDevice(model.classes_), n_support_=len(model.support_), n_classes_=2, shape_fit_=X.shape,
    )  # fmt: skip
    found = audit(cuml, OnDevice(X), OnDevice(y))
    assert found.library == "cuML"
    assert found.primal_as_is == pytest.approx(audit(model, X.astype(np.float32), y).primal_as_is, rel=1e-5)
    assert found.box_residual < 1e-8
    assert found.holds(1e-4)
    assert "box" not in found.sentence  # float32(0.1) > 0.1 is rounding
    cuml = stand_in("cuml.svm.svc", "SVC", kernel="rbf", n_classes_=3, support_=[0], intercept_=[0.0])
    with pytest.raises(ValueError, match="audit its binary machines one by one"):
        audit(cuml, *IRIS)


@pytest.mark.parametrize("machine", PARAMETERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_thundersvm(svmutil: Any, machine: str, n_classes: int) -> None:
    """LIBSVM's conventions, in float32, under scikit-learn's names."""
    X, y = DATA[machine]
    if machine in ("SVC", "NuSVC") and n_classes == 3:
        X, y = UNORDERED
    model = svmutil.svm_train(y, X, f"{OPTIONS[machine]} -g 0.3 -e 1e-5 -q")
    pairs = model.nr_class * (model.nr_class - 1) // 2
    thunder = stand_in(
        "thundersvm.thundersvm", machine, **({"C": None, "nu": None, "epsilon": None} | PARAMETERS[machine]),
        kernel="rbf", gamma=0.3, degree=3, coef0=0.0, tol=1e-5, class_weight={},
        support_=np.array(model.get_sv_indices()) - 1,
        support_vectors_=X[np.array(model.get_sv_indices()) - 1].astype(np.float32),
        dual_coef_=np.array(model.get_sv_coef(), dtype=np.float32).astype(float).T,
        intercept_=np.array(model.rho[:pairs], dtype=np.float32).astype(float),
        n_support_=np.array(model.nSV[: model.nr_class] if model.nSV else [model.l, 0]), shape_fit_=X.shape,
    )  # fmt: skip
    found = audit(thunder, X, y)
    assert found.library == "ThunderSVM"
    assert found.primal_as_is == pytest.approx(audit(model, X, y).primal_as_is, rel=1e-5)
    assert found.holds(1e-4)
    assert "box" not in found.sentence


# --- our own -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "parameters"),
    [
        ("SVC", {}),
        ("SVC", {"loss": "squared_hinge"}),
        ("SVC", {"fit_intercept": False}),
        ("SVC", {"fit_intercept": False, "loss": "squared_hinge", "kernel": "laplacian", "sigma": 2.0}),
        ("SVC", {"C": np.inf, "gamma": 5.0}),
        ("SVC", {"class_weight": "balanced"}),
        ("SVC", {"solver": "dual-ascent"}),
        ("NuSVC", {"nu": 0.3, "class_weight": {0: 1.2}}),
        ("SVR", {"loss": "squared_epsilon_insensitive"}),
        ("SVR", {"fit_intercept": False}),
        ("NuSVR", {}),
        ("OneClassSVM", {"nu": 0.2, "kernel": "exponential"}),
    ],
)
def test_our_own_models_agree_with_their_certificates(machine: str, parameters: dict[str, Any]) -> None:
    X, y = DATA[machine]
    weights = RNG.choice([0.0, 1.0, 2.0], len(y))
    model = getattr(maxmargin, machine)(**parameters).fit(X, y, sample_weight=weights)
    found, proof = audit(model, X, y, weights), model.certificate_
    assert found.library == "maxmargin"
    assert found.primal_as_is == pytest.approx(proof.primal, rel=1e-9)
    assert found.dual == pytest.approx(proof.dual, rel=1e-9)
    assert found.gap_as_is == pytest.approx(proof.gap, abs=1e-8 * abs(proof.dual))
    assert found.box_residual < 1e-12


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_our_own_models_of_several_classes(multi_class: str, loss: str) -> None:
    X, y = IRIS
    model = maxmargin.SVC(multi_class=multi_class, loss=loss, gap_tol=0.1).fit(X, y)
    found = audit(model, X, y)
    assert found.primal_as_is == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert found.dual == pytest.approx(model.certificate_.dual, rel=1e-9)
    np.testing.assert_allclose(found.certificate.gap_terms, model.certificate_.gap_terms, atol=1e-9)


# --- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda X, y: (X[:-1], y[:-1]), "X has 89 samples, and the model was fitted on 90: pass its training set"),
        (lambda X, y: (X[:, :-1], y), "X has 4 features, and the model was fitted on 5"),
        (lambda X, y: (X[::-1], y), "is not the support vector that the model has there"),
        (lambda X, y: (2 * X, y), "scaled as it was for the fit"),
        (lambda X, y: (X,), r"y=None: the labels .* are needed"),
        (lambda X, y: (X, y + 5), r"y has the label 5, which the model does not know \(it knows 0, 1\)"),
        (lambda X, y: (X, 1 - y), "pass the labels that it was fitted on"),
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, y, np.ones(3)), "inconsistent numbers of samples"),
        (lambda X, y: (X, y, np.zeros(len(y))), "zero or negative weights"),
        (lambda X, y: (X * np.nan, y), "NaN"),
    ],
)
def test_data_that_are_not_the_training_set(model: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audit(model, *arguments(*BINARY))


def test_targets_that_are_none() -> None:
    X, y = TARGETS
    model = sklearn.svm.SVR().fit(X, y)
    with pytest.raises(ValueError, match="the targets that this SVR was fitted on"):
        audit(model, X)
    with pytest.raises(ValueError, match="not finite numbers"):
        audit(model, X, np.where(y > 1, np.nan, y))


def test_models_that_cannot_be_audited(tmp_path: Any) -> None:
    X, y = BINARY
    with pytest.raises(NotFittedError, match="call fit before audit"):
        audit(sklearn.svm.SVC(), X, y)
    with pytest.raises(TypeError, match=r"keeps no dual coefficients.*SVC\(kernel='linear'\)"):
        audit(sklearn.svm.LinearSVC().fit(X, y), X, y)
    with pytest.raises(TypeError, match=r"pass model\.best_estimator_"):
        audit(GridSearchCV(sklearn.svm.SVC(), {"C": [1.0]}).fit(X, y), X, y)
    with pytest.raises(TypeError, match="model is a dict, not a machine"):
        audit({}, X, y)
    with pytest.raises(DataFileError, match="no such file"):
        audit(tmp_path / "absent.model", X, y)
    with pytest.raises(ValueError, match="with a precomputed kernel it must be the dense kernel matrix"):
        audit(sklearn.svm.SVC(kernel=lambda A, B: A @ B.T).fit(X, y), X, y, kernel="precomputed")


def test_parameters_that_a_file_lacks(svmutil: Any, tmp_path: Any) -> None:
    X, y = BINARY
    svmutil.svm_save_model(str(tmp_path / "model"), svmutil.svm_train(y, X, "-q"))
    with pytest.raises(ValueError, match=r"C: this model of LIBSVM does not say it: .* C=\.\.\."):
        audit(tmp_path / "model", X, y)


def test_printed(model: Any) -> None:
    found = audit(model, *BINARY)
    lines = str(found).splitlines()
    assert lines[0] == "audit of SVC by scikit-learn"
    assert lines[-1] == found.sentence
    labels = [line.strip().split("  ")[0] for line in lines[1:-1]]
    assert labels == [
        "primal value", "dual value", "duality gap", "with the best intercept", "relative gap", "KKT violation", "box residual",
        "equality residual", "computed in",
    ]  # fmt: skip
