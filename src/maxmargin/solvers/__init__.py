"""The solvers, which minimise a DualProblem.

A solver gets a `Job`: a problem, a Gram, a backend and a stopping rule. It never sees y or X, prints nothing, issues no
warnings, and does not import scikit-learn.

    block-smo      decomposition with second-order SMO               the dual, any kernel: the fast one
    crammer-singer decomposition of a CrammerSingerProblem           the dual of all classes at once
    lbfgs          a quasi-Newton method                             the primal, linear kernel
    linear         the solvers of linear machines, in linear/        either problem, linear kernel

and, in textbook/:

    smo-simple     SMO with random partners, as in lectures          the dual, any kernel
    smo-all-pairs  SMO over all pairs of duals in turn
    smo-platt      Platt's SMO
    dual-ascent    coordinate ascent with the kernel K + 1
    qp             an interior-point solver                          either problem
    subgradient    (stochastic) subgradient descent                  the primal, linear kernel
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import CrammerSingerProblem
from maxmargin.solution import Solution, Status, Trace
from maxmargin.solvers import block_smo, crammer_singer
from maxmargin.solvers.choose import HARD_MARGIN, SOLVERS, Choice, Situation, Solver, choose_solver, require_known
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, make_options

Vector = NDArray[np.float64]

FAST_SOLVERS = ("block-smo", "crammer-singer", "linear")
FINITE_TOL = 1e-3  # tol of textbook solvers if the user's tol is infinite: they do not stop by the gap
FAST = Choice("block-smo", "block-smo, the solver of the dual for every machine", continues=True)
JOINT = Choice("crammer-singer", "crammer-singer, the solver of the dual of a machine of all classes", continues=True)


def solve_ahead(choice: Choice, jobs: Sequence[Job]) -> dict[int, Solution]:
    """Solve the small ones among several problems over one kernel matrix together, because each of them occupies only one core;
    return the solutions by the number of the job. The jobs differ in problem, part of the matrix and start only. None is solved
    if the steps are limited, because the limit is for all problems together."""
    control = jobs[0].control
    if choice.name != "block-smo" or control.limits_steps or control.ended() is not None:
        return {}
    return block_smo.solve_small(jobs)


def solve(
    choice: Choice,
    job: Job,
    ahead: Solution | None = None,
    options: SolverOptions | None = None,
    order: NDArray[np.intp] | None = None,
) -> Solution:
    """Solve a problem, given the solution that was found ahead, if any, which is continued if its gap is too large. `order` is
    the order in which a solver that depends on the order of the variables sees them. When the fit has to end, the problem stays
    at zero."""
    control = job.control
    if ahead is not None and (ahead.status.converged or ahead.steps):
        return ahead if ahead.status.converged and _record(job, ahead) else go_on(job, ahead, ahead.gradient)
    if (ended := control.ended()) is not None:
        return _untouched(job, ended)
    return _solve_one(choice, job, options, order)


def _record(job: Job, solution: Solution) -> bool:
    """Record and report a problem that was solved ahead; return whether its gap is small enough."""
    problem, beta, gradient = job.problem, solution.beta, solution.gradient
    gap = float(problem.gap_terms(beta, gradient, problem.best_level(beta, gradient)).sum())
    solution.trace.append(job.control.seconds, 0, solution.violation, problem.dual_value(beta, gradient), gap)
    relative_gap = solution.trace.relative_gap()
    job.control.report(0, solution.violation, relative_gap, 1.0)
    return job.stop.close(relative_gap)


def go_on(job: Job, solution: Solution, gradient: NDArray[np.float64]) -> Solution:
    """Continue from a solution, given its recomputed gradient, with the fast solver for this kind of problem."""
    solve = crammer_singer.solve if isinstance(job.problem, CrammerSingerProblem) else block_smo.solve
    further = solve(job._replace(start=solution.beta, known=(solution.beta, gradient)))
    return replace(further, steps=solution.steps + further.steps, trace=solution.trace.followed_by(further.trace))


def solve_as_linear(job: Job) -> Solution:
    """Solve a problem with a linear kernel by the solvers of linear machines. They take features of very different sizes better
    than pair steps do, because Newton's method does not depend on the scale of a feature."""
    return _solve_one(Choice("linear", "", hands_over=True), job._replace(start=None), None, None)


def _solve_one(choice: Choice, job: Job, options: SolverOptions | None, order: NDArray[np.intp] | None) -> Solution:
    solver = Solver(crammer_singer.solve) if choice is JOINT else SOLVERS[choice.name]
    told = {"options": options} if options is not None and solver.takes_options else {}
    if not np.isfinite(job.stop.tol) and choice.name not in FAST_SOLVERS:
        job = job._replace(stop=replace(job.stop, tol=FINITE_TOL))
    if order is not None and solver.goes_by_order:
        start = None if job.start is None else job.start[order]
        seen = job._replace(problem=job.problem.restrict(order), gram=job.gram.subset(order.astype(np.int32)), start=start)
        solution, back = solver.solve(seen, **told), np.argsort(order)
        solution = replace(solution, beta=solution.beta[back], gradient=solution.gradient[back])
    else:
        solution = solver.solve(job, **told)
    if solution.status.converged or not choice.hands_over or job.control.ended() is not None:
        return solution
    # in float64, as the solution is: float32 entries of large features would lead away from it
    further = go_on(job._replace(gram=job.gram.in_float64()), solution, solution.gradient)
    return further if further.trace.gap[-1] <= solution.trace.gap[-1] else solution


def _untouched(job: Job, status: Status) -> Solution:
    """The start of a problem as its solution: there was no time to solve it."""
    problem = job.problem
    beta = np.zeros_like(problem.linear) if problem.start is None else problem.start
    beta = beta if job.start is None else problem.feasible(job.start)
    return Solution(beta, problem.linear.copy(), status, np.inf, 0, Trace(), "none", up_to_date=not beta.any())


__all__ = [
    "FAST",
    "HARD_MARGIN",
    "JOINT",
    "SOLVERS",
    "Choice",
    "Job",
    "Situation",
    "Solver",
    "SolverOptions",
    "choose_solver",
    "go_on",
    "make_options",
    "require_known",
    "solve",
    "solve_ahead",
    "solve_as_linear",
]
