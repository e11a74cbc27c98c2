"""Learning tasks: from a training set to dual problems, and from their solutions to a machine.

A task encodes and decodes. `problems` are the dual problems of its machines, `parts` their parts of the kernel matrix, and
`decode` turns what was found into support vectors, coefficients, intercepts and one certificate, in the layout of scikit-learn.
`encode` is the reverse, for a machine that exists already. A fold of a cross-validation is the task `without` some samples. Fits,
grids, paths, probabilities and audits all go through here.

    classification    one binary machine, or several of pairs or of one class against the rest
    joint             Crammer and Singer's machine of all classes
    regression        two variables for each sample
    one_class         the machine of a single class

A task sees labels, targets and weights, and the kernel matrix only to hand it on. It never sees X or a solver.
"""

from maxmargin.tasks.base import Fitted, Task
from maxmargin.tasks.by_class import ByClass
from maxmargin.tasks.classification import ClassificationTask, CostMachine, NuMachine
from maxmargin.tasks.joint import JointTask
from maxmargin.tasks.one_class import OneClassTask
from maxmargin.tasks.regression import NuTube, RegressionTask, Tube

__all__ = [
    "ByClass",
    "ClassificationTask",
    "CostMachine",
    "Fitted",
    "JointTask",
    "NuMachine",
    "NuTube",
    "OneClassTask",
    "RegressionTask",
    "Task",
    "Tube",
]
