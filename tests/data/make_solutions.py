"""Write solutions.json: optimal values of small machines, by a method that shares nothing with the library.

    python tests/data/make_solutions.py

The dual in its textbook form,

    min  1/2 alpha' Q alpha - sum(alpha)   s.t.  0 <= alpha <= C (or >= 0),  y' alpha = 0 (or no such constraint)

with Q_ij = y_i y_j k(x_i, x_j) (+ 1 / 2C on the diagonal for the quadratic loss), is solved by a primal-dual
interior-point method, whose own duality gap says how good the value is. Distances are sums of squared differences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

FILE = Path(__file__).with_name("solutions.json")
ACCURACY = 1e-12  # of the stored values, relative
Matrix = NDArray[np.float64]

# --- data -------------------------------------------------------------------------------------------------------------


def _standardised(X: Matrix) -> Matrix:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _two_classes(bunch, first: int, second: int, at_most: int) -> tuple[Matrix, Matrix]:
    chosen = np.flatnonzero(np.isin(bunch.target, (first, second)))[:at_most]
    return _standardised(bunch.data[chosen]), np.where(bunch.target[chosen] == first, 1.0, -1.0)


def _clouds(n: int, d: int, distance: float, seed: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    return rng.normal(size=(n, d)) + distance * y[:, None] / np.sqrt(d), y


def _rings(n: int, seed: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(y > 0, 1.0, 2.0) + 0.1 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


DATA: dict[str, Callable[[], tuple[Matrix, Matrix]]] = {
    "iris, two that overlap": lambda: _two_classes(load_iris(), 1, 2, 100),
    "iris, two that do not": lambda: _two_classes(load_iris(), 0, 1, 100),
    "wine": lambda: _two_classes(load_wine(), 0, 1, 130),
    "breast cancer": lambda: _two_classes(load_breast_cancer(), 0, 1, 140),
    "clouds": lambda: _clouds(90, 2, 0.8, seed=1),
    "wide clouds": lambda: _clouds(40, 120, 0.5, seed=2),
    "many clouds": lambda: _clouds(2600, 4, 1.2, seed=3),
    "rings": lambda: _rings(80, seed=4),
}

# --- kernels ----------------------------------------------------------------------------------------------------------


def kernel_value(
    kernel: str, x: Matrix, z: Matrix, gamma: float = 1.0, coef0: float = 0.0, degree: float = 3
) -> Matrix:
    """k(x, z); the last axis is that of the features."""
    match kernel:
        case "linear":
            return (x * z).sum(axis=-1)
        case "poly":
            return (gamma * (x * z).sum(axis=-1) + coef0) ** degree
        case "rbf":
            return np.exp(-gamma * ((x - z) ** 2).sum(axis=-1))
        case "laplacian":
            return np.exp(-gamma * np.abs(x - z).sum(axis=-1))
        case "exponential":
            return np.exp(-gamma * np.sqrt(((x - z) ** 2).sum(axis=-1)))
        case "sigmoid":
            return np.tanh(gamma * (x * z).sum(axis=-1) + coef0)
    raise ValueError(kernel)


def kernel_matrix(kernel: str, X: Matrix, **parameters: float) -> Matrix:
    return np.stack([kernel_value(kernel, x, X, **parameters) for x in X])


# --- machines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """A machine on one of the data sets; C is None for a hard margin."""

    data: str
    kernel: str
    loss: str = "hinge"
    C: float | None = 1.0
    parameters: dict[str, float] = field(default_factory=dict)
    fit_intercept: bool = True
    objective: float | None = None

    def quadratic(self) -> tuple[Matrix, Matrix]:
        """The kernel matrix, with what the loss adds to its diagonal, and the labels."""
        X, y = DATA[self.data]()
        K = kernel_matrix(self.kernel, X, **self.parameters)
        if self.loss == "squared_hinge" and self.C is not None:
            K = K + np.eye(len(y)) / (2.0 * self.C)
        return K, y


def machines() -> Iterator[Machine]:
    kernels: list[tuple[str, dict[str, float], tuple[str, str]]] = [
        ("linear", {}, ("clouds", "iris, two that overlap")),
        ("poly", {"gamma": 0.5, "coef0": 1.0, "degree": 3}, ("wine", "clouds")),
        ("poly", {"gamma": 0.5, "degree": 2}, ("iris, two that overlap", "breast cancer")),
        ("rbf", {"gamma": 0.4}, ("clouds", "breast cancer")),
        ("laplacian", {"gamma": 0.2}, ("wine", "clouds")),
        ("exponential", {"gamma": 0.3}, ("iris, two that overlap", "breast cancer")),
        ("sigmoid", {"gamma": 0.004}, ("wide clouds", "wide clouds")),  # definite here: more features than samples
    ]
    for kernel, parameters, data in kernels:
        for loss in ("hinge", "squared_hinge"):
            for C, name in zip((0.3, 50.0), data, strict=True):
                yield Machine(name, kernel, loss, C, parameters)
            yield Machine(data[0], kernel, loss, 2.0, parameters, fit_intercept=False)
    square = {"gamma": 1.0, "coef0": 1.0, "degree": 2}
    for fit_intercept in (True, False):
        yield Machine("iris, two that do not", "linear", C=None, fit_intercept=fit_intercept)
        yield Machine("rings", "rbf", C=None, parameters={"gamma": 1.0}, fit_intercept=fit_intercept)
        yield Machine("rings", "poly", C=None, parameters=square, fit_intercept=fit_intercept)
    for C in (1.0, 100.0):
        yield Machine("many clouds", "rbf", C=C, parameters={"gamma": 0.25})
    yield Machine("many clouds", "rbf", "squared_hinge", 1.0, {"gamma": 0.25})


# --- the method -------------------------------------------------------------------------------------------------------


def optimal_value(K: Matrix, y: Matrix, upper: float, coupled: bool) -> float:
    """The largest dual value, by Mehrotra's predictor and corrector; a RuntimeError if ACCURACY is not reached."""
    point = InteriorPoint(y[:, None] * K * y, y, upper, coupled)
    for _ in range(200):
        if point.optimal():
            return point.value()
        gap = point.gap()
        predicted = point.direction(np.zeros(len(y)), np.zeros(len(y)))
        after = point.gap_at(predicted, point.reach(predicted))
        target = gap / len(y) * (after / gap) ** 3
        d_alpha, d_low, d_high, _ = predicted
        corrected = point.direction(target - d_alpha * d_low, target + d_alpha * d_high)
        point.move(corrected, min(1.0, 0.995 * point.reach(corrected)))
    raise RuntimeError(f"gap {point.gap():.1e} of {point.value():.6g}")


Direction = tuple[Matrix, Matrix, Matrix, float]  # of alpha, of its two multipliers, of nu


class InteriorPoint:
    """alpha strictly inside its box, and multipliers: `low` of alpha >= 0, `high` of alpha <= C, nu of y' alpha = 0."""

    def __init__(self, Q: Matrix, y: Matrix, upper: float, coupled: bool) -> None:
        self.Q, self.y, self.upper, self.coupled = Q, y, upper, coupled
        n, self.boxed = len(y), np.isfinite(upper)
        self.alpha = np.full(n, 0.5 * upper if self.boxed else 1.0)
        self.low, self.high = np.ones(n), np.full(n, 1.0 if self.boxed else 0.0)
        self.nu = 0.0

    @property
    def room(self) -> Matrix:
        return self.upper - self.alpha if self.boxed else np.ones(len(self.alpha))

    @property
    def slope(self) -> Matrix:
        return self.Q @ self.alpha - 1.0 - self.low + self.high + self.nu * self.y * self.coupled

    @property
    def balance(self) -> float:
        return float(self.y @ self.alpha) if self.coupled else 0.0

    def value(self) -> float:
        return float(self.alpha.sum() - 0.5 * self.alpha @ self.Q @ self.alpha)

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
            and abs(self.balance) <= 1e-12 * float(self.alpha.sum())
        )

    def direction(self, target_low: Matrix, target_high: Matrix) -> Direction:
        """Newton's direction towards alpha low = target_low, room high = target_high, no slope, no imbalance."""
        alpha, room, low, high = self.alpha, self.room, self.low, self.high
        short_low, short_high = target_low - alpha * low, (target_high - room * high) * self.boxed
        system = self.Q + np.diag(low / alpha + high / room)
        inverse = np.linalg.inv(system)
        step, d_nu = _solve(system, inverse, -self.slope + short_low / alpha - short_high / room), 0.0
        if self.coupled:
            along = _solve(system, inverse, self.y)
            d_nu = float((self.y @ step + self.balance) / (self.y @ along))
            step = step - d_nu * along
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


def main() -> None:
    solved = []
    for machine in machines():
        K, y = machine.quadratic()
        lowest = np.linalg.eigvalsh(K)[0]
        if lowest < -1e-9:
            raise RuntimeError(f"{machine}: indefinite, lowest eigenvalue {lowest:.1e}")
        bound = machine.C if machine.C is not None and machine.loss == "hinge" else np.inf
        solved.append(asdict(machine) | {"objective": optimal_value(K, y, bound, machine.fit_intercept)})
        print(solved[-1])
    FILE.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in solved) + "\n]\n")


if __name__ == "__main__":
    main()
