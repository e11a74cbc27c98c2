"""The theory that the tour shows: what a machine is, why a point is optimal, which functions are kernels.

    geometry     hyperplanes, functional and geometric margins, slack
    losses       the losses of a margin, as functions and as curves
    optimality   the Lagrangian, the dual, the KKT conditions, the problem of two duals
    bias         the rules by which textbooks choose the intercept
    mercer       what makes a function a kernel, and explicit feature maps

Nothing that trains a machine may import from here: these pages are read, checked and plotted.
"""
