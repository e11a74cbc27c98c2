"""`maxmargin play`: the playground in a browser. Starlette and uvicorn are imported late, because they are an extra."""

from __future__ import annotations

import webbrowser
from contextlib import suppress

import click


class CannotPlay(click.ClickException):
    """The server cannot start: one line on stderr and exit code 2."""

    exit_code = 2


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of 127.0.0.1 to listen on.  [default: any free one]")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page in a browser.")
def play(port: int, browser: bool) -> None:
    """Open the playground, a page where a machine follows the points that you draw and drag.

    The page is served to this computer only, at an address that nobody can guess. Ctrl-C ends it.
    """
    try:
        from maxmargin.playground.server import make_playground
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise CannotPlay("the playground needs Starlette and uvicorn: pip install 'maxmargin[play]'") from error
    try:
        playground = make_playground(port)
    except OSError as error:
        raise CannotPlay(str(error)) from error
    click.echo(f"the playground is at {playground.url} (Ctrl-C ends it)")
    if browser:
        webbrowser.open(playground.url)
    with suppress(KeyboardInterrupt):  # the way to end it
        playground.run()
