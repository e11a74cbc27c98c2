"""The record of a run, and whether the run makes progress.

The dual value of a solver rises, by at most the remaining gap, and stays below every primal value. If it does not, the gradient
from which the values are computed is wrong, because of rounding. And if it rises so slowly that the end is out of reach, and the
gap does not fall either, the run need not go on.
"""

from __future__ import annotations

import numpy as np

from maxmargin.backends import InnerSolver
from maxmargin.control import Control, Stop, fraction_done
from maxmargin.solution import Status, Trace

STEPS_AT_ONCE = InnerSolver.steps_at_once  # the unit in which the idleness of a run is judged
NEGLIGIBLE_RISE = 1e-14  # rise of the dual value, relative to the size of its terms, that does not count
LEAST_RISE = 2e-3  # smallest rise of the dual value by STEPS_AT_ONCE steps, relative to the remaining gap, that is worth going on
FALL = 0.9  # factor by which a gap falls in a run that makes progress, though its dual value may hardly rise any more
PATIENCE = 20  # idle iterations before a run counts as stalled; one of STEPS_AT_ONCE steps counts for seven
LONG_PATIENCE = 500  # iterations without such a fall of the smallest gap before a run counts as stalled
MOST_STEPS, STEPS_PER_VARIABLE = 10_000_000, 100  # the larger of the two limits ends a run, as in LIBSVM
WRONG_VALUE = 1e-3  # relative amount by which a dual value that falls, or is above the smallest primal value, must be wrong


class Record:
    """The trace of a run. `idle` counts the iterations since the dual value last rose enough for the steps taken; `astray` says
    that the last values cannot be right."""

    def __init__(self, n: int, stop: Stop, control: Control) -> None:
        self.trace = Trace()
        self._stop, self._control = stop, control
        self._worst_violation = 0.0
        self._most_steps = max(MOST_STEPS, STEPS_PER_VARIABLE * n)
        self.idle = 0
        self.astray = False
        self._steps = self._steps_at_rise = 0
        self._dual_at_rise, self._gap_at_rise = -np.inf, np.inf
        self._highest_dual, self._lowest_primal = -np.inf, np.inf
        self._smallest_gap, self._smallest_at = np.inf, 0

    def add(
        self, violation: float, dual: float, gap: float, terms: float = 0.0, steps: int = 0, tol: float = 0.0
    ) -> Status | None:
        """Add the values after an iteration and report them; return the reason to end, if the control has one. `terms` is the
        size of the terms of the dual value, `steps` the number of steps since the start."""
        iteration = len(self.trace.gap)
        self._judge(iteration, dual, gap, terms, steps, tol)
        self.trace.append(self._control.seconds, iteration, violation, dual, gap)
        self._worst_violation = max(self._worst_violation, violation)
        fraction = fraction_done(self._stop, self._worst_violation, violation, self.relative_gap)
        return self._control.report(iteration, violation, self.relative_gap, fraction) or self._control.ended()

    def _judge(self, iteration: int, dual: float, gap: float, terms: float, steps: int, tol: float) -> None:
        """Whether the new values show progress, and whether they can be right."""
        left = self.trace.gap[-1] if self.trace.gap else np.inf
        rise = dual - self._highest_dual
        hopeless = LEAST_RISE * gap * min(1.0, (steps - self._steps_at_rise) / STEPS_AT_ONCE) if np.isfinite(gap) else 0.0
        worth = max(NEGLIGIBLE_RISE * terms, hopeless)
        gains = dual - self._dual_at_rise > worth or gap < FALL * self._gap_at_rise
        if rise <= max(left, tol) and gains:
            self.idle, self._dual_at_rise, self._gap_at_rise, self._steps_at_rise = 0, dual, gap, steps
        else:
            self.idle += PATIENCE // 3 + 1 if steps - self._steps >= STEPS_AT_ONCE else 1
        self._steps = steps
        self._lowest_primal = min(self._lowest_primal, dual + gap)
        above = dual - self._lowest_primal > WRONG_VALUE * abs(self._lowest_primal)
        below = -rise > max(left, self._lowest_primal - self._highest_dual, WRONG_VALUE * abs(self._highest_dual))
        self.astray = above or below
        self._highest_dual = max(self._highest_dual, dual)
        if gap < FALL * self._smallest_gap:
            self._smallest_gap, self._smallest_at = gap, iteration

    @property
    def relative_gap(self) -> float:
        """The relative gap after the last iteration; infinite before the first."""
        return self.trace.relative_gap() if self.trace.gap else np.inf

    @property
    def stalled(self) -> bool:
        """Whether the run has made no progress for too many iterations, or takes too many steps."""
        long_ago = len(self.trace.gap) - 1 - self._smallest_at > LONG_PATIENCE
        return self.idle > PATIENCE or long_ago or self._steps > self._most_steps
