"""The proof that comes with every model: primal value, dual value and the gap between them, from scratch.

A certificate depends on the dual point beta alone. The gradient G = (K + diag(shift)) beta + linear is computed anew in
float64 from the samples (`Gram.exact_sums`), and the duality gap is summed from it, one term >= 0 per sample
(`formulations.DualProblem`).

**Where G is recomputed.** One float64 gradient entry costs one kernel value per support vector, so recomputing all of
them costs more than many a fit. But the gap term of a sample at a bound is exactly zero when its G lies on the right
side of the level, by however much. A solver's own gradient therefore serves as a *claim*: it is checked in float64 on
all samples that are free, or near the level, and on a random draw of the others; the largest error found there, times a
safety factor, widens the band until no sample outside it could have a gap term that is not zero, unless its claim is off
by several times all errors that were seen. On small data, and wherever it costs little, everything is
recomputed. `Certificate.complete` says which it was.

**Rounding.** The terms are those of the worst gradient that rounding allows: of kernel values, of the distances they come
from, and of their sums. So the true gap is at most what is reported, and `Certificate.rounding` says how much of it is due
to this caution. A gap that could be all rounding counts as none if it is small (`Certificate.meets`), and so does one next to an
optimum of zero (`relative_gap`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import CrammerSingerProblem, DualProblem
from maxmargin.gram import ExactSums
from maxmargin.notebook import html_table
from maxmargin.rounding import EPSILON, TINY

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.int32]
#: A function that returns the kernel sums at the samples `at`
SumsAt = Callable[[Indices], ExactSums]

FEW_ENTRIES = 30_000  # with at most this many kernel entries, the whole gradient is recomputed
CHECKED_AT_RANDOM = 64  # samples outside the band at which a claim is checked all the same
SAFETY = 8.0  # factor on the largest error of the claim that was found
LARGEST_RESIDUAL = 1e-12  # residual of a constraint, relative to the sizes of the duals, that counts as rounding
NEGLIGIBLE_GAP = 1e-6  # a relative gap up to this that rounding alone could explain counts as zero
LARGE_GAP = 1e-4  # only a larger relative gap raises the question whether the optimum is zero
ZERO = 64.0 * EPSILON  # an objective below this share of the losses of the machine w = 0 cannot be told from zero


@dataclass(frozen=True)
class Certificate:
    """What is proved about a model.

    ``gap = primal - dual >= 0`` bounds how far the model's objective is from the optimum. ``print`` the certificate for its
    numbers; a notebook shows them as a table.

    Parameters
    ----------
    primal, dual : float
        The primal and the dual value. They may be off, both by the same and by at most ``value_error``.
    gap : float
        Their difference; ``rounding`` is the part of it that allows for rounding errors of float64 arithmetic.
    relative_gap : float
        The gap divided by the larger of the absolute values less ``value_error``. It is zero if the optimum is zero, or if
        rounding could explain the whole gap and gap_tol is smaller than rounding allows to prove.
    kkt_violation : float
        The largest violation of the optimality conditions, without an allowance for rounding.
    box_residual, equality_residual : float
        How far the dual point is from satisfying its constraints.
    arithmetic : str
        The arithmetic in which the certificate was computed.
    bias : float
        The intercept that belongs to ``levels``.
    seconds : float
        The time that the certificate took.
    gap_terms : ndarray
        The shares of the training samples in the gap (a row per machine if there are several).
    levels : tuple of float, default=()
        The multipliers of the equality constraints at which the primal value is taken.
    value_error, rounding : float, default=0.0
        See ``primal`` and ``gap``.
    size : float, default=inf
        The sum of the absolute values of the duals.
    complete : bool, default=True
        Whether the gradient was recomputed in float64 at all samples. If not, it was recomputed at the samples whose share of the
        gap can differ from zero, and at a random draw of the others, which stands for the rest.
    parts : tuple of Certificate, default=()
        The certificates of the machines, if there are several.

    See Also
    --------
    SVC : Its ``certificate_`` is one.
    audit : Computes one for a model of another library.
    maxmargin.plots.GapSharesDisplay : A picture of ``gap_terms``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> proof = SVC().fit(*load_iris(return_X_y=True)).certificate_
    >>> proof.holds(1e-3), proof.feasible, len(proof.parts)
    (True, True, 3)
    >>> sorted(proof.to_dict())[:4]
    ['arithmetic', 'bias', 'box_residual', 'complete']
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
    rounding: float = 0.0
    size: float = math.inf
    complete: bool = True
    parts: tuple[Certificate, ...] = field(default=(), repr=False)

    @classmethod
    def _of(cls, **values: Any) -> Certificate:
        """A certificate from all its values, several times faster than by the constructor, which checks nothing either."""
        made = object.__new__(cls)
        vars(made).update(values)
        return made

    def holds(self, tol: float) -> bool:
        """Whether the relative gap is proved to be at most `tol`."""
        return bool(self.relative_gap <= tol)

    @property
    def bias_of_sums(self) -> float:
        """The intercept that belongs to the solver's kernel sums, which may be those of centred samples: minus the mean level, or
        `bias` without levels."""
        return -math.fsum(self.levels) / len(self.levels) if self.levels else self.bias

    @property
    def is_rounding(self) -> bool:
        """Whether the gap is small and rounding could explain all of it."""
        return self.gap <= 2.0 * self.rounding and self.holds(NEGLIGIBLE_GAP)

    @property
    def feasible(self) -> bool:
        """Whether the dual point satisfies its constraints up to rounding."""
        if self.parts:
            return all(part.feasible for part in self.parts)
        return max(self.box_residual, self.equality_residual) <= LARGEST_RESIDUAL * self.size

    def meets(self, tol: float, gap_tol: float | None) -> bool:
        """Whether the point is feasible, violates the optimality conditions by at most `tol`, and has a relative gap of at most
        `gap_tol` (None: any gap), up to rounding; for several machines, whether each of them does."""
        if self.parts:
            return all(part.meets(tol, gap_tol) for part in self.parts)
        close = gap_tol is None or self.holds(gap_tol) or self.is_rounding
        return bool(self.feasible and self.kkt_violation <= tol and close)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain numbers and text, for JSON and tables. ``gap_terms``, which has a number for each sample, is
        left out; ``parts`` are dictionaries too."""
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("gap_terms", "levels", "parts")}
        return {**plain, "levels": list(self.levels), "parts": [part.to_dict() for part in self.parts]}

    def __str__(self) -> str:
        title, rows = self._report()
        width = max(len(label) for label, _ in rows)
        return "\n".join([title, *(f"  {label:<{width}}  {value}" for label, value in rows)])

    def _repr_html_(self) -> str:
        return html_table(*self._report())

    def _report(self) -> tuple[str, list[tuple[str, str]]]:
        """The title of the certificate, and its names and values as text."""
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
        return f"certificate{machines}", rows


class Numbers(NamedTuple):
    """The numbers of a certificate that are computed from duals and gradient; `plain` is the gap without caution for rounding. A
    backend may compute them for many machines at once (`Backend.prove_each`)."""

    levels: tuple[float, ...]
    dual: float
    gap: float
    plain: float
    kkt_violation: float
    box_residual: float
    equality_residual: float
    size: float
    value_error: float
    checked: int  # the samples where the gradient was recomputed

    def certificate(self, terms: Vector, seconds: float, zero: Callable[[], float], bias: float | None = None) -> Certificate:
        """The certificate that they make; `zero()` is the largest objective that cannot be told from zero."""
        n = len(terms)
        arithmetic = "float64"
        if self.checked < n:
            arithmetic += f" on the {self.checked} of {n} samples whose share of the gap can differ from zero"
        rounding = self.gap - self.plain if math.isfinite(self.gap) else 0.0
        return Certificate._of(
            primal=self.dual + self.gap,
            dual=self.dual,
            gap=self.gap,
            relative_gap=relative_gap(self.gap, rounding, self.dual, self.value_error, zero),
            kkt_violation=self.kkt_violation,
            box_residual=self.box_residual,
            equality_residual=self.equality_residual,
            arithmetic=arithmetic,
            bias=bias if bias is not None else 0.0 - sum(self.levels) / max(len(self.levels), 1),
            seconds=seconds,
            gap_terms=terms,
            levels=self.levels,
            value_error=self.value_error,
            rounding=rounding,
            size=self.size,
            complete=self.checked == n,
            parts=(),
        )


@dataclass(frozen=True)
class Gradient:
    """The gradient at a dual point, recomputed at all samples or at some, and bounds on its errors."""

    values: NDArray[np.float64]
    error: NDArray[np.float64] | float  # bound on the rounding error where the gradient was recomputed
    value_error: float  # bound on the error of the dual value from entries that were not recomputed
    checked: int  # number of samples where the gradient was recomputed
    offset: tuple[float, float] = (0.0, 0.0)  # of the kernel sums (`ExactSums.offset`)


def recompute(
    problem: DualProblem, beta: Vector, sums: SumsAt, claim: Vector | None = None, levels: Vector | None = None
) -> Gradient:
    """Recompute the gradient at `beta` from the kernel sums K[at] beta. With a `claim`, the solver's own gradient, it is
    recomputed only where it can change the gap at the given levels (None: the best ones)."""

    def exact(at: Indices) -> ExactSums:
        found = sums(at)
        gradient = found.values[0] + problem.linear[at]
        if problem.shift is not None:
            gradient += problem.shift[at] * beta[at]
        return ExactSums(gradient, found.error if isinstance(found.error, float) else found.error[0], found.offset)

    n = len(problem)
    if claim is None or problem.shift is not None or problem.hard or n * np.count_nonzero(beta) <= FEW_ENTRIES:
        values, error, offset = exact(np.arange(n, dtype=np.int32))
        return Gradient(values, error, 0.0, n, offset)
    level = problem.at_variables(problem.levels(beta, claim) if levels is None else levels)
    outside = _distance_outside(problem, beta, claim, level)
    doubt = SAFETY + 1.0  # the level, a quantile of the gradients, moves no more than they do
    return _exact_where_it_matters(beta, claim, exact, outside, doubt)


def certify(
    problem: DualProblem,
    beta: Vector,
    gradient: Gradient,
    largest_norm: Callable[[], float],
    levels: Vector | None = None,
    started: float | None = None,
    bias: float | None = None,
) -> Certificate:
    """The certificate of `beta`, given its gradient, at the given levels (None: the best ones). `largest_norm` returns sum_i
    |beta_i| sqrt(k(x_i, x_i)), which |w| cannot exceed; `bias` is the intercept that belongs to the levels (None: minus their
    mean)."""
    started = time.perf_counter() if started is None else started
    levels = problem.levels(beta, gradient.values) if levels is None else levels
    level = problem.at_variables(levels)
    # rounding of G - v itself, besides that of the kernel sums
    error = gradient.error + EPSILON * (np.abs(gradient.values) + np.abs(level))
    terms = problem.gap_terms(beta, gradient.values, level, error)
    residuals = np.abs(problem.residuals(beta))
    numbers = Numbers(
        levels=tuple(levels.tolist()),
        dual=problem.dual_value(beta, gradient.values),
        gap=float(terms.sum() + residuals @ np.abs(levels)),
        plain=float(problem.gap_terms(beta, gradient.values, level).sum()),
        kkt_violation=problem.violation(beta, gradient.values),
        box_residual=float(np.maximum(problem.lower - beta, beta - problem.upper).max(initial=0.0)),
        equality_residual=float(residuals.max(initial=0.0)),
        size=float(np.abs(beta).sum()),
        value_error=gradient.value_error,
        checked=gradient.checked,
    )
    return numbers.certificate(terms, time.perf_counter() - started, lambda: _zero(problem, largest_norm), bias)


def recompute_jointly(
    problem: CrammerSingerProblem,
    B: Matrix,
    sums: SumsAt,
    claim: Matrix | None = None,
) -> Gradient:
    """Like `recompute`, for a machine of all classes at once; `sums(at)` is B K[:, at], with errors."""

    def exact(at: Indices) -> ExactSums:
        found = sums(at)
        return found._replace(values=found.values + problem.linear[:, at])

    n = len(problem)
    if claim is None or n * np.count_nonzero(B.any(axis=0)) <= FEW_ENTRIES:
        values, error, _ = exact(np.arange(n, dtype=np.int32))
        return Gradient(values, error, 0.0, n)
    return _exact_where_it_matters(B, claim, exact, problem.clearance(B, claim), doubt=2.0 * SAFETY)  # two errors


def certify_jointly(problem: CrammerSingerProblem, B: Matrix, gradient: Gradient, started: float | None = None) -> Certificate:
    """Like `certify`, for a machine of all classes at once at the point `B`, given its gradient."""
    started = time.perf_counter() if started is None else started
    error = np.max(gradient.error + EPSILON * np.abs(gradient.values), axis=0)
    terms = problem.gap_terms(B, gradient.values, error)
    residuals = np.abs(problem.residuals(B))
    numbers = Numbers(
        levels=(),
        dual=problem.dual_value(B, gradient.values),
        gap=float(terms.sum() + residuals @ np.abs(gradient.values.max(axis=0))),
        plain=float(problem.gap_terms(B, gradient.values).sum()),
        kkt_violation=problem.violation(B, gradient.values),
        box_residual=float(np.maximum(B - problem.upper, 0.0).max(initial=0.0)),
        equality_residual=float(residuals.max(initial=0.0)),
        size=float(np.abs(B).sum() + problem.upper.max(initial=0.0)),  # the shares are upper - B
        value_error=gradient.value_error,
        checked=gradient.checked,
    )

    def zero() -> float:
        return ZERO * float(problem.upper.sum())  # the losses of the machine w = 0

    return numbers.certificate(terms, time.perf_counter() - started, zero, bias=0.0)


def _distance_outside(problem: DualProblem, beta: Vector, claim: Vector, level: float | Vector) -> Vector:
    """How far the gradient of each sample is on the side of the level where its gap term is zero; -inf for free samples."""
    outside = np.where(beta == problem.lower, claim - level, level - claim)
    outside[(beta > problem.lower) & (beta < problem.upper)] = -np.inf
    outside[problem.lower == problem.upper] = np.inf
    return outside


def _exact_where_it_matters(
    beta: NDArray[np.float64],
    claim: NDArray[np.float64],
    exact: SumsAt,
    outside: Vector,
    doubt: float,
) -> Gradient:
    """The claimed gradient, recomputed exactly on a band of samples and on a random draw of the others.

    The band is the set of samples with an `outside` of at most `doubt` times the largest error found so far. The other samples
    add nothing to the gap; to the error of the dual value they add 1/2 |beta_i| times the error of their gradient.
    """
    n = len(outside)
    checked = outside <= 0.0
    # A claim may be exact where an earlier proof has looked, because the solver was continued with that proof's gradient. So each
    # claim has a draw of its own.
    draw = np.random.default_rng(crc32(np.ascontiguousarray(claim).data))
    checked[draw.choice(n, min(CHECKED_AT_RANDOM, n), replace=False)] = True
    gradient = claim.copy()
    rounding = np.zeros_like(claim)
    at = np.flatnonzero(checked).astype(np.int32)
    error = 0.0
    while len(at):
        gradient[..., at], rounding[..., at], _ = exact(at)
        error = max(error, float(np.abs(gradient[..., at] - claim[..., at]).max()))
        near = outside <= doubt * error
        at = np.flatnonzero(near & ~checked).astype(np.int32)
        checked |= near
    rounding[..., ~checked] = SAFETY * error
    value_error = 0.5 * SAFETY * error * float(np.where(checked, 0.0, np.abs(beta)).sum())
    return Gradient(gradient, rounding, value_error, int(checked.sum()))


def certificate_of(problem: DualProblem, numbers: Numbers, terms: Vector, seconds: float) -> Certificate:
    """The certificate of a problem with losses, given its numbers."""
    return numbers.certificate(terms, seconds, lambda: _zero(problem, lambda: math.inf))


def _zero(problem: DualProblem, largest_norm: Callable[[], float]) -> float:
    """The largest objective that cannot be told from zero: a rounding error of the losses of the machine w = 0; or, where these
    are zero (nu, one-class), of the largest |w|^2 that such duals could have."""
    if problem.hard:  # the optimum of a hard margin is not zero
        return 0.0
    losses = float(problem.gap_terms(np.zeros(len(problem)), -np.abs(problem.linear) * _side(problem), 0.0).sum())
    if losses == 0.0 and problem.start is not None:
        return EPSILON * largest_norm() ** 2
    return ZERO * losses if problem.shift is None else ZERO**2 * losses  # errors are squared: those of rounding, too


def _side(problem: DualProblem) -> Vector:
    """The side on which a variable has a loss: 1 if its box reaches above zero, -1 if it reaches only below."""
    return np.where(problem.upper > 0.0, 1.0, -1.0)


def relative_gap(gap: float, rounding: float, dual: float, value_error: float, zero: Callable[[], float]) -> float:
    """The gap divided by the larger of the primal and the dual value, as large as their errors allow. It is zero if the optimum
    is: if the gap without its part `rounding`, and the values, are at most `zero()`."""
    if not math.isfinite(gap):
        return math.inf
    relative = gap / max(max(abs(dual + gap), abs(dual)) - value_error, TINY)
    return 0.0 if relative > LARGE_GAP and max(gap - rounding, abs(dual)) <= zero() else relative


#: What the numbers of several machines together are made of: sums, and maxima.
_ADDED = attrgetter("dual", "gap", "value_error", "rounding", "size", "seconds")
_LARGEST = attrgetter("kkt_violation", "box_residual", "equality_residual")


def combine(parts: Sequence[Certificate], gap_terms: NDArray[np.float64]) -> Certificate:
    """The certificate of several machines together, whose objective is the sum of theirs."""
    dual, gap, value_error, rounding, size, seconds = map(sum, zip(*map(_ADDED, parts), strict=True))
    kkt_violation, box_residual, equality_residual = map(max, zip(*map(_LARGEST, parts), strict=True))
    arithmetics = {part.arithmetic for part in parts}
    counted = sum([part.gap for part in parts if part.relative_gap > 0.0])  # a gap of rounding alone counts as zero
    return Certificate._of(
        primal=dual + gap,
        dual=dual,
        gap=gap,
        relative_gap=relative_gap(counted, 0.0, dual, value_error, lambda: 0.0),
        kkt_violation=kkt_violation,
        box_residual=box_residual,
        equality_residual=equality_residual,
        arithmetic=arithmetics.pop()
        if len(arithmetics) == 1
        else "float64 on the samples whose share of the gap can differ from zero",
        bias=float("nan"),
        levels=(),
        value_error=value_error,
        rounding=rounding,
        size=size,
        complete=all(part.complete for part in parts),
        seconds=seconds,
        gap_terms=gap_terms,
        parts=tuple(parts),
    )
