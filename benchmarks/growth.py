"""How the time of a fit grows with the number of rows: ``python -m benchmarks.growth --data folder --plot growth.png``.

maxmargin and scikit-learn-intelex fit the first rows of each set, 5,000 to 320,000 of them, by turns, each in a fresh process on
the same cores. A contestant that is stopped at one size is left out of the larger ones. Where a peer accepts both containers, the
faster one at the smallest size counts. The exponent is the slope of log(seconds) over log(rows), by least squares.
"""

import argparse
import signal
import subprocess
import sys
from math import inf, log
from pathlib import Path
from statistics import linear_regression

from .cases import Case
from .contestants import CONTESTANTS, OURS
from .race import SHORT, WORKER
from .tables import Row, as_text, number
from .turns import in_fresh_process
from .worker import Task

SETS = ("covtype", "gaussians-400k")
SIZES = tuple(5_000 * 2**k for k in range(7))
RIVALS = (OURS, "intelex-float32")

Entrant = tuple[str, str]  # a contestant and its layout
Seconds = dict[int, float]  # by the number of rows


def main() -> None:
    options = parse()
    curves = {name: curves_of(name, options) for name in options.sets}
    for name, by_contestant in curves.items():
        print(f"{name}\n{as_text(rows_of(by_contestant))}\n")
    if options.plot:
        draw(curves, options.plot)


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, only generated sets")
    parser.add_argument("--sets", nargs="+", metavar="SET", help=f"default: {' '.join(SETS)}")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="ROWS", default=list(SIZES))
    parser.add_argument(
        "--contestants", nargs="+", choices=CONTESTANTS, default=list(RIVALS), help=f"default: {' '.join(RIVALS)}"
    )
    parser.add_argument("--threads", type=int, default=2, help="cores each process may use (default 2)")
    parser.add_argument(
        "--repeats", type=int, default=2, help="processes for each contestant and size; the best counts (default 2)"
    )
    parser.add_argument("--patience", type=float, default=20, help="do not repeat fits slower than this many seconds")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a fit is stopped (default 900)")
    parser.add_argument(
        "--hopeless", type=float, default=10, metavar="TIMES", help="stop a peer at so many times our seconds (default 10)"
    )
    parser.add_argument("--plot", type=Path, help="draw the curves into this file")
    options = parser.parse_args()
    if options.sets is None:
        options.sets = list(SETS if options.data else SETS[1:])
    return options


def curves_of(name: str, options: argparse.Namespace) -> dict[str, Seconds]:
    """The seconds of each contestant on the first rows of this set."""
    curves: dict[str, Seconds] = {who: {} for who in options.contestants}
    entrants = [(who, layout) for who in curves for layout in CONTESTANTS[who].layouts_for(Case("growth", name))]
    for rows in sorted(options.sizes):
        seconds = fastest_fits(Case("growth", name, rows=rows), entrants, options)
        entrants = remaining(seconds)
        for entrant in entrants:
            curves[entrant[0]][rows] = seconds[entrant]
    return curves


def fastest_fits(case: Case, entrants: list[Entrant], options: argparse.Namespace) -> dict[Entrant, float]:
    """The fastest fit of each entrant, by turns; infinity if it was stopped."""
    fastest: dict[Entrant, float] = {}
    for _ in range(options.repeats):
        for who, layout in entrants:
            if fastest.get((who, layout), 0) > options.patience:
                continue
            ours = min((seconds for (one, _), seconds in fastest.items() if one == OURS), default=inf)
            limit = options.limit if who == OURS else min(options.limit, max(SHORT, options.hopeless * ours))
            seconds = seconds_of_fit(case, who, layout, limit, options)
            fastest[who, layout] = min(seconds, fastest.get((who, layout), inf))
            print(f"{case.name}: {who} ({layout}): {seconds:.4g} s", file=sys.stderr, flush=True)
    return fastest


def seconds_of_fit(case: Case, who: str, layout: str, limit: float, options: argparse.Namespace) -> float:
    """The seconds of one fit in a fresh process; infinity if it was stopped at the limit."""
    task = Task(
        contestant=who,
        layout=layout,
        case=case,
        data=None if options.data is None else str(options.data.resolve()),
        threads=options.threads,
        limit=limit,
    )
    try:
        return float(in_fresh_process(WORKER, "fit", task.as_json())["fit"])
    except subprocess.CalledProcessError as error:
        if error.returncode == -signal.SIGALRM:
            return inf
        sys.exit(f"{case.name}, {who} ({layout}):\n{error.stderr}")


def remaining(seconds: dict[Entrant, float]) -> list[Entrant]:
    """The entrants of the next size: each contestant that was not stopped, with its faster layout."""
    slowest_first = sorted(seconds, key=lambda entrant: seconds[entrant], reverse=True)
    fastest = {entrant[0]: entrant for entrant in slowest_first}
    return [entrant for entrant, taken in seconds.items() if entrant == fastest[entrant[0]] and taken < inf]


def exponent(curve: Seconds) -> float | None:
    if len(curve) < 2:
        return None
    return linear_regression([log(rows) for rows in curve], [log(seconds) for seconds in curve.values()]).slope


def rows_of(curves: dict[str, Seconds]) -> list[Row]:
    """A row for each size, with the seconds of each contestant in units of ours; then the exponents."""
    ours, peers = curves.get(OURS, {}), [who for who in curves if who != OURS]
    sizes = sorted(set().union(*curves.values()))
    table = [["rows", *(f"{who} s" for who in curves), *(f"{who} × ours" for who in peers)]]
    for rows in sizes:
        ratios = [curves[who][rows] / ours[rows] if rows in curves[who] and rows in ours else None for who in peers]
        table.append([str(rows), *(number(curve.get(rows)) for curve in curves.values()), *map(number, ratios)])
    table.append(["exponent", *(number(exponent(curve)) for curve in curves.values()), *("" for _ in peers)])
    return table


def draw(curves: dict[str, dict[str, Seconds]], path: Path) -> None:
    """Draw seconds over rows, both logarithmic, beside each other for each set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(curves), 4), layout="constrained")
    for axes, (name, by_contestant) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for who, curve in by_contestant.items():
            axes.loglog(list(curve), list(curve.values()), marker="o", label=f"{who}, exponent {number(exponent(curve))}")
        axes.set(title=name, xlabel="rows", ylabel="seconds of fit")
        axes.grid(True, which="both", alpha=0.3)
        axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
