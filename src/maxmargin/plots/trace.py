"""How a fit converged: duality gap and KKT violation over its seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.plots.canvas import FEW_COLOURS, INK, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def gap_trace(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the duality gap and the KKT violation of a fit over its seconds, from `model.trace_`.

    The violation falls to the dotted line `tol`; the gap ends at the dot, which is the certificate:
    computed afresh after the fit, in the arithmetic it names, not taken from the solver.
    """
    ax = new_axes(7.0, 4.2) if ax is None else ax
    machine = model.steps[-1][1] if hasattr(model, "steps") else model
    trace, certificate = machine.trace_, machine.certificate_
    seconds = np.asarray(trace.seconds, dtype=float)
    for values, colour, label in (
        (trace.violation, FEW_COLOURS[0], "KKT violation"),
        (trace.gap, FEW_COLOURS[1], "duality gap (primal minus dual)"),
    ):
        height = np.asarray(values, dtype=float)
        known = np.isfinite(height) & (height > 0)  # values not measured, and zeros, have no point
        if known.any():
            ax.plot(
                seconds[known], height[known], color=colour, linewidth=1.6, marker=".",
                markersize=4 if known.sum() < 60 else 0, label=label,
            )  # fmt: skip
    if certificate.gap > 0 and seconds.size:
        ax.plot(
            seconds[-1], certificate.gap, "o", color=FEW_COLOURS[1], markeredgecolor=INK,
            label=f"certified gap {certificate.gap:.2e}",
        )  # fmt: skip
    ax.axhline(machine.tol, color=INK, linewidth=0.9, linestyle=":", label=f"tol = {machine.tol:g}")
    ax.set_yscale("log")
    ax.set(xlabel="seconds", ylabel="")
    ax.set_title(
        f"{machine.status_.value}\nrelative duality gap {certificate.relative_gap:.1e}",
        loc="left", fontsize=10, color=INK, wrap=True,
    )  # fmt: skip
    ax.grid(axis="y", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=9)
    tidy(ax)
    return ax
