"""Run maxmargin and its peers side by side, each in a fresh process on the same cores, and judge every model in float64."""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .cases import ENTRANTS, FULL, cases, chosen
from .contestants import CONTESTANTS, Contestant
from .race import Rules, race
from .tables import markdown, report
from .verdicts import BARS, Results, Verdict, verdict

PACKAGES = ("maxmargin", "scikit-learn", "scikit-learn-intelex", "libsvm-official", "numpy", "scipy")


def main() -> None:
    options = parse()
    rules = Rules(
        data=options.data,
        threads=options.threads,
        repeats=options.repeats,
        statistic=options.statistic,
        patience=options.patience,
        limit=options.limit,
        hopeless=options.hopeless,
        unjudged=tuple(options.no_gap),
    )
    plan = cases(options.data)
    selected = chosen(options.data, options.groups, options.sets)
    if not selected:
        sys.exit(f"nothing to run; groups: {names(case.group for case in plan)}; sets: {names(case.set for case in plan)}")
    entrants = [CONTESTANTS[name] for name in options.contestants if installed(CONTESTANTS[name])]

    results: Results = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in selected:
            allowed = [one for one in entrants if one.name in ENTRANTS.get(case.group, CONTESTANTS)]
            results[case] = race(case, allowed, rules, Path(folder))
    judged = [verdict(bar, results, plan) for bar in BARS]

    print(report(results, judged))
    if options.data is None:
        print("\nThe bars are about the sets of a data folder; scikit-learn's own stood in for them. Use --data.")
    if options.json:
        options.json.write_text(json.dumps(document(options, results, judged), indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(results, judged) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, scikit-learn's own sets")
    parser.add_argument("--groups", nargs="+", metavar="GROUP", help=f"only these groups: {names(case.group for case in FULL)}")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only these sets or cases, such as magic 'covtype 20000'")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--threads", type=int, default=2, help="cores each process may use (default 2)")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each contestant and set (default 3)")
    parser.add_argument("--statistic", choices=("best", "median"), default="best", help="which repeat counts (default best)")
    parser.add_argument("--patience", type=float, default=20, help="do not repeat contestants slower than this many seconds")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a fit is stopped (default 900)")
    parser.add_argument("--hopeless", type=float, metavar="TIMES", help="stop a peer at so many times the fastest one's seconds")
    parser.add_argument("--no-gap", nargs="+", metavar="SET", default=[], help="do not compute the true gap on these sets")
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--markdown", type=Path, help="write the README's tables to this file")
    options = parser.parse_args()
    if options.data and not (options.data / "load.py").exists():
        parser.error(f"--data {options.data}: no load.py there (leave --data away to use scikit-learn's own sets)")
    return options


def installed(contestant: Contestant) -> bool:
    if contestant.is_installed():
        return True
    print(f"{contestant.name}: not installed (no module {contestant.module}); left out", file=sys.stderr)
    return False


def names(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words))


def document(options: argparse.Namespace, results: Results, judged: list[Verdict]) -> dict[str, Any]:
    """All measurements, with the versions of the libraries and the machine."""
    return {
        "options": {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}},
        "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
        "cases": [{**asdict(case), "name": case.name, "results": result} for case, result in results.items()],
        "verdicts": [asdict(one) for one in judged],
    }


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
