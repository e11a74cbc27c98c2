"""Rows that a process has got from others, and messages that leave out the rows that the other side has.

A row goes to the workers once: the process of the fit notes what it has sent (`Sent`), and a message has the numbers of all its
rows, but the values of the new ones only. A partition that was made again since then does not have the others. It says so
(`MissingRowsError`), and all rows are sent again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Numbers = NDArray[np.integer]


class MissingRowsError(LookupError):
    """Rows that were never sent to this process."""


class KeptRows:
    """Rows in chunks, as they came; the oldest chunks are dropped first."""

    def __init__(self) -> None:
        self._chunks: OrderedDict[int, Any] = OrderedDict()
        self._n_chunks = self.n_bytes = 0
        self._numbers = np.empty(0, dtype=np.int64)  # of all rows, ascending; and where each is: its chunk, and its place there
        self._where = np.empty((2, 0), dtype=np.int32)

    def missing(self, rows: Numbers) -> Numbers:
        """Those rows that are not here, in ascending order."""
        return without(rows, self._numbers)

    def add(self, rows: Numbers, values: Any) -> None:
        """Keep rows; some may be here already."""
        chunk, self._n_chunks = self._n_chunks, self._n_chunks + 1
        self._chunks[chunk] = values
        self.n_bytes += size_of(values)
        where = np.stack([np.full(len(rows), chunk, dtype=np.int32), np.arange(len(rows), dtype=np.int32)])
        numbers, first = np.unique(np.concatenate([rows, self._numbers]), return_index=True)  # the new ones come first
        self._numbers, self._where = numbers, np.concatenate([where, self._where], axis=1)[:, first]

    def take(self, rows: Numbers) -> Any:
        """The rows, of which there is at least one."""
        at = np.minimum(np.searchsorted(self._numbers, rows), max(len(self._numbers) - 1, 0))
        if not len(self._numbers) or (self._numbers[at] != rows).any():
            raise MissingRowsError(f"{len(self.missing(rows))} of {len(rows)} rows are not here")
        chunks, places = self._where[:, at]
        own = {int(chunk): np.flatnonzero(chunks == chunk) for chunk in np.unique(chunks)}
        parts = (self._chunks[chunk][places[some]] for chunk, some in own.items())
        if len(own) == 1:
            return next(parts)
        first = next(iter(self._chunks.values()))
        if sp.issparse(first):
            return stacked(list(parts))[np.argsort(np.concatenate(list(own.values())))]
        taken = np.empty((len(rows), first.shape[1]), first.dtype)  # rows may be wide: no second copy of all
        for some, part in zip(own.values(), parts, strict=True):
            taken[some] = part
        return taken

    def drop(self, budget: float) -> None:
        """Drop the oldest chunks until the others fit into a budget of bytes."""
        while self.n_bytes > budget and self._chunks:
            chunk, values = self._chunks.popitem(last=False)
            left = self._where[0] != chunk
            self._numbers, self._where = self._numbers[left], self._where[:, left]
            self.n_bytes -= size_of(values)


class Message(NamedTuple):
    """The rows `rows`. The receiver forgets what it has, if it is told to, and keeps the values of the `fresh` ones."""

    rows: Numbers
    fresh: Numbers
    values: Any
    forget: bool

    def read(self, kept: KeptRows) -> Any:
        """The rows."""
        if self.forget:
            kept.drop(-1)
        if len(self.fresh):
            kept.add(self.fresh, self.values)
        return kept.take(self.rows) if len(self.rows) else self.values


class Sent:
    """The numbers of the rows that all workers have got, and how many bytes these have. It begins with a message that lets them
    forget what they got before."""

    def __init__(self) -> None:
        self._numbers = np.empty(0, dtype=np.int64)
        self._begins = True
        self.n_bytes = 0

    def fresh(self, rows: Numbers) -> Numbers:
        """Those rows that they have not got, in ascending order."""
        return without(rows, self._numbers)

    def note(self, fresh: Numbers, values: Any) -> bool:
        """Note what is sent to all; return whether they shall forget what they got before."""
        begins, self._begins = self._begins, False
        self._numbers = np.sort(np.concatenate([self._numbers, fresh]))
        self.n_bytes += size_of(values)
        return begins


def without(rows: Numbers, known: Numbers) -> Numbers:
    """The rows that are not among the `known` ones, which ascend; each once, in ascending order. (`numpy.setdiff1d` takes several
    times as long.)"""
    rows = np.sort(rows)
    places = np.searchsorted(known, rows)
    new: NDArray[np.bool_] = places == len(known)
    new[~new] = known[places[~new]] != rows[~new]
    new[1:] &= rows[1:] != rows[:-1]
    return rows[new]


def stacked(blocks: Sequence[Any]) -> Any:
    return sp.csr_array(sp.vstack(blocks)) if sp.issparse(blocks[0]) else np.concatenate(blocks)


def size_of(values: Any) -> int:
    return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes if sp.issparse(values) else values.nbytes)
