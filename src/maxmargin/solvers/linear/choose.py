"""Which solver for which linear machine.

Measured, passes over the data to a relative gap of 1e-3 (hinge, squared hinge), C = 1, by descent and by newton:

    set                          rows x columns     stored per row     descent        newton
    newsgroups20, one class      11314 x 130108     149                13,   7        80,  45
    synthetic text               200k x 100k        50                 12,  14        48,  34
    a9a                          32561 x 123        14                 57, 180        13,   9
    covtype                      464809 x 54        54 (dense)         51, 107        8,   8
"""

from __future__ import annotations

from dataclasses import dataclass

LINEAR_SOLVERS = ("newton", "descent")
#: The only solver of the L1 penalty.
L1_SOLVER = "columns"
#: The solvers of one machine of all classes: of few samples, and of many.
SMALL_JOINT_SOLVER, JOINT_SOLVER = "tile", "descent"

#: With at most this many columns the matrix of Newton's equations is kept, and a step costs little more than a pass.
FEW_COLUMNS = 1200
#: Machines of at most this many samples take no time worth mentioning by either solver, and Newton's method solves them exactly.
SMALL = 1024
#: Rows for each column from which Newton's method solves a squared loss in fewer passes, by conjugate gradients.
ROWS_PER_COLUMN = 1.5


@dataclass(frozen=True)
class LinearSituation:
    n_samples: int
    n_features: int
    squared: bool
    l1: bool = False
    joint: bool = False  # one machine of all classes


@dataclass(frozen=True)
class LinearChoice:
    name: str
    reason: str


def choose_linear_solver(name: str, situation: LinearSituation) -> LinearChoice:
    """The solver with this name; 'auto' is the one that takes less time."""
    if situation.l1:
        if name != "auto":
            raise ValueError(f"solver={name!r}: must be 'auto' with penalty='l1', which has one solver")
        return LinearChoice(L1_SOLVER, f"{L1_SOLVER}, coordinate descent over the weights: the solver of the L1 penalty")
    if situation.joint:
        if name not in ("auto", JOINT_SOLVER):
            raise ValueError(f"solver={name!r}: must be 'auto' or {JOINT_SOLVER!r} with multi_class='crammer_singer'")
        if name == "auto" and situation.n_samples <= SMALL:
            reason = (
                f"{SMALL_JOINT_SOLVER}, a solver of the dual of all classes over the matrix X X', exact for up to {SMALL} samples"
            )
            return LinearChoice(SMALL_JOINT_SOLVER, reason)
        return LinearChoice(JOINT_SOLVER, f"{JOINT_SOLVER}, a solver of the dual: the solver of one machine of all classes")
    if name != "auto":
        if name not in LINEAR_SOLVERS:
            raise ValueError(f"solver={name!r}: must be 'auto' or one of {', '.join(LINEAR_SOLVERS)}")
        return LinearChoice(name, f"{name}, as asked")
    n, d = situation.n_samples, situation.n_features
    if d <= FEW_COLUMNS and (n > d or n <= SMALL):
        return LinearChoice(
            "newton", f"newton, a solver of the primal: {d} columns are few, and a step costs about one pass over the rows"
        )
    if situation.squared and n > ROWS_PER_COLUMN * d:
        return LinearChoice(
            "newton", f"newton, a solver of the primal: the loss is smooth, and there are more rows ({n}) than columns ({d})"
        )
    why = "the loss has a corner" if n > d else f"there are at least as many columns ({d}) as rows ({n})"
    return LinearChoice("descent", f"descent, a solver of the dual: {why}")
