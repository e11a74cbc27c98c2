"""KernelRegressor against scikit-learn's KernelRidge: ``python -m benchmarks.kernel_regression``.

Both have the same data, kernel, alpha and threads, and run in turns in one process. The times of `fit` are wall-clock time and
processor time, the best of the repeats. (With one thread other work on the machine hardly disturbs the latter.) Each model is
judged by its residual of the normal equations, (K + alpha I) beta - y, in float64. KernelRidge works in the precision of its
data; KernelRegressor always answers in float64.
"""

import argparse
import time
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from threadpoolctl import threadpool_limits

from maxmargin.estimators.kernel_regression import KernelRegressor


def main() -> None:
    options = parse()
    print(f"{options.samples} samples, {options.features} features, rbf; {options.threads} threads; best of {options.repeats}")
    print(f"{'alpha':>8}  {'data':<8}  {'estimator':<16}  {'seconds':>8}  {'cpu':>8}  {'residual':>9}")
    with threadpool_limits(options.threads):
        for alpha in options.alpha:
            for dtype in ("float64", "float32"):
                for name, (seconds, cpu, left) in race(alpha, dtype, options).items():
                    print(f"{alpha:>8g}  {dtype:<8}  {name:<16}  {seconds:>8.2f}  {cpu:>8.2f}  {left:>9.1e}", flush=True)


def race(alpha: float, dtype: str, options: argparse.Namespace) -> dict[str, tuple[float, float, float]]:
    """Wall-clock seconds, processor seconds and relative residual of each estimator."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((options.samples, options.features)).astype(dtype)
    y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(options.samples)).astype(dtype)
    gamma = 1.0 / options.features
    results: dict[str, tuple[float, float, float]] = {}
    for _ in range(options.repeats):
        for model in (KernelRegressor(alpha, gamma=gamma), KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma)):
            before = time.perf_counter(), time.process_time()
            model.fit(X, y)
            taken = time.perf_counter() - before[0], time.process_time() - before[1]
            left = residual(model.dual_coef_, X, y, alpha, gamma)
            best = results.get(type(model).__name__, (np.inf, np.inf, left))
            results[type(model).__name__] = (min(taken[0], best[0]), min(taken[1], best[1]), left)
    return results


def residual(beta: Any, X: Any, y: Any, alpha: float, gamma: float) -> float:
    """The largest entry of (K + alpha I) beta - y over the largest target, in float64."""
    model = KernelRegressor(alpha, gamma=gamma).fit(X[:2], y[:2])
    model.X_fit_, model.dual_coef_ = X, np.asarray(beta, dtype=np.float64)
    left = model.predict(X) + alpha * model.dual_coef_ - y
    return float(np.abs(left).max() / np.abs(y).max())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_regression", description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--alpha", type=float, nargs="+", default=[1.0, 1e-3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
