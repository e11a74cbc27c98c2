"""Findings: their kinds and their data."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {
    "OPTIMISTIC": "the true gap (or violation) is larger than the certificate says",
    "CONTRADICTION": "the status says converged, the certificate or the oracle says otherwise",
    "WRONG_MODEL": "predictions or attributes are not those of the certified model, or not finite",
    "EXCEPTION": "an error that is not a clear sentence about the input, or about input that is harmless",
    "HANG": "no answer within the time limit",
    "CRASH": "the process died",
    "WARNING_MISSING": "not converged without a ConvergenceWarning, or converged with one",
}


@dataclass(frozen=True)
class Finding:
    """A kind, the name of the check that failed, and a sentence with the numbers."""

    kind: str
    check: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.check

    def __str__(self) -> str:
        return f"{self.kind} ({self.check}): {self.text}"
