"""A card's times: ``python -m benchmarks.card --data folder --json card.jsonl --seconds 120``.

    fits      seconds of a fit, from arrays in the memory of the host to a model there, the best of some; the certified gap; the
              seconds of `predict` on the test set, and its TFLOP/s (two operations for each feature, support vector and row)
    steps     microseconds of a step of the solver, by the number of variables
    passes    TFLOP/s of the fused pass (kernel values times weights, added up): two operations for each feature of a pair
              in float32; three in float64, where differences are squared
    growth    seconds of a fit of the first rows of a set

Each line is printed as soon as it is measured, and appended to the file ``--json``. Measurements that would begin after
``--seconds`` are left out. ``--backends native cuda`` fits the same sets on the processor, too; ``--plot`` draws the growth of
all lines in the file, so that lines of several machines may be in one picture. ``--budget 100`` leaves 100 MB of the card to the
samples, so that larger sets are streamed; ``--backends cuda:all`` uses several cards. Without a card, ``--device cpu`` runs the
same code on torch's CPU device, to test the command.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from maxmargin import SVC, backends
from maxmargin.backends import Limit, Part
from maxmargin.backends.cuda.backend import DeviceBackend, make_cuda_backend
from maxmargin.backends.cuda.packing import pack
from maxmargin.backends.cuda.plain import PlainEngine
from maxmargin.formulations import DualProblem
from maxmargin.kernels import RBF
from maxmargin.samples import DenseSamples

from .cases import Case
from .sets import problem

SETS = ("spambase", "magic", "ijcnn1", "a9a", "mnist-parity", "covtype", "mnist", "covtype-seven")
BUNDLED = ("breast_cancer", "moons", "digits")
SIZES = (20_000, 40_000, 80_000, 160_000, 320_000)
PASSES = ((116_000, 464_809, 54), (8_192, 60_000, 784))  # support vectors, rows, features: covtype's and mnist's
VARIABLES = (4_096, 16_384, 32_768)
STEPS = 30_000
PEAK = 67.0  # TFLOP/s of an H100 or H200 in float32, without tensor cores

Line = dict[str, Any]


def main() -> None:
    options = parse()
    backends.BACKENDS["cuda"] = partial(device_backend, options)
    if options.device == "cuda":
        print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__}), flush=True)
    end = perf_counter() + options.seconds
    for part, name, measure in plan(options):
        if perf_counter() > end:
            print(f"{part} {name}: left out, the time is over", file=sys.stderr, flush=True)
            continue
        line = {"part": part, "name": name} | measure()
        print(json.dumps(line), flush=True)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(line) + "\n")
    if options.plot:
        draw(options.json, options.plot)


def parse() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m benchmarks.card", description=__doc__, formatter_class=formatter)
    parser.add_argument("--data", type=Path, help="folder with load.py and its sets; without it, scikit-learn's own sets")
    parser.add_argument("--parts", nargs="+", choices=("fits", "steps", "passes", "growth"), default=["fits", "steps", "passes"])
    parser.add_argument("--sets", nargs="+", metavar="SET", help=f"default: {' '.join(SETS)}")
    parser.add_argument("--backends", nargs="+", default=["cuda"], help="who fits (default: cuda)")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="ROWS", default=list(SIZES), help="rows, for the growth")
    parser.add_argument("--variables", nargs="+", type=int, default=list(VARIABLES), help="of a tile, for the steps")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the support vectors and rows of the passes")
    parser.add_argument("--repeats", type=int, default=3, help="fits after the first, of which the best counts (default 3)")
    parser.add_argument("--patience", type=float, default=20, help="do not repeat fits slower than this many seconds")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no measurement after so many seconds")
    parser.add_argument("--budget", type=float, metavar="MB", help="memory for samples; sets that need more are streamed")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, help="file to append each line to")
    parser.add_argument("--plot", type=Path, help="draw the growth of all lines in the file --json into this file")
    options = parser.parse_args()
    options.sets = options.sets or list(SETS if options.data else BUNDLED)
    if options.plot and not options.json:
        parser.error("--plot draws the lines of the file --json, which is missing")
    return options


def plan(options: argparse.Namespace) -> Iterator[tuple[str, str, Callable[[], Line]]]:
    """The measurements: part, name, and a function that measures."""
    for part in options.parts:
        if part == "steps":
            for n in options.variables:
                yield part, str(n), partial(steps, n, options)
        elif part == "passes":
            for shape in PASSES:
                sizes = (*(max(1, int(options.scale * count)) for count in shape[:2]), shape[2])
                for dtype in (torch.float32, torch.float64):
                    yield part, "x".join(map(str, sizes)), partial(one_pass, sizes, dtype, options)
        else:
            for name in options.sets:
                for rows in sorted(options.sizes) if part == "growth" else [None]:
                    for backend in options.backends:
                        case = Case("card", name, rows=rows)
                        yield part, name, partial(fits, case, backend, options)


def fits(case: Case, backend: str, options: argparse.Namespace) -> Line:
    given = problem(case, options.data)
    times: list[float] = []
    while len(times) <= options.repeats and max(times, default=0.0) <= options.patience:
        model = SVC(C=given.C, gamma=given.gamma, backend=backend)
        times.append(seconds_of(partial(model.fit, given.X, given.y)))
    line = {
        "backend": backend,
        "rows": given.X.shape[0],
        "features": given.X.shape[1],
        "first": times[0],  # kernels are compiled in it, or read from disk
        "fit": min(times[1:] or times),
        "gap": model.certificate_.relative_gap,
        "violation": model.certificate_.kkt_violation,
        "status": model.status_.name,
        "steps": int(np.sum(model.n_iter_)),
        "support_vectors": len(model.support_),
    }
    if case.rows is None and given.X_test.shape[0]:
        model.predict(given.X_test)
        seconds = best(lambda: model.predict(given.X_test), options)
        operations = 2.0 * given.X.shape[1] * len(model.support_) * given.X_test.shape[0]
        line |= {
            "predict": seconds,
            "predict_tflops": operations / seconds / 1e12,
            "score": model.score(given.X_test, given.y_test),
        }
    return {key: rounded(value) for key, value in line.items()}


def steps(n: int, options: argparse.Namespace) -> Line:
    """Steps of a hinge machine on noisy samples, which are far from the end after `STEPS` of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20)).astype(np.float32)
    side = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] + rng.normal(size=n) > 0, 1.0, -1.0)
    hinge = DualProblem(-side, np.where(side > 0, 0.0, -10.0), np.where(side > 0, 10.0, 0.0))
    backend = device_backend(options)
    tile = backend.gram(RBF(gamma=0.1), DenseSamples(X), np.dtype(np.float32), 0, (0, n)).tile(np.arange(n, dtype=np.int32))
    found = []

    def run() -> None:
        part = Part(hinge, np.zeros(n), hinge.linear.copy())
        found.append(backend.inner._minimise(tile, part, 1e-9, Limit(STEPS)).steps)

    run()  # compiles
    return {"steps": found[0], "microseconds": rounded(1e6 * best(run, options) / max(found[0], 1))}


def one_pass(sizes: tuple[int, int, int], dtype: torch.dtype, options: argparse.Namespace) -> Line:
    n_support, rows, features = sizes
    backend = device_backend(options)
    engine = backend._engine
    some = torch.Generator(engine.device).manual_seed(0)
    support, queries = (
        pack(torch.rand(count, features, generator=some, dtype=dtype, device=engine.device), dtype, None)
        for count in (n_support, rows)
    )
    weights = torch.rand(1, n_support, generator=some, dtype=torch.float64, device=engine.device)

    def run() -> None:
        engine.sums(RBF(gamma=0.1), queries, support, weights)[0, 0].item()  # the host waits for the sums

    run()
    seconds = best(run, options)
    tflops = (2.0 if dtype == torch.float32 else 3.0) * n_support * rows * features / seconds / 1e12
    share = {"share_of_peak": rounded(tflops / PEAK)} if dtype == torch.float32 else {}
    return {"dtype": str(dtype).removeprefix("torch."), "seconds": rounded(seconds), "tflops": rounded(tflops), **share}


def device_backend(options: argparse.Namespace) -> DeviceBackend:
    backend = make_cuda_backend() if options.device == "cuda" else DeviceBackend(PlainEngine(torch.device("cpu")))
    if options.budget is not None:
        backend._engine.budget = 1e6 * options.budget
    return backend


def best(run: Callable[[], object], options: argparse.Namespace) -> float:
    return min(seconds_of(run) for _ in range(max(1, options.repeats)))


def seconds_of(run: Callable[[], object]) -> float:
    begun = perf_counter()
    run()
    return perf_counter() - begun


def rounded(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def draw(lines: Path, path: Path) -> None:
    """Draw seconds over rows, both logarithmic, a curve for each set and backend."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    curves: dict[str, dict[int, float]] = {}
    for line in map(json.loads, lines.read_text().splitlines()):
        if line["part"] == "growth":
            curves.setdefault(f"{line['name']}, {line['backend']}", {})[line["rows"]] = line["fit"]
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, curve in curves.items():
        axes.loglog(*zip(*sorted(curve.items()), strict=True), marker="o", label=name)
    axes.set(xlabel="rows", ylabel="seconds of fit")
    measured = sorted({rows for curve in curves.values() for rows in curve})
    axes.set_xticks(measured, [f"{rows:,}" for rows in measured], rotation=30, horizontalalignment="right")
    axes.xaxis.set_minor_formatter(NullFormatter())  # labels of their own would lie on top of each other
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    main()
