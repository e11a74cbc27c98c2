"""From a learning task to a dual quadratic programme.

A formulation turns labels, costs and weights into a `DualProblem` in *signed* dual variables (beta = y alpha), so that
no solver ever sees a label. It touches vectors of length n. It never sees X, a kernel or a solver.
"""

from maxmargin.formulations.classification import classification_problem, costs
from maxmargin.formulations.problem import DualProblem

__all__ = ["DualProblem", "classification_problem", "costs"]
