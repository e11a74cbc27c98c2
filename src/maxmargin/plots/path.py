"""Machines along a path of C: their scores, their support vectors, and their duality gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.plots.canvas import FEW_COLOURS, INK, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def regularisation_path(path: Any, ax: Axes | None = None) -> Axes:
    """Draw the machines that `C_path` returned over C: their score and the share of samples that are support vectors, on the
    left scale; their certified relative duality gap, on the right one."""
    ax = new_axes(7.0, 4.2) if ax is None else ax
    gaps = np.array([proof.relative_gap for proof in path.certificates])
    support = np.array([len(machine.support_) / machine.shape_fit_[0] for machine in path.machines])
    for values, colour, label in (
        (path.scores, FEW_COLOURS[0], "score"),
        (support, FEW_COLOURS[2], "share of support vectors"),
    ):
        ax.plot(path.Cs, values, color=colour, linewidth=1.6, marker=".", label=label)
    proved = ax.twinx()
    known = np.isfinite(gaps) & (gaps > 0.0)  # zero has no place on a logarithmic scale
    proved.plot(path.Cs[known], gaps[known], color=FEW_COLOURS[1], linewidth=1.0, linestyle="--", marker=".")
    ax.plot([], [], color=FEW_COLOURS[1], linewidth=1.0, linestyle="--", marker=".", label="relative duality gap (right)")
    proved.set_yscale("log")
    proved.spines[["top"]].set_visible(False)
    proved.tick_params(length=3, colors=FEW_COLOURS[1], which="both")
    best = path.best()
    ax.axvline(best.C, color=INK, linewidth=0.9, linestyle=":", label=f"best: C = {best.C:.4g}, score {path.scores.max():.4g}")
    ax.set_xscale("log")
    ax.set(xlabel="C", ylabel="")
    title = f"{len(path.machines)} machines, relative duality gap at most {gaps.max():.1e}"
    ax.set_title(title, loc="left", fontsize=10, color=INK)
    tidy(ax)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False, fontsize=9, ncols=2)
    return ax
