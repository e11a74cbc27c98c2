"""The site: the reference names everything that is public, and the plots of the benchmarks show what the README says.

`make docs` builds it, with every warning an error, and runs all examples.
"""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("module", ["", ".kernels", ".model_selection", ".io", ".plots", ".callbacks"])
def test_the_reference_names_everything_public(module):
    pytest.importorskip("matplotlib")
    room = import_module(f"maxmargin{module}")
    listed = {name.rpartition(".")[2] for name in re.findall(r"^   ([\w.]+)$", REFERENCE, re.MULTILINE)}
    public = {name for name in room.__all__ if callable(getattr(room, name))}
    assert public <= listed, f"add to docs/api.rst: {sorted(public - listed)}"


def test_there_are_twelve_examples_and_each_draws():
    assert len(EXAMPLES) == 12
    for example in EXAMPLES:
        assert re.match(r"plot_\d\d_\w+$", example.stem), "the gallery sorts by number"
        assert "plt.show()" in example.read_text(encoding="utf-8")


@pytest.fixture
def plots_of_benchmarks():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    spec = importlib.util.spec_from_file_location("draw_benchmarks", ROOT / "docs" / "draw_benchmarks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    matplotlib.pyplot.close("all")


def test_the_bars_are_the_numbers_of_the_readme(plots_of_benchmarks):
    rows = plots_of_benchmarks.read_ratios(ROOT / "README.md")
    plots_of_benchmarks.main(ROOT / "README.md")
    left, right = plots_of_benchmarks.plt.gcf().axes
    for ax, columns in ((left, (2, 3)), (right, (5, 6))):
        bars = [bar.get_width() for container in ax.containers for bar in container]
        assert bars == [float(row[column]) for column in columns for row in rows.values() if row[column] != "–"]


def test_another_table_is_refused(plots_of_benchmarks, tmp_path):
    (tmp_path / "table.md").write_text("| set | fit | × intelex |\n|---|---|---|\n| iris | 1 ms | 2 |\n")
    with pytest.raises(ValueError, match="the table has the columns"):
        plots_of_benchmarks.read_ratios(tmp_path / "table.md")
