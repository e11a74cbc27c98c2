"""A grid of C and gamma by cross-validation: ``python -m benchmarks.grid_search --data DIR``.

    maxmargin       SVCCV
    scikit-learn    GridSearchCV(SVC(), n_jobs=THREADS) of scikit-learn
    intelex         GridSearchCV with scikit-learn-intelex's SVC

on the grid of LIBSVM's practical guide, ten values each: C = 2^-5, 2^-3, ..., 2^13 and gamma = 2^-15, ..., 2^3; five folds. The
contestants run by turns, each in a fresh process on the same cores; the time is that of `fit` with the refit of the best machine,
the best of up to three in a process, as long as they take less than eight seconds: the first one waits for memory.
Besides the time, the best parameters and the largest difference of a mean score are compared.
"""

import argparse
import json
from statistics import geometric_mean
from typing import Any

from .turns import Result, parser, take_turns
from .worker import FIT_SECONDS, FITS, keep_to_cores, seconds_of

MODULE = "benchmarks.grid_search"
LARGE = {"spambase": 25.0, "svmguide1": 20.0}  # the bars: how many times faster than scikit-learn
SMALL = ("fourclass", "heart", "ionosphere", "sonar", "breast_cancer", "wine")
LEAST_MEAN = 10.0  # the bar of the small sets: the geometric mean
BUNDLED = ("breast_cancer", "wine")
OURS = "maxmargin"
BARRED = "scikit-learn"  # the contestant that the bars name
CONTESTANTS = (OURS, BARRED, "intelex")
CS, GAMMAS = [2.0**k for k in range(-5, 14, 2)], [2.0**k for k in range(-15, 4, 2)]
FOLDS = 5


def main() -> None:
    options = parse()
    if options.one:
        print(json.dumps(measure(*options.one, options)))
    else:
        print(report(take_turns(MODULE, options, lambda who: options.repeats if who == OURS else options.peer_repeats)))


def measure(name: str, who: str, options: argparse.Namespace) -> Result:
    """Measure one contestant, in a process of its own: the cores are chosen before any numerical library is imported."""
    keep_to_cores(options.threads)
    import warnings

    import numpy as np

    from .cases import Case
    from .sets import problem

    warnings.simplefilter("ignore")
    given = problem(Case("", name), options.data)
    X = np.ascontiguousarray(given.X, dtype=np.float64 if who == "scikit-learn" else given.X.dtype)
    search = contestant(who, CS, GAMMAS, options.threads)
    some = np.random.default_rng(0).permutation(len(X))[:200]
    contestant(who, [1.0], [0.1], options.threads).fit(X[some], given.y[some])  # a warm-up, which also starts worker processes
    result: Result = {
        "seconds": min(seconds_of(lambda: search.fit(X, given.y), FITS, FIT_SECONDS)),
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
            line = f"{name:<15}{who:<14}{result['seconds']:>9.3g} s   best {result['best']}   score {result['best_score']:.6f}"
            if ours is not None and who != OURS:
                ratio = result["seconds"] / ours["seconds"]
                apart = max(abs(a - b) for a, b in zip(result["scores"], ours["scores"], strict=True))
                line += f"   {ratio:.1f} x"
                if who == BARRED and name in LARGE:
                    line += words(ratio, LARGE[name])
                line += f"   mean scores apart by at most {apart:.2g}"
            elif who == OURS:
                line += f"   relative gap: median {result['median_gap']:.1e}, largest {result['largest_gap']:.1e}"
            lines.append(line)
    small = [results[name] for name in SMALL if {OURS, BARRED} <= set(results.get(name, ()))]
    if small:
        mean = geometric_mean(row[BARRED]["seconds"] / row[OURS]["seconds"] for row in small)
        lines.append(f"{len(small)} small sets, {BARRED}, geometric mean   {mean:.1f} x{words(mean, LEAST_MEAN)}")
    return "\n".join(lines)


def words(ratio: float, least: float) -> str:
    return f" (at least {least:g}: {'met' if ratio >= least else 'NOT MET'})"


def parse() -> argparse.Namespace:
    options = parser(MODULE, __doc__, CONTESTANTS)
    options.add_argument("--peer-repeats", type=int, default=1, help="processes for each of the slow peers (default 1)")
    chosen = options.parse_args()
    chosen.sets = chosen.sets or list((*LARGE, *SMALL) if chosen.data else BUNDLED)
    return chosen


if __name__ == "__main__":
    main()
