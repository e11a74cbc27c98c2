"""Tests of the growth of a fit's time with the number of rows: the exponent, who is left out, and the command on small sets."""

from math import inf
from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.cases import Case
from benchmarks.sets import problem


def test_exponent_is_that_of_a_power_law() -> None:
    assert growth.exponent({rows: 3e-7 * rows**1.7 for rows in (100, 200, 800)}) == pytest.approx(1.7)
    assert growth.exponent({100: 1.0}) is None


def test_a_stopped_contestant_is_left_out_and_a_slower_layout_too() -> None:
    seconds = {("first", "dense"): 2.0, ("second", "dense"): 3.0, ("second", "csr"): 1.0, ("third", "dense"): inf}
    assert growth.remaining(seconds) == [("first", "dense"), ("second", "csr")]


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "growth.png"
    words = ["--sets", "moons", "--sizes", "400", "200", "--contestants", "maxmargin", "scikit-learn", "--repeats", "1"]
    monkeypatch.setattr("sys.argv", ["growth", *words, "--plot", str(plot)])
    growth.main()
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    by_name = {row[0]: [float(cell) for cell in row[1:]] for row in table if row and row[0] in ("200", "400", "exponent")}
    assert {name: len(cells) for name, cells in by_name.items()} == {"200": 3, "400": 3, "exponent": 2}
    assert by_name["200"][2] == pytest.approx(by_name["200"][1] / by_name["200"][0], rel=0.02)
    assert plot.stat().st_size > 0


def test_fits_end_at_the_time_limit(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sets", "moons", "--sizes", "5000", "10000", "--contestants", "scikit-learn", "--limit", "0.001"]
    monkeypatch.setattr("sys.argv", ["growth", *words, "--repeats", "1"])
    growth.main()
    printed = capsys.readouterr()
    assert "moons 5000: scikit-learn (dense): inf s" in printed.err
    assert "10000" not in printed.err


def test_a_set_with_too_few_rows_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"'moons', rows=10001: the training set has only 10000"):
        problem(Case("growth", "moons", rows=10_001), None)
