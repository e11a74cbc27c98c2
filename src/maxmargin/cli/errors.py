"""How a command ends that cannot do its work: one line on stderr, and an exit code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from maxmargin.cli import INTERRUPTED, ctrl_c_kills


class BadInput(click.ClickException):
    """An error that ends the command with one line on stderr and exit code 2."""

    exit_code = 2

    def __init__(self, reason: object) -> None:
        super().__init__(" ".join(str(reason).split()))


@contextmanager
def usage_in_one_line(command: str) -> Iterator[None]:
    """Report a wrong option or argument in one line, not click's four."""
    try:
        yield
    except click.UsageError as error:
        raise BadInput(f"{error.format_message().rstrip('.')} (see {command} --help)") from error


class Work(click.Command):
    """A command that imports NumPy and scikit-learn when it runs, not for `--help`; its errors and warnings are one line each."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with usage_in_one_line(ctx.command_path):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with ctrl_c_kills():
            import_module("maxmargin.cli.session")
        with bad_input_in_one_line(), warnings_in_one_line():
            return super().invoke(ctx)


class Interruptible(click.Group):
    """Commands that Ctrl-C ends with one line on stderr and exit code 130, unless a command handles it itself."""

    command_class = Work

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:  # click shows the help
            return super().parse_args(ctx, args)
        with usage_in_one_line(ctx.command_path):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        with usage_in_one_line(ctx.command_path):
            return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@contextmanager
def bad_input_in_one_line() -> Iterator[None]:
    """Report errors in the data, the options or the file system in one line, without a traceback."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has closed it; click handles that
        raise
    except MemoryError as error:
        raise BadInput(f"not enough memory: {error}") from error
    except (ValueError, OSError, ImportError) as error:
        raise BadInput(error) from error


@contextmanager
def failure_blamed_on(model: Path) -> Iterator[None]:
    """Report an error in the use of a model in one line with the name of its file: a damaged pickle may fail late."""
    from maxmargin.io import DataFileError

    try:
        yield
    except (click.ClickException, DataFileError):
        raise
    except Exception as error:
        raise BadInput(f"{click.format_filename(model)}: {message_of(error)}") from error


def message_of(error: Exception) -> str:
    """The message of an error, preceded by its type if the message was not written for users of the command line."""
    written_for_users = isinstance(error, ValueError | TypeError) and str(error)
    return str(error) if written_for_users else f"{type(error).__name__}: {error}"


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print warnings as one line on stderr, without the code they came from."""

    def show(message: Warning | str, *_: Any) -> None:
        click.echo(f"warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def whole_or_absent(path: Path) -> Iterator[None]:
    """Name the file that cannot be written, and leave no part of it behind."""
    try:
        yield
    except OSError as error:
        if path.is_file():
            path.unlink()
        raise BadInput(f"{click.format_filename(path)}: cannot be written: {error.strerror or error}") from error


def require_folder(path: Path | None) -> None:
    """Refuse a path that cannot be written to now, not after the fit."""
    if path is not None and str(path) == "-":
        raise BadInput("-: only input can be -, the standard input; name a file to write to")
    if path is not None and not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}")
