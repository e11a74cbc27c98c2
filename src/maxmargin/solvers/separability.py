"""Whether the classes of a hard-margin problem can be separated at all, and the proof that they cannot.

The duals of a hard margin are bounded by nothing but zero, so they form a cone. Let m be half the sum of |beta|. Then
beta / m weighs each class to a total of one: it names a point in the convex hull of either class, and beta' K beta / m^2
is the squared distance of the two points. For the best m the dual value is 2 / distance^2. If the hulls are apart, it
stays below 1/2 |w|^2 of any separating hyperplane; if they meet, it grows without bound, and the point in which they
meet is the proof.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxmargin.formulations import DualProblem, Sums

Vector = NDArray[np.float64]

TOUCHING = 1e-12  # squared distance of the hulls, relative to the largest k(x, x), that counts as zero
ROUNDING = float(np.finfo(float).eps)  # rounding error of a difference, relative to the sizes of its two terms
BALANCED = 1e-9  # largest difference between the masses of the classes, relative to either mass


def hulls_meet(problem: DualProblem, sums: Sums, largest_diagonal: float) -> bool:
    """Whether the point with these sums proves that the classes of a hard-margin problem cannot be separated, to working
    precision."""
    mass = 0.5 * sums.mass
    if not problem.hard or mass == 0.0:
        return False
    if problem.coupled and abs(sums.total) > BALANCED * mass:  # points of the two hulls have the same weight
        return False
    squared_distance = (sums.curvature + ROUNDING * sums.terms) / mass / mass
    return largest_diagonal == 0.0 or squared_distance <= TOUCHING * largest_diagonal  # zero: all samples are the same


def best_multiple(problem: DualProblem, beta: Vector, gradient: Vector) -> float:
    """The s with the lowest objective 1/2 s^2 beta' K beta + s linear' beta: an exact step along a ray of the cone.

    Single duals go that way too, but in steps of a length that does not grow, so it takes them 1 / distance steps to
    prove that the hulls meet. If they do meet, s stops where the distance could no longer be told from rounding.
    """
    curvature, slope = float(beta @ (gradient - problem.linear)), float(beta @ problem.linear)
    if not problem.hard or slope >= 0.0:
        return 1.0
    return -slope / max(curvature, 1e-3 * TOUCHING * slope**2)
