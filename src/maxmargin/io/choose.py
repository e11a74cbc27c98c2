"""Choose the reader or the writer of a file by its ending, or else the reader by its first line."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from maxmargin.io.bytes_and_text import UNPACKERS, checked_bytes, read_bytes
from maxmargin.io.columns import Columns, Reading
from maxmargin.io.delimited import parse_csv
from maxmargin.io.libsvm import parse_libsvm
from maxmargin.io.parquet import parse_parquet
from maxmargin.io.table import DataFileError, FilePath, Table

CSV_ENDINGS = frozenset({".csv", ".tsv"})
LIBSVM_ENDINGS = frozenset({".svm", ".libsvm", ".svmlight"})
PARQUET_ENDINGS = frozenset({".parquet", ".pq"})
LIBSVM_LINE = re.compile(rb"\s*[^\s,;:]+\s+(qid|\d+):")


def read_table(
    path: FilePath,
    target: int | str | None = None,
    *,
    n_features: int | None = None,
    wider: bool = False,
    zero_based: bool | None = None,
    labelled: bool = True,
    drop: Sequence[int | str] = (),
    missing: str = "refuse",
    text: str = "refuse",
    columns: Columns | None = None,
    file: BinaryIO | None = None,
) -> Table:
    r"""Read a CSV, LIBSVM or Parquet file.

    The ending decides (.csv, .tsv; .svm, .libsvm, .svmlight; before .gz, .bz2 or .xz; .parquet). With any other ending the
    file is LIBSVM if its first line begins `label index:…`, else CSV.

    Parameters
    ----------
    path : str or path
        The file.
    target : int or str, default=None
        The label column, as in `read_csv`.
    n_features : int, default=None
        The number of features of a sample, as in `read_csv` and `read_libsvm`.
    wider : bool, default=False
        Whether `n_features` does not bind a LIBSVM file: then the largest index decides, for a model that does not know how many
        features there are.
    zero_based : bool, default=None
        Whether the indices of a LIBSVM file count from 0, as in `read_libsvm`.
    labelled, drop, missing, text, columns
        As in `read_csv`.
    file : binary file, default=None
        A file to read in place of `path`, for example ``sys.stdin.buffer``; `path` is then only its name.

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
    read_csv, read_libsvm : Readers of one format.
    write_table : The way back.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "fruit.csv"
    ...     _ = file.write_text("long,wide,class\n5,3,fig\n7,2,plum\n")
    ...     table = read_table(file)
    >>> table.X
    array([[5., 3.],
           [7., 2.]])
    >>> table.y.tolist()
    ['fig', 'plum']
    """
    reading = Reading(target, n_features, labelled, tuple(drop), missing, text, columns)
    if file is None and ending_of(path) in PARQUET_ENDINGS:
        return parse_parquet(path, reading)
    content = read_bytes(path) if file is None else checked_bytes(file, path)
    if not _is_libsvm(path, content):
        return parse_csv(content, path, reading)
    for name, value in (("target", target), ("drop", drop or None)):
        if value is not None:
            reason = f"{name}={value!r}: a LIBSVM file has its labels in front, and no names (leave {name} out)"
            raise DataFileError(path, reason)
    width = len(columns.features) if columns else n_features
    return parse_libsvm(content, path, zero_based=zero_based, n_features=None if wider else width)


def ending_of(path: FilePath) -> str:
    """The ending that says what a file holds: .csv of data.csv.gz."""
    endings = [suffix.lower() for suffix in Path(path).suffixes]
    return next((suffix for suffix in reversed(endings) if suffix not in UNPACKERS), "")


def _is_libsvm(path: FilePath, content: bytes) -> bool:
    if (ending := ending_of(path)) in CSV_ENDINGS | LIBSVM_ENDINGS:
        return ending in LIBSVM_ENDINGS
    lines = (line.partition(b"#")[0] for line in io.BytesIO(content))
    return bool(LIBSVM_LINE.match(next((line for line in lines if line.strip()), b"")))
