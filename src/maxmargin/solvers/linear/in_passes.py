r"""Solvers of linear machines over rows that are seen in parts, once in each pass: chunks of a file, or partitions on workers.

A pass does a `step` with each part of the rows and its duals, here or on the worker that has the part. The machine gets what the
steps have found (`take`), one after the other or all together, then goes on (`end_pass`), and has `weights` whose certificate the
next pass can compute.

**NewtonInPasses**, for few columns. With the rounded losses of native/include/maxmargin/linear_newton.hpp, around the duals
`anchor` and of a width h, the problem is smooth, and one pass at w gives all of it: its value, its gradient

    g = w - sum_i beta_i x_i,        beta_i = the slope of the rounded loss at r_i = t_i - w . x_i,

and its matrix H = R + sum over the band of x_i x_i' / h_i. So a pass is a step: w - t H^-1 g. The step is kept if the smooth
value falls enough, else the next pass tries a shorter one.

Losses with corners need a new anchor, beta, and a smaller width after each smooth problem, and then g and H are those of
another problem. A pass for them would double the price. So a pass assumes that its w is good enough for the present problem, and
takes g and H of the next one, whose anchor is the beta that this same pass has found row by row; of the present problem it takes
value and gradient only. If w is not good enough (the gradient says so), the step is taken with the old matrix, and the pass
after it assumes nothing.

**DescentInPasses**, for many columns. Coordinate descent over the duals of a chunk with those of the others fixed, in random
order, then the next chunk (block minimisation: Yu, Hsieh, Chang and Lin 2012). The weights are the sum over all chunks, so each
step is one of the descent over the whole set. Rows that are always visited together pull the weights together, and that is slow
to wear off: where the source allows it, a chunk is made of short runs of rows, and of other ones in each pass. A free bias b is
the multiplier of sum_i beta_i = m. The method of multipliers makes it a regularised one: a column of squared length rho, whose
weight is (b + rho (sum_i beta_i - m)) / sqrt(rho), and b moves by rho (sum_i beta_i - m) after each pass.

Parts on different workers start from the same weights, and none knows the steps of the others. Their duals then go that share of
their steps, one share for each part, at which the dual value of the whole is largest: a problem of as many variables as parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from maxmargin.backends.linear import Rows, n_threads
from maxmargin.formulations import BalanceInParts, LinearProblem, LinearTotals, Repair
from maxmargin.rounding import TINY

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

PARTS = 8  # of a chunk, which threads work on; the number is fixed, so that threads change no bit
VALUES_WORTH_THREADS = 1 << 18
VALUES_OF_TILE = 1 << 19  # dense values that are converted to float64 at once
START_WIDTH = 8.0  # in units of the distance of the start from the solution
WIDTH_FACTOR = 0.6  # by which the width shrinks with each anchor
SMOOTH_SHARE = 1.5  # share of the gap that may be left to the smooth problem when its anchor is moved
LEAST_WIDTH = 1e-9  # relative to the first
SUFFICIENT_DECREASE = 1e-4  # of the value of the smooth problem, relative to that of a straight line (Armijo)
ROUNDING_OF_VALUE = 1e-12  # relative
SHORTEST, LONGEST = 0.1, 0.7  # bounds on the factor by which a step is shortened
EPOCHS_OF_CHUNK = 1  # of coordinate descent
SHARE_OF_CROWD = 0.5  # of the parts that take steps side by side, in the weight of a row
ROUNDS_OF_SHARES = 100  # of coordinate ascent over the shares of the parts in a step
PENALTY = 0.1  # of duals that are not balanced, relative to the mean of |x_i|^2
NEVER = 1e30  # seconds: no deadline


class MachineInPasses(ABC):
    """A machine on its way through passes over the rows. It has no part of the rows, nor of the duals: those of a part of the
    rows are the first row of a matrix that the `step` of a pass gets, and returns with new values. What a step finds is
    additive, and `take` gets the sum over all parts, or over each part at a time."""

    #: The arrays and numbers that a checkpoint has to hold.
    kept: ClassVar[tuple[str, ...]]
    #: Whether the order of the rows should be another one in each pass, where the source allows it.
    shuffles: ClassVar[bool] = False

    def __init__(self, whole: LinearTotals, n_features: int) -> None:
        self.whole = whole
        self.n_features = n_features
        self.has_bias = whole.bias != "none"
        #: The weights (features, then bias if there is one) of the last whole pass, and the relative gap that they claim.
        self.weights = np.zeros(n_features + self.has_bias)
        self.claimed = math.inf
        self.repair = Repair()
        #: How many numbers are kept of each sample between passes: its dual, and what else the step needs.
        self.n_kept = 1
        #: How many parts take their steps from the same point.
        self.n_parts = 1

    @property
    @abstractmethod
    def step(self) -> NewtonStep | DescentStep:
        """What to do next with a part of the rows."""

    @abstractmethod
    def take(self, found: NewtonSums | Changes) -> Vector | None:
        """Take what steps have found in some parts of the rows. The duals of each part go that share of their step that is
        returned; None: all of it."""

    @abstractmethod
    def end_pass(self, balance: BalanceInParts | None) -> None:
        """Go on to the next point, after all parts, whose duals have this balance; it is None if the bias is not free."""

    def _balanced(self, balance: BalanceInParts | None) -> float:
        """Note the repair of the duals; return by how much their sum is off."""
        if balance is None:
            return 0.0
        self.repair = balance.repair(self.whole.total)
        return balance.excess(self.whole.total)

    def state(self) -> dict[str, Any]:
        return {"repair": np.array(self.repair), **{name: getattr(self, name) for name in self.kept}}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name in self.kept:
            value = state[name]
            setattr(self, name, value if np.ndim(value) else value.item())
        down, kind, share = state["repair"]
        self.repair = Repair(bool(down), int(kind), float(share))


class NewtonSums(NamedTuple):
    """What a pass takes from some rows: sums of the problem's values, of beta_i x_i for both betas, and the matrix."""

    value: float  # of the rounded losses
    next_value: float
    gaps: float
    duals: float
    products: Matrix
    matrix: Matrix

    def plus(self, other: NewtonSums) -> NewtonSums:
        pairs: Any = zip(self, other, strict=True)
        return NewtonSums(*(a + b for a, b in pairs))


@dataclass(frozen=True)
class NewtonStep:
    """The sums of the smooth problem at `point`. Of a loss with corners the second row of the kept numbers is the anchor:
    `cold`, there is none yet; `moved`, it is the duals of the pass before."""

    whole: LinearTotals
    point: Vector
    width: float
    next_width: float
    assumes: bool
    cold: bool
    moved: bool

    def __call__(self, X: Any, problem: LinearProblem, kept: Matrix) -> tuple[NewtonSums, Matrix]:
        after = np.empty_like(kept)
        if not self.whole.squared:  # cold: in the middle of a one-sided box
            middle = 0.0 if problem.two_sided else 0.5 * problem.reach
            after[1] = middle if self.cold else kept[0] if self.moved else kept[1]
        edges = [len(problem) * p // PARTS for p in range(PARTS + 1)]
        parts = [slice(a, b) for a, b in pairwise(edges) if a < b]
        threads = n_threads() if (X.nnz if sp.issparse(X) else X.size) >= VALUES_WORTH_THREADS else 1
        with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
            each = map if pool is None else pool.map
            sums = each(lambda own: self._take(X[own], problem.part(own), after[:, own]), parts)
            return reduce(NewtonSums.plus, sums), after

    def _take(self, X: Any, problem: LinearProblem, kept: Matrix) -> NewtonSums:
        """The sums over some rows, tile by tile; their duals are written to the first row of `kept`."""
        n, d = X.shape
        height = n if sp.issparse(X) else max(1, VALUES_OF_TILE // max(d, 1))
        tiles = [slice(start, min(start + height, n)) for start in range(0, n, height)]
        return reduce(NewtonSums.plus, (self._take_tile(X[own], problem.part(own), kept[:, own]) for own in tiles))

    def _take_tile(self, X: Any, problem: LinearProblem, kept: Matrix) -> NewtonSums:
        whole = self.whole
        Z = _with_bias_column(X, whole.constant if whole.bias != "none" else None)
        residuals = problem.targets - Z @ self.point
        cost = np.abs(problem.reach)
        curvature = cost * (2.0 if whole.squared else 1.0 / self.width)
        beta, value = _rounded_losses(problem, None if whole.squared else kept[1], curvature, residuals)
        kept[0] = beta
        tube = problem.epsilon * np.abs(beta)
        square = 0.0 if not whole.squared else 0.5 * np.divide(beta**2, curvature, out=np.zeros_like(beta), where=cost > 0)
        gaps = 0.0 if whole.squared else float((problem.losses(residuals) + tube - beta * residuals).sum())
        duals = float((problem.targets * beta - tube - square).sum())
        next_beta, next_value = beta, value
        if self.assumes:
            curvature = cost * (1.0 / self.next_width)
            next_beta, next_value = _rounded_losses(problem, beta, curvature, residuals)
        lower, upper = problem.box
        band = np.flatnonzero((next_beta != 0.0) & (lower < next_beta) & (next_beta < upper))
        B = _scaled_rows(Z, band, np.sqrt(curvature[band]))
        matrix = B.T @ B
        products = np.asarray(Z.T @ np.stack([beta, next_beta], axis=1))
        matrix = matrix.toarray() if sp.issparse(matrix) else matrix
        return NewtonSums(float(value.sum()), float(next_value.sum()), gaps, duals, products, matrix)


class NewtonInPasses(MachineInPasses):
    kept = ("weights", "width", "point", "base", "way", "slope", "length", "value", "matrix", "assumes", "moved")

    def __init__(self, whole: LinearTotals, n_features: int, start: Vector | None = None, spread: float = 1.0) -> None:
        """`start` are weights to begin with, and `spread` is their distance from the solution, relative to the first width."""
        super().__init__(whole, n_features)
        n_weights = len(self.weights)
        self.n_kept = 1 if whole.squared else 2
        self.width = whole.scale * min(1.0, START_WIDTH * spread)
        #: The point of the next pass, and how it was reached: base + length * way, from where value and slope were these.
        self.point = np.zeros(n_weights) if start is None else start.copy()
        self.base, self.way = self.point.copy(), np.zeros(n_weights)
        self.value, self.slope, self.length = math.inf, 0.0, 1.0
        self.matrix = np.zeros((n_weights, n_weights))
        self.assumes = False  # whether the next pass takes the matrix of the next anchor
        self.moved = False  # whether the duals of the last pass are the anchor of the next one
        self._sum: NewtonSums | None = None
        self._cold = True

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._cold = False

    @property
    def step(self) -> NewtonStep:
        return NewtonStep(self.whole, self.point, self.width, self._next_width(), self.assumes, self._cold, self.moved)

    def take(self, found: NewtonSums | Changes) -> None:
        assert isinstance(found, NewtonSums)
        self._sum = found if self._sum is None else self._sum.plus(found)

    def _next_width(self) -> float:
        return max(self.width * WIDTH_FACTOR, LEAST_WIDTH * self.whole.scale)

    def end_pass(self, balance: BalanceInParts | None) -> None:
        whole, sums = self.whole, self._sum
        assert sums is not None
        self._sum, self._cold, self.moved = None, False, False
        excess = abs(self._balanced(balance))
        ridge = np.ones(len(self.point))
        if self.has_bias:
            ridge[-1] = float(whole.bias == "regularised")
        linear = np.zeros(len(self.point))
        if self.has_bias:
            linear[-1] = whole.total * whole.constant
        gradients = (ridge * self.point + linear)[:, None] - sums.products
        fixed = 0.5 * float(ridge @ self.point**2) + float(linear @ self.point)
        offset = whole.constant * self.point[-1] if self.has_bias else 0.0
        scale = whole.cost * (2.0 if whole.squared else 1.0 / self.width)
        smooth = 0.5 * float(ridge @ gradients[:, 0] ** 2) + excess * (abs(offset) + 0.5 * excess / max(scale, TINY))
        dual = sums.duals - 0.5 * float(ridge @ sums.products[:, 0] ** 2)
        gap = smooth + sums.gaps
        self.weights = self.point.copy()
        self.claimed = gap / max(abs(dual), abs(dual + gap), TINY)
        value, next_value = sums.value + fixed, sums.next_value + fixed
        if value > self.value + SUFFICIENT_DECREASE * self.length * self.slope + ROUNDING_OF_VALUE * abs(self.value):
            self._shorten(float(gradients[:, 0] @ self.way))
            return
        self.moved = self.assumes and smooth <= SMOOTH_SHARE * sums.gaps
        if self.moved:
            self.width = self._next_width()
        if self.moved or not self.assumes:
            self.matrix = sums.matrix
        gradient = gradients[:, 1 if self.moved else 0]
        self.value = next_value if self.moved else value
        self.assumes = not whole.squared and (self.moved or not self.assumes)
        self.base, self.length = self.point, 1.0
        self.way = self._solve(gradient, ridge)
        self.slope = float(gradient @ self.way)
        self.point = self.base + self.way

    def _solve(self, gradient: Vector, ridge: Vector) -> Vector:
        """The step -(matrix + ridge)^-1 gradient; a free bias of which no dual bends takes a step as long as if all did."""
        matrix = self.matrix + np.diag(ridge)
        if self.has_bias:
            bends = self.matrix[-1, -1] > 0.0
            scale = 2.0 if self.whole.squared else 1.0 / self.width
            matrix[-1, -1] += (1e-12 if bends else 1.0) * self.whole.cost * self.whole.constant**2 * scale
        try:
            return np.asarray(-cho_solve(cho_factor(matrix), gradient))
        except LinAlgError:  # rounding has made a direction of hardly any curvature negative
            return np.asarray(-np.linalg.lstsq(matrix, gradient, rcond=1e-14)[0])

    def _shorten(self, slope: float) -> None:
        """Try a shorter step from the same base: to where the slope, known at both ends, would vanish if it were linear."""
        best = self.slope / (self.slope - slope) if slope > 0.0 else LONGEST
        self.length *= min(max(best, SHORTEST), LONGEST)
        self.point = self.base + self.length * self.way
        self.assumes = False


class Change(NamedTuple):
    """The step of the duals of a part: the change of the weights; and how its own terms of the dual value grow with the share s
    of the step that is taken, gain s - 1/2 bend s^2."""

    way: Vector
    gain: float
    bend: float


class Changes(list[Change]):
    """The steps of some parts, in their order."""

    def plus(self, other: Changes) -> Changes:
        return Changes([*self, *other])


@dataclass(frozen=True)
class DescentStep:
    """Coordinate descent over the duals of some rows, from the weights `point`, in a random order. Steps of other parts will be
    added; the rows count `crowd` times in the square of the weights, so that the sum of all does not go far too far."""

    point: Vector
    bias: str
    constant: float
    seed: int
    crowd: float

    def __call__(self, X: Any, problem: LinearProblem, kept: Matrix) -> tuple[Changes, Matrix]:
        turn = np.random.default_rng(self.seed).permutation(len(problem))
        root = math.sqrt(self.crowd)
        block = replace(problem.part(turn), bias=self.bias, constant=root * self.constant)
        own, point, rows = kept[0, turn], self.point / root, X[turn] if root == 1.0 else X[turn] * X.dtype.type(root)
        Rows(rows).solver("block-descent", block, own, point).advance(0.0, EPOCHS_OF_CHUNK, NEVER)
        after = np.empty_like(kept)
        after[0, turn] = own
        change = (point - self.point / root) / root
        return Changes([Change(change, *_growth(problem, kept[0], after[0]))]), after


class DescentInPasses(MachineInPasses):
    shuffles = True
    kept = ("weights", "point", "multiplier", "visits")

    def __init__(self, whole: LinearTotals, n_features: int) -> None:
        super().__init__(whole, n_features)
        self.point = self.weights.copy()
        self.multiplier = 0.0
        self.visits = 0  # each has a random order of its own, also after a restart
        least = whole.scale / max(whole.cost, TINY)  # moves the bias by the size of a target if all duals are at their ends
        self._penalty = max(PENALTY * whole.mean_square, least) or 1.0
        self._bias, self._constant = whole.bias, whole.constant
        if whole.bias == "free":
            self._bias, self._constant = "regularised", math.sqrt(self._penalty)
            self.point[-1] = -whole.total * self._constant  # (b + rho (0 - m)) / sqrt(rho)

    @property
    def step(self) -> DescentStep:
        return DescentStep(self.point, self._bias, self._constant, self.visits, max(1.0, SHARE_OF_CROWD * self.n_parts))

    def take(self, found: NewtonSums | Changes) -> Vector | None:
        """Parts whose steps were taken from the same point go that share of them at which the dual value of all is largest."""
        assert isinstance(found, Changes)
        self.visits += 1
        if len(found) == 1:
            self.point = self.point + found[0].way
            return None
        ways = np.array([one.way for one in found])
        shares = _best_shares(
            ways @ ways.T + np.diag([one.bend for one in found]), [one.gain for one in found] - ways @ self.point
        )
        self.point = self.point + shares @ ways
        return shares

    def end_pass(self, balance: BalanceInParts | None) -> None:
        excess = self._balanced(balance)
        if self.whole.bias != "free":
            self.weights = self.point.copy()
            return
        self.multiplier += self._penalty * excess
        self.point[-1] = (self.multiplier + self._penalty * excess) / self._constant
        self.weights = np.append(self.point[:-1], self.multiplier / self.whole.constant)


def _growth(problem: LinearProblem, before: Vector, after: Vector) -> tuple[float, float]:
    """`gain` and `bend` of a step of the duals. |beta| is convex, so the value is at least the one that they give, and the same
    at both ends."""
    change = after - before
    gain = float(problem.targets @ change - problem.epsilon * (np.abs(after) - np.abs(before)).sum())
    if not problem.squared:
        return gain, 0.0
    scaled = np.divide(change, 2.0 * np.abs(problem.reach), out=np.zeros_like(change), where=problem.reach != 0.0)
    return gain - float(before @ scaled), float(change @ scaled)


def _best_shares(matrix: Matrix, linear: Vector) -> Vector:
    """The shares in [0, 1] that maximise linear . s - 1/2 s . matrix s, by coordinate ascent."""
    shares = np.zeros(len(linear))
    for _ in range(ROUNDS_OF_SHARES):
        for k in np.flatnonzero(np.diag(matrix) > 0.0):
            shares[k] = np.clip(shares[k] + (linear[k] - matrix[k] @ shares) / matrix[k, k], 0.0, 1.0)
    return shares


def _rounded_losses(problem: LinearProblem, anchor: Vector | None, curvature: Vector, residuals: Vector) -> tuple[Vector, Vector]:
    """The slopes and the values of max over the box of  beta r - eps |beta| - (beta - anchor)^2 / (2 curvature)."""
    lower, upper = problem.box
    pull = curvature * residuals
    if anchor is not None:
        pull += anchor
    if problem.epsilon > 0.0:
        tube = curvature * problem.epsilon
        pull -= np.clip(pull, -tube, tube)
    beta = np.clip(pull, lower, upper)
    off = beta if anchor is None else beta - anchor
    square = np.divide(off * off, curvature, out=np.zeros_like(beta), where=curvature > 0.0)
    return beta, beta * residuals - problem.epsilon * np.abs(beta) - 0.5 * square


def _with_bias_column(X: Any, constant: float | None) -> Any:
    """The rows in float64, with a last column of `constant` if there is one."""
    if sp.issparse(X):
        wide = sp.csr_array((X.data.astype(np.float64), X.indices, X.indptr), shape=X.shape)
        return wide if constant is None else sp.hstack([wide, np.full((X.shape[0], 1), constant)], format="csr")
    Z = np.empty((X.shape[0], X.shape[1] + (constant is not None)))
    Z[:, : X.shape[1]] = X
    if constant is not None:
        Z[:, -1] = constant
    return Z


def _scaled_rows(Z: Any, chosen: NDArray[np.intp], factors: Vector) -> Any:
    if sp.issparse(Z):
        return sp.diags_array(factors) @ Z[chosen]
    return Z[chosen] * factors[:, None]
