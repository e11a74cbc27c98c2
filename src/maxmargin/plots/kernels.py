"""Pictures of a kernel: as a function of one sample, and as a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.plots.canvas import FEW_COLOURS, GREY, legend_below, new_axes, set_title, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = np.linspace(-3.0, 3.0, 401)


def kernel_profiles(kernels: Mapping[str, Any], at: float = 1.0, ax: Axes | None = None) -> Axes:
    """Draw k(x, z) over x for one fixed z on the line, a curve for each kernel.

    Parameters
    ----------
    kernels : mapping of str to Kernel
        What the legend says, and the kernel, such as ``RBF(0.5)`` or ``model.kernel_``.
    at : float, default=1.0
        The fixed sample z.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    kernel_matrix : A kernel as a matrix of samples.
    maxmargin.kernels : The kernels.

    Examples
    --------
    >>> from maxmargin.kernels import RBF, Linear
    >>> from maxmargin.plots import kernel_profiles
    >>> kernel_profiles({"Gaussian": RBF(0.5), "linear": Linear()}, at=2.0).get_ylabel()
    'k(x, 2)'
    """
    ax = new_axes(7.0, 4.6) if ax is None else ax
    for (name, kernel), colour in zip(kernels.items(), FEW_COLOURS, strict=False):
        ax.plot(POINTS, kernel.block(POINTS[:, None], np.array([[at]]))[:, 0], color=colour, linewidth=1.8, label=name)
    ax.axvline(at, color=GREY, linewidth=0.6, zorder=0)
    ax.set(xlim=POINTS[[0, -1]], xlabel="x", ylabel=f"k(x, {at:g})")
    legend_below(ax, columns=3)
    tidy(ax)
    return ax


def kernel_matrix(kernel: Any, X: Any, y: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw the matrix k(x_i, x_j) of samples, sorted by class if y is given: a good kernel shows the classes as blocks.

    Parameters
    ----------
    kernel : Kernel
        The kernel, such as ``RBF(0.5)`` or ``model.kernel_``.
    X : array of shape (n_samples, n_features)
        The samples.
    y : array-like, default=None
        Their classes.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    kernel_profiles : Kernels as functions of one sample.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin.kernels import RBF
    >>> from maxmargin.plots import kernel_matrix
    >>> X, y = load_iris(return_X_y=True)
    >>> kernel_matrix(RBF(0.5), X, y).get_title(loc="left")
    'kernel matrix of 150 samples, sorted by class'
    """
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
    set_title(ax, f"kernel matrix of {len(order)} samples{sorted_by}")
    ax.set(xlabel="sample", ylabel="sample")
    return ax
