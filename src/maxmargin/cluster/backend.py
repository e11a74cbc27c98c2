"""The backend of a cluster: matrix and point in parts on the workers, working sets minimised here by compiled code."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from maxmargin.backends.base import Vector
from maxmargin.backends.native import NativeBackend
from maxmargin.backends.point import Point
from maxmargin.cluster.gram import ClusterGram
from maxmargin.cluster.point import ClusterPoint
from maxmargin.cluster.samples import PartitionedSamples
from maxmargin.formulations import DualProblem
from maxmargin.gram import Gram
from maxmargin.kernels import Kernel
from maxmargin.samples import Samples


class ClusterBackend(NativeBackend):
    name: ClassVar[str] = "cluster"
    _point: ClusterPoint | None = None  # the one that was placed last

    def gram(self, kernel: Kernel, samples: Samples, dtype: np.dtype[Any], cache_bytes: int, segments: tuple[int, ...]) -> Gram:
        assert isinstance(samples, PartitionedSamples)
        return ClusterGram(kernel, samples, dtype, cache_bytes, segments)

    def place(self, problem: DualProblem, gram: Gram, beta: Vector, gradient: Vector) -> Point:
        self._point = ClusterPoint(problem, gram, beta, gradient)
        return self._point

    def reached(self, problem: DualProblem) -> Vector | None:
        return self._point.beta if self._point is not None and self._point.problem is problem else None
