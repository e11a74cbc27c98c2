"""Problem number i of seed s for the linear machines. It has a stream of random numbers of its own (`--machines linear`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from .features import choose, make_samples, power_of_ten
from .generator import MEMORY_LAYOUTS, draw_nu, draw_price, draw_size
from .problems import Problem
from .targets import make_class_weight, make_labels, make_values, make_weights

LINEAR_ESTIMATORS = {"LinearSVC": 60, "LinearSVR": 25, "LinearOneClassSVM": 15}
STREAM = 1  # sets the random numbers apart from those of the kernel machines
SHARE_OF_LARGE = 0.05
#: Time limit, in seconds, of fits that may take very many steps: of machines, solvers and tolerances that are not the default.
PATIENCE = 3.0


def generate_linear(seed: int, number: int) -> Problem:
    """The problem of that number."""
    rng = np.random.default_rng([seed, number, STREAM])
    estimator = choose(rng, LINEAR_ESTIMATORS)
    n, d = draw_size(rng, bool(rng.random() < SHARE_OF_LARGE))
    X = make_samples(rng, n, d)
    y: Any = None
    if estimator == "LinearSVC":
        y = make_labels(rng, X, min(choose(rng, {2: 6, 3: 3, 4: 0.7, 5: 0.5}), n))
    elif estimator == "LinearSVR":
        y = make_values(rng, X)
    weights = make_weights(rng, n)
    dtype = choose(rng, {np.float64: 7, np.float32: 3})
    X = np.clip(X, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    problem = Problem(estimator, {}, np.ascontiguousarray(X), y, weights, choose(rng, MEMORY_LAYOUTS))
    return _with_history(rng, replace(problem, params=_params(rng, problem)))


def _params(rng: Generator, problem: Problem) -> dict[str, Any]:
    params = _tolerances(rng)
    match problem.estimator:
        case "LinearSVC":
            params |= _of_svc(rng, problem)
        case "LinearSVR":
            params |= {"C": draw_price(rng, False), "epsilon": choose(rng, {0.1: 3, 0.0: 3, power_of_ten(rng, -6, 3): 3})}
            if rng.random() < 0.4:
                params["loss"] = "squared_epsilon_insensitive"
        case "LinearOneClassSVM":
            params["nu"] = draw_nu(rng)
    if problem.estimator != "LinearOneClassSVM":
        params |= _intercept(rng)
    solver = choose(rng, {"auto": 6, "newton": 2, "descent": 2})
    if params.get("penalty") == "l1" or (params.get("multi_class") == "crammer_singer" and solver == "newton"):
        solver = "auto"
    if solver != "auto":
        params["solver"] = solver
    tight = min(params.get("tol") or 1.0, params.get("gap_tol") or 1.0) < 1e-5
    other = "penalty" in params or "multi_class" in params or solver != "auto"
    if other or tight or problem.sample_weight is not None:
        params["max_seconds"] = PATIENCE
    if rng.random() < 0.04:
        params["max_iter"] = int(rng.integers(0, 50))
    if rng.random() < 0.02:
        params["max_seconds"] = power_of_ten(rng, -4, -0.5)
    return params


def _tolerances(rng: Generator) -> dict[str, Any]:
    """tol and gap_tol: mostly the defaults."""
    params: dict[str, Any] = {}
    gap = choose(rng, {"default": 11, "other": 6, "none": 1.5})
    if gap == "other":
        params["gap_tol"] = power_of_ten(rng, -10, -1)
    if gap == "none":
        params["gap_tol"] = None
    if gap == "none" or rng.random() < 0.2:
        params["tol"] = power_of_ten(rng, -8, -1)
    return params


def _of_svc(rng: Generator, problem: Problem) -> dict[str, Any]:
    params: dict[str, Any] = {"C": draw_price(rng, False)}
    kind = choose(rng, {"squared hinge": 4, "hinge": 4, "l1": 2, "crammer_singer": 2})
    match kind:
        case "hinge":
            params["loss"] = "hinge"
        case "l1":
            params["penalty"] = "l1"
        case "crammer_singer":
            params["multi_class"] = "crammer_singer"
    weights = make_class_weight(rng, np.unique(problem.y))
    if weights is not None:
        params["class_weight"] = weights
    return params


def _intercept(rng: Generator) -> dict[str, Any]:
    match choose(rng, {"free": 6, "none": 2, "regularized": 3}):
        case "none":
            return {"fit_intercept": False}
        case "regularized":
            scale = choose(rng, {1.0: 2, power_of_ten(rng, -4, 4): 2, -power_of_ten(rng, -1, 1): 0.3})
            return {"fit_intercept": "regularized", "intercept_scaling": scale}
    return {}


def _with_history(rng: Generator, problem: Problem) -> Problem:
    """The problem, rarely with a warm start from another C, nu or tolerance."""
    if rng.random() > 0.08:
        return problem
    first = {"nu": draw_nu(rng)} if problem.estimator == "LinearOneClassSVM" else {"C": power_of_ten(rng, -2, 2)}
    if rng.random() < 0.2:
        first = {"gap_tol": 0.1}
    return replace(problem, params={**problem.params, "warm_start": True}, first=first)
