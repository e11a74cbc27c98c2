"""The losses of two classes side by side, over the margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.plots.canvas import FEW_COLOURS, GREY, ink, legend_below, new_axes, tidy
from maxmargin.theory.losses import MarginLoss, hinge, logistic, quadratic_hinge, squared_error, zero_one

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGINS = np.linspace(-2.5, 3.5, 601)
HIGHEST = 4.5  # largest loss in the picture
FORMULAS = {
    "mse": "MSE, ½(ty − 1)²",
    "squared error": "squared error, (ty − 1)²",
    "logistic": "logistic, −log σ(ty)",
    "hinge": "hinge, max(0, 1 − ty)",
    "quadratic hinge": "quadratic hinge, max(0, 1 − ty)²",
    "zero-one": "errors, ty ≤ 0",
}


def loss_comparison(
    ax: Axes | None = None, losses: Sequence[MarginLoss] = (squared_error, logistic, hinge, quadratic_hinge, zero_one)
) -> Axes:
    """Draw losses as functions of the margin ty, where t is -1 or +1 and y the decision.

    All of them are convex but the last, and all but the squared error fall as the margin grows: that one punishes samples that
    are classified too well.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.
    losses : sequence of MarginLoss
        The losses (`maxmargin.theory.losses`).

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    maxmargin.formulations.losses : The losses that machines are trained with.

    Examples
    --------
    >>> from maxmargin.plots import loss_comparison
    >>> loss_comparison().get_xlabel()
    'margin ty'
    """
    ax = new_axes(7.2, 4.8) if ax is None else ax
    for loss, colour in zip(losses, (*FEW_COLOURS[:4], ink(ax)), strict=False):
        style = "steps-post" if loss is zero_one else "default"
        ax.plot(
            MARGINS, loss.of_margin(MARGINS), color=colour, linewidth=1.8, drawstyle=style,
            label=FORMULAS.get(loss.name, loss.name), linestyle=":" if loss is zero_one else "-",
        )  # fmt: skip
    ax.axvline(1.0, color=GREY, linewidth=0.6, zorder=0)
    ax.set(xlim=MARGINS[[0, -1]], ylim=(-0.1, HIGHEST), xlabel="margin ty", ylabel="loss")
    legend_below(ax, columns=3)
    tidy(ax)
    return ax
