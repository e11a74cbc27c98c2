"""The native backend and its readable twin: they measure, choose and solve alike.

Each is held against the statement of what it does, so that a mistake that both share is found too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from maxmargin.backends import Limit, Part, make_backend
from maxmargin.formulations import DualProblem, crammer_singer_problem
from maxmargin.kernels import make_kernel

Vector = NDArray[np.float64]

TWINS = {name: make_backend(name) for name in ("native", "reference")}
SHARE_FOR_FREE = 0.75  # share of a working set for free variables when not all of them fit


class Point(NamedTuple):
    """A problem, a point of its box and a gradient there. Variables are at a bound, between the bounds, or fixed."""

    problem: DualProblem
    beta: Vector
    gradient: Vector

    @property
    def rise(self) -> NDArray[np.bool_]:
        return self.beta < self.problem.upper

    @property
    def fall(self) -> NDArray[np.bool_]:
        return self.beta > self.problem.lower

    @property
    def groups(self) -> list[slice]:
        return self.problem.groups or [slice(0, len(self.beta))]


def placed(backend: str, point: Point) -> Any:
    """The point where the backend keeps it. No kernel matrix is asked."""
    return TWINS[backend].place(point.problem, None, point.beta, point.gradient)  # type: ignore[arg-type]


@st.composite
def points(draw: st.DrawFn) -> Point:
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lower, width = -rng.exponential(size=n), rng.exponential(size=n) * (rng.random(n) < 0.9)
    where = rng.choice([0.0, 0.5, 1.0], n, p=draw(st.sampled_from([(0.4, 0.2, 0.4), (0.1, 0.8, 0.1), (0.5, 0.0, 0.5)])))
    beta = np.where(where == 1.0, lower + width, lower + where * width)
    gradient = rng.normal(size=n)
    if draw(st.booleans()):
        gradient = np.round(2.0 * gradient) / 2.0  # with ties
    groups = draw(st.sampled_from([{"coupled": False}, {}, {"split": int(rng.integers(0, n + 1))}]))
    return Point(DualProblem(np.zeros(n), lower, lower + width, **groups), beta, gradient)


def median(values: Vector) -> float:
    """The upper one of the two in the middle of an even number."""
    return float(np.sort(values)[len(values) // 2])


def violation_of(point: Point) -> tuple[float, list[float]]:
    """max_{may fall} G - min_{may rise} G in the worst group, or without groups the largest slope into the box; and the level of
    each group: the median of G over the free variables, else the middle between the two extremes, or the one there is."""
    worst, levels = 0.0, []
    for group in point.groups:
        G, rise, fall = point.gradient[group], point.rise[group], point.fall[group]
        lowest, highest = G[rise].min(initial=np.inf), G[fall].max(initial=-np.inf)
        if not point.problem.coupled:
            return max(0.0, -lowest, highest), []
        if rise.any() and fall.any():
            worst = max(worst, highest - lowest)
        ends = [end for end in (lowest, highest) if np.isfinite(end)]
        levels.append(median(G[rise & fall]) if (rise & fall).any() else float(np.mean(ends)) if ends else 0.0)
    return worst, levels


@pytest.mark.parametrize("backend", TWINS)
@settings(max_examples=100)
@given(point=points())
def test_the_violation_is_that_of_the_definition(backend: str, point: Point) -> None:
    found = placed(backend, point).measure()
    assert found.value == violation_of(point)[0]
    assert found.n_free == (point.rise & point.fall).sum()


@pytest.mark.parametrize("backend", TWINS)
@settings(max_examples=100)
@given(point=points())
def test_the_levels_are_medians_of_the_free_variables(backend: str, point: Point) -> None:
    assert list(placed(backend, point).measure().levels) == violation_of(point)[1]


def choose(backend: str, point: Point, threshold: float, size: int, share: float, seed: int = 1) -> tuple[Any, bool]:
    """The working set that a backend chooses at its own levels."""
    there = placed(backend, point)
    members, complete = there.choose(there.measure(), threshold, size, share, seed)
    return members.tolist(), complete


class Wanted(NamedTuple):
    """The candidates for a working set: index sets, and the others in the order in which they would become violators."""

    free: set[int]
    violators: set[int]
    extremes: set[int]
    next: list[int]


def wanted(backend: str, point: Point, threshold: float) -> Wanted:
    rise, fall, G = point.rise, point.fall, point.gradient
    above = G - point.problem.at_variables(placed(backend, point).measure().levels)
    free = rise & fall
    violators = ~free & ((rise & (above < -threshold)) | (fall & (above > threshold)))
    others = np.flatnonzero((rise ^ fall) & ~violators)
    distance = np.where(rise, above, -above)[others]
    extremes = set()
    for group in point.groups:
        inside = np.arange(len(G))[group]
        for may, sign in ((rise, 1.0), (fall, -1.0)):
            if may[group].any():
                extremes.add(int(min(inside[may[group]], key=lambda k, sign=sign: (sign * G[k], k))))
    order = others[np.lexsort((others, distance))].tolist()
    return Wanted(set(np.flatnonzero(free)), set(np.flatnonzero(violators)), extremes, order)


thresholds, shares = st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([0.0, 0.3, 1.0])


@pytest.mark.parametrize("backend", TWINS)
@settings(max_examples=100)
@given(point=points(), threshold=thresholds, share=shares, room=st.integers(0, 20))
def test_a_complete_set_and_the_variables_nearest_to_becoming_violators(
    backend: str, point: Point, threshold: float, share: float, room: int
) -> None:
    """All free variables, all violators, the most violating pair of each group; and others up to the share, if there is room."""
    free, violators, extremes, others = wanted(backend, point, threshold)
    n_wanted = len(free) + len(violators)
    members, complete = choose(backend, point, threshold, n_wanted + room, share)
    extra = others[: min(room, int(share * n_wanted))]
    assert complete
    assert members == sorted(free | violators | extremes | set(extra))


@pytest.mark.parametrize("backend", TWINS)
@settings(max_examples=100)
@given(point=points(), threshold=thresholds, share=shares, size=st.integers(2, 30))
def test_a_set_that_is_not_complete(backend: str, point: Point, threshold: float, share: float, size: int) -> None:
    """As many as fit, three quarters of them free ones if there are so many; none but free variables, violators and extremes."""
    free, violators, extremes, _ = wanted(backend, point, threshold)
    members, complete = choose(backend, point, threshold, size, share)
    assert complete == (len(free) + len(violators) <= size)
    assert extremes <= set(members)
    assert members == sorted(set(members))
    assert choose(backend, point, threshold, size, share) == (members, complete)
    if complete:
        return
    assert set(members) <= free | violators | extremes
    assert size <= len(members) <= size + len(extremes)
    n_free = min(len(free), max(int(SHARE_FOR_FREE * size), size - len(violators)))
    assert n_free <= len(free & set(members)) <= n_free + len(extremes)


# --- solving ----------------------------------------------------------------------------------------------------------


def tiles(X: Vector, shift: Vector | None = None) -> dict[str, Any]:
    """The whole kernel matrix of these samples, as the tile of each backend."""
    n, kernel = len(X), make_kernel("rbf", gamma=0.5)
    grams = {name: twin.gram(kernel, kernel.samples(X), np.dtype(np.float64), 0, (0, n)) for name, twin in TWINS.items()}
    return {name: gram.tile(np.arange(n, dtype=np.int32), shift) for name, gram in grams.items()}


@settings(max_examples=100)
@given(point=points(), shifted=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_tiles_are_solved_alike(point: Point, shifted: bool, seed: int) -> None:
    """To the same optimum, within the constraints, with a gradient that is that of the point."""
    rng = np.random.default_rng(seed)
    n, X = len(point.beta), rng.normal(size=(len(point.beta), 3))
    problem = replace(
        point.problem, linear=rng.normal(size=n), shift=rng.exponential(size=n) + 0.1 if shifted else None, start=point.beta
    )
    values, both = [], tiles(X, problem.shift)
    K = both["reference"]
    for name, twin in TWINS.items():
        beta, gradient = point.beta.copy(), K @ point.beta + problem.linear
        result = twin.inner.solve(both[name], Part(problem, beta, gradient), 1e-9, Limit(100_000))
        assert result.violation <= 1e-9
        assert result.violation == pytest.approx(problem.violation(beta, gradient), abs=1e-12)
        assert ((problem.lower <= beta) & (beta <= problem.upper)).all()
        np.testing.assert_allclose(problem.residuals(beta), 0.0, atol=1e-12)
        np.testing.assert_allclose(gradient, K @ beta + problem.linear, atol=1e-11)
        values.append(problem.dual_value(beta, gradient))
    assert values[0] == pytest.approx(values[1], abs=1e-9 * n)


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(2, 4))
def test_joint_tiles_are_solved_alike(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    labels = rng.permutation(np.arange(n) % n_classes)
    problem, both = crammer_singer_problem(labels, rng.exponential(size=n) + 0.1), tiles(rng.normal(size=(n, 3)))
    values, K = [], both["reference"]
    for name, twin in TWINS.items():
        B, gradient = np.zeros((n_classes, n)), problem.linear.copy()
        result = twin.inner.solve_joint(both[name], Part(problem, B, gradient), 1e-9, Limit(100_000))
        assert result.violation <= 1e-9
        assert (problem.upper >= B).all()
        np.testing.assert_allclose(problem.residuals(B), 0.0, atol=1e-12)
        np.testing.assert_allclose(gradient, B @ K + problem.linear, atol=1e-11)
        values.append(problem.dual_value(B, gradient))
    assert values[0] == pytest.approx(values[1], abs=1e-8)
