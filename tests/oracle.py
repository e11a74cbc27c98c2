r"""The oracle of the tests: kernels, primal and dual values, gaps and optima, from the formulas of the textbooks in plain NumPy.

Nothing here calls the library: of a fitted model only public attributes are read, and its kernel is evaluated anew. With
f = K beta and a bias b, in signed duals beta (alpha = y beta for a classifier), the machines are

    SVC           min  |w|^2/2 + sum C_i L(1 - y_i (f_i + b))
                  max  y'beta - |w|^2/2 - price                      s.t.  0 <= alpha_i <= C_i
    SVR           min  |w|^2/2 + sum C_i L(|y_i - f_i - b| - eps)
                  max  y'beta - eps |beta| - |w|^2/2 - price         s.t.  |beta_i| <= C_i
    NuSVC         min  |w|^2/2 - nu S rho + sum s_i max(0, rho - y_i (f_i + b))
                  max  -|w|^2/2                                      s.t.  0 <= alpha_i <= s_i,  |beta| = nu S
    NuSVR         min  |w|^2/2 + nu S eps + sum C_i max(0, |y_i - f_i - b| - eps)
                  max  y'beta - |w|^2/2                              s.t.  |beta_i| <= C_i,  |beta| <= nu S
    OneClassSVM   min  |w|^2/2 - nu S rho + sum s_i max(0, rho - f_i)
                  max  -|w|^2/2                                      s.t.  0 <= beta_i <= s_i,  sum beta = nu S

with |w|^2 = beta' K beta, |beta| = sum |beta_i|, S = sum s_i (NuSVR: sum C_i) and, where there is an intercept, sum beta = 0.
`LOSSES` has the losses L, their boxes and prices; `crammer_singer` and `kernel_ridge` state their own problems.

Three judges, for three purposes:

* this module, float64, judges a model of the library as it stands, with its own bias, at test size;
* `fuzz.oracle`, 80-bit, judges any model that a random problem leads to, with a bound on its own rounding error;
* `benchmarks.truth`, float64 in blocks, judges the dual coefficients of any library at the size of the benchmarks, with the
  best bias.

They share no formula, so that one can be held against another: `test_oracle.py` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ACCURACY = 1e-12  # relative accuracy of `optimal_value`

# --- kernels ----------------------------------------------------------------------------------------------------------


def kernel_matrix(kernel: str, A: Any, B: Any = None, gamma: float | str = 1.0, coef0: float = 0.0, degree: float = 3) -> Matrix:
    """k(a, b) of the rows of A and B (of A and A). Distances are sums of differences, so that they lose no digits."""
    A, B = _dense(A), _dense(A if B is None else B)
    if isinstance(gamma, str):
        gamma = {"scale": 1.0 / (A.shape[1] * A.var()), "auto": 1.0 / A.shape[1]}[gamma]
    match kernel:
        case "linear":
            return A @ B.T
        case "poly":
            return (gamma * (A @ B.T) + coef0) ** degree
        case "rbf":
            return np.exp(-gamma * cdist(A, B, "sqeuclidean"))
        case "laplacian":
            return np.exp(-gamma * cdist(A, B, "cityblock"))
        case "exponential":
            return np.exp(-gamma * cdist(A, B, "euclidean"))
        case "sigmoid":
            return np.tanh(gamma * (A @ B.T) + coef0)
    raise ValueError(kernel)


def kernel_of(model: Any, A: Any, B: Any = None) -> Matrix:
    """The kernel matrix of a fitted model of the library, from its parameters."""
    if model.kernel == "precomputed":
        return _dense(A)
    return kernel_matrix(model.kernel, A, B, model.gamma_, model.coef0, model.degree)


def _dense(X: Any) -> Matrix:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


# --- the values of a machine ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """The values of a machine at one point. `size` is that of the terms of which the values are sums, and `outside` is how far
    the coefficients are outside the constraints of the dual, relative to the bounds: only if it is zero is `dual` a bound."""

    primal: float
    dual: float
    size: float
    outside: float

    @property
    def gap(self) -> float:
        return self.primal - self.dual


class Loss(NamedTuple):
    """The loss of a slack >= 0, the bound of its dual variable, and the price of a dual variable in the dual."""

    value: Callable[[Any, Any], Any]
    bound: Callable[[Any], Any]
    price: Callable[[Any, Any], Any]


CORNER = 0.125  # slack at which the loss "huber" becomes linear: there its slope is C / 4


def _quadratic_price(alpha: Any, C: Any) -> Any:
    return np.divide(alpha**2, 4.0 * C, out=np.zeros(np.broadcast_shapes(alpha.shape, C.shape)), where=C > 0)


LOSSES = {
    "hinge": Loss(lambda slack, C: C * slack, lambda C: C, lambda alpha, C: np.zeros_like(alpha)),
    "squared_hinge": Loss(lambda slack, C: C * slack**2, lambda C: np.where(C > 0, np.inf, 0.0), _quadratic_price),
    "huber": Loss(
        lambda slack, C: C * np.where(slack <= CORNER, slack**2, CORNER * (2.0 * slack - CORNER)),
        lambda C: 2.0 * CORNER * C,
        _quadratic_price,
    ),
}
LOSSES["epsilon_insensitive"], LOSSES["squared_epsilon_insensitive"] = LOSSES["hinge"], LOSSES["squared_hinge"]


def classifier(K: Matrix, signs: Vector, C: Vector, beta: Vector, bias: float | None, loss: str = "hinge") -> Truth:
    """A binary machine; without an intercept `bias` is None. With C = inf the point is scaled until all margins are 1 or more."""
    f, alpha = K @ beta, signs * beta
    norm, margins = float(beta @ f), signs * (f + (bias or 0.0))
    pull = float(alpha.sum())
    if np.isinf(C).any():
        smallest = float(margins[C > 0].min())
        primal = 0.5 * norm / min(1.0, smallest) ** 2 if smallest > 0.0 else np.inf
        return Truth(primal, pull - 0.5 * norm, norm + pull, max(_beyond(alpha, C), _sum_off(beta, bias)))
    value, bound, price = LOSSES[loss]
    lost, paid = float(value(np.maximum(0.0, 1.0 - margins), C).sum()), float(price(alpha, C).sum())
    outside = max(_beyond(alpha, bound(C)), _sum_off(beta, bias))
    return Truth(0.5 * norm + lost, pull - 0.5 * norm - paid, norm + lost + pull + paid, outside)


def regression(
    K: Matrix, y: Vector, C: Vector, epsilon: float, beta: Matrix, bias: float | None, loss: str = "epsilon_insensitive"
) -> Truth:
    """SVR; beta may be given as two rows, its upward and its downward part, which may both be nonzero at a sample."""
    parts, beta = _parts(beta)
    f, sizes = K @ beta, np.abs(parts)
    norm, lost_at = float(beta @ f), np.maximum(0.0, np.abs(y - f - (bias or 0.0)) - epsilon)
    value, bound, price = LOSSES[loss]
    lost, paid = float(value(lost_at, C).sum()), float(price(sizes, C).sum())
    dual = float(y @ beta) - epsilon * float(sizes.sum()) - 0.5 * norm - paid
    outside = max(_beyond(sizes, bound(C)), _sum_off(beta, bias))
    return Truth(0.5 * norm + lost, dual, norm + lost + paid + float(np.abs(y * beta).sum()), outside)


def nu_classifier(
    K: Matrix, signs: Vector, weights: Vector, nu: float, beta: Vector, bias: float, rho: float | None = None
) -> Truth:
    """NuSVC at coefficients that are not divided by rho; without a rho, at the best one."""
    f, total = K @ beta, nu * float(weights.sum())
    margins, norm = signs * (f + bias), float(beta @ f)
    rho = _best(lambda r: weights @ np.maximum(0.0, r - margins) - total * r, margins) if rho is None else rho
    slack = float(weights @ np.maximum(0.0, rho - margins))
    outside = max(_beyond(signs * beta, weights), _sum_off(beta, bias), abs(float(np.abs(beta).sum()) - total) / total)
    return Truth(0.5 * norm - total * rho + slack, -0.5 * norm, norm + total * abs(rho) + slack, outside)


def nu_regression(K: Matrix, y: Vector, C: Vector, nu: float, beta: Matrix, bias: float, epsilon: float | None = None) -> Truth:
    """NuSVR, with the parts of beta as in `regression`; without an epsilon, at the best one."""
    parts, beta = _parts(beta)
    f, total = K @ beta, nu * float(C.sum())
    error, norm = np.abs(y - f - bias), float(beta @ f)
    if epsilon is None:
        epsilon = _best(lambda e: total * e + C @ np.maximum(0.0, error - e), np.append(0.0, error))
    lost = total * epsilon + float(C @ np.maximum(0.0, error - epsilon))
    outside = max(_beyond(np.abs(parts), C), _sum_off(beta, bias), float(np.abs(parts).sum()) / total - 1.0)
    return Truth(0.5 * norm + lost, float(y @ beta) - 0.5 * norm, norm + lost + float(np.abs(y * beta).sum()), outside)


def one_class(K: Matrix, weights: Vector, nu: float, beta: Vector, rho: float) -> Truth:
    """OneClassSVM with the level rho."""
    f, total = K @ beta, nu * float(weights.sum())
    norm, slack = float(beta @ f), float(weights @ np.maximum(0.0, rho - f))
    outside = max(_beyond(beta, weights), abs(float(beta.sum()) - total) / total)
    return Truth(0.5 * norm - total * rho + slack, -0.5 * norm, norm + total * abs(rho) + slack, outside)


def crammer_singer(K: Matrix, own: NDArray[np.bool_], cost: Vector, B: Matrix) -> Truth:
    """The machine of all classes (Crammer and Singer 2001), with a row of B for each class; own[m, i]: sample i is of class m.

    min 1/2 sum_m |w_m|^2 + sum_i C_i max_m ([m != y_i] + f_mi - f_{y_i i})
    max -1/2 sum_m |w_m|^2 - sum_mi [m != y_i] B_mi      s.t.  B_mi <= C_i [m = y_i],  sum_m B_mi = 0
    """
    F = B @ K
    lost = float(cost @ (F + ~own - np.where(own, F, 0.0).sum(axis=0)).max(axis=0))
    norm, others = float((B * F).sum()), float(B[~own].sum())
    largest = float(cost.max())
    outside = max(0.0, float((B - own * cost).max()), float(np.abs(B.sum(axis=0)).max())) / largest
    return Truth(0.5 * norm + lost, -0.5 * norm - others, norm + lost + abs(others), outside)


def kernel_ridge(K: Matrix, y: Vector, weights: Vector, alpha: float, beta: Vector) -> Truth:
    """min 1/2 sum s_i (y_i - f_i)^2 + alpha/2 |w|^2; max alpha (y'beta - |w|^2/2) - alpha^2/2 sum beta_i^2 / s_i."""
    f = K @ beta
    norm, lost = alpha * float(beta @ f), 0.5 * float(weights @ (y - f) ** 2)
    paid = 0.5 * alpha**2 * float((beta**2 / weights).sum())
    return Truth(0.5 * norm + lost, alpha * float(beta @ y) - 0.5 * norm - paid, norm + lost + paid, 0.0)


def _parts(beta: Matrix) -> tuple[Matrix, Vector]:
    """The upward and the downward part of coefficients, and their sum."""
    parts = np.stack([np.maximum(beta, 0.0), np.minimum(beta, 0.0)]) if beta.ndim == 1 else beta
    return parts, parts.sum(axis=0)


def _beyond(alpha: Any, bound: Any) -> float:
    """By how much variables are below zero or above their bounds, relative to the bounds."""
    beyond = np.maximum(0.0, np.maximum(-alpha, alpha - bound))
    inside = np.where(np.isfinite(bound) & (bound > 0), bound, 1.0)
    return float((beyond / inside).max())


def _sum_off(beta: Vector, bias: float | None) -> float:
    """How far the sum of the coefficients is from zero, relative to their sizes; without an intercept it may be anything."""
    size = float(np.abs(beta).sum())
    return abs(float(beta.sum())) / size if bias is not None and size > 0.0 else 0.0


def _best(value: Callable[[float], float], kinks: Any) -> float:
    """Where a convex function is smallest that is linear between these points."""
    return min((float(kink) for kink in kinks), key=value)


# --- the values of a model --------------------------------------------------------------------------------------------


def judge(model: Any, K: Matrix, y: Any = None, weights: Any = None) -> list[Truth]:
    """The truth about each machine of a fitted model, in the order of the parts of its certificate; K is `kernel_of` its data."""
    beta = coefficients(model, len(K))
    s = np.ones(len(K)) if weights is None else np.asarray(weights, dtype=np.float64)
    bias = [float(b) for b in np.atleast_1d(model.intercept_)] if getattr(model, "fit_intercept", True) else [None] * len(beta)
    match type(model).__name__:
        case "SVC":
            return list(_classifiers(model, K, y, s, beta, bias))
        case "NuSVC":
            return list(_nu_classifiers(model, K, y, s, beta, bias))
        case "SVR":
            return [regression(K, y, model.C * s, model.epsilon, beta[0], bias[0], model.loss)]
        case "NuSVR":
            return [nu_regression(K, y, model.C * s, model.nu, beta[0], bias[0], model.epsilon_)]
        case "OneClassSVM":
            (rho,) = model.certificate_.levels  # offset_ is a little lower, so that samples on the plane are inliers
            return [one_class(K, s, model.nu, beta[0], rho)]
    raise ValueError(model)


def _classifiers(model: Any, K: Matrix, y: Any, s: Vector, beta: Matrix, bias: list[float | None]) -> Iterator[Truth]:
    labels = np.searchsorted(model.classes_, y)
    C = np.where(s > 0, np.inf, 0.0) if np.isinf(model.C) else model.C * s * model.class_weight_[labels]
    if model.multi_class == "crammer_singer":
        both = np.vstack([-beta, beta]) / 2.0 if len(beta) == 1 else beta  # of two classes it keeps the difference
        yield crammer_singer(K, labels == np.arange(len(both))[:, None], C, both)
    elif len(model.classes_) == 2:
        yield classifier(K, 2.0 * labels - 1.0, C, beta[0], bias[0], model.loss)
    elif model.multi_class == "ovr":
        for c, row in enumerate(beta):
            yield classifier(K, np.where(labels == c, 1.0, -1.0), C, row, bias[c], model.loss)
    else:
        for m, (inside, signs, row) in enumerate(one_vs_one(labels, beta)):
            yield classifier(K[np.ix_(inside, inside)], signs, C[inside], row, bias[m], model.loss)


def _nu_classifiers(model: Any, K: Matrix, y: Any, s: Vector, beta: Matrix, bias: list[Any]) -> Iterator[Truth]:
    """A NuSVC keeps its solutions divided by rho, or as they are where rho may be zero: their sums tell which."""
    labels = np.searchsorted(model.classes_, y)
    weights = s * model.class_weight_[labels]
    binary = [(np.arange(len(K)), 2.0 * labels - 1.0, beta[0])]
    machines = binary if len(model.classes_) == 2 else one_vs_one(labels, beta)
    for (inside, signs, row), b, rho in zip(machines, bias, np.atleast_1d(model.rho_), strict=True):
        size, total = np.abs(row).sum(), model.nu * weights[inside].sum()
        scale = float(rho) if abs(rho * size - total) < abs(size - total) else 1.0
        part = K[np.ix_(inside, inside)]
        yield nu_classifier(part, signs, weights[inside], model.nu, scale * row, scale * b, float(rho))


def coefficients(model: Any, n: int) -> Matrix:
    """dual_coef_ of all n samples, a row for each of its rows."""
    rows = np.atleast_2d(_dense(model.dual_coef_))
    beta = np.zeros((len(rows), n))
    beta[:, model.support_] = rows
    return beta


def one_vs_one(labels: Any, beta: Matrix) -> Iterator[tuple[NDArray[np.intp], Vector, Vector]]:
    """The samples, signs and coefficients of each pair of classes i < j, of which i is positive, from LIBSVM's layout: a sample
    of class i keeps its coefficient against j in row j - 1, a sample of class j keeps its coefficient against i in row i."""
    for i, j in combinations(range(len(beta) + 1), 2):
        inside = np.flatnonzero((labels == i) | (labels == j))
        signs = np.where(labels == i, 1.0, -1.0)
        yield inside, signs[inside], np.where(labels == i, beta[j - 1], beta[i])[inside]


# --- optima -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quadratic:
    """min 1/2 alpha' Q alpha + p' alpha  s.t.  0 <= alpha <= u, A alpha = b; u may be infinite, A without rows."""

    Q: Matrix
    p: Matrix
    u: float
    A: Matrix
    b: Matrix


def crammer_singer_optimum(K: Matrix, own: NDArray[np.bool_], cost: Vector) -> float:
    """The optimum of `crammer_singer`, from its dual in the shares alpha = U - B >= 0, U_mi = C_i [m = y_i].

    The shares of a sample sum to C_i, and the dual value is sum_{m != y_i} alpha_mi - 1/2 tr((U - alpha) K (U - alpha)').
    """
    part = cost > 0  # the others have no share
    K, own, cost = K[np.ix_(part, part)], own[:, part], cost[part]
    k, (n, U) = len(own), (len(cost), own * cost)
    linear = -(U @ K) - ~own
    shares = Quadratic(np.kron(np.eye(k), K), linear.ravel(), np.inf, np.tile(np.eye(n), k), cost)
    return optimal_value(shares) - 0.5 * float((U * (U @ K)).sum())


def optimal_value(problem: Quadratic) -> float:
    """Minus the smallest value, by Mehrotra's predictor and corrector; a RuntimeError if ACCURACY is not reached."""
    point, n = InteriorPoint(problem), len(problem.p)
    for _ in range(200):
        if point.optimal():
            return point.value()
        gap = point.gap()
        predicted = point.direction(np.zeros(n), np.zeros(n))
        after = point.gap_at(predicted, point.reach(predicted))
        target = gap / n * (after / gap) ** 3
        d_alpha, d_low, d_high, _ = predicted
        corrected = point.direction(target - d_alpha * d_low, target + d_alpha * d_high)
        point.move(corrected, min(1.0, 0.995 * point.reach(corrected)))
    raise RuntimeError(f"gap {point.gap():.1e} of {point.value():.6g}")


Direction = tuple[Matrix, Matrix, Matrix, Matrix]  # of alpha, of its two multipliers, of those of A alpha = b


class InteriorPoint:
    """alpha strictly inside its box, and multipliers: `low` of alpha >= 0, `high` of alpha <= u, nu of A alpha = b."""

    def __init__(self, problem: Quadratic) -> None:
        self.problem = problem
        n, self.boxed = len(problem.p), np.isfinite(problem.u)
        self.alpha = np.full(n, 0.5 * problem.u if self.boxed else 1.0)
        self.low, self.high = np.ones(n), np.full(n, 1.0 if self.boxed else 0.0)
        self.nu = np.zeros(len(problem.b))

    @property
    def room(self) -> Matrix:
        return self.problem.u - self.alpha if self.boxed else np.ones(len(self.alpha))

    @property
    def slope(self) -> Matrix:
        Q, p, A = self.problem.Q, self.problem.p, self.problem.A
        return Q @ self.alpha + p - self.low + self.high + A.T @ self.nu

    @property
    def balance(self) -> Matrix:
        return self.problem.A @ self.alpha - self.problem.b

    def value(self) -> float:
        return float(-self.problem.p @ self.alpha - 0.5 * self.alpha @ self.problem.Q @ self.alpha)

    def gap(self) -> float:
        return float(self.alpha @ self.low + self.room @ self.high)

    def gap_at(self, direction: Direction, t: float) -> float:
        d_alpha, d_low, d_high, _ = direction
        below = float((self.alpha + t * d_alpha) @ (self.low + t * d_low))
        return below + (float((self.room - t * d_alpha) @ (self.high + t * d_high)) if self.boxed else 0.0)

    def optimal(self) -> bool:
        return (
            self.gap() <= ACCURACY * abs(self.value())
            and float(np.abs(self.slope).max()) <= 1e-10
            and float(np.abs(self.balance).max(initial=0.0)) <= 1e-12 * float(self.alpha.sum())
        )

    def direction(self, target_low: Matrix, target_high: Matrix) -> Direction:
        """Newton's direction towards alpha low = target_low, room high = target_high, no slope, no imbalance."""
        alpha, room, low, high, A = self.alpha, self.room, self.low, self.high, self.problem.A
        short_low, short_high = target_low - alpha * low, (target_high - room * high) * self.boxed
        system = self.problem.Q + np.diag(low / alpha + high / room)
        inverse = np.linalg.inv(system)
        step = _solve(system, inverse, -self.slope + short_low / alpha - short_high / room)
        along = _solve(system, inverse, A.T)
        d_nu = np.linalg.solve(A @ along, A @ step + self.balance)
        step = step - along @ d_nu
        return step, (short_low - low * step) / alpha, (short_high + high * step) / room, d_nu

    def reach(self, direction: Direction) -> float:
        """How far one may go, at most 1, until something becomes negative."""
        d_alpha, d_low, d_high, _ = direction
        pairs = [(self.alpha, d_alpha), (self.low, d_low)]
        if self.boxed:
            pairs += [(self.room, -d_alpha), (self.high, d_high)]
        return float(min(1.0, *(np.min(-at[d < 0] / d[d < 0], initial=np.inf) for at, d in pairs)))

    def move(self, direction: Direction, t: float) -> None:
        d_alpha, d_low, d_high, d_nu = direction
        self.alpha, self.low, self.high = self.alpha + t * d_alpha, self.low + t * d_low, self.high + t * d_high
        self.nu += t * d_nu


def _solve(system: Matrix, inverse: Matrix, right: Matrix) -> Matrix:
    """With two rounds of refinement, as the system is ill-conditioned towards the end."""
    x = inverse @ right
    for _ in range(2):
        x = x + inverse @ (right - system @ x)
    return x
