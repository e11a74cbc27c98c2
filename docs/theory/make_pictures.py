"""The pictures of the tour, each drawn by the code that stands above it.

    python docs/theory/make_pictures.py

runs every page from its first block to its last, in one namespace, and keeps the figure that the block above each picture
leaves behind. So a picture shows what its page computes. The same code gives the same bytes with the same matplotlib.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

HERE = Path(__file__).parent
PAGES = sorted(HERE.glob("[0-9]*.md"))
PICTURES = HERE.parent / "images" / "theory"

CODE_OR_PICTURE = re.compile(
    r"^```python(?: continued)?\n(?P<code>.*?)^```$|^!\[[^\]]+\]\((?P<picture>[^)]+)\)$", re.DOTALL | re.MULTILINE
)
DOTS_PER_INCH = 90
COLOURS = 64  # of the palette: enough for lines and shades, and a quarter of the bytes


def run(page: Path) -> Iterator[tuple[Path, Figure]]:
    """Execute the code of a page in its order, and yield each of its pictures: its file, and its figure."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    for found in CODE_OR_PICTURE.finditer(text):
        if found["picture"] is None:
            plt.close("all")
            lines_above = text.count("\n", 0, found.start("code"))
            exec(compile("\n" * lines_above + found["code"], str(page), "exec"), names)
        else:
            if not plt.get_fignums():
                raise ValueError(f"{page.name}: the code above {found['picture']} draws nothing")
            yield (page.parent / found["picture"]).resolve(), plt.gcf()
    plt.close("all")


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
