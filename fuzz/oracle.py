r"""The oracle: the true primal value, dual value, gap and violations of a returned model, in 80-bit arithmetic.

Taken from the model are its coefficients, support, intercepts and what else it found (rho, epsilon), never its
certificate. The primal value is that of the model as it is kept. The dual value is the largest of the feasible points
that `feasible` finds near the coefficients. So

    dual <= optimum <= primal        and the gap bounds how far the model is from the optimum.

Rounding. With f off by delta_i = u (size of what f_i was added up from), the gap may be off by what the slacks cost
if each is larger by delta_i, and by sum_i |beta_i| delta_i. For the u of 80-bit numbers this is the oracle's own
error, ``gap_error`` (and ``violation_doubt``); for the u of float64 it is what no float64 computation can know about
this model, ``float64_error`` (and ``violation_error``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .exact_kernels import ROUNDING, Exact, ExactKernel, Real, kernel_sums
from .feasible import project_onto_simplex
from .machines import AT_BOUND, Machine, NuClassification

OPTIMISM = 1e-9  # by how much a certificate may be below the truth, relative to the objective or the unit of a decision
AS_GOOD_AS_FEASIBLE = 1e-13  # relative residuals of a point that counts as feasible as it is
LARGEST_ROUNDING = 1e-6  # largest error of a slope that counts as rounding, relative to the unit of a decision
FLOAT64 = 16.0 * float(np.finfo(np.float64).eps)  # rounding error of a float64 sum, relative to the size of its terms


@dataclass(frozen=True)
class Truth:
    """What the oracle says about one machine. Residuals are relative; ``dual_as_is`` is the dual formula at the
    coefficients as they are, feasible or not. ``unit`` and ``natural`` are the sizes of a decision and of an
    objective that matter (`Machine`)."""

    primal: float
    dual: float
    gap: float
    gap_error: float
    float64_error: float
    violation: float
    violation_error: float
    violation_doubt: float
    unit: float
    natural: float
    box_residual: float
    equality_residual: float
    dual_as_is: float
    dual_size: float

    @property
    def size(self) -> float:
        """The size of the objective, to which a gap is relative."""
        return max(abs(self.primal), abs(self.dual))

    @property
    def unknown_violation(self) -> float:
        """The part of the violation that float64 cannot know, limited as in `relative_gap`."""
        return self.violation_doubt + min(self.violation_error, LARGEST_ROUNDING * self.unit) + OPTIMISM * self.unit

    @property
    def relative_gap(self) -> float:
        """The gap less the part that the oracle cannot know, and less the part that float64 cannot know if that is small beside a
        natural objective: a model with huge coefficients is not excused by its huge rounding errors."""
        unknown = self.gap_error + min(self.float64_error, OPTIMISM * max(self.natural, self.size))
        known = max(self.gap - unknown, 0.0)
        return known / self.size if self.size > 0 else (0.0 if known == 0 else float("inf"))


@dataclass
class Point:
    """A `Machine`, a `Joint` or a `Ridge`, with f = K beta of the points it asked for."""

    machine: Any
    sums: Exact
    sizes: Exact
    rounding: float
    largest: Any  # magnitude of k(x, x)

    def truth(self) -> Truth:
        with np.errstate(all="ignore"):
            return _truth(self.machine, self) if isinstance(self.machine, Machine) else self.machine.truth(self)


def evaluate(kernel: ExactKernel, machines: list[Any]) -> list[Point]:
    """f = K beta of all points of all machines, in one pass over the kernel matrix."""
    columns = [columns_of(machine, len(kernel)) for machine in machines]
    sums, sizes = kernel_sums(kernel, np.hstack(columns))
    edges = np.cumsum([0, *(block.shape[1] for block in columns)])
    rounding = ROUNDING * (100 + len(kernel) + kernel.n_features)
    largest = kernel.largest_magnitude()
    return [
        Point(machine, sums[:, a:b], sizes[:, a:b], rounding, largest)
        for machine, a, b in zip(machines, edges[:-1], edges[1:], strict=True)
    ]


def columns_of(machine: Any, n: int) -> Exact:
    """The points whose sums a machine needs, a column each: first its own, then the feasible ones."""
    if not isinstance(machine, Machine):
        return np.asarray(machine.columns(), dtype=Real)
    points = [machine.beta, *machine.points()]
    columns = np.zeros((n, len(points)), dtype=Real)
    for column, point in enumerate(points):
        columns[machine.members, column] = point
    return columns


def _truth(machine: Machine, point: Point) -> Truth:
    at = machine.members
    f, size = point.sums[at, 0], point.sizes[at, 0]
    primal = machine.primal(f, machine.half_primal_norm(f))
    feasible = [
        machine.dual(beta, machine.norm(beta, point.sums[at, column]) / 2)
        for column, beta in enumerate(machine.points(), start=1)
    ]
    if max(machine.box_residual(), machine.equality_residual()) <= AS_GOOD_AS_FEASIBLE:
        feasible.append(machine.dual(machine.beta, machine.norm(machine.beta, f) / 2))
    dual = max(feasible)
    magnitude = size + abs(machine.bias) + machine.linear
    dual_size = np.abs(machine.beta) @ (size + machine.linear)

    def error(unit: float, magnitude: Exact) -> float:
        delta = Real(unit) * magnitude
        larger = machine.primal(f, machine.half_primal_norm(f) + Real(unit) * dual_size, delta)
        return float(larger - primal + Real(unit) * dual_size) if np.isfinite(larger) else float("inf")

    # what nu-SVC returns was divided by rho and rounded
    gap_error = error(point.rounding + (1e-15 if isinstance(machine, NuClassification) else 0.0), magnitude)
    in_float64 = magnitude + machine.hidden * point.largest
    return Truth(
        primal=float(primal),
        dual=float(dual),
        gap=float(primal - dual),
        gap_error=gap_error,
        float64_error=error(FLOAT64, in_float64),
        violation=float(machine.violation(f)),
        violation_error=FLOAT64 * float(in_float64.max(initial=0)),
        violation_doubt=point.rounding * float(in_float64.max(initial=0)),
        unit=float(machine.unit),
        natural=float(machine.natural(dual_size)),
        box_residual=machine.box_residual(),
        equality_residual=machine.equality_residual(),
        dual_as_is=float(machine.dual(machine.beta, machine.norm(machine.beta, f) / 2)),
        dual_size=float(dual_size),
    )


@dataclass
class Joint:
    r"""The machine of all classes (Crammer and Singer 2001): a row of B for each class that has a weight.

    min 1/2 sum_m |w_m|^2 + sum_i C_i max_m (e_mi + f_mi - f_{y_i i})      e_mi = 0 if m = y_i, else 1
    max -1/2 sum_m |w_m|^2 - sum_mi e_mi B_mi                              B_mi <= C_i [m = y_i], sum_m B_mi = 0
    """

    B: Exact
    own: Any  # own[m, i]: whether sample i is of class m
    cost: Exact

    @property
    def shares(self) -> Exact:
        return self.own * self.cost - self.B

    def columns(self) -> Exact:
        feasible = self.own * self.cost - project_onto_simplex(self.shares, self.cost)
        return np.vstack([self.B, feasible]).T

    def truth(self, point: Point) -> Truth:
        k = len(self.B)
        f, g = point.sums[:, :k].T, point.sums[:, k:].T
        feasible = self.columns().T[k:]
        size = point.sizes[:, :k].T
        G = f + np.where(self.own, 0, 1)
        slack = G.max(axis=0) - np.where(self.own, f, 0).sum(axis=0)
        slack = np.where(self.cost > 0, slack, 0)
        primal = (self.B * f).sum() / 2 + self.cost @ slack

        def dual_at(B: Exact, sums: Exact) -> Any:
            return -(B * sums).sum() / 2 - np.where(self.own, 0, B).sum()

        dual_size = (np.abs(self.B) * (size + 1)).sum()
        cost_of_rounding = self.cost @ size.max(axis=0) * 2 + 2 * dual_size
        tiny = AT_BOUND * self.cost
        lowest = np.where(self.shares > tiny, G, np.inf).min(axis=0)
        violation = np.where(self.cost > 0, G.max(axis=0) - lowest, 0)
        outside = np.maximum(-self.shares, 0).max(axis=0)
        relative = np.where(outside > 0, outside / np.where(self.cost > 0, self.cost, 0), 0)
        off = np.abs(self.B.sum(axis=0)) / np.where(self.cost > 0, self.cost, 1)
        dual = dual_at(feasible, g)
        return Truth(
            primal=float(primal),
            dual=float(dual),
            gap=float(primal - dual),
            gap_error=float(point.rounding * cost_of_rounding),
            float64_error=float(FLOAT64 * cost_of_rounding),
            violation=float(np.maximum(violation, 0).max(initial=0)),
            violation_error=FLOAT64 * 2 * float(size.max(initial=0) + 1),
            violation_doubt=point.rounding * 2 * float(size.max(initial=0) + 1),
            unit=1.0,
            natural=float(self.cost.sum()),
            box_residual=float(relative.max(initial=0)),
            equality_residual=float(off.max(initial=0)),
            dual_as_is=float(dual_at(self.B, f)),
            dual_size=float(dual_size),
        )


@dataclass
class Ridge:
    r"""Kernel ridge regression; a column of beta for each output.

        min 1/2 sum_i s_i (t_i - f_i)^2 + alpha/2 |w|^2       max alpha (beta't - 1/2 |w|^2) - alpha^2/2 sum_i beta_i^2
        / s_i

    The violation is the largest residual of the normal equations, sqrt(s_i) (t_i - f_i) - alpha beta_i / sqrt(s_i),
    in units of the largest sqrt(s_i) |t_i| of its output."""

    beta: Exact
    target: Exact
    weight: Exact
    alpha: Any

    def columns(self) -> Exact:
        return self.beta

    def truth(self, point: Point) -> Truth:
        f, size, s = point.sums, point.sizes, self.weight[:, None]
        root = np.sqrt(s)
        part = s[:, 0] > 0
        error = root * (self.target - f)
        half_norm = (self.beta * f).sum() / 2
        primal = (error**2).sum() / 2 + self.alpha * half_norm
        curvature = (self.beta[part] ** 2 / s[part]).sum()
        dual = self.alpha * ((self.beta * self.target).sum() - half_norm) - self.alpha**2 / 2 * curvature
        residual = error - self.alpha * np.where(s > 0, self.beta / np.where(s > 0, root, 1), 0)
        reference = np.abs(root * self.target).max(axis=0)
        relative = np.abs(residual).max(axis=0) / np.where(reference > 0, reference, 1)
        terms = root * (np.abs(self.target) + size)
        of_loss = (np.abs(error) * terms).sum() * 2
        of_norm = self.alpha * (np.abs(self.beta) * (size + np.abs(self.target))).sum() + self.alpha**2 * curvature
        magnitude = (terms / np.where(reference > 0, reference, 1)).max(initial=0)

        def uncertain(unit: float) -> float:
            return float(Real(unit) * (of_loss + of_norm) + ((Real(unit) * terms) ** 2).sum())

        return Truth(
            primal=float(primal),
            dual=float(dual),
            gap=float(primal - dual),
            gap_error=uncertain(point.rounding),
            float64_error=uncertain(FLOAT64),
            violation=float(relative.max(initial=0)),
            violation_error=FLOAT64 * float(magnitude),
            violation_doubt=point.rounding * float(magnitude),
            unit=1.0,
            natural=float((self.weight[:, None] * self.target**2).sum() / 2),
            box_residual=float(np.abs(self.beta[~part]).max(initial=0) > 0),
            equality_residual=0.0,
            dual_as_is=float(dual),
            dual_size=float(of_norm + np.abs(primal)),
        )
