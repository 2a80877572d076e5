"""
Disconnected graphs
===================

A disconnected graph says nothing about where its components lie relative to each other. ``components``
chooses what to do, and a warning says that there was a choice to make.
"""

# %%
# Three patches of a plane, too far apart to be neighbours of each other.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from isoweave import IsometricEmbedding
from isoweave.metrics import procrustes_error

rng = np.random.default_rng(13)
sizes, centres = (160, 90, 50), ((0.0, 0.0), (4.0, 1.0), (1.0, 4.0))
points = np.concatenate([rng.uniform(-1, 1, (m, 2)) + c for m, c in zip(sizes, centres, strict=True)])
patch = np.repeat(np.arange(3), sizes)

# %%
# ``"separate"``, the default, embeds every component on its own and lays them side by side; ``"largest"``
# embeds one and leaves NaN elsewhere; ``"bridge"`` measures the shortest connections on the features and
# embeds the whole.

maps = {}
for choice in ("separate", "largest", "bridge"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        maps[choice] = IsometricEmbedding(n_neighbors=8, components=choice).fit(points)
    print(f"{choice}: {caught[0].message if caught else 'no warning'}")

# %%
# Every component is right whatever the choice. The position of a bridged component rests on three edges:
# it is about right, but do not trust its orientation.

errors = [procrustes_error(points[patch == i], maps["separate"].embedding_[patch == i]) for i in range(3)]
print("each piece against the truth:", " ".join(f"{error:.4f}" for error in errors))

figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for ax, (title, drawn) in zip(
    axes, [("points", points)] + [(name, model.embedding_) for name, model in maps.items()], strict=True
):
    ax.scatter(*drawn.T, c=patch, cmap="tab10", vmin=-0.5, vmax=9.5, s=5)
    ax.set_aspect("equal")
    ax.set_title(title)

# %%
# ``component_labels_`` says which component every point is in, largest first.

print(np.bincount(maps["separate"].component_labels_))

plt.show()
