"""What the tests of the command line share, besides the fixtures of conftest.py."""

from __future__ import annotations

from typing import Any


def value(report: str, name: str) -> str:
    """Return what the report says on the line `name`."""
    (line,) = (line for line in report.splitlines() if line.startswith(name))
    return line.removeprefix(name).strip()


def refused(result: Any) -> str:
    """Return the message, which is one line and no traceback."""
    assert "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return str(line)
