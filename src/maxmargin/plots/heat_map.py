"""The scores of a grid of C and gamma."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.plots.canvas import INK, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOT_DONE = "#dddddd"
LONE_CELL_RATIO = 10.0  # the ratio of the ends of a cell that has no neighbour


def heat_map(search: Any, ax: Axes | None = None) -> Axes:
    """Draw the mean test scores of a fitted `SVCCV` or `SVRCV` over C and gamma, with a ring around the best; points that were
    not done are grey.

    Of a grid with more parameters, such as epsilon, the slice through the best point is drawn, and the title says so. The
    table is that of GridSearchCV, so a search of scikit-learn over C and gamma is drawn as well.
    """
    table = search.cv_results_
    best = int(table["rank_test_score"].argmin())
    point, score = table["params"][best], float(table["mean_test_score"][best])
    if missing := {"C", "gamma"} - set(point):
        raise ValueError(f"the grid has no {' and no '.join(sorted(missing))}: the picture is of C and gamma")
    shown = [i for i, one in enumerate(table["params"]) if _others(one) == _others(point)]
    C, gamma = (np.array([table["params"][i][name] for i in shown], dtype=float) for name in ("C", "gamma"))
    columns, column = np.unique(C, return_inverse=True)
    rows, row = np.unique(gamma, return_inverse=True)
    scores = np.full((len(rows), len(columns)), np.nan)
    scores[row, column] = table["mean_test_score"][shown]

    ax = new_axes(7.0, 5.0) if ax is None else ax
    ax.set_facecolor(NOT_DONE)
    mesh = ax.pcolormesh(_edges(columns), _edges(rows), np.ma.masked_invalid(scores), cmap="viridis")
    ax.figure.colorbar(mesh, ax=ax, label="mean test score")
    ax.set(xscale="log", yscale="log", xlabel="C", ylabel="gamma")
    title = "no point is done on all folds"
    if not np.isnan(score):
        ring: dict[str, Any] = {"markersize": 13, "markerfacecolor": "none", "markeredgewidth": 2.0}
        ax.plot(point["C"], point["gamma"], "o", markeredgecolor=INK, **ring)
        title = f"best score {score:.4g} at C = {point['C']:.4g}, gamma = {point['gamma']:.4g}, {search.n_splits_} folds"
    if len(shown) < len(table["params"]):
        title += f"\nslice at {', '.join(f'{name} = {value}' for name, value in _others(point).items())}"
    ax.set_title(title, loc="left", fontsize=10, color=INK)
    tidy(ax)
    return ax


def _others(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name not in ("C", "gamma")}


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the cells around ascending values begin and end: halfway to the next, on a logarithmic scale."""
    if len(values) == 1:
        return np.asarray(values[0] * np.array([LONE_CELL_RATIO**-0.5, LONE_CELL_RATIO**0.5]))
    middle = np.sqrt(values[:-1] * values[1:])
    return np.concatenate([[values[0] ** 2 / middle[0]], middle, [values[-1] ** 2 / middle[-1]]])
