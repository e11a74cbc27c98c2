"""Samples that are in the memory of a device already: they stay there, and only support vectors come to the host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.base import SamplesLostError
from maxmargin.samples import DenseSamples, KernelFunction, Samples, mean_of_entries, variance_of_entries

Vector = NDArray[np.float64]

ENTRIES_AT_ONCE = 1 << 27  # numbers of which there are copies in float64 at the same time


class DeviceRows:
    """A matrix of torch with the face of an array; `numpy.asarray` copies it to the host. `host` is the array that it is a copy
    of, if there is one."""

    ndim = 2

    def __init__(self, tensor: torch.Tensor, host: NDArray[Any] | None = None) -> None:
        self.host = host
        if tensor.ndim != 2:
            raise ValueError(f"X has shape {tuple(tensor.shape)}: must be a matrix, with a row for each sample")
        self.tensor = (tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()).detach()

    @classmethod
    def of(cls, X: Any) -> Self:
        """The rows of an array of any library that knows DLPack, without a copy."""
        return cls(torch.from_dlpack(X))

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.tensor.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.tensor.dtype == torch.float32 else np.float64)

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, rows: Any) -> DeviceRows:
        return DeviceRows(self.tensor[rows if isinstance(rows, slice) else torch.tensor(rows, device=self.tensor.device)])

    def astype(self, dtype: Any, copy: bool = True) -> DeviceRows:
        return DeviceRows(self.tensor.to(torch.float32 if np.dtype(dtype) == np.float32 else torch.float64))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.tensor.cpu().numpy(), dtype=dtype)

    def is_finite(self) -> bool:
        return bool(self.tensor.isfinite().all())

    def as_samples(self) -> Samples:
        return DeviceSamples(self)

    def current(self) -> AbstractContextManager[Any]:
        """A context in which the device of the rows is torch's current one."""
        device = self.tensor.device
        return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


class DeviceSamples(DenseSamples):
    """Samples of a `DeviceRows`. Sums over features are made on the device, in float64."""

    X: DeviceRows
    home = "cuda"

    @property
    def vectors(self) -> Any:
        return host_samples(self).rows

    def _compared(self) -> Any:
        return np.asarray(self.rows) if self.centre is None else np.asarray(self.rows) - self.centre

    def diagonal(self, kernel: KernelFunction) -> Vector:
        return kernel.diag(self._of_same_norm())

    def sizes(self, kernel: KernelFunction) -> Vector | float:
        return kernel.sizes(self._of_same_norm())

    def _of_same_norm(self) -> Vector:
        """Samples of one feature with the same norms, which are all that k(x, x) depends on."""
        return np.sqrt(self.squared_norms())[:, None]

    def require_defined(self, kernel: KernelFunction, others: Samples) -> None:
        if not float(getattr(kernel, "degree", 1.0)).is_integer():  # else every value is defined
            kernel.require_defined(np.asarray(self.rows), np.asarray(others.rows))

    def variance(self, weights: Vector | None) -> float:
        rows, d = self.rows.tensor, self.shape[1]
        mean = mean_of_entries(rows.sum(dim=1, dtype=torch.float64).cpu().numpy(), weights, d)
        sums = []
        for some in _parts(rows):
            deviations = some.double() - mean
            sums.append(torch.stack([deviations.sum(dim=1), deviations.square().sum(dim=1)]))
        linear, square = torch.cat(sums, dim=1).cpu().numpy()
        return variance_of_entries(linear, square, weights, d, self.largest_entry())

    def _largest_entry(self) -> float:
        return max(float(some.abs().max()) for some in _parts(self.X.tensor)) if len(self.X) else 0.0

    def _squared_norms(self) -> Vector:
        return np.asarray(torch.cat([some.double().square().sum(dim=1) for some in _parts(self.X.tensor)]).cpu().numpy())


def host_samples(samples: Samples) -> Samples:
    """The samples in the memory of the host; a SamplesLostError if they are on a device only, which has failed."""
    if not isinstance(samples, DeviceSamples):
        return samples
    if samples.X.host is not None:
        return DenseSamples(samples.X.host, samples.index).around(samples.centre)
    try:
        return DenseSamples(np.asarray(samples.rows)).around(samples.centre)
    except torch.AcceleratorError as error:
        raise SamplesLostError(
            f"the rows were on {samples.X.tensor.device} only, which has failed, so there is no model"
        ) from error


def _parts(rows: torch.Tensor) -> Sequence[torch.Tensor]:
    """The rows in parts that are small enough for copies in float64."""
    return rows.split(max(1, ENTRIES_AT_ONCE // max(1, rows.shape[1])))  # type: ignore[no-any-return]
