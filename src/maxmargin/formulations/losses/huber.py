"""The slack with a rounded corner: quadratic up to delta, linear beyond.

    loss(xi) = c xi^2 / (2 delta)   for xi <= delta,      c (xi - delta / 2)   for xi >= delta

It is max { b xi - 1/2 shift b^2 : 0 <= b <= c } with shift = delta / c: the maximum is at b = xi / shift up to xi = delta, and at
b = c from there on. As delta goes to zero it becomes the hinge. It is smooth where the hinge has a kink, and grows like the hinge
where the squared hinge follows every outlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.formulations.losses.base import Loss, Vector


@dataclass(frozen=True)
class HuberHinge(Loss):
    """The slack with a rounded corner: quadratic up to delta, linear beyond.

    Parameters
    ----------
    delta : float, default=0.5
        The slack at which the loss becomes linear.

    See Also
    --------
    Hinge : The limit for delta = 0.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.formulations.losses import HuberHinge
    >>> SVC(loss=HuberHinge(delta=0.2)).fit(*load_iris(return_X_y=True)).certificate_.holds(1e-3)
    True
    """

    name: ClassVar[str] = "huber_hinge"
    regression_name: ClassVar[str] = "huber_epsilon_insensitive"
    delta: float = 0.5

    def __post_init__(self) -> None:
        if not (self.delta > 0.0 and math.isfinite(self.delta)):
            raise ValueError(f"delta={self.delta!r}: must be positive and finite (use the hinge for a sharp corner)")

    def box(self, cost: Vector) -> tuple[Vector, Vector | None]:
        return cost, np.divide(self.delta, cost, out=np.ones_like(cost), where=cost > 0.0)
