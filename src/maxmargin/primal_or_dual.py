"""Primal or dual? What each formulation costs, and which one to train.

With N training samples of D features, a feature map of F features, s support vectors and c passes over the data:

    property         primal        dual
    parameters       F             N
    model size       F             s D
    training         c N F         between N D and N^2 D
    inference        F             s D
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Number of passes over the data that a solver of the primal may take: a cautious count for L-BFGS with its line searches.
PASSES = 1000
#: Samples for each feature from which on the primal is the better conditioned and the smaller problem.
SAMPLES_PER_FEATURE = 4


@dataclass(frozen=True)
class Costs:
    """What a formulation costs, in numbers and multiplications; training at its cheapest and at its dearest."""

    parameters: float
    model_size: float
    training: tuple[float, float]
    inference: float


@dataclass(frozen=True)
class PrimalOrDual:
    """The costs of both formulations, the one to train, and why. ``print`` it."""

    primal: Costs
    dual: Costs
    choice: str
    reason: str

    def __str__(self) -> str:
        def cell(low: float, high: float) -> str:
            return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"

        primal, dual = self.primal, self.dual
        rows = [
            ("", "primal", "dual"),
            ("parameters", f"{primal.parameters:.3g}", f"{dual.parameters:.3g}"),
            ("model size", f"{primal.model_size:.3g}", f"{dual.model_size:.3g}"),
            ("training cost", cell(*primal.training), cell(*dual.training)),
            ("inference cost", f"{primal.inference:.3g}", f"{dual.inference:.3g}"),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, self.reason])


def primal_or_dual(
    n_samples: int,
    n_features: int,
    feature_dimension: float | None = None,
    n_support: int | None = None,
    passes: int = PASSES,
) -> PrimalOrDual:
    """Which formulation to train, and what each of the two costs.

    Parameters
    ----------
    n_samples, n_features : int
        N and D of the training set.
    feature_dimension : float, default=None
        F, the number of features that the kernel's feature map makes of D: D itself for the linear kernel (the default),
        ``math.inf`` for the Gaussian kernel.
    n_support : int, default=None
        s, the number of support vectors; at most, and by default, all samples.
    passes : int
        c, the passes over the data that the primal may take.

    Returns
    -------
    PrimalOrDual
        The costs of both, the choice and its reason; ``print`` it.

    See Also
    --------
    SVC : ``solver="auto"`` chooses by these costs for linear machines.

    Examples
    --------
    >>> import math
    >>> from maxmargin import primal_or_dual
    >>> primal_or_dual(1000, 20, math.inf).choice
    'dual'
    >>> primal_or_dual(1_000_000, 20).choice
    'primal'
    """
    N, D = n_samples, n_features
    F = float(D) if feature_dimension is None else float(feature_dimension)
    s = N if n_support is None else n_support
    for name, value in (("n_samples", N), ("n_features", D), ("feature_dimension", F), ("passes", passes)):
        if not value > 0:
            raise ValueError(f"{name}={value!r}: must be positive")
    if not 0 <= s <= N:
        raise ValueError(f"n_support={s!r}: must be between 0 and n_samples={N}")
    primal = Costs(F, F, (passes * N * F, passes * N * F), F)
    dual = Costs(N, s * D, (N * D, N * N * D), s * D)
    return PrimalOrDual(primal, dual, *cheaper(N, D, F, passes))


def cheaper(N: int, D: int, F: float, passes: int = PASSES) -> tuple[str, str]:
    """The formulation to train, "primal" or "dual", and the reason for it."""
    if math.isinf(F):
        return "dual", f"infinitely many features: only the dual, with its {N} parameters, can be trained"
    if SAMPLES_PER_FEATURE * F > N:
        return "dual", f"{F:.4g} features for {N} samples: the dual has few parameters for what it learns from"
    if passes * N * F >= N * N * D:
        return "dual", f"{N} samples: {passes} passes over {F:.4g} features cost more than all pairs of samples at their worst"
    return "primal", f"{N} samples of {F:.4g} features: the primal has {F:.4g} parameters instead of {N}, and no pairs of samples"
