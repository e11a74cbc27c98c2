"""What is public is documented in the format of numpydoc, and the examples of all docstrings run."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from numpydoc.validate import validate

import maxmargin
from maxmargin.kernels import KERNELS

pyplot = pytest.importorskip("matplotlib.pyplot")
pyplot.switch_backend("Agg")

PUBLIC = ("maxmargin", "callbacks", "formulations.losses", "io", "kernels", "model_selection", "plots")
#: Of numpydoc: no docstring, no summary, parameters missing or unknown, no returns, no See Also, no examples
REQUIRED = {"GL08", "SS01", "PR01", "PR02", "RT01", "SA01", "EX01"}


def public_names() -> list[str]:
    """The public classes and functions, by the names under which they are imported."""
    modules = ["maxmargin", *(f"maxmargin.{name}" for name in PUBLIC[1:])]
    return [
        f"{module}.{name}"
        for module in modules
        for name in import_module(module).__all__
        if callable(getattr(import_module(module), name))
    ]


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_is_documented(name: str) -> None:
    required = REQUIRED - {"PR01"} if name.endswith(".Status") else REQUIRED  # nobody calls an enum
    found = [(code, message) for code, message in validate(name)["errors"] if code in required]
    assert found == []


def modules_with_examples() -> list[Any]:
    names = (one.name for one in pkgutil.walk_packages(maxmargin.__path__, "maxmargin."))
    without_torch = "maxmargin.backends.cuda" if find_spec("torch") is None else "none"
    modules = [import_module(name) for name in names if not name.endswith("__main__") and not name.startswith(without_torch)]
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [module for module in modules if any(one.examples for one in finder.find(module))]


@pytest.mark.parametrize("module", modules_with_examples(), ids=lambda module: module.__name__)
def test_the_examples_run(module: Any) -> None:
    known = dict(KERNELS)
    failed, tried = doctest.testmod(module)
    pyplot.close("all")
    for name in KERNELS.keys() - known.keys():  # a kernel that an example defines
        del KERNELS[name]
    assert tried > 0
    assert failed == 0


def test_an_example_that_is_wrong_is_found() -> None:
    (one,) = doctest.DocTestFinder().find(type("Wrong", (), {"__doc__": ">>> 1 + 1\n3\n"}), "wrong")
    assert doctest.DocTestRunner(verbose=False).run(one, out=lambda text: None).failed == 1
