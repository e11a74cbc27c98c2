"""Checks of the user's arguments and data. An error names the argument, its value, the rule and the way out."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from maxmargin.cluster import PartitionedRows, is_collection
from maxmargin.formulations import Loss
from maxmargin.formulations.losses.base import names as loss_names
from maxmargin.kernels import Kernel, is_precomputed, kernel_names

Vector = NDArray[np.float64]

_LITTLE_MEMORY = 64_000_000  # bytes of cache that are always allowed
LARGEST_TARGET = 1e15  # of regression: neighbouring float64 numbers above it differ by more than any useful tol
VALUES_AT_ONCE, VALUES_SORTED_AT_ONCE = 1 << 24, 1 << 18
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
#: What counts as a number; the usual types come first, because asking an abstract class takes many times as long.
NUMBERS, WHOLE_NUMBERS = (float, int, Real), (int, Integral)


class InvalidParameterError(ValueError, TypeError):
    """A parameter that breaks its rule. Like scikit-learn's error it is a ValueError and a TypeError, and it has the same
    wording if it is known which estimator the parameter belongs to."""

    def __init__(self, name: str, value: Any, rule: str, owner: str | None = None) -> None:
        super().__init__(name, value, rule, owner)

    def __str__(self) -> str:
        name, value, rule, owner = self.args
        if owner is None:
            return f"{name}={value!r}: {rule}"
        return f"The {name!r} parameter of {owner} {rule}. Got {value!r} instead."


class ParametersOf:
    """A context in which an error about a parameter names the estimator."""

    def __init__(self, estimator: Any) -> None:
        self._owner = type(estimator).__name__

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, InvalidParameterError):
            name, value, rule, owner = error.args
            raise InvalidParameterError(name, value, rule, owner or self._owner) from None


def positive(name: str, value: Any, *, zero_ok: bool = False, infinite_ok: str | None = None, hint: str = "") -> float:
    """`value` as a float > 0 (or >= 0)."""
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        raise InvalidParameterError(name, value, f"must be a number{hint}")
    number = float(value)
    if number == math.inf and infinite_ok is not None:
        return number
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_ok):
        rule = "must be a finite number >= 0" if zero_ok else "must be positive"
        raise InvalidParameterError(name, value, f"{rule}{hint}")
    return number


def finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        raise InvalidParameterError(name, value, "must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise InvalidParameterError(name, value, "must be a finite number")
    return number


def share(name: str, value: Any) -> float:
    """`value` as a share in (0, 1]."""
    number = finite(name, value)
    if not 0.0 < number <= 1.0:
        raise InvalidParameterError(name, value, "must be in (0, 1]")
    return number


def choice(name: str, value: Any, allowed: Sequence[str], or_else: str = "") -> str:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidParameterError(name, value, f"must be one of {', '.join(allowed)}{or_else}")
    return value


def steps(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, WHOLE_NUMBERS) or (value < 0 and value != -1):
        raise InvalidParameterError(name, value, "must be a whole number >= 0, or -1 for no limit")
    return int(value)


def count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, WHOLE_NUMBERS) or value < 1:
        raise InvalidParameterError(name, value, "must be a whole number >= 1")
    return int(value)


def tolerances(tol: Any, gap_tol: Any) -> None:
    """Check that tol and gap_tol are positive, and that at least one of them can end a fit."""
    if gap_tol is not None:
        positive("gap_tol", gap_tol, hint=" (or None, to stop on tol alone)")
    number = positive("tol", tol, infinite_ok="the gap decides", hint=" (or numpy.inf, to stop on gap_tol alone)")
    if number == np.inf and gap_tol is None:
        raise ValueError("tol=inf and gap_tol=None: nothing would end the fit; give one of them a number")


def callbacks(given: Any) -> None:
    """Check that `given` is a list of callables, or None."""
    if given is None or (isinstance(given, Sequence) and all(callable(one) for one in given)):
        return
    raise InvalidParameterError("callbacks", given, "must be a list of callables (callbacks=[f] for one), or None")


def kernel_parameters(estimator: Any) -> None:
    """Check kernel, gamma or sigma, coef0 and degree; those of a kernel object too."""
    kernel = estimator.kernel
    if not isinstance(kernel, str) and isinstance(kernel, Kernel):
        _parameters_of("kernel.", kernel)
    elif not callable(kernel):
        choice("kernel", kernel, kernel_names(), ", a Kernel, or a callable k(A, B)")
    _parameters_of("", estimator)
    gamma, sigma = estimator.gamma, estimator.sigma
    if sigma is not None:
        positive("sigma", sigma)
        if gamma != "scale":
            raise ValueError(f"sigma={sigma!r} and gamma={gamma!r}: they say the same; give one of them")


def _parameters_of(prefix: str, owner: Any) -> None:
    """Check those of gamma, coef0 and degree that the owner has."""
    if hasattr(owner, "coef0"):
        finite(f"{prefix}coef0", owner.coef0)
    if hasattr(owner, "degree"):
        positive(f"{prefix}degree", owner.degree, zero_ok=True)
    gamma = getattr(owner, "gamma", 1.0)
    if not isinstance(gamma, str):
        positive(f"{prefix}gamma", gamma, hint=" (or 'scale', or 'auto')")
    elif gamma not in ("scale", "auto"):
        raise InvalidParameterError(f"{prefix}gamma", gamma, "must be 'scale', 'auto' or a positive number")


def loss(value: Any, *, regression: bool = False) -> None:
    if isinstance(value, str) or not isinstance(value, Loss):
        choice("loss", value, loss_names(regression=regression), ", or a Loss")


def cache_bytes(value: Any, enough: int) -> int:
    """A cache size in MB as bytes; 'auto' is `enough` bytes, but at most half of the free memory."""
    if isinstance(value, str):
        if value != "auto":
            raise InvalidParameterError("cache_size", value, "must be a number of MB, or 'auto' for half of the free memory")
        return enough if enough <= _LITTLE_MEMORY else min(enough, free_memory() // 2)
    return int(positive("cache_size", value, hint=" (in MB; use 'auto' for half of the free memory)") * 1e6)


def free_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 2_000_000_000


def samples(
    estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool, numeric_targets: bool = False, in_any_order: bool = False
) -> Any:
    """X (and y) after scikit-learn's checks: float32 or float64, in C order or CSR, and finite; an error says where it is not.

    A callable kernel may be defined on samples that are not rows of numbers; these stay as they are. The columns of CSR rows are
    unique, and ascend unless `in_any_order` is set, which saves the copy of unsorted rows.
    """
    require_targets(estimator, y)
    if isinstance(X, PartitionedRows):
        return _validated_rows(estimator, X, y, numeric_targets)
    if is_collection(X):
        raise ValueError(
            f"X is a Dask collection: this method of {type(estimator).__name__} must get an array (X.compute()), or the "
            "partitions one by one (X.map_blocks). SVC, NuSVC, SVR, NuSVR, OneClassSVM and linear machines train on collections"
        )
    if hasattr(X, "as_samples"):
        return _validated_on_device(estimator, X, y, reset, numeric_targets)
    if callable(estimator.kernel) and (things := _not_rows_of_numbers(X)) is not None:
        if isinstance(y, str):
            return things
        check_consistent_length(things, y)
        return things, column_or_1d(y)
    if _needs_no_conversion(X) and (isinstance(y, str) or _are_labels(y, len(X))) and _fits(estimator, X, reset):
        require_finite(estimator, X)
        return X if isinstance(y, str) else (X, y)
    if is_precomputed(estimator.kernel) and sp.issparse(X):
        raise TypeError("Sparse precomputed kernels are not supported: pass X.toarray()")
    require_valid_sparse(X)
    checked = validate_data(
        estimator,
        X,
        y,
        reset=reset,
        dtype=[np.float64, np.float32],
        order="C",
        accept_sparse="csr",
        accept_large_sparse=True,
        ensure_all_finite=False,
        **({"y_numeric": True} if numeric_targets else {}),
    )
    rows, *targets = checked if isinstance(checked, tuple) else (checked,)
    rows = canonical(rows, in_any_order)
    require_finite(estimator, rows)
    return (rows, *targets) if targets else rows


def require_targets(estimator: Any, y: Any) -> None:
    if y is None:  # scikit-learn's sentence
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")


def _validated_rows(estimator: Any, X: PartitionedRows, y: Any, numeric_targets: bool) -> Any:
    """Like `samples`, for rows on workers, which have checked the entries."""
    vars(estimator).pop("feature_names_in_", None)
    if X.names is not None:
        estimator.feature_names_in_ = X.names
    estimator.n_features_in_ = X.shape[1]
    if isinstance(y, str):
        return X
    y = column_or_1d(y, warn=True)
    return X, y.astype(np.float64) if numeric_targets else y


def _validated_on_device(estimator: Any, X: Any, y: Any, reset: bool, numeric_targets: bool) -> Any:
    """Like `samples`, for rows on a card, which stay there."""
    if not len(X):
        raise ValueError(f"X has shape {X.shape}: must have one sample at least")
    if not _fits(estimator, X, reset) and (expected := estimator.n_features_in_) != X.shape[1]:
        name = type(estimator).__name__
        raise ValueError(f"X has {X.shape[1]} features, but {name} is expecting {expected} features as input")
    if not X.is_finite():
        require_finite(estimator, np.asarray(X))
    if isinstance(y, str):
        return X
    check_consistent_length(X, y)
    y = column_or_1d(y, warn=True)
    return X, y.astype(np.float64) if numeric_targets else y


def require_valid_sparse(X: Any) -> None:
    """Raise a ValueError if a compressed sparse matrix has indices out of bounds: scikit-learn does not check them, and code that
    uses them would read arbitrary memory."""
    if sp.issparse(X) and X.format in ("csr", "csc", "bsr"):
        try:
            _without_flags(X).check_format(full_check=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"X is not a valid sparse matrix: {error}") from None


def canonical(X: Any, in_any_order: bool = False) -> Any:
    """X as CSR with unique column indices in each row, which ascend unless `in_any_order` is set; copied if necessary. Dense
    rows as they are."""
    if not sp.issparse(X):
        return X
    fresh = _without_flags(X)
    if not (fresh.has_canonical_format or (in_any_order and _has_unique_columns(fresh))):
        fresh = fresh.copy()
        fresh.sum_duplicates()
    return fresh


def _without_flags(X: Any) -> Any:
    """A new sparse matrix on the same arrays, without flags that may be wrong. (The constructor of scipy.sparse.csr_matrix would
    copy indices of 64 bits.)"""
    fresh = type(X)(X.shape, dtype=X.dtype)
    fresh.data, fresh.indices, fresh.indptr = X.data, X.indices, X.indptr
    return fresh


def _has_unique_columns(X: Any) -> bool:
    """Whether no row of a CSR matrix has a column twice, without a copy of the matrix: some rows are sorted at a time."""
    height = max(1, VALUES_SORTED_AT_ONCE * X.shape[0] // max(X.nnz, 1))
    for first in range(0, X.shape[0], height):
        some = X[first : first + height]
        some.sort_indices()
        if not some.has_canonical_format:
            return False
    return True


def samples_and_targets(estimator: Any, X: Any, y: Any) -> tuple[Any, Vector]:
    """X as `samples` gives it, and one finite number per sample."""
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind == "f":
        finite_targets(estimator, y)  # before scikit-learn refuses them without saying where
    X, y = samples(estimator, X, y, reset=True, numeric_targets=True)
    return X, finite_targets(estimator, y)


def finite_targets(estimator: Any, y: NDArray[Any]) -> Vector:
    targets = np.asarray(y, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(targets))
    if len(bad):
        what = "NaN" if np.isnan(targets[bad[0]]) else "infinity"
        raise ValueError(
            f"Input y contains {what}: {len(bad)} such value{'s' if len(bad) > 1 else ''}, the first at row {bad[0]}. "
            "Targets must be finite numbers: drop these rows"
        )
    largest = float(np.abs(targets).max(initial=0.0))
    if largest > LARGEST_TARGET:
        raise ValueError(
            f"y has values as large as {largest:.3g}: no arithmetic resolves errors of tol={estimator.tol:g} at that scale; "
            "scale the targets, for example with sklearn.compose.TransformedTargetRegressor"
        )
    return targets


def classes_and_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes, at least two, and for each sample the number of its class."""
    if y.dtype.kind not in "iubU":
        check_classification_targets(y)
    classes, labels = _counted(y) if _are_small_numbers(y) else np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class "
            f"({classes.tolist()[0]!r}): a classifier needs samples of two classes at least"
        )
    return classes, labels


def _are_small_numbers(y: NDArray[Any]) -> bool:
    """Whether labels are whole numbers from 0 up to their count at most, so that a table has room for all of them."""
    return bool(y.dtype.kind in "ib" and y.min(initial=0) == 0 and y.max(initial=0) <= len(y))


def _counted(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The same as `numpy.unique` with the inverse, which sorts, for labels that are small numbers."""
    classes = np.bincount(y).nonzero()[0]
    return classes.astype(y.dtype), classes.searchsorted(y)


def _needs_no_conversion(X: Any) -> bool:
    """Whether X already is an array of the right kind, so that scikit-learn's checks, which cost more than a small fit, can be
    skipped."""
    return type(X) is np.ndarray and X.dtype in _FLOATS and X.ndim == 2 and X.size > 0 and bool(X.flags.c_contiguous)


def _fits(estimator: Any, X: NDArray[Any], reset: bool) -> bool:
    """Store the number of features of a new training set; for queries, return whether they have as many, without names to
    check."""
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return True
    return not hasattr(estimator, "feature_names_in_") and X.shape[1] == estimator.n_features_in_


def _are_labels(y: Any, n: int) -> bool:
    """Whether y is an array of n whole numbers, booleans or strings."""
    return type(y) is np.ndarray and y.dtype.kind in "iubU" and y.shape == (n,)


def _not_rows_of_numbers(X: Any) -> NDArray[Any] | None:
    """An array of samples that are not rows of numbers (strings, images, graphs, ...); None if X is the usual matrix."""
    if sp.issparse(X):
        return None
    things = np.asarray(X)
    return things if things.ndim > 0 and (things.dtype.kind in "OSU" or things.ndim > 2) else None


def require_finite(estimator: Any, X: Any) -> None:
    values = X.data if sp.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(values.sum()):  # one pass over the data in the usual case; a finite sum has finite terms
            return
    flat = values.reshape(-1)
    parts = range(0, len(flat), VALUES_AT_ONCE)  # a mask of all values would be a quarter of a memory map of float32
    bad = np.concatenate([start + np.flatnonzero(~np.isfinite(flat[start : start + VALUES_AT_ONCE])) for start in parts])
    if not len(bad):
        return
    if sp.issparse(X):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        column = int(X.indices[bad[0]])
        value = X.data[bad[0]]
    else:
        row, column = (int(i) for i in np.unravel_index(bad[0], X.shape))
        value = X[row, column]
    names = getattr(estimator, "feature_names_in_", None)
    feature = f"column {column}" + (f" ({names[column]!r})" if names is not None else "")
    what = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(
        f"Input X contains {what}: {len(bad)} such value{'s' if len(bad) > 1 else ''}, the first at row {row}, "
        f"{feature}. {type(estimator).__name__} needs finite numbers: impute (sklearn.impute) or drop these rows."
    )


def sample_weights(weights: Any, X: Any) -> Vector:
    """One weight per sample, at least zero; a negative one counts as zero, as in LIBSVM."""
    n = X.shape[0]
    if weights is None:
        return np.ones(n)
    if isinstance(weights, Real):
        weights = np.full(n, float(weights))
    weights = check_array(weights, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got shape {weights.shape}")
    check_consistent_length(X, weights)
    return np.asarray(np.maximum(weights, 0.0))


def require_weight(weights: Vector) -> None:
    if not (weights > 0.0).any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")


def require_two_classes(y: NDArray[np.integer], weights: Vector) -> None:
    require_weight(weights)
    taking_part = y[weights > 0]
    if (taking_part == taking_part[0]).all():
        raise ValueError("Invalid input - all samples with positive weights belong to the same class.")


def class_weights(spec: Any, classes: NDArray[Any], y: NDArray[np.integer], weights: Vector) -> Vector:
    """The weight of each class: given by label, or 'balanced' for the inverse of the class's share of the total weight."""
    if spec is None:
        return np.ones(len(classes))
    if isinstance(spec, str) and spec == "balanced":
        totals = np.bincount(y, weights=weights, minlength=len(classes))
        totals = np.where(totals > 0, totals, 1.0)
        return np.asarray(totals.sum() / (len(classes) * totals))
    if not isinstance(spec, Mapping):
        raise InvalidParameterError("class_weight", spec, "must be None, 'balanced' or a dict from labels to weights")
    factors = np.asarray(compute_class_weight(spec, classes=classes, y=classes[y]), dtype=np.float64)
    if (factors < 0).any() or not np.isfinite(factors).all():
        raise InvalidParameterError("class_weight", spec, "must have weights that are finite and not negative")
    return factors
