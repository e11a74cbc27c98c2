"""What a notebook shows of a result: a small table in HTML that loads nothing from elsewhere.

The text and the lines have the colours of the page, or grey, so that they can be read on light and on dark pages. Everything that
is shown is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, metadata

_LINE = "1px solid rgba(128, 128, 128, .4)"
_CELL = "text-align: left; vertical-align: top; padding: .1em 1.2em .1em 0; background: none; border: none; max-width: 50em"


def html_table(title: str, rows: Iterable[tuple[str, object]], sentence: str = "") -> str:
    """A title, a table of names and values, a sentence below it, and a link to the documentation, if there is one."""
    lines = "".join(
        f'<tr><td style="{_CELL}; white-space: nowrap">{escape(name)}</td>'
        f'<td style="{_CELL}; white-space: normal">{_text(value)}</td></tr>'
        for name, value in rows
    )
    below = f'<div style="max-width: 60em; padding-top: .3em">{escape(sentence)}</div>' if sentence else ""
    if (address := documentation()) is not None:
        below += f'<div style="padding-top: .3em"><a href="{escape(address)}">documentation</a></div>'
    return (
        f'<div style="display: inline-block; color: inherit; border-top: {_LINE}; border-bottom: {_LINE}; padding: .4em 0">'
        f'<strong>{escape(title)}</strong><table style="border-collapse: collapse; color: inherit">{lines}</table>{below}</div>'
    )


@cache
def documentation() -> str | None:
    """The address of the documentation, as the metadata of the installed package name it."""
    try:
        addresses = metadata("maxmargin").get_all("Project-URL") or []
    except PackageNotFoundError:  # running from a source tree that is not installed
        return None
    named = (entry.partition(",") for entry in addresses)
    return next((address.strip() for label, _, address in named if label.strip().lower() == "documentation"), None)


def _text(value: object) -> str:
    return escape(f"{value:.4g}" if isinstance(value, float) else str(value))
