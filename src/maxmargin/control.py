"""Reasons for a run to end early: time, steps, Ctrl-C, a callback."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from maxmargin.rounding import TINY
from maxmargin.solution import Status

TARGET_SHARE = 0.3  # a tighter tolerance aims at this share of gap_tol
LEAST_REDUCTION = 0.01  # smallest factor by which the tolerance is reduced at once


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each outer iteration.

    Parameters
    ----------
    seconds : float
        The seconds since the fit began.
    machine, n_machines : int
        The number of the binary problem in a multi-class fit, and how many there are.
    iteration, steps : int
        The outer iteration of the machine, and the pair steps of the whole fit.
    violation : float
        The largest violation of the optimality conditions.
    gap : float
        The relative duality gap.
    fraction : float
        The share of the work that is done, judged by how far the violation has fallen on a logarithmic scale; it never decreases.
    bytes_moved : int, default=0
        The bytes that have travelled between this process and the workers of a cluster.

    See Also
    --------
    ProgressBar : A callback that draws a bar.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> seen = []
    >>> model = SVC(callbacks=[seen.append]).fit(*load_iris(return_X_y=True))
    >>> seen[-1].n_machines, seen[-1].fraction
    (3, 1.0)
    """

    seconds: float
    machine: int
    n_machines: int
    iteration: int
    steps: int
    violation: float
    gap: float
    fraction: float
    bytes_moved: int = 0

    @property
    def seconds_left(self) -> float:
        """The estimated remaining time, if the rest of the work takes as long as the part that is done."""
        return self.seconds * (1.0 - self.fraction) / max(self.fraction, 1e-3)


@dataclass(frozen=True)
class Stop:
    """The stopping rule of a solver: it may stop at a point that violates the optimality conditions by at most `tol` and has a
    relative gap of at most `gap_tol` (None: any gap)."""

    tol: float = 1e-3
    gap_tol: float | None = 1e-3

    def close(self, relative_gap: float) -> bool:
        """Whether a relative gap satisfies `gap_tol`."""
        return self.gap_tol is None or relative_gap <= self.gap_tol

    def tighter(self, tol: float, violation: float, relative_gap: float) -> float:
        """The tolerance to continue with at a point whose violation is within `tol` but whose gap is too large. The gap falls
        about as fast as the violation."""
        assert self.gap_tol is not None
        factor = TARGET_SHARE * self.gap_tol / max(relative_gap, TINY)
        return min(tol, violation) * min(max(factor, LEAST_REDUCTION), TARGET_SHARE)


def fraction_done(stop: Stop, worst: float, violation: float, relative_gap: float) -> float:
    """The share of the work that is done, on a logarithmic scale: how far the violation has come from its worst value towards
    tol, or, if tol is infinite, the relative gap from one towards gap_tol."""
    now, goal = (violation, stop.tol) if math.isfinite(stop.tol) else (relative_gap, stop.gap_tol or 1.0)
    worst = worst if math.isfinite(stop.tol) else 1.0
    if not goal < now < worst:
        return 1.0 if now <= goal else 0.0
    return math.log(worst / now) / math.log(worst / goal)


class Control:
    """The clock, the step counter, the callbacks and the interrupt flag of one fit of `n_machines`.

    A time limit is shared out: each machine gets its part of the time that remains when it begins, so that one that needs less
    leaves more to the others. The clock is stopped while certificates are computed.
    """

    def __init__(
        self,
        max_seconds: float | None = None,
        max_steps: int = -1,
        callbacks: Sequence[Callable[[Progress], Any]] = (),
        n_machines: int = 1,
    ) -> None:
        self._started = time.perf_counter()
        self._stopped_for = 0.0  # seconds
        self._max_seconds = math.inf if max_seconds is None else max_seconds
        self._turn_ends = self._max_seconds
        self._max_steps = max_steps
        self._callbacks = tuple(callbacks)
        self._stopped = self._running = False
        self._handler_before: Callable[[int, FrameType | None], Any] | None = None  # while Ctrl-C is caught
        self._fraction = 0.0
        self.interrupted = False
        #: The error that has ended the fit, if samples were lost.
        self.failure: Exception | None = None
        self.steps = 0
        self.machine, self.n_machines = 0, n_machines
        self._whole: Control | None = None
        #: How many bytes have travelled between this process and the workers of a cluster.
        self.count_bytes: Callable[[], int] = int

    def share(self) -> Control:
        """The control of a part that runs beside others: it ends when the whole fit does, and calls no callbacks."""
        part = Control()
        part._whole = self
        return part

    # --- the clock ------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """The seconds since the fit began."""
        return time.perf_counter() - self._started

    @property
    def limits_seconds(self) -> bool:
        return self.seconds_left < math.inf

    @property
    def seconds_left(self) -> float:
        """The seconds that remain for the present machine."""
        if self._whole is not None:
            return self._whole.seconds_left
        return max(0.0, self._turn_ends - (self.seconds - self._stopped_for))

    def begin_turn(self, machine: int, together: int = 1) -> None:
        """Begin the turn of a machine, or of several together, and give it its part of the remaining time."""
        self.machine = machine
        if self._max_seconds < math.inf:
            used = self.seconds - self._stopped_for
            part = min(1.0, together / max(1, self.n_machines - machine))
            self._turn_ends = used + part * max(0.0, self._max_seconds - used)

    @contextmanager
    def clock_stopped(self) -> Iterator[None]:
        """Stop the clock, for the time that a certificate takes."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._stopped_for += time.perf_counter() - begun

    # --- reasons to end -------------------------------------------------------------------------------------------

    @property
    def limits_steps(self) -> bool:
        return self._max_steps >= 0

    def steps_left(self, at_most: int) -> int:
        """The number of steps that a solver may take before it asks again."""
        return at_most if self._max_steps < 0 else max(0, min(at_most, self._max_steps - self.steps))

    def ended(self) -> Status | None:
        """The reason for the present machine to end now, if there is one."""
        if self._whole is not None:
            return self._whole.ended()
        if self.failure is not None:
            return Status.SOURCE_FAILED
        if self.interrupted:
            return Status.INTERRUPTED
        if self._stopped:
            return Status.STOPPED_BY_CALLBACK
        if self.seconds_left <= 0.0:
            return Status.MAX_SECONDS
        if 0 <= self._max_steps <= self.steps:
            return Status.MAX_ITER
        return None

    def report(self, iteration: int, violation: float, gap: float, fraction: float) -> Status | None:
        """Tell the callbacks the progress of the present machine; return the reason to end if one of them returned True."""
        if not self._callbacks:
            return None
        self._fraction = max(self._fraction, min(1.0, (self.machine + fraction) / self.n_machines))
        fit = self.seconds, self.machine, self.n_machines, iteration, self.steps
        progress = Progress(*fit, violation, gap, self._fraction, self.count_bytes())
        answers = [callback(progress) for callback in self._callbacks]
        self._stopped |= any(answer is True for answer in answers)
        return Status.STOPPED_BY_CALLBACK if self._stopped else None

    @contextmanager
    def running(self, briefly: bool = False) -> Iterator[None]:
        """The context of the fit: Ctrl-C is caught, and callbacks that have a `close` are closed at the end. A fit that is to run
        only `briefly` calls `catch_interrupts` itself, if it turns out to be longer."""
        self._running = True
        if not briefly or self._callbacks:
            self.catch_interrupts()
        try:
            yield
        finally:
            self._running = False
            if self._handler_before is not None:
                signal.signal(signal.SIGINT, self._handler_before)
                self._handler_before = None
            for callback in self._callbacks:
                if callable(close := getattr(callback, "close", None)):
                    close()

    def catch_interrupts(self) -> None:
        """Turn the first Ctrl-C into a flag that the solver sees between two tiles; a second one is raised at once.

        Only the main thread receives signals; elsewhere, outside of `running`, and where the signal is ignored or not handled by
        Python, this does nothing.
        """
        if not self._running or self._handler_before is not None:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        previous = signal.getsignal(signal.SIGINT)
        if not callable(previous):
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                previous(number, frame)
            self.interrupted = True

        signal.signal(signal.SIGINT, note)
        self._handler_before = previous
