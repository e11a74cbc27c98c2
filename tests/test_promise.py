"""The promise: no status that its certificate contradicts, no certificate that the model contradicts, and no input that breaks
either. Most of what is here once did."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVCCV, SVR, KernelRegressor, NuSVC, NuSVR, OneClassSVM, Status
from tests import oracle

LIVENESS = 40.0  # seconds: a limit that only a hang exceeds
GAP = 1e-3  # the default of gap_tol
RESIDUAL = 1e-11  # of the sizes of the duals: what rounding may leave of their sum

#: A program that fits 3000 samples, so that the threads of the library run, and what its children need.
BEGUN = """
import json, os, sys, warnings
import numpy as np
from maxmargin import SVC, SVR, KernelRegressor
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(3000, 5))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
parent = SVC().fit(X, y)
"""


def fit(model: Any, *data: Any, **options: Any) -> Any:
    """The model, fitted; `said` holds what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data, **options)
    assert {warning.category for warning in caught} <= {ConvergenceWarning}
    model.said = " ".join(str(warning.message) for warning in caught)
    return model


def assert_status_is_proved(model: Any) -> None:
    """CONVERGED and GAP_REACHED are claims about the certificate, of every machine; all else comes with a warning."""
    if not model.status_.converged:
        assert model.status_.value in model.said
        return
    for part in model.certificate_.parts or (model.certificate_,):
        assert part.relative_gap <= GAP
        assert part.box_residual == 0.0
        if isinstance(model, KernelRegressor):
            continue  # its tol is relative
        assert part.kkt_violation <= model.tol
        assert part.equality_residual <= RESIDUAL * np.abs(model.dual_coef_).sum()


def decisions(model: Any, X: Any) -> Any:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def exact_decisions(model: Any, X: Any) -> Any:
    """sum_i beta_i k(x_i, x) + b at the training samples, from differences."""
    return oracle.coefficients(model, X.shape[0])[0] @ oracle.kernel_of(model, X) + model.intercept_[0]


def child(program: str, timeout: float = LIVENESS) -> Any:
    """What a program in a process of its own prints last, as JSON. A hang is an error."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr or f"ended by signal {-done.returncode}"
    return json.loads(done.stdout.splitlines()[-1])


# --- sums of duals ----------------------------------------------------------------------------------------------------


def random_labels(seed: int) -> tuple[Any, Any, float]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 200))
    X = rng.standard_normal((n, 3))
    return X, (rng.random(n) < 0.5).astype(int), float(10 ** rng.uniform(-2, 1))


@pytest.mark.parametrize("weighing", ["balanced", "drawn"])
@pytest.mark.parametrize("seed", [15, 32, 50, 67, 122, 171, 271])
def test_weights_leave_the_sum_of_duals_at_zero(seed: int, weighing: str) -> None:
    """Whatever the weights, the duals sum to zero and the status is proved."""
    X, y, C = random_labels(seed)
    model = SVC(kernel="linear", C=C, class_weight="balanced" if weighing == "balanced" else None)
    drawn = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], len(y)) if weighing == "drawn" else None
    fit(model, X, y, sample_weight=drawn)
    assert model.status_ is Status.CONVERGED
    assert abs(math.fsum(model.dual_coef_[0])) <= RESIDUAL * np.abs(model.dual_coef_).sum()
    assert_status_is_proved(model)


@pytest.mark.parametrize("estimator", [SVC(), SVC(multi_class="ovr"), SVR(), NuSVC(nu=0.1), NuSVR(), OneClassSVM()])
def test_weights_leave_the_sums_of_other_machines(estimator: Any) -> None:
    """The same for machines with other sums, of twenty draws each."""
    for seed in range(20):
        X, y, C = random_labels(seed)
        model = type(estimator)(**{**estimator.get_params(), "kernel": "linear"})
        if "C" in model.get_params():
            model.C = C
        target = y + X[:, 0] if isinstance(model, SVR | NuSVR) else y
        fit(model, X, target, sample_weight=np.random.default_rng(seed).choice([0.5, 1.0, 2.0], len(y)))
        assert model.certificate_.equality_residual <= RESIDUAL * max(np.abs(model.dual_coef_).sum(), len(y))
        assert_status_is_proved(model)


# --- features of very different sizes ---------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
STAMPED = np.column_stack([RNG.standard_normal((1000, 3)), 1.7e9 + 1e6 * RNG.random(1000)])  # seconds since 1970
SIGNS = (STAMPED[:, 0] + STAMPED[:, 1] > 0).astype(int)
THIRDS = np.digitize(STAMPED[:, 0], [-0.5, 0.5])
SECTORS = np.argmax(
    STAMPED[:, :2] @ [[1.0, -0.5, -0.5], [0.0, 0.9, -0.9]], axis=1
)  # a line separates each from the others, nearly
TARGETS = STAMPED[:, 0] - 2.0 * STAMPED[:, 1]
LINEAR = {
    "SVC": (SVC(kernel="linear"), SIGNS),
    "squared hinge": (SVC(kernel="linear", loss="squared_hinge"), SIGNS),
    "without an intercept": (SVC(kernel="linear", fit_intercept=False), SIGNS),
    "one-vs-one": (SVC(kernel="linear"), THIRDS),
    "one-vs-rest": (SVC(kernel="linear", multi_class="ovr"), SECTORS),
    "NuSVC": (NuSVC(kernel="linear", nu=0.2), SIGNS),
    "NuSVC, three classes": (NuSVC(kernel="linear", nu=0.2), THIRDS),
    "Crammer and Singer": (SVC(kernel="linear", multi_class="crammer_singer", max_seconds=0.5), THIRDS),
    "SVR": (SVR(kernel="linear"), TARGETS),
    "squared SVR": (SVR(kernel="linear", loss="squared_epsilon_insensitive"), TARGETS),
    "NuSVR": (NuSVR(kernel="linear"), TARGETS),
    "KernelRegressor": (KernelRegressor(kernel="linear"), TARGETS),
}


@pytest.mark.parametrize("name", LINEAR)
def test_a_time_stamp_among_the_features(name: str) -> None:
    """A linear machine is solved and good, or says that it is not, and which column is to blame."""
    model, target = LINEAR[name]
    fit(model, STAMPED, target)
    assert_status_is_proved(model)
    assert np.isfinite(decisions(model, STAMPED)).all()
    if model.status_.converged:
        assert model.score(STAMPED, target) > 0.95
    elif not isinstance(model, KernelRegressor):
        assert "column 3" in model.said


@pytest.mark.parametrize("probability", ["loo", "cv"])
@pytest.mark.parametrize("offset", [5.0, 1e9])
def test_probabilities_of_a_linear_machine_do_not_depend_on_an_offset(probability: str, offset: float) -> None:
    """Samples are centred where that loses fewer digits, and decisions about held-out samples are those of the same machine."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(150) > 0.0
    model = SVC(kernel="linear", probability=probability)
    known, moved = (fit(model, X + by, y).predict_proba(X + by) for by in (0.0, offset))
    np.testing.assert_allclose(moved, known, atol=1e-4)


def test_the_status_of_a_search_is_that_of_its_fits() -> None:
    """A search whose folds fall short says so, and how many do."""
    X, y = load_breast_cancer(return_X_y=True)
    search = SVCCV(kernel="linear", Cs=[1.0, 1e5], gammas=1, cv=3, refit=False, max_seconds=60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    gaps = np.array([values for name, values in search.cv_results_.items() if name.endswith("_relative_gap")])
    said = " ".join(str(warning.message) for warning in caught)
    if (gaps > search.gap_tol).any():
        assert not search.status_.converged
    assert search.status_.converged != ("did not converge" in said)


@pytest.mark.parametrize("name", [name for name in LINEAR if name != "Crammer and Singer"])
def test_large_features(name: str) -> None:
    """Features of size 1e7 make the optimum tiny, and a gap that is small beside C is not small beside it."""
    model, target = LINEAR[name]
    assert_status_is_proved(fit(model, 1e7 * STAMPED[:, :3], target))


def test_gap_alone() -> None:
    """GAP_REACHED is a claim about the certificate, too."""
    model = fit(SVC(kernel="linear", tol=np.inf, gap_tol=GAP), STAMPED, SIGNS)
    assert model.status_ is Status.GAP_REACHED
    assert model.certificate_.relative_gap <= GAP
    assert model.score(STAMPED, SIGNS) > 0.95
    assert_status_is_proved(fit(SVC(kernel="linear", tol=np.inf, gap_tol=GAP), 1e7 * STAMPED[:, :3], SIGNS))


@pytest.mark.parametrize("C", [1.0, 1e6])
def test_breast_cancer_as_it_comes(C: float) -> None:
    """Thirty unscaled features and a large C: the certificate is that of the model, and the status follows from it."""
    X, y = load_breast_cancer(return_X_y=True)
    model = fit(SVC(kernel="linear", C=C), X, y)
    assert_status_is_proved(model)
    w, beta = model.coef_[0].astype(np.longdouble), model.dual_coef_[0]
    slack = np.maximum(0, 1 - (2 * y - 1) * (X.astype(np.longdouble) @ w + model.intercept_[0])).sum()
    gap = float(w @ w + C * slack - np.abs(beta).sum())
    assert gap <= model.certificate_.gap + 1e-9 * model.certificate_.primal


@pytest.mark.parametrize("seed", range(16))
def test_columns_of_random_scales(seed: int) -> None:
    """Scales over twelve decades, in every kind of linear machine by turns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 4)) * 10.0 ** rng.uniform(-6, 6, 4) + 10.0 ** rng.uniform(-6, 6, 4)
    names = [name for name in LINEAR if name != "Crammer and Singer"]
    model, target = LINEAR[names[seed % len(names)]]
    y = rng.permutation(target)[:60]
    assert_status_is_proved(fit(model, X, y))


# --- samples far away, and samples close together ---------------------------------------------------------------------


def with_an_outlier(n: int, d: int, value: float, dtype: str = "float64") -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(n, d))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    X[-1] = value
    return X.astype(dtype), y


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("kernel", ["rbf", "exponential"])
@pytest.mark.parametrize(
    ("n", "d", "value", "dtype"),
    [
        (100, 2, 1e18, "float64"),
        (100, 20, 1e18, "float64"),
        (100, 80, 1e9, "float64"),
        (1500, 2, 1e9, "float64"),
        (1500, 20, 1e9, "float64"),
        (1500, 20, 1e6, "float32"),
        (1500, 2, 1e9, "float32"),
    ],
)
def test_one_sample_far_away(n: int, d: int, value: float, dtype: str, kernel: str, backend: str) -> None:
    """It costs the others no digits: certificate, decisions and accuracy are what exact distances make them."""
    if backend == "reference":
        n = min(n, 300)
    X, y = with_an_outlier(n, d, value, dtype)
    model = fit(SVC(gamma=1.0 / math.sqrt(d), kernel=kernel, backend=backend), X, y)
    (truth,) = oracle.judge(model, oracle.kernel_of(model, X), y)
    assert model.status_ is Status.CONVERGED
    assert truth.gap <= model.certificate_.gap + 1e-9 * truth.primal
    assert truth.gap <= 2 * GAP * truth.primal
    assert model.score(X[:-1], y[:-1]) > 0.9
    np.testing.assert_allclose(model.decision_function(X), exact_decisions(model, X), atol=1e-3 if dtype == "float32" else 1e-7)


@pytest.mark.parametrize("estimator", [SVR(gamma=1.0), NuSVR(gamma=1.0), OneClassSVM(gamma=1.0), KernelRegressor(gamma=1.0)])
def test_one_sample_far_away_in_other_machines(estimator: Any) -> None:
    """The decisions of the machine that was certified."""
    X, y = with_an_outlier(200, 20, 1e18)
    model = fit(estimator, X, y.astype(float))
    if isinstance(model, KernelRegressor):
        K = oracle.kernel_of(model, X)
        assert np.abs((K + np.eye(len(X))) @ model.dual_coef_ - y).max() <= 1e-9
        return
    np.testing.assert_allclose(decisions(model, X), exact_decisions(model, X), atol=1e-8)
    assert_status_is_proved(model)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["rbf", "exponential", "laplacian"])
@pytest.mark.parametrize("d", [3, 20, 80])
def test_pairs_that_are_close_together(d: int, kernel: str, storage: str, backend: str) -> None:
    """Samples 1e-7 apart are two samples where the kernel tells them apart."""
    first = np.random.default_rng(d).normal(size=(30, d))
    X, y = np.vstack([first, first + 1e-7 / math.sqrt(d)]), np.repeat([0, 1], 30)
    given = sp.csr_array(X) if storage == "sparse" else X
    model = fit(SVC(kernel=kernel, gamma=1e14 if kernel == "rbf" else 1e7, backend=backend), given, y)
    (truth,) = oracle.judge(model, oracle.kernel_of(model, X), y)
    assert truth.gap <= model.certificate_.gap + 1e-7 * truth.primal  # what 1e-7 is known to
    assert truth.gap <= 2 * GAP * truth.primal
    assert model.score(given, y) == 1.0


# --- sparse input -----------------------------------------------------------------------------------------------------

SPARSE = [
    SVC(),
    SVC(kernel="linear"),
    SVC(kernel="laplacian"),
    SVC(backend="reference"),
    SVR(),
    NuSVC(nu=0.3),
    OneClassSVM(),
    KernelRegressor(),
]


def in_halves(X: Any) -> Any:
    """CSR with each entry as two, the halves of it, in descending order."""
    csr = sp.csr_array(X)
    columns = [np.repeat(csr.indices[s:e][::-1], 2) for s, e in zip(csr.indptr[:-1], csr.indptr[1:], strict=True)]
    values = [np.repeat(csr.data[s:e][::-1] / 2, 2) for s, e in zip(csr.indptr[:-1], csr.indptr[1:], strict=True)]
    return sp.csr_array((np.concatenate(values), np.concatenate(columns), 2 * csr.indptr), shape=csr.shape)


@pytest.mark.parametrize("estimator", SPARSE, ids=str)
def test_entries_that_come_twice_are_summed(estimator: Any) -> None:
    """At fit and at predict, on a copy: what came in is left as it was."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) * (rng.random((80, 6)) < 0.7)
    y = (X[:, 0] + X[:, 1] > 0).astype(float)
    twice = in_halves(X)
    kept = twice.data.copy(), twice.indices.copy(), twice.indptr.copy()
    expected = decisions(fit(estimator, sp.csr_array(X), y), sp.csr_array(X))
    np.testing.assert_allclose(decisions(estimator, twice), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(decisions(fit(estimator, twice, y), twice), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(decisions(estimator, X), expected, rtol=0, atol=1e-9)
    for before, after in zip(kept, (twice.data, twice.indices, twice.indptr), strict=True):
        np.testing.assert_array_equal(before, after)


INVALID_CSR = """
import json, warnings
import numpy as np, scipy.sparse as sp
from maxmargin import SVC, SVR, NuSVC, OneClassSVM, KernelRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = sp.csr_array(rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.6))
y = (np.arange(40) % 2).astype(float)

def damaged(part, value):
    twin = X.copy()
    getattr(twin, part)[3] = value
    return twin

def outcome(call, *data):
    try:
        call(*data)
        return "accepted"
    except Exception as error:
        return type(error).__name__ if str(error) else "no message"

told = {}
for kind, part, value in (("large", "indices", 5), ("larger", "indices", 10**9), ("negative", "indices", -1),
                          ("pointer", "indptr", 10**6), ("falling", "indptr", -4)):
    for model in (SVC(), SVC(kernel="linear"), SVC(kernel="laplacian"), SVC(backend="reference"), SVR(), NuSVC(), OneClassSVM(),
                  KernelRegressor()):
        told[f"fit {model} {kind}"] = outcome(model.fit, damaged(part, value), y)
        model.fit(X, y)
        told[f"predict {model} {kind}"] = outcome(model.predict, damaged(part, value))
print(json.dumps(told))
"""


def test_indices_that_are_out_of_bounds() -> None:
    """ValueError at fit and at predict, for every machine, and no crash."""
    told = child(INVALID_CSR)
    assert {case: outcome for case, outcome in told.items() if outcome != "ValueError"} == {}


# --- forks ------------------------------------------------------------------------------------------------------------


def test_fit_after_a_fork() -> None:
    """A forked process fits and predicts what its parent does, though it has none of the threads that the parent started."""
    answer = child(
        BEGUN
        + """
read, write = os.pipe()
if os.fork() == 0:
    again = SVC().fit(X, y)
    others = [SVR().fit(X[:2000], X[:2000, 0]), KernelRegressor().fit(X[:1500], X[:1500, 0]), SVC(kernel="linear").fit(X, y)]
    same = np.abs(again.decision_function(X) - parent.decision_function(X)).max()
    answer = [again.status_.name, float(same), [model.status_.name for model in others]]
    os.write(write, json.dumps(answer).encode())
    os._exit(0)
os.wait()
parent.predict(X)
print(os.read(read, 4096).decode())
"""
    )
    assert answer[0] == "CONVERGED"
    assert answer[1] <= 1e-2
    assert answer[2][:2] == ["CONVERGED", "CONVERGED"]


def test_fit_in_the_workers_of_multiprocessing_and_joblib() -> None:
    """The same in pools of forked processes, two fits in each."""
    answer = child(
        BEGUN
        + """
import multiprocessing
from joblib import Parallel, delayed

def work(C):
    return SVC(C=C).fit(X[:1500], y[:1500]).status_.name

with multiprocessing.get_context("fork").Pool(2) as pool:
    answer = pool.map(work, [0.5, 1.0, 2.0, 4.0])
answer += Parallel(n_jobs=2, backend="multiprocessing")(delayed(work)(C) for C in (0.5, 1.0, 2.0, 4.0))
print(json.dumps(answer))
"""
    )
    assert answer == ["CONVERGED"] * 8


# --- kernels without a value ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coef0", [0.0, -1.0])
@pytest.mark.parametrize("estimator", [SVC, SVR, NuSVC, NuSVR, OneClassSVM, KernelRegressor])
def test_a_fraction_for_a_degree(estimator: Any, coef0: float) -> None:
    """Where a base is negative, fit and predict refuse, and name the kernel and the samples; where none is, they work."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = (np.arange(40) % 2).astype(float)
    for degree in (2.5, 0.5):
        with pytest.raises(ValueError, match=r"kernel='poly' with degree=.* samples \d+ and \d+"):
            estimator(kernel="poly", degree=degree, coef0=coef0).fit(X, y)
    model = fit(estimator(kernel="poly", degree=2.5, coef0=1.0, gamma=1.0), np.abs(X), y)
    assert np.isfinite(model.certificate_.gap)
    with pytest.raises(ValueError, match=r"kernel='poly' with degree=2.5 .* samples \d+ and \d+"):
        model.predict(-10.0 * np.abs(X))


# --- little time ------------------------------------------------------------------------------------------------------


LITTLE_TIME = (0.05, 0.05, 0.1, 0.2, 0.3)  # more than one try, for the case that others use the processor


@pytest.fixture(scope="module")
def hard() -> tuple[Any, Any]:
    """Labels at random: no machine with a large C is done with them soon."""
    return make_classification(3000, 10, n_informative=5, flip_y=0.4, class_sep=0.3, random_state=0)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"loss": "squared_hinge"},
        {"kernel": "linear", "solver": "block-smo"},  # the solver of linear machines is done with it
        {"fit_intercept": False},
        {"gap_tol": None},
    ],
)
def test_little_time_is_used(hard: tuple[Any, Any], parameters: dict[str, Any]) -> None:
    """The machine that is kept has learnt something: its dual value is above that of the one that says nothing."""
    for seconds in LITTLE_TIME:
        model = fit(SVC(C=1e3, max_seconds=seconds, **parameters), *hard)
        if len(model.support_):
            break
    assert model.status_ is Status.MAX_SECONDS
    assert len(model.support_) > 0
    assert model.certificate_.dual > 0.0


@pytest.mark.parametrize(
    "estimator", [SVR(C=1e3), NuSVC(nu=0.1, tol=1e-9), NuSVR(C=1e3), OneClassSVM(gamma=5.0, tol=1e-9)], ids=str
)
def test_little_time_of_other_machines(hard: tuple[Any, Any], estimator: Any) -> None:
    """Each stops where it is, at a point that satisfies its constraints; each would need thirty times that long."""
    X, y = np.tile(hard[0], (8, 1)), np.tile(hard[1], 8)
    target = y * X[:, 0] if isinstance(estimator, SVR | NuSVR) else y
    model = fit(estimator.set_params(max_seconds=LITTLE_TIME[0]), X, target)
    assert not model.status_.converged
    assert_status_is_proved(model)
    assert np.isfinite(model.certificate_.gap)
    assert model.certificate_.box_residual == 0.0
    assert model.certificate_.equality_residual <= RESIDUAL * max(np.abs(model.dual_coef_).sum(), len(y))


@pytest.mark.parametrize("multi_class", ["ovo", "ovr", "crammer_singer"])
def test_every_machine_gets_some_of_the_time(multi_class: str) -> None:
    """No machine of several is left where it began."""
    X, y = make_classification(4000, 20, n_informative=15, n_classes=5, class_sep=0.5, flip_y=0.3, random_state=0)
    for seconds in (0.6, 0.6, 0.9):  # more than one try, for the case that others use the processor
        model = fit(SVC(C=1e5, gamma=0.01, multi_class=multi_class, max_seconds=seconds), X, y)
        if all(part.dual > 0.0 for part in model.certificate_.parts or (model.certificate_,)):
            break
    else:
        raise AssertionError("a machine has learnt nothing")
    assert_status_is_proved(model)
    assert model.score(X, y) > 0.5


# --- numbers out of proportion ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_a_regression_that_rounding_leads_astray(seed: int) -> None:
    """Heavy tails, weights over twelve decades: what is kept is finite, and no worse than a constant."""
    rng = np.random.default_rng(seed)
    X, y, weights = 1e6 * rng.standard_cauchy((25, 3)), rng.standard_cauchy(25), 10.0 ** rng.uniform(-6, 6, 25)
    model = fit(SVR(kernel="linear", loss="squared_epsilon_insensitive"), X, y, sample_weight=weights)
    constant = float(weights @ y / weights.sum())
    losses = weights @ np.maximum(np.abs(y - constant) - model.epsilon, 0.0) ** 2
    assert np.isfinite(model.predict(X)).all()
    assert model.certificate_.primal <= losses * (1.0 + 1e-9)
    assert_status_is_proved(model)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1e3, 1e5])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_lbfgs_on_classes_that_are_far_apart(seed: int, C: float, loss: str) -> None:
    """Solved, and no status that the gap contradicts."""
    X, y = make_blobs(100, 2, centers=2, random_state=seed, cluster_std=0.5)
    model = fit(SVC(kernel="linear", C=C, loss=loss, solver="lbfgs"), X, y)
    assert_status_is_proved(model)
    assert model.status_ is Status.CONVERGED
    assert model.score(X, y) == 1.0


# --- the ends of nu, and hulls that meet ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("estimator", [OneClassSVM, NuSVC, NuSVR])
def test_nu_of_one(estimator: Any, backend: str) -> None:
    """Every dual is at its bound, and there is nothing to do but to prove it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    model = fit(estimator(nu=1.0, backend=backend), X, y + X[:, 0] if estimator is NuSVR else y)
    assert_status_is_proved(model)
    assert model.status_.converged
    if estimator is not NuSVR:
        assert len(model.support_) == 60


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_hulls_that_meet_at_a_tiny_scale(backend: str) -> None:
    """Duals whose squares overflow are no reason to fail; nor are they a proof, as long as K beta is lost beside 1."""
    rng = np.random.default_rng(0)
    X, y = 1e-100 * rng.normal(size=(40, 3)), (rng.random(40) < 0.5).astype(int)
    model = fit(SVC(kernel="linear", C=np.inf, backend=backend, max_iter=2000), X, y)
    assert model.status_ in (Status.NOT_SEPARABLE, Status.STALLED, Status.MAX_ITER)
    assert np.isfinite(model.dual_coef_).all()


# --- flat optima ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 44, 104, 172, 368, 392])
def test_the_intercept_is_in_the_middle_where_many_are_optimal(seed: int) -> None:
    """With balanced classes and a small C all samples have slack, and the losses are flat in b until one has none."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((int(rng.integers(6, 80)), 2))
    y = (rng.random(len(X)) < rng.uniform(0.2, 0.8)).astype(int)
    C = float(10 ** rng.uniform(-4, 1))
    model = fit(SVC(kernel="linear", C=min(C, 0.01), class_weight="balanced"), X, y)
    scores = X @ model.coef_[0]
    lowest, highest = float((-1.0 - scores[y == 0]).max()), float((1.0 - scores[y == 1]).min())
    assert lowest < highest - 1.0
    assert model.intercept_[0] == pytest.approx(0.5 * (lowest + highest), abs=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("ones", [1, 7, 20])
def test_samples_that_are_all_the_same(ones: int, C: float, kernel: str) -> None:
    """With balanced classes every b in [-1, 1] is optimal, and 0 is kept."""
    model = fit(SVC(kernel=kernel, C=C, class_weight="balanced", gamma=1.0), np.ones((33, 2)), (np.arange(33) < ones).astype(int))
    np.testing.assert_allclose(model.decision_function(np.ones((1, 2))), 0.0, atol=1e-9)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_targets_that_all_fit_into_the_tube(loss: str) -> None:
    """Every b within epsilon of all targets is optimal, the middle is kept, and the gap next to an optimum of zero is zero."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.uniform(0.0, 0.1, 50)
    model = fit(SVR(epsilon=1.0, loss=loss), X, y)
    assert model.intercept_[0] == pytest.approx(0.5 * (y.min() + y.max()), abs=1e-12)
    assert model.certificate_.relative_gap == 0.0
    assert model.status_ is Status.CONVERGED


# --- clear words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
@pytest.mark.parametrize("callbacks", [print, [print, 3], "print"])
def test_callbacks_that_are_no_list_of_callables(estimator: Any, callbacks: Any) -> None:
    """The error names the parameter and the way out."""
    with pytest.raises(TypeError, match=f"The 'callbacks' parameter of {estimator.__name__} must be a list of callables"):
        estimator(callbacks=callbacks).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="POSIX signals")
def test_ctrl_c_while_the_command_line_starts() -> None:
    """It ends at once, without a traceback, whatever is being imported."""
    program = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from maxmargin.cli import main

class Announce:
    def find_spec(self, name, path=None, target=None):
        if name == "maxmargin.cli.commands":
            print("importing", flush=True)

sys.meta_path.insert(0, Announce())
sys.argv = ["maxmargin", "train", "--no-plot"]
main()
"""
    for moment in (0.0, 0.05, 0.2):
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "importing\n"
            time.sleep(moment)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=LIVENESS)[1]
        assert "Traceback" not in errors
        assert process.returncode in (-signal.SIGINT, 130)


def test_a_gap_of_rounding_counts_as_zero_in_every_part_of_a_model() -> None:
    """A machine whose gap is rounding alone, beside others with a gap: their certificate together keeps to gap_tol, too."""
    X = np.array([[1.1], [0.0], [0.0], [-1.3], [0.0]])
    model = SVCCV(kernel="poly", coef0=1.0, gap_tol=4e-8, cv=3, gammas=[15.5, 0.2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class has one sample
        model.fit(X, [1, 2, 2, 0, 2])
    assert model.status_.converged
    gaps = [values for name, values in model.cv_results_.items() if name.endswith("_relative_gap")]
    assert len(gaps) == 3
    assert np.nanmax(gaps) <= 4e-8


def test_a_large_gap_is_not_taken_for_an_optimum_of_zero() -> None:
    """The two variables of a sample, of 1e9 each, cancel: what they leave is small, and its rounding error much smaller."""
    model = fit(NuSVR(C=3e9), np.array([[-1e4], [-1e3], [-2e5]]), np.zeros(3))
    proof = model.certificate_
    assert proof.gap <= 1e-9 or (proof.relative_gap > 0.5 and not model.status_.converged)
    assert_status_is_proved(model)
