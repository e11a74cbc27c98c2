"""The tube of a regression: its centre, its edges, and the samples outside of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from maxmargin.plots.canvas import FEW_COLOURS, GREY, ink, legend_below, set_title
from maxmargin.plots.display import Display
from maxmargin.plots.plane import BORDER, point_size, some_of
from maxmargin.plots.support import draw_rings, machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 500  # points of the curve


@dataclass(kw_only=True, eq=False)
class TubeDisplay(Display):
    """The tube of a support vector regression, and the samples inside and outside of it.

    With one feature, the prediction and its tube over the feature. With more, the targets over the predictions: the tube is the
    band around the diagonal.

    Parameters
    ----------
    centre : ndarray of shape (n_points, 2)
        The points of the curve in the middle of the tube.
    points : ndarray of shape (n_samples, 2)
        The samples: the feature (or the prediction) and the target.
    outside : ndarray of bool
        Whether a sample is farther from its prediction than epsilon, by more than the tolerance of the fit.
    epsilon : float
        Half the width of the tube.
    support : ndarray
        The sample numbers of the support vectors.
    names : tuple of two str
        The labels of the axes.
    title : str
        The line above the picture.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    BoundaryDisplay : The picture of a classifier.
    GapDisplay : How the fit converged.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVR
    >>> from maxmargin.plots import TubeDisplay
    >>> x = np.linspace(0.0, 6.0, 50)
    >>> display = TubeDisplay.from_estimator(SVR(C=10.0, epsilon=0.2).fit(x[:, None], np.sin(x)), x[:, None], np.sin(x))
    >>> display.epsilon, int(display.outside.sum())
    (0.2, 0)
    """

    size: ClassVar[tuple[float, float]] = (7.2, 5.2)
    centre: NDArray[np.float64]
    points: NDArray[np.float64]
    outside: NDArray[np.bool_]
    epsilon: float
    support: NDArray[np.intp]
    names: tuple[str, str]
    title: str

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, ax: Axes | None = None, feature_name: str | None = None
    ) -> Self:
        """Make the display of a fitted regression, and draw it.

        Parameters
        ----------
        estimator : SVR, NuSVR, SVRCV or Pipeline
            The fitted model, or a pipeline that ends in one.
        X, y : array-like
            The training data.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.
        feature_name : str, default=None
            The label of the axis, if X has one feature.

        Returns
        -------
        TubeDisplay
            The display.
        """
        machine = machine_of(estimator)
        epsilon = getattr(machine, "epsilon_", getattr(machine, "epsilon", None))
        if epsilon is None:
            raise TypeError(f"a {type(machine).__name__} has no tube: pass a fitted SVR or NuSVR")
        X, targets = X if issparse(X) else np.asarray(X), np.asarray(y, dtype=float)
        predicted = estimator.predict(X)
        if X.shape[1] == 1:
            first = np.ravel(X.toarray() if issparse(X) else X)
            border = BORDER * (np.ptp(first) or 1.0)
            over = np.linspace(first.min() - border, first.max() + border, POINTS)
            centre = np.stack([over, estimator.predict(over[:, None])], axis=1)
            names = (feature_name or "feature", "target")
        else:
            first = predicted
            ends = np.array([predicted.min(), predicted.max()])
            centre, names = np.stack([ends, ends], axis=1), ("prediction", "target")
        beyond = np.abs(targets - predicted) - float(epsilon)
        proof = machine.certificate_
        return cls(
            centre=centre,
            points=np.stack([first, targets], axis=1),
            outside=beyond > max(float(machine.tol), proof.kkt_violation),
            epsilon=float(epsilon),
            support=np.asarray(getattr(machine, "support_", ()), dtype=np.intp),
            names=names,
            title=f"tube of ±{float(epsilon):.3g}, relative duality gap {proof.relative_gap:.1e}",
        ).plot(ax)

    def _draw(self, ax: Axes) -> None:
        x, middle = self.centre.T
        ax.fill_between(
            x, middle - self.epsilon, middle + self.epsilon, color=FEW_COLOURS[0], alpha=0.3, linewidth=0, zorder=0,
            label=f"tube, ±{self.epsilon:.3g}",
        )  # fmt: skip
        for edge in (-self.epsilon, self.epsilon):
            ax.plot(x, middle + edge, color=ink(ax), linewidth=0.9, linestyle="--", zorder=1)
        ax.plot(x, middle, color=ink(ax), linewidth=1.6, zorder=1, label="prediction")
        shown = some_of(len(self.points))
        for mask, colour, marker, words in (
            (~self.outside, GREY, "o", "inside the tube"),
            (self.outside, FEW_COLOURS[1], "s", "outside the tube"),
        ):
            mine = shown[mask[shown]]
            ax.scatter(
                self.points[mine, 0], self.points[mine, 1], s=point_size(shown.size), color=colour, marker=marker,
                edgecolors=[ax.get_facecolor()], linewidths=0.4, zorder=3, label=f"{words} ({mask.sum()})",
            )  # fmt: skip
        draw_rings(ax, self.points, [("support vectors", self.support)], shown)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        part = f", {len(shown)} of {len(self.points)} samples drawn" if len(shown) < len(self.points) else ""
        set_title(ax, self.title + part)
        legend_below(ax, columns=3)
