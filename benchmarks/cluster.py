"""Machines on a Dask cluster of processes against one process: ``python -m benchmarks.cluster COMMAND --data DIR``.

    equality    dual values and predictions, for several numbers of partitions, and with shuffled rows
    cost        seconds against those of one process with as many threads, and the bytes that travelled
    memory      four workers train on a set that is twice as large as what a process may hold besides its libraries
    faults      fits in each of which a worker is killed at a random moment
    linear      a linear machine on rows that no worker keeps: they are made anew in each pass
    model       a model of the cost, fitted to some sizes, checked on others, and taken to clusters that are not here

A bar that is not met is printed with a cross, and the command ends with status 1. Workers have one thread each. Without a data
folder, generated sets stand in.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Case
from .sets import problem

EQUALITY = ("a9a", "ijcnn1", "magic", "electricity", "covtype", "cadata", "usps")
BUNDLED = ("gaussians", "moons", "friedman", "blobs")
PARTITIONS = (1, 2, 4, 7)
GAP_TOL, MOST_DIFFERENCE = 1e-6, 1e-6  # of equality: the tolerance, and the relative difference of dual values
LONG, RATIO_IF_LONG, RATIO, ALLOWANCE = 10.0, 1.3, 1.6, 1.0  # of cost: seconds from which a fit is long, and the bars
MOST_TRAFFIC = 1.5  # of cost: bytes sent, as a multiple of the rows of working sets and the summaries
MEMORY_LIMIT = 1_000_000_000  # of memory: bytes that a process may hold besides its libraries; X has twice as many
FAULTS = 20
TARGET_ROWS, TARGET_WORKERS = (10**7, 10**8), (10, 100, 1000)  # of model


@contextmanager
def workers(count: int, **options: Any) -> Iterator[tuple[Any, list[subprocess.Popen[bytes]]]]:
    """A client, and its workers: processes that nobody starts again when they are killed."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=0, processes=False, protocol="tcp://", dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny", "--no-dashboard"]
        command += ["--nthreads", "1", *(f"--{name.replace('_', '-')}={value}" for name, value in options.items())]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": _one_thread()}
        processes = [subprocess.Popen(command, **quiet) for _ in range(count)]  # type: ignore[call-overload]
        try:
            client.wait_for_workers(count)
            client.run(_load_library)  # so that no fit waits for imports
            yield client, processes
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _one_thread() -> dict[str, str]:
    import os

    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    memory = ("TARGET", "SPILL", "PAUSE")  # a worker near its limit neither writes to disk nor waits: its peak is to be seen
    trim = {"MALLOC_TRIM_THRESHOLD_": "65536"}  # the setting that a Dask nanny gives its worker; these workers have none
    return {**os.environ, **threads, **trim, **{f"DASK_DISTRIBUTED__WORKER__MEMORY__{what}": "False" for what in memory}}


def _load_library() -> None:
    import maxmargin.cluster  # noqa: F401


def parted(X: Any, parts: int) -> Any:
    """A Dask array of so many row blocks, each from a task of its own, so that it can be computed again."""
    import dask
    import dask.array as da

    pieces = np.array_split(np.arange(X.shape[0]), parts)
    blocks = [dask.delayed(X[rows], name=f"rows-{time.time_ns()}-{k}", traverse=False) for k, rows in enumerate(pieces)]
    return da.concatenate([da.from_delayed(b, (len(r), *X.shape[1:]), X.dtype) for b, r in zip(blocks, pieces, strict=True)])


def machine(name: str, data: Path | None, n: int | None, **options: Any) -> tuple[Any, Any, Any]:
    """An estimator with the settings of a set, and the first n samples of the set."""
    from maxmargin import SVC, SVR

    found = problem(Case("cluster", name), data)
    regression = np.asarray(found.y).dtype.kind == "f" and len(np.unique(found.y[:200])) > 20
    estimator = (SVR if regression else SVC)(C=found.C, gamma=found.gamma, **options)
    return estimator, found.X[:n], found.y[:n]


def verdict(met: bool, text: str) -> bool:
    print(("✓ " if met else "✗ ") + text, flush=True)
    return met


def decisions(model: Any, X: Any) -> Any:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def equality(arguments: argparse.Namespace) -> bool:
    """The values are those of an audit, which computes them in float64 at all samples; a certificate may leave out samples whose
    share of the gap is zero, and then bounds the error of its dual value."""
    from maxmargin import audit

    met = []
    with workers(arguments.workers):
        for name in arguments.sets or (EQUALITY if arguments.data else BUNDLED):
            estimator, X, y = machine(name, arguments.data, arguments.samples, gap_tol=GAP_TOL)
            here = estimator.fit(X, y)
            first = audit(here, X, y).certificate
            runs = [(f"{parts} partitions", np.arange(X.shape[0]), parts) for parts in PARTITIONS]
            runs.append(("4 partitions, shuffled", np.random.default_rng(0).permutation(X.shape[0]), 4))
            for what, order, parts in runs:
                there = type(estimator)(**estimator.get_params()).fit(parted(X[order], parts), parted(y[order], parts))
                second = audit(there, X[order], y[order]).certificate
                difference, slack = abs(first.dual - second.dual), max(first.gap, second.gap)
                away = np.abs(decisions(here, X) - decisions(there, X)).max()
                met.append(
                    verdict(
                        there.status_.converged and difference <= min(slack, MOST_DIFFERENCE * abs(first.dual)),
                        f"{name}, {what}: dual values differ by {difference / abs(first.dual):.1e} (relative), at most "
                        f"{slack / abs(first.dual):.1e}; decisions by {away:.1e}",
                    )
                )
    return all(met)


def cost(arguments: argparse.Namespace) -> bool:
    met = []
    for name in arguments.sets or (("covtype", "a9a", "ijcnn1") if arguments.data else ("gaussians", "moons")):
        estimator, X, y = machine(name, arguments.data, arguments.samples)
        code = "import sys; from benchmarks.cluster import one_process; one_process(*sys.argv[1:])"
        words = [name, str(arguments.data or ""), str(arguments.samples or ""), str(arguments.workers)]
        with workers(arguments.workers):
            Xd, yd = parted(X, arguments.workers).persist(), parted(y, arguments.workers)
            one, many = [], []
            for _ in range(arguments.repeats):
                done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
                one.append(float(done.stdout.split()[-1]))
                begun = time.perf_counter()
                there = type(estimator)(**estimator.get_params()).fit(Xd, yd)
                many.append(time.perf_counter() - begun)
        here, seconds, traffic = min(one), min(many), there.cluster_
        bar = RATIO_IF_LONG * here if here >= LONG else RATIO * here + ALLOWANCE
        where = ", ".join(f"{what} {spent:.2f}" for what, spent in traffic.summary(there.fit_seconds_).items())
        met.append(verdict(seconds <= bar, f"{name}: {seconds:.2f} s, one process {here:.2f} s (bar {bar:.2f} s); {where}"))
        rows = traffic.received["take"] + traffic.received.get("rows", 0)
        summaries = sum(traffic.received[what] for what in ("place", "move", "survey", "correct") if what in traffic.received)
        useful = rows * (1 + arguments.workers) + summaries  # a row comes here once, and goes to each worker
        text = f"{name}: {traffic.bytes / 1e6:.1f} MB in {traffic.rounds} rounds; rows and summaries are {useful / 1e6:.1f} MB"
        met.append(verdict(traffic.bytes <= MOST_TRAFFIC * useful, text))
    return all(met)


def one_process(name: str, data: str, samples: str, threads: str) -> None:
    """Print the seconds of a fit in this process."""
    from .worker import keep_to_cores

    keep_to_cores(int(threads))
    estimator, X, y = machine(name, Path(data) if data else None, int(samples) if samples else None)
    estimator.fit(X[:500], y[:500])
    begun = time.perf_counter()
    estimator.fit(X, y)
    print(time.perf_counter() - begun)


def memory(arguments: argparse.Namespace) -> bool:
    import dask
    import dask.array as da

    from maxmargin import SVC

    limit, count, width, libraries = arguments.limit, 4, arguments.limit // 125_000, _peak()
    rows = 2 * limit // (8 * width)
    sizes = [len(part) for part in np.array_split(np.arange(rows), count)]
    load = dask.delayed(_generated, pure=False)
    blocks = [da.from_delayed(load(k, n, width), (n, width), np.float64) for k, n in enumerate(sizes)]
    y = np.concatenate([_labels(k, n) for k, n in enumerate(sizes)])
    with workers(count, memory_limit=limit + libraries) as (client, _):
        model = SVC(C=1.0, gamma=1.0 / width, cache_size=limit / 8e6).fit(da.concatenate(blocks), y)
        peaks = client.run(_peak)
    peaks["this process"] = _peak()
    print(f"{rows} x {width}: X has {8 * rows * width / 1e6:.0f} MB; {len(model.support_)} support vectors")
    most = f"{limit / 1e6:.0f} MB and {libraries / 1e6:.0f} for libraries"
    met = [verdict(peak <= limit + libraries, f"{where}: {peak / 1e6:.0f} MB of {most}") for where, peak in peaks.items()]
    return all([*met, verdict(model.status_.converged, f"{model.status_.name}, gap {model.certificate_.relative_gap:.1e}")])


def _generated(number: int, n: int, width: int) -> Any:
    X = np.random.default_rng(number).standard_normal((n, width))
    X[:, :50] += 20.0 * _labels(number, n)[:, None]  # a wide margin, so that the time goes into few passes
    return X


def _labels(number: int, n: int) -> Any:
    return np.where(np.random.default_rng((number, 1)).random(n) < 0.5, 1.0, -1.0)


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def faults(arguments: argparse.Namespace) -> bool:
    name = (arguments.sets or ["magic" if arguments.data else "gaussians"])[0]
    estimator, X, y = machine(name, arguments.data, arguments.samples, gap_tol=GAP_TOL)
    here, rng, met, seconds = estimator.fit(X, y), random.Random(arguments.seed), [], 0.0
    for number in range(arguments.fits):
        with workers(arguments.workers) as (client, processes):
            Xd, yd = parted(X, 2 * arguments.workers), parted(y, 2 * arguments.workers)
            if not seconds:
                begun = time.perf_counter()
                type(estimator)(**estimator.get_params()).fit(Xd, yd)
                seconds = time.perf_counter() - begun
            moment, victim = rng.random() * seconds, rng.choice(processes)
            killer = threading.Timer(moment, victim.kill)
            killer.start()
            there = type(estimator)(**estimator.get_params()).fit(Xd, yd)
            killer.cancel()
            left = len(client.nthreads())
        first, second = here.certificate_, there.certificate_
        slack = max(first.gap + first.value_error, second.gap + second.value_error)
        met.append(
            verdict(
                there.status_.converged and abs(first.dual - second.dual) <= slack,
                f"fit {number}: worker killed after {moment:.2f} s, {left} left; {there.status_.name}, dual values differ by "
                f"{abs(first.dual - second.dual):.1e}, at most {slack:.1e}",
            )
        )
    return all(met)


def linear(arguments: argparse.Namespace) -> bool:
    import dask
    import dask.array as da

    from maxmargin import LinearSVC

    rows, width, height = arguments.samples or 2_000_000, 100, 100_000
    sizes = [min(height, rows - first) for first in range(0, rows, height)]
    load, label = dask.delayed(_many_rows, pure=False), dask.delayed(_many_labels, pure=False)
    blocks = [load(k, n, width) for k, n in enumerate(sizes)]
    X = da.concatenate([da.from_delayed(block, (n, width), np.float32) for block, n in zip(blocks, sizes, strict=True)])
    y = da.concatenate(
        [da.from_delayed(label(k, block), (n,), np.float64) for k, (block, n) in enumerate(zip(blocks, sizes, strict=True))]
    )
    with workers(arguments.workers, memory_limit=arguments.limit) as (client, _):
        begun = time.perf_counter()
        there = LinearSVC(loss=arguments.loss).fit(X, y)
        seconds, peaks = time.perf_counter() - begun, client.run(_peak)
    traffic = there.cluster_
    where = ", ".join(f"{what} {spent:.1f}" for what, spent in traffic.seconds.items())
    print(f"{rows} x {width}, {X.nbytes / 1e9:.1f} GB: {seconds:.1f} s in {there.n_passes_:.0f} passes ({where})")
    print(f"{traffic.bytes / 1e6:.1f} MB came here or were sent; peaks {', '.join(f'{p / 1e6:.0f} MB' for p in peaks.values())}")
    met = [verdict(peak <= arguments.limit, f"{where}: {peak / 1e6:.0f} MB") for where, peak in peaks.items()]
    met.append(verdict(there.status_.converged, f"{there.status_.name}, relative gap {there.certificate_.relative_gap:.1e}"))
    return all(met)


def _many_rows(number: int, n: int, width: int) -> Any:
    return np.random.default_rng(number).standard_normal((n, width), dtype=np.float32)


def _many_labels(number: int, X: Any) -> Any:
    """Labels of a plane that all columns take part in; noise turns one in six around."""
    plane = np.linspace(-1.0, 1.0, X.shape[1], dtype=np.float32)
    noise = np.random.default_rng((number, 1)).standard_normal(len(X)) * 0.6 * np.linalg.norm(plane)
    return np.where(X @ plane + noise > 0.0, 1.0, -1.0)


def model(arguments: argparse.Namespace) -> bool:
    """Seconds of the workers = a (entries of the kernel matrix) / workers, of waiting = b rounds + c bytes, of the solve here = d
    (support vectors)^2; and power laws in n for entries, rounds, bytes and support vectors."""
    from scipy.optimize import nnls

    name = (arguments.sets or ["covtype" if arguments.data else "gaussians"])[0]
    most = arguments.samples or len(machine(name, arguments.data, None)[2])
    sizes = [int(share * most) for share in (0.125, 0.25, 0.5, 1.0)]
    sums, spent = [], []
    with workers(arguments.workers):
        for n in sizes:
            estimator, X, y = machine(name, arguments.data, n)
            Xd, yd = parted(X, arguments.workers).persist(), parted(y, arguments.workers)
            there = min(
                (type(estimator)(**estimator.get_params()).fit(Xd, yd) for _ in range(2)), key=lambda one: one.fit_seconds_
            )
            traffic = there.cluster_
            sums.append((n * traffic.rows / arguments.workers, traffic.rounds, traffic.bytes, len(there.support_) ** 2))
            spent.append(list(traffic.summary(there.fit_seconds_).values()))
            print(
                f"n = {n}: {there.fit_seconds_:.2f} s (workers, waiting, here {np.round(spent[-1], 2)}), {len(there.support_)} SV"
            )
    features, seconds = np.array(sums, dtype=float), np.array(spent)
    fitted, kinds = [0, 1, 3], ([0], [1, 2], [3])  # the third size is left for the check
    prices = np.zeros(4)
    for kind, measured in zip(kinds, seconds.T, strict=True):
        scale = features[:, kind].max(axis=0)
        relative = features[np.ix_(fitted, kind)] / scale / measured[fitted, None]
        prices[kind] = nnls(relative, np.ones(len(fitted)))[0] / scale
    print("seconds per entry, round, byte, squared support vector:", ", ".join(f"{price:.2g}" for price in prices))
    slopes = [np.polyfit(np.log(sizes), np.log(column), 1) for column in features.T]
    print("growth with n of entries, rounds, bytes, squared support vectors:", ", ".join(f"{slope[0]:.2f}" for slope in slopes))
    for n in TARGET_ROWS:
        for count in TARGET_WORKERS:
            entries, rounds, moved, solve = (float(np.exp(np.polyval(slope, np.log(n)))) for slope in slopes)
            ratio = arguments.workers / count
            hours = prices * (entries * ratio, rounds, moved / ratio, solve) / 3600
            parts = ", ".join(
                f"{what} {own:.3g}" for what, own in zip(("passes", "rounds", "bytes", "solve here"), hours, strict=True)
            )
            print(f"n = {n:.0e}, {count} workers: {hours.sum():.3g} h ({parts})")
    predicted, found = float(features[2] @ prices), float(seconds[2].sum())
    return verdict(0.5 <= predicted / found <= 2.0, f"n = {sizes[2]}, not fitted to: {found:.2f} s, predicted {predicted:.2f} s")


COMMANDS = {"equality": equality, "cost": cost, "memory": memory, "faults": faults, "linear": linear, "model": model}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--sets", nargs="+", help="names of data sets")
    parser.add_argument("--samples", type=int, help="the first so many samples")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3, help="of cost: the fastest counts")
    parser.add_argument("--fits", type=int, default=FAULTS, help="of faults")
    parser.add_argument("--seed", type=int, default=0, help="of faults: the moments")
    parser.add_argument(
        "--limit",
        type=int,
        default=MEMORY_LIMIT,
        help="of memory and linear: bytes that a process may hold (of memory: besides its libraries)",
    )
    parser.add_argument("--loss", choices=("hinge", "squared_hinge"), default="squared_hinge", help="of linear")
    arguments = parser.parse_args()
    sys.exit(0 if COMMANDS[arguments.command](arguments) else 1)


if __name__ == "__main__":
    main()
