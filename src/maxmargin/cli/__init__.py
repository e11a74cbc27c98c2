"""The command line: files in, reports, models and predictions out.

    commands   the group of all commands
    train      `train` and `tune`; use: `predict` and `audit`; data: `scale`, `convert`, `subset` and `check`
    options    options that several commands share, and LIBSVM's letters; machines: the table of machines by name
    session    read, choose, split, fit, measure, search: the steps of `train` and `tune`, one function each
    models     fitted pipelines in files; scaling: scikit-learn's scalers and LIBSVM's range files
    report     a fitted model as text and as JSON; picture: as a picture
    datasets   the data sets that come with scikit-learn, for a first try without a file
    play       the command that opens the playground
    errors     how a command ends that cannot do its work

Bad input ends in one line on stderr and exit code 2, an interrupted fit in a saved model and exit
code 130, Ctrl-C at any other time in exit code 130. click is an extra (`pip install maxmargin[cli]`).
The modules that click needs for `--help` import neither NumPy nor scikit-learn.

May not enter: numerics. What is printed is read from public attributes of the fitted model.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130  # exit code of an interrupted command, as in shells: 128 + SIGINT


def main() -> None:
    """Run the command line; the console script `maxmargin` points here."""
    try:
        with ctrl_c_kills():
            from maxmargin.cli.commands import maxmargin
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("maxmargin: the command line needs click: pip install 'maxmargin[cli]'")
    maxmargin(prog_name="maxmargin")


@contextmanager
def ctrl_c_kills() -> Iterator[None]:
    """Let Ctrl-C end the process at once and silently, with exit code 130.

    This is for imports: an exception would end in a long traceback, and some imported modules would swallow it.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored (as in the background) or handled
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
