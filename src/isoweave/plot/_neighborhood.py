"""One vertex and its neighbours: as measured, and in the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.graph import NeighborGraph
from isoweave.plot._points import diverging_norm, import_pyplot, points_to_draw, two_axes
from isoweave.result import as_embedding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of a hub with more neighbours the nearest are shown.
MOST_NEIGHBORS = 150


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """A vertex and its p - 1 neighbours, before and after."""

    vertices: AnyArray  # the vertex itself, then its neighbours, nearest first
    lengths: FloatArray  # measured distances from the vertex
    # Positions relative to the vertex, shape (p, N): as measured, rotated onto the map, and in the map.
    before: FloatArray
    after: FloatArray


def local_map(graph: NeighborGraph, coordinates: FloatArray, vertex: int) -> Neighborhood:
    """Lay out one neighbourhood from its distances alone.

    Directions come from classical scaling of the neighbourhood's distances, those not measured replaced by
    shortest paths within it; lengths from the vertex are the measured ones. The rigid motion (reflections
    included) that brings this closest to the map is applied, as on the page of :mod:`isoweave.report`.
    Neighbours without coordinates are left out.
    """
    row = slice(graph.indptr[vertex], graph.indptr[vertex + 1])
    neighbors, lengths = graph.indices[row], graph.lengths[row]
    placed = ~np.isnan(coordinates[neighbors]).any(axis=1)
    neighbors, lengths = neighbors[placed], lengths[placed]
    order = np.argsort(lengths, kind="stable")[:MOST_NEIGHBORS]
    vertices = np.concatenate([[vertex], neighbors[order]])
    lengths = np.concatenate([[0.0], lengths[order]])
    after = coordinates[vertices] - coordinates[vertex]
    n_components = coordinates.shape[1]
    distances = _closed_distances(graph, vertices)
    scale = distances.max() or 1.0
    gram = -0.5 * (distances / scale) ** 2
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    scaled = np.zeros((len(vertices), n_components))
    scaled[:, : len(values)] = vectors * np.sqrt(np.maximum(values, 0.0))
    scaled -= scaled[0]
    reach = np.linalg.norm(scaled, axis=1)
    factor = np.divide(lengths, reach, out=np.zeros(len(reach)), where=reach > 1e-9)
    before = scaled * factor[:, None]
    u, _, vt = np.linalg.svd(before.T @ after)
    return Neighborhood(vertices, lengths, before @ (u @ vt), after)


def _closed_distances(graph: NeighborGraph, vertices: AnyArray) -> FloatArray:
    """Measured distances among some vertices, completed by shortest paths among them, shape (p, p)."""
    near = graph.to_matrix()[vertices][:, vertices].tocoo()
    distances = np.full(near.shape, np.inf)
    distances[near.row, near.col] = near.data
    np.fill_diagonal(distances, 0.0)
    for k in range(len(vertices)):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k])
    return distances


def plot_neighborhood(
    result: Any, vertex: int, axes: Sequence[Axes] | None = None, *, graph: Any = None, limit: float = 0.25
) -> tuple[Axes, Axes]:
    """Draw a vertex and its neighbours as measured, and beside it as they lie in the map.

    Left, directions come from classical scaling of the neighbourhood's own distances and lengths are the
    measured ones; the whole is rotated onto the map. Lines are coloured by the distortion of the edge, as by
    :func:`plot_edges`. In more than two dimensions both are seen along the two longest axes of the
    neighbourhood in the map. Returns both axes, ``axes`` or those of a new figure.
    """
    import_pyplot()
    from matplotlib.collections import LineCollection

    source = as_embedding(result, graph)
    kept = source.kept_graph("plot_neighborhood")
    vertex = check_integer("vertex", vertex, minimum=0, maximum=source.n_points - 1)
    if not source.is_placed[vertex]:
        raise ValueError(f"vertex {vertex} has no coordinates: it was not embedded.")
    found = local_map(kept, source.coordinates, vertex)
    if len(found.vertices) == 1:
        raise ValueError(f"vertex {vertex} has no neighbours in the graph.")
    before, after = found.before, found.after
    if before.shape[1] > 2:
        plane = np.linalg.svd(after, full_matrices=False)[2][:2].T
        before, after = before @ plane, after @ plane
    before, after = points_to_draw(before, None), points_to_draw(after, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = np.linalg.norm(found.after[1:], axis=1)
        distortion = np.where(reached == found.lengths[1:], 0.0, reached / found.lengths[1:] - 1.0)
    left, right = two_axes(axes)
    extent = 1.08 * max(float(np.abs(before).max()), float(np.abs(after).max())) or 1.0
    norm = diverging_norm(limit)
    for ax, points, title in ((left, before, f"vertex {vertex}, as measured"), (right, after, "in the map")):
        segments = [[points[0], end] for end in points[1:]]
        lines = LineCollection(segments, cmap="coolwarm", norm=norm, linewidths=1.5, zorder=1)
        lines.set_array(distortion)
        ax.add_collection(lines)
        ax.scatter(points[1:, 0], points[1:, 1], s=18, color="0.2", zorder=2)
        ax.scatter(points[:1, 0], points[:1, 1], s=50, color="black", marker="s", zorder=3)
        ax.set(xlim=(-extent, extent), ylim=(-extent, extent), title=title)
        ax.set_aspect("equal")
    right.figure.colorbar(lines, ax=[left, right], label="length in the map / measured - 1", shrink=0.8)
    return left, right
