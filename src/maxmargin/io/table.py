"""The result of reading a data file: a `Table`, or a `DataFileError` that says what is wrong and where."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

FilePath = str | PathLike[str]

LONGEST_QUOTE = 60  # characters of a file that a message quotes


class DataFileError(ValueError):
    """The error that a file cannot be read. The message is one line.

    Parameters
    ----------
    source : str or path
        The name of the file.
    reason : str
        What is wrong with it, and the way out.
    line : int, default=None
        The line, from 1; None for the whole file.

    See Also
    --------
    read_table : Raises it.
    load : Raises it.

    Examples
    --------
    >>> from maxmargin.io import DataFileError
    >>> print(DataFileError("fruit.csv", "the label is missing", 3))
    fruit.csv, line 3: the label is missing
    """

    def __init__(self, source: FilePath, reason: str, line: int | None = None) -> None:
        super().__init__(source, reason, line)
        self.source = printable(fspath(source))
        self.reason = printable(reason)
        self.line = line

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}, line {self.line}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Table:
    """Samples read from one file.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
        The samples in float64: an array (CSV, Parquet) or a CSR matrix (LIBSVM); finite, except that missing values are NaN where
        they were asked for.
    y : ndarray of shape (n_samples,), or None
        The labels: integers, floats or strings; None if the file has none.
    feature_names : tuple of str, or None
        One name per column of X; None if the file gives none.
    source : str
        The name of the file, in printable characters.
    target_name : str, default=None
        The name of the label column; None if there is none.
    left_out : tuple of str, default=()
        The names of the columns that were dropped.

    See Also
    --------
    read_table : Makes one from a file.
    write_table : Writes one to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.io import Table
    >>> Table(np.eye(2), np.array([0, 1]), ("a", "b"), "by hand").X.shape
    (2, 2)
    """

    X: NDArray[np.float64] | csr_matrix
    y: NDArray[Any] | None
    feature_names: tuple[str, ...] | None
    source: str
    target_name: str | None = None
    left_out: tuple[str, ...] = ()


def printable(text: str) -> str:
    """Return `text` with its line ends, control characters and undecodable bytes written as escapes such as \\n."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def quoted(text: str | bytes) -> str:
    """Return a piece of a file in quotes for a message: one line, and no more than its first LONGEST_QUOTE characters."""
    if isinstance(text, bytes):
        text = text[: 4 * LONGEST_QUOTE + 4].decode("utf-8", errors="backslashreplace")
    return repr(text) if len(text) <= LONGEST_QUOTE else repr(text[:LONGEST_QUOTE] + "…")


def integers_where_exact(labels: NDArray[np.float64]) -> NDArray[Any]:
    """Labels 1.0, 2.0, … become the integers they spell; labels such as 0.5 stay floats."""
    with np.errstate(invalid="ignore"):  # 1e300 does not fit into an integer, and stays a float
        integers = labels.astype(np.int64)
    return integers if np.array_equal(integers, labels) else labels
