"""The backend: which data and kernels it takes, and what is missing where it cannot run."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from maxmargin.backends.base import Backend, Matrix, SamplesLostError, Vector
from maxmargin.backends.cuda.engine import PAIRINGS, Engine
from maxmargin.backends.cuda.gram import BYTES_OF_BOTH, DTYPES, DeviceGram, Features, Stored
from maxmargin.backends.cuda.packing import Packed, upload
from maxmargin.backends.cuda.point import DevicePoint
from maxmargin.backends.cuda.rows import DeviceRows
from maxmargin.backends.cuda.streaming import Table, fits, kernel_sums, placed
from maxmargin.backends.native import NativeBackend
from maxmargin.backends.native.packing import centre_for
from maxmargin.backends.native.threads import blas_threads_off
from maxmargin.backends.point import Point
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram, sums_by_blocks
from maxmargin.kernels import Kernel, NamedKernel
from maxmargin.samples import CsrSamples, DenseSamples, MatrixSamples, Samples

#: CSR samples with more columns than this do not become dense rows on the device.
MOST_COLUMNS = 4096
OLDEST = (7, 5)  # compute capability that NVRTC still compiles for


class DeviceBackend(Backend):
    """A backend whose numbers live on one of torch's devices."""

    name: ClassVar[str] = "torch"
    _point: DevicePoint | None = None  # the one that was placed last

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.inner = engine.inner

    def evaluates(self, kernel: Kernel) -> bool:
        return kernel.name in PAIRINGS

    def gram(self, kernel: Kernel, samples: Samples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]) -> Gram:
        if isinstance(samples, MatrixSamples):
            return DeviceGram(Stored(self._engine, kernel, samples), dtype, segments)
        return DeviceGram(Features(self._engine, _known(kernel), _narrow(samples)), dtype, segments)

    def placed(self, X: Matrix) -> DeviceRows | Matrix:
        if not fits(self._engine, DenseSamples(X), BYTES_OF_BOTH):
            return X
        with self.session(X.size):
            return DeviceRows(upload(X, self._engine.device), X)

    @contextmanager
    def session(self, entries: int) -> Iterator[None]:
        try:
            with (
                blas_threads_off
            ):  # a dot product of NumPy's on the host takes a fraction of the time that its threads need to wake up
                yield
        except torch.OutOfMemoryError as error:
            raise MemoryError(
                f"backend='cuda': the samples and a working set do not fit into the memory of {self._engine.device}; {ADVICE}"
            ) from error

    @contextmanager
    def watched(self) -> Iterator[None]:
        try:
            yield
        except self._engine.failures as error:
            self._engine.lost = True
            reason = str(error).partition("\n")[0]
            raise SamplesLostError(f"{self._engine.device} has failed in the middle of the fit ({reason})") from error

    def place(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Point:
        self._point = DevicePoint.placed(problem, gram, beta, gradient)
        return self._point

    def reached(self, problem: DualProblem) -> Vector | None:
        return self._point.reached if self._point is not None and self._point.problem is problem else None

    def whole(
        self,
        kernel: NamedKernel,
        pairing: Matrix,
        segments: tuple[int, ...],
        rounding: float,
        instead_of: Gram | None = None,
    ) -> Gram:
        samples = MatrixSamples(kernel.of_pairing(pairing))
        return DeviceGram(Stored(self._engine, kernel, samples, rounding), np.dtype(np.float32), segments)

    def pairing(self, kernel: NamedKernel, samples: Samples) -> Matrix:
        return NativeBackend().pairing(kernel, samples)

    def weighted_sums(
        self, kernel: Kernel, support: Samples, queries: Samples, weights: Matrix, groups: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        if isinstance(support, MatrixSamples):  # a product of matrices that lie on the host
            return sums_by_blocks(kernel, support, queries, weights, groups)
        named, device, dtype = _known(kernel), self._engine.device, DTYPES[queries.dtype]
        centre = centre_for(kernel, support, queries.dtype, most_for_differences=support.shape[1])
        known, asked = self._resident(support, dtype, centre), placed(self._engine, _narrow(queries), dtype, centre)
        rows, ends = upload(weights, device), np.cumsum(groups).tolist()
        sums = torch.zeros(len(groups), len(weights), len(queries), dtype=torch.float64, device=device)
        for g, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if end > start:
                group = None if len(groups) == 1 else torch.arange(start, end, device=device)
                sums[g] = kernel_sums(self._engine, named, asked, None, known, group, rows[:, start:end])
        return np.asarray(sums.cpu().numpy())

    def _resident(self, support: Samples, dtype: torch.dtype, centre: Vector | None) -> Table:
        """The support vectors of a model on the device. A model does not change them after its fit, so they are copied once.
        Samples that were chosen from a larger container are not those of a model."""
        if support.index is not None:
            return placed(self._engine, _narrow(support), dtype, centre)
        key = id(support.X), dtype, self._engine.device
        found = _RESIDENTS.get(key)
        if found is not None and found[0]() is support.X:
            return found[1]
        table = placed(self._engine, _narrow(support), dtype, centre)
        if isinstance(table, Packed):
            _RESIDENTS[key] = weakref.ref(support.X, lambda _: _RESIDENTS.pop(key, None)), table
        while len(_RESIDENTS) > MOST_RESIDENTS:
            _RESIDENTS.popitem(last=False)
        return table


#: Support vectors that stay on a device between predictions, by the identity of their container, which they do not keep alive.
_RESIDENTS: OrderedDict[tuple[int, torch.dtype, torch.device], tuple[weakref.ref[Any], Packed]] = OrderedDict()
MOST_RESIDENTS = 4


def make_cuda_backend() -> DeviceBackend:
    """The backend of torch's current card; a RuntimeError if there is none that it can use."""
    from maxmargin.backends.cuda.card import CardEngine  # needs CUDA's bindings

    if not torch.cuda.is_available():
        built = "sees none" if torch.version.cuda else "is built without CUDA"
        raise RuntimeError(f"backend='cuda' needs an NVIDIA card and its driver, and torch {torch.__version__} {built}: {ADVICE}")
    try:
        capability = torch.cuda.get_device_capability()
    except RuntimeError as error:  # in a forked process, for one, whose parent has used the card
        raise RuntimeError(f"backend='cuda' cannot use the card in this process: {error}; or {ADVICE}") from error
    if capability < OLDEST:
        major, minor = capability
        raise RuntimeError(
            f"backend='cuda' needs a card of compute capability {OLDEST[0]}.{OLDEST[1]} or later, and "
            f"{torch.cuda.get_device_name()} has {major}.{minor}: {ADVICE}"
        )
    return DeviceBackend(CardEngine(torch.device("cuda", torch.cuda.current_device())))


def make_backend_of_all_cards() -> DeviceBackend:
    """The backend of all cards that torch sees, the current one first."""
    from maxmargin.backends.cuda.several import SeveralBackend

    first = make_cuda_backend()
    engines = [first._engine]
    for number in range(torch.cuda.device_count()):
        if number != torch.cuda.current_device():
            with torch.cuda.device(number):
                engines.append(make_cuda_backend()._engine)
    return SeveralBackend(engines) if len(engines) > 1 else first


ADVICE = "use backend='auto', which computes on the processor"


def _known(kernel: Kernel) -> NamedKernel:
    if not isinstance(kernel, NamedKernel) or kernel.name not in PAIRINGS:
        raise ValueError(f"backend='cuda' has no kernel {kernel.name!r}: it has {', '.join(PAIRINGS)}; {ADVICE}")
    return kernel


def _narrow(samples: Samples) -> Samples:
    """The samples, if their rows can be dense on a device; else a ValueError."""
    if isinstance(samples, CsrSamples) and samples.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"backend='cuda' works on dense rows, for which sparse samples with {samples.shape[1]} features are too wide "
            f"(at most {MOST_COLUMNS}): {ADVICE}"
        )
    return samples
