r"""Sequential minimal optimisation in its simplest form: all pairs of duals in turn, without a choice.

    min    1/2 beta' (K + diag(shift)) beta + linear' beta
    s.t.   lower <= beta <= upper,   sum(beta) = 0

    repeat until alpha_i < C implies y_i f(x_i) >= 1, and alpha_i > 0 implies y_i f(x_i) <= 1, for all i and some bias
        for i = 1, ..., n, for j = 1, ..., n, j != i
            minimise over alpha_i and alpha_j, the others fixed                                (`pair_step`)

Coordinate descent, two coordinates at a time. A pass costs n (n - 1) updates, most of which move nothing: the other solvers
of this family differ from it in how they choose the pairs that are worth it. The condition is met to tol: the KKT violation
of the certificate. With a hard margin the best multiple of the duals is taken after each pass (`separability`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course, kernel_matrix
from maxmargin.solvers.job import Job
from maxmargin.solvers.separability import best_multiple
from maxmargin.solvers.textbook.pair_step import best_step, move

Vector = NDArray[np.float64]


def solve(job: Job) -> Solution:
    problem, course = job.problem, Course(job)
    K = kernel_matrix(job.gram, problem.shift)
    beta, moved = course.begin(), True
    gradient = K @ beta + problem.linear
    while (status := course.ended(beta, gradient)) is None and moved:
        moved = False
        for i, j in ((i, j) for i in range(len(problem)) for j in range(len(problem)) if j != i):
            t = best_step(problem, K, beta, i, j, float(gradient[i] - gradient[j]))
            if math.isinf(t):
                return course.solution(beta, K @ beta + problem.linear, Status.UNBOUNDED)
            if t:
                move(problem, beta, i, -t)
                move(problem, beta, j, t)
                gradient += t * (K[j] - K[i])
                moved = True
            if course.step():
                break
        beta *= best_multiple(problem, beta, K @ beta + problem.linear)
        gradient = K @ beta + problem.linear
    return course.solution(beta, gradient, status or Status.STALLED)
