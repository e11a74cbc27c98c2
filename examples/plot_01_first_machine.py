"""
A machine and its proof
=======================

Two half-moons, an RBF kernel, and everything that a fitted model knows about itself. The line f = 0
is the boundary; the dashed lines f = ±1 are the margins. A ring marks a support vector: only these
samples decide where the boundary runs.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from maxmargin import SVC, plots

X, y = make_moons(200, noise=0.2, random_state=0)
model = SVC(C=10, gamma=1).fit(X, y)
plots.decision_boundary(model, X, y)
plt.show()

# %%
# The certificate is computed after the fit, in float64, by code that shares nothing with the
# solver. The primal value is what this model costs, the dual value is a lower bound on what any
# model costs; so the gap says how much better a model could be.

print(model.certificate_)
print(model.status_.name)
