"""Passes over the partitions of a collection: a function of each, and the sum of what it finds, which alone comes here.

A pass is a small Dask graph of functions without side effects. What it leaves of a partition, for the next pass, stays on the
worker. If a worker dies, Dask computes again what was there, from the beginning of the fit: the same numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import numpy as np

from maxmargin.cluster.rows import active_client, blocks_of, is_collection
from maxmargin.cluster.team import Traffic, n_bytes, require_not_lost, require_same_version

SHARE_OF_MEMORY = 0.5  # of all workers: a collection that is larger is not held there, but computed anew in each pass
BRANCHES = 8  # partial sums that are added by one task


class Partitions:
    """The partitions of a collection X with its targets and weights, each of which is a collection, an array, a number or None.

    ``load(X, y, weights, number)`` makes of the parts with this number what passes are shown. It is held by the workers if there
    is room for X.
    """

    def __init__(self, load: Callable[..., Any], X: Any, y: Any, weights: Any) -> None:
        import dask

        self._client = active_client()
        require_same_version(self._client)
        blocks, self.names, sizes = blocks_of(X)
        self._label, self._counter = f"{id(self):x}"[-8:], itertools.count()
        self.traffic = Traffic(n_partitions=len(blocks), n_workers=len(self._client.nthreads()))
        beside = (self._split("y", y, blocks, sizes), self._split("sample_weight", weights, blocks, sizes))
        task = dask.delayed(load, pure=False)
        self._parts = [
            task(block, *others, number, dask_key_name=f"load-rows-{self._label}-{number}")
            for number, (block, *others) in enumerate(zip(blocks, *beside, strict=True))
        ]
        size = math.nan if hasattr(X, "columns") else X.nbytes  # nobody knows that of a data frame
        if not size > SHARE_OF_MEMORY * self._memory():
            self._parts = self._client.compute(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def leave_out(self, numbers: Sequence[int]) -> None:
        """Leave some partitions out of all further passes."""
        self._parts = [part for number, part in enumerate(self._parts) if number not in numbers]

    def over(self, verb: str, function: Callable[..., Any], plan: Any, kept: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Do `function(part, plan, own)` for each partition, `own` being its entry of `kept`. The function returns what it has
        found, and something to be kept. Return the sum of the former (`plus`), and the futures of the latter."""
        import dask

        name = f"{self._label}-{next(self._counter)}"
        plan_there = dask.delayed(plan, name=f"{verb}-plan-{name}", traverse=False)
        task, first, second, add = (dask.delayed(what, pure=False) for what in (function, _first, _second, _added))
        done = [
            task(part, plan_there, own, dask_key_name=f"{verb}-{name}-{number}")
            for number, (part, own) in enumerate(zip(self._parts, kept, strict=True))
        ]
        sums = [first(one) for one in done]
        while len(sums) > 1:
            sums = [add(sums[k : k + BRANCHES]) for k in range(0, len(sums), BRANCHES)]
        after = [second(one, dask_key_name=f"{verb}-kept-{name}-{number}") for number, one in enumerate(done)]
        self.traffic.rounds += 1
        self.traffic.count(self.traffic.sent, verb, n_bytes(plan) * self.traffic.n_workers)
        with self.traffic.timed(verb):
            total, *futures = self._client.compute([sums[0], *after])
            found = self._result(total, futures)
        self.traffic.count(self.traffic.received, verb, n_bytes(found))
        return found, futures

    def gather(self, verb: str, function: Callable[..., Any], kept: Sequence[Any]) -> list[Any]:
        """What the function makes of what a pass has kept of each partition, here."""
        with self.traffic.timed(verb):
            futures = self._client.map(function, kept, pure=False)
            values = [self._result(future, futures) for future in futures]
        self.traffic.count(self.traffic.received, verb, n_bytes(values))
        return values

    def _result(self, future: Any, of_each: Sequence[Any]) -> Any:
        """The result of a future; an error names the partition whose own future has failed as well."""
        from distributed import wait

        try:
            return future.result()
        except Exception:
            with suppress(CancelledError):
                wait(of_each)
            require_not_lost(dict(enumerate(of_each)))
            raise

    def _split(self, name: str, values: Any, blocks: Sequence[Any], sizes: Sequence[float]) -> list[Any]:
        """The part of targets or weights that belongs to each partition."""
        if values is None or np.isscalar(values):
            return [values] * len(blocks)
        known = not any(math.isnan(size) for size in sizes)
        if is_collection(values):
            if known and hasattr(values, "rechunk") and values.shape[0] == sum(sizes) and values.chunks[0] != tuple(sizes):
                values = values.rechunk({0: tuple(sizes)})
            own = list(np.ravel(values.to_delayed()))
            if len(own) != len(blocks):
                raise ValueError(f"X has {len(blocks)} partitions and {name} has {len(own)}: their rows must be divided alike")
            return own
        values = np.asarray(values)
        if not known:
            import dask

            length = dask.delayed(len, pure=False)
            sizes = self._client.gather(self._client.compute([length(block) for block in blocks]))
        if len(values) != sum(sizes):
            raise ValueError(
                f"X has {sum(sizes)} rows in {len(blocks)} partitions, and {name} has {len(values)} values: must be equal"
            )
        return np.split(values, np.cumsum(sizes)[:-1].astype(int))

    def _memory(self) -> float:
        """Bytes that the workers may use, together."""
        return float(sum(self._client.run(_memory_limit).values()))


def _memory_limit(dask_worker: Any) -> float:
    limit = dask_worker.memory_manager.memory_limit
    return float(limit) if limit else math.inf


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _added(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total
