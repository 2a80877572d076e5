"""
Digits
======

Images of handwritten digits have more than two dimensions. A map into two loses most neighbourhoods; a
map into as many as the data have keeps them, and two of its axes can still be drawn.
"""

# %%
# ``n_components="auto"`` estimates the dimension from the data.

import matplotlib.pyplot as plt

from isoweave import IsometricEmbedding
from isoweave.datasets import load_digits
from isoweave.metrics import label_scores, neighborhood_scores

digits = load_digits()
X, labels = digits.data[:900], digits.labels[:900]

auto = IsometricEmbedding("auto", n_neighbors=12).fit(X)
print("estimated dimension:", auto.n_components_)

# %%
# Neighbourhoods kept (F1), and the share of images whose nearest neighbours in the map vote for the
# right digit, by dimension.

models = {N: IsometricEmbedding(N, n_neighbors=12).fit(X) for N in (2, 5)} | {auto.n_components_: auto}
f1, accuracy = {}, {}
for n_components, model in models.items():
    f1[n_components] = neighborhood_scores(model.graph_, model.embedding_).f1
    accuracy[n_components] = label_scores(labels, model.embedding_, n_neighbors=12).accuracy
    print(f"N = {n_components}: F1 {f1[n_components]:.2f}, accuracy {accuracy[n_components]:.2f}")

# %%
# Left: the map in two dimensions. Right: the two widest axes of the map in more. Both are views; for
# pictures of separate clusters use UMAP or t-SNE, which do not keep distances.

flat = models[2].embedding_
centred = auto.embedding_ - auto.embedding_.mean(axis=0)
widest = centred[:, centred.var(axis=0).argsort()[::-1][:2]]

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, points, title in zip(
    axes, (flat, widest), ("N = 2", f"N = {auto.n_components_}, two axes"), strict=True
):
    drawn = ax.scatter(*points.T, c=labels, s=6, cmap="tab10", vmin=-0.5, vmax=9.5)
    ax.set_aspect("equal")
    ax.set_title(title)
figure.colorbar(drawn, ax=axes, ticks=range(10), shrink=0.8)

plt.show()
