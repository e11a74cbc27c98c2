"""Models of LIBSVM itself: the `svm_model` of its Python module, and its model files.

LIBSVM's conventions: a decision is the kernel sum less rho; the first class is the positive one; classes are in the order of
their first appearance in the training set; features and samples count from one. A model file stores neither C, nu, epsilon nor
the sample numbers of the support vectors, and prints their features with eight digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.audits.fitted import Fitted
from maxmargin.audits.model_file import KERNEL_TYPES, SVM_TYPES, parse_model_file

PRINTED_DIGITS = 8  # significant digits of a feature in a model file


@dataclass(frozen=True)
class Contents:
    """What `svm_model` and model files have in common, in LIBSVM's conventions."""

    svm_type: str
    kernel_type: str
    coefficients: NDArray[np.float64]
    rho: list[float]
    rows: list[dict[int, float]]  # the support vectors
    labels: list[int] = field(default_factory=list)
    n_support: list[int] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)  # further fields of `Fitted`, by name

    def as_fitted(self) -> Fitted:
        """The model in scikit-learn's conventions."""
        coefficients, intercepts = self.coefficients, -np.array(self.rho)
        if len(self.labels) == 2:
            coefficients, intercepts = -coefficients, -intercepts
        facts = dict(self.more)
        if self.kernel_type == "precomputed" and "support" not in facts:
            facts["support"] = np.array([int(row[0]) - 1 for row in self.rows], dtype=np.intp)
        return Fitted(
            library="LIBSVM",
            machine=SVM_TYPES[self.svm_type],
            coefficients=coefficients,
            intercepts=intercepts,
            support=facts.pop("support", None),
            vectors=None if self.kernel_type == "precomputed" else rows_to_matrix(self.rows),
            kernel=KERNEL_TYPES[self.kernel_type],
            classes=np.array(self.labels) if self.labels else None,
            n_support=np.array(self.n_support, dtype=np.intp) if self.n_support else None,
            **facts,
        )


def is_svm_model(model: Any) -> bool:
    return type(model).__name__ == "svm_model" and hasattr(model, "get_sv_coef")


def read_svm_model(model: Any) -> Fitted:
    """Read a model that `svm_train` returned or `svm_load_model` loaded."""
    parameters, n_classes = model.param, model.nr_class
    svm_type = list(SVM_TYPES)[parameters.svm_type]
    more = {"gamma": parameters.gamma, "coef0": parameters.coef0, "degree": parameters.degree}
    if model.sv_indices:  # trained in this process; a loaded model has neither these nor the parameters of the fit
        more |= {"C": parameters.C, "nu": parameters.nu, "epsilon": parameters.p, "tol": parameters.eps}
        more["support"] = np.array(model.get_sv_indices(), dtype=np.intp) - 1
        if svm_type == "c_svc" and parameters.nr_weight > 0:
            more["class_weight"] = UNREADABLE_WEIGHTS
    else:
        more["digits"] = PRINTED_DIGITS
    return Contents(
        svm_type=svm_type,
        kernel_type=list(KERNEL_TYPES)[parameters.kernel_type],
        coefficients=np.array(model.get_sv_coef(), dtype=np.float64).reshape(model.l, n_classes - 1).T,
        rho=model.rho[: n_classes * (n_classes - 1) // 2],
        rows=model.get_SV(),
        labels=model.get_labels() if model.label else [],
        n_support=model.nSV[:n_classes] if model.nSV else [],
        more=more,
    ).as_fitted()


#: svm_model points to class weights that Python has freed when svm_train returns.
UNREADABLE_WEIGHTS = "unreadable"


def read_model_file(path: str | PathLike[str]) -> Fitted:
    """Read a file that `svm_save_model` or `svm-train` wrote."""
    file = parse_model_file(path)
    return Contents(
        svm_type=file.svm_type,
        kernel_type=file.kernel_type,
        coefficients=np.array(file.coefficients, dtype=np.float64).T,
        rho=file.rho,
        rows=file.rows,
        labels=file.labels,
        n_support=file.n_support,
        more=file.parameters | {"digits": PRINTED_DIGITS},
    ).as_fitted()


def rows_to_matrix(rows: Sequence[Mapping[int, float]], n_columns: int = 1) -> sp.csr_array:
    """Samples in the form of LIBSVM's Python module, {index: value} with indices from one, as CSR with at least `n_columns`
    columns. Index 0, the serial number of a precomputed kernel, is left out."""
    pairs = [[(index - 1, value) for index, value in sorted(row.items()) if index > 0] for row in rows]
    indices = np.array([index for row in pairs for index, _ in row], dtype=np.int32)
    values = np.array([value for row in pairs for _, value in row], dtype=np.float64)
    ends = np.cumsum([0, *map(len, pairs)])
    n_columns = max(n_columns, int(indices.max(initial=-1)) + 1)
    return sp.csr_array((values, indices, ends.astype(np.int32)), shape=(len(rows), n_columns))
