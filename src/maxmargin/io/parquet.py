"""Parquet files, by pyarrow, which is an extra (`pip install maxmargin[parquet]`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.io.bytes_and_text import most_unpacked, open_bytes
from maxmargin.io.columns import Reading, assemble, lay_out
from maxmargin.io.table import DataFileError, FilePath, Table


def parse_parquet(path: FilePath, reading: Reading) -> Table:
    """Read a Parquet file; what is asked of it is as in `read_csv`."""
    arrow, parquet = import_pyarrow()
    with open_bytes(path):  # a missing file, a folder and a pipe are refused by name
        pass
    try:
        with parquet.ParquetFile(path) as file:
            n_bytes = 8 * file.metadata.num_rows * file.metadata.num_columns
            if n_bytes > most_unpacked(path):
                raise DataFileError(path, f"the file unpacks to {n_bytes:,} bytes, far more than its size: is it damaged?")
            content = file.read()
    except (arrow.ArrowException, OSError) as error:
        raise DataFileError(path, f"not a Parquet file, or a damaged one ({str(error)[:200]})") from None
    if content.num_rows == 0:
        raise DataFileError(path, "the file has no samples")
    return _table(content, reading, path, arrow)


def parquet_parts(path: FilePath, reading: Reading, n_bytes: int) -> Iterator[Table]:
    """Read a Parquet file in parts of about `n_bytes`."""
    arrow, parquet = import_pyarrow()
    with open_bytes(path):  # a missing file, a folder and a pipe are refused by name
        pass
    try:
        with parquet.ParquetFile(path) as file:
            n_rows = max(1, n_bytes // (8 * max(1, file.metadata.num_columns)))
            for batch in file.iter_batches(batch_size=n_rows):
                if batch.num_rows:
                    yield _table(arrow.Table.from_batches([batch]), reading, path, arrow)
    except (arrow.ArrowException, OSError) as error:
        raise DataFileError(path, f"not a Parquet file, or a damaged one ({str(error)[:200]})") from None


def _table(content: Any, reading: Reading, path: FilePath, arrow: Any) -> Table:
    layout = lay_out(content.column_names, content.num_columns, reading, path)
    columns = {
        j: _column(content, j, arrow, path) for j in range(content.num_columns) if j == layout.target or j in layout.features
    }
    labels = None if layout.target is None else columns[layout.target]
    return assemble(columns, labels, layout, reading, path, lambda _: None)


def import_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module; an ImportError says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("a Parquet file needs pyarrow: pip install 'maxmargin[parquet]'") from None
    return pyarrow, pyarrow.parquet


def _column(content: Any, j: int, arrow: Any, path: FilePath) -> Any:
    """One column as numbers, with NaN for missing values, or as texts."""
    column = content.column(j).combine_chunks()
    if arrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if arrow.types.is_boolean(column.type):
        column = column.cast(arrow.int8())
    if arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type) or arrow.types.is_decimal(column.type):
        return column.cast(arrow.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
    if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type):
        return ["" if text is None else text for text in column.to_pylist()]
    name = content.column_names[j]
    raise DataFileError(path, f"column {name!r} holds {column.type}, neither numbers nor text (leave it out with drop, --drop)")
