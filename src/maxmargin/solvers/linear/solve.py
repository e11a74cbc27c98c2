"""One run of a compiled solver over one linear machine, in stretches between which the clock and the callbacks are asked."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.control import Control
from maxmargin.formulations import LinearProblem
from maxmargin.rounding import TINY
from maxmargin.solution import Status, Trace

Vector = NDArray[np.float64]

ROUNDS_AT_ONCE = 10  # between two looks at Ctrl-C and the callbacks
NEVER = 1e30  # seconds: no deadline


@dataclass(frozen=True)
class LinearSolution:
    """Duals that satisfy their constraints, and the weights (features, then bias if there is one)."""

    beta: Vector
    weights: Vector
    status: Status


@dataclass
class LinearRun:
    """A machine on its way. `advance` may be called again, with a smaller gap."""

    problem: LinearProblem
    solver: Any
    beta: Vector
    weights: Vector
    rounds: int = 0
    passes: float = 0.0
    trace: Trace = field(default_factory=Trace)

    @classmethod
    def begin(cls, name: str, problem: LinearProblem, rows: Any, start: tuple[Vector, Vector] | None) -> LinearRun:
        """A run of the solver `name` from duals and weights that are changed in place; from zero if there are none."""
        n_weights = rows.n_features + (problem.bias != "none")
        beta, weights = start if start is not None else (np.zeros(len(problem)), np.zeros(n_weights))
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
