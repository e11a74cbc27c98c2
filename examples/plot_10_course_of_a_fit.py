"""
The course of a fit
===================

Every fit keeps a trace: after each iteration, the primal and the dual value. The optimum lies
between them, so at each moment it is known how much there is left to gain. Platt's SMO, one of the
textbook solvers, takes small steps, so its trace shows this well:
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification

from maxmargin import SVC, plots

X, y = make_classification(6000, n_features=10, n_informative=6, flip_y=0.05, random_state=0)
plots.duality_trace(SVC(C=1, solver="smo-platt").fit(X[:200], y[:200]))
plt.show()

# %%
# The fast solver needs few iterations, also for 6000 samples. The dot is the certificate, which is
# computed afresh:

model = SVC(C=10).fit(X, y)
plots.gap_trace(model)
plt.show()

# %%
# Because the gap is known, an early stop is safe: ``max_iter`` or ``max_seconds`` end a fit, the
# model is usable, and its certificate tells what is missing.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    stopped = SVC(C=10, max_iter=3000).fit(X, y)
for one in (stopped, model):
    gap = one.certificate_.relative_gap
    print(f"{one.status_.name:9}  relative gap {gap:.1e}, accuracy {one.score(X, y):.4f}")
