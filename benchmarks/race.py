"""Runs the contestants on one problem, interleaved, each measurement in a fresh process."""

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from .cases import Case
from .contestants import OURS, Contestant
from .turns import in_fresh_process
from .worker import CALL_SECONDS, FIT_SECONDS, FITS, Task

WORKER = "benchmarks.worker"
SMALL_CALLS = 300  # calls per process where one takes less than a millisecond
PREDICT_CALLS = 5
SHORT = 5.0  # seconds that a fit may always take
CLEARLY_SLOWER = 1.5  # a layout this many times slower than the library's fastest one is not repeated


@dataclass(frozen=True)
class Rules:
    """The rules of a race: repeats, time limits and cores."""

    data: Path | None
    threads: int
    repeats: int
    statistic: str
    patience: float
    limit: float
    hopeless: float | None
    unjudged: tuple[str, ...]

    def summarise(self, values: list[float]) -> float:
        return min(values) if self.statistic == "best" else median(values)


@dataclass
class Entry:
    """A contestant with one memory layout, and its measurements so far."""

    contestant: Contestant
    layout: str
    runs: list[dict[str, Any]] = field(default_factory=list)
    truth: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    timed_out: bool = False
    stopped_after: float = 0.0
    seconds: float = 0.0

    @property
    def fastest_fit(self) -> float:
        return min((run["fit"] for run in self.runs), default=float("inf"))


def race(case: Case, contestants: list[Contestant], rules: Rules, folder: Path) -> dict[str, dict[str, Any]]:
    """Run all contestants in turn, ``repeats`` times; those that took longer than ``patience`` stop after the second round.

    The second round is for all: now and then a process runs a hundred times slower than usual, which a single run would not show.

    On a set with many zeros a library takes part with each layout that it accepts; a layout that is clearly slower stops too.
    """
    entries = [Entry(one, layout) for one in contestants for layout in one.layouts_for(case)]
    for round_number in range(rules.repeats):
        for entry in entries:
            if round_number < 2 or goes_on(entry, entries, rules):
                run_once(case, entry, rules, time_limit(entry, entries, rules), folder / "model.npz")
    return {one.name: summary(one, entries, rules) for one in contestants}


def goes_on(entry: Entry, entries: list[Entry], rules: Rules) -> bool:
    fastest = min(other.fastest_fit for other in entries if other.contestant is entry.contestant)
    return not entry.failure and entry.seconds <= rules.patience and entry.fastest_fit <= CLEARLY_SLOWER * fastest


def time_limit(entry: Entry, entries: list[Entry], rules: Rules) -> float:
    """Seconds after which a fit is stopped. That of a peer ends sooner if it can no longer be the fastest one."""
    if rules.hopeless is None or entry.contestant.name == OURS:
        return rules.limit
    fastest = min(other.fastest_fit for other in entries if other.contestant.name != OURS)
    return min(rules.limit, max(SHORT, rules.hopeless * fastest))


def run_once(case: Case, entry: Entry, rules: Rules, limit: float, model: Path) -> None:
    """Measure one entry, and judge the model of its first round."""
    task = task_for(case, entry, rules, limit, model).as_json()
    entry.failure, entry.timed_out = None, False
    start = perf_counter()
    try:
        entry.runs.append(in_fresh_process(WORKER, "measure", task))
        entry.seconds += perf_counter() - start
        if not entry.truth and case.set not in rules.unjudged:
            entry.truth = in_fresh_process(WORKER, "judge", task)
    except subprocess.CalledProcessError as error:
        entry.timed_out = error.returncode == -signal.SIGALRM
        last_words = error.stderr.strip().splitlines()[-1:] or [f"exit status {error.returncode}"]
        entry.failure = f"stopped after {limit:.3g} s" if entry.timed_out else last_words[0]
        entry.stopped_after = limit
    last = entry.runs[-1] if entry.runs else {}
    words = entry.failure or f"fit {last['fit']:.4g} s, predict {last['predict']:.4g} s"
    print(f"{case.name}: {entry.contestant.name} ({entry.layout}): {words}", file=sys.stderr, flush=True)


def task_for(case: Case, entry: Entry, rules: Rules, limit: float, model: Path) -> Task:
    small = case.group == "small"
    return Task(
        contestant=entry.contestant.name,
        layout=entry.layout,
        case=case,
        data=None if rules.data is None else str(rules.data.resolve()),
        threads=rules.threads,
        fits=SMALL_CALLS if small else FITS,
        predicts=SMALL_CALLS if small else PREDICT_CALLS,
        seconds=CALL_SECONDS if small else FIT_SECONDS,
        limit=limit,
        model=str(model),
    )


def summary(contestant: Contestant, entries: list[Entry], rules: Rules) -> dict[str, Any]:
    """One row of results: times over all runs in the fastest layout, everything else from the fastest fit.

    A contestant that ran out of time counts with the time it was given, marked: its ratio is then a lower bound.
    """
    mine = [entry for entry in entries if entry.contestant is contestant]
    finished = [entry for entry in mine if entry.runs]
    if not finished:
        times = {"fit": min(entry.stopped_after for entry in mine)} if all(entry.timed_out for entry in mine) else {}
        return {"failure": mine[0].failure, **times}
    fastest = min(finished, key=lambda entry: entry.fastest_fit)
    return {
        **fastest.runs[0],
        **fastest.truth,
        "layout": fastest.layout,
        "runs": len(fastest.runs),
        "fit": min(rules.summarise([run["fit"] for run in entry.runs]) for entry in finished),
        "predict": min(rules.summarise([run["predict"] for run in entry.runs]) for entry in finished),
        **({"limit": rules.summarise([run["limit"] for run in fastest.runs])} if "limit" in fastest.runs[0] else {}),
        "peak_megabytes": max(run["peak_megabytes"] for run in fastest.runs),
        "own_megabytes": max(run["own_megabytes"] for run in fastest.runs),
    }
