"""Samples that are too many for the memory of a device: they stay where they are, and parts of them are packed when needed.

A kernel sum needs each support vector beside each sample at which it is asked. Both are cut into parts of at most 256 MB, and
all parts of the queries pass by each part of the support vectors. A pass of n samples by a part of m support vectors moves n d
numbers and makes 2 m n d operations, so from some thousand support vectors on the arithmetic should take longer than the way to
the device; and the next part travels while the present one is worked on (`Engine.carried`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.cuda.engine import Engine
from maxmargin.backends.cuda.packing import FEATURES, WIDTH, Packed, pack, rows_where_they_are, upload_rows
from maxmargin.backends.cuda.rows import DeviceSamples
from maxmargin.kernels import NamedKernel
from maxmargin.samples import Samples

Vector = NDArray[np.float64]

MOST_BYTES = 1 << 28  # of a part, in float64
PARTS = 8  # a part is at most this share of the budget: two of queries, one of support vectors, and what packing them needs


@dataclass(frozen=True)
class Streamed:
    """Samples that stay where they are; elsewhere it is used like a `Packed`."""

    engine: Engine
    samples: Samples
    dtype: torch.dtype
    centre: Vector | None

    def take(self, members: torch.Tensor) -> Packed:
        chosen = rows_where_they_are(self.samples.take(members.cpu().numpy()), self.engine.device)
        return pack(torch.as_tensor(chosen, device=self.engine.device), self.dtype, self.centre)

    def parts(self, members: torch.Tensor | None) -> Iterator[Packed]:
        for rows in self.engine.carried(self._chunks(members)):
            yield pack(rows, self.dtype, self.centre)

    def _chunks(self, members: torch.Tensor | None) -> Iterator[torch.Tensor | NDArray[Any]]:
        places = np.arange(len(self.samples), dtype=np.int32) if members is None else members.cpu().numpy()
        for start in range(0, max(1, len(places)), self._at_once):
            chosen = self.samples.take(places[start : start + self._at_once])
            yield rows_where_they_are(chosen, self.engine.device)

    @property
    def _at_once(self) -> int:
        most = min(MOST_BYTES, self.engine.budget / PARTS)
        return max(WIDTH, int(most / _bytes_of_row(self.samples, 8)) // WIDTH * WIDTH)

    def n_parts(self, count: int) -> int:
        return -(-count // self._at_once)


Table = Packed | Streamed


def fits(engine: Engine, samples: Samples, itemsize: int) -> bool:
    """Whether rows that are not on the device yet, and tables of so many bytes for each number, are within the budget."""
    own = 0 if isinstance(samples, DeviceSamples) else samples.dtype.itemsize
    return len(samples) * _bytes_of_row(samples, own + itemsize) <= engine.budget


def _bytes_of_row(samples: Samples, itemsize: int) -> int:
    return -(-samples.shape[1] // FEATURES) * FEATURES * itemsize


def placed(engine: Engine, samples: Samples, dtype: torch.dtype, centre: Vector | None) -> Table:
    """The samples on the device, if they fit; else parts of them, when they are needed."""
    if fits(engine, samples, dtype.itemsize):
        try:
            return pack(upload_rows(samples, engine.device), dtype, centre)
        except torch.OutOfMemoryError:  # others use the device, too
            pass
    return Streamed(engine, samples, dtype, centre)


def kernel_sums(
    engine: Engine,
    kernel: NamedKernel,
    queries: Table,
    at: torch.Tensor | None,
    support: Table,
    rows: torch.Tensor | None,
    weights: torch.Tensor,
) -> torch.Tensor:
    """weights @ K[rows, at] in float64 (None: all of them), for rows of one table and columns of another."""
    total: torch.Tensor | None = None
    start = 0
    for known in support.parts(rows):
        some = weights[:, start : start + known.n]
        found = [engine.sums(kernel, asked, known, some) for asked in queries.parts(at)]
        sums = found[0] if len(found) == 1 else torch.cat(found, dim=1)
        total = sums if total is None else total.add_(sums)
        start += known.n
    assert total is not None  # there is at least one part, which may be empty
    return total
