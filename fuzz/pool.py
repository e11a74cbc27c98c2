"""Worker processes that may hang or crash: each loses the task it had, and a new one takes its place.

A task is a function of a module (so that it can be pickled) and its arguments. Its clock starts when it is handed
out, and again when it calls `restart_clock`, for instance between the code under test and the code that tests it. For a
process that hangs or crashes, the place in the Python code is reported, if it is known."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

#: Time limit, in seconds, of a task that sets none; it includes the import of the library in a fresh process.
LIMIT = 120.0

_to_parent: Connection | None = None


@dataclass(frozen=True)
class Lost:
    """The result of a task whose process hung or died: the kind of finding, and a sentence."""

    kind: str
    text: str


def restart_clock(limit: float) -> None:
    """Give the task that runs in this process `limit` seconds from now on."""
    if _to_parent is not None:
        _to_parent.send(("clock", limit))


def _work(connection: Connection, places: str) -> None:
    """The loop of a worker; `places` is the file to which a crash writes its stack."""
    global _to_parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the workers
    with open(places, "w") as file:
        faulthandler.enable(file)
        faulthandler.register(signal.SIGUSR1, file)
        _to_parent = connection
        while True:
            try:
                function, arguments = connection.recv()
            except EOFError:
                return
            try:
                answer = ("done", function(*arguments))
            except Exception as error:  # of the harness itself: what is under test has its own handler
                answer = ("failed", f"{type(error).__name__}: {error}")
            connection.send(answer)


class Worker:
    """One process and its present task."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.places = Path(tempfile.mkstemp(prefix="fuzz-worker-")[1])
        self.process = context.Process(target=_work, args=(other, str(self.places)), daemon=True)
        self.process.start()
        other.close()
        self.task: Any = None
        self.deadline = float("inf")

    def give(self, task: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.task, self.deadline = task, time.monotonic() + LIMIT
        self.connection.send((function, arguments))

    def where(self) -> str:
        """The innermost lines of the library that the process was in when it wrote its stack."""
        lines = re.findall(r'File "(.*?)", line (\d+) in (\w+)', self.places.read_text(errors="replace"))
        ours = [f"{Path(name).name}:{line} in {function}" for name, line, function in lines if "/maxmargin/" in name]
        return f" at {ours[0]}" if ours else ""

    def stack_now(self) -> None:
        """Ask the process to write its stack, as one that hangs would not do by itself."""
        with suppress(ProcessLookupError):
            os.kill(int(self.process.pid), signal.SIGUSR1)  # type: ignore[arg-type]
            time.sleep(0.5)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.places.unlink(missing_ok=True)


class Pool:
    """A pool of `jobs` workers; a context manager that ends them. `fresh` gives each task a process of its own."""

    def __init__(self, jobs: int, fresh: bool = False) -> None:
        self._workers = [Worker() for _ in range(jobs)]
        self._fresh = fresh

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def run(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, tuple[Any, ...]]]) -> Iterator[tuple[Any, Any]]:
        """Yield (name, result) of each task (name, arguments) when it is done; a result may be `Lost`."""
        queue = iter(tasks)
        for worker in self._workers:
            self._feed(worker, function, queue)
        while busy := [worker for worker in self._workers if worker.task is not None]:
            wait([worker.connection for worker in busy], timeout=0.2)
            for worker in busy:
                result = self._look_at(worker)
                if result is _NOTHING:
                    continue
                name, worker.task = worker.task, None
                self._feed(self._replaced(worker), function, queue)
                yield name, result

    def one(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of one task."""
        return next(self.run(function, [("one", arguments)]))[1]

    def _feed(self, worker: Worker, function: Callable[..., Any], queue: Iterator[tuple[Any, tuple[Any, ...]]]) -> None:
        if (task := next(queue, None)) is not None:
            worker.give(task[0], function, task[1])

    def _look_at(self, worker: Worker) -> Any:
        """The result of the worker's task, if there is one now."""
        try:
            while worker.connection.poll():
                kind, value = worker.connection.recv()
                if kind == "clock":
                    worker.deadline = time.monotonic() + value
                else:
                    return Lost("HARNESS", value) if kind == "failed" else value
        except (EOFError, OSError):
            worker.process.join()
            code = worker.process.exitcode
            name = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            return Lost("CRASH", f"{name}{worker.where()}")
        if time.monotonic() > worker.deadline:
            worker.stack_now()
            worker.process.kill()
            worker.process.join()
            return Lost("HANG", f"no answer in time{worker.where()}")
        return _NOTHING

    def _replaced(self, worker: Worker) -> Worker:
        """The worker, or a new one if it is dead or must not be used again."""
        if worker.process.is_alive() and not self._fresh:
            return worker
        worker.end()
        fresh = Worker()
        self._workers[self._workers.index(worker)] = fresh
        return fresh


_NOTHING = object()
