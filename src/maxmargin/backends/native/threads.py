"""The thread setting of BLAS while our own threads call it."""

from __future__ import annotations

import os
import threading

from threadpoolctl import LibController, OpenBLASController, ThreadpoolController


class BlasThreadsOff:
    """Restrict BLAS to one thread while any fit runs: our own threads call it, and two spinning thread pools on the same cores
    cost up to half the time. Fits are counted, because the setting is global to the process and fits may overlap in several
    threads."""

    def __init__(self) -> None:
        self._libraries: list[LibController] | None = None
        self._start()
        if hasattr(os, "register_at_fork"):  # a lock held by another thread at the fork would never be released in the child
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._libraries is None:
                    self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self._before = [library.get_num_threads() for library in self._libraries]
                self._set([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _let_any_thread_set()  # the last fit may run in another thread than the first
                self._set(self._before)
                _let_any_thread_set()

    def _set(self, numbers: list[int]) -> None:
        for library, number in zip(self._libraries or (), numbers, strict=True):
            library.set_num_threads(number)


def _let_any_thread_set() -> None:
    """Make threadpoolctl forget which thread has set a number of threads: from 3.8 on, only that one may set it again."""
    forget = getattr(OpenBLASController, "clear_controlling_thread", None)
    if forget is not None:
        forget(force=True)


blas_threads_off = BlasThreadsOff()
