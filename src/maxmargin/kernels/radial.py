"""Kernels of the Euclidean distance of two samples: what they have in common.

A squared distance comes from differences of features, or from dot products, which is faster and loses digits where the samples
are close to each other; then it is computed again from differences.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from maxmargin.kernels.base import FEW_FEATURES, NEAR_SHARE, Matrix, NamedKernel
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.samples import middle_of

PAIRS_AT_ONCE = 4096


class RadialKernel(NamedKernel):
    """A decreasing function of the squared distance, 1 at zero. A subclass adds the function, and what an error of the distance
    costs it."""

    shift_invariant: ClassVar[bool] = True

    def pairing(self, A: Any, B: Any) -> Matrix:
        return squared_distances(A, B)

    def diag(self, A: Any) -> NDArray[np.float64]:
        return np.ones(A.shape[0])

    def sizes(self, A: Any) -> float:
        return 1.0

    def rounding(self, n_terms: int) -> float:
        """With t = gamma s or gamma sqrt(s), s a sum of squared differences, a relative error e of s changes exp(-t), or (1 + t)
        exp(-t), by less than e / 2."""
        return (n_terms + 10) * UNIT_ROUNDOFF

    def exact_block(self, A: Any, B: Any) -> Matrix:
        return self.of_pairing(_exact_distances(A, B))


def relative_error_of_products(n_terms: int) -> float:
    """The relative error of a squared distance from dot products that is not computed again from differences."""
    return 2.0 * (n_terms + 3) * UNIT_ROUNDOFF / NEAR_SHARE


def dot_products(A: Any, B: Any) -> Matrix:
    products = A.astype(np.float64) @ B.astype(np.float64).T
    return np.asarray(products.todense() if sp.issparse(products) else products)


def squared_norms(A: Any) -> NDArray[np.float64]:
    """|a|^2 for each sample of A, in float64."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()
    wide = np.asarray(A, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", wide, wide))


def squared_distances(A: Any, B: Any) -> Matrix:
    """The squared distances |a|^2 + |b|^2 - 2 a . b of centred samples; from differences where nearly all digits would cancel."""
    if sp.issparse(A):
        P, Q = A, B
    else:
        centre = middle_of(B)
        P, Q = A - centre, B - centre
    norms = squared_norms(P)[:, None] + squared_norms(Q)[None, :]
    squares = norms - 2.0 * dot_products(P, Q)
    near = np.nonzero(squares < NEAR_SHARE * norms)
    for start in range(0, len(near[0]), PAIRS_AT_ONCE):
        rows, columns = (places[start : start + PAIRS_AT_ONCE] for places in near)
        squares[rows, columns] = squared_norms(_in_float64(A[rows]) - _in_float64(B[columns]))
    return np.maximum(squares, 0.0)


def _in_float64(A: Any) -> Any:
    return A.astype(np.float64)


def _exact_distances(A: Any, B: Any) -> Matrix:
    """Squared distances from differences, if there are few enough features; else from dot products."""
    if sp.issparse(A) or A.shape[1] > FEW_FEATURES:
        return squared_distances(A, B)
    return np.asarray(cdist(_in_float64(A), _in_float64(B), "sqeuclidean"))
