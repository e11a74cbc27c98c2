"""Fit the machine of a task, and encode what the page draws.

An answer is one message of bytes: the length of the header (uint32), the header (JSON, padded with blanks to a multiple of four
bytes), then the machine on the nodes of the grid, as float32 planes and, for more than two classes, one plane of uint8:

    two classes, one class   one plane: the decision function
    more classes             a plane for each pair i < j of classes: its decision, positive for i; then the predicted class
    regression               the predicted targets, one for each column of the grid

All numbers are little-endian.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.playground.task import MAX_SECONDS, Task, TaskError

AT_THE_BOUND = 1e-8  # relative distance to the bound below which a dual variable counts as being there


def answer(task: Task) -> bytes:
    """Fit the machine of `task` and return the message for the page. A ValueError of the estimator says what it refuses."""
    began = time.perf_counter()
    steps: list[int] = []
    model = fit(task, task.steps, lambda progress: steps.append(progress.steps))
    fitted = time.perf_counter()
    planes = _planes(task, model)
    header = _described(task, model)
    if task.steps is not None:
        header["moved"] = _moved(task, model)
    elif task.solver is not None:
        primal, dual = (map(_json_number, values) for values in (model.trace_.primal, model.trace_.dual))
        header["course"] = list(zip(steps, primal, dual, strict=True))
    header["milliseconds"] = {"fit": 1e3 * (fitted - began), "grid": 1e3 * (time.perf_counter() - fitted)}
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return b"".join((len(text).to_bytes(4, "little"), text, *planes))


def fit(task: Task, steps: int | None = None, *callbacks: Callable[[Any], None]) -> Any:
    """The fitted machine of a task, or what it is after so many steps of the solver; the callbacks see its course."""
    X, y = task.samples, task.targets
    several_classes = task.machine in ("SVC", "NuSVC") and len(np.unique(task.classes)) > 2
    if task.solver is not None and several_classes:
        raise TaskError("SMO can be watched with two classes; here are more (erase the points of the others)")
    options = {
        "max_seconds": MAX_SECONDS,
        "callbacks": callbacks,
        **({"decision_function_shape": "ovo"} if several_classes else {}),
        **({"solver": task.solver} if task.solver is not None else {}),
        **({"max_iter": steps} if steps is not None else {}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page shows the status, which says the same
        return task.estimator(**options).fit(X, y)


def _planes(task: Task, model: Any) -> list[bytes]:
    nodes = task.nodes()
    values = model.predict(nodes) if task.is_regression else model.decision_function(nodes)
    planes = [np.ascontiguousarray(values.T, dtype="<f4").tobytes()]
    if values.ndim == 2:
        planes.append(model.predict(nodes).astype(np.uint8).tobytes())
    return planes


def _described(task: Task, model: Any) -> dict[str, Any]:
    X = task.samples
    proof = model.certificate_
    values = model.predict(X) if task.is_regression else model.decision_function(X)
    return {
        "status": model.status_.value,
        "converged": model.status_.converged,
        "certificate": {
            name: _json_number(getattr(proof, name)) for name in ("primal", "dual", "gap", "relative_gap", "kkt_violation")
        },
        "score": _score(task, model),
        "classes": [int(label) for label in getattr(model, "classes_", ())],
        "support": model.support_.tolist(),
        "free": _free(model).tolist(),
        "values": values.tolist() if values.ndim == 1 else None,
        "epsilon": _tube(model),
        "gamma": _json_number(model.gamma_),
        "steps": int(np.sum(model.n_iter_)),
        "seconds": model.fit_seconds_,
    }


def _score(task: Task, model: Any) -> float | None:
    """The accuracy on the training points, R² of a regression, or the number of outliers."""
    X, y = task.samples, task.targets
    if task.is_regression:
        return _json_number(model.score(X, y))
    predicted = model.predict(X)
    return float((predicted < 0).sum() if y is None else (predicted == y).mean())


def _free(model: Any) -> NDArray[np.bool_]:
    """Whether each support vector is free: its dual variable is inside its box, not at the bound. With several classes it is
    enough to be free in one machine."""
    size = np.abs(model.dual_coef_)
    return np.asarray(((size > 0) & (size < _bounds(model) * (1 - AT_THE_BOUND))).any(axis=0))


def _bounds(model: Any) -> Any:
    """The bounds of the dual variables of a fitted machine, for each entry of `dual_coef_`."""
    if getattr(model, "loss", "").startswith("squared"):
        return math.inf
    if not hasattr(model, "rho_"):
        return getattr(model, "C", 1.0)
    # NuSVC keeps its solution divided by rho, unless it has found no margin.
    rho = np.atleast_1d(model.rho_)
    bounds = 1.0 / np.where(rho > 0, rho, 1.0)
    if len(bounds) == 1:
        return bounds[0]
    n_classes = len(model.classes_)
    of_pair = np.zeros((n_classes, n_classes))
    for (i, j), bound in zip(combinations(range(n_classes), 2), bounds, strict=True):
        of_pair[i, j] = of_pair[j, i] = bound
    own = np.repeat(np.arange(n_classes), model.n_support_)
    row = np.arange(n_classes - 1)[:, None]  # row m of `dual_coef_` is against class m, or m + 1 from the own class on
    return of_pair[own, row + (row >= own)]


def _tube(model: Any) -> float | None:
    """Half the width of the tube of a regression."""
    return _json_number(getattr(model, "epsilon_", getattr(model, "epsilon", None)))


def _moved(task: Task, model: Any) -> list[list[float]]:
    """The points whose dual variables the last step has changed: their numbers, and the variables before and after it."""
    after = _duals(model, len(task.points))
    before = _duals(fit(task, task.steps - 1), len(task.points)) if task.steps else after
    return [[int(i), float(before[i]), float(after[i])] for i in np.flatnonzero(before != after)]


def _duals(model: Any, n: int) -> NDArray[np.float64]:
    """The size of the dual variable of each point: alpha."""
    duals = np.zeros(n)
    duals[model.support_] = np.abs(model.dual_coef_[0])
    return duals


def _json_number(value: float | None) -> float | None:
    """The number, or None for what JSON cannot express: an infinite value and not a number."""
    return float(value) if value is not None and math.isfinite(value) else None
