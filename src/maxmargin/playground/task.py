"""A request of the page: the points, the machine and its parameters, and the grid on which the machine is drawn.

The page sends a JSON object::

    {"machine": "SVC", "parameters": {"C": 1, "kernel": "rbf", "gamma": "scale"}, "points": [[x, y, class], …],
     "window": [left, right, bottom, top], "grid": [columns, rows], "solver": "smo-platt", "steps": 12}

The values of parameters are checked by the estimator; here are the checks of the form, and the limits on the work.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM

MOST_POINTS = 1000
MOST_CLASSES = 5
MOST_NODES = 40_000  # nodes of the grid
MAX_SECONDS = 1.0  # time limit of a fit
LARGEST_COORDINATE = 1e6

#: The parameters of each machine, besides those of its kernel.
MACHINES: Mapping[str, tuple[str, ...]] = {
    "SVC": ("C", "loss"),
    "NuSVC": ("nu",),
    "SVR": ("C", "epsilon", "loss"),
    "NuSVR": ("C", "nu"),
    "OneClassSVM": ("nu",),
}
ESTIMATORS: Mapping[str, type] = {estimator.__name__: estimator for estimator in (SVC, NuSVC, SVR, NuSVR, OneClassSVM)}
KERNELS: Mapping[str, tuple[str, ...]] = {
    "linear": (),
    "poly": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "exponential": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
}
WORDS = {"loss", "kernel"}  # parameters that are words; the others are numbers
TEACHING_SOLVERS = ("smo-platt", "smo-simple")


class TaskError(ValueError):
    """A request that cannot be answered; the message says why."""


@dataclass(frozen=True)
class Task:
    """A checked request. `parameters` are those that the machine and its kernel use, in the order of the tables above."""

    machine: str
    parameters: Mapping[str, Any]
    points: NDArray[np.float64]  # x and y, a row for each point
    classes: NDArray[np.intp]
    window: tuple[float, float, float, float]
    grid: tuple[int, int]
    solver: str | None
    steps: int | None

    @property
    def is_regression(self) -> bool:
        return self.machine in ("SVR", "NuSVR")

    @property
    def samples(self) -> NDArray[np.float64]:
        """The features: both coordinates, or the first one where the second is the target."""
        return self.points[:, :1] if self.is_regression else self.points

    @property
    def targets(self) -> NDArray[Any] | None:
        if self.machine == "OneClassSVM":
            return None
        return self.points[:, 1] if self.is_regression else self.classes

    def estimator(self, **options: Any) -> Any:
        """The estimator of this task, not fitted; `options` are further parameters of it."""
        return ESTIMATORS[self.machine](**self.parameters, **options)

    def nodes(self) -> NDArray[np.float64]:
        """The places where the machine is evaluated for the picture: the nodes of the grid row by row from the bottom, or, for
        a regression, the values of x."""
        left, right, bottom, top = self.window
        x = np.linspace(left, right, self.grid[0])
        if self.is_regression:
            return x[:, None]
        return np.stack(np.meshgrid(x, np.linspace(bottom, top, self.grid[1])), axis=-1).reshape(-1, 2)


def read_task(body: bytes) -> Task:
    """The task in the body of a request; a TaskError says what is wrong with it."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"the request is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise TaskError(f"the request is a {type(content).__name__}: it must be an object")
    machine = _one_of("machine", content.get("machine"), MACHINES)
    solver, steps = content.get("solver"), content.get("steps")
    if solver is not None:
        _one_of("solver", solver, TEACHING_SOLVERS)
        if machine != "SVC":
            raise TaskError(f"solver={solver!r}: only SVC can be trained step by step, not {machine}")
    if steps is not None and (solver is None or not isinstance(steps, int) or isinstance(steps, bool) or steps < 0):
        raise TaskError(f"steps={steps!r}: must be a whole number, at least 0, and needs a solver")
    points = _points(content.get("points"))
    return Task(
        machine,
        _parameters(machine, content.get("parameters")),
        points[:, :2],
        points[:, 2].astype(np.intp),
        _window(content.get("window")),
        _grid(content.get("grid")),
        solver,
        steps,
    )


def _points(points: Any) -> NDArray[np.float64]:
    if not isinstance(points, list) or not points:
        raise TaskError("points: there are none; draw some, or choose a data set")
    if len(points) > MOST_POINTS:
        raise TaskError(f"points: {len(points)} are too many; at most {MOST_POINTS} can be drawn")
    for number, point in enumerate(points):
        if not _numbers(point, 3) or max(map(abs, point[:2])) > LARGEST_COORDINATE:
            raise TaskError(f"points[{number}]={point!r}: must be [x, y, class] with |x|, |y| <= {LARGEST_COORDINATE:g}")
        if point[2] not in range(MOST_CLASSES):
            raise TaskError(f"points[{number}]={point!r}: the class must be one of 0, …, {MOST_CLASSES - 1}")
    return np.array(points, dtype=np.float64)


def _parameters(machine: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise TaskError("parameters: must be an object of names and values")
    kernel = _one_of("kernel", given.get("kernel"), KERNELS)
    parameters: dict[str, Any] = {}
    for name in (*MACHINES[machine], "kernel", *KERNELS[kernel]):
        if name not in given:
            raise TaskError(f"parameters: {name} is missing; {machine} with the {kernel} kernel needs it")
        parameters[name] = _value(name, given[name])
    return parameters


def _value(name: str, value: Any) -> Any:
    if (name in WORDS and isinstance(value, str)) or (name, value) == ("gamma", "scale"):
        return value
    if (name, value) == ("C", "inf"):  # JSON has no infinity
        return math.inf
    if name in WORDS or not _numbers([value], 1):
        raise TaskError(f"{name}={value!r}: must be a {'word' if name in WORDS else 'finite number'}")
    return value


def _window(window: Any) -> tuple[float, float, float, float]:
    if not _numbers(window, 4) or not (window[0] < window[1] and window[2] < window[3]):
        raise TaskError(f"window={window!r}: must be [left, right, bottom, top] with left < right and bottom < top")
    left, right, bottom, top = map(float, window)
    return left, right, bottom, top


def _grid(grid: Any) -> tuple[int, int]:
    if not _numbers(grid, 2) or not all(isinstance(side, int) and side >= 2 for side in grid):
        raise TaskError(f"grid={grid!r}: must be [columns, rows], whole numbers from 2 on")
    if grid[0] * grid[1] > MOST_NODES:
        raise TaskError(f"grid={grid!r}: {grid[0] * grid[1]} nodes are too many; at most {MOST_NODES}")
    return grid[0], grid[1]


def _numbers(values: Any, count: int) -> bool:
    """Whether `values` is a list of `count` finite numbers."""
    if not isinstance(values, list) or len(values) != count:
        return False
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= float_info.max for value in values
    )


def _one_of(name: str, value: Any, known: Sequence[str] | Mapping[str, Any]) -> str:
    if not isinstance(value, str) or value not in known:
        raise TaskError(f"{name}={value!r}: must be one of {', '.join(known)}")
    return value
