"""A hyperplane in the plane: its margins, and how far each sample is on the wrong side of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from maxmargin.plots.canvas import GREY, class_style, ink, legend_below, set_title
from maxmargin.plots.display import Display
from maxmargin.theory import geometry
from maxmargin.theory.geometry import FeatureHyperplane, Hyperplane, Plane, Side

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 240  # points along each side of the picture at which h is asked
BORDER = 0.12  # empty border around the points, as a share of their range
RINGS = {  # edge colour of a sample (None: that of lines), and the words in the legend
    Side.ON_MARGIN: (None, "on the margin"),
    Side.INSIDE: ("#E69F00", "inside the margin, 0 < ξ < 1"),
    Side.MISCLASSIFIED: ("#AA3377", "misclassified, ξ ≥ 1"),
}


@dataclass(kw_only=True, eq=False)
class MarginDisplay(Display):
    """A hyperplane h = 0, its margins h = ±1, and the samples by the side they are on; with slack, if it is straight.

    Where the hyperplane is straight, a line runs from each sample with slack to its margin: its length is ξ / |w|.

    Parameters
    ----------
    plane : Hyperplane or FeatureHyperplane
        The hyperplane (`maxmargin.theory.geometry`).
    X : ndarray of shape (n_samples, 2)
        The samples.
    y : ndarray
        Their classes.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    BoundaryDisplay : The decision function as a shade, for any number of features and classes.
    margins : The same picture; returns the axes.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import MarginDisplay
    >>> X, y = make_blobs(40, centers=2, random_state=0)
    >>> display = MarginDisplay.from_estimator(SVC(kernel="linear").fit(X, y), X, y)
    >>> display.ax_.get_title(loc="left")
    'width of the margin 2/|w| = 1.2'
    """

    plane: Plane
    X: NDArray[np.float64]
    y: NDArray[Any]

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None) -> Self:
        """Make the display of a fitted machine of two classes, and draw it.

        Parameters
        ----------
        estimator : SVC, Pipeline or Hyperplane
            The fitted model, or a plain hyperplane.
        X, y : array-like
            Samples with two features, and their classes.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        MarginDisplay
            The display.
        """
        plane = geometry.of(estimator) if hasattr(estimator, "decision_function") else estimator
        points = np.asarray(X, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(
                f"X has shape {points.shape}: the picture is of two features (decision_boundary draws a slice of more)"
            )
        return cls(plane=plane, X=points, y=np.asarray(y)).plot(ax)

    def _draw(self, ax: Axes) -> None:
        plane, points, y = self.plane, self.X, self.y
        signs = plane.signs(y)
        _draw_lines(ax, plane, points)
        where = geometry.sides(plane, points, y)
        if (normal := _normal(plane)) is not None:
            missing = (where == Side.INSIDE) | (where == Side.MISCLASSIFIED)  # samples on the margin up to rounding have no slack
            _draw_slack(ax, normal, points[missing], signs[missing], geometry.slack(plane, points, y)[missing])
        edge_of = {side: colour or ink(ax) for side, (colour, _) in RINGS.items()}
        for index, sign in enumerate((-1.0, 1.0)):
            mine = signs == sign
            edges = [edge_of.get(side, ax.get_facecolor()) for side in where[mine]]
            style: dict[str, Any] = {"s": 42, "linewidths": 1.6, "zorder": 3, **class_style(2, index)}
            ax.scatter(points[mine, 0], points[mine, 1], edgecolors=edges, **style)
            ax.scatter([], [], label=f"y = {sign:+.0f} ({mine.sum()})", **style)
        for side, (_, words) in RINGS.items():
            if (where == side).any():
                label = f"{words} ({np.sum(where == side)})"
                ax.scatter([], [], s=42, marker="o", facecolors="none", edgecolors=edge_of[side], linewidths=1.6, label=label)
        ax.set(xlabel="first feature", ylabel="second feature")
        set_title(ax, f"width of the margin 2/|w| = {geometry.margin_width(plane):.3g}")
        legend_below(ax)


def margins(plane: Plane | Any, X: ArrayLike, y: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw a hyperplane, its margins, and the slack of each sample: a `MarginDisplay`.

    Parameters
    ----------
    plane : SVC, Pipeline or Hyperplane
        A fitted machine of two classes, or a plain hyperplane.
    X, y : array-like
        Samples with two features, and their classes.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    MarginDisplay : The picture as an object, which says what is drawn.

    Examples
    --------
    >>> from maxmargin.plots import margins
    >>> from maxmargin.theory.geometry import Hyperplane
    >>> ax = margins(Hyperplane([1.0, 1.0], 0.0), [[1.0, 1.0], [-1.0, 0.5]], [1, -1])
    >>> ax.get_title(loc="left")
    'width of the margin 2/|w| = 1.41'
    """
    return MarginDisplay.from_estimator(plane, X, y, ax=ax).ax_


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
            ax.contour(x, y, values, levels=[level], colors=ink(ax), linestyles=[dashes], linewidths=[width], zorder=1)
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
        list(np.stack([points, feet], axis=1)), colors=GREY, linewidths=0.9, zorder=2, label="slack ξ / |w|",
    ))  # fmt: skip
