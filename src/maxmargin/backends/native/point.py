"""A point in the memory of the host, measured and chosen from in compiled code."""

from __future__ import annotations

from maxmargin.backends.native.core import core
from maxmargin.backends.native.packing import Indices
from maxmargin.backends.point import HostPoint, Violation


class NativePoint(HostPoint):
    def measure(self) -> Violation:
        problem = self.problem
        return core.measure_violation(self._beta, problem.lower, problem.upper, self._gradient, problem.edges)

    def choose(self, violation: Violation, threshold: float, size: int, extra_share: float, seed: int) -> tuple[Indices, bool]:
        assert isinstance(violation, core.Violation)
        problem = self.problem
        state = self._beta, problem.lower, problem.upper, self._gradient, problem.edges
        return core.choose_working_set(*state, violation, threshold, size, extra_share, seed)
