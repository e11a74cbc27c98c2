"""docs/command-line.md: its commands run in its order, and its tables leave nothing out."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("pandas")
from maxmargin.cli.commands import maxmargin

PAGE = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in SHELL.findall(PAGE) for line in block.splitlines() if not line.startswith("#")]


def test_the_commands_run(run):
    pytest.importorskip("matplotlib")
    (script,) = PYTHON.findall(PAGE)
    exec(compile(script, "command-line.md", "exec"), {})
    for line in COMMANDS:
        words, redirected = [], {"<": None, ">": None}
        rest = iter(shlex.split(line, comments=True))
        for word in rest:
            if word in redirected:
                redirected[word] = next(rest)
            else:
                words.append(word)
        assert words[0] == "maxmargin", line
        stdin = Path(redirected["<"]).read_bytes() if redirected["<"] else None
        result = run(*words[1:], stdin=stdin)
        assert "Traceback" not in result.output
        if redirected[">"]:
            Path(redirected[">"]).write_text(result.stdout)
    written = ["maxmargin.png", "labels.txt", "table.csv", "grid.csv", "grid.png", "range", "out.txt", "few", "rest", "iris.svm"]
    for name in written:
        assert Path(name).stat().st_size > 0, name


def test_every_command_is_shown():
    assert [name for name in maxmargin.commands if f"maxmargin {name}" not in PAGE] == []


def test_the_table_of_tools_has_no_empty_row():
    section = PAGE.partition("## LIBSVM's tools and ours")[2]
    rows = [line for line in section.partition("The letters of")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert all(len(row) == 3 and all(row) for row in cells)
    tools = " ".join(row[0] for row in cells)
    for tool in ("svm-train", "svm-predict", "svm-scale", "svm-toy", "grid.py", "easy.py", "subset.py", "checkdata.py"):
        assert tool in tools
    for row in cells[2:]:
        for command in re.findall(r"`maxmargin (\w+) ", row[1]):
            assert command in maxmargin.commands


def test_the_letters_of_the_page_are_options_of_train():
    section = PAGE.partition("The letters of `svm-train`")[2]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `-")]
    options = {name for parameter in maxmargin.commands["train"].params for name in parameter.opts}
    for letters, words in rows:
        for letter in re.findall(r"`(-[a-z])\b", letters):
            assert letter in options or letter in ("-h", "-w"), letter
        for word in re.findall(r"`(--[\w-]+)", words):
            assert word in options, word
