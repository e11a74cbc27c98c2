"""A test of what a fresh process may not import."""

import subprocess
import sys

import pytest

from benchmarks.turns import ROOT


@pytest.mark.parametrize("module", ["worker", "grid_search", "calibration", "threads"])
def test_nothing_numerical_is_imported_before_the_cores_are_chosen(module: str) -> None:
    code = f"import benchmarks.{module}, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
