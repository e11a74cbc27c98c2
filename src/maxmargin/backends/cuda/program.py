"""Our CUDA kernels in the memory of a card, launched on torch's current stream."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from cuda.bindings import driver

from maxmargin.backends.cuda.compiler import Binary, checked, compiled

PORTABLE_CLUSTER = 8  # blocks of a cluster that every card with clusters takes


class Kernel:
    """A kernel in the memory of one card."""

    def __init__(self, binary: Binary) -> None:
        self._module = checked(driver.cuModuleLoadData(binary.code))
        self._function = checked(driver.cuModuleGetFunction(self._module, binary.name))

    def launch(self, grid: tuple[int, int], threads: int, arguments: Sequence[Any], cluster: int = 1) -> None:
        """Start the kernel on torch's current stream. An argument is a tensor, an int (passed as 32 bits), a float (64 bits), or
        a ctypes value."""
        config = self._config(grid, threads, cluster)
        config.hStream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
        values, kinds = zip(*(_argument(one) for one in arguments), strict=True)
        checked(driver.cuLaunchKernelEx(config, self._function, (values, kinds), 0))

    def most_clusters(self, threads: int, cluster: int) -> int:
        """How many clusters of this many blocks fit on the card at the same time."""
        if cluster > PORTABLE_CLUSTER:
            allow = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            checked(driver.cuFuncSetAttribute(self._function, allow, 1))
        return int(checked(driver.cuOccupancyMaxActiveClusters(self._function, self._config((cluster, 1), threads, cluster))))

    @staticmethod
    def _config(grid: tuple[int, int], threads: int, cluster: int) -> Any:
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = *grid, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = 0
        if cluster > 1:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster, 1, 1
            config.attrs, config.numAttrs = [attribute], 1
        return config


def kernel(file: str, expression: str) -> Kernel:
    """The kernel, ready on torch's current card."""
    card = torch.cuda.current_device()
    activate(card)
    return _kernel(file, expression, card)


def activate(card: int) -> None:
    """Make the context that torch uses on this card current in the calling thread."""
    checked(driver.cuCtxSetCurrent(_context_of(card)))


@cache
def _context_of(card: int) -> Any:
    checked(driver.cuInit(0))
    return checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(card))))


@cache
def _kernel(file: str, expression: str, card: int) -> Kernel:
    return Kernel(compiled(file, expression, capability_of(card)))


@cache
def capability_of(card: int) -> int:
    """The compute capability of a card as one number: 90 for 9.0."""
    major, minor = torch.cuda.get_device_capability(card)
    return int(10 * major + minor)


def _argument(value: Any) -> tuple[Any, Any]:
    if isinstance(value, torch.Tensor):
        return value.data_ptr(), ctypes.c_void_p
    if isinstance(value, float):
        return value, ctypes.c_double
    if isinstance(value, ctypes.c_int64):
        return value.value, ctypes.c_int64
    return int(value), ctypes.c_int
