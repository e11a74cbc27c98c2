"""The decision boundary of a fitted machine, its margins and its support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.sparse import issparse

from maxmargin.plots.canvas import class_style, ink, legend_below, set_title
from maxmargin.plots.display import Display
from maxmargin.plots.plane import Lattice, point_size, some_of, view_of
from maxmargin.plots.support import draw_rings, kinds_of_support, machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADE_LIMIT = 2.0  # decision values of this size and above have full colour
SHADE = 0.42  # opacity of full colour
LINE: dict[str, Any] = {"linestyle": "-", "linewidth": 1.8}
DASHES: dict[str, Any] = {"linestyle": "--", "linewidth": 1.0}


@dataclass(kw_only=True, eq=False)
class BoundaryDisplay(Display):
    """Where a fitted classifier decides, its margins and its support vectors.

    Two classes: the decision value f as a shade, the line f = 0, the margins f = ±1 dashed. More classes: the regions of
    ``predict``. Support vectors have a ring: dark on the margin (free), pale at the bound C.

    With more than two features the picture is a slice of f: the plane through the mean of X along its first two principal
    components, with the samples projected onto it. A sample far from the plane may then stand on the side where f at its shadow,
    not f at the sample, puts it.

    Parameters
    ----------
    lattice : Lattice
        The points of the plane at which the model was asked.
    values : ndarray
        The decision value at each of them; for more than two classes, the number of the predicted class.
    points : ndarray of shape (n_samples, 2)
        The samples in the plane.
    labels : ndarray
        Their classes.
    classes : ndarray
        The classes of the model.
    support : list of (str, ndarray)
        The support vectors by kind: words for the legend, and sample numbers.
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
    MarginDisplay : Margins and slack of a hyperplane.
    decision_boundary : The same picture; returns the axes.
    sklearn.inspection.DecisionBoundaryDisplay : Regions of any estimator.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import BoundaryDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> display = BoundaryDisplay.from_estimator(SVC().fit(X, y), X, y)
    >>> display.ax_.get_xlabel()
    'first feature'
    """

    lattice: Lattice
    values: NDArray[Any]
    points: NDArray[np.float64]
    labels: NDArray[Any]
    classes: NDArray[Any]
    support: list[tuple[str, NDArray[np.intp]]]
    names: tuple[str, str]
    title: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        ax: Axes | None = None,
        feature_names: Sequence[str] | None = None,
        project: Any = None,
        note: str | None = None,
    ) -> Self:
        """Make the display of a fitted classifier, and draw it.

        Parameters
        ----------
        estimator : SVC, NuSVC, SVCCV or Pipeline
            The fitted model, or a pipeline that ends in one.
        X, y : array-like
            The training data.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.
        feature_names : sequence of two str, default=None
            The labels of the axes; with more than two features they are unused.
        project : transformer, default=None
            The plane, as a fitted transformer to two columns that has ``inverse_transform``, such as ``PCA(2)``. None: the
            features themselves if they are two, else the principal plane.
        note : str, default=None
            A last line of the title, below accuracy and relative duality gap. None: what the plane is, if it is the principal
            one.

        Returns
        -------
        BoundaryDisplay
            The display.
        """
        machine = machine_of(estimator)
        X, y = X if issparse(X) else np.asarray(X), np.asarray(y)
        if X.shape[0] != getattr(machine, "shape_fit_", X.shape)[0]:
            raise ValueError(f"X has {X.shape[0]} samples: pass the {machine.shape_fit_[0]} the model was trained on")
        view = view_of(X, feature_names, project)
        points = view.flatten(X)
        lattice = Lattice(points)
        if len(machine.classes_) == 2:
            values = lattice.ask(estimator.decision_function, view.lift, X.shape[1])
        else:
            values = np.searchsorted(machine.classes_, lattice.ask(estimator.predict, view.lift, X.shape[1]))
        accuracy = f"training accuracy {np.mean(estimator.predict(X) == y):.1%}"
        return cls(
            lattice=lattice,
            values=values,
            points=points,
            labels=y,
            classes=machine.classes_,
            support=kinds_of_support(machine),
            names=view.names,
            title="\n".join(filter(None, (
                f"{accuracy}, relative duality gap {machine.certificate_.relative_gap:.1e}", note or view.what,
            ))),
        ).plot(ax)  # fmt: skip

    def _draw(self, ax: Axes) -> None:
        if len(self.classes) == 2:
            self._draw_shades(ax)
        else:
            self._draw_regions(ax)
        shown = some_of(len(self.points))
        self._draw_points(ax, shown)
        draw_rings(ax, self.points, self.support, shown)
        x, y = self.lattice.x, self.lattice.y
        ax.set(xlim=x[[0, -1]], ylim=y[[0, -1]], xlabel=self.names[0], ylabel=self.names[1])
        first, *others = self.title.split("\n")
        if len(shown) < len(self.points):
            first += f", {len(shown)} of {len(self.points)} samples drawn"
        set_title(ax, first, *others)
        legend_below(ax, columns={2: 3, 3: 2}.get(len(self.classes), 4))

    def _draw_shades(self, ax: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.lines import Line2D

        sides = [class_style(2, index)["color"] for index in (0, 1)]
        ax.imshow(
            np.clip(self.values, -SHADE_LIMIT, SHADE_LIMIT),
            extent=self.lattice.extent, origin="lower", aspect="auto", interpolation="bilinear",
            cmap=LinearSegmentedColormap.from_list("sides", [sides[0], ax.get_facecolor(), sides[1]]),
            vmin=-SHADE_LIMIT, vmax=SHADE_LIMIT, alpha=SHADE, zorder=0,
        )  # fmt: skip
        for level, look, label in (
            (0.0, LINE, "decision boundary, f = 0"),
            (-1.0, DASHES, "margins, f = ±1"),
            (1.0, DASHES, None),
        ):
            draw_contour(ax, self.lattice, self.values, level, look)
            if label:
                ax.add_line(Line2D([], [], color=ink(ax), label=label, **look))

    def _draw_regions(self, ax: Axes) -> None:
        from matplotlib.colors import ListedColormap

        n = len(self.classes)
        ax.imshow(
            self.values, extent=self.lattice.extent, origin="lower", aspect="auto", interpolation="nearest",
            cmap=ListedColormap([class_style(n, k)["color"] for k in range(n)]), vmin=-0.5, vmax=n - 0.5, alpha=SHADE * 0.6,
            zorder=0,
        )  # fmt: skip
        for k in np.unique(self.values):
            # The lattice makes a stair of every slanted line; a blur of one step makes it a line again.
            inside = gaussian_filter((self.values == k).astype(float), sigma=1.0)
            draw_contour(ax, self.lattice, inside, 0.5, {"linewidth": 0.7})

    def _draw_points(self, ax: Axes, shown: NDArray[np.intp]) -> None:
        """Draw the samples by class, with the counts in the legend."""
        n = len(self.points)
        for k, name in enumerate(self.classes):
            mine = shown[self.labels[shown] == name]
            ax.scatter(
                self.points[mine, 0], self.points[mine, 1],
                s=point_size(shown.size), **class_style(len(self.classes), k),
                edgecolors=[ax.get_facecolor()], linewidths=0.4 if n < 1000 else 0.15, zorder=3,
                label=f"{name} ({np.sum(self.labels == name)})",
            )  # fmt: skip


def draw_contour(ax: Axes, lattice: Lattice, values: NDArray[Any], level: float, look: dict[str, Any]) -> None:
    """Draw the line where the values have this level, if there is one."""
    if values.min() < level < values.max():  # else matplotlib warns of a contour it cannot find
        lines: dict[str, Any] = {f"{name}s": [choice] for name, choice in look.items()}
        ax.contour(lattice.x, lattice.y, values, levels=[level], colors=ink(ax), zorder=2, **lines)


def decision_boundary(
    model: Any,
    X: Any,
    y: Any,
    ax: Axes | None = None,
    feature_names: Sequence[str] | None = None,
    *,
    project: Any = None,
    note: str | None = None,
) -> Axes:
    """Draw where a fitted classifier decides, its margins and its support vectors: a `BoundaryDisplay`.

    Parameters
    ----------
    model : SVC, NuSVC, SVCCV or Pipeline
        The fitted model, or a pipeline that ends in one.
    X, y : array-like
        The training data.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.
    feature_names : sequence of two str, default=None
        The labels of the axes; with more than two features they are unused.
    project : transformer, default=None
        The plane, as in `BoundaryDisplay.from_estimator`.
    note : str, default=None
        A last line of the title.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; ``save(ax, "boundary.png")`` writes them.

    See Also
    --------
    BoundaryDisplay : The picture as an object, which says what is drawn.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import decision_boundary
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> ax = decision_boundary(SVC().fit(X, y), X, y, feature_names=["length", "width"])
    >>> ax.get_ylabel()
    'width'
    """
    shown = BoundaryDisplay.from_estimator(model, X, y, ax=ax, feature_names=feature_names, project=project, note=note)
    return shown.ax_
