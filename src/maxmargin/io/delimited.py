"""CSV files: delimited text with one sample per line and one column of labels."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from maxmargin.io.bytes_and_text import decode, read_bytes
from maxmargin.io.columns import (
    MISSING,
    Columns,
    Layout,
    Reading,
    assemble,
    finish,
    is_number,
    lay_out,
    parse_labels,
    refuse_index,
    strict_number,
)
from maxmargin.io.table import DataFileError, FilePath, Table

# Where a tab or a semicolon separates, commas are text or decimal commas; so these are tried first.
DELIMITERS = ("\t", ";", ",")
LINE = re.compile(r"[^\r\n]*")

Row = tuple[int, list[str]]  # the line it begins on, its fields


def read_csv(
    path: FilePath,
    target: int | str | None = None,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    n_features: int | None = None,
    labelled: bool = True,
    drop: Sequence[int | str] = (),
    missing: str = "refuse",
    text: str = "refuse",
    columns: Columns | None = None,
) -> Table:
    r"""Read a CSV file of features and one column of labels.

    Parameters
    ----------
    path : str or path
        The file; .gz, .bz2 and .xz are unpacked.
    target : int or str, default=None
        The label column, by name or by index (from 0; negative from the end; a string that is no column name may spell an index).
        None: a column named target, label, class or y (in this order, in any case) if there is a header, else the last column.
    header : bool, default=None
        Whether the first line names the columns. None: it does if some column has a text there and a number below it.
    delimiter : str, default=None
        One character. None: tab, semicolon or comma, the first of them in the first line.
    encoding : str, default="utf-8"
        The encoding of the text.
    n_features : int, default=None
        The number of features that a sample must have. A file with just so many columns then has no labels, and `Table.y` is
        None.
    labelled : bool, default=True
        False for a file that need not have labels: without a column of the names above, all columns are features.
    drop : sequence of int or str, default=()
        Columns to leave out, by name or by index.
    missing : {"refuse", "keep"}, default="refuse"
        Refuse missing values, or keep them as NaN.
    text : {"refuse", "one-hot"}, default="refuse"
        Refuse columns of text, or make of each a group of columns of 0 and 1, one for each text. Columns that hold nothing but
        true and false are always 1 and 0.
    columns : Columns, default=None
        The columns of a model, ``Columns.of(table)`` of the table it was trained on. The columns of this file are found by their
        names, in any order; the label column may be absent.

    Returns
    -------
    Table
        The samples and labels.

    Raises
    ------
    DataFileError
        With the line number, for anything that is not such a file.

    See Also
    --------
    read_table : Chooses the format by the ending.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_csv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "fruit.csv"
    ...     _ = file.write_text("class;long;colour\nfig;5;blue\nplum;7;red\n")
    ...     table = read_csv(file, "class", text="one-hot")
    >>> table.feature_names
    ('long', 'colour=blue', 'colour=red')
    """
    reading = Reading(target, n_features, labelled, tuple(drop), missing, text, columns)
    return parse_csv(read_bytes(path), path, reading, header=header, delimiter=delimiter, encoding=encoding)


def parse_csv(
    content: bytes,
    path: FilePath,
    reading: Reading,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
) -> Table:
    """Like `read_csv`, for the bytes of a file; `path` is for messages."""
    file = _File(decode(content, path, encoding), path, header, delimiter)
    layout = lay_out(file.names, file.width, reading, path, file.first_line)
    return _read_numbers(file, layout, reading) or _read_columns(file, layout, reading)


class _File:
    """The rows of a file, and what its first rows say about all of them."""

    def __init__(self, text: str, path: FilePath, header: bool | None, delimiter: str | None) -> None:
        self.text, self.path = text, path
        self.delimiter = delimiter or _find_delimiter(text)
        head = list(islice(self._rows(), 2))
        if not head:
            raise DataFileError(path, "the file has no values: all of its lines are blank")
        self.has_header = _has_header(head) if header is None else header
        self.first_line, first = head[0]
        self.width = len(first)
        self.names = [name.strip() for name in first] if self.has_header else None
        if len(head) == self.has_header:
            raise DataFileError(path, "a header and no data below it", self.first_line)

    def samples(self) -> Iterator[Row]:
        """Yield the rows below the header; one that is shorter or longer than the first is an error."""
        for line, row in islice(self._rows(), int(self.has_header), None):
            if len(row) != self.width:
                than = "the header" if self.has_header else f"line {self.first_line}"
                cause = _ragged_cause(self.text, line, self.delimiter)
                raise DataFileError(self.path, f"{len(row)} values where {than} has {self.width} ({cause})", line)
            yield line, row

    def _rows(self) -> Iterator[Row]:
        """Yield the rows that hold anything, each with the line it begins on."""
        text = io.StringIO(self.text, newline="")
        reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise DataFileError(self.path, f"{error} (a quote that is not closed?)", line) from None
            if len(fields) > 1 or any(field.strip() for field in fields):
                yield line, fields


def _read_numbers(file: _File, layout: Layout, reading: Reading) -> Table | None:
    """Read a file whose features are finite numbers, fast; None if they are not all."""
    if layout.known:
        return None
    number = float if file.text.isascii() and "_" not in file.text else strict_number
    pick: Any = itemgetter(*layout.features)
    single = len(layout.features) == 1
    values, labels, lines = array("d"), list[str](), array("q")
    for line, row in file.samples():
        lines.append(line)
        if layout.target is not None:
            labels.append(row[layout.target])
        try:
            values.extend((number(pick(row)),) if single else map(number, pick(row)))
        except ValueError:
            return None
    X = np.frombuffer(values, dtype=np.float64).reshape(len(lines), len(layout.features))
    if not np.isfinite(X).all():
        return None
    y = None if layout.target is None else parse_labels(labels, layout.title(layout.target), file.path, lines.__getitem__)
    names = None if layout.names is None else [layout.names[j] for j in layout.features]
    for k, j in enumerate(layout.features if reading.columns is None else ()):
        refuse_index(X[:, k], j, layout, file.path)
    return finish(X, y, names, layout, file.path)


def _read_columns(file: _File, layout: Layout, reading: Reading) -> Table:
    """Read a file column by column: text and missing values become numbers, or an error that names them."""
    lines, rows = zip(*file.samples(), strict=True)
    columns = dict(enumerate(zip(*rows, strict=True)))
    labels = None if layout.target is None else columns[layout.target]
    return assemble(columns, labels, layout, reading, file.path, lines.__getitem__)


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
        return not any(map(is_number, first))
    second = head[1][1]
    return any(
        not is_number(above) and above.strip().lower() not in MISSING and is_number(below)
        for above, below in zip(first, second, strict=False)
    )


def _ragged_cause(text: str, line: int, delimiter: str) -> str:
    if not text.endswith(("\n", "\r")) and line > text.count("\n"):
        return "the last line has no end: was the file cut off?"
    return f"a missing or extra {delimiter!r}, or a text that needs quotes?"
