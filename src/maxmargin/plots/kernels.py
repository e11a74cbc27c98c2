"""Pictures of a kernel: as a function of one sample, and as a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.plots.canvas import FEW_COLOURS, INK, new_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = np.linspace(-3.0, 3.0, 401)


def kernel_profiles(kernels: Mapping[str, Any], at: float = 1.0, ax: Axes | None = None) -> Axes:
    """Draw k(x, z) over x for one fixed z = `at` on the line, a curve for each kernel.

    `kernels` maps what the legend says to a kernel, such as ``{"Gaussian": RBF(0.5)}``, or ``model.kernel_``.
    """
    ax = new_axes(7.0, 4.2) if ax is None else ax
    for (name, kernel), colour in zip(kernels.items(), FEW_COLOURS, strict=False):
        ax.plot(POINTS, kernel.block(POINTS[:, None], np.array([[at]]))[:, 0], color=colour, linewidth=1.8, label=name)
    ax.axvline(at, color="#bbbbbb", linewidth=0.8, zorder=0)
    ax.set(xlim=POINTS[[0, -1]], xlabel="x", ylabel=f"k(x, {at:g})")
    ax.legend(frameon=False, fontsize=9)
    tidy(ax)
    return ax


def kernel_matrix(kernel: Any, X: Any, y: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw the matrix k(x_i, x_j) of samples, sorted by class if y is given: a good kernel shows the classes as blocks."""
    ax = new_axes(6.0, 5.4) if ax is None else ax
    labels = np.zeros(X.shape[0]) if y is None else np.asarray(y)
    order = np.argsort(labels, kind="stable")
    values = kernel.block(X[order], X[order])
    image = ax.imshow(values, cmap="viridis", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label="k(x, z)")
    for edge in np.flatnonzero(labels[order][1:] != labels[order][:-1]):
        ax.axhline(edge + 0.5, color="white", linewidth=1.0)
        ax.axvline(edge + 0.5, color="white", linewidth=1.0)
    sorted_by = "" if y is None else ", sorted by class"
    ax.set_title(f"kernel matrix of {len(order)} samples{sorted_by}", loc="left", fontsize=10, color=INK)
    ax.set(xlabel="sample", ylabel="sample")
    return ax
