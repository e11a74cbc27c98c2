"""What a notebook shows of a fitted estimator: below scikit-learn's diagram, what is proved about the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxmargin.notebook import html_table


class ShownInNotebooks:
    """A mix-in for estimators, before `BaseEstimator`. A fitted model adds a table to scikit-learn's diagram."""

    def _report(self) -> list[tuple[str, object]]:
        """The names and values of the table, from public attributes."""
        proof = self.certificate_  # type: ignore[attr-defined]
        rows: list[tuple[str, object]] = [
            ("status", self.status_),  # type: ignore[attr-defined]
            ("duality gap", f"{proof.gap:.3g}, relative {proof.relative_gap:.3g}"),
            ("KKT violation", f"{proof.kkt_violation:.3g}"),
        ]
        if hasattr(self, "support_"):
            n_support, n = len(self.support_), self.shape_fit_[0]  # type: ignore[attr-defined]
            rows.append(("support vectors", f"{n_support} of {n} samples ({n_support / n:.0%})"))
        if hasattr(self, "solver_"):
            rows.append(("solver", self.solver_))
        return [*rows, ("seconds", self.fit_seconds_)]  # type: ignore[attr-defined]

    def _html_report(self) -> str:
        return html_table(type(self).__name__, self._report()) if hasattr(self, "status_") else ""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + self._html_report()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._html_report()
        return bundle
