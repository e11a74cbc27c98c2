"""How a DualProblem is minimised.

A solver sees a problem, a Gram, a backend and when to stop. It never sees y or X, prints nothing, warns of nothing, and
does not import scikit-learn.

    block-smo      decomposition with second-order SMO: the fast one
    smo-simple     SMO with random partners, as in lectures          the dual, any kernel
    smo-all-pairs  SMO over all pairs of duals in turn
    smo-platt      Platt's SMO
    dual-ascent    coordinate ascent with the kernel K + 1
    qp             an interior-point solver                          either problem
    subgradient    (stochastic) subgradient descent                  the primal, linear kernel
    lbfgs          a quasi-Newton method

    crammer-singer decomposition of a CrammerSingerProblem           the dual of all classes at once
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import Backend
from maxmargin.control import Control, Stop
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers import block_smo, crammer_singer
from maxmargin.solvers.choose import HARD_MARGIN, SOLVERS, Choice, Situation, Solver, choose_solver, require_known
from maxmargin.solvers.options import SolverOptions, make_options

Vector = NDArray[np.float64]

TOGETHER = 32  # small problems that are solved in one go, between two looks at the clock
FAST = Choice("block-smo", "block-smo, the solver of the dual for every machine")
JOINT = Choice("crammer-singer", "crammer-singer, the solver of the dual of a machine of all classes")


def solve_each(
    choice: Choice,
    problems: Sequence[DualProblem],
    grams: Sequence[Gram],
    backend: Backend,
    stop: Stop,
    control: Control,
    starts: Sequence[Vector] | None = None,
    options: SolverOptions | None = None,
    orders: Sequence[NDArray[np.intp]] | None = None,
) -> Iterator[Solution]:
    """The solutions of several problems over one kernel matrix, in their order, each when it is asked for; from `starts`
    or, without them, from the start of each problem. `orders`, over and over, are those in which a solver that goes by the
    order of the variables is to see them.

    Small ones are solved ahead, many at a time, because each of them occupies one core only; not so if their steps are
    limited, as the limit is for all of them. When the fit has to end, the problems still to come stay at zero.
    """
    may_batch = choice.name == "block-smo" and not control.limits_steps and starts is None
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
            start = None if starts is None else starts[index]
            order = None if orders is None else orders[index % len(orders)]
            yield _solve_one(choice, problem, gram, backend, stop, control, start, options, order)


def _solve_one(
    choice: Choice,
    problem: DualProblem,
    gram: Gram,
    backend: Backend,
    stop: Stop,
    control: Control,
    start: Vector | None,
    options: SolverOptions | None,
    order: NDArray[np.intp] | None,
) -> Solution:
    solver = Solver(crammer_singer.solve) if choice is JOINT else SOLVERS[choice.name]
    told = {"options": options} if options is not None and solver.takes_options else {}
    if order is not None and solver.goes_by_order:
        own_start = None if start is None else start[order]
        seen = solver.solve(
            problem.restrict(order), gram.subset(order.astype(np.int32)), backend, stop, control, own_start, **told
        )
        back = np.argsort(order)
        solution = replace(seen, beta=seen.beta[back], gradient=seen.gradient[back])
    else:
        solution = solver.solve(problem, gram, backend, stop, control, start, **told)
    if solution.status.converged or choice.then is None or control.ended() is not None:
        return solution
    further = SOLVERS[choice.then].solve(problem, gram, backend, stop, control, solution.beta)
    return replace(further, steps=solution.steps + further.steps)


def _untouched(problem: DualProblem, status: Status) -> Solution:
    start = np.zeros_like(problem.linear) if problem.start is None else problem.start
    return Solution(start, problem.linear.copy(), status, np.inf, 0, Trace(), "none")


__all__ = [
    "FAST",
    "HARD_MARGIN",
    "JOINT",
    "SOLVERS",
    "Choice",
    "Situation",
    "Solver",
    "SolverOptions",
    "choose_solver",
    "make_options",
    "require_known",
    "solve_each",
]
