"""The plane in which data of many features are drawn: the one in which they vary most."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse
from sklearn.decomposition import PCA


def principal_plane(X: Any) -> tuple[PCA, tuple[str, str]]:
    """Return the first two principal components of X as a fitted transformer, and the labels of the axes."""
    if X.shape[1] < 2:
        raise ValueError("X has 1 feature: a picture of a plane needs at least 2")
    plane = PCA(2, svd_solver="arpack" if issparse(X) else "auto", random_state=0).fit(X)
    first, second = (
        f"principal component {k} ({share:.0%} of the variance)"
        for k, share in enumerate(plane.explained_variance_ratio_, start=1)
    )
    return plane, (first, second)
