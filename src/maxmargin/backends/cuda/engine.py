"""The contract of an engine: kernel sums and kernel values of packed samples, and a solver of tiles that lie where they do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray

from maxmargin.backends.base import InnerSolver
from maxmargin.backends.cuda.packing import Packed
from maxmargin.kernels import FEW_FEATURES_IN_FLOAT32, NamedKernel

#: The kernels that engines know, and the number about two samples that each is a function of.
PAIRINGS = {
    "linear": "DOT",
    "poly": "DOT",
    "sigmoid": "DOT",
    "rbf": "SQUARED",
    "exponential": "SQUARED",
    "matern32": "SQUARED",
    "laplacian": "ABSOLUTE",
}

STEEP_AT_ZERO = ("exponential",)


def pairing_of(kernel: NamedKernel, samples: Packed) -> str:
    """DOT, SQUARED or ABSOLUTE. In float32, squared distances of samples with many features come from dot products, which is
    faster and precise enough; in float64 they come from differences, and for a kernel that takes their root, since the root of
    a small one has half of the digits."""
    from_products = samples.table.dtype == torch.float32 and samples.n_features > FEW_FEATURES_IN_FLOAT32
    pairing = PAIRINGS[kernel.name]
    return "DOT" if pairing == "SQUARED" and from_products and kernel.name not in STEEP_AT_ZERO else pairing


class Engine(ABC):
    device: torch.device
    inner: InnerSolver
    #: The bytes that samples may take; more are streamed.
    budget: float = float("inf")
    #: The errors of a device that has failed.
    failures: tuple[type[Exception], ...] = (torch.AcceleratorError,)
    #: Whether the device has failed, and nothing on it can be read again.
    lost: bool = False

    def use(self) -> None:
        """Let the calling thread compute on this device from now on."""
        return None  # a thread needs to say so for a card only

    def finish(self) -> None:
        """Wait until the device has done all that it was asked for, by any thread."""
        return None  # a device that works while the host goes on has something to wait for

    def use_smaller_tiles(self, than: int) -> None:
        """Use tiles of at most half as many variables from now on: one of `than` variables does not fit into the memory."""
        self.inner.largest_tile = min(self.inner.largest_tile, than // 2)
        self.inner.tile = min(self.inner.tile, self.inner.largest_tile)

    @abstractmethod
    def sums(self, kernel: NamedKernel, queries: Packed, support: Packed, weights: torch.Tensor) -> torch.Tensor:
        """sums[m, q] = sum of weights[m, s] k(support_s, query_q), in float64 from entries in the arithmetic of the samples."""

    @abstractmethod
    def additions(self, n_support: int) -> int:
        """How many additions follow each other in such a sum."""

    @abstractmethod
    def values(self, kernel: NamedKernel, first: Packed, second: Packed) -> torch.Tensor:
        """k(a, b), a row for each sample of the first set. Rows are padded with finite values to the width of the second set."""

    def carried(self, chunks: Iterable[torch.Tensor | NDArray[Any]]) -> Iterator[torch.Tensor]:
        """Chunks of rows, brought to the device in turn. A device with memory of its own lets the next one travel while the
        present one is in use."""
        for chunk in chunks:
            yield torch.as_tensor(chunk, device=self.device)
