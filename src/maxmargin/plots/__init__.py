"""Pictures of fitted machines: where they decide, what holds them up, how they converged.

    decision_boundary   regions, the line f = 0, the margins f = ±1, the support vectors
    gap_trace           duality gap and KKT violation over the seconds of the fit
    save                a figure to a file

Everything drawn comes from public attributes and methods of a fitted estimator: this room asks,
it does not compute. matplotlib is an extra (`pip install maxmargin[plot]`), imported when the
first picture is drawn and not before.

May not enter: solvers, kernels, numerics, and any number that is not on the fitted model.
"""

from maxmargin.plots.boundary import decision_boundary
from maxmargin.plots.canvas import save
from maxmargin.plots.plane import principal_plane
from maxmargin.plots.support import free_support
from maxmargin.plots.trace import gap_trace

__all__ = ["decision_boundary", "free_support", "gap_trace", "principal_plane", "save"]
