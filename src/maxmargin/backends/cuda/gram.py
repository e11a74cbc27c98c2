"""The kernel matrix of samples on a device: entries computed by an engine when they are needed, or a precomputed matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.cuda.engine import Engine
from maxmargin.backends.cuda.packing import pack, padded, upload, upload_places, upload_rows
from maxmargin.backends.cuda.rows import host_samples
from maxmargin.backends.cuda.streaming import PARTS, Streamed, Table, fits, kernel_sums
from maxmargin.backends.cuda.tile import DeviceTile
from maxmargin.backends.native import NativeBackend
from maxmargin.backends.native.packing import centre_for, linear_sums
from maxmargin.gram import ExactSums, Gram, rounding_of_sums
from maxmargin.kernels import Kernel, NamedKernel
from maxmargin.rounding import UNIT_ROUNDOFF
from maxmargin.samples import MatrixSamples, Samples

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

LEAST_TILE = 1024  # variables; a smaller tile has eight megabytes, and without these nothing can be done
BYTES_OF_BOTH = 4 + 8  # bytes of a number in float32 and in float64
DTYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


class TrainingSet(ABC):
    """A training set, and what is made of it once for all parts of its kernel matrix."""

    #: Whether the whole kernel matrix is in memory, that of the device or of the host.
    stored: ClassVar[bool] = False

    def __init__(self, engine: Engine, kernel: Kernel, samples: Samples) -> None:
        self.engine, self.kernel, self.samples = engine, kernel, samples
        self._twins: dict[Engine, TrainingSet] = {engine: self}

    def on(self, engine: Engine) -> TrainingSet:
        """The same training set on another device, where what is made of it is kept."""
        self.engine.finish()  # rows there may have been made by another thread
        if engine not in self._twins:
            self._twins[engine] = self._twin(engine)
        return self._twins[engine]

    @abstractmethod
    def _twin(self, engine: Engine) -> TrainingSet: ...

    @abstractmethod
    def sums(self, dtype: torch.dtype, rows: torch.Tensor, weights: torch.Tensor, at: torch.Tensor | None) -> torch.Tensor:
        """weights @ K[rows, at] (None: at all samples) in float64, from entries in the given arithmetic."""

    @abstractmethod
    def values(self, dtype: torch.dtype, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """K[rows, columns] in the given arithmetic; the rows are padded with finite values."""

    @abstractmethod
    def doubt(self, rows: Indices, weights: Matrix, at: Indices) -> Matrix | float:
        """A bound on the rounding errors of `sums` in float64."""

    @cached_property
    def diagonal(self) -> Vector:
        return np.ones(len(self.samples)) if self.kernel.shift_invariant else self.samples.diagonal(self.kernel)


class Features(TrainingSet):
    """Samples with features, copied to the device: kernel entries are computed when they are needed."""

    kernel: NamedKernel

    def _twin(self, engine: Engine) -> Features:
        return Features(engine, self.kernel, self.samples)

    def sums(self, dtype: torch.dtype, rows: torch.Tensor, weights: torch.Tensor, at: torch.Tensor | None) -> torch.Tensor:
        everyone = self._table(dtype)
        return kernel_sums(self.engine, self.kernel, everyone, at, everyone, rows, weights)

    def values(self, dtype: torch.dtype, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        everyone = self._table(dtype)
        first = everyone.take(rows)
        return self.engine.values(self.kernel, first, first if columns is rows else everyone.take(columns))

    def doubt(self, rows: Indices, weights: Matrix, at: Indices) -> Matrix | float:
        additions = self.engine.additions(len(rows)) + self._table(torch.float64).n_parts(len(rows)) - 1
        return rounding_of_sums(self.kernel, self.samples.n_terms, self._sizes, rows, weights, at, additions)

    @cached_property
    def _sizes(self) -> Vector | float:
        return 1.0 if self.kernel.shift_invariant else self.samples.sizes(self.kernel)

    def _table(self, dtype: torch.dtype) -> Table:
        return self._single if dtype == torch.float32 else self._double

    @cached_property
    def _single(self) -> Table:
        return self._placed(torch.float32, centre_for(self.kernel, self.samples, np.dtype(np.float32)))

    @cached_property
    def _double(self) -> Table:
        """The samples as they were given: distances come from differences, which need no centre."""
        return self._placed(torch.float64, self.samples.centre)

    def _placed(self, dtype: torch.dtype, centre: Vector | None) -> Table:
        if self._fits:
            try:
                return pack(self._rows, dtype, centre)
            except torch.OutOfMemoryError:  # others use the device, too
                vars(self).update(_fits=False)
        vars(self).pop("_rows", None)
        return Streamed(self.engine, self.samples, dtype, centre)

    @cached_property
    def _fits(self) -> bool:
        """Whether there is room for the rows and their tables in both arithmetics."""
        return fits(self.engine, self.samples, BYTES_OF_BOTH)

    @cached_property
    def _rows(self) -> torch.Tensor:
        return upload_rows(self.samples, self.engine.device)


class Stored(TrainingSet):
    """A whole kernel matrix, copied to the device in float64 if it fits: a precomputed one, or one of a grid, whose entries are
    off by up to `rounding`."""

    stored: ClassVar[bool] = True

    def __init__(self, engine: Engine, kernel: Kernel, samples: MatrixSamples, rounding: float = 0.0) -> None:
        super().__init__(engine, kernel, samples)
        self.rounding = rounding

    def _twin(self, engine: Engine) -> Stored:
        assert isinstance(self.samples, MatrixSamples)
        return Stored(engine, self.kernel, self.samples, self.rounding)

    def sums(self, dtype: torch.dtype, rows: torch.Tensor, weights: torch.Tensor, at: torch.Tensor | None) -> torch.Tensor:
        found = []
        for places, some in zip(rows.split(self._at_once), weights.split(self._at_once, dim=1), strict=True):
            entries = self._entries(places, at).to(dtype).double()
            found.append(some.double() @ entries)
        return found[0] if len(found) == 1 else torch.stack(found).sum(0)

    def values(self, dtype: torch.dtype, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        values = torch.zeros(len(rows), padded(len(columns)), dtype=dtype, device=self.engine.device)
        values[:, : len(columns)] = self._entries(rows, columns)
        return values

    def _entries(self, rows: torch.Tensor, columns: torch.Tensor | None) -> torch.Tensor:
        """K[rows, columns] (None: all columns)."""
        if self.fits:
            some = self._matrix[rows]
            return some if columns is None else some[:, columns]
        samples = self.samples
        asked = samples if columns is None else samples.take(columns.cpu().numpy())
        return upload(samples.take(rows.cpu().numpy()).block(self.kernel, asked), self.engine.device)

    def doubt(self, rows: Indices, weights: Matrix, at: Indices) -> Matrix | float:
        unit = self.rounding + len(rows) * UNIT_ROUNDOFF
        return np.asarray(unit * self.samples.largest_entry() * np.abs(weights).sum(axis=1, keepdims=True))

    @property
    def _at_once(self) -> int:
        """Rows of the matrix that are worked on at once."""
        n = len(self.samples)
        return max(1, n if self.fits else int(self.engine.budget / PARTS / (8 * n)))

    @cached_property
    def fits(self) -> bool:
        """Whether there is room for the matrix on the device; else rows of it are sent there when they are needed."""
        return 8 * len(self.samples) ** 2 <= self.engine.budget

    @cached_property
    def _matrix(self) -> torch.Tensor:
        matrix, index = upload(self.samples.X, self.engine.device).double(), self.samples.index
        return matrix if index is None else matrix[upload(index, self.engine.device)][:, upload(index, self.engine.device)]


class DeviceGram(Gram):
    """The matrix of a training set on a device, in float32 or float64."""

    def __init__(self, training_set: TrainingSet, dtype: np.dtype[Any], segments: tuple[int, ...]) -> None:
        self.kernel, self.dtype, self.device = training_set.kernel, np.dtype(dtype), training_set.engine.device
        self._training_set, self._segments = training_set, segments
        self._members: torch.Tensor | None = None  # the samples of the variables; None: all of them, in order
        self._places: Indices | None = None  # the same on the host

    def __len__(self) -> int:
        return self._segments[-1] if self._members is None else len(self._members)

    @property
    def remembers(self) -> bool:
        return self._training_set.stored

    @property
    def is_tile(self) -> bool:  # type: ignore[override]
        most = self._training_set.engine.inner.largest_tile
        return self._training_set.stored and len(self) == self._segments[-1] <= most

    @property
    def samples(self) -> Samples:
        samples = self._training_set.samples
        return samples if self._places is None else samples.take(self._places)

    def at(self, variables: Indices | torch.Tensor) -> torch.Tensor:
        """The samples of some variables, as places in the training set."""
        places = variables if isinstance(variables, torch.Tensor) else upload_places(variables, self.device)
        return places if self._members is None else self._members[places]

    def on(self, engine: Engine) -> DeviceGram:
        """The same matrix, for a thread that uses another device, or the same one."""
        twin = copy(self)
        twin._training_set, twin.device = self._training_set.on(engine), engine.device
        twin._members = None if self._members is None else self._members.to(engine.device)
        return twin

    # --- on the device --------------------------------------------------------------------------------------------

    def sums(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """weights @ K[rows, :], in float64 from entries in the arithmetic of the matrix."""
        return self._training_set.sums(DTYPES[self.dtype], self.at(rows), weights, self._members)

    def exact(self, rows: torch.Tensor, weights: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """weights @ K[rows, at], every entry computed anew in float64 from the samples alone."""
        return self._training_set.sums(torch.float64, self.at(rows), weights, self.at(at))

    # --- the contract ---------------------------------------------------------------------------------------------

    def tile(self, members: Indices, shift: Vector | None = None) -> DeviceTile | SplitTile:
        try:
            return self.whole_tile(members, shift)
        except torch.OutOfMemoryError:
            if len(members) <= LEAST_TILE:
                raise
        self._training_set.engine.use_smaller_tiles(len(members))
        return SplitTile(self._part(members), shift)

    def whole_tile(self, members: Indices, shift: Vector | None = None) -> DeviceTile:
        """The tile; a `torch.OutOfMemoryError` if it does not fit."""
        chosen = self.at(members)
        matrix = self._training_set.values(DTYPES[self.dtype], chosen, chosen)
        if shift is not None:
            matrix.diagonal().add_(upload(shift, self.device))
        return DeviceTile(matrix)

    @property
    def everyone(self) -> DeviceGram:
        """The matrix of the whole training set."""
        return self._over(None, None)

    def part_of(self, tile: DeviceTile) -> DeviceTile:
        """The tile of all variables, from that of `everyone`."""
        return tile if self._members is None else tile.part(self._members)

    def block(self, rows: Indices, columns: Indices) -> NDArray[Any]:
        values = self._training_set.values(DTYPES[self.dtype], self.at(rows), self.at(columns))
        return np.array(values[:, : len(columns)].cpu().numpy())

    def diagonal(self) -> Vector:
        diagonal = self._training_set.diagonal
        return diagonal if self._places is None else diagonal[self._places]

    def accumulate(self, rows: Indices, weights: Matrix, out: Matrix) -> None:
        out += self.sums(upload(rows, self.device), upload(weights, self.device)).cpu().numpy()

    def exact_sums(self, rows: Indices, weights: Matrix, at: Indices) -> ExactSums:
        samples = self._training_set.samples
        if self.kernel.explicit:  # products of two factors, which the host adds without rounding errors
            rows, at = self._on_host(rows), self._on_host(at)
            _, offset, values, terms = linear_sums(samples, rows, weights, at)
            n_terms = len(rows) + samples.shape[1]
            doubt = UNIT_ROUNDOFF * np.abs(values) + 2.0 * (n_terms * UNIT_ROUNDOFF) ** 2 * terms
            return ExactSums(values, doubt, (float(offset[0]), float(offset[1])))
        if not len(rows) or not len(at):
            return ExactSums(np.zeros((len(weights), len(at))), 0.0)
        values = self.exact(*(upload(some, self.device) for some in (rows, weights, at))).cpu().numpy()
        return ExactSums(values, self._training_set.doubt(self._on_host(rows), weights, self._on_host(at)))

    def _on_host(self, variables: Indices) -> Indices:
        """Like `at`, on the host."""
        return variables if self._places is None else self._places[variables]

    def subset(self, members: Indices) -> Gram:
        if self._training_set.engine.lost:
            chosen = self._training_set.samples.take(self._on_host(members))
            return NativeBackend().gram(self.kernel, host_samples(chosen), np.dtype(np.float64), 0, (0, len(members)))
        return self._part(members)

    def _part(self, members: Indices) -> DeviceGram:
        return self._over(self.at(members), self._on_host(members))

    def restrict(self, segments: tuple[int, ...]) -> DeviceGram:
        edges = self._segments
        places = np.concatenate([np.arange(edges[s], edges[s + 1], dtype=np.int32) for s in segments])
        return self._over(upload(places, self.device), places)

    def _over(self, members: torch.Tensor | None, places: Indices | None) -> DeviceGram:
        part = copy(self)
        part._members, part._places = members, places
        return part

    def in_float64(self) -> DeviceGram:
        if self.dtype == np.float64:
            return self
        wide = DeviceGram(self._training_set, np.dtype(np.float64), self._segments)
        wide._members, wide._places = self._members, self._places
        return wide

    def release(self) -> None:
        """Nothing to do: there is no cache."""


@dataclass(frozen=True)
class SplitTile:
    """The matrix of a working set that does not fit into the memory of the device. The solver minimises over parts of it in turn;
    kernel sums update the gradient of the others."""

    gram: DeviceGram
    shift: Vector | None
    is_split: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.gram)

    @property
    def device(self) -> torch.device:
        return self.gram.device

    def to_array(self) -> NDArray[np.float64]:
        everything, at_once = np.arange(len(self), dtype=np.int32), max(1, LEAST_TILE**2 // len(self))
        rows = [self.gram.block(everything[start : start + at_once], everything) for start in range(0, len(self), at_once)]
        K = np.concatenate(rows).astype(np.float64)
        K[np.diag_indices(len(K))] += 0.0 if self.shift is None else self.shift
        return K

    def part(self, members: Indices) -> DeviceTile | SplitTile:
        return self.gram.tile(members, None if self.shift is None else self.shift[members])

    def sums(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """weights @ K[rows, :] in float64."""
        sums = self.gram.sums(rows, weights)
        return sums if self.shift is None else sums.index_add_(1, rows, weights * upload(self.shift, self.device)[rows])
