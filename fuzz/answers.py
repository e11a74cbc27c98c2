r"""Whether ``decision_function`` and ``predict`` say on the training set what the returned coefficients mean.

A decision is sum_j beta_j k(x_j, x) + b. In an arithmetic with unit roundoff u, with d features and m support vectors, it may be
off by about (m + d) u times the size of what is added up, sum_j |beta_j| M_j + |b| (see `exact_kernels`): that is the tolerance,
with a factor of 4 and 32 added to m + d. For kernels with an exponential it is at least `LEAST_RELATIVE_TOLERANCE` times that
size: a squared distance from products may lose some digits, but not half of them. float32 data may be answered in float32.

A predicted class is compared where the decisions it follows from are farther from a tie than the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .exact_kernels import Exact, ExactKernel
from .findings import Finding
from .linear_machines import decisions_of
from .oracle import Joint, Point, Ridge
from .problems import Problem

LEAST_RELATIVE_TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 2.0**-17}
SAFETY, EXTRA_TERMS = 4.0, 32
TRANSCENDENTAL = ("rbf", "laplacian", "exponential", "sigmoid")
#: Kernel values below this may be flushed to zero, or to the smallest value that a fast exponential knows.
UNDERFLOW = {np.dtype(np.float64): 1e-300, np.dtype(np.float32): 1e-36}


def expected(model: Any, points: Sequence[Point]) -> tuple[Exact, Exact]:
    """The decisions of all machines, a column each, and the sizes of the terms that are added up in them."""
    intercepts = np.atleast_1d(getattr(model, "intercept_", 0.0)).astype(np.longdouble)
    if isinstance(points[0].machine, Ridge):
        return points[0].sums, points[0].sizes
    if isinstance(points[0].machine, Joint):
        return _of_classes(model, points[0], intercepts)
    sums = np.column_stack([point.sums[:, 0] / point.machine.scale for point in points])
    sizes = np.column_stack([np.abs(point.sizes[:, 0] / point.machine.scale) for point in points])
    return sums + intercepts, sizes + np.abs(intercepts)


def _of_classes(model: Any, point: Point, intercepts: Exact) -> tuple[Exact, Exact]:
    """The scores of a machine of all classes; the score of a class without weight is its intercept."""
    k = len(point.machine.B)
    if len(model.classes_) == 2:
        difference = point.sums[:, 1] - point.sums[:, 0]
        return difference[:, None], (point.sizes[:, 0] + point.sizes[:, 1])[:, None]
    sums = np.zeros((len(point.sums), len(model.classes_)), dtype=np.longdouble)
    sizes = np.zeros_like(sums)
    rows = np.flatnonzero(intercepts == 0) if k < len(model.classes_) else np.arange(k)
    sums[:, rows], sizes[:, rows] = point.sums[:, :k], point.sizes[:, :k]
    return sums + intercepts, sizes + np.abs(intercepts)


def check_answers(model: Any, problem: Problem, kernel: ExactKernel, points: Sequence[Point]) -> list[Finding]:
    """Findings about the decisions and predictions for the training samples."""
    decisions, sizes = expected(model, points)
    dtype = problem.X.dtype
    n_terms = EXTRA_TERMS + kernel.n_features + len(getattr(model, "support_", problem.X))
    tolerance = SAFETY * n_terms * float(np.finfo(dtype).eps) * sizes
    if kernel.name in TRANSCENDENTAL:
        total = max(float(np.abs(np.asarray(column, dtype=float)).sum()) for column in _coefficients(model))
        tolerance = np.maximum(tolerance, LEAST_RELATIVE_TOLERANCE[dtype] * sizes) + UNDERFLOW[dtype] * total
    return compare_answers(model, problem.arranged(), decisions, tolerance)


def check_linear_answers(model: Any, problem: Problem) -> list[Finding]:
    """Like `check_answers`, for the weights of a linear machine."""
    decisions, sizes = decisions_of(model, problem)
    n_terms = EXTRA_TERMS + problem.X.shape[1]
    return compare_answers(model, problem.arranged(), decisions, SAFETY * n_terms * float(np.finfo(np.float64).eps) * sizes)


def compare_answers(model: Any, X: Any, decisions: Exact, tolerance: Exact) -> list[Finding]:
    """Findings about decisions and predictions that differ from the given decisions by more than a tolerance."""
    findings = []
    values = given_decisions(model, X).reshape(decisions.shape)
    off = np.abs(values - decisions)
    bad = ~(off <= tolerance)
    if bad.any():
        at = np.unravel_index(np.argmax(np.where(bad, np.where(np.isnan(off), np.inf, off), 0)), off.shape)
        text = (
            f"decision of sample {at[0]} is {values[at]:.10g}, by its coefficients it is "
            f"{float(decisions[at]):.10g} (tolerance {float(tolerance[at]):.2g}); "
            f"{int(bad.any(axis=1).sum())} of {len(values)} samples are off"
        )
        findings.append(Finding("WRONG_MODEL", "decision", text))
    findings += _check_predictions(model, X, decisions, tolerance)
    return findings + _check_probabilities(model, X)


def _coefficients(model: Any) -> Any:
    return model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else np.atleast_2d(model.dual_coef_)


def given_decisions(model: Any, X: Any) -> NDArray[Any]:
    """The model's own decisions, a column for each machine."""
    if not hasattr(model, "decision_function"):
        return np.asarray(model.predict(X))
    shape = getattr(model, "decision_function_shape", None)
    if shape is None:
        return np.asarray(model.decision_function(X))
    try:
        return np.asarray(model.set_params(decision_function_shape="ovo").decision_function(X))
    finally:
        model.set_params(decision_function_shape=shape)


def _check_predictions(model: Any, X: Any, decisions: Exact, tolerance: Exact) -> list[Finding]:
    if not hasattr(model, "decision_function"):
        return []
    clear = np.abs(decisions) > tolerance
    predicted = np.asarray(model.predict(X))
    if not hasattr(model, "classes_"):
        wanted, certain = np.where(decisions[:, 0] >= 0, 1, -1), clear[:, 0]
    else:
        classes, k = model.classes_, len(model.classes_)
        if k == 2:
            wanted, certain = classes[(decisions[:, 0] > 0).astype(int)], clear[:, 0]
        elif getattr(model, "multi_class", "ovo") == "ovo":
            votes = np.zeros((len(decisions), k), dtype=int)
            for column, (i, j) in enumerate(combinations(range(k), 2)):
                votes[:, i] += decisions[:, column] > 0
                votes[:, j] += decisions[:, column] <= 0
            wanted, certain = classes[votes.argmax(axis=1)], clear.all(axis=1)
        else:
            ranked = np.sort(decisions, axis=1)
            wanted = classes[decisions.argmax(axis=1)]
            certain = ranked[:, -1] - ranked[:, -2] > 2 * tolerance.max(axis=1)
    wrong = np.flatnonzero(certain & (predicted != wanted))
    if not len(wrong):
        return []
    at = wrong[0]
    text = f"sample {at} is predicted {predicted[at]!r}, its decisions say {wanted[at]!r}; {len(wrong)} samples are wrong"
    return [Finding("WRONG_MODEL", "prediction", text)]


def _check_probabilities(model: Any, X: Any) -> list[Finding]:
    if not getattr(model, "probability", False):
        return []
    shares = np.asarray(model.predict_proba(X))
    fine = np.isfinite(shares).all() and (shares >= 0).all() and (np.abs(shares.sum(axis=1) - 1) < 1e-9).all()
    return [] if fine else [Finding("WRONG_MODEL", "probability", "predict_proba has rows that are not probabilities")]
