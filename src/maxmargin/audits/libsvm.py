"""Models of LIBSVM itself: the `svm_model` of its Python module, and its model files (`maxmargin.io.libsvm_model`)."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from maxmargin.audits.fitted import Fitted
from maxmargin.io.libsvm_model import KERNEL_TYPES, SVM_TYPES, LibsvmModel, parse_libsvm_model, rows_to_matrix

PRINTED_DIGITS = 8  # significant digits of a feature in a model file


def _as_fitted(model: LibsvmModel, **facts: Any) -> Fitted:
    """The model in scikit-learn's conventions; `facts` are further fields."""
    support = facts.pop("support", model.sample_numbers)
    return Fitted(
        library="LIBSVM",
        machine=SVM_TYPES[model.svm_type],
        coefficients=model.dual_coef,
        intercepts=model.intercept,
        support=None if support is None else support.astype(np.intp),
        vectors=None if model.kernel_type == "precomputed" else rows_to_matrix(model.rows),
        kernel=KERNEL_TYPES[model.kernel_type],
        classes=np.array(model.labels) if model.labels else None,
        n_support=np.array(model.n_support, dtype=np.intp) if model.n_support else None,
        **model.parameters,
        **facts,
    )


def is_svm_model(model: Any) -> bool:
    return type(model).__name__ == "svm_model" and hasattr(model, "get_sv_coef")


def read_svm_model(model: Any) -> Fitted:
    """Read a model that `svm_train` returned or `svm_load_model` loaded."""
    parameters, n_classes = model.param, model.nr_class
    svm_type = list(SVM_TYPES)[parameters.svm_type]
    more: dict[str, Any] = {}
    if model.sv_indices:  # trained in this process; a loaded model has neither these nor the parameters of the fit
        more |= {"C": parameters.C, "nu": parameters.nu, "epsilon": parameters.p, "tol": parameters.eps}
        more["support"] = np.array(model.get_sv_indices(), dtype=np.intp) - 1
        if svm_type == "c_svc" and parameters.nr_weight > 0:
            more["class_weight"] = UNREADABLE_WEIGHTS
    else:
        more["digits"] = PRINTED_DIGITS
    contents = LibsvmModel(
        svm_type=svm_type,
        kernel_type=list(KERNEL_TYPES)[parameters.kernel_type],
        parameters={"gamma": parameters.gamma, "coef0": parameters.coef0, "degree": parameters.degree},
        rho=model.rho[: n_classes * (n_classes - 1) // 2],
        labels=model.get_labels() if model.label else [],
        n_support=model.nSV[:n_classes] if model.nSV else [],
        coefficients=model.get_sv_coef(),
        rows=model.get_SV(),
    )
    return _as_fitted(contents, **more)


#: svm_model points to class weights that Python has freed when svm_train returns.
UNREADABLE_WEIGHTS = "unreadable"


def read_model_file(path: str | PathLike[str]) -> Fitted:
    """Read a file that `svm_save_model` or `svm-train` wrote."""
    return _as_fitted(parse_libsvm_model(path), digits=PRINTED_DIGITS)
