"""Probabilities without refits against scikit-learn's calibration: ``python -m benchmarks.calibration --data DIR``.

    loo             maxmargin's SVC(probability="loo")
    cv              maxmargin's SVC(probability="cv")
    scikit-learn    CalibratedClassifierCV(SVC(), ensemble=False) of scikit-learn
    refits          CalibratedClassifierCV around maxmargin's SVC(): shows what the span rule saves, at the same speed of a fit

All have the defaults of scikit-learn's SVC, on standardised features, and run by turns, each in fresh processes on the same
cores. Log-loss and Brier score are those of the held-out part; the time is that of `fit`, the best of the repeats.
"""

import argparse
import json
from statistics import fmean, geometric_mean
from typing import Any

from .turns import parser, take_turns
from .worker import CALL_SECONDS, keep_to_cores, seconds_of

MODULE = "benchmarks.calibration"
SETS = ("heart", "german", "ionosphere", "sonar", "fourclass", "splice", "svmguide1", "spambase")
BUNDLED = ("breast_cancer", "moons")
OURS = ("loo", "cv")
CONTESTANTS = (*OURS, "scikit-learn", "refits")
MOST_CALLS = 20
WORST_SCORE_RATIO, LEAST_SPEEDUP = 1.01, 4.0  # the bars, both as ratios to scikit-learn

Scores = dict[str, float]


def main() -> None:
    options = parse()
    if options.one:
        print(json.dumps(measure(*options.one, options)))
    else:
        print(report(take_turns(MODULE, options, lambda who: options.repeats), options.contestants))


def measure(name: str, who: str, options: argparse.Namespace) -> Scores:
    """Fit and judge one contestant, in a process of its own: the cores are chosen before any numerical library is imported."""
    keep_to_cores(options.threads)
    import numpy as np
    from sklearn.metrics import brier_score_loss, log_loss
    from sklearn.preprocessing import StandardScaler

    from .cases import Case
    from .sets import problem

    given = problem(Case("", name), options.data)
    dtype = np.float64 if who == "scikit-learn" else given.X.dtype  # scikit-learn works in float64
    scaler = StandardScaler().fit(given.X)
    X, X_test = (np.ascontiguousarray(scaler.transform(part), dtype=dtype) for part in (given.X, given.X_test))
    model = contestant(who)
    some = np.random.default_rng(0).permutation(len(X))[:100]
    contestant(who).fit(X[some], given.y[some])  # a warm-up: first calls take longer
    seconds = min(seconds_of(lambda: model.fit(X, given.y), MOST_CALLS, CALL_SECONDS))
    probability = model.predict_proba(X_test)[:, 1]
    truth = given.y_test == model.classes_[1]
    return {"log_loss": log_loss(truth, probability), "brier": brier_score_loss(truth, probability), "seconds": seconds}


def contestant(who: str) -> Any:
    from sklearn import svm
    from sklearn.calibration import CalibratedClassifierCV

    from maxmargin import SVC

    if who in OURS:
        return SVC(probability=who)
    return CalibratedClassifierCV(SVC() if who == "refits" else svm.SVC(), ensemble=False)


def report(results: dict[str, dict[str, Scores]], contestants: list[str]) -> str:
    """A table with a row for each set, and the means: arithmetic for scores, geometric for speed relative to scikit-learn."""
    lines = [f"{'':<12}" + "".join(f"{who:>27}" for who in contestants)]
    lines.append(f"{'set':<12}" + f"{'log-loss':>11}{'Brier':>8}{'s':>8}" * len(contestants))
    for name, row in results.items():
        cells = (f"{row[who]['log_loss']:>11.4f}{row[who]['brier']:>8.4f}{row[who]['seconds']:>8.4f}" for who in contestants)
        lines.append(f"{name:<12}" + "".join(cells))
    means = {
        who: {score: fmean(row[who][score] for row in results.values()) for score in ("log_loss", "brier")} for who in contestants
    }
    lines.append(f"{'mean':<12}" + "".join(f"{m['log_loss']:>11.4f}{m['brier']:>8.4f}{'':>8}" for m in means.values()))
    peer = "scikit-learn"
    if peer not in contestants:
        return "\n".join(lines)
    for who in (who for who in contestants if who != peer):
        speeds = [row[peer]["seconds"] / row[who]["seconds"] for row in results.values()]
        scores = {score: means[who][score] / means[peer][score] for score in ("log_loss", "brier")}
        lines.append(
            f"{who}: log-loss {scores['log_loss']:.3f} and Brier score {scores['brier']:.3f} times {peer}'s, "
            f"{geometric_mean(speeds):.1f} times as fast (at least {min(speeds):.1f})"
        )
        if who in OURS:
            met = max(scores.values()) <= WORST_SCORE_RATIO and geometric_mean(speeds) >= LEAST_SPEEDUP
            lines[-1] += f"; at most {WORST_SCORE_RATIO:g} and at least {LEAST_SPEEDUP:g}: {'met' if met else 'missed'}"
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    chosen = parser(MODULE, __doc__, CONTESTANTS).parse_args()
    chosen.sets = chosen.sets or list(SETS if chosen.data else BUNDLED)
    return chosen


if __name__ == "__main__":
    main()
