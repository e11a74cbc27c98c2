"""
Outliers without labels
=======================

``OneClassSVM`` learns where samples usually are. At most a share ν of the training samples is left
outside, and at least that share are support vectors.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import OneClassSVM

rng = np.random.default_rng(0)
usual = np.vstack([rng.normal((-2, 0), 0.5, (150, 2)), rng.normal((2, 0), (0.4, 0.9), (150, 2))])
strange = rng.uniform(-4, 4, (25, 2))
X = np.vstack([usual, strange])

model = OneClassSVM(nu=0.1, gamma=0.6).fit(X)
outside = model.predict(X) == -1
print(f"{outside.mean():.3f} of the samples are outside")
print(f"{len(model.support_) / len(X):.3f} of the samples are support vectors")

side = np.linspace(-4.5, 4.5, 200)
across, up = np.meshgrid(side, side)
f = model.decision_function(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)

figure, ax = plt.subplots(figsize=(7.2, 6.0), layout="constrained")
shade = ax.contourf(across, up, f, levels=14, cmap="Blues", alpha=0.8)
ax.contour(across, up, f, levels=[0.0], colors="k", linewidths=1.5)
ax.plot(*X[~outside].T, ".", color="0.2", label="inside")
ax.plot(*X[outside].T, "x", color="C3", label="outside")
ax.legend(loc="upper center")
figure.colorbar(shade, label="decision f; the line is f = 0")
plt.show()
