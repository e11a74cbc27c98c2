r"""Kernel machines with the linear kernel, by the solvers of linear machines: passes over the samples instead of kernel entries.

A `DualProblem` over K = X X' is the dual of a `LinearProblem` over the rows of X, with the same variables:

    min  1/2 beta'(K + diag(shift)) beta + linear'beta
    max  sum_i t_i beta_i - eps |beta_i| - q_i/2 beta_i^2  -  1/2 |X'beta|^2

with t = -linear, q = shift and eps = 0 for one variable per sample. With two variables per sample (regression), beta_i >= 0 with
the linear term eps - t_i and beta_{n+i} <= 0 with -eps - t_i, at most one of them is not zero at the optimum, and their sum is
the dual of the linear machine. Its duals keep to their boxes and, with an intercept, to their sum; so they are feasible here as
they are, whichever solver found them, and the certificate of the kernel machine judges them.

The solvers of linear machines stop by the gap. So they are asked for smaller gaps until the violation is within tol too, or until
they have read the samples so often that kernel entries would have cost less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.linear import Rows
from maxmargin.formulations import DualProblem, LinearProblem, merge_halves
from maxmargin.gram import DoubledGram, Gram
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course
from maxmargin.solvers.job import Job
from maxmargin.solvers.linear.choose import LinearSituation, choose_linear_solver
from maxmargin.solvers.linear.solve import LinearRun

Vector = NDArray[np.float64]

FIRST_GAP = 1e-3  # relative gap that is asked for first, if gap_tol is larger or None
REDUCTION = 0.1  # factor on the gap from one request to the next
LEAST_GAP = 1e-24  # relative: the weights of a gap are as exact as its square root, and large features multiply their error
#: Epochs or Newton steps that are worth it: at least so many, or one for so many samples.
LEAST_ROUNDS, SAMPLES_PER_ROUND = 200, 10


def solve(job: Job) -> Solution:
    """Minimise the dual of a machine with a linear kernel."""
    problem, course = job.problem, Course(job)
    rows = Rows(centred_rows(job.gram))
    posed = linear_problem(problem, isinstance(job.gram, DoubledGram))
    name = choose_linear_solver("auto", LinearSituation(rows.n_samples, rows.n_features, posed.squared)).name
    run = LinearRun.begin(name, posed, rows, _start(job, posed, rows))
    limit = job.control.steps_left(max(LEAST_ROUNDS, rows.n_samples // SAMPLES_PER_ROUND))
    target = min(FIRST_GAP, job.stop.gap_tol or FIRST_GAP)
    while True:
        before = run.rounds
        found = run.advance(target, job.control, limit)
        course.step(run.rounds - before)
        beta = found.beta if len(found.beta) == len(problem) else _halves(found.beta)
        gradient = _gradient(problem, posed, rows, found.beta)
        ended = course.ended(beta, gradient)
        target *= REDUCTION
        if ended is not None or not found.status.converged or target < LEAST_GAP:
            break
    status = ended or (Status.STALLED if found.status in (Status.MAX_ITER, Status.GAP_REACHED) else found.status)
    return replace(course.solution(beta, gradient, status), arithmetic="float64, no kernel matrix")


def centred_rows(gram: Gram) -> Any:
    """The samples less their centre, in the order of the variables."""
    samples = gram.samples
    return samples.rows if samples.centre is None else np.ascontiguousarray(samples.rows - samples.centre)


def linear_problem(problem: DualProblem, doubled: bool) -> LinearProblem:
    """The linear machine whose dual a problem over K = X X' is."""
    size = np.maximum(problem.upper, -problem.lower)
    cost = size if problem.shift is None else np.where(size > 0.0, 0.5 / problem.shift, 0.0)
    bias, squared = "free" if problem.coupled else "none", problem.shift is not None
    if not doubled:
        return LinearProblem(-problem.linear, np.where(problem.upper > 0.0, cost, -cost), squared=squared, bias=bias)
    n = len(problem) // 2
    up, down = problem.linear[:n], problem.linear[n:]
    epsilon = 0.5 * float(up[0] - down[0])
    return LinearProblem(-0.5 * (up + down), cost[:n], epsilon, two_sided=True, squared=squared, bias=bias)


def _start(job: Job, posed: LinearProblem, rows: Rows) -> tuple[Vector, Vector] | None:
    """The duals of the start of a job, made feasible, and the weights that belong to them."""
    if job.start is None:
        return None
    beta = job.problem.feasible(job.start)
    beta = beta if len(beta) == len(posed) else merge_halves(beta)
    weights = posed.origin(rows.n_features)[1]
    weights[: rows.n_features] = rows.products(beta)
    return beta.copy(), weights


def _halves(beta: Vector) -> Vector:
    return np.concatenate([np.maximum(beta, 0.0), np.minimum(beta, 0.0)])


def _gradient(problem: DualProblem, posed: LinearProblem, rows: Rows, beta: Vector) -> Vector:
    """(K + diag(shift)) beta + linear in float64."""
    scores = rows.scores(rows.products(beta))
    if len(posed) == len(problem):
        gradient, whole = scores + problem.linear, beta
    else:
        gradient, whole = np.tile(scores, 2) + problem.linear, _halves(beta)
    return gradient if problem.shift is None else gradient + problem.shift * whole
