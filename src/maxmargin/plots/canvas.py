"""What all pictures share: the late import of matplotlib, one set of colours, and writing figures to files."""

from __future__ import annotations

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
INK = "#222222"
DOTS_PER_INCH = 160
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


def tidy(ax: Axes) -> None:
    """Remove the upper and right frame lines, which carry no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3, colors=INK)


def save(figure: Any, path: str | PathLike[str]) -> Path:
    """Write a figure, or the figure of some axes, to `path`; the ending says the format."""
    path = check_path(path)
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
