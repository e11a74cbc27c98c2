"""How a DualProblem is minimised.

A solver sees a problem, a Gram, a backend and when to stop. It never sees y or X, prints nothing, warns of nothing, and
does not import scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import Backend
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers import block_smo

Vector = NDArray[np.float64]

SOLVERS: dict[str, Callable[..., Solution]] = {"block-smo": block_smo.solve}

TOGETHER = 32  # small problems that are solved in one go, between two looks at the clock


def choose_solver(name: str) -> str:
    """The name of the solver that will run; 'auto' is the fast one."""
    if name == "auto":
        return "block-smo"
    if name not in SOLVERS:
        raise ValueError(f"solver={name!r}: must be 'auto' or one of {', '.join(SOLVERS)}")
    return name


def solve_each(
    name: str,
    problems: Sequence[DualProblem],
    grams: Sequence[Gram],
    backend: Backend,
    stop: Stop,
    control: Control,
    starts: Sequence[Vector] | None = None,
) -> Iterator[Solution]:
    """The solutions of several problems over one kernel matrix, in their order, each when it is asked for; from `starts`
    or, without them, from the start of each problem.

    Small ones are solved ahead, many at a time, because each of them occupies one core only; not so if their steps are
    limited, as the limit is for all of them. When the fit has to end, the problems still to come stay at zero.
    """
    may_batch = name == "block-smo" and not control.limits_steps and starts is None
    ahead: dict[int, Solution] = {}
    for index, (problem, gram) in enumerate(zip(problems, grams, strict=True)):
        if may_batch and index % TOGETHER == 0 and control.ended() is None:
            some = slice(index, index + TOGETHER)
            solved = block_smo.solve_small(problems[some], grams[some], backend, stop, control)
            ahead = {index + place: solution for place, solution in solved.items()}
        if (solution := ahead.pop(index, None)) is not None:
            control.report(0, solution.violation, solution.trace.relative_gap(), 1.0)
            yield solution
        elif (ended := control.ended()) is not None:
            yield _untouched(problem, ended)
        else:
            yield SOLVERS[name](problem, gram, backend, stop, control, None if starts is None else starts[index])


def _untouched(problem: DualProblem, status: Status) -> Solution:
    start = np.zeros(len(problem)) if problem.start is None else problem.start
    return Solution(start, problem.linear.copy(), status, np.inf, 0, Trace(), "none")


__all__ = ["SOLVERS", "choose_solver", "solve_each"]
