"""Kernels as theory: Mercer's condition, and feature maps whose dot products are the kernels."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from maxmargin import SVC
from maxmargin.kernels import RBF, Exponential, Kernel, Laplacian, Linear, Polynomial, Sigmoid
from maxmargin.theory.mercer import (
    gaussian_features,
    mercer,
    polynomial_dimension,
    polynomial_features,
    product_features,
    product_kernel,
)

X = np.random.default_rng(0).normal(size=(40, 3))
KERNELS: list[Kernel] = [
    Linear(),
    Polynomial(3, 0.5, 1.0),
    Polynomial(2, 1.0, 0.0),
    RBF(0.7),
    Laplacian(0.3),
    Exponential(0.4),
]


# --- Mercer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernels_are_kernels(kernel):
    report = mercer(kernel, X)
    assert report.valid
    assert report.symmetric
    assert report.positive_semidefinite
    assert report.verdict.startswith("A kernel as far as these 40 samples can tell")
    eigenvalues = np.linalg.eigvalsh(kernel.block(X, X))
    np.testing.assert_allclose([report.smallest_eigenvalue, report.largest_eigenvalue], eigenvalues[[0, -1]], atol=1e-9)


@pytest.mark.parametrize("kernel", [Sigmoid(1.0, -1.0), Polynomial(2, 1.0, -1.0), lambda A, B: -(A @ B.T)])
def test_what_is_no_kernel_is_refuted_by_a_witness(kernel):
    report = mercer(kernel, X)
    assert not report.valid
    assert report.symmetric
    assert "negative" in report.verdict
    K = kernel.block(X, X) if isinstance(kernel, Kernel) else kernel(X, X)
    assert report.witness @ K @ report.witness == pytest.approx(report.smallest_eigenvalue)
    assert report.smallest_eigenvalue < 0


def test_asymmetry_is_refuted():
    report = mercer(np.array([[2.0, 1.0], [0.5, 2.0]]))
    assert not report.valid
    assert report.symmetry_error == 0.5
    assert "differ by 0.5" in report.verdict


def test_a_matrix_and_a_name_and_sparse_samples():
    assert mercer(RBF(1.0).block(X, X)) == mercer("rbf", X)
    assert mercer("rbf", csr_matrix(X)).smallest_eigenvalue == pytest.approx(mercer("rbf", X).smallest_eigenvalue)


def test_duplicates_have_an_eigenvalue_of_zero_and_are_fine():
    report = mercer("linear", np.ones((20, 2)))
    assert report.valid
    assert abs(report.smallest_eigenvalue) <= report.tolerance


def test_the_report_is_readable():
    text = str(mercer(Sigmoid(1.0, -1.0), X))
    assert text.splitlines()[0].startswith("Not a kernel")
    assert "smallest eigenvalue" in text


def test_errors_of_mercer():
    with pytest.raises(ValueError, match="needs the samples"):
        mercer("rbf")
    with pytest.raises(ValueError, match="X is given beside a kernel matrix"):
        mercer(np.eye(2), X)
    with pytest.raises(ValueError, match=r"shape \(2, 3\): must be square"):
        mercer(np.ones((2, 3)))
    with pytest.raises(ValueError, match="not finite"):
        mercer(np.array([[np.nan]]))


# --- feature maps --------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.floats(0.1, 3.0),
    st.one_of(st.just(0.0), st.floats(0.1, 3.0)),
    st.integers(0, 2**32 - 1),
)
def test_polynomial_features(n_features, degree, gamma, coef0, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(5, n_features)), rng.normal(size=(6, n_features))
    phi = polynomial_features(A, degree, gamma, coef0), polynomial_features(B, degree, gamma, coef0)
    K = Polynomial(degree, gamma, coef0).block(A, B)
    np.testing.assert_allclose(phi[0] @ phi[1].T, K, rtol=1e-10, atol=1e-10 * np.abs(K).max())
    assert phi[0].shape[1] == polynomial_dimension(n_features, degree, homogeneous=coef0 == 0.0)


def test_the_textbook_example():
    """(1 + x . y)^2 in the plane: 1, x1^2, x2^2 and sqrt(2) times x1, x2, x1 x2."""
    x = np.array([[3.0, 5.0]])
    root = np.sqrt(2.0)
    expected = [1.0, 9.0, 25.0, 3 * root, 5 * root, 15 * root]
    np.testing.assert_allclose(np.sort(polynomial_features(x, 2, 1.0, 1.0)[0]), np.sort(expected))


def test_dimensions():
    assert polynomial_dimension(2, 2) == 6
    assert polynomial_dimension(2, 2, homogeneous=True) == 3
    assert polynomial_dimension(100, 3) == 176_851


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_product_features(degree):
    A, B = X[:7], X[7:15]
    phi = product_features(A, degree) @ product_features(B, degree).T
    np.testing.assert_allclose(phi, sum((A @ B.T) ** k for k in range(degree + 1)))
    np.testing.assert_allclose(phi, product_kernel(degree)(A, B))
    assert product_features(A, degree).shape[1] == sum(3**k for k in range(degree + 1))


def test_gaussian_features_come_as_close_as_the_series():
    small, gamma = 0.5 * X, 0.6
    exact, lengths = RBF(gamma).block(small, small), np.linalg.norm(small, axis=1)
    for degree in (2, 5, 9):
        phi = gaussian_features(small, degree, gamma)
        cut_off = (2 * gamma * np.outer(lengths, lengths)) ** (degree + 1) / factorial(degree + 1)
        assert (np.abs(phi @ phi.T - exact) <= cut_off + 1e-13).all()
    assert np.abs(phi @ phi.T - exact).max() < 1e-3


def test_a_linear_machine_on_the_features_is_the_kernel_machine():
    y = (np.sum(X**2, axis=1) > 2.5).astype(int)
    features = polynomial_features(X, 2, 0.5, 1.0)
    kernel = SVC(kernel="poly", degree=2, gamma=0.5, coef0=1.0, tol=1e-8).fit(X, y)
    linear = SVC(kernel="linear", tol=1e-8).fit(features, y)
    assert linear.certificate_.primal == pytest.approx(kernel.certificate_.primal, rel=1e-7)
    np.testing.assert_allclose(linear.decision_function(features), kernel.decision_function(X), atol=1e-5)


def test_errors_of_the_maps():
    with pytest.raises(ValueError, match=r"coef0=-1\.0.*no feature map"):
        polynomial_features(X, 2, 1.0, -1.0)
    with pytest.raises(ValueError, match=r"degree=2\.5"):
        polynomial_features(X, 2.5)
    with pytest.raises(ValueError, match="use the kernel"):
        polynomial_features(np.ones((1, 1000)), 4)
    with pytest.raises(ValueError, match="use the kernel"):
        product_features(np.ones((1, 1000)), 3)
