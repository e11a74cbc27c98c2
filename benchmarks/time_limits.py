"""How well fits keep to ``max_seconds``: ``python -m benchmarks.time_limits --data DIR``.

A fit ends at its limit and then certifies its model, which takes the time of one certificate more. Each case is a problem that
needs longer than its limit, in a fresh process, after a warm-up on a few samples; of several repeats the one with the largest
overshoot counts. With a data folder there is mnist, whose 45 machines have to share the time, and its accuracy on the test set.

    overshoot       seconds of `fit` beyond max_seconds and the certificate
    learnt          whether the model differs from the machine w = 0
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from .turns import Result, in_fresh_process
from .worker import keep_to_cores

MODULE = "benchmarks.time_limits"
LARGEST_OVERSHOOT = 0.3  # a bar, in seconds
LEAST_ACCURACY = 0.85  # a bar, on mnist
MNIST = "mnist"
SAMPLES = 3000


@dataclass(frozen=True)
class Case:
    """An estimator of maxmargin, its parameters, and what it learns: one of two classes, of five, or a number."""

    estimator: str
    max_seconds: float
    parameters: dict[str, Any]
    target: str = "binary"
    samples: int = SAMPLES


CASES = {
    "SVC": Case("SVC", 0.05, {"C": 1e3}),
    "SVC, squared hinge": Case("SVC", 0.05, {"C": 1e3, "loss": "squared_hinge"}),
    "SVC, no intercept": Case("SVC", 0.05, {"C": 1e3, "fit_intercept": False}),
    "SVC, linear": Case("SVC", 0.05, {"C": 1e3, "kernel": "linear"}),
    "SVC, large": Case("SVC", 1.0, {"C": 1e3}, samples=20_000),
    "SVC, one against one": Case("SVC", 0.5, {"C": 1e5, "gamma": 0.01}, "classes"),
    "SVC, one against rest": Case("SVC", 0.5, {"C": 1e5, "gamma": 0.01, "multi_class": "ovr"}, "classes"),
    "Crammer and Singer": Case("SVC", 1.0, {"C": 1e5, "gamma": 0.01, "multi_class": "crammer_singer"}, "classes"),
    "SVR": Case("SVR", 0.05, {"C": 1e3}, "number"),
    "NuSVC": Case("NuSVC", 0.05, {"nu": 0.6, "gamma": 5.0}),
    "NuSVR": Case("NuSVR", 0.05, {"C": 1e3}, "number"),
    "OneClassSVM": Case("OneClassSVM", 0.05, {"gamma": 5.0, "tol": 1e-9}),
    "KernelRegressor": Case("KernelRegressor", 0.05, {"alpha": 1e-6}, "number"),
    "KernelRegressor, cg": Case("KernelRegressor", 0.5, {"alpha": 1e-9, "solver": "cg"}, "number"),
    "SVCCV": Case("SVCCV", 1.0, {"Cs": [1.0, 1e3, 1e5], "gammas": [0.01, 0.1, 1.0]}),
    MNIST: Case("SVC", 3.0, {}, samples=60_000),
}


def main() -> None:
    options = parse()
    if options.one:
        keep_to_cores(options.threads)
        print(json.dumps(measure(options.one, options.data)))
        return
    print(f"{'case':<24}{'max_seconds':>12}{'fit':>9}{'certificate':>13}{'overshoot':>11}  {'learnt':<8}{'status':<14}score")
    for name in options.cases or CASES:
        if name == MNIST and options.data is None:
            continue
        data = ["--data", str(options.data.resolve())] if options.data else []
        arguments = ["--one", name, "--threads", str(options.threads), *data]
        runs = [in_fresh_process(MODULE, *arguments) for _ in range(options.repeats)]
        print(line(name, max(runs, key=lambda run: run["overshoot"])), flush=True)


def measure(name: str, data: Path | None) -> Result:
    """One fit, with the cores already chosen."""
    import warnings

    import maxmargin

    warnings.simplefilter("ignore")
    case = CASES[name]
    make: Callable[..., Any] = getattr(maxmargin, case.estimator)
    X, y, X_test, y_test, parameters = mnist(data) if name == MNIST else generated(case)
    make(**parameters, max_seconds=0.05).fit(X[:200], y[:200])  # a warm-up: first calls take longer
    model = make(**parameters, max_seconds=case.max_seconds)
    started = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - started
    fitted = getattr(model, "best_estimator_", model)
    proof = getattr(fitted, "certificate_", None)
    certificate = 0.0 if proof is None else proof.seconds
    result: Result = {
        "max_seconds": case.max_seconds,
        "seconds": seconds,
        "certificate": certificate,
        "overshoot": seconds - case.max_seconds - certificate,
        "status": model.status_.name,
        "learnt": proof is not None and all(part.size > 0.0 for part in proof.parts or (proof,)),
    }
    if y_test is not None:
        result["score"] = float(model.score(X_test, y_test))
    return result


def mnist(data: Path | None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    from .cases import Case
    from .sets import problem

    given = problem(Case("mnist", MNIST), data)
    return given.X, given.y, given.X_test, given.y_test, {"C": given.C, "gamma": given.gamma}


def generated(case: Case) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Overlapping classes with many random labels, for which machines with a large C need long."""
    from sklearn.datasets import make_classification

    if case.target == "classes":
        X, y = make_classification(case.samples, 20, n_informative=15, n_classes=5, class_sep=0.5, flip_y=0.3, random_state=0)
    else:
        X, y = make_classification(case.samples, 10, n_informative=5, class_sep=0.3, flip_y=0.4, random_state=0)
    return X, X[:, 0] * y if case.target == "number" else y, None, None, case.parameters


def line(name: str, run: Result) -> str:
    late = "" if run["overshoot"] <= LARGEST_OVERSHOOT else f"  NOT MET: at most {LARGEST_OVERSHOOT:g} s beyond"
    score = f"{run['score']:.3f}" if "score" in run else ""
    if name == MNIST and run["score"] < LEAST_ACCURACY:
        late += f"  NOT MET: at least {LEAST_ACCURACY:g} right"
    return (
        f"{name:<24}{run['max_seconds']:>12g}{run['seconds']:>9.3f}{run['certificate']:>13.3f}{run['overshoot']:>11.3f}  "
        f"{'yes' if run['learnt'] else 'no':<8}{run['status']:<14}{score}{late}"
    )


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, mnist is left out")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), metavar="CASE", help="only these cases")
    parser.add_argument("--threads", type=int, default=2, help="cores each process may use (default 2)")
    parser.add_argument("--repeats", type=int, default=1, help="processes for each case; the worst counts (default 1)")
    parser.add_argument("--one", metavar="CASE", choices=list(CASES), help="measure only this case, in this process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
