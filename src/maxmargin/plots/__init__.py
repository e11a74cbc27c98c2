"""Pictures of fitted machines: their decision boundaries, their support vectors, their convergence.

    decision_boundary   regions, the line f = 0, the margins f = ±1, the support vectors
    gap_trace           duality gap and KKT violation over the seconds of the fit
    duality_trace       primal and dual value over its iterations: weak and strong duality
    regularisation_path score, support vectors and gap of machines over C
    heat_map            the scores of a grid over C and gamma
    margins             a hyperplane in the plane, its margins, and the slack of each sample
    loss_comparison     the losses of two classes over the margin
    kernel_profiles     k(x, z) over x
    kernel_matrix       k(x, z) for all pairs of samples
    smo_step            two alphas in their box: a step along the equality constraint, clipped
    coordinate_path     coordinate ascent on the same two alphas, one at a time
    save                a figure to a file

Everything drawn comes from public attributes and methods of a fitted estimator, or from the
definitions in `geometry`, `losses` and `optimality`: nothing is computed here. matplotlib is an extra
(`pip install maxmargin[plot]`), imported only when the first picture is drawn.

May not enter: solvers, kernels, numerics, and numbers that do not come from a model.
"""

from maxmargin.plots.boundary import decision_boundary
from maxmargin.plots.canvas import save
from maxmargin.plots.duality import duality_trace
from maxmargin.plots.heat_map import heat_map
from maxmargin.plots.kernels import kernel_matrix, kernel_profiles
from maxmargin.plots.losses import loss_comparison
from maxmargin.plots.margins import margins
from maxmargin.plots.path import regularisation_path
from maxmargin.plots.plane import principal_plane
from maxmargin.plots.smo_path import coordinate_path, smo_step
from maxmargin.plots.support import free_support
from maxmargin.plots.trace import gap_trace

__all__ = [
    "coordinate_path",
    "decision_boundary",
    "duality_trace",
    "free_support",
    "gap_trace",
    "heat_map",
    "kernel_matrix",
    "kernel_profiles",
    "loss_comparison",
    "margins",
    "principal_plane",
    "regularisation_path",
    "save",
    "smo_step",
]
