"""Many problems: a line for each finding as it happens, shrunk examples and a table at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .examine import LIMIT, MACHINES, Verdict, examine, examine_number
from .findings import KINDS, Finding
from .pool import Lost, Pool
from .problems import Problem
from .reproduce import script
from .shrink import shrink

SHRINK_SECONDS = 60.0  # for one example
SHORT_LIMIT = 10.0  # seconds after which a shrunk example counts as a hang


@dataclass
class Options:
    """What to run. Either `problems` of them, or as many as `seconds` allow."""

    problems: int | None = 1000
    seconds: float | None = None
    seed: int = 0
    first: int = 0
    backend: str = "native"
    machines: str = "kernel"
    jobs: int = 2
    examples: int = 8
    json: Path | None = None


@dataclass
class Tally:
    """The counts and findings so far."""

    started: float = field(default_factory=time.perf_counter)
    problems: int = 0
    estimators: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    checks: Counter[tuple[str, str]] = field(default_factory=Counter)
    failing: Counter[str] = field(default_factory=Counter)
    other_warnings: Counter[str] = field(default_factory=Counter)
    library_seconds: float = 0.0
    oracle_seconds: float = 0.0
    findings: list[tuple[int, Finding]] = field(default_factory=list)
    harness: list[tuple[int, str]] = field(default_factory=list)
    problem_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def add(self, number: int, estimator: str, result: Verdict | Lost) -> tuple[Finding, ...]:
        """Count one problem; return its findings."""
        self.problems += 1
        self.estimators[estimator] += 1
        if isinstance(result, Lost):
            if result.kind == "HARNESS":
                self.harness.append((number, result.text))
                return ()
            self.statuses[result.kind] += 1
            findings: tuple[Finding, ...] = (Finding(result.kind, result.text, result.text),)
        else:
            self.statuses[result.status] += 1
            self.other_warnings.update(result.other_warnings)
            self.library_seconds += result.seconds
            self.oracle_seconds += result.judge_seconds
            findings = result.findings
        for finding in findings:
            self.checks[finding.key] += 1
            self.findings.append((number, finding))
        self.failing[estimator] += bool(findings)
        return findings


def run(options: Options) -> int:
    """Run the problems; return the exit status, 1 if there were findings."""
    tally, generate = Tally(), MACHINES[options.machines]
    with Pool(options.jobs) as pool:
        for number, result in pool.run(examine_number, _tasks(options, tally)):
            problem = generate(options.seed, number)
            name = f"C_path({problem.estimator})" if problem.path else problem.estimator
            findings = tally.add(number, name, result)
            if findings:
                print("\n    ".join([f"#{number} {problem}", *map(str, findings)]), flush=True)
        tally.problem_seconds = tally.seconds
        for number, finding in _examples(tally, options.examples):
            print(f"\n--- #{number} {finding.kind} ({finding.check}), shrunk", flush=True)
            print(
                example(pool, generate(options.seed, number), finding, options.backend, options.seed, number),
                flush=True,
            )
    print("\n" + table(tally))
    if options.json is not None:
        options.json.write_text(json.dumps(document(options, tally), indent=1) + "\n")
    which = f"--machines {options.machines} --seed {options.seed} --backend {options.backend}"
    print(f"\nto repeat one: python -m fuzz {which} --from NUMBER --problems 1")
    return 1 if tally.findings or tally.harness else 0


def _tasks(options: Options, tally: Tally) -> Iterator[tuple[int, tuple[int, int, str, str]]]:
    number = options.first
    while True:
        if options.seconds is not None:
            if tally.seconds > options.seconds:
                return
        elif options.problems is not None and number >= options.first + options.problems:
            return
        yield number, (options.seed, number, options.backend, options.machines)
        number += 1


# --- examples --------------------------------------------------------------------------------------------------------


def _examples(tally: Tally, most: int) -> list[tuple[int, Finding]]:
    """The first finding of each check, the frequent checks first."""
    first = {finding.key: (number, finding) for number, finding in reversed(tally.findings)}
    keys = [key for key, _ in tally.checks.most_common()]
    return [first[key] for key in keys[:most]]


def example(pool: Pool, problem: Problem, finding: Finding, backend: str, seed: int, number: int) -> str:
    """A small problem with the same finding, as Python."""

    def found(candidate: Problem) -> Finding | None:
        result = pool.one(examine, candidate, backend, SHORT_LIMIT if finding.kind == "HANG" else LIMIT)
        if isinstance(result, Lost):
            return finding if result.kind == finding.kind else None
        return next((one for one in result.findings if one.key == finding.key), None)

    small = shrink(problem, lambda candidate: found(candidate) is not None, SHRINK_SECONDS)
    text = found(small)
    return f"{script(small, backend, seed, number)}\n# {text.text if text is not None else 'not every time'}"


# --- the table -------------------------------------------------------------------------------------------------------


def table(tally: Tally) -> str:
    lines = [f"{'estimator':<20}{'problems':>10}{'with findings':>15}"]
    lines += [f"{name:<20}{count:>10}{tally.failing[name]:>15}" for name, count in sorted(tally.estimators.items())]
    lines += [
        f"{'all':<20}{tally.problems:>10}{sum(tally.failing.values()):>15}",
        "",
        f"{'status':<30}{'problems':>10}",
    ]
    lines += [f"{name:<30}{count:>10}" for name, count in tally.statuses.most_common()]
    lines += ["", f"{'finding':<60}{'times':>10}"]
    for kind in KINDS:
        of_kind = {key: count for key, count in tally.checks.items() if key[0] == kind}
        lines.append(f"{kind:<60}{sum(of_kind.values()):>10}")
        lines += [f"    {check:<56.56}{count:>10}" for (_, check), count in sorted(of_kind.items(), key=lambda item: -item[1])]
    if tally.other_warnings:
        lines += [
            "",
            "other warnings: " + ", ".join(f"{name} {count}" for name, count in tally.other_warnings.most_common()),
        ]
    lines += [f"the harness itself failed: #{number} {text}" for number, text in tally.harness]
    seconds = tally.problem_seconds or tally.seconds
    lines += [
        "",
        f"{tally.problems} problems in {seconds:.0f} s ({tally.problems / max(seconds, 1e-9):.1f} a second), "
        f"examples in {tally.seconds - seconds:.0f} s; library {tally.library_seconds:.0f} s, "
        f"oracle {tally.oracle_seconds:.0f} s of process time",
    ]
    return "\n".join(lines)


def document(options: Options, tally: Tally) -> dict[str, Any]:
    """The table as data, and all findings."""
    return {
        "seed": options.seed,
        "from": options.first,
        "backend": options.backend,
        "machines": options.machines,
        "problems": tally.problems,
        "seconds": tally.seconds,
        "estimators": dict(tally.estimators),
        "statuses": dict(tally.statuses),
        "findings": [{"number": number, **asdict(finding)} for number, finding in tally.findings],
        "harness": [{"number": number, "text": text} for number, text in tally.harness],
    }
