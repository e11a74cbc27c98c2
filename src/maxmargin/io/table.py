"""What a data file becomes: a `Table`, or a `DataFileError` that says where and why not."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

FilePath = str | PathLike[str]


class DataFileError(ValueError):
    """A data file cannot be read: `source`, `reason`, and `line` from 1 (None: the whole file)."""

    def __init__(self, source: FilePath, reason: str, line: int | None = None) -> None:
        super().__init__(source, reason, line)
        self.source = str(source)
        self.reason = reason
        self.line = line

    def __str__(self) -> str:
        place = self.source if self.line is None else f"{self.source}, line {self.line}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Table:
    """Samples read from one file.

    X : float64 array (CSV) or CSR matrix (LIBSVM), shape (n_samples, n_features); finite.
    y : labels, shape (n_samples,): integers, floats or strings; None if the file has none.
    feature_names : one name per column of X; None if the file gives none.
    source : where it came from.
    """

    X: NDArray[np.float64] | csr_matrix
    y: NDArray[Any] | None
    feature_names: tuple[str, ...] | None
    source: str


def integers_where_exact(labels: NDArray[np.float64]) -> NDArray[Any]:
    """Labels 1.0, 2.0, … become the integers they spell; labels such as 0.5 stay floats."""
    with np.errstate(invalid="ignore"):  # 1e300 has no integer, and stays as it is
        integers = labels.astype(np.int64)
    return integers if np.array_equal(integers, labels) else labels
