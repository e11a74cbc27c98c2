"""CSV files: delimited text with one sample per line and one column of labels."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.io.bytes_and_text import decode, read_bytes
from maxmargin.io.table import DataFileError, FilePath, Table, integers_where_exact, printable, quoted

# Where a tab or a semicolon separates, commas are text or decimal commas; so these are tried first.
DELIMITERS = ("\t", ";", ",")
LINE = re.compile(r"[^\r\n]*")
TARGET_NAMES = ("target", "label", "class", "y")
MISSING = frozenset({"", "?", "-", "na", "n/a", "nan", "null", "none"})
MOST_NAMES = 20  # column names in a message
# An array of strings has room for the longest string in each entry, so a single long label would fill the memory.
LONGEST_LABEL = 1000  # characters

Row = tuple[int, list[str]]  # the line it begins on, its fields


def read_csv(
    path: FilePath,
    target: int | str | None = None,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    n_features: int | None = None,
    encoding: str = "utf-8",
) -> Table:
    """Read a CSV file of numeric features and one column of labels.

    Parameters
    ----------
    path : the file; .gz, .bz2 and .xz are unpacked.
    target : the label column, by name or by index (from 0; negative from the end; a string that is
        no column name may spell an index). None: a column named target, label, class or y (in this
        order, in any case) if there is a header, else the last column.
    header : whether the first line names the columns. None: it does if some column has a text there
        and a number below it.
    delimiter : one character. None: tab, semicolon or comma, the first of them in the first line.
    n_features : how many features a sample must have. A file with just so many columns then has no
        labels, and `Table.y` is None.
    encoding : the encoding of the text.

    Raises
    ------
    DataFileError : with the line number, for anything that is not such a file.
    """
    return parse_csv(read_bytes(path), path, target, header=header, delimiter=delimiter, n_features=n_features, encoding=encoding)


def parse_csv(
    content: bytes,
    path: FilePath,
    target: int | str | None = None,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    n_features: int | None = None,
    encoding: str = "utf-8",
) -> Table:
    """Like `read_csv`, for the bytes of a file; `path` is for messages."""
    text = decode(content, path, encoding)
    delimiter = delimiter or _find_delimiter(text)
    rows = _rows(text, delimiter, path)
    head = [row for _, row in zip(range(2), rows, strict=False)]
    if not head:
        raise DataFileError(path, "the file has no values: all of its lines are blank")
    if header is None:
        header = _has_header(head)
    names = [name.strip() for name in head[0][1]] if header else None
    if len(head) == header:
        raise DataFileError(path, "a header and no data below it", head[0][0])

    first_line, first = head[0]
    width = len(first)
    column = _target_column(target, names, width, n_features, path, first_line)
    features = [j for j in range(width) if j != column]
    if not features:
        reason = f"a single column where features and a label are needed (delimiter {delimiter!r})"
        raise DataFileError(path, reason, first_line)
    title = [quoted(name) for name in names] if names else [str(j + 1) for j in range(width)]

    number = float if text.isascii() and "_" not in text else _strict_number
    values, labels, lines = array("d"), list[str](), array("q")
    for line, row in chain(head[header:], rows):
        if len(row) != width:
            than = "the header" if header else f"line {first_line}"
            cause = _ragged_cause(text, line, delimiter)
            raise DataFileError(path, f"{len(row)} values where {than} has {width} ({cause})", line)
        lines.append(line)
        if column is not None:
            labels.append(row.pop(column).strip())
        try:
            values.extend(map(number, row))
        except ValueError:
            field, j = next((f, j) for f, j in zip(row, features, strict=True) if not _is_number(f))
            raise DataFileError(path, _not_a_number(field, title[j]), line) from None

    X = np.frombuffer(values, dtype=np.float64).reshape(len(lines), len(features))
    if not np.isfinite(X).all():
        i, k = np.argwhere(~np.isfinite(X))[0]
        reason = f"{X[i, k]} in column {title[features[k]]} (drop the line or impute a number)"
        raise DataFileError(path, reason, lines[i])
    y = None if column is None else _labels(labels, title[column], path, lines)
    feature_names = None if names is None else tuple(names[j] for j in features)
    return Table(X, y, feature_names, printable(str(path)))


def _rows(text: str, delimiter: str, path: FilePath) -> Iterator[Row]:
    """Yield the rows that hold anything, each with the line it begins on."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataFileError(path, f"{error} (a quote that is not closed?)", line) from None
        if len(fields) > 1 or any(field.strip() for field in fields):
            yield line, fields


def _find_delimiter(text: str) -> str:
    something = re.search(r"\S", text)
    begin = max(text.rfind(end, 0, something.start()) for end in "\r\n") + 1 if something else 0
    first = LINE.match(text, begin)
    outside_quotes = "".join(first[0].split('"')[::2]) if first else ""
    return next((mark for mark in DELIMITERS if mark in outside_quotes), ",")


def _has_header(head: Sequence[Row]) -> bool:
    """Whether the first row is a header: a text above a number, or no number in a sole row."""
    first = head[0][1]
    if len(head) == 1:
        return not any(map(_is_number, first))
    second = head[1][1]
    return any(
        not _is_number(above) and above.strip().lower() not in MISSING and _is_number(below)
        for above, below in zip(first, second, strict=False)
    )


def _target_column(
    target: int | str | None,
    names: list[str] | None,
    width: int,
    n_features: int | None,
    path: FilePath,
    line: int,
) -> int | None:
    """Return the index of the label column, None if there is none."""
    if target is None and width == n_features:
        return None
    if n_features is not None and width != n_features + 1:
        label = "perhaps a label" if target is None else "a label"
        reason = f"{width} columns where {n_features} features and {label} are expected"
        raise DataFileError(path, reason, line)
    if target is None:
        lower = [name.lower() for name in names or ()]
        return next((lower.index(name) for name in TARGET_NAMES if name in lower), width - 1)
    if isinstance(target, str) and names and target in names:
        if names.count(target) > 1:
            reason = f"target={quoted(target)}: several columns have this name (pass an index)"
            raise DataFileError(path, reason, line)
        return names.index(target)
    try:
        index = int(target)
    except ValueError:
        known = f"the columns are {_listed(names)}" if names else "the file has no header"
        raise DataFileError(path, f"target={quoted(str(target))}: no such column ({known})", line) from None
    if not -width <= index < width:
        reason = f"target={index}: must be from {-width} to {width - 1}: there are {width} columns"
        raise DataFileError(path, reason, line)
    return index % width


def _listed(names: list[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > MOST_NAMES else ""
    return ", ".join(quoted(name)[1:-1] for name in names[:MOST_NAMES]) + more


def _labels(labels: list[str], column: str, path: FilePath, lines: Sequence[int]) -> NDArray[Any]:
    """Return the labels as integers or floats where all of them are numbers, else as strings."""
    if "" in labels:
        raise DataFileError(path, f"no label in column {column}", lines[labels.index("")])
    distinct = set(labels)
    if not all(map(_is_number, distinct)):
        longest = max(distinct, key=len)
        if len(longest) > LONGEST_LABEL:
            reason = f"a label of {len(longest)} characters in column {column} (a quote that is not closed?)"
            raise DataFileError(path, reason, lines[labels.index(longest)])
        return np.array(labels)
    value = {label: float(label) for label in distinct}
    y = np.array([value[label] for label in labels])
    if not np.isfinite(y).all():
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        raise DataFileError(path, f"the label {quoted(labels[i])} in column {column} is not finite", lines[i])
    return integers_where_exact(y)


def _strict_number(field: str) -> float:
    """Return float(field), but refuse Python's 1_000, which is a name or a date in a data file, and digits such as １."""
    if "_" in field or not field.strip().isascii():
        raise ValueError(field)
    return float(field)


def _is_number(field: str) -> bool:
    try:
        _strict_number(field)
    except ValueError:
        return False
    return True


def _not_a_number(field: str, column: str) -> str:
    field = field.strip()
    if field.lower() in MISSING:
        return f"{quoted(field)} in column {column}: a missing value (drop the line or impute a number)"
    if _is_number(field.replace(",", ".", 1)):
        return f"{quoted(field)} in column {column} is not a number (write decimal points, not commas)"
    advice = "encode text features as numbers; name the label column with target="
    return f"{quoted(field)} in column {column} is not a number ({advice})"


def _ragged_cause(text: str, line: int, delimiter: str) -> str:
    if not text.endswith(("\n", "\r")) and line > text.count("\n"):
        return "the last line has no end: was the file cut off?"
    return f"a missing or extra {delimiter!r}, or a text that needs quotes?"
