"""
Flattening a mesh
=================

A triangle mesh is a distance graph: its edges, and across every edge the distance of the two corners that
face each other, once the triangles are unfolded. A surface that can be unrolled is mapped
exactly; one that cannot shows where it had to be stretched.
"""

# %%
# Two meshes over the same grid of triangles: a corrugated sheet, which is bent but not stretched, and a
# cap of a sphere, which has no flat map.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.spatial import Delaunay

from isoweave import IsometricEmbedding
from isoweave.diagnostics import edge_errors
from isoweave.metrics import procrustes_error

rng = np.random.default_rng(9)
grid = np.stack(np.meshgrid(np.linspace(-1, 1, 32), np.linspace(-1, 1, 32)), axis=-1).reshape(-1, 2)
flat = grid + rng.uniform(-0.02, 0.02, size=grid.shape)
faces = Delaunay(flat).simplices


def corrugated(points, bend=0.9, waves=4.0):
    """Roll a sheet along a curve of unit speed, whose direction swings to and fro."""
    fine = np.linspace(-1.1, 1.1, 4001)
    step = fine[1] - fine[0]
    x = np.cumsum(np.cos(bend * np.sin(waves * fine))) * step
    z = np.cumsum(np.sin(bend * np.sin(waves * fine))) * step
    along, across = points.T
    return np.column_stack([np.interp(along, fine, x), across, np.interp(along, fine, z)])


def cap(points, angle=1.0):
    """Wrap a sheet around a sphere, keeping distances from its middle."""
    r = np.linalg.norm(points, axis=1)
    out = np.sin(angle * r) / (angle * np.maximum(r, 1e-12))
    return np.column_stack([points * out[:, None], np.cos(angle * r) / angle])


def mesh_graph(vertices):
    """Edges of the triangles, and the corners that face each other across an edge, unfolded flat."""
    corners = np.vstack([faces[:, [0, 1, 2]], faces[:, [1, 2, 0]], faces[:, [2, 0, 1]]])
    corners[:, :2].sort(axis=1)
    corners = corners[np.lexsort((corners[:, 1], corners[:, 0]))]
    pairs = [corners[:, :2]]
    a, b, c = vertices[corners].transpose(1, 0, 2)
    base = np.linalg.norm(b - a, axis=1)
    lengths = [base]
    # Where the corner lies along the edge, and how far beside it.
    along = np.sum((c - a) * (b - a), axis=1) / base
    beside = np.sqrt(np.sum((c - a) ** 2, axis=1) - along**2)
    first = np.flatnonzero((corners[1:, :2] == corners[:-1, :2]).all(axis=1))
    pairs.append(np.column_stack([corners[first, 2], corners[first + 1, 2]]))
    lengths.append(np.hypot(along[first] - along[first + 1], beside[first] + beside[first + 1]))
    # An edge of two triangles is listed twice, in the same direction; the estimator would settle that, a
    # matrix would add the two up.
    pairs, at = np.unique(np.sort(np.vstack(pairs), axis=1), axis=0, return_index=True)
    n = len(vertices)
    return sp.coo_array((np.concatenate(lengths)[at], tuple(pairs.T)), shape=(n, n)).tocsr()


# %%
# Flatten both. ``stretch_`` has the singular values of the map around every vertex: 1 where lengths are
# kept.

models = {}
for name, surface in (("corrugated", corrugated(flat)), ("cap", cap(flat))):
    model = IsometricEmbedding(n_components=2, metric="precomputed", tol=0.003).fit(mesh_graph(surface))
    models[name] = surface, model
    worst = np.abs(np.log(model.stretch_)).max(axis=1)
    print(f"{name}: edges off by {edge_errors(model)}; median stretch off by {np.median(worst):.3f}")
error = procrustes_error(flat, models["corrugated"][1].embedding_)
print(f"corrugated sheet against the flat one: {error:.1e}")

# %%
# Above: the surfaces. Below: their maps, each triangle coloured by the mean stretch of its corners.

figure = plt.figure(figsize=(8, 7), layout="constrained")
for column, (name, (surface, model)) in enumerate(models.items()):
    ax = figure.add_subplot(2, 2, 1 + column, projection="3d")
    ax.plot_trisurf(*surface.T, triangles=faces, color="lightsteelblue", edgecolor="none")
    ax.set_title(name)
    ax.set_aspect("equal")
    ax = figure.add_subplot(2, 2, 3 + column)
    shade = model.stretch_.mean(axis=1)[faces].mean(axis=1)
    drawn = ax.tripcolor(*model.embedding_.T, faces, facecolors=shade, cmap="coolwarm", vmin=0.85, vmax=1.15)
    ax.set_aspect("equal")
figure.colorbar(drawn, ax=figure.axes[1::2], shrink=0.5, label="stretch")

plt.show()
