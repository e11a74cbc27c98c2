"""
A path of C
===========

Where gamma is known, a path over C alone is cheaper than a grid: each machine starts from the
solution of the one before. With a validation set, the path shows where more C stops to help.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import SVC, C_path, plots

X, y = make_moons(300, noise=0.35, random_state=0)
validation_set = make_moons(1000, noise=0.35, random_state=1)

path = C_path(X, y, np.logspace(-2, 4, 25), estimator=SVC(gamma=2), validation_set=validation_set)
plots.regularisation_path(path)
plt.show()

# %%
best = path.best()
print(f"best: C = {best.C:.3g}, with {len(best.support_)} support vectors")
print(f"accuracy {path.scores.max():.3f} on the validation set")
