"""Models that have the attributes of scikit-learn's estimators.

The libraries agree on `support_`, `support_vectors_`, `dual_coef_`, `intercept_` and on the names of the parameters. Where they
differ:

    library        class_weight in NuSVC   two classes: positive is   intercept_                 precision
    scikit-learn   ignored                 the second                 b                          float64
    -intelex       honoured                the second                 b                          that of X
    cuML           (no NuSVC)              the second                 b, a number or an array    that of X
    ThunderSVM     ignored                 the first to appear in y   -b                         float32
    maxmargin      honoured                the second                 b                          float64
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from maxmargin.audits.fitted import MACHINES, Fitted
from maxmargin.multiclass import BINARY_STRATEGIES

LIBRARIES = {
    "sklearn": "scikit-learn",
    "sklearnex": "scikit-learn-intelex",
    "daal4py": "scikit-learn-intelex",
    "cuml": "cuML",
    "thundersvm": "ThunderSVM",
    "maxmargin": "maxmargin",
}
HONOUR_CLASS_WEIGHT_WITH_NU = ("scikit-learn-intelex", "maxmargin")
AUGMENTING_SOLVER = "dual-ascent"  # the solver of maxmargin whose intercept is regularised
FLOAT32_ROUNDING = float(np.finfo(np.float32).eps)


def read_attributes(model: Any) -> Fitted:
    """Read a fitted estimator through its public attributes."""
    machine, library = _machine_of(model), _library_of(model)
    _require_fitted(model)
    coefficients = np.atleast_2d(_dense(on_host(model.dual_coef_)))
    fitted = Fitted(
        library=library,
        machine=machine,
        coefficients=coefficients.astype(np.float64),
        intercepts=np.atleast_1d(np.asarray(on_host(model.intercept_), dtype=np.float64)),
        support=_support(model),
        vectors=_vectors(model),
        n_samples=_first(getattr(model, "shape_fit_", None)),
        n_features=getattr(model, "n_features_in_", None),
        kernel=model.kernel,
        gamma=model.gamma,
        degree=model.degree,
        coef0=model.coef0,
        C=getattr(model, "C", None),
        nu=getattr(model, "nu", None),
        epsilon=getattr(model, "epsilon", None),
        tol=getattr(model, "tol", None),
        precision=float(np.finfo(coefficients.dtype).eps),
    )
    if fitted.classifies:
        fitted = replace(fitted, **_class_facts(model, fitted))
    if library == "ThunderSVM":
        return _from_thundersvm(fitted)
    if library == "maxmargin":
        return _from_maxmargin(model, fitted)
    return fitted


def on_host(values: Any) -> Any:
    """Copy an array into host memory: arrays of cuDF and pandas have `to_numpy`, arrays of CuPy have `get`."""
    if isinstance(values, np.ndarray) or sp.issparse(values) or not hasattr(values, "__array_ufunc__"):
        return values
    fetch = getattr(values, "to_numpy", None) or getattr(values, "get", None)
    return values if fetch is None else fetch()


def _machine_of(model: Any) -> str:
    names = [kind.__name__ for kind in type(model).__mro__]
    machine = next((name for name in names if name in MACHINES), None)
    if machine is not None:
        return machine
    kind = names[0]
    if kind.startswith(("Linear", "SGD")):
        raise TypeError(
            f"{kind} keeps no dual coefficients, and without a dual point nothing is proved: audit SVC(kernel='linear') or "
            "SVR(kernel='linear') instead"
        )
    hint = ": pass model.best_estimator_" if hasattr(model, "best_estimator_") else ""
    hint = hint or (": audit each of model.estimators_" if hasattr(model, "estimators_") else "")
    raise TypeError(
        f"model is a {kind}, not a machine that can be audited{hint}. Those are {', '.join(MACHINES)} of scikit-learn and the "
        "libraries with its attributes, LIBSVM's svm_model, the path of a LIBSVM model file, or a Pipeline that ends in one"
    )


def _library_of(model: Any) -> str:
    modules = [kind.__module__.partition(".")[0] for kind in type(model).__mro__]
    return next((LIBRARIES[module] for module in modules if module in LIBRARIES), modules[0])


def _require_fitted(model: Any) -> None:
    missing = [name for name in ("support_", "dual_coef_", "intercept_") if getattr(model, name, None) is None]
    if not missing:
        return
    if getattr(model, "n_classes_", 0) > 2:  # cuML has a machine for each pair of classes, but publishes none of them
        raise ValueError(
            f"this {type(model).__name__} has {model.n_classes_} classes and no {missing[0]} of its own: audit its binary "
            "machines one by one, for example those of sklearn.multiclass.OneVsOneClassifier(model).fit(X, y).estimators_"
        )
    raise NotFittedError(f"this {type(model).__name__} has no {missing[0]}: it is not fitted; call fit before audit")


def _class_facts(model: Any, fitted: Fitted) -> dict[str, Any]:
    """The classes, their weights, and how the support vectors are sorted."""
    classes = getattr(model, "classes_", None)
    facts: dict[str, Any] = {"class_weight": getattr(model, "class_weight", None) or None}
    if classes is not None:
        facts["classes"] = np.asarray(on_host(classes))
        if getattr(model, "class_weight_", None) is not None:
            weights = np.asarray(on_host(model.class_weight_), dtype=np.float64)
            facts["class_weight"] = dict(zip(facts["classes"].tolist(), weights.tolist(), strict=True))
    if fitted.machine == "NuSVC" and fitted.library not in HONOUR_CLASS_WEIGHT_WITH_NU:
        facts["class_weight"] = None
    counts = np.atleast_1d(np.asarray(on_host(model.n_support_))) if hasattr(model, "n_support_") else np.empty(0)
    if len(counts) > 1 and counts.sum() == fitted.coefficients.shape[1]:
        facts["n_support"] = counts.astype(np.intp)
    return facts


def _from_thundersvm(fitted: Fitted) -> Fitted:
    """Convert ThunderSVM's values, which have scikit-learn's names but LIBSVM's conventions."""
    coefficients, intercepts = fitted.coefficients, -fitted.intercepts
    if fitted.classifies and len(intercepts) == 1:
        coefficients, intercepts = -coefficients, -intercepts
    kernel = "poly" if fitted.kernel == "polynomial" else fitted.kernel
    return replace(fitted, coefficients=coefficients, intercepts=intercepts, kernel=kernel, precision=FLOAT32_ROUNDING)


def _from_maxmargin(model: Any, fitted: Fitted) -> Fitted:
    strategy = getattr(model, "multi_class", "ovo")
    if strategy not in BINARY_STRATEGIES:
        raise ValueError(f"multi_class={strategy!r}: a machine of all classes at once is not audited; read its certificate_")
    intercept = getattr(model, "fit_intercept", True)
    augmented = intercept and getattr(model, "solver_", None) == AUGMENTING_SOLVER
    return replace(
        fitted,
        gamma=model.gamma_,
        loss=getattr(model, "loss", None),
        fit_intercept=intercept and not augmented,
        augmented=augmented,
        strategy=strategy,
    )


def _support(model: Any) -> NDArray[np.intp] | None:
    """The sample numbers of the support vectors; None if they are -1, as in a model that was read from a LIBSVM file."""
    numbers = np.asarray(on_host(model.support_)).astype(np.intp).ravel()
    return None if (numbers < 0).any() else numbers


def _vectors(model: Any) -> Any:
    """The support vectors; None if the kernel is a matrix or a callable."""
    vectors = getattr(model, "support_vectors_", None)
    if vectors is None or callable(model.kernel) or model.kernel == "precomputed":
        return None
    return on_host(vectors)


def _dense(values: Any) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values.toarray() if sp.issparse(values) else values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _first(shape: Any) -> int | None:
    return None if shape is None else int(shape[0])
