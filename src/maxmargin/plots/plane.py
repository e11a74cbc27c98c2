"""The plane that is drawn: the features themselves if they are two, else the plane in which the samples vary most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.decomposition import PCA

GRID = 240  # points along each side of the picture at which the model is asked
GRID_BUDGET = 1 << 23  # numbers in the block of grid points asked at once (64 MiB)
BORDER = 0.06  # empty border around the points, as a share of their range
MOST_POINTS = 4000  # samples that are drawn; of more, a fixed random choice


def principal_plane(X: Any) -> tuple[PCA, tuple[str, str]]:
    """Return the first two principal components of X as a fitted transformer, and the labels of the axes.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
        The samples.

    Returns
    -------
    plane : sklearn.decomposition.PCA
        The fitted transformer to two columns.
    names : tuple of two str
        The labels of the axes, with the share of the variance along each.

    See Also
    --------
    BoundaryDisplay : Draws samples and a slice of the decision function in this plane.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin.plots import principal_plane
    >>> plane, names = principal_plane(load_iris().data)
    >>> names[0]
    'principal component 1 (92% of the variance)'
    """
    if X.shape[1] < 2:
        raise ValueError("X has 1 feature: a picture of a plane needs at least 2")
    plane = PCA(2, svd_solver="arpack" if issparse(X) else "auto", random_state=0).fit(X)
    first, second = (
        f"principal component {k} ({share:.0%} of the variance)"
        for k, share in enumerate(plane.explained_variance_ratio_, start=1)
    )
    return plane, (first, second)


@dataclass(frozen=True)
class View:
    """A plane to draw: `flatten` projects samples onto it, `lift` turns its points into samples."""

    flatten: Callable[[Any], NDArray[np.float64]]
    lift: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    names: tuple[str, str]
    what: str | None


def view_of(X: Any, feature_names: Sequence[str] | None, project: Any) -> View:
    """The plane of X: the one of the caller (`project`), that of the two features, or the principal one."""
    n_features = X.shape[1]
    if project is not None:
        names = ("first axis of the plane", "second axis of the plane")
        return View(project.transform, project.inverse_transform, names, None)
    if n_features == 2:
        if feature_names is None:
            feature_names = ("first feature", "second feature")
        first, second = feature_names
        return View(lambda X: X.toarray() if issparse(X) else X, lambda X: X, (first, second), None)
    plane, names = principal_plane(X)
    return View(
        plane.transform,
        plane.inverse_transform,
        names,
        f"slice of the {n_features}-feature decision function: the plane of the first two principal components, the samples "
        "projected onto it",
    )


class Lattice:
    """A square lattice over the points of a picture, with a border around them."""

    def __init__(self, points: NDArray[np.float64]) -> None:
        low, high = points.min(axis=0), points.max(axis=0)
        border = BORDER * np.where(high > low, high - low, 1.0)
        self.x, self.y = (np.linspace(low[k] - border[k], high[k] + border[k], GRID) for k in (0, 1))

    @property
    def extent(self) -> tuple[float, float, float, float]:
        return self.x[0], self.x[-1], self.y[0], self.y[-1]

    def ask(self, answer: Callable[[Any], NDArray[Any]], lift: Callable[[Any], Any], n_features: int) -> NDArray[Any]:
        """Return `answer` at every lattice point, computed for a block of points at a time."""
        points = np.stack(np.meshgrid(self.x, self.y), axis=-1).reshape(-1, 2)
        n_blocks = -(-points.shape[0] * n_features // GRID_BUDGET)
        answers = [answer(lift(block)) for block in np.array_split(points, n_blocks)]
        return np.concatenate(answers).reshape(GRID, GRID)


def some_of(n: int) -> NDArray[np.intp]:
    """The numbers of the samples that are drawn: all of them, or a fixed random choice."""
    if n <= MOST_POINTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, MOST_POINTS, replace=False))


def point_size(n_points: int) -> float:
    """Area of a point in square typographic points: smaller if there are many points."""
    return float(np.clip(9000 / n_points, 8, 26))
