"""Pools: working sets of a large problem, solved as one tile where their kernel matrix is stored, else tile by tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maxmargin
from maxmargin.backends.native import NativeBackend
from maxmargin.backends.native.core import core
from maxmargin.backends.native.inner import NativeSolver

N_SAMPLES, N_FEATURES = 6500, 45  # more than four tiles, and entries worth storing
MACHINES: dict[str, Callable[..., Any]] = {
    "hinge": lambda **other: maxmargin.SVC(C=2.0, gamma=0.02, **other),
    "squared hinge": lambda **other: maxmargin.SVC(C=2.0, gamma=0.02, loss="squared_hinge", solver="block-smo", **other),
    "large C": lambda **other: maxmargin.SVC(C=100.0, gamma=0.02, **other),
    "nu": lambda **other: maxmargin.NuSVC(nu=0.4, gamma=0.02, **other),
    "regression": lambda **other: maxmargin.SVR(C=2.0, gamma=0.02, epsilon=0.2, **other),
}


def data(n: int = N_SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, N_FEATURES)).astype(np.float32)
    return X, np.sign(X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.3 * rng.normal(size=n))


@pytest.fixture
def tile_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all tiles that are solved from now on."""
    sizes: list[int] = []
    solve = NativeSolver.solve

    def noted(self: NativeSolver, tile: Any, part: Any, tolerance: float, limit: Any) -> Any:
        sizes.append(len(part.beta))
        return solve(self, tile, part, tolerance, limit)

    monkeypatch.setattr(NativeSolver, "solve", noted)
    return sizes


@pytest.mark.parametrize("name", MACHINES)
def test_stored_pools_reach_the_same_optimum(name: str, tile_sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NativeSolver, "largest_tile", 1600)  # so that the pools of this small problem are larger
    X, y = data()
    tight: dict[str, Any] = {"gap_tol": 1e-5}
    stored = MACHINES[name](**tight).fit(X, y)
    assert max(tile_sizes) > 2000
    tile_sizes.clear()
    computed = MACHINES[name](cache_size=1, **tight).fit(X, y)  # no room for a pool
    assert max(tile_sizes) < 2000
    for machine in stored, computed:
        assert machine.status_.converged
    a, b = stored.certificate_, computed.certificate_
    assert abs(a.dual - b.dual) <= max(a.gap, b.gap)


def test_number_of_threads_changes_nothing(tile_sizes: list[int]) -> None:
    """A pool is solved by all threads together, to the same bits as by one."""
    X, y = data(15_000)
    backend, machine = NativeBackend(), MACHINES["hinge"]
    several = machine().fit(X, y)
    n_threads = backend.n_threads
    try:
        core.use_threads(1)
        one = machine().fit(X, y)
        core.use_threads(4)
        four = machine().fit(X, y)
    finally:
        core.use_threads(n_threads)
    assert max(tile_sizes) > 4096  # as many as two threads share
    for other in one, four:
        np.testing.assert_array_equal(several.dual_coef_, other.dual_coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_time_limit_bounds_a_pool() -> None:
    """A pool is no larger than the time left allows."""
    X, y = data(20_000)
    machine = MACHINES["hinge"](max_seconds=0.5).fit(X, y)
    assert machine.certificate_.gap >= 0.0
    assert not machine.status_.converged or machine.certificate_.relative_gap <= 1e-3
