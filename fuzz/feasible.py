"""Dual points that satisfy their constraints, near a point that may not.

Only a feasible point bounds the optimum from below. The Euclidean projection onto {l <= beta <= u, sum beta = t} is
clip(beta - s) with the shift s at which its sum, which falls with s, is t. Another way to mend the sum of a machine
whose variables add up to zero is to shrink the heavier side; where weights span decades that may cost less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exact_kernels import Exact, Real

HALVINGS = 200  # halvings of the interval that holds the shift: more than 80-bit numbers have digits


@dataclass(frozen=True)
class Group:
    """Variables with a given sum."""

    members: NDArray[np.bool_]
    total: Any


def feasible_points(beta: Exact, lower: Exact, upper: Exact, groups: Sequence[Group]) -> list[Exact]:
    """Points near `beta` that satisfy the constraints; the projection first."""
    clipped = np.clip(beta, lower, upper)
    if all(clipped[group.members].sum() == group.total for group in groups):
        return [clipped]
    projected = beta.copy()
    for group in groups:
        projected[group.members] = _project_support(*(part[group.members] for part in (beta, lower, upper)), group.total)
    points = [projected]
    if len(groups) == 1 and groups[0].total == 0:
        points.append(_shrink_heavier_side(clipped))
    return points


def _project_support(beta: Exact, lower: Exact, upper: Exact, total: Any) -> Exact:
    """Project over the support vectors, so that they stay few; over all variables if the support vectors cannot reach the sum."""
    support = beta != 0
    result = np.clip(Real(0), lower, upper) + np.zeros_like(beta)
    if support.any() and lower[support].sum() <= total <= upper[support].sum() and (result[~support] == 0).all():
        result[support] = project(beta[support], lower[support], upper[support], total)
        return result
    return project(beta, lower, upper, total)


def project(beta: Exact, lower: Exact, upper: Exact, total: Any) -> Exact:
    """argmin |x - beta|^2 s.t. lower <= x <= upper, sum x = total; the box must have room for the total."""

    def shifted(by: Any) -> Exact:
        return np.asarray(np.clip(beta - by, lower, upper), dtype=Real)

    reach = np.abs(beta).max(initial=0) + abs(total) + Real(1e-300)
    left, right = -reach, reach
    while shifted(left).sum() < total and np.isfinite(left):
        left *= 2
    while shifted(right).sum() > total and np.isfinite(right):
        right *= 2
    for _ in range(HALVINGS):
        middle = (left + right) / 2
        if not left < middle < right:
            break
        if shifted(middle).sum() > total:
            left = middle
        else:
            right = middle
    return shifted(right)


def _shrink_heavier_side(beta: Exact) -> Exact:
    up, down = beta[beta > 0].sum(), -beta[beta < 0].sum()
    light = min(up, down)
    return np.where(beta > 0, beta * (light / up if up else 1), beta * (light / down if down else 1))


def project_onto_simplex(shares: Exact, totals: Exact) -> Exact:
    """Project each column of `shares` onto {S >= 0, sum = total} (Held, Wolfe and Crowder 1974)."""
    descending = -np.sort(-shares, axis=0)
    excess = (np.cumsum(descending, axis=0) - totals) / np.arange(1, len(shares) + 1)[:, None]
    last = (descending > excess).sum(axis=0) - 1
    shift = excess[np.maximum(last, 0), np.arange(shares.shape[1])]
    return np.asarray(np.where(totals > 0, np.maximum(shares - shift, 0), 0), dtype=Real)
