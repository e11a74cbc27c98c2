"""The machine inside a model, and which of its support vectors are free and which have reached the bound C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from maxmargin.formulations import make_loss
from maxmargin.plots.canvas import GREY, ink
from maxmargin.plots.plane import point_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AT_THE_BOUND = 1e-8  # relative distance to C below which a dual variable counts as being at C


def machine_of(model: Any) -> Any:
    """The fitted machine of a model: the best one of a search, the last step of a pipeline, or the model itself."""
    if hasattr(model, "best_estimator_"):
        return machine_of(model.best_estimator_)
    return machine_of(model.steps[-1][1]) if hasattr(model, "steps") else model


def free_support(model: Any) -> NDArray[np.bool_]:
    """Return, for each support vector of a fitted `SVC`, whether it is free: whether 0 < |β| < C.

    With the hinge loss free support vectors lie on the margin, the others at the bound: on it, inside it or beyond.
    With several classes one vector serves several machines; it is free if it is free in one of them.
    C is the bound of the vector's class; sample weights are not on the model and are not seen.
    With loss="squared_hinge" there is no bound, and every support vector is free.

    Parameters
    ----------
    model : SVC
        The fitted machine.

    Returns
    -------
    ndarray of bool, of shape (n_support,)
        In the order of ``model.support_``.

    See Also
    --------
    BoundaryDisplay : Draws both kinds with rings of their own.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import free_support
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> model = SVC().fit(X, y)
    >>> free = free_support(model)
    >>> bool((abs(model.dual_coef_[0, ~free]) == model.C).all())
    True
    """
    beta = model.dual_coef_.toarray() if issparse(model.dual_coef_) else model.dual_coef_
    bound = model.C if np.isfinite(make_loss(model.loss).box(np.ones(1))[0][0]) else np.inf
    bounds = np.repeat(bound * np.asarray(model.class_weight_), model.n_support_)
    size: NDArray[np.float64] = np.abs(beta)
    return np.asarray(((size > 0) & (size < bounds * (1 - AT_THE_BOUND))).any(axis=0))


def kinds_of_support(machine: Any) -> list[tuple[str, NDArray[np.intp]]]:
    """The support vectors of a classifier by kind, with the words for the legend; none if the machine does not keep them."""
    support = np.asarray(getattr(machine, "support_", ()), dtype=np.intp)
    if not len(support) or not hasattr(machine, "C"):  # a nu-machine has other bounds
        return [("support vectors", support)]
    free = free_support(machine)
    on_margin = " on the margin" if make_loss(machine.loss).name == "hinge" else "" if free.all() else " below the bound C"
    return [(f"support vectors{on_margin}", support[free]), ("support vectors at the bound C", support[~free])]


def draw_rings(ax: Axes, points: NDArray[np.float64], kinds: list[tuple[str, NDArray[np.intp]]], shown: NDArray[np.intp]) -> None:
    """Draw a ring around the support vectors among the points that are shown: the first kind dark, the others pale."""
    total = sum(len(support) for _, support in kinds)
    weight = float(np.clip(np.sqrt(200 / max(total, 1)), 0.5, 1.0))  # thinner if there are many
    for (label, support), colour, width in zip(kinds, (ink(ax), GREY), (1.1, 0.7), strict=False):
        if len(support):
            x, y = points[np.intersect1d(support, shown)].T
            ax.scatter(
                x, y,
                s=3.2 * point_size(shown.size), marker="o", facecolors="none", edgecolors=colour,
                linewidths=width * weight, zorder=4, label=f"{label} ({len(support)})",
            )  # fmt: skip
