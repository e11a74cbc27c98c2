"""The contract of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_LOSSES: dict[str, type[Loss]] = {}


class Loss(ABC):
    """A loss of slack: an immutable value with parameters of its own."""

    #: The name of the loss of a classifier, and of a regression, by which an estimator finds it.
    name: ClassVar[str]
    regression_name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _LOSSES[cls.name] = _LOSSES[cls.regression_name] = cls

    @abstractmethod
    def box(self, cost: Vector) -> tuple[Vector, Vector | None]:
        """The reach of each sample's box and, if there is one, the shift of its diagonal; `cost` is finite."""


def make_loss(loss: str | Loss) -> Loss:
    """The loss with this name, with its default parameters, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if loss not in _LOSSES:
        raise ValueError(f"loss={loss!r}: must be a Loss, or one of {', '.join(_LOSSES)}")
    return _LOSSES[loss]()


def names(*, regression: bool) -> list[str]:
    """The names of all losses of a classifier or of a regression."""
    return list(dict.fromkeys(kind.regression_name if regression else kind.name for kind in _LOSSES.values()))
