"""Linear machines on the partitions of a Dask collection: the passes of `linear_in_passes`, with `visit` on the workers."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends import make_backend
from maxmargin.cluster import PartitionError, Partitions, as_collection, plain
from maxmargin.control import Control
from maxmargin.estimators import validation
from maxmargin.estimators.chunks import Chunk, ChunkedRows, widened
from maxmargin.estimators.linear_in_passes import (
    BYTES_OF_SAMPLE,
    IN_PASSES,
    Found,
    Parts,
    Plan,
    SampleOfRows,
    Task,
    Visit,
    visit,
)
from maxmargin.formulations import BalanceInParts
from maxmargin.solution import Status
from maxmargin.solvers.linear.in_passes import MachineInPasses

Vector = NDArray[np.float64]

STRIDE_OF_SAMPLE = 8  # every eighth row comes here, or fewer of them


class PartsOnCluster(Parts):
    """The partitions of a collection. What machines keep of each row stays beside it."""

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = as_collection(X, y)
        has_targets = bool(estimator.__sklearn_tags__().target_tags.required)
        if has_targets:
            validation.require_targets(estimator, y)
        load = partial(_load, type(estimator), has_targets)
        self._partitions = Partitions(load, X, y if has_targets else None, sample_weight)
        self.names, self.traffic = self._partitions.names, self._partitions.traffic

    def survey(self, task: Task) -> SampleOfRows:
        n = len(self._partitions)
        seen, _ = self._partitions.over("survey", _survey, (task, BYTES_OF_SAMPLE // n), [None] * n)
        self._partitions.leave_out([number for number, (own, _) in enumerate(seen) if not own.n_samples])
        sample = SampleOfRows()
        for own, some in seen:
            task.add(own)
            sample.add(some)
        return sample

    def begin(self, machines: Sequence[MachineInPasses], task: Task) -> None:
        self._machines = machines
        for machine in machines:
            machine.n_parts = len(self._partitions)
        self._left: list[Any] = [None] * len(self._partitions)  # what the last pass has left of each partition

    def pass_over(self, task: Task, busy: Sequence[bool], control: Control, number: int) -> tuple[list[Found], Status | None]:
        plans = [Plan.of(machine, works) for machine, works in zip(self._machines, busy, strict=True)]
        widths = [machine.n_kept for machine in self._machines]
        found, left = self._partitions.over("visit", _visit, (task, plans, widths), self._left)
        steps = zip(self._machines, found, strict=True)
        shares = [None if one.step is None else machine.take(one.step) for machine, one in steps]
        if any(own is not None for own in shares):
            numbered = list(zip(range(len(left)), self._left, left, strict=True))
            balances, left = self._partitions.over("settle", _settle, (task, shares), numbered)
            found = [one._replace(balance=balance) for one, balance in zip(found, balances, strict=True)]
        self._left = left
        return list(found), control.ended()

    def terms(self) -> list[Vector]:
        try:
            parts = self._partitions.gather("terms", _terms, self._left)
        except PartitionError:
            return [np.empty(0)] * len(self._machines)
        return [np.concatenate(own) for own in zip(*parts, strict=True)]


# --- on the workers -----------------------------------------------------------------------------------------------------


class _Each(list[Any]):
    """Results of partitions, in their order."""

    def plus(self, other: _Each) -> _Each:
        return _Each([*self, *other])


class _OfMachines(list[Any]):
    """What was found for each machine, as sums over rows; or None."""

    def plus(self, other: _OfMachines) -> _OfMachines:
        return _OfMachines(None if a is None or b is None else a.plus(b) for a, b in zip(self, other, strict=True))


def _load(kind: type, has_targets: bool, X: Any, y: Any, weights: Any, number: int) -> Chunk | None:
    """The rows of a partition, checked; None if it has none."""
    item = (
        plain(X),
        None if y is None else np.asarray(y),
        weights if weights is None or np.isscalar(weights) else np.asarray(weights),
    )
    return next(iter(list(ChunkedRows(kind(), lambda: iter([item]), has_targets)())), None)


def _survey(chunk: Chunk | None, plan: tuple[Task, int], _: None) -> tuple[_Each, None]:
    task, sample = deepcopy(plan[0]), SampleOfRows(plan[1], STRIDE_OF_SAMPLE)
    if chunk is not None:
        task.see(chunk)
        sample.see(chunk)
    return _Each([(task, sample)]), None


def _visit(chunk: Chunk, plan: tuple[Task, list[Plan], list[int]], left: Visit | None) -> tuple[_OfMachines, Visit]:
    task, plans, widths = plan
    kept = [np.zeros((width, chunk.X.shape[0])) for width in widths] if left is None else left.kept
    with make_backend("native").session(IN_PASSES):
        visited = visit(widened(chunk, task.n_features), task, plans, kept)
    return _OfMachines(visited.found), visited._replace(found=[])


def _settle(
    chunk: Chunk, plan: tuple[Task, list[Vector | None]], left: tuple[int, Visit | None, Visit]
) -> tuple[_OfMachines, Visit]:
    """Let the duals of a partition go their share of the last step; return their balance."""
    (task, shares), (number, before, after) = plan, left
    balances, kept = _OfMachines(), []
    for k, (problem, own) in enumerate(zip(task.problems(chunk), after.kept, strict=True)):
        if (of_each := shares[k]) is not None:
            start = np.zeros_like(own) if before is None else before.kept[k]
            own = start + of_each[number] * (own - start)
        kept.append(own)
        balances.append(BalanceInParts.of(problem, own[0]) if problem.bias == "free" else None)
    return balances, after._replace(kept=kept)


def _terms(left: Visit) -> list[Vector]:
    return left.terms
