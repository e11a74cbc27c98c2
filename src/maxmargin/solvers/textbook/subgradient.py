r"""(Stochastic) subgradient descent on the primal hinge objective.

    min    1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w . x_i + b))

The hinge has no derivative at its kink; -y_i x_i on the left of it and 0 on the right make a subgradient. A step of length
eta, on a batch B of samples that stands for all n, or on all:

    w = w - eta (w - n/|B| sum_{i in B} pull_i x_i)        pull_i = C_i y_i where y_i f(x_i) < 1, else 0
    b = b + eta n/|B| sum_{i in B} pull_i                  on all samples instead: the best b for this w

    constant     eta = eta0: comes close fast and then dances around the optimum, at a distance that grows with eta0
    decaying     eta = 2 eta0 / (2 + eta0 t) in step t, which soon is 2 / t: converges, but as slowly as 1 / t

**The dual point.** The step on w is w = (1 - eta) w + eta n/|B| sum pull_i x_i. So, as w begins at zero, w = sum_i beta_i x_i
holds throughout if beta makes the same step, beta = (1 - eta) beta + eta n/|B| pull: a mean of points of the box. With the
best b the pulls sum to zero, as the duals must; on batches they do so only in the limit, which `DualProblem.feasible`
repairs. What it returns is the model, and what is certified.

**The hard margin** is here what some textbooks make of it, the loss alone:

    min    sum_i max(0, 1 - y_i (w . x_i + b))             w = w + eta n/|B| sum_{i in B} pull_i x_i,  C_i = 1

It is zero for every hyperplane that separates the classes, once its scale is large enough. The run ends at the first one it
meets, and nothing makes its margin wide: the status says so. Nothing shrinks the earlier steps either, so the pulls must sum to
zero in each of them for beta to be a dual point: on batches the best b is then that of the batch, which must have two samples
at least. In the end the hyperplane is scaled to its canonical form, with a smallest functional margin of 1.

A subgradient does not tell how far it is to the kinks, so do not expect many digits: after a thousand steps on all samples
the relative gap is a few per cent for C = 1 and grows with C; batches are cheaper and coarser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxmargin.rounding import TINY
from maxmargin.solution import Solution, Status
from maxmargin.solvers.course import Course
from maxmargin.solvers.job import Job
from maxmargin.solvers.options import SolverOptions, count, number, one_of, seed
from maxmargin.solvers.primal import balanced_pull, canonical, features_of, gradient_at, pull, smallest_margin, unit_prices

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Options(SolverOptions):
    """`learning_rate`: decaying from `eta0`, or constant. `batch_size`: the number of samples in a step, None for all samples.
    `epochs`: the number of passes over the samples after which the run ends. `seed`: the random seed of the batches."""

    learning_rate: str = one_of("decaying", "constant")
    eta0: float = number(0.1, least=TINY, most=1.0, rule="a number in (0, 1]")
    batch_size: int | None = count(None)
    epochs: int = count(1000)
    seed: int = seed()


def solve(job: Job, options: Options = Options()) -> Solution:
    """Minimise the primal of a problem over the features of its samples."""
    problem, course = job.problem, Course(job)
    features, random, n = features_of(job.gram), np.random.default_rng(options.seed), len(problem)
    size = min(options.batch_size or n, n)
    priced = unit_prices(problem) if problem.hard else problem
    if problem.hard and problem.coupled and size < 2:
        raise ValueError("solver_options: batch_size=1: must be at least 2 with C=inf and an intercept (or None for all samples)")
    beta, bias, t = course.begin(), 0.0, 0
    w, point, status = features.T @ beta, beta, None
    gradient = gradient_at(problem, features, point)
    for epoch in range(options.epochs + 1):
        if (status := course.ended(point, gradient)) is not None or epoch == options.epochs:
            break
        if problem.hard and smallest_margin(problem, gradient - problem.linear) >= 1.0:  # the loss is zero
            break
        samples = random.permutation(n) if size < n else np.arange(n)
        for first in range(0, n, size):
            batch, decay = samples[first : first + size], 1.0 + 0.5 * options.eta0 * t
            eta = options.eta0 if options.learning_rate == "constant" else options.eta0 / decay
            outputs = features[batch] @ w
            if size == n:
                step = eta * balanced_pull(priced, outputs, problem.shift)
            elif problem.hard:
                step = eta * n / len(batch) * balanced_pull(priced.restrict(batch), outputs, None)
            else:
                errors = outputs + bias + problem.linear[batch]
                step = eta * n / len(batch) * pull(errors, problem.lower[batch], problem.upper[batch], problem.shift)
                bias += float(step.sum()) if problem.coupled else 0.0
            shrink = 0.0 if problem.hard else eta
            w = (1.0 - shrink) * w + features[batch].T @ step
            beta *= 1.0 - shrink
            beta[batch] += step
            t += 1
            if course.step():
                break
        point = problem.feasible(beta)
        gradient = gradient_at(problem, features, point)
    if problem.hard and (status is None or not status.converged):
        point, separates = canonical(problem, features, point)
        gradient = gradient_at(problem, features, point)
        status = status or (Status.SEPARATES if separates else None)
    return course.solution(point, gradient, status or Status.STOPPED_BY_OPTION)
