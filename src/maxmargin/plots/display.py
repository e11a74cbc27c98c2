"""The contract of all displays, which is that of scikit-learn's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from maxmargin.plots.canvas import new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Display(ABC):
    """A picture as an object: it holds what is drawn, and `plot` draws it as often as wanted.

    A class method such as ``from_estimator`` makes a display from a fitted model and draws it. `ax_` and `figure_` are the axes
    and the figure of the last drawing.
    """

    ax_: Axes
    figure_: Any
    #: Width and height of a new figure, in inches
    size: ClassVar[tuple[float, float]] = (7.2, 6.4)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure. The legend is below the axes: make the figure with ``layout="constrained"``, so
            that it has a place there.

        Returns
        -------
        Display
            The display itself, with `ax_` and `figure_`.
        """
        self.ax_ = new_axes(*self.size) if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        tidy(self.ax_)
        return self

    @abstractmethod
    def _draw(self, ax: Axes) -> None: ...
