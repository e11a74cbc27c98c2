"""Model files: `model.save` and `maxmargin.load`, pickles and skops."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

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
    load,
)
from maxmargin.estimators.portable import LAYOUT, LAYOUT_KEY
from maxmargin.formulations.losses import HuberHinge
from maxmargin.io.model_file import KEY, digest_of
from maxmargin.kernels import Polynomial

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 4))
Q = rng.normal(size=(50, 4))
TWO = np.where(X[:, 0] + 0.5 * rng.normal(size=90) > 0, 1, -1)
THREE = np.digitize(X[:, 0] + 0.5 * rng.normal(size=90), [-0.5, 0.5])
TARGET = X[:, 0] ** 2 + 0.1 * rng.normal(size=90)


def overlap(A: Any, B: Any) -> Any:
    return np.minimum(np.abs(A[:, None]), np.abs(B[None])).sum(axis=2)


def cases() -> Iterator[tuple[str, Any, Any, Any]]:
    """A name, an estimator, its samples and its targets: all machines, kernels, containers and kinds of classes."""
    for kernel in ("linear", "poly", "rbf", "laplacian", "exponential", "matern32", "sigmoid"):
        yield kernel, SVC(kernel=kernel, coef0=0.5), X, TWO
    yield "kernel object", SVC(kernel=Polynomial(degree=2, gamma="scale", coef0=1.0)), X, TWO
    yield "loss object", SVC(loss=HuberHinge()), X, TWO
    yield "precomputed", SVC(kernel="precomputed"), X @ X.T, TWO
    yield "float32", SVC(), X.astype(np.float32), TWO
    yield "csr_array", SVC(kernel="linear"), sp.csr_array(X * (X > 0)), THREE
    yield "csr_matrix", SVC(), sp.csr_matrix((X * (X > 0)).astype(np.float32)), THREE
    yield "data frame", SVC(), pd.DataFrame(X, columns=list("abcd")), THREE
    yield "strings", SVC(class_weight={"no": 2.0, "yes": 1}), X, np.where(TWO > 0, "yes", "no")
    yield "objects", SVC(), X, np.where(TWO > 0, "yes", "no").astype(object)
    yield "booleans", SVC(class_weight={True: 2.0, False: 1.0}), X, TWO > 0
    yield "floats", SVC(), X, THREE.astype(float)
    yield "int8", SVC(class_weight="balanced"), X, THREE.astype(np.int8)
    for strategy in ("ovo", "ovr", "crammer_singer"):
        yield strategy, SVC(multi_class=strategy, decision_function_shape="ovo"), X, THREE
    yield "sigmoid map", SVC(probability="loo"), X, THREE
    yield "isotonic map", SVC(probability="cv", calibration="isotonic", random_state=np.int64(3)), X, TWO
    yield "hard margin", SVC(C=np.inf, gamma=np.float32(2.0)), X, TWO
    yield "solver options", SVC(solver="smo-simple", solver_options={"max_passes": 50}), X, TWO
    yield "NuSVC", NuSVC(nu=0.2, break_ties=True), X, THREE
    yield "SVR", SVR(warm_start=True), X, TARGET
    yield "NuSVR", NuSVR(kernel="linear"), X, TARGET
    yield "OneClassSVM", OneClassSVM(nu=0.2), X, None
    yield "KernelRegressor", KernelRegressor(), X, TARGET
    yield "two targets", KernelRegressor(kernel="linear", alpha=0.1), X, X[:, :2] ** 2
    yield "LinearSVC", LinearSVC(class_weight="balanced"), X, np.where(TWO > 0, "yes", "no")
    yield "one vs rest", LinearSVC(loss="hinge", fit_intercept="regularized", warm_start=True), sp.csr_array(X * (X > 0)), THREE
    yield "probabilities", LinearSVC(probability="loo"), X, THREE
    yield "joint machine", LinearSVC(multi_class="crammer_singer", warm_start=True), X, THREE
    yield "L1 penalty", LinearSVC("l1", C=0.1), X, TWO
    yield "LinearSVR", LinearSVR(epsilon=0.1, tol=1e-3, max_seconds=60.0), X, TARGET
    yield "LinearOneClassSVM", LinearOneClassSVM(nu=0.2), X + 2.0, None


CASES = {name: case for name, *case in cases()}


def fitted(name: str) -> tuple[Any, Any]:
    """The fitted model of a case, and queries for it."""
    estimator, samples, target = CASES[name]
    queries = Q
    if name == "precomputed":
        queries = Q @ X.T
    elif sp.issparse(samples):
        queries = sp.csr_array(Q * (Q > 0))
    elif isinstance(samples, pd.DataFrame):
        queries = pd.DataFrame(Q, columns=samples.columns)
    with catch_warnings():
        simplefilter("ignore", ConvergenceWarning)  # a model that has not converged travels too
        return clone(estimator).fit(samples, target), queries


def answers(model: Any, queries: Any) -> dict[str, Any]:
    """Everything that a model says about queries."""
    names = ("predict", "decision_function", "score_samples", "predict_proba")
    return {name: getattr(model, name)(queries) for name in names if hasattr(model, name)}


def assert_same(one: Any, other: Any, place: str) -> None:
    """Two values are the same: type, dtype and every bit."""
    assert type(one) is type(other), place
    if sp.issparse(one):
        for part in ("data", "indices", "indptr"):
            assert_same(getattr(one, part), getattr(other, part), f"{place}.{part}")
        assert one.shape == other.shape
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, place
        np.testing.assert_array_equal(one, other, err_msg=place)
    elif is_dataclass(one):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{place}.{field.name}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), place
        for k, (first, second) in enumerate(zip(one, other, strict=True)):
            assert_same(first, second, f"{place}[{k}]")
    else:
        assert one == other or one != one, place


def public(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if not name.startswith("_")}


# --- round trips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_model_is_the_saved_one(name: str, tmp_path: Path) -> None:
    model, queries = fitted(name)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(model)
    assert set(public(again)) == set(public(model))
    for attribute, value in public(model).items():
        assert_same(value, public(again)[attribute], attribute)
    before, after = answers(model, queries), answers(again, queries)
    assert before.keys() == after.keys()
    for call, values in before.items():
        assert_same(values, after[call], call)


def test_every_estimator_is_among_the_cases() -> None:
    assert {type(estimator).__name__ for estimator, *_ in CASES.values()} == set(estimators.__all__)


def test_another_process_gives_the_same_predictions(tmp_path: Path) -> None:
    expected = {}
    for name in ("ovo", "csr_array", "SVR", "OneClassSVM", "two targets"):
        model, queries = fitted(name)
        model.save(tmp_path / f"{name}.model")
        joblib.dump(queries, tmp_path / f"{name}.queries")
        expected[name] = model.predict(queries)
    code = (
        "import sys, joblib, maxmargin\n"
        "predicted = {name: maxmargin.load(name + '.model').predict(joblib.load(name + '.queries')) for name in sys.argv[1:]}\n"
        "joblib.dump(predicted, 'predicted')"
    )
    subprocess.run([sys.executable, "-c", code, *expected], check=True, cwd=tmp_path)
    for name, values in joblib.load(tmp_path / "predicted").items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_a_file_depends_on_the_model_alone(tmp_path: Path) -> None:
    model, _ = fitted("ovo")
    for name in ("one", "other"):
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_a_loaded_model_can_be_fitted_again(tmp_path: Path) -> None:
    model, queries = fitted("SVR")
    model.save(str(tmp_path / "model"))
    again = load(str(tmp_path / "model")).fit(X, TARGET)
    np.testing.assert_allclose(again.predict(queries), model.predict(queries), atol=1e-2)


def test_callbacks_are_left_out(tmp_path: Path) -> None:
    model = SVC(callbacks=[lambda progress: False]).fit(X, TWO)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").callbacks is None
    assert model.callbacks is not None


@pytest.mark.parametrize("samples", [X, np.array(["abc", "bd", "cc", "abd", "cd", "ab"] * 15)], ids=["numbers", "strings"])
def test_a_kernel_function_is_passed_to_load(samples: Any, tmp_path: Path) -> None:
    function: Callable[..., Any] = overlap if samples.ndim == 2 else common_letters
    model = SVC(kernel=function).fit(samples, TWO)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=rf"model: .*{function.__name__}.* load\(path, kernel="):
        load(tmp_path / "model")
    again = load(tmp_path / "model", kernel=function)
    np.testing.assert_array_equal(again.decision_function(samples), model.decision_function(samples))


def common_letters(A: Any, B: Any) -> Any:
    return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        SVC().save(tmp_path / "model")
    with pytest.raises(TypeError, match=r"random_state=RandomState\(MT19937\).* has no place in a model file"):
        SVC(random_state=np.random.RandomState(0)).fit(X, TWO).save(tmp_path / "model")
    with pytest.raises(TypeError, match="model is a Pipeline: must be one of SVC"):
        io.save(make_pipeline(SVC()), tmp_path / "model")
    with pytest.raises(TypeError, match="model is a Own: must be one of SVC"):
        Own().fit(X, TWO).save(tmp_path / "model")
    with pytest.raises(TypeError, match=r"class_weight=<function overlap.* has no place in a model file"):
        SVC().fit(X, TWO).set_params(class_weight=overlap).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


class Own(SVC):
    """A class that a reader of its file would not have."""


# --- files that are not as they were written ----------------------------------------------------------------------------


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None], sign: bool = True) -> None:
    """Change the header and the tensors of a model file, and its digest with them."""
    with safe_open(str(path), framework="np") as file:
        header = json.loads(file.metadata()[KEY])
        tensors = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    change(header, tensors)
    if sign:
        header["sha256"] = digest_of(header["model"], tensors)
    path.write_bytes(to_bytes({name: np.ascontiguousarray(value) for name, value in tensors.items()}, {KEY: json.dumps(header)}))


def put(where: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """A change that puts a value at a place of the header, such as model.fitted.kernel_."""
    *folders, last = where.split("/")

    def change(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        for name in folders:
            header = header[name]
        header[last] = value

    return change


def tensor(name: str, make: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors[name] = make(tensors[name])

    return change


def nan_first(values: Any) -> Any:
    values.flat[0] = np.nan
    return values


HOSTILE = {
    "unknown class": (put("model/class", "Popen"), "unknown class 'Popen'"),
    "other format": (put("format", 2), "it has format 2 of maxmargin .*, and this version reads format 1"),
    "no fitted part": (put("model/fitted", 3), "the model has no fitted"),
    "unknown parameter": (put("model/parameters/x", 1), "SVC has no parameter 'x'"),
    "parameter of another type": (put("model/parameters/C", "one"), "C=\"'one'\" is not a"),
    "private attribute": (put("model/fitted/_last", 1), "'_last' is not the name of a fitted attribute"),
    "method": (put("model/fitted/predict", 1), "'predict' is not the name of a fitted attribute"),
    "property": (put("model/fitted/coef_", 1), "'coef_' is not the name of a fitted attribute"),
    "unknown kind": (put("model/fitted/x_", {"reduce": "os.system"}), "a value of the unknown kind 'reduce'"),
    "two kinds": (put("model/fitted/x_", {"a": 1, "b": 2}), "an object with the keys a, b"),
    "tensor used twice": (put("model/fitted/x_", {"array": "support_"}), "'support_' is missing, or used twice"),
    "unused tensor": (lambda header, tensors: tensors.update(x=np.zeros(3)), "1 tensors that belong to nothing: x"),
    "no such status": (put("model/fitted/status_", {"status": "x"}), "unknown status 'x'"),
    "status of another type": (put("model/fitted/status_", "CONVERGED"), "status_ is not a Status"),
    "certificate with fields left out": (put("model/fitted/certificate_", {"certificate": {}}), "a certificate with the fields"),
    "kernel with another type": (
        put("model/fitted/kernel_", {"poly kernel": {"gamma": 1.0, "coef0": "x", "degree": 2}}),
        "a poly kernel whose coef0 is \"'x'\"",
    ),
    "kernel that is not finite": (
        put("model/fitted/kernel_", {"rbf kernel": {"gamma": {"float": "nan"}}}),
        "kernel_ has parameters that are not finite numbers",
    ),
    "a function": (put("model/parameters/kernel", {"callable": "os.system"}), "its kernel is the function 'os.system'"),
    "huge array of strings": (
        put("model/fitted/x_", {"values": ["str", [10_000], ["x" * 10_000, *[""] * 9_999]]}),
        "would take more than 67,108,864 characters",
    ),
    "wrong shape": (tensor("dual_coef_", lambda values: values[:, 1:]), r"dual_coef_ has shape \(2, "),
    "wrong type": (
        tensor("support_", lambda values: values.astype(float)),
        "support_ is an array of 1 dimensions and type float",
    ),
    "numbers of 16 bits": (
        tensor("support_vectors_", lambda values: values.astype(np.float16)),
        "support_vectors_ is an array of 2 dimensions and type float16",
    ),
    "not finite": (tensor("support_vectors_", nan_first), "support_vectors_ has values that are not finite"),
    "wrong counts": (tensor("n_support_", lambda values: values + 1), "n_support_ does not count"),
}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    fitted("sigmoid map")[0].save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_files(what: str, saved: Path) -> None:
    change, reason = HOSTILE[what]
    rewritten(saved, change)
    with pytest.raises(io.DataFileError, match=reason) as caught:
        load(saved)
    assert str(caught.value).startswith(f"{saved}: ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("depth", [500, 100_000])
def test_deeply_nested_values(depth: int, tmp_path: Path) -> None:
    model = '{"class": "SVC", "parameters": {}, "fitted": {"x_": ' + "[" * depth + "]" * depth + "}}"
    (tmp_path / "model").write_bytes(to_bytes({"x": np.zeros(1)}, {KEY: '{"format": 1, "model": ' + model + "}"}))
    with pytest.raises(io.DataFileError):
        load(tmp_path / "model")


def test_sparse_matrices_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for part, make in (("indices", lambda values: values + 100), ("indptr", lambda values: values[::-1].copy())):
        fitted("csr_array")[0].save(path)
        rewritten(path, tensor(f"support_vectors_.{part}", make))
        with pytest.raises(io.DataFileError, match="a damaged sparse matrix"):
            load(path)


def test_damage_is_found(saved: Path) -> None:
    """A flipped bit anywhere in the file."""
    content = saved.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    for place in [0, 7, 20, 200, start - 1, start, start + 100, len(content) - 1]:
        saved.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(io.DataFileError):
            load(saved)
    rewritten_without_digest = tensor("dual_coef_", lambda values: values * 2)
    saved.write_bytes(content)
    rewritten(saved, rewritten_without_digest, sign=False)
    with pytest.raises(io.DataFileError, match="damaged: its content is not what was written"):
        load(saved)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100, -1, -1000])
def test_truncated_files(length: int, saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(io.DataFileError, match="not a model that `save` wrote, or cut off"):
        load(saved)


def test_sizes_are_those_of_the_file(tmp_path: Path) -> None:
    """A header that declares 8 TB is refused without allocating it."""
    entry = {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}
    header = json.dumps({"x": entry}).encode()
    (tmp_path / "model").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 64)
    with pytest.raises(io.DataFileError):
        load(tmp_path / "model")


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(io.DataFileError, match="no such file"):
        load(tmp_path / "nothing")
    with pytest.raises(io.DataFileError, match="it is a folder"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(io.DataFileError, match="not a regular file"):
        load(tmp_path / "pipe")
    joblib.dump(fitted("SVR")[0], tmp_path / "model.joblib")
    (tmp_path / "text").write_text("a,b\n1,2\n")
    (tmp_path / "other").write_bytes(to_bytes({"x": np.zeros(3)}))
    for name in ("model.joblib", "text", "other"):
        with pytest.raises(io.DataFileError, match="not a model that `save` wrote"):
            load(tmp_path / name)


# --- pickles and skops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_pickles_and_skops(name: str) -> None:
    import skops.io

    model, queries = fitted(name)
    dumped = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=dumped)
    assert all(kind.startswith(("maxmargin.", "scipy.sparse.")) for kind in trusted), trusted
    for again in (pickle.loads(pickle.dumps(model)), skops.io.loads(dumped, trusted=trusted)):
        assert set(vars(again)) == set(vars(model))
        assert again.status_ is model.status_
        for call, values in answers(model, queries).items():
            np.testing.assert_array_equal(values, getattr(again, call)(queries), err_msg=call)


@pytest.mark.parametrize(("layout", "written"), [(None, "before version 0.2"), (LAYOUT + 1, f"with layout {LAYOUT + 1}")])
def test_pickles_of_another_version_are_refused(layout: int | None, written: str) -> None:
    model, _ = fitted("SVR")
    state = model.__getstate__()
    assert state.pop(LAYOUT_KEY) == LAYOUT
    if layout is not None:
        state[LAYOUT_KEY] = layout
    with pytest.raises(ValueError, match=f"this SVR was pickled {written} of maxmargin"):
        SVR().__setstate__(state)
