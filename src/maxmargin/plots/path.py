"""Machines along a path of C: their scores, their support vectors, and their duality gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from maxmargin.plots.canvas import FEW_COLOURS, ink, legend_below, set_title
from maxmargin.plots.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False)
class PathDisplay(Display):
    """Machines over C: score and share of support vectors (of kernel machines) on the left scale, certified relative duality
    gap on the right one.

    If the path was scored on a validation set, a line marks the best C. The score on the training set has no best C: it grows
    with C whether the machine learns or memorises.

    Parameters
    ----------
    path : Path
        What `maxmargin.C_path` returned.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    GridDisplay : Scores over C and gamma.
    regularisation_path : The same picture; returns the axes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import C_path
    >>> from maxmargin.plots import PathDisplay
    >>> X, y = make_moons(80, noise=0.2, random_state=0)
    >>> path = C_path(X[::2], y[::2], [0.1, 1.0, 10.0], validation_set=(X[1::2], y[1::2]))
    >>> display = PathDisplay.from_path(path)
    >>> display.ax_.get_xscale()
    'log'
    """

    size: ClassVar[tuple[float, float]] = (7.0, 4.8)
    path: Any

    @classmethod
    def from_path(cls, path: Any, *, ax: Axes | None = None) -> Self:
        """Make the display of a path, and draw it.

        Parameters
        ----------
        path : Path
            What `maxmargin.C_path` returned.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        PathDisplay
            The display.
        """
        return cls(path=path).plot(ax)

    def _draw(self, ax: Axes) -> None:
        path = self.path
        gaps = np.array([proof.relative_gap for proof in path.certificates])
        lines = [(path.scores, FEW_COLOURS[0], "validation score" if path.validated else "training score")]
        if hasattr(path.machines[0], "support_"):  # linear machines keep no support vectors
            support = np.array([len(machine.support_) / machine.shape_fit_[0] for machine in path.machines])
            lines.append((support, FEW_COLOURS[2], "share of support vectors"))
        for values, colour, label in lines:
            ax.plot(path.Cs, values, color=colour, linewidth=1.6, marker=".", label=label)
        proved = ax.twinx()
        known = np.isfinite(gaps) & (gaps > 0.0)  # zero has no place on a logarithmic scale
        look: dict[str, Any] = {"color": FEW_COLOURS[1], "linewidth": 1.0, "linestyle": "--", "marker": "."}
        proved.plot(path.Cs[known], gaps[known], **look)
        ax.plot([], [], label="relative duality gap (right)", **look)
        proved.set_yscale("log")
        proved.spines[["top"]].set_visible(False)
        proved.tick_params(length=3, colors=FEW_COLOURS[1], which="both")
        if path.validated:
            best = path.best()
            label = f"best: C = {best.C:.4g}, score {path.scores.max():.4g}"
            ax.axvline(best.C, color=ink(ax), linewidth=0.9, linestyle=":", label=label)
        ax.set_xscale("log")
        ax.set(xlabel="C", ylabel="")
        set_title(ax, f"{len(path.machines)} machines, relative duality gap at most {gaps.max():.1e}")
        legend_below(ax)


def regularisation_path(path: Any, ax: Axes | None = None) -> Axes:
    """Draw the machines that `maxmargin.C_path` returned over C: a `PathDisplay`.

    Parameters
    ----------
    path : Path
        What `maxmargin.C_path` returned.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes of the left scale.

    See Also
    --------
    PathDisplay : The picture as an object, which says what is drawn.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import C_path
    >>> from maxmargin.plots import regularisation_path
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> regularisation_path(C_path(X, y, [0.1, 1.0])).get_xlabel()
    'C'
    """
    return PathDisplay.from_path(path, ax=ax).ax_
