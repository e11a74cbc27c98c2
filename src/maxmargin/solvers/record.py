"""The course of a run, and whether it leads anywhere.

The dual value of a solver rises, by at most the gap that is left, and stays below every primal value. Where it does not, the
gradient that the values come from is wrong: rounding has led astray. And where it rises so slowly that the end is out of reach,
nothing is gained by going on.
"""

from __future__ import annotations

import numpy as np

from maxmargin.solution import Trace

STEPS_AT_ONCE = 150_000  # of an inner solve, so that an interrupt is seen within a fraction of a second
IDLE = 1e-14  # rise of the dual value, relative to the size of its terms, that counts as none
HOPELESS = 2e-3  # rise of the dual value, relative to the gap that is left, by STEPS_AT_ONCE steps: it would take forever
PATIENCE = 20  # iterations without a rise before a run counts as stalled, or one of STEPS_AT_ONCE steps
LONG_PATIENCE = 500  # iterations in which the smallest gap so far falls by less than a tenth: so does this
MOST_STEPS, STEPS_PER_VARIABLE = 10_000_000, 100  # the larger number ends a run: as in LIBSVM, where it is no option either
ASTRAY = 1e-3  # of a value: a dual value that is above the smallest primal value, or falls, by more than that is wrong


class Record:
    """The trace of a run; `idle` are the iterations since the dual value last rose by an amount worth its steps."""

    def __init__(self, n: int) -> None:
        self.trace = Trace()
        self._most_steps = max(MOST_STEPS, STEPS_PER_VARIABLE * n)
        self.idle = 0
        self.astray = False
        self._steps = self._steps_at_rise = 0
        self._dual_at_rise = -np.inf
        self._highest_dual, self._lowest_primal = -np.inf, np.inf
        self._smallest_gap, self._smallest_at = np.inf, 0

    def add(
        self, seconds: float, iteration: int, violation: float, dual: float, gap: float, size: float, steps: int, tol: float
    ) -> None:
        """The values after an iteration; `size` is that of the terms of the dual value, `steps` are those since the start."""
        left = self.trace.gap[-1] if self.trace.gap else np.inf
        rise = dual - self._highest_dual
        hopeless = HOPELESS * gap * min(1.0, (steps - self._steps_at_rise) / STEPS_AT_ONCE) if np.isfinite(gap) else 0.0
        worth = max(IDLE * size, hopeless)
        if rise <= max(left, tol) and dual - self._dual_at_rise > worth:
            self.idle, self._dual_at_rise, self._steps_at_rise = 0, dual, steps
        else:
            self.idle += PATIENCE + 1 if steps - self._steps >= STEPS_AT_ONCE else 1
        self._steps = steps
        self.trace.append(seconds, iteration, violation, dual, gap)
        self._lowest_primal = min(self._lowest_primal, dual + gap)
        above = dual - self._lowest_primal > ASTRAY * abs(self._lowest_primal)
        below = -rise > max(left, self._lowest_primal - self._highest_dual, ASTRAY * abs(self._highest_dual))
        self.astray = above or below
        self._highest_dual = max(self._highest_dual, dual)
        if gap < 0.9 * self._smallest_gap:
            self._smallest_gap, self._smallest_at = gap, iteration

    @property
    def stalled(self) -> bool:
        """Whether there was no progress worth the name for a while."""
        long_ago = len(self.trace.gap) - 1 - self._smallest_at > LONG_PATIENCE
        return self.idle > PATIENCE or long_ago or self._steps > self._most_steps
