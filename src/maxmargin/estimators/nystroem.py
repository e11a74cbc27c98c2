"""Kernel machines on Nyström features: landmarks, whitening, then a linear machine.

With landmarks z_1, ..., z_m and the eigenvalues and eigenvectors of their kernel matrix, K = U diag(s) U',

    phi(x) = diag(s)^-1/2 U' (k(x, z_1), ..., k(x, z_m)),         phi(x) . phi(x') = k(x, Z) K^+ k(Z, x'),

the projection of the kernel on the functions that the landmarks span. A linear machine w on phi is the function
f(x) = sum_j c_j k(x, z_j) + b with c = U diag(s)^-1/2 w, and |w| is its norm in the space of the kernel. So

- the machine is kept like any other: the landmarks are its support vectors, c its coefficients;
- its objective is a value of the exact problem too, an upper bound on the exact optimum;
- its duals satisfy the constraints of the exact dual problem: the value there is a lower bound, and they are a start for the
  exact solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from maxmargin.backends import make_backend
from maxmargin.backends.linear import Rows, n_threads
from maxmargin.certificates import combine
from maxmargin.control import Control, Stop
from maxmargin.estimators import validation
from maxmargin.estimators.base import KernelMachine
from maxmargin.estimators.callback_tree import CallbackTree
from maxmargin.estimators.linear_training import LinearMachineResult, train_linear
from maxmargin.formulations import DualProblem, LinearProblem
from maxmargin.kernels import Kernel, is_precomputed
from maxmargin.samples import Samples
from maxmargin.solvers.linear import LinearSituation, choose_linear_solver

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

APPROXIMATIONS = ("nystroem",)
#: Eigenvalues of the landmarks' kernel matrix, relative to the largest, below which features would be noise.
RANK_CUT = 1e-12
#: With at most this many values the features are kept in float64, else in float32; they are computed in float64.
FEW_VALUES = 1 << 23
ROWS_AT_ONCE = 2048


class ApproximationGap(NamedTuple):
    """Bounds on the optimum of the exact problem, and the difference between them.

    Parameters
    ----------
    primal : float
        The value of the exact problem at the approximate machine: an upper bound.
    dual : float
        The value of the exact dual problem at the duals of the approximate machine, times the best factor: a lower bound.
    gap, relative_gap : float
        Their difference, and the same relative to the larger of them.

    See Also
    --------
    maxmargin.SVC.approximation_gap : Computes it.

    Examples
    --------
    >>> from maxmargin.estimators.nystroem import ApproximationGap
    >>> ApproximationGap(2.0, 1.0, 1.0, 0.5).relative_gap
    0.5
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float


class Nystroem:
    """The map from samples to features."""

    def __init__(self, kernel: Kernel, landmarks: Samples, dtype: np.dtype[Any]) -> None:
        self._kernel, self._landmarks, self._dtype = kernel, landmarks, dtype
        self.matrix = landmarks.block(kernel, landmarks)
        values, vectors = eigh(self.matrix)
        kept = values > RANK_CUT * max(float(values[-1]), 0.0)
        if not kept.any():
            raise ValueError(
                "approximation='nystroem': the kernel matrix of the landmarks is zero or negative; scale the features"
            )
        #: U diag(s)^-1/2, a column for each feature.
        self.whitening: Matrix = vectors[:, kept] / np.sqrt(values[kept])

    def features(self, samples: Samples) -> NDArray[Any]:
        """A row of features for each sample, computed in blocks of rows on all threads."""
        n = len(samples)
        out = np.empty((n, self.whitening.shape[1]), dtype=self._dtype)

        def fill(first: int) -> None:
            rows = np.arange(first, min(first + ROWS_AT_ONCE, n))
            out[rows[0] : rows[-1] + 1] = samples.take(rows).block(self._kernel, self._landmarks) @ self.whitening

        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(fill, range(0, n, ROWS_AT_ONCE)))
        return out


class Approximable(KernelMachine):
    """A kernel machine with the parameters `approximation`, `n_components`, `polish` and `random_state`."""

    _starts_of_polish: list[Vector] | None = None

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        if self.approximation is None:
            return super()._fit(X, y, sample_weight)
        with validation.ParametersOf(self):
            self._check_parameters()
            tree = CallbackTree(self)
            control = self._make_control(tree)
            samples, targets, weights = self._validate(X, y, sample_weight)
        problems = self._linear_problems(targets, weights)
        tree.begin(len(problems), X=samples.rows, y=y, metadata={"sample_weight": sample_weight})
        chosen = self._landmarks(len(samples), targets)
        results, map_ = self._train_on_features(samples, chosen, problems, control, tree)
        if self.polish and not control.interrupted:
            self._starts_of_polish = [self._exact_start(one.beta, targets) for one in results]
            try:
                return super()._fit(X, y, sample_weight)
            finally:
                self._starts_of_polish = None
        self._keep_expansion(samples, chosen, targets, problems, results, map_)
        self._finish(samples, control, tree)
        return self

    def _check_approximation(self, loss: str, losses: tuple[str, ...]) -> None:
        """Check the parameters of the approximation; a subclass calls it with its loss and those of linear machines."""
        if self.approximation is None:
            if self.polish:
                raise ValueError("polish=True: there is nothing to polish; use approximation='nystroem'")
            return
        validation.choice("approximation", self.approximation, APPROXIMATIONS, ", or None")
        validation.count("n_components", self.n_components)
        if is_precomputed(self.kernel):
            raise ValueError("approximation='nystroem' compares samples with landmarks: it has no use for kernel='precomputed'")
        if loss not in losses:
            raise ValueError(f"loss={self.loss!r}: with approximation='nystroem' it must be one of {', '.join(losses)}")
        if not np.isfinite(float(self.C)):
            raise ValueError(f"C={self.C!r}: with approximation='nystroem' it must be finite")
        if self.solver != "auto":
            raise ValueError(f"solver={self.solver!r}: approximation='nystroem' has the solvers of linear machines; use 'auto'")

    def _linear_problems(self, targets: Any, weights: Vector) -> list[LinearProblem]:
        """The linear machines that learn these targets."""
        raise NotImplementedError

    def _landmarks(self, n: int, targets: Any) -> NDArray[np.intp]:
        """Samples chosen uniformly, those of scikit-learn's Nystroem with the same `random_state`; a classifier sorts them by
        class."""
        chosen = check_random_state(self.random_state).permutation(n)[: int(self.n_components)]
        groups = targets[chosen] if hasattr(self, "classes_") else np.zeros(len(chosen))
        return np.asarray(chosen[np.lexsort((chosen, groups))])

    def _train_on_features(
        self,
        samples: Samples,
        chosen: NDArray[np.intp],
        problems: list[LinearProblem],
        control: Control,
        tree: CallbackTree,
    ) -> tuple[list[LinearMachineResult], Nystroem]:
        dtype = np.dtype(np.float64 if len(samples) * len(chosen) <= FEW_VALUES else np.float32)
        with make_backend("native").session(len(samples) * len(chosen)), control.running(), tree.machine():
            map_ = Nystroem(self.kernel_, samples.take(chosen), dtype)
            features = map_.features(samples)
            choice = choose_linear_solver("auto", LinearSituation(len(features), features.shape[1], problems[0].squared))
            self.solver_ = choice.name
            self.solver_reason_ = f"{choice.reason}; on {features.shape[1]} Nyström features"
            stop = Stop(np.inf, self.gap_tol) if self.gap_tol is not None else Stop(self.tol, None)
            return train_linear(choice.name, problems, Rows(features), stop, control, self.max_iter), map_

    def _keep_expansion(
        self,
        samples: Samples,
        chosen: NDArray[np.intp],
        targets: Any,
        problems: list[LinearProblem],
        results: list[LinearMachineResult],
        map_: Nystroem,
    ) -> None:
        """Store the machine: the landmarks are its support vectors."""
        rank = map_.whitening.shape[1]
        weights = np.array([one.weights[:rank] for one in results])
        coefficients = weights @ map_.whitening.T
        has_bias = problems[0].bias != "none"
        self.dual_coef_ = sp.csr_matrix(coefficients) if sp.issparse(samples.rows) else coefficients
        self.intercept_ = np.array([one.weights[rank] if has_bias else 0.0 for one in results])
        self.support_ = chosen.astype(np.int32)
        self.support_vectors_ = samples.take(chosen).vectors
        classes = getattr(self, "classes_", None)
        counts = [len(chosen)] if classes is None else np.bincount(targets[chosen], minlength=len(classes))
        self.n_support_ = np.array(counts, dtype=np.int32)
        self.shape_fit_ = samples.shape
        margins = 1.0 / np.maximum(np.linalg.norm(weights, axis=1), np.finfo(float).tiny)
        self.margin_ = float(margins[0]) if len(margins) == 1 else margins
        proofs = [one.proof for one in results]
        self.certificate_ = proofs[0] if len(proofs) == 1 else combine(proofs, np.array([proof.gap_terms for proof in proofs]))
        trouble = [one.status for one in results if not one.status.converged]
        self.status_ = trouble[0] if trouble else results[0].status
        self.fit_status_ = 0 if self.status_.converged else 1
        rounds = np.array([one.rounds for one in results], dtype=np.int32)
        self.n_iter_ = rounds if classes is not None else int(rounds[0])
        self.trace_, self.arithmetic_ = results[-1].trace, str(map_.whitening.dtype)
        self._duals = [one.beta for one in results]

    # --- the exact problem ----------------------------------------------------------------------------------------

    def _starts(self, problems: Sequence[DualProblem]) -> list[Vector] | None:
        if self._starts_of_polish is None:
            return super()._starts(problems)
        return [problem.feasible(start) for problem, start in zip(problems, self._starts_of_polish, strict=True)]

    def _exact_start(self, beta: Vector, targets: Any) -> Vector:
        """The duals of a linear machine as those of the exact problem."""
        raise NotImplementedError

    def approximation_gap(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> ApproximationGap:
        """How far a machine with ``approximation="nystroem"`` is from the exact optimum, at most.

        The objective of the machine is an upper bound on the optimum of the exact problem; the exact dual value of its duals is
        a lower bound. This needs the kernel between all pairs of samples with duals that are not zero.

        Parameters
        ----------
        X, y, sample_weight
            The training set of the last fit.

        Returns
        -------
        ApproximationGap
            Both bounds, and the difference between them; with several machines, their sums.
        """
        check_is_fitted(self)
        if getattr(self, "_duals", None) is None or self.approximation is None or self.polish:
            raise ValueError("approximation_gap is for machines that were fitted with approximation='nystroem' and polish=False")
        samples, targets, weights = self._validate(X, y, sample_weight)
        problems = self._linear_problems(targets, weights)
        if len(samples) != len(self._duals[0]):
            raise ValueError(f"X has {len(samples)} rows: it must be the training set, which had {len(self._duals[0])}")
        queries, coefficients = samples.rows, self._coefficients()
        scores = self._sums_at(queries)[0] + self.intercept_[:, None]
        landmarks = self._support()
        squares = np.einsum("ij,jk,ik->i", coefficients, landmarks.block(self.kernel_, landmarks), coefficients)
        primal = dual = 0.0
        for problem, beta, square, own in zip(problems, self._duals, squares, scores, strict=True):
            primal += 0.5 * float(square) + float(problem.losses(problem.targets - own).sum())
            linear = float(problem.targets @ beta - problem.epsilon * np.abs(beta).sum())
            quadratic = _quadratic_form(self.kernel_, samples, beta)
            if problem.squared:
                costs = np.abs(problem.reach)
                quadratic += float(np.divide(0.5 * beta**2, costs, out=np.zeros_like(beta), where=costs > 0.0).sum())
            factor = min(1.0, max(linear / quadratic, 0.0)) if quadratic > 0.0 else 1.0
            dual += factor * linear - 0.5 * factor**2 * quadratic
        return ApproximationGap(primal, dual, primal - dual, (primal - dual) / max(abs(primal), abs(dual), 1e-300))


def _quadratic_form(kernel: Kernel, samples: Samples, beta: Vector) -> float:
    """beta' K beta, in blocks of rows."""
    support = np.flatnonzero(beta)
    if not len(support):
        return 0.0
    others, total = samples.take(support), 0.0
    for start in range(0, len(support), ROWS_AT_ONCE):
        rows = support[start : start + ROWS_AT_ONCE]
        total += float(beta[rows] @ (samples.take(rows).block(kernel, others) @ beta[support]))
    return total
