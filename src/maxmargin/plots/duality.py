"""Weak and strong duality in the course of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.plots.canvas import FEW_COLOURS, GREY, ink, legend_below, new_axes, set_title, tidy
from maxmargin.theory.optimality import duality

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADROOM = 3.0  # primal values above this many times the optimum are cut off


def duality_trace(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the primal and the dual value of a fit over its iterations, from `model.trace_`, and the certified pair at the end.

    Weak duality: the dual value is never above the primal value, and the optimum lies in the band between them. Strong duality:
    the band closes.

    Parameters
    ----------
    model : SVC
        The fitted machine.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    GapDisplay : The gap over the seconds of the fit.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import duality_trace
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> duality_trace(SVC().fit(X, y)).get_ylabel()
    'objective'
    """
    ax = new_axes(7.0, 4.6) if ax is None else ax
    found = duality(model)
    iterations = np.arange(len(found.primal))
    end = max(len(iterations) - 1, 0)
    ax.fill_between(iterations, found.dual, found.primal, color=GREY, alpha=0.35, linewidth=0, label="duality gap")
    for values, last, colour, name in (
        (found.primal, found.certified_primal, FEW_COLOURS[1], "primal value"),
        (found.dual, found.certified_dual, FEW_COLOURS[0], "dual value"),
    ):
        ax.plot(iterations, values, color=colour, linewidth=1.6, marker=".", label=name)
        ax.plot(end, last, "o", color=colour, markeredgecolor=ink(ax), zorder=4)
    top = float(np.nanmax(found.primal, initial=found.certified_primal))
    bottom = float(np.nanmin(found.dual, initial=0.0))
    if found.certified_primal > 0.0:
        top = min(top, HEADROOM * found.certified_primal)
    if top > bottom:
        ax.set_ylim(bottom - 0.04 * (top - bottom), top + 0.04 * (top - bottom))
    ax.set(xlabel="iteration", ylabel="objective")
    set_title(ax, str(found))
    legend_below(ax, columns=3)
    tidy(ax)
    return ax
