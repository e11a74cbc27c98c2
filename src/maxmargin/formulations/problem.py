"""The one quadratic programme that every machine here solves, and its duality gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.filling import fill_up

Vector = NDArray[np.float64]

ROUNDING = 1e-14  # of a sum, relative to the sum of absolute values


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

    def feasible(self, beta: Vector, reluctance: Vector | None = None) -> Vector:
        """A point near `beta` that satisfies the constraints: clipped to the box; then, in each group whose sum is off,
        one variable after the other moves as far as it has to or can, those with the least reluctance first. By default
        these are the free ones, then those at a bound other than zero: the fewer change their state, the better."""
        beta = np.clip(beta, self.lower, self.upper)
        for group, residual in self._sums_that_are_off(beta):
            if reluctance is None:
                free = (beta > self.lower) & (beta < self.upper)
                reluctance = np.where(free, 0.0, np.where(beta != 0.0, 1.0, 2.0))
            bound = (self.lower if residual > 0 else self.upper)[group]
            room = np.minimum(np.abs(beta[group] - bound), abs(residual))
            turn = np.argsort(reluctance[group], kind="stable")
            beta[group.start + turn] -= np.sign(residual) * fill_up(room[turn], abs(residual))
        return np.clip(beta, self.lower, self.upper)  # rounding may have led out by a hair

    def _sums_that_are_off(self, beta: Vector) -> list[tuple[slice, float]]:
        """The groups whose sum rounding does not explain, and by how much they miss it."""
        groups = zip(self.groups, self.residuals(beta), strict=True)
        return [(g, residual) for g, residual in groups if abs(residual) > ROUNDING * np.abs(beta[g]).sum()]

    def vertex(self, gradient: Vector) -> Vector:
        """The feasible point farthest down a gradient, where Frank and Wolfe's method would go: as much as the sums allow
        at the upper bound, where the gradient is lowest. The boxes must be finite."""
        if not self.coupled:
            return np.where(gradient < 0.0, self.upper, self.lower)
        beta = self.lower.copy()
        for group, residual in zip(self.groups, self.residuals(beta), strict=True):
            turn = group.start + np.argsort(gradient[group], kind="stable")
            beta[turn] += fill_up((self.upper - self.lower)[turn], -residual)
        return np.minimum(beta, self.upper)  # rounding may have led out by a hair

    def carry_over(self, other: DualProblem, beta: Vector, gradient: Vector | None = None) -> tuple[Vector, float]:
        """What `beta`, the solution of a problem over the same kernel matrix with another box, is here; and the factor r for
        which it is close to r beta.

        Where most of the weight is at the bounds, the whole solution grows with the box; where most is free, the box
        matters little, and only those at a bound move with it. With the gradient there, the sums are mended by
        variables near their level.
        """
        at_bound = (beta == other.lower) | (beta == other.upper)
        width, old = self.upper - self.lower, other.upper - other.lower
        taking_part = np.isfinite(old) & (old > 0.0) & np.isfinite(width)
        total = float(np.where(taking_part, old, 0.0).sum())
        growth = float(np.where(taking_part, width, 0.0).sum()) / total if total > 0.0 else 1.0
        size = np.abs(beta)
        r = growth if np.where(at_bound, size, -size).sum() >= 0.0 else 1.0
        moved = np.clip(np.where(at_bound & taking_part, growth * beta, r * beta), self.lower, self.upper)
        if gradient is None or not self._sums_that_are_off(moved):
            return self.feasible(moved), r
        distance = np.abs(gradient - other.best_level(beta, gradient))
        return self.feasible(moved, distance), r

    def gradient_at_multiple(self, r: float, other: DualProblem, beta: Vector, gradient: Vector) -> Vector:
        """The gradient of this problem at r beta, from that of another over the same kernel matrix at beta."""
        here = self.linear + r * (gradient - other.linear)
        if self.shift is not None and other.shift is not None:
            here += (self.shift - other.shift) * (r * beta)
        return here

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
        if self.hard:  # in the middle between the classes, so that the smallest margin is as large as it can be
            positive, negative = np.isinf(upper), np.isinf(lower)
            middle = 0.5 * (gradient[positive].min(initial=np.inf) + gradient[negative].max(initial=-np.inf))
            return float(middle) if positive.any() and negative.any() else 0.0
        if self.shift is None:
            return _lowest_point(beta - lower, upper - beta, gradient)
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
    """Minimise sum fall_i max(at_i - v, 0) + rise_i max(v - at_i, 0) over v: a weighted quantile, or its middle.

    Below all that weigh on the rise the sum only falls, above all that weigh on the fall it only rises, so the minimum is
    between the two: close together, where few others are. What rounding left of a weight is none.
    """
    tolerance = 1e-12 * max(float(fall.sum() + rise.sum()), np.finfo(float).tiny)
    lowest = float(np.where(rise > tolerance, at, np.inf).min(initial=np.inf))
    highest = float(np.where(fall > tolerance, at, -np.inf).max(initial=-np.inf))
    if highest <= lowest:  # flat between them, at zero
        ends = [end for end in (highest, lowest) if np.isfinite(end)]
        return float(np.mean(ends)) if ends else 0.0
    below = at < lowest
    between = np.flatnonzero(~below & (at <= highest))
    between = between[np.argsort(at[between], kind="stable")]
    at_sorted, weight = at[between], fall[between] + rise[between]
    # slope right of the k-th = (weights up to k) - sum(fall); the minimum is where it turns from negative to positive
    slope = np.cumsum(weight) + np.where(below, rise, -fall).sum()
    first = min(int(np.searchsorted(slope, -tolerance)), len(at_sorted) - 1)
    last = first
    while last + 1 < len(at_sorted) and abs(slope[last]) <= tolerance:
        last += 1
    return float(0.5 * (at_sorted[first] + at_sorted[last]))


def _least_squares_level(edge: Vector, positive: NDArray[np.bool_], weight: Vector) -> float:
    """Minimise sum weight_i max(0, v - edge_i)^2 over the positive i and max(0, edge_i - v)^2 over the others.

    Half the derivative is v W(v) - M(v), the weight and the moment of those with slack; it rises, and between two edges it
    is a line.
    """
    order = np.argsort(edge, kind="stable")
    edge, signed = edge[order], np.where(positive, weight, -weight)[order]
    slack_weight = np.cumsum(signed) - signed[signed < 0.0].sum()  # right of each edge
    slack_moment = np.cumsum(signed * edge) - (signed * edge)[signed < 0.0].sum()
    slope = np.maximum.accumulate(edge * slack_weight - slack_moment)
    at = max(int(np.searchsorted(slope, 0.0, side="right")) - 1, 0)
    if slack_weight[at] > 1e-12 * weight.sum():
        return float(slack_moment[at] / slack_weight[at])
    return float(0.5 * (edge[at] + edge[min(at + 1, len(edge) - 1)]))  # nobody has slack
