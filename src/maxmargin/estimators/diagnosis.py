"""Why a fit went wrong: features on very different scales, or a function that is not a valid kernel; and the warning about it."""

from __future__ import annotations

import warnings
from inspect import currentframe
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxmargin.kernels import Kernel
from maxmargin.samples import Samples

DOMINANT_SPREAD = 100.0  # a spread this many times the median spread dominates every distance
MOST_SAMPLES = 5000  # samples from which the spread of a feature is estimated
MOST_SUPPORT_VECTORS = 128  # support vectors whose kernel matrix is examined
NEGATIVE_EIGENVALUE = -1e-4  # an eigenvalue below this, relative to the largest one, is not rounding


def warn(message: str) -> None:
    """Issue a ConvergenceWarning about the line that called the library, however many frames of it, and of scikit-learn's
    decorators, are in between."""
    level, frame = 1, currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("maxmargin", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ConvergenceWarning, stacklevel=level)


def likely_cause(estimator: Any, X: Any) -> str:
    """A sentence about the features with a much larger scale than the others; if there are none, about C."""
    hard = "a large C or a kernel that is nearly singular makes the problem hard: try a smaller C, or more time"
    if not estimator.kernel_.named:
        return hard
    X = X[:: max(1, X.shape[0] // MOST_SAMPLES)]
    if sp.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2, 0.0))
    else:
        spread = np.std(X, axis=0, dtype=np.float64)
    typical = float(np.median(spread[spread > 0])) if (spread > 0).any() else 0.0
    large = np.flatnonzero(spread > DOMINANT_SPREAD * typical) if typical > 0 else np.empty(0, int)
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
    kernel: Kernel, samples: Samples, support: NDArray[np.integer], shift: NDArray[np.float64] | None = None
) -> bool:
    """Whether the kernel matrix of some support vectors, plus diag(shift), has a negative eigenvalue. True is a proof that the
    kernel is indefinite; False proves nothing."""
    if kernel.definite or not len(support):
        return False
    drawn = support[:: -(-len(support) // MOST_SUPPORT_VECTORS)]
    some = samples.take(drawn)
    matrix = some.block(kernel, some)
    eigenvalues = np.linalg.eigvalsh(matrix if shift is None else matrix + np.diag(shift[drawn]))
    return bool(eigenvalues[0] < NEGATIVE_EIGENVALUE * max(eigenvalues[-1], -eigenvalues[0]))
