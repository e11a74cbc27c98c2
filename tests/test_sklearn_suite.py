"""scikit-learn's own tests of its kernel machines, with maxmargin's classes in their place.

The tests are those of the installed scikit-learn, imported, not copied: every function of its two modules on support
vector machines that mentions one of OURS, and of its parameters those that are no other machine. EXCEPTIONS lists what
is left out, and why: a test, or a test of one machine.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import sklearn
import sklearn.svm
from sklearn.utils.fixes import parse_version

from maxmargin import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM

OURS = {machine.__name__: machine for machine in (SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR)}

MODULES = ("sklearn.svm.tests.test_svm", "sklearn.svm.tests.test_sparse")
PRIVATE = "reads or writes a private attribute of scikit-learn's class"
DEPRECATED = "expects what is deprecated there to warn; here it stays"
SOLVED = "expects a warning at max_iter=1 or 2, but one step solves that problem exactly here"
INTERCEPT = "expects the intercept to be regularised; runs below, with fit_intercept='regularized'"
EXCEPTIONS: dict[str | tuple[str, type], str] = {
    "test_probability_raises_futurewarning_svm": DEPRECATED,
    "test_svc_nusvc_probA_probB_deprecated_svm": DEPRECATED,
    "test_tweak_params_svm": PRIVATE,
    "test_gamma_scale_svm": PRIVATE,
    "test_svc_raises_error_internal_representation_svm": PRIVATE,
    "test_libsvm_convergence_warnings_svm": SOLVED,
    "test_timeout_sparse": SOLVED,
    "test_linear_svm_convergence_warnings_svm": SOLVED,
    "test_dense_liblinear_intercept_handling_svm": INTERCEPT,
    "test_sparse_liblinear_intercept_handling_sparse": INTERCEPT,
    "test_bad_input_svm": "expects a model trained on dense data to refuse sparse queries; here it answers them",
    "test_custom_kernel_not_array_input_svm": "its kernel function is right for k(X, X) alone; here it is asked blocks",
    "test_svr_errors_svm": "expects a kernel function of the wrong shape to be noticed at predict; here it is at fit",
    ("test_negative_weights_svc_leave_just_one_label_svm", NuSVC): "expects nu to be blamed; here it is the one class left",
    ("test_svm_with_infinite_C_svm", SVR): "a tube that no sample leaves is another problem, and may have no solution",
}


if parse_version(sklearn.__version__) < parse_version("1.9"):
    pytest.skip("the exceptions are those of the tests of scikit-learn 1.9", allow_module_level=True)


def _import_with_our_classes(name: str) -> ModuleType:
    """A second copy of a test module in which the machines, when it is imported and when it runs, are maxmargin's."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        pytest.skip("the installed scikit-learn ships without its tests", allow_module_level=True)
    module = importlib.util.module_from_spec(spec)
    theirs = {machine: getattr(sklearn.svm, machine) for machine in OURS}
    vars(sklearn.svm).update(OURS)
    try:
        spec.loader.exec_module(module)
    finally:
        vars(sklearn.svm).update(theirs)
    module.svm = SimpleNamespace(**vars(sklearn.svm) | OURS)
    return module


def _for_ours_only(test: str, mark: pytest.Mark) -> pytest.Mark:
    """The parameters of a test without those that are other estimators (LinearSVC, LinearSVR), or an exception."""

    def is_left_out(value: Any) -> bool:
        kind = value if inspect.isclass(value) else type(value)
        return kind.__module__.startswith("sklearn.svm") or (test, kind) in EXCEPTIONS

    if mark.name != "parametrize":
        return mark
    names, values, *rest = mark.args
    values = list(values)
    kept = [
        k for k, value in enumerate(values) if not any(map(is_left_out, value if isinstance(value, (tuple, list)) else (value,)))
    ]
    keywords = dict(mark.kwargs)
    if "ids" in keywords:
        keywords["ids"] = [keywords["ids"][k] for k in kept]
    return pytest.mark.parametrize(names, [values[k] for k in kept], *rest, **keywords).mark


def _tests_of_ours() -> Iterator[tuple[str, Callable[..., None]]]:
    mentioned = re.compile(rf"\b({'|'.join(OURS)})\b")
    for name in MODULES:
        for test_name, test in vars(_import_with_our_classes(name)).items():
            if not (test_name.startswith("test_") and callable(test) and mentioned.search(inspect.getsource(test))):
                continue
            full_name = f"{test_name}_{name.removeprefix('sklearn.svm.tests.test_')}"
            test.pytestmark = [_for_ours_only(full_name, mark) for mark in getattr(test, "pytestmark", [])]
            yield full_name, test


# the suite stops some fits early on purpose, and scikit-learn does not run it with these warnings as errors
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
TESTS = dict(_tests_of_ours())
globals().update({name: test for name, test in TESTS.items() if name not in EXCEPTIONS})


@pytest.fixture
def global_random_seed() -> int:
    return 42


def test_every_exception_is_a_test_that_exists() -> None:
    assert {key if isinstance(key, str) else key[0] for key in EXCEPTIONS} <= set(TESTS)


def test_the_regularized_intercept_is_handled_as_in_liblinear() -> None:
    def with_regularized_intercept(**parameters: Any) -> LinearSVC:
        return LinearSVC(**{**parameters, "fit_intercept": "regularized"})

    TESTS["test_dense_liblinear_intercept_handling_svm"](classifier=with_regularized_intercept)
