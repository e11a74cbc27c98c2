"""SVC is a drop-in for scikit-learn's, and does what that one does not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, Status
from tests import oracle

TIGHT = {"tol": 1e-8}


def scaled(load: Any) -> tuple[Any, Any]:
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


DATA = {load.__name__[5:]: scaled(load) for load in (load_iris, load_wine, load_breast_cancer)}
DATA["digits"] = tuple(part[::3] for part in scaled(load_digits))  # type: ignore[assignment]
KERNELS: dict[str, dict[str, Any]] = {
    "linear": {},
    "poly": {"coef0": 1.0, "degree": 2},
    "rbf": {},
    "sigmoid": {"gamma": 1e-3},
}


def two_classes(n: int = 300, d: int = 6, seed: int = 0) -> tuple[Any, Any]:
    return make_classification(n, d, n_informative=4, flip_y=0.1, random_state=seed)


# --- like scikit-learn's ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.filterwarnings("ignore:Stopped at a stationary point")
def test_same_model_as_scikit_learn(name: str, kernel: str) -> None:
    X, y = DATA[name]
    ours = SVC(kernel=kernel, **KERNELS[kernel], **TIGHT).fit(X, y)
    theirs = sklearn.svm.SVC(kernel=kernel, **KERNELS[kernel], **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    for attribute in ("dual_coef_", "support_", "support_vectors_", "n_support_", "intercept_", "n_iter_"):
        mine, its = np.asarray(getattr(ours, attribute)), np.asarray(getattr(theirs, attribute))
        assert mine.dtype == its.dtype, attribute
        assert mine.ndim == its.ndim, attribute
    assert ours.fit_status_ == theirs.fit_status_ or kernel == "sigmoid"
    assert ours.n_features_in_ == theirs.n_features_in_
    np.testing.assert_array_equal(ours.class_weight_, theirs.class_weight_)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("name", ["wine", "breast_cancer", "digits"])
def test_same_support_vectors_as_scikit_learn(name: str, kernel: str) -> None:
    """Where the kernel matrix is regular the duals are unique; iris has duplicates."""
    X, y = DATA[name]
    ours = SVC(kernel=kernel, **KERNELS[kernel], **TIGHT).fit(X, y)
    theirs = sklearn.svm.SVC(kernel=kernel, **KERNELS[kernel], **TIGHT).fit(X, y)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-5)


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_coef_of_a_linear_machine(name: str) -> None:
    X, y = DATA[name]
    ours, theirs = (c(kernel="linear", **TIGHT).fit(X, y) for c in (SVC, sklearn.svm.SVC))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    decisions = X @ ours.coef_.T + ours.intercept_
    ours.set_params(decision_function_shape="ovo")
    np.testing.assert_allclose(decisions.squeeze(), ours.decision_function(X), atol=1e-9)
    with pytest.raises(AttributeError, match="coef_ is only available when using a linear kernel"):
        _ = SVC().fit(X, y).coef_


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("break_ties", [True, False])
@pytest.mark.parametrize("name", ["wine", "breast_cancer", "digits"])
def test_decision_function_shape_and_ties(name: str, shape: str, break_ties: bool) -> None:
    X, y = DATA[name]
    ours, theirs = (
        c(decision_function_shape=shape, break_ties=break_ties, gamma=0.3, **TIGHT).fit(X[::2], y[::2])
        for c in (SVC, sklearn.svm.SVC)
    )
    values = ours.decision_function(X)
    assert values.shape == theirs.decision_function(X).shape
    np.testing.assert_allclose(values, theirs.decision_function(X), atol=1e-5)
    if break_ties and shape == "ovo":
        with pytest.raises(ValueError, match="break_ties must be False when decision_function_shape is 'ovo'"):
            ours.predict(X)
    elif break_ties or name == "breast_cancer":
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_labels_of_every_kind() -> None:
    X, y = DATA["iris"]
    names = load_iris().target_names
    expected = SVC().fit(X, y).predict(X)
    for labels in (names[y], names[y].astype(object), y.astype(np.uint8), y.astype(float), pd.Series(names[y])):
        model = SVC().fit(X, labels)
        np.testing.assert_array_equal(model.predict(X), np.unique(np.asarray(labels))[expected])


@pytest.mark.parametrize("class_weight", [{0: 2.0, 1: 0.5}, "balanced"])
def test_class_weight(class_weight: Any) -> None:
    X, y = DATA["breast_cancer"]
    ours, theirs = (c(class_weight=class_weight, **TIGHT).fit(X, y) for c in (SVC, sklearn.svm.SVC))
    np.testing.assert_allclose(ours.class_weight_, theirs.class_weight_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)


# --- what scikit-learn's has not --------------------------------------------------------------------------------------


def test_hard_margin() -> None:
    """Of two points the margin is half their distance; of iris it is that of a very large C."""
    model = SVC(C=np.inf, kernel="linear").fit([[0.0, 0.0], [3.0, 4.0]], [0, 1])
    assert model.margin_ == pytest.approx(2.5)
    X, y = DATA["iris"][0][:100], DATA["iris"][1][:100]
    model = SVC(C=np.inf, kernel="linear").fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), SVC(C=1e10, kernel="linear").fit(X, y).decision_function(X), atol=1e-6)
    assert ((2 * y - 1) * model.decision_function(X)).min() == pytest.approx(1.0, abs=1e-6)
    assert model.margin_ == pytest.approx(1.0 / np.linalg.norm(model.coef_))


@pytest.mark.parametrize(("kernel", "gamma"), [("rbf", 1 / (2 * 0.7**2)), ("laplacian", 1 / 0.7), ("exponential", 1 / 0.7)])
def test_sigma_is_another_way_to_say_gamma(kernel: str, gamma: float) -> None:
    X, y = two_classes()
    one, other = SVC(kernel=kernel, sigma=0.7).fit(X, y), SVC(kernel=kernel, gamma=gamma).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-12)


def test_without_an_intercept() -> None:
    """As with a kernel K + 1 the constant is part of the weights, so K + c approaches the machine with an intercept."""
    X, y = two_classes()
    model = SVC(kernel="linear", fit_intercept=False, **TIGHT).fit(X, y)
    assert (model.intercept_ == 0).all()
    assert model.certificate_.equality_residual == 0
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0], atol=1e-10)
    with_intercept = SVC(kernel="linear", **TIGHT).fit(X, y).decision_function(X)
    augmented = SVC(kernel=lambda A, B: A @ B.T + 1e4, fit_intercept=False, **TIGHT).fit(X, y).decision_function(X)
    np.testing.assert_allclose(augmented, with_intercept, atol=1e-2)


@pytest.mark.parametrize("kernel", ["laplacian", "exponential"])
def test_further_kernels(kernel: str) -> None:
    X, y = two_classes()
    K = oracle.kernel_matrix(kernel, X, gamma=0.2)
    ours = SVC(kernel=kernel, gamma=0.2, **TIGHT).fit(X, y)
    theirs = sklearn.svm.SVC(kernel="precomputed", **TIGHT).fit(K, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(K), atol=1e-5)


# --- data -------------------------------------------------------------------------------------------------------------


def test_data_frames() -> None:
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=[f"feature {k}" for k in range(6)])
    model = SVC().fit(frame, pd.Series(y))
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(model.predict(frame), SVC().fit(X, y).predict(X))


@pytest.mark.parametrize("n", [300, 3000])
def test_float32_is_kept(n: int) -> None:
    X, y = two_classes(n)
    narrow = SVC().fit(X.astype(np.float32), y)
    assert narrow.support_vectors_.dtype == np.float32
    assert narrow.dual_coef_.dtype == np.float64
    assert narrow.decision_function(X.astype(np.float32)).dtype == np.float64
    wide = SVC().fit(X, y)
    np.testing.assert_allclose(
        narrow.decision_function(X.astype(np.float32)), wide.decision_function(X), atol=1e-5 if n == 300 else 1e-2
    )


@pytest.mark.parametrize("kernel", ["rbf", "exponential"])
def test_float32_queries_far_from_the_others_are_answered_in_float64(kernel: str) -> None:
    """Distances of far samples that are close together come from dot products that cancel. Rare columns, standardised, are such
    outliers. What is asked together with a query does not change its answer."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 40))
    X[:30] = 3e3 * np.sign(rng.normal(size=40)) + rng.normal(size=(30, 40))  # thirty samples far out, close together
    X, y = X.astype(np.float32), rng.integers(0, 2, 600)
    model = SVC(kernel=kernel, gamma=0.02).fit(X, y)
    exact = model.decision_function(X.astype(np.float64))
    found = model.decision_function(X)
    np.testing.assert_allclose(found, exact, atol=1e-3)
    np.testing.assert_allclose(found[:30], exact[:30], atol=1e-12)
    if kernel == "rbf":
        assert not np.array_equal(found[30:], exact[30:])  # these are answered in float32
        np.testing.assert_array_equal(model.decision_function(X[100:]), found[100:])


def test_float32_queries_of_a_model_with_large_coefficients() -> None:
    """float32 kernel values times coefficients of 1e6 would be off in the first digit."""
    X, y = two_classes()
    model = SVC(C=1e6, gamma=0.01).fit(X.astype(np.float32), y)
    assert np.abs(model.dual_coef_).max() > 1e5
    exact = model.decision_function(X.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(model.decision_function(X.astype(np.float32)), exact, atol=1e-3)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "exponential"])
@pytest.mark.parametrize(("n", "density"), [(300, 0.1), (300, 0.6), (2500, 0.1)])
def test_sparse_is_dense(kernel: str, dtype: Any, index: Any, n: int, density: float) -> None:
    X, y = two_classes(n, 20)
    X = (X * (np.random.default_rng(0).random(X.shape) < density)).astype(dtype)
    matrix = sp.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    parameters: dict[str, Any] = {"kernel": kernel, "coef0": 1.0, "gamma": 0.1, "tol": 1e-4}
    dense, sparse = SVC(**parameters).fit(X, y), SVC(**parameters).fit(matrix, y)
    tolerance = {(300, np.float64): 1e-5, (300, np.float32): 1e-3}.get((n, dtype), 1e-2)
    expected = dense.decision_function(X)
    np.testing.assert_allclose(sparse.decision_function(matrix), expected, atol=tolerance)
    np.testing.assert_allclose(sparse.decision_function(X), expected, atol=tolerance)
    np.testing.assert_allclose(dense.decision_function(matrix), expected, atol=tolerance)
    assert sp.issparse(sparse.support_vectors_)
    assert sp.issparse(sparse.dual_coef_)
    assert sparse.support_vectors_.dtype == dtype
    if kernel == "linear":
        assert sp.issparse(sparse.coef_)
        np.testing.assert_allclose(sparse.coef_.toarray(), dense.coef_, atol=tolerance)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array])
def test_sparse_of_every_kind(container: Any) -> None:
    X, y = DATA["iris"]
    model = SVC(kernel="linear").fit(container(X), y)
    np.testing.assert_allclose(model.coef_.toarray(), SVC(kernel="linear").fit(X, y).coef_, atol=1e-6)
    np.testing.assert_array_equal(model.predict(container(X)), SVC(kernel="linear").fit(X, y).predict(X))


def test_unsorted_indices_of_sparse_rows() -> None:
    X, y = DATA["digits"]
    matrix = sp.csr_array(X * (X > 0))
    mixed = matrix.copy()
    for start, end in zip(mixed.indptr[:-1], mixed.indptr[1:], strict=True):
        mixed.indices[start:end] = mixed.indices[start:end][::-1].copy()
        mixed.data[start:end] = mixed.data[start:end][::-1].copy()
    mixed.has_sorted_indices = False
    one, other = SVC().fit(matrix, y), SVC().fit(mixed, y)
    np.testing.assert_allclose(one.decision_function(matrix), other.decision_function(mixed), atol=1e-9)


def test_a_wide_sparse_laplacian() -> None:
    """Wider than is made dense."""
    rng = np.random.default_rng(0)
    X = sp.random(120, 6000, density=0.01, random_state=rng, format="csr")
    y = np.asarray(X.sum(axis=1)).ravel() > np.median(np.asarray(X.sum(axis=1)))
    sparse, dense = (SVC(kernel="laplacian", gamma=0.02).fit(data, y) for data in (X, X.toarray()))
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X.toarray()), atol=1e-9)


# --- kernels of the user ----------------------------------------------------------------------------------------------


class Asked:
    """A kernel that writes down the blocks it is asked for."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []

    def __call__(self, A: Any, B: Any) -> Any:
        self.shapes.append((A.shape[0], B.shape[0]))
        return rbf_kernel(A, B, gamma=0.1)

    @property
    def largest(self) -> int:
        return max(rows * columns for rows, columns in self.shapes)


def test_a_callable_is_asked_for_blocks_never_for_the_whole_matrix() -> None:
    X, y = two_classes(5000, 10)
    kernel = Asked()
    model = SVC(kernel=kernel, cache_size=5).fit(X, y)
    fit_largest = kernel.largest
    assert fit_largest <= max(2050**2, 512 * 5000)  # a tile, or some rows
    assert fit_largest < 5000 * 5000 / 4
    expected = SVC(gamma=0.1).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-2)
    assert kernel.largest == fit_largest or kernel.shapes[-1][0] <= 2048
    assert model.certificate_.holds(1e-3)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_a_callable_is_the_named_kernel_of_the_same_function(container: Any) -> None:
    X, y = DATA["wine"]
    one = SVC(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.1)).fit(container(X), y)
    other = SVC(gamma=0.1).fit(X, y)
    np.testing.assert_allclose(one.decision_function(container(X)), other.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(np.asarray(one.dual_coef_), other.dual_coef_, atol=1e-8)


def test_samples_of_a_callable_need_not_be_rows_of_numbers() -> None:
    words = ["ape", "apes", "nape", "paper", "tax", "taxi", "text", "exit"]

    def common_letters(A: Any, B: Any) -> Any:
        letters = "aeinprstx"
        counts = [np.array([[word.count(letter) for letter in letters] for word in side]) for side in (A, B)]
        return counts[0] @ counts[1].T

    model = SVC(kernel=common_letters, C=10.0).fit(words, [0, 0, 0, 0, 1, 1, 1, 1])
    assert model.predict(["papers", "taxes next"]).tolist() == [0, 1]
    assert model.score(words, [0, 0, 0, 0, 1, 1, 1, 1]) == 1.0


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_precomputed(name: str) -> None:
    X, y = DATA[name]
    train, rest = X[::2], X[1::2]
    K = rbf_kernel(train, gamma=0.1)
    ours = SVC(kernel="precomputed", **TIGHT).fit(K, y[::2])
    theirs = sklearn.svm.SVC(kernel="precomputed", **TIGHT).fit(K, y[::2])
    queries = rbf_kernel(rest, train, gamma=0.1)
    np.testing.assert_allclose(ours.decision_function(queries), theirs.decision_function(queries), atol=1e-6)
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape
    assert cross_val_score(SVC(kernel="precomputed"), K, y[::2], cv=3).mean() > 0.85  # it is sliced on both sides


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"kernel": "linear"}, {"loss": "squared_hinge"}, {"fit_intercept": False}])
@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_a_zero_weight_is_removal_and_a_whole_weight_is_repetition(name: str, parameters: dict[str, Any]) -> None:
    X, y = DATA[name]
    weights = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = SVC(**parameters).fit(X, y, sample_weight=weights)
    repeated = SVC(**parameters).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)
    assert not np.isin(weighted.support_, np.flatnonzero(weights == 0)).any()


def test_class_weight_and_sample_weight_multiply() -> None:
    X, y = DATA["breast_cancer"]
    both = SVC(gamma=0.1, class_weight={0: 3.0}).fit(X, y, sample_weight=np.full(len(y), 0.5))
    by_hand = SVC(gamma=0.1).fit(X, y, sample_weight=np.where(y == 0, 1.5, 0.5))
    np.testing.assert_allclose(both.decision_function(X), by_hand.decision_function(X), atol=1e-8)


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [10, 60])
def test_a_small_cache_gives_the_same_solution(d: int) -> None:
    """A kernel matrix of 25 million entries within one megabyte, or all of the memory."""
    X, y = two_classes(5000, d)
    small, large = SVC(cache_size=1).fit(X, y), SVC(cache_size=1000).fit(X, y)
    for model in (small, large):
        assert model.status_ is Status.CONVERGED
        assert model.certificate_.holds(1e-3)
    assert small.certificate_.dual == pytest.approx(large.certificate_.dual, rel=1e-4)
    np.testing.assert_allclose(small.decision_function(X), large.decision_function(X), atol=2e-2)


# --- as a citizen of scikit-learn -------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"kernel": "linear"}, {"multi_class": "ovr"}, {"kernel": rbf_kernel}])
def test_pickling(parameters: dict[str, Any]) -> None:
    X, y = DATA["wine"]
    model = SVC(**parameters).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy.certificate_.gap == model.certificate_.gap
    assert copy.status_ is model.status_


def test_cloning_keeps_parameters_and_forgets_the_fit() -> None:
    model = SVC(C=3.0, loss="squared_hinge", sigma=2.0, gap_tol=1e-2, callbacks=[print]).set_params(max_seconds=9.0)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(clone(SVC().fit(*DATA["iris"])), "classes_")


def test_pipelines_and_grid_search() -> None:
    X, y = load_wine(return_X_y=True)
    grid = {"svc__C": [0.1, 1.0], "svc__gamma": [0.01, 0.1]}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
    theirs = GridSearchCV(clone(search.estimator).set_params(svc=sklearn.svm.SVC()), search.param_grid, cv=3)
    np.testing.assert_allclose(search.fit(X, y).cv_results_["mean_test_score"], theirs.fit(X, y).cv_results_["mean_test_score"])
    assert search.best_params_ == theirs.best_params_


def test_probabilities_by_calibration() -> None:
    X, y = DATA["wine"]
    probabilities = CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities.argmax(axis=1) == y).mean() > 0.97


def test_refitting_on_other_data() -> None:
    model = SVC(kernel="linear").fit(*DATA["digits"])
    model.fit(*DATA["iris"])
    fresh = SVC(kernel="linear").fit(*DATA["iris"])
    np.testing.assert_array_equal(model.decision_function(DATA["iris"][0]), fresh.decision_function(DATA["iris"][0]))
    assert model.n_features_in_ == 4


def test_one_feature_seen_as_a_column():
    """x[:, None] is contiguous, though NumPy gives its second axis a stride of its own."""
    x = np.linspace(-1.0, 1.0, 30)
    assert SVC().fit(x[:, None], x > 0).score(x[:, None], x > 0) == 1.0
