"""Peak memory of a linear fit beyond the data, on the large synthetic set of `benchmarks.linear`.

    python -m benchmarks.memory --rows 2000000 --loss hinge squared_hinge

A fit of its own process for each loss. The peak is the largest resident memory while `fit` runs, as the system counts it
(VmHWM, reset before), less the resident memory before; data are the values, columns and row starts of X, and y.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import warnings
from pathlib import Path

from benchmarks.linear import synthetic
from benchmarks.turns import ROOT
from maxmargin import LinearSVC

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # what proc(5) has written to clear_refs for the peak


def resident(name: str) -> int:
    """An entry of the process's status, in bytes: VmRSS is the resident memory, VmHWM its peak."""
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def measure(n_rows: int, loss: str, gap_tol: float, intercept: str | bool) -> None:
    X, y = synthetic(n_rows)
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    warnings.simplefilter("ignore")
    LinearSVC(loss=loss, max_iter=1).fit(X[:1000], y[:1000])  # imports and threads
    gc.collect()
    before = resident("VmRSS")
    CLEAR.write_text(RESET_PEAK)
    model = LinearSVC(loss=loss, gap_tol=gap_tol, fit_intercept=intercept).fit(X, y)
    beyond = resident("VmHWM") - before
    print(
        f"{n_rows:,} rows, {loss:14} by {model.solver_:8} data {data / 1e9:.3f} GB, peak beyond them {beyond / 1e9:.3f} GB: "
        f"{beyond / data:.1%}   ({model.fit_seconds_:.1f} s, relative gap {model.certificate_.relative_gap:.1e})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--loss", nargs="+", choices=("hinge", "squared_hinge"), default=["hinge", "squared_hinge"])
    parser.add_argument("--gap-tol", type=float, default=1e-3)
    parser.add_argument("--regularized", action="store_true", help="with a regularised intercept, as scikit-learn's has")
    chosen = parser.parse_args()
    if len(chosen.loss) == 1:
        measure(chosen.rows, chosen.loss[0], chosen.gap_tol, "regularized" if chosen.regularized else True)
        return
    for loss in chosen.loss:
        own = [sys.executable, "-m", "benchmarks.memory", "--rows", str(chosen.rows), "--loss", loss]
        own += ["--gap-tol", str(chosen.gap_tol), *(["--regularized"] if chosen.regularized else [])]
        subprocess.run(own, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
