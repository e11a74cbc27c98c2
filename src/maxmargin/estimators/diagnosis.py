"""Why a fit went wrong: features on very different scales, a kernel that is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.kernels import Kernel, Precomputed

DWARFS = 100.0  # a spread this many times the median spread dominates every distance
ENOUGH = 5000  # samples, to tell the spread of a feature
DRAW = 128  # support vectors whose kernel matrix is looked at
NEGATIVE = -1e-4  # times the largest eigenvalue: a negative one beyond rounding


def likely_cause(estimator: Any, X: Any) -> str:
    """A sentence about the features whose scale dwarfs the rest, or about C."""
    hard = "a large C or a kernel that is nearly singular makes the problem hard: try a smaller C, or more time"
    if not estimator.kernel_.named:
        return hard
    X = X[:: max(1, X.shape[0] // ENOUGH)]
    if sp.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))
    else:
        spread = np.std(X, axis=0, dtype=np.float64)
    typical = float(np.median(spread[spread > 0])) if (spread > 0).any() else 0.0
    large = np.flatnonzero(spread > DWARFS * typical) if typical > 0 else np.empty(0, int)
    if len(large):
        names = getattr(estimator, "feature_names_in_", None)
        named = [str(names[k]) if names is not None else f"column {k}" for k in large[np.argsort(-spread[large])][:5]]
        return (
            f"the scale of {', '.join(named)} dwarfs the other features (standard deviation {spread[large].max():.3g} "
            f"against a median of {typical:.3g}): standardise the features, for example with "
            "sklearn.preprocessing.StandardScaler"
        )
    return hard


def is_indefinite(
    kernel: Kernel, X: Any, support: NDArray[np.integer], shift: NDArray[np.float64] | None = None
) -> bool:
    """Whether the kernel matrix of some support vectors, plus diag(shift), has a negative eigenvalue; True is sure, False is
    not."""
    if kernel.definite or not len(support):
        return False
    drawn = support[:: -(-len(support) // DRAW)]
    matrix = kernel.block(X[drawn], drawn if isinstance(kernel, Precomputed) else X[drawn])
    eigenvalues = np.linalg.eigvalsh(matrix if shift is None else matrix + np.diag(shift[drawn]))
    return bool(eigenvalues[0] < NEGATIVE * max(eigenvalues[-1], -eigenvalues[0]))
