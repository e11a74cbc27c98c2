"""Write solutions.json: optimal values of small machines, by a method that shares nothing with the library.

    python -m tests.data.make_solutions

The duals in their textbook form,

    min  1/2 alpha' Q alpha + p' alpha   s.t.  0 <= alpha <= u,  A alpha = b,      Q_ij = s_i s_j k(x_i, x_j)

    machine           variables     signs s   p              u          A alpha = b
    SVC               n             y         -1             C          y' alpha = 0
    SVR               2n            +1, -1    epsilon - s y  C          s' alpha = 0
    NuSVC             n             y         0              1          sum of each class = nu n / 2
    NuSVR             2n            +1, -1    - s y          C          sum of each half = C nu n / 2
    OneClassSVM       n             1         0              1          sum = nu n

(with 1 / 2C on the diagonal of Q and no u for a squared loss, no u for a hard margin, and no A without an intercept) are
solved by the primal-dual interior-point method of `tests.oracle`, whose own duality gap says how good the value is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from tests.oracle import Quadratic, kernel_matrix, optimal_value

FILE = Path(__file__).with_name("solutions.json")
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


def _diabetes(n: int) -> tuple[Matrix, Matrix]:
    X, y = load_diabetes(return_X_y=True)
    return _standardised(X[:n]), _standardised(y[:n])


def _waves(n: int, d: int, seed: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.3 * rng.normal(size=n)


DATA: dict[str, Callable[[], tuple[Matrix, Matrix]]] = {
    "iris, two that overlap": lambda: _two_classes(load_iris(), 1, 2, 100),
    "iris, two that do not": lambda: _two_classes(load_iris(), 0, 1, 100),
    "iris, as it is": lambda: (load_iris().data[:100], np.ones(100)),
    "wine": lambda: _two_classes(load_wine(), 0, 1, 130),
    "breast cancer": lambda: _two_classes(load_breast_cancer(), 0, 1, 140),
    "clouds": lambda: _clouds(90, 2, 0.8, seed=1),
    "wide clouds": lambda: _clouds(40, 120, 0.5, seed=2),
    "many clouds": lambda: _clouds(2600, 4, 1.2, seed=3),
    "rings": lambda: _rings(80, seed=4),
    "diabetes": lambda: _diabetes(120),
    "waves": lambda: _waves(90, 2, seed=5),
    "wide waves": lambda: _waves(40, 120, seed=6),
    "many waves": lambda: _waves(1300, 4, seed=7),
}

# --- machines ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """A machine on one of the data sets; C is None for a hard margin."""

    data: str
    kernel: str
    loss: str | None = "hinge"
    C: float | None = 1.0
    parameters: dict[str, float] = field(default_factory=dict)
    fit_intercept: bool = True
    estimator: str = "SVC"
    epsilon: float | None = None
    nu: float | None = None
    objective: float | None = None

    def kernel_matrix(self) -> Matrix:
        return kernel_matrix(self.kernel, DATA[self.data]()[0], **self.parameters)

    def quadratic(self) -> Quadratic:
        """The dual problem; its value is minus that of `objective`."""
        K, y = self.kernel_matrix(), DATA[self.data]()[1]
        n, one = len(y), np.ones(len(y))
        match self.estimator:
            case "SVC":
                signs, p, u, A, total = y, -one, self.C, y[None], 0.0
            case "SVR":
                signs = np.concatenate([one, -one])
                p, u, A, total = self.epsilon - signs * np.tile(y, 2), self.C, signs[None], 0.0
            case "NuSVC":
                signs, p, u, A, total = y, 0.0 * y, 1.0, np.stack([y > 0, y < 0]), self.nu * n / 2
            case "NuSVR":
                signs, u, total = np.concatenate([one, -one]), self.C, self.C * self.nu * n / 2
                p, A = -signs * np.tile(y, 2), np.stack([signs > 0, signs < 0])
            case "OneClassSVM":
                signs, p, u, A, total = one, 0.0 * one, 1.0, one[None], self.nu * n
        Q = signs[:, None] * (np.tile(K, (2, 2)) if len(signs) > n else K) * signs
        if self.loss is not None and self.loss.startswith("squared") and self.C is not None:
            Q, u = Q + np.eye(len(Q)) / (2.0 * self.C), np.inf
        A = A.astype(float)[: len(A) * self.fit_intercept]
        return Quadratic(Q, p, np.inf if u is None else u, A, np.full(len(A), total))


KERNELS: list[tuple[str, dict[str, float], tuple[str, str], tuple[str, str]]] = [  # parameters; classes; targets
    ("linear", {}, ("clouds", "iris, two that overlap"), ("waves", "diabetes")),
    ("poly", {"gamma": 0.5, "coef0": 1.0, "degree": 3}, ("wine", "clouds"), ("waves", "waves")),
    ("poly", {"gamma": 0.5, "degree": 2}, ("iris, two that overlap", "breast cancer"), ("waves", "diabetes")),
    ("rbf", {"gamma": 0.4}, ("clouds", "breast cancer"), ("waves", "diabetes")),
    ("laplacian", {"gamma": 0.2}, ("wine", "clouds"), ("diabetes", "waves")),
    ("exponential", {"gamma": 0.3}, ("iris, two that overlap", "breast cancer"), ("waves", "diabetes")),
    # definite here: more features than samples
    ("sigmoid", {"gamma": 0.004}, ("wide clouds", "wide clouds"), ("wide waves", "wide waves")),
]


def machines() -> Iterator[Machine]:
    yield from classifiers()
    for kernel, parameters, classes, targets in KERNELS:
        yield from regressions(kernel, parameters, targets)
        yield from nu_machines(kernel, parameters, classes, targets)
    rbf = {"gamma": 0.25}
    for C in (1.0, 100.0):
        yield Machine("many waves", "rbf", "epsilon_insensitive", C, rbf, estimator="SVR", epsilon=0.1)
    yield Machine("many waves", "rbf", "squared_epsilon_insensitive", 1.0, rbf, estimator="SVR", epsilon=0.1)
    yield Machine("many waves", "rbf", None, 10.0, rbf, estimator="NuSVR", nu=0.4)
    yield Machine("many clouds", "rbf", None, None, rbf, estimator="NuSVC", nu=0.2)
    yield Machine("many clouds", "rbf", None, None, rbf, estimator="OneClassSVM", nu=0.1)


def classifiers() -> Iterator[Machine]:
    for kernel, parameters, data, _ in KERNELS:
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


def regressions(kernel: str, parameters: dict[str, float], data: tuple[str, str]) -> Iterator[Machine]:
    for loss in ("epsilon_insensitive", "squared_epsilon_insensitive"):
        for C, epsilon, name in zip((0.3, 20.0), (0.1, 0.5), data, strict=True):
            yield Machine(name, kernel, loss, C, parameters, estimator="SVR", epsilon=epsilon)
        yield Machine(data[0], kernel, loss, 2.0, parameters, fit_intercept=False, estimator="SVR", epsilon=0.0)


def nu_machines(
    kernel: str, parameters: dict[str, float], classes: tuple[str, str], targets: tuple[str, str]
) -> Iterator[Machine]:
    for nu, C, name in zip((0.2, 0.7), (20.0, 0.3), targets, strict=True):
        yield Machine(name, kernel, None, C, parameters, estimator="NuSVR", nu=nu)
    for nu, name in zip((0.65, 0.4), classes, strict=True):
        yield Machine(name, kernel, None, None, parameters, estimator="NuSVC", nu=nu)
    for nu, name in zip((0.5, 0.07), ("iris, as it is",) * 2 if kernel == "linear" else classes, strict=True):
        yield Machine(name, kernel, None, None, parameters, estimator="OneClassSVM", nu=nu)


def main() -> None:
    solved = []
    for machine in machines():
        lowest = np.linalg.eigvalsh(machine.kernel_matrix())[0]
        if lowest < -1e-9:
            raise RuntimeError(f"{machine}: indefinite, lowest eigenvalue {lowest:.1e}")
        solved.append(asdict(replace(machine, objective=optimal_value(machine.quadratic()))))
        print(solved[-1])
    FILE.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in solved) + "\n]\n")


if __name__ == "__main__":
    main()
