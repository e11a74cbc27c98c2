"""Contours of a one-class machine: where it expects samples, and how far outliers are from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from maxmargin.plots.boundary import LINE, draw_contour
from maxmargin.plots.canvas import FEW_COLOURS, class_style, ink, legend_below, set_title
from maxmargin.plots.display import Display
from maxmargin.plots.plane import Lattice, point_size, some_of, view_of
from maxmargin.plots.support import draw_rings, machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = 6  # contour lines on each side of f = 0


@dataclass(kw_only=True, eq=False)
class OneClassDisplay(Display):
    """The region f ≥ 0 of a one-class machine, contours of f, inliers, outliers and support vectors.

    With more than two features the picture is a slice, as in `BoundaryDisplay`.

    Parameters
    ----------
    lattice : Lattice
        The points of the plane at which the machine was asked.
    values : ndarray
        The decision value at each of them.
    points : ndarray of shape (n_samples, 2)
        The samples in the plane.
    inlier : ndarray of bool
        Whether the machine takes a sample for an inlier.
    support : ndarray
        The sample numbers of the support vectors.
    names : tuple of two str
        The labels of the axes.
    title : str
        The lines above the picture.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    BoundaryDisplay : The picture of a classifier.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from maxmargin import OneClassSVM
    >>> from maxmargin.plots import OneClassDisplay
    >>> X, _ = make_blobs(60, centers=1, random_state=0)
    >>> display = OneClassDisplay.from_estimator(OneClassSVM(nu=0.1).fit(X), X)
    >>> bool((~display.inlier).mean() <= 0.1)
    True
    """

    lattice: Lattice
    values: NDArray[np.float64]
    points: NDArray[np.float64]
    inlier: NDArray[np.bool_]
    support: NDArray[np.intp]
    names: tuple[str, str]
    title: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        ax: Axes | None = None,
        feature_names: Sequence[str] | None = None,
        project: Any = None,
    ) -> Self:
        """Make the display of a fitted one-class machine, and draw it.

        Parameters
        ----------
        estimator : OneClassSVM or Pipeline
            The fitted model, or a pipeline that ends in one.
        X : array-like
            The training data.
        y : None
            Ignored.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.
        feature_names : sequence of two str, default=None
            The labels of the axes; with more than two features they are unused.
        project : transformer, default=None
            The plane, as in `BoundaryDisplay.from_estimator`.

        Returns
        -------
        OneClassDisplay
            The display.
        """
        machine = machine_of(estimator)
        X = X if issparse(X) else np.asarray(X)
        view = view_of(X, feature_names, project)
        points = view.flatten(X)
        lattice = Lattice(points)
        inlier = estimator.predict(X) == 1
        share = f"{np.mean(~inlier):.1%} outliers, nu = {machine.nu:g}"
        return cls(
            lattice=lattice,
            values=lattice.ask(estimator.decision_function, view.lift, X.shape[1]),
            points=points,
            inlier=inlier,
            support=np.asarray(getattr(machine, "support_", ()), dtype=np.intp),
            names=view.names,
            title="\n".join(filter(None, (
                f"{share}, relative duality gap {machine.certificate_.relative_gap:.1e}", view.what,
            ))),
        ).plot(ax)  # fmt: skip

    def _draw(self, ax: Axes) -> None:
        from matplotlib.lines import Line2D

        x, y, values = self.lattice.x, self.lattice.y, self.values
        if values.max() > 0.0:
            ax.contourf(x, y, values, levels=[0.0, values.max()], colors=[FEW_COLOURS[0]], alpha=0.25, zorder=0)
        for end in (values.min(), values.max()):
            steps = np.sort(np.linspace(0.0, end, LEVELS + 2)[1:-1])
            if np.ptp(steps) > 0.0:
                ax.contour(x, y, values, levels=steps, colors=FEW_COLOURS[0], linewidths=0.6, linestyles="-", alpha=0.6, zorder=1)
        draw_contour(ax, self.lattice, values, 0.0, LINE)
        ax.add_line(Line2D([], [], color=ink(ax), label="border of the region, f = 0", **LINE))
        shown = some_of(len(self.points))
        for index, (mask, words) in enumerate(((self.inlier, "inliers"), (~self.inlier, "outliers"))):
            mine = shown[mask[shown]]
            ax.scatter(
                self.points[mine, 0], self.points[mine, 1], s=point_size(shown.size), **class_style(2, index),
                edgecolors=[ax.get_facecolor()], linewidths=0.4, zorder=3, label=f"{words} ({mask.sum()})",
            )  # fmt: skip
        draw_rings(ax, self.points, [("support vectors", self.support)], shown)
        ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]], xlabel=self.names[0], ylabel=self.names[1])
        first, *others = self.title.split("\n")
        if len(shown) < len(self.points):
            first += f", {len(shown)} of {len(self.points)} samples drawn"
        set_title(ax, first, *others)
        legend_below(ax)
