"""The result of an audit: numbers, and a sentence about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from maxmargin.audits.fitted import Fitted
from maxmargin.certificates import Certificate
from maxmargin.notebook import html_table
from maxmargin.rounding import TINY

TOL_ALLOWANCE = 1.1  # violations up to this many times tol count as within tol: most solvers have float32 kernel values
COST_WORTH_MENTIONING = 1e-3  # share of the objective that an intercept may cost before the sentence mentions it


@dataclass(frozen=True)
class Finding:
    """The result for one machine: the certificate of its dual point, its primal value with its own intercept and with the best
    one, whether the dual point satisfies the constraints up to rounding, and whether a nu-classifier has no positive margin."""

    certificate: Certificate
    primal_as_is: float
    primal_best_bias: float
    leaves_box: bool
    misses_sums: bool
    no_margin: bool


@dataclass(frozen=True)
class Audit:
    """What is true of a fitted model, whatever its library said.

    ``gap_as_is = primal_as_is - dual`` bounds how far the model, with the intercept it has, is from the optimum;
    ``gap_best_bias`` is the gap that the model would have with the best intercept. For several machines the values are sums, the
    violations and residuals the largest.

    Parameters
    ----------
    library, machine : str
        Who fitted the model, and what it is.
    certificate : Certificate
        The certificate of the model's dual point; if that point is outside its box (``box_residual``) or its coefficients have
        the wrong sum (``equality_residual``), of a feasible point near it.
    primal_as_is, primal_best_bias : float
        The primal value with the intercept that the model has, and with the best one.
    tol : float or None
        The stopping tolerance of the model.
    sentence : str
        The verdict in words.

    See Also
    --------
    audit : Makes one.

    Examples
    --------
    >>> import sklearn.svm
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import audit
    >>> X, y = load_iris(return_X_y=True)
    >>> found = audit(sklearn.svm.SVC().fit(X, y), X, y)
    >>> found.library, found.holds(1e-2)
    ('scikit-learn', True)
    """

    library: str
    machine: str
    certificate: Certificate
    primal_as_is: float
    primal_best_bias: float
    tol: float | None
    sentence: str

    @property
    def dual(self) -> float:
        return self.certificate.dual

    @property
    def gap_as_is(self) -> float:
        return max(self.primal_as_is - self.dual, 0.0)

    @property
    def gap_best_bias(self) -> float:
        return max(self.primal_best_bias - self.dual, 0.0)

    @property
    def gap(self) -> float:
        """The gap of the model as it is used: `gap_as_is`."""
        return self.gap_as_is

    @property
    def relative_gap_as_is(self) -> float:
        return _relative(self.gap_as_is, self.dual)

    @property
    def kkt_violation(self) -> float:
        return self.certificate.kkt_violation

    @property
    def box_residual(self) -> float:
        return self.certificate.box_residual

    @property
    def equality_residual(self) -> float:
        return self.certificate.equality_residual

    def holds(self, tol: float) -> bool:
        """Whether the model, with the intercept it has, is proved to be within a relative gap of `tol` of the optimum."""
        return self.relative_gap_as_is <= tol

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain numbers and text, for JSON and tables; the certificate as in `Certificate.to_dict`."""
        derived = (
            "dual",
            "gap_as_is",
            "gap_best_bias",
            "relative_gap_as_is",
            "kkt_violation",
            "box_residual",
            "equality_residual",
        )
        names = [*(one.name for one in fields(self)), *derived]
        return {name: getattr(self, name) for name in names} | {"certificate": self.certificate.to_dict()}

    def __str__(self) -> str:
        title, rows = self._report()
        width = max(len(label) for label, _ in rows)
        return "\n".join([title, *(f"  {label:<{width}}  {value}" for label, value in rows), self.sentence])

    def _repr_html_(self) -> str:
        return html_table(*self._report(), self.sentence)

    def _report(self) -> tuple[str, list[tuple[str, str]]]:
        """The title of the audit, and its names and values as text."""
        machines = f", {len(self.certificate.parts)} machines together" if self.certificate.parts else ""
        stop = "" if self.tol is None else f"  (tol={self.tol:g})"
        rows = [
            ("primal value", f"{self.primal_as_is:.10g}"),
            ("dual value", f"{self.dual:.10g}"),
            ("duality gap", f"{self.gap_as_is:.3g}"),
            ("  with the best intercept", f"{self.gap_best_bias:.3g}"),
            ("relative gap", f"{self.relative_gap_as_is:.3g}"),
            ("KKT violation", f"{self.kkt_violation:.3g}{stop}"),
            ("box residual", f"{self.box_residual:.3g}"),
            ("equality residual", f"{self.equality_residual:.3g}"),
            ("computed in", self.certificate.arithmetic),
        ]
        return f"audit of {self.machine} by {self.library}{machines}", rows


def give_verdict(
    fitted: Fitted, findings: Sequence[Finding], certificate: Certificate, indefinite: bool, weightless: bool
) -> Audit:
    """Combine the findings about all machines of a model.

    `indefinite`: the kernel matrix is not positive semi-definite. `weightless`: a support vector has no weight.
    """
    as_is = sum(finding.primal_as_is for finding in findings)
    best = sum(finding.primal_best_bias for finding in findings)
    found = Audit(fitted.library, fitted.machine, certificate, as_is, best, fitted.tol, sentence="")
    return replace(found, sentence=" ".join(_sentences(found, findings, indefinite, weightless)))


def _sentences(found: Audit, findings: Sequence[Finding], indefinite: bool, weightless: bool) -> Iterator[str]:
    goal = "a stationary point" if indefinite else "the optimum"
    yield f"The model is within {found.relative_gap_as_is:.2g} of {goal}, relative{_stop(found)}."
    if indefinite:
        yield "The kernel is not positive semi-definite, so the problem has no duality gap to close."
    if any(finding.no_margin for finding in findings):
        yield (
            "The margin it was divided by is not positive: nu is so small that the reduced convex hulls of the classes meet, and "
            "the machine tells nothing apart; use a larger nu."
        )
    if any(finding.leaves_box and not finding.no_margin for finding in findings):
        yield (
            f"The model's dual coefficients leave their box, by {found.box_residual:.2g}: they were changed, or the parameters "
            "or weights given here are not those of the fit."
        )
    if weightless:
        yield (
            "Samples of zero weight are support vectors. (scikit-learn numbers the samples without them, and with a kernel that "
            "is a matrix or a callable predicts with the wrong ones: leave them out of the fit.)"
        )
    if any(finding.misses_sums and not finding.no_margin for finding in findings):
        yield (
            f"The model's dual coefficients miss the sum they have to keep, by {found.equality_residual:.2g}: they were changed, "
            "or the parameters or weights given here are not those of the fit."
        )
    cost = _relative(found.primal_as_is - found.primal_best_bias, found.primal_best_bias)
    if cost > COST_WORTH_MENTIONING:
        yield f"Its intercept is not the best: that costs {100 * cost:.2g} % of the objective."


def _stop(found: Audit) -> str:
    if found.tol is None:
        return ""
    if found.kkt_violation <= TOL_ALLOWANCE * found.tol:
        return "; its stopping tolerance held"
    return f"; its stopping tolerance did not hold: the KKT violation is {found.kkt_violation:.2g}, tol={found.tol:g}"


def _relative(difference: float, value: float) -> float:
    """The difference of two values relative to the larger of them; `value` is the smaller one."""
    return difference / max(abs(value + difference), abs(value), TINY)
