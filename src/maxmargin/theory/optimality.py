"""Optimality as theory: the Karush-Kuhn-Tucker conditions of a fitted machine, duality, and a step over two alphas.

    min over w, b, xi   1/2 |w|^2 + sum_i C_i xi_i^k         k = 1: hinge, k = 2: quadratic; xi = 0 for the hard margin
    s.t.                y_i h(x_i) >= 1 - xi_i,  xi_i >= 0,  h(x) = w . phi(x) + b

With multipliers alpha_i >= 0 of the first constraints and mu_i >= 0 of the second, a point is optimal if and only if

    primal feasibility        the constraints hold
    dual feasibility          alpha_i >= 0, mu_i >= 0
    complementary slackness   alpha_i (y_i h(x_i) - 1 + xi_i) = 0,  mu_i xi_i = 0
    stationarity              w = sum_i alpha_i y_i phi(x_i),  sum_i alpha_i y_i = 0,
                              mu_i = C_i - alpha_i for k = 1,  2 C_i xi_i = alpha_i for k = 2

`kkt_report` measures each of them on a fitted binary machine, `lagrangian` is the function whose saddle point this is,
`duality` reads weak and strong duality off the course of a fit, and `PairProblem` is the smallest problem that can be solved
at a time: two alphas, all others fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from maxmargin.formulations import costs
from maxmargin.rounding import TINY
from maxmargin.theory import geometry
from maxmargin.theory.losses import name_of_loss

Vector = NDArray[np.float64]

AT_THE_BOUND = 1e-8  # relative distance to C below which an alpha counts as being at C
ROWS_AT_ONCE = 512  # rows of the kernel matrix computed at a time
FLOAT64_VALUES, FLOAT32_VALUES = 1e-9, 1e-4  # relative error of an objective computed with a float64 or a float32 kernel


# --- the KKT conditions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """One condition, its largest violation, and the training sample that violates it most (None: it is about all samples)."""

    name: str
    formula: str
    violation: float
    sample: int | None = None


@dataclass(frozen=True)
class Case:
    """The samples whose alpha is at one end of its box, or between the ends; what that implies, and the worst exception."""

    name: str
    implies: str
    count: int
    violation: float
    sample: int | None = None


@dataclass(frozen=True)
class KKTReport:
    """How nearly a machine fulfils the optimality conditions on its training data."""

    problem: str
    n_samples: int
    conditions: tuple[Condition, ...]
    cases: tuple[Case, ...]
    primal: float
    dual: float

    @property
    def violation(self) -> float:
        """The largest violation of any condition."""
        return max([c.violation for c in self.conditions] + [c.violation for c in self.cases])

    @property
    def gap(self) -> float:
        """The duality gap: primal minus dual value."""
        return self.primal - self.dual

    def holds(self, tol: float) -> bool:
        """Whether no condition is violated by more than `tol`."""
        return self.violation <= tol

    def __str__(self) -> str:
        conditions = [(c.name, c.formula, f"{c.violation:.2g}", _where(c.sample)) for c in self.conditions]
        cases = [(c.name, f"{c.count}", c.implies, f"{c.violation:.2g}", _where(c.sample)) for c in self.cases]
        return "\n".join(
            [
                f"optimality conditions: {self.problem}, {self.n_samples} samples",
                *_table(("condition", "", "violation", "at"), conditions),
                "",
                *_table(("case", "samples", "implies", "violation", "at"), cases),
                "",
                f"  primal {self.primal:.10g} >= dual {self.dual:.10g}, gap {self.gap:.2g}",
            ]
        )


def kkt_report(model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> KKTReport:
    """Check a fitted binary `SVC` on X, y and weights, which must be its training data.

    The slack is the smallest that is feasible, xi_i = max(0, 1 - y_i h(x_i)), and zero for the hard margin, where a
    missing margin is a primal constraint violated. mu_i is C_i - alpha_i by stationarity.
    """
    point = _Point.of(model, X, y, sample_weight)
    conditions, cases = point.conditions(), point.cases()
    return KKTReport(point.problem, len(point.alpha), tuple(conditions), tuple(cases), *point.values())


@dataclass(frozen=True)
class _Point:
    """A primal and a dual point: alpha, the functional margins of w = sum_i alpha_i y_i phi(x_i), the deviations of the model's
    decision values from these, the costs C_i, and the loss, which says which of the three problems it is."""

    alpha: Vector
    signs: Vector
    margins: Vector
    deviations: Vector
    bias: float
    cost: Vector
    loss: str
    fit_intercept: bool

    @classmethod
    def of(cls, model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> _Point:
        plane = geometry.of(model)
        machine = plane.machine
        signs = plane.signs(y)
        if len(signs) != machine.shape_fit_[0]:
            raise ValueError(f"y has {len(signs)} labels: pass the {machine.shape_fit_[0]} samples the model was trained on")
        if not hasattr(machine, "C"):
            raise TypeError(f"{type(machine).__name__} has no C: these are the conditions of SVC; fit SVC(C=...) to look at them")
        beta = np.zeros(len(signs))
        coefficients = machine.dual_coef_.toarray() if sp.issparse(machine.dual_coef_) else machine.dual_coef_
        beta[machine.support_] = coefficients[0]
        weights = np.ones(len(signs)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        cost = costs(float(machine.C), np.maximum(weights, 0.0) * machine.class_weight_[(signs > 0).astype(int)])
        bias = float(machine.intercept_[0])
        values = _kernel_sums(model, X, beta) + bias
        return cls(
            alpha=signs * beta,
            signs=signs,
            margins=signs * values,
            deviations=np.abs(plane.h(X) - values),
            bias=bias,
            cost=cost,
            loss="hard margin" if np.isinf(cost).any() else name_of_loss(machine),
            fit_intercept=machine.fit_intercept,
        )

    @property
    def slack(self) -> Vector:
        return np.zeros_like(self.margins) if self.loss == "hard margin" else np.maximum(0.0, 1.0 - self.margins)

    @property
    def taking_part(self) -> NDArray[np.bool_]:
        """The samples that are in the problem: those with a weight."""
        return self.cost > 0.0

    @property
    def problem(self) -> str:
        return {"hard margin": "hard margin", "hinge": "hinge loss (k = 1)"}.get(self.loss, "quadratic loss (k = 2)")

    def conditions(self) -> list[Condition]:
        alpha, cost, xi, part = self.alpha, self.cost, self.slack, self.taking_part
        lacking = np.where(part, np.maximum(0.0, 1.0 - xi - self.margins), 0.0)
        beyond = np.where(part, np.maximum(0.0, alpha - cost), np.abs(alpha))
        rows = [
            _worst("primal feasibility", "y_i h(x_i) >= 1 - xi_i", lacking),
            _worst("dual feasibility", "alpha_i >= 0", np.maximum(0.0, -alpha)),
        ]
        if self.loss == "hinge":
            rows.append(_worst("dual feasibility", "mu_i = C_i - alpha_i >= 0", beyond))
        rows.append(
            _worst("complementary slackness", "alpha_i (y_i h(x_i) - 1 + xi_i) = 0", np.abs(alpha * (self.margins - 1.0 + xi)))
        )
        if self.loss == "hinge":
            rows.append(_worst("complementary slackness", "mu_i xi_i = 0", np.abs((cost - alpha) * xi)))
        if self.loss == "squared_hinge":
            rows.append(_worst("stationarity", "2 C_i xi_i = alpha_i", np.where(part, np.abs(2.0 * cost * xi - alpha), 0.0)))
        if self.fit_intercept:
            rows.append(Condition("stationarity", "sum_i alpha_i y_i = 0", abs(float(alpha @ self.signs))))
        # |w - sum_i alpha_i y_i phi(x_i)| cannot be seen in feature space, but what it does to h can
        rows.append(_worst("stationarity", "w = sum_i alpha_i y_i phi(x_i)", self.deviations))
        return rows

    def cases(self) -> list[Case]:
        """What each alpha implies about the margin of its sample, by cases."""
        m, part = self.margins, self.taking_part
        zero = part & (self.alpha <= AT_THE_BOUND * np.where(np.isfinite(self.cost), self.cost, 0.0))
        if self.loss == "hinge":
            bound = part & ~zero & (self.alpha >= self.cost * (1.0 - AT_THE_BOUND))
            between, name = part & ~zero & ~bound, "0 < alpha < C"
        else:
            bound, between, name = np.zeros_like(part), part & ~zero, "alpha > 0"
        target = 1.0 if self.loss != "squared_hinge" else 1.0 - 0.5 * self.alpha / np.where(part, self.cost, 1.0)
        implies = "y h(x) = 1" if self.loss != "squared_hinge" else "y h(x) = 1 - alpha / 2C"
        rows = [
            _case("alpha = 0", "y h(x) >= 1", zero, np.maximum(0.0, 1.0 - m)),
            _case(name, implies, between, np.abs(m - target)),
        ]
        if self.loss == "hinge":
            rows.append(_case("alpha = C", "y h(x) <= 1", bound, np.maximum(0.0, m - 1.0)))
        if not part.all():
            rows.append(_case("C = 0", "nothing", ~part, np.zeros_like(m)))
        return rows

    def values(self) -> tuple[float, float]:
        """The primal value at (w, b, xi) and the dual value at alpha."""
        part, xi = self.taking_part, self.slack
        squared_norm = float(self.alpha @ (self.margins - self.signs * self.bias))  # sum_i beta_i (h(x_i) - b)
        primal, dual = 0.5 * squared_norm, float(self.alpha.sum()) - 0.5 * squared_norm
        if self.loss == "hinge":
            primal += float(self.cost @ xi)
        elif self.loss == "squared_hinge":
            primal += float(self.cost @ xi**2)
            dual -= float(0.25 * np.sum(self.alpha[part] ** 2 / self.cost[part]))
        return primal, dual


def _machine_and_samples(model: Any, X: Any) -> tuple[Any, Any]:
    """The machine, which may be the last step of a pipeline, and the samples as it sees them."""
    machine = geometry.of(model).machine
    samples = model[:-1].transform(X) if machine is not model else X
    return machine, samples if sp.issparse(samples) else np.asarray(samples)


def _kernel_sums(model: Any, X: Any, beta: Vector) -> Vector:
    """sum_j beta_j k(x_j, x_i) for each training sample, by the definition of the kernel, in float64."""
    machine, samples = _machine_and_samples(model, X)
    support = np.flatnonzero(beta)
    against = support if machine.kernel == "precomputed" else samples[support]
    sums = np.zeros(len(beta))
    for start in range(0, len(beta) if len(support) else 0, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        sums[rows] = machine.kernel_.block(samples[rows], against) @ beta[support]
    return sums


def _worst(name: str, formula: str, violations: Vector) -> Condition:
    worst = int(violations.argmax())
    largest = float(violations[worst])
    return Condition(name, formula, largest, worst if largest > 0.0 else None)


def _case(name: str, implies: str, members: NDArray[np.bool_], violations: Vector) -> Case:
    found = _worst(name, implies, np.where(members, violations, 0.0))
    return Case(name, implies, int(members.sum()), found.violation, found.sample)


def _where(sample: int | None) -> str:
    return "" if sample is None else f"sample {sample}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip() for row in (head, *rows)
    ]


# --- weak and strong duality ---------------------------------------------------------------------------------------


def lagrangian(
    plane: geometry.Plane,
    X: Any,
    y: ArrayLike,
    alpha: ArrayLike,
    xi: ArrayLike | None = None,
    mu: ArrayLike | float = 0.0,
    C: ArrayLike | float = 1.0,
    k: int = 1,
) -> float:
    """L = 1/2 |w|^2 + sum_i C_i xi_i^k - sum_i alpha_i (y_i h(x_i) - 1 + xi_i) - sum_i mu_i xi_i, at any point.

    Without `xi` it is the Lagrangian of the hard margin. The quadratic loss, k = 2, needs no `mu`. The primal variables (w, b,
    xi) minimise it, the multipliers maximise it; at the optimum, a saddle point, neither can do better alone.
    """
    margins, multipliers = geometry.functional_margins(plane, X, y), np.asarray(alpha, dtype=np.float64)
    value = 0.5 * plane.norm**2 - float(multipliers @ (margins - 1.0))
    if xi is None:
        return value
    slack = np.asarray(xi, dtype=np.float64)
    return value + float(np.sum(np.asarray(C) * slack**k - multipliers * slack - np.asarray(mu) * slack))


@dataclass(frozen=True)
class Duality:
    """Primal and dual values over the iterations of a fit, as computed by the solver, and the values that its certificate proves.

    ``rounding`` is the relative error that the solver's values may have: larger if it worked on a float32 kernel.
    """

    primal: Vector
    dual: Vector
    certified_primal: float
    certified_dual: float
    rounding: float = FLOAT64_VALUES

    @property
    def best_primal(self) -> float:
        """The smallest primal value that was seen: the optimum is not above it."""
        return float(min(np.nanmin(self.primal, initial=np.inf), self.certified_primal))

    @property
    def best_dual(self) -> float:
        """The largest dual value that was seen: the optimum is not below it."""
        return float(max(np.nanmax(self.dual, initial=-np.inf), self.certified_dual))

    @property
    def relative_gap(self) -> float:
        """The gap between the certified values, relative to the larger of them."""
        scale = max(abs(self.certified_primal), abs(self.certified_dual), TINY)
        return (self.certified_primal - self.certified_dual) / scale

    def weak(self) -> bool:
        """Whether no dual value is above any primal value, as must be at all times."""
        return self.best_dual - self.best_primal <= self.rounding * max(abs(self.best_primal), abs(self.best_dual))

    def strong(self, tol: float = 1e-3) -> bool:
        """Whether the primal and the dual value meet, to a relative gap of `tol`."""
        return self.weak() and self.relative_gap <= tol

    def __str__(self) -> str:
        weak = "holds" if self.weak() else "is violated (a kernel that is not positive semi-definite?)"
        return (
            f"weak duality {weak}: dual values up to {self.best_dual:.8g}, primal values down to {self.best_primal:.8g}\n"
            f"strong duality: they meet to a relative gap of {self.relative_gap:.2g}"
        )


def duality(model: Any) -> Duality:
    """Weak and strong duality in the course of a fit, from `trace_` and `certificate_` (with several machines: the last)."""
    machine = model.steps[-1][1] if hasattr(model, "steps") else model
    proof = machine.certificate_.parts[-1] if machine.certificate_.parts else machine.certificate_
    trace, single = machine.trace_, machine.arithmetic_.startswith("float32")
    rounding = FLOAT32_VALUES if single else FLOAT64_VALUES
    return Duality(np.asarray(trace.primal), np.asarray(trace.dual), proof.primal, proof.dual, rounding)


# --- two alphas ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairStep:
    """A step of SMO over two alphas: where it starts, the top of the parabola, and where the box clips it.

    `low` and `high` are L and H, the range of the second alpha on the segment.
    """

    start: tuple[float, float]
    unclipped: tuple[float, float]
    end: tuple[float, float]
    low: float
    high: float


@dataclass(frozen=True)
class PairProblem:
    """The dual problem over two alphas, the others fixed.

        max over a_1, a_2   W = c . a - 1/2 (K_11 a_1^2 + 2 s K_12 a_1 a_2 + K_22 a_2^2),   s = y_1 y_2
        s.t.                0 <= a <= C,   y_1 a_1 + y_2 a_2 = zeta

    where c_k = 1 - y_k sum_j alpha_j y_j K_jk over the others. ``C`` has a bound for each of the two.
    """

    K: NDArray[np.float64]
    signs: tuple[float, float]
    C: tuple[float, float]
    linear: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, model: Any, X: Any, y: ArrayLike, first: int, second: int) -> PairProblem:
        """The problem over two training samples of a fitted machine (hinge loss, no sample weights), with the other alphas
        fixed."""
        point = _Point.of(model, X, y, None)
        machine, samples = _machine_and_samples(model, X)
        pair = [first, second]
        K = machine.kernel_.block(samples[pair], pair if machine.kernel == "precomputed" else samples[pair])
        signs, alpha = point.signs[pair], point.alpha[pair]
        # y_k (h(x_k) - b) is a sum over all samples; the terms of the two samples are subtracted
        others = point.margins[pair] - signs * point.bias - signs * (K @ (signs * alpha))
        return cls(K, tuple(signs.tolist()), tuple(point.cost[pair].tolist()), tuple((1.0 - others).tolist()))

    @property
    def _quadratic(self) -> NDArray[np.float64]:
        return np.asarray(self.K) * np.outer(self.signs, self.signs)

    def value(self, first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
        """The objective W at one point, or at many."""
        a, b, Q = np.asarray(first, dtype=float), np.asarray(second, dtype=float), self._quadratic
        quadratic = Q[0, 0] * a**2 + 2.0 * Q[0, 1] * a * b + Q[1, 1] * b**2
        return np.asarray(self.linear[0] * a + self.linear[1] * b - 0.5 * quadratic)

    def bounds(self, start: tuple[float, float]) -> tuple[float, float]:
        """L and H: the range of the second alpha on the segment through `start` on which both alphas are in the box."""
        a, b = start
        if self.signs[0] == self.signs[1]:
            return max(0.0, a + b - self.C[0]), min(self.C[1], a + b)
        return max(0.0, b - a), min(self.C[1], self.C[0] + b - a)

    def step(self, start: tuple[float, float]) -> PairStep:
        """The best point of the segment: a_2 - y_2 (E_1 - E_2) / eta, eta = 2 K_12 - K_11 - K_22, clipped to [L, H]."""
        s = self.signs[0] * self.signs[1]
        low, high = self.bounds(start)
        eta = 2.0 * self.K[0, 1] - self.K[0, 0] - self.K[1, 1]
        slope = self.linear - self._quadratic @ start  # dW/da_k = -y_k E_k, but for the bias, which cancels
        along = float(slope[1] - s * slope[0])  # dW/da_2 on the segment, where a_1 moves by -s
        end = high if along > 0.0 else low  # the best point if there is no curvature
        second = start[1] - along / eta if eta < 0.0 else end
        clipped = min(max(second, low), high)
        return PairStep(start, self.on_segment(start, second), self.on_segment(start, clipped), low, high)

    def on_segment(self, start: tuple[float, float], second: float) -> tuple[float, float]:
        """The point with this second alpha on the line y_1 a_1 + y_2 a_2 = zeta through `start`."""
        return start[0] + self.signs[0] * self.signs[1] * (start[1] - second), second

    def coordinate_ascent(self, start: tuple[float, float] = (0.0, 0.0), steps: int = 20) -> NDArray[np.float64]:
        """The points of coordinate ascent in the box, without the equality: one alpha at a time, its exact maximum.

        Each move is parallel to an axis. The equality would forbid every one of them, which is why SMO takes two.
        """
        point, Q = np.array(start, dtype=float), self._quadratic
        path = [point.copy()]
        for k in np.arange(steps) % 2:
            slope = self.linear[k] - Q[k] @ point
            at = point[k] + slope / Q[k, k] if Q[k, k] > 0.0 else np.inf * np.sign(slope)
            point[k] = np.clip(at, 0.0, self.C[k])
            path.append(point.copy())
        return np.array(path)
