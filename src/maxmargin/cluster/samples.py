"""Samples whose rows stay in partitions on the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.cluster.rows import PartitionedRows
from maxmargin.samples import CONSTANT, SAMPLES_FOR_CENTRE, KernelFunction, Samples, middle_of

Vector = NDArray[np.float64]


class PartitionedSamples(Samples):
    """The rows of a `PartitionedRows`; the order is an index, as in all samples. Rows are fetched where `rows` is asked for."""

    X: PartitionedRows

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        return self.X.sparse

    @property
    def numbers(self) -> NDArray[np.integer]:
        """The number of each sample's row in the collection."""
        return np.arange(len(self.X), dtype=np.int32) if self.index is None else self.index

    def _compared(self) -> Any:
        rows = self.X.fetch(self.numbers)
        return rows if self.centre is None or self.X.sparse else rows - self.centre

    def diagonal(self, kernel: KernelFunction) -> Vector:
        split = self.X.split(self.numbers)
        answers = self.X.team.ask("diagonal", [(kernel, local, self.centre) for _, local in split])
        values = np.empty(len(self))
        for (places, _), own in zip(split, answers, strict=True):
            values[places] = own
        return values

    def sizes(self, kernel: KernelFunction) -> Vector | float:
        return float(np.sqrt(np.abs(self.diagonal(kernel)).max(initial=0.0)))

    def require_defined(self, kernel: KernelFunction, others: Samples) -> None:
        """A kernel that is not defined for all pairs is refused: no process sees all pairs."""
        degree = float(getattr(kernel, "degree", 1.0))
        if not degree.is_integer():
            raise ValueError(
                f"degree={degree!r}: with a Dask collection it must be a whole number, as a kernel value may not exist"
            )

    def variance(self, weights: Vector | None) -> float:
        shares = [None] * len(self.X.team) if weights is None else np.split(weights, self.X.offsets[1:-1])

        def sums(mean: float) -> tuple[float, float]:
            """The means of all entries less `mean`, and of their squares."""
            answers = np.array(self.X.team.ask("moments", [(mean, own) for own in shares]))
            total, linear, square = answers.sum(axis=0)
            return linear / (total * self.X.shape[1]), square / (total * self.X.shape[1])

        left_of_mean, square = sums(sums(0.0)[0])
        variance, least = square - left_of_mean**2, CONSTANT * self.X.largest
        return 0.0 if variance <= least * least else float(variance)

    def _largest_entry(self) -> float:
        return self.X.largest

    def _squared_norms(self) -> Vector:
        raise NotImplementedError("the norms of all rows are not needed here: kernel sums with error bounds are made by workers")

    @property
    def n_terms(self) -> int:
        return self.X.n_terms

    def middle(self) -> Vector | None:
        if self.X.sparse or not len(self):
            return None
        step = max(1, len(self) // SAMPLES_FOR_CENTRE)
        return middle_of(self.X.fetch(self.numbers[::step][:SAMPLES_FOR_CENTRE]))
