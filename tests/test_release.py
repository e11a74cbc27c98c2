"""What a release says about itself agrees with the code, and its page on PyPI has no dead links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]


def test_the_version_is_the_same_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[([\w.]+)\](?: - (\S+))?$", changelog, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    version, date = versions[1]
    assert version == VERSION
    assert f'\nversion: {version}\ndate-released: "{date}"\n' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_changelog_has_each_kind_of_change_once():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (\w+)$", version, re.MULTILINE)
        assert kinds == [kind for kind in ("Added", "Changed", "Removed", "Fixed") if kind in kinds]


def test_the_page_on_pypi_has_no_relative_links():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.compile(r"\]\((?!https?:|#)")
    assert relative.search(text)
    rules = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    for rule in rules:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert not relative.search(text)
    assert "a playground in the browser" in text


@pytest.mark.parametrize("file", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda file: file.name)
def test_workflows_and_forms_are_readable(file):
    yaml = pytest.importorskip("yaml")
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    if file.parent.name == "workflows":
        assert {"name", "jobs", "permissions"} <= content.keys()
        commands = re.findall(r"make (\w+)", file.read_text(encoding="utf-8"))
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(f"\n{command}:" in makefile for command in commands)
