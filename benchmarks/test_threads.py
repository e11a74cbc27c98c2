"""Tests of the command that compares numbers of threads: its packed sets, and its table on small ones."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from benchmarks import threads
from benchmarks.cases import Case
from benchmarks.sets import LARGEST_TABLE, Problem, pack, problem


def generated(rows: int, columns: int, distinct: int | None) -> Problem:
    """Noisy classes; the samples have at most so many distinct values, or (None) as many as entries."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    if distinct is not None:
        X = rng.normal(size=distinct).astype(np.float32)[rng.integers(distinct, size=X.shape)]
    y = np.where(X[:, 0] + rng.normal(size=rows) > 0, 1, -1)
    return Problem(X, y, X[:1], y[:1], C=2.0, gamma=0.3)


@pytest.mark.parametrize(("distinct", "dtype"), [(256, np.uint8), (257, np.uint16), (None, None)])
def test_packed_sets_are_unchanged(tmp_path: Path, distinct: int | None, dtype: type | None) -> None:
    given = generated(LARGEST_TABLE // 8, 9, distinct)
    pack(given, tmp_path / "magic.npz")
    with np.load(tmp_path / "magic.npz") as file:
        assert ("indices" in file) == (dtype is not None)
        assert dtype is None or file["indices"].dtype == dtype
    found = problem(Case("", "magic"), tmp_path)
    assert found.X.dtype == given.X.dtype
    np.testing.assert_array_equal(found.X, given.X)
    np.testing.assert_array_equal(found.y, given.y)
    assert (found.C, found.gamma) == (given.C, given.gamma)


def test_a_packed_sparse_set_is_sparse_again(tmp_path: Path) -> None:
    given = generated(50, 4, None)
    X = csr_matrix(np.maximum(given.X, 0))
    pack(Problem(X, given.y, X, given.y, given.C, given.gamma), tmp_path / "a9a.npz")
    found = problem(Case("", "a9a"), tmp_path)
    assert isinstance(found.X, csr_matrix)
    assert (found.X != X).nnz == 0


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("magic", "letter"):
        pack(generated(200, 5, None), tmp_path / f"{name}.npz")
    words = ["--data", str(tmp_path), "--sets", "magic", "letter", "--threads", "1", "2", "--repeats", "1"]
    monkeypatch.setattr("sys.argv", ["threads", *words])
    threads.main()
    _, *lines = (line.rsplit(maxsplit=3) for line in capsys.readouterr().out.splitlines())
    magic, letter, mean, smallest = lines
    ratios = [float(row[3]) for row in (magic, letter)]
    assert [row[0] for row in (magic, letter)] == ["magic", "letter"]
    assert all(float(row[1]) / float(row[2]) == pytest.approx(float(row[3]), rel=0.02) for row in (magic, letter))
    assert float(mean[-1]) == pytest.approx((ratios[0] * ratios[1]) ** 0.5, rel=0.02)
    assert float(smallest[-1]) == min(ratios)
