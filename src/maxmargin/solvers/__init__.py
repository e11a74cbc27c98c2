"""How a DualProblem is minimised.

A solver sees a problem, a Gram, a backend and when to stop. It never sees y or X, prints nothing, warns of nothing, and
does not import scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable

from maxmargin.solution import Solution
from maxmargin.solvers import block_smo

SOLVERS: dict[str, Callable[..., Solution]] = {"block-smo": block_smo.solve}


def choose_solver(name: str) -> str:
    """The name of the solver that will run; 'auto' is the fast one."""
    if name == "auto":
        return "block-smo"
    if name not in SOLVERS:
        raise ValueError(f"solver={name!r}: must be 'auto' or one of {', '.join(SOLVERS)}")
    return name


__all__ = ["SOLVERS", "choose_solver"]
