"""The proof that comes with every model: primal value, dual value and the gap between them, from scratch.

Nothing here trusts a solver. The dual point beta is all that is taken from it; the gradient G = (K + diag(shift)) beta
+ linear is computed anew in float64 and the duality gap is summed from it, one term >= 0 per sample
(`formulations.DualProblem`).

**Where G is recomputed.** One float64 gradient entry costs one kernel value per support vector, so recomputing all of
them costs more than many a fit. But the gap term of a sample at a bound is exactly zero when its G lies on the right
side of the level, by however much. A solver's own gradient therefore serves as a *claim*: it is checked in float64 on
all samples that are free, or near the level, and on a random draw of the others; the largest error found there, times a
safety factor, widens the band until no sample outside it could have a gap term that is not zero. On small data
everything is recomputed. `Certificate.arithmetic` says which it was.

The terms are those of the worst gradient that float64 rounding allows, so the true gap is at most what is reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import CrammerSingerProblem, DualProblem

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]

SMALL = 100_000  # kernel entries that are recomputed without a second thought
DRAW = 64  # samples on which a claim is checked wherever it is not needed
SAFETY = 8.0  # times the largest error of the claim that was found
ROUNDING = 4.0 * float(np.finfo(float).eps)  # of a sum of kernel values, relative to the sum of their absolute values
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Certificate:
    """What was proved of a model.

    ``gap = primal - dual >= 0`` bounds how far the model's objective is from the optimum. ``gap_terms`` are its shares,
    one per training sample (a row per machine if there are several). The two values themselves may be off, both by the
    same and by at most ``value_error``: zero if all was computed in float64. ``relative_gap`` divides the gap by the larger
    of their sizes, less that. ``levels`` are the multipliers of the equality constraints that the primal value belongs to,
    ``bias`` is the intercept: minus their mean. ``seconds`` is the time this took.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    kkt_violation: float
    box_residual: float
    equality_residual: float
    arithmetic: str
    bias: float
    seconds: float = field(compare=False)
    gap_terms: NDArray[np.float64] = field(repr=False)
    levels: tuple[float, ...] = ()
    value_error: float = 0.0
    parts: tuple[Certificate, ...] = field(default=(), repr=False)

    def holds(self, tol: float) -> bool:
        """Whether the relative gap is proved to be at most `tol`."""
        return self.relative_gap <= tol

    def __str__(self) -> str:
        machines = f" of {len(self.parts)} machines together" if self.parts else ""
        rows = [
            ("primal value", f"{self.primal:.10g}"),
            ("dual value", f"{self.dual:.10g}"),
            ("duality gap", f"{self.gap:.3g}"),
            ("relative gap", f"{self.relative_gap:.3g}"),
            ("KKT violation", f"{self.kkt_violation:.3g}"),
            ("box residual", f"{self.box_residual:.3g}"),
            ("equality residual", f"{self.equality_residual:.3g}"),
            ("computed in", self.arithmetic),
        ]
        width = max(len(label) for label, _ in rows)
        return "\n".join([f"certificate{machines}", *(f"  {label:<{width}}  {value}" for label, value in rows)])


def certify(
    problem: DualProblem,
    beta: Vector,
    kernel_sums: Callable[[Indices], Vector],
    claim: Vector | None = None,
    largest_kernel_value: float = 1.0,
    bias: float | None = None,
) -> Certificate:
    """The certificate of `beta` with this bias, or with the best one.

    `kernel_sums(at)` is K[at] @ beta, computed in float64. `claim` is a solver's gradient, or None to recompute it all.
    `largest_kernel_value` says how much rounding to allow for.
    """
    started = time.perf_counter()
    n = len(problem)

    def exact(at: Indices) -> Vector:
        gradient = kernel_sums(at) + problem.linear[at]
        return gradient if problem.shift is None else gradient + problem.shift[at] * beta[at]

    everything = np.arange(n, dtype=np.int32)
    if claim is None or problem.shift is not None or problem.hard or n * np.count_nonzero(beta) <= SMALL:
        gradient, arithmetic, value_error = exact(everything), "float64", 0.0
    else:
        level = problem.best_level(beta, claim) if bias is None else -bias
        outside = _distance_outside(problem, beta, claim, level)
        doubt = SAFETY + 1.0  # the level, a quantile of the gradients, moves no more than they do
        gradient, arithmetic, value_error = _exact_where_it_matters(beta, claim, exact, outside, doubt)
    error = ROUNDING * largest_kernel_value * float(np.abs(beta).sum())
    return _summarise(problem, beta, gradient, arithmetic, error, value_error, started, bias)


def certify_jointly(
    problem: CrammerSingerProblem,
    B: Matrix,
    kernel_sums: Callable[[Indices], Matrix],
    claim: Matrix | None = None,
    largest_kernel_value: float = 1.0,
) -> Certificate:
    """The certificate of a machine of several classes; `kernel_sums(at)` is B K[:, at], computed in float64."""
    started = time.perf_counter()

    def exact(at: Indices) -> Matrix:
        return kernel_sums(at) + problem.linear[:, at]

    if claim is None or len(problem) * np.count_nonzero(B.any(axis=0)) <= SMALL:
        gradient, arithmetic, value_error = exact(np.arange(len(problem), dtype=np.int32)), "float64", 0.0
    else:
        outside = problem.clearance(B, claim)
        doubt = 2.0 * SAFETY  # of a difference
        gradient, arithmetic, value_error = _exact_where_it_matters(B, claim, exact, outside, doubt)
    error = ROUNDING * largest_kernel_value * float(np.abs(B).sum(axis=1).max())
    terms = problem.gap_terms(B, gradient, error)
    dual = problem.dual_value(B, gradient)
    residuals = np.abs(problem.residuals(B))
    gap = float(terms.sum() + residuals @ np.abs(gradient.max(axis=0)))
    return Certificate(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=_relative(gap, dual, value_error),
        kkt_violation=problem.violation(B, gradient),
        box_residual=float(np.maximum(B - problem.upper, 0.0).max(initial=0.0)),
        equality_residual=float(residuals.max(initial=0.0)),
        arithmetic=arithmetic,
        bias=0.0,
        value_error=value_error,
        seconds=time.perf_counter() - started,
        gap_terms=terms,
    )


def _distance_outside(problem: DualProblem, beta: Vector, claim: Vector, level: float | Vector) -> Vector:
    """How far each sample is on the right side of the level, at a bound where that makes its term zero."""
    outside = np.where(beta == problem.lower, claim - level, level - claim)
    outside[(beta > problem.lower) & (beta < problem.upper)] = -np.inf
    outside[problem.lower == problem.upper] = np.inf
    return outside


@lru_cache(maxsize=8)
def _draw(n: int) -> NDArray[np.intp]:
    return np.random.default_rng(0).choice(n, min(DRAW, n), replace=False)


def _exact_where_it_matters(
    beta: NDArray[np.float64],
    claim: NDArray[np.float64],
    exact: Callable[[Indices], NDArray[np.float64]],
    outside: Vector,
    doubt: float,
) -> tuple[NDArray[np.float64], str, float]:
    """The claimed gradient, exact on the band and a draw; on how many samples that is; how far off the dual value may be.

    The band are the samples that are `outside` by no more than `doubt` times the largest error found so far. Those outside
    it add nothing to the gap, but to the dual value: 1/2 |beta_i| times the error of their gradient.
    """
    n = len(outside)
    checked = outside <= 0.0
    checked[_draw(n)] = True
    gradient = claim.copy()
    at = np.flatnonzero(checked).astype(np.int32)
    error = 0.0
    while len(at):
        gradient[..., at] = exact(at)
        error = max(error, float(np.abs(gradient[..., at] - claim[..., at]).max()))
        near = outside <= doubt * error
        at = np.flatnonzero(near & ~checked).astype(np.int32)
        checked |= near
    where = f" on the {checked.sum()} of {n} samples whose share of the gap can differ from zero"
    value_error = 0.5 * SAFETY * error * float(np.where(checked, 0.0, np.abs(beta)).sum())
    return gradient, "float64" if checked.all() else f"float64{where}", value_error


def _summarise(
    problem: DualProblem,
    beta: Vector,
    gradient: Vector,
    arithmetic: str,
    error: float,
    value_error: float,
    started: float,
    bias: float | None = None,
) -> Certificate:
    levels = problem.levels(beta, gradient) if bias is None else np.array([-bias])
    terms = problem.gap_terms(beta, gradient, problem.at_variables(levels), error)
    dual = problem.dual_value(beta, gradient)
    residuals = np.abs(problem.residuals(beta))
    gap = float(terms.sum() + residuals @ np.abs(levels))
    return Certificate(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=_relative(gap, dual, value_error),
        kkt_violation=problem.violation(beta, gradient),
        box_residual=float(np.maximum(problem.lower - beta, beta - problem.upper).max(initial=0.0)),
        equality_residual=float(residuals.max(initial=0.0)),
        arithmetic=arithmetic,
        bias=0.0 - float(np.mean(levels)) if len(levels) else 0.0,
        levels=tuple(levels.tolist()),
        value_error=value_error,
        seconds=time.perf_counter() - started,
        gap_terms=terms,
    )


def _relative(gap: float, dual: float, value_error: float) -> float:
    """The largest quotient of the gap and the larger of the two values that their errors allow."""
    return gap / max(max(abs(dual + gap), abs(dual)) - value_error, TINY) if math.isfinite(gap) else math.inf


def combine(parts: Sequence[Certificate], gap_terms: NDArray[np.float64]) -> Certificate:
    """The certificate of several machines together: their objectives add up."""
    dual, gap = sum(part.dual for part in parts), sum(part.gap for part in parts)
    value_error = sum(part.value_error for part in parts)
    arithmetics = {part.arithmetic for part in parts}
    return Certificate(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=_relative(gap, dual, value_error),
        kkt_violation=max(part.kkt_violation for part in parts),
        box_residual=max(part.box_residual for part in parts),
        equality_residual=max(part.equality_residual for part in parts),
        arithmetic=arithmetics.pop()
        if len(arithmetics) == 1
        else "float64 on the samples whose share of the gap can differ from zero",
        bias=float("nan"),
        value_error=value_error,
        seconds=sum(part.seconds for part in parts),
        gap_terms=gap_terms,
        parts=tuple(parts),
    )
