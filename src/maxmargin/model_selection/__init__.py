"""Choosing parameters: paths of C, and whole grids of (C, gamma, fold) over shared kernel matrices.

No solver is here. A fold is the whole problem with weight zero on the samples that are held out, so
one kernel matrix serves all folds and all C, and one matrix of distances serves all gamma; linear machines
need none, and their folds read the same rows.
"""

from maxmargin.model_selection.linear_search import LinearSVCCV
from maxmargin.model_selection.path import C_path, Path
from maxmargin.model_selection.search import SVCCV, SVRCV

__all__ = ["SVCCV", "SVRCV", "C_path", "LinearSVCCV", "Path"]


def __dir__() -> list[str]:
    return __all__
