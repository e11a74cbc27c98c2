"""When a run has to end before it is done: time, steps, Ctrl-C, a callback."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from maxmargin.solution import Status


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each outer iteration.

    `machine` of `n_machines` counts the binary problems of a multi-class fit. `fraction` is the share of the work that
    is done, judged by how far the violation has fallen on a logarithmic scale, and never falls; `gap` is relative.
    """

    seconds: float
    machine: int
    n_machines: int
    iteration: int
    steps: int
    violation: float
    gap: float
    fraction: float

    @property
    def seconds_left(self) -> float:
        """The time left, if the rest goes as the part that is done."""
        return self.seconds * (1.0 - self.fraction) / max(self.fraction, 1e-3)


@dataclass(frozen=True)
class Stop:
    """When a solver may stop: at this violation, or at this relative gap where one is given."""

    tol: float = 1e-3
    gap_tol: float | None = None


class Control:
    """The clock, the step counter, the callbacks and the interrupt flag of one fit of `n_machines`."""

    def __init__(
        self,
        max_seconds: float | None = None,
        max_steps: int = -1,
        callbacks: Sequence[Callable[[Progress], Any]] = (),
        n_machines: int = 1,
    ) -> None:
        self._started = time.perf_counter()
        self._max_seconds = max_seconds
        self._max_steps = max_steps
        self._callbacks = tuple(callbacks)
        self._stopped = False
        self._fraction = 0.0
        self.interrupted = False
        self.steps = 0
        self.machine, self.n_machines = 0, n_machines
        self._whole: Control | None = None

    def share(self) -> Control:
        """The control of a part that runs beside others: it ends when the whole does, and tells nobody."""
        part = Control()
        part._whole = self
        return part

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    @property
    def limits_steps(self) -> bool:
        return self._max_steps >= 0

    def steps_left(self, at_most: int) -> int:
        """How many more steps a solver may take in one go."""
        return at_most if self._max_steps < 0 else max(0, min(at_most, self._max_steps - self.steps))

    def ended(self) -> Status | None:
        """The reason to end now, if there is one."""
        if self._whole is not None:
            return self._whole.ended()
        if self.interrupted:
            return Status.INTERRUPTED
        if self._stopped:
            return Status.STOPPED_BY_CALLBACK
        if self._max_seconds is not None and self.seconds >= self._max_seconds:
            return Status.MAX_SECONDS
        if 0 <= self._max_steps <= self.steps:
            return Status.MAX_ITER
        return None

    def report(self, iteration: int, violation: float, gap: float, fraction: float) -> Status | None:
        """Tell the callbacks how far the present machine is; one that returns True ends the fit."""
        if not self._callbacks:
            return None
        self._fraction = max(self._fraction, min(1.0, (self.machine + fraction) / self.n_machines))
        progress = Progress(
            self.seconds, self.machine, self.n_machines, iteration, self.steps, violation, gap, self._fraction
        )
        answers = [callback(progress) for callback in self._callbacks]
        self._stopped |= any(answer is True for answer in answers)
        return Status.STOPPED_BY_CALLBACK if self._stopped else None

    @contextmanager
    def running(self) -> Iterator[None]:
        """The time of the fit: Ctrl-C is caught, and callbacks that have something to close are closed at its end."""
        try:
            with self._catching_interrupts():
                yield
        finally:
            for callback in self._callbacks:
                if callable(close := getattr(callback, "close", None)):
                    close()

    @contextmanager
    def _catching_interrupts(self) -> Iterator[None]:
        """Turn the first Ctrl-C into a flag that the solver sees between two tiles; a second one is raised at once.

        Only the main thread receives signals; elsewhere this does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.getsignal(signal.SIGINT)
        if not callable(previous):  # ignored, or not Python's to handle
            yield
            return

        def note(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                previous(number, frame)
            self.interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)
