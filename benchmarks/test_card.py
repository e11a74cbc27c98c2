"""Tests of the command that measures a card: on torch's CPU device, with small sets."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import maxmargin.backends as backends
from benchmarks import card
from maxmargin.backends.cuda.streaming import Streamed

SMALL = ["--device", "cpu", "--repeats", "1"]


@pytest.fixture(autouse=True)
def same_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.BACKENDS, "cuda", backends.make_cuda)  # which the command replaces


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["card", *SMALL, *words])
    card.main()


def test_every_part_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file, plot = tmp_path / "lines.jsonl", tmp_path / "growth.png"
    run(monkeypatch, "--parts", "fits", "steps", "passes", "--sets", "digits", "--variables", "1200", "--scale", "1e-3")
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    by_part = {part: [line for line in printed if line["part"] == part] for part in ("fits", "steps", "passes")}
    (fit,), (step,) = by_part["fits"], by_part["steps"]
    assert fit["status"] == "CONVERGED"
    assert 0.0 <= fit["gap"] <= 1e-3
    assert fit["predict"] > 0.0
    assert fit["score"] > 0.9
    assert step["steps"] > 0
    assert step["microseconds"] > 0.0
    assert {line["dtype"] for line in by_part["passes"]} == {"float32", "float64"}
    growth = ("--parts", "growth", "--sets", "moons", "--sizes", "100", "300", "--backends", "cuda", "native")
    run(monkeypatch, "--parts", "fits", "--sets", "breast_cancer", "--repeats", "0")  # the first fit counts
    once = json.loads(capsys.readouterr().out)
    assert once["fit"] == once["first"]
    run(monkeypatch, *growth, "--json", str(file), "--plot", str(plot))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted((line["rows"], line["backend"]) for line in lines) == [
        (100, "cuda"),
        (100, "native"),
        (300, "cuda"),
        (300, "native"),
    ]
    assert plot.stat().st_size > 0


def test_nothing_begins_after_the_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "--parts", "fits", "--sets", "moons", "--seconds", "0")
    printed = capsys.readouterr()
    assert not printed.out
    assert "fits moons: left out" in printed.err


def test_a_small_budget_streams_the_samples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    parts: list[object] = []
    kept = Streamed.parts
    monkeypatch.setattr(Streamed, "parts", lambda *told: parts.append(None) or kept(*told))
    run(monkeypatch, "--parts", "fits", "--sets", "breast_cancer", "--budget", "0.01")
    assert json.loads(capsys.readouterr().out)["status"] == "CONVERGED"
    assert parts
