"""Data sets that need no file: four that scikit-learn ships, and one that is generated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons

from maxmargin.io import Table

EMBEDDED: dict[str, Callable[[], Any]] = {
    "breast_cancer": load_breast_cancer,
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits,
}
NAMES = (*EMBEDDED, "moons")


def embedded(name: str, seed: int) -> Table:
    """Return the data set `name`; its labels are the names of its classes. `seed` is the random seed of moons."""
    if name == "moons":
        X, y = make_moons(400, noise=0.25, random_state=seed)
        return Table(X, np.array(["upper", "lower"])[y], ("x", "y"), "moons")
    bunch = EMBEDDED[name]()
    return Table(bunch.data, bunch.target_names[bunch.target], tuple(bunch.feature_names), name)
