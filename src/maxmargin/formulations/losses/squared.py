"""The slack squared: c xi^2 = max { b xi - b^2 / (4 c) : b >= 0 }."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.formulations.losses.base import Loss, Vector


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """The slack squared, c xi^2.

    See Also
    --------
    Hinge, HuberHinge : The other losses.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.formulations.losses import SquaredHinge
    >>> SVC(loss=SquaredHinge()).fit(*load_iris(return_X_y=True)).certificate_.holds(1e-3)
    True
    """

    name: ClassVar[str] = "squared_hinge"
    regression_name: ClassVar[str] = "squared_epsilon_insensitive"

    def box(self, cost: Vector) -> tuple[Vector, Vector | None]:
        reach = np.where(cost > 0.0, np.inf, 0.0)
        return reach, np.divide(0.5, cost, out=np.ones_like(cost), where=cost > 0.0)
