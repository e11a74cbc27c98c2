r"""A solution of a linear machine by an interior-point method, in 80-bit arithmetic, for comparison with the library's.

    min  1/2 z'Pz + g . z + sum_i C_i xi_i^power      s.t.  xi_i >= 0,  s_i = a_i . z + xi_i - t_i >= 0

(|z_j| is two rows with the slacks z_j and -z_j.) With multipliers lambda of the rows, and mu = C - lambda of xi >= 0, a step
solves

    (P + A'DA) dz = -(Pz + g - A'lambda) + A'D h       D = 1 / (s / lambda + xi / mu)           power 1
                                                       D = 1 / (s / lambda + 1 / 2C)            power 2, where xi = lambda / 2C

with Mehrotra's predictor and corrector. Whatever it finds is a point, so an upper bound of the optimum: nothing has to be
believed about it. `least` returns the best point on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .exact_kernels import Exact, Real
from .linear_machines import LinearObjective, Objective

STEPS = 80
TO_THE_WALL = Real(0.995)  # share of the longest step that keeps all variables positive
DONE = Real(1e-17)  # complementarity, relative to the objective
#: Products for one matrix of a step that are affordable in 80-bit arithmetic; larger problems have no reference.
MOST_PRODUCTS = 60_000_000
FEW_UNKNOWNS = 80  # up to here a system over the unknowns is solved, which rounds less than one over the rows


def least(objective: Objective) -> Exact | None:
    """The best point found; None if the problem is too large."""
    posed = objective.posed()
    if min(posed.rows.shape) ** 2 * max(posed.rows.shape) > MOST_PRODUCTS:
        return None
    scale = np.abs(posed.rows).max(axis=0, initial=0)
    scale = np.where(scale > 0, scale, 1)
    best: tuple[Any, Exact | None] = (np.inf, None)
    with np.errstate(all="ignore"):
        iterate = _Iterate(posed, scale)
        for _ in range(STEPS):
            point = objective.point(iterate.z / scale)
            value = objective.value(point)
            if value < best[0]:
                best = value, point
            if not iterate.advance() or iterate.sum <= DONE * abs(value):
                break
    return best[1]


class _Iterate:
    """A point of the iteration: unknowns z (times `scale`), slacks xi and multipliers of the rows, all but z positive."""

    def __init__(self, posed: LinearObjective, scale: Exact) -> None:
        part = posed.cost > 0
        self.A, t, cost = posed.rows[part] / scale, posed.targets[part], posed.cost[part]
        self.P, self.g, absolutes = posed.squares / scale**2, posed.linear / scale, posed.absolutes / scale
        self.n, d = self.A.shape
        self.walls = np.flatnonzero(absolutes > 0)  # unknowns whose absolute value has a price
        self.target = np.concatenate([t, np.zeros(2 * len(self.walls), dtype=Real)])
        self.cost = np.concatenate([cost, absolutes[self.walls], absolutes[self.walls]])
        self.free = np.concatenate([np.full(self.n, not posed.squared), np.ones(2 * len(self.walls), dtype=bool)])
        size = np.abs(t).max(initial=0)
        self.z = np.zeros(d, dtype=Real)
        self.xi = np.maximum(self.target, 0) + (size if size > 0 else 1)
        self.multiplier = np.where(self.free, self.cost / 2, 2 * self.cost * self.xi)
        self.n_products = len(self.xi) + self.free.sum()

    def times(self, z: Exact) -> Exact:
        return np.concatenate([self.A @ z, -z[self.walls], z[self.walls]])

    def transposed(self, v: Exact) -> Exact:
        down, up = np.split(v[self.n :], 2)
        result = self.A.T @ v[: self.n]
        result[self.walls] += up - down
        return result

    def measure(self) -> None:
        """Compute what a step needs."""
        self.s = np.maximum(self.times(self.z) + self.xi - self.target, np.finfo(Real).tiny)
        self.mu = np.where(self.free, self.cost - self.multiplier, 1)
        self.products = self.s * self.multiplier, np.where(self.free, self.xi * self.mu, 0)
        self.sum = self.products[0].sum() + self.products[1].sum()
        self.residual = self.P * self.z + self.g - self.transposed(self.multiplier)
        self.D = 1 / (self.s / self.multiplier + np.where(self.free, self.xi / self.mu, 1 / (2 * self.cost)))
        diagonal = self.P.copy()
        diagonal[self.walls] += np.add(*np.split(self.D[self.n :], 2))
        self.solve = _factor(self.A, self.D[: self.n], diagonal)

    def step(self, first: Exact, second: Exact) -> tuple[Exact, Exact, Exact, Exact]:
        """The changes of z, xi, s and the multipliers at which the products s lambda and xi mu change by `first` and `second`."""
        assert self.solve is not None
        h = first / self.multiplier - np.where(self.free, second / self.mu, 0)
        dz = self.solve(-self.residual + self.transposed(self.D * h))
        change = self.D * (h - self.times(dz))
        dxi = np.where(self.free, (second + self.xi * change) / self.mu, change / (2 * self.cost))
        return dz, dxi, self.times(dz) + dxi, change

    def longest(self, dxi: Exact, ds: Exact, change: Exact) -> Any:
        """The longest step, at most 1, that keeps all variables positive."""
        pairs = [(self.s, ds), (self.multiplier, change)]
        pairs += [(self.xi[self.free], dxi[self.free]), (self.mu[self.free], -change[self.free])]
        return min(Real(1), *(_to_zero(values, by) for values, by in pairs))

    def advance(self) -> bool:
        """One step; False if there is none."""
        self.measure()
        if self.solve is None:
            return False
        _, dxi, ds, change = self.step(-self.products[0], -self.products[1])
        alpha = self.longest(dxi, ds, change)
        after = (self.s + alpha * ds) @ (self.multiplier + alpha * change)
        after += np.where(self.free, (self.xi + alpha * dxi) * (self.mu - alpha * change), 0).sum()
        centre = (after / self.sum) ** 3 * self.sum / self.n_products
        second = np.where(self.free, centre - self.products[1] + dxi * change, 0)
        dz, dxi, ds, change = self.step(centre - self.products[0] - ds * change, second)
        alpha = TO_THE_WALL * self.longest(dxi, ds, change)
        if not np.isfinite(dz).all() or not alpha > 0:
            return False
        self.z, self.xi, self.multiplier = self.z + alpha * dz, self.xi + alpha * dxi, self.multiplier + alpha * change
        return True


def _to_zero(values: Exact, change: Exact) -> Any:
    """The step at which the first of the values is zero."""
    falling = change < 0
    return (values[falling] / -change[falling]).min(initial=Real(1e30))


def _factor(A: Exact, D: Exact, diagonal: Exact) -> Callable[[Exact], Exact] | None:
    """A function that solves (diag + A'DA) x = r. With many unknowns it is a system over the rows, and over the unknowns whose
    diagonal is zero (a free intercept)."""
    n, d = A.shape
    if d <= max(n, FEW_UNKNOWNS):
        return _cholesky((A.T * D) @ A + np.diag(diagonal))
    some = diagonal > 0
    B, inverse, E = A[:, some], 1 / diagonal[some], A[:, ~some]
    inner = _cholesky(np.diag(1 / D) + (B * inverse) @ B.T)
    if inner is None:
        return None
    if not E.shape[1]:
        return lambda r: inverse * (r - B.T @ inner(B @ (inverse * r)))
    reduced = np.column_stack([inner(column) for column in E.T])  # (1/D + B diag^-1 B')^-1 E
    outer = _cholesky(E.T @ reduced)
    if outer is None:
        return None

    def solve(r: Exact) -> Exact:
        through = inner(B @ (inverse * r[some]))
        x = np.empty_like(r)
        x[~some] = outer(r[~some] - E.T @ through)
        x[some] = inverse * (r[some] - B.T @ (through + reduced @ x[~some]))
        return x

    return solve


def _cholesky(M: Exact) -> Callable[[Exact], Exact] | None:
    """A function that solves M x = r for a positive definite M, scaled to a unit diagonal; None if M is not finite."""
    root = np.sqrt(np.diag(M))
    root = np.where(root > 0, root, 1)
    L = M / np.outer(root, root)
    if not np.isfinite(L).all():
        return None
    n = len(L)
    for j in range(n):
        pivot = L[j, j]
        L[j, j] = np.sqrt(pivot) if pivot > 1e-19 else Real(1e30)  # a dependent unknown stays where it is
        L[j + 1 :, j] /= L[j, j]
        L[j + 1 :, j + 1 :] -= np.outer(L[j + 1 :, j], L[j + 1 :, j])

    def solve(r: Exact) -> Exact:
        x = r / root
        for j in range(n):
            x[j] = (x[j] - L[j, :j] @ x[:j]) / L[j, j]
        for j in range(n - 1, -1, -1):
            x[j] = (x[j] - L[j + 1 :, j] @ x[j + 1 :]) / L[j, j]
        return x / root

    return solve
