"""The pictures of the tour, each drawn by the code that stands above it.

    python docs/theory/make_pictures.py

runs every page from its first block to its last, in one namespace, and keeps the figure that the block above each picture
leaves behind. So a picture shows what its page computes. The same code gives the same bytes with the same matplotlib.
What a page says that its code prints is compared with what it prints.

A picture carries what is drawn in it, as numbers and words, in its file (`drawn`, `read_drawn`). So the tests, which draw all
pictures anew, can tell one that is stale (`differences`) whatever matplotlib, font or machine made its pixels. Of a line with
gid="course", the course of an iteration, which depends on rounding, only the extent counts. `flaws` finds labels that overlap,
legends that hide what is drawn, and legend entries of nothing.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

HERE = Path(__file__).parent
PAGES = sorted(HERE.glob("[0-9]*.md"))
PICTURES = HERE.parent / "images" / "theory"

PART = re.compile(
    r"^```python(?: continued)?\n(?P<code>.*?)^```$"
    r"|^```text\n(?P<output>.*?)^```$"
    r"|^!\[[^\]]+\]\((?P<picture>[^)]+)\)$",
    re.DOTALL | re.MULTILINE,
)
AT_A_SAMPLE = re.compile(r"\bsample \d+")  # where rounding errors are largest, which differs from machine to machine
SAME = 1e-6  # numbers that differ by no more, relatively or absolutely, are the same
DOTS_PER_INCH = 90
COLOURS = 96  # of the palette: enough for lines and shades, and a third of the bytes
COURSE = "course"  # the gid of such a line
POINTS = 40  # of a line that are kept, and along each side of an image
DIGITS = 3  # of a place, in shares of the axes
NEAR = 0.02  # of the axes: places that differ by no more are the same
TOUCHING = 1.0  # pixels by which two boxes may overlap
VAGUE = 0.2  # of the axes: the same for the extent of a course
SHORT = 0.004  # of the axes: a line of the legend that is nowhere longer cannot be seen


def run(page: Path) -> Iterator[tuple[Path, Figure]]:
    """Execute the code of a page in its order, and yield each of its pictures: its file, and its figure."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    for part in PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        if part["code"] is not None:
            plt.close("all")
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile("\n" * line + part["code"], str(page), "exec"), names)
        elif part["output"] is not None:
            if not agree(part["output"], printed.getvalue()):
                raise ValueError(f"{page.name}, line {line}: the code above prints something else:\n{printed.getvalue()}")
        else:
            if not plt.get_fignums():
                raise ValueError(f"{page.name}, line {line}: the code above {part['picture']} draws nothing")
            yield (page.parent / part["picture"]).resolve(), plt.gcf()
    plt.close("all")


def agree(shown: str, printed: str) -> bool:
    """Whether two texts have the same words and, but for rounding, the same numbers."""
    these, those = (AT_A_SAMPLE.sub("", text).split() for text in (shown, printed))
    return len(these) == len(those) and all(map(_same, these, those))


def _same(word: str, other: str) -> bool:
    try:
        return math.isclose(float(word.strip(",.)")), float(other.strip(",.)")), rel_tol=SAME, abs_tol=SAME)
    except ValueError:
        return word == other


def save(figure: Figure, path: Path) -> None:
    """Write a PNG with a palette and what is drawn in it; without the date and version that would differ from run to run."""
    pixels, carried = io.BytesIO(), PngInfo()
    figure.savefig(pixels, dpi=DOTS_PER_INCH)
    carried.add_itxt("drawn", json.dumps(drawn(figure), ensure_ascii=False, separators=(",", ":")), zip=True)
    Image.open(pixels).convert("RGB").quantize(COLOURS).save(path, optimize=True, pnginfo=carried)


# --- what is drawn -------------------------------------------------------------------------------------------------


def drawn(figure: Figure) -> list[dict[str, Any]]:
    """What a figure shows, axes by axes: words, limits, and the places of lines and points in shares of the axes."""
    return [_drawn_in(ax) for ax in figure.axes]


def read_drawn(path: Path) -> list[dict[str, Any]]:
    """What is drawn in the picture of a file; nothing, if the file does not say."""
    with Image.open(path) as picture:
        return list(json.loads(getattr(picture, "text", {}).get("drawn", "[]")))


def _drawn_in(ax: Axes) -> dict[str, Any]:
    legend = ax.get_legend()
    texts = [*(ax.get_title(loc) for loc in ("left", "center", "right")), ax.get_xlabel(), ax.get_ylabel()]
    texts += [text.get_text() for text in ax.texts] + ([text.get_text() for text in legend.get_texts()] if legend else [])
    lines = [(line.get_gid(), _in_axes(ax, line.get_xydata(), line.get_transform())) for line in ax.lines]
    places: list[Any] = [_resampled(points) for kind, points in lines if kind != COURSE]
    for collection in ax.collections:
        if isinstance(collection, ContourSet):
            outlines = [path.vertices for path in collection.get_paths() if len(path.vertices)]
            places += [_extent(_in_axes(ax, outline)) for outline in outlines]
        elif isinstance(collection, LineCollection):
            places += [_rounded(_in_axes(ax, segment)) for segment in collection.get_segments()]
        elif isinstance(collection, PathCollection):
            places.append(_rounded(_in_axes(ax, np.asarray(collection.get_offsets()))))
        else:
            places += [_extent(_in_axes(ax, path.vertices)) for path in collection.get_paths()]
    places += [_extent(_in_axes(ax, patch.get_path().vertices, patch.get_transform())) for patch in ax.patches]
    for image in ax.images:
        values = np.asarray(image.get_array(), dtype=float)
        rows, columns = (np.linspace(0, side - 1, POINTS).astype(int) for side in values.shape[:2])
        shades = image.norm(values[np.ix_(rows, columns)]).ravel()
        places.append(_rounded(np.column_stack([shades, shades])))
    return {
        "words": [text for text in texts if text],
        "scales": [ax.get_xscale(), ax.get_yscale()],
        "limits": [float(f"{edge:.6g}") for edge in (*ax.get_xlim(), *ax.get_ylim())],
        "places": [place for place in places if place],
        "courses": [_extent(points) for kind, points in lines if kind == COURSE],
    }


def _in_axes(ax: Axes, points: ArrayLike, transform: Any = None) -> NDArray[np.float64]:
    """Points in shares of the axes; those far outside are put at its border, those that are nowhere are left out."""
    at = np.asarray(points, dtype=float).reshape(-1, 2)
    with np.errstate(all="ignore"):
        shares = ax.transAxes.inverted().transform((transform or ax.transData).transform(at))
    return np.clip(shares[np.isfinite(shares).all(axis=1)], -0.2, 1.2)


def _resampled(points: NDArray[np.float64]) -> list[list[float]]:
    """Some points of a line, from its first to its last."""
    if len(points) <= POINTS:
        return _rounded(points)
    at = np.linspace(0, len(points) - 1, POINTS)
    return _rounded(np.column_stack([np.interp(at, np.arange(len(points)), column) for column in points.T]))


def _extent(points: NDArray[np.float64]) -> list[list[float]]:
    return _rounded(np.array([points.min(axis=0), points.max(axis=0)])) if len(points) else []


def _rounded(points: NDArray[np.float64]) -> list[list[float]]:
    return [[round(float(value), DIGITS) + 0.0 for value in point] for point in points]


def differences(shown: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """What two drawings differ in, as sentences; rounding and fonts make no difference."""
    if len(shown) != len(now):
        return [f"{len(shown)} axes are shown, {len(now)} are drawn now"]
    found = []
    for number, (this, that) in enumerate(zip(shown, now, strict=True)):
        if this["scales"] != that["scales"]:
            found.append(f"axes {number}: the scales are {that['scales']}, not {this['scales']}")
        for (low, high), (new_low, new_high) in zip(_pairs(this["limits"]), _pairs(that["limits"]), strict=True):
            if max(abs(new_low - low), abs(new_high - high)) > NEAR * abs(high - low):
                found.append(f"axes {number}: the limits are {new_low:g} to {new_high:g}, not {low:g} to {high:g}")
        if not agree("\n".join(this["words"]), "\n".join(that["words"])):
            found.append(f"axes {number}: the words are {that['words']}, not {this['words']}")
        for what, tolerance in (("places", NEAR), ("courses", VAGUE)):
            if [len(place) for place in this[what]] != [len(place) for place in that[what]]:
                found.append(f"axes {number}: other numbers of lines and points")
                continue
            for place, new in zip(this[what], that[what], strict=True):
                if (apart := np.abs(np.subtract(place, new)).max(initial=0.0)) > tolerance:
                    found.append(f"axes {number}: a line or points are off by {apart:.3f} of the axes, near {new[0]}")
    return found


def _pairs(limits: list[float]) -> list[tuple[float, float]]:
    return [(limits[0], limits[1]), (limits[2], limits[3])]


def flaws(figure: Figure) -> list[str]:
    """What a reader would stumble over: labels on labels, legends on what is drawn, legend entries of nothing."""
    figure.set_dpi(DOTS_PER_INCH)
    figure.canvas.draw()
    found = []
    for ax in figure.axes:
        legend = ax.get_legend()
        boxes = [(text.get_text(), text.get_window_extent()) for text in ax.texts if text.get_text().strip()]
        named = (ax._left_title, ax.title, ax._right_title, ax.xaxis.label, ax.yaxis.label)  # type: ignore[attr-defined]
        boxes += [(name.get_text(), name.get_window_extent()) for name in named if name.get_text()]
        if legend is not None:
            boxes.append(("the legend", legend.get_window_extent()))
            found += [f"the legend hides {what}" for what in _hidden(ax, legend.get_window_extent())]
            found += [f"nothing is drawn of {label!r} in the legend" for label in _invisible(ax)]
        for place, (words, box) in enumerate(boxes):
            found += [f"{words!r} touches {other!r}" for other, its in boxes[:place] if _overlap(box, its)]
    return found


def _overlap(one: Bbox, other: Bbox) -> bool:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width > TOUCHING and height > TOUCHING


def _hidden(ax: Axes, box: Bbox) -> list[str]:
    """The lines and points under a box."""
    drawings = [(line.get_label(), _along(line.get_transform().transform(line.get_xydata()))) for line in ax.lines]
    scatters = [collection for collection in ax.collections if isinstance(collection, PathCollection)]
    drawings += [(points.get_label(), ax.transData.transform(points.get_offsets())) for points in scatters]
    window = ax.get_window_extent()
    hidden = []
    for label, points in drawings:
        x, y = np.asarray(points, dtype=float).reshape(-1, 2).T
        inside = (x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)
        if (inside & (x > window.x0) & (x < window.x1) & (y > window.y0) & (y < window.y1)).any():
            hidden.append(str(label))
    return hidden


def _along(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points of a line in pixels, with some between."""
    if len(points) < 2:
        return points
    at = np.linspace(0, len(points) - 1, 20 * len(points))
    return np.column_stack([np.interp(at, np.arange(len(points)), column) for column in np.nan_to_num(points.T)])


def _invisible(ax: Axes) -> list[str]:
    """The labels of lines that are nowhere in the axes, or too short to be seen."""
    lines = [(line.get_label(), [_in_axes(ax, line.get_xydata(), line.get_transform())], line.get_marker()) for line in ax.lines]
    bundles = [collection for collection in ax.collections if isinstance(collection, LineCollection)]
    lines += [(b.get_label(), [_in_axes(ax, segment) for segment in b.get_segments()], "None") for b in bundles]
    found = []
    for label, parts, marker in lines:
        points = np.concatenate(parts) if parts else np.empty((0, 2))
        inside = ((points >= 0.0) & (points <= 1.0)).all(axis=1).any()
        long = any(np.ptp(part, axis=0).max(initial=0.0) > SHORT for part in parts if len(part))
        long = long or marker not in ("None", None, "")
        if len(points) and not str(label).startswith("_") and not (inside and long):  # one without points stands for others
            found.append(str(label))
    return found


if __name__ == "__main__":
    plt.switch_backend("Agg")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        for path, figure in run(page):
            for flaw in flaws(figure):
                print(f"{path.name}: {flaw}")
            save(figure, path)
            print(f"{path.name}  {path.stat().st_size / 1000:.0f} kB")
