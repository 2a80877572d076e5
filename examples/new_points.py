"""
New points
==========

New points can be placed in a finished map, with a measure of how far to trust each position.
"""

# %%
# A swiss roll, a fifth of it held back, and some points that do not lie on it at all.

import matplotlib.pyplot as plt
import numpy as np

from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll

roll = swiss_roll(1000, random_state=17)
fitted, held = np.arange(800), np.arange(800, 1000)
rng = np.random.default_rng(19)
strangers = roll.data[held[:30]] + rng.normal(scale=1.2, size=(30, 3))

model = IsometricEmbedding(n_components=2, n_neighbors=10).fit(roll.data[fitted])

# %%
# ``transform`` gives coordinates, ``place`` gives the residuals too: 0 is an exact fit. The map itself
# does not change.

placed = model.place(roll.data[held])
off = model.place(strangers)
print(f"median residual of held-out points {np.median(placed.residual):.3f}")
print(f"median residual of points off the roll {np.median(off.residual):.3f}")

# %%
# The truth, moved rigidly to fit the points of the fit, shows how far off the new points are, in units of
# the distance between neighbours.

origin, goal = roll.truth[fitted].mean(axis=0), model.embedding_.mean(axis=0)
U, _, Vt = np.linalg.svd((roll.truth[fitted] - origin).T @ (model.embedding_ - goal))
expected = (roll.truth[held] - origin) @ (U @ Vt) + goal
error = np.linalg.norm(placed.coordinates - expected, axis=1) / np.median(model.graph_.data)
print(f"held-out points: off by {np.median(error):.3f} neighbour distances (median)")

figure, axes = plt.subplots(2, 1, figsize=(7, 5.5), layout="constrained")
axes[0].scatter(*model.embedding_.T, s=3, color="0.7", label="fit")
axes[0].scatter(*placed.coordinates.T, s=8, color="tab:blue", label="new, on the roll")
axes[0].scatter(*off.coordinates.T, s=12, marker="x", color="tab:red", label="new, off the roll")
axes[0].set_aspect("equal")
axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, 1.3), ncols=3)
bins = np.linspace(0, min(1.0, float(off.residual.max())), 40)
axes[1].hist(placed.residual, bins, label="on the roll")
axes[1].hist(off.residual, bins, alpha=0.7, label="off the roll")
axes[1].set_xlabel("residual")
axes[1].legend()

# %%
# With enough new points the map should learn from them: ``add_samples`` fits again from where it is.

model.add_samples(roll.data[held])
print("points in the map now:", len(model.embedding_))

plt.show()
