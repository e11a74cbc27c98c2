"""The command line: python -m fuzz [files | faults] ..."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

#: Threads of each process: a fixed number, so that a problem runs the same way with any number of processes.
THREADS = "2"


def main() -> int:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, THREADS)  # before NumPy is imported, here and in the workers
    options = _parse(sys.argv[1:])
    if options.part == "files":
        from . import files

        return files.run(options.problems or 2000, options.seconds, options.seed, options.first, options.jobs)
    if options.part == "faults":
        from . import faults

        return faults.run(options.seed, options.only)
    from .runner import Options, run

    return run(
        Options(
            problems=None if options.seconds is not None else options.problems or 1000,
            seconds=options.seconds,
            seed=options.seed,
            first=options.first,
            backend=options.backend,
            machines=options.machines,
            jobs=options.jobs,
            examples=options.examples,
            json=options.json,
        )
    )


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Give random problems to the library and judge its answers."
    )
    parser.add_argument(
        "part",
        nargs="?",
        choices=("problems", "files", "faults"),
        default="problems",
        help="what to run (default: problems)",
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--problems", type=int, help="number of problems (default: 1000; files: 2000)")
    amount.add_argument("--seconds", type=float, help="time to run for, instead of a number of problems")
    parser.add_argument("--seed", type=int, default=0, help="seed of all problems (default: 0)")
    parser.add_argument(
        "--from", dest="first", type=int, default=0, metavar="NUMBER", help="number of the first problem (default: 0)"
    )
    parser.add_argument(
        "--machines",
        choices=("kernel", "linear"),
        default="kernel",
        help="kernel machines and searches, or LinearSVC, LinearSVR and LinearOneClassSVM (default: kernel)",
    )
    parser.add_argument("--backend", default="native", help="backend of the library: native, reference, ... (default: native)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default: 2)")
    parser.add_argument(
        "--shrink",
        dest="examples",
        type=int,
        default=8,
        metavar="COUNT",
        help="number of kinds of finding to show an example of (default: 8)",
    )
    parser.add_argument("--only", help="faults: run only scenarios whose name contains this text")
    parser.add_argument("--json", type=Path, help="file to write the table and all findings to")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
