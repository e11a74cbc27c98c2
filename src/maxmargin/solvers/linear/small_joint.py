r"""Few samples of one machine of all classes: exact up to rounding, by the solver of the kernel machine over X X'.

The problem of formulations/linear_joint.py without a bias is that of formulations/crammer_singer.py with K = X X'; a regularised
bias adds c^2 to K. A free bias is the multiplier of sum_i B_mi = 0 for each class m, and is found by the method of multipliers:

    repeat    minimise over B with K + rho c^2 and linear terms e_mi + c b_m;   b_m <- b_m + rho c sum_i B_mi

as the square rho/2 (c sum_i B_mi)^2 is what the constant adds to the objective. Descent, for many
samples, does the same, one sample at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.backends import Limit, Part, make_backend
from maxmargin.formulations import CrammerSingerProblem, JointLinearProblem
from maxmargin.rounding import POLISHED_VIOLATION, TINY

Matrix = NDArray[np.float64]

#: rho c^2, in units of the mean |x|^2: the larger, the fewer multipliers.
PENALTY = 30.0
PATIENCE = 8  # rounds without a gap of half the smallest one, after which rounding is all that is left
STEPS_PER_SAMPLE = 1000  # limit on the steps of a round


@dataclass(frozen=True)
class SmallProgress:
    """How far the solver came, as the compiled solvers say it."""

    primal: float
    dual: float
    gap: float
    passes: float
    rounds: int
    done: bool
    stalled: bool


class SmallJointSolver:
    """Works on shares and weights in place, like the compiled solvers."""

    def __init__(self, problem: JointLinearProblem, X: Any, shares: Matrix, weights: Matrix) -> None:
        self._problem, self._shares, self._weights = problem, shares, weights
        self._X = X.toarray() if sp.issparse(X) else X
        self._part = problem.part(slice(None))
        self._free = problem.bias == "free"
        squares = float(np.square(self._X).sum(axis=1).mean())
        self._penalty = {"none": 0.0, "regularised": 1.0}.get(
            problem.bias, PENALTY * max(squares, 1.0 / max(float(problem.cost.sum()), TINY)) / problem.constant**2
        )
        self._K = self._X @ self._X.T + self._penalty * problem.constant**2
        self._bias = weights[-1].copy() if self._free else np.zeros(problem.n_classes)

    def advance(self, gap_tol: float, max_rounds: int, seconds: float) -> SmallProgress:
        """Solve, and move the bias, until the gap and the sums are as small as asked or as rounding allows."""
        problem, inner = self._problem, make_backend("native").inner
        rounds = idle = 0
        best: tuple[float, Matrix, Matrix] | None = None
        while True:
            rounds += 1
            linear = self._part.linear + (problem.constant * self._bias)[:, None]
            B = np.ascontiguousarray(self._part.upper - self._shares.T)
            posed = CrammerSingerProblem(linear, self._part.upper)
            part = Part(posed, B, B @ self._K + linear)
            inner.solve_joint(self._K, part, POLISHED_VIOLATION, Limit(STEPS_PER_SAMPLE * len(problem), seconds))
            self._shares[:] = posed.shares(part.beta).T
            sums = part.beta.sum(axis=1)
            bias = self._bias + self._penalty * problem.constant * sums
            self._weights[: self._X.shape[1]] = (part.beta @ self._X).T
            if problem.bias != "none":
                self._weights[-1] = bias
            off = float(np.abs(sums).sum()) if self._free else 0.0
            gap = float(posed.gap_terms(part.beta, part.beta @ self._K + linear).sum()) + off * (1.0 + float(np.abs(bias).max()))
            if self._free:
                self._bias = bias
            idle = 0 if best is None or gap <= 0.5 * best[0] else idle + 1
            if best is None or gap < best[0]:
                best = gap, self._shares.copy(), self._weights.copy()
            dual = float((problem.cost - self._own_shares()).sum()) - 0.5 * self._square()
            done, stalled = gap <= gap_tol * max(abs(dual + gap), abs(dual)), idle >= PATIENCE
            if done or stalled or rounds >= max_rounds:
                break
        gap, self._shares[:], self._weights[:] = best
        dual = float((problem.cost - self._own_shares()).sum()) - 0.5 * self._square()
        return SmallProgress(dual + gap, dual, gap, float(rounds), rounds, done, stalled and not done)

    def _own_shares(self) -> NDArray[np.float64]:
        return np.asarray(self._shares[np.arange(len(self._problem)), self._problem.own_class])

    def _square(self) -> float:
        weights = self._weights[:-1] if self._free else self._weights
        return float(np.vdot(weights, weights))
