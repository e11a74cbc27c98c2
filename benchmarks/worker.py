"""The work of a fresh process: ``measure`` one contestant on one problem, ``judge`` the model that it saved, or time its ``fit``.

    python -m benchmarks.worker measure '{"contestant": …}'      # a Task as JSON; prints what was measured as JSON

The cores are chosen before any numerical library is imported, since thread pools size themselves at import.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from .cases import Case

EPSILON = 0.1  # epsilon of regression, for standardised targets
FITS, FIT_SECONDS = 3, 8.0  # fits per process, as long as they take less: the first one waits for memory
CALL_SECONDS = 1.0  # calls are repeated within a process for this long
TIME_LIMIT = 900.0  # seconds after which the process of a fit ends


@dataclass(frozen=True)
class Task:
    contestant: str
    layout: str
    case: Case
    data: str | None
    threads: int
    fits: int = 1  # at most so many in a process, as long as they take less than ``seconds``
    predicts: int = 1
    seconds: float = CALL_SECONDS
    limit: float = TIME_LIMIT
    model: str = ""  # the file for the model, which ``fit`` does not write

    @property
    def folder(self) -> Path | None:
        return None if self.data is None else Path(self.data)

    def parameters(self, C: float, gamma: float) -> dict[str, float]:
        """The parameters, which have the same names in every library: nu, or C (and for regression epsilon)."""
        price = {"C": C} if self.case.nu is None else {"nu": self.case.nu}
        return price | {"gamma": gamma} | ({"epsilon": EPSILON} if self.case.machine == "SVR" else {})

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        values = json.loads(text)
        return cls(**values | {"case": Case(**values["case"])})


def keep_to_cores(threads: int) -> None:
    """Restrict this process to the first cores: affinity binds TBB and OpenMP, environment variables bind BLAS libraries."""
    use_threads(threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def use_threads(threads: int) -> None:
    """Let OpenMP and the BLAS libraries start so many threads, on whatever cores the system chooses."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)


def fit(task: Task) -> dict[str, Any]:
    """Time only the fit, after a warm-up."""
    from .contestants import CONTESTANTS
    from .sets import problem

    contestant = CONTESTANTS[task.contestant]
    warm_up(contestant, task)
    given = problem(task.case, task.folder)
    machine, X = ready_to_fit(contestant, task, given)
    taken = seconds_of_fits(machine, X, given.y, task)
    return {"fit": min(taken), "fits": len(taken), "support_vectors": len(machine.support_)}


def measure(task: Task) -> dict[str, Any]:
    """Time fit and predict after a warm-up on a small problem of the same kind, and save the model's duals."""
    import numpy as np
    from scipy.sparse import issparse

    from .contestants import CONTESTANTS, OURS
    from .limit import limit_of
    from .sets import problem

    contestant = CONTESTANTS[task.contestant]
    warm_up(contestant, task)
    memory_before = resident_megabytes()

    given = problem(task.case, task.folder)
    machine, X = ready_to_fit(contestant, task, given)
    X_test = contestant.takes(given.X_test, task.layout)
    data_megabytes = (bytes_of(X) + bytes_of(X_test)) / 1e6
    watched: list[tuple[float, float]] = []  # what the progress bar of the last fit showed: seconds and share of the work done

    def watch(progress: Any) -> None:
        if watched and progress.seconds < watched[-1][0]:
            watched.clear()
        watched.append((progress.seconds, progress.fraction))

    if task.contestant == OURS and task.case.group != "small":
        machine.set_params(callbacks=[watch])

    reset_peak()
    fits = seconds_of_fits(machine, X, given.y, task)
    peak = peak_megabytes()
    predict = seconds_of(lambda: machine.predict(X_test), task.predicts, task.seconds)
    measured: dict[str, Any] = {
        "fit": min(fits),
        "fits": len(fits),
        "predict": min(predict),
        "score": score(task.case.machine, machine.predict(X_test), given.y_test),
        "support_vectors": len(machine.support_),
        "peak_megabytes": peak,
        "own_megabytes": peak - memory_before,
        "data_megabytes": data_megabytes,
    }
    if task.contestant == OURS:
        measured["limit"] = limit_of(given.X, machine.support_, given.gamma, task.threads)
        measured["certified_gap"] = float(machine.certificate_.relative_gap)
        measured["certificate_share"] = machine.certificate_.seconds / machine.fit_seconds_
        measured["status"] = str(machine.status_)
        if watched:
            seconds, share = next(moment for moment in watched if moment[1] >= 0.5)
            measured["forecast"] = seconds / share / machine.fit_seconds_
    dual_coef = machine.dual_coef_.toarray() if issparse(machine.dual_coef_) else machine.dual_coef_
    np.savez(task.model, support=machine.support_, n_support=machine.n_support_, dual_coef=dual_coef)
    return measured


def ready_to_fit(contestant: Any, task: Task, given: Any) -> tuple[Any, Any]:
    """The machine of this task, and the samples in the form that the contestant gets."""
    X = contestant.takes(given.X, task.layout)
    machine = contestant.machine(task.case.machine, task.case.cache_megabytes, **task.parameters(given.C, given.gamma))
    if hasattr(machine, "prepare"):
        machine.prepare(X, given.y)
    return machine, X


def seconds_of_fits(machine: Any, X: Any, y: Any, task: Task) -> list[float]:
    """The duration of each fit; the process ends if one exceeds the time limit."""

    def fit() -> None:
        end_process_after(task.limit)
        machine.fit(X, y)
        end_process_after(0)

    return seconds_of(fit, task.fits, task.seconds)


def judge(task: Task) -> dict[str, Any]:
    """The true gap of the model that ``measure`` saved."""
    import numpy as np

    from .sets import problem
    from .truth import Duals, truth_about

    given = problem(task.case, task.folder)
    with np.load(task.model) as saved:
        duals = Duals(saved["support"], saved["n_support"], saved["dual_coef"])
    truth = truth_about(task.case.machine, given.X, given.y, duals, **task.parameters(given.C, given.gamma))
    return {
        "primal": truth.primal,
        "dual": truth.dual,
        "true_gap": truth.relative_gap,
        "box_violation": truth.box_violation,
        "equality_violation": truth.equality_violation,
    }


def warm_up(contestant: Any, task: Task) -> None:
    """Pay for imports, thread pools and first calls on 300 samples of three classes or with targets, in the same dtype and
    layout. (NuSVC gets two classes: LIBSVM's Python interface has no room for the decisions of more.)"""
    import numpy as np
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    X = contestant.takes(csr_matrix(X) if task.layout == "csr" else X, task.layout)
    y = rng.normal(size=300) if task.case.machine == "SVR" else np.arange(300) % (2 if task.case.machine == "NuSVC" else 3)
    machine = contestant.machine(task.case.machine, None, **task.parameters(C=1.0, gamma=0.1))
    if hasattr(machine, "prepare"):
        machine.prepare(X, y)
    machine.fit(X, y).predict(X)


def score(machine: str, answers: Any, truth: Any) -> float:
    """The score: accuracy for classes, R² for regression, the share of inliers for a one-class machine."""
    import numpy as np

    if machine == "OneClassSVM":
        return float(np.mean(answers == 1))
    if machine == "SVR":
        return float(1.0 - np.mean((answers - truth) ** 2) / np.var(truth))
    return float(np.mean(answers == truth))


def seconds_of(call: Callable[[], Any], most: int, seconds: float) -> list[float]:
    """The duration of each call: ``most`` calls, fewer when they are slow."""
    taken: list[float] = []
    while len(taken) < most and sum(taken) <= seconds:
        start = perf_counter()
        call()
        taken.append(perf_counter() - start)
    return taken


def end_process_after(seconds: float) -> None:
    """Let SIGALRM end this process, whatever native code it is in; 0 cancels that."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def bytes_of(X: Any) -> int:
    return sum(part.nbytes for part in ((X,) if hasattr(X, "nbytes") else (X.data, X.indices, X.indptr)))


def resident_megabytes() -> float:
    return memory_line("VmRSS")


def peak_megabytes() -> float:
    return memory_line("VmHWM")


def memory_line(key: str) -> float:
    """A line of /proc/self/status in MB; not a number where the system has no such file."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    return float(status.partition(f"{key}:")[2].split()[0]) * 1024 / 1e6


def reset_peak() -> None:
    """Let the peak start from what is resident now, so that loading and warming up are not counted."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    verb, task_json = sys.argv[1:]
    task = Task.from_json(task_json)
    keep_to_cores(task.threads)
    print(json.dumps({"measure": measure, "judge": judge, "fit": fit}[verb](task)))
