"""
Swiss roll
==========

A sheet rolled up in space, unrolled from the distances between neighbours alone. The true sheet is
known, so the error can be measured.
"""

# %%
# A sample of the roll. ``truth`` holds the flat coordinates each point was made from.

import matplotlib.pyplot as plt

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.metrics import local_distance, procrustes_error

roll = swiss_roll(1000, random_state=7)

# %%
# The estimator joins every point to its ten nearest neighbours and embeds that graph.

model = IsometricEmbedding(n_components=2, n_neighbors=10)
Y = model.fit_transform(roll.data)
error = procrustes_error(roll.truth, Y)
print(f"{model.status_} after {model.n_iter_} steps")
print(f"distance to the true sheet, squared, over its variance: {error:.1e}")
print(f"mean relative error of the edges: {local_distance(model.graph_, Y):.3f}")

# %%
# Left: the roll. Middle: its map. Right: the local stretch, 1 where lengths are kept. It deviates at the rim,
# where points have neighbours on one side only.

figure = plt.figure(figsize=(10, 3.2), layout="constrained")
ax = figure.add_subplot(1, 3, 1, projection="3d")
ax.scatter(*roll.data.T, c=roll.truth[:, 0], s=4)
ax.set_title("data")
ax = figure.add_subplot(1, 3, 2)
ax.scatter(*Y.T, c=roll.truth[:, 0], s=4)
ax.set_aspect("equal")
ax.set_title("map")
ax = figure.add_subplot(1, 3, 3)
drawn = ax.scatter(*Y.T, c=model.stretch_.mean(axis=1), s=4, cmap="coolwarm", vmin=0.9, vmax=1.1)
ax.set_aspect("equal")
ax.set_title("stretch")
figure.colorbar(drawn, ax=ax, shrink=0.7)

# %%
# The features are not needed: the sparse graph of distances gives the same map, to the last bit.

result = embed_graph(model.graph_, n_components=2)
same = bool((result.coordinates == Y).all())
print("the same map from the graph alone:", same)

plt.show()
