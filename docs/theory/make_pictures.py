"""The pictures of the tour, each drawn by the code that stands above it.

    python docs/theory/make_pictures.py

runs every page from its first block to its last, in one namespace, and keeps the figure that the block above each picture
leaves behind. So a picture shows what its page computes. The same code gives the same bytes with the same matplotlib.
What a page says that its code prints is compared with what it prints.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

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
COLOURS = 64  # of the palette: enough for lines and shades, and a quarter of the bytes


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
    """Write a PNG with a palette, and without the date and version that would make it differ from run to run."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DOTS_PER_INCH)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    plt.switch_backend("Agg")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        for path, figure in run(page):
            save(figure, path)
            print(f"{path.name}  {path.stat().st_size / 1000:.0f} kB")
