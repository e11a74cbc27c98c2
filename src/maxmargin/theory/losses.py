"""Losses of a decision y when the truth is t, with their gradients in y.

For two classes, t is -1 or +1 and each loss is a function of the margin m = t y alone, so that they can be compared:

    mse               1/2 (m - 1)^2          linear regression, on labels as targets: 1/2 (t - y)^2
    squared_error     (m - 1)^2              the same without the factor, so that it is 1 at m = 0 as the hinge is
    logistic          log(1 + exp(-m))       logistic regression: -log sigma(t y)
    hinge             max(0, 1 - m)          the slack of a support vector machine, k = 1
    quadratic_hinge   max(0, 1 - m)^2        the same squared, k = 2
    zero_one          1 where m <= 0         what all of them stand for; it has no useful gradient

For many classes t is the number of the class and y has a decision for each:

    softmax           -log softmax(y)_t      which is logistic for the decisions [y, 0]

Each is called as ``hinge(t, y)``, its gradient as ``hinge.gradient(t, y)``. A machine minimises 1/2 |w|^2 + C sum_i loss_i;
`quadratic_kernel` says why the quadratic loss is a hard margin in disguise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax
from scipy.special import softmax as probabilities

from maxmargin.formulations import make_loss

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MarginLoss:
    """A loss of the margin m = t y, and its slope there."""

    name: str
    of_margin: Callable[[Array], Array]
    slope: Callable[[Array], Array]

    def __call__(self, t: ArrayLike, y: ArrayLike) -> Array:
        return self.of_margin(_signs(t) * np.asarray(y, dtype=np.float64))

    def gradient(self, t: ArrayLike, y: ArrayLike) -> Array:
        """The derivative in y; at the kink of a loss, the derivative of its flat side."""
        signs = _signs(t)
        return signs * self.slope(signs * np.asarray(y, dtype=np.float64))


def _signs(t: ArrayLike) -> Array:
    signs = np.asarray(t, dtype=np.float64)
    if not np.isin(signs, (-1.0, 1.0)).all():
        found = np.unique(signs).tolist()
        raise ValueError(f"t has the values {found}: must be -1 or +1 (use numpy.where(t == positive, 1, -1))")
    return signs


mse = MarginLoss("mse", lambda m: 0.5 * (m - 1.0) ** 2, lambda m: m - 1.0)
squared_error = MarginLoss("squared error", lambda m: (m - 1.0) ** 2, lambda m: 2.0 * (m - 1.0))
logistic = MarginLoss("logistic", lambda m: np.logaddexp(0.0, -m), lambda m: -expit(-m))
hinge = MarginLoss("hinge", lambda m: np.maximum(0.0, 1.0 - m), lambda m: np.where(m < 1.0, -1.0, 0.0))
quadratic_hinge = MarginLoss(
    "quadratic hinge", lambda m: np.maximum(0.0, 1.0 - m) ** 2, lambda m: -2.0 * np.maximum(0.0, 1.0 - m)
)
zero_one = MarginLoss("zero-one", lambda m: np.where(m <= 0.0, 1.0, 0.0), lambda m: np.zeros_like(m))

#: The losses of two classes, by name.
MARGIN_LOSSES = {loss.name: loss for loss in (mse, squared_error, logistic, hinge, quadratic_hinge, zero_one)}


@dataclass(frozen=True)
class SoftmaxLoss:
    """-log softmax(y)_t: the cross entropy between class t and the probabilities softmax(y), a row for each sample."""

    name: str = "softmax"

    def __call__(self, t: ArrayLike, y: ArrayLike) -> Array:
        decisions, classes = self._check(t, y)
        return np.asarray(-np.take_along_axis(log_softmax(decisions, axis=-1), classes[..., None], axis=-1)[..., 0])

    def gradient(self, t: ArrayLike, y: ArrayLike) -> Array:
        """The gradient in y: softmax(y), less one at the true class."""
        decisions, classes = self._check(t, y)
        return np.asarray(probabilities(decisions, axis=-1) - np.eye(decisions.shape[-1])[classes])

    @staticmethod
    def _check(t: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[np.intp]]:
        decisions, classes = np.asarray(y, dtype=np.float64), np.asarray(t)
        if decisions.shape[:-1] != classes.shape:
            raise ValueError(f"t has shape {classes.shape} and y {decisions.shape}: y must have a row of decisions for each t")
        inside = (classes >= 0) & (classes < decisions.shape[-1])
        if classes.dtype.kind not in "iu" or not inside.all():
            raise ValueError(f"t={t!r}: must be the numbers of classes, 0 to {decisions.shape[-1] - 1}")
        return decisions, classes.astype(np.intp)


softmax = SoftmaxLoss()


def quadratic_kernel(K: ArrayLike, C: ArrayLike) -> Array:
    """K_q = K + delta / 2C: the hard margin with this kernel matrix is the quadratic loss (k = 2) with K.

    At the optimum of the quadratic loss xi_i = alpha_i / 2C, and C sum_i xi_i^2 is then 1/2 sum_i alpha_i^2 / 2C, a diagonal.
    `C` may be a number for each sample.
    """
    matrix = np.asarray(K, dtype=np.float64)
    shift = np.broadcast_to(0.5 / np.asarray(C, dtype=np.float64), len(matrix))
    return matrix + np.diag(shift)


__all__ = [
    "MARGIN_LOSSES",
    "MarginLoss",
    "SoftmaxLoss",
    "hinge",
    "logistic",
    "mse",
    "quadratic_hinge",
    "quadratic_kernel",
    "softmax",
    "squared_error",
    "zero_one",
]


def name_of_loss(machine: object) -> str:
    """ "hinge" or "squared_hinge", the losses of the textbooks, for a machine that was given its loss by name or as an object."""
    name = make_loss(machine.loss).name  # type: ignore[attr-defined]
    if name not in ("hinge", "squared_hinge"):
        raise TypeError(f"loss={name!r}: the theory here is that of the hinge and the squared hinge; fit SVC(loss='hinge')")
    return name
