"""LIBSVM files: lines of text `label index:value index:value …`, with zeros left out."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from itertools import islice
from math import isfinite

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from maxmargin.io.bytes_and_text import open_bytes, read_bytes
from maxmargin.io.table import DataFileError, FilePath, Table, integers_where_exact, printable, quoted

CUT_OFF = " (the last line has no end: was the file cut off?)"
# Some algorithms need memory for each feature. The widest set on LIBSVM's page of data sets, kdd2012, has 54,686,452 features.
MOST_FEATURES = 100_000_000
LARGEST_INDEX = int(np.iinfo(np.int32).max)
MOST_DIGITS = 4300  # digits of an index, leading zeros included: Python's default limit
NOT_A_QUERY = re.compile(rb"qid(?!:)")


def read_libsvm(path: FilePath, *, zero_based: bool | None = None, n_features: int | None = None) -> Table:
    r"""Read a LIBSVM (svmlight) file into a CSR matrix and numeric labels.

    Parameters
    ----------
    path : str or path
        The file; .gz, .bz2 and .xz are unpacked.
    zero_based : bool, default=None
        Whether indices count from 0. None: they do if an index 0 occurs in the file.
    n_features : int, default=None
        The width of X; an index beyond it is an error. None: the largest index decides, up to 100,000,000 features; a wider file
        needs this parameter. Pass the model's `n_features_in_` for a test file, which may lack the last features.

    Returns
    -------
    Table
        The samples, in CSR, and labels.

    Raises
    ------
    DataFileError
        With the line number, for anything that is not such a file.

    See Also
    --------
    read_table : Chooses the format by the ending.
    sklearn.datasets.load_svmlight_file : A faster reader with fewer checks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import read_libsvm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "fruit.svm"
    ...     _ = file.write_text("+1 1:5 3:0.5\n-1 2:7\n")
    ...     table = read_libsvm(file)
    >>> table.X.toarray()
    array([[5. , 0. , 0.5],
           [0. , 7. , 0. ]])
    """
    return parse_libsvm(read_bytes(path), path, zero_based=zero_based, n_features=n_features)


def parse_libsvm(content: bytes, path: FilePath, *, zero_based: bool | None = None, n_features: int | None = None) -> Table:
    """Like `read_libsvm`, for the bytes of a file; `path` is for messages."""
    first_index = 1 if zero_based is False else 0
    # scikit-learn reads fast but names no line, takes Python's 1_000 for a number, and drops a first pair 'qidx:7'.
    suspicious = b"_" in content or NOT_A_QUERY.search(content)
    if suspicious and (fault := _first_fault(content, first_index)):
        raise DataFileError(path, fault[1], fault[0])
    try:
        X, labels = load_svmlight_file(io.BytesIO(content), zero_based="auto" if zero_based is None else zero_based)
    except (ValueError, OverflowError) as error:
        line, reason = _first_fault(content, first_index) or (None, str(error))
        raise DataFileError(path, reason, line) from None
    if not labels.size:
        raise DataFileError(path, "nothing but comments: the file has no samples")
    _check_values(X, labels, content, path)
    X = _with_width(X, n_features, content, path)
    return Table(X, integers_where_exact(labels), None, printable(str(path)))


def libsvm_parts(path: FilePath, zero_based: bool, n_features: int | None, n_bytes: int) -> Iterator[Table]:
    """Read a LIBSVM file in parts of about `n_bytes` of text. The parts can differ in width if `n_features` is None."""
    n_lines, rest = 0, b""
    with open_bytes(path) as file:
        while True:
            piece = file.read(n_bytes)
            content, newline, rest = (rest + piece).rpartition(b"\n") if piece else (rest, b"", b"")
            content = (content + newline).removeprefix(codecs.BOM_UTF8) if n_lines == 0 else content + newline
            if any(line.partition(b"#")[0].strip() for line in io.BytesIO(content)):
                try:
                    yield parse_libsvm(content, path, zero_based=zero_based, n_features=n_features)
                except DataFileError as error:
                    line = None if error.line is None else error.line + n_lines
                    raise DataFileError(path, error.reason, line) from None
            n_lines += content.count(b"\n")
            if not piece:
                return


def _check_values(X: csr_matrix, labels: np.ndarray, content: bytes, path: FilePath) -> None:
    """Refuse values and labels that are NaN or infinite."""
    for faulty, what in (
        (_rows_of(X, ~np.isfinite(X.data)), "a value that is NaN or infinite"),
        (np.flatnonzero(~np.isfinite(labels)), "a label that is NaN or infinite"),
    ):
        if faulty.size:
            raise DataFileError(path, what, _line_of_row(content, faulty[0]))


def _with_width(X: csr_matrix, n_features: int | None, content: bytes, path: FilePath) -> csr_matrix:
    """Return X with n_features columns; an index beyond them, or beyond MOST_FEATURES, is an error that names its line."""
    most = MOST_FEATURES if n_features is None else n_features
    beyond = _rows_of(X, X.indices >= most)
    if beyond.size:
        reason = f"an index beyond the {n_features} features expected"
        if n_features is None:
            reason = f"an index beyond {most:,} (a mistake? if not, call read_libsvm with n_features={X.shape[1]})"
        raise DataFileError(path, reason, _line_of_row(content, beyond[0]))
    if n_features is None:
        return X
    return csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


def _rows_of(X: csr_matrix, entries: np.ndarray) -> np.ndarray:
    """Return the rows of the stored entries where the mask `entries` is true, in order."""
    return np.searchsorted(X.indptr, np.flatnonzero(entries), side="right") - 1


def _line_of_row(content: bytes, row: int) -> int:
    samples = (number for number, line in enumerate(content.split(b"\n"), start=1) if line.partition(b"#")[0].strip())
    return next(islice(samples, int(row), None))


def _first_fault(content: bytes, first_index: int) -> tuple[int, str] | None:
    """Return the line and the kind of the first fault, by a slow second reading of a file that failed."""
    for number, line in enumerate(io.BytesIO(content), start=1):
        fields = line.partition(b"#")[0].split()
        if not fields:
            continue
        fault = _label_fault(fields[0]) or _pairs_fault(fields[1:], first_index)
        if fault:
            return number, fault + CUT_OFF * (not line.endswith(b"\n"))
    return None


def _label_fault(label: bytes) -> str | None:
    if _finite(label):
        return None
    if b"," in label:
        return f"the label {quoted(label)}: several labels for one sample, or a CSV file (use read_csv)"
    return f"the label {quoted(label)} is not a finite number"


def _pairs_fault(pairs: list[bytes], first_index: int) -> str | None:
    previous = None
    for pair in pairs[1:] if pairs and pairs[0].startswith(b"qid:") else pairs:
        name, colon, value = pair.partition(b":")
        if not colon or not name or not value:
            return f"{quoted(pair)} is not index:value"
        if not name.removeprefix(b"+").isdigit():
            return f"the index of {quoted(pair)} is not a whole number"
        index = int(name) if len(name) <= MOST_DIGITS else LARGEST_INDEX + 1
        if index > LARGEST_INDEX:
            return f"the index of {quoted(pair)} is beyond {LARGEST_INDEX}"
        if index < first_index:
            return f"index {index} where indices count from {first_index} (pass zero_based=True)"
        if previous is not None and index <= previous:
            return f"index {index} after index {previous}: indices must increase along a line"
        if not _finite(value):
            return f"the value of {quoted(pair)} is not a finite number"
        previous = index
    return None


def _finite(text: bytes) -> bool:
    """Whether `text` spells a finite number; Python's 1_000 does not count."""
    try:
        return b"_" not in text and isfinite(float(text))
    except ValueError:
        return False
