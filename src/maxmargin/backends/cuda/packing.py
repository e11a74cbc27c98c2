"""Samples in the memory of a device: a row for each feature, a column for each sample, both padded with zeros."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.cuda.rows import DeviceSamples
from maxmargin.samples import Samples

WIDTH, FEATURES = 128, 8  # columns and features are padded to multiples of these (sources/pairs.cu)


@dataclass(frozen=True)
class Packed:
    """`n` samples; `norms` are their squared norms."""

    table: torch.Tensor
    norms: torch.Tensor
    n: int

    @property
    def width(self) -> int:
        return int(self.table.shape[1])

    def take(self, members: torch.Tensor) -> Packed:
        table = self.table.new_zeros(len(self.table), padded(len(members)))
        table[:, : len(members)] = self.table[:, members]
        norms = self.norms.new_zeros(table.shape[1])
        norms[: len(members)] = self.norms[members]
        return Packed(table, norms, len(members))


def pack(rows: torch.Tensor, dtype: torch.dtype, centre: NDArray[np.float64] | None) -> Packed:
    """Rows on a device, less `centre`."""
    if centre is not None:
        rows = rows.double() - upload(centre, rows.device)
    n, d = rows.shape
    table = torch.zeros(-(-d // FEATURES) * FEATURES, padded(n), dtype=dtype, device=rows.device)
    table[:d, :n] = rows.T
    return Packed(table, (table * table).sum(0), n)


def upload_rows(samples: Samples, device: torch.device) -> torch.Tensor:
    """Dense samples, in their order, in the memory of the device."""
    rows = samples.X.tensor.to(device) if isinstance(samples, DeviceSamples) else upload(samples.X, device)
    return rows if samples.index is None else rows[upload(samples.index, device)]


def padded(n: int) -> int:
    return -(-n // WIDTH) * WIDTH


def upload(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """An array in the memory of the device; never the memory of the array itself."""
    return torch.tensor(values, device=device)
