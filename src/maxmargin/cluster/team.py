"""One object for each partition, each on some worker, and rounds of questions to all of them.

An object is the result of a Dask task, so Dask places it, counts its memory and computes it again if its worker dies. A question
is a task too, on the worker where the object is; it may change the object. So an object that Dask has made again, or a copy, may
be older than the question expects. Each object therefore has a version, and a question that names another version is answered by
`Refusal.STALE`. Whoever asked then brings the object up to date: Dask computes rows again, we compute what was made of them.

There are no Dask actors here: an actor, and all it holds, is lost with its worker.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.backends.base import SamplesLostError
from maxmargin.cluster.kept import MissingRowsError

SECONDS_TO_LOOK = 0.5  # a round that takes longer is looked after: a worker may have died
SMALL_MESSAGE = 65_536  # bytes: a larger message goes from here to the workers, not through the scheduler


class Refusal(Enum):
    """The answer of an object that is older than the question expects, or lacks rows that it was sent before it was made again; a
    member of an enumeration stays one when it is sent."""

    STALE = "stale"


class PartitionError(SamplesLostError):
    """A partition that cannot be computed, or computed again."""


@dataclass
class Traffic:
    """What a fit asked of its workers, by the name of the question: how many rounds there were, the bytes that were sent and
    received, the seconds that the rounds took, and those that the slowest worker of each round computed. `rows` counts the rows
    that the questions of kernel machines were about, each of which is compared with all rows of the training set."""

    n_workers: int = 0
    n_partitions: int = 0
    rounds: int = 0
    rows: int = 0
    sent: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    computing: dict[str, float] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """All bytes that were sent or received."""
        return sum(self.sent.values()) + sum(self.received.values())

    def summary(self, fit_seconds: float) -> dict[str, float]:
        """Where the seconds of a fit went: the workers' computing, waiting for them and for messages, and the solve here."""
        computing, rounds = sum(self.computing.values()), sum(self.seconds.values())
        return {"computing": computing, "waiting": rounds - computing, "here": fit_seconds - rounds}

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.count(self.seconds, what, time.perf_counter() - begun)

    @staticmethod
    def count(way: dict[str, Any], what: str, amount: float) -> None:
        way[what] = way.get(what, 0) + amount


class Team:
    """`members` are the futures of the objects. `label` appears in the names of all tasks."""

    def __init__(self, client: Any, members: Sequence[Any], label: str) -> None:
        self.client, self._members, self._label = client, list(members), label
        self.traffic = Traffic(n_partitions=len(self._members))
        self._counter = itertools.count()
        self._homes = [""] * len(self._members)
        self._settle(range(len(self._members)))

    def __len__(self) -> int:
        return len(self._members)

    def close(self) -> None:
        """Let the workers forget the objects."""
        for future in self._members:
            future.release()
        self._members = []

    def ask(
        self,
        verb: str,
        told: Sequence[tuple[Any, ...]],
        shared: Any = None,
        expected: Sequence[object] | None = None,
        among: Sequence[int] | None = None,
    ) -> list[Any]:
        """Ask the objects (of the numbers `among`; None: all) `verb(*told[i])`, or `verb(shared, *told[i])` with an argument that
        is sent once to each worker; return their answers. An object that has not the `expected` version answers
        `Refusal.STALE`."""
        asked = list(range(len(self))) if among is None else list(among)
        questions = dict(zip(asked, zip(expected or [None] * len(asked), told, strict=True), strict=True))
        answers: dict[int, Any] = {}
        with self.traffic.timed(verb):
            while unanswered := {i: question for i, question in questions.items() if i not in answers}:
                answers |= self._round(verb, unanswered, shared)
        self.traffic.count(self.traffic.received, verb, sum(n_bytes(answer) for answer, _ in answers.values()))
        self.traffic.count(self.traffic.computing, verb, max((seconds for _, seconds in answers.values()), default=0.0))
        return [answers[i][0] for i in asked]

    def _round(self, verb: str, questions: dict[int, tuple[object, tuple[Any, ...]]], shared: Any) -> dict[int, Any]:
        """One attempt: the answers of the objects whose workers are still there; the others are settled anew."""
        number = next(self._counter)
        self.traffic.rounds += 1
        try:
            sent = self._send(verb, shared, sorted({self._homes[i] for i in questions}))
            futures = {
                i: self.client.submit(
                    _answer,
                    self._members[i],
                    verb,
                    expected,
                    sent,
                    self._send(verb, args, [self._homes[i]]),
                    workers=[self._homes[i]],
                    key=f"{verb.replace('_', '-')}-{self._label}-{number}-{i}",
                    pure=False,
                )
                for i, (expected, args) in questions.items()
            }
        except (OSError, CancelledError):  # a worker went away while something was sent to it
            self._settle(questions)
            return {}
        return self._gather(futures)

    def _gather(self, futures: dict[int, Any]) -> dict[int, Any]:
        """The answers. If a worker dies, with or without having answered, Dask waits for ever until one of this address computes
        the answers again; so workers are looked after."""
        from distributed.scheduler import KilledWorker

        patience = SECONDS_TO_LOOK
        while futures:
            try:
                answers = self.client.sync(self._gathered, list(futures.values()), callback_timeout=patience)
                return dict(zip(futures, answers, strict=True))
            except TimeoutError:
                if all(future.done() for future in futures.values()):
                    patience *= 2.0  # the answers may be large
                if gone := self._gone(futures):
                    for i in gone:
                        futures.pop(i).cancel()
                    self._settle(gone)
            except (KilledWorker, CancelledError, OSError):
                failed = [future.exception() for future in futures.values() if future.status == "error"]
                if any(not isinstance(error, KilledWorker) for error in failed):
                    raise  # the question itself, not the worker
                self._settle(futures)
                return {}
        return {}

    async def _gathered(self, futures: list[Any]) -> Any:
        return await self.client.gather(futures, asynchronous=True)

    def _gone(self, numbers: Any) -> list[int]:
        """Those objects that are no longer on the worker where they were."""
        places = self.client.who_has([self._members[i] for i in numbers])
        return [i for i in numbers if self._homes[i] not in places.get(self._members[i].key, ())]

    def _settle(self, numbers: Any) -> None:
        """Wait until Dask has computed the objects, and note where they are."""
        from distributed import wait

        numbers = list(numbers)
        futures = [self._members[i] for i in numbers]
        places: dict[str, Sequence[str]] = {}
        with self.traffic.timed("load"):
            while not all(places.get(future.key) for future in futures):  # one may be lost again in the meantime
                with suppress(TimeoutError, CancelledError):
                    wait(futures, timeout=SECONDS_TO_LOOK)
                require_not_lost(dict(zip(numbers, futures, strict=True)))
                places = self.client.who_has(futures)
        for i, future in zip(numbers, futures, strict=True):
            self._homes[i] = places[future.key][0]
        self.traffic.n_workers = len(set(self._homes))

    def _send(self, verb: str, message: Any, homes: Sequence[str]) -> Any:
        """The message for a task's arguments: itself, or the future of a copy on each of the workers."""
        size = n_bytes(message)
        self.traffic.count(self.traffic.sent, verb, size * len(homes))
        if size <= SMALL_MESSAGE:
            return message
        try:
            return self.client.scatter([message], workers=list(homes), broadcast=True, hash=False)[0]
        except KeyError as unknown:  # the scheduler has noticed before us that a worker is gone
            raise ConnectionError(f"the worker {unknown} is gone") from unknown


def require_not_lost(partitions: Mapping[int, Any]) -> None:
    """Raise a `PartitionError` if the future of a partition has failed, or cannot be computed again."""
    for number, future in partitions.items():
        if future.status == "error":
            error = future.exception()
            raise PartitionError(f"partition {number} of X cannot be computed: {type(error).__name__}: {error}") from error
        if future.status in ("lost", "cancelled"):
            raise PartitionError(
                f"partition {number} of X is lost: its worker died, and Dask has no graph to compute it again. Load the rows by "
                "a Dask graph (dask.array.from_array, dask.dataframe.read_parquet, ...) instead of scattering them"
            )


def _answer(member: Any, verb: str, expected: object, shared: Any, told: tuple[Any, ...]) -> tuple[Any, float]:
    """The task: one question to one object; the answer, and the seconds that it took."""
    if expected is not None and member.version != expected:
        return Refusal.STALE, 0.0
    begun = time.perf_counter()
    try:
        answer = getattr(member, verb)(*told) if shared is None else getattr(member, verb)(shared, *told)
    except MissingRowsError:
        answer = Refusal.STALE
    _put_back(member)
    return answer, time.perf_counter() - begun


def _put_back(member: Any) -> None:
    """Dask may have written the object to disk while it was changed, for want of memory. Then it has an older one: replace it."""
    from distributed import get_worker

    data = get_worker().data
    if member.key in data and getattr(data, "memory", data).get(member.key) is not member:
        data[member.key] = member


def n_bytes(message: Any) -> int:
    """The size of what a message holds: its arrays, and eight bytes for each other value."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    if sp.issparse(message):
        return int(message.data.nbytes + message.indices.nbytes + message.indptr.nbytes)
    if isinstance(message, (tuple, list)):
        return sum(map(n_bytes, message))
    if is_dataclass(message):
        return sum(n_bytes(getattr(message, one.name)) for one in fields(message))
    return 0 if message is None else 8


def require_same_version(client: Any) -> None:
    """Raise a RuntimeError if a worker has another version of this package, or none."""
    here = version("maxmargin")
    there = client.run(version, "maxmargin", on_error="return")
    others = {worker: found for worker, found in there.items() if found != here}
    if others:
        worker, found = next(iter(others.items()))
        what = "no maxmargin" if isinstance(found, BaseException) else f"maxmargin {found}"
        raise RuntimeError(
            f"the worker {worker} has {what}, and this process maxmargin {here}: install the same version on all workers "
            f"({len(others)} of {len(there)} differ)"
        )
