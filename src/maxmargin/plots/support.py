"""Which support vectors are free and which have reached the bound C."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from maxmargin.formulations import make_loss

AT_THE_BOUND = 1e-8  # relative distance to C below which a dual variable counts as being at C


def free_support(model: Any) -> NDArray[np.bool_]:
    """Return, for each support vector of a fitted `SVC`, whether it is free: whether 0 < |β| < C.

    Free support vectors lie on the margin, the others at the bound: on it, inside it or beyond.
    With several classes one vector serves several machines; it is free if it is free in one of them.
    C is the bound of the vector's class; sample weights are not on the model and are not seen.
    With loss="squared_hinge" there is no bound, and every support vector is free.
    """
    beta = model.dual_coef_.toarray() if issparse(model.dual_coef_) else model.dual_coef_
    bound = model.C if np.isfinite(make_loss(model.loss).box(np.ones(1))[0][0]) else np.inf
    bounds = np.repeat(bound * np.asarray(model.class_weight_), model.n_support_)
    size: NDArray[np.float64] = np.abs(beta)
    return np.asarray(((size > 0) & (size < bounds * (1 - AT_THE_BOUND))).any(axis=0))
