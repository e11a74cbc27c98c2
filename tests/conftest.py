"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
