"""What a solver returns: a point, the status of the run, and its trace.

A solver *claims* a status. The status that a user reads is decided afterwards, from the certificate (`training.decide`). Statuses
are sentences, because people read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from maxmargin.rounding import TINY

Vector = NDArray[np.float64]


class Status(Enum):
    """How a run ended. The value is the sentence a user reads, and ``print`` gives it.

    See Also
    --------
    Certificate : The numbers from which the status is decided.

    Examples
    --------
    >>> from maxmargin import Status
    >>> print(Status.GAP_REACHED)
    Converged: the relative duality gap is at most gap_tol.
    >>> Status.GAP_REACHED.converged
    True
    >>> Status.MAX_ITER.converged
    False
    """

    CONVERGED = (
        "Converged: no sample violates the optimality conditions by more than tol, and the relative duality gap is at most "
        "gap_tol (any gap if gap_tol is None)."
    )
    GAP_REACHED = "Converged: the relative duality gap is at most gap_tol."
    MAX_ITER = "Stopped at max_iter steps before reaching tol and gap_tol; the certificate says how far it got."
    MAX_SECONDS = "Stopped at max_seconds before reaching tol and gap_tol; the certificate says how far it got."
    INTERRUPTED = "Interrupted before reaching tol and gap_tol; the certificate says how far it got."
    STOPPED_BY_CALLBACK = "Stopped by a callback before reaching tol and gap_tol; the certificate says how far it got."
    SOURCE_FAILED = "Stopped because rows could not be read, or were lost; the model is the last one before that."
    STOPPED_BY_OPTION = (
        "Stopped by the solver's own rule (see solver_options) before reaching tol and gap_tol; the certificate says how far it "
        "got."
    )
    STALLED = (
        "Stalled before reaching tol and gap_tol: rounding, or the scale of the data, allows no further progress; the "
        "certificate says how far it got."
    )
    STATIONARY = (
        "Stopped at a stationary point: the kernel is not positive semi-definite, so the problem has no duality gap to close."
    )
    UNBOUNDED = (
        "Unbounded: the kernel is not positive semi-definite and nothing bounds the duals, so the problem has no solution."
    )
    NOT_SEPARABLE = (
        "Not separable: the hard-margin problem has no solution; the convex hulls of the two classes meet to working precision."
    )
    SEPARATES = "Separates the classes; the margin is not the widest."
    NO_MARGIN = (
        "No margin: nu is so small that the reduced convex hulls of the two classes meet, and the machine tells nothing apart."
    )

    @property
    def converged(self) -> bool:
        """Whether the run reached its tolerances."""
        return self is Status.CONVERGED or self is Status.GAP_REACHED

    def __str__(self) -> str:
        return self.value


@dataclass
class Trace:
    """One entry for each outer iteration of a run."""

    seconds: list[float] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)
    violation: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)

    def append(self, seconds: float, iteration: int, violation: float, dual: float, gap: float) -> None:
        self.seconds.append(seconds)
        self.iteration.append(iteration)
        self.violation.append(violation)
        self.primal.append(dual + gap)
        self.dual.append(dual)
        self.gap.append(gap)

    def followed_by(self, other: Trace) -> Trace:
        """This trace, continued by another."""
        parts = {name: [*values, *getattr(other, name)] for name, values in vars(self).items()}
        return Trace(**{**parts, "iteration": list(range(len(parts["iteration"])))})

    def relative_gap(self) -> float:
        """The last gap, relative to the larger of the primal and the dual value."""
        return self.gap[-1] / max(abs(self.primal[-1]), abs(self.dual[-1]), TINY)


@dataclass(frozen=True)
class Solution:
    """A point of a dual problem, with the solver's gradient of the objective there. The gradient may be out of date if the time
    ran out; then `up_to_date` is False.

    ``bias`` is the bias that the solver's algorithm ended with and that the model is to keep; None for the best one.
    """

    beta: Vector
    gradient: Vector
    status: Status
    violation: float
    steps: int
    trace: Trace
    arithmetic: str
    up_to_date: bool = True
    bias: float | None = None
