"""The Python in the README and in the docs runs as it stands there, and prints what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_theory import load_maker

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)  # code, and what it prints
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[tuple[str, str, str]]:
    return [(page.name, code, shown) for page in PAGES for code, shown in FENCE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "code", "shown"), blocks(), ids=[f"{page} {k}" for k, (page, _, _) in enumerate(blocks())])
def test_python_block(page, code, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert printed or "print" not in code
    assert not shown or load_maker().agree(shown, printed), printed


def test_the_first_block_prints_what_stands_below_it(capsys):
    page, code, _ = blocks()[0]
    exec(compile(code, page, "exec"), {})
    accuracy, *certificate = capsys.readouterr().out.splitlines()
    below = (ROOT / page).read_text(encoding="utf-8").partition(code)[2]
    assert accuracy in below
    for line in certificate:  # rounding may differ from machine to machine, the optimum may not
        assert (line if "value" in line else line[:20].strip()) in below


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_first_screen_says_how_to_begin():
    first = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    for command in ("make demo", "make test", "pip install ."):
        assert any(command in line for line in first), command
