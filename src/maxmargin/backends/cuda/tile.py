"""The kernel matrix of a working set, in the memory of a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.cuda.packing import padded, upload_places

ROWS_AT_ONCE = 2048  # rows of a tile in float64 at the same time


@dataclass(frozen=True)
class DeviceTile:
    """A square matrix in the memory of a device; its rows are padded with finite values."""

    matrix: torch.Tensor
    #: Whether there is no such matrix, because it does not fit (`gram.SplitTile`).
    is_split: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def to_array(self) -> NDArray[np.float64]:
        return np.asarray(self.matrix[:, : len(self)].double().cpu().numpy())

    def part(self, members: NDArray[np.int32] | torch.Tensor) -> DeviceTile:
        """The tile of some of the variables."""
        at = members if isinstance(members, torch.Tensor) else upload_places(members, self.device)
        matrix = self.matrix.new_zeros(len(at), padded(len(at)))
        matrix[:, : len(at)] = self.matrix[at[:, None], at]
        return DeviceTile(matrix)

    def sums(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """weights @ K[rows, :] in float64."""
        sums = weights.new_zeros(len(weights), len(self))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            sums += weights[:, some] @ self.matrix[rows[some], : len(self)].double()
        return sums
