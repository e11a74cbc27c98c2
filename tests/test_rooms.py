"""The rooms of the house stay apart: who may import whom, and what may not be said where.

The table is the architecture. A change here is a change of the design and wants a page in docs/decisions.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
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
    "certificates": Room({"formulations", "gram", "notebook"}, {"numpy"}),
    "linear_certificates": Room({"certificates", "formulations"}, {"numpy"}),
    "primal_or_dual": Room(set(), set()),
    "rounding": Room(set(), {"numpy"}),  # every room may import it
    "late_imports": Room(set(), set()),  # this one, too
    "notebook": Room(set(), set()),
    "multiclass": Room(set(), {"numpy"}),
    "solution": Room(set(), {"numpy"}),
    # the samples and their kernel matrix: rows of X, no y, no beta
    "samples": Room(set(), {"numpy", "scipy"}),
    "kernels": Room({"samples"}, {"numpy", "scipy", "sklearn"}),
    "gram": Room({"kernels", "samples"}, {"numpy"}),
    # who computes, and the loop that asks: no estimator, no label, no scikit-learn
    "backends": Room(
        {"_native", "certificates", "formulations", "gram", "kernels", "samples"},
        {"cuda", "numpy", "scipy", "threadpoolctl", "torch"},
    ),
    # the same contracts over rows on many machines; Dask is imported late
    "cluster": Room(
        {"backends", "formulations", "gram", "io", "kernels", "samples"}, {"dask", "distributed", "numpy", "pandas", "scipy"}
    ),
    "control": Room({"solution"}, set()),
    "solvers": Room(
        {"backends", "control", "formulations", "gram", "kernels", "primal_or_dual", "solution"}, {"clarabel", "numpy", "scipy"}
    ),
    # where both meet: a claim, its proof, and what may be said of it
    "training": Room({"backends", "certificates", "control", "formulations", "gram", "solution", "solvers"}, {"numpy"}),
    # from labels to problems, and from solutions to a machine: no X, no solver
    "tasks": Room({"certificates", "formulations", "gram", "multiclass", "samples", "training"}, {"numpy"}),
    # scikit-learn's face: the five verbs
    "callbacks": Room({"control"}, {"tqdm"}),
    "estimators": Room(
        {
            "backends",
            "calibration",
            "callbacks",
            "certificates",
            "cluster",
            "control",
            "formulations",
            "gram",
            "io",
            "kernels",
            "linear_certificates",
            "multiclass",
            "notebook",
            "samples",
            "solution",
            "solvers",
            "tasks",
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
            "samples",
            "solution",
            "solvers",
            "tasks",
            "training",
        },
        {"numpy", "scipy", "sklearn"},
    ),
    "__init__": Room({"audits", "certificates", "estimators", "io", "model_selection", "primal_or_dual", "solution"}, set()),
    # the theory: what a machine is and why it is optimal
    "theory": Room({"formulations", "kernels"}, {"numpy", "scipy", "sklearn"}),
    # the guests: they read public attributes of fitted models
    "audits": Room(
        {
            "backends",
            "certificates",
            "estimators",
            "formulations",
            "gram",
            "io",
            "kernels",
            "multiclass",
            "notebook",
            "samples",
            "tasks",
            "training",
        },
        {"numpy", "scipy", "sklearn"},
    ),
    "io": Room(
        # a model file holds what a model is made of, and its reader makes an estimator of it again
        {"__init__", "calibration", "certificates", "estimators", "formulations", "kernels", "solution"},
        {"dask", "numpy", "onnx", "pyarrow", "safetensors", "scipy", "skl2onnx", "sklearn"},
    ),
    "plots": Room({"formulations", "theory"}, {"matplotlib", "numpy", "scipy", "sklearn"}),
    "playground": Room({"__init__", "io"}, {"numpy", "sklearn", "starlette", "uvicorn"}),
    "cli": Room(
        # the last two for the values of a grid of machines that the package has no search for
        {"__init__", "audits", "callbacks", "io", "playground", "plots", "kernels", "model_selection"},
        {"click", "joblib", "matplotlib", "numpy", "rich", "scipy", "sklearn"},
    ),
}


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


@cache
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
        assert target in ROOMS[room].rooms | {room, "rounding", "late_imports"}, f"{room} may not import {name}"


@pytest.mark.parametrize("path", sources(), ids=identify)
def test_nothing_private_comes_from_another_library(path):
    for name in imported(parse(path)):
        if not name.startswith(("maxmargin.", "__future__")):
            assert not any(part.startswith("_") for part in name.split(".")), f"{name} is private"


# --- what is private to a room ----------------------------------------------------------------------------------------

#: Private names of other rooms that a file uses, and why. A name that is no longer used must leave the list.
KNOWN_EXCEPTIONS = {
    ("estimators/callback_tree.py", "_init_callback_context"): "scikit-learn's protocol of callbacks has no public entrance",
    ("estimators/callback_tree.py", "_skl_callbacks"): "scikit-learn's protocol of callbacks has no public entrance",
}
OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}  # public, in spite of their names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


@cache
def private_names(room: str) -> tuple[set[str], set[str]]:
    """The private names that a room defines: all of them, and its functions and methods."""
    names, functions = set(), set()
    for node in (node for path in sources(room) for node in ast.walk(parse(path))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.add(name)
            case ast.ClassDef(name=name) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
    return {name for name in names | functions if is_private(name)}, {name for name in functions if is_private(name)}


def private_uses(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The private attributes that a file uses, and whether their owner is the object (or class) whose method uses them."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
                yield name, True
            case ast.Attribute(attr=name):
                yield name, False
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr" | "delattr"),
                args=[owner, ast.Constant(value=str(name)), *_],
            ):
                yield name, isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def foreign_private_names(path: Path) -> set[str]:
    """Private names of other rooms that a file imports or uses.

    An attribute belongs to the room if the room defines it. Where the owner is another object, it may be one of another room that
    has a method of the same name; so the name must not be that of a method in a room that this one may import.
    """
    room = room_of(path)
    own, _ = private_names(room)
    methods = {name for other in ROOMS[room].rooms - {"_native"} for name in private_names(other)[1]}
    uses = {(name, of_self) for name, of_self in private_uses(parse(path)) if is_private(name)}
    foreign = {name for name, of_self in uses if name not in own or (name in methods and not of_self)}
    for name in imported(parse(path)):
        package, *rest = name.split(".")
        if package == "maxmargin" and rest and rest[0] not in (room, "_native"):
            foreign |= {part for part in rest if is_private(part)}
    return foreign


def test_no_room_uses_what_is_private_to_another():
    found = {(path.relative_to(PACKAGE).as_posix(), name) for path in sources() for name in foreign_private_names(path)}
    assert found - KNOWN_EXCEPTIONS.keys() == set(), "these are private to another room"
    assert KNOWN_EXCEPTIONS.keys() - found == set(), "these exceptions are no longer needed"


@pytest.mark.parametrize(
    ("code", "foreign"),
    [
        ("from maxmargin.gram import _secret", "_secret"),
        ("from maxmargin.estimators._secret import thing", "_secret"),
        ("def look(model):\n    return model._formulate(1)", "_formulate"),
        ("def look(model):\n    return getattr(model, '_kept', None)", "_kept"),
        ("class Machine(SVC):\n    def fit(self):\n        return self._formulate()", "_formulate"),
        ("class Box:\n    def __init__(self, other):\n        self._kept = other._kept", None),
        ("from maxmargin import _native\nlimit._replace(steps=1)", None),
    ],
)
def test_private_names_of_other_rooms_are_found(code, foreign, tmp_path, monkeypatch):
    path = tmp_path / "model_selection" / "new.py"
    path.parent.mkdir()
    path.write_text(code)
    own = {"_kept"} if "self._kept" in code else set()
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "private_names", lambda room: (own, {"_formulate"} - own))
    assert foreign_private_names(path) == ({foreign} if foreign else set())


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
