"""LIBSVM's model files.

    svm_type c_svc          keywords and their values, each keyword once
    kernel_type rbf
    gamma 0.25
    nr_class 3              k
    total_sv 30             l
    rho 0.1 0.2 0.3         k (k - 1) / 2 intercepts; one for regression and one-class machines
    label 1 2 3             k labels, only for classifiers
    probA -1.5 -2 -1.7      k (k - 1) / 2 slopes and (probB) offsets, only with probabilities
    nr_sv 10 12 8           k counts of support vectors, only for classifiers
    SV                      then l lines of k - 1 coefficients and index:value pairs
    1 0.5 1:0.25 4:-1

LIBSVM's conventions: a decision is the kernel sum less rho; the first class is the positive one; classes are in the order of
their first appearance in the training set; features and samples count from one. A model file stores neither C, nu, epsilon nor
the sample numbers of the support vectors; LIBSVM prints their features with eight digits, and `write_libsvm_model` as many as
there are.

A file is read completely and exactly, or refused with a `DataFileError` that names the line.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin.calibration import Sigmoid
from maxmargin.io.bytes_and_text import open_bytes, read_bytes
from maxmargin.io.libsvm import MOST_FEATURES
from maxmargin.io.table import DataFileError, FilePath, quoted
from maxmargin.kernels import make_kernel

SVM_TYPES = {"c_svc": "SVC", "nu_svc": "NuSVC", "one_class": "OneClassSVM", "epsilon_svr": "SVR", "nu_svr": "NuSVR"}
KERNEL_TYPES = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid", "precomputed": "precomputed"}
CLASSIFIERS = ("c_svc", "nu_svc")
KERNEL_PARAMETERS = {"polynomial": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
LARGEST_INTEGER = 2**31 - 1  # LIBSVM's integers have 32 bits
BEGINNING = b"svm_type "
MOST_DIGITS = 20  # digits of a whole number, leading zeros included

DENSE_FROM = 0.5  # share of stored entries from which support vectors are a dense array
#: What a file does not say, and the machine needs for a fit
UNKNOWN = {"SVC": ("C",), "NuSVC": ("nu",), "OneClassSVM": ("nu",), "SVR": ("C", "epsilon"), "NuSVR": ("C", "nu")}
UNKNOWN_SAMPLE = -1

Lines = Iterator[tuple[int, bytes]]


@dataclass(frozen=True)
class LibsvmModel:
    """A model in LIBSVM's own terms, and in scikit-learn's."""

    svm_type: str
    kernel_type: str
    parameters: dict[str, Any]  # parameters of the kernel
    rho: list[float]
    labels: list[int]  # empty for regression and one-class machines, like n_support
    n_support: list[int]
    coefficients: list[list[float]] = field(default_factory=list)  # a list for each support vector
    rows: list[dict[int, float]] = field(default_factory=list)  # the support vectors
    probability: tuple[list[float], list[float]] | None = None  # probA and probB

    @property
    def sign(self) -> float:
        """LIBSVM's first class is the positive one; scikit-learn's is the second of two, and the first of each pair of more."""
        return -1.0 if len(self.labels) == 2 else 1.0

    @property
    def dual_coef(self) -> NDArray[np.float64]:
        return self.sign * np.array(self.coefficients, dtype=np.float64).T

    @property
    def intercept(self) -> NDArray[np.float64]:
        return -self.sign * np.array(self.rho, dtype=np.float64)

    @property
    def sample_numbers(self) -> NDArray[np.int32] | None:
        """The numbers, from zero, of the support vectors in the training set; only known for a precomputed kernel."""
        if self.kernel_type != "precomputed":
            return None
        return np.array([int(row[0]) - 1 for row in self.rows], dtype=np.int32)


def read_libsvm_model(path: FilePath, *, n_features: int | None = None) -> Any:
    """Read a model file of LIBSVM as a fitted SVC, NuSVC, SVR, NuSVR or OneClassSVM, which predicts as `svm-predict` does.

    What such a file does not hold is not invented: the parameters C, nu and epsilon are None, ``support_`` is -1 unless the
    kernel is precomputed, and there is no ``certificate_`` (`maxmargin.audit` computes one from the training set). ``classes_``
    has the order of the file if there are more than two, because LIBSVM gives a tied vote to the first of them. Probabilities
    of regression and one-class machines (probA, prob_density_marks) are left out.

    Parameters
    ----------
    path : str or path
        The file; .gz, .bz2 and .xz are unpacked.
    n_features : int, default=None
        The number of features, or of training samples for a precomputed kernel. None: the largest index in the file, which may be
        too small if the support vectors lack the last features.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR or OneClassSVM
        The fitted model.

    Raises
    ------
    DataFileError
        With the line number, for anything that is not such a file.

    See Also
    --------
    write_libsvm_model : The way back.
    load : Reads models with everything that they know.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.io import read_libsvm_model, write_libsvm_model
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_libsvm_model(model, pathlib.Path(folder) / "iris.model")
    ...     again = read_libsvm_model(pathlib.Path(folder) / "iris.model")
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    from maxmargin import estimators  # late, because estimators import this room to save themselves

    file = parse_libsvm_model(path)
    machine, kernel = SVM_TYPES[file.svm_type], KERNEL_TYPES[file.kernel_type]
    settings = {**dict.fromkeys(UNKNOWN[machine]), "kernel": kernel, **file.parameters}
    if file.labels:
        settings["probability"] = file.probability is not None
    model = getattr(estimators, machine)(**settings)
    model.gamma_ = float(file.parameters.get("gamma", 1.0))
    model.kernel_ = make_kernel(kernel, model.gamma_, float(model.coef0), model.degree)
    model.dual_coef_, model.intercept_ = file.dual_coef, file.intercept
    n = len(file.rows)
    numbers = file.sample_numbers
    model.support_ = np.full(n, UNKNOWN_SAMPLE, dtype=np.int32) if numbers is None else numbers
    vectors = rows_to_matrix(file.rows)
    width = vectors.shape[1] if numbers is None else int(numbers.max(initial=0)) + 1
    if width > (n_features or MOST_FEATURES):
        way_out = "" if n_features else " (a mistake? if not, pass n_features)"
        raise DataFileError(path, f"an index of {width:,}, where there are at most {n_features or MOST_FEATURES:,}{way_out}")
    model.n_features_in_ = n_features or width
    vectors.resize((n, model.n_features_in_))
    model.support_vectors_ = np.empty((0, 0)) if numbers is not None else _dense_if_filled(vectors)
    model.n_support_ = np.array(file.n_support or [n], dtype=np.int32)
    if machine == "OneClassSVM":
        model.offset_ = -model.intercept_
    if file.labels:
        _add_classes(model, file)
    return model


def _add_classes(model: Any, file: LibsvmModel) -> None:
    """The classes of a machine and the sigmoids of its probabilities. Two classes are put in ascending order, so that a positive
    decision means the second as everywhere."""
    model.classes_ = np.array(file.labels)
    slopes, offsets = file.probability or ([], [])
    model.calibration_ = tuple(Sigmoid(slope, file.sign * offset) for slope, offset in zip(slopes, offsets, strict=True))
    if len(file.labels) == 2 and file.labels[0] > file.labels[1]:
        order = np.argsort(np.repeat([1, 0], model.n_support_), kind="stable")
        model.classes_, model.n_support_ = model.classes_[::-1].copy(), model.n_support_[::-1].copy()
        model.dual_coef_, model.intercept_ = np.ascontiguousarray(-model.dual_coef_[:, order]), -model.intercept_
        model.support_ = model.support_[order]
        if model.support_vectors_.shape[0]:  # none for a precomputed kernel
            model.support_vectors_ = model.support_vectors_[order]
        model.calibration_ = tuple(Sigmoid(one.slope, -one.offset) for one in model.calibration_)


def write_libsvm_model(model: Any, path: FilePath) -> None:
    """Write a fitted SVC, NuSVC, SVR, NuSVR or OneClassSVM as a model file, which `svm-predict` and `read_libsvm_model` read.

    LIBSVM knows the kernels linear, poly (of a whole degree), rbf, sigmoid and precomputed, classes that are whole numbers, a
    machine for each pair of classes, and Platt's sigmoid. Other models are refused. Numbers are written with all of their digits,
    but the format has no certificate.

    Parameters
    ----------
    model : SVC, NuSVC, SVR, NuSVR or OneClassSVM
        The fitted model.
    path : str or path
        The file.

    See Also
    --------
    read_libsvm_model : The way back.
    save : Writes models with everything that they know.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> from maxmargin.io import write_libsvm_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "iris.model"
    ...     write_libsvm_model(SVC().fit(*load_iris(return_X_y=True)), file)
    ...     print(file.read_text().splitlines()[0])
    svm_type c_svc
    """
    file = _in_libsvm_terms(model)
    lines = [f"svm_type {file.svm_type}", f"kernel_type {file.kernel_type}"]
    lines += [f"{name} {value!r}" for name, value in file.parameters.items()]
    lines += [f"nr_class {len(file.labels) or 2}", f"total_sv {len(file.rows)}", _line("rho", file.rho)]
    if file.labels:
        lines.append(_line("label", file.labels))
    if file.probability:
        lines += [_line(name, values) for name, values in zip(("probA", "probB"), file.probability, strict=True)]
    if file.labels:
        lines.append(_line("nr_sv", file.n_support))
    lines.append("SV")
    for coefficients, row in zip(file.coefficients, file.rows, strict=True):
        pairs = " ".join(f"{index}:{value!r}" for index, value in row.items())
        lines.append(f"{' '.join(map(repr, coefficients))} {pairs}")
    with open(path, "w", encoding="ascii", newline="\n") as text:
        text.write("\n".join(lines) + "\n")


def _in_libsvm_terms(model: Any) -> LibsvmModel:
    types = {machine: svm_type for svm_type, machine in SVM_TYPES.items()}
    kernels = {kernel: kernel_type for kernel_type, kernel in KERNEL_TYPES.items()}
    name = type(model).__name__
    if name not in types:
        raise TypeError(f"model is a {name}: LIBSVM's files hold {', '.join(types)} (use model.save(path))")
    check_is_fitted(model)
    kernel = model.kernel_.name
    if kernel not in kernels or not float(getattr(model.kernel_, "degree", 1)).is_integer():
        raise ValueError(f"kernel={model.kernel!r}: LIBSVM has {', '.join(kernels)} with a whole degree (use model.save(path))")
    if not len(model.support_):
        raise ValueError("the model has no support vectors, and LIBSVM's files need one")
    labels = _integer_labels(model) if hasattr(model, "classes_") else []
    two = len(labels) == 2
    if len(labels) > 2 and model.multi_class != "ovo":
        raise ValueError(f"multi_class={model.multi_class!r}: LIBSVM has a machine for each pair (fit with multi_class='ovo')")
    probability = None
    if labels and model.probability:
        if not all(isinstance(one, Sigmoid) for one in model.calibration_):
            raise ValueError(f"calibration={model.calibration!r}: LIBSVM has 'sigmoid' (or call set_params(probability=False))")
        sign = -1.0 if two else 1.0
        probability = [one.slope for one in model.calibration_], [sign * one.offset for one in model.calibration_]
    parameters = {name: getattr(model.kernel_, name) for name in KERNEL_PARAMETERS.get(kernels[kernel], ())}
    if "degree" in parameters:
        parameters["degree"] = int(parameters["degree"])
    return LibsvmModel(
        svm_type=types[name],
        kernel_type=kernels[kernel],
        parameters=parameters,
        rho=((1.0 if two else -1.0) * model.intercept_).tolist(),
        labels=labels,
        n_support=model.n_support_.tolist() if labels else [],
        coefficients=((-1.0 if two else 1.0) * _toarray(model.dual_coef_).T).tolist(),
        rows=_rows(model),
        probability=probability,
    )


def _integer_labels(model: Any) -> list[int]:
    classes = model.classes_
    if classes.dtype.kind not in "iu" or abs(classes).max() > LARGEST_INTEGER:
        raise ValueError(
            f"classes_={quoted(str(classes.tolist()))}: LIBSVM's labels are whole numbers of 32 bits (fit with numbers, for "
            "example those of sklearn.preprocessing.LabelEncoder)"
        )
    labels: list[int] = classes.tolist()
    return labels


def _rows(model: Any) -> list[dict[int, float]]:
    """The support vectors: the features that are not zero, or the number of the sample for a precomputed kernel; from one."""
    if model.kernel_.name == "precomputed":
        return [{0: int(number) + 1} for number in model.support_]
    vectors = sp.csr_array(model.support_vectors_)
    ends = zip(vectors.indptr, vectors.indptr[1:])  # noqa: B905
    return [dict(zip((vectors.indices[i:j] + 1).tolist(), vectors.data[i:j].tolist(), strict=True)) for i, j in ends]


def _line(keyword: str, values: Sequence[float]) -> str:
    return " ".join([keyword, *map(repr, values)])


def _toarray(values: Any) -> NDArray[np.float64]:
    return np.asarray(values.toarray() if sp.issparse(values) else values)


def _dense_if_filled(vectors: sp.csr_array) -> Any:
    return vectors.toarray() if vectors.nnz > DENSE_FROM * vectors.shape[0] * vectors.shape[1] else vectors


def rows_to_matrix(rows: Sequence[Mapping[int, float]], n_columns: int = 1) -> sp.csr_array:
    """Samples in the form of LIBSVM's Python module, {index: value} with indices from one, as CSR with at least `n_columns`
    columns. Index 0, the serial number of a precomputed kernel, is left out."""
    pairs = [[(index - 1, value) for index, value in sorted(row.items()) if index > 0] for row in rows]
    indices = np.array([index for row in pairs for index, _ in row], dtype=np.int32)
    values = np.array([value for row in pairs for _, value in row], dtype=np.float64)
    ends = np.cumsum([0, *map(len, pairs)])
    n_columns = max(n_columns, int(indices.max(initial=-1)) + 1)
    return sp.csr_array((values, indices, ends.astype(np.int32)), shape=(len(rows), n_columns))


class Keyword(NamedTuple):
    """How a value after a keyword is read (the reader returns None for an invalid one), and the rule for the error message."""

    read: Callable[[bytes], Any]
    must_be: str


def is_libsvm_model(path: FilePath) -> bool:
    r"""Whether the file begins as LIBSVM's model files do, perhaps after a byte order mark.

    Parameters
    ----------
    path : str or path
        The file; .gz, .bz2 and .xz are unpacked.

    Returns
    -------
    bool
        Whether `read_libsvm_model` is the reader for it.

    See Also
    --------
    read_libsvm_model : Reads such a file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin.io import is_libsvm_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "a.model"
    ...     _ = file.write_text("svm_type c_svc\n")
    ...     is_libsvm_model(file)
    True
    """
    with open_bytes(path) as file:
        head: bytes = file.read(len(codecs.BOM_UTF8) + len(BEGINNING))
    return head.removeprefix(codecs.BOM_UTF8).startswith(BEGINNING)


def parse_libsvm_model(path: FilePath) -> LibsvmModel:
    """Read a file that `svm_save_model` or `svm-train` wrote."""
    if not is_libsvm_model(path):
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

    def checked(self) -> LibsvmModel:
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
        probability = None
        if svm_type in CLASSIFIERS and ("probA" in self.values or "probB" in self.values):
            probability = self._several("probA", len(rho)), self._several("probB", len(rho))
        return LibsvmModel(svm_type, kernel_type, parameters, rho, labels, counts, probability=probability)

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
