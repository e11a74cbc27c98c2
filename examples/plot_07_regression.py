"""
Regression in a tube
====================

``SVR`` fits a function so that errors up to ε cost nothing: samples inside the tube f ± ε are not
support vectors, and the model forgets them. ``NuSVR`` is told the share ν of samples that may lie
outside, and finds the tube.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SVR, NuSVR

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 120))
t = np.sin(x) + 0.1 * x + 0.25 * rng.standard_normal(len(x))
grid = np.linspace(0, 10, 400)

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
models = SVR(C=10, gamma=0.5, epsilon=0.4), NuSVR(C=10, gamma=0.5, nu=0.2)
for ax, model in zip(axes, models, strict=True):
    model.fit(x[:, None], t)
    f = model.predict(grid[:, None])
    width = model.epsilon if isinstance(model, SVR) else model.epsilon_
    ax.fill_between(grid, f - width, f + width, color="C0", alpha=0.15, label=f"tube, ε = {width:.2f}")
    ax.plot(grid, f, color="C0", label="f")
    ax.plot(x, t, ".", color="0.4", label="samples")
    ax.plot(x[model.support_], t[model.support_], "o", mfc="none", color="C3", label="support vectors")
    ax.set_title(f"{type(model).__name__}: {len(model.support_)} of {len(x)} are support vectors")
    ax.set_ylim(-1.8, 3.4)
    ax.legend(ncols=2, fontsize=9, loc="upper left")
plt.show()
