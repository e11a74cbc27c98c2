"""The backend of several devices: machines of a fit, and folds of a grid, are spread over them.

A thread that is to compute on one of them says so (`use_one_thread`), and from then on the backend is that of this device: each
thread gets the next device. A kernel matrix has a twin on every device (`here`), for which the samples are copied there once.
A thread that has not said so computes on the first device.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import ClassVar

from maxmargin.backends.base import InnerSolver
from maxmargin.backends.cuda.backend import DeviceBackend
from maxmargin.backends.cuda.engine import Engine
from maxmargin.backends.cuda.gram import DeviceGram
from maxmargin.backends.cuda.point import DevicePoint
from maxmargin.backends.native import NativeBackend
from maxmargin.gram import Gram, WrappedGram


class SeveralBackend(DeviceBackend):
    name: ClassVar[str] = "cuda:all"

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self._next = itertools.cycle(engines)
        self._own = threading.local()  # the engine of the calling thread, and the point that it has placed last

    @property
    def _engine(self) -> Engine:  # type: ignore[override]
        return getattr(self._own, "engine", self._engines[0])

    @property
    def _point(self) -> DevicePoint | None:  # type: ignore[override]
        return getattr(self._own, "point", None)

    @_point.setter
    def _point(self, point: DevicePoint | None) -> None:
        self._own.point = point

    @property
    def inner(self) -> InnerSolver:  # type: ignore[override]
        return self._engine.inner

    @property
    def n_devices(self) -> int:
        return 1 if hasattr(self._own, "engine") else len(self._engines)

    @property
    def n_threads(self) -> int:
        return self.n_devices

    def use_one_thread(self) -> None:
        NativeBackend().use_one_thread()  # small tiles are solved on the host
        self._own.engine = next(self._next)
        self._own.engine.use()

    def here(self, gram: Gram) -> Gram:
        if isinstance(gram, WrappedGram):
            return type(gram)(self.here(gram.inner))
        return gram.on(self._engine) if isinstance(gram, DeviceGram) else gram
