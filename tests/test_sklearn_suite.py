"""scikit-learn's own tests of SVC, with maxmargin's class in its place.

The tests are those of the installed scikit-learn, imported, not copied: every function of its two modules on support
vector machines that mentions ``svm.SVC``, and of its parameters those that are SVC. EXCEPTIONS lists what is left out,
and why.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import sklearn
import sklearn.svm
from sklearn.utils.fixes import parse_version

from maxmargin import SVC

MODULES = ("sklearn.svm.tests.test_svm", "sklearn.svm.tests.test_sparse")
PROBABILITY = "asks for probability=True, deprecated there and refused here in favour of CalibratedClassifierCV"
PRIVATE = "reads or writes a private attribute of scikit-learn's class"
SOLVED = "expects a warning at max_iter=1 or 2, but one step solves that problem exactly here"
EXCEPTIONS = {
    "test_probability_svm": PROBABILITY,
    "test_hasattr_predict_proba_svm": PROBABILITY,
    "test_probability_raises_futurewarning_svm": PROBABILITY,
    "test_svc_nusvc_probA_probB_deprecated_svm": PROBABILITY,
    "test_svc_sparse": PROBABILITY,
    "test_unsorted_indices_sparse": PROBABILITY,
    "test_sparse_svc_clone_with_callable_kernel_sparse": PROBABILITY,
    "test_tweak_params_svm": PRIVATE,
    "test_gamma_scale_svm": PRIVATE,
    "test_svc_raises_error_internal_representation_svm": PRIVATE,
    "test_libsvm_convergence_warnings_svm": SOLVED,
    "test_timeout_sparse": SOLVED,
    "test_bad_input_svm": "expects a model trained on dense data to refuse sparse queries; here it answers them",
    "test_custom_kernel_not_array_input_svm": "its kernel function is right for k(X, X) alone; here it is asked blocks",
}


if parse_version(sklearn.__version__) < parse_version("1.9"):
    pytest.skip("the exceptions are those of the tests of scikit-learn 1.9", allow_module_level=True)


def _import_with_our_class(name: str) -> ModuleType:
    """A second copy of a test module in which svm.SVC, when it is imported and when it runs, is maxmargin's."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        pytest.skip("the installed scikit-learn ships without its tests", allow_module_level=True)
    module = importlib.util.module_from_spec(spec)
    theirs = sklearn.svm.SVC
    sklearn.svm.SVC = SVC
    try:
        spec.loader.exec_module(module)
    finally:
        sklearn.svm.SVC = theirs
    module.svm = SimpleNamespace(**vars(sklearn.svm) | {"SVC": SVC})
    return module


def _is_another_estimator(value: Any) -> bool:
    kind = value if inspect.isclass(value) else type(value)
    return kind is not SVC and kind.__module__.startswith("sklearn.svm")


def _for_svc_only(mark: pytest.Mark) -> pytest.Mark:
    """The parameters of a test without those that are other estimators (NuSVC, SVR, ...)."""
    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    kept = [
        k for k, value in enumerate(values)
        if not any(map(_is_another_estimator, value if isinstance(value, (tuple, list)) else (value,)))
    ]
    keywords = dict(mark.kwargs)
    if "ids" in keywords:
        keywords["ids"] = [keywords["ids"][k] for k in kept]
    return pytest.mark.parametrize(names, [values[k] for k in kept], *rest, **keywords).mark


def _tests_of_svc() -> Iterator[tuple[str, Callable[..., None]]]:
    for name in MODULES:
        for test_name, test in vars(_import_with_our_class(name)).items():
            if not (test_name.startswith("test_") and callable(test) and "svm.SVC" in inspect.getsource(test)):
                continue
            test.pytestmark = [_for_svc_only(mark) for mark in getattr(test, "pytestmark", [])]
            yield f"{test_name}_{name.removeprefix('sklearn.svm.tests.test_')}", test


# the suite stops some fits early on purpose, and scikit-learn does not run it with these warnings as errors
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TESTS = dict(_tests_of_svc())
globals().update({name: test for name, test in TESTS.items() if name not in EXCEPTIONS})


@pytest.fixture
def global_random_seed() -> int:
    return 42


def test_every_exception_is_a_test_that_exists() -> None:
    assert set(EXCEPTIONS) <= set(TESTS)
