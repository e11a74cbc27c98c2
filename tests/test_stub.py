"""The stub of the compiled module says what the module says of itself.

stubtest (`make types`) compares the members of classes, and constants. It knows no functions of nanobind, so tests/stubtest.txt
tells it to leave them alone, and their names and signatures are compared here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from maxmargin import _native

STUB = Path(__file__).parents[1] / "src" / "maxmargin" / "_native.pyi"
ARRAY = re.compile(r"(?:numpy\.)?ndarray\[dtype=(\w+)(?:, shape=\(([^)]*)\))?[^\]]*\]")
MODULES = re.compile(r"maxmargin\._native\.|collections\.abc\.")

#: What the array types of the stub admit: a dtype and a number of dimensions, as `plain` writes them.
ADMITS = {
    "_Vector": r"float64_(1|any)",
    "_Matrix": r"float64_(2|any)",
    "_Indices": r"int32_(1|any)",
    "NDArray[np.float32]": r"float32_.+",
    "NDArray[np.float64]": r"float64_.+",
    "NDArray[np.int64]": r"int64_.+",
    "NDArray[np.uint8]": r"uint8_.+",
    "NDArray[Any]": r"(float|int)\d+_.+",
}


def plain(signature: str) -> str:
    """A signature of nanobind as Python: arrays are called float64_2, int32_1, or float64_any if they do not tell."""
    named = ARRAY.sub(lambda found: f"{found[1]}_{found[2].count('*') if found[2] else 'any'}", signature)
    return MODULES.sub("", named) + ": ..."


def compiled() -> dict[str, list[ast.FunctionDef]]:
    """The overloads of each function and method of the module."""
    found = {}

    def add(name: str, holder: Any) -> None:
        signatures = getattr(holder, "__nb_signature__", ())
        if signatures:
            found[name] = [ast.parse(plain(signature)).body[0] for signature, *_ in signatures]

    for name, member in vars(_native).items():
        add(name, member)
        if isinstance(member, type):
            for inner, method in vars(member).items():
                add(f"{name}.{inner}", method)
    return found


def described(tree: ast.Module) -> dict[str, list[ast.FunctionDef]]:
    """The overloads of each function and method of the stub; properties are stubtest's."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for holder, prefix in [(tree, ""), *((node, f"{node.name}.") for node in tree.body if isinstance(node, ast.ClassDef))]:
        for node in holder.body:
            if isinstance(node, ast.FunctionDef) and "property" not in map(ast.unparse, node.decorator_list):
                found.setdefault(prefix + node.name, []).append(node)
    return found


def names(tree: ast.Module) -> set[str]:
    """The public names of the stub."""
    kept = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    kept |= {ast.unparse(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    return {name for name in kept if not name.startswith("_")}


def types(function: ast.FunctionDef) -> list[list[str]]:
    """The types of each positional-only argument, and of the result; those of a union one by one."""
    annotations = [argument.annotation for argument in function.args.posonlyargs if argument.arg != "self"]
    return [ast.unparse(annotation).split(" | ") for annotation in [*annotations, function.returns]]


def admits(stub: str, runtime: str) -> bool:
    if runtime in ("tuple", "list"):  # of what, nanobind does not know
        return stub.startswith(runtime)
    return re.fullmatch(ADMITS[stub], runtime) is not None if stub in ADMITS else stub == runtime


def covers(stub: list[str], runtime: list[str]) -> bool:
    """Whether each type at run time is admitted by one of the stub's."""
    return all(any(admits(s, r) for s in stub) for r in runtime)


def complaints(tree: ast.Module) -> list[str]:
    """Where the stub is wrong; an empty list if it is true."""
    truth, claims = compiled(), described(tree)
    public = {name for name in vars(_native) if not name.startswith("_")}
    lonely = (truth.keys() ^ claims.keys()) | (public ^ names(tree))
    wrong = [f"{name} is only in one of the two" for name in sorted(lonely)]
    for name in sorted(truth.keys() & claims.keys()):
        overloads, claimed = [types(one) for one in truth[name]], [types(one) for one in claims[name]]
        if any(argument.arg != "self" for one in claims[name] for argument in one.args.args):
            wrong.append(f"{name} takes no argument by its name")
        for found in overloads:
            fits = (len(one) == len(found) and all(covers(*pair) for pair in zip(one, found, strict=True)) for one in claimed)
            if not any(fits):
                wrong.append(f"{name} also takes {found}")
        for one in claimed:
            for place, union in enumerate(one):
                there = [r for found in overloads if len(found) == len(one) for r in found[place]]
                wrong += [f"{name} takes no {s}" for s in union if not any(admits(s, r) for r in there)]
    return wrong


def test_the_stub_has_the_signatures_of_the_compiled_module():
    assert len(compiled()) > 30
    assert complaints(ast.parse(STUB.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("true", "false", "complaint"),
    [
        ("def n_threads() -> int", "def threads() -> int", "n_threads is only in one of the two"),
        ("class Violation:", "class Breach:", "Violation is only in one of the two"),
        ("chunk: int", "chunks: int", "chunk is only in one of the two"),
        ("def n_threads() -> int", "def n_threads() -> float", "n_threads takes no float"),
        ("degree: float, /)", "degree: float)", "make_kernel takes no argument by its name"),
        ("degree: float, /)", "degree: str, /)", "make_kernel takes no str"),
        ("tile: Tile32 | Tile64,\n", "tile: Tile32,\n", "solve_tile also takes"),
        ("rounded: NDArray[np.float32]", "rounded: _Matrix", "apply_kernel_to takes no _Matrix"),
        ("pairs: _Matrix", "pairs: _Vector", "pair_all takes no _Vector"),
        ("def use_threads(count: int, /)", "def use_threads(count: int, often: int, /)", "use_threads also takes"),
        ("queries: Samples32,", "queries: Samples64,", "weighted_sums also takes"),
    ],
)
def test_a_lie_is_found(true, false, complaint):
    text = STUB.read_text(encoding="utf-8")
    assert true in text
    assert any(found.startswith(complaint) for found in complaints(ast.parse(text.replace(true, false, 1))))
