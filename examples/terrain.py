"""
How much paper a mountain needs
===============================

The ground around Jacksboro in the Appalachians, as measured by the USGS (the elevation model comes with
matplotlib), flattened: a map on which every walk over a slope is as long as it is outside.
"""

# %%
# Heights on a grid; every sixth point in both directions, and heights times four, because mountains are
# flatter than they look. The corners of all triangles are joined at their distance in space.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from matplotlib.cbook import get_sample_data

from isoweave import embed_graph
from isoweave.diagnostics import edge_errors

with np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)) as model:
    height = model["elevation"][::6, ::6].astype(float)
    step = 6 * 111_200 * float(model["dy"])  # metres between two rows
rows, columns = height.shape
x, y = np.meshgrid(np.arange(columns) * step * np.cos(np.radians(36.6)), -np.arange(rows) * step)
ground = np.column_stack([x.ravel(), y.ravel(), 4.0 * height.ravel()]) / 1000.0

corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
quads = np.column_stack([corner, corner + 1, corner + columns + 1, corner + columns])
faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
pairs = np.unique(np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])), axis=0)
lengths = np.linalg.norm(ground[pairs[:, 0]] - ground[pairs[:, 1]], axis=1)
graph = sp.coo_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(len(ground),) * 2).tocsr()

# %%
# The flat map. Ground is curved, so that no map is exact; ``stretch`` shows where it had to give.

result = embed_graph(graph, n_components=2)
print(f"{len(ground):,} points, {len(pairs):,} edges; off by {edge_errors(result)}")


def area(points):
    """Of the triangles, summed."""
    arms = points[faces[:, 1:]] - points[faces[:, :1]]
    gram = np.einsum("fac,fbc->fab", arms, arms)
    return 0.5 * np.sqrt(np.maximum(np.linalg.det(gram), 0.0)).sum()


seen, needed = area(ground[:, :2]), area(result.coordinates)
print(f"seen from above {seen:,.0f} km2, on the flat map {needed:,.0f} km2, in space {area(ground):,.0f} km2")

# %%
# Left the ground, right its map, coloured by the stretch of triangles. An interactive page with both, linked,
# is ``result.report("ground.html", faces=faces, beside={"ground": ground})``.

figure = plt.figure(figsize=(9, 4.2), layout="constrained")
ax = figure.add_subplot(1, 2, 1, projection="3d")
ax.plot_trisurf(*ground.T, triangles=faces, cmap="gist_earth", edgecolor="none")
ax.set_aspect("equal")
ax.set_axis_off()
ax.set_title("heights times four")
ax = figure.add_subplot(1, 2, 2)
shade = result.stretch.mean(axis=1)[faces].mean(axis=1)
drawn = ax.tripcolor(*result.coordinates.T, faces, facecolors=shade, cmap="coolwarm", vmin=0.8, vmax=1.2)
ax.set_aspect("equal")
ax.set_axis_off()
ax.set_title("flat map")
figure.colorbar(drawn, ax=ax, shrink=0.7, label="stretch")

plt.show()
