"""LIBSVM's model files, line by line.

    svm_type c_svc          keywords and their values, each keyword once
    kernel_type rbf
    gamma 0.25
    nr_class 3              k
    total_sv 30             l
    rho 0.1 0.2 0.3         k (k - 1) / 2 intercepts; one for regression and one-class machines
    label 1 2 3             k labels, only for classifiers
    nr_sv 10 12 8           k counts of support vectors, only for classifiers
    SV                      then l lines of k - 1 coefficients and index:value pairs
    1 0.5 1:0.25 4:-1

A file is read completely and exactly, or refused with a `DataFileError` that names the line.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from os import PathLike
from typing import Any, NamedTuple, NoReturn

from maxmargin.io.bytes_and_text import open_bytes, read_bytes
from maxmargin.io.table import DataFileError, quoted

SVM_TYPES = {"c_svc": "SVC", "nu_svc": "NuSVC", "one_class": "OneClassSVM", "epsilon_svr": "SVR", "nu_svr": "NuSVR"}
KERNEL_TYPES = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid", "precomputed": "precomputed"}
CLASSIFIERS = ("c_svc", "nu_svc")
KERNEL_PARAMETERS = {"polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
LARGEST_INTEGER = 2**31 - 1  # LIBSVM's integers have 32 bits
BEGINNING = b"svm_type "
MOST_DIGITS = 20  # digits of a whole number, leading zeros included

FilePath = str | PathLike[str]
Lines = Iterator[tuple[int, bytes]]


@dataclass
class ModelFile:
    """What a model file says, in LIBSVM's own terms."""

    svm_type: str
    kernel_type: str
    parameters: dict[str, Any]  # parameters of the kernel
    rho: list[float]
    labels: list[int]  # empty for regression and one-class machines, like n_support
    n_support: list[int]
    coefficients: list[list[float]] = field(default_factory=list)  # a list for each support vector
    rows: list[dict[int, float]] = field(default_factory=list)  # the support vectors


class Keyword(NamedTuple):
    """How a value after a keyword is read (the reader returns None for an invalid one), and the rule for the error message."""

    read: Callable[[bytes], Any]
    must_be: str


def is_model_file(path: FilePath) -> bool:
    """Whether the file begins as LIBSVM's model files do, perhaps after a byte order mark."""
    with open_bytes(path) as file:
        head: bytes = file.read(len(codecs.BOM_UTF8) + len(BEGINNING))
    return head.removeprefix(codecs.BOM_UTF8).startswith(BEGINNING)


def parse_model_file(path: FilePath) -> ModelFile:
    """Read a file that `svm_save_model` or `svm-train` wrote."""
    if not is_model_file(path):
        reason = "not a LIBSVM model file, which begins with 'svm_type'; for a pickled model pass the model"
        raise DataFileError(path, reason)
    lines: Lines = enumerate(io.BytesIO(read_bytes(path)), start=1)
    header = _Header(path, lines)
    model = header.checked()
    total = header.only("total_sv")
    n_coefficients = max(len(model.labels) - 1, 1)
    serial_of: dict[int, int] = {}  # for a precomputed kernel: the line on which each sample number stands
    for number, line in lines:
        words = line.split()
        if not words:
            continue
        try:
            coefficients, row = _support_vector(words, n_coefficients)
            if model.kernel_type == "precomputed":
                serial = _serial_number(row)
                if serial_of.setdefault(serial, number) != number:
                    raise ValueError(f"sample {serial} for the second time, after line {serial_of[serial]}")
            elif 0 in row:
                raise ValueError("index 0: the features must count from 1 (train on a file whose indices do)")
        except ValueError as error:
            raise DataFileError(path, str(error), number) from None
        model.coefficients.append(coefficients)
        model.rows.append(row)
    if len(model.rows) != total:
        raise DataFileError(path, f"{len(model.rows)} support vectors where its header says {total}: was it cut off?")
    return model


class _Header:
    """The lines up to the line SV: the values after each keyword, and the number of its line."""

    def __init__(self, path: FilePath, lines: Lines) -> None:
        self.path = path
        self.values: dict[str, list[Any]] = {}
        self.line_of: dict[str, int] = {}
        for number, line in lines:
            name, *words = line.split() or [b""]
            if name == b"SV":
                return
            if name:
                self._add(name, words, number)

    def _add(self, keyword: bytes, words: list[bytes], number: int) -> None:
        name = keyword.decode("ascii", errors="replace")
        if name not in KEYWORDS:
            raise DataFileError(self.path, f"{quoted(keyword)} is not a keyword of LIBSVM's model files", number)
        if name in self.values:
            raise DataFileError(self.path, f"{name} for the second time, after line {self.line_of[name]}", number)
        values = [KEYWORDS[name].read(word) for word in words]
        if None in values:
            wrong = quoted(words[values.index(None)])[1:-1]
            raise DataFileError(self.path, f"{name} {wrong}: must be {KEYWORDS[name].must_be}", number)
        self.line_of[name] = number
        self.values[name] = values

    def checked(self) -> ModelFile:
        """The content of the header, after a check that it is complete and consistent."""
        svm_type, kernel_type, n_classes = (self.only(name) for name in ("svm_type", "kernel_type", "nr_class"))
        if svm_type not in CLASSIFIERS and n_classes != 2:
            self._refuse("nr_class", f"{n_classes}: must be 2 where svm_type is {svm_type}")
        rho = self._several("rho", n_classes * (n_classes - 1) // 2)
        labels, counts = list[int](), list[int]()
        if svm_type in CLASSIFIERS:
            labels, counts = self._several("label", n_classes), self._several("nr_sv", n_classes)
            if len(set(labels)) < n_classes:
                self._refuse("label", "has the same label twice")
            if sum(counts) != self.only("total_sv"):
                self._refuse("nr_sv", f"adds up to {sum(counts)}: must be total_sv {self.only('total_sv')}")
        parameters = {name: self.only(name) for name in KERNEL_PARAMETERS.get(kernel_type, ())}
        return ModelFile(svm_type, kernel_type, parameters, rho, labels, counts)

    def only(self, name: str) -> Any:
        return self._several(name, 1)[0]

    def _several(self, name: str, n_values: int) -> list[Any]:
        if name not in self.values:
            raise DataFileError(self.path, f"no {name} in its header: was it cut off?")
        if len(self.values[name]) != n_values:
            self._refuse(name, f"has {len(self.values[name])} values where there must be {n_values}")
        return self.values[name]

    def _refuse(self, name: str, reason: str) -> NoReturn:
        raise DataFileError(self.path, f"{name} {reason}", self.line_of[name])


def _support_vector(words: list[bytes], n_coefficients: int) -> tuple[list[float], dict[int, float]]:
    """The coefficients and the features of one line; a ValueError says what is wrong with it."""
    wanted = f"not {n_coefficients} coefficients and pairs index:value"
    if len(words) < n_coefficients:
        raise ValueError(f"{wanted}, but {len(words)} values")
    coefficients, row, previous = [], {}, -1
    for word in words[:n_coefficients]:
        if (coefficient := _number(word)) is None:
            raise ValueError(f"{wanted}: {quoted(word)} is not a finite number")
        coefficients.append(coefficient)
    for word in words[n_coefficients:]:
        name, _, text = word.partition(b":")
        index, value = _count(name), _number(text)
        if index is None or value is None:
            raise ValueError(f"{wanted}: {quoted(word)} is not an index of at most {LARGEST_INTEGER} and a finite number")
        if index <= previous:
            raise ValueError(f"index {index} after index {previous}: indices must increase along a line")
        row[index] = value
        previous = index
    return coefficients, row


def _serial_number(row: dict[int, float]) -> int:
    """The number of a sample: all that a model with a precomputed kernel stores of a support vector."""
    serial = row.get(0, 0.0)
    if not serial.is_integer() or not 1 <= serial <= LARGEST_INTEGER:
        raise ValueError("no pair 0:number, which says the number of the sample where kernel_type is precomputed")
    return int(serial)


def _number(word: bytes) -> float | None:
    """A finite number, or None. 1_000, which Python reads and C does not, is None."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if isfinite(value) and b"_" not in word else None


def _not_negative(word: bytes) -> float | None:
    value = _number(word)
    return value if value is not None and value >= 0 else None


def _whole(word: bytes) -> int | None:
    digits = word[1:] if word[:1] in (b"-", b"+") else word
    if not digits.isdigit() or len(digits) > MOST_DIGITS:
        return None
    return int(word) if abs(int(word)) <= LARGEST_INTEGER else None


def _count(word: bytes, least: int = 0) -> int | None:
    value = _whole(word)
    return value if value is not None and value >= least else None


def _one_of(names: dict[str, str]) -> Keyword:
    known = {name.encode(): name for name in names}
    return Keyword(known.get, f"one of {', '.join(names)}")


def _count_from(least: int) -> Keyword:
    return Keyword(lambda word: _count(word, least), f"a whole number from {least} to {LARGEST_INTEGER}")


_FINITE = Keyword(_number, "a finite number")
KEYWORDS = {
    "svm_type": _one_of(SVM_TYPES),
    "kernel_type": _one_of(KERNEL_TYPES),
    "degree": _count_from(0),
    "gamma": Keyword(_not_negative, "a finite number, 0 or more"),
    "coef0": _FINITE,
    "nr_class": _count_from(2),
    "total_sv": _count_from(1),
    "rho": _FINITE,
    "label": Keyword(_whole, f"a whole number of at most {LARGEST_INTEGER}"),
    "nr_sv": _count_from(0),
    "probA": _FINITE,
    "probB": _FINITE,
    "prob_density_marks": _FINITE,
}
