"""A problem as a few lines of Python that need NumPy, SciPy and maxmargin alone."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import callables
from .problems import Problem, spell

WIDTH = 120
MOST_ENTRIES = 400  # of an array that is written out


def script(problem: Problem, backend: str, seed: int | None = None, number: int | None = None) -> str:
    """Lines that fit the model and print its status and certificate."""
    if problem.X.size > MOST_ENTRIES:
        return _by_number(problem, backend, seed, number)
    function = problem.params.get("kernel")
    lines = ["import numpy as np", "import maxmargin", ""]
    lines += _matrix(problem)
    if problem.y is not None:
        lines.append(f"y = {_array(problem.y)}")
    if problem.sample_weight is not None:
        lines.append(f"w = {_array(problem.sample_weight)}")
    if callable(function):
        lines += ["", inspect.getsource(callables.dense), inspect.getsource(function).replace("Any", "object")]
        lines = [line.replace("A: Any", "A").replace("-> Any", "") for line in lines]
    lines += _fit(problem, backend)
    return "\n".join(lines)


def _by_number(problem: Problem, backend: str, seed: int | None, number: int | None) -> str:
    if number is None:
        return "# too large to write out"
    module, function = ("linear_generator", "generate_linear") if problem.linear else ("generator", "generate")
    return "\n".join(
        [
            f"from fuzz.{module} import {function}",
            "from fuzz.problems import fit",
            f"model = fit({function}({seed}, {number}), {backend!r})[-1]",
            "print(model.status_, model.certificate_, sep='\\n')",
        ]
    )


def _matrix(problem: Problem) -> list[str]:
    X = problem.arranged()
    if not sp.issparse(X):
        lines = [f"X = {_array(problem.X)}"]
        changes = {
            "F": "X = np.asfortranarray(X)",
            "strided": "X = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, 1::3]",
            "reversed": "X = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]",
            "readonly": "X.flags.writeable = False",
        }
        return [*lines, *([changes[problem.layout]] if problem.layout in changes else [])]
    kind = type(X).__name__
    parts = ", ".join(_array(part) for part in (X.data, X.indices, X.indptr))
    lines = ["import scipy.sparse as sp", f"X = sp.{kind}(({parts}), shape={X.shape})"]
    if problem.layout == "csr-int64":
        lines.append("X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)")
    if problem.layout == "csr-readonly":
        lines.append("X.data.flags.writeable = X.indices.flags.writeable = X.indptr.flags.writeable = False")
    return lines


def _array(values: Any) -> str:
    text = np.array2string(
        values, separator=", ", threshold=10**9, max_line_width=WIDTH, floatmode="unique", formatter=_formatter(values)
    )
    dtype = f", dtype=np.{values.dtype}" if values.dtype in (np.float32, np.int32) else ""
    return f"np.array({text}{dtype})"


def _formatter(values: Any) -> Any:
    return (
        {"all": lambda value: repr(value.item() if hasattr(value, "item") else value)} if values.dtype.kind in "fiubU" else None
    )


def _fit(problem: Problem, backend: str) -> list[str]:
    def call(params: Any) -> str:
        more = {} if problem.linear else {"backend": backend}
        return ", ".join(f"{name}={spell(value)}" for name, value in {**params, **more}.items())

    weight = "" if problem.sample_weight is None else ", sample_weight=w"
    targets = "y" if problem.y is not None else "None"
    if problem.path:
        return [
            f"estimator = maxmargin.{problem.estimator}({call(problem.params)})",
            f"path = maxmargin.C_path(X, y, {list(problem.path)}, estimator=estimator{weight})",
            "for model in path.machines:",
            "    print(model.status_, model.certificate_, sep='\\n')",
        ]
    train = f".fit(X, {targets}{weight})"
    lines = []
    if problem.first:
        back = {name: problem.params[name] for name in problem.first if name in problem.params}
        again = ", ".join(f"{name}={spell(value)}" for name, value in back.items())
        lines.append(f"model = maxmargin.{problem.estimator}({call({**problem.params, **problem.first})}){train}")
        lines.append(f"model.set_params({again}){train}")
    else:
        lines.append(f"model = maxmargin.{problem.estimator}({call(problem.params)}){train}")
    return [*lines, "print(model.status_, model.certificate_, sep='\\n')"]
