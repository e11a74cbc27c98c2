"""Results as tables: all numbers for the terminal, and short tables in Markdown for a README."""

from collections.abc import Iterable
from itertools import groupby
from statistics import geometric_mean
from typing import Any

from .cases import Case
from .contestants import OURS
from .verdicts import (
    INTELEX,
    PEERS,
    SCIKIT_LEARN,
    Results,
    Verdict,
    fastest_peer,
    fit_over_limit,
    gap_over_fastest,
    gap_over_libsvm,
    speedup,
)

Row = list[str]
MISSING = "–"
DETAIL_OF_TIME = ["set", "contestant", "fit s", "× ours", "predict s", "× ours"]
DETAIL_OF_MODEL = ["score", "SVs", "true gap", "certified", "box, Σβ violated", "peak MB", "fit/limit", "runs"]
OVERVIEW_OF_TIME = ["set", "fit", "× intelex", "× scikit-learn", "predict", "× intelex", "× scikit-learn"]
OVERVIEW_OF_MODEL = ["true gap", "of LIBSVM's", "fit / limit", "× fastest", "which", "of its gap"]


def report(results: Results, verdicts: list[Verdict]) -> str:
    """The full report for the terminal: a table for each group, then the verdicts."""
    tables = [f"{group}\n{as_text(detail(part))}" for group, part in by_group(results)]
    return "\n\n".join([*tables, as_text(overview(results)), as_text(verdict_rows(verdicts))])


def markdown(results: Results, verdicts: list[Verdict]) -> str:
    """The short report for a README: a line for each set, and the verdicts."""
    return as_markdown(overview(results)) + "\n\n" + as_markdown(verdict_rows(verdicts))


def detail(results: Results) -> list[Row]:
    """A row for each contestant on each set, with ratios to maxmargin's times and their geometric means."""
    rows = [[*DETAIL_OF_TIME, *DETAIL_OF_MODEL]]
    names = list(dict.fromkeys(name for result in results.values() for name in result))
    for case, result in results.items():
        rows += [detail_row(results, case, name, line) for name, line in result.items()]
    for name in names:
        if name != OURS and len(results) > 1:
            means = [mean_speedup(results, key, name) for key in ("fit", "predict")]
            rows.append(["geometric mean", name, "", means[0], "", means[1], *("" for _ in DETAIL_OF_MODEL)])
    return rows


def detail_row(results: Results, case: Case, name: str, line: dict[str, Any]) -> Row:
    layout = f" ({line['layout']})" if line.get("layout") == "csr" else ""
    above = "> " if "failure" in line and "fit" in line else ""  # stopped at the time limit
    ratio = speedup("fit", (name,))(results, case) if name != OURS else None
    violated = [line.get("box_violation"), line.get("equality_violation")]
    return [
        case.name,
        name + layout,
        above + number(line.get("fit")) if "fit" in line else "failed",
        above + number(ratio) if ratio is not None else "",
        number(line.get("predict")),
        number(speedup("predict", (name,))(results, case)) if name != OURS else "",
        MISSING if "score" not in line else f"{line['score']:.4f}",
        str(line.get("support_vectors", MISSING)),
        scientific(line.get("true_gap")),
        scientific(line["certified_gap"]) if "certified_gap" in line else "",
        ", ".join(scientific(value) for value in violated),
        MISSING if "peak_megabytes" not in line else f"{line['peak_megabytes']:.0f}",
        number(fit_over_limit(results, case)) if name == OURS else "",
        str(line.get("runs", MISSING)),
    ]


def overview(results: Results) -> list[Row]:
    """A row for each set: maxmargin's times, how many times faster they are than each peer's, the gaps, and fit / limit."""
    rows = [[*OVERVIEW_OF_TIME, *OVERVIEW_OF_MODEL]]
    for _, part in by_group(results):
        for case in part:
            rows.append(
                [
                    case.name,
                    seconds(part[case].get(OURS, {}).get("fit")),
                    *(number(speedup("fit", peers)(part, case)) for peers in (INTELEX, SCIKIT_LEARN)),
                    seconds(part[case].get(OURS, {}).get("predict")),
                    *(number(speedup("predict", peers)(part, case)) for peers in (INTELEX, SCIKIT_LEARN)),
                    scientific(part[case].get(OURS, {}).get("true_gap")),
                    number(gap_over_libsvm(part, case)),
                    number(fit_over_limit(part, case)),
                    number(speedup("fit", PEERS)(part, case)),
                    fastest_peer(part, case) or MISSING,
                    number(gap_over_fastest(part, case)),
                ]
            )
        if len(part) > 1:
            means = [mean_speedup(part, key, *peers) for key in ("fit", "predict") for peers in (INTELEX, SCIKIT_LEARN)]
            fastest = mean_speedup(part, "fit", *PEERS)
            rows.append(["*geometric mean*", "", *means[:2], "", *means[2:], "", "", "", fastest, "", ""])
    return rows


def verdict_rows(verdicts: list[Verdict]) -> list[Row]:
    return [["what", "bar", "figure", "verdict"]] + [[v.claim, v.bar, number(v.value), v.words] for v in verdicts]


def mean_speedup(results: Results, key: str, *peers: str) -> str:
    ratios = [ratio for case in results if (ratio := speedup(key, peers)(results, case)) is not None]
    return number(geometric_mean(ratios) if ratios else None)


def by_group(results: Results) -> Iterable[tuple[str, Results]]:
    for group, cases in groupby(results, key=lambda case: case.group):
        yield group, {case: results[case] for case in cases}


def number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"


def scientific(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1e}"


def seconds(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def as_text(rows: list[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def as_markdown(rows: list[Row]) -> str:
    header, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([header, "|" + "---|" * len(rows[0]), *body])
