"""From a learning task to a dual quadratic programme.

A formulation turns labels, costs and weights into a `DualProblem` in *signed* dual variables (beta = y alpha), so that
no solver ever sees a label; or, for one machine of several classes, into a `CrammerSingerProblem`, which has a row of them
for each class. It touches vectors of length n. It never sees X, a kernel or a solver.
"""

from maxmargin.formulations.classification import (
    classification_problem,
    costs,
    largest_nu,
    nu_classification_problem,
    nu_margin,
)
from maxmargin.formulations.crammer_singer import CrammerSingerProblem, crammer_singer_problem
from maxmargin.formulations.linear import (
    BalanceInParts,
    LinearProblem,
    LinearTotals,
    Repair,
    linear_classification,
    linear_one_class,
    linear_regression,
)
from maxmargin.formulations.linear_joint import JointLinearProblem
from maxmargin.formulations.losses import Hinge, HuberHinge, Loss, SquaredHinge, make_loss
from maxmargin.formulations.one_class import one_class_problem
from maxmargin.formulations.problem import DualProblem, Sums
from maxmargin.formulations.regression import merge_halves, nu_regression_problem, regression_problem, tube

__all__ = [
    "BalanceInParts",
    "CrammerSingerProblem",
    "DualProblem",
    "Hinge",
    "HuberHinge",
    "JointLinearProblem",
    "LinearProblem",
    "LinearTotals",
    "Loss",
    "Repair",
    "SquaredHinge",
    "Sums",
    "classification_problem",
    "costs",
    "crammer_singer_problem",
    "largest_nu",
    "linear_classification",
    "linear_one_class",
    "linear_regression",
    "make_loss",
    "merge_halves",
    "nu_classification_problem",
    "nu_margin",
    "nu_regression_problem",
    "one_class_problem",
    "regression_problem",
    "tube",
]


def __dir__() -> list[str]:
    return __all__
