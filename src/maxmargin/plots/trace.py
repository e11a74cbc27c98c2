"""How a fit converged, and which samples hold what is left of its gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maxmargin.plots.canvas import FEW_COLOURS, GREY, ink, legend_below, set_title
from maxmargin.plots.display import Display
from maxmargin.plots.support import machine_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 20  # samples with a bar of their own


@dataclass(kw_only=True, eq=False)
class GapDisplay(Display):
    """Duality gap and KKT violation of a fit over its seconds.

    The violation falls to the dotted line ``tol``; the gap ends at the dot, which is the certificate: computed afresh after the
    fit, in the arithmetic it names, not taken from the solver.

    Parameters
    ----------
    trace : Trace
        The course of the fit.
    certificate : Certificate
        Its certificate.
    status : str
        The sentence about its end.
    tol : float
        Its tolerance.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    GapSharesDisplay : Which samples hold the gap.
    duality_trace : Primal and dual value over the iterations.
    gap_trace : The same picture; returns the axes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import GapDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> display = GapDisplay.from_estimator(SVC().fit(X, y))
    >>> display.ax_.get_xlabel()
    'seconds'
    """

    size: ClassVar[tuple[float, float]] = (7.0, 4.6)
    trace: Any
    certificate: Any
    status: str
    tol: float

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Make the display of a fitted machine, and draw it.

        Parameters
        ----------
        estimator : estimator of maxmargin or Pipeline
            The fitted model, or a pipeline that ends in one.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        GapDisplay
            The display.
        """
        machine = machine_of(estimator)
        proof, status = machine.certificate_, str(machine.status_)
        tol = machine.tol if isinstance(machine.tol, float) else np.nan  # KernelRegressor(tol="auto") has its own
        return cls(trace=machine.trace_, certificate=proof, status=status, tol=tol).plot(ax)

    def _draw(self, ax: Axes) -> None:
        seconds = np.asarray(self.trace.seconds, dtype=float)
        for values, colour, label in (
            (self.trace.violation, FEW_COLOURS[0], "KKT violation"),
            (self.trace.gap, FEW_COLOURS[1], "duality gap (primal minus dual)"),
        ):
            height = np.asarray(values, dtype=float)
            known = np.isfinite(height) & (height > 0)  # values not measured, and zeros, have no point
            if known.any():
                ax.plot(
                    seconds[known], height[known], color=colour, linewidth=1.6, marker=".",
                    markersize=4 if known.sum() < 60 else 0, label=label,
                )  # fmt: skip
        if self.certificate.gap > 0 and seconds.size:
            ax.plot(
                seconds[-1], self.certificate.gap, "o", color=FEW_COLOURS[1], markeredgecolor=ink(ax),
                label=f"certified gap {self.certificate.gap:.2e}",
            )  # fmt: skip
        if np.isfinite(self.tol):
            ax.axhline(self.tol, color=ink(ax), linewidth=0.9, linestyle=":", label=f"tol = {self.tol:g}")
        ax.set_yscale("log")
        ax.set(xlabel="seconds", ylabel="")
        if seconds.size and seconds[-1] > 0:
            ax.set_xlim(0.0, 1.05 * seconds[-1])  # a trace of one point has no range of its own
        set_title(ax, self.status, f"relative duality gap {self.certificate.relative_gap:.1e}")
        ax.grid(axis="y", color=GREY, linewidth=0.6, alpha=0.3)
        ax.set_axisbelow(True)
        legend_below(ax)


def gap_trace(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the duality gap and the KKT violation of a fit over its seconds: a `GapDisplay`.

    Parameters
    ----------
    model : estimator of maxmargin or Pipeline
        The fitted model, or a pipeline that ends in one.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    GapDisplay : The picture as an object, which says what is drawn.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import gap_trace
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> gap_trace(SVC().fit(X, y)).get_yscale()
    'log'
    """
    return GapDisplay.from_estimator(model, ax=ax).ax_


@dataclass(kw_only=True, eq=False)
class GapSharesDisplay(Display):
    """Which samples hold the duality gap: the largest shares, a bar each.

    A gap is a sum with a term for each sample, which is zero where the optimality conditions hold. The samples with the largest
    terms are those that keep a model from its optimum. For several machines, the terms of a sample are added.

    Parameters
    ----------
    terms : ndarray of shape (n_samples,)
        The term of each sample.
    labels : ndarray, default=None
        Classes or targets, for the names of the bars.

    Attributes
    ----------
    ax_, figure_
        The axes and the figure of the last drawing.

    See Also
    --------
    GapDisplay : The course of the gap.
    maxmargin.Certificate : Its ``gap_terms`` are what is drawn.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import SVC
    >>> from maxmargin.plots import GapSharesDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     model = SVC(C=10.0, max_iter=20).fit(X, y)
    >>> display = GapSharesDisplay.from_estimator(model, y)
    >>> int(display.terms.argmax()) == int(model.certificate_.gap_terms.argmax())
    True
    """

    size: ClassVar[tuple[float, float]] = (7.0, 5.0)
    terms: NDArray[np.float64]
    labels: NDArray[Any] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, y: Any = None, *, ax: Axes | None = None) -> Self:
        """Make the display of a fitted machine, and draw it.

        Parameters
        ----------
        estimator : estimator of maxmargin or Pipeline
            The fitted model, or a pipeline that ends in one.
        y : array-like, default=None
            The training targets, to name the bars by.
        ax : matplotlib.axes.Axes, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        GapSharesDisplay
            The display.
        """
        terms = np.atleast_2d(machine_of(estimator).certificate_.gap_terms).sum(axis=0)
        return cls(terms=terms, labels=None if y is None else np.asarray(y)).plot(ax)

    def _draw(self, ax: Axes) -> None:
        largest = np.argsort(-self.terms, kind="stable")[:MOST_BARS]
        largest = largest[self.terms[largest] > 0.0]
        total = float(self.terms.sum())
        names = [f"{k}" if self.labels is None else f"{k}  ({self.labels[k]})" for k in largest]
        ax.barh(np.arange(len(largest)), self.terms[largest], color=FEW_COLOURS[0], height=0.7)
        ax.set_yticks(np.arange(len(largest)), names)
        ax.invert_yaxis()
        ax.set(xlabel="share of the duality gap", ylabel="sample" if self.labels is None else "sample (y)")
        if not len(largest):
            set_title(ax, "no sample holds any of the gap: it is zero")
            return
        held = float(self.terms[largest].sum()) / total
        n_holding = int((self.terms > 0.0).sum())
        set_title(
            ax, f"duality gap {total:.2e}: {n_holding} of {len(self.terms)} samples have a share, {len(largest)} hold {held:.0%}"
        )
