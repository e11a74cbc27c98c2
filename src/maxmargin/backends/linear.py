"""The rows of a training set for linear machines, where they are: nothing is copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.backends.native.core import core
from maxmargin.formulations import JointLinearProblem, LinearProblem
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.samples import csr_arrays

Array = NDArray[np.float64]
Vector = NDArray[np.float64]

#: Rows whose products are summed plainly in native/src/linear_certificate.cpp, and rows of a part.
ROWS_OF_PART = 4096


class Rows:
    """Dense rows in C order, or CSR with unique columns in any order, in float32 or float64."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.n_samples, self.n_features = X.shape
        if sp.issparse(X):
            self.n_values = int(X.nnz)
            self._rows = core.LinearRows.from_csr(*csr_arrays(X), X.shape[1])
        else:
            self.n_values = X.size
            self._rows = core.LinearRows.from_dense(X)

    def solver(self, name: str, problem: LinearProblem | JointLinearProblem, beta: Array, weights: Array) -> Any:
        """A solver of the problem that works on these duals and weights, in place."""
        if isinstance(problem, JointLinearProblem):
            given = problem.own_class, problem.cost, problem.n_classes, problem.bias, problem.constant
            return self._rows.joint_solver(core.JointLinearProblem(*given), beta, weights)
        return self._rows.solver(name, _compiled(problem), beta, weights)

    def evidence(self, problem: LinearProblem, weights: Vector, beta: Vector) -> tuple[Any, Vector, Vector, float]:
        """The sums of native/include/maxmargin/linear_certificate.hpp, the share of each sample in the gap, the sum of
        beta_i x_i, and a bound on the error of the last, as a vector."""
        terms, products = np.empty(self.n_samples), np.empty(self.n_features)
        sums = self._rows.evidence(_compiled(problem), weights, beta, terms, products)
        return sums, terms, products, (min(ROWS_OF_PART, self.n_samples) + 2) * UNIT_ROUNDOFF * sums.reach

    def parts(self) -> Iterator[tuple[slice, Any]]:
        """The rows in float64, some at a time, and where they are."""
        for first in range(0, self.n_samples, ROWS_OF_PART):
            where = slice(first, min(first + ROWS_OF_PART, self.n_samples))
            yield where, self._X[where].astype(np.float64)

    def scores(self, w: Vector) -> Vector:
        """w . x_i, in float64."""
        return np.concatenate([part @ w for _, part in self.parts()])

    def products(self, beta: Vector) -> Vector:
        """The sum of beta_i x_i, in float64."""
        return np.asarray(sum(part.T @ beta[where] for where, part in self.parts()))


class Columns:
    """The columns of a training set, as the L1 penalty asks for them: a CSC copy, unless X is CSC."""

    def __init__(self, X: Any) -> None:
        self.n_samples, self.n_features = X.shape
        self._columns = sp.csc_matrix(X)

    @property
    def n_values(self) -> int:
        return int(self._columns.nnz)

    def solver(self, name: str, problem: LinearProblem, beta: Vector, weights: Vector) -> Any:
        """The solver of the L1 penalty; `name` is the only one there is."""
        columns = self._columns
        compiled = _compiled(problem)
        return core.make_l1_solver(*csr_arrays(columns), self.n_samples, compiled, beta, weights)

    def scores(self, w: Vector) -> Vector:
        """w . x_i, in float64."""
        return np.asarray(self._columns @ w, dtype=np.float64)

    def products(self, beta: Vector) -> Vector:
        """The sum of beta_i x_i, in float64."""
        return np.asarray(self._columns.T @ beta, dtype=np.float64)

    def largest_sizes(self) -> tuple[Vector, Vector]:
        """sum_j |x_ij|, and sum_i |x_ij|."""
        sizes = abs(self._columns)
        return np.asarray(sizes.sum(axis=1)).ravel(), np.asarray(sizes.sum(axis=0)).ravel()


def _compiled(problem: LinearProblem) -> Any:
    return core.LinearProblem(
        problem.targets,
        problem.reach,
        problem.epsilon,
        problem.two_sided,
        problem.squared,
        problem.bias,
        problem.constant,
        problem.total,
    )


def n_threads() -> int:
    return int(core.n_threads())


def use_threads(count: int) -> None:
    """Set the number of threads of what the calling thread computes."""
    core.use_threads(count)
