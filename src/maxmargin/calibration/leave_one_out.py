r"""The decision about each training sample by the machine that has not seen it, without a refit: the span rule.

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

All this is exact as long as no other variable meets a bound, or leaves one, while beta_i goes to zero. The sums of a
nu-machine are kept as they are, though they are those of one sample more.

**A softer margin.** For a sample at its bound that is much to ask: F, which may be a handful of samples, has to take over
all of C_i, where in truth others near the margin would join in. So the corner of the hinge is rounded for this purpose:
its slope goes from -C_i to 0 over margins from 1 - h to 1 + h, a curvature of C_i / 2h. Every sample within h of the
margin then is free, with a shift of 2h / C_i. With h = 0.2 the decisions of a linear machine on 216 samples (heart,
C = 1) correlate with those of refits by 0.994, with h = 0 by 0.74; where h = 0 is good, they are as good. What still
comes out beyond the range of the training decisions is put at its end.

**Cost.** With M_FF = L L' and W = L^-1 E_F, the Schur complement W'W eliminates the border:

    v' B^-1 v = |L^-1 K_Fi|^2 - r' (W'W)^-1 r,    r = W' L^-1 K_Fi - e_i
    (B^-1)_ii = |column i of L^-1|^2 - u_i' (W'W)^-1 u_i,    U = L^-T W

One factorisation of F, and one product with the triangle L^-1 for each other support vector.

**Few features.** If K = X X', the same numbers come from a matrix of the size of the features, however large F is. Let x~_i be
the row x_i followed by its row e_i of E, and

    H = R + sum_{j in F} x~_j x~_j' / shift_j,       R = 1 for each feature, 0 for each column of E,

the Hessian of the primal problem: 1 / shift_j is the curvature of the loss of j. By the formula for the inverse of a sum
(Woodbury), v' B^-1 v = K_ii - x~_i' H^-1 x~_i. So, with h_i = x~_i' H^-1 x~_i,

    not in F       S_i^2 = h_i
    in F           H without the term of i; by a change of rank one, S_i^2 = h_i / (1 - h_i / shift_i)

For the squared hinge, shift_i = 1 / 2 C_i and beta_i = 2 C_i r_i with the residual r_i = y_i - f_i, so the residual without i is
r_i + beta_i S_i^2 = r_i / (1 - 2 C_i h_i): the formula of least squares again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from maxmargin.formulations import DualProblem
from maxmargin.rounding import TINY

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

#: h, how far from the margin samples count as free, in units of the margin.
WIDTH = 0.2
#: The samples nearest to the margin are added until F has LEAST_FREE members, or GROWTH_OF_FREE times the truly free ones.
LEAST_FREE, GROWTH_OF_FREE = 256, 1.25
#: The largest F. If more variables are free, F is a random part of them, and the spans come out too large.
MOST_FREE = 4096
#: Ridge added to the diagonal of M_FF, relative to its mean; ten times as much, again and again, until M_FF is definite.
RIDGE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}
#: The smallest (B^-1)_ii, relative to (M_FF^-1)_ii: it would be zero for a sample that is the only one of its group.
LEAST_INVERSE_DIAGONAL = 1e-12
#: Entries below this share of the largest one are set to zero.
NEGLIGIBLE_ENTRY = 1e-15
COLUMNS_AT_ONCE = 2048


class KernelMatrix(Protocol):
    """The operations that the span rule needs of K."""

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        """K[rows, columns] in float64 or float32, as a copy that may be overwritten."""

    def diagonal(self) -> Vector:
        """K[i, i] for each i."""


@dataclass(frozen=True)
class FeatureRows:
    """The matrix K = X X' + constant^2, by the rows of X: dense or CSR."""

    X: Any
    constant: float = 0.0

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1]) + (self.constant != 0.0)

    def rows(self, members: NDArray[np.integer]) -> Matrix:
        """The features of some samples, in float64 and dense, with the constant as the last one."""
        some = self.X[members]
        dense = np.asarray(some.toarray() if sp.issparse(some) else some, dtype=np.float64)
        return np.column_stack([dense, np.full(len(dense), self.constant)]) if self.constant else dense

    def block(self, rows: Indices, columns: Indices) -> Matrix:
        products = self.X[rows].astype(np.float64) @ self.X[columns].astype(np.float64).T
        return np.asarray(products.toarray() if sp.issparse(products) else products) + self.constant**2

    def diagonal(self) -> Vector:
        squares = self.X.multiply(self.X).sum(axis=1) if sp.issparse(self.X) else np.einsum("ij,ij->i", self.X, self.X)
        return np.asarray(squares, dtype=np.float64).ravel() + self.constant**2


def training_decisions(problem: DualProblem, beta: Vector, gradient: Vector, bias: float) -> Vector:
    """The decision at each sample, K beta + bias, given the gradient M beta + linear."""
    decisions = gradient - problem.linear + bias
    return decisions if problem.shift is None else decisions - problem.shift * beta


def leave_one_out_decisions(problem: DualProblem, beta: Vector, gradient: Vector, bias: float, K: KernelMatrix) -> Vector:
    """The decision at each sample by the machine without that sample."""
    decisions = training_decisions(problem, beta, gradient, bias)
    without = decisions - beta * squared_spans(problem, beta, gradient, K)
    return np.clip(without, decisions.min(), decisions.max())


def squared_spans(problem: DualProblem, beta: Vector, gradient: Vector, K: KernelMatrix) -> Vector:
    """S_i^2 of each support vector, and zero elsewhere."""
    few = isinstance(K, FeatureRows) and K.n_features <= MOST_FREE
    free, shift = _free_variables(problem, beta, gradient, len(beta) if few else MOST_FREE)
    others = np.setdiff1d(np.flatnonzero(beta), free).astype(np.int32)
    spans, diagonal = np.zeros(len(beta)), K.diagonal()
    if not len(free):
        spans[others] = diagonal[others]
        return spans
    E = _border(problem, free)
    if isinstance(K, FeatureRows) and few and K.n_features < len(free) and shift.min() > 0.0:
        H = _PrimalHessian(K, free, shift, E)
        spans[others] = H.inverse_forms(others)
        inside = H.inverse_forms(free)
        spans[free] = inside / np.maximum(1.0 - inside / shift, LEAST_INVERSE_DIAGONAL)
        return np.where(beta == 0.0, 0.0, np.maximum(spans, 0.0))
    B = _BorderedMatrix(K.block(free, free), shift, E[free])
    for start in range(0, len(others), COLUMNS_AT_ONCE):
        some = others[start : start + COLUMNS_AT_ONCE]
        spans[some] = diagonal[some] - B.inverse_forms(K.block(some, free).T, E[some].T)
    spans[free] = 1.0 / B.diagonal_of_inverse - shift
    return np.where(beta == 0.0, 0.0, np.maximum(spans, 0.0))


def triangular_work(problem: DualProblem, beta: Vector) -> int:
    """About how many multiplications `squared_spans` takes."""
    n_free = min(int(np.count_nonzero((problem.lower < beta) & (beta < problem.upper))), MOST_FREE)
    return int(max(min(LEAST_FREE, len(beta)), GROWTH_OF_FREE * n_free)) ** 2 * int(np.count_nonzero(beta))


def _free_variables(problem: DualProblem, beta: Vector, gradient: Vector, most: int) -> tuple[Indices, Vector]:
    """F, of at most about so many free variables, and the shift of each of its members.

    A sample that is left out passes its share of the sum on to others. So a group with less than two free variables also gets the
    variables nearest to the margin, however far away they are.
    """
    free = (problem.lower < beta) & (beta < problem.upper)
    if np.count_nonzero(free) > most:
        some = np.random.default_rng(0).choice(np.flatnonzero(free), most, replace=False)
        free = np.isin(np.arange(len(beta)), some)
    levels = problem.levels(beta, gradient)
    distance = np.abs(gradient - problem.at_variables(levels))
    distance[problem.lower == problem.upper] = np.inf
    shift = np.zeros(len(beta))
    if problem.shift is not None:
        shift = problem.shift
    elif not problem.hard:
        margin = 1.0 if problem.split is None else 0.5 * abs(levels[0] - levels[1])
        near = np.flatnonzero(~free & (distance < WIDTH * margin))
        room = int(max(LEAST_FREE, GROWTH_OF_FREE * np.count_nonzero(free))) - np.count_nonzero(free)
        near = near[np.argsort(distance[near], kind="stable")]
        width = float(distance[near[room]]) if len(near) > room else WIDTH * margin
        free[near[:room]] = True
        shift = 2.0 * width / np.maximum(problem.upper - problem.lower, TINY)
    distance[free] = -1.0
    for group in problem.groups:
        nearest = np.argsort(distance[group], kind="stable")[:2] + group.start
        free[nearest[np.isfinite(distance[nearest])]] = True
    return (members := np.flatnonzero(free).astype(np.int32)), shift[members]


def _border(problem: DualProblem, free: Indices) -> Matrix:
    """E, without the columns of groups that have no variable in F."""
    E = np.zeros((len(problem), len(problem.groups)))
    for column, group in zip(E.T, problem.groups, strict=True):
        column[group] = 1.0
    return E[:, E[free].any(axis=0)]


class _PrimalHessian:
    """H = R + sum_{j in F} x~_j x~_j' / shift_j."""

    def __init__(self, K: FeatureRows, free: Indices, shift: Vector, E: Matrix) -> None:
        self._K, self._E = K, E
        size = K.n_features + E.shape[1]
        H = np.zeros((size, size))
        for start in range(0, len(free), COLUMNS_AT_ONCE):
            some = slice(start, start + COLUMNS_AT_ONCE)
            rows = self._rows(free[some])
            H += (rows / shift[some, None]).T @ rows
        H[np.arange(K.n_features), np.arange(K.n_features)] += 1.0
        self._inverse = _inverse_factor(H, np.zeros(size))

    def inverse_forms(self, members: Indices) -> Vector:
        """x~_i' H^-1 x~_i of some samples."""
        forms = np.empty(len(members))
        for start in range(0, len(members), COLUMNS_AT_ONCE):
            some = slice(start, start + COLUMNS_AT_ONCE)
            forms[some] = np.square(self._rows(members[some]) @ self._inverse.T).sum(axis=1)
        return forms

    def _rows(self, members: Indices) -> Matrix:
        return np.hstack([self._K.rows(members), self._E[members]])


class _BorderedMatrix:
    """B = [[K + diag(shift), E], [E', 0]] by the Cholesky factor of K + diag(shift) and the Schur complement of E."""

    def __init__(self, K: NDArray[Any], shift: Vector, E: Matrix) -> None:
        inverse = _inverse_factor(K, shift)
        self.W = inverse @ E
        self.inverse_schur = np.linalg.inv(self.W.T @ self.W)
        U = inverse.T @ self.W
        whole = np.einsum("ij,ij->j", inverse, inverse)
        part = whole - np.einsum("ig,gh,ih->i", U, self.inverse_schur, U)
        self.diagonal_of_inverse = np.maximum(part, LEAST_INVERSE_DIAGONAL * whole)  # (B^-1)_ii of the rows of K
        self.inverse = _without_tiny(inverse.astype(K.dtype, order="F", copy=False))

    def inverse_forms(self, k: NDArray[Any], e: Matrix) -> Vector:
        """v' B^-1 v for v = [k; e], column by column, in the arithmetic of k and in its place."""
        (trmm,) = get_blas_funcs(("trmm",), dtype=k.dtype)
        V = trmm(1.0, self.inverse, _without_tiny(k), lower=True, overwrite_b=True)
        r = self.W.T.astype(V.dtype) @ V - e
        forms = np.einsum("ij,ij->j", V, V) - np.einsum("gj,gh,hj->j", r, self.inverse_schur, r)
        return np.asarray(forms, dtype=np.float64)


def _inverse_factor(K: NDArray[Any], shift: Vector) -> Matrix:
    """L^-1 with L L' = K + diag(shift) + ridge I, where the ridge is as large as rounding or an indefinite kernel requires."""
    potrf, trtri = get_lapack_funcs(("potrf", "trtri"), dtype=np.float64)
    diagonal = K.diagonal() + shift
    ridge = RIDGE[K.dtype] * (float(np.abs(diagonal).mean()) or 1.0)
    while np.isfinite(ridge):
        M = np.array(K, dtype=np.float64, order="F")
        np.fill_diagonal(M, diagonal + ridge)
        L, failed = potrf(M, lower=True, clean=True, overwrite_a=True)
        if not failed:
            inverse, _ = trtri(L, lower=True, overwrite_c=True)
            return np.asarray(inverse)
        ridge *= 10.0
    raise np.linalg.LinAlgError("the kernel matrix has entries that are not finite")


def _without_tiny(A: NDArray[Any]) -> NDArray[Any]:
    """Set negligible entries of A to zero, in place: their products would be subnormal in float32, where arithmetic is a hundred
    times slower."""
    if A.dtype == np.float32:
        A[np.abs(A) < NEGLIGIBLE_ENTRY * np.abs(A).max(initial=0.0)] = 0.0
    return A
