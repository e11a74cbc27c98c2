"""The command line: `maxmargin train`, `tune`, `predict` and `audit`, with files in and a report out.

    commands   the options, in click's terms, and what becomes of errors and Ctrl-C
    session    split, fit, measure: what `train` and `tune` do, one step a function
    datasets   the sets that come with scikit-learn, for a first try without a file
    report     a fitted model as text
    picture    a fitted model as a picture

Bad input ends in one line on stderr and exit code 2, an interrupted fit in a saved model and exit
code 130. click is an extra (`pip install maxmargin[cli]`).

May not enter: numerics. What is printed is read from public attributes of the fitted model.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the console script `maxmargin` points here."""
    try:
        from maxmargin.cli.commands import maxmargin
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("maxmargin: the command line needs click: pip install 'maxmargin[cli]'")
    maxmargin(prog_name="maxmargin")
