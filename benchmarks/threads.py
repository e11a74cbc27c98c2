"""How the time of a fit falls with the number of threads.

    python -m benchmarks.threads --threads 1 8 16 --data folder
    python -m benchmarks.threads --data folder --pack small     # only writes the training sets of these cases, compressed

Each number of threads has its own processes, with OMP_NUM_THREADS set, and they run by turns; the fastest fit of a few counts.
On another machine the command needs the repository, an installed maxmargin, and the folder that --pack wrote.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import geometric_mean

from .cases import Case
from .turns import Result, in_fresh_process
from .worker import Task, fit, use_threads

MODULE = "benchmarks.threads"
CASES = {
    case.name: case
    for case in (
        Case("threads", "magic"),
        Case("threads", "ijcnn1"),
        Case("threads", "a9a", container="csr"),
        Case("threads", "electricity"),
        Case("threads", "covtype", rows=40_000),
        Case("threads", "mnist-parity", rows=20_000),
        Case("threads", "census"),  # a generated table with 108 standardised columns
        Case("threads", "letter"),
    )
}
GENERATED = ("census",)
FITS, SECONDS = 5, 3.0  # at most so many fits in a process, in about this time; at least one

OURS = "maxmargin"

Times = dict[int, float]  # seconds by the number of threads


def main() -> None:
    options = parse()
    selected = [case for case in CASES.values() if not options.sets or case.set in options.sets]
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]), options.data)))
    elif options.pack:
        pack_sets(selected, options.data, options.pack)
    else:
        report(selected, options)


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with load.py and its sets, or one that --pack wrote")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (default 1 2)")
    parser.add_argument("--sets", nargs="+", choices=[case.set for case in CASES.values()], metavar="SET", help="only these sets")
    parser.add_argument("--repeats", type=int, default=2, help="processes for each case and number of threads (default 2)")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write the training sets into this folder, and stop")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "THREADS"), help="measure only this pair, in this process")
    return parser.parse_args()


def measure(name: str, threads: int, data: Path) -> Result:
    """Time the fits of a case in this process, which must not have imported a numerical library yet."""
    use_threads(threads)
    case = CASES[name]
    return fit(Task(OURS, case.layout, case, str(data.resolve()), threads, fits=FITS, seconds=SECONDS))


def pack_sets(cases: list[Case], data: Path, folder: Path) -> None:
    """Write the training set of each case that is not generated."""
    from .sets import pack, problem

    folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        if case.set not in GENERATED:
            path = folder / f"{case.set}.npz"
            pack(problem(case, data), path)
            print(f"{path}: {path.stat().st_size / 1e6:.2f} MB")


def report(cases: list[Case], options: argparse.Namespace) -> None:
    """Print the seconds of each case, how many times as fast each number of threads is as the first, and the means."""
    first, *others = options.threads
    titles = [*(f"{threads} thr. s" for threads in options.threads), *(f"{first} → {threads}" for threads in others)]
    print(f"{'case':20}", *(f"{title:>10}" for title in titles), flush=True)
    ratios: dict[int, list[float]] = {threads: [] for threads in others}
    for case in cases:
        times = times_of(case, options)
        for threads in others:
            ratios[threads].append(times[first] / times[threads])
        cells = [*(f"{seconds:10.4g}" for seconds in times.values()), *(f"{ratios[threads][-1]:10.3g}" for threads in others)]
        print(f"{case.name:20}", *cells, flush=True)
    for words, summary in (("geometric mean", geometric_mean), ("smallest", min)):
        print(f"{words:20}", *(" " * 10 for _ in options.threads), *(f"{summary(values):10.3g}" for values in ratios.values()))


def times_of(case: Case, options: argparse.Namespace) -> Times:
    """The fastest fit for each number of threads."""
    times: Times = {}
    for _ in range(options.repeats):
        for threads in options.threads:
            try:
                run = in_fresh_process(MODULE, "--one", case.name, str(threads), "--data", str(options.data.resolve()))
            except subprocess.CalledProcessError as error:
                sys.exit(f"{case.name}, {threads} threads:\n{error.stderr}")
            times[threads] = min(run["fit"], times.get(threads, run["fit"]))
    return times


if __name__ == "__main__":
    main()
