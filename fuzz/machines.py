r"""The machines, one class each, as a textbook states them. Nothing here is shared with the library.

With K_ij = k(x_i, x_j), f = K beta and |w|^2 = beta' K beta:

    C-SVC           min 1/2 |w|^2 + sum_i C_i xi_i         max y'beta - 1/2 |w|^2
                    xi_i = max(0, 1 - y_i (f_i + b))       0 <= y_i beta_i <= C_i, sum beta = 0
    squared hinge   ... + sum_i C_i xi_i^2                 ... - sum_i beta_i^2 / (4 C_i), y_i beta_i >= 0
    hard margin     min 1/2 |w|^2, y_i (f_i + b) >= 1      max y'beta - 1/2 |w|^2, y_i beta_i >= 0
    nu-SVC          min 1/2 |w|^2 - nu S rho               max -1/2 |w|^2
                    + sum_i s_i max(0, rho - y_i (f_i + b))  0 <= y_i beta_i <= s_i, each class adds up to nu S / 2
    eps-SVR         min 1/2 |w|^2 + sum_i C_i xi_i         max y'beta - eps |beta|_1 - 1/2 |w|^2
                    xi_i = max(0, |y_i - f_i - b| - eps)   |beta_i| <= C_i, sum beta = 0; squared loss as above
    nu-SVR          ... + nu (sum_i C_i) eps               max y'beta - 1/2 |w|^2
                                                           |beta_i| <= C_i, sum beta = 0, |beta|_1 <= nu sum_i C_i
    one-class       min 1/2 |w|^2 - nu S rho               max -1/2 |w|^2
                    + sum_i s_i max(0, rho - f_i)          0 <= beta_i <= s_i, sum beta = nu S

S is the sum of the weights s_i. Without an intercept b = 0 and the sum of beta is free. Where the intercept is a
weight like the others (dual ascent), |w|^2 has b^2 besides, the kernel is K + 1, and the sum is free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exact_kernels import Exact, Real
from .feasible import Group, feasible_points

Mask = NDArray[np.bool_]

#: Relative to its box: a variable this close to a bound is at the bound.
AT_BOUND = Real(1e-12)

FREE, NONE, WEIGHT = "free", "none", "a weight"  # what an intercept is


@dataclass
class Machine(ABC):
    """One dual point beta over the samples ``members``, with its intercept. The model returned beta / ``scale``."""

    members: NDArray[np.intp]
    beta: Exact
    bias: Any
    scale: Any = field(default=Real(1), kw_only=True)

    intercept: str = field(default=FREE, kw_only=True)

    @property
    @abstractmethod
    def lower(self) -> Exact: ...

    @property
    @abstractmethod
    def upper(self) -> Exact: ...

    @property
    def groups(self) -> list[Group]:
        """The equality constraints."""
        return [Group(np.ones(len(self.beta), dtype=bool), Real(0))] if self.intercept == FREE else []

    @abstractmethod
    def primal(self, f: Exact, half_norm: Any, loosen: Any = 0) -> Any:
        """The primal value at (w, bias) if every slack is larger by `loosen` than it seems."""

    @abstractmethod
    def dual(self, beta: Exact, half_norm: Any) -> Any:
        """The dual value at a feasible point."""

    @abstractmethod
    def slopes(self, f: Exact) -> tuple[Exact, Exact]:
        """The slopes of the dual objective (to be minimised) when a variable rises, and when it falls."""

    @property
    @abstractmethod
    def linear(self) -> Exact:
        """The size of the term that is added to f in a slope."""

    @property
    @abstractmethod
    def unit(self) -> Any:
        """The size of a decision that matters: a margin, or a target."""

    @abstractmethod
    def natural(self, dual_size: Any) -> Any:
        """The size of an objective that matters: the objective of the machine w = 0; if that is zero and the box bounds the
        coefficients, the size of the terms of the dual value."""

    @property
    def hidden(self) -> Any:
        """The sum of absolute values of dual variables that cancel in beta, and leave their rounding errors behind."""
        return Real(0)

    def norm(self, beta: Exact, f: Exact) -> Any:
        """|w|^2, with b^2 where the intercept is a weight."""
        return beta @ f + (beta.sum() ** 2 if self.intercept == WEIGHT else 0)

    def half_primal_norm(self, f: Exact) -> Any:
        return (self.beta @ f + (self.bias**2 if self.intercept == WEIGHT else 0)) / 2

    def points(self) -> list[Exact]:
        """Feasible dual points near beta."""
        return feasible_points(self.beta, self.lower, self.upper, self.groups)

    # --- optimality and feasibility -----------------------------------------------------------------------------------

    @property
    def width(self) -> Exact:
        """The width of the box, to which a distance from a bound is relative."""
        largest = np.abs(self.beta).max(initial=0)
        return np.where(np.isfinite(self.upper - self.lower), np.maximum(self.upper, -self.lower), largest)

    def is_zero(self) -> Mask:
        return np.abs(self.beta) <= AT_BOUND * np.minimum(self.width, np.abs(self.beta).max(initial=0))

    def may_rise(self) -> Mask:
        at_zero = np.where(self.upper == 0, self.is_zero(), False)
        return (self.beta < self.upper - AT_BOUND * self.width) & ~at_zero & (self.lower < self.upper)

    def may_fall(self) -> Mask:
        at_zero = np.where(self.lower == 0, self.is_zero(), False)
        return (self.beta > self.lower + AT_BOUND * self.width) & ~at_zero & (self.lower < self.upper)

    def directions(self, f: Exact) -> Iterator[tuple[Exact, Exact]]:
        """For each equality constraint (or once without): slopes of those that may rise, and of those that may fall."""
        rise, fall = self.slopes(f)
        for members in [group.members for group in self.groups] or [np.ones(len(f), dtype=bool)]:
            yield rise[members & self.may_rise()], fall[members & self.may_fall()]

    def violation(self, f: Exact) -> Any:
        """The largest max_{may fall} slope - min_{may rise} slope; without equality constraints the steepest slope."""
        worst = Real(0)
        for rise, fall in self.directions(f):
            if not self.groups:
                worst = max(worst, fall.max(initial=0), -rise.min(initial=0))
            elif len(rise) and len(fall):
                worst = max(worst, fall.max() - rise.min())
        return worst

    def box_residual(self) -> float:
        """How far beta is outside of its box, relative to the box."""
        outside = np.maximum(np.maximum(self.lower - self.beta, self.beta - self.upper), 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(outside > 0, outside / self.width, 0)
        return float(relative.max(initial=0))

    def equality_residual(self) -> float:
        """How far the sums are off, relative to the sums of absolute values."""
        worst = 0.0
        for group in self.groups:
            beta = self.beta[group.members]
            size = max(np.abs(beta).sum(), abs(group.total))
            worst = max(worst, float(abs(beta.sum() - group.total) / size) if size else 0.0)
        return worst


def _of_squared_loss(machine: Classification | Regression) -> Exact:
    """The further term |beta_i| / (2 C_i) of the slope with a squared loss."""
    if not machine.squared or np.isinf(machine.cost).any():
        return np.zeros_like(machine.beta)
    return np.where(machine.cost > 0, np.abs(machine.beta) / (2 * np.where(machine.cost > 0, machine.cost, 1)), 0)


@dataclass
class Classification(Machine):
    """C-SVC of two classes. An infinite cost is the hard margin."""

    signs: Exact
    cost: Exact
    squared: bool

    @property
    def hard(self) -> bool:
        return bool(np.isinf(self.cost).any())

    @property
    def _reach(self) -> Exact:
        unbounded = self.squared or self.hard
        return np.where(self.cost > 0, Real(np.inf), 0) if unbounded else self.cost

    @property
    def lower(self) -> Exact:
        return np.where(self.signs > 0, 0, -self._reach)

    @property
    def upper(self) -> Exact:
        return np.where(self.signs > 0, self._reach, 0)

    @property
    def unit(self) -> Any:
        return Real(1)

    def natural(self, dual_size: Any) -> Any:
        return Real(0) if self.hard else self.cost.sum()

    @property
    def linear(self) -> Exact:
        return 1 + _of_squared_loss(self) + (abs(self.beta.sum()) if self.intercept == WEIGHT else 0)

    def primal(self, f: Exact, half_norm: Any, loosen: Any = 0) -> Any:
        slack = 1 - self.signs * (f + self.bias) + loosen
        if self.hard:  # feasible once it is divided by its smallest margin
            margin = 1 - slack[self.cost > 0].max()
            return half_norm / min(margin, Real(1)) ** 2 if margin > 0 else Real(np.inf)
        slack = np.maximum(slack, 0)
        return half_norm + self.cost @ (slack**2 if self.squared else slack)

    def dual(self, beta: Exact, half_norm: Any) -> Any:
        return self.signs @ beta - half_norm - self._curvature(beta)

    def _curvature(self, beta: Exact) -> Any:
        """The term sum_i beta_i^2 / (4 C_i) of the squared loss."""
        if not self.squared or self.hard:
            return Real(0)
        part = self.cost > 0
        return (beta[part] ** 2 / (4 * self.cost[part])).sum()

    def slopes(self, f: Exact) -> tuple[Exact, Exact]:
        slope = f - self.signs + (self.beta.sum() if self.intercept == WEIGHT else 0)
        if self.squared and not self.hard:
            slope = slope + self.beta / (2 * np.where(self.cost > 0, self.cost, 1))
        return slope, slope


@dataclass
class NuClassification(Machine):
    """nu-SVC of two classes."""

    signs: Exact
    weight: Exact
    nu: Any
    rho: Any

    @property
    def lower(self) -> Exact:
        return np.where(self.signs > 0, 0, -self.weight)

    @property
    def upper(self) -> Exact:
        return np.where(self.signs > 0, self.weight, 0)

    @property
    def unit(self) -> Any:
        return abs(self.rho)

    def natural(self, dual_size: Any) -> Any:
        return dual_size

    @property
    def linear(self) -> Exact:
        return np.zeros_like(self.beta) + abs(self.rho)

    @property
    def groups(self) -> list[Group]:
        half = self.nu * self.weight.sum() / 2
        return [Group(self.signs > 0, half), Group(self.signs < 0, -half)]

    def primal(self, f: Exact, half_norm: Any, loosen: Any = 0) -> Any:
        slack = np.maximum(self.rho - self.signs * (f + self.bias) + loosen, 0)
        return half_norm - self.nu * self.weight.sum() * self.rho + self.weight @ slack

    def dual(self, beta: Exact, half_norm: Any) -> Any:
        return -half_norm

    def slopes(self, f: Exact) -> tuple[Exact, Exact]:
        return f, f


@dataclass
class Regression(Machine):
    """eps-SVR."""

    y: Exact
    cost: Exact
    epsilon: Any
    squared: bool

    @property
    def upper(self) -> Exact:
        return np.where(self.cost > 0, Real(np.inf), 0) if self.squared else self.cost

    @property
    def lower(self) -> Exact:
        return -self.upper

    @property
    def unit(self) -> Any:
        return np.abs(self.y).max(initial=0) + self.epsilon

    def natural(self, dual_size: Any) -> Any:
        return self.cost @ (self.y**2 if self.squared else np.abs(self.y))

    @property
    def linear(self) -> Exact:
        return np.abs(self.y) + self.epsilon + _of_squared_loss(self)

    def primal(self, f: Exact, half_norm: Any, loosen: Any = 0) -> Any:
        slack = np.maximum(np.abs(self.y - f - self.bias) - self.epsilon + loosen, 0)
        return half_norm + self.cost @ (slack**2 if self.squared else slack)

    def dual(self, beta: Exact, half_norm: Any) -> Any:
        part = self.cost > 0
        curvature = (beta[part] ** 2 / (4 * self.cost[part])).sum() if self.squared else 0
        return self.y @ beta - self.epsilon * np.abs(beta).sum() - half_norm - curvature

    def slopes(self, f: Exact) -> tuple[Exact, Exact]:
        """eps |beta| has a kink at zero, where the two slopes differ."""
        slope = f - self.y
        if self.squared:
            slope = slope + self.beta / (2 * np.where(self.cost > 0, self.cost, 1))
        side = np.where(self.is_zero(), 0, np.sign(self.beta))
        return slope + np.where(side >= 0, 1, -1) * self.epsilon, slope + np.where(side > 0, 1, -1) * self.epsilon


@dataclass
class NuRegression(Machine):
    """nu-SVR. The dual has two halves, what pulls up and what pulls down, with a sum each; beta is their difference."""

    y: Exact
    cost: Exact
    nu: Any
    epsilon: Any

    @property
    def upper(self) -> Exact:
        return self.cost

    @property
    def lower(self) -> Exact:
        return -self.cost

    @property
    def unit(self) -> Any:
        return np.abs(self.y).max(initial=0)

    def natural(self, dual_size: Any) -> Any:
        return self.cost @ np.abs(self.y)

    @property
    def linear(self) -> Exact:
        return np.abs(self.y) + abs(self.epsilon)

    @property
    def share(self) -> Any:
        """The largest |beta|_1."""
        return self.nu * self.cost.sum()

    @property
    def hidden(self) -> Any:
        return max(self.share - np.abs(self.beta).sum(), Real(0))

    def primal(self, f: Exact, half_norm: Any, loosen: Any = 0) -> Any:
        slack = np.maximum(np.abs(self.y - f - self.bias) - self.epsilon + loosen, 0)
        return half_norm + self.share * self.epsilon + self.cost @ slack

    def dual(self, beta: Exact, half_norm: Any) -> Any:
        return self.y @ beta - half_norm

    def points(self) -> list[Exact]:
        """A sum of absolute values that is too large is scaled down."""

        def scaled(point: Exact) -> Exact:
            size = np.abs(point).sum()
            return point * (self.share / size) if size > self.share else point

        return [scaled(point) for point in super().points()]

    def slopes(self, f: Exact) -> tuple[Exact, Exact]:
        return f - self.y, f - self.y

    def directions(self, f: Exact) -> Iterator[tuple[Exact, Exact]]:
        """The slopes of the two halves; none for variables where the halves may overlap, which beta does not show."""
        if np.abs(self.beta).sum() < (1 - Real(1e-9)) * self.share:
            return
        slope, zero = f - self.y, self.is_zero()
        up, down = (self.beta > 0) & ~zero, (self.beta < 0) & ~zero
        yield slope[self.may_rise()], slope[up]
        yield slope[down], slope[self.may_fall()]

    def equality_residual(self) -> float:
        """The residual relative to the sums of the two halves, which may cancel in beta."""
        if not self.share:
            return 0.0
        return float(max(abs(self.beta.sum()), np.abs(self.beta).sum() - self.share) / self.share)


@dataclass
class OneClass(Machine):
    """The one-class machine; ``bias`` is -rho."""

    weight: Exact
    nu: Any

    @property
    def lower(self) -> Exact:
        return np.zeros_like(self.weight)

    @property
    def upper(self) -> Exact:
        return self.weight

    @property
    def unit(self) -> Any:
        return abs(self.bias)

    def natural(self, dual_size: Any) -> Any:
        return dual_size

    @property
    def linear(self) -> Exact:
        return np.zeros_like(self.beta)

    @property
    def groups(self) -> list[Group]:
        return [Group(np.ones(len(self.beta), dtype=bool), self.nu * self.weight.sum())]

    def primal(self, f: Exact, half_norm: Any, loosen: Any = 0) -> Any:
        slack = np.maximum(-self.bias - f + loosen, 0)
        return half_norm + self.nu * self.weight.sum() * self.bias + self.weight @ slack

    def dual(self, beta: Exact, half_norm: Any) -> Any:
        return -half_norm

    def slopes(self, f: Exact) -> tuple[Exact, Exact]:
        return f, f
