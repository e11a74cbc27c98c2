"""How far predicted probabilities agree with what is observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss

from maxmargin.plots.canvas import GREY, class_style, legend_below, set_title
from maxmargin.plots.display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False)
class CalibrationDisplay(Display):
    """The observed share of a class over its predicted probability.

    Samples are put into bins of equally many. The curve of a calibrated model is the diagonal.

    Parameters
    ----------
    curves : dict
        For each class that is drawn, the mean predicted probability and the observed share of each bin.
    n_classes : int
        The number of classes of the model.
    title : str
        The line above the picture.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : The same for two classes of any classifier.
    maxmargin.SVC : Its parameters ``probability`` and ``calibration``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import CalibrationDisplay
    >>> X, y = make_moons(400, noise=0.3, random_state=0)
    >>> model = SVC(probability="loo").fit(X[::2], y[::2])
    >>> display = CalibrationDisplay.from_estimator(model, X[1::2], y[1::2], n_bins=5)
    >>> list(display.curves)
    ['1']
    """

    size: ClassVar[tuple[float, float]] = (6.0, 6.0)
    curves: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    n_classes: int
    title: str

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: ArrayLike, *, n_bins: int = 10, ax: Axes | None = None) -> Self:
        """Make the display of a fitted classifier with probabilities, and draw it.

        Parameters
        ----------
        estimator : SVC, NuSVC, SVCCV or Pipeline
            The fitted model, with ``probability="loo"`` or ``"cv"``.
        X, y : array-like
            Samples that the model was not fitted on, and their classes.
        n_bins : int, default=10
            The number of bins.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        CalibrationDisplay
            The display. Of two classes, the second one is drawn.
        """
        probabilities, labels, classes = estimator.predict_proba(X), np.asarray(y), estimator.classes_
        curves = {}
        for k in range(1 if len(classes) == 2 else 0, len(classes)):
            observed, predicted = calibration_curve(labels == classes[k], probabilities[:, k], n_bins=n_bins, strategy="quantile")
            curves[str(classes[k])] = (predicted, observed)
        loss = log_loss(labels, probabilities, labels=classes)
        return cls(curves=curves, n_classes=len(classes), title=f"log loss {loss:.4g} on {len(labels)} samples").plot(ax)

    def _draw(self, ax: Axes) -> None:
        ax.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=0.9, linestyle=":", label="perfectly calibrated")
        first = 1 if self.n_classes == 2 else 0
        for index, (name, (predicted, observed)) in enumerate(self.curves.items(), start=first):
            ax.plot(predicted, observed, linewidth=1.6, markersize=5, label=f"class {name}", **class_style(self.n_classes, index))
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="mean predicted probability", ylabel="observed share")
        set_title(ax, self.title)
        legend_below(ax)
