"""The values of a fitted model as JSON and tensors, and back.

    JSON                                        value
    null, true, 3, 0.5, "text", [...]           None, bool, int, float, str, list
    {"float": "inf"}                            a float that JSON cannot spell: inf, -inf, nan
    {"number": ["float32", 0.5]}                a NumPy number
    {"tuple": [...]}, {"dict": [[k, v], ...]}   a tuple; a dict, whose keys may be of any kind
    {"array": "name"}                           the tensor of this name
    {"values": ["str", [2], ["no", "yes"]]}     an array of strings (or "object"): type, shape, entries
    {"csr_matrix": {"shape": ..., ...}}         a sparse matrix (or csr_array) and its tensors data, indices, indptr
    {"status": "CONVERGED"}                     a `Status`
    {"certificate": {"gap": 0.5, ...}}          a record: `Certificate`, `Trace`, a kernel, a loss, a map to probabilities
    {"callable": "module.name"}                 a function, which the file does not hold: the reader is given one

Nothing else can be written, and nothing else is read: no class is looked up but those of this table. A value of the wrong type is
refused, and so is a tensor that is used twice or not at all, so memory is in proportion to the size of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from numbers import Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.calibration import MAPS
from maxmargin.certificates import Certificate
from maxmargin.formulations.losses import base as losses
from maxmargin.io.table import quoted
from maxmargin.kernels import KERNELS
from maxmargin.solution import Status, Trace

Tensors = dict[str, NDArray[Any]]

SPARSE = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
FUNCTIONS = ("kernel", "kernel.function", "kernel_.function")  # where a model may have a function
TENSOR_DTYPES = frozenset({"bool", "float16", "float32", "float64", *INTEGERS})
#: An array of strings has room for the longest string in each entry, so a single long one would fill the memory.
MOST_CHARACTERS = 2**26


def records() -> dict[str, type[Any]]:
    """The classes of records by name; kernels and losses are there as soon as their classes are made, those of the user too."""
    return {
        "certificate": Certificate,
        "trace": Trace,
        **{f"{name} kernel": kind for name, kind in KERNELS.items()},
        **{f"{name} loss": type(losses.make_loss(name)) for name in losses.names(regression=False)},
        **{f"{name} map": kind for name, kind in MAPS.items()},
    }


class Encoder:
    """Turns values into JSON; the arrays among them are collected in `tensors`."""

    def __init__(self) -> None:
        self.tensors: Tensors = {}
        self._name_of_record = {kind: name for name, kind in records().items()}

    def encode(self, value: Any, place: str) -> Any:
        """The JSON of a value; `place` is its name, for its tensors and for messages."""
        match value:
            case None | bool() | str():
                return value
            case int():
                return int(value)
            case float():
                return float(value) if math.isfinite(value) else {"float": str(float(value))}
            case np.generic() if value.dtype.name in TENSOR_DTYPES:
                return {"number": [value.dtype.name, self.encode(value.item(), place)]}
            case list() | tuple():
                items = [self.encode(item, f"{place}[{k}]") for k, item in enumerate(value)]
                return items if isinstance(value, list) else {"tuple": items}
            case Mapping():
                return {"dict": [[self.encode(key, place), self.encode(item, f"{place}[{key}]")] for key, item in value.items()]}
            case Status():
                return {"status": value.name}
            case np.ndarray():
                return self._array(value, place)
            case _ if type(value) in self._name_of_record:
                names = [field.name for field in fields(value)]
                return {self._name_of_record[type(value)]: {k: self.encode(getattr(value, k), f"{place}.{k}") for k in names}}
            case _ if type(value).__name__ in SPARSE and sp.issparse(value):
                parts = {name: self.encode(getattr(value, name), f"{place}.{name}") for name in ("data", "indices", "indptr")}
                return {type(value).__name__: {"shape": list(map(int, value.shape)), **parts}}
            case _ if callable(value) and place in FUNCTIONS:
                name = getattr(value, "__qualname__", type(value).__qualname__)
                return {"callable": f"{getattr(value, '__module__', None)}.{name}"}
        raise TypeError(
            f"{place}={value!r}: a {type(value).__name__} has no place in a model file (set it to None before saving)"
        )

    def _array(self, value: NDArray[Any], place: str) -> dict[str, Any]:
        if value.dtype.kind in "UO":
            entries = [self.encode(entry, place) for entry in value.ravel().tolist()]
            return {"values": [value.dtype.type.__name__.rstrip("_"), list(value.shape), entries]}
        if value.dtype.name not in TENSOR_DTYPES:
            raise TypeError(f"{place} is an array of {value.dtype}, which has no place in a model file (use numbers or strings)")
        self.tensors[place] = np.asarray(value, order="C")
        return {"array": place}


class Decoder:
    """Turns JSON back into values. What is wrong with it is a ValueError."""

    def __init__(self, tensors: Tensors, function: Callable[..., Any] | None = None) -> None:
        self._unused = dict(tensors)
        self._function = function
        self._records = records()

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise ValueError(f"an object with the keys {_listed(value)}, where one key says the kind of a value")
        [(kind, content)] = value.items()
        if kind in self._records:
            return self._record(kind, content)
        if kind in SPARSE:
            return self._sparse(kind, content)
        reader = getattr(self, f"_{kind}", None) if kind in KINDS else None
        if reader is None:
            raise ValueError(f"a value of the unknown kind {quoted(kind)}")
        return reader(content)

    def require_all_used(self) -> None:
        if self._unused:
            raise ValueError(f"{len(self._unused)} tensors that belong to nothing: {_listed(self._unused)}")

    def _float(self, content: Any) -> float:
        if content not in ("inf", "-inf", "nan"):
            raise ValueError(f"the float {quoted(str(content))}")
        return float(content)

    def _number(self, content: Any) -> np.generic:
        match content:
            case [str(dtype), value] if dtype in TENSOR_DTYPES and isinstance(value := self.decode(value), int | float):
                with suppress(OverflowError), np.errstate(over="ignore"):
                    number: np.generic = np.dtype(dtype).type(value)
                    return number
        raise ValueError(f"the number {quoted(str(content))}")

    def _tuple(self, content: Any) -> tuple[Any, ...]:
        return tuple(self.decode(_required(content, list, "a tuple")))

    def _dict(self, content: Any) -> dict[Any, Any]:
        pairs = [self.decode(pair) for pair in _required(content, list, "a dict")]
        if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], Hashable) for pair in pairs):
            raise ValueError("a dict that is not made of pairs of a key and a value")
        return dict(pairs)

    def _array(self, content: Any) -> NDArray[Any]:
        if not isinstance(content, str) or content not in self._unused:
            raise ValueError(f"the tensor {quoted(str(content))} is missing, or used twice")
        return self._unused.pop(content)

    def _values(self, content: Any) -> NDArray[Any]:
        match content:
            case [("str" | "object") as kind, list(shape), list(entries)] if all(type(size) is int for size in shape):
                decoded = self.decode(entries)
                array = np.empty(len(decoded), dtype=object)
                array[:] = decoded
                if kind == "str":
                    if not all(isinstance(entry, str) for entry in decoded):
                        raise ValueError("an array of strings with other entries")
                    if len(decoded) * max(map(len, decoded), default=0) > MOST_CHARACTERS:
                        raise ValueError(f"an array of strings that would take more than {MOST_CHARACTERS:,} characters")
                    array = array.astype(str)
                if min(shape, default=0) >= 0 and math.prod(shape) == len(decoded):
                    return array.reshape(shape)
        raise ValueError("an array of values whose type, shape and entries do not fit")

    def _status(self, content: Any) -> Status:
        if not isinstance(content, str) or content not in Status.__members__:
            raise ValueError(f"the unknown status {quoted(str(content))}")
        return Status[content]

    def _callable(self, content: Any) -> Callable[..., Any]:
        if self._function is None:
            raise ValueError(
                f"its kernel is the function {quoted(str(content))}, which a file does not hold: pass load(path, kernel=…)"
            )
        return self._function

    def _sparse(self, kind: str, content: Any) -> Any:
        parts = {name: self.decode(part) for name, part in _required(content, dict, "a sparse matrix").items()}
        match parts:
            case {"shape": [int(), int()] as shape, "data": np.ndarray(), "indices": np.ndarray(), "indptr": np.ndarray()}:
                data, indices, indptr = parts["data"], parts["indices"], parts["indptr"]
                whole = all(some.dtype in (np.int32, np.int64) for some in (indices, indptr))
                if len(parts) == 4 and whole and data.dtype.kind == "f" and min(shape) >= 0 and len(indptr) == shape[0] + 1:
                    try:
                        matrix = SPARSE[kind]((data, indices, indptr), shape=tuple(shape))
                        matrix.check_format(full_check=True)
                    except ValueError as error:
                        raise ValueError(f"a damaged sparse matrix: {error}") from None
                    return matrix
        raise ValueError("a damaged sparse matrix: its parts do not fit each other")

    def _record(self, name: str, content: Any) -> Any:
        kind, given = self._records[name], _required(content, dict, f"a {name}")
        hints = hints_of(kind)  # type: ignore[arg-type]
        wanted = [field.name for field in fields(kind)]
        if sorted(given) != sorted(wanted):
            raise ValueError(f"a {name} with the fields {_listed(given)}, where there must be {_listed(wanted)}")
        values = {field: self.decode(value) for field, value in given.items()}
        for field, value in values.items():
            if not conforms(value, hints[field]):
                raise ValueError(f"a {name} whose {field} is {quoted(repr(value))}")
        return kind(**values)


ARRAY = get_origin(NDArray[np.float64])  # np.ndarray, or in newer versions of NumPy the alias itself
KINDS = frozenset({"float", "number", "tuple", "dict", "array", "values", "status", "callable"})


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that an annotation names; a whole number is a float too, and an array has to hold floats."""
    kind, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, UnionType):
        return any(conforms(value, argument) for argument in arguments)
    if kind is Literal:
        return value in arguments
    if kind is ARRAY:
        return isinstance(value, np.ndarray) and value.dtype.kind == "f"
    if kind in (tuple, list):
        return isinstance(value, kind) and all(conforms(item, arguments[0]) for item in value)
    if hint is float:
        return isinstance(value, Real)
    return isinstance(value, kind or hint)


@cache
def hints_of(kind: Callable[..., Any]) -> Mapping[str, Any]:
    """The resolved annotations of a class or function."""
    return get_type_hints(kind)


def _required(content: Any, kind: type[Any], what: str) -> Any:
    if not isinstance(content, kind):
        raise ValueError(f"{what} that is {quoted(str(content))}")
    return content


def _listed(names: Any) -> str:
    return quoted(", ".join(map(str, names)))[1:-1]
