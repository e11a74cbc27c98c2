"""Hyperplanes: distances, margins and slack, of a plain (w, b) or of a fitted machine in its feature space.

    h(x) = w . phi(x) + b                       the hyperplane function
    r = h(x) / |w|                              the directed distance of x, |r| the distance
    y h(x)                                      the functional margin of a sample; of a data set, the smallest
    delta = y h(x) / |w|                        the geometric margin; of a data set, the smallest
    xi = max(0, 1 - y h(x))                     the slack
    2 / |w|                                     the width of the margin, between h = -1 and h = +1

All functions take a `Plane`: `Hyperplane(w, b)` in the space of the samples, or `of(model)` for a fitted binary machine, where
w = sum_i beta_i phi(x_i) and |w|^2 = beta' K beta. Distances are then distances in feature space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

Vector = NDArray[np.float64]

ROUNDING = 1e-9  # difference from a functional margin of 1 that counts as rounding


class Plane(Protocol):
    """A hyperplane with distances and margins."""

    @property
    def norm(self) -> float:
        """|w|."""

    @property
    def tolerance(self) -> float:
        """How far a functional margin may be from 1 and still count as 1."""

    def h(self, X: Any) -> Vector:
        """The hyperplane function at each sample."""

    def signs(self, y: ArrayLike) -> Vector:
        """The labels as -1 and +1."""

    def scaled(self, factor: float) -> Self:
        """The same hyperplane with factor w and factor b in place of w and b."""


P = TypeVar("P", bound=Plane)


@dataclass(frozen=True, eq=False)
class Hyperplane:
    """All x with w . x + b = 0; labels are -1 and +1. A linear model gives one as (coef_[0], intercept_[0])."""

    w: Vector
    b: float
    tolerance: float = ROUNDING

    def __post_init__(self) -> None:
        w = np.asarray(self.w, dtype=np.float64)
        if w.ndim != 1 or not np.isfinite(w).all():
            raise ValueError(f"w={self.w!r}: must be a vector of finite numbers (a row of coef_ is one)")
        object.__setattr__(self, "w", w)
        object.__setattr__(self, "b", float(self.b))

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.w))

    def h(self, X: Any) -> Vector:
        samples = X if sp.issparse(X) else np.atleast_2d(np.asarray(X, dtype=np.float64))
        return np.asarray(samples @ self.w + self.b)

    def signs(self, y: ArrayLike) -> Vector:
        signs = np.asarray(y)
        if not np.isin(signs, (-1, 1)).all():
            found = np.unique(signs).tolist()
            raise ValueError(f"y has the labels {found}: a plain hyperplane knows -1 and +1 (use numpy.where(y == ..., 1, -1))")
        return signs.astype(np.float64)

    def scaled(self, factor: float) -> Hyperplane:
        return replace(self, w=factor * self.w, b=factor * self.b)

    def project(self, X: Any) -> NDArray[np.float64]:
        """The point of the hyperplane nearest to each sample: x - r w / |w|."""
        return np.asarray(X, dtype=np.float64) - np.outer(directed_distance(self, X), self.w / self.norm)


@dataclass(frozen=True, eq=False)
class FeatureHyperplane:
    """The hyperplane of a fitted binary machine (perhaps the last step of a pipeline) in the feature space of its kernel."""

    model: Any
    factor: float = 1.0

    @property
    def machine(self) -> Any:
        return self.model.steps[-1][1] if hasattr(self.model, "steps") else self.model

    @property
    def norm(self) -> float:
        return abs(self.factor) / float(self.machine.margin_) if np.isfinite(self.machine.margin_) else 0.0

    @property
    def tolerance(self) -> float:
        return float(self.machine.tol)

    def h(self, X: Any) -> Vector:
        return self.factor * np.asarray(self.model.decision_function(X), dtype=np.float64)

    def signs(self, y: ArrayLike) -> Vector:
        labels, classes = np.asarray(y), self.machine.classes_
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"y has the label {unknown.tolist()[0]!r}: the model was trained on {classes.tolist()}")
        return np.where(labels == classes[1], 1.0, -1.0)

    def scaled(self, factor: float) -> FeatureHyperplane:
        return replace(self, factor=factor * self.factor)


def of(model: Any) -> FeatureHyperplane:
    """The hyperplane of a fitted `SVC` of two classes, whatever its kernel."""
    plane = FeatureHyperplane(model)
    classes = plane.machine.classes_
    if len(classes) != 2:
        pair = classes[:2].tolist()
        raise ValueError(
            f"the model has {len(classes)} classes, so several hyperplanes: look at one pair of classes at a time, with a "
            f"model fitted to them alone (pair = numpy.isin(y, {pair}); model.fit(X[pair], y[pair]))"
        )
    return plane


# --- distances -----------------------------------------------------------------------------------------------------


def directed_distance(plane: Plane, X: Any) -> Vector:
    """The directed distance r = h(x) / |w| of each sample: positive on the side that w points to."""
    return plane.h(X) / _positive_norm(plane)


def distance(plane: Plane, X: Any) -> Vector:
    """The distance |h(x)| / |w| of each sample."""
    return np.abs(directed_distance(plane, X))


def margin_width(plane: Plane) -> float:
    """The width 2 / |w| of the margin, from h = -1 to h = +1."""
    return 2.0 / _positive_norm(plane)


def _positive_norm(plane: Plane) -> float:
    norm = plane.norm
    if not norm > 0.0:
        raise ValueError("w is zero: there is no hyperplane to be distant from (a model without support vectors has none)")
    return norm


# --- margins -------------------------------------------------------------------------------------------------------


def functional_margins(plane: Plane, X: Any, y: ArrayLike) -> Vector:
    """The functional margin y h(x) of each sample: positive if it is classified correctly. It grows with the scale of (w, b)."""
    values, signs = plane.h(X), plane.signs(y)
    if values.shape != signs.shape:
        raise ValueError(f"y has shape {signs.shape}: must have one label for each of the {len(values)} samples of X")
    return signs * values


def functional_margin(plane: Plane, X: Any, y: ArrayLike) -> float:
    """The functional margin of the data set: the smallest one of its samples."""
    return float(functional_margins(plane, X, y).min())


def geometric_margins(plane: Plane, X: Any, y: ArrayLike) -> Vector:
    """The geometric margin delta = y h(x) / |w| of each sample, which does not depend on the scale of (w, b)."""
    return functional_margins(plane, X, y) / _positive_norm(plane)


def geometric_margin(plane: Plane, X: Any, y: ArrayLike) -> float:
    """The geometric margin delta* of the data set: the distance of the nearest sample, if the hyperplane separates the
    classes."""
    return float(geometric_margins(plane, X, y).min())


def canonical(plane: P, X: Any, y: ArrayLike) -> P:
    """The same hyperplane scaled so that the nearest samples have a functional margin of 1, and delta* = 1 / |w|."""
    smallest = functional_margin(plane, X, y)
    if not smallest > 0.0:
        raise ValueError(
            f"the functional margin of the data set is {smallest:.3g}: only a hyperplane that separates the classes has a "
            "canonical form (slack says how far the samples are on the wrong side)"
        )
    return plane.scaled(1.0 / smallest)


# --- slack ---------------------------------------------------------------------------------------------------------


class Side(Enum):
    """Where a sample lies. The value is the sentence a user reads."""

    OUTSIDE = "outside the margin, on the right side: y h(x) > 1, xi = 0"
    ON_MARGIN = "on the margin: y h(x) = 1, xi = 0"
    INSIDE = "inside the margin, on the right side: 0 < xi < 1"
    MISCLASSIFIED = "on the wrong side, or on the hyperplane itself: xi >= 1"


def slack(plane: Plane, X: Any, y: ArrayLike) -> Vector:
    """The slack xi = max(0, 1 - y h(x)) of each sample: what its functional margin lacks to 1."""
    return np.maximum(0.0, 1.0 - functional_margins(plane, X, y))


def sides(plane: Plane, X: Any, y: ArrayLike, tolerance: float | None = None) -> NDArray[np.object_]:
    """The `Side` of each sample. Samples within `tolerance` of the margin (default: the plane's own) are on it."""
    near = plane.tolerance if tolerance is None else tolerance
    margins = functional_margins(plane, X, y)
    found = np.full(len(margins), Side.INSIDE, dtype=object)
    found[margins > 1.0] = Side.OUTSIDE
    found[margins <= 0.0] = Side.MISCLASSIFIED
    found[np.abs(margins - 1.0) <= near] = Side.ON_MARGIN
    return found


@dataclass(frozen=True)
class SupportVectors:
    """The sample numbers of the support vectors of a machine: those on the margin and those with slack."""

    on_margin: NDArray[np.intp]
    with_slack: NDArray[np.intp]


def support_vectors(model: Any, X: Any, y: ArrayLike, tolerance: float | None = None) -> SupportVectors:
    """The support vectors of a fitted binary machine, on the margin and with slack; X and y are its training data.

    With the hinge loss support vectors on the margin are free (0 < alpha < C) and those with slack have alpha = C, except for
    samples at C that are on the margin by chance. With the quadratic loss xi = alpha / 2C, so every support vector has slack.
    """
    plane = of(model)
    xi = slack(plane, X, y)
    support = np.sort(plane.machine.support_).astype(np.intp)
    near = plane.tolerance if tolerance is None else tolerance
    return SupportVectors(on_margin=support[xi[support] <= near], with_slack=support[xi[support] > near])
