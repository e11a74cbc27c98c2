r"""The judge: which results count as findings.

A status that says converged is a promise about each machine of the model, and the certificate must say the same:

    CONVERGED     KKT violation <= tol; box and equality residuals at rounding level; relative gap <= gap_tol
    GAP_REACHED   residuals at rounding level; relative gap <= gap_tol

(for KernelRegressor the violation is the largest residual of the normal equations, relative to the largest target). A
gap that float64 cannot tell from zero counts as zero. ``gap_tol`` is 1e-3 unless something else was said, and None
promises nothing.

A certificate, whatever the status, is never optimistic: the true gap is at most what it says, up to 1e-9 of the
objective and the oracle's own rounding.
"""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from .answers import check_answers, check_linear_answers
from .findings import Finding
from .harmless import harm, weighted_variance
from .linear_machines import machines_of as linear_machines_of
from .oracle import OPTIMISM, Ridge, Truth, evaluate
from .problems import SEARCHES, Problem
from .reference import least
from .returned import class_weights, exact_kernel, machines_of

GAP_TOL = 1e-3  # the default of every estimator
RIDGE_TOL = {"sgd": 1e-3, "cg": 1e-10, "cholesky": 1e-10}  # what tol="auto" of KernelRegressor means
ZERO_OBJECTIVE = 1e-15  # an objective below this share of that of the machine w = 0 is zero up to rounding
RESIDUAL = 1e-9  # rounding level of box and equality residuals, relative
SLACK = 1e-6  # relative allowance in comparisons with a tolerance, because numbers are rounded
INDEFINITE = -1e-3  # times the largest eigenvalue: a kernel that is clearly not positive semi-definite
MOST_FOR_EIGENVALUES = 300  # support vectors
LONGEST_MESSAGE = 600  # characters of a clear sentence


# --- a fit that ended in an error ------------------------------------------------------------------------------------


def judge_error(error: Exception, problem: Problem) -> list[Finding]:
    """A finding, unless the error is a clear sentence about input that may be refused."""
    name = type(error).__name__
    text = f"{name}: {' '.join(str(error).split())[:300]}"
    if not isinstance(error, ValueError | TypeError):
        return [Finding("EXCEPTION", name, f"{text} (raised at {_where(error)})")]
    if not _is_ours(error) or not str(error).strip() or "\n" in str(error).strip() or len(str(error)) > LONGEST_MESSAGE:
        return [Finding("EXCEPTION", f"unclear {name}", f"{text} (raised at {_where(error)})")]
    if harm(problem) is None and not _is_beyond_backend(error):
        return [Finding("EXCEPTION", f"refused: {_first_words(str(error))}", f"harmless input is refused: {text}")]
    return []


def _frames(error: Exception) -> list[traceback.FrameSummary]:
    return list(traceback.extract_tb(error.__traceback__))


def _where(error: Exception) -> str:
    last = _frames(error)[-1]
    return f"{last.filename.rsplit('site-packages/', 1)[-1]}:{last.lineno}"


def _is_ours(error: Exception) -> bool:
    """Whether the library, or the validation of scikit-learn that it uses, raised the error on purpose."""
    name = _frames(error)[-1].filename.replace("\\", "/")
    return "/maxmargin/" in name or "/sklearn/" in name


def _is_beyond_backend(error: Exception) -> bool:
    """Whether a backend says that it does not take such a kernel or container, which its documentation says too."""
    return str(error).startswith("backend='cuda'")


def _first_words(text: str) -> str:
    """The first words of a message without its numbers, which identify the error."""
    words = [word for word in text.split() if not any(ch.isdigit() for ch in word)]
    return " ".join(words[:5])


# --- a fitted model --------------------------------------------------------------------------------------------------


def judge_models(models: Sequence[Any], problem: Problem, caught: Sequence[warnings.WarningMessage]) -> list[Finding]:
    """The findings about the models of a problem, each kind once."""
    findings = _judge_warnings(models, caught)
    for model in models:
        if problem.estimator in SEARCHES:
            findings += judge_search(model, problem.params.get("gap_tol", GAP_TOL))
            if not hasattr(model, "best_estimator_"):
                continue
            model = model.best_estimator_
        findings += judge_linear(model, problem) if problem.linear else judge_model(model, problem)
    return list({finding.key: finding for finding in reversed(findings)}.values())[::-1]


def _judge_warnings(models: Sequence[Any], caught: Sequence[warnings.WarningMessage]) -> list[Finding]:
    warned = [str(one.message) for one in caught if issubclass(one.category, ConvergenceWarning)]
    trouble = [model.status_.name for model in models if not model.status_.converged]
    if trouble and not warned:
        return [Finding("WARNING_MISSING", "silent", f"status {trouble[0]} without a ConvergenceWarning")]
    if warned and not trouble and not any(getattr(model, "warm_start", False) for model in models):
        return [Finding("WARNING_MISSING", "noisy", f"status {models[-1].status_.name}, yet: {warned[0][:150]}")]
    return []


def judge_search(model: Any, gap_tol: float | None) -> list[Finding]:
    """Findings about a search: every fit of a converged grid must have a gap within gap_tol."""
    if not model.status_.converged:
        return []
    gaps = [values for name, values in model.cv_results_.items() if name.endswith("_relative_gap")]
    worst = float(np.nanmax(np.concatenate(gaps)))
    if gap_tol is None or worst <= gap_tol * (1 + SLACK):
        return []
    return [
        Finding(
            "CONTRADICTION",
            "grid gap",
            f"status {model.status_.name}, relative gap of a fold {worst:.3g} > {gap_tol:g}",
        )
    ]


def judge_model(model: Any, problem: Problem) -> list[Finding]:
    """Findings about one fitted machine, regressor or multi-class model."""
    findings = _not_finite(model) or _wrong_attributes(model, problem)
    if findings:
        return findings
    kernel = exact_kernel(model, problem)
    machines = machines_of(model, problem)
    points = evaluate(kernel, machines)
    if not all(np.isfinite(point.sums).all() for point in points):
        return [Finding("WRONG_MODEL", "kernel", "the kernel of a support vector and a sample is not a finite number")]
    truths = [point.truth() for point in points]
    parts = model.certificate_.parts or (model.certificate_,)
    gap_tol = problem.params.get("gap_tol", GAP_TOL)
    if len(parts) != len(truths):
        return [Finding("WRONG_MODEL", "parts", f"{len(parts)} certificates for {len(truths)} machines")]
    for index, (part, truth) in enumerate(zip(parts, truths, strict=True)):
        of = f" of machine {index}" if len(parts) > 1 else ""
        findings += _optimism(part, truth, of, isinstance(machines[0], Ridge), callable(model.kernel))
        findings += _contradictions(model, gap_tol, part, truth, of)
    findings += _judge_whole(model.certificate_)
    if model.status_.converged:
        findings += _indefinite(model, problem, kernel)
    return findings + _answers(lambda: check_answers(model, problem, kernel, points))


def judge_linear(model: Any, problem: Problem) -> list[Finding]:
    """Findings about a linear model. It keeps no duals: the oracle's own solution stands for the optimum (`linear_machines`), and
    the violation, which is one of duals, is read in the certificate only."""
    findings = _not_finite(model) or _wrong_attributes(model, problem) or _wrong_shapes(model, problem)
    if findings:
        return findings
    machines = linear_machines_of(model, problem)
    parts = model.certificate_.parts or (model.certificate_,)
    if len(parts) != len(machines):
        return [Finding("WRONG_MODEL", "parts", f"{len(parts)} certificates for {len(machines)} machines")]
    for index, (part, machine) in enumerate(zip(parts, machines, strict=True)):
        of = f" of machine {index}" if len(parts) > 1 else ""
        truth = machine.truth(least(machine.objective))
        if not math.isfinite(truth.primal):
            return [Finding("WRONG_MODEL", "primal value", f"the primal value{of} is not a finite number")]
        findings += _primal_value(part, truth, of)
        findings += _optimism(part, truth, of, ridge=False, at_its_word=False)
        findings += _contradictions(model, problem.params.get("gap_tol", GAP_TOL), part, truth, of)
    return findings + _judge_whole(model.certificate_) + _answers(lambda: check_linear_answers(model, problem))


def _answers(check: Callable[[], list[Finding]]) -> list[Finding]:
    """The findings of a check of decisions and predictions, which must not raise an error."""
    try:
        return check()
    except Exception as error:
        message = " ".join(str(error).split())[:200]
        text = f"on the training set: {type(error).__name__}: {message} (raised at {_where(error)})"
        return [Finding("EXCEPTION", f"predict: {type(error).__name__}", text)]


def _wrong_shapes(model: Any, problem: Problem) -> list[Finding]:
    """A finding if the weights or intercepts of a linear model have another shape than scikit-learn's."""
    d = problem.X.shape[1]
    rows = 1 if not problem.classifies or len(model.classes_) == 2 else len(model.classes_)
    wanted = {"coef_": (rows, d) if problem.classifies else (d,), "intercept_": (rows,)}
    for name, shape in wanted.items():
        if np.shape(getattr(model, name)) != shape:
            return [Finding("WRONG_MODEL", "shape", f"{name} has the shape {np.shape(getattr(model, name))}, not {shape}")]
    return []


def _primal_value(part: Any, truth: Truth, of: str) -> list[Finding]:
    """A finding if the certified primal value is not that of the weights. The gap, which is part of it, may be too large by what
    the certificate allows for rounding, and for duals that are out of balance by rounding."""
    known = OPTIMISM * truth.size + part.value_error + truth.gap_error + truth.float64_error
    balance = 0.0 if math.isnan(part.bias) else 2.0 * abs(part.bias) * part.equality_residual
    if math.isinf(part.gap) or -known <= part.primal - truth.primal <= known + part.rounding + balance:
        return []
    return [Finding("WRONG_MODEL", "primal value", f"primal value{of} {truth.primal:.10g}, certificate {part.primal:.10g}")]


def _not_finite(model: Any) -> list[Finding]:
    """Findings of NaN or infinity in attributes and certificates that must be finite."""
    for name in ("dual_coef_", "coef_", "intercept_", "rho_", "epsilon_", "offset_", "gamma_"):
        value = getattr(model, name, None)
        if value is None:
            continue
        numbers = value.data if sp.issparse(value) else np.asarray(value, dtype=float)
        if not np.isfinite(numbers).all():
            return [Finding("WRONG_MODEL", "not finite", f"{name} has values that are not finite")]
    certificate = model.certificate_
    joint = type(model).__name__ == "LinearSVC" and model.multi_class == "crammer_singer"  # a machine with several intercepts
    for part in (certificate, *certificate.parts):
        for one in fields(part):
            value = getattr(part, one.name)
            if isinstance(value, float) and math.isnan(value) and not (one.name == "bias" and (part.parts or joint)):
                return [Finding("WRONG_MODEL", "not finite", f"certificate_.{one.name} is NaN")]
        if part.gap < 0 or part.relative_gap < 0:
            return [Finding("WRONG_MODEL", "negative gap", f"certificate_.gap is {part.gap:.3g}")]
    return []


def _wrong_attributes(model: Any, problem: Problem) -> list[Finding]:
    """Findings about attributes that follow from the data alone: classes, class weights, gamma, support vectors."""
    findings = []
    if problem.classifies:
        if not np.array_equal(model.classes_, np.unique(problem.y)):
            return [Finding("WRONG_MODEL", "classes_", f"classes_ is {model.classes_!r}")]
        wanted = class_weights(model, problem).astype(float)
        if not np.allclose(model.class_weight_, wanted, rtol=1e-9, atol=0.0):
            findings.append(Finding("WRONG_MODEL", "class_weight_", f"class_weight_ is {model.class_weight_}, not {wanted}"))
    if hasattr(model, "support_"):
        support = np.asarray(model.support_)
        if len(np.unique(support)) != len(support) or ((support < 0) | (support >= len(problem.X))).any():
            return [Finding("WRONG_MODEL", "support_", "support_ has numbers twice, or numbers of no sample")]
        if len(support) and not problem.precomputed:
            vectors = model.support_vectors_
            vectors = vectors.toarray() if sp.issparse(vectors) else np.asarray(vectors)
            if not np.array_equal(vectors, problem.X[support]):
                findings.append(Finding("WRONG_MODEL", "support_vectors_", "support_vectors_ are not the rows support_ of X"))
    return findings + _wrong_gamma(model, problem)


def _wrong_gamma(model: Any, problem: Problem) -> list[Finding]:
    """A finding if gamma_ does not follow its rule: 'scale' is 1 / (n_features Var X), weighted; 'auto' is 1 / n_features."""
    if callable(model.kernel) or model.kernel in ("linear", "precomputed"):
        return []
    gamma, sigma = model.gamma, model.sigma
    if sigma is not None:
        wanted = 1.0 / (2.0 * sigma**2) if model.kernel == "rbf" else 1.0 / sigma
    elif gamma == "auto":
        wanted = 1.0 / problem.X.shape[1]
    elif gamma == "scale":
        variance = weighted_variance(problem)
        if variance <= (1e-14 * float(np.abs(problem.X).max())) ** 2:  # constant to working precision
            return []
        wanted = 1.0 / (problem.X.shape[1] * variance)
    else:
        wanted = float(gamma)
    if math.isclose(model.gamma_, wanted, rel_tol=1e-6):
        return []
    return [Finding("WRONG_MODEL", "gamma_", f"gamma_ is {model.gamma_:.10g}, by its rule {wanted:.10g}")]


def _optimism(part: Any, truth: Truth, of: str, ridge: bool, at_its_word: bool) -> list[Finding]:
    """`at_its_word`: of a callable, whose entries are taken as they are."""
    findings = []
    allowed = part.gap + OPTIMISM * truth.size + truth.gap_error + (truth.float64_error if at_its_word else 0.0)
    if truth.size <= ZERO_OBJECTIVE * truth.natural:  # the objective itself is rounding
        allowed += ZERO_OBJECTIVE * truth.natural
    if not truth.gap <= allowed and not math.isinf(part.gap) and not math.isinf(truth.gap_error):
        text = f"true gap{of} {truth.gap:.6g}, certificate {part.gap:.6g} (objective {truth.size:.6g})"
        check = "gap" if truth.gap > allowed + truth.float64_error else "gap, by less than float64 can know"
        findings.append(Finding("OPTIMISTIC", check, text))
    if not ridge and truth.violation > part.kkt_violation * (1 + SLACK) + truth.violation_error + OPTIMISM * truth.unit:
        text = f"true KKT violation{of} {truth.violation:.6g}, certificate {part.kkt_violation:.6g}"
        findings.append(Finding("OPTIMISTIC", "violation", text))
    known = OPTIMISM * (abs(truth.dual_as_is) + truth.dual_size) + part.value_error + truth.float64_error
    if not truth.dual_as_is - part.gap - known <= part.dual <= truth.dual_as_is + known:
        text = f"dual value{of} {truth.dual_as_is:.10g}, certificate {part.dual:.10g}"
        findings.append(Finding("OPTIMISTIC", "dual value", text))
    return findings


def _contradictions(model: Any, gap_tol: float | None, part: Any, truth: Truth, of: str) -> list[Finding]:
    """Findings where the status says converged and the certificate or the oracle contradicts it."""
    status = model.status_
    if not status.converged:
        return []
    findings = []

    def against(check: str, text: str) -> None:
        findings.append(Finding("CONTRADICTION", check, f"status {status.name}, {text}"))

    if gap_tol is not None:
        if part.relative_gap > gap_tol * (1 + SLACK):
            known = truth.relative_gap > gap_tol
            true = f"true: {truth.relative_gap:.3g}"
            text = f"relative gap{of} in the certificate {part.relative_gap:.3g} > {gap_tol:g} ({true})"
            against("gap in certificate" if known else "rounding as gap in certificate", text)
        elif truth.relative_gap > gap_tol * (1 + SLACK):
            against("gap", f"true relative gap{of} {truth.relative_gap:.3g} > {gap_tol:g}")
    if truth.box_residual > RESIDUAL:
        against("box", f"coefficients{of} leave the box by {truth.box_residual:.3g} of its width")
    if truth.equality_residual > RESIDUAL:
        against("equality", f"equality constraint{of} off by {truth.equality_residual:.3g} of the sum of absolute values")
    if status.name == "GAP_REACHED":
        return findings
    tol = _tol(model)
    if part.kkt_violation > tol * (1 + SLACK) and type(model).__name__ != "KernelRegressor":
        against("violation in certificate", f"KKT violation{of} in the certificate {part.kkt_violation:.3g} > {tol:g}")
    elif truth.violation > tol * (1 + SLACK) + truth.unknown_violation:
        against("violation", f"true KKT violation{of} {truth.violation:.3g} > {tol:g}")
    return findings


def _tol(model: Any) -> float:
    if model.tol == "auto":
        return RIDGE_TOL[model.solver_]
    return float(model.tol)


def _judge_whole(certificate: Any) -> list[Finding]:
    """Findings about the whole certificate: its gap must be primal minus dual, and the sum of the gaps of its parts."""
    if not math.isfinite(certificate.gap):
        return []
    scale = max(abs(certificate.primal), abs(certificate.dual), certificate.gap)
    if abs(certificate.primal - certificate.dual - certificate.gap) > 1e-12 * scale:
        text = f"primal {certificate.primal!r} - dual {certificate.dual!r} is not gap {certificate.gap!r}"
        return [Finding("WRONG_MODEL", "sum", text)]
    total = sum(part.gap for part in certificate.parts)
    if certificate.parts and not math.isclose(total, certificate.gap, rel_tol=1e-9):
        return [Finding("WRONG_MODEL", "sum", f"gaps of the machines add up to {total!r}, not to {certificate.gap!r}")]
    return []


def _indefinite(model: Any, problem: Problem, kernel: Any) -> list[Finding]:
    """A finding if the status says converged and the kernel is not positive semi-definite: it has no duality gap to close."""
    support = np.asarray(getattr(model, "support_", np.arange(len(kernel))))
    if model.kernel in ("linear", "rbf", "laplacian", "exponential") or not 0 < len(support) <= MOST_FOR_EIGENVALUES:
        return []
    values = kernel.block(support, support).values.astype(float)
    if type(model).__name__ == "KernelRegressor":  # there, what has to be positive semi-definite is K + alpha S^-1
        weight = np.ones(len(kernel)) if problem.sample_weight is None else np.asarray(problem.sample_weight, dtype=float)
        support = np.flatnonzero(weight > 0.0)
        values = values[np.ix_(support, support)] + np.diag(model.alpha / weight[support])
    eigenvalues = np.linalg.eigvalsh(0.5 * (values + values.T))
    largest = max(abs(eigenvalues[0]), abs(eigenvalues[-1]))
    if eigenvalues[0] >= INDEFINITE * largest:
        return []
    what = f"the kernel matrix of the support vectors has an eigenvalue {eigenvalues[0]:.3g} (largest {largest:.3g})"
    return [Finding("CONTRADICTION", "indefinite kernel", f"status {model.status_.name}, {what}")]
