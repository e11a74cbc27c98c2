"""Problem number i of seed s. The two numbers determine everything about it, whatever backend it is given to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from .callables import CALLABLES
from .exact_kernels import ExactKernel
from .features import choose, make_samples, power_of_ten
from .layouts import DENSE, SPARSE
from .problems import CLASSIFIERS, Problem
from .targets import make_class_weight, make_labels, make_values, make_weights

ESTIMATORS = {
    "SVC": 46,
    "NuSVC": 12,
    "SVR": 16,
    "NuSVR": 8,
    "OneClassSVM": 8,
    "KernelRegressor": 7,
    "SVCCV": 1,
    "SVRCV": 1,
}
#: Above this many variables the library decomposes a problem and computes its kernel in float32.
LARGE = 1024
SHARE_OF_LARGE = 0.03
#: Largest number of samples for slow estimators: textbook solvers, searches, and callable kernels.
MOST_FOR_SLOW = 60
#: Time limit, in seconds, of textbook solvers, which are slow by nature.
PATIENCE = 1.0
KERNELS = {
    "rbf": 30,
    "linear": 25,
    "poly": 12,
    "laplacian": 8,
    "exponential": 6,
    "sigmoid": 5,
    "precomputed": 7,
    "callable": 6,
}
MEMORY_LAYOUTS = {"C": 14, **dict.fromkeys(DENSE[1:], 1), **dict.fromkeys(SPARSE, 1), "csr": 4}


def generate(seed: int, number: int) -> Problem:
    """The problem of that number."""
    rng = np.random.default_rng([seed, number])
    estimator = choose(rng, ESTIMATORS)
    large = rng.random() < SHARE_OF_LARGE and not estimator.endswith("CV")
    n, d = draw_size(rng, large)
    if estimator.endswith("CV"):
        n = min(n, MOST_FOR_SLOW) + 15
    kernel = choose(rng, KERNELS)
    if large and kernel in ("precomputed", "callable"):
        kernel = "rbf"
    if kernel == "callable":
        n, d = min(n, 150), min(d, 40)
    params: dict[str, Any] = _kernel(rng, kernel)
    X = make_samples(rng, n, d)
    y: Any = None
    if estimator in CLASSIFIERS:
        n_classes = min(choose(rng, {2: 7, 3: 2, 4: 0.7, 5: 0.5}), n)
        y = make_labels(rng, X, n_classes)
    elif estimator != "OneClassSVM":
        y = make_values(rng, X)
    weights = make_weights(rng, n)
    dtype = choose(rng, {np.float64: 7, np.float32: 3})
    X = X.astype(dtype)
    if not np.isfinite(X).all():
        X = np.clip(X, np.finfo(dtype).min, np.finfo(dtype).max)
    layout = choose(rng, MEMORY_LAYOUTS)
    if kernel == "precomputed":
        X, layout = _matrix(rng, X), choose(rng, dict.fromkeys(DENSE, 1))
    problem = Problem(estimator, params, np.ascontiguousarray(X), y, weights, layout)
    problem = _with_options(rng, problem, large)
    return _with_history(rng, problem, large)


def draw_size(rng: Generator, large: bool) -> tuple[int, int]:
    """The numbers of samples and features."""
    if large:
        return int(rng.integers(LARGE + 76, 3501)), int(rng.integers(1, 9))
    n = int(rng.integers(121, 401)) if rng.random() < 0.1 else int(np.exp(rng.uniform(np.log(2), np.log(121))))
    d = choose(rng, {"one": 1.5, "few": 6, "some": 3, "many": 1})
    match d:
        case "one":
            return n, 1
        case "few":
            return n, int(rng.integers(2, 8))
        case "some":
            return n, int(rng.integers(8, 40))
    return n, int(rng.integers(n, 2 * n + 200)) if n <= 150 else 60


# --- parameters ------------------------------------------------------------------------------------------------------


def _kernel(rng: Generator, kernel: str) -> dict[str, Any]:
    if kernel == "callable":
        return {"kernel": CALLABLES[rng.integers(len(CALLABLES))]}
    params: dict[str, Any] = {"kernel": kernel}
    if kernel in ("linear", "precomputed"):
        return params
    match choose(rng, {"default": 5, "auto": 1, "sigma": 0.7, "moderate": 3, "extreme": 1.5}):
        case "auto":
            params["gamma"] = "auto"
        case "sigma":
            params["sigma"] = power_of_ten(rng, -2, 2)
        case "moderate":
            params["gamma"] = power_of_ten(rng, -3, 2)
        case "extreme":
            params["gamma"] = power_of_ten(rng, -8, 8)
    if kernel == "poly":
        params["degree"] = choose(rng, {1: 1, 2: 4, 3: 4, 4: 1, 5: 0.5, 0: 0.3, 2.5: 1, 0.5: 0.5, 1.5: 0.5})
    if kernel in ("poly", "sigmoid"):
        kind = choose(rng, {"zero": 4, "one": 3, "positive": 2, "negative": 1.5})
        params["coef0"] = {"zero": 0.0, "one": 1.0}.get(kind) or power_of_ten(rng, -3, 3) * (-1 if kind == "negative" else 1)
        if kind == "zero":
            params["coef0"] = 0.0
    return params


def _matrix(rng: Generator, X: Any) -> Any:
    """A precomputed kernel matrix."""
    name = choose(rng, {"rbf": 2, "linear": 2, "poly": 1})
    X = X[:, :40]
    spread = float(X.astype(float).var())
    kernel = ExactKernel(name, X, gamma=1.0 / (X.shape[1] * spread) if spread > 0 else 1.0, degree=2, coef0=1.0)
    everyone = np.arange(len(X))
    return kernel.block(everyone, everyone).values.astype(X.dtype)


def draw_price(rng: Generator, infinite_ok: bool) -> float:
    match choose(rng, {"one": 5, "moderate": 7, "extreme": 3, "infinite": 2 if infinite_ok else 0}):
        case "one":
            return 1.0
        case "moderate":
            return power_of_ten(rng, -3, 3)
        case "extreme":
            return power_of_ten(rng, -10, 10)
    return float(np.inf)


def draw_nu(rng: Generator) -> float:
    kinds = {"middle": 6, "one": 1, "tiny": 1, "small": 1}
    values = {
        "middle": rng.uniform(0.05, 0.9),
        "one": 1.0,
        "tiny": power_of_ten(rng, -9, -3),
        "small": power_of_ten(rng, -3, -1),
    }
    return float(values[choose(rng, kinds)])


def _with_options(rng: Generator, problem: Problem, large: bool) -> Problem:
    name = problem.estimator
    params = {**problem.params, **_tolerances(rng, name)}
    match name:
        case "SVC":
            params |= _of_svc(rng, problem, large)
        case "NuSVC":
            params["nu"] = draw_nu(rng) * (0.5 if rng.random() < 0.7 else 1.0)
        case "SVR":
            params |= {"C": draw_price(rng, False), "epsilon": choose(rng, {0.1: 4, 0.0: 1, power_of_ten(rng, -6, 3): 3})}
            if rng.random() < 0.3:
                params["loss"] = "squared_epsilon_insensitive"
        case "NuSVR":
            params |= {"C": draw_price(rng, False), "nu": draw_nu(rng)}
        case "OneClassSVM":
            params["nu"] = draw_nu(rng)
        case "KernelRegressor":
            return _ridge(rng, replace(problem, params=params), large)
        case "SVCCV" | "SVRCV":
            return _search(rng, replace(problem, params=params))
    if name in ("SVC", "SVR") and rng.random() < 0.2:
        params["fit_intercept"] = False
    if name in ("SVC", "NuSVC") and problem.y is not None:
        params |= _of_classifiers(rng, problem, params)
    if rng.random() < 0.03:
        params["max_iter"] = int(rng.integers(0, 500))
    if rng.random() < 0.03:
        params["max_seconds"] = power_of_ten(rng, -4, -0.5)
    if rng.random() < 0.03:
        params["cache_size"] = power_of_ten(rng, -3, 1)
    if params.get("solver", "auto") not in ("auto", "block-smo"):
        params["max_seconds"] = PATIENCE
        if params["solver"] in ("smo-simple", "smo-platt"):
            params["fit_intercept"] = True
    return replace(problem, params={key: value for key, value in params.items() if value is not ...})


def _tolerances(rng: Generator, estimator: str) -> dict[str, Any]:
    """tol and gap_tol: mostly the defaults."""
    params: dict[str, Any] = {}
    kind = choose(rng, {"default": 13, "other": 5, "infinite": 1.5})
    gap = choose(rng, {"default": 14, "none": 1.5, "other": 4})
    if estimator in ("SVCCV", "SVRCV", "KernelRegressor"):
        kind = "default"
    if kind == "other":
        params["tol"] = power_of_ten(rng, -8, -1)
    if kind == "infinite":
        params["tol"] = float(np.inf)
    if gap == "none" and kind != "infinite":
        params["gap_tol"] = None
    if gap == "other":
        params["gap_tol"] = power_of_ten(rng, -8, -1)
    return params


def _of_svc(rng: Generator, problem: Problem, large: bool) -> dict[str, Any]:
    params: dict[str, Any] = {"C": draw_price(rng, True)}
    if rng.random() < 0.25:
        params["loss"] = "squared_hinge"
    params["multi_class"] = choose(rng, {"ovo": 5, "ovr": 2, "crammer_singer": 1})
    if params["multi_class"] == "crammer_singer":
        params["loss"] = "hinge"
        if np.isinf(params["C"]):
            params["C"] = 1.0
        return params
    if large or len(problem.X) > MOST_FOR_SLOW or rng.random() < 0.7:
        return params
    solvers = {"block-smo": 1.0, "smo-simple": 1.0, "smo-platt": 1.0, "dual-ascent": 1.0, "qp": 1.0}
    if problem.params["kernel"] == "linear" and np.isfinite(params["C"]):
        solvers["lbfgs"] = 1.0
        if params.get("loss") != "squared_hinge":
            solvers["subgradient"] = 1.0
    params["solver"] = choose(rng, solvers)
    return params


def _of_classifiers(rng: Generator, problem: Problem, params: dict[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {"class_weight": make_class_weight(rng, np.unique(problem.y))}
    if more["class_weight"] is None:
        more.pop("class_weight")
    joint = params.get("multi_class") == "crammer_singer"
    if rng.random() < 0.05 and not joint and params.get("solver") != "dual-ascent":
        more["probability"] = choose(rng, {"loo": 1, "cv": 1})
        more["calibration"] = choose(rng, {"sigmoid": 2, "isotonic": 1})
    return more


def _ridge(rng: Generator, problem: Problem, large: bool) -> Problem:
    params = {**problem.params, "alpha": choose(rng, {1.0: 3, 0.0: 0.7, power_of_ten(rng, -10, 4): 4})}
    solver = choose(rng, {"auto": 6, "cholesky": 1, "cg": 1.5, "sgd": 0 if large else 1})
    if solver != "auto":
        params["solver"] = solver
    if solver in ("cg", "sgd"):
        params["max_iter"] = 200
        params["random_state"] = 0
    y = problem.y
    if rng.random() < 0.15 and y is not None:
        y = np.column_stack([y, make_values(rng, problem.X)])
    return replace(problem, params=params, y=y)


def _search(rng: Generator, problem: Problem) -> Problem:
    params = {**problem.params, "Cs": [power_of_ten(rng, -2, 3) for _ in range(2)], "cv": int(rng.integers(2, 4))}
    params.pop("gamma", None)
    params.pop("sigma", None)
    params["gammas"] = [power_of_ten(rng, -3, 2) for _ in range(2)]
    if callable(params["kernel"]) or params["kernel"] in ("linear", "precomputed"):
        params.pop("gammas")
    y = problem.y
    if problem.estimator == "SVCCV" and y is not None:  # samples of each class for each fold
        classes = np.unique(y)
        y = y.copy()
        y[: 6 * len(classes)] = np.tile(classes, 6)[: len(y)]
    if rng.random() < 0.2:
        params["loss"] = "squared_hinge" if problem.estimator == "SVCCV" else "squared_epsilon_insensitive"
    return replace(problem, params=params, y=y, sample_weight=None if rng.random() < 0.7 else problem.sample_weight)


def _with_history(rng: Generator, problem: Problem, large: bool) -> Problem:
    """The problem, rarely with a path of C, or with a warm start from another C or tol."""
    luck = rng.random()
    if large or problem.estimator not in ("SVC", "SVR", "NuSVR") or luck > 0.04:
        return problem
    if luck < 0.015 and np.isfinite(problem.params["C"]):
        params = {name: value for name, value in problem.params.items() if name not in ("C", "max_iter", "max_seconds")}
        if params.get("solver", "auto") not in ("auto", "block-smo"):
            params.pop("solver")
        return replace(problem, params=params, path=tuple(sorted(power_of_ten(rng, -3, 4) for _ in range(3))))
    if params_allow_warm_start(problem):
        first = {"C": power_of_ten(rng, -2, 2)} if np.isfinite(problem.params["C"]) else {"tol": 0.1}
        return replace(problem, params={**problem.params, "warm_start": True}, first=first)
    return problem


def params_allow_warm_start(problem: Problem) -> bool:
    return problem.params.get("solver", "auto") in ("auto", "block-smo") and "max_iter" not in problem.params
