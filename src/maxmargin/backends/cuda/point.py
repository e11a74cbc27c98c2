"""A point whose duals and gradient lie on a device, in float64. The host sees a working set, counts, levels and sums."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
import torch

from maxmargin.backends.cuda.gram import DeviceGram
from maxmargin.backends.cuda.packing import upload
from maxmargin.backends.native.point import NativePoint
from maxmargin.backends.point import Indices, MeasuredViolation, Part, Point, Vector, Violation
from maxmargin.formulations import DualProblem, Sums
from maxmargin.gram import DoubledGram, Gram

SHARE_FOR_FREE = 0.75  # share of a working set for free variables when not all of them fit
INFINITY = float("inf")


class DevicePoint(Point):
    """Variables may share a sample: with a `DoubledGram`, variables k and k + n do."""

    def __init__(self, problem: DualProblem, gram: Gram, beta: torch.Tensor, gradient: torch.Tensor) -> None:
        self.problem, self.gram = problem, gram
        self._inner: DeviceGram = gram.inner if isinstance(gram, DoubledGram) else gram  # type: ignore[assignment]
        self._beta, self._gradient = beta, gradient

    @classmethod
    def placed(cls, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Self:
        """The point with these duals and this gradient."""
        inner = gram.inner if isinstance(gram, DoubledGram) else gram
        if not isinstance(inner, DeviceGram):
            raise TypeError(f"a point on a device needs a kernel matrix there, not a {type(gram).__name__}")
        return cls(problem, gram, *(upload(vector, inner.device) for vector in (beta, gradient)))

    # --- the problem on the device ----------------------------------------------------------------------------------

    @cached_property
    def _linear(self) -> torch.Tensor:
        return self._upload(self.problem.linear)

    @cached_property
    def _lower(self) -> torch.Tensor:
        return self._upload(self.problem.lower)

    @cached_property
    def _upper(self) -> torch.Tensor:
        return self._upload(self.problem.upper)

    @cached_property
    def _shift(self) -> torch.Tensor | None:
        return None if self.problem.shift is None else self._upload(self.problem.shift)

    def _upload(self, values: Vector | Indices) -> torch.Tensor:
        return upload(values, self._inner.device)

    def _groups(self) -> list[slice]:
        """The groups; without any, all variables."""
        return self.problem.groups or [slice(0, len(self.problem))]

    def _at_variables(self, violation: Violation) -> torch.Tensor | float:
        """The level of each variable's group."""
        level = self.problem.at_variables(violation.levels)
        return level if isinstance(level, float) else self._upload(level)

    def _mobility(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The variables that may rise, and those that may fall."""
        return self._beta < self._upper, self._beta > self._lower

    # --- looking ----------------------------------------------------------------------------------------------------

    def measure(self) -> Violation:
        rise, fall = self._mobility()
        lowest, highest = self._gradient.where(rise, INFINITY), self._gradient.where(fall, -INFINITY)
        free = rise & fall
        found, counts = [], []
        for group in self._groups():
            ranked = self._gradient[group][free[group]].sort().values
            counts.append(len(ranked))
            middle = ranked[len(ranked) // 2] if len(ranked) else ranked.new_tensor(INFINITY)
            found.append(torch.stack([_extreme(lowest[group], -1.0), _extreme(highest[group], 1.0), middle]))
        extremes = torch.stack(found).tolist()
        if not self.problem.coupled:
            ((low, high, _),) = extremes
            return MeasuredViolation(max(0.0, -low, high), (), counts[0])
        value = max(0.0, *(high - low for low, high, _ in extremes))
        return MeasuredViolation(value, [_level(*one) for one in extremes], sum(counts))

    def choose(self, violation: Violation, threshold: float, size: int, extra_share: float, seed: int) -> tuple[Indices, bool]:
        rise, fall = self._mobility()
        above = self._gradient - self._at_variables(violation)
        wrong_by = torch.maximum((-above).where(rise, -INFINITY), above.where(fall, -INFINITY))  # a fixed variable: -inf
        is_free, violates = rise & fall, wrong_by > threshold
        free, violators = is_free.nonzero()[:, 0], (violates & ~is_free).nonzero()[:, 0]
        n_wanted = len(free) + len(violators)
        chosen = []
        room = min(int(extra_share * n_wanted), size - n_wanted)
        if room > 0:
            nearest = wrong_by.masked_fill(violates | is_free, -INFINITY)
            values, extra = nearest.topk(min(room, len(nearest)))
            chosen.append(extra[values > -INFINITY])
        draw = torch.Generator(free.device).manual_seed(seed)
        free = _draw(draw, free, max(int(SHARE_FOR_FREE * size), size - len(violators)))
        chosen += [free, _draw(draw, violators, size - len(free))]
        for group in self._groups():
            own = self._gradient[group]
            if len(own):
                lowest, highest = own.where(rise[group], INFINITY), own.where(fall[group], -INFINITY)
                ends = torch.stack([lowest.argmin(), highest.argmax()]) + group.start
                chosen.append(ends[torch.stack([rise[ends[0]], fall[ends[1]]])])
        return torch.cat(chosen).unique().cpu().numpy().astype(np.int32), n_wanted <= size

    def sums(self) -> Sums:
        beta, gradient = self._beta, self._gradient
        size = beta.abs()
        dual, terms, mass, total, curvature, n_support = torch.stack(
            [
                -0.5 * (beta @ (gradient + self._linear)),
                size @ (gradient.abs() + self._linear.abs()),
                size.sum(),
                beta.sum(),
                beta @ (gradient - self._linear),
                beta.count_nonzero().double(),
            ]
        ).tolist()
        return Sums(dual, terms, mass, total, curvature, int(n_support))

    def gap(self, violation: Violation) -> float:
        problem, beta, gradient = self.problem, self._beta, self._gradient
        if problem.hard:  # a sum that depends on the worst variable: by the text of the host
            end, level = self.collect(), problem.at_variables(violation.levels)
            return float(problem.gap_terms(end.beta, end.gradient, level).sum())
        above = gradient - self._at_variables(violation)
        if self._shift is None:
            return float(torch.maximum((beta - self._lower) * above, (beta - self._upper) * above).sum())
        errors = above - self._shift * beta
        pull = torch.minimum(torch.maximum(-errors / self._shift, self._lower), self._upper)
        missing = beta - pull
        beyond = (errors + self._shift * pull).where((pull == self._lower) | (pull == self._upper), 0.0)
        return float((missing * beyond + 0.5 * self._shift * missing**2).sum())

    def band(self, members: Indices, violation: Violation, width: float) -> Indices:
        near = (self._gradient - self._at_variables(violation)).abs() <= width
        near[self._upload(members)] = True
        return np.asarray(near.nonzero()[:, 0].cpu().numpy().astype(np.int32))

    # --- moving -----------------------------------------------------------------------------------------------------

    def take(self, members: Indices) -> Part:
        at = self._upload(members)
        beta, gradient = torch.stack([self._beta[at], self._gradient[at]]).cpu().numpy()
        return Part(self.problem.restrict(members), beta, gradient)

    def move(self, members: Indices, beta: Vector, propagate: bool = True) -> bool:
        at, after = self._upload(members), self._upload(beta)
        change = after - self._beta[at]
        moved = change.nonzero()[:, 0]
        if not len(moved):
            return False
        if propagate:
            self._add_to_gradient(at[moved], change[moved])
        self._beta[at] = after
        return True

    def _add_to_gradient(self, rows: torch.Tensor, change: torch.Tensor) -> None:
        sums = self._inner.sums(self._sample(rows), change[None])[0]
        for start in range(0, len(self._gradient), len(sums)):
            self._gradient[start : start + len(sums)] += sums
        if self._shift is not None:
            self._gradient[rows] += self._shift[rows] * change

    def _sample(self, variables: torch.Tensor) -> torch.Tensor:
        return variables if self._inner is self.gram else variables % len(self._inner)

    def exact(self, at: Indices) -> Vector:
        support, queries = self._beta.nonzero()[:, 0], self._upload(at)
        gradient = self._linear[queries]
        if len(support):
            sums = self._inner.exact(self._sample(support), self._beta[None, support], self._sample(queries))
            gradient = gradient + sums[0]
        if self._shift is not None:
            gradient = gradient + self._shift[queries] * self._beta[queries]
        return np.asarray(gradient.cpu().numpy())

    def correct(self, members: Indices, gradient: Vector) -> None:
        self._gradient[self._upload(members)] = self._upload(gradient)

    def pool(self, members: Indices, part: Part, stored: bool) -> Point:
        """A point in the memory of the host, where `part` is."""
        return NativePoint(
            part.problem, self.gram.stored(members) if stored else self.gram.subset(members), part.beta, part.gradient
        )

    def in_float64(self) -> Self:
        point = type(self)(self.problem, self.gram.in_float64(), self._beta, self._linear.clone())
        support = self._beta.nonzero()[:, 0]
        if len(support):
            point._add_to_gradient(support, self._beta[support])
        return point

    def collect(self) -> Part:
        return Part(self.problem, self._beta.cpu().numpy(), self._gradient.cpu().numpy())


def _extreme(values: torch.Tensor, sign: float) -> torch.Tensor:
    """The largest value (sign 1) or the lowest (sign -1); minus or plus infinity if there is none."""
    if not len(values):
        return values.new_tensor(-sign * INFINITY)
    return values.max() if sign > 0.0 else values.min()


def _level(lowest: float, highest: float, middle: float) -> float:
    """The level of a group: the median gradient of its free variables (of two middle ones the larger); without free variables,
    the middle between those that may rise and those that may fall."""
    if middle < INFINITY:
        return middle
    ends = [end for end in (lowest, highest) if np.isfinite(end)]
    return sum(ends) / max(len(ends), 1)


def _draw(generator: torch.Generator, candidates: torch.Tensor, count: int) -> torch.Tensor:
    """So many of the candidates, drawn at random; all if they are not more."""
    if len(candidates) <= count:
        return candidates
    return candidates[torch.randperm(len(candidates), generator=generator, device=candidates.device)[:count]]
