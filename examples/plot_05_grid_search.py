"""
Choosing C and gamma
====================

``SVCCV`` searches a grid by cross-validation. Its results are those of scikit-learn's
``GridSearchCV``, but one kernel matrix per gamma serves all values of C and all folds, and every
fit is certified.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin import SVCCV, plots

X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
scaler = StandardScaler().fit(X)
search = SVCCV(Cs=np.logspace(-1, 3, 9), gammas=np.logspace(-4, 0, 9)).fit(scaler.transform(X), y)
plots.heat_map(search)
plt.show()

# %%
# The diagonal ridge of good scores is typical: a larger C makes up for a smaller gamma. If the best
# point lay at the edge of the grid, a wider grid would be worth its time. The score that counts is
# the one on samples that took no part in the choice:

print(f"best: {search.best_params_}, {search.best_score_:.3f} in cross-validation")
print(f"on the test set: {search.score(scaler.transform(X_test), y_test):.3f}")
gaps = [search.cv_results_[name].max() for name in search.cv_results_ if "gap" in name]
print(f"largest relative duality gap of all fits: {np.max(gaps):.1e}")
