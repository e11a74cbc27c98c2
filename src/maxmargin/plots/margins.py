"""A hyperplane in the plane: its margins, and how far each sample is on the wrong side of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from maxmargin.plots.canvas import INK, class_style, legend_below, new_axes, tidy
from maxmargin.theory import geometry
from maxmargin.theory.geometry import FeatureHyperplane, Hyperplane, Plane, Side

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 240  # points along each side of the picture at which h is asked
BORDER = 0.12  # empty border around the points, as a share of their range
RINGS = {  # edge colour of a sample, and the words in the legend
    Side.OUTSIDE: ("white", "outside the margin"),
    Side.ON_MARGIN: (INK, "on the margin"),
    Side.INSIDE: ("#E69F00", "inside the margin, 0 < ξ < 1"),
    Side.MISCLASSIFIED: ("#882255", "misclassified, ξ ≥ 1"),
}


def margins(plane: Plane | Any, X: ArrayLike, y: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw the hyperplane h = 0, its margins h = ±1, and the samples by the side they are on; with slack, if it is straight.

    `plane` is a `geometry.Hyperplane`, or a fitted binary `SVC`; X has two features. Where the hyperplane is straight, a line
    runs from each sample with slack to its margin: its length is ξ / |w|.
    """
    ax = new_axes() if ax is None else ax
    plane = geometry.of(plane) if hasattr(plane, "decision_function") else plane
    points, signs = np.asarray(X, dtype=np.float64), plane.signs(y)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"X has shape {points.shape}: the picture is of two features (decision_boundary draws a slice of more)")
    _draw_lines(ax, plane, points)
    where = geometry.sides(plane, points, y)
    if (normal := _normal(plane)) is not None:
        missing = (where == Side.INSIDE) | (where == Side.MISCLASSIFIED)  # samples on the margin up to rounding have no slack
        _draw_slack(ax, normal, points[missing], signs[missing], geometry.slack(plane, points, y)[missing])
    for index, sign in enumerate((-1.0, 1.0)):
        mine = signs == sign
        edges = [RINGS[side][0] for side in where[mine]]
        style: dict[str, Any] = {"s": 42, "linewidths": 1.6, "zorder": 3, **class_style(2, index)}
        ax.scatter(points[mine, 0], points[mine, 1], edgecolors=edges, **style)
        ax.scatter([], [], label=f"y = {sign:+.0f} ({mine.sum()})", **style)
    for side, (colour, words) in RINGS.items():
        if (where == side).any() and side is not Side.OUTSIDE:
            label = f"{words} ({np.sum(where == side)})"
            ax.scatter([], [], s=42, marker="o", facecolors="none", edgecolors=colour, linewidths=1.6, label=label)
    ax.set(xlabel="first feature", ylabel="second feature")
    ax.set_title(f"width of the margin 2/|w| = {geometry.margin_width(plane):.3g}", loc="left", fontsize=10, color=INK)
    legend_below(ax)
    tidy(ax)
    return ax


def _normal(plane: Plane) -> NDArray[np.float64] | None:
    """The normal w, if the hyperplane is one in the space of the samples; else None."""
    if isinstance(plane, Hyperplane):
        return plane.w
    if isinstance(plane, FeatureHyperplane) and plane.machine is plane.model and plane.model.kernel == "linear":
        coefficients = plane.model.coef_
        return plane.factor * np.ravel(coefficients.toarray() if issparse(coefficients) else coefficients)
    return None


def _draw_lines(ax: Axes, plane: Plane, points: NDArray[np.float64]) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    border = BORDER * np.where(high > low, high - low, 1.0)
    x, y = (np.linspace(low[k] - border[k], high[k] + border[k], GRID) for k in (0, 1))
    values = plane.h(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)).reshape(GRID, GRID)
    for level, dashes, width in ((-1.0, "--", 1.0), (0.0, "-", 1.8), (1.0, "--", 1.0)):
        if values.min() < level < values.max():  # else matplotlib warns of a contour it cannot find
            ax.contour(x, y, values, levels=[level], colors=INK, linestyles=[dashes], linewidths=[width], zorder=1)
    ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]])


def _draw_slack(
    ax: Axes, normal: NDArray[np.float64], points: NDArray[np.float64], signs: NDArray[np.float64], xi: NDArray[np.float64]
) -> None:
    """A line from each sample with slack to the nearest point of its margin, y xi w / |w|^2 away."""
    from matplotlib.collections import LineCollection

    if not len(xi):
        return
    feet = points + (signs * xi)[:, None] * normal / (normal @ normal)
    ax.add_collection(LineCollection(
        list(np.stack([points, feet], axis=1)), colors="#888888", linewidths=0.9, zorder=2, label="slack ξ / |w|",
    ))  # fmt: skip
