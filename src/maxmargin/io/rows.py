"""Files that are too large for memory: read in parts, as often as a fit asks for them."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.io.choose import LIBSVM_ENDINGS, PARQUET_ENDINGS, ending_of
from maxmargin.io.columns import Reading
from maxmargin.io.libsvm import libsvm_parts
from maxmargin.io.parquet import parquet_parts
from maxmargin.io.table import DataFileError, FilePath

BYTES_OF_PART = 32_000_000  # of text, or of numbers
FORMAT = 1


class RowFiles:
    """The rows of some files; iterating gives chunks ``(X, y)``, as often as asked. `open_rows` makes one.

    Parameters
    ----------
    paths : list of str or path
        The files, in the order of the rows.
    target : int or str, default=None
        The label column of Parquet files.
    zero_based : bool, default=False
        Whether the indices of LIBSVM files count from 0.
    n_features : int, default=None
        The number of columns; None: as many as the files have.
    cache : str or path, default=None
        A folder for a copy of the rows as arrays.

    See Also
    --------
    open_rows : Finds the files.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import RowFiles
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "fruit.svm"
    ...     _ = file.write_text("+1 1:5 3:0.5\\n-1 2:7\\n")
    ...     [X.shape for X, y in RowFiles([file])]
    [(2, 3)]
    """

    def __init__(
        self,
        paths: list[FilePath],
        target: int | str | None = None,
        zero_based: bool = False,
        n_features: int | None = None,
        cache: FilePath | None = None,
    ) -> None:
        self._paths, self._target, self._zero_based, self._n_features = paths, target, zero_based, n_features
        self._cache = None if cache is None else Path(cache)

    def __iter__(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        for path in self._paths:
            if ending_of(path) in PARQUET_ENDINGS:
                parts = parquet_parts(path, Reading(self._target, self._n_features), BYTES_OF_PART)
            else:
                parts = libsvm_parts(path, self._zero_based, self._n_features, BYTES_OF_PART)
            for table in parts:
                if table.y is None:
                    raise DataFileError(path, "the file has no label column (pass target=)")
                yield table.X, table.y

    def read(self) -> tuple[Any, NDArray[Any]]:
        """All rows and their labels, in memory."""
        parts = list(self)
        if not parts:
            return np.empty((0, 0)), np.empty(0)
        rows, labels = [X for X, _ in parts], np.concatenate([y for _, y in parts])
        if not sp.issparse(rows[0]):
            return np.concatenate(rows), labels
        width = max(X.shape[1] for X in rows)
        return sp.csr_array(sp.vstack([wider(X, width) for X in rows])), labels

    def to_dask(self) -> tuple[Any, Any]:
        """The rows and their labels as Dask arrays, a partition for each file, which the workers read; ``fit`` calls this where
        there is an active ``distributed.Client``. All workers must see the files."""
        import dask
        import dask.array as da

        read, shape_of, width_of, part_of = (dask.delayed(what, pure=False) for what in (_read, _shape, _width, _part))
        label = uuid.uuid4().hex[:8]
        files = (RowFiles([path], self._target, self._zero_based, self._n_features) for path in self._paths)
        read_files = [read(one, dask_key_name=f"read-file-{label}-{number}") for number, one in enumerate(files)]
        width = width_of([shape_of(one) for one in read_files])  # the files themselves stay where they are
        X = [da.from_delayed(part_of(one, 0, width), (np.nan, np.nan), np.float64) for one in read_files]
        y = [da.from_delayed(part_of(one, 1, width), (np.nan,), np.float64) for one in read_files]
        return da.concatenate(X, allow_unknown_chunksizes=True), da.concatenate(y, allow_unknown_chunksizes=True)

    def matrix(self) -> tuple[Any, NDArray[Any]] | None:
        """All rows as memory maps, a dense or CSR matrix and its labels, which are written to the cache first; None if there is
        no cache."""
        if self._cache is None:
            return None
        stamp = {
            "format": FORMAT,
            "files": [[os.path.abspath(path), os.stat(path).st_size, os.stat(path).st_mtime_ns] for path in self._paths],
            "reading": [self._target, self._zero_based, self._n_features],
        }
        note = self._cache / "rows.json"
        known = json.loads(note.read_text()) if note.exists() else {}
        if known.get("stamp") != stamp:
            known = {"stamp": stamp, **self._write(self._cache)}
            part = note.with_suffix(".part")  # the note comes last, and whole: without it the copy does not count
            part.write_text(json.dumps(known))
            os.replace(part, note)
        return self._mapped(self._cache, known)

    def _write(self, folder: Path) -> dict[str, Any]:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.json").unlink(missing_ok=True)
        labels, lengths, width, sparse = list[NDArray[Any]](), [np.zeros(1, dtype=np.int64)], 0, False
        with open(folder / "data.bin", "wb") as data, open(folder / "indices.bin", "wb") as indices:
            for X, y in self:
                labels.append(y)
                width, sparse = max(width, X.shape[1]), sp.issparse(X)
                if sparse:
                    lengths.append(np.diff(X.indptr).astype(np.int64))
                    X.indices.astype(np.int32).tofile(indices)
                (X.data if sparse else X).astype(np.float64).tofile(data)
        if not labels:
            raise DataFileError(self._paths[0], "the files have no samples")
        y = np.concatenate(labels)
        np.save(folder / "y.npy", y)
        np.save(folder / "indptr.npy", np.cumsum(np.concatenate(lengths)))
        return {"shape": [len(y), width], "sparse": sparse}

    @staticmethod
    def _mapped(folder: Path, known: dict[str, Any]) -> tuple[Any, NDArray[Any]]:
        y, shape = np.load(folder / "y.npy"), tuple(known["shape"])
        if not known["sparse"]:
            return np.memmap(folder / "data.bin", dtype=np.float64, mode="r", shape=shape), y
        starts = np.load(folder / "indptr.npy", mmap_mode="r")
        n_values = int(starts[-1])
        data = np.memmap(folder / "data.bin", dtype=np.float64, mode="r", shape=(n_values,))
        indices = np.memmap(folder / "indices.bin", dtype=np.int32, mode="r", shape=(n_values,))
        X = sp.csr_array(shape, dtype=np.float64)
        X.data, X.indices, X.indptr = data, indices, starts  # the constructor would copy what it can make smaller
        return X, y


def _read(files: RowFiles) -> tuple[Any, NDArray[Any]] | DataFileError:
    """The rows and labels of a file; or the error, which `_part` raises: all parts need the width of all files, and only the one
    that cannot be read is to fail."""
    try:
        return files.read()
    except DataFileError as error:
        return error


def _shape(file: tuple[Any, NDArray[Any]] | DataFileError) -> tuple[int, bool]:
    """The number of columns of a file, and whether it is sparse."""
    return (0, False) if isinstance(file, DataFileError) else (int(file[0].shape[1]), sp.issparse(file[0]))


def _width(shapes: list[tuple[int, bool]]) -> tuple[int, bool]:
    return max(shapes)


def _part(file: tuple[Any, NDArray[Any]] | DataFileError, number: int, shape: tuple[int, bool]) -> Any:
    """The rows of a file, as wide as all, or its labels."""
    if isinstance(file, DataFileError):
        raise file
    width, sparse = shape
    if number == 0 and not len(file[1]):  # a file without rows does not tell of which kind they are
        return sp.csr_array((0, width)) if sparse else np.empty((0, width))
    return wider(file[0], width) if number == 0 and sparse else file[number]


def wider(X: Any, width: int) -> Any:
    """CSR rows with this many columns, of which the last may be empty."""
    return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def open_rows(
    path: FilePath,
    *,
    target: int | str | None = None,
    zero_based: bool = False,
    n_features: int | None = None,
    cache: FilePath | None = None,
) -> RowFiles:
    r"""Open a LIBSVM or Parquet file, or a folder of such files, that need not fit into memory.

    ``fit`` takes what is returned in place of X and y. Linear machines read it in chunks, kernel machines as a whole; where there
    is an active ``distributed.Client``, the workers of its cluster read it, a file each.

    Parameters
    ----------
    path : str or path
        A file (.svm, .libsvm, .svmlight, also .gz, .bz2 or .xz; .parquet), or a folder of them, which are read in the order of
        their names.
    target : int or str, default=None
        The label column of Parquet files; None: a column called ``target``, ``label``, ``class`` or ``y``, else the last one.
    zero_based : bool, default=False
        Whether the indices of LIBSVM files count from 0.
    n_features : int, default=None
        The number of columns; None: the largest index decides. A larger index is an error.
    cache : str or path, default=None
        A folder for a copy of the rows as arrays, which is written once and read in place of the files. Parsing text takes
        longer than a pass over the numbers, and only arrays can be read in a random order, which saves passes where there are
        many columns. The copy takes 12 bytes for each stored value of LIBSVM files, and 8 for each of Parquet files.

    Returns
    -------
    RowFiles
        The rows, to be passed to ``fit``.

    See Also
    --------
    read_table : Reads a file into memory.
    maxmargin.LinearSVC : Its ``fit`` takes the rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.io import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "fruit.svm"
    ...     _ = file.write_text("+1 1:5 3:0.5\n-1 2:7\n")
    ...     model = LinearSVC().fit(open_rows(file))
    >>> model.coef_.shape
    (1, 3)
    """
    endings = LIBSVM_ENDINGS | PARQUET_ENDINGS
    folder = Path(path)
    paths: list[FilePath] = [path]
    if folder.is_dir():
        paths = [file for file in sorted(folder.iterdir()) if ending_of(file) in endings and not file.name.startswith(".")]
        if not paths:
            raise DataFileError(path, f"the folder has no file that ends in {', '.join(sorted(endings))}")
        if len({ending_of(file) in PARQUET_ENDINGS for file in paths}) > 1:
            raise DataFileError(path, "the folder has LIBSVM and Parquet files: keep one kind in a folder")
    elif not folder.exists():
        raise DataFileError(path, "no such file")
    if target is not None and ending_of(paths[0]) not in PARQUET_ENDINGS:
        raise DataFileError(path, f"target={target!r}: a LIBSVM file has its labels in front (leave target out)")
    return RowFiles(paths, target, zero_based, n_features, cache)
