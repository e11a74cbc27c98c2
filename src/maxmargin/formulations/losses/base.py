"""The contract of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_LOSSES: dict[str, type[Loss]] = {}


class Loss(ABC):
    """A loss of slack: an immutable value with parameters of its own.

    The base class. A subclass is a frozen dataclass with ``name`` and ``regression_name`` and with the method ``box``.

    See Also
    --------
    Hinge, SquaredHinge, HuberHinge : The losses.
    make_loss : A loss from its name.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.formulations.losses import Hinge
    >>> reach, shift = Hinge().box(np.array([1.0, 2.0]))
    >>> reach.tolist(), shift
    ([1.0, 2.0], None)
    """

    #: The name of the loss of a classifier, and of a regression, by which an estimator finds it.
    name: ClassVar[str]
    regression_name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        _LOSSES[cls.name] = _LOSSES[cls.regression_name] = cls

    @abstractmethod
    def box(self, cost: Vector) -> tuple[Vector, Vector | None]:
        """The reach of each sample's box and, if there is one, the shift of its diagonal; `cost` is finite."""


def make_loss(loss: str | Loss) -> Loss:
    """The loss with a name, with its default parameters, or the loss itself.

    Parameters
    ----------
    loss : str or Loss
        The name of the loss of a classifier or of a regression, or a loss.

    Returns
    -------
    Loss
        The loss.

    See Also
    --------
    Loss : The base class.

    Examples
    --------
    >>> from maxmargin.formulations.losses import make_loss
    >>> make_loss("huber_hinge")
    HuberHinge(delta=0.5)
    """
    if isinstance(loss, str) and loss in _LOSSES:  # before an abstract class is asked, which takes longer
        return _LOSSES[loss]()
    if isinstance(loss, Loss):
        return loss
    raise ValueError(f"loss={loss!r}: must be a Loss, or one of {', '.join(_LOSSES)}")


def names(*, regression: bool) -> list[str]:
    """The names of all losses of a classifier or of a regression."""
    return list(dict.fromkeys([kind.regression_name if regression else kind.name for kind in _LOSSES.values()]))
