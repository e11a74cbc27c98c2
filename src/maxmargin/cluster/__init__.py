"""Training on a Dask cluster: the same problem, the same outer loop and the same certificate as on one machine.

    rows      a Dask collection as rows that stay on the workers (`opened`, for the time of a fit)
    team      one object for each partition on some worker, and rounds of questions to all; workers that die
    kept      rows that were sent, so that none travels twice
    piece     what lives on a worker: the rows of a partition, and the part of a point that belongs to them
    passes    a function of each partition and the sum of what it finds, again and again (linear machines)
    lazily    answers about the rows of a collection, partition by partition
    samples, gram, point, backend   the contracts of `samples.py` and `backends/`, over all pieces

The rows never come here as a whole, nor does a gradient within the loop. Dask is imported late: nothing here needs it until a
Dask collection is trained on. What a fit without a cluster does not ask for is imported late, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxmargin.cluster.lazily import by_partition, computed
from maxmargin.cluster.rows import PartitionedRows, as_collection, is_collection, opened, plain
from maxmargin.cluster.team import PartitionError, Traffic
from maxmargin.late_imports import imported_late

if TYPE_CHECKING:
    from maxmargin.cluster.backend import ClusterBackend
    from maxmargin.cluster.passes import Partitions
    from maxmargin.cluster.samples import PartitionedSamples

_MODULE_OF = {"ClusterBackend": "backend", "PartitionedSamples": "samples", "Partitions": "passes"}

__all__ = [
    "ClusterBackend",
    "PartitionError",
    "PartitionedRows",
    "PartitionedSamples",
    "Partitions",
    "Traffic",
    "as_collection",
    "by_partition",
    "computed",
    "is_collection",
    "opened",
    "plain",
]


__getattr__ = imported_late(__name__, _MODULE_OF)
