"""The slack itself: c xi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.formulations.losses.base import Loss, Vector


@dataclass(frozen=True)
class Hinge(Loss):
    """The slack itself, c xi.

    See Also
    --------
    SquaredHinge, HuberHinge : The other losses.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.formulations.losses import Hinge
    >>> SVC(loss=Hinge()).fit(*load_iris(return_X_y=True)).certificate_.holds(1e-3)
    True
    """

    name: ClassVar[str] = "hinge"
    regression_name: ClassVar[str] = "epsilon_insensitive"

    def box(self, cost: Vector) -> tuple[Vector, Vector | None]:
        return cost, None
