"""Faults around a fit: forks, threads, Ctrl-C, little memory, full disks, deadlines, and invalid input.

Each scenario is a function of a random generator that returns a sentence about what is wrong, or None. It runs in a
worker process of its own, so that one that hangs or crashes is a finding and nothing more."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from .invalid import INVALID
from .pool import Lost, Pool, restart_clock

LIMIT = 120.0  # seconds for one scenario
PATIENCE = 30.0  # seconds for one child process
INVALID_LIMIT = 15.0  # seconds for one call with invalid input
CALLS_PER_INVALID_INPUT = 2  # calls with each kind of invalid input
LARGE = 3000  # samples: enough for the library to decompose the problem

Scenario = Callable[[Generator], str | None]


def training_set(rng: Generator, n: int, d: int = 5) -> tuple[Any, Any]:
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


# --- forks and threads -----------------------------------------------------------------------------------------------


def fit_in_a_forked_child(rng: Generator) -> str | None:
    """Fit in a forked child: a fit in the parent has started threads, which the child does not have and must not wait for."""
    import maxmargin

    X, y = training_set(rng, LARGE)
    backend = str(rng.choice(["native", "reference"], p=[0.8, 0.2]))
    n = LARGE if backend == "native" else 300
    maxmargin.SVC(backend=backend).fit(X[:n], y[:n])
    child = os.fork()
    if child == 0:
        try:
            model = maxmargin.SVC(C=2.0, backend=backend).fit(X[:n], y[:n])
            model.predict(X[:10])
            os._exit(0 if model.status_.converged else 3)
        except BaseException:
            os._exit(4)
    return _wait_for(child, f"the child of a fork ({backend})")


def _wait_for(child: int, who: str) -> str | None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 else f"{who} ended with code {code}"
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"{who} hung: no answer within {PATIENCE:.0f} s"


def fits_in_several_threads(rng: Generator) -> str | None:
    """Fits in several threads at once give the same results as one after the other."""
    import maxmargin

    sets = [training_set(rng, int(n)) for n in rng.integers(50, 1500, size=4)]

    def fit(data: tuple[Any, Any]) -> Any:
        return maxmargin.SVC(C=1.0).fit(*data)

    alone = [fit(data) for data in sets]
    together: list[Any] = [None] * len(sets)

    def work(k: int) -> None:
        try:
            together[k] = fit(sets[k])
        except BaseException as error:
            together[k] = error

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(len(sets))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for data, one, other in zip(sets, alone, together, strict=True):
        if other is None:
            return "a fit in a thread hung"
        if isinstance(other, BaseException):
            return f"a fit in a thread raised {type(other).__name__}: {other}"
        if not other.status_.converged:
            return f"a fit in a thread ended with {other.status_.name}, alone it converged"
        off = float(np.abs(one.decision_function(data[0]) - other.decision_function(data[0])).max())
        if off > 1e-2:
            return f"decisions of a fit in a thread are off by {off:.3g}"
    return None


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------

INTERRUPTIBLE = {
    "SVC": "maxmargin.SVC(C=1e4, gamma=5.0, tol=1e-6)",
    "SVC linear": "maxmargin.SVC(kernel='linear', C=1e3)",
    "SVC lbfgs": "maxmargin.SVC(kernel='linear', loss='squared_hinge', C=1e6, tol=1e-8)",
    "SVR": "maxmargin.SVR(C=1e4, gamma=5.0)",
    "NuSVC": "maxmargin.NuSVC(nu=0.1, gamma=5.0)",
    "OneClassSVM": "maxmargin.OneClassSVM(nu=0.3)",
    "KernelRegressor": "maxmargin.KernelRegressor(alpha=1e-6)",
    "KernelRegressor cg": "maxmargin.KernelRegressor(alpha=1e-6, solver='cg')",
    "SVCCV": "maxmargin.SVCCV(Cs=5, gammas=5)",
    "smo-simple": "maxmargin.SVC(solver='smo-simple', C=100.0)",
    "qp": "maxmargin.SVC(solver='qp')",
    "crammer_singer": "maxmargin.SVC(multi_class='crammer_singer', C=100.0)",
    "loo": "maxmargin.SVC(probability='loo', C=100.0)",
}

_INTERRUPTED = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, maxmargin
rng = np.random.default_rng({seed})
X = rng.normal(size=({n}, 5))
y = (X[:, 0] + 0.5 * rng.normal(size={n}) > 0).astype(int)
model = {model}
print("ready", flush=True)
try:
    model.fit(X, y)
    print("finished", flush=True)
except KeyboardInterrupt:
    kept = hasattr(model, "certificate_") if not type(model).__name__.endswith("CV") else hasattr(model, "cv_results_")
    if kept and hasattr(model, "certificate_"):
        assert not np.isnan(model.certificate_.gap)
        model.predict(X[:5])
    print("kept" if kept else "lost", flush=True)
"""


def interrupt_a_fit(rng: Generator) -> str | None:
    """SIGINT at a random moment: the fit ends soon, with KeyboardInterrupt, and the process is sound afterwards."""
    name = str(rng.choice(list(INTERRUPTIBLE)))
    n = 400 if name in ("smo-simple", "qp") else LARGE
    code = _INTERRUPTED.format(seed=int(rng.integers(10**6)), n=n, model=INTERRUPTIBLE[name])
    moment = float(10.0 ** rng.uniform(-3, 0.5))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(moment)
        child.send_signal(signal.SIGINT)
        started = time.monotonic()
        try:
            _, err = child.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            return f"{name}: hung after SIGINT at {moment:.3g} s"
    waited = time.monotonic() - started
    where = f"{name}: SIGINT at {moment:.3g} s"
    if child.returncode < 0 and child.returncode != -signal.SIGINT:
        return f"{where}: died of {signal.Signals(-child.returncode).name}"
    if child.returncode != 0 and "KeyboardInterrupt" not in err.strip().splitlines()[-1:]:
        last = (err.strip().splitlines() or [""])[-1]
        if not last.startswith("KeyboardInterrupt"):  # one that hit between two statements of the script is fine
            return f"{where}: exit code {child.returncode}, {last[:200]}"
    if waited > 20.0:
        return f"{where}: went on for {waited:.0f} s"
    return None


# --- little memory ---------------------------------------------------------------------------------------------------

_STARVED = """
import resource, warnings
warnings.simplefilter("ignore")
import numpy as np, maxmargin
rng = np.random.default_rng({seed})
X = rng.normal(size=({n}, 5))
y = (X[:, 0] + 0.5 * rng.normal(size={n}) > 0).astype(int)
for kind in (maxmargin.SVC, maxmargin.KernelRegressor):  # threads and buffers of BLAS, without which these end the process
    kind().fit(X[:1200], y[:1200])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room}, used + {room}))
try:
    model = {model}.fit(X, y)
    print("finished", model.status_.name)
except MemoryError as error:
    print("MemoryError", str(error)[:100])
"""


def fit_with_little_memory(rng: Generator) -> str | None:
    """A fit with a limit on the address space ends with a result or a MemoryError."""
    name = str(rng.choice(["SVC", "SVR", "NuSVC", "OneClassSVM", "KernelRegressor", "SVCCV", "qp", "loo"]))
    n = 1500 if name == "qp" else LARGE
    room = int(10.0 ** rng.uniform(5.5, 8.7))
    code = _STARVED.format(seed=int(rng.integers(10**6)), n=n, room=room, model=INTERRUPTIBLE[name])
    where = f"{name} with {room / 1e6:.3g} MB"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{where}: no answer within {PATIENCE:.0f} s"
    if done.returncode < 0:
        return f"{where}: died of {signal.Signals(-done.returncode).name}: {done.stderr[-150:]!r}"
    if done.returncode != 0:
        return f"{where}: exit code {done.returncode}, {(done.stderr.strip().splitlines() or [''])[-1][:200]}"
    return None


# --- full disks ------------------------------------------------------------------------------------------------------


def write_to_a_full_disk(rng: Generator) -> str | None:
    """Writing to /dev/full, which refuses every byte, ends with one line and exit code 2, without a traceback."""
    with tempfile.TemporaryDirectory() as folder:
        full = Path(folder) / f"full.{rng.choice(['joblib', 'png', 'pdf', 'svg', 'txt'])}"
        full.symlink_to("/dev/full")
        model = Path(folder) / "model.joblib"
        data = Path(folder) / "data.csv"
        X, y = training_set(rng, 40, 3)
        np.savetxt(data, np.column_stack([X, y]), delimiter=",", fmt="%.6g")
        base = [sys.executable, "-m", "maxmargin.cli"]
        commands = {
            "train --save": [*base, "train", str(data), "--no-plot", "--save", str(full)],
            "train --plot": [*base, "train", str(data), "--plot", str(full)],
            "train > stdout": [*base, "train", str(data), "--no-plot"],
            "tune --plot": [*base, "tune", str(data), "--Cs", "2", "--gammas", "2", "--plot", str(full)],
            "predict --output": [*base, "predict", str(model), str(data), "--output", str(full)],
            "predict > stdout": [*base, "predict", str(model), str(data)],
        }
        name = str(rng.choice(list(commands)))
        if "predict" in name:
            subprocess.run([*base, "train", str(data), "--no-plot", "--save", str(model)], capture_output=True, check=True)
        with open("/dev/full" if "stdout" in name else os.devnull, "w") as stdout:
            try:
                done = subprocess.run(commands[name], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return f"{name}: no answer within {PATIENCE:.0f} s"
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("warning: ")]
    if done.returncode <= 0:
        return f"{name} to {full.suffix}: exit code {done.returncode} although nothing could be written"
    if "Traceback" in done.stderr or len(lines) != 1:
        return f"{name} to {full.suffix}: {len(lines)} lines on stderr, the last one {(lines or [''])[-1][:150]!r}"
    return None


def file_size_limit(rng: Generator) -> str | None:
    """A disk that becomes full in the middle of a file ends the command with one line, and no incomplete model is left behind."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "data.csv", Path(folder) / "model.joblib"
        X, y = training_set(rng, 300, 3)
        np.savetxt(data, np.column_stack([X, y]), delimiter=",", fmt="%.6g")

        def limit() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

        command = [sys.executable, "-m", "maxmargin.cli", "train", str(data), "--no-plot", "--save", str(model)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=limit)
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("warning: ")]
        if done.returncode <= 0 or "Traceback" in done.stderr or len(lines) != 1:
            return f"train --save beyond the file size limit: exit code {done.returncode}, {len(lines)} lines on stderr"
        if model.exists():
            return f"train --save beyond the file size limit: {model.stat().st_size} bytes of a model are left behind"
    return None


# --- deadlines -------------------------------------------------------------------------------------------------------


def stop_at_a_deadline(rng: Generator) -> str | None:
    """max_seconds at a random moment of a fit: it ends soon after, with an honest certificate."""
    from .examine import examine
    from .problems import Problem

    X, y = training_set(rng, int(rng.integers(1100, LARGE)))
    name = str(rng.choice(["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "KernelRegressor"]))
    moment = float(10.0 ** rng.uniform(-4, 0))
    params: dict[str, Any] = {"kernel": "rbf", "gamma": float(rng.choice([0.2, 5.0])), "max_seconds": moment}
    if name in ("SVC", "SVR", "NuSVR"):
        params |= {"C": float(rng.choice([1.0, 1e4])), "tol": 1e-6}
    params |= {"alpha": 1e-6} if name == "KernelRegressor" else {}
    target: Any = None if name == "OneClassSVM" else y if name.endswith("SVC") else X[:, 0] + 0.1 * rng.normal(size=len(X))
    verdict = examine(Problem(name, params, X, target), "native")
    if verdict.findings:
        return f"{name}(max_seconds={moment:.3g}): {verdict.findings[0]}"
    if verdict.status == "MAX_SECONDS" and verdict.seconds > moment + 10.0:
        return f"{name}(max_seconds={moment:.3g}): took {verdict.seconds:.1f} s"
    return None


# --- invalid input ---------------------------------------------------------------------------------------------------


def invalid_input(rng: Generator, name: str) -> str | None:
    """Invalid arrays are refused with one clear sentence, not with a crash."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            INVALID[name](rng)
        except (ValueError, TypeError) as error:
            message = str(error).strip()
            return None if message else f"{name}: {type(error).__name__} without a message"
        except Exception as error:
            return f"{name}: {type(error).__name__}: {str(error)[:200]}"
    return f"{name}: accepted"


SCENARIOS: dict[Scenario, int] = {
    fit_in_a_forked_child: 3,
    fits_in_several_threads: 6,
    interrupt_a_fit: 40,
    fit_with_little_memory: 25,
    write_to_a_full_disk: 15,
    file_size_limit: 1,
    stop_at_a_deadline: 25,
}


def run(seed: int, only: str | None) -> int:
    """Run all scenarios, each as often as the table says, one at a time; return the exit status."""
    started, runs, findings = time.perf_counter(), Counter[str](), Counter[str]()
    seen = set[str]()

    def note(name: str, number: int | str, result: Any) -> None:
        runs[name] += 1
        text = f"{result.kind}: {result.text}" if isinstance(result, Lost) else result
        if text is not None:
            findings[name] += 1
            if text not in seen:
                print(f"{name} #{number}: {text}", flush=True)
            seen.add(text)

    if only is None or only in invalid_input.__name__:
        for damages_memory in (False, True):  # a process that may have damaged its memory is not used again
            names = [name for name in INVALID if name.startswith("CSR") == damages_memory]
            tries = [((name, number), (name, seed, number)) for name in names for number in range(CALLS_PER_INVALID_INPUT)]
            with Pool(1, fresh=damages_memory) as pool:
                for (name, _), result in pool.run(examine_invalid, tries):
                    note(invalid_input.__name__, name, result)
    tasks = [
        ((scenario.__name__, number), (scenario, seed, number))
        for scenario, times in SCENARIOS.items()
        if only is None or only in scenario.__name__
        for number in range(times)
    ]
    with Pool(1) as pool:
        for (name, number), result in pool.run(examine_scenario, tasks):
            note(name, number, result)
    print(f"\n{'scenario':<30}{'runs':>8}{'findings':>10}")
    for name, count in runs.items():
        print(f"{name:<30}{count:>8}{findings[name]:>10}")
    print(f"\n{sum(runs.values())} scenarios in {time.perf_counter() - started:.0f} s")
    return 1 if findings else 0


def examine_scenario(scenario: Scenario, seed: int, number: int) -> str | None:
    restart_clock(LIMIT)
    return scenario(np.random.default_rng([seed, number, sum(scenario.__name__.encode())]))


def examine_invalid(name: str, seed: int, number: int) -> str | None:
    restart_clock(INVALID_LIMIT)
    return invalid_input(np.random.default_rng([seed, number]), name)
