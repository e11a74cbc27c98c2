"""Bad input gets an error that names the argument, its value, the rule and the way out; or a warning and a model."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, Status
from tests.wording import of_parameter

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
#: Never a hang: a fit that is not ended by its own wits is ended by the clock, and the test fails on its status.
CLOCK = {"max_seconds": 20.0}


def with_value(value: float) -> np.ndarray[Any, Any]:
    bad = X.copy()
    bad[7, 1] = bad[9, 2] = value
    return bad


# --- parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, "C=0: must be positive (use C=numpy.inf for a hard margin)"),
        ({"C": -1.0}, "C=-1.0: must be positive (use C=numpy.inf for a hard margin)"),
        ({"C": np.nan}, "C=nan: must be positive (use C=numpy.inf for a hard margin)"),
        ({"gamma": 0.0}, "gamma=0.0: must be positive (or 'scale', or 'auto')"),
        ({"gamma": -2}, "gamma=-2: must be positive (or 'scale', or 'auto')"),
        ({"gamma": "wide"}, "gamma='wide': must be 'scale', 'auto' or a positive number"),
        ({"sigma": 0.0}, "sigma=0.0: must be positive"),
        ({"sigma": 1.0, "gamma": 2.0}, "sigma=1.0 and gamma=2.0: they say the same; give one of them"),
        ({"tol": 0.0}, "tol=0.0: must be positive"),
        ({"coef0": np.inf}, "coef0=inf: must be a finite number"),
        ({"degree": -1}, "degree=-1: must be a finite number >= 0"),
        ({"gap_tol": -1e-3}, "gap_tol=-0.001: must be positive"),
        ({"max_seconds": 0}, "max_seconds=0: must be positive"),
        ({"max_iter": -2}, "max_iter=-2: must be a whole number >= 0, or -1 for no limit"),
        ({"max_iter": 1.5}, "max_iter=1.5: must be a whole number >= 0, or -1 for no limit"),
        ({"cache_size": 0}, "cache_size=0: must be positive (in MB; use 'auto' for half of the free memory)"),
        ({"cache_size": "big"}, "cache_size='big': must be a number of MB, or 'auto' for half of the free memory"),
        ({"loss": "log"}, "loss='log': must be one of hinge, squared_hinge"),
        ({"multi_class": "all"}, "multi_class='all': must be one of ovo, ovr"),
        ({"decision_function_shape": "x"}, "decision_function_shape='x': must be one of ovo, ovr"),
        (
            {"kernel": "gauss"},
            "kernel='gauss': must be one of linear, poly, rbf, laplacian, exponential, sigmoid, matern32, "
            "precomputed, a Kernel, or a callable k(A, B)",
        ),
        ({"solver": "magic"}, "solver='magic': must be 'auto' or one of block-smo"),
        ({"backend": "abacus"}, "backend='abacus': must be one of auto, native, reference"),
        ({"class_weight": "even"}, "class_weight='even': must be None, 'balanced' or a dict from labels to weights"),
        ({"class_weight": {0: -1.0}}, "class_weight={0: -1.0}: must have weights that are finite and not negative"),
        ({"probability": "yes"}, "probability='yes': must be one of loo, cv, or False for none"),
        ({"probability": 1}, "probability=1: must be one of loo, cv, or False for none"),
        ({"calibration": "spline"}, "calibration='spline': must be one of sigmoid, isotonic"),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_the_rule(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=of_parameter(message, "SVC")):
        SVC(**parameters).fit(X, y)


@pytest.mark.parametrize("name", ["C", "tol", "coef0", "degree", "gamma", "cache_size"])
def test_what_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=of_parameter(f"{name}=None: must be a number", "SVC")) as caught:
        SVC(**{name: None}).fit(X, y)
    assert isinstance(caught.value, TypeError)  # as scikit-learn's error is


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, lambda a: a.astype(np.float32)])
def test_values_that_are_not_finite_are_placed(value: float, what: str, container: Any) -> None:
    message = rf"Input X contains {what}: 2 such values, the first at row 7, column 1\. SVC needs finite numbers: imp"
    with pytest.raises(ValueError, match=message):
        SVC().fit(container(with_value(value)), y)
    with pytest.raises(ValueError, match=message):
        SVC().fit(container(X), y).predict(container(with_value(value)))


def test_values_that_are_not_finite_are_placed_by_name() -> None:
    frame = pd.DataFrame(with_value(np.nan), columns=["height", "width", "depth"])
    with pytest.raises(ValueError, match=r"the first at row 7, column 1 \('width'\)"):
        SVC().fit(frame, y)


def test_weights_that_are_not_finite() -> None:
    with pytest.raises(ValueError, match=r"Input sample_weight contains NaN"):
        SVC().fit(X, y, sample_weight=np.full(60, np.nan))


def test_one_class() -> None:
    message = r"has to be greater than one; got 1 class \('a'\): a classifier needs samples of two classes at least"
    with pytest.raises(ValueError, match=message):
        SVC().fit(X, ["a"] * 60)
    with pytest.raises(ValueError, match=message):
        SVC().fit(X[:1], ["a"])


@pytest.mark.parametrize("weighted", [{"sample_weight": y}, {"class_weight": {0: 0.0}}])
def test_one_class_that_has_weight(weighted: dict[str, Any]) -> None:
    weights = weighted.pop("sample_weight", None)
    with pytest.raises(ValueError, match="all samples with positive weights belong to the same class"):
        SVC(**weighted).fit(X, y, sample_weight=weights)


def test_empty_arrays() -> None:
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"):
        SVC().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match=r"Found array with 0 feature\(s\) \(shape=\(60, 0\)\)"):
        SVC().fit(X[:, :0], y)
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"):
        SVC().fit(X, y).predict(X[:0])


def test_a_precomputed_matrix_that_is_not_square() -> None:
    message = (
        "X has shape (60, 3): with kernel='precomputed' it must be a square matrix, k(x_i, x_j) for all pairs of the "
        "60 training samples"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        SVC(kernel="precomputed").fit(X, y)
    with pytest.raises(TypeError, match=r"Sparse precomputed kernels are not supported: pass X\.toarray\(\)"):
        SVC(kernel="precomputed").fit(sp.csr_array(X @ X.T), y)


def test_a_wrong_number_of_features_at_predict() -> None:
    with pytest.raises(ValueError, match="X has 2 features, but SVC is expecting 3 features as input"):
        SVC().fit(X, y).predict(X[:, :2])
    with pytest.raises(ValueError, match="X has 59 features, but SVC is expecting 60 features as input"):
        SVC(kernel="precomputed").fit(X @ X.T, y).predict((X @ X.T)[:, :59])


def test_a_frame_with_other_columns_at_predict() -> None:
    model = SVC().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=["a", "b", "d"]))


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError, match="This SVC instance is not fitted yet"):
        SVC().predict(X)


def test_a_callable_that_returns_no_kernel_matrix() -> None:
    with pytest.raises(ValueError, match=r"returned shape \(60, 3\) for blocks of 60 and 60 samples: it must return"):
        SVC(kernel=lambda A, B: A).fit(X, y)
    with pytest.raises(ValueError, match="the kernel function returned NaN or infinity"):
        SVC(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)


# --- problems without a solution, or with a poor one ----------------------------------------------------------------


def indefinite_matrix() -> np.ndarray[Any, Any]:
    K = np.random.default_rng(1).normal(size=(60, 60))
    return K + K.T


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_an_indefinite_matrix_ends_at_a_stationary_point(C: float, fit_intercept: bool) -> None:
    model = SVC(kernel="precomputed", C=C, fit_intercept=fit_intercept, **CLOCK)
    with pytest.warns(ConvergenceWarning, match="stationary point.*not positive semi-definite.*Use a positive semi-"):
        model.fit(indefinite_matrix(), y)
    assert model.status_ is Status.STATIONARY
    assert model.certificate_.kkt_violation <= model.tol
    assert np.isfinite(model.decision_function(indefinite_matrix())).all()


@pytest.mark.parametrize("parameters", [{"gamma": 10.0, "coef0": -5.0}, {"gamma": 1.0, "coef0": 1.0, "C": 1e4}])
def test_a_sigmoid_that_is_no_kernel_ends_at_a_stationary_point(parameters: dict[str, Any]) -> None:
    model = SVC(kernel="sigmoid", **parameters, **CLOCK)
    with pytest.warns(ConvergenceWarning, match="stationary point"):
        model.fit(X, y)
    assert model.status_ is Status.STATIONARY
    assert set(model.predict(X)) <= {0, 1}


def test_a_sigmoid_that_is_a_kernel_gets_no_warning() -> None:
    assert SVC(kernel="sigmoid", gamma=1e-3, coef0=0.0).fit(X, y).status_ is Status.CONVERGED


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
@pytest.mark.parametrize("value", [1.0, 0.1, 1e8])
def test_constant_features(kernel: str, value: float) -> None:
    model = SVC(kernel=kernel, **CLOCK).fit(np.full((21, 2), value), [0] * 7 + [1] * 14)
    assert model.status_ is Status.CONVERGED
    assert (model.predict([[value, value]]) == 1).all()


DOUBLED, CONTRADICTED = np.concatenate([X, X]), np.concatenate([y, 1 - y])


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("C", [1.0, 1e6])
def test_duplicate_rows_with_opposite_labels(kernel: str, loss: str, fit_intercept: bool, C: float) -> None:
    model = SVC(C=C, kernel=kernel, loss=loss, fit_intercept=fit_intercept, **CLOCK).fit(DOUBLED, CONTRADICTED)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.holds(1e-6)
    assert model.decision_function(X) == pytest.approx(0.0, abs=1e-6)  # no machine can prefer one of the labels


@pytest.mark.parametrize(
    ("kernel", "data"),
    [
        ("rbf", (DOUBLED, CONTRADICTED)),
        ("linear", (DOUBLED, CONTRADICTED)),
        ("rbf", (np.concatenate([X, X[:1]]), np.append(y, 1 - y[0]))),
        ("linear", (X, y)),
        ("rbf", (np.ones((20, 2)), np.arange(20) % 2)),
    ],
    ids=["all contradicted", "all contradicted, linear", "one contradicted", "overlapping, linear", "constant"],
)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_hard_margin_where_there_is_none(kernel: str, data: Any, fit_intercept: bool) -> None:
    model = SVC(C=np.inf, kernel=kernel, fit_intercept=fit_intercept, **CLOCK)
    with pytest.warns(ConvergenceWarning, match="Not separable: the hard-margin problem has no solution.*finite C"):
        model.fit(*data)
    assert model.status_ is Status.NOT_SEPARABLE
    assert not model.certificate_.holds(0.99)
    assert np.isfinite(model.decision_function(X[:, : model.n_features_in_])).all()


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "exponential"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, lambda a: a.astype(np.float32)])
def test_features_of_the_scale_of_1e30(kernel: str, container: Any) -> None:
    """gamma='scale' takes the scale out again, except where it has another dimension: there the kernel is 0 or 1."""
    large, small = (SVC(kernel=kernel, **CLOCK).fit(container(s * X), y) for s in (1e30, 1.0))
    assert large.status_ is Status.CONVERGED
    assert large.certificate_.holds(1e-3)
    if kernel in ("rbf", "poly"):
        np.testing.assert_allclose(large.decision_function(container(1e30 * X)), small.decision_function(container(X)), atol=1e-5)


def test_many_features_of_the_scale_of_1e30() -> None:
    """More samples than are solved in float64 anyway: squares beyond float32 are not computed in it."""
    rng = np.random.default_rng(2)
    wide = rng.normal(size=(1500, 5))
    labels = wide[:, 0] > 0
    large, small = (SVC(**CLOCK).fit(s * wide, labels) for s in (1e30, 1.0))
    assert large.certificate_.holds(1e-3)
    np.testing.assert_allclose(large.decision_function(1e30 * wide), small.decision_function(wide), atol=1e-2)


@pytest.mark.parametrize(("kernel", "scale"), [("linear", 1e30), ("linear", 1e200), ("rbf", 1e200), ("poly", 1e200)])
def test_features_too_large_for_the_kernel(kernel: str, scale: float) -> None:
    message = rf"X has values as large as \d.*, too large for the {kernel} kernel\..*standardise the features"
    with pytest.raises(ValueError, match=message):
        SVC(kernel=kernel, **CLOCK).fit(scale * X, y)


def test_an_error_leaves_the_model_as_it_was() -> None:
    model = SVC().fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(with_value(np.nan), y)
    np.testing.assert_array_equal(model.decision_function(X), before)


# --- the rest of the family -----------------------------------------------------------------------------------------

TARGETS = X[:, 0] + 0.1 * np.random.default_rng(3).normal(size=60)
FAMILY = [(SVR, TARGETS), (NuSVR, TARGETS), (NuSVC, y), (OneClassSVM, None)]
of_the_family = pytest.mark.parametrize(("machine", "labels"), FAMILY)
of_regression = pytest.mark.parametrize("machine", [SVR, NuSVR])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVR(C=0), "C=0: must be positive and finite (a large C is a tube that hardly any sample leaves)"),
        (SVR(C=np.inf), "C=inf: must be positive and finite (a large C is a tube that hardly any sample leaves)"),
        (NuSVR(C=-1.0), "C=-1.0: must be positive and finite (a large C is a tube that hardly any sample leaves)"),
        (SVR(epsilon=-0.1), "epsilon=-0.1: must be a finite number >= 0"),
        (SVR(epsilon=np.inf), "epsilon=inf: must be a finite number >= 0"),
        (SVR(loss="hinge"), "loss='hinge': must be one of epsilon_insensitive, squared_epsilon_insensitive"),
        *((machine(nu=nu), f"nu={nu!r}: must be in (0, 1]") for machine in (NuSVR, NuSVC, OneClassSVM) for nu in (0, -0.5, 1.5)),
        *((machine(nu=np.nan), "nu=nan: must be a finite number") for machine in (NuSVR, NuSVC, OneClassSVM)),
    ],
    ids=str,
)
def test_a_bad_parameter_of_the_family(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=of_parameter(message, type(model).__name__)):
        model.fit(X, y)


@of_the_family
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tol": 0.0}, "tol=0.0: must be positive"),
        ({"gamma": -2}, "gamma=-2: must be positive (or 'scale', or 'auto')"),
        ({"sigma": 1.0, "gamma": 2.0}, "sigma=1.0 and gamma=2.0: they say the same; give one of them"),
        ({"max_iter": -2}, "max_iter=-2: must be a whole number >= 0, or -1 for no limit"),
        ({"kernel": "gauss"}, "kernel='gauss': must be one of linear, poly, rbf"),
        ({"backend": "abacus"}, "backend='abacus': must be one of auto"),
        ({"cache_size": 0}, "cache_size=0: must be positive (in MB; use 'auto' for half of the free memory)"),
    ],
)
def test_a_bad_parameter_that_all_have(machine: Any, labels: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=of_parameter(message, machine.__name__)):
        machine(**parameters).fit(X, labels)


@pytest.mark.parametrize("machine", [NuSVR, NuSVC, OneClassSVM])
@pytest.mark.parametrize("nu", ["half", True, None])
def test_a_nu_that_is_no_number(machine: Any, nu: Any) -> None:
    with pytest.raises(ValueError, match=of_parameter(f"nu={nu!r}: must be a number", machine.__name__)):
        machine(nu=nu).fit(X, y)


@of_regression
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_targets_that_are_not_finite_are_placed(machine: Any, value: float, what: str) -> None:
    bad = TARGETS.copy()
    bad[[7, 9]] = value
    message = f"Input y contains {what}: 2 such values, the first at row 7. Targets must be finite numbers: drop these rows"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        machine().fit(X, bad)
    with pytest.raises(ValueError, match=rf"^Input y contains {what}"):
        machine().fit(X, bad.tolist())


@of_regression
@pytest.mark.parametrize("scale", [1e16, 1e300])
def test_targets_that_are_enormous(machine: Any, scale: float) -> None:
    message = r"^y has values as large as \d.*: no arithmetic resolves errors of tol=0\.001 at that scale; scale the targets"
    with pytest.raises(ValueError, match=message):
        machine().fit(X, scale * TARGETS)


@of_regression
@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e14])
def test_targets_that_are_nearly_so(machine: Any, scale: float) -> None:
    """tol is in units of y: tiny targets are all alike to it, and large ones are fitted as well as C allows."""
    model = machine(**CLOCK)
    if scale == 1e-12 and isinstance(model, NuSVR):
        with pytest.warns(ConvergenceWarning):  # the differences of its duals, whose sums are given, do not resolve that
            model.fit(X, scale * TARGETS)
    else:
        assert model.fit(X, scale * TARGETS).status_ is Status.CONVERGED
    assert model.certificate_.kkt_violation <= max(model.tol, 1e-12 * scale)
    assert np.isfinite(model.predict(X)).all()
    assert np.abs(model.predict(X)).max() <= 2.0 * scale * np.abs(TARGETS).max() + 0.1


@of_regression
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.column_stack([TARGETS, TARGETS]), r"y should be a 1d array, got an array of shape \(60, 2\) instead"),
        (TARGETS[:-1], r"inconsistent numbers of samples: \[60, 59\]"),
        (None, "requires y to be passed, but the target y is None"),
        (np.array(["red", "blue"] * 30), "could not convert string to float"),
        (TARGETS + 1j, "Complex data not supported"),
    ],
    ids=["two columns", "too few", "none", "words", "complex"],
)
def test_targets_that_are_no_numbers(machine: Any, targets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine().fit(X, targets)


@of_regression
def test_targets_in_a_column(machine: Any) -> None:
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
        model = machine().fit(X, TARGETS[:, None])
    np.testing.assert_array_equal(model.predict(X), machine().fit(X, TARGETS).predict(X))


def test_targets_of_regression_are_no_classes() -> None:
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        NuSVC().fit(X, TARGETS)
    with pytest.raises(ValueError, match="got 1 class"):
        NuSVC().fit(X, np.ones(60))


@of_the_family
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "all samples have zero or negative weights"),
        (-np.ones(60), "all samples have zero or negative weights"),
        (np.ones(59), r"inconsistent numbers of samples: \[60, 59\]"),
        (np.ones((60, 1)), r"Sample weights must be 1D array or scalar, got shape \(60, 1\)"),
        (np.full(60, np.nan), "Input sample_weight contains NaN"),
        (np.full(60, np.inf), "Input sample_weight contains infinity"),
    ],
    ids=["zero", "negative", "too few", "two-dimensional", "NaN", "infinite"],
)
def test_bad_weights(machine: Any, labels: Any, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        machine().fit(X, labels, sample_weight=weights)


@of_the_family
def test_a_negative_weight_counts_as_zero(machine: Any, labels: Any) -> None:
    weights = np.where(np.arange(60) % 5 == 0, -3.0, 1.0)
    options = {} if machine is SVR else {"nu": 0.3}
    one, other = (machine(**options).fit(X, labels, sample_weight=w) for w in (weights, np.maximum(weights, 0.0)))
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)


@of_the_family
@pytest.mark.parametrize(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_features_that_are_not_finite(machine: Any, labels: Any, value: float, what: str) -> None:
    message = rf"Input X contains {what}: 2 such values, the first at row 7, column 1\. {machine.__name__} needs finite numbers"
    for container in (np.asarray, sp.csr_array):
        with pytest.raises(ValueError, match=message):
            machine().fit(container(with_value(value)), labels)
        with pytest.raises(ValueError, match=message):
            machine().fit(container(X), labels).predict(container(with_value(value)))


@of_the_family
def test_shapes_that_do_not_fit(machine: Any, labels: Any) -> None:
    name = machine.__name__
    with pytest.raises(ValueError, match=rf"Found array with 0 sample\(s\) .* required by {name}"):
        machine().fit(X[:0], None if labels is None else labels[:0])
    with pytest.raises(ValueError, match=rf"Found array with 0 feature\(s\) .* required by {name}"):
        machine().fit(X[:, :0], labels)
    with pytest.raises(ValueError, match=r"X has shape \(60, 3\): with kernel='precomputed' it must be a square matrix"):
        machine(kernel="precomputed").fit(X, labels)
    with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
        machine().predict(X)
    model = machine().fit(X, labels)
    with pytest.raises(ValueError, match=f"X has 2 features, but {name} is expecting 3 features as input"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match=rf"Found array with 0 sample\(s\) .* required by {name}"):
        model.predict(X[:0])


@of_the_family
def test_features_of_every_scale(machine: Any, labels: Any) -> None:
    options = CLOCK if machine is SVR else CLOCK | {"nu": 0.3}
    large, small = (machine(**options).fit(scale * X, labels) for scale in (1e30, 1.0))
    assert large.status_ is Status.CONVERGED
    np.testing.assert_allclose(large.predict(1e30 * X), small.predict(X), atol=1e-5)
    with pytest.raises(ValueError, match=r"X has values as large as \d.*, too large for the rbf kernel\..*standardise"):
        machine(**CLOCK).fit(1e200 * X, labels)


@of_the_family
def test_an_indefinite_matrix_ends_at_a_stationary_point_of_each(machine: Any, labels: Any) -> None:
    model = machine(kernel="precomputed", **CLOCK)
    with pytest.warns(ConvergenceWarning, match="stationary point.*not positive semi-definite"):
        model.fit(indefinite_matrix(), labels)
    assert model.status_ is Status.STATIONARY
    assert np.isfinite(model.predict(indefinite_matrix())).all()


def test_an_indefinite_matrix_and_a_squared_loss_have_no_solution() -> None:
    model = SVR(kernel="precomputed", loss="squared_epsilon_insensitive", C=1e3, **CLOCK)
    with pytest.warns(ConvergenceWarning, match="Unbounded: the kernel is not positive semi-definite"):
        model.fit(indefinite_matrix(), TARGETS)
    assert model.status_ is Status.UNBOUNDED
    assert np.isfinite(model.predict(indefinite_matrix())).all()


@of_the_family
def test_an_error_leaves_each_model_as_it_was(machine: Any, labels: Any) -> None:
    model = machine().fit(X, labels)
    before = model.predict(X)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(with_value(np.nan), labels)
    np.testing.assert_array_equal(model.predict(X), before)
