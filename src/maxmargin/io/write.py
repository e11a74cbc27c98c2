"""Write a `Table` as CSV, LIBSVM text or Parquet: every number with as many digits as give it back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from maxmargin.io.choose import CSV_ENDINGS, LIBSVM_ENDINGS, PARQUET_ENDINGS, ending_of
from maxmargin.io.parquet import import_pyarrow
from maxmargin.io.table import DataFileError, FilePath, Table

MOST_DENSE = 2**28  # entries of a sparse matrix that may be written with its zeros
FORMATS = {
    **dict.fromkeys(CSV_ENDINGS, "csv"),
    **dict.fromkeys(LIBSVM_ENDINGS, "libsvm"),
    **dict.fromkeys(PARQUET_ENDINGS, "parquet"),
}


def write_table(table: Table, path: FilePath, kind: str | None = None) -> None:
    """Write a table as CSV, LIBSVM or Parquet, every number exactly.

    A LIBSVM file has numbers for labels and no names. A CSV or Parquet file has its labels in the last column.

    Parameters
    ----------
    table : Table
        The samples and labels.
    path : str or path
        The file.
    kind : {"csv", "libsvm", "parquet"}, default=None
        The format. None: the ending says which.

    See Also
    --------
    read_table : The way back.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from maxmargin.io import Table, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "small.csv"
    ...     write_table(Table(np.array([[0.5, 2.0]]), np.array([1]), ("a", "b"), "by hand", "y"), file)
    ...     print(file.read_text().strip())
    a,b,y
    0.5,2,1
    """
    kind = kind or format_of(path)
    if kind == "parquet":
        _write_parquet(table, path)
    else:
        lines = lines_of(table, kind)
        first = next(lines, "")  # a table that cannot be written is refused here, before a file of this name is replaced
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(first)
            file.writelines(lines)


def format_of(path: FilePath) -> str:
    """The format of a file that is to be written, by its ending."""
    if (ending := ending_of(path)) not in FORMATS:
        raise DataFileError(path, f"the ending must be one of {', '.join(sorted(FORMATS))}")
    return FORMATS[ending]


def lines_of(table: Table, kind: str) -> Iterator[str]:
    """Yield the lines of a table as "csv" or "libsvm" text."""
    return _csv_lines(table) if kind == "csv" else _libsvm_lines(table)


def _libsvm_lines(table: Table) -> Iterator[str]:
    X: Any = csr_matrix(table.X)
    y = np.zeros(X.shape[0], dtype=int) if table.y is None else table.y
    if y.dtype.kind not in "iuf":
        raise DataFileError(table.source, f"the labels are text, such as {y[0]!r}: a LIBSVM file has numbers")
    if np.isnan(X.data).any():
        raise DataFileError(table.source, "missing values: a LIBSVM file has none (impute them: convert --impute)")
    for i, label in enumerate(y.tolist()):
        part = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip((X.indices[part] + 1).tolist(), X.data[part].tolist(), strict=True)
        yield " ".join([_text(label), *(f"{index}:{_text(value)}" for index, value in sorted(pairs))]) + "\n"


def _csv_lines(table: Table) -> Iterator[str]:
    X = _dense(table)
    header = list(table.feature_names or (f"x{j + 1}" for j in range(X.shape[1])))
    yield _csv_line(header if table.y is None else [*header, table.target_name or "target"])
    for i, row in enumerate(X.tolist()):
        fields = ["" if value != value else _text(value) for value in row]
        yield _csv_line(fields if table.y is None else [*fields, _text(table.y[i].item())])


def _csv_line(fields: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def _write_parquet(table: Table, path: FilePath) -> None:
    arrow, parquet = import_pyarrow()
    X = _dense(table)
    names = list(table.feature_names or (f"x{j + 1}" for j in range(X.shape[1])))
    columns = [arrow.array(X[:, j], from_pandas=True) for j in range(X.shape[1])]
    if table.y is not None:
        names.append(table.target_name or "target")
        columns.append(arrow.array(table.y))
    parquet.write_table(arrow.Table.from_arrays(columns, names=names), path)


def _dense(table: Table) -> Any:
    X: Any = table.X
    if not issparse(X):
        return X
    if X.shape[0] * X.shape[1] > MOST_DENSE:
        raise DataFileError(table.source, f"{X.shape[0]} x {X.shape[1]} entries, zeros included, are too many for this format")
    return X.toarray()


def _text(value: Any) -> str:
    """A number with as many digits as give it back, a whole one without its point; or a text as it is."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
