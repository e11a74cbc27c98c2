"""The rooms of the house stay apart: who may import whom, and what may not be said where.

The table is the architecture. A change here is a change of the design and wants a page in docs/decisions.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maxmargin"
NATIVE = ROOT / "native"


class Room(NamedTuple):
    """What a room may import: other rooms, and other people's packages besides the standard library."""

    rooms: set[str]
    packages: set[str]


ROOMS = {
    # the problem and its proof: vectors of length n, no X, no kernel, no solver
    "formulations": Room(set(), {"numpy"}),
    "certificates": Room({"formulations"}, {"numpy"}),
    "primal_or_dual": Room(set(), set()),
    "multiclass": Room(set(), {"numpy"}),
    "solution": Room(set(), {"numpy"}),
    # the kernel matrix: rows of X, no y, no beta
    "kernels": Room(set(), {"numpy", "scipy", "sklearn"}),
    "gram": Room({"kernels"}, {"numpy", "scipy"}),
    # who computes, and the loop that asks: no estimator, no label, no scikit-learn
    "backends": Room({"_native", "formulations", "gram", "kernels"}, {"numpy", "scipy", "threadpoolctl"}),
    "control": Room({"solution"}, set()),
    "solvers": Room(
        {"backends", "control", "formulations", "gram", "primal_or_dual", "solution"}, {"clarabel", "numpy", "scipy"}
    ),
    # where both meet: a claim, its proof, and what may be said of it
    "training": Room({"backends", "certificates", "control", "formulations", "gram", "solution", "solvers"}, {"numpy"}),
    # scikit-learn's face: the five verbs
    "callbacks": Room({"control"}, {"tqdm"}),
    "estimators": Room(
        {
            "backends",
            "calibration",
            "callbacks",
            "certificates",
            "control",
            "formulations",
            "gram",
            "kernels",
            "multiclass",
            "primal_or_dual",
            "solution",
            "solvers",
            "training",
        },
        {"numpy", "scipy", "sklearn"},
    ),
    "calibration": Room({"formulations", "gram", "solution"}, {"numpy", "scipy", "sklearn"}),
    "model_selection": Room(
        {
            "backends",
            "callbacks",
            "certificates",
            "control",
            "estimators",
            "formulations",
            "gram",
            "kernels",
            "multiclass",
            "solution",
            "solvers",
            "training",
        },
        {"numpy", "scipy", "sklearn"},
    ),
    "__init__": Room({"audits", "certificates", "estimators", "model_selection", "primal_or_dual", "solution"}, set()),
    # the theory: what a machine is and why it is optimal
    "theory": Room({"formulations", "kernels"}, {"numpy", "scipy", "sklearn"}),
    # the guests: public attributes of fitted models
    "audits": Room(
        {"backends", "certificates", "estimators", "formulations", "gram", "io", "kernels", "multiclass"},
        {"numpy", "scipy", "sklearn"},
    ),
    "io": Room(set(), {"numpy", "scipy", "sklearn"}),
    "plots": Room({"theory"}, {"matplotlib", "numpy", "scipy", "sklearn"}),
    "cli": Room(
        {"__init__", "audits", "callbacks", "io", "plots"}, {"click", "joblib", "matplotlib", "numpy", "scipy", "sklearn"}
    ),
}
GUESTS = ("audits", "io", "plots", "cli")


def sources(*rooms: str) -> list[Path]:
    """The files of some rooms, or of all."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not rooms or room_of(path) in rooms]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    """The full names of what is imported, at the top of a file or late: `a.b` for `from a import b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_room_has_its_sign_on_the_door():
    assert {room_of(path) for path in sources()} == set(ROOMS)
    for room in {path.parent for path in sources()} - {PACKAGE}:
        assert ast.get_docstring(parse(room / "__init__.py")), f"{room}: no docstring says what it is for"


@pytest.mark.parametrize("path", sources(), ids=identify)
def test_imports(path):
    room = room_of(path)
    for name in imported(parse(path)):
        package, _, rest = name.partition(".")
        if package in sys.stdlib_module_names:
            continue
        if package != "maxmargin":
            assert package in ROOMS[room].packages, f"{room} may not import {name}"
            continue
        inner = rest.partition(".")[0]
        target = inner if inner in ROOMS or inner == "_native" else "__init__"
        assert target in ROOMS[room].rooms | {room}, f"{room} may not import {name}"


@pytest.mark.parametrize("path", sources(), ids=identify)
def test_nothing_private_comes_from_another_library(path):
    for name in imported(parse(path)):
        if not name.startswith(("maxmargin.", "__future__")):
            assert not any(part.startswith("_") for part in name.split(".")), f"{name} is private"


@pytest.mark.parametrize("path", sources(*GUESTS), ids=identify)
def test_guests_read_public_attributes_only(path):
    own = {"self", "cls"}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            assert owner in own, f"line {node.lineno}: {node.attr}"


@pytest.mark.parametrize("path", [path for path in sources() if room_of(path) != "cli"], ids=identify)
def test_only_the_command_line_prints(path):
    calls = [node.func for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    assert "print" not in {call.id for call in calls if isinstance(call, ast.Name)}


@pytest.mark.parametrize("path", sources("solvers", "backends", "gram", "formulations"), ids=identify)
def test_the_inner_rooms_do_not_warn(path):
    assert "warnings" not in {name.partition(".")[0] for name in imported(parse(path))}


@pytest.mark.parametrize("path", sources("solvers", "gram", "backends"), ids=identify)
def test_solvers_know_no_labels(path):
    """A name `y` (or a parameter of that name) in these rooms means that a label got in."""
    names = {node.id for node in ast.walk(parse(path)) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(parse(path)) if isinstance(node, ast.arg)}
    assert not names & {"y", "labels", "classes"}


FORBIDDEN_IN_NATIVE = {
    "Python outside the bindings": re.compile(r"Python\.h|nanobind|pybind11|\bPyObject\b"),
    "output": re.compile(r"<iostream>|\bprintf\s*\(|std::c(out|err)"),
    "intrinsics": re.compile(r"immintrin\.h|arm_neon\.h|_mm\d*_"),
}


@pytest.mark.parametrize("what", FORBIDDEN_IN_NATIVE)
def test_native_code_without(what):
    files = [path for folder in ("include", "src", "simd") for path in (NATIVE / folder).rglob("*.?pp")]
    assert files
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            assert not FORBIDDEN_IN_NATIVE[what].search(line.partition("//")[0]), f"{identify(path)}:{number}: {line}"


def test_the_vector_loops_are_compiled_with_their_own_flags_only():
    """-ffinite-math-only removes NaN checks: no file outside native/simd may be compiled with it."""
    lines = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()
    with_flag = [line for line in lines if "finite-math" in line and not line.lstrip().startswith("#")]
    assert len(with_flag) == 1
    assert with_flag[0].startswith("set(loop_flags")
    assert sum("${loop_flags}" in line for line in lines) == 1
