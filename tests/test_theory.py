"""The tour of the theory: its code runs and its claims hold; what it quotes, links to and names exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxmargin

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
importlib.import_module("matplotlib.pyplot")

ROOT = Path(__file__).parents[1]
TOUR = ROOT / "docs" / "theory"
SOURCES = ROOT / "src" / "maxmargin"
PAGES = sorted(TOUR.glob("[0-9]*.md"))
NEEDS = {"08-gradients.md": "clarabel"}  # packages that are extras
LARGEST_PICTURE = 60_000  # bytes

LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")
QUOTED = re.compile(r"`([^`]+)`")
FENCE = re.compile(r"^```(.*)$", re.MULTILINE)


def load_maker() -> Any:
    spec = importlib.util.spec_from_file_location("make_pictures", TOUR / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_name(pages: list[Path]) -> dict[str, Any]:
    return {"argvalues": pages, "ids": [page.stem for page in pages]}


# --- the pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", **by_name(PAGES))
def test_the_code_of_a_page_runs_and_draws_its_pictures(page, tmp_path):
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    maker = load_maker()
    for path, figure in maker.run(page):
        assert any(ax.has_data() for ax in figure.axes), f"{path.name} is empty"
        assert maker.flaws(figure) == [], path.name
        maker.save(figure, tmp_path / path.name)
        assert (tmp_path / path.name).stat().st_size <= LARGEST_PICTURE
        assert path.exists(), f"{path.name} is missing: python docs/theory/make_pictures.py"
        assert path.stat().st_size <= LARGEST_PICTURE
        stale = maker.differences(maker.read_drawn(path), maker.drawn(figure))
        assert stale == [], f"{path.name} does not show what its page draws: python docs/theory/make_pictures.py"


@pytest.mark.parametrize("page", **by_name(PAGES))
def test_all_its_code_is_code_that_runs(page):
    text = page.read_text(encoding="utf-8")
    opened = FENCE.findall(text)[::2]
    assert opened[0] == "python"
    assert set(opened[1:]) <= {"python continued", "text"}  # they share a namespace; text is what the one above prints
    codes = [part["code"] for part in load_maker().PART.finditer(text) if part["code"]]
    assert len(codes) == sum(kind.startswith("python") for kind in opened)
    assert sum("assert" in code for code in codes) > len(codes) / 2
    assert sum("print(" in code for code in codes) == opened.count("text")


def test_what_is_shown_is_compared():
    maker = load_maker()
    assert maker.agree("gap 1e-13 at sample 3, dual 44.8258417", "gap  3e-14 at sample 12, dual 44.8258418")
    assert not maker.agree("dual 44.82", "dual 44.83")
    assert not maker.agree("weak duality holds", "weak duality is violated")


# --- pictures are compared by what is drawn ------------------------------------------------------------------------


@pytest.fixture
def picture(tmp_path):
    """A maker, a figure of two axes, and what is drawn in its file."""
    maker, plt = load_maker(), matplotlib.pyplot
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 4.0))
    x = np.linspace(0.0, 1.0, 200)
    left.plot(x, x**2, label="a parabola")
    left.scatter([0.2, 0.4], [0.8, 0.9], label="points")
    left.legend(loc="upper left", bbox_to_anchor=(0.0, -0.1))
    right.contour(*np.meshgrid(x, x), np.add.outer(x, x), levels=[0.5])
    right.set(xlabel="across", title="a line at 0.5")
    maker.save(figure, tmp_path / "picture.png")
    yield maker, figure, maker.read_drawn(tmp_path / "picture.png")
    plt.close("all")


def test_the_same_drawing_has_no_differences(picture):
    maker, figure, shown = picture
    assert maker.differences(shown, maker.drawn(figure)) == []
    for line in figure.axes[0].lines:
        line.set_ydata(line.get_ydata() + 1e-6)
    figure.set_dpi(200)
    assert maker.differences(shown, maker.drawn(figure)) == []  # rounding and size make none


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda left, right: left.lines[0].set_ydata(left.lines[0].get_ydata() ** 2), "a line or points are off by"),
        (lambda left, right: left.collections[0].set_offsets([[0.2, 0.8], [0.4, 0.5]]), "a line or points are off by"),
        (lambda left, right: left.plot([0.5, 0.6], [0.1, 0.1]), "other numbers of lines and points"),
        (lambda left, right: left.set_xlim(0.0, 3.0), "the limits are 0 to 3"),
        (lambda left, right: left.set_yscale("log"), "the scales are"),
        (lambda left, right: left.get_legend().get_texts()[0].set_text("a cubic"), "the words are"),
        (lambda left, right: right.set_title("a line at 0.6"), "the words are"),
    ],
)
def test_another_drawing_has(picture, change, complaint):
    maker, figure, shown = picture
    change(*figure.axes)
    assert complaint in " ".join(maker.differences(shown, maker.drawn(figure)))


def test_another_number_of_axes_and_a_file_that_does_not_say(picture, tmp_path):
    maker, figure, shown = picture
    assert maker.differences(shown[:1], shown) == ["1 axes are shown, 2 are drawn now"]
    figure.savefig(tmp_path / "plain.png")
    assert maker.read_drawn(tmp_path / "plain.png") == []


@pytest.mark.parametrize(
    ("draw", "complaint"),
    [
        (lambda ax: (ax.text(0.5, 0.5, "one label"), ax.text(0.52, 0.5, "another")), "'another' touches 'one label'"),
        (lambda ax: (ax.text(0.75, 0.92, "a label"), ax.legend(loc="upper right")), "'the legend' touches 'a label'"),
        (lambda ax: ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08)), "'the legend' touches 'across'"),
        (lambda ax: ax.legend(loc="center"), "the legend hides a line"),
        (
            lambda ax: (ax.plot([0.5, 0.5], [0.2, 0.2 + 1e-9], label="no slack"), ax.legend(loc=2)),
            "nothing is drawn of 'no slack'",
        ),
        (lambda ax: (ax.plot([5.0, 6.0], [5.0, 6.0], label="far away"), ax.legend(loc=2)), "nothing is drawn of 'far away'"),
    ],
)
def test_flaws_are_found(draw, complaint):
    maker, plt = load_maker(), matplotlib.pyplot
    _, ax = plt.subplots(figsize=(5.0, 4.0))
    ax.plot([0.0, 1.0], [0.0, 1.0], label="a line")
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="across")
    assert maker.flaws(ax.figure) == []
    draw(ax)
    assert complaint in " ".join(maker.flaws(ax.figure))
    plt.close("all")


def test_every_picture_is_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (ROOT / "docs" / "images" / "theory").iterdir():
        assert f"](../images/theory/{picture.name})" in text, f"{picture.name} is on no page"


def test_each_page_leads_to_the_next():
    for before, after in pairwise(PAGES):
        assert f"]({after.name})" in before.read_text(encoding="utf-8").splitlines()[-1]
        assert f"]({before.name})" in after.read_text(encoding="utf-8").splitlines()[-1]
    contents = (TOUR / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert f"[{title}]({page.name})" in contents
        assert "(README.md)" in page.read_text(encoding="utf-8").splitlines()[-1]


@pytest.mark.parametrize("page", **by_name(PAGES))
def test_it_ends_with_three_exercises_whose_answers_run(page):
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[-1] == "Exercises"
    exercises = text.split("\n## Exercises\n")[1]
    questions = re.findall(r"^\*\*(\d)\.\*\* (.+)$", exercises, re.MULTILINE)
    assert [number for number, _ in questions] == ["1", "2", "3"]
    answers = re.findall(r"^<details><summary>Answer</summary>\n\n(.+?)\n\n</details>$", exercises, re.DOTALL | re.MULTILINE)
    assert len(answers) == 3
    for answer in answers:
        assert not answer.startswith("```")  # in words first
        codes = re.findall(r"^```python continued\n(.+?)^```$", answer, re.DOTALL | re.MULTILINE)
        assert any("assert" in code for code in codes)


@pytest.mark.parametrize("page", **by_name([TOUR / "README.md", *PAGES]))
def test_links_and_their_anchors_exist(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        assert (page.parent / path).exists(), target
        if anchor:
            assert anchor in anchors(page.parent / path if path else page), target


@cache
def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- each formula beside the line that computes it -----------------------------------------------------------------


def rows(text: str, head: str) -> list[list[str]]:
    """The cells of all tables under this head."""
    found = []
    for table in text.split(head + "\n")[1:]:
        for line in table.splitlines()[1:]:
            if not line.startswith("|"):
                break
            found.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def resolve(dotted: str) -> Any:
    """What a dotted name is: modules first, then attributes."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


@pytest.mark.parametrize("page", **by_name(PAGES))
def test_the_lines_it_quotes_are_in_the_source(page):
    quotations = rows(page.read_text(encoding="utf-8"), "| formula | line of code | in |")
    assert len(quotations) >= 4
    for formula, code, where in quotations:
        assert formula
        (line,), (name, target) = QUOTED.findall(code), re.fullmatch(r"\[(.+)\]\((.+)\)", where).groups()
        found = resolve(f"maxmargin.{name}")
        found = found.fget if isinstance(found, property) else found
        package = Path(inspect.getsourcefile(maxmargin)).parent  # not that of this folder, if it was installed from an sdist
        assert Path(inspect.getsourcefile(found)).relative_to(package) == (page.parent / target).resolve().relative_to(SOURCES)
        assert line in inspect.getsource(found), f"{name} no longer has the line {line}"


# --- what the tables of the contents name --------------------------------------------------------------------------


@cache
def named_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}


def test_the_functions_and_tests_that_the_contents_name_exist():
    sections = rows((TOUR / "README.md").read_text(encoding="utf-8"), "| section | page | function | test |")
    assert sections
    for section, page, function, test in sections:
        assert LINK.findall(page), section  # where the links lead is tested above
        for name in QUOTED.findall(function):
            assert name.startswith("maxmargin.")
            assert resolve(name) is not None, name
        for node in QUOTED.findall(test):
            path, _, name = node.partition("::")
            assert name in named_tests(ROOT / path), node
