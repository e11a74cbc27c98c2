"""Files whose samples are rows of a kernel matrix (`-t 4`), as LIBSVM or CSV.

In a LIBSVM file index 0 is the number of the sample, from 1, and index j the kernel value with training sample j:

    +1 0:1 1:1.0 2:0.3
    -1 0:2 1:0.3 2:1.0

A CSV file has a column for each training sample.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from maxmargin.io import DataFileError, Table
from maxmargin.io.write import MOST_DENSE


def kernel_values(table: Table, n_trained: int | None = None, *, wider: bool = False) -> Table:
    """The table with kernel values as X: of each sample with `n_trained` training samples, or by default with those of the table
    itself. `wider` allows for more than `n_trained`. A LIBSVM file must have been read with `zero_based=True`."""
    X: Any = table.X
    n_samples = X.shape[0]
    expected = n_samples if n_trained is None else n_trained
    if issparse(X):
        if n_trained is None and not np.array_equal(X[:, [0]].toarray().ravel(), np.arange(1, n_samples + 1)):
            reason = f"index 0 does not number the samples 1, 2, …, {n_samples}, as it must for a precomputed kernel (-t 4)"
            raise DataFileError(table.source, reason)
        width = max(X.shape[1], expected + 1)  # zeros at the end may have been left out
        if n_samples * width > MOST_DENSE:
            raise DataFileError(table.source, f"{n_samples} x {width - 1} kernel values are too many")
        X = csr_matrix((X.data, X.indices, X.indptr), shape=(n_samples, width)).toarray()[:, 1:]
    if X.shape[1] != expected and not (wider and X.shape[1] > expected):
        reason = f"{X.shape[1]} kernel values for a sample, where there must be one for each of {expected} training samples"
        raise DataFileError(table.source, reason)
    return replace(table, X=np.ascontiguousarray(X))


def block(X: Any, rows: Any, columns: Any, *, of_kernel: bool) -> Any:
    """The samples `rows` of X; of a kernel matrix, their values with the training samples `columns`."""
    return X[np.ix_(rows, columns)] if of_kernel else X[rows]
