"""Data sets that need no file: four that scikit-learn ships, and one that is generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxmargin.io import Table

NAMES = ("breast_cancer", "iris", "wine", "digits", "moons")


def embedded(name: str, seed: int) -> Table:
    """Return the data set `name`; its labels are the names of its classes. `seed` is the random seed of moons."""
    import numpy as np
    from sklearn import datasets

    from maxmargin.io import Table

    if name == "moons":
        X, y = datasets.make_moons(400, noise=0.25, random_state=seed)
        return Table(X, np.array(["upper", "lower"])[y], ("x", "y"), "moons")
    bunch = getattr(datasets, f"load_{name}")()
    return Table(bunch.data, bunch.target_names[bunch.target], tuple(bunch.feature_names), name)
