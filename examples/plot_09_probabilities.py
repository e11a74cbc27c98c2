"""
Probabilities that can be believed
==================================

A decision is not a probability. ``probability="loo"`` maps decisions to probabilities, fitted on
what the machine would decide about each sample without having seen it; no refit is needed. Of the
samples with a probability near 0.8, about 80 % should belong to the class: the curve then follows
the diagonal.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from maxmargin import SVC

X, y = make_classification(4000, n_features=8, n_informative=4, flip_y=0.15, random_state=0)
X, X_test, y, y_test = train_test_split(X, y, train_size=1000, random_state=0)
model = SVC(C=1, probability="loo").fit(X, y)

figure, ax = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
probabilities = model.predict_proba(X_test)[:, 1]
CalibrationDisplay.from_predictions(y_test, probabilities, n_bins=10, ax=ax, name="SVC")
ax.legend(loc="upper left")
plt.show()

# %%
# The same leave-one-out decisions give an estimate of the error without a test set:

print(f"error on the training samples      {1 - model.score(X, y):.3f}")
print(f"estimated by leaving one out       {model.loo_error_:.3f}")
print(f"on the {len(y_test)} samples of the test   {1 - model.score(X_test, y_test):.3f}")
