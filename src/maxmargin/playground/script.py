"""The Python lines that fit the machine of a task: what the page exports."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.playground.task import Task

WIDTH = 100  # characters of a line
UNBROKEN = "\N{NO-BREAK SPACE}"  # between the coordinates of one point


def script(task: Task) -> str:
    """Python code that makes the points, fits the machine and prints its certificate."""
    options = dict(task.parameters)
    if task.solver is not None:
        options["solver"] = task.solver
        if task.steps is not None:
            options["max_iter"] = task.steps
    call = ", ".join(f"{name}={_written(value)}" for name, value in options.items())
    has_targets = task.targets is not None
    lines = [
        "import numpy as np",
        "",
        f"from maxmargin import {task.machine}",
        "",
        _array("X", task.samples),
        *([_array("y", task.targets)] if has_targets else []),
        "",
        f"model = {task.machine}({call})",
        "model.fit(X, y)" if has_targets else "model.fit(X)",
        "print(model.status_.value)",
        "print(model.certificate_)",
    ]
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    return "np.inf" if value == math.inf else f'"{value}"' if isinstance(value, str) else repr(value)


def _array(name: str, values: NDArray[Any] | None) -> str:
    """The assignment of an array, its numbers exact and its lines of bounded width."""
    rows = [str(row).replace(" ", UNBROKEN) for row in np.asarray(values).tolist()]
    filled = textwrap.fill(", ".join(rows), WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{name} = np.array([\n{filled.replace(UNBROKEN, ' ')},\n])"
