"""Samples in the memory of a device: a row for each feature, a column for each sample, both padded with zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.cuda.rows import DeviceSamples
from maxmargin.samples import CsrSamples, Samples

WIDTH, FEATURES = 128, 8  # columns and features are padded to multiples of these (sources/pairs.cu)


@dataclass(frozen=True)
class Packed:
    """`n` samples of `n_features`; `norms` are their squared norms."""

    table: torch.Tensor
    norms: torch.Tensor
    n: int
    n_features: int

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    def take(self, members: torch.Tensor) -> Packed:
        """Some of the samples, padded with others: few calls of torch matter more than what stands in the padding."""
        n = len(members)
        chosen = torch.nn.functional.pad(members, (0, padded(n) - n))
        return Packed(self.table.index_select(1, chosen), self.norms.index_select(0, chosen), n, self.n_features)

    def parts(self, members: torch.Tensor | None) -> Iterator[Packed]:
        """Some of the samples (None: all) in parts, here a single one; `Streamed` has more."""
        yield self if members is None else self.take(members)

    def n_parts(self, count: int) -> int:
        return 1


def pack(rows: torch.Tensor, dtype: torch.dtype, centre: NDArray[np.float64] | None) -> Packed:
    """Rows on a device, less `centre`."""
    if centre is not None:
        rows = rows.double() - upload(centre, rows.device)
    n, d = rows.shape
    table = torch.zeros(-(-d // FEATURES) * FEATURES, padded(n), dtype=dtype, device=rows.device)
    table[:d, :n] = rows.T
    return Packed(table, (table * table).sum(0), n, d)


def upload_rows(samples: Samples, device: torch.device) -> torch.Tensor:
    """The rows of samples, dense and in their order, in the memory of the device."""
    if isinstance(samples, DeviceSamples):
        rows = samples.X.tensor.to(device)
    elif isinstance(samples, CsrSamples):
        rows = _scattered(samples.X, device)
    else:
        rows = upload(samples.X, device)
    return rows if samples.index is None else rows[upload(samples.index, device)]


def rows_where_they_are(samples: Samples, device: torch.device) -> torch.Tensor | NDArray[Any]:
    """The rows of samples that were chosen from a container that is too large for the device: on the device, if the container is
    there or sparse; else on the host."""
    rows = samples.rows
    if isinstance(samples, DeviceSamples):
        return rows.tensor
    return _scattered(rows, device) if isinstance(samples, CsrSamples) else np.asarray(rows)


def _scattered(X: Any, device: torch.device) -> torch.Tensor:
    """Sparse rows as dense ones; only their entries travel."""
    data, columns, counts = (upload(values, device) for values in (X.data, X.indices, np.diff(X.indptr)))
    rows = data.new_zeros(X.shape)
    rows[torch.repeat_interleave(counts), columns.long()] = data
    return rows


def padded(n: int) -> int:
    return -(-n // WIDTH) * WIDTH


def upload(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """An array in the memory of the device; never the memory of the array itself."""
    return torch.tensor(values, device=device)


_LAST_PLACES: dict[torch.device, tuple[NDArray[np.int32], torch.Tensor]] = {}


def upload_places(places: NDArray[np.int32], device: torch.device) -> torch.Tensor:
    """Like `upload`, for places, which nobody changes: the last ones are not copied again, as one working set is asked for in
    several calls."""
    last = _LAST_PLACES.get(device)
    if last is None or last[0] is not places:
        last = _LAST_PLACES[device] = places, upload(places, device)
    return last[1]
