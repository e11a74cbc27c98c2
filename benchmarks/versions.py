"""Compare two versions of maxmargin on the same problems, by turns, to see a regression before it is merged.

    python -m benchmarks.versions OLD [NEW] --data folder --groups binary tables small

OLD and NEW are Python executables of environments in which a version is installed (NEW: the one that runs this), or revisions
of this repository, which are then built and installed into environments of their own under build/versions. Each measurement is
a fresh process on the same cores; the ratio is that of the medians (or of the best), and the spread says how reliable it is. A
solver draws violators at random, so that another order of the rows is another run: `--orders 8` tells luck from progress.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from .cases import Case, chosen
from .race import PREDICT_CALLS, SMALL_CALLS, WORKER
from .turns import ROOT, Result, in_fresh_process
from .worker import CALL_SECONDS, Task

STATISTICS = {"best": min, "median": median}
GROUPS = ("binary", "tables", "multiclass", "large-C", "regression", "small")


def main() -> None:
    options = parse()
    pythons = {name: environment(name) for name in (options.old, options.new)}
    ratios: dict[str, list[float]] = {}
    print(
        f"{'set':24} {'fit before':>11} {'now':>11} {'now/before':>11} {'spread':>7} {'predict':>8} {'certificate':>12}"
        "  gap before, now"
    )
    with tempfile.TemporaryDirectory() as folder:
        cases = chosen(options.data, options.groups, options.sets)
        if options.orders:
            cases = [replace(case, order=order) for case in cases for order in range(options.orders)]
        for case in cases:
            runs: dict[str, list[Result]] = {name: [] for name in pythons}
            for turn in range(options.repeats):
                order = list(pythons) if turn % 2 == 0 else list(pythons)[::-1]
                for name in order:
                    task = task_for(case, options, Path(folder) / "model.npz")
                    runs[name].append(in_fresh_process(WORKER, "measure", task.as_json(), python=pythons[name]))
            ratios.setdefault(case.group, []).append(report(case, *runs.values(), STATISTICS[options.statistic]))
    for group, values in ratios.items():
        print(f"{group + ', geometric mean':24} {'':>11} {'':>11} {exp(sum(map(log, values)) / len(values)):>11.3f}")


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__, formatter_class=formatter)
    parser.add_argument("old", help="Python executable or revision of the old version")
    parser.add_argument("new", nargs="?", default=sys.executable, help="the new version, likewise (default: this Python)")
    parser.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, scikit-learn's own sets")
    parser.add_argument("--groups", nargs="+", metavar="GROUP", default=list(GROUPS))
    parser.add_argument("--sets", nargs="+", metavar="SET")
    parser.add_argument("--threads", type=int, default=2, help="cores each process may use (default 2)")
    parser.add_argument("--repeats", type=int, default=7, help="processes for each version and set (default 7)")
    parser.add_argument("--orders", type=int, default=0, help="random orders of the rows (default: as stored), a line for each")
    parser.add_argument("--statistic", choices=STATISTICS, default="best")
    return parser.parse_args()


def environment(name: str) -> str:
    """The Python of an environment with this version: `name` itself, or that of an environment made for the revision `name`."""
    if Path(name).exists():
        return name
    revision = subprocess.run(
        ["git", "rev-parse", "--short", name], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    home = ROOT / "build" / "versions" / revision
    python = home / "bin" / "python"
    if not python.exists():
        with tempfile.TemporaryDirectory() as source:
            archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", source], input=archive, check=True)
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", source], check=True)
    return str(python)


def task_for(case: Case, options: argparse.Namespace, model: Path) -> Task:
    small = case.group == "small"
    return Task(
        contestant="maxmargin",
        layout=case.layout,
        case=case,
        data=None if options.data is None else str(options.data.resolve()),
        threads=options.threads,
        fits=SMALL_CALLS if small else PREDICT_CALLS,
        predicts=SMALL_CALLS if small else PREDICT_CALLS,
        seconds=CALL_SECONDS,
        limit=900,
        model=str(model),
    )


def report(case: Case, before: list[Result], now: list[Result], summarise: Any) -> float:
    """Print a row of the table; return the ratio of the fit times."""
    old, new = (summarise([run["fit"] for run in runs]) for runs in (before, now))
    predict = [summarise([run["predict"] for run in runs]) for runs in (before, now)]
    spread = max(median([run["fit"] for run in runs]) / min(run["fit"] for run in runs) for runs in (before, now))
    print(
        f"{case.name:24} {old:11.4g} {new:11.4g} {new / old:11.3f} {spread:7.2f} {predict[1] / predict[0]:8.3f} "
        f"{now[-1]['certificate_share']:12.3f}  {before[-1]['certified_gap']:.1e}, {now[-1]['certified_gap']:.1e}",
        flush=True,
    )
    return float(new / old)


if __name__ == "__main__":
    main()
