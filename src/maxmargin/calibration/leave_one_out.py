r"""What a machine would say of each training sample had it not seen it: the span rule.

Take sample i out of the solution beta of a `DualProblem`. Its variable goes to zero. Suppose that the support set stays
what it is: variables at a bound stay there, and the free ones F move by d so that their gradients keep to one level,

    M_FF d + E_F c = beta_i K_Fi           M = K + diag(shift), E has a column of ones for each equality constraint
    E_F' d         = beta_i e_i            e_i: the row of sample i in E

where c is what the level falls by. So (d, c) = beta_i B^-1 v with

    B = [[M_FF, E_F], [E_F', 0]],    v = [K_Fi; e_i],

and the decision at sample i changes from f_i to f_i - beta_i K_ii + K_iF d + e_i' c, that is to

    f_i - beta_i S_i^2,    S_i^2 = K_ii - v' B^-1 v.

S_i is the *span* of i: with one equality the distance of phi(x_i) from the affine hull of the phi(x_j), j in F, and
without any from their linear hull. In detail,

    beta_i = 0     nothing changes: the training value is exact
    at a bound     i is not in F; S_i^2 as above. Its size |beta_i| is C_i, so weights enter by beta alone
    free           F without i; by the inverse of a matrix less a row and a column, S_i^2 = 1 / (B^-1)_ii - shift_i
    squared hinge  no bounds, so every support vector is free; as y_i f_i = 1 - alpha_i shift_i, its decision without i
                   is y_i f = 1 - alpha_i / (B^-1)_ii, the formula of least squares
    no intercept   E has no columns, and B = M_FF

All this is exact as long as no other variable meets a bound, or leaves one, while beta_i goes to zero. Where C is so large
that many would, the change can come out far too large; a decision is therefore never taken to lie outside the range of
those of the training set. The sums of a nu-machine are kept as they are, though they are those of one sample more.

**Cost.** With M_FF = L L' and W = L^-1 E_F, the Schur complement W'W eliminates the border:

    v' B^-1 v = |L^-1 K_Fi|^2 - r' (W'W)^-1 r,    r = W' L^-1 K_Fi - e_i
    (B^-1)_ii = |column i of L^-1|^2 - u_i' (W'W)^-1 u_i,    U = L^-T W

One factorisation of F and one triangular solve for each sample at a bound.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from maxmargin.formulations import DualProblem

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

#: Free variables that are taken into account. Of more than these a random part is, and the spans are a little too large.
MOST_FREE = 4096
#: Added to the diagonal of M_FF, relative to its mean; ten times as much where that does not make it definite.
RIDGE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
#: (B^-1)_ii relative to that of K: a sample without which its group would have nobody has none left.
NOTHING_LEFT = 1e-12
COLUMNS_AT_ONCE = 2048


class KernelMatrix(Protocol):
    """What is asked of K."""

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        """K[rows, columns], float64 or float32, to be overwritten."""

    def diagonal(self, at: Indices) -> Vector:
        """K[i, i] for each i of `at`."""


def training_decisions(problem: DualProblem, beta: Vector, gradient: Vector, bias: float) -> Vector:
    """The decision at each sample, K beta + bias, given the gradient M beta + linear."""
    decisions = gradient - problem.linear + bias
    return decisions if problem.shift is None else decisions - problem.shift * beta


def leave_one_out_decisions(
    problem: DualProblem, beta: Vector, gradient: Vector, bias: float, K: KernelMatrix
) -> Vector:
    """The decision at each sample by the machine without that sample."""
    decisions = training_decisions(problem, beta, gradient, bias)
    without = decisions - beta * squared_spans(problem, beta, gradient, K)
    return np.clip(without, decisions.min(), decisions.max())


def squared_spans(problem: DualProblem, beta: Vector, gradient: Vector, K: KernelMatrix) -> Vector:
    """S_i^2 of each support vector, and zero elsewhere."""
    free = _free_variables(problem, beta, gradient)
    others = np.setdiff1d(np.flatnonzero(beta), free).astype(np.int32)
    spans = np.zeros(len(beta))
    if not len(free):
        spans[others] = K.diagonal(others)
        return spans
    E = _border(problem, free)
    shift = np.zeros(len(free)) if problem.shift is None else problem.shift[free]
    B = _BorderedMatrix(K.block(free, free), shift, E[free])
    for start in range(0, len(others), COLUMNS_AT_ONCE):
        some = others[start : start + COLUMNS_AT_ONCE]
        spans[some] = K.diagonal(some) - B.inverse_forms(K.block(some, free).T, E[some].T)
    spans[free] = 1.0 / B.diagonal_of_inverse() - shift
    return np.maximum(spans, 0.0)


def _free_variables(problem: DualProblem, beta: Vector, gradient: Vector) -> Indices:
    """F. A sample that goes leaves its share of the sum to others: a group in which less than two variables are free
    lends those that would be the next."""
    free = (problem.lower < beta) & (beta < problem.upper)
    if np.count_nonzero(free) > MOST_FREE:
        some = np.random.default_rng(0).choice(np.flatnonzero(free), MOST_FREE, replace=False)
        free = np.isin(np.arange(len(beta)), some)
    if any(np.count_nonzero(free[group]) < 2 for group in problem.groups):
        distance = np.abs(gradient - problem.best_level(beta, gradient))
        distance[free] = -1.0
        distance[problem.lower == problem.upper] = np.inf
        for group in problem.groups:
            nearest = np.argsort(distance[group], kind="stable")[:2] + group.start
            free[nearest[np.isfinite(distance[nearest])]] = True
    return np.flatnonzero(free).astype(np.int32)


def _border(problem: DualProblem, free: Indices) -> Matrix:
    """E, without the columns of groups in which no sample takes part."""
    E = np.zeros((len(problem), len(problem.groups)))
    for column, group in zip(E.T, problem.groups, strict=True):
        column[group] = 1.0
    return E[:, E[free].any(axis=0)]


class _BorderedMatrix:
    """B = [[K + diag(shift), E], [E', 0]] by the Cholesky factor of K + diag(shift) and the Schur complement of E."""

    def __init__(self, K: NDArray[Any], shift: Vector, E: Matrix) -> None:
        self.L = _cholesky(K, shift)
        self.single = np.asarray(self.L, dtype=np.float32) if K.dtype == np.float32 else None
        self.W = self._solve(E)
        self.inverse_schur = np.linalg.inv(self.W.T @ self.W)

    def _solve(self, right: NDArray[Any]) -> NDArray[Any]:
        """L^-1 right, in the arithmetic of the right-hand side and in its place."""
        L = self.single if right.dtype == np.float32 else self.L
        (trsm,) = get_blas_funcs(("trsm",), dtype=right.dtype)
        return np.asarray(trsm(1.0, L, right, lower=True, overwrite_b=True))

    def inverse_forms(self, k: NDArray[Any], e: Matrix) -> Vector:
        """v' B^-1 v for v = [k; e], column by column."""
        V = self._solve(k)
        r = self.W.T.astype(V.dtype) @ V - e
        forms = np.einsum("ij,ij->j", V, V) - np.einsum("gj,gh,hj->j", r, self.inverse_schur, r)
        return np.asarray(forms, dtype=np.float64)


    def diagonal_of_inverse(self) -> Vector:
        """(B^-1)_ii of the rows of K. The last thing to ask: the factor is overwritten."""
        (trtri,) = get_lapack_funcs(("trtri",), (self.L,))
        inverse, _ = trtri(self.L, lower=True, overwrite_c=True)
        U = inverse.T @ self.W
        whole = np.einsum("ij,ij->j", inverse, inverse)
        return np.asarray(np.maximum(whole - np.einsum("ig,gh,ih->i", U, self.inverse_schur, U), NOTHING_LEFT * whole))


def _cholesky(K: NDArray[Any], shift: Vector) -> Matrix:
    """L with L L' = K + diag(shift) + ridge I, the ridge as large as it has to be for rounding, or an indefinite kernel."""
    (potrf,) = get_lapack_funcs(("potrf",), dtype=np.float64)
    diagonal = K.diagonal() + shift
    ridge = RIDGE[K.dtype] * (float(np.abs(diagonal).mean()) or 1.0)
    while np.isfinite(ridge):
        M = np.array(K, dtype=np.float64, order="F")
        np.fill_diagonal(M, diagonal + ridge)
        L, failed = potrf(M, lower=True, clean=True, overwrite_a=True)
        if not failed:
            return np.asarray(L)
        ridge *= 10.0
    raise np.linalg.LinAlgError("the kernel matrix has entries that are not finite")
