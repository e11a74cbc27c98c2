"""`to_onnx`, checked in onnxruntime against the model: decisions, labels, probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import onnxruntime
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from maxmargin import (
    SVC,
    SVR,
    KernelRegressor,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    estimators,
    io,
)

rng = np.random.default_rng(2)
X = rng.normal(2.0, size=(150, 4))
Q = np.vstack([rng.normal(2.0, size=(150, 4)), X[:50]]).astype(np.float32)  # some queries are support vectors
TWO = (X[:, 0] + 0.5 * rng.normal(size=150) > 2.0).astype(int)
FOUR = (X + 0.7 * rng.normal(size=(150, 4))).argmax(axis=1)  # hard: pairs disagree, and votes are tied
TARGET = X[:, 0] + 0.1 * rng.normal(size=150)
KERNELS = ("linear", "poly", "rbf", "laplacian", "exponential", "matern32", "sigmoid")
OPERATORS = {"SVMRegressor", "SVMClassifier"}


def cases() -> Iterator[tuple[str, Any, Any]]:
    yield "SVC", SVC(), TWO
    yield "ovo", SVC(decision_function_shape="ovo"), FOUR
    yield "votes", SVC(), FOUR
    yield "ties", SVC(break_ties=True), FOUR
    yield "ovr", SVC(multi_class="ovr"), FOUR
    yield "crammer_singer", SVC(multi_class="crammer_singer"), FOUR
    yield "NuSVC", NuSVC(nu=0.5), TWO.astype(bool)
    yield "SVR", SVR(), TARGET
    yield "NuSVR", NuSVR(), TARGET
    yield "OneClassSVM", OneClassSVM(nu=0.2), None
    yield "KernelRegressor", KernelRegressor(), TARGET
    yield "two targets", KernelRegressor(), X[:, :2] ** 2
    for calibration in ("sigmoid", "isotonic"):
        for name, y, strategy in (("two", TWO, "ovo"), ("ovo", FOUR, "ovo"), ("ovr", FOUR, "ovr")):
            yield f"{calibration} {name}", SVC(probability="loo", calibration=calibration, multi_class=strategy), y


CASES = {name: case for name, *case in cases()}
LINEAR_CASES = {
    "LinearSVC": (LinearSVC(), TWO),
    "one vs rest": (LinearSVC(loss="hinge", fit_intercept="regularized"), FOUR),
    "probabilities": (LinearSVC(probability="loo"), FOUR),
    "L1 penalty": (LinearSVC("l1", C=0.1), np.array(["no", "yes"])[TWO]),
    "LinearSVR": (LinearSVR(), TARGET),
    "LinearOneClassSVM": (LinearOneClassSVM(nu=0.2), None),
}
#: The machines that the operators of ai.onnx.ml do not have, or not accurately enough; nor poly, whose values are large here.
PLAIN = ("ovr", "crammer_singer", "KernelRegressor", "two targets", "sigmoid ovr", "isotonic two", "isotonic ovo", "isotonic ovr")


def fit(estimator: Any, samples: Any, y: Any) -> Any:
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # the sigmoid kernel is not positive semi-definite
        return clone(estimator).fit(samples, y)


def run(proto: Any, *queries: Any) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    inputs = {one.name: given for one, given in zip(session.get_inputs(), queries, strict=True)}
    return dict(zip(names, session.run(names, inputs), strict=True))


def operators(proto: Any) -> set[str]:
    return {node.op_type for node in proto.graph.node} & OPERATORS


def tolerance(model: Any, relative: float = 1e-5) -> float:
    coefficients = model.dual_coef_ if hasattr(model, "dual_coef_") else model.coef_
    return relative * (1.0 + float(abs(coefficients).sum()))


def assert_agrees(model: Any, found: dict[str, Any], queries: Any, atol: float) -> None:
    """The outputs of a graph are those of the model at the same queries."""
    queries = queries.astype(np.float64)
    if "variable" in found:
        expected = model.predict(queries)
        np.testing.assert_allclose(found["variable"], expected.reshape(len(queries), -1), rtol=1e-6, atol=atol)
        return
    decisions = model.decision_function(queries).reshape(len(queries), -1)
    scores = found.get("decisions", found.get("scores"))
    if scores is not None:
        np.testing.assert_allclose(scores, decisions, rtol=1e-6, atol=atol)
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(queries), atol=atol)
    clear = clearly_decided(model, queries, min(atol, 1e-4))
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(found["label"].ravel()[clear], model.predict(queries)[clear])


def clearly_decided(model: Any, queries: Any, atol: float) -> Any:
    """The queries whose class a change of the decisions by `atol` does not change."""
    if not hasattr(model, "multi_class") or len(model.classes_) == 2 or model.multi_class == "ovo":
        shape = {"decision_function_shape": "ovo", "break_ties": False} if hasattr(model, "break_ties") else {}
        each = clone_fitted(model, **shape).decision_function(queries).reshape(len(queries), -1)
        return np.abs(each).min(axis=1) > atol
    ordered = np.sort(model.decision_function(queries), axis=1)
    return ordered[:, -1] - ordered[:, -2] > 2 * atol


def clone_fitted(model: Any, **parameters: Any) -> Any:
    twin = clone(model).set_params(**parameters)
    twin.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
    return twin


def test_every_estimator_is_among_the_cases() -> None:
    assert {type(estimator).__name__ for estimator, _ in (CASES | LINEAR_CASES).values()} == set(estimators.__all__)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", CASES)
def test_all_machines_and_kernels(name: str, kernel: str, dtype: Any) -> None:
    estimator, y = CASES[name]
    model = fit(estimator.set_params(kernel=kernel, coef0=0.5, degree=2), X, y)
    proto = io.to_onnx(model, dtype=dtype)
    found = run(proto, Q.astype(dtype))
    assert all(values.dtype == dtype for key, values in found.items() if key != "label")
    assert_agrees(model, found, Q, tolerance(model, 1e-5 if dtype == np.float32 else 1e-11))
    plain = dtype == np.float64 or kernel not in ("rbf", "sigmoid") or name in PLAIN
    several = len(getattr(model, "classes_", ())) > 2
    assert operators(proto) == (set() if plain else {"SVMClassifier" if several else "SVMRegressor"})


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LINEAR_CASES)
def test_linear_machines(name: str, dtype: Any, sparse: bool) -> None:
    model = fit(LINEAR_CASES[name][0], X, LINEAR_CASES[name][1])
    if sparse:
        model.sparsify()
    found = run(io.to_onnx(model, dtype=dtype), Q.astype(dtype))
    assert all(values.dtype == dtype for key, values in found.items() if key != "label")
    assert_agrees(model, found, Q, tolerance(model, 1e-5 if dtype == np.float32 else 1e-11))


@pytest.mark.parametrize(
    "classes",
    [["b", "a", "c", "d"], [10, -3, 5, 7], [0.5, 1.0, 2.0, 4.0], np.array(["b", "a", "c", "d"], dtype=object)],
    ids=["strings", "integers", "floats", "objects"],
)
def test_kinds_of_classes(classes: Any) -> None:
    y = np.asarray(classes)[FOUR]
    if y.dtype.kind == "f":
        y = (2 * y).astype(float)
    model = SVC().fit(X, y)
    assert_agrees(model, run(io.to_onnx(model), Q), Q, tolerance(model))


def test_precomputed_kernels() -> None:
    K, queries = X @ X.T, (Q @ X.T).astype(np.float32)
    for estimator, y in ((SVC(kernel="precomputed"), FOUR), (KernelRegressor(kernel="precomputed"), TARGET)):
        model = estimator.fit(K, y)
        assert_agrees(model, run(io.to_onnx(model), queries), queries, tolerance(model))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_sparse_support_vectors(kernel: str) -> None:
    model = SVC(kernel=kernel).fit(sp.csr_array(X * (X > 0)), FOUR)
    assert_agrees(model, run(io.to_onnx(model), Q), Q, tolerance(model))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_features_that_float32_does_not_suffice_for(kernel: str) -> None:
    """Far from the origin the operators of ai.onnx.ml would lose the digits that tell samples apart."""
    far = X + 3000.0
    model = SVC(kernel=kernel, gamma=0.5 if kernel == "rbf" else 1e-7, degree=2).fit(far.astype(np.float32).astype(float), TWO)
    proto = io.to_onnx(model)
    assert not operators(proto)
    queries = (Q + np.float32(3000)).astype(np.float32)
    assert_agrees(model, run(proto, queries), queries, tolerance(model))


def test_raw_scores() -> None:
    model = SVC(probability="loo").fit(X, FOUR)
    found = run(io.to_onnx(model, raw_scores=True), Q)
    assert set(found) == {"label", "decisions"}
    assert_agrees(model, found, Q, tolerance(model))
    pipeline = make_pipeline(StandardScaler(), SVC(probability="loo")).fit(X, TWO)
    assert "decisions" in run(io.to_onnx(pipeline, raw_scores=True), Q)


@pytest.mark.parametrize("name", ["SVC", "votes", "sigmoid ovo", "SVR", "OneClassSVM", "two targets"])
def test_pipelines(name: str) -> None:
    estimator, y = CASES[name]
    pipeline = make_pipeline(StandardScaler(), PCA(3), clone(estimator).set_params(kernel="rbf")).fit(X, y)
    found = run(io.to_onnx(pipeline), Q)
    model = pipeline[-1]
    assert_agrees(model, found, pipeline[:-1].transform(Q.astype(np.float64)), 10 * tolerance(model))


def test_skl2onnx_itself_converts_pipelines_of_several_inputs() -> None:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    io.register_onnx_converters()
    pd = pytest.importorskip("pandas")
    words = np.array(["red", "blue", "green"])[rng.integers(3, size=150)]
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "colour": words})
    columns = ColumnTransformer([("scale", StandardScaler(), ["a", "b"]), ("code", OneHotEncoder(), ["colour"])])
    pipeline = make_pipeline(columns, SVC(probability="loo")).fit(table, TWO)
    types = [("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1])), ("colour", StringTensorType([None, 1]))]
    a, b = (X[:, [k]].astype(np.float32) for k in (0, 1))
    found = run(to_onnx(pipeline, initial_types=types), a, b, words[:, None])
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(table), atol=1e-5)


def test_a_kernel_function_has_a_way_out() -> None:
    model = SVC(kernel=lambda A, B: A @ B.T).fit(X, TWO)
    with pytest.raises(ValueError, match=r"kernel=<function .*a function cannot be converted \(fit with kernel='precomputed'"):
        io.to_onnx(model)


def test_twelve_classes_are_coupled() -> None:
    y = np.arange(150) % 12
    model = SVC(probability="loo").fit(X, y)
    found = run(io.to_onnx(model, dtype=np.float64), Q.astype(np.float64))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(Q.astype(np.float64)), atol=1e-12)
