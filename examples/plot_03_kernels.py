"""
Six kernels on the same data
============================

A kernel says which samples are alike, and with it which boundaries a machine can draw. A kernel is
a name, or an object with its parameters; ``kernel__gamma`` is then a parameter of the machine, for
a grid search as well.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_circles

from maxmargin import SVC, plots
from maxmargin.kernels import RBF, Exponential, Laplacian, Linear, Matern32, Polynomial

X, y = make_circles(150, noise=0.15, factor=0.4, random_state=0)
kernels = [
    Linear(),
    Polynomial(degree=2, gamma=1, coef0=1),
    RBF(gamma=1),
    Laplacian(gamma=1),
    Exponential(gamma=1),
    Matern32(gamma=1),
]

figure, axes = plt.subplots(2, 3, figsize=(12, 8.4), layout="constrained")
for ax, kernel in zip(axes.flat, kernels, strict=True):
    model = SVC(kernel=kernel, C=1).fit(X, y)
    plots.decision_boundary(model, X, y, ax=ax)
    ax.get_legend().remove()
    results = f"accuracy {model.score(X, y):.2f}, {len(model.support_)} support vectors"
    ax.set_title(f"{kernel}\n{results}", loc="left", fontsize=10)
    ax.set(xlabel="", ylabel="")
plt.show()

# %%
# The last four on a line: how fast the likeness to the point z = 1 fades. On a line the Laplacian
# and the exponential kernel are the same; in the plane they measure distance by different norms.

shown = {str(kernel): kernel for kernel in kernels[2:]}
plots.kernel_profiles(shown, at=1.0)
plt.show()
