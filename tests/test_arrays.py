"""Arrays of other libraries: scikit-learn's checks of its array API, and rows that stay where they are."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators import arrays

on_host = arrays.on_host
MACHINES = [SVC(), NuSVC(), SVR(), NuSVR(), OneClassSVM()]

CHECKS = """
import sys, warnings
import maxmargin
from sklearn.utils import estimator_checks as checks
namespace = sys.argv[1]
for name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"):
    machine = getattr(maxmargin, name)()
    for dtype in ("float32", "float64"):
        checks.check_array_api_input(name, machine, namespace, None, dtype, check_values=True, check_sample_weight=True)
    kinds = [checks.NamespaceAndDevice(one, None) for one in (namespace, "numpy")]
    checks.check_array_api_mixed_inputs(name, machine, other_ns_and_device=kinds[1], X_ns_and_device=kinds[0])
    checks.check_array_api_mixed_inputs(name, machine, other_ns_and_device=kinds[0], X_ns_and_device=kinds[1])
    checks.check_array_api_same_namespace(name, machine, namespace)
checks.check_array_api_input("SVC", maxmargin.SVC(probability="loo"), namespace, None, "float64", check_values=True)
print("all checks passed")
"""


@pytest.mark.parametrize("namespace", ["array_api_strict", "torch"])
def test_checks_of_scikit_learn(namespace):
    if find_spec(namespace) is None:
        pytest.skip(f"{namespace} is not installed")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}  # which SciPy reads when it is imported
    done = subprocess.run([sys.executable, "-c", CHECKS, namespace], env=environment, capture_output=True, text=True)
    assert "all checks passed" in done.stdout, done.stderr


# --- rows on a card, for which torch's CPU device stands in where there is none -------------------------------------------


@pytest.fixture
def tensor(monkeypatch):
    """A function that makes tensors on a card; where there is none, tensors of the host that count as such."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        return lambda values: torch.tensor(values, device="cuda")
    import maxmargin.backends as backends
    from maxmargin.backends.cuda.backend import DeviceBackend
    from maxmargin.backends.cuda.plain import PlainEngine

    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: DeviceBackend(PlainEngine(torch.device("cpu"))))
    monkeypatch.setattr(arrays, "is_on_card", lambda X: isinstance(X, torch.Tensor))
    return torch.tensor


rng = np.random.default_rng(0)
X = rng.normal(size=(1200, 4)) + 3.0
target = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=1200)
y = (target > 0.0).astype(int)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "machine", [*MACHINES, SVC(kernel="poly", coef0=1.0), SVC(kernel="linear")], ids=lambda machine: f"{machine.kernel}-{machine}"
)
def test_rows_on_a_card_are_trained_on_where_they_are(machine, dtype, tensor, monkeypatch):
    rows = X.astype(dtype)
    labels = target if isinstance(machine, SVR | NuSVR) else y
    expected = clone(machine).fit(rows, labels)
    if machine.kernel != "linear":
        come = []
        monkeypatch.setattr(arrays, "on_host", lambda values: come.append(values) or on_host(values))
    model = clone(machine).fit(tensor(rows), tensor(labels))
    assert model.status_.converged
    np.testing.assert_allclose(model.certificate_.dual, expected.certificate_.dual, rtol=2e-3)
    assert type(model.dual_coef_) is type(tensor(rows))
    assert model.dual_coef_.device == tensor(rows).device
    answers = model.predict(tensor(rows))
    assert type(answers) is type(tensor(rows))
    np.testing.assert_allclose(on_host(model.gamma_), expected.gamma_, rtol=1e-5)
    if machine.kernel != "linear":
        assert not any(getattr(values, "ndim", 0) == 2 for values in come)
    if not isinstance(machine, SVR | NuSVR):
        clear = np.abs(expected.decision_function(rows)) > 10.0 * machine.tol  # free support vectors are on the boundary
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(on_host(answers)[clear], expected.predict(rows)[clear])
        if not isinstance(machine, OneClassSVM):
            assert model.score(tensor(rows), tensor(labels)) == pytest.approx(expected.score(rows, labels), abs=0.005)
    else:
        np.testing.assert_allclose(on_host(answers), expected.predict(rows), atol=0.01)


def test_auto_stays_on_the_processor_unless_the_rows_are_on_a_card(tensor, monkeypatch):
    import maxmargin.backends as backends

    made, make = [], backends.BACKENDS["cuda"]
    monkeypatch.setitem(backends.BACKENDS, "cuda", lambda: made.append(None) or make())
    SVC().fit(X, y).predict(X)
    assert not made
    model = SVC().fit(tensor(X), y)
    assert made
    assert (on_host(model.predict(tensor(X))) == model.predict(X)).all()  # without dispatch, NumPy's queries are taken too


def test_what_rows_on_a_card_must_be(tensor):
    model = SVC().fit(tensor(X), y)
    with pytest.raises(ValueError, match="X has 3 features, but SVC is expecting 4"):
        model.predict(tensor(X[:, :3]))
    with pytest.raises(ValueError, match="must be a matrix"):
        model.predict(tensor(X[0]))
    with pytest.raises(ValueError, match="NaN"):
        SVC().fit(tensor(np.where(np.arange(4) == 2, np.nan, X)), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVC().fit(tensor(X), y[:-1])


def test_a_model_in_kind_can_be_saved(tensor, tmp_path):
    import maxmargin

    model = SVC().fit(tensor(X), y)
    model.save(tmp_path / "model.maxmargin")
    np.testing.assert_allclose(
        maxmargin.load(tmp_path / "model.maxmargin").decision_function(X), on_host(model.decision_function(tensor(X))), atol=1e-9
    )


def test_many_rows_of_numpy_go_to_the_card_at_once(tensor, monkeypatch):
    from maxmargin.backends.cuda.rows import DeviceRows

    expected = SVC(backend="cuda").fit(X, y)
    monkeypatch.setattr(arrays, "LARGE", 1)
    monkeypatch.setattr("maxmargin.samples.DenseSamples.variance", lambda *_: pytest.fail("the host looks at all values"))
    looked = []
    validated = DeviceRows.is_finite
    monkeypatch.setattr(DeviceRows, "is_finite", lambda rows: looked.append(rows) or validated(rows))
    model = SVC(backend="cuda").fit(X, y)
    assert len(looked) == 1
    np.testing.assert_allclose(model.certificate_.dual, expected.certificate_.dual, rtol=1e-3)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=0.01)
    assert type(model.decision_function(X)) is np.ndarray
    assert len(looked) == 4
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.where(np.arange(4) == 2, np.nan, X))
