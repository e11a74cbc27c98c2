"""Damaged data and model files, given to maxmargin.io and to the command line.

Each must end within seconds: with a result, or with one clear line. That is a `DataFileError` for a reader, and for
a command exit code 2 and one line on stderr, without a traceback. A model that is read must predict, or refuse to in one line."""

from __future__ import annotations

import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .findings import Finding
from .model_files import forge
from .mutations import mutate
from .pool import Lost, Pool, restart_clock

LIMIT = 20.0  # seconds for one file
MEMORY = 6 * 2**30  # bytes of address space: a small file must not need more
LONGEST_LINE = 500  # characters of a clear message
EXIT_CODES = (0, 2)
CALLS = ("read", "train", "predict", "audit", "train columns", "predict columns", "convert", "scale", "check")
CALLS_OF = {
    "kernel.svm": ("train kernel", "predict kernel"),
    ".safetensors": ("load", "predict by it"),
    ".model": ("audit by it", "predict by it", "read_libsvm_model"),
    ".range": ("restore",),
    "mixed.csv": ("train columns", "convert"),  # with text and missing values
}


@cache
def originals(folder: str) -> dict[str, bytes]:
    """Undamaged files by name, and beside them a joblib model to predict with."""
    import joblib
    from scipy.sparse import csr_array
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from maxmargin import SVC, SVR
    from maxmargin.io import write_libsvm_model

    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(30, 4)), 3)
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=30) > 0, 1, -1)
    pairs = [" ".join(f"{k + 1}:{value:g}" for k, value in enumerate(row) if value) for row in X]
    rows = [",".join(f"{value:g}" for value in row) for row in X]
    model = SVC(gamma=0.25).fit(X, y)
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    joblib.dump(pipeline, Path(folder) / "model.joblib")
    files = {
        "data.svm": "\n".join(f"{label:+d} {text}" for label, text in zip(y, pairs, strict=True)) + "\n",
        "data.csv": "a,b,c,d,target\n" + "\n".join(f"{row},{label}" for row, label in zip(rows, y, strict=True)) + "\n",
        "plain.csv": "\n".join(f"{row},{label}" for row, label in zip(rows, y, strict=True)) + "\n",
        "words.csv": "a;b;c;d;class\n"
        + "\n".join(f"{row.replace(',', ';')};{'yes' if label > 0 else 'no'}" for row, label in zip(rows, y, strict=True))
        + "\n",
        "mixed.csv": "a,b,c,d,port,member,target\n"
        + "\n".join(
            f"{row},{'north' if k % 3 else ''},{k % 2 == 0},{label}" for k, (row, label) in enumerate(zip(rows, y, strict=True))
        )
        + "\n",
        "kernel.svm": "\n".join(
            f"{label:+d} 0:{k + 1} " + " ".join(f"{j + 1}:{value:g}" for j, value in enumerate(row))
            for k, (label, row) in enumerate(zip(y, np.exp(-0.25 * ((X[:, None] - X) ** 2).sum(axis=2)), strict=True))
        )
        + "\n",
        "target.range": f"y\n0 1\n-1 1\nx\n-1 1\n1 {X[:, 0].min():g} {X[:, 0].max():g}\n",
        "data.range": "x\n-1 1\n" + "\n".join(f"{k + 1} {X[:, k].min():g} {X[:, k].max():g}" for k in range(4)) + "\n",
        "c_svc.model": _model_text(model, pairs, y),
        "svr.model": "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho -0.5\nSV\n"
        + f"1 {pairs[0]}\n-1 {pairs[1]}\n",
    }
    for name, text in files.items():
        (Path(folder) / name).write_text(text)
    contents = {name: text.encode() for name, text in files.items()}
    three = SVC(probability="loo").fit(X, np.digitize(X[:, 1], [-0.4, 0.4]))
    sparse = SVC(kernel="linear", calibration="isotonic", probability="loo").fit(csr_array(X), np.where(y > 0, "yes", "no"))
    svr = SVR(kernel="laplacian").fit(X.astype(np.float32), X[:, 0])
    prepared = SVC().fit(X, y)  # as `train --impute --standardize` saves one
    prepared.columns_ = {"features": ["a", "b", "c", "d"], "target": "target", "left_out": []}
    prepared.preparation_ = {"impute": X.mean(axis=0), "mean": X.mean(axis=0), "scale": X.std(axis=0)}
    prepared.save(Path(folder) / "prepared.safetensors")
    SVC(kernel="precomputed").fit(X @ X.T, y).save(Path(folder) / "kernel.safetensors")
    with tempfile.TemporaryDirectory() as place:  # of this process alone: another may be reading in `folder`
        path = Path(place) / "model"
        write_libsvm_model(three, path)
        contents["three.model"] = path.read_bytes()
        for name, model in (("three", three), ("sparse", sparse), ("svr", svr), ("prepared", prepared)):
            model.save(path)
            contents[f"{name}.safetensors"] = path.read_bytes()
    return contents


def _model_text(model: Any, pairs: list[str], y: Any) -> str:
    """The model as LIBSVM writes it; its first class is the positive one."""
    order = np.argsort(-y[model.support_], kind="stable")
    lines = [f"{model.dual_coef_[0, k]:.17g} {pairs[model.support_[k]]}" for k in order]
    counts = [int((y[model.support_] == label).sum()) for label in (1, -1)]
    return (
        f"svm_type c_svc\nkernel_type rbf\ngamma {model.gamma_:g}\nnr_class 2\ntotal_sv {len(lines)}\n"
        f"rho {-model.intercept_[0]:.17g}\nlabel 1 -1\nnr_sv {counts[0]} {counts[1]}\nSV\n" + "\n".join(lines) + "\n"
    )


def run(problems: int, seconds: float | None, seed: int, first: int, jobs: int) -> int:
    """Damage and read files; return the exit status."""
    started, done, kinds = time.perf_counter(), 0, Counter[str]()
    outcomes = Counter[str]()

    def tasks() -> Iterator[tuple[int, tuple[str, int, int]]]:
        number = first
        while (time.perf_counter() - started < seconds) if seconds is not None else number < first + problems:
            yield number, (folder, seed, number)
            number += 1

    with tempfile.TemporaryDirectory() as folder, Pool(jobs) as pool:
        originals(folder)
        for number, result in pool.run(examine_file, tasks()):
            done += 1
            if isinstance(result, Lost):
                name, call, damage, content = damaged(folder, seed, number)
                outcome, findings = result.kind, [Finding(result.kind, f"{call} {Path(name).suffix}", result.text)]
            else:
                call, damage, outcome, findings, content = result
            outcomes[outcome] += 1
            for finding in findings:
                kinds[f"{finding.kind} ({finding.check})"] += 1
                print(f"#{number} {finding}\n    {call} after {', '.join(damage)}: {content[:200]!r}", flush=True)
    print(f"\n{done} files in {time.perf_counter() - started:.0f} s")
    print("outcomes: " + ", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    for name, count in kinds.most_common():
        print(f"{name:<70}{count:>8}")
    print(f"to repeat one: python -m fuzz files --seed {seed} --from NUMBER --problems 1")
    return 1 if kinds else 0


def damaged(folder: str, seed: int, number: int) -> tuple[str, str, list[str], bytes]:
    """File `number`: its name, the call that reads it, its kinds of damage, and its bytes."""
    rng = np.random.default_rng([seed, number])
    files = originals(folder)
    name = sorted(files)[int(rng.integers(len(files)))]
    calls = calls_of(name)
    call = calls[int(rng.integers(len(calls)))]
    forged = name.endswith(".safetensors") and rng.integers(2)
    content, damage = (forge if forged else mutate)(rng, files[name])
    return name, call, damage, content


def calls_of(name: str) -> tuple[str, ...]:
    """The calls that can read the file of this name."""
    return CALLS_OF.get(name) or CALLS_OF.get(Path(name).suffix) or CALLS


def examine_file(folder: str, seed: int, number: int) -> tuple[str, list[str], str, list[Finding], bytes]:
    """Damage and read one file; return the call, the damage, the outcome, the findings and the bytes."""
    restart_clock(LIMIT + 30.0)  # for the first imports
    name, call, damage, content = damaged(folder, seed, number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / name
        path.write_bytes(content)
        restart_clock(LIMIT)
        outcome, findings = examine(path, Path(folder), call)
    return f"{call} {name}", damage, outcome, findings, content


def examine(path: Path, folder: Path, call: str) -> tuple[str, list[Finding]]:
    """Read a file by a call; return the outcome and the findings."""
    if call == "read":
        return _read(path, call)
    if call in ("load", "read_libsvm_model"):
        return _use_model(path, call)
    return _command(path, folder, call)


def _use_model(path: Path, call: str) -> tuple[str, list[Finding]]:
    """Read a model and predict with it."""
    from maxmargin import io

    check = f"{call} {path.suffix}"
    outcome = "refused"
    try:
        model = getattr(io, call)(path)
        outcome = "refused to predict"
        queries = np.linspace(-2.0, 2.0, 3 * 4).reshape(3, 4)
        with np.errstate(all="ignore"):
            predicted = model.predict(queries)
    except ValueError as error:
        if outcome == "refused" and not isinstance(error, io.DataFileError):
            return "error", [Finding("EXCEPTION", f"{check}: ValueError", str(error)[:200])]
        return outcome, _unclear(str(error), check)
    except Exception as error:
        return "error", [Finding("EXCEPTION", f"{check}: {type(error).__name__}", f"{type(error).__name__}: {str(error)[:200]}")]
    return (
        ("done", []) if len(predicted) == 3 else ("error", [Finding("WRONG_MODEL", check, f"{len(predicted)} predictions of 3")])
    )


def _read(path: Path, call: str) -> tuple[str, list[Finding]]:
    from maxmargin.io import DataFileError, read_table

    try:
        table = read_table(path)
    except DataFileError as error:
        return "refused", _unclear(str(error), f"{call} {path.suffix}")
    except Exception as error:
        check = f"{call} {path.suffix}: {type(error).__name__}"
        return "error", [Finding("EXCEPTION", check, f"{type(error).__name__}: {str(error)[:200]}")]
    values = table.X.data if hasattr(table.X, "indptr") else table.X
    if not np.isfinite(values).all():
        return "read", [Finding("WRONG_MODEL", f"{call} {path.suffix}", "the table has values that are not finite")]
    return "read", []


def _command(path: Path, folder: Path, call: str) -> tuple[str, list[Finding]]:
    """Run the command line in this process; return the outcome and the findings."""
    from click.testing import CliRunner

    from maxmargin.cli.commands import maxmargin as command

    data, out = str(folder / "data.svm"), str(path.parent / "out.csv")
    arguments = {
        "train": ["train", str(path), "--max-seconds", "5"],
        "train columns": ["train", str(path), "--max-seconds", "5", "--one-hot", "--impute", "median"],
        "predict": ["predict", str(folder / "model.joblib"), str(path)],
        "train kernel": ["train", str(path), "--max-seconds", "5", "-t", "4"],
        "predict kernel": ["predict", str(folder / "kernel.safetensors"), str(path)],
        "predict columns": ["predict", str(folder / "prepared.safetensors"), str(path)],
        "predict by it": ["predict", str(path), data],
        "audit": ["audit", str(folder / "c_svc.model"), str(path), "-C", "1"],
        "audit by it": ["audit", str(path), data, "-C", "1", "--epsilon", "0.1"],
        "convert": ["convert", str(path), out, "--one-hot"],
        "scale": ["scale", str(path), "-o", out],
        "check": ["check", str(path)],
        "restore": ["scale", "-r", str(path), data, "-o", out],
    }[call]
    result = CliRunner().invoke(command, arguments)
    check = f"{call} {path.suffix}"
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        error = result.exception
        text = f"{type(error).__name__}: {str(error)[:200]}"
        return "error", [Finding("EXCEPTION", f"{check}: {type(error).__name__}", text)]
    if result.exit_code not in EXIT_CODES:
        return "error", [Finding("EXCEPTION", f"{check}: exit code", f"exit code {result.exit_code}: {result.output[-200:]}")]
    if result.exit_code == 0:
        return "done", []
    lines = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith("warning: ")]
    return "refused", _unclear("\n".join(lines), check)


def _unclear(message: str, check: str) -> list[Finding]:
    """A finding if the message is not a single line of readable length."""
    if not message.strip() or "\n" in message.strip() or len(message) > LONGEST_LINE or "Traceback" in message:
        return [Finding("EXCEPTION", f"{check}: unclear message", f"{len(message)} characters: {message[:300]!r}")]
    return []
