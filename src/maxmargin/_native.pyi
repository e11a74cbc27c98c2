"""The compiled core; what each routine does is said in native/include.

Arguments have no names at run time, so all of them are positional. A `_Vector` and `_Indices` have one dimension, a `_Matrix` has
two. tests/test_stub.py compares each signature with the one of the compiled module.
"""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

_Vector = NDArray[np.float64]
_Matrix = NDArray[np.float64]
_Indices = NDArray[np.int32]

chunk: int
kernel_names: list[str]

class Kernel: ...

class Samples32:
    @staticmethod
    def from_dense(X: NDArray[Any], centre: _Vector, order: _Indices | None, /) -> Samples32: ...
    @staticmethod
    def from_csr(
        starts: NDArray[Any], features: NDArray[Any], values: NDArray[Any], n_features: int, order: _Indices | None, /
    ) -> Samples32: ...

class Samples64:
    @staticmethod
    def from_dense(X: NDArray[Any], centre: _Vector, order: _Indices | None, /) -> Samples64: ...
    @staticmethod
    def from_csr(
        starts: NDArray[Any], features: NDArray[Any], values: NDArray[Any], n_features: int, order: _Indices | None, /
    ) -> Samples64: ...

class Tile32:
    def __init__(self) -> None: ...
    def view(self, K: NDArray[np.float32], /) -> None: ...
    def assign(self, K: NDArray[np.float32], /) -> None: ...
    def add_to_diagonal(self, shift: _Vector, /) -> None: ...
    def array(self) -> NDArray[np.float32]: ...
    def to_array(self) -> NDArray[np.float32]: ...

class Tile64:
    def __init__(self) -> None: ...
    def view(self, K: _Matrix, /) -> None: ...
    def assign(self, K: _Matrix, /) -> None: ...
    def add_to_diagonal(self, shift: _Vector, /) -> None: ...
    def array(self) -> NDArray[np.float64]: ...
    def to_array(self) -> _Matrix: ...

class LinearProgress:
    @property
    def primal(self) -> float: ...
    @property
    def dual(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @property
    def passes(self) -> float: ...
    @property
    def rounds(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def stalled(self) -> bool: ...

class LinearEvidence:
    @property
    def gaps(self) -> float: ...
    @property
    def plain(self) -> float: ...
    @property
    def duals(self) -> float: ...
    @property
    def total(self) -> float: ...
    @property
    def size(self) -> float: ...
    @property
    def reach(self) -> float: ...
    @property
    def violation(self) -> float: ...
    @property
    def box(self) -> float: ...

class LinearProblem:
    def __init__(
        self,
        targets: _Vector,
        reach: _Vector,
        epsilon: float,
        two_sided: bool,
        squared: bool,
        bias: str,
        constant: float,
        total: float,
        /,
    ) -> None: ...

class JointLinearProblem:
    def __init__(self, labels: _Indices, costs: _Vector, n_classes: int, bias: str, constant: float, /) -> None: ...

class LinearSolver:
    def advance(self, gap_tol: float, max_rounds: int, seconds: float, /) -> LinearProgress: ...

class LinearRows:
    @staticmethod
    def from_dense(X: NDArray[Any], /) -> LinearRows: ...
    @staticmethod
    def from_csr(starts: NDArray[Any], features: NDArray[Any], values: NDArray[Any], n_features: int, /) -> LinearRows: ...
    def solver(self, method: str, problem: LinearProblem, beta: _Vector, weights: _Vector, /) -> LinearSolver: ...
    def joint_solver(self, problem: JointLinearProblem, shares: _Matrix, weights: _Matrix, /) -> LinearSolver: ...
    def evidence(
        self, problem: LinearProblem, weights: _Vector, beta: _Vector, terms: _Vector, products: _Vector, /
    ) -> LinearEvidence: ...

class Gram32:
    @property
    def cached_blocks(self) -> int: ...
    @property
    def entries_computed(self) -> int: ...
    def __init__(self, kernel: Kernel, samples: Samples32, segments: Sequence[int], cache_bytes: int, /) -> None: ...
    def accumulate(
        self, rows: _Indices, weights: _Vector, segments: Sequence[int], out: _Vector, known: NDArray[np.uint8] | None, /
    ) -> bool: ...
    def accumulate_each(self, rows: _Indices, weights: _Matrix, segments: Sequence[int], out: _Matrix, /) -> None: ...
    def expect(self, rows: _Indices, /) -> None: ...
    def fill_tile(self, members: _Indices, tile: Tile32, /) -> None: ...
    def diagonal(self) -> _Vector: ...
    def release_cross_blocks(self) -> None: ...
    def subset(self, members: _Indices, /) -> Gram32: ...

class Gram64:
    @property
    def cached_blocks(self) -> int: ...
    @property
    def entries_computed(self) -> int: ...
    def __init__(self, kernel: Kernel, samples: Samples64, segments: Sequence[int], cache_bytes: int, /) -> None: ...
    def accumulate(
        self, rows: _Indices, weights: _Vector, segments: Sequence[int], out: _Vector, known: NDArray[np.uint8] | None, /
    ) -> bool: ...
    def accumulate_each(self, rows: _Indices, weights: _Matrix, segments: Sequence[int], out: _Matrix, /) -> None: ...
    def expect(self, rows: _Indices, /) -> None: ...
    def fill_tile(self, members: _Indices, tile: Tile64, /) -> None: ...
    def diagonal(self) -> _Vector: ...
    def release_cross_blocks(self) -> None: ...
    def subset(self, members: _Indices, /) -> Gram64: ...

class Violation:
    @property
    def value(self) -> float: ...
    @property
    def levels(self) -> list[float]: ...
    @property
    def n_free(self) -> int: ...

def use_blas(routines: object, /) -> None: ...
def instruction_set() -> str: ...
def n_threads() -> int: ...
def use_threads(count: int, /) -> None: ...
@overload
def fill_tile_from(matrix: NDArray[np.float32], members: _Indices, tile: Tile32, /) -> None: ...
@overload
def fill_tile_from(matrix: _Matrix, members: _Indices, tile: Tile64, /) -> None: ...
def pair_all(kernel: Kernel, samples: Samples64, pairs: _Matrix, /) -> None: ...
def apply_kernel_to(kernel: Kernel, pairs: _Matrix, matrix: _Matrix, rounded: NDArray[np.float32], /) -> None: ...
def products_from(matrix: _Matrix, at: _Indices, weights: _Vector, out: _Vector, /) -> None: ...
def accumulate_from(matrix: NDArray[Any], rows: _Indices, weights: _Vector, first: int, last: int, out: _Vector, /) -> None: ...
def make_kernel(name: str, gamma: float, coef0: float, degree: float, /) -> Kernel: ...
def measure_violation(beta: _Vector, lower: _Vector, upper: _Vector, gradient: _Vector, edges: Sequence[int], /) -> Violation: ...
def choose_working_set(
    beta: _Vector,
    lower: _Vector,
    upper: _Vector,
    gradient: _Vector,
    edges: Sequence[int],
    violation: Violation,
    threshold: float,
    size: int,
    extra_share: float,
    seed: int,
    /,
) -> tuple[_Indices, bool]: ...
def solve_tile(
    tile: Tile32 | Tile64,
    lower: _Vector,
    upper: _Vector,
    beta: _Vector,
    gradient: _Vector,
    edges: Sequence[int],
    tolerance: float,
    max_steps: int,
    seconds: float,
    /,
) -> tuple[int, float, float, float]: ...
def solve_joint_tile(
    tile: Tile32 | Tile64, upper: _Matrix, beta: _Matrix, gradient: _Matrix, tolerance: float, max_steps: int, seconds: float, /
) -> tuple[int, float, float, float]: ...
def solve_tiles(
    gram: Gram32 | Gram64,
    ends: Sequence[int],
    members: _Indices,
    lower: _Vector,
    upper: _Vector,
    shift: _Vector,
    beta: _Vector,
    gradient: _Vector,
    coupled: bool,
    tolerance: float,
    polish: float,
    max_steps: int,
    seconds: float,
    /,
) -> list[tuple[int, float, float, float]]: ...
def exact_sums(kernel: Kernel, support: Samples64, queries: Samples64, weights: _Matrix, sums: _Matrix, /) -> None: ...
def solve_chain(
    matrix: _Matrix,
    rounded: NDArray[np.float32],
    members: _Indices,
    linear: _Vector,
    coupled: bool,
    tol: float,
    gap_tol: float,
    largest: float,
    rounding: float,
    lower: _Matrix,
    upper: _Matrix,
    beta: _Matrix,
    gradients: _Matrix,
    terms: _Matrix,
    seconds: float,
    /,
) -> list[tuple[int, tuple[float, float, float, float, float, float, float, float, float, int]]]: ...
def prove_each(
    kernel: Kernel,
    samples: Samples64,
    unit: float,
    constant: float,
    sizes: _Vector,
    of_products: _Vector,
    of_centre: _Vector,
    ends: Sequence[int],
    members: _Indices,
    linear: _Vector,
    lower: _Vector,
    upper: _Vector,
    beta: _Vector,
    claim: _Vector,
    coupled: bool,
    terms: _Vector,
    /,
) -> list[tuple[float, float, float, float, float, float, float, float, float, int]]: ...
def count_differences(X: NDArray[Any], point: _Vector, ends: NDArray[np.int64], excess: NDArray[np.int64], /) -> None: ...
def take_differences(
    X: NDArray[Any], point: _Vector, signs: _Vector, starts: NDArray[Any], features: NDArray[Any], values: NDArray[Any], /
) -> None: ...
def linear_sums(
    X: NDArray[Any], centre: _Vector, rows: _Indices, weights: _Matrix, at: _Indices, /
) -> tuple[_Vector, _Vector, _Vector, _Vector]: ...
def linear_sums_csr(
    starts: NDArray[Any],
    features: NDArray[Any],
    values: NDArray[Any],
    n_features: int,
    centre: _Vector,
    rows: _Indices,
    weights: _Matrix,
    at: _Indices,
    /,
) -> tuple[_Vector, _Vector, _Vector, _Vector]: ...
@overload
def weighted_sums(
    kernel: Kernel,
    support: Samples32,
    queries: Samples32,
    weights: _Matrix,
    group_ends: Sequence[int],
    sums: NDArray[np.float64],
    /,
) -> None: ...
@overload
def weighted_sums(
    kernel: Kernel,
    support: Samples64,
    queries: Samples64,
    weights: _Matrix,
    group_ends: Sequence[int],
    sums: NDArray[np.float64],
    /,
) -> None: ...
def make_l1_solver(
    starts: NDArray[Any],
    samples: NDArray[Any],
    values: NDArray[Any],
    n_samples: int,
    problem: LinearProblem,
    beta: _Vector,
    weights: _Vector,
    /,
) -> LinearSolver: ...
