"""What all pictures share: the late import of matplotlib, one set of colours, and writing figures to files."""

from __future__ import annotations

import textwrap
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of Okabe and Ito, "Color universal design" (2008), which differ for any colour vision. The first
# two are the two sides of a binary picture. Beyond seven classes: Tol's "muted" scheme (2021).
FEW_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8000")
MANY_COLOURS = (
    "#332288", "#CC6677", "#117733", "#DDCC77", "#88CCEE",
    "#882255", "#44AA99", "#999933", "#AA4499", "#888888",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
INK = "#222222"  # of lines on a light background
LIGHT_INK = "#e6e6e6"  # of lines on a dark one
GREY = "#8a8a8a"  # can be seen on both
DOTS_PER_INCH = 160
TITLE_CHARACTERS = 90  # in a line of a title
LEGEND_DISTANCE = 0.56  # inches from the axes down to a legend, with room for the tick labels and the name of the axis


def load_pyplot() -> Any:
    """Return matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as pyplot
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'maxmargin[plot]' (or pip install matplotlib)") from error
    return pyplot


def new_axes(width: float = 7.2, height: float = 6.4) -> Axes:
    """Return the axes of a new figure."""
    ax: Axes
    _, ax = load_pyplot().subplots(figsize=(width, height), layout="constrained")
    return ax


def ink(ax: Axes) -> str:
    """Return the colour of lines inside the axes: dark on a light background, light on a dark one."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(ax.get_facecolor())
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5 else LIGHT_INK  # ITU-R BT.709


def class_style(n_classes: int, index: int) -> dict[str, Any]:
    """Return colour and marker of one class; both differ, so that either is enough."""
    colours = FEW_COLOURS if n_classes <= len(FEW_COLOURS) else MANY_COLOURS
    return {"color": colours[index % len(colours)], "marker": MARKERS[index % len(MARKERS)]}


def legend_below(ax: Axes, columns: int = 2) -> None:
    """Draw a legend under the axes, clear of their labels whatever the size of the picture."""
    from matplotlib.transforms import ScaledTranslation

    down = ScaledTranslation(0.0, -LEGEND_DISTANCE, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=ax.transAxes + down, borderaxespad=0.0,
        frameon=False, fontsize=9, ncols=columns,
    )  # fmt: skip


def set_title(ax: Axes, *lines: str | None) -> None:
    """Write lines above the axes, broken where they are too long."""
    wrapped = [textwrap.fill(line, TITLE_CHARACTERS) for text in lines if text for line in text.split("\n")]
    ax.set_title("\n".join(wrapped), loc="left", fontsize=10)


def tidy(ax: Axes) -> None:
    """Remove the upper and right frame lines, which carry no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)


def save(figure: Any, path: str | PathLike[str]) -> Path:
    """Write a figure, or the figure of some axes, to a file; the ending says the format.

    Parameters
    ----------
    figure : Figure, Axes or Display
        What to write: a figure, or the figure of these axes or this display.
    path : str or path
        The file, whose ending matplotlib knows: png, svg, pdf, ...

    Returns
    -------
    pathlib.Path
        The file.

    See Also
    --------
    matplotlib.figure.Figure.savefig : What is called.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from maxmargin.plots import loss_comparison, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(loss_comparison(), pathlib.Path(folder) / "losses.svg").suffix
    '.svg'
    """
    path = check_path(path)
    figure = getattr(figure, "figure_", figure)
    getattr(figure, "figure", figure).savefig(path, dpi=DOTS_PER_INCH)
    return path


def check_path(path: str | PathLike[str]) -> Path:
    """Return `path` if a picture can be written there; a ValueError says why not."""
    load_pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    path = Path(fspath(path))
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        endings = ", ".join(sorted(known))
        raise ValueError(f"path={str(path)!r}: the ending must be one of {endings}")
    if not path.parent.is_dir():
        raise ValueError(f"path={str(path)!r}: there is no folder {str(path.parent)!r}")
    return path
