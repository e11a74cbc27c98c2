"""What the commands say: a list of names and texts for people, and one JSON object for programs. Every number is read from public
attributes of the fitted model."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import click
import numpy as np
from scipy.sparse import issparse

from maxmargin.cli.machines import Machine
from maxmargin.cli.session import Fit, Split
from maxmargin.io import Table
from maxmargin.plots import free_support

MOST_CLASSES = 6  # classes that are listed one by one; more are only counted
HINT_FROM = 20  # classes that are numbers from which a hint says how to do regression
COLUMN = 17
SCORE_NAMES = {"accuracy": "accuracy", "inliers": "inliers", "R2": "R²", "MSE": "MSE"}
SHARES = ("accuracy", "inliers")  # scores that are shown in per cent


class Report:
    """Rows of a name and a text, and the facts behind them. Nothing is printed until `show`."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.facts: dict[str, Any] = {}
        self._rows: list[tuple[str, str]] = []
        self._notes: list[str] = []

    def say(self, name: str, text: str, **facts: Any) -> None:
        """Add a row, and facts."""
        self._rows.append((name, text))
        self.facts |= facts

    def note(self, text: str, **facts: Any) -> None:
        """Add a paragraph below the rows, and facts; a longer one, such as a certificate, goes before those of one line."""
        self._notes.append(text)
        self._notes.sort(key=lambda note: "\n" not in note)
        self.facts |= facts

    def show(self) -> None:
        """Print what was said since the last time; a table by rich on a terminal, if it is installed."""
        if self.as_json:
            click.echo(json.dumps(_plain(self.facts), ensure_ascii=False, allow_nan=False))
        elif not self.quiet:
            if self._rows and sys.stdout.isatty() and find_spec("rich") is not None:
                _show_table(self._rows)
            elif self._rows:
                click.echo("\n".join(f"{name:<{COLUMN}}{text}" for name, text in self._rows))
            for k, note in enumerate(self._notes):
                click.echo(("\n" if k or self._rows else "") + note)
        self._rows, self._notes = [], []


def _show_table(rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable.grid(padding=(0, 2))
    table.add_column(style="bold")
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    Console().print(table)


def _plain(value: Any) -> Any:
    """A value as JSON has it; NaN and infinite numbers become null, which JSON has instead."""
    match value:
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
    return str(value)


# --- train ---------------------------------------------------------------------------------------------------------------------


def report_data(
    report: Report, table: Table, data: Split, machine: Machine, reason: str, steps: Mapping[str, Any], n_folds: int | None = None
) -> None:
    """Say what is trained on, or validated on in so many folds."""
    X: Any = table.X
    text, facts = _describe(table, machine)
    report.say("data", f"{table.source}: {text}", source=table.source, n_samples=X.shape[0], n_features=X.shape[1], **facts)
    if reason:
        report.say("task", f"{reason} (--machine says otherwise)", reason=reason)
    done = {"impute": "missing values imputed", "scale": "features standardised"}
    prepared = [text for step, text in done.items() if step in steps]
    n_train, n_test = data.X_train.shape[0], data.X_test.shape[0] if data.has_test else 0
    test = f"{n_test} set aside for the test" if data.set_aside else f"{n_test} others to test on" if n_test else "no test"
    name, how = ("validated on", f"{n_folds} folds") if n_folds else ("trained on", test)
    report.say(name, ", ".join([f"{n_train} samples", how, *prepared]), n_train=n_train, n_test=n_test)


def report_hint(report: Report, table: Table, machine: Machine) -> None:
    """Say how to do regression, if the classes look like a quantity."""
    classes = np.unique(table.y) if machine.task == "classes" and table.y is not None else np.empty(0)
    if len(classes) > HINT_FROM and classes.dtype.kind in "iuf":
        report.note(f"hint: the target has {len(classes)} numbers as classes; if it is a quantity, use --machine svr")


def report_fit(report: Report, name: str, fitted: Fit) -> None:
    """Say how the fit went and what it is worth."""
    machine = fitted.machine
    parameters = {key: value for key, value in machine.get_params(deep=False).items() if value is not None}
    shown = ("C", "nu", "epsilon", "alpha")
    described = [f"{key} = {parameters[key]:g}" for key in shown if key in parameters]
    if hasattr(machine, "gamma_") and hasattr(machine.kernel_, "gamma"):
        described.append(f"gamma = {machine.gamma_:.4g}")
        report.facts["gamma"] = machine.gamma_
    kernel = [f"{machine.kernel} kernel"] if "kernel" in parameters else []
    loss = [f"{machine.loss} loss"] if "loss" in parameters else []
    text = ", ".join([type(machine).__name__, *kernel, *described, *loss])
    report.say("model", text, machine=name, parameters=parameters)
    report_scores(report, fitted.train_scores, fitted.test_scores)
    if hasattr(machine, "support_"):
        report.say("support vectors", _support(machine), n_support=len(machine.support_))
    if hasattr(machine, "margin_"):
        report.say("margin 2/||w||", _margin(machine), margin=2 * np.atleast_1d(machine.margin_))
    report.say("status", machine.status_.value, status=machine.status_.name)
    seconds = getattr(machine, "fit_seconds_", None)
    fit = "" if seconds is None else f"fit {_duration(seconds)}, "
    report.say("time", f"{fit}predict {_duration(fitted.predict_seconds)} for {fitted.n_predicted} samples", fit_seconds=seconds)
    certificate = machine.certificate_
    report.note(
        str(certificate), primal=certificate.primal, dual=certificate.dual, gap=certificate.gap,
        relative_gap=certificate.relative_gap,
    )  # fmt: skip


def report_scores(report: Report, train: Mapping[str, float], test: Mapping[str, float] | None) -> None:
    """Say the scores on both parts, one row for each score."""
    for score in dict.fromkeys([*train, *(test or ())]):
        parts = [
            f"{part} {_score(score, found[score])}" for part, found in (("train", train), ("test", test or {})) if score in found
        ]
        report.say(SCORE_NAMES[score], ", ".join(parts))
    report.facts |= {"train_scores": train, "test_scores": test}


def report_folds(report: Report, found: Mapping[str, Any]) -> None:
    """Say the scores of a cross-validation."""
    for score, values in found.items():
        text = f"{_score(score, values.mean())} ± {_score(score, values.std())}, the mean over {len(values)} folds"
        report.say(f"{SCORE_NAMES[score]}", text)
    report.facts["cross_validation"] = found


def _score(name: str, value: float) -> str:
    return f"{value:.1%}" if name in SHARES else f"{value:.4g}"


def score_text(found: Mapping[str, float]) -> str:
    """Scores in one line."""
    return ", ".join(f"{SCORE_NAMES[name]} {_score(name, value)}" for name, value in found.items())


# --- tune ----------------------------------------------------------------------------------------------------------------------


def report_grid(report: Report, search: Any, scoring: str) -> None:
    """Say what the grid was, which point is best, and whether it is at an end of the grid."""
    table = search.cv_results_
    axes = {name: sorted(set(table[f"param_{name}"])) for name in table["params"][0]}
    n_splits = search.n_splits_
    scores = np.array([table[f"split{fold}_test_score"] for fold in range(n_splits)])
    done = "" if np.isfinite(scores).all() else f", {np.isfinite(scores).sum()} of {scores.size} fits done"
    values = " x ".join(f"{len(axis)} values of {name}" for name, axis in axes.items())
    report.say("grid", f"{values}, {n_splits} folds{done}", grid=axes, n_folds=n_splits)
    if "split0_relative_gap" in table:
        gaps = np.array([table[f"split{fold}_relative_gap"] for fold in range(n_splits)])
        if np.isfinite(gaps).any():
            report.say("relative gap", f"at most {np.nanmax(gaps):.1e} in each fit", largest_gap=np.nanmax(gaps))
    if not hasattr(search, "best_params_") or np.isnan(search.best_score_):
        return
    best = search.best_params_
    point = ", ".join(f"{name} = {value:.4g}" for name, value in best.items())
    text = f"{point}: {search.scoring or scoring} {search.best_score_:.4f}, the mean over the folds"
    report.say("best", text, best_parameters=best, best_score=search.best_score_)
    ends = {
        name: "smallest" if best[name] == axis[0] else "largest"
        for name, axis in axes.items()
        if len(axis) > 1 and best[name] in (axis[0], axis[-1])
    }
    report.facts["at_the_edge"] = ends
    for name, end in ends.items():
        beyond = f"try {'smaller' if end == 'smallest' else 'larger'} ones with --{name}s"
        report.say("hint", f"{name} = {best[name]:.4g} is the {end} value of the grid: {beyond}")


# --- texts ---------------------------------------------------------------------------------------------------------------------


def _describe(table: Table, machine: Machine) -> tuple[str, dict[str, Any]]:
    X: Any = table.X
    n_samples, n_features = X.shape
    sparse = f" ({X.nnz / (n_samples * n_features):.1%} not zero)" if issparse(X) else ""
    text = f"{n_samples} samples, {n_features} features{sparse}"
    if table.y is None:
        return text, {}
    if machine.task == "values":
        return f"{text}, target from {table.y.min():g} to {table.y.max():g}", {"target_range": (table.y.min(), table.y.max())}
    if machine.task == "novelty":
        return f"{text}, trained without labels", {}
    classes, counts = np.unique(np.asarray(table.y), return_counts=True)
    counted = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    text = f"{text}, {len(classes)} classes"
    if len(classes) <= MOST_CLASSES:
        text += f" ({', '.join(f'{k}: {n}' for k, n in counted.items())})"
    return text, {"classes": counted}


def _support(machine: Any) -> str:
    text = f"{len(machine.support_)} of {machine.shape_fit_[0]} samples"
    if getattr(machine, "loss", None) != "hinge":  # of the other machines, `free_support` knows no bound
        return text
    free = free_support(machine)
    return f"{text}: {free.sum()} free (on the margin), {(~free).sum()} bounded (at C)"


def _margin(machine: Any) -> str:
    width = 2 * np.atleast_1d(machine.margin_)
    if width.size == 1:
        return f"{width[0]:.4g}"
    return f"{width.min():.4g} to {width.max():.4g} over {width.size} machines"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.3g} ms"
