"""The one quadratic programme that every machine here solves, and its duality gap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import fsum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations.filling import fill_up

Vector = NDArray[np.float64]

ROUNDING = 1e-14  # rounding error of a sum, relative to the sum of absolute values


class Sums(NamedTuple):
    """Sums over the variables of a point: the dual value and the size of its terms; the sums of |beta| and of beta; beta' (K +
    diag(shift)) beta; and how many variables are not zero. Those of a point in parts are the sums of its parts."""

    dual: float
    terms: float
    mass: float
    total: float
    curvature: float
    n_support: int


@dataclass(frozen=True)
class DualProblem:
    r"""A dual problem in signed variables.

        min    1/2 beta' (K + diag(shift)) beta + linear' beta
        s.t.   lower <= beta <= upper,   sum of beta over each group = that of start   if coupled

    given a kernel matrix K that this object does not hold. ``shift`` is zero except for the quadratic loss, where it
    is 1 / (2 C_i). ``start`` is a point to begin from, zero if None. There is one group, all variables, or two where the
    machine has a second parameter besides the bias (nu): those before ``split`` and those from there on.

    **The duality gap.** Let G = (K + diag(shift)) beta + linear be the gradient and v any level of each group (for one group,
    minus the bias). Then E = G - shift beta - v is the error of each sample, w . phi(x) + b - y for classification. The loss of
    a sample is the support function of its box, smoothed by its shift:

        loss(E) = max { -b E - 1/2 shift b^2 : lower <= b <= upper },    attained at  b = pull(E) = clip(-E / shift, lower, upper)

    and the gap between the primal value 1/2 |w|^2 + sum loss(E) - sum_g (sum of group g) v_g and the dual value at beta is a
    sum of one term >= 0 per variable (Fenchel and Young's inequality):

        loss(E) + beta E + 1/2 shift beta^2  =  (beta - pull) (E + shift pull) + 1/2 shift (beta - pull)^2.

    The right side is a sum of two terms >= 0, in which nothing cancels. One formula for every box and shift: the hinge (a
    finite box, no shift), the quadratic loss (a half-line and a shift), the hinge with a rounded corner (a finite box and a
    shift).

    A half-line without a shift, the hard margin, has an infinite loss wherever a margin is missing. There the primal point is
    feasible only after dividing it by its smallest margin 1 - d, and the gap is that of the scaled point.
    """

    linear: Vector
    lower: Vector
    upper: Vector
    shift: Vector | None = None
    coupled: bool = True
    split: int | None = None
    start: Vector | None = None
    #: The problem that this one was cut from, and where it begins there (`cut`).
    cut_from: ClassVar[tuple[DualProblem, int] | None] = None

    def __post_init__(self) -> None:
        n = len(self.linear)
        for name in ("lower", "upper", "shift", "start"):
            vector = getattr(self, name)
            if vector is not None and vector.shape != (n,):
                raise ValueError(f"{name} has shape {vector.shape}: must be ({n},), as linear is")
        if not np.isfinite(self.linear).all():
            raise ValueError("linear must be finite: the targets are too large, or not numbers")
        if not (self.lower <= self.upper).all():  # false for NaN too
            raise ValueError("lower must not be above upper: the box of a variable is empty")
        if self.shift is not None and not (self.shift > 0.0).all():
            raise ValueError("shift must be positive where there is one")
        if self.start is not None and not ((self.lower <= self.start) & (self.start <= self.upper)).all():
            raise ValueError("start must be inside the box")
        if self.split is not None and not 0 <= self.split <= n:
            raise ValueError(f"split={self.split}: must be between 0 and {n}")

    @classmethod
    def _unchecked(cls, **parts: Any) -> DualProblem:
        """Make a problem without checks, from parts of a problem that was checked."""
        problem = object.__new__(cls)
        vars(problem).update(parts)  # what is not given has the default, which is an attribute of the class
        return problem

    def __len__(self) -> int:
        return len(self.linear)

    @cached_property
    def hard(self) -> bool:
        """Whether some variable has neither a finite box nor a shift: a hard margin."""
        return self.shift is None and not self.bounded

    @property
    def starts_at_zero(self) -> bool:
        """Whether the problem is that of a soft margin with at most one group, whose variables sum to zero: one that compiled
        code solves together with others."""
        return not self.hard and self.split is None and self.start is None

    @cached_property
    def balanced(self) -> bool:
        """Whether the variables of every feasible point sum to zero."""
        if self.start is None:
            return self.coupled
        return self.coupled and abs(fsum(self.start.tolist())) <= ROUNDING * float(np.abs(self.start).sum())

    @cached_property
    def bounded(self) -> bool:
        """Whether every box is finite."""
        return bool(np.isfinite(self.upper - self.lower).all())

    def sums(self, beta: Vector, gradient: Vector) -> Sums:
        """The sums over all variables that a solver looks at."""
        size = np.abs(beta)
        return Sums(
            dual=self.dual_value(beta, gradient),
            terms=float(size @ (np.abs(gradient) + np.abs(self.linear))),
            mass=float(size.sum()),
            total=float(beta.sum()),
            curvature=float(beta @ (gradient - self.linear)),
            n_support=int(np.count_nonzero(beta)),
        )

    def dual_value(self, beta: Vector, gradient: Vector) -> float:
        """The dual value, minus the objective: 1/2 beta'(K + diag(shift)) beta = 1/2 beta'(G - linear)."""
        return float(-0.5 * (beta @ (gradient + self.linear)))

    @property
    def edges(self) -> tuple[int, ...]:
        """The positions where the consecutive groups begin and end; empty without groups."""
        if not self.coupled:
            return ()
        return (0, len(self)) if self.split is None else (0, self.split, len(self))

    @property
    def groups(self) -> list[slice]:
        """The variables of each equality constraint."""
        return [slice(*edge) for edge in pairwise(self.edges)]

    def residuals(self, beta: Vector) -> Vector:
        """The residual of each equality constraint, summed without rounding errors."""
        off = [beta[group] for group in self.groups]
        if self.start is not None:
            off = [np.concatenate([part, -self.start[group]]) for part, group in zip(off, self.groups, strict=True)]
        return np.array([_exact_sum(part) for part in off])

    def feasible(self, beta: Vector, reluctance: Vector | None = None) -> Vector:
        """A point near `beta` that satisfies the constraints. `beta` is clipped to the box; then, in each group with a wrong sum,
        one variable after the other moves as far as necessary or possible, in the order of their `reluctance`. By default free
        variables move first, then those at a bound other than zero, so that few variables change their state."""
        beta = np.clip(beta, self.lower, self.upper)
        for group, residual in self._sums_that_are_off(beta):
            if reluctance is None:
                free = (beta > self.lower) & (beta < self.upper)
                reluctance = np.where(free, 0.0, np.where(beta != 0.0, 1.0, 2.0))
            bound = (self.lower if residual > 0 else self.upper)[group]
            room = np.minimum(np.abs(beta[group] - bound), abs(residual))
            turn = np.argsort(reluctance[group], kind="stable")
            beta[group.start + turn] -= np.sign(residual) * fill_up(room[turn], abs(residual))
        return np.clip(beta, self.lower, self.upper)  # rounding may have led just outside the box

    def _sums_that_are_off(self, beta: Vector) -> list[tuple[slice, float]]:
        """The groups whose sum is wrong by more than rounding, and the residual of each."""
        groups = zip(self.groups, self.residuals(beta), strict=True)
        return [(g, residual) for g, residual in groups if abs(residual) > ROUNDING * np.abs(beta[g]).sum()]

    def with_exact_sums(self, beta: Vector) -> Vector:
        """`beta` with sums as exact as float64 allows: a free variable takes the residual of its group, a smaller one takes the
        rounding error of that change, and so on. This matters where large kernel values multiply a sum that should be zero."""
        beta = beta.copy()
        free = (self.lower < beta) & (beta < self.upper)
        for group, residual in zip(self.groups, self.residuals(beta), strict=True):
            members = group.start + np.flatnonzero(free[group])
            for k in members[np.argsort(-np.abs(beta[members]))][:: max(1, len(members) // 8)]:
                if residual == 0.0:
                    break
                if self.lower[k] < beta[k] - residual < self.upper[k]:
                    beta[k] -= residual
                    residual = self.residuals(beta)[self.groups.index(group)]
        return beta

    def vertex(self, gradient: Vector) -> Vector:
        """The feasible point that minimises the product with `gradient`, to which a step of Frank and Wolfe's method leads: the
        variables with the lowest gradients are at the upper bound, as many as the sums allow. The boxes must be finite."""
        if not self.coupled:
            return np.where(gradient < 0.0, self.upper, self.lower)
        beta = self.lower.copy()
        for group, residual in zip(self.groups, self.residuals(beta), strict=True):
            turn = group.start + np.argsort(gradient[group], kind="stable")
            beta[turn] += fill_up((self.upper - self.lower)[turn], -residual)
        return np.minimum(beta, self.upper)  # rounding may have led just outside the box

    def carry_over(self, other: DualProblem, beta: Vector, gradient: Vector | None = None) -> tuple[Vector, float]:
        """A start for this problem from `beta`, the solution of `other`, a problem over the same kernel matrix with another box;
        and the factor r for which this start is close to r beta.

        If most of the weight is at the bounds, the whole solution grows with the box. If most of it is free, the box matters
        little, and only the variables at a bound move with it. If the gradient at `beta` is given, variables near their level
        move to make the sums right.
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
        """The gradient of this problem at r beta, from the gradient of `other`, over the same kernel matrix, at beta."""
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
        """The best level (`levels`) of each variable's group; a single number if it is the same for all."""
        return self.at_variables(self.levels(beta, gradient))

    def _level_of(self, group: slice, beta: Vector, gradient: Vector) -> float:
        lower, upper = self.lower[group], self.upper[group]
        taking_part = lower < upper
        if not taking_part.any():
            return 0.0
        if self.hard:  # the middle between the classes, which makes the smallest margin as large as possible
            positive, negative = np.isinf(upper), np.isinf(lower)
            middle = 0.5 * (gradient[positive].min(initial=np.inf) + gradient[negative].max(initial=-np.inf))
            return float(middle) if positive.any() and negative.any() else 0.0
        if self.shift is None:
            return _lowest_point(beta - lower, upper - beta, gradient)
        shift = self.shift[group]
        errors = (gradient - shift * beta)[taking_part]
        total = float(beta[taking_part].sum())
        return _balanced_level(errors, shift[taking_part], lower[taking_part], upper[taking_part], total)

    def pull(self, errors: Vector) -> Vector:
        """The duals that belong to the errors E: minus the derivative of each sample's loss."""
        if self.shift is None:
            return np.where(errors < 0.0, self.upper, self.lower)
        return np.clip(-errors / self.shift, self.lower, self.upper)

    def gap_terms(self, beta: Vector, gradient: Vector, level: float | Vector, error: float | Vector = 0.0) -> Vector:
        """The duality gap, sample by sample. Each term is >= 0; their sum is primal - dual.

        If no entry of `gradient` is off by more than `error`, no term is larger than what is returned here.
        """
        if self.hard:
            return self._hard_terms(beta, gradient, level, error)
        if self.shift is None:
            above = gradient - level
            return np.maximum((beta - self.lower) * (error + above), (self.upper - beta) * (error - above))
        errors = gradient - level - self.shift * beta
        if np.ndim(error) == 0 and error == 0.0:
            return self._terms(beta, errors)
        return np.maximum(self._terms(beta, errors - error), self._terms(beta, errors + error))  # they are convex in E

    def _terms(self, beta: Vector, errors: Vector) -> Vector:
        """The gap terms of a problem with a shift."""
        assert self.shift is not None
        pull = self.pull(errors)
        missing = beta - pull
        # a clipped pull has E + shift pull on the side of the box; elsewhere that is zero, but for rounding
        beyond = np.where((self.lower < pull) & (pull < self.upper), 0.0, errors + self.shift * pull)
        return np.asarray(missing * beyond + 0.5 * self.shift * missing**2)

    def _inward(self, gradient: Vector, level: float | Vector) -> Vector:
        """G - v, signed so that a half-line is [0, inf)."""
        return np.where(np.isfinite(self.lower), gradient - level, level - gradient)

    def _hard_terms(self, beta: Vector, gradient: Vector, level: float | Vector, error: float | Vector) -> Vector:
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
        doubt = float((error * np.abs(beta)).sum())
        norm = float(beta @ (gradient - self.linear)) + doubt
        dual = self.dual_value(beta, gradient) - doubt
        gap = 0.5 * norm / (1.0 - missing) ** 2 - dual
        terms[worst] += max(gap - float(terms.sum()), 0.0)
        return terms

    def violation(self, beta: Vector, gradient: Vector) -> float:
        """max_{may fall} G - min_{may rise} G in the worst group, or without groups the steepest slope into the box."""
        if self.coupled:
            return float(max(0.0, *(highest - lowest for lowest, highest in self._extremes(beta, gradient))))
        rise = np.where(beta < self.upper, gradient, np.inf)
        fall = np.where(beta > self.lower, gradient, -np.inf)
        return float(max(0.0, -rise.min(initial=0.0), fall.max(initial=0.0)))

    def middles(self, beta: Vector, gradient: Vector) -> Vector:
        """The level of each group in the middle between variables that may rise and variables that may fall: not far from the
        best level, and faster to find."""
        ends = [[end for end in pair if np.isfinite(end)] for pair in self._extremes(beta, gradient)]
        return np.array([sum(pair) / max(len(pair), 1) for pair in ends])

    def _extremes(self, beta: Vector, gradient: Vector) -> list[tuple[float, float]]:
        """min_{may rise} G and max_{may fall} G of each group."""
        rise = np.where(beta < self.upper, gradient, np.inf)
        fall = np.where(beta > self.lower, gradient, -np.inf)
        return [(float(rise[g].min(initial=np.inf)), float(fall[g].max(initial=-np.inf))) for g in self.groups]

    @staticmethod
    def join(problems: Sequence[DualProblem]) -> DualProblem:
        """Concatenate problems of one kind. The `gap_terms` of the result are those of the problems, one after the other."""
        if (whole := _whole_of(problems)) is not None:
            return whole
        shifts = [problem.shift for problem in problems if problem.shift is not None]
        return DualProblem._unchecked(
            linear=np.concatenate([problem.linear for problem in problems]),
            lower=np.concatenate([problem.lower for problem in problems]),
            upper=np.concatenate([problem.upper for problem in problems]),
            shift=np.concatenate(shifts) if shifts else None,
            coupled=problems[0].coupled,
        )

    def cut(self, ends: Sequence[int]) -> list[DualProblem]:
        """The problems that `join` would make into this one again: the first ends at `ends[0]`, and so on. They are views."""
        known = {"bounded": True, "hard": False} if self.bounded else {}
        return [
            self._unchecked(
                linear=self.linear[first:last],
                lower=self.lower[first:last],
                upper=self.upper[first:last],
                shift=None if self.shift is None else self.shift[first:last],
                coupled=self.coupled,
                cut_from=(self, first),
                **known,
            )
            for first, last in pairwise([0, *ends])
        ]

    def restrict(self, members: NDArray[np.integer]) -> DualProblem:
        """The problem over the variables `members` (ascending), with the others fixed; its sums are those of the point it starts
        from."""
        return self._unchecked(
            linear=self.linear[members],
            lower=self.lower[members],
            upper=self.upper[members],
            shift=None if self.shift is None else self.shift[members],
            coupled=self.coupled,
            split=None if self.split is None else int(np.searchsorted(members, self.split)),
        )


def _whole_of(problems: Sequence[DualProblem]) -> DualProblem | None:
    """The problem that was cut into these, if they are all of its parts, in their order."""
    if problems[0].cut_from is None:
        return None
    whole, end = problems[0].cut_from[0], 0
    for problem in problems:
        if problem.cut_from is None or problem.cut_from[0] is not whole or problem.cut_from[1] != end:
            return None
        end += len(problem.linear)
    return whole if end == len(whole) else None


def _exact_sum(values: Vector) -> float:
    """Rounded once; infinite if a run without an end has led that far."""
    try:
        return fsum(values[values != 0.0].tolist())
    except (OverflowError, ValueError):
        return np.inf


def _lowest_point(fall: Vector, rise: Vector, at: Vector) -> float:
    """Minimise sum fall_i max(at_i - v, 0) + rise_i max(v - at_i, 0) over v: a weighted quantile, or its middle.

    Below all points with a weight `rise` the sum only falls, above all points with a weight `fall` it only rises, so the minimum
    lies between the two, in a short range with few points. Weights that are only rounding errors count as zero.
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


def _balanced_level(errors: Vector, shift: Vector, lower: Vector, upper: Vector, total: float) -> float:
    """The level v with sum_i pull_i(v) = total, pull_i(v) = clip((v - errors_i) / shift_i, lower_i, upper_i): the derivative of
    the losses is zero there. The middle, if they are all the same between two levels.

    The sum rises with v; it is a line between two points where some pull meets a bound.
    """

    def value(v: float) -> float:
        return float(np.clip((v - errors) / shift, lower, upper).sum())

    ends = np.concatenate([errors + shift * lower, errors + shift * upper, errors[:1]])
    points = np.unique(ends[np.isfinite(ends)])
    if not len(points):  # a run without an end
        return 0.0
    slack = ROUNDING * (abs(total) + float(np.abs(np.clip(-errors / shift, lower, upper)).sum()))
    levels = []
    for target, place in ((total - slack, bisect_left), (total + slack, bisect_right)):
        k = place(points, target, key=value)
        if 0 < k < len(points):
            below, above = value(points[k - 1]), value(points[k])
            levels.append(points[k - 1] + (points[k] - points[k - 1]) * (target - below) / (above - below))
        else:  # beyond all points, where only variables without a bound still change
            end, bounds = (points[0], lower) if k == 0 else (points[-1], upper)
            slope = float((1.0 / shift[np.isinf(bounds)]).sum())
            levels.append(end + (target - value(end)) / slope if slope > 0.0 else end)
    return float(np.mean(levels))
