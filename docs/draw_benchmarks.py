"""Draw how many times longer the peers take, from the first table of results in README.md.

    python docs/draw_benchmarks.py [README.md] [picture.png]

The table is what `python -m benchmarks --data folder --markdown table.md` writes; a name such as `table.md` may be given instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

FITS, PREDICTIONS = slice(2, 4), slice(5, 7)  # the columns of the ratios
PEERS = ("× intelex", "× scikit-learn")


def read_ratios(path: Path) -> dict[str, list[str]]:
    """The rows of the first table that compares sets, by the name of the set; without the means."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("| set |"))
    last = next((k for k in range(first, len(lines)) if not lines[k].startswith("|")), len(lines))
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last])
    if tuple(head[FITS]) != PEERS or tuple(head[PREDICTIONS]) != PEERS:
        raise ValueError(f"{path}: the table has the columns {head}; {PEERS} are expected twice, after fit and predict")
    return {row[0]: row for row in rows if not row[0].startswith("*")}


def draw(ax: Axes, rows: dict[str, list[str]], columns: slice, title: str) -> None:
    """Bars of the ratios of one kind, a pair for each set; where a fit was stopped or not run, there is none."""
    for place, (peer, number) in enumerate(zip(PEERS, range(columns.start, columns.stop), strict=True)):
        known = [(k + 0.4 * place, float(row[number])) for k, row in enumerate(rows.values()) if row[number] != "–"]
        at, ratios = zip(*known, strict=True)
        bars = ax.barh(at, ratios, height=0.38, label=peer.removeprefix("× "))
        ax.bar_label(bars, fmt="%.3g", padding=2, fontsize=7)
    ax.axvline(1.0, color="0.3", linewidth=1)
    ax.set(title=title, xscale="log", xlabel="times as long as maxmargin")
    ax.margins(x=0.15, y=0.01)


def main(source: Path) -> None:
    rows = read_ratios(source)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 0.42 * len(rows) + 1.6), sharey=True, layout="constrained")
    draw(left, rows, FITS, "fit")
    draw(right, rows, PREDICTIONS, "predict")
    left.set_yticks([k + 0.2 for k in range(len(rows))], list(rows))
    left.invert_yaxis()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(sys.argv[0]).resolve().parents[1] / "README.md")
    if len(sys.argv) > 2:
        plt.savefig(sys.argv[2], dpi=110)
