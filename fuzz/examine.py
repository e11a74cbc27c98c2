"""One problem from data to findings."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field

from sklearn.exceptions import ConvergenceWarning

from .findings import Finding
from .generator import generate
from .judge import judge_error, judge_models
from .linear_generator import generate_linear
from .pool import restart_clock
from .problems import Problem, fit

#: The streams of problems, by the machines that they are about.
MACHINES = {"kernel": generate, "linear": generate_linear}
#: Seconds that the library and the oracle may take for one problem.
LIMIT, ORACLE_LIMIT = 60.0, 600.0


@dataclass(frozen=True)
class Verdict:
    """The result of a problem. ``status`` is the status of the (last) model, or "refused", or the name of an error."""

    estimator: str
    status: str
    findings: tuple[Finding, ...]
    seconds: float
    judge_seconds: float = 0.0
    other_warnings: tuple[str, ...] = field(default=())


def examine_number(seed: int, number: int, backend: str, machines: str = "kernel") -> Verdict:
    return examine(MACHINES[machines](seed, number), backend)


def examine(problem: Problem, backend: str, limit: float = LIMIT) -> Verdict:
    """Fit a problem, predict, and judge the results."""
    name = f"C_path({problem.estimator})" if problem.path else problem.estimator
    restart_clock(limit)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            models = fit(problem, backend)
        except Exception as error:
            seconds = time.perf_counter() - started
            findings = judge_error(error, problem)
            return Verdict(name, type(error).__name__ if findings else "refused", tuple(findings), seconds)
    seconds = time.perf_counter() - started
    restart_clock(ORACLE_LIMIT)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        findings = judge_models(models, problem, caught)
    strange = {one.category.__name__ for one in caught if not issubclass(one.category, ConvergenceWarning)}
    judged = time.perf_counter() - started
    return Verdict(name, models[-1].status_.name, tuple(findings), seconds, judged, tuple(sorted(strange)))
