"""
A kernel of your own: words
===========================

A machine needs no vectors, only a kernel. Here the samples are words, and two words are alike if
they share pairs of letters. The matrix of all pairs goes in with ``kernel="precomputed"``; a
function of two arrays may be given instead where samples are vectors.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SVC
from maxmargin.theory.mercer import mercer

english = ["water", "weather", "window", "winter", "thought", "through", "thunder", "height"]
english += ["knowledge", "strength", "kitchen", "whisper", "shoulder", "yellow"]
italian = ["acqua", "finestra", "inverno", "giallo", "pensiero", "attraverso", "altezza", "forza"]
italian += ["conoscenza", "cucina", "sussurro", "spalla", "ragazzo", "piazza"]
words = np.array(english + italian)
language = np.repeat(["English", "Italian"], [len(english), len(italian)])


def pairs(word):
    return [a + b for a, b in zip(f"^{word}", f"{word}$", strict=True)]


alphabet = sorted({pair for word in words for pair in pairs(word)})
counts = np.array([[pairs(word).count(pair) for pair in alphabet] for word in words], dtype=float)
counts /= np.linalg.norm(counts, axis=1, keepdims=True)
K = counts @ counts.T
print(mercer(K))  # is it a kernel at all?

# %%
model = SVC(kernel="precomputed", probability="loo").fit(K, language)
print(f"error by leaving one out: {model.loo_error_:.2f}")

figure, ax = plt.subplots(figsize=(8.4, 7.2), layout="constrained")
image = ax.imshow(K - np.diag(np.diag(K)), cmap="magma_r")
ax.set_xticks(range(len(words)), words, rotation=90, fontsize=8)
ax.set_yticks(range(len(words)), words, fontsize=8)
figure.colorbar(image, label="k(word, word), without the diagonal")
plt.show()
