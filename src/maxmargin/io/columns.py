"""The columns of a table: which are features, which is the label, and how text and gaps become numbers.

A model knows its features by name. So a file whose columns stand in another order gives the same samples, and a column that is
missing or unknown is named in the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.io.table import DataFileError, FilePath, Table, integers_where_exact, printable, quoted

TARGET_NAMES = ("target", "label", "class", "y")
MISSING = frozenset({"", "?", "-", "na", "n/a", "nan", "null", "none"})
CATEGORIES = frozenset({"-", "none"})  # of these texts: a category where the other fields are text
BOOLEANS = {"true": 1.0, "false": 0.0}
INDEX_NAME = re.compile(r"(Unnamed: \d+)?")  # what programs write above an index, and what pandas reads there
SHORTEST_INDEX = 3  # samples from which 0, 1, 2, … is no coincidence
MOST_NAMES = 20  # column names in a message
MOST_CATEGORIES = 200  # different texts of a column; more are identifiers or sentences
# An array of strings has room for the longest string in each entry, so a single long label would fill the memory.
LONGEST_LABEL = 1000  # characters

Fields = Sequence[str]
LineOf = Callable[[int], int | None]  # the line of a sample, for messages


@dataclass(frozen=True)
class Columns:
    """The columns that a model was trained on, by name.

    Parameters
    ----------
    features : tuple of str
        The names of the columns of X; `color=red` is 1 where the column `color` says red, and else 0.
    target : str, default=None
        The name of the label column, if there was one.
    left_out : tuple of str, default=()
        The names of columns that were in the file and are not in X.

    See Also
    --------
    read_csv : Its parameter ``columns`` finds these columns in another file.
    Table : The table that they come from.

    Examples
    --------
    >>> from maxmargin.io import Columns
    >>> Columns(("long", "wide"), target="class").features
    ('long', 'wide')
    """

    features: tuple[str, ...]
    target: str | None = None
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table) -> Columns | None:
        """The columns of a table; None if its features have no names."""
        return None if table.feature_names is None else cls(table.feature_names, table.target_name, table.left_out)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Columns:
        """The inverse of `to_dict`."""
        features, target, left_out = (content[one.name] for one in fields(cls))
        return cls(tuple(map(str, features)), None if target is None else str(target), tuple(map(str, left_out)))

    def to_dict(self) -> dict[str, Any]:
        """The columns as JSON can hold them."""
        return asdict(self)


@dataclass(frozen=True)
class Reading:
    """What a caller of a reader asks for; `read_csv` describes the parameters."""

    target: int | str | None = None
    n_features: int | None = None
    labelled: bool = True
    drop: Sequence[int | str] = ()
    missing: str = "refuse"
    text: str = "refuse"
    columns: Columns | None = None

    def __post_init__(self) -> None:
        for name, value, words in (
            ("missing", self.missing, ("refuse", "keep")),
            ("text", self.text, ("refuse", "one-hot")),
        ):
            if value not in words:
                raise ValueError(f"{name}={value!r}: must be {' or '.join(map(repr, words))}")


@dataclass(frozen=True)
class Layout:
    """Which columns of a file are read: the label column and the columns of the features, in the order of X."""

    names: tuple[str, ...] | None
    target: int | None
    features: tuple[int, ...]
    left_out: tuple[str, ...]
    known: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # the categories that the model knows, by column

    def title(self, column: int) -> str:
        """How a message names a column."""
        return quoted(self.names[column]) if self.names else str(column + 1)


def lay_out(names: Sequence[str] | None, width: int, reading: Reading, path: FilePath, line: int | None = None) -> Layout:
    """Decide which column of a file is the label, which are features, and which are left out."""
    names = None if names is None else tuple(names)

    def find(option: str, column: int | str) -> int:
        return _column(option, column, names, width, path, line)

    dropped = {find("drop", column) for column in reading.drop}
    left = [j for j in range(width) if j not in dropped]
    if reading.columns is not None and names is not None:
        return _as_trained(reading.columns, names, left, dropped, reading, path, line)
    n_features = len(reading.columns.features) if reading.columns else reading.n_features
    target = None if reading.target is None else find("target", reading.target)
    if n_features is not None and len(left) not in (n_features + 1, n_features + (target is not None)):
        label = "perhaps a label" if target is None else "a label"
        raise DataFileError(path, f"{len(left)} columns where {n_features} features and {label} are expected", line)
    if target is None and len(left) != n_features:
        target = _usual_target(names, left, last=reading.labelled or n_features is not None)
    if target in dropped:
        raise DataFileError(path, f"column {names[target] if names else target} is both the target and dropped", line)
    features = tuple(j for j in left if j != target)
    if not features:
        raise DataFileError(
            path, "a single column where features and a label are needed (is the delimiter a tab, a semicolon or a comma?)", line
        )
    return Layout(names, target, features, tuple(names[j] for j in sorted(dropped)) if names else ())


def _as_trained(
    columns: Columns,
    names: tuple[str, ...],
    left: list[int],
    dropped: set[int],
    reading: Reading,
    path: FilePath,
    line: int | None,
) -> Layout:
    """Find the features of a model among the columns of a file by their names."""
    target = None if reading.target is None else _column("target", reading.target, names, len(names), path, line)
    wanted, known = list[str](), dict[str, list[str]]()
    for name in columns.features:
        column, _, category = name.rpartition("=")
        if name not in names and column in names:
            known.setdefault(column, []).append(category)
            name = column
        if name not in wanted:
            wanted.append(name)
    present = [j for j in left if j != target and (names[j] in wanted or names[j] not in columns.left_out)]
    extra = [j for j in present if names[j] not in wanted]
    if missing := [name for name in wanted if name not in {names[j] for j in present}]:
        others = f" (and it does not know {_listed([names[j] for j in extra])})" if extra else ""
        raise DataFileError(path, f"no column {_listed(missing)}, which the model was trained on{others}", line)
    if target is None:
        target = next((j for j in extra if names[j] == columns.target), None)
        target = _usual_target(names, extra, last=False) if target is None else target
    if unknown := [j for j in extra if j != target]:
        which = " ".join(f"--drop {quoted(names[j]) if names[j] else j}" for j in unknown[:MOST_NAMES])
        reason = f"the model was trained without the column {_listed([names[j] for j in unknown])} (leave it out: {which})"
        raise DataFileError(path, reason, line)
    found = [j for j in present if j not in extra]
    if sorted(names[j] for j in found) != sorted(wanted):
        twice = next(names[j] for j in found if [names[i] for i in found].count(names[j]) > 1)
        raise DataFileError(path, f"several columns are named {quoted(twice)}: the model could take either", line)
    if len(set(wanted)) == len(wanted):
        found.sort(key=lambda j: wanted.index(names[j]))
    categories = {names.index(name): tuple(texts) for name, texts in known.items()}
    return Layout(names, target, tuple(found), tuple(names[j] for j in sorted(dropped)), categories)


def _column(option: str, column: int | str, names: tuple[str, ...] | None, width: int, path: FilePath, line: int | None) -> int:
    """The index of a column that the user named, or gave by its index."""
    if isinstance(column, str) and names and column in names:
        if names.count(column) > 1:
            raise DataFileError(path, f"{option}={quoted(column)}: several columns have this name (pass an index)", line)
        return names.index(column)
    try:
        index = int(column)
    except ValueError:
        known = f"the columns are {_listed(names)}" if names else "the file has no header"
        raise DataFileError(path, f"{option}={quoted(str(column))}: no such column ({known})", line) from None
    if not -width <= index < width:
        reason = f"{option}={index}: must be from {-width} to {width - 1}: there are {width} columns"
        raise DataFileError(path, reason, line)
    return index % width


def _usual_target(names: Sequence[str] | None, left: Sequence[int], *, last: bool) -> int | None:
    """The column that is called as labels usually are; else the last one, or none."""
    lower = {names[j].lower(): j for j in reversed(left)} if names else {}
    named = next((lower[name] for name in TARGET_NAMES if name in lower), None)
    return left[-1] if named is None and last else named


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > MOST_NAMES else ""
    return ", ".join(quoted(name)[1:-1] or "''" for name in names[:MOST_NAMES]) + more


def assemble(
    columns: Mapping[int, Fields | NDArray[np.float64]],
    labels: Fields | NDArray[Any] | None,
    layout: Layout,
    reading: Reading,
    path: FilePath,
    line_of: LineOf,
) -> Table:
    """Make a table of the columns of a file, each of which is numbers with NaN for missing values, or text."""
    blocks, names = list[NDArray[np.float64]](), list[str]()
    for j in layout.features:
        block, texts = _block(columns[j], j, layout, reading, path, line_of)
        if reading.columns is None and not texts:
            refuse_index(block, j, layout, path)
        name = layout.names[j] if layout.names else str(j + 1)
        blocks.append(block)
        names += [f"{name}={text}" for text in texts] if texts else [name]
    X = np.column_stack(blocks)
    title = "" if layout.target is None else layout.title(layout.target)
    y = None if labels is None else parse_labels(labels, title, path, line_of)
    return finish(X, y, names if layout.names or len(names) > len(layout.features) else None, layout, path)


def finish(
    X: NDArray[np.float64],
    y: NDArray[Any] | None,
    feature_names: Sequence[str] | None,
    layout: Layout,
    path: FilePath,
) -> Table:
    """Return the table."""
    target = None if layout.target is None or layout.names is None else layout.names[layout.target]
    features = None if feature_names is None else tuple(feature_names)
    return Table(X, y, features, printable(str(path)), target, layout.left_out)


def refuse_index(values: NDArray[np.float64], j: int, layout: Layout, path: FilePath) -> None:
    """Refuse column `j` if it is an index that a program added: without a name, and counting."""
    if layout.names is None or not INDEX_NAME.fullmatch(layout.names[j]) or len(values) < SHORTEST_INDEX:
        return
    if np.array_equal(values, values[0] + np.arange(len(values))):
        counts = ", ".join(f"{value:g}" for value in values[:SHORTEST_INDEX])
        reason = f"column {j + 1} has no name and counts {counts}, …: an index that a program added?"
        raise DataFileError(path, f"{reason} (leave it out with drop={j}, --drop {j}, or give it a name)", 1)


def _block(
    content: Fields | NDArray[np.float64], j: int, layout: Layout, reading: Reading, path: FilePath, line_of: LineOf
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """One column of numbers and no texts, or a column of 0 and 1 for each text."""
    title = layout.title(j)
    numbers = content if isinstance(content, np.ndarray) else _numbers(content)
    if numbers is not None and j not in layout.known:
        if reading.missing == "refuse" and np.isnan(numbers).any():
            i = int(np.flatnonzero(np.isnan(numbers))[0])
            mark = "" if isinstance(content, np.ndarray) else content[i].strip()
            raise DataFileError(path, _missing(mark, title), line_of(i))
        if np.isinf(numbers).any():
            i = int(np.flatnonzero(np.isinf(numbers))[0])
            raise DataFileError(path, f"{numbers[i]} in column {title} (drop the line or impute a number)", line_of(i))
        return numbers, ()
    texts = [f"{value:g}" for value in content] if isinstance(content, np.ndarray) else [text.strip() for text in content]
    fault = _first_fault(texts, title)
    if fault and (reading.text == "refuse" or fault.in_numbers) and j not in layout.known:
        raise DataFileError(path, fault.reason, line_of(fault.row))
    gaps = [text.lower() in MISSING - CATEGORIES for text in texts]
    if reading.missing == "refuse" and any(gaps):
        raise DataFileError(path, _missing(texts[gaps.index(True)], title), line_of(gaps.index(True)))
    present = {text for text, gap in zip(texts, gaps, strict=True) if not gap}
    categories = layout.known.get(j) or tuple(sorted(present))
    if unknown := present - set(categories):
        i = next(i for i, text in enumerate(texts) if text in unknown)
        reason = f"{quoted(texts[i])} in column {title}: a category that the model does not know ({_listed(categories)})"
        raise DataFileError(path, reason, line_of(i))
    if len(categories) > MOST_CATEGORIES and j not in layout.known:
        reason = f"column {title} has {len(categories)} different texts: no category (leave it out with drop, --drop)"
        raise DataFileError(path, reason)
    return np.array([[float(text == category) for category in categories] for text in texts]), categories


@dataclass(frozen=True)
class _Fault:
    """A field that is not a number, in a column of texts or in one of numbers."""

    row: int
    reason: str
    in_numbers: bool


def _first_fault(texts: Fields, title: str) -> _Fault | None:
    fields = [text for text in texts if text.lower() not in MISSING]
    in_numbers = 2 * sum(map(is_number, fields)) > len(fields)
    row = next((i for i, text in enumerate(texts) if text.lower() not in MISSING and not is_number(text)), None)
    return None if row is None else _Fault(row, not_a_number(texts[row], title), in_numbers)


def _numbers(texts: Fields) -> NDArray[np.float64] | None:
    """A column of texts as numbers, with NaN for missing values; true and false are 1 and 0. None if it is neither."""
    lower = [text.strip().lower() for text in texts]
    read = BOOLEANS.__getitem__ if not set(lower) - MISSING - set(BOOLEANS) and set(lower) - MISSING else strict_number
    try:
        return np.array([np.nan if text in MISSING else read(text) for text in lower], dtype=np.float64)
    except ValueError:
        return None


def parse_labels(labels: Fields | NDArray[Any], column: str, path: FilePath, line_of: LineOf) -> NDArray[Any]:
    """The labels as integers or floats where all of them are numbers, else as strings."""
    if isinstance(labels, np.ndarray):
        if not np.isfinite(labels).all():
            raise DataFileError(path, f"a label in column {column} is missing or not finite")
        return integers_where_exact(labels)
    labels = [label.strip() for label in labels]
    if "" in labels:
        raise DataFileError(path, f"no label in column {column}", line_of(labels.index("")))
    distinct = set(labels)
    if not all(map(is_number, distinct)):
        longest = max(distinct, key=len)
        if len(longest) > LONGEST_LABEL:
            reason = f"a label of {len(longest)} characters in column {column} (a quote that is not closed?)"
            raise DataFileError(path, reason, line_of(labels.index(longest)))
        return np.array(labels)
    value = {label: float(label) for label in distinct}
    y = np.array([value[label] for label in labels])
    if not np.isfinite(y).all():
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        raise DataFileError(path, f"the label {quoted(labels[i])} in column {column} is not finite", line_of(i))
    return integers_where_exact(y)


def strict_number(field: str) -> float:
    """Return float(field), but refuse Python's 1_000, which is a name or a date in a data file, and digits such as １."""
    if "_" in field or not field.strip().isascii():
        raise ValueError(field)
    return float(field)


def is_number(field: str) -> bool:
    """Whether a field spells a number."""
    try:
        strict_number(field)
    except ValueError:
        return False
    return True


def _missing(mark: str, column: str) -> str:
    return f"{quoted(mark)} in column {column}: a missing value (drop the line, or impute: --impute, missing='keep')"


def not_a_number(text: str, column: str) -> str:
    """The message about a text where a number is needed."""
    if is_number(text.replace(",", ".", 1)):
        return f"{quoted(text)} in column {column} is not a number (write decimal points, not commas)"
    advice = "--one-hot, text='one-hot' makes 0/1 columns of text; is it the label? name it with --target, target="
    return f"{quoted(text)} in column {column} is not a number ({advice})"
