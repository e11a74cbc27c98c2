r"""Platt's sequential minimal optimisation: two loops choose the first dual, a hierarchy of heuristics the second.

    min    1/2 beta' (K + diag(shift)) beta + linear' beta
    s.t.   lower <= beta <= upper,   sum(beta) = 0

    alternate passes over all samples and over those that are not at a bound, the latter until they change nothing
        for each sample i2 of the pass that violates the optimality conditions
            try as i1    1. the non-bound sample with the largest |E1 - E2|, which promises the longest step
                         2. the non-bound samples, from a random one on
                         3. all samples, from a random one on
            until one makes progress; then minimise over both duals and update the bias and the error cache
    until a pass over all samples changes nothing

Steps, clipping, bias and signed duals are those of `pair_step` and `smo_simple`. The error cache holds E = G + b of every
sample, not only of the non-bound ones: with the kernel matrix in memory an update is one line either way. It is computed
anew before each pass over all samples, so that rounding does not build up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course, kernel_matrix
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, seed
from maxmargin.solvers.separability import best_multiple
from maxmargin.solvers.textbook.pair_step import best_step, bias_after, move, violates

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Options(SolverOptions):
    """`seed`: the random seed of the places where the searches for a partner begin."""

    seed: int = seed()


def solve(job: Job, options: Options = Options()) -> Solution:
    problem, course = job.problem, Course(job)
    run = _Run(problem, job.gram, course.begin(), 0.5 * job.stop.tol, options.seed)
    everyone = np.arange(len(problem))
    examine_all, changed = True, 0
    while (status := course.ended(run.beta, run.gradient)) is None and (changed or examine_all):
        changed = 0
        for i2 in everyone if examine_all else run.non_bound():
            if run.examine(int(i2)):
                changed += 1
                if run.unbounded or course.step():
                    break
        if run.unbounded:
            status = Status.UNBOUNDED
            break
        examine_all = not examine_all and not changed
        if examine_all or problem.hard:
            run.renew()
    return course.solution(run.beta, run.gradient, status or Status.STALLED)


class _Run:
    """The duals, the bias and the error cache E = G + b."""

    def __init__(self, problem: DualProblem, gram: Gram, beta: Vector, tol: float, seed: int) -> None:
        self._problem, self._tol = problem, tol
        self._random = np.random.default_rng(seed)
        self._K = kernel_matrix(gram, problem.shift)
        self.beta, self._bias = beta, 0.0
        self._errors = self._K @ beta + problem.linear
        self.unbounded = False

    @property
    def gradient(self) -> Vector:
        return self._errors - self._bias

    def non_bound(self) -> NDArray[np.intp]:
        return np.flatnonzero((self.beta > self._problem.lower) & (self.beta < self._problem.upper))

    def examine(self, i2: int) -> bool:
        """Try to make progress with sample i2; return whether that was possible."""
        E2 = float(self._errors[i2])
        if not violates(self._problem, self.beta, i2, E2, self._tol):
            return False
        non_bound = self.non_bound()
        if len(non_bound) > 1:
            farthest = non_bound[np.abs(self._errors[non_bound] - E2).argmax()]
            if self._take_step(int(farthest), i2):
                return True
        for candidates in (non_bound, np.arange(len(self.beta))):
            first = int(self._random.integers(max(1, len(candidates))))
            if any(self._take_step(int(i1), i2) for i1 in np.roll(candidates, -first)):
                return True
        return False

    def _take_step(self, i1: int, i2: int) -> bool:
        problem, K, beta, errors = self._problem, self._K, self.beta, self._errors
        if i1 == i2:
            return False
        t = best_step(problem, K, beta, i1, i2, float(errors[i1] - errors[i2]))
        if t == 0.0:
            return False
        if math.isinf(t):
            self.unbounded = True
            return True
        move(problem, beta, i1, -t)
        move(problem, beta, i2, t)
        errors += t * (K[i2] - K[i1])
        bias = bias_after(problem, beta, i1, i2, errors[i1] - self._bias, errors[i2] - self._bias)
        errors += bias - self._bias
        self._bias = bias
        return True

    def renew(self) -> None:
        """Recompute the error cache; with a hard margin, at the best multiple of the duals."""
        stretch = best_multiple(self._problem, self.beta, self.gradient)
        self.beta, self._bias = stretch * self.beta, stretch * self._bias
        self._errors = self._K @ self.beta + self._problem.linear + self._bias
