"""The decision boundary of a fitted machine, its margins and its support vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.sparse import issparse

from maxmargin.formulations import make_loss
from maxmargin.plots.canvas import INK, class_style, new_axes, tidy
from maxmargin.plots.plane import principal_plane
from maxmargin.plots.support import free_support

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = 240  # points along each side of the picture at which the model is asked
GRID_BUDGET = 1 << 23  # numbers in the block of grid points asked at once (64 MiB)
BORDER = 0.06  # empty border around the points, as a share of their range
MOST_POINTS = 4000  # samples that are drawn; of more, a fixed random choice
SHADE_LIMIT = 2.0  # decision values of this size and above have full colour
SHADE = 0.42  # opacity of full colour
LINE: dict[str, Any] = {"linestyle": "-", "linewidth": 1.8}
DASHES: dict[str, Any] = {"linestyle": "--", "linewidth": 1.0}
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "color": INK}


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
    """Draw where a fitted `SVC` decides, its margins and its support vectors.

    Two classes: the decision value f as a shade, the line f = 0, the margins f = ±1 dashed.
    More classes: the regions of `predict`. Support vectors have a ring: dark on the margin (free),
    pale at the bound C.

    With more than two features the picture is a slice of f: the plane through the mean of X along
    its first two principal components, with the samples projected onto it. A sample far from the
    plane may then stand on the side where f at its shadow, not f at the sample, puts it.

    Parameters
    ----------
    model : fitted `SVC`, or a pipeline that ends in one.
    X, y : the training data.
    ax : where to draw; None for a new figure.
    feature_names : one per column of X, for the axes; with more than two features they are unused.
    project : the plane, as a fitted transformer to two columns that has `inverse_transform`, such
        as `PCA(2)`. None: the features themselves if they are two, else the plane above.
    note : a last line of the title, below accuracy and relative duality gap. None: what the plane
        is, if it is the one above.

    Returns
    -------
    The axes; `save(ax, "boundary.png")` writes them.
    """
    ax = new_axes() if ax is None else ax
    machine = model.steps[-1][1] if hasattr(model, "steps") else model
    X = X if issparse(X) else np.asarray(X)
    y = np.asarray(y)
    if X.shape[0] != machine.shape_fit_[0]:
        raise ValueError(f"X has {X.shape[0]} samples: pass the {machine.shape_fit_[0]} the model was trained on")
    view = _view(X, feature_names, project)
    points = view.flatten(X)
    low, high = points.min(axis=0), points.max(axis=0)
    border = BORDER * np.where(high > low, high - low, 1.0)
    grid = _Grid(low - border, high + border)

    if len(machine.classes_) == 2:
        _draw_shades(ax, grid, grid.ask(model.decision_function, view.lift, X.shape[1]))
    else:
        _draw_regions(ax, grid, grid.ask(model.predict, view.lift, X.shape[1]), machine.classes_)
    shown = _draw_points(ax, points, y, machine.classes_)
    _draw_support(ax, points, machine, shown)

    ax.set(xlim=grid.x[[0, -1]], ylim=grid.y[[0, -1]], xlabel=view.names[0], ylabel=view.names[1])
    title = f"training accuracy {model.score(X, y):.1%}, relative duality gap {machine.certificate_.relative_gap:.1e}"
    if shown.size < len(y):
        title += f", {shown.size} of {len(y)} samples drawn"
    ax.set_title("\n".join(filter(None, (title, note or view.what))), **TITLE)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.11), frameon=False, fontsize=9,
        ncols={2: 3, 3: 2}.get(len(machine.classes_), 4),
    )  # fmt: skip
    tidy(ax)
    return ax


@dataclass(frozen=True)
class _View:
    """A plane to draw: `flatten` projects samples onto it, `lift` turns its points into samples."""

    flatten: Callable[[Any], NDArray[np.float64]]
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    names: tuple[str, str]
    what: str | None


def _view(X: Any, feature_names: Sequence[str] | None, project: Any) -> _View:
    n_features = X.shape[1]
    if project is not None:
        names = ("first axis of the plane", "second axis of the plane")
        return _View(project.transform, project.inverse_transform, names, None)
    if n_features == 2:
        if feature_names is None:
            feature_names = ("first feature", "second feature")
        first, second = feature_names
        return _View(lambda X: X.toarray() if issparse(X) else X, lambda X: X, (first, second), None)
    plane, names = principal_plane(X)
    return _View(
        plane.transform,
        plane.inverse_transform,
        names,
        f"slice of the {n_features}-feature decision function: "
        "the plane of the first two principal components,\n"
        "the samples projected onto it",
    )


class _Grid:
    """A square lattice over the picture."""

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
        self.x = np.linspace(low[0], high[0], GRID)
        self.y = np.linspace(low[1], high[1], GRID)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        return self.x[0], self.x[-1], self.y[0], self.y[-1]

    def ask(self, answer: Callable[[Any], NDArray[Any]], lift: Callable[[Any], Any], n_features: int) -> NDArray[Any]:
        """Return `answer` at every lattice point, computed for a block of points at a time."""
        points = np.stack(np.meshgrid(self.x, self.y), axis=-1).reshape(-1, 2)
        n_blocks = -(-points.shape[0] * n_features // GRID_BUDGET)
        answers = [answer(lift(block)) for block in np.array_split(points, n_blocks)]
        return np.concatenate(answers).reshape(GRID, GRID)


def _draw_shades(ax: Axes, grid: _Grid, value: NDArray[np.float64]) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.lines import Line2D

    sides = [class_style(2, index)["color"] for index in (0, 1)]
    ax.imshow(
        np.clip(value, -SHADE_LIMIT, SHADE_LIMIT),
        extent=grid.extent, origin="lower", aspect="auto", interpolation="bilinear",
        cmap=LinearSegmentedColormap.from_list("sides", [sides[0], "white", sides[1]]),
        vmin=-SHADE_LIMIT, vmax=SHADE_LIMIT, alpha=SHADE, zorder=0,
    )  # fmt: skip
    for level, look, label in (
        (0.0, LINE, "decision boundary, f = 0"),
        (-1.0, DASHES, "margins, f = ±1"),
        (1.0, DASHES, None),
    ):
        if value.min() < level < value.max():  # else matplotlib warns of a contour it cannot find
            lines: dict[str, Any] = {f"{name}s": [choice] for name, choice in look.items()}
            ax.contour(grid.x, grid.y, value, levels=[level], colors=INK, zorder=2, **lines)
        if label:
            ax.add_line(Line2D([], [], color=INK, label=label, **look))


def _draw_regions(ax: Axes, grid: _Grid, label: NDArray[Any], classes: NDArray[Any]) -> None:
    from matplotlib.colors import ListedColormap

    index = np.searchsorted(classes, label)
    colours = [class_style(len(classes), k)["color"] for k in range(len(classes))]
    ax.imshow(
        index, extent=grid.extent, origin="lower", aspect="auto", interpolation="nearest",
        cmap=ListedColormap(colours), vmin=-0.5, vmax=len(classes) - 0.5, alpha=SHADE * 0.6,
        zorder=0,
    )  # fmt: skip
    for k in np.unique(index):
        if (index == k).all():
            continue  # one region, no line
        # The lattice makes a stair of every slanted line; a blur of one step makes it a line again.
        inside = gaussian_filter((index == k).astype(float), sigma=1.0)
        ax.contour(grid.x, grid.y, inside, levels=[0.5], colors=INK, linewidths=0.7, zorder=2)


def _draw_points(ax: Axes, points: NDArray[np.float64], y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Draw the samples by class, the counts in the legend; return which of them were drawn."""
    n = len(y)
    shown = np.arange(n)
    if n > MOST_POINTS:
        shown = np.random.default_rng(0).choice(n, MOST_POINTS, replace=False)
    for k, name in enumerate(classes):
        mine = shown[y[shown] == name]
        ax.scatter(
            points[mine, 0], points[mine, 1],
            s=_point_size(shown.size), **class_style(len(classes), k),
            edgecolors="white", linewidths=0.4 if n < 1000 else 0.15, zorder=3,
            label=f"{name} ({np.sum(y == name)})",
        )  # fmt: skip
    return shown


def _draw_support(ax: Axes, points: NDArray[np.float64], machine: Any, shown: NDArray[np.intp]) -> None:
    free = free_support(machine)
    kind = "support vectors on the margin" if make_loss(machine.loss).name == "hinge" else "support vectors"
    for mask, colour, width, label in (
        (free, INK, 1.1, kind),
        (~free, "#8a8a8a", 0.7, "support vectors at the bound C"),
    ):
        if mask.any():
            x, y = points[np.intersect1d(machine.support_[mask], shown)].T
            ax.scatter(
                x, y,
                s=3.2 * _point_size(shown.size), marker="o", facecolors="none", edgecolors=colour,
                linewidths=width * _ring_weight(free.size), zorder=4,
                label=f"{label} ({mask.sum()})",
            )  # fmt: skip


def _point_size(n_points: int) -> float:
    """Area of a point in square typographic points: smaller if there are many points."""
    return float(np.clip(9000 / n_points, 8, 26))


def _ring_weight(n_rings: int) -> float:
    """Line width of a ring, as a share of the full width: thinner if there are many rings."""
    return float(np.clip(np.sqrt(200 / max(n_rings, 1)), 0.5, 1.0))
