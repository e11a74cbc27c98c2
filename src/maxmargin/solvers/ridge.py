"""Kernel ridge regression: the problem, its duality gap, and three ways to solve it.

    min over w    1/2 sum_i s_i (t_i - w . phi(x_i))^2 + alpha/2 |w|^2

given targets t, weights s > 0, and K_ij = phi(x_i) . phi(x_j). The solution is w = sum_i beta_i phi(x_i), so that
all there is to find is beta; with several outputs, a column for each.

    cholesky   a factor of the matrix, in float32 where that suffices; conjugate gradients remove what rounding left
    cg         conjugate gradients alone, preconditioned by what a few landmarks know of the matrix (Nyström)
    sgd        the dual mini-batch gradient ascent on beta of the textbooks

The first two solve (S K S + alpha I) c = S t with S = diag(sqrt(s)) and beta = S c, which is symmetric.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from maxmargin.control import Control, Stop
from maxmargin.solution import Status, Trace

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.integer[Any]]

SMALL = 1024  # largest number of samples with which a float64 factor is always affordable
ROWS_AT_ONCE = 128  # rows of the kernel matrix computed at a time
ROWS_FOR_NORM = 64  # rows from which the norm of the matrix is estimated
LEAST_RATIO = 8.0  # smallest ratio of alpha to the rounding errors of a float32 matrix with which its factor is used
JITTER = 16.0 * float(np.finfo(float).eps)  # added to the diagonal of a numerically singular matrix, per unit of trace
PATIENCE = {np.dtype(np.float32): 25, np.dtype(np.float64): 200}  # conjugate gradient steps with a factor before it is given up
PROBE_SIZE = 256  # samples on which the time of a factor is measured
PASSES = 4.0  # passes over the kernel matrix besides its factor, for the estimate of the time
LANDMARKS = 2000  # samples of the Nyström preconditioner
DIVERGED = 1e6  # a gap this many times the gap at zero shows that the learning rate is too large


class KernelMatrix(Protocol):
    """The operations that the solvers need of K: blocks, and products in float64."""

    def __len__(self) -> int: ...

    def block(self, rows: Indices, columns: Indices) -> Matrix: ...

    def diagonal(self) -> Vector: ...

    def times(self, vectors: Matrix, at: Indices | None = None) -> Matrix:
        """K[at] @ vectors, or K @ vectors."""


@dataclass(frozen=True)
class RidgeProblem:
    """The problem above without its kernel matrix. `target` has a column for each output.

    **The duality gap.** The dual problem is

        max over beta   alpha (beta't - 1/2 beta'K beta) - alpha^2/2 sum_i beta_i^2 / s_i

    and at any beta = S c the primal value at w = sum_i beta_i phi(x_i) less the dual value is 1/2 |r|^2, where
    r = S (t - K beta) - alpha c is what is left of the normal equations: half a square for each sample.
    """

    target: Matrix
    weight: Vector
    alpha: float

    @property
    def root(self) -> Matrix:
        """The diagonal of S, as a column."""
        return np.sqrt(self.weight)[:, None]

    def residual(self, scaled: Matrix, sums: Matrix) -> Matrix:
        """r at c = `scaled`, given `sums` = K beta."""
        return self.root * (self.target - sums) - self.alpha * scaled

    def accepted_residual(self, tol: float) -> Vector:
        """The largest accepted residual of the normal equations of each output: `tol` times its largest target."""
        return np.asarray(tol * np.abs(self.root * self.target).max(axis=0, initial=0.0))

    def primal_value(self, scaled: Matrix, sums: Matrix) -> float:
        errors = self.root * (self.target - sums)
        return float(0.5 * np.sum(errors**2) + 0.5 * self.alpha * np.sum(self.root * scaled * sums))


@dataclass(frozen=True)
class RidgeSolution:
    """The solution c = beta / sqrt(s), the status of the run, its trace and its arithmetic."""

    scaled: Matrix
    status: Status
    steps: int
    trace: Trace
    arithmetic: str


class _Run:
    """The state of one run: the problem, the stopping rule and the trace."""

    def __init__(self, problem: RidgeProblem, K: KernelMatrix, stop: Stop, control: Control) -> None:
        self.problem, self.K, self.stop, self.control = problem, K, stop, control
        self.root = problem.root
        self.right = self.root * problem.target
        self.accepted = problem.accepted_residual(stop.tol)
        self.trace = Trace()

    def product(self, vectors: Matrix) -> Matrix:
        """(S K S + alpha I) @ vectors."""
        return self.root * self.K.times(self.root * vectors) + self.problem.alpha * vectors

    def reached(self, residual: Matrix) -> bool:
        return bool((np.abs(residual).max(axis=0, initial=0.0) <= self.accepted).all())

    def close(self) -> bool:
        """Whether the last measured gap is small enough; True before the first measurement, when there was nothing to fit."""
        return not self.trace.gap or self.stop.close(self.trace.relative_gap())

    def measure(self, scaled: Matrix) -> Matrix:
        """Compute the residual and record its violation and gap."""
        sums = self.K.times(self.root * scaled)
        residual = self.problem.residual(scaled, sums)
        gap = 0.5 * float(np.sum(residual**2))
        dual = self.problem.primal_value(scaled, sums) - gap
        violation = float(np.abs(residual).max(initial=0.0))
        self.trace.append(self.control.seconds, len(self.trace.gap), violation, dual, gap)
        return residual

    def refine(self, precondition: Callable[[Matrix], Matrix], patience: int, arithmetic: str) -> RidgeSolution:
        """Run conjugate gradients, restarted from the true residual until it is small or no longer falls."""
        scaled, residual = np.zeros_like(self.right), self.right
        status, lowest = None, np.inf
        while status is None and not (self.reached(residual) and self.close()):
            change, status = self._conjugate_gradients(residual, precondition, patience)
            scaled = scaled + change
            residual = self.measure(scaled)
            if status is None and self.trace.gap[-1] > 0.25 * lowest:
                status = Status.STALLED
            lowest = self.trace.gap[-1]
        status = Status.CONVERGED if self.reached(residual) and self.close() else status
        return RidgeSolution(scaled, status or Status.STALLED, self.control.steps, self.trace, arithmetic)

    def _conjugate_gradients(
        self, right: Matrix, precondition: Callable[[Matrix], Matrix], patience: int
    ) -> tuple[Matrix, Status | None]:
        """The change that removes the residual `right`, for all outputs together; and the reason for ending early, if there was
        one."""
        change, residual = np.zeros_like(right), right.copy()
        step = precondition(residual)
        slope = np.sum(residual * step, axis=0)
        for _ in range(patience):
            product = self.product(step)
            length = _divide(slope, np.sum(step * product, axis=0))
            change += length * step
            residual -= length * product
            self.control.steps += 1
            if self.reached(residual):
                return change, None
            if (ended := self.control.ended()) is not None:
                return change, ended
            fresh = precondition(residual)
            before, slope = slope, np.sum(residual * fresh, axis=0)
            step = fresh + _divide(slope, before) * step
        return change, Status.STALLED


def _divide(above: Vector, below: Vector) -> Vector:
    """The quotient above / below; zero where `below` is not positive: the output is done, or the matrix is not positive
    definite."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)


# --- a factor of the matrix ----------------------------------------------------------------------------------------


def factor_dtype(problem: RidgeProblem, K: KernelMatrix) -> np.dtype[Any]:
    """The arithmetic of the factor: float32 if alpha outweighs the rounding errors of S K S in float32, else float64.

    Rounding moves the eigenvalues by at most about 2^-24 times the Frobenius norm, which is estimated from some rows.
    """
    n = len(K)
    if n <= SMALL:
        return np.dtype(np.float64)
    rows = np.arange(0, n, -(-n // ROWS_FOR_NORM))
    root = problem.root
    norm = np.sqrt(n / len(rows)) * np.linalg.norm(root[rows] * K.block(rows, np.arange(n)) * root.T)
    suffices = norm < 1e30 and LEAST_RATIO * 2.0**-24 * norm <= problem.alpha
    return np.dtype(np.float32 if suffices else np.float64)


def solve_by_factor(problem: RidgeProblem, K: KernelMatrix, stop: Stop, control: Control, dtype: np.dtype[Any]) -> RidgeSolution:
    """Factor once, then refine: with a step or two after a float64 factor, a few more after a float32 factor. If there is not
    enough time for all samples, only a part of them is fitted, and the others have beta = 0."""
    if control.limits_seconds and (m := _affordable(K, control.seconds_left)) < len(K):
        members = np.linspace(0, len(K) - 1, m).round().astype(np.intp)
        part = RidgeProblem(problem.target[members], problem.weight[members], problem.alpha)
        solution = solve_by_factor(part, _Part(K, members), stop, Control(), np.dtype(np.float64))
        scaled = np.zeros_like(problem.target)
        scaled[members] = solution.scaled
        return RidgeSolution(scaled, Status.MAX_SECONDS, solution.steps, solution.trace, solution.arithmetic)
    while True:
        run = _Run(problem, K, stop, control)
        solve = _factor(problem, K, dtype)
        if solve is not None:
            solution = run.refine(solve, PATIENCE[dtype], f"{dtype} factor, float64 refinement")
            if solution.status.converged or dtype == np.float64 or control.ended() is not None:
                return solution
        dtype = np.dtype(np.float64)


def _affordable(K: KernelMatrix, seconds: float) -> int:
    """The number of samples that can be factored and refined in `seconds`, estimated from the time that a few of them take."""
    few = np.arange(min(PROBE_SIZE, len(K)))
    entry = seconds_per_entry(K)
    block = K.block(few, few) + np.eye(len(few)) * len(few)
    factor = _shortest(lambda: lapack.dpotrf(block, lower=1, clean=0)) / len(few) ** 3
    sizes = np.arange(1, len(K) + 1, dtype=float)
    return max(1, int(np.searchsorted(PASSES * entry * sizes**2 + factor * sizes**3, seconds)))


def seconds_per_entry(K: KernelMatrix) -> float:
    """The time to compute one kernel value, when many are computed."""
    few = np.arange(min(PROBE_SIZE, len(K)))
    return _shortest(lambda: K.block(few, few)) / len(few) ** 2


def _shortest(work: Callable[[], Any]) -> float:
    """The seconds that `work` takes: the shortest of three calls, because the first call of a library may start its threads."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


class _Part:
    """The kernel matrix of some of the samples."""

    def __init__(self, K: KernelMatrix, members: Indices) -> None:
        self._K, self._members = K, members

    def __len__(self) -> int:
        return len(self._members)

    def block(self, rows: Indices, columns: Indices) -> Matrix:
        return self._K.block(self._members[rows], self._members[columns])

    def diagonal(self) -> Vector:
        return self._K.diagonal()[self._members]

    def times(self, vectors: Matrix, at: Indices | None = None) -> Matrix:
        rows, columns = np.arange(len(self)) if at is None else at, np.arange(len(self))
        parts = [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE)]
        return np.concatenate([self.block(part, columns) @ vectors for part in parts])


def _factor(problem: RidgeProblem, K: KernelMatrix, dtype: np.dtype[Any]) -> Callable[[Matrix], Matrix] | None:
    """A function that solves the system to about the precision of dtype; None if the matrix has no float32 factor.

    One triangle is filled and factored in place: there is never a second matrix.
    """
    double = dtype == np.float64
    factor, back = (lapack.dpotrf, lapack.dpotrs) if double else (lapack.spotrf, lapack.spotrs)
    jitter = 0.0
    while True:
        # LAPACK wants columns: the upper triangle by rows is the lower triangle by columns
        A, info = factor(_upper_triangle(problem, K, dtype, jitter).T, lower=1, overwrite_a=1, clean=0)
        if info == 0:
            return lambda right: back(A, right.astype(dtype), lower=1)[0].astype(np.float64)
        if not double:
            return None
        trace = float(problem.weight @ K.diagonal())
        if not 0.0 < trace < np.inf or jitter > 1e-3 * trace:
            return np.copy  # the matrix has no factor: it is zero, indefinite or not finite
        jitter = max(JITTER * trace, 100.0 * jitter)


def _upper_triangle(problem: RidgeProblem, K: KernelMatrix, dtype: np.dtype[Any], jitter: float) -> NDArray[Any]:
    """The matrix S K S + (alpha + jitter) I on and above the diagonal; entries below are not set."""
    n = len(K)
    root = problem.root
    weighted = bool((problem.weight != 1.0).any())
    A = np.empty((n, n), dtype)
    for start in range(0, n, ROWS_AT_ONCE):
        rows, columns = np.arange(start, min(start + ROWS_AT_ONCE, n)), np.arange(start, n)
        block = K.block(rows, columns)
        A[start : start + ROWS_AT_ONCE, start:] = root[rows] * block * root[columns].T if weighted else block
    A.flat[:: n + 1] += problem.alpha + jitter
    return A


# --- conjugate gradients -------------------------------------------------------------------------------------------


def solve_by_conjugate_gradients(
    problem: RidgeProblem, K: KernelMatrix, stop: Stop, control: Control, n_landmarks: int, rng: np.random.Generator
) -> RidgeSolution:
    """Solve without the matrix in memory: each product with it costs n^2 kernel values, computed anew."""
    run = _Run(problem, K, stop, control)
    if control.limits_seconds:  # at most a third of the time for the landmarks
        n_landmarks = min(n_landmarks, int(_affordable(K, control.seconds_left / 3.0) ** 1.5 / len(K) ** 0.5))
    landmarks = np.sort(rng.choice(len(K), min(n_landmarks, len(K)), replace=False))
    return run.refine(_nystroem(problem, K, landmarks), 2 * len(K) + 10, "float64")


def _nystroem(problem: RidgeProblem, K: KernelMatrix, landmarks: Indices) -> Callable[[Matrix], Matrix]:
    """The inverse of B B' + alpha I, where B B' = S K[:, m] K[m, m]^-1 K[m, :] S for the landmarks m (Woodbury)."""
    if not len(landmarks):
        return np.copy
    diagonal = K.diagonal()
    inside = K.block(landmarks, landmarks)
    inside.flat[:: len(landmarks) + 1] += JITTER * diagonal[landmarks].sum()
    try:
        lower = scipy.linalg.cholesky(inside, lower=True)
    except scipy.linalg.LinAlgError:  # not a positive semi-definite kernel
        return np.copy
    B = np.empty((len(K), len(landmarks)))
    for start in range(0, len(K), LANDMARKS):
        rows = np.arange(start, min(start + LANDMARKS, len(K)))
        known = scipy.linalg.solve_triangular(lower, K.block(rows, landmarks).T, lower=True, check_finite=False)
        B[rows] = problem.root[rows] * known.T
    alpha = max(problem.alpha, JITTER * float(problem.weight @ diagonal))
    small = B.T @ B
    small.flat[:: len(landmarks) + 1] += alpha
    factor = scipy.linalg.cho_factor(small)
    return lambda right: (right - B @ scipy.linalg.cho_solve(factor, B.T @ right)) / alpha


# --- dual mini-batch gradient ascent -------------------------------------------------------------------------------


def safe_rate(problem: RidgeProblem, K: KernelMatrix) -> float:
    """A learning rate with which every step raises the dual value.

    A step over a batch b is safe below 2 |b| over the largest eigenvalue of its matrix, which is at most the sum of the
    |b| diagonal entries s_i K_ii + alpha. For |b| = 1 this is the exact line search, where all diagonal entries agree.
    """
    return float(1.0 / ((problem.weight * K.diagonal()).max() + problem.alpha))


def solve_by_gradient_ascent(
    problem: RidgeProblem,
    K: KernelMatrix,
    stop: Stop,
    control: Control,
    batch_size: int,
    rate: float,
    rng: np.random.Generator,
) -> RidgeSolution:
    """beta_i += rate/|b| (s_i (t_i - sum_j beta_j K_ij) - alpha beta_i), for all i of a batch b at the same time.

    An epoch is a random permutation of the samples, cut into batches of `batch_size`; the last batch may be smaller. The gap is
    measured after each epoch.
    """
    n, target, weight = len(K), problem.target, problem.weight[:, None]
    run = _Run(problem, K, stop, control)
    beta = np.zeros_like(target)
    status: Status | None = None
    while status is None:
        for batch in np.split(rng.permutation(n), range(batch_size, n, batch_size)):
            sums = K.times(beta, at=batch)  # with the old beta for the whole batch: the updates are simultaneous
            slope = weight[batch] * (target[batch] - sums) - problem.alpha * beta[batch]
            beta[batch] += rate / len(batch) * slope
            if control.seconds_left == 0.0:
                break
        control.steps += 1
        scaled = np.divide(beta, run.root, out=np.zeros_like(beta), where=run.root > 0.0)
        residual = run.measure(scaled)
        if run.reached(residual) and run.close():
            status = Status.CONVERGED
        elif not run.trace.gap[-1] <= DIVERGED * 0.5 * np.sum(run.right**2):
            status = Status.UNBOUNDED
        else:
            status = control.ended()
    return RidgeSolution(scaled, status, control.steps, run.trace, "float64")
