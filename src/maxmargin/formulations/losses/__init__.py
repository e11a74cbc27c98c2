"""The losses of slack, as a dual problem sees them, one file each.

Slack is xi = max(0, 1 - margin) for classification and max(0, |error| - epsilon) for regression. A loss of slack at the cost c is
the largest pull, less a price for pulling:

    loss(xi) = max { b xi - 1/2 shift b^2 : 0 <= b <= reach }

so that a dual problem needs two numbers of it, the reach of the box and the shift of the diagonal (`Loss.box`). A new loss is a
file here with a subclass of `Loss`; machines find it by its name, or take the object.
"""

from maxmargin.formulations.losses.base import Loss, make_loss
from maxmargin.formulations.losses.hinge import Hinge

from maxmargin.formulations.losses.squared import SquaredHinge  # isort: skip
from maxmargin.formulations.losses.huber import HuberHinge

__all__ = ["Hinge", "HuberHinge", "Loss", "SquaredHinge", "make_loss"]


def __dir__() -> list[str]:
    return __all__
