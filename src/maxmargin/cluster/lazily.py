"""Answers about the rows of a Dask collection: a lazy Dask array, partition by partition."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from maxmargin.cluster.rows import as_collection, is_collection

Method = TypeVar("Method", bound=Callable[..., Any])


def by_partition(method: Method) -> Method:
    """Let a method that answers for each row of X answer lazily if X is a Dask collection."""

    @wraps(method)
    def answer(self: Any, X: Any) -> Any:
        return _lazy(self, method, X) if is_collection(X) else method(self, X)

    return answer  # type: ignore[return-value]


def computed(*collections: Any) -> tuple[Any, ...]:
    """The values of Dask collections, computed together; anything else as it is."""
    if not any(map(is_collection, collections)):
        return collections
    import dask

    return tuple(dask.compute(*collections))


def _lazy(model: Any, method: Callable[..., Any], X: Any) -> Any:
    import dask
    import dask.array as da

    X, _ = as_collection(X, None)
    names = list(X.columns) if hasattr(X, "columns") else None
    if names is None and len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    n_features = X.shape[1] if names is None else len(names)
    n_features = int(model.n_features_in_) if np.isnan(n_features) else n_features
    like = method(model, _frame(np.zeros((1, n_features)), names))  # one row tells the shape and the type of the answers
    sizes = [np.nan] * X.npartitions if names is not None else X.chunks[0]
    blocks = X.to_delayed() if names is not None else X.to_delayed().ravel()
    label = f"{method.__name__.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    shared = dask.delayed(model, name=f"model-{label}", traverse=False)
    task = dask.delayed(_answer, pure=False)
    parts = [
        da.from_delayed(
            task(shared, method.__name__, block, like[:0], dask_key_name=f"{label}-{number}"), (size, *like.shape[1:]), like.dtype
        )
        for number, (size, block) in enumerate(zip(sizes, blocks, strict=True))
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _answer(model: Any, name: str, block: Any, nothing: Any) -> Any:
    """The task: the answers for one partition; for one without rows, none."""
    return getattr(model, name)(block) if block.shape[0] else nothing


def _frame(rows: Any, names: list[Any] | None) -> Any:
    if names is None:
        return rows
    from pandas import DataFrame

    return DataFrame(rows, columns=names)
