"""What a solver is asked to do."""

from __future__ import annotations

from typing import Any, NamedTuple

from maxmargin.backends import Backend
from maxmargin.control import Control, Stop
from maxmargin.gram import Gram


class Job(NamedTuple):
    """Minimise `problem` over the kernel matrix `gram`, by the means of a backend, until `stop`, under a control, from `start`
    (None: from the problem's own start). `known` is a point near the start and the gradient at that point; by default the point
    is zero, where the gradient is the linear term."""

    problem: Any
    gram: Gram
    backend: Backend
    stop: Stop
    control: Control
    start: Any = None
    known: tuple[Any, Any] | None = None
