"""The compiled core; what each routine does is said in native/include."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.backends.base import Violation

Vector = NDArray[np.float64]
Indices = NDArray[np.int32]

class Kernel: ...

class Samples32:
    @staticmethod
    def from_dense(X: NDArray[Any], centre: Vector) -> Samples32: ...
    @staticmethod
    def from_csr(starts: NDArray[Any], features: NDArray[Any], values: NDArray[Any], n_features: int) -> Samples32: ...

class Samples64:
    @staticmethod
    def from_dense(X: NDArray[Any], centre: Vector) -> Samples64: ...
    @staticmethod
    def from_csr(starts: NDArray[Any], features: NDArray[Any], values: NDArray[Any], n_features: int) -> Samples64: ...

class Tile32:
    def assign(self, K: NDArray[np.float32]) -> None: ...
    def add_to_diagonal(self, shift: Vector) -> None: ...
    def to_array(self) -> NDArray[np.float32]: ...

class Tile64:
    def assign(self, K: NDArray[np.float64]) -> None: ...
    def add_to_diagonal(self, shift: Vector) -> None: ...
    def to_array(self) -> NDArray[np.float64]: ...

class Gram32:
    cached_blocks: int
    entries_computed: int
    def __init__(self, kernel: Kernel, samples: Samples32, segments: Sequence[int], cache_bytes: int) -> None: ...
    def accumulate(self, rows: Indices, weights: Vector, segments: Sequence[int], out: Vector) -> None: ...
    def fill_tile(self, members: Indices, tile: Tile32) -> None: ...
    def diagonal(self) -> Vector: ...
    def release_cross_blocks(self) -> None: ...
    def subset(self, members: Indices) -> Gram32: ...

class Gram64:
    cached_blocks: int
    entries_computed: int
    def __init__(self, kernel: Kernel, samples: Samples64, segments: Sequence[int], cache_bytes: int) -> None: ...
    def accumulate(self, rows: Indices, weights: Vector, segments: Sequence[int], out: Vector) -> None: ...
    def fill_tile(self, members: Indices, tile: Tile64) -> None: ...
    def diagonal(self) -> Vector: ...
    def release_cross_blocks(self) -> None: ...
    def subset(self, members: Indices) -> Gram64: ...

def use_blas(routines: Mapping[str, Any]) -> None: ...
def instruction_set() -> str: ...
def make_kernel(name: str, gamma: float, coef0: float, degree: float) -> Kernel: ...
def measure_violation(beta: Vector, lower: Vector, upper: Vector, gradient: Vector, edges: Sequence[int]) -> Violation: ...
def choose_working_set(
    beta: Vector,
    lower: Vector,
    upper: Vector,
    gradient: Vector,
    edges: Sequence[int],
    violation: Violation,
    threshold: float,
    size: int,
    seed: int,
) -> tuple[Indices, bool]: ...
def solve_tile(
    tile: Tile32 | Tile64,
    lower: Vector,
    upper: Vector,
    beta: Vector,
    gradient: Vector,
    edges: Sequence[int],
    tolerance: float,
    max_steps: int,
) -> tuple[int, float, float, float]: ...
def solve_tiles(
    gram: Gram32 | Gram64,
    ends: Sequence[int],
    members: Indices,
    lower: Vector,
    upper: Vector,
    shift: Vector,
    beta: Vector,
    gradient: Vector,
    coupled: bool,
    tolerance: float,
    polish: float,
    max_steps: int,
) -> list[tuple[int, float, float, float]]: ...
def weighted_sums(
    kernel: Kernel,
    support: Samples32 | Samples64,
    queries: Samples32 | Samples64,
    weights: Vector,
    group_ends: Sequence[int],
    sums: NDArray[np.float64],
) -> None: ...
