"""The options that several commands share, with LIBSVM's letters. What is not given has the machine's default."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from math import floor
from pathlib import Path
from typing import Any, TypeVar

import click

from maxmargin.cli import datasets
from maxmargin.cli.errors import Work
from maxmargin.cli.machines import LIBSVM_KERNELS, LIBSVM_TYPES, MACHINES

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path, allow_dash=True)
OUTPUT = click.Path(path_type=Path)
CLASS_WEIGHT = re.compile(r"-w(?!=)(.+)")  # LIBSVM's -w1 5: the weight of class 1 is 5


class LibsvmLetters(Work):
    """A command that also takes those of LIBSVM's options that click would read otherwise: -w1 5, -h 0, -log2c -5,15,2."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, rewritten = iter(args), list[str]()
        for word in words:
            weight = CLASS_WEIGHT.fullmatch(word)
            if weight:
                rewritten += ["--class-weight", f"{weight[1]}={next(words, '')}"]
            elif word in ("-log2c", "-log2g", "-log2p"):
                rewritten.append(f"-{word}")
            elif word == "-h" and (following := next(words, None)) is not None:
                rewritten += ["--shrinking", following] if following in ("0", "1") else ["-h", following]
            else:
                rewritten.append(word)
        return super().parse_args(ctx, rewritten)


class NumberOr(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An option value that is a number, or one of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = "|".join(("number", *words))

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        if value in self.words:
            return str(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number and not {' or '.join(self.words)}", param, ctx)


class NumbersOrCount(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """An option value that is a list of numbers separated by commas, or how many values the grid is to choose; 1 is a value."""

    name = "count|a,b,c"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | list[float]:
        try:
            return int(value) if value.isdigit() and value != "1" else [float(word) for word in value.split(",") if word.strip()]
        except ValueError:
            self.fail(f"{value!r} is not a count, and not numbers between commas such as 0.1,1,10", param, ctx)


class PowersOfTwo(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A range of exponents of two, as in LIBSVM's grid.py: first, last, step."""

    name = "begin,end,step"
    MOST = 1000  # values

    def convert(self, value: Any, param: Any, ctx: Any) -> list[float]:
        try:
            first, last, step = (float(word) for word in value.split(","))
            count = floor((last - first) / step + 1e-9) + 1
            if not 1 <= count <= self.MOST:
                raise ValueError
            return [2.0 ** (first + k * step) for k in range(count)]
        except (ValueError, ZeroDivisionError, OverflowError):
            self.fail(f"{value!r} is not a range of exponents begin,end,step such as -5,15,2", param, ctx)


class OneOf(click.Choice):  # type: ignore[type-arg, unused-ignore]
    """A choice of words for some of which LIBSVM has numbers."""

    def __init__(self, words: list[str], numbers: dict[str, str]) -> None:
        super().__init__(words)
        self.numbers = numbers

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return super().convert(self.numbers.get(value, value), param, ctx)


def combined(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several options into one decorator, in this order."""

    def decorate(command: Command) -> Command:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


def _kernel(_: Any, __: Any, value: str | None) -> str | None:
    return LIBSVM_KERNELS.get(value, value) if value else value


target_option = click.option("--target", help="Label column, name or index.  [default: target, label, class, y, the last]")
reading_options = combined(
    target_option,
    click.option("--drop", multiple=True, metavar="COLUMN", help="Column to leave out, name or index; may be repeated."),
    click.option("--one-hot", is_flag=True, help="Make 0/1 columns of text columns, one for each text."),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the report.")
impute_option = click.option(
    "--impute",
    type=NumberOr("mean", "median", "most_frequent"),
    help="Replace missing values by this number, or by this statistic of their column.",
)
data_options = combined(
    click.argument("file", required=False, type=FILE),
    click.argument("model", required=False, type=OUTPUT),
    click.option(
        "--dataset",
        type=click.Choice(datasets.NAMES),
        help="Embedded data set, used without FILE.  [default: breast_cancer]",
    ),
    reading_options,
    impute_option,
    click.option("--n-features", type=click.IntRange(1), help="Features of a LIBSVM file.  [default: the largest index]"),
    click.option("--test", type=FILE, help="File to test on; all of FILE is then trained on."),
    click.option(
        "--test-size",
        type=click.FloatRange(0, 1, max_open=True),
        help="Share of the samples set aside for the test, stratified by class; 0 for no test.  [default: 0.25]",
    ),
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Random seed of the splits."),
    click.option(
        "--standardize/--no-standardize",
        default=None,
        help="Scale features to unit variance.  [default: dense data only, and not for a LIBSVM model file]",
    ),
)
machine_options = combined(
    click.option(
        "-s", "--machine",
        type=OneOf(list(MACHINES), LIBSVM_TYPES),
        help="Machine to train, or its number in LIBSVM.  [default: svc for classes, svr for a continuous target]",
    ),
    click.option("-t", "--kernel", callback=_kernel, help="Kernel: linear, poly, rbf, …, precomputed, or its number."),
    click.option(
        "--loss",
        help="Loss of classes: hinge, squared_hinge or huber_hinge; of values: epsilon_insensitive, squared_epsilon_insensitive "
        "or huber_epsilon_insensitive.",
    ),
    click.option("-d", "--degree", type=float, help="Degree of the polynomial kernel."),
    click.option("-r", "--coef0", type=float, help="Constant of the polynomial and sigmoid kernels."),
    click.option("-e", "--tol", type=float, help="Largest KKT violation that counts as converged."),
    click.option("--gap-tol", type=float, help="Largest relative duality gap that counts as converged."),
    click.option("--max-seconds", type=float, help="Time limit; the model reached by then is kept."),
    click.option("-m", "--cache-size", type=NumberOr("auto"), help="Megabytes for kernel rows."),
    click.option("--multi-class", help="Strategy for several classes: ovo, ovr or crammer_singer."),
    click.option(
        "--class-weight", multiple=True, metavar="CLASS=WEIGHT|balanced",
        help="Multiply C for a class by its weight; may be repeated. LIBSVM's -w1 5 is --class-weight 1=5.",
    ),
    click.option("--shrinking", type=int, hidden=True, expose_value=False, help="LIBSVM's -h; the result is the same."),
)  # fmt: skip
output_options = combined(
    click.option(
        "--save", type=OUTPUT,
        help="File to write the model to: .safetensors, .model (LIBSVM's format), .onnx or .joblib. The same as MODEL.",
    ),
    click.option("--progress/--no-progress", default=None, help="Show a progress bar.  [default: on a terminal]"),
    click.option("-q", "--quiet", is_flag=True, help="Print no report."),
    json_option,
)  # fmt: skip
