"""
How good is a model of another library?
=======================================

``audit`` computes the certificate of a model that somebody else fitted: here scikit-learn's, at
several values of ``tol``. Its stopping rule bounds the violation of the optimality conditions,
which for a large C says little about the gap.
"""

import matplotlib.pyplot as plt
from sklearn import svm
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from maxmargin import SVC, audit

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)[:, :6]
tols = [1e-1, 1e-2, 1e-3, 1e-4]

figure, ax = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
for C, marker in ((1, "o"), (100, "s"), (10_000, "^")):
    theirs = [svm.SVC(C=C, gamma=0.5, tol=tol).fit(X, y) for tol in tols]
    gaps = [audit(model, X, y).relative_gap_as_is for model in theirs]
    ax.loglog(tols, gaps, marker=marker, label=f"scikit-learn, C = {C:,}")
ours = [SVC(C=10_000, gamma=0.5, tol=tol).fit(X, y).certificate_.relative_gap for tol in tols]
ax.loglog(tols, ours, "k--", marker="x", label="maxmargin, C = 10,000")
ax.axhline(1e-3, color="0.6", linewidth=1)
ax.text(tols[0], 1.2e-3, "gap_tol, by default", ha="left", fontsize=9, color="0.4")
ax.set(xlabel="tol", ylabel="relative duality gap")
ax.invert_xaxis()
ax.legend()
plt.show()

# %%
print(audit(svm.SVC(C=10_000, gamma=0.5).fit(X, y), X, y))
