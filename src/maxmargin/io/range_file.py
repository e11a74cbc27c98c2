"""Range files of LIBSVM's svm-scale: where each feature begins and ends, and what that becomes.

    x
    -1 1                    the range that features are scaled to
    1 0.5 3.25              index, smallest and largest value; constant features are left out
    # columns ["a", "b"]    the names of the features; svm-scale stops reading here

A file that scales the target as well begins with a section `y`; it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

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


def write_ranges(ranges: Ranges, path: FilePath) -> None:
    """Write a range file, with as many digits as give each number back exactly."""
    lines = ["x", f"{ranges.lower!r} {ranges.upper!r}"]
    for index, (low, high) in enumerate(zip(ranges.smallest.tolist(), ranges.largest.tolist(), strict=True), start=1):
        if low < high:
            lines.append(f"{index} {low!r} {high!r}")
    if ranges.columns is not None:
        lines.append(NAMES + json.dumps(ranges.columns.to_dict(), ensure_ascii=False))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_ranges(path: FilePath) -> Ranges:
    """Read a file that `write_ranges` or svm-scale wrote."""
    lines = decode(read_bytes(path), path, "utf-8").splitlines()
    if lines[0].strip() != "x":
        kind = "it scales the target too; scale the features alone" if lines[0].strip() == "y" else "it begins with the line x"
        raise DataFileError(path, f"not a range file that can be read ({kind})", 1)
    lower, upper = _numbers(lines[1] if len(lines) > 1 else "", 2, path, 2)
    rows, columns = dict[int, tuple[float, float]](), None
    for number, line in enumerate(lines[2:], start=3):
        if line.startswith(NAMES):
            columns = _columns(line.removeprefix(NAMES), path, number)
            break
        if line.strip():
            index, low, high = _numbers(line, 3, path, number)
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
    return Ranges(lower, upper, smallest, largest, columns)


def _numbers(line: str, count: int, path: FilePath, number: int) -> Sequence[float]:
    words = line.split()
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = []
    if len(values) != count or not all(map(isfinite, values)):
        raise DataFileError(path, f"{quoted(line)} is not {count} finite numbers", number)
    return values


def _columns(text: str, path: FilePath, number: int) -> Columns:
    try:
        return Columns.from_dict(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataFileError(path, "the line of the column names is damaged", number) from None
