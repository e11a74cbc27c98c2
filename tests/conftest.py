"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_iris

# The same examples each time; without a time limit, as how long one takes depends on what else the machine does.
settings.register_profile(
    "deterministic", derandomize=True, deadline=None, max_examples=40, suppress_health_check=list(HealthCheck)
)
settings.load_profile("deterministic")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thread_unsafe: a mark in scikit-learn's tests, which test_sklearn_suite runs")


@pytest.fixture(autouse=True)
def _python_handles_ctrl_c() -> Iterator[None]:
    """A test run in the background inherits an ignored SIGINT, and then there is nothing to catch."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file into the folder of the test."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command line in an empty folder."""
    testing = pytest.importorskip("click.testing")
    from maxmargin.cli.commands import maxmargin

    monkeypatch.chdir(tmp_path)

    def run(*words: object, code: int = 0, stdin: bytes | None = None) -> Any:
        result = testing.CliRunner().invoke(maxmargin, [str(word) for word in words], input=stdin)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def iris_csv(tmp_path: Path) -> Path:
    """The iris flowers as a CSV file with a header; the species is in the last column."""
    iris = load_iris()
    lines = ["sepal length,sepal width,petal length,petal width,species"]
    for row, label in zip(iris.data, iris.target_names[iris.target], strict=True):
        lines.append(",".join(map(str, row)) + f",{label}")
    path = tmp_path / "iris.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
