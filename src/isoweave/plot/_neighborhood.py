"""One vertex and its neighbours: as measured, and in the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.graph import NeighborGraph
from isoweave.plot._axes import diverging_norm, import_pyplot, two_axes
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
    p = len(vertices)
    position = {int(v): at for at, v in enumerate(vertices)}
    distances = np.full((p, p), np.inf)
    np.fill_diagonal(distances, 0.0)
    for at, v in enumerate(vertices):
        row = slice(graph.indptr[v], graph.indptr[v + 1])
        for w, length in zip(graph.indices[row].tolist(), graph.lengths[row].tolist(), strict=True):
            if w in position:
                distances[at, position[w]] = length
    for k in range(p):
        distances = np.minimum(distances, distances[:, k, None] + distances[None, k])
    return distances


def plot_neighborhood(
    result: Any,
    vertex: int,
    axes: Sequence[Axes] | None = None,
    *,
    graph: Any = None,
    limit: float = 0.25,
) -> tuple[Axes, Axes]:
    """Draw a vertex and its neighbours as measured, and beside it as they lie in the map.

    Left, directions come from classical scaling of the neighbourhood's own distances and lengths are the
    measured ones; the whole is rotated onto the map. Lines are coloured by the distortion of the edge: length
    in the map over measured length, minus 1. In more than two dimensions both are seen along the two longest
    axes of the neighbourhood in the map.

    Parameters
    ----------
    result : Embedding, fitted estimator, or array of shape (n, N)
    vertex : int
    axes : two matplotlib Axes, optional
        On a new figure by default.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Needed with plain coordinates.
    limit : float
        Distortion at the ends of the colour scale.

    Returns
    -------
    pair of matplotlib Axes
        Before and after.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave import IsometricEmbedding
    >>> X = np.random.default_rng(5).uniform(size=(200, 2))
    >>> before, after = plot_neighborhood(IsometricEmbedding(n_neighbors=8).fit(X), 17)
    >>> before.get_title(), after.get_title()
    ('vertex 17, as measured', 'in the map')
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
    before, after = in_plane(found)
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


def in_plane(found: Neighborhood) -> tuple[FloatArray, FloatArray]:
    """Both layouts in two dimensions: along the two longest axes in the map where there are more."""
    n_components = found.after.shape[1]
    if n_components == 1:
        zeros = np.zeros((len(found.after), 1))
        return np.hstack([found.before, zeros]), np.hstack([found.after, zeros])
    if n_components == 2:
        return found.before, found.after
    _, _, axes = np.linalg.svd(found.after, full_matrices=False)
    plane = axes[:2].T
    return found.before @ plane, found.after @ plane
