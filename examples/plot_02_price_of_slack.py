"""
C is the price of slack
=======================

A sample inside the margin, or on the wrong side, has slack: the line from the sample to its margin.
C is what a unit of slack costs. A small C accepts much slack for a wide margin; a large C pays for
a narrow margin with little slack. Black rings mark the support vectors on the margin, yellow ones
those inside it, and purple ones those on the wrong side.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from maxmargin import SVC, plots

X, y = make_blobs(80, centers=[(-1.2, -0.5), (1.2, 0.5)], cluster_std=0.9, random_state=1)

figure, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained", sharey=True)
for ax, C in zip(axes, (0.02, 0.2, 20.0), strict=True):
    model = SVC(C=C, kernel="linear").fit(X, y)
    plots.margins(model, X, y, ax=ax)
    ax.get_legend().remove()
    ax.label_outer()
    title = f"C = {C:g}: margin {model.margin_:.2f}, {len(model.support_)} support vectors"
    ax.set_title(title, loc="left", fontsize=10)
plt.show()

# %%
# With ``C=numpy.inf`` no slack is allowed at all. These classes overlap, so that problem has no
# solution, and the status says so:

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    hard = SVC(C=np.inf, kernel="linear").fit(X, y)
print(hard.status_.name)
