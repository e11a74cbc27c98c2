"""The one quadratic programme that every machine here solves, and its duality gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

NEWTON_STEPS = 100


@dataclass(frozen=True)
class DualProblem:
    r"""A dual problem in signed variables.

        min    1/2 beta' (K + diag(shift)) beta + linear' beta
        s.t.   lower <= beta <= upper,   sum of beta over each group = that of start   if coupled

    given a kernel matrix K that this object does not hold. ``shift`` is zero except for the quadratic loss, where it
    is 1 / (2 C_i). ``start`` is a point to begin from, zero if None. There is one group, all variables, or two where the
    machine has a second parameter besides the bias (nu): those before ``split`` and those from there on.

    **The duality gap.** With the gradient G = (K + diag(shift)) beta + linear and any level v of each group (for one
    group, minus the bias), the gap between the primal value at (w, v) and the dual value at beta is a sum of one term
    >= 0 per variable:

    * a finite box, the hinge loss:
      ``(beta - lower) max(G - v, 0) + (upper - beta) max(v - G, 0)``;
    * a half-line with a shift s, the quadratic loss: with r = G - v signed so that the box is [0, inf) and a = |beta|,
      ``r^2 / (2 s)`` where the sample has slack (r < a s), else ``a (r - a s / 2)``;
    * a half-line without a shift, the hard margin: the primal point is feasible only after dividing it by its smallest
      margin 1 - d, so the gap is that of the scaled point (see `gap`).
    """

    linear: Vector
    lower: Vector
    upper: Vector
    shift: Vector | None = None
    coupled: bool = True
    split: int | None = None
    start: Vector | None = None

    def __len__(self) -> int:
        return len(self.linear)

    @cached_property
    def hard(self) -> bool:
        """Whether some variable has neither a finite box nor a shift: a hard margin."""
        return self.shift is None and not bool(
            np.isfinite(self.upper).all() and np.isfinite(self.lower).all()
        )

    def dual_value(self, beta: Vector, gradient: Vector) -> float:
        """Minus the objective: 1/2 beta'(K + diag(shift)) beta = 1/2 beta'(G - linear)."""
        return float(-0.5 * (beta @ (gradient + self.linear)))

    @property
    def edges(self) -> tuple[int, ...]:
        """Where the groups, one after the other, begin and end; empty if there are none."""
        if not self.coupled:
            return ()
        return (0, len(self)) if self.split is None else (0, self.split, len(self))

    @property
    def groups(self) -> list[slice]:
        """The variables of each equality constraint."""
        return [slice(*edge) for edge in pairwise(self.edges)]

    def residuals(self, beta: Vector) -> Vector:
        """By how much each equality constraint is missed."""
        start = np.zeros(1) if self.start is None else self.start
        return np.array([beta[g].sum() - (start[g].sum() if self.start is not None else 0.0) for g in self.groups])

    def feasible(self, beta: Vector) -> Vector:
        """A point near `beta` that satisfies the constraints: clipped to the box; then, in each group whose sum is off,
        all move towards the bound on that side by the same share of the way."""
        beta = np.clip(beta, self.lower, self.upper)
        for group, residual in zip(self.groups, self.residuals(beta), strict=True):
            room = beta[group] - (self.lower if residual > 0 else self.upper)[group]  # what may be taken away
            room[~np.isfinite(room)] = 0.0
            if residual != 0.0 and (total := float(room.sum())) != 0.0:
                beta[group] -= room * min(1.0, residual / total)
        return beta

    def carry_over(self, other: DualProblem, beta: Vector) -> Vector:
        """What `beta`, a point of a problem of the same size with another box, is here: bounds go to bounds."""
        at_lower, at_upper = beta == other.lower, beta == other.upper
        bound = np.where(at_lower, self.lower, np.where(at_upper, self.upper, beta))
        return self.feasible(np.where(np.isfinite(bound), bound, beta))

    def levels(self, beta: Vector, gradient: Vector) -> Vector:
        """The level v of each group with the smallest gap. For one group that is minus the bias with the smallest
        primal value."""
        return np.array([self._level_of(group, beta[group], gradient[group]) for group in self.groups])

    def at_variables(self, levels: Sequence[float] | Vector) -> float | Vector:
        """The level of each variable's group."""
        if len(levels) < 2:
            return float(levels[0]) if len(levels) else 0.0
        return np.repeat(np.asarray(levels), np.diff(self.edges))

    def best_level(self, beta: Vector, gradient: Vector) -> float | Vector:
        """`levels`, for each variable; a number where they are all the same."""
        return self.at_variables(self.levels(beta, gradient))

    def _level_of(self, group: slice, beta: Vector, gradient: Vector) -> float:
        lower, upper = self.lower[group], self.upper[group]
        taking_part = lower < upper
        if not taking_part.any():
            return 0.0
        if self.hard:
            rise, fall = beta < upper, beta > lower
            return float(0.5 * (gradient[rise].min() + gradient[fall].max())) if fall.any() and rise.any() else 0.0
        if self.shift is None:
            return _lowest_point((beta - lower)[taking_part], (upper - beta)[taking_part], gradient[taking_part])
        shift = self.shift[group]
        edge = (gradient - shift * beta)[taking_part]
        return _least_squares_level(edge, upper[taking_part] > 0.0, 1.0 / shift[taking_part])

    def gap_terms(self, beta: Vector, gradient: Vector, level: float | Vector, error: float = 0.0) -> Vector:
        """The duality gap, sample by sample. Each term is >= 0; their sum is primal - dual.

        If no entry of `gradient` is off by more than `error`, no term is larger than what is returned here.
        """
        if self.hard:
            return self._hard_terms(beta, gradient, level, error)
        if self.shift is None:
            above = np.maximum(gradient - level + error, 0.0)
            below = np.maximum(level - gradient + error, 0.0)
            return (beta - self.lower) * above + (self.upper - beta) * below
        inward = self._inward(gradient, level)
        size, shift = np.abs(beta), self.shift

        def terms(r: Vector) -> Vector:
            return np.where(r < size * shift, r**2 / (2.0 * shift), size * (r - 0.5 * size * shift))

        largest = np.maximum(terms(inward - error), terms(inward + error))  # they are convex in r
        return np.where(self.lower == self.upper, 0.0, largest)

    def _inward(self, gradient: Vector, level: float | Vector) -> Vector:
        """G - v, signed so that a half-line is [0, inf)."""
        return np.where(np.isfinite(self.lower), gradient - level, level - gradient)

    def _hard_terms(self, beta: Vector, gradient: Vector, level: float | Vector, error: float) -> Vector:
        """|beta_i| (margin_i - 1), and on the worst sample what scaling to feasibility costs."""
        inward = self._inward(gradient, level)
        fixed = self.lower == self.upper
        terms = np.where(fixed, 0.0, np.abs(beta) * np.maximum(inward + error, 0.0))
        shortfall = np.where(fixed, 0.0, np.maximum(error - inward, 0.0))
        worst = int(shortfall.argmax())
        missing = float(shortfall[worst])
        if missing >= 1.0:
            terms[worst] = np.inf
            return terms
        norm = float(beta @ (gradient - self.linear)) + error * float(np.abs(beta).sum())
        dual = self.dual_value(beta, gradient) - error * float(np.abs(beta).sum())
        gap = 0.5 * norm / (1.0 - missing) ** 2 - dual
        terms[worst] += max(gap - float(terms.sum()), 0.0)
        return terms

    def violation(self, beta: Vector, gradient: Vector) -> float:
        """max_{may fall} G - min_{may rise} G in the worst group, or without groups the steepest slope into the box."""
        rise = np.where(beta < self.upper, gradient, np.inf)
        fall = np.where(beta > self.lower, gradient, -np.inf)
        if not self.coupled:
            return float(max(0.0, -rise.min(initial=0.0), fall.max(initial=0.0)))
        worst = [fall[g].max(initial=-np.inf) - rise[g].min(initial=np.inf) for g in self.groups]
        return float(max(0.0, *worst))

    @staticmethod
    def join(problems: Sequence[DualProblem]) -> DualProblem:
        """Problems of one kind, one after the other. The sums of `gap_terms` are then still theirs, part by part."""
        shifts = [problem.shift for problem in problems if problem.shift is not None]
        return DualProblem(
            np.concatenate([problem.linear for problem in problems]),
            np.concatenate([problem.lower for problem in problems]),
            np.concatenate([problem.upper for problem in problems]),
            np.concatenate(shifts) if shifts else None,
            problems[0].coupled,
        )

    def restrict(self, members: NDArray[np.integer]) -> DualProblem:
        """The same problem over some of its variables (ascending), the others held where they are; so the sums are
        those of whatever point it is begun from."""
        return DualProblem(
            self.linear[members],
            self.lower[members],
            self.upper[members],
            None if self.shift is None else self.shift[members],
            self.coupled,
            None if self.split is None else int(np.searchsorted(members, self.split)),
        )


def _lowest_point(fall: Vector, rise: Vector, at: Vector) -> float:
    """Minimise sum fall_i max(at_i - v, 0) + rise_i max(v - at_i, 0) over v: a weighted quantile, or its middle."""
    order = np.argsort(at, kind="stable")
    at, weight = at[order], (fall + rise)[order]
    # slope right of at[k] = (weights up to k) - sum(fall); the minimum is where it turns from negative to positive
    slope = np.cumsum(weight) - fall.sum()
    tolerance = 1e-12 * max(float(weight.sum()), np.finfo(float).tiny)
    first = int(np.searchsorted(slope, -tolerance))
    first = min(first, len(at) - 1)
    last = first
    while last + 1 < len(at) and abs(slope[last]) <= tolerance:
        last += 1
    return float(0.5 * (at[first] + at[last]))


def _least_squares_level(edge: Vector, positive: NDArray[np.bool_], weight: Vector) -> float:
    """Minimise sum weight_i max(0, v - edge_i)^2 over the positive i and max(0, edge_i - v)^2 over the others.

    Newton's method: the weighted mean of those with slack, until they stay the same. Few steps; any v will do.
    """
    level = float(edge.mean()) if len(edge) else 0.0
    for _ in range(NEWTON_STEPS):
        slack = np.where(positive, level > edge, level < edge)
        if not slack.any():
            break
        previous, level = level, float(np.average(edge[slack], weights=weight[slack]))
        if level == previous:
            break
    return level
