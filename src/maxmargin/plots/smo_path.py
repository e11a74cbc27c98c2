"""Two alphas in their box: a step of SMO along the equality constraint, and coordinate ascent, which it forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maxmargin.plots.canvas import FEW_COLOURS, GREY, ink, legend_below, new_axes, set_title, tidy
from maxmargin.theory.optimality import PairProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 160  # points along each side at which W is computed
BORDER = 0.25  # border around the box, as a share of its size
LEVELS = 14  # contour lines of W


def smo_step(pair: PairProblem, start: tuple[float, float], ax: Axes | None = None) -> Axes:
    """Draw the dual objective W over two alphas, their box, the segment y₁α₁ + y₂α₂ = ζ in it, and one step of SMO.

    The step goes from `start` to the top of W on the line, and is clipped at the end of the segment if that is outside: at L or
    H, the lowest and the highest value that the box leaves to α₂.

    Parameters
    ----------
    pair : PairProblem
        The problem of two alphas (`maxmargin.theory.optimality`).
    start : tuple of two float
        The alphas before the step.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    coordinate_path : One alpha at a time, without the equality constraint.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.plots import smo_step
    >>> from maxmargin.theory.optimality import PairProblem
    >>> pair = PairProblem(np.array([[2.0, 0.5], [0.5, 1.0]]), (1.0, -1.0), (1.0, 1.0))
    >>> smo_step(pair, (0.2, 0.2)).get_xlabel()
    'α₁'
    """
    ax = _box(pair, ax)
    step = pair.step(start)
    ends = np.array([pair.on_segment(start, second) for second in (step.low, step.high)])
    beyond = np.array([pair.on_segment(start, second) for second in (-pair.C[1], 2.0 * pair.C[1])])
    ax.plot(*beyond.T, color=ink(ax), linewidth=0.8, linestyle=":", zorder=2)
    ax.plot(*ends.T, color=ink(ax), linewidth=2.2, zorder=3, label="y₁α₁ + y₂α₂ = ζ inside the box")
    for second, name in ((step.low, "L"), (step.high, "H")):
        ax.axhline(second, color=GREY, linewidth=0.7, linestyle="--", zorder=1)
        ax.text(1.02, second, name, transform=ax.get_yaxis_transform(), va="center")
    ax.plot(*step.start, "o", color=FEW_COLOURS[0], markersize=8, zorder=5, label="start")
    if step.unclipped != step.end:
        ax.plot(*step.unclipped, "o", color=FEW_COLOURS[1], markerfacecolor="none", markersize=8, zorder=5, label="unclipped")
    ax.plot(*step.end, "*", color=FEW_COLOURS[1], markersize=13, zorder=6, label="after the step")
    ax.annotate("", xy=step.end, xytext=step.start, zorder=4, arrowprops={"arrowstyle": "->", "color": FEW_COLOURS[1]})
    gained = float(pair.value(*step.end) - pair.value(*step.start))
    set_title(ax, f"a step of SMO: W rises by {gained:.3g}")
    legend_below(ax)
    return ax


def coordinate_path(pair: PairProblem, start: tuple[float, float] = (0.0, 0.0), steps: int = 20, ax: Axes | None = None) -> Axes:
    """Draw coordinate ascent on two alphas in their box, without the equality constraint: each move is along an axis.

    Parameters
    ----------
    pair : PairProblem
        The problem of two alphas (`maxmargin.theory.optimality`).
    start : tuple of two float, default=(0.0, 0.0)
        The alphas at the beginning.
    steps : int, default=20
        The number of moves.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    smo_step : Two alphas at a time, along the equality constraint.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.plots import coordinate_path
    >>> from maxmargin.theory.optimality import PairProblem
    >>> pair = PairProblem(np.array([[2.0, 0.5], [0.5, 1.0]]), (1.0, -1.0), (1.0, 1.0))
    >>> coordinate_path(pair, steps=4).get_ylabel()
    'α₂'
    """
    ax = _box(pair, ax)
    path = pair.coordinate_ascent(start, steps)
    ax.plot(*path.T, color=FEW_COLOURS[1], linewidth=1.4, marker=".", zorder=4, label="coordinate ascent")
    ax.plot(*path[0], "o", color=FEW_COLOURS[0], markersize=8, zorder=5, label="start")
    ax.plot(*path[-1], "*", color=FEW_COLOURS[1], markersize=13, zorder=6, label=f"after {steps} steps")
    set_title(ax, f"coordinate ascent: W = {float(pair.value(*path[-1])) + 0.0:.6g}")
    legend_below(ax, columns=3)
    return ax


def _box(pair: PairProblem, ax: Axes | None) -> Axes:
    """Draw the contours of W, and the box."""
    from matplotlib.patches import Rectangle

    ax = new_axes(6.2, 6.0) if ax is None else ax
    if not np.isfinite(pair.C).all():
        raise ValueError(f"C={pair.C}: the picture is of a box; use a finite C")
    first, second = (np.linspace(-BORDER * c, (1.0 + BORDER) * c, GRID) for c in pair.C)
    values = pair.value(*np.meshgrid(first, second))
    ax.contour(first, second, values, levels=LEVELS, cmap="Blues", linewidths=0.9, zorder=0)
    ax.add_patch(Rectangle((0.0, 0.0), *pair.C, facecolor="none", edgecolor=ink(ax), linewidth=1.4, zorder=2))
    ax.set(xlim=first[[0, -1]], ylim=second[[0, -1]], xlabel="α₁", ylabel="α₂")
    tidy(ax)
    return ax
