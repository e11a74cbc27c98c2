"""`audit`: read a model, pose its problems, and prove in float64 how well it solves them.

An audit answers two questions. How good is the dual point? The certificate says so, for the best intercept. How good is the model
as it is used, with the intercept it has? The primal value at that intercept less the same dual value says so. With
G = K beta + linear and v the levels of the groups (minus the intercept; for nu-machines plus and minus the width of the margin or
the tube),

    primal(w, v) = 1/2 |w|^2 + sum_i loss_i(G_i - v) - sum_g (sum of group g) v_g,

where the losses are the gap terms at beta = 0. A nu-machine does not store its width; the audit takes the best one for its
intercept.

A point outside its box, or with wrong sums, proves nothing; the dual value is then that of a feasible point near it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array

from maxmargin.audits.attributes import on_host, read_attributes
from maxmargin.audits.fitted import Fitted
from maxmargin.audits.libsvm import UNREADABLE_WEIGHTS, is_svm_model, read_model_file, read_svm_model
from maxmargin.audits.posing import Posed, pose
from maxmargin.audits.verdict import Audit, Finding, give_verdict
from maxmargin.backends import make_backend
from maxmargin.certificates import certify, recompute
from maxmargin.estimators import validation
from maxmargin.estimators.diagnosis import is_indefinite
from maxmargin.formulations import DualProblem
from maxmargin.gram import ExactSums, Gram
from maxmargin.io.libsvm_model import rows_to_matrix
from maxmargin.kernels import make_kernel
from maxmargin.training import largest_norm

Vector = NDArray[np.float64]

ROUNDED_SUMS = 1e-12  # rounding error that counts as a zero sum, relative to the sizes of the coefficients
LARGEST_COEFFICIENT = 1e100  # largest coefficient or intercept that can be audited
LARGEST_SUM = 1e150  # largest sum of kernel values times coefficients; products with LARGEST_COEFFICIENT still fit into float64
AT_BOUND = 1e4  # a coefficient this many times its rounding error from a bound, relative to the box, counts as at the bound


def audit(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    C: float | None = None,
    nu: float | None = None,
    epsilon: float | None = None,
    kernel: str | Callable[..., Any] | None = None,
    gamma: float | str | None = None,
    degree: float | None = None,
    coef0: float | None = None,
    class_weight: Any = None,
    tol: float | None = None,
) -> Audit:
    """The certificate of a model that another library fitted: its true primal value, dual value, gap and KKT violation.

    Parameters
    ----------
    model : estimator, svm_model, str or path
        A fitted SVC, NuSVC, SVR, NuSVR or OneClassSVM of scikit-learn, scikit-learn-intelex, cuML, ThunderSVM or maxmargin; an
        ``svm_model`` of LIBSVM's Python module; the path of a LIBSVM model file; or a Pipeline that ends in one of these.
    X, y, sample_weight
        The training data of the model. For a precomputed kernel X is the kernel matrix; for LIBSVM it may be a list of dicts.
    C, nu, epsilon, kernel, gamma, degree, coef0, class_weight, tol
        Parameters of the fit that the model does not store (a LIBSVM file lacks ``C``, ``nu``, ``epsilon`` and the class
        weights). A value given here replaces one that the model stores.

    Returns
    -------
    Audit
        ``print`` it, or read its ``sentence``.

    See Also
    --------
    Audit : What is returned.
    Certificate : The proof of a model that was fitted here.

    Examples
    --------
    >>> import sklearn.svm
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import audit
    >>> X, y = load_iris(return_X_y=True)
    >>> found = audit(sklearn.svm.SVC(tol=0.1).fit(X, y), X, y)
    >>> print(found.sentence)  # doctest: +ELLIPSIS
    The model is within ... of the optimum, relative; its stopping tolerance held...
    """
    if isinstance(model, Pipeline):
        X, model = model[:-1].transform(X) if len(model) > 1 else X, model[-1]
    given = {
        "C": C, "nu": nu, "epsilon": epsilon, "kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0,
        "class_weight": class_weight, "tol": tol,
    }  # fmt: skip
    fitted = replace(_read(model), **{name: value for name, value in given.items() if value is not None})
    if isinstance(fitted.class_weight, str) and fitted.class_weight == UNREADABLE_WEIGHTS:
        raise ValueError("class_weight: LIBSVM's svm_model does not keep them: pass class_weight={label: weight, ...}")
    _require_moderate(fitted)
    X = _samples(fitted, X)
    weights = validation.sample_weights(sample_weight, X)
    validation.require_weight(weights)
    gamma = fitted.gamma if isinstance(fitted.gamma, str) else float(fitted.gamma)
    unresolved = make_kernel(fitted.kernel, gamma, float(fitted.coef0), fitted.degree)
    samples = unresolved.samples(X)
    resolved = unresolved.resolved(samples)
    backend = make_backend("auto")
    with backend.session(len(samples) ** 2):
        task, machines, support = pose(fitted, resolved, samples, None if y is None else on_host(y), weights, backend)
        findings = [_examine(machine, fitted.precision) for machine in machines]
    certificate = task.together([finding.certificate for finding in findings])
    indefinite = is_indefinite(resolved, samples, support)
    return give_verdict(fitted, findings, certificate, indefinite, weightless=bool((weights[support] == 0.0).any()))


def _read(model: Any) -> Fitted:
    if isinstance(model, str | PathLike):
        return read_model_file(model)
    return read_svm_model(model) if is_svm_model(model) else read_attributes(model)


def _require_moderate(fitted: Fitted) -> None:
    """Refuse coefficients so large that the primal and dual values would be infinite or NaN; no fit produces them."""
    for name, values in (("a dual coefficient", fitted.coefficients), ("an intercept", fitted.intercepts)):
        largest = float(np.abs(values).max(initial=0.0))
        if not largest <= LARGEST_COEFFICIENT:
            raise ValueError(f"the model has {name} of size {largest:.3g}, too large to be audited: was it changed or damaged?")


def _samples(fitted: Fitted, X: Any) -> Any:
    """X in float64, as the library saw it: rounded to float32 first if the library stores support vectors in float32."""
    if callable(fitted.kernel):
        return X if hasattr(X, "shape") else np.asarray(X)
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        X = rows_to_matrix(X, 1 if fitted.vectors is None else fitted.vectors.shape[1])
    validation.require_valid_sparse(X)
    X = validation.canonical(check_array(on_host(X), accept_sparse="csr", dtype=np.float64, order="C", input_name="X"))
    if fitted.kernel == "precomputed":
        X = _square(X)
    if fitted.n_features not in (None, X.shape[1]):
        raise ValueError(f"X has {X.shape[1]} features, and the model was fitted on {fitted.n_features}: pass its training set")
    if fitted.vectors is not None and fitted.vectors.dtype == np.float32:
        X = X.astype(np.float32).astype(np.float64)
    return X


def _square(K: Any) -> Any:
    """A precomputed kernel matrix, without the serial numbers that LIBSVM requires in its first column."""
    n = K.shape[0]
    if sp.issparse(K) and K.shape[1] <= n + 1:
        K = K.toarray()
    if K.shape[1] == n + 1 and (K[:, 0] == np.arange(1, n + 1)).all():
        K = np.ascontiguousarray(K[:, 1:])
    if sp.issparse(K) or K.shape != (n, n):
        raise ValueError(f"X has shape {K.shape}: with a precomputed kernel it must be the dense kernel matrix, {n} by {n}")
    return K


def _examine(posed: Posed, precision: float) -> Finding:
    """The certificate of a machine's dual point, and the primal value of the machine itself."""
    problem, beta = posed.problem, posed.beta
    outside = float(np.maximum(problem.lower - beta, beta - problem.upper).max(initial=0.0))
    amiss = float(np.abs(problem.residuals(beta)).max(initial=0.0))
    size = float(np.abs(beta).sum())
    feasible = outside == 0.0 and amiss <= ROUNDED_SUMS * size
    snapped = _at_the_bounds(problem, beta, AT_BOUND * precision)
    point = beta if feasible else problem.feasible(snapped)

    sums, error = _kernel_sums(posed.gram, beta)
    point_sums, point_error = (sums, error) if feasible else _kernel_sums(posed.gram, point)
    gradient_there = recompute(problem, point, lambda at: ExactSums(point_sums[None, at], point_error[None, at]))
    proof = certify(problem, point, gradient_there, lambda: largest_norm(posed.gram, point))
    shift = 0.0 if problem.shift is None else problem.shift
    violation = problem.violation(snapped, sums + problem.linear + shift * beta)

    gradient = sums + problem.linear + shift * point

    def primal(levels: Vector) -> float:
        return _primal_value(problem, beta, sums, levels, error)

    return Finding(
        certificate=replace(proof, kkt_violation=violation, box_residual=outside, equality_residual=amiss),
        primal_as_is=primal(_levels_with(problem, posed.bias, point, gradient)),
        primal_best_bias=primal(problem.levels(point, gradient)),
        leaves_box=bool((np.clip(snapped, problem.lower, problem.upper) != snapped).any()),
        misses_sums=amiss > AT_BOUND * precision * size,
        no_margin=posed.margin is not None and posed.margin <= violation,
    )


def _kernel_sums(gram: Gram, beta: Vector) -> tuple[Vector, Vector]:
    """K beta, every entry in float64, and a bound on the rounding error of each entry."""
    support = np.flatnonzero(beta).astype(np.int32)
    with np.errstate(over="ignore", invalid="ignore"):
        sums, error, _ = gram.exact_sums(support, beta[support][None, :], np.arange(len(beta), dtype=np.int32))
    if not np.abs(sums).max(initial=0.0) <= LARGEST_SUM:
        raise ValueError(
            "the kernel values are too large to be audited: are gamma, coef0 and degree those of the fit, and are the features "
            "scaled as they were for it?"
        )
    return sums[0], np.broadcast_to(error, sums.shape)[0]


def _at_the_bounds(problem: DualProblem, beta: Vector, tolerance: float) -> Vector:
    """`beta` with variables moved to a bound that they miss by rounding only; variables farther outside stay where they are."""
    room = tolerance * np.minimum(problem.upper - problem.lower, np.abs(beta).max(initial=0.0))
    at_lower, at_upper = np.abs(beta - problem.lower) <= room, np.abs(problem.upper - beta) <= room
    return np.where(at_lower, problem.lower, np.where(at_upper, problem.upper, beta))


def _levels_with(problem: DualProblem, bias: float, point: Vector, gradient: Vector) -> Vector:
    """The levels that belong to an intercept: -bias for one group; -bias + t and -bias - t, with the best t, for two groups.

    To find t the second group is mirrored, so that both have the level t and form one group, whose best level is known.
    """
    if problem.split is None:
        return np.full(len(problem.groups), -bias)
    side = np.where(np.arange(len(problem)) < problem.split, 1.0, -1.0)
    mirrored = DualProblem(
        linear=np.zeros(len(problem)),
        lower=np.where(side > 0.0, problem.lower, -problem.upper),
        upper=np.where(side > 0.0, problem.upper, -problem.lower),
    )
    (width,) = mirrored.levels(side * point, side * (gradient + bias))
    return np.array([-bias + width, -bias - width])


def _primal_value(problem: DualProblem, beta: Vector, sums: Vector, levels: Vector, error: Vector) -> float:
    """An upper bound on the primal value at (w, v), given that no kernel sum is off by more than `error`."""
    level = problem.at_variables(levels)
    if problem.hard:  # the value of the machine scaled until no margin is too small
        gradient = sums + problem.linear
        return problem.dual_value(beta, gradient) + float(problem.gap_terms(beta, gradient, level, error).sum())
    losses = problem.gap_terms(np.zeros(len(problem)), sums + problem.linear, level, error)
    constant = -problem.residuals(np.zeros(len(problem)))  # the required sums of the groups
    half_norm = 0.5 * float(beta @ sums + error @ np.abs(beta))
    return half_norm + float(losses.sum()) - float(constant @ levels)
