"""`maxmargin scale`, `convert`, `subset` and `check`: data files in, data files out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxmargin.cli.errors import BadInput, Work, require_folder, whole_or_absent
from maxmargin.cli.options import FILE, OUTPUT, impute_option, json_option, reading_options

if TYPE_CHECKING:
    from maxmargin.io import Table

TO = click.Choice(["csv", "libsvm", "parquet"])

output_option = click.option("-o", "--output", type=OUTPUT, help="File to write; its ending says how.  [default: stdout]")


@click.command(cls=Work)
@click.argument("file", type=FILE)
@output_option
@click.option("-l", "--lower", type=float, default=-1.0, show_default=True, help="What the smallest value becomes.")
@click.option("-u", "--upper", type=float, default=1.0, show_default=True, help="What the largest value becomes.")
@click.option("-y", "--target-range", type=(float, float), metavar="LOWER UPPER", help="Scale the target too, to this range.")
@click.option("--standard", is_flag=True, help="Scale to mean 0 and standard deviation 1 instead.")
@click.option("-s", "--save", type=OUTPUT, help="File to write the ranges to, in the format of LIBSVM's svm-scale.")
@click.option("-r", "--restore", type=OUTPUT, help="File to read the ranges from: scale as that file was scaled.")
@reading_options
def scale(file: Path, output: Path | None, restore: Path | None, save: Path | None, **options: Any) -> None:
    """Scale each feature of FILE (- is stdin) to [-1, 1], or to mean 0 and standard deviation 1.

    Save the ranges of the training file, and restore them for the test file: both must be scaled alike. Missing values stay
    missing.
    """
    from maxmargin.cli import scaling
    from maxmargin.io.range_file import read_ranges, write_ranges

    require_folder(output)
    require_folder(save)
    if restore and save:
        raise BadInput("--save and --restore: give one of them")
    if restore and options["target_range"]:
        raise BadInput("-y and --restore: the file of ranges says how the target is scaled (leave -y out)")
    ranges = read_ranges(restore) if restore else None
    table = _read(file, options, missing="keep", columns=ranges.columns if ranges else None)
    if ranges is None:
        to = None if options["standard"] else (options["lower"], options["upper"])
        ranges = scaling.ranges_of(table, to, options["target_range"])
        if save:
            with whole_or_absent(save):
                write_ranges(ranges, save)
    _write(scaling.scaled(table, ranges), output)


@click.command(cls=Work)
@click.argument("file", type=FILE)
@click.argument("output", required=False, type=OUTPUT)
@click.option("--to", type=TO, help="Format to write.  [default: by the ending of OUTPUT]")
@reading_options
@impute_option
def convert(file: Path, output: Path | None, to: str | None, impute: float | str | None, **options: Any) -> None:
    """Write FILE (CSV, LIBSVM or Parquet; - is stdin) to OUTPUT in another format, every number exactly.

    Labels that are text become 0, 1, 2, … in a LIBSVM file, in the order of their names, and stderr says which is which.
    """
    require_folder(output)
    if output is None and to is None:
        raise BadInput("give OUTPUT, whose ending says the format, or --to csv or --to libsvm for stdout")
    if output is not None and to is None:
        from maxmargin.io.write import format_of

        to = format_of(output)
    table = _read(file, options, missing="keep")
    if impute is not None:
        from maxmargin.cli.session import make_imputer

        table = replace(table, X=make_imputer(impute).fit_transform(table.X))
    _write(table, output, to)


@click.command(cls=Work)
@click.argument("file", type=FILE)
@click.argument("count", type=click.IntRange(1))
@output_option
@click.option("--rest", type=OUTPUT, help="File to write the other samples to.")
@click.option("--random", "at_random", is_flag=True, help="Choose at random, not the same share of each class.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Random seed of the choice.")
@reading_options
def subset(file: Path, count: int, output: Path | None, rest: Path | None, at_random: bool, seed: int, **options: Any) -> None:
    """Choose COUNT samples of FILE (- is stdin), the same share of each class, and write them."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    require_folder(output)
    require_folder(rest)
    table = _read(file, options, missing="keep")
    n_samples = table.X.shape[0]
    if count >= n_samples:
        raise BadInput(f"COUNT {count}: must be below the number of samples, {n_samples}")
    labels = None if at_random or table.y is None or table.y.dtype.kind == "f" else table.y
    chosen, others = train_test_split(np.arange(n_samples), train_size=count, stratify=labels, random_state=seed)
    for rows, path in ((chosen, output), *([(others, rest)] if rest else [])):
        rows = np.sort(rows)
        part: Any = replace(table, X=table.X[rows], y=None if table.y is None else table.y[rows])
        _write(part, path)


@click.command(cls=Work)
@click.argument("file", type=FILE)
@click.option("--impute", is_flag=True, help="Count missing values instead of refusing them.")
@reading_options
@json_option
def check(file: Path, impute: bool, as_json: bool, **options: Any) -> None:
    """Read FILE (- is stdin) completely, and say what is in it, or which line is wrong."""
    from maxmargin.cli import scaling
    from maxmargin.cli.report import Report

    report = Report(as_json)
    for name, text, facts in scaling.facts_of(_read(file, options, missing="keep" if impute else "refuse")):
        report.say(name, text, **facts)
    report.show()


def _read(file: Path, options: dict[str, Any], missing: str = "refuse", columns: Any = None) -> Table:
    from maxmargin.cli import session

    text = "one-hot" if options["one_hot"] else "refuse"
    return session.read(file, options["target"], drop=options["drop"], text=text, missing=missing, columns=columns)


def _write(table: Table, output: Path | None, to: str | None = None) -> None:
    """Write a table to a file, or to stdout; without an ending that says how, in the format it came in."""
    from scipy.sparse import issparse

    from maxmargin.io import write
    from maxmargin.io.choose import ending_of

    kind = to or (write.FORMATS.get(ending_of(output)) if output else None) or ("libsvm" if issparse(table.X) else "csv")
    names = ""
    if kind == "libsvm":
        table, names = _with_numbers(table)
    if output is None:
        if kind == "parquet":
            raise BadInput("Parquet is not text: give OUTPUT")
        for line in write.lines_of(table, kind):
            click.echo(line, nl=False)
    else:
        with whole_or_absent(output):
            write.write_table(table, output, kind)
    if names:
        click.echo(names, err=True)


def _with_numbers(table: Table) -> tuple[Table, str]:
    """The table with numbers for labels that are text, and which is which."""
    import numpy as np

    if table.y is None or table.y.dtype.kind in "iuf":
        return table, ""
    classes, numbers = np.unique(table.y, return_inverse=True)
    return replace(table, y=numbers), "labels: " + ", ".join(f"{number} = {name}" for number, name in enumerate(classes))
