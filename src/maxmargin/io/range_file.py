"""Range files of LIBSVM's svm-scale: where each feature begins and ends, and what that becomes.

    y                       these three lines only if the target is scaled too
    0 1                     the range that the target is scaled to
    -3 12.5                 its smallest and largest value
    x
    -1 1                    the range that features are scaled to
    1 0.5 3.25              index, smallest and largest value; constant features are left out
    # columns ["a", "b"]    the names of the features

svm-scale stops reading at the line of the names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.io.bytes_and_text import decode, read_bytes
from maxmargin.io.columns import Columns
from maxmargin.io.libsvm import MOST_FEATURES
from maxmargin.io.table import DataFileError, FilePath, quoted

NAMES = "# columns "


@dataclass(frozen=True, eq=False)
class Ranges:
    """The range [lower, upper] that the range [smallest, largest] of each feature becomes; a feature without one has NaN."""

    lower: float
    upper: float
    smallest: NDArray[np.float64]
    largest: NDArray[np.float64]
    columns: Columns | None = None
    target: TargetRange | None = None


class TargetRange(NamedTuple):
    """The range [lower, upper] that the range [smallest, largest] of the target becomes."""

    lower: float
    upper: float
    smallest: float
    largest: float


def write_ranges(ranges: Ranges, path: FilePath) -> None:
    """Write a range file, with as many digits as give each number back exactly."""
    lines = []
    if (target := ranges.target) is not None:
        lines += ["y", f"{target.lower!r} {target.upper!r}", f"{target.smallest!r} {target.largest!r}"]
    lines += ["x", f"{ranges.lower!r} {ranges.upper!r}"]
    for index, (low, high) in enumerate(zip(ranges.smallest.tolist(), ranges.largest.tolist(), strict=True), start=1):
        if low < high:
            lines.append(f"{index} {low!r} {high!r}")
    if ranges.columns is not None:
        lines.append(NAMES + json.dumps(ranges.columns.to_dict(), ensure_ascii=False))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_ranges(path: FilePath) -> Ranges:
    """Read a file that `write_ranges` or svm-scale wrote."""
    lines = decode(read_bytes(path), path, "utf-8").splitlines() or [""]
    target, start = None, 0
    if lines[0].strip() == "y":
        target, start = TargetRange(*_numbers(lines, 1, 2, path), *_numbers(lines, 2, 2, path)), 3
    if "".join(lines[start : start + 1]).strip() != "x":
        raise DataFileError(path, "not a range file: it must begin with the line x, after the three lines of a target", start + 1)
    lower, upper = _numbers(lines, start + 1, 2, path)
    rows, columns = dict[int, tuple[float, float]](), None
    for number, line in enumerate(lines[start + 2 :], start=start + 3):
        if line.startswith(NAMES):
            columns = _columns(line.removeprefix(NAMES), path, number)
            break
        if line.strip():
            index, low, high = _numbers(lines, number - 1, 3, path)
            if not 1 <= index <= MOST_FEATURES or not index.is_integer() or int(index) in rows:
                reason = f"the index {index:g} is not a whole number from 1 to {MOST_FEATURES:,}, or is there twice"
                raise DataFileError(path, reason, number)
            rows[int(index)] = low, high
    width = len(columns.features) if columns else max(rows, default=0)
    if max(rows, default=0) > width:
        raise DataFileError(path, f"{width} columns are named, and feature {max(rows)} has a range")
    smallest, largest = np.full((2, width), np.nan)
    indices = np.array(list(rows), dtype=np.intp) - 1
    smallest[indices], largest[indices] = np.array(list(rows.values())).reshape(-1, 2).T
    return Ranges(lower, upper, smallest, largest, columns, target)


def _numbers(lines: Sequence[str], at: int, count: int, path: FilePath) -> Sequence[float]:
    line = lines[at] if at < len(lines) else ""
    try:
        values = [float(word) for word in line.split()]
    except ValueError:
        values = []
    if len(values) != count or not all(map(isfinite, values)):
        raise DataFileError(path, f"{quoted(line)} is not {count} finite numbers", at + 1)
    return values


def _columns(text: str, path: FilePath, number: int) -> Columns:
    try:
        return Columns.from_dict(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataFileError(path, "the line of the column names is damaged", number) from None
