"""`maxmargin predict` and `maxmargin audit`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from maxmargin.cli.errors import BadInput, failure_blamed_on, require_folder, whole_or_absent
from maxmargin.cli.options import FILE, OUTPUT, LibsvmLetters, json_option

NOT_PROVED = 1  # exit code of an audit whose relative gap is above --gap-tol


@click.command(cls=LibsvmLetters)
@click.argument("model", type=OUTPUT)
@click.argument("file", type=FILE)
@click.argument("output", required=False, type=OUTPUT)
@click.option(
    "-o", "--output", "to", type=OUTPUT, help="File to write the predictions to; the same as OUTPUT.  [default: stdout]"
)
@click.option("--target", help="Label column, if FILE has one: name or index.  [default: that of the training file]")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column to leave out, name or index; may be repeated.")
@click.option("-b", type=click.Choice(["0", "1"]), help="LIBSVM's letter: -b 1 is --probability.")
@click.option(
    "--probability", is_flag=True,
    help="Write a CSV table with the probability of each class too; needs a model that was trained with them.",
)  # fmt: skip
@click.option("--decisions", is_flag=True, help="Write a CSV table with the decision values too.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print the scores.")
@json_option
def predict(model: Path, file: Path, output: Path | None, to: Path | None, target: str | None, **options: Any) -> None:
    """Predict the label or value of each sample of FILE (- is stdin) with a MODEL that `train --save` or LIBSVM wrote.

    The output has one prediction on each line. Columns of a CSV or Parquet file are matched by name. If FILE has labels, the
    accuracy, or R² and the mean squared error, are reported on stderr. Open only joblib files that you trust: they can run any
    code. Files that end in .safetensors or .model cannot.
    """
    from scipy.sparse import issparse

    from maxmargin.cli import models, session
    from maxmargin.cli.report import Report, score_text

    if output and to:
        raise BadInput(f"OUTPUT {output} and -o {to}: give one of them")
    output = output or to
    require_folder(output)
    loaded = models.load(model, file)
    table = session.read(file, target, drop=options["drop"], **loaded.reading())
    if loaded.columns and table.feature_names is None and not issparse(table.X):
        click.echo(f"note: {table.source} has no header: its columns are taken in the order of training", err=True)
    with failure_blamed_on(model):
        pipeline, X = loaded.fitting(table)
        labels = pipeline.predict(X)
        columns = {"prediction": labels.tolist()}
        columns |= _more_columns(pipeline, X, options["probability"] or options["b"] == "1", options["decisions"])
    comparable = table.y is not None and session.same_kind(table.y, labels)
    found = session.scores(loaded.machine, labels, table.y if comparable else None)
    if options["as_json"]:
        report = Report(as_json=True)
        report.facts = {"source": table.source, "n_samples": len(labels), "scores": found, **columns}
        report.show()
        return
    text = "".join(_lines(columns))
    if output:
        with whole_or_absent(output):
            output.write_text(text, encoding="utf-8")
        click.echo(f"{len(labels)} predictions written to {click.format_filename(output)}", err=True)
    else:
        click.echo(text, nl=False)
    if found and not options["quiet"]:
        counted = f" ({int((labels == table.y).sum())} of {len(labels)})" if "accuracy" in found else ""
        click.echo(score_text(found) + counted, err=True)
    if table.y is not None and not comparable:
        click.echo("note: no accuracy, because the labels of FILE are not of the kind that MODEL predicts", err=True)


def _more_columns(pipeline: Any, X: Any, probability: bool, decisions: bool) -> dict[str, list[Any]]:
    """The probabilities and the decision values, by the names of their columns."""
    machine, columns = pipeline.steps[-1][1], dict[str, list[Any]]()
    labels = getattr(machine, "classes_", ())
    if probability:
        if not getattr(machine, "probability", False):
            raise BadInput("-b, --probability: the model was trained without; train it with -b 1, --probability loo")
        values = pipeline.predict_proba(X)
        columns |= {f"probability of {label}": values[:, k].tolist() for k, label in enumerate(labels)}
    if decisions:
        if not hasattr(machine, "decision_function"):
            raise BadInput(f"--decisions: the predictions of a {type(machine).__name__} are its decision values")
        values = pipeline.decision_function(X)
        if values.ndim == 1:
            columns["decision"] = values.tolist()
        else:
            names = labels if len(labels) == values.shape[1] else range(1, values.shape[1] + 1)
            columns |= {f"decision {name}": values[:, k].tolist() for k, name in enumerate(names)}
    return columns


def _lines(columns: dict[str, list[Any]]) -> Iterator[str]:
    """One prediction on each line; with more columns, a CSV table with a header."""
    if len(columns) == 1:
        yield from (f"{value}\n" for value in columns["prediction"])
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    yield text.getvalue()


@click.command(cls=LibsvmLetters)
@click.argument("model", type=OUTPUT)
@click.argument("file", type=FILE)
@click.option("--target", help="Target column, name or index.  [default: that of the training file]")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column to leave out, name or index; may be repeated.")
@click.option("-c", "-C", "--C", "C", type=float, help="The C that MODEL was fitted with, if MODEL does not store it.")
@click.option("-n", "--nu", type=float, help="The nu that MODEL was fitted with, if MODEL does not store it.")
@click.option("-p", "--epsilon", type=float, help="The epsilon that MODEL was fitted with, if MODEL does not store it.")
@click.option("-e", "--tol", type=float, help="The tol that MODEL was fitted with, if MODEL does not store it.")
@click.option("--class-weight", multiple=True, metavar="CLASS=WEIGHT", help="Class weights, if MODEL does not store them.")
@click.option("--gap-tol", type=float, help=f"Exit with code {NOT_PROVED} if the relative gap is larger.")
@json_option
def audit(model: Path, file: Path, target: str | None, gap_tol: float | None, as_json: bool, **options: Any) -> None:
    """Prove how near a MODEL of any library is to the optimum on FILE, the data it was fitted on.

    MODEL is a file that `train --save` wrote, a LIBSVM model file, which stores neither C, nu, epsilon nor class weights, or a
    joblib file with a fitted SVC, NuSVC, SVR, NuSVR, OneClassSVM or a pipeline that ends in one. Open only joblib files that
    you trust: they can run any code.
    """
    from maxmargin import audits
    from maxmargin.cli import models, session
    from maxmargin.cli.report import Report

    fitted, reading = models.load_any(model, file)
    table = session.read(file, target, drop=options.pop("drop"), **reading)
    with failure_blamed_on(model):
        options |= {"class_weight": None} | session.class_weight(options["class_weight"], table.y)
        found = audits.audit(fitted, session.as_trained(table.X), table.y, **options)
    report = Report(as_json)
    report.note(
        str(found), library=found.library, machine=found.machine, sentence=found.sentence, primal=found.primal_as_is,
        dual=found.dual, gap=found.gap, relative_gap=found.relative_gap_as_is, kkt_violation=found.kkt_violation,
    )  # fmt: skip
    report.show()
    if gap_tol is not None and not found.holds(gap_tol):
        raise SystemExit(NOT_PROVED)
