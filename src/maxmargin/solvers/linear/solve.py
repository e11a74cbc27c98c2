"""One run of a compiled solver over one linear machine, in stretches between which the clock and the callbacks are asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.control import Control
from maxmargin.formulations import JointLinearProblem, LinearProblem
from maxmargin.rounding import TINY
from maxmargin.solution import Status, Trace
from maxmargin.solvers.linear.choose import SMALL_JOINT_SOLVER
from maxmargin.solvers.linear.small_joint import SmallJointSolver

Array = NDArray[np.float64]
Problem = LinearProblem | JointLinearProblem

ROUNDS_AT_ONCE = 10  # between two looks at Ctrl-C and the callbacks
NEVER = 1e30  # seconds: no deadline


@dataclass(frozen=True)
class LinearSolution:
    """Duals that satisfy their constraints, and the weights (features, then bias if there is one)."""

    beta: Array
    weights: Array
    status: Status


@dataclass
class LinearRun:
    """A machine on its way. `advance` may be called again, with a smaller gap."""

    problem: Problem
    solver: Any
    beta: Array
    weights: Array
    rounds: int = 0
    passes: float = 0.0
    trace: Trace = field(default_factory=Trace)

    @classmethod
    def begin(cls, name: str, problem: Problem, rows: Any, start: tuple[Array, Array] | None) -> LinearRun:
        """A run of the solver `name` from duals and weights that are changed in place; from zero if there are none."""
        beta, weights = start if start is not None else problem.origin(rows.n_features)
        if isinstance(problem, JointLinearProblem) and name == SMALL_JOINT_SOLVER:
            (_, X), *_ = rows.parts()
            return cls(problem, SmallJointSolver(problem, X, beta, weights), beta, weights)
        return cls(problem, rows.solver(name, problem, beta, weights), beta, weights)

    def advance(self, gap_tol: float, control: Control, limit: int) -> LinearSolution:
        """Go on until the solver claims this relative gap, or has to end; at most `limit` rounds in all (-1: no limit)."""
        status = None
        while status is None:
            left = ROUNDS_AT_ONCE if limit < 0 else min(ROUNDS_AT_ONCE, limit - self.rounds)
            status = control.ended() or (Status.MAX_ITER if left <= 0 else None)
            if status is not None:
                break
            seconds = control.seconds_left
            done = self.solver.advance(gap_tol, left, seconds if math.isfinite(seconds) else NEVER)
            self.rounds += done.rounds
            self.passes += done.passes
            relative = done.gap / max(abs(done.primal), abs(done.dual), TINY)
            self.trace.append(control.seconds, self.rounds, math.nan, done.dual, done.gap)
            if done.done:
                status = Status.GAP_REACHED
            elif done.stalled:
                status = Status.STALLED
            fraction = min(1.0, math.log(max(relative, TINY)) / math.log(gap_tol)) if relative < 1.0 else 0.0
            stopped = control.report(self.rounds, math.nan, relative, fraction)
            status = status or stopped
        return LinearSolution(self.problem.balanced(self.beta), self.weights, status)
