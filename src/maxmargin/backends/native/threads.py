"""The thread setting of BLAS while our own threads call it."""

from __future__ import annotations

import os
import threading
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController


class BlasThreadsOff:
    """Restrict BLAS to one thread while any fit runs: our own threads call it, and two spinning thread pools on the same cores
    cost up to half the time. Fits are counted, because the setting is global to the process and fits may overlap in several
    threads."""

    def __init__(self) -> None:
        self._controller: ThreadpoolController | None = None
        self._start()
        if hasattr(os, "register_at_fork"):  # a lock held by another thread at the fork would never be released in the child
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limiter: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._controller is None:
                    self._controller = ThreadpoolController()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
                self._limiter.__enter__()
            self._inside += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                # threadpoolctl >= 3.8 lets only the thread that set a limit lift it; the last fit may run in another thread
                hand_over = getattr(OpenBLASController, "clear_controlling_thread", None)
                if hand_over is not None:
                    hand_over(force=True)
                self._limiter.__exit__(None, None, None)


blas_threads_off = BlasThreadsOff()
