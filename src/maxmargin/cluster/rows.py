"""A Dask collection as the rows of a training set: they stay on the workers, and single rows come here when they are needed."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.cluster.kept import KeptRows, Message, Sent, stacked
from maxmargin.cluster.piece import Piece, Shape
from maxmargin.cluster.team import Refusal, Team, require_same_version
from maxmargin.samples import Samples

Indices = NDArray[np.int32]

BYTES_OF_MESSAGE = 16_000_000  # of rows that are sent to the workers together


class PartitionedRows:
    """The rows of a collection, in partitions on the workers. `names` are those of its columns, if it is a data frame.

    Rows that were fetched are kept, within `budget` bytes; the oldest are dropped first.
    """

    def __init__(self, team: Team, shapes: Sequence[Shape], names: NDArray[Any] | None) -> None:
        self.team, self.names = team, names
        self.offsets = np.concatenate([[0], np.cumsum([one.n_rows for one in shapes])])
        self.shape = (int(self.offsets[-1]), shapes[0].n_features)
        self.dtype = np.result_type(*(one.dtype for one in shapes))
        self.sparse = shapes[0].sparse
        self.largest = max(one.largest for one in shapes)
        self.n_terms = max(one.n_terms for one in shapes)
        self.ndim = 2
        self.budget = 0
        self._kept, self._sent = KeptRows(), Sent()

    def __len__(self) -> int:
        return self.shape[0]

    def as_samples(self) -> Samples:
        from maxmargin.cluster.samples import PartitionedSamples

        return PartitionedSamples(self)

    def owners(self, rows: NDArray[np.integer]) -> NDArray[np.intp]:
        """The partition of each row."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def split(self, rows: NDArray[np.integer]) -> list[tuple[NDArray[np.intp], Indices]]:
        """For each partition, which of `rows` it has, and their numbers there."""
        owners = self.owners(rows)
        places = [np.flatnonzero(owners == number) for number in range(len(self.team))]
        return [(at, (rows[at] - self.offsets[p]).astype(np.int32)) for p, at in enumerate(places)]

    def __getitem__(self, rows: Any) -> Any:
        """The rows, here: a slice, or an array of numbers."""
        return self.fetch(np.arange(self.shape[0])[rows])

    def missing(self, rows: NDArray[np.integer]) -> NDArray[np.integer]:
        """Those rows that are not kept here, in ascending order."""
        return self._kept.missing(rows)

    def keep(self, rows: NDArray[np.integer], values: Sequence[Any]) -> None:
        """Keep `missing` rows, given in parts, until they are fetched; and longer if there is room."""
        if kept := [part.astype(self.dtype, copy=False) for part in values if part.shape[0]]:
            self._kept.add(rows, stacked(kept))

    def fetch(self, rows: NDArray[np.integer]) -> Any:
        """The rows, here."""
        missing = self.missing(rows)
        if len(missing):
            split = self.split(missing)
            among = [number for number, (_, local) in enumerate(split) if len(local)]
            self.keep(missing, self.team.ask("rows", [(split[number][1],) for number in among], among=among))
        if not len(rows):
            empty = np.empty((0, self.shape[1]), self.dtype)
            return sp.csr_array(empty) if self.sparse else empty
        fetched = self._kept.take(rows)
        self._kept.drop(self.budget)
        return fetched

    def message(self, rows: NDArray[np.integer], to_all: bool = True) -> Message:
        """A message with these rows, to all partitions or to some; without those that all have got before."""
        self.team.traffic.rows += len(rows)
        fresh = self._sent.fresh(rows)
        values = self.fetch(fresh)
        forget = to_all and self._sent.note(fresh, values)
        if self._sent.n_bytes > self.budget:
            self.send_all_again()
        return Message(rows.astype(np.int32), fresh.astype(np.int32), values, forget)

    def send_all_again(self) -> None:
        """Assume that no worker has got any rows yet."""
        self._sent = Sent()

    def ask_about(
        self,
        verb: str,
        rows: NDArray[np.integer],
        weights: NDArray[np.float64] | None,
        told: Sequence[tuple[Any, ...]],
        among: Sequence[int] | None = None,
    ) -> Iterator[tuple[slice, list[Any]]]:
        """Ask the partitions a question about these rows, which they are sent, with a column of weights for each; some rows at a
        time, in messages of limited size. Yield which rows, and the answers."""
        for some in self.at_once(len(rows)):
            own = None if weights is None else np.ascontiguousarray(weights[:, some])
            while True:
                message = self.message(rows[some], among is None or len(among) == len(self.team)), own
                answers = self.team.ask(verb, told, message, among=among)
                if not any(answer is Refusal.STALE for answer in answers):
                    break
                self.send_all_again()
            yield some, answers

    def at_once(self, n_rows: int) -> Iterator[slice]:
        """Cut a number of rows into messages of limited size."""
        height = max(1, BYTES_OF_MESSAGE // (self.dtype.itemsize * max(self.n_terms, 1)))
        return (slice(start, start + height) for start in range(0, n_rows, height))


def _is_files(X: Any) -> bool:
    """Whether X is a `RowFiles`; then their module, which is not imported for this, is there."""
    module = sys.modules.get("maxmargin.io.rows")
    return module is not None and isinstance(X, module.RowFiles)


def is_collection(X: Any) -> bool:
    """Whether X is a Dask collection, or files and there is an active client; Dask is not imported for this."""
    if _is_files(X):
        distributed = sys.modules.get("distributed")
        with suppress(ValueError):
            return distributed is not None and distributed.default_client() is not None
        return False
    dask = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(X))


def as_collection(X: Any, y: Any) -> tuple[Any, Any]:
    """The arguments of a fit as collections. Files have their labels with them."""
    return _from_files(X, y).to_dask() if _is_files(X) else (X, y)


def _from_files(X: Any, y: Any) -> Any:
    if y is not None:
        raise ValueError("y must be None where X is files: they have labels")
    return X


def opened(X: Any, y: Any, sample_weight: Any) -> AbstractContextManager[tuple[Any, Any, Any]]:
    """The arguments of a fit. If X is a Dask collection, its rows are placed on the workers for the time of the fit, and the
    targets and weights come here. Files are read into memory, if there is no cluster. All else stays as it is."""
    if is_collection(X):
        return _on_workers(X, y, sample_weight)
    X, y = _from_files(X, y).read() if _is_files(X) else (X, y)
    return nullcontext((X, y, sample_weight))


@contextmanager
def _on_workers(X: Any, y: Any, sample_weight: Any) -> Iterator[tuple[Any, Any, Any]]:
    X, y = as_collection(X, y)
    rows = open_rows(X)
    try:
        yield rows, _brought_here("y", y, rows), _brought_here("sample_weight", sample_weight, rows)
    finally:
        rows.team.close()


def open_rows(X: Any) -> PartitionedRows:
    """The rows of a Dask array or data frame on the cluster of the active client."""
    import dask

    client = active_client()
    require_same_version(client)
    blocks, columns, _ = blocks_of(X)
    label = uuid.uuid4().hex[:8]
    load = dask.delayed(load_partition, pure=False)
    names = [f"load-rows-{label}-{number}" for number in range(len(blocks))]
    tasks = [
        load(block, number, name, dask_key_name=name) for number, (block, name) in enumerate(zip(blocks, names, strict=True))
    ]
    team = Team(client, client.compute(tasks), label)
    shapes = team.ask("describe", [()] * len(team))
    _require_alike(shapes)
    return PartitionedRows(team, shapes, columns)


def blocks_of(X: Any) -> tuple[list[Any], NDArray[Any] | None, list[float]]:
    """The partitions of a Dask array or data frame, the names of its columns, if it has some, and the number of rows of each
    partition, which may be NaN."""
    if hasattr(X, "columns"):
        columns = list(X.columns)
        names = np.array(columns, dtype=object) if all(isinstance(name, str) for name in columns) else None
        return list(X.to_delayed()), names, [np.nan] * X.npartitions
    if X.ndim != 2:
        raise ValueError(f"X is a Dask collection with {X.ndim} dimensions: it must have two, rows and columns")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    return list(X.to_delayed().ravel()), None, list(X.chunks[0])


def load_partition(block: Any, number: int, key: str) -> Piece:
    """The task of this key, which makes a piece of a partition: rows of finite float32 or float64 numbers, in C order or CSR."""
    block = plain(block)
    if sp.issparse(block):
        block.sum_duplicates()
    else:
        block = np.ascontiguousarray(block)
    if block.dtype not in (np.float32, np.float64):
        block = block.astype(np.float64)
    values = block.data if sp.issparse(block) else block
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values).ravel())[0]
        row = np.searchsorted(block.indptr, bad, side="right") - 1 if sp.issparse(block) else bad // block.shape[1]
        raise ValueError(
            f"Input X contains NaN or infinity in row {row} of partition {number}: impute (dask_ml.impute) or drop such rows"
        )
    return Piece(block, number, key)


def plain(block: Any) -> Any:
    """A partition as an array or a CSR array."""
    if sp.issparse(block) or type(block).__module__.startswith("sparse"):
        return sp.csr_array(block.tocsr() if hasattr(block, "tocsr") else block)
    if hasattr(block, "sparse") and hasattr(block, "dtypes") and all(hasattr(kind, "fill_value") for kind in block.dtypes):
        return sp.csr_array(block.sparse.to_coo())
    return np.asarray(block)


def _require_alike(shapes: Sequence[Shape]) -> None:
    if not sum(one.n_rows for one in shapes):
        raise ValueError(f"X has no rows in its {len(shapes)} partitions: a minimum of 1 is required")
    for number, one in enumerate(shapes):
        if one.n_features != shapes[0].n_features:
            raise ValueError(
                f"partition {number} of X has {one.n_features} columns, and partition 0 has {shapes[0].n_features}: all "
                "partitions must have the same columns"
            )
        if one.sparse != shapes[0].sparse:
            kinds = ["dense", "sparse"]
            raise ValueError(
                f"partition {number} of X is {kinds[one.sparse]}, and partition 0 is {kinds[shapes[0].sparse]}: convert them "
                "with X.map_blocks, so that all are of one kind"
            )


def active_client() -> Any:
    try:
        from distributed import default_client
    except ImportError:
        raise ImportError("X is a Dask collection: training on a cluster needs pip install 'maxmargin[dask]'") from None
    try:
        return default_client()
    except ValueError:
        raise ValueError(
            "X is a Dask collection, and there is no active distributed.Client: make one before the fit (client = "
            "distributed.Client() for workers on this machine), or pass X.compute() to train in this process"
        ) from None


def _brought_here(name: str, values: Any, rows: PartitionedRows) -> Any:
    """Targets or weights as an array, one for each row."""
    if values is None or np.isscalar(values):
        return values
    if is_collection(values):
        values = rows.team.client.compute(values).result()
    values = np.asarray(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if len(values) != len(rows):
        raise ValueError(
            f"X has {len(rows)} rows in {len(rows.team)} partitions, and {name} has {len(values)} values: must be equal"
        )
    return values
