"""
More than two classes
=====================

``multi_class="ovo"`` trains a machine for each pair of classes, as LIBSVM and scikit-learn do,
``"ovr"`` one for each class against the rest, and ``"crammer_singer"`` a single machine for all
classes at once. All of them carry one certificate.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

from maxmargin import SVC, plots

iris = load_iris()
X, y = scale(iris.data[:, [0, 2]]), iris.target_names[iris.target]
names = ("sepal length, scaled", "petal length, scaled")

figure, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained", sharey=True)
for ax, strategy in zip(axes, ("ovo", "ovr", "crammer_singer"), strict=True):
    model = SVC(C=1, gamma=1, multi_class=strategy).fit(X, y)
    plots.decision_boundary(model, X, y, ax=ax, feature_names=names)
    ax.get_legend().remove()
    results = f"accuracy {model.score(X, y):.3f}, relative gap {model.certificate_.relative_gap:.1e}"
    ax.set_title(f"{strategy}\n{results}", loc="left", fontsize=10)
plt.show()
