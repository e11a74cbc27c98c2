r"""Linear machines, as a textbook states them, and what a fitted one is worth. Nothing here is shared with the library.

With z = (w, b), f(x) = w . x + b, and c the value of the column of a regularised intercept:

    min  F(z) = 1/2 sum_j p_j z_j^2 + sum_j l_j |z_j| + g . z + sum_i C_i max(0, t_i - a_i . z)^power

    classification     a = y (x, 1), t = 1
    regression         two rows of a sample: a = (x, 1), t = y - eps, and a = -(x, 1), t = -y - eps
    one-class          a = (x, 1), t = 0, b = -rho, g_b = nu sum_i s_i
    penalty "l2"       p_j = 1 for weights; 1/c^2 for a regularised intercept, 0 for a free one
    penalty "l1"       l_j = 1 for weights; 1/|c| for a regularised intercept, 0 for a free one

    all classes        min 1/2 sum_m |w_m|^2 + 1/2 sum_m (b_m / c)^2 + sum_i C_i max_m (e_mi + f_m(x_i) - f_{y_i}(x_i))
                       e_mi = 0 if m = y_i, else 1; the square of b_m only if the intercept is regularised

A linear model keeps no duals. But F at any point is an upper bound of the optimum. So the oracle finds a point of its own, by
`reference`, and the better one of that and the model stands for the optimum: the true gap of a model is at least the difference
of the two values of F, and no certified dual value may exceed the smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .exact_kernels import ROUNDING, Exact, Real
from .oracle import FLOAT64, Truth
from .problems import Problem
from .returned import class_weights, pairs_and_signs, sample_weights

#: Where the optimum is exactly zero, an objective of this share of a natural one is zero up to rounding.
ZERO_OBJECTIVE = Real(1e-14)


@dataclass(frozen=True)
class LinearObjective:
    """F of a machine, in 80-bit arithmetic. Intercepts are the last entries of z; without an intercept there is none."""

    rows: Exact
    targets: Exact
    cost: Exact
    squared: bool
    squares: Exact  # p
    absolutes: Exact  # l
    linear: Exact  # g

    def slacks(self, z: Exact) -> Exact:
        return self.targets - self.rows @ z

    def value(self, z: Exact, loosen: Any = 0) -> Any:
        """F if every slack is larger by `loosen` than it seems."""
        slack = np.maximum(self.slacks(z) + loosen, 0)
        losses = self.cost @ (slack**2 if self.squared else slack)
        return (self.squares * z) @ z / 2 + self.absolutes @ np.abs(z) + self.linear @ z + losses

    def rounding(self, z: Exact, unit: Any) -> Any:
        """By how much F may be off if each of its terms is rounded to `unit`."""
        delta = unit * (np.abs(self.rows) @ np.abs(z) + np.abs(self.targets))
        of_norm = (self.squares * z) @ z / 2 + (self.absolutes + np.abs(self.linear)) @ np.abs(z)
        value = self.value(z, delta)
        return value - self.value(z) + unit * (of_norm + value)

    def natural(self) -> Any:
        """The size of an objective that matters: F(0); of a one-class machine, where that is zero, |w|^2 for duals nu s_i if no
        sample would cancel another."""
        if not self.linear.any():
            return self.value(np.zeros_like(self.linear))
        lengths = np.sqrt((self.rows[:, :-1] ** 2).sum(axis=1))
        return (self.linear[-1] / self.cost.sum() * (self.cost @ lengths)) ** 2

    def flat_points(self) -> list[Exact]:
        """Points with the same decision for all samples: where F may be zero, and no iteration ends at zero exactly."""
        targets = self.targets[self.cost > 0] * self.rows[self.cost > 0, -1]  # those of an intercept that is not regularised
        zero = np.zeros_like(self.linear)
        flat = zero.copy()
        flat[-1] = (targets.min() + targets.max()) / 2
        return [zero, flat]

    @property
    def unit(self) -> Any:
        return np.abs(self.targets).max(initial=0)

    @property
    def n_terms(self) -> int:
        return sum(self.rows.shape)

    def posed(self) -> LinearObjective:
        """The problem whose solution `reference` looks for."""
        return self

    def point(self, z: Exact) -> Exact:
        """The point of this problem from one of the problem that is `posed`."""
        return z


@dataclass(frozen=True)
class JointObjective:
    """F of one machine of all classes. z has the weights of a class, then its intercept if there is one, class by class."""

    X: Exact  # with a column of ones if there is an intercept
    labels: Any
    cost: Exact
    n_classes: int
    squares: Exact  # for a column of X

    def scores(self, z: Exact) -> Exact:
        return self.X @ z.reshape(self.n_classes, -1).T

    def _slacks(self, z: Exact) -> Exact:
        scores = self.scores(z)
        own = np.arange(self.n_classes) == self.labels[:, None]
        return (scores + np.where(own, 0, 1)).max(axis=1) - np.where(own, scores, 0).sum(axis=1)

    def value(self, z: Exact, loosen: Any = 0) -> Any:
        penalty = (z.reshape(self.n_classes, -1) ** 2 @ self.squares).sum() / 2
        return penalty + self.cost @ (self._slacks(z) + loosen)

    def rounding(self, z: Exact, unit: Any) -> Any:
        sizes = np.abs(self.X) @ np.abs(z.reshape(self.n_classes, -1)).T
        value = self.value(z, 2 * unit * (sizes.max(axis=1) + 1))
        return value - self.value(z) + unit * value

    def natural(self) -> Any:
        return self.cost.sum()

    def flat_points(self) -> list[Exact]:
        """Points with the same scores for all samples."""
        return [np.zeros(self.n_classes * self.X.shape[1], dtype=Real)]

    @property
    def unit(self) -> Any:
        return Real(1)

    @property
    def n_terms(self) -> int:
        return sum(self.X.shape) + self.n_classes

    def posed(self) -> LinearObjective:
        """The same problem with a variable xi_i for each slack. The constraints xi_i >= 0 and xi_i >= e_mi + f_m - f_{y_i} are
        losses whose cost, 2 C_i, is more than their multipliers, which add up to C_i."""
        n, k, d = len(self.X), self.n_classes, self.X.shape[1]
        rows = np.zeros((n, k, k * d + n), dtype=Real)
        for i, own in enumerate(self.labels):
            rows[i, :, k * d + i] = 1
            for m in range(k):
                if m != own:
                    rows[i, m, own * d : (own + 1) * d] = self.X[i]
                    rows[i, m, m * d : (m + 1) * d] = -self.X[i]
        others = np.arange(k) != self.labels[:, None]
        none = np.zeros(k * d + n, dtype=Real)
        return LinearObjective(
            rows=rows.reshape(n * k, -1),
            targets=others.ravel().astype(Real),
            cost=np.repeat(2 * self.cost, k),
            squared=False,
            squares=np.concatenate([np.tile(self.squares, k), none[k * d :]]),
            absolutes=none,
            linear=np.concatenate([none[: k * d], self.cost]),
        )

    def point(self, z: Exact) -> Exact:
        return z[: self.n_classes * self.X.shape[1]]


Objective = LinearObjective | JointObjective


@dataclass(frozen=True)
class Returned:
    """The objective of one machine of a model, and the point that the model has."""

    objective: Objective
    point: Exact

    def truth(self, other: Exact | None) -> Truth:
        """What the oracle says, where `other` is a point of its own (None: it has none)."""
        objective, z = self.objective, self.point
        with np.errstate(all="ignore"):
            primal, natural = objective.value(z), objective.natural()
            doubt = Real(ROUNDING) * (100 + objective.n_terms)
            others = objective.flat_points() + ([] if other is None else [other])
            best = min([z, *others], key=objective.value)
            optimum, gap_error = objective.value(best), objective.rounding(z, doubt) + objective.rounding(best, doubt)
            if -gap_error <= optimum <= 0:
                gap_error += ZERO_OBJECTIVE * natural
            nothing = dict.fromkeys(("violation", "violation_error", "violation_doubt", "box_residual", "equality_residual"), 0.0)
            return Truth(
                primal=float(primal),
                dual=float(optimum),
                gap=float(primal - optimum),
                gap_error=float(gap_error),
                float64_error=float(objective.rounding(z, Real(FLOAT64))),
                unit=float(objective.unit),
                natural=float(natural),
                dual_as_is=float(optimum),
                dual_size=0.0,
                **nothing,
            )


def decisions_of(model: Any, problem: Problem) -> tuple[Exact, Exact]:
    """The decisions about the training samples, a column for each machine, and the sizes of the terms that are added up."""
    X, coefficients = problem.X.astype(Real), np.atleast_2d(_dense(model.coef_)).astype(Real)
    intercepts = np.atleast_1d(model.intercept_).astype(Real)
    return X @ coefficients.T + intercepts, np.abs(X) @ np.abs(coefficients).T + np.abs(intercepts)


def machines_of(model: Any, problem: Problem) -> list[Returned]:
    """The machines of a model, in the order of its rows."""
    weights, kind = sample_weights(problem), type(model).__name__
    intercept = getattr(model, "fit_intercept", True)
    if kind == "LinearSVC" and model.multi_class == "crammer_singer":
        return [_joint(model, problem, _costs(model, problem, weights), intercept)]
    X = problem.X.astype(Real)
    if intercept is not False:
        X = np.column_stack([X, np.ones(len(X), dtype=Real)])
    points = np.atleast_2d(_dense(model.coef_)).astype(Real)
    if intercept is not False:
        points = np.column_stack([points, np.atleast_1d(model.intercept_).astype(Real)])
    l1 = getattr(model, "penalty", "l2") == "l1"
    of_intercept = _of_intercept(model, intercept, l1)
    penalty = np.concatenate([np.ones(problem.X.shape[1], dtype=Real), of_intercept])
    none = np.zeros_like(penalty)
    plain = LinearObjective(
        rows=X,
        targets=np.zeros(len(X), dtype=Real),
        cost=weights,
        squared=getattr(model, "loss", "").startswith("squared"),
        squares=none if l1 else penalty,
        absolutes=penalty if l1 else none,
        linear=none,
    )
    if kind == "LinearOneClassSVM":
        linear = none.copy()
        linear[-1] = Real(model.nu) * weights.sum()
        return [Returned(replace(plain, linear=linear), points[0])]
    if kind == "LinearSVR":
        y, epsilon, cost = np.asarray(problem.y).astype(Real), Real(model.epsilon), Real(model.C) * weights
        both = replace(
            plain,
            rows=np.vstack([X, -X]),
            targets=np.concatenate([y - epsilon, -y - epsilon]),
            cost=np.concatenate([cost, cost]),
        )
        return [Returned(both, points[0])]
    cost, labels = _costs(model, problem, weights), np.searchsorted(model.classes_, np.asarray(problem.y))
    return [
        Returned(
            replace(plain, rows=signs.astype(Real)[:, None] * X, targets=np.ones(len(X), dtype=Real), cost=cost), points[row]
        )
        for _, signs, row in pairs_and_signs(labels, len(model.classes_), "ovr")
    ]


def _costs(model: Any, problem: Problem, weights: Exact) -> Exact:
    labels = np.searchsorted(model.classes_, np.asarray(problem.y))
    return np.asarray(Real(model.C) * weights * class_weights(model, problem)[labels])


def _of_intercept(model: Any, intercept: Any, l1: bool) -> Exact:
    """The penalty of the intercept, as a vector with an entry if there is one."""
    if intercept is False:
        return np.zeros(0, dtype=Real)
    if intercept is True:
        return np.zeros(1, dtype=Real)
    scale = abs(Real(model.intercept_scaling))
    return np.array([1 / (scale if l1 else scale**2)], dtype=Real)


def _joint(model: Any, problem: Problem, cost: Exact, intercept: Any) -> Returned:
    """A machine of all classes that have a weight; of two classes the model has the difference, and the halves are best."""
    labels = np.searchsorted(model.classes_, np.asarray(problem.y))
    present = np.unique(labels[cost > 0])
    X, points = problem.X.astype(Real), np.atleast_2d(_dense(model.coef_)).astype(Real)
    if intercept is not False:
        X = np.column_stack([X, np.ones(len(X), dtype=Real)])
        points = np.column_stack([points, np.atleast_1d(model.intercept_).astype(Real)])
    points = np.vstack([-points[0] / 2, points[0] / 2]) if len(model.classes_) == 2 else points[present]
    squares = np.concatenate([np.ones(problem.X.shape[1], dtype=Real), _of_intercept(model, intercept, l1=False)])
    part = cost > 0
    numbers = np.searchsorted(present, labels[part])
    return Returned(JointObjective(X[part], numbers, cost[part], len(present), squares), points.ravel())


def _dense(values: Any) -> Any:
    return values.toarray() if sp.issparse(values) else np.asarray(values)
