"""The scores of a grid of C and gamma."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.plots.canvas import GREY, INK, set_title
from maxmargin.plots.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONE_CELL_RATIO = 10.0  # the ratio of the ends of a cell that has no neighbour


@dataclass(kw_only=True, eq=False)
class GridDisplay(Display):
    """The mean test scores of a search over C and gamma, with a ring around the best; points that were not done are grey.

    Of a grid with more parameters, such as epsilon, the slice through the best point is drawn, and the title says so.

    Parameters
    ----------
    results : dict
        The table of results of a search: ``cv_results_``.
    n_splits : int
        The number of folds.
    metric : str, default="score"
        The scorer whose scores are drawn.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    PathDisplay : Machines over C alone.
    heat_map : The same picture; returns the axes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVCCV
    >>> from maxmargin.plots import GridDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> display = GridDisplay.from_estimator(SVCCV(Cs=[0.1, 1.0], gammas=[0.5, 5.0], cv=3).fit(X, y))
    >>> display.ax_.get_ylabel()
    'gamma'
    """

    size: ClassVar[tuple[float, float]] = (7.0, 5.0)
    results: Mapping[str, Any]
    n_splits: int
    metric: str = "score"

    @classmethod
    def from_estimator(cls, estimator: Any, *, metric: str | None = None, ax: Axes | None = None) -> Self:
        """Make the display of a fitted search, and draw it.

        Parameters
        ----------
        estimator : SVCCV, SVRCV or GridSearchCV
            The fitted search; of scikit-learn's, one over C and gamma.
        metric : str, default=None
            Of a search with several scorers, the one to draw. None: the one that chose the best point.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        GridDisplay
            The display.
        """
        results = estimator.cv_results_
        known = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
        if metric is None:
            metric = estimator.refit if isinstance(estimator.refit, str) else known[0]
        if metric not in known:
            raise ValueError(f"metric={metric!r}: must be one of {', '.join(known)}")
        if missing := {"C", "gamma"} - set(results["params"][0]):
            raise ValueError(f"the grid has no {' and no '.join(sorted(missing))}: the picture is of C and gamma")
        return cls(results=results, n_splits=estimator.n_splits_, metric=metric).plot(ax)

    def _draw(self, ax: Axes) -> None:
        from matplotlib.patheffects import withStroke

        params, means = self.results["params"], self.results[f"mean_test_{self.metric}"]
        best = int(self.results[f"rank_test_{self.metric}"].argmin())
        point, score = params[best], float(means[best])
        shown = [i for i, one in enumerate(params) if _others(one) == _others(point)]
        C, gamma = (np.array([params[i][name] for i in shown], dtype=float) for name in ("C", "gamma"))
        columns, column = np.unique(C, return_inverse=True)
        rows, row = np.unique(gamma, return_inverse=True)
        scores = np.full((len(rows), len(columns)), np.nan)
        scores[row, column] = means[shown]

        ax.set_facecolor(GREY)
        mesh = ax.pcolormesh(_edges(columns), _edges(rows), np.ma.masked_invalid(scores), cmap="viridis")
        ax.figure.colorbar(mesh, ax=ax, label=f"mean test {self.metric}")
        ax.set(xscale="log", yscale="log", xlabel="C", ylabel="gamma")
        title = "no point is done on all folds"
        if not np.isnan(score):
            ring: dict[str, Any] = {"markersize": 13, "markerfacecolor": "none", "markeredgewidth": 2.0}
            outline = [withStroke(linewidth=4.0, foreground=INK)]
            ax.plot(point["C"], point["gamma"], "o", markeredgecolor="white", path_effects=outline, **ring)
            title = f"best {self.metric} {score:.4g} at C = {point['C']:.4g}, gamma = {point['gamma']:.4g}, {self.n_splits} folds"
        slice_at = ", ".join(f"{name} = {value}" for name, value in _others(point).items())
        set_title(ax, title, f"slice at {slice_at}" if len(shown) < len(params) else None)


def heat_map(search: Any, ax: Axes | None = None) -> Axes:
    """Draw the mean test scores of a fitted search over C and gamma: a `GridDisplay`.

    Parameters
    ----------
    search : SVCCV, SVRCV or GridSearchCV
        The fitted search; of scikit-learn's, one over C and gamma.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    GridDisplay : The picture as an object, which says what is drawn.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVCCV
    >>> from maxmargin.plots import heat_map
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> heat_map(SVCCV(Cs=[0.1, 1.0], gammas=[0.5, 5.0], cv=3).fit(X, y)).get_xlabel()
    'C'
    """
    return GridDisplay.from_estimator(search, ax=ax).ax_


def _others(point: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name not in ("C", "gamma")}


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where the cells around ascending values begin and end: halfway to the next, on a logarithmic scale."""
    if len(values) == 1:
        return np.asarray(values[0] * np.array([LONE_CELL_RATIO**-0.5, LONE_CELL_RATIO**0.5]))
    middle = np.sqrt(values[:-1] * values[1:])
    return np.concatenate([[values[0] ** 2 / middle[0]], middle, [values[-1] ** 2 / middle[-1]]])
