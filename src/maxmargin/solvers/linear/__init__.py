"""Solvers of linear machines: they see a `LinearProblem` and the rows of a training set, and no label.

    newton       the primal, by Newton's method; losses with corners by the method of multipliers. Reads the rows on all threads
    descent      the dual, coordinate by coordinate, with shrinking. One thread for each machine. Of one machine of all classes,
                 sample by sample
    tile         the dual of one machine of all classes over X X', for few samples
    columns      the primal of the L1 penalty, weight by weight, with shrinking. One thread for each machine

`choose_linear_solver` says which is the better one, and why.
"""

from maxmargin.solvers.linear.choose import (
    LINEAR_SOLVERS,
    SMALL_JOINT_SOLVER,
    LinearChoice,
    LinearSituation,
    choose_linear_solver,
)
from maxmargin.solvers.linear.solve import LinearRun, LinearSolution

__all__ = [
    "LINEAR_SOLVERS",
    "SMALL_JOINT_SOLVER",
    "LinearChoice",
    "LinearRun",
    "LinearSituation",
    "LinearSolution",
    "choose_linear_solver",
]
