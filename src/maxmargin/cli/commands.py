"""The commands, gathered. Their modules import NumPy and scikit-learn when a command runs, so that `--help` answers at once."""

from __future__ import annotations

import click

from maxmargin.cli.data import check, convert, scale, subset
from maxmargin.cli.errors import Interruptible
from maxmargin.cli.play import play
from maxmargin.cli.train import train, tune
from maxmargin.cli.use import audit, predict


@click.group(cls=Interruptible, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="maxmargin", message="%(prog)s %(version)s")
def maxmargin() -> None:
    """Exact support vector machines, each with a certificate of its optimality."""


for command in (train, tune, predict, audit, scale, convert, subset, check, play):
    maxmargin.add_command(command)
