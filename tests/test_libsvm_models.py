"""LIBSVM's model files, written and read, against LIBSVM itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SVC, SVR, KernelRegressor, NuSVC, NuSVR, OneClassSVM, audit, load
from maxmargin.io import DataFileError, read_libsvm_model, write_libsvm_model

svm = pytest.importorskip("libsvm.svm")
svmutil = pytest.importorskip("libsvm.svmutil")

rng = np.random.default_rng(1)
X = np.round(rng.normal(size=(120, 5)), 3)
X[X < -1] = 0
TWO = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0, 1, -1)
SEVERAL = np.array([5, 1, 3, 8])[
    np.digitize(X[:, 0] + 0.9 * rng.normal(size=120), [-0.5, 0.2, 0.6])
]  # order of appearance: not sorted
TARGET = X[:, 0] + 0.1 * rng.normal(size=120)
MACHINES = {
    "c_svc": ("-s 0", TWO),
    "c_svc of several": ("-s 0", SEVERAL),
    "nu_svc": ("-s 1 -n 0.2", TWO),
    "nu_svc of several": ("-s 1 -n 0.1", SEVERAL),
    "one_class": ("-s 2 -n 0.2", TWO),
    "epsilon_svr": ("-s 3", TARGET),
    "nu_svr": ("-s 4 -n 0.4", TARGET),
}
KERNELS = ("linear", "polynomial", "rbf", "sigmoid", "precomputed")
K = X @ X.T


def nodes(kernel: str) -> list[dict[int, float]]:
    if kernel == "precomputed":
        return [{0: i + 1, **{j + 1: float(value) for j, value in enumerate(row)}} for i, row in enumerate(K)]
    return [{j + 1: float(value) for j, value in enumerate(row) if value} for row in X]


def ask_libsvm(path: Path, kernel: str) -> tuple[Any, Any]:
    """The predictions and decisions of LIBSVM with a model file."""
    model = svmutil.svm_load_model(str(path))
    n_machines = model.nr_class * (model.nr_class - 1) // 2
    predicted, decisions = [], []
    for row in nodes(kernel):
        node, _ = svm.gen_svm_nodearray(row, isKernel=kernel == "precomputed")
        buffer = (svm.c_double * n_machines)()
        predicted.append(svm.libsvm.svm_predict_values(model, node, buffer))
        decisions.append(list(buffer))
    return np.array(predicted), np.array(decisions)


def decisions_of(model: Any, queries: Any) -> Any:
    """Our decisions in LIBSVM's signs for machines of more than two classes."""
    if not hasattr(model, "decision_function"):
        return model.predict(queries)[:, None]
    shape = {"decision_function_shape": "ovo"} if hasattr(model, "classes_") else {}
    return model.set_params(**shape).decision_function(queries).reshape(len(queries), -1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_libsvm_and_we_read_the_same_file(machine: str, kernel: str, tmp_path: Path) -> None:
    """A model of LIBSVM predicts the same here; written by us, it predicts the same in LIBSVM."""
    options, y = MACHINES[machine]
    trained = svmutil.svm_train(y.tolist(), nodes(kernel), f"-q {options} -t {KERNELS.index(kernel)} -d 2 -r 0.5")
    svmutil.svm_save_model(str(tmp_path / "theirs"), trained)
    queries = K if kernel == "precomputed" else X
    model = read_libsvm_model(tmp_path / "theirs", n_features=queries.shape[1])
    predicted, decisions = ask_libsvm(tmp_path / "theirs", kernel)
    sign = -1.0 if hasattr(model, "classes_") and trained.get_labels() == [-1, 1] else 1.0
    np.testing.assert_allclose(decisions_of(model, queries), sign * decisions, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.predict(queries), predicted, rtol=1e-8, atol=1e-8)

    write_libsvm_model(model, tmp_path / "ours")
    again = read_libsvm_model(tmp_path / "ours", n_features=queries.shape[1])
    np.testing.assert_array_equal(decisions_of(again, queries), decisions_of(model, queries))
    np.testing.assert_allclose(ask_libsvm(tmp_path / "ours", kernel)[0], predicted, rtol=1e-8, atol=1e-8)


OURS = {
    "SVC": (SVC(), TWO),
    "SVC of several": (SVC(kernel="poly", coef0=1.0, degree=2), SEVERAL),
    "two classes, one machine of both": (SVC(kernel="linear", multi_class="crammer_singer"), TWO),
    "two classes, one-vs-rest": (SVC(multi_class="ovr", C=10.0), TWO),
    "NuSVC": (NuSVC(nu=0.1), SEVERAL),
    "SVR": (SVR(), TARGET),
    "NuSVR": (NuSVR(kernel="linear"), TARGET),
    "OneClassSVM": (OneClassSVM(nu=0.2), TWO),
}


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", OURS)
def test_libsvm_predicts_with_our_models(name: str, sparse: bool, tmp_path: Path) -> None:
    estimator, y = OURS[name]
    samples = sp.csr_array(X) if sparse else X
    model = estimator.fit(samples, y)
    write_libsvm_model(model, tmp_path / "model")
    predicted, decisions = ask_libsvm(tmp_path / "model", "rbf")
    np.testing.assert_allclose(predicted, model.predict(X), rtol=1e-9, atol=1e-9)
    again = read_libsvm_model(tmp_path / "model", n_features=5)
    np.testing.assert_allclose(decisions_of(again, X), decisions_of(model, X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.abs(decisions), np.abs(decisions_of(model, X)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("y", [TWO, SEVERAL], ids=["two", "several"])
def test_probabilities(y: Any, tmp_path: Path) -> None:
    """LIBSVM couples pairs by an iteration that it stops at 0.005 / n_classes."""
    trained = svmutil.svm_train(y.tolist(), nodes("rbf"), "-q -b 1")
    svmutil.svm_save_model(str(tmp_path / "theirs"), trained)
    model = read_libsvm_model(tmp_path / "theirs", n_features=5)
    write_libsvm_model(SVC(probability="loo").fit(X, y), tmp_path / "ours")
    for path in (tmp_path / "theirs", tmp_path / "ours"):
        model = read_libsvm_model(path, n_features=5)
        loaded = svmutil.svm_load_model(str(path))
        _, _, probabilities = svmutil.svm_predict([], nodes("rbf"), loaded, "-q -b 1")
        columns = [loaded.get_labels().index(label) for label in model.classes_.tolist()]
        tolerance = 1e-9 if len(columns) == 2 else 0.005
        np.testing.assert_allclose(model.predict_proba(X), np.array(probabilities)[:, columns], atol=tolerance)


def test_nothing_is_invented(tmp_path: Path) -> None:
    write_libsvm_model(SVC(C=7.0).fit(X, TWO), tmp_path / "model")
    model = read_libsvm_model(tmp_path / "model")
    assert model.C is None
    assert not hasattr(model, "certificate_")
    assert not hasattr(model, "status_")
    assert set(model.support_) == {-1}
    with pytest.raises(TypeError, match="The 'C' parameter of SVC must be a number"):
        model.fit(X, TWO)
    with pytest.raises(ValueError, match="C: this model of maxmargin does not say it"):
        audit(model, X, TWO)
    found = audit(model, X, TWO, C=7.0)
    assert found.certificate.relative_gap < 1e-3


def test_a_read_model_can_be_saved(tmp_path: Path) -> None:
    write_libsvm_model(NuSVC(nu=0.1, probability="loo").fit(X, SEVERAL), tmp_path / "text")
    model = read_libsvm_model(tmp_path / "text")
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_the_number_of_features(tmp_path: Path) -> None:
    write_libsvm_model(SVC().fit(np.column_stack([X, np.zeros(120)]), TWO), tmp_path / "model")
    assert read_libsvm_model(tmp_path / "model").n_features_in_ == 5
    assert read_libsvm_model(tmp_path / "model", n_features=6).n_features_in_ == 6
    with pytest.raises(DataFileError, match="an index of 5, where there are at most 4"):
        read_libsvm_model(tmp_path / "model", n_features=4)
    text = (tmp_path / "model").read_text()
    (tmp_path / "wide").write_text(text.rstrip("\n") + " 2147483647:1\n")
    with pytest.raises(DataFileError, match=r"an index of 2,147,483,647, .* pass n_features"):
        read_libsvm_model(tmp_path / "wide")


@pytest.mark.parametrize(
    ("model", "y", "error", "message"),
    [
        (SVC(kernel="laplacian"), TWO, ValueError, r"kernel='laplacian': LIBSVM has linear, .*model\.save\(path\)"),
        (SVC(kernel="poly", degree=2.5, coef0=50.0), TWO, ValueError, "kernel='poly': LIBSVM has .* with a whole degree"),
        (SVC(multi_class="ovr"), SEVERAL, ValueError, "multi_class='ovr': LIBSVM has a machine for each pair"),
        (SVC(), TWO > 0, ValueError, "classes_=.*False, True.*: LIBSVM's labels are whole numbers"),
        (SVC(), np.where(TWO > 0, "yes", "no"), ValueError, "LabelEncoder"),
        (SVC(probability="loo", calibration="isotonic"), TWO, ValueError, r"calibration='isotonic': .*probability=False"),
        (KernelRegressor(), TARGET, TypeError, "model is a KernelRegressor: LIBSVM's files hold SVC"),
    ],
)
def test_what_libsvm_lacks_is_refused(model: Any, y: Any, error: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        write_libsvm_model(model.fit(X, y), tmp_path / "model")
    assert not (tmp_path / "model").exists()
