"""Draw docs/images/architecture.svg, the flow of a fit: `python docs/make_architecture.py`. Each box is a file that exists."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maxmargin"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"


class Box(NamedTuple):
    """A file, the kind of what it sees (a key of KINDS), and what it does, in two lines."""

    path: str
    kind: str
    first: str
    second: str


class Row(NamedTuple):
    """A verb, the method that calls it, its files, and what the next row receives."""

    verb: str
    method: str
    boxes: list[Box]
    result: str


#: What the files of each kind see. Light and dark theme: fill and border.
KINDS = {
    "face": ("X and y", "#f3f4f6", "#6b7280", "#1f2937", "#9ca3af"),
    "task": ("labels and costs, never X", "#eaf1fd", "#2563a8", "#16273f", "#6ea8f5"),
    "data": ("samples and kernel, never labels", "#e8f5ee", "#1f7a4d", "#12301f", "#5fc48d"),
    "dual": ("the dual problem, neither X nor labels", "#fdf3e0", "#b06c0a", "#35260f", "#e6ad55"),
    "proof": ("duals and kernel sums, for the proof", "#fbebef", "#b03a5b", "#381822", "#ee8aa5"),
}
ROWS = [
    Row(
        "fit(X, y)",
        "KernelMachine._fit",
        [
            Box("estimators/svc.py", "face", "the parameters of SVC,", "and its task"),
            Box("estimators/base.py", "face", "the verbs below, the same", "for every kernel machine"),
        ],
        "",
    ),
    Row(
        "validate",
        "_validate",
        [
            Box("estimators/validation.py", "face", "checks parameters, X, y", "and weights"),
            Box("kernels/standard.py", "data", "k(x, z); gamma=“scale”", "becomes a number"),
            Box("samples.py", "data", "X as it was given, and", "an order (an index)"),
        ],
        "Samples, labels, weights",
    ),
    Row(
        "formulate",
        "_formulate",
        [
            Box("tasks/classification.py", "task", "which machines there are,", "which samples each sees"),
            Box("formulations/classification.py", "task", "the linear term and", "the box of each dual"),
            Box("formulations/losses/hinge.py", "task", "the loss as the reach of", "a box and a shift"),
        ],
        "Task: a DualProblem for each machine",
    ),
    Row(
        "place",
        "_train → _place",
        [
            Box("backends/native/point.py", "dual", "duals and gradient of a", "machine, where they live"),
            Box("backends/native/gram.py", "data", "the kernel matrix of the", "training set, for all machines"),
            Box("native/src/gram.cpp", "data", "rows, tiles and sums in", "C++, within a byte budget"),
        ],
        "Gram, Point",
    ),
    Row(
        "solve",
        "_train → train_each",
        [
            Box("solvers/block_smo.py", "dual", "outer loop: measure,", "choose, take, solve, move"),
            Box("backends/native/inner.py", "dual", "minimises over a tile,", "in one call"),
            Box("native/simd/tile_solver.hpp", "dual", "pair steps and", "Newton steps in C++"),
        ],
        "Solution: duals, gradient and a claim",
    ),
    Row(
        "certify",
        "_train → settle",
        [
            Box("training.py", "proof", "decides the status from", "the certificate"),
            Box("certificates.py", "proof", "primal, dual, gap, KKT", "violation, in float64"),
            Box("gram.py", "data", "exact_sums: kernel sums", "from the samples alone"),
        ],
        "Outcome: Solution and Certificate",
    ),
    Row(
        "decode",
        "Task.decode, _keep",
        [
            Box("tasks/classification.py", "task", "support, coefficients,", "intercepts: Fitted"),
            Box("estimators/base.py", "face", "dual_coef_, intercept_,", "certificate_, status_"),
        ],
        "",
    ),
]

WIDTH, LEFT, TOP = 996, 184, 24
BOX_WIDTH, BOX_HEIGHT, GAP = 244, 74, 26
STEP = BOX_HEIGHT + 44  # from one row to the next
LEGEND = 58

STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: var(--ink); }
  .verb { font-size: 19px; font-weight: 650; }
  .method, .path { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
  .method { font-size: 11px; fill: var(--faint); }
  .path { font-size: 12px; font-weight: 600; }
  .what { font-size: 12.5px; }
  .result { font-size: 12.5px; font-style: italic; fill: var(--faint); }
  .flow { stroke: var(--faint); stroke-width: 1.5; fill: none; }
  .head { fill: var(--faint); }
  .page { fill: var(--page); stroke: var(--rule); }
  .box { stroke-width: 1.3; }
"""


def theme(columns: tuple[int, int], page: str, ink: str, faint: str, rule: str) -> str:
    colours = [f".{kind} {{ fill: {row[columns[0]]}; stroke: {row[columns[1]]}; }}" for kind, row in KINDS.items()]
    return f":root {{ --page: {page}; --ink: {ink}; --faint: {faint}; --rule: {rule}; }} " + " ".join(colours)


def text(x: float, y: float, kind: str, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, what: Box) -> list[str]:
    place = ROOT / what.path if what.path.startswith("native/") else PACKAGE / what.path
    assert place.is_file(), f"{what.path} is no file"
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7" class="box {what.kind}"/>',
        text(x + 14, y + 23, "path", what.path),
        text(x + 14, y + 44, "what", what.first),
        text(x + 14, y + 61, "what", what.second),
    ]


def arrow(x: float, y: float, length: float, degrees: int) -> str:
    """An arrow from (x, y) downwards, turned by so many degrees."""
    line = f'<path class="flow" d="M0 0V{length - 7:g}"/><path class="head" d="M0 {length:g}l-5 -9h10z"/>'
    return f'<g transform="translate({x:g} {y:g}) rotate({degrees})">{line}</g>'


def draw() -> str:
    parts = []
    for number, row in enumerate(ROWS):
        y = TOP + number * STEP
        parts += [text(28, y + 33, "verb", row.verb), text(28, y + 52, "method", row.method)]
        for column, what in enumerate(row.boxes):
            x = LEFT + column * (BOX_WIDTH + GAP)
            parts += box(x, y, what)
            if column:
                parts.append(arrow(x - GAP + 3, y + BOX_HEIGHT / 2, GAP - 6, -90))
        if number + 1 < len(ROWS):
            parts.append(arrow(LEFT + 40, y + BOX_HEIGHT + 6, STEP - BOX_HEIGHT - 12, 0))
            parts.append(text(LEFT + 58, y + BOX_HEIGHT + 27, "result", row.result))
    certify = TOP + [row.verb for row in ROWS].index("certify") * STEP
    x = LEFT + 3 * BOX_WIDTH + 2 * GAP - 40
    parts.append(arrow(x, certify - 6, STEP - BOX_HEIGHT - 12, 180))
    parts.append(text(x - 14, certify - 17, "result", "continue, if the certificate contradicts the claim", "end"))
    bottom = TOP + len(ROWS) * STEP - 44 + 30
    parts.append(text(28, bottom + 12, "result", "The file sees"))
    places = [(LEFT, 0), (LEFT + 110, 0), (LEFT + 346, 0), (LEFT, 26), (LEFT + 346, 26)]
    for (x, down), (kind, (what, *_)) in zip(places, KINDS.items(), strict=True):
        parts.append(f'<rect x="{x}" y="{bottom + down}" width="16" height="16" rx="4" class="box {kind}"/>')
        parts.append(text(x + 24, bottom + down + 13, "what", what))
    height = bottom + LEGEND
    light = theme((1, 2), "#ffffff", "#111827", "#5b6472", "#d6dae0")
    dark = theme((3, 4), "#0f141b", "#e8ebf0", "#a3acb9", "#2c3440")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">',
            '<title id="title">The flow of a fit: each box is a file</title>',
            f"<style>{STYLE}  {light}\n  @media (prefers-color-scheme: dark) {{ {dark} }}\n</style>",
            f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10" class="page"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
