"""Linear machines against scikit-learn's LinearSVC and LinearSVR, LIBLINEAR and Snap ML: seconds to a true relative gap.

    python -m benchmarks.linear --data folder                    all sets, hinge and squared hinge, gaps of 1e-3 and 1e-5
    python -m benchmarks.linear --data folder --sets a9a --losses hinge --contestants maxmargin "liblinear dual"
    python -m benchmarks.linear --sets regression --rows 1000000          LinearSVR; "hinge" is the distance from the tube there

Every contestant minimises the same objective: 1/2 |(w, b)|^2 + C sum loss, C = 1, with a regularised intercept, which all of
them have; in regression the half-width of the tube is 0.1. What counts is measured here, in float64: the primal value at the
contestant's weights, less the optimum, which a certificate of 1e-8 proves; relative to the optimum. (LIBLINEAR gives no duals, so
a gap of its own cannot be computed.) Each contestant has a ladder of its own tolerances; its time is that of the fastest rung
whose model is close enough. Contestants run by turns in fresh processes; `seconds` is the fit alone, with the data in memory in
the form that the contestant likes best. A contestant is stopped at a rung that takes longer than --limit; where it has not
reached a gap by then, the limit is a lower bound of its time. One whose whole ladder does not reach a gap has no time for it.
"""

import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.turns import ROOT, parser

SETS = ("newsgroups20_tfidf", "a9a", "ijcnn1", "mnist", "covtype", "synthetic", "regression")
MADE = ("synthetic", "regression")
EPSILON = 0.1  # of regressions, whose targets have the standard deviation 1
CONTESTANTS = ("maxmargin", "scikit-learn dual", "scikit-learn primal", "liblinear dual", "liblinear primal", "snapml")
GAPS = (1e-3, 1e-5)
LADDERS = {
    "maxmargin": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
    "scikit-learn dual": [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4],
    "scikit-learn primal": [1e-1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6],
    "liblinear dual": [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4],
    "liblinear primal": [1e-1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6],
    "snapml": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
}
SHORT = 1.0  # seconds of a fit that is repeated; the fastest counts
COLUMNS, PER_ROW = 100_000, 50  # of the synthetic set


def synthetic(n_rows: int) -> tuple[Any, Any]:
    """CSR rows whose columns are as frequent as words are (Zipf), with labels by a plane and noise."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    frequency = np.cumsum(1.0 / np.arange(1, COLUMNS + 1) ** 0.9)
    names = rng.permutation(COLUMNS).astype(np.int32)
    indices = np.empty((n_rows, PER_ROW), dtype=np.int32)
    values = np.empty((n_rows, PER_ROW), dtype=np.float32)
    plane, scores = rng.standard_normal(COLUMNS), np.empty(n_rows)
    for first in range(0, n_rows, 100_000):
        some = slice(first, min(first + 100_000, n_rows))
        shape = (some.stop - first, PER_ROW)
        drawn = np.searchsorted(frequency, rng.random(shape) * frequency[-1]).astype(np.int32)
        indices[some] = np.sort(names[np.minimum(drawn, COLUMNS - 1)], axis=1)
        values[some] = (rng.random(shape) + 0.2) / 5.0
        scores[some] = (values[some] * plane[indices[some]]).sum(axis=1)
    starts = np.arange(0, n_rows * PER_ROW + 1, PER_ROW, dtype=np.int32)
    X = sp.csr_matrix((values.ravel(), indices.ravel(), starts), shape=(n_rows, COLUMNS))
    X.sum_duplicates()
    noise = 0.5 * scores.std() * rng.standard_normal(n_rows)
    return X, np.where(scores + noise > 0, 1, -1)


def load(name: str, options: Any) -> tuple[Any, Any]:
    if name == "synthetic":
        return synthetic(options.rows)
    if name == "regression":
        import numpy as np

        rng = np.random.default_rng(0)
        X = rng.standard_normal((options.rows, 50), dtype=np.float32)
        y = X @ rng.standard_normal(50) + 3.0 * rng.standard_normal(options.rows)
        return X, y / y.std()
    from benchmarks.sets import module_at

    X, y, X_test, y_test = module_at(options.data / "load.py").load(name)
    if name == "covtype":  # it has no test split of its own: all rows
        import numpy as np

        return np.vstack([X, X_test]), np.concatenate([y, y_test])
    return X, y


def objective(X: Any, y: Any, coef: Any, intercept: Any, loss: str) -> float:
    """The sum over the machines of their primal values, in float64."""
    import numpy as np

    total = 0.0
    if is_regression(y):
        excess = np.maximum(np.abs(y - X @ np.ravel(coef).astype(np.float64) - np.ravel(intercept)) - EPSILON, 0.0)
        square = float(np.ravel(coef) @ np.ravel(coef) + np.ravel(intercept) @ np.ravel(intercept))
        return 0.5 * square + float((excess if loss == "hinge" else excess**2).sum())
    classes = np.unique(y)
    for w, b, positive in zip(coef, intercept, classes[1:] if len(classes) == 2 else classes, strict=True):
        score = X @ w.astype(np.float64) + b
        slack = np.maximum(0.0, 1.0 - np.where(y == positive, score, -score))
        total += 0.5 * (w @ w + b * b) + float((slack if loss == "hinge" else slack**2).sum())
    return total


def is_regression(y: Any) -> bool:
    return bool(y.dtype.kind == "f" and (y != y.round()).any())


def fit_regression(who: str, X: Any, y: Any, loss: str, tol: float) -> tuple[float, Any, Any, dict[str, float]]:
    """Like `fit`, for targets that are numbers."""
    import numpy as np

    family, _, kind = who.partition(" ")
    name = {"hinge": "epsilon_insensitive", "squared_hinge": "squared_epsilon_insensitive"}[loss]
    if family == "liblinear":
        from liblinear.liblinearutil import parameter, problem, train
        from scipy.sparse import csr_matrix

        solver = {"hinge dual": 13, "squared_hinge dual": 12, "squared_hinge primal": 11}[f"{loss} {kind}"]
        data = problem(y, csr_matrix(X, dtype=np.float64), bias=1)
        options = parameter(f"-s {solver} -c 1 -p {EPSILON} -e {tol} -B 1 -q")
        started = time.perf_counter()
        found = train(data, options)
        seconds = time.perf_counter() - started
        w = np.ctypeslib.as_array(found.w, (X.shape[1] + 1,)).copy()
        return seconds, w[:-1], w[-1:], {}
    if family == "maxmargin":
        from maxmargin import LinearSVR

        model = LinearSVR(epsilon=EPSILON, loss=name, fit_intercept="regularized", gap_tol=tol)
    else:
        from sklearn.svm import LinearSVR as Theirs

        model = Theirs(epsilon=EPSILON, loss=name, dual=kind == "dual", tol=tol, max_iter=100_000, random_state=0)
    started = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - started
    ours = family == "maxmargin"
    more = {"passes": model.n_passes_, "certified": model.certificate_.relative_gap} if ours else {}
    return seconds, model.coef_, model.intercept_, more


def fit(who: str, X: Any, y: Any, loss: str, tol: float) -> tuple[float, Any, Any, dict[str, float]]:
    """Seconds, coefficients, intercepts and what else is to be told."""
    import numpy as np

    if is_regression(y):
        return fit_regression(who, X, y, loss, tol)
    family, _, kind = who.partition(" ")
    if family == "maxmargin":
        from maxmargin import LinearSVC

        started = time.perf_counter()
        model = LinearSVC(loss=loss, fit_intercept="regularized", gap_tol=tol).fit(X, y)
        seconds = time.perf_counter() - started
        return seconds, model.coef_, model.intercept_, {"passes": model.n_passes_, "certified": model.certificate_.relative_gap}
    if family == "scikit-learn":
        from sklearn.svm import LinearSVC as Theirs

        model = Theirs(loss=loss, dual=kind == "dual", tol=tol, max_iter=100_000, random_state=0)
        started = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - started, model.coef_, model.intercept_, {}
    if family == "liblinear":
        import scipy.sparse as sp
        from liblinear.liblinearutil import parameter, problem, train

        solver = {"hinge dual": 3, "squared_hinge dual": 1, "squared_hinge primal": 2}[f"{loss} {kind}"]
        data = problem(y.astype(float), sp.csr_matrix(X, dtype=np.float64), bias=1)
        options = parameter(f"-s {solver} -c 1 -e {tol} -B 1 -q")
        started = time.perf_counter()
        model = train(data, options)
        seconds = time.perf_counter() - started
        classes = np.array(model.get_labels())
        count = 1 if len(classes) == 2 else len(classes)
        W = np.ctypeslib.as_array(model.w, (X.shape[1] + 1, count)).T.copy()
        W = W[np.argsort(classes)] if count > 1 else W * (1.0 if classes[0] == max(classes) else -1.0)
        return seconds, W[:, :-1], W[:, -1], {}
    from snapml import SupportVectorMachine

    model = SupportVectorMachine(
        loss=loss,
        regularizer=2.0 if loss == "hinge" else 1.0,
        fit_intercept=True,
        tol=tol,
        max_iter=10_000,
        n_jobs=2,
        intercept_scaling=1.0,
    )
    labels = np.where(y == np.unique(y)[-1], 1, -1)
    started = time.perf_counter()
    model.fit(X, labels)
    return time.perf_counter() - started, np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_), {}


def measure(name: str, who: str, loss: str, options: Any) -> Iterator[dict[str, Any]]:
    """The rungs of one contestant: tolerance, seconds, primal value. The optimum is the only rung of its own ladder."""
    import warnings

    warnings.simplefilter("ignore")
    X, y = load(name, options)
    if who == "optimum":
        yield {"ready": True}
        seconds, coef, intercept, more = fit("maxmargin", X, y, loss, 1e-8)
        yield {"seconds": seconds, "primal": objective(X, y, coef, intercept, loss), **more}
        return
    fit(who, X[:1000], y[:1000], loss, 0.1)  # imports and threads
    yield {"ready": True}
    for tol in LADDERS[who]:
        fits = [fit(who, X, y, loss, tol)]
        fits += [fit(who, X, y, loss, tol) for _ in range(2) if fits[0][0] < SHORT]
        seconds, coef, intercept, more = min(fits, key=lambda one: one[0])
        primal = objective(X, y, coef, intercept, loss)
        yield {"tol": tol, "seconds": seconds, "primal": primal, **more}
        if options.optimum and (primal - options.optimum) / options.optimum <= min(GAPS):
            break


def in_turn(name: str, who: str, loss: str, options: Any, optimum: float) -> tuple[list[dict[str, Any]], bool]:
    """The rungs that the contestant climbs, each within the limit, and whether it was stopped there."""
    command = [sys.executable, "-m", "benchmarks.linear", "--one", name, who, "--losses", loss, "--rows", str(options.rows)]
    command += ["--optimum", str(optimum), *(["--data", str(options.data.resolve())] if options.data else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        run.stdout.readline()  # the data are in memory
        rungs: list[dict[str, Any]] = []
        while True:
            timer = threading.Timer(options.limit if who != "optimum" else threading.TIMEOUT_MAX, run.kill)
            timer.start()
            line = run.stdout.readline()
            timer.cancel()
            if not line:
                break
            rungs.append(json.loads(line))
    return rungs, run.returncode == -signal.SIGKILL


def proven_optimum(name: str, loss: str, options: Any) -> float:
    """The optimum, from the file of those that are known, or proven now and added to it."""
    known = json.loads(options.optima.read_text()) if options.optima and options.optima.exists() else {}
    key = f"{name} {loss}" + (f" {options.rows}" if name in MADE else "")
    if key not in known:
        known[key] = in_turn(name, "optimum", loss, options, 0.0)[0][0]["primal"]
        if options.optima:
            options.optima.write_text(json.dumps(known))
    return float(known[key])


def seconds_to(rungs: list[dict[str, float]], optimum: float, gap: float) -> float:
    reached = [rung["seconds"] for rung in rungs if (rung["primal"] - optimum) / abs(optimum) <= gap]
    return min(reached, default=math.inf)


def takes_part(who: str, name: str, loss: str) -> bool:
    """Whether a contestant has this loss, and (Snap ML) machines of more than two classes or of regression."""
    if who.endswith("primal"):
        return loss == "squared_hinge"
    return who != "snapml" or name not in ("newsgroups20_tfidf", "mnist", "regression")


def main() -> None:
    options_parser = parser("benchmarks.linear", __doc__, CONTESTANTS)
    options_parser.add_argument("--losses", nargs="+", choices=("hinge", "squared_hinge"), default=["hinge", "squared_hinge"])
    options_parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the sets that are made (default 2 million)")
    options_parser.add_argument("--limit", type=float, default=600.0, help="seconds for a rung of a contestant (default 600)")
    options_parser.add_argument("--optima", type=Path, help="JSON file that keeps the optima which were proven")
    options_parser.add_argument("--optimum", type=float, default=0.0, help="the proven optimum, for --one")
    options = options_parser.parse_args()
    if options.one:
        for rung in measure(*options.one, options.losses[0], options):
            print(json.dumps(rung), flush=True)
        return
    ratios: dict[tuple[str, float], list[float]] = {}
    for name, loss in product(options.sets or SETS, options.losses):
        optimum = proven_optimum(name, loss, options)
        table: dict[str, dict[float, float]] = {}
        at_least: dict[str, float] = {}  # the time of a gap that was not reached
        for who in options.contestants:
            if not takes_part(who, name, loss):
                continue
            rungs, stopped = in_turn(name, who, loss, options, optimum)
            table[who] = {gap: seconds_to(rungs, optimum, gap) for gap in GAPS}
            at_least[who] = options.limit if stopped else math.inf
            passes = f"  passes of the rungs {[round(rung['passes'], 1) for rung in rungs]}" if who == "maxmargin" else ""
            times = "  ".join(f"{gap:g}: {table[who][gap]:8.3f} s" for gap in GAPS)
            print(f"{name:20} {loss:14} {who:20} {times}{passes}", flush=True)
        for gap in GAPS:
            ours = table.get("maxmargin", {}).get(gap, math.inf)
            for peer, names in (
                ("the best other", [who for who in table if who not in ("maxmargin", "snapml")]),
                ("snapml", ["snapml"]),
            ):
                reached = min((table[who][gap] for who in names if who in table), default=math.inf)
                seconds = min([reached, *(at_least[who] for who in names if who in table)])
                if math.isfinite(ours) and math.isfinite(seconds):
                    ratios.setdefault((peer, gap), []).append(seconds / ours)
                    bound = "at least " if seconds < reached else ""
                    print(f"{name:20} {loss:14} {gap:g}: {peer} / maxmargin {bound}{seconds / ours:.2f}", flush=True)
    for (peer, gap), found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{gap:g}: {peer} / maxmargin, geometric mean {mean:.2f} over {len(found)}, least {min(found):.2f}")


if __name__ == "__main__":
    main()
