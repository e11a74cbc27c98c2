"""A fitted model of any library in one convention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
DOUBLE = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Fitted:
    """A support vector machine in the conventions of scikit-learn.

    The decision is ``coefficients @ k(support vectors, x) + intercepts``; with two classes the second is the positive one, with
    more the rows and intercepts are laid out as `maxmargin.multiclass` describes.
    """

    library: str
    machine: str  # one of MACHINES
    coefficients: NDArray[np.float64]  # a column for each support vector
    intercepts: Vector
    support: NDArray[np.intp] | None  # the numbers of the support vectors in the training set, where the model kept them
    vectors: Any  # the support vectors themselves, dense or CSR, where the model kept them; else None
    n_samples: int | None = None  # of the training set, where the model kept it
    n_features: int | None = None

    kernel: str | Callable[..., Any] = "rbf"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 0.0

    C: float | None = None  # None: the model did not keep it
    nu: float | None = None
    epsilon: float | None = None
    loss: str | None = None  # None: the loss that is not squared
    fit_intercept: bool = True
    augmented: bool = False  # whether the intercept is a weight like the others, of the kernel K + 1

    classes: NDArray[Any] | None = None  # None: in the order in which they appear in y
    n_support: NDArray[np.intp] | None = None  # support vectors of each class; those without sample numbers are sorted by class
    class_weight: Any = None  # as an estimator takes it
    strategy: str = "ovo"

    tol: float | None = None
    precision: float = DOUBLE  # the relative rounding of the coefficients
    digits: int | None = None  # significant digits of the support vectors, where they were printed

    @property
    def classifies(self) -> bool:
        return self.machine in ("SVC", "NuSVC")

    @property
    def regresses(self) -> bool:
        return self.machine in ("SVR", "NuSVR")

    def parameter(self, name: str) -> float:
        """C, nu or epsilon; a ValueError if neither the model nor the caller gave it."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(
                f"{name}: this model of {self.library} does not say it: pass the value of the fit, {name}=... (or --{name})"
            )
        return float(value)
