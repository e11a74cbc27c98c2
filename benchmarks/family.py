"""Regression, nu and one-class machines side by side: ``python -m benchmarks.family --data DIR``.

SVR on cadata, cpusmall and abalone with the settings of the data folder and standardised targets; NuSVC (nu = 0.4) and
OneClassSVM (nu = 0.1) on magic and a9a with the gamma of the set. By turns, each in fresh processes on the same cores, the best
of the repeats. intelex is scikit-learn-intelex in float32 and in float64, the faster counts; it has no one-class machine. On
a9a, which is sparse, everybody gets it as CSR and as dense rows, and the faster counts. The gap is the true relative one, in
float64, from `maxmargin.audit`, at the same ``tol=1e-3``.
"""

import argparse
import json
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Any

from .race import ROOT
from .sets import module_at
from .worker import keep_to_cores

TOLERANCE = 1e-3
FASTER, NEVER_SLOWER = 3.0, 1.0  # the bars: geometric mean and smallest
OURS = "maxmargin"
CONTESTANTS = (OURS, "scikit-learn", "intelex-float32", "intelex-float64")
CASES = {
    "SVR abalone": ("SVR", "abalone"),
    "SVR cpusmall": ("SVR", "cpusmall"),
    "SVR cadata": ("SVR", "cadata"),
    "NuSVC magic": ("NuSVC", "magic"),
    "NuSVC a9a": ("NuSVC", "a9a"),
    "OneClassSVM magic": ("OneClassSVM", "magic"),
    "OneClassSVM a9a": ("OneClassSVM", "a9a"),
}
NU = {"NuSVC": 0.4, "OneClassSVM": 0.1}
SPARSE = ("a9a",)

Result = dict[str, Any]


def main() -> None:
    options = parse()
    if options.one:
        case, who, layout, judge = options.one
        print(json.dumps(measure(case, who, layout, judge == "judge", options)))
        return
    results: dict[str, dict[str, Result]] = {case: {} for case in options.cases}
    for case, turn in product(options.cases, range(options.repeats)):
        for who, layout in product(options.contestants, ("csr", "dense") if CASES[case][1] in SPARSE else ("dense",)):
            if case.startswith("OneClass") and who.startswith("intelex"):
                continue
            known = results[case].get(who)
            if turn > 0 and known is not None and (known["failure"] or known["seconds"] > options.patience):
                continue
            run = in_fresh_process(case, who, layout, known is None, options)
            if known is None or run["seconds"] < known["seconds"]:
                results[case][who] = {**(known or {}), **run}
    print(report(results))


def in_fresh_process(case: str, who: str, layout: str, judge: bool, options: argparse.Namespace) -> Result:
    command = [sys.executable, "-m", "benchmarks.family", "--data", str(options.data.resolve())]
    command += ["--threads", str(options.threads), "--limit", str(options.limit)]
    command += ["--one", case, who, layout, "judge" if judge else "time"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGALRM:
        result: Result = {"seconds": options.limit, "failure": f"stopped at {options.limit:g} s"}
    elif done.returncode:
        sys.exit(f"{case}, {who}:\n{done.stderr}")
    else:
        result = json.loads(done.stdout.splitlines()[-1]) | {"failure": ""}
    print(f"{case}: {who} ({layout}): {result}", file=sys.stderr, flush=True)
    return result


def measure(case: str, who: str, layout: str, judge: bool, options: argparse.Namespace) -> Result:
    """One contestant in a process of its own: the cores are chosen before any numerical library is imported."""
    keep_to_cores(options.threads)
    import warnings

    import numpy as np
    from scipy.sparse import issparse

    from maxmargin import audit

    warnings.simplefilter("ignore")
    kind, name = CASES[case]
    store = module_at(options.data / "load.py")
    X, y, *_ = store.load(name)
    if issparse(X) and layout == "dense":
        X = X.toarray()
    X = X.astype({"scikit-learn": np.float64, "intelex-float64": np.float64}.get(who, np.float32))
    if kind == "SVR":
        C, gamma, _ = store.REGRESSION[name]
        y = (y - y.mean()) / y.std()
        parameters = {"C": C}
    else:
        _, gamma, _ = store.SETS[name]
        parameters = {"nu": NU[kind]}
    machine = make(kind, who)
    some = np.random.default_rng(0).permutation(X.shape[0])[:300]
    machine(gamma=gamma, tol=TOLERANCE, **parameters).fit(X[some], y[some])  # first calls have costs of their own
    model = machine(gamma=gamma, tol=TOLERANCE, **parameters)
    signal.alarm(int(options.limit))
    started = perf_counter()
    model.fit(X, y)
    result: Result = {"seconds": perf_counter() - started}
    signal.alarm(0)
    if judge:
        verdict = audit(model, X, y)
        result |= {"gap": verdict.certificate.relative_gap, "support": len(model.support_)}
        if who == OURS:
            result |= {"certified": model.certificate_.relative_gap, "proof": model.certificate_.seconds / model.fit_seconds_}
    return result


def make(kind: str, who: str) -> Any:
    if who == OURS:
        import maxmargin as library
    elif who == "scikit-learn":
        from sklearn import svm as library
    else:
        from sklearnex import svm as library
    return getattr(library, kind)


def report(results: dict[str, dict[str, Result]]) -> str:
    head = ("fit", "x faster", "than", "x scikit-learn", "true gap", "of LIBSVM", "true / certified")
    lines = [f"{'':<20}" + "".join(f"{words:>{width}}" for words, width in zip(head, (9, 10, 18, 16, 11, 11, 18), strict=True))]
    ratios = []
    for case, row in results.items():
        ours = row[OURS]
        peers = {who: result["seconds"] for who, result in row.items() if who != OURS}
        if not peers:
            continue
        fastest = min(peers, key=peers.__getitem__)
        ratios.append(peers[fastest] / ours["seconds"])
        libsvm = row.get("scikit-learn", {})
        against = f"{libsvm['seconds'] / ours['seconds']:.2f}{'+' if libsvm['failure'] else ''}" if libsvm else "–"
        share = f"{ours['gap'] / libsvm['gap']:.3g}" if "gap" in libsvm else "–"
        lines.append(
            f"{case:<20}{ours['seconds']:>8.3g}s{ratios[-1]:>10.2f}{fastest:>18}{against:>16}{ours['gap']:>11.1e}{share:>11}"
            f"{ours['gap'] / ours['certified']:>18.4f}"
        )
    if ratios:
        mean, least = geometric_mean(ratios), min(ratios)
        met = mean >= FASTER and least >= NEVER_SLOWER
        bars = f"at least {FASTER:g} and {NEVER_SLOWER:g}: {'met' if met else 'NOT MET'}"
        lines.append(f"geometric mean {mean:.2f}, smallest {least:.2f}; {bars}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.family", description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with load.py and its sets")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--threads", type=int, default=2, help="cores each process may use (default 2)")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each contestant and case (default 3)")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds; who took longer is not run again (default 10)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a fit is stopped (default 120)")
    one = ("CASE", "CONTESTANT", "LAYOUT", "JUDGE")
    parser.add_argument("--one", nargs=4, metavar=one, help="measure this alone, in this process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
