"""Pictures of fitted machines: their decision boundaries, their support vectors, their convergence.

    BoundaryDisplay      regions, the line f = 0, the margins f = ±1, the support vectors        decision_boundary
    MarginDisplay        a hyperplane in the plane, its margins, and the slack of each sample    margins
    TubeDisplay          the tube of a regression
    OneClassDisplay      contours of a one-class machine
    GapDisplay           duality gap and KKT violation over the seconds of the fit               gap_trace
    GapSharesDisplay     which samples hold the gap
    PathDisplay          score, support vectors and gap of machines over C                       regularisation_path
    GridDisplay          the scores of a grid over C and gamma                                   heat_map
    CalibrationDisplay   observed shares over predicted probabilities

    duality_trace        primal and dual value over the iterations: weak and strong duality
    loss_comparison      the losses of two classes over the margin
    kernel_profiles      k(x, z) over x
    kernel_matrix        k(x, z) for all pairs of samples
    smo_step             two alphas in their box: a step along the equality constraint, clipped
    coordinate_path      coordinate ascent on the same two alphas, one at a time
    save                 a figure to a file

A display has the interface of scikit-learn's: `from_estimator` makes and draws it, `plot(ax=...)` draws it again, `ax_` and
`figure_` are where it was drawn. The functions on the right draw the same and return the axes. Pictures follow the style of
matplotlib, light or dark.

Everything drawn comes from public attributes and methods of a fitted estimator, or from the
definitions in `geometry`, `losses` and `optimality`: nothing is computed here. matplotlib is an extra
(`pip install maxmargin[plot]`), imported only when the first picture is drawn.

May not enter: solvers, kernels, numerics, and numbers that do not come from a model.
"""

from maxmargin.plots.boundary import BoundaryDisplay, decision_boundary
from maxmargin.plots.calibration import CalibrationDisplay
from maxmargin.plots.canvas import save
from maxmargin.plots.duality import duality_trace
from maxmargin.plots.heat_map import GridDisplay, heat_map
from maxmargin.plots.kernels import kernel_matrix, kernel_profiles
from maxmargin.plots.losses import loss_comparison
from maxmargin.plots.margins import MarginDisplay, margins
from maxmargin.plots.one_class import OneClassDisplay
from maxmargin.plots.path import PathDisplay, regularisation_path
from maxmargin.plots.plane import principal_plane
from maxmargin.plots.smo_path import coordinate_path, smo_step
from maxmargin.plots.support import free_support
from maxmargin.plots.trace import GapDisplay, GapSharesDisplay, gap_trace
from maxmargin.plots.tube import TubeDisplay

__all__ = [
    "BoundaryDisplay",
    "CalibrationDisplay",
    "GapDisplay",
    "GapSharesDisplay",
    "GridDisplay",
    "MarginDisplay",
    "OneClassDisplay",
    "PathDisplay",
    "TubeDisplay",
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


def __dir__() -> list[str]:
    return __all__
