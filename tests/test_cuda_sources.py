"""The CUDA sources, compiled by NVRTC for cards of four generations. This needs neither a card nor torch."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from maxmargin.backends.cuda import compiler

CAPABILITIES = (75, 80, 90, 100)
PAIRS = [
    "kernel_sums<float, DOT, RBF, 1>",
    "kernel_sums<float, SQUARED, MATERN32, 4>",
    "kernel_sums<double, DOT, POLY, 4>",
    "kernel_sums<double, ABSOLUTE, LAPLACIAN, 1>",
    "kernel_values<float, DOT, SIGMOID>",
    "kernel_values<double, SQUARED, EXPONENTIAL>",
    "kernel_values<float, DOT, LINEAR>",
]
TILES = ["solve_tiles<float, 0, 4, 256>", "solve_tiles<float, 1, 8, 256>", "solve_tiles<double, 2, 4, 512>"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXMARGIN_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(
    ("file", "expression"), [("pairs.cu", name) for name in PAIRS] + [("solve.cu", name) for name in TILES], ids=lambda name: name
)
def test_compiles(file, expression, capability):
    binary = compiler.compile_kernel(file, expression, capability)
    assert expression.partition("<")[0].encode() in binary.name
    assert binary.code.startswith(b"\x7fELF")
    assert binary.name in binary.code


def test_machine_code_is_kept_on_disk(tmp_path, monkeypatch):
    told = "pairs.cu", "kernel_values<float, DOT, LINEAR>", 90
    first = compiler.compiled(*told)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setattr(compiler, "compile_kernel", lambda *_: pytest.fail("compiled twice"))
    assert compiler.compiled(*told) == first


def test_another_source_is_another_entry(tmp_path, monkeypatch):
    told = "pairs.cu", "kernel_values<float, DOT, LINEAR>", 90
    compiler.compiled(*told)
    changed = tmp_path / "sources"
    changed.mkdir()
    source = (compiler.SOURCES / "pairs.cu").read_text(encoding="utf-8")
    (changed / "pairs.cu").write_text(source + "\n// changed\n", encoding="utf-8")
    monkeypatch.setattr(compiler, "SOURCES", changed)
    compiler.compiled(*told)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_none(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("MAXMARGIN_CACHE", str(tmp_path / "file"))
    assert compiler.compiled("pairs.cu", "kernel_values<float, DOT, LINEAR>", 90).code


def test_an_error_shows_what_the_compiler_said():
    with pytest.raises(RuntimeError, match=r"cannot compile nothing<float> of pairs\.cu for sm_90: .*undefined"):
        compiler.compile_kernel("pairs.cu", "nothing<float>", 90)
