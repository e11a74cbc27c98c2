"""Choose the reader of a file by its ending, or else by its first line."""

from __future__ import annotations

import io
import re
from pathlib import Path

from maxmargin.io.bytes_and_text import UNPACKERS, read_bytes
from maxmargin.io.delimited import parse_csv
from maxmargin.io.libsvm import parse_libsvm
from maxmargin.io.table import DataFileError, FilePath, Table

CSV_ENDINGS = frozenset({".csv", ".tsv"})
LIBSVM_ENDINGS = frozenset({".svm", ".libsvm", ".svmlight"})
LIBSVM_LINE = re.compile(rb"\s*[^\s,;:]+\s+(qid|\d+):")


def read_table(path: FilePath, target: int | str | None = None, *, n_features: int | None = None) -> Table:
    """Read a CSV or a LIBSVM file; parameters as in `read_csv` and `read_libsvm`.

    The ending decides (.csv, .tsv; .svm, .libsvm, .svmlight; before .gz, .bz2 or .xz). With any
    other ending the file is LIBSVM if its first line begins `label index:…`, else CSV.
    """
    content = read_bytes(path)
    if not _is_libsvm(path, content):
        return parse_csv(content, path, target, n_features=n_features)
    if target is not None:
        reason = f"target={target!r}: a LIBSVM file has its labels in front (leave target out)"
        raise DataFileError(path, reason)
    return parse_libsvm(content, path, n_features=n_features)


def _is_libsvm(path: FilePath, content: bytes) -> bool:
    endings = [suffix.lower() for suffix in Path(path).suffixes]
    ending = next((suffix for suffix in reversed(endings) if suffix not in UNPACKERS), "")
    if ending in CSV_ENDINGS | LIBSVM_ENDINGS:
        return ending in LIBSVM_ENDINGS
    lines = (line.partition(b"#")[0] for line in io.BytesIO(content))
    return bool(LIBSVM_LINE.match(next((line for line in lines if line.strip()), b"")))
