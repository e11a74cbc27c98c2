"""A point whose duals and gradient lie on a device, in float64. The host sees a working set, counts, levels and sums."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
import torch

from maxmargin.backends.cuda.gram import DeviceGram, SplitTile
from maxmargin.backends.cuda.packing import upload, upload_places
from maxmargin.backends.cuda.tile import DeviceTile
from maxmargin.backends.native.point import NativePoint
from maxmargin.backends.point import Indices, MeasuredViolation, Part, Point, Vector, Violation
from maxmargin.formulations import DualProblem, Sums
from maxmargin.gram import DoubledGram, Gram

SHARE_FOR_FREE = 0.75  # share of a working set for free variables when not all of them fit
EXTREMES = 4  # two variables of each group that are in every working set, whatever its size
INFINITY = float("inf")


class DevicePoint(Point):
    """Variables may share a sample: with a `DoubledGram`, variables k and k + n do. Over a tile, a point can be measured and
    moved."""

    def __init__(
        self, problem: DualProblem, gram: Gram | DeviceTile | SplitTile, beta: torch.Tensor, gradient: torch.Tensor
    ) -> None:
        self.problem, self.gram = problem, gram  # type: ignore[assignment]
        self._inner: DeviceGram = gram.inner if isinstance(gram, DoubledGram) else gram  # type: ignore[assignment]
        self._beta, self._gradient = beta, gradient
        #: The duals in the memory of the host, for the case that the device is lost.
        self.reached: Vector | None = None

    @classmethod
    def placed(cls, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Self:
        """The point with these duals and this gradient."""
        inner = gram.inner if isinstance(gram, DoubledGram) else gram
        if not isinstance(inner, DeviceGram):
            raise TypeError(f"a point on a device needs a kernel matrix there, not a {type(gram).__name__}")
        point = cls(problem, gram, *(upload(vector, inner.device) for vector in (beta, gradient)))
        point.reached = beta
        return point

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

    def _upload(self, values: Vector) -> torch.Tensor:
        return upload(values, self._inner.device)

    def _places(self, members: Indices) -> torch.Tensor:
        return upload_places(members, self._inner.device)

    def _groups(self) -> list[slice]:
        """The groups; without any, all variables."""
        return self.problem.groups or [slice(0, len(self.problem))]

    def _at_variables(self, violation: Violation) -> torch.Tensor | float:
        """The level of each variable's group."""
        level = self.problem.at_variables(violation.levels)
        return level if isinstance(level, float) else self._upload(level)

    @cached_property
    def _infinity(self) -> torch.Tensor:
        return torch.full((), INFINITY, dtype=torch.float64, device=self._beta.device)

    # --- looking ----------------------------------------------------------------------------------------------------
    # A call of torch takes longer than its work on the card, so there are as few of them as possible.

    @cached_property
    def _mobility(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The variables that may rise, those that may fall, and those that may do both; until a dual changes."""
        rise, fall = self._beta < self._upper, self._beta > self._lower
        return rise, fall, rise & fall

    @cached_property
    def _extremes(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """For each group: the lowest gradient of a variable that may rise, the largest of one that may fall, the median of the
        free ones, and their number; and where the first two are. Until a dual or a gradient changes. The host waits for none of
        them: a copy to it takes longer than sorting all variables."""
        found = []
        for group in self._groups():
            gradient, rise, fall, free = (some[group] for some in (self._gradient, *self._mobility))
            if not len(gradient):
                found.append((gradient.new_tensor([INFINITY, -INFINITY, INFINITY, 0.0]), rise.new_zeros(0, dtype=torch.long)))
                continue
            n_free = free.sum()
            middle = gradient.where(free, self._infinity).sort().values.take(n_free // 2)
            lowest, highest = gradient.where(rise, self._infinity).min(dim=0), gradient.where(fall, -self._infinity).max(dim=0)
            numbers = torch.stack([lowest.values, highest.values, middle, n_free.double()])
            found.append((numbers, torch.stack([lowest.indices, highest.indices]) + group.start))
        return found

    def _forget(self, *known: str) -> None:
        for name in known:
            vars(self).pop(name, None)

    def measure(self) -> Violation:
        extremes = torch.stack([numbers for numbers, _ in self._extremes]).tolist()
        n_free = int(sum(count for *_, count in extremes))
        if not self.problem.coupled:
            ((low, high, *_),) = extremes
            return MeasuredViolation(max(0.0, -low, high), (), n_free)
        value = max(0.0, *(high - low for low, high, *_ in extremes))
        return MeasuredViolation(value, [_level(*one) for *one, _ in extremes], n_free)

    @cached_property
    def _n_movable(self) -> int:
        return int(np.count_nonzero(self.problem.lower < self.problem.upper))

    def choose(self, violation: Violation, threshold: float, size: int, extra_share: float, seed: int) -> tuple[Indices, bool]:
        rise, fall, free = self._mobility
        above = self._gradient - self._at_variables(violation)
        wrong_by = torch.maximum((-above).where(rise, -self._infinity), above.where(fall, -self._infinity))
        wrong_by.masked_fill_(free, -INFINITY)  # as for a variable that cannot move
        violators = wrong_by > threshold
        n_free, n_violators = violation.n_free, int(violators.sum())
        n_wanted = n_free + n_violators
        if n_wanted <= size:
            chosen = free | violators
            room = min(int(extra_share * n_wanted), size - n_wanted, self._n_movable - n_wanted)
            if room > 0:
                chosen.index_fill_(0, wrong_by.masked_fill_(violators, -INFINITY).topk(room).indices, True)
        else:
            draw = torch.Generator(free.device).manual_seed(seed)
            n_of_free = min(n_free, max(int(SHARE_FOR_FREE * size), size - n_violators))
            chosen = _draw(draw, free, n_of_free) | _draw(draw, violators, min(n_violators, size - n_of_free))
        for _, ends in self._extremes:
            chosen.index_fill_(0, ends, True)
        return chosen.nonzero()[:, 0].int().cpu().numpy(), n_wanted <= size

    @cached_property
    def _linear_and_ones(self) -> torch.Tensor:
        return torch.stack([self._linear, torch.ones_like(self._linear)])

    def sums(self) -> Sums:
        rows = torch.cat([self._gradient[None], self._linear_and_ones])
        sums, sizes = rows @ self._beta, rows.abs_() @ self._beta.abs()
        found = torch.cat([sums, sizes, self._beta.count_nonzero()[None]]).tolist()
        of_gradient, of_linear, total, size_of_gradient, size_of_linear, mass, n_support = found
        dual, curvature = -0.5 * (of_gradient + of_linear), of_gradient - of_linear
        return Sums(dual, size_of_gradient + size_of_linear, mass, total, curvature, int(n_support))

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
        near[self._places(members)] = True
        return np.asarray(near.nonzero()[:, 0].cpu().numpy().astype(np.int32))

    # --- moving -----------------------------------------------------------------------------------------------------

    def take(self, members: Indices) -> Part:
        at = self._places(members)
        beta, gradient = torch.stack([self._beta[at], self._gradient[at]]).cpu().numpy()
        return Part(self.problem.restrict(members), beta, gradient)

    def move(self, members: Indices, beta: Vector, propagate: bool = True, gradient: Vector | None = None) -> bool:
        at, after = self._places(members), self._upload(beta)
        change = after - self._beta[at]
        moved = change.nonzero()[:, 0]
        if not len(moved):
            return False
        if propagate:
            self._add_to_gradient(at[moved], change[moved])
        self._beta[at] = after
        if self.reached is not None:
            self.reached[members] = beta
        self._forget("_mobility", "_extremes")
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
        support, queries = self._beta.nonzero()[:, 0], self._places(at)
        gradient = self._linear[queries]
        if len(support):
            sums = self._inner.exact(self._sample(support), self._beta[None, support], self._sample(queries))
            gradient = gradient + sums[0]
        if self._shift is not None:
            gradient = gradient + self._shift[queries] * self._beta[queries]
        return np.asarray(gradient.cpu().numpy())

    def correct(self, members: Indices, gradient: Vector) -> None:
        self._gradient[self._places(members)] = self._upload(gradient)
        self._forget("_extremes")

    def pool(self, members: Indices, part: Part, stored: bool) -> Point:
        """A point in the memory of the host, where `part` is."""
        return NativePoint(
            part.problem, self.gram.stored(members) if stored else self.gram.subset(members), part.beta, part.gradient
        )

    def in_float64(self) -> Self:
        point = type(self)(self.problem, self.gram.in_float64(), self._beta, self._linear.clone())
        point.reached = self.reached
        support = self._beta.nonzero()[:, 0]
        if len(support):
            point._add_to_gradient(support, self._beta[support])
        return point

    def collect(self) -> Part:
        return Part(self.problem, self._beta.cpu().numpy(), self._gradient.cpu().numpy())


def _level(lowest: float, highest: float, middle: float) -> float:
    """The level of a group: the median gradient of its free variables (of two middle ones the larger); without free variables,
    the middle between those that may rise and those that may fall."""
    if middle < INFINITY:
        return middle
    ends = [end for end in (lowest, highest) if np.isfinite(end)]
    return sum(ends) / max(len(ends), 1)


def _draw(generator: torch.Generator, candidates: torch.Tensor, count: int) -> torch.Tensor:
    """So many of the candidates, a mask, drawn at random."""
    turn = torch.rand(len(candidates), generator=generator, device=candidates.device).where(candidates, -1.0)
    drawn = torch.zeros_like(candidates)
    drawn[turn.topk(count).indices] = True
    return drawn
