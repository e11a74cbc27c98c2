"""The project's promises about its speed, as bars, and whether a run of the benchmark met them.

Every figure is a ratio. Speed-ups are the peer's time over maxmargin's: larger is better. The others are maxmargin's value over
the allowed one: smaller is better.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import Any

from .cases import MEMORY_BUDGET, Case
from .contestants import OURS

INTELEX = ("intelex-float32", "intelex-float64")
SCIKIT_LEARN = ("scikit-learn",)
LIBSVM = ("libsvm", "scikit-learn")  # scikit-learn's machines are LIBSVM too
PEERS = (*INTELEX, *SCIKIT_LEARN, "libsvm")
MEMORY_MARGIN = 100  # MB
ROUNDING = 1e-12  # relative gaps below this are rounding, in the model or in the evaluation
EVALUATION_ERROR = 1e-14  # rounding error of the true gap, a difference of two values, relative to them

Results = dict[Case, dict[str, dict[str, Any]]]
Figure = Callable[[Results, Case], float | None]
SUMMARIES: dict[str, Callable[[list[float]], float]] = {"geometric mean": geometric_mean, "smallest": min, "largest": max}


@dataclass(frozen=True)
class Bar:
    """A promise: the summary of a figure over some cases is at least the bound (at most, if the summary is "largest")."""

    claim: str
    groups: tuple[str, ...]
    figure: Figure
    summary: str
    bound: float
    cases: tuple[str, ...] | None = None  # names of the cases; None: all cases of the groups

    @property
    def words(self) -> str:
        return f"{self.summary} {'≤' if self.summary == 'largest' else '≥'} {self.bound:g}"

    def concerns(self, case: Case) -> bool:
        return case.group in self.groups and (self.cases is None or case.name in self.cases)

    def holds(self, value: float) -> bool:
        return value <= self.bound if self.summary == "largest" else value >= self.bound


@dataclass(frozen=True)
class Verdict:
    claim: str
    bar: str
    value: float | None
    words: str


def verdict(bar: Bar, results: Results, plan: list[Case]) -> Verdict:
    """Compare a bar with the measurements; `plan` are the cases of a full run."""
    concerned = [case for case in plan if bar.concerns(case)]
    figures = [value for case in concerned if case in results and (value := bar.figure(results, case)) is not None]
    if not figures:
        return Verdict(bar.claim, bar.words, None, "not measured")
    value = SUMMARIES[bar.summary](figures)
    scope = "" if len(figures) == len(concerned) else f" (on {len(figures)} of {len(concerned)} sets)"
    return Verdict(bar.claim, bar.words, value, ("met" if bar.holds(value) else "NOT MET") + scope)


def ours_of(results: Results, case: Case, key: str) -> float | None:
    return results.get(case, {}).get(OURS, {}).get(key)


def speedup(key: str, peers: tuple[str, ...]) -> Figure:
    """A figure: how many times faster maxmargin is than the fastest of these peers."""

    def figure(results: Results, case: Case) -> float | None:
        theirs = [results[case][peer][key] for peer in peers if key in results[case].get(peer, {})]
        ours = ours_of(results, case, key)
        return min(theirs) / ours if theirs and ours is not None else None

    return figure


def fastest_peer(results: Results, case: Case) -> str | None:
    """The peer whose fit took least."""
    finished = [peer for peer in PEERS if "fit" in results[case].get(peer, {})]
    return min(finished, key=lambda peer: results[case][peer]["fit"], default=None)


def gap_over_fastest(results: Results, case: Case) -> float | None:
    """The true gap in units of that of the fastest peer: at most one if the race was fair."""
    peer = fastest_peer(results, case)
    theirs = None if peer is None else results[case][peer].get("true_gap")
    ours = ours_of(results, case, "true_gap")
    return None if ours is None or theirs is None else max(ours, ROUNDING) / max(theirs, ROUNDING)


def fit_over_limit(results: Results, case: Case) -> float | None:
    """The time of a fit in units of the limit (limit.py), the least that checking a solution takes."""
    fit, limit = ours_of(results, case, "fit"), ours_of(results, case, "limit")
    return None if fit is None or limit is None else fit / limit


def true_over_certified(results: Results, case: Case) -> float | None:
    """The true gap over the certified gap: at most one if the certificate is not optimistic."""
    true, certified = ours_of(results, case, "true_gap"), ours_of(results, case, "certified_gap")
    return None if true is None or certified is None else max(true - EVALUATION_ERROR, ROUNDING) / max(certified, ROUNDING)


def gap_over_libsvm(results: Results, case: Case) -> float | None:
    theirs = [results[case][peer]["true_gap"] for peer in LIBSVM if "true_gap" in results[case].get(peer, {})]
    ours = ours_of(results, case, "true_gap")
    return ours / theirs[0] if theirs and ours is not None else None


def fit_over_roomy(results: Results, case: Case) -> float | None:
    """The time of a fit within a memory budget over that of the same fit without one."""
    ours, roomy = ours_of(results, case, "fit"), ours_of(results, replace(case, cache_megabytes=None), "fit")
    return None if ours is None or roomy is None else ours / roomy


def memory_over_allowed(results: Results, case: Case) -> float | None:
    """Peak resident memory beyond the imported libraries, over budget + data + margin."""
    ours, data = ours_of(results, case, "own_megabytes"), ours_of(results, case, "data_megabytes")
    return None if ours is None or data is None else ours / (MEMORY_BUDGET + data + MEMORY_MARGIN)


def certificate_share(results: Results, case: Case) -> float | None:
    """The share of the certificate in the time of a fit."""
    return ours_of(results, case, "certificate_share")


def forecast_error(results: Results, case: Case) -> float | None:
    """The ratio, at least one, between the total time that the progress bar predicted at half-time and the true one."""
    forecast = ours_of(results, case, "forecast")
    return None if forecast is None else max(forecast, 1.0 / forecast)


LARGE = ("binary", "multiclass")
FAMILY = ("regression", "nu", "one-class")
RACED = ("binary", "tables", "multiclass", "mnist", "large-C", "regression", "small")
ALL = (*RACED, "memory", "nu", "one-class")
FASTEST = speedup("fit", PEERS)
TIGHT = (f"a9a cache={MEMORY_BUDGET}MB",)
STANDARDISED = ("a9a standardised C=1 gamma=0.02",)
PARITY = ("mnist-parity 20000",)
COVTYPE = ("covtype 20000", "covtype 40000")

BARS = [
    Bar("a9a standardised: fit against the fastest", ("tables",), FASTEST, "smallest", 3, cases=STANDARDISED),
    Bar("mnist odd/even: fit against the fastest", ("tables",), FASTEST, "smallest", 1.6, cases=PARITY),
    Bar("covtype: fit against the fastest", ("tables",), FASTEST, "smallest", 3, cases=COVTYPE),
    Bar("a9a in either container: fit against the fastest", ("tables",), FASTEST, "smallest", 8, cases=("a9a dense", "a9a csr")),
    Bar("a9a standardised: fit / limit", ("tables",), fit_over_limit, "largest", 4, cases=STANDARDISED),
    Bar("mnist odd/even: fit / limit", ("tables",), fit_over_limit, "largest", 2.2, cases=PARITY),
    Bar("covtype: fit / limit", ("tables",), fit_over_limit, "largest", 8, cases=COVTYPE),
    Bar("binary: fit against the fastest", ("binary",), FASTEST, "geometric mean", 7),
    Bar("binary: fit against the fastest", ("binary",), FASTEST, "smallest", 4),
    Bar("binary: fit against scikit-learn", ("binary",), speedup("fit", SCIKIT_LEARN), "geometric mean", 12),
    Bar("fit / limit", ("binary",), fit_over_limit, "largest", 5, cases=("magic", "ijcnn1", "electricity")),
    Bar("fit / limit", ("binary",), fit_over_limit, "largest", 3, cases=("a9a",)),
    Bar("multi-class: fit against the fastest", ("multiclass",), FASTEST, "geometric mean", 4),
    Bar("multi-class: fit against the fastest", ("multiclass",), FASTEST, "smallest", 2.2),
    Bar("mnist: fit against the fastest", ("mnist",), FASTEST, "smallest", 3),
    Bar("large C: fit against the fastest", ("large-C",), FASTEST, "geometric mean", 5),
    Bar("large C: fit against the fastest", ("large-C",), FASTEST, "smallest", 2),
    Bar("cpusmall: fit against the fastest", ("regression",), FASTEST, "smallest", 3, cases=("cpusmall",)),
    Bar("regression, nu, one-class: fit against the fastest", FAMILY, FASTEST, "geometric mean", 3),
    Bar("regression, nu, one-class: fit against the fastest", FAMILY, FASTEST, "smallest", 1),
    *(
        Bar(f"{name}: fit against scikit-learn", ("small",), speedup("fit", SCIKIT_LEARN), "smallest", bound, cases=(name,))
        for name, bound in (("iris", 1.5), ("wine", 1.5), ("breast_cancer", 2.5), ("digits", 3))
    ),
    Bar("small sets: predict against scikit-learn", ("small",), speedup("predict", SCIKIT_LEARN), "smallest", 2),
    Bar("predict against intelex", RACED, speedup("predict", INTELEX), "geometric mean", 2),
    Bar("predict against intelex", RACED, speedup("predict", INTELEX), "smallest", 1),
    Bar("predict against scikit-learn", LARGE, speedup("predict", SCIKIT_LEARN), "geometric mean", 8),
    Bar("everywhere: true gap / the fastest peer's", ALL, gap_over_fastest, "largest", 1),
    Bar("everywhere: true gap / LIBSVM's", ALL, gap_over_libsvm, "largest", 1),
    Bar("everywhere: true gap / certified gap", ALL, true_over_certified, "largest", 1),
    Bar("the certificate's share of the fit", ("binary", "mnist"), certificate_share, "largest", 0.15),
    Bar("a9a in 200 MB: fit / fit with memory to spare", ("memory",), fit_over_roomy, "largest", 3, cases=TIGHT),
    Bar("a9a in 200 MB: peak / (200 MB + data + 100 MB)", ("memory",), memory_over_allowed, "largest", 1, cases=TIGHT),
    Bar("mnist: time foretold at half-time, off by a factor of", ("mnist",), forecast_error, "largest", 1.5),
]
