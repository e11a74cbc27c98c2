"""A grid of C and gamma by cross-validation: ``python -m benchmarks.grid_search --data DIR``.

    maxmargin       SVCCV
    scikit-learn    GridSearchCV(SVC(), n_jobs=2) of scikit-learn
    intelex         the same with scikit-learn-intelex's SVC

on the grid of LIBSVM's practical guide, ten values each: C = 2^-5, 2^-3, ..., 2^13 and gamma = 2^-15, ..., 2^3; five folds. By
turns, each in a fresh process on the same cores; the time is that of `fit` with the refit of the best machine. Besides the time,
the best parameters and the largest difference of a mean score are compared.
"""

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from .race import ROOT
from .worker import keep_to_cores

SETS = ("spambase", "svmguide1")
BUNDLED = ("breast_cancer",)
OURS = "maxmargin"
CONTESTANTS = (OURS, "scikit-learn", "intelex")
FASTER = {"scikit-learn": 15.0, "intelex": 5.0}  # the bars
CS, GAMMAS = [2.0**k for k in range(-5, 14, 2)], [2.0**k for k in range(-15, 4, 2)]
FOLDS = 5

Result = dict[str, Any]


def main() -> None:
    options = parse()
    if options.one:
        print(json.dumps(measure(*options.one, options)))
        return
    results: dict[str, dict[str, Result]] = {name: {} for name in options.sets}
    for name, turn in product(options.sets, range(options.repeats)):
        for who in options.contestants:
            if who != OURS and turn >= options.peer_repeats:
                continue
            run = in_fresh_process(name, who, options)
            best = min(run["seconds"], results[name].get(who, run)["seconds"])
            results[name][who] = run | {"seconds": best}
    print(report(results))


def in_fresh_process(name: str, who: str, options: argparse.Namespace) -> Result:
    command = [sys.executable, "-m", "benchmarks.grid_search", "--one", name, who, "--threads", str(options.threads)]
    command += ["--data", str(options.data.resolve())] if options.data else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}, {who}:\n{done.stderr}")
    result: Result = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {who}: {result['seconds']:.3g} s, best {result['best']}", file=sys.stderr, flush=True)
    return result


def measure(name: str, who: str, options: argparse.Namespace) -> Result:
    """One contestant in a process of its own: the cores are chosen before any numerical library is imported."""
    keep_to_cores(options.threads)
    import warnings

    import numpy as np

    from .sets import problem

    warnings.simplefilter("ignore")
    given = problem(name, None, options.data)
    X = np.ascontiguousarray(given.X, dtype=np.float64 if who == "scikit-learn" else given.X.dtype)
    search = contestant(who, CS, GAMMAS, options.threads)
    some = np.random.default_rng(0).permutation(len(X))[:200]
    contestant(who, [1.0], [0.1], options.threads).fit(X[some], given.y[some])  # first calls, and worker processes
    started = perf_counter()
    search.fit(X, given.y)
    seconds = perf_counter() - started
    result: Result = {
        "seconds": seconds,
        "best": {key: float(value) for key, value in search.best_params_.items()},
        "best_score": float(search.best_score_),
        "scores": [float(score) for score in search.cv_results_["mean_test_score"]],
    }
    if who == OURS:
        gaps = np.array([search.cv_results_[f"split{fold}_relative_gap"] for fold in range(FOLDS)])
        result |= {"largest_gap": float(gaps.max()), "median_gap": float(np.median(gaps))}
    return result


def contestant(who: str, Cs: list[float], gammas: list[float], threads: int) -> Any:
    from sklearn.model_selection import GridSearchCV

    if who == OURS:
        from maxmargin import SVCCV

        return SVCCV(Cs=Cs, gammas=gammas, cv=FOLDS)
    if who == "scikit-learn":
        from sklearn.svm import SVC
    else:
        from sklearnex.svm import SVC
    return GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=FOLDS, n_jobs=threads)


def report(results: dict[str, dict[str, Result]]) -> str:
    lines = []
    for name, row in results.items():
        ours = row.get(OURS)
        for who, result in row.items():
            line = f"{name:<12}{who:<14}{result['seconds']:>9.3g} s   best {result['best']}   score {result['best_score']:.6f}"
            if ours is not None and who != OURS:
                ratio = result["seconds"] / ours["seconds"]
                apart = max(abs(a - b) for a, b in zip(result["scores"], ours["scores"], strict=True))
                verdict = "met" if ratio >= FASTER[who] else "NOT MET"
                line += f"   {ratio:.1f} x (at least {FASTER[who]:g}: {verdict})   mean scores apart by at most {apart:.2g}"
            elif who == OURS:
                line += f"   relative gap: median {result['median_gap']:.1e}, largest {result['largest_gap']:.1e}"
            lines.append(line)
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid_search", description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, a set of scikit-learn's")
    parser.add_argument("--sets", nargs="+", metavar="SET")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--threads", type=int, default=2, help="cores, and n_jobs of the others (default 2)")
    parser.add_argument("--repeats", type=int, default=3, help="processes for maxmargin (default 3)")
    parser.add_argument("--peer-repeats", type=int, default=1, help="processes for the others, which take minutes (default 1)")
    parser.add_argument("--one", nargs=2, metavar=("SET", "CONTESTANT"), help="measure this alone, in this process")
    options = parser.parse_args()
    options.sets = options.sets or list(SETS if options.data else BUNDLED)
    return options


if __name__ == "__main__":
    main()
