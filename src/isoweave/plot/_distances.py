"""Lengths before and after: edges by distortion, Shepard diagrams, neighbourhoods; the energy on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import dijkstra

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.diagnostics import edge_table
from isoweave.graph import NeighborGraph, edge_distortion, subgraph
from isoweave.plot._points import axes_for, diverging_norm, import_pyplot, new_axes, points_to_draw
from isoweave.result import Embedding, as_embedding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from isoweave.metrics import GeodesicRows

# Shortest paths from a vertex take about as long as reading the graph a few times.
_MOST_ROWS = 200
# More pairs are drawn as a density.
_MOST_POINTS, _BINS = 5000, 120
# Up to so many edges lines have their full width.
_THICK_EDGES = 3000
# Of a hub with more neighbours the nearest are shown.
_MOST_NEIGHBORS = 150


def plot_edges(
    result: Any,
    ax: Axes | None = None,
    *,
    graph: Any = None,
    components: Sequence[int] | None = None,
    limit: float = 0.25,
    most: int | None = None,
    dropped: bool = False,
) -> Axes:
    """Draw the graph's edges in the map, red where they became longer and blue where shorter.

    Returns the axes, whose last collection holds the lines, with the distortions as its array, the largest on
    top.

    Parameters
    ----------
    result, ax, components, graph
        As in :func:`plot_embedding`; ``ax`` may be one that it has drawn on.
    limit : float
        Distortion (length in the map over measured length, minus 1) at the ends of the colour scale.
    most : int, optional
        Draw only this many edges, those of the largest distortion.
    dropped : bool
        Whether edges that the shortcut filter removed are drawn too.
    """
    import_pyplot()
    from matplotlib.collections import LineCollection
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    source = as_embedding(result, graph)
    used = source.measured_graph("plot_edges") if dropped else source.kept_graph("plot_edges")
    points = points_to_draw(source.coordinates, components)
    norm = diverging_norm(limit)
    edges, _, distortion = edge_table(used, source.coordinates)
    # Those that matter are drawn last; a ratio of 1/2 matters as much as one of 2.
    with np.errstate(divide="ignore"):
        weight = np.abs(np.log1p(np.maximum(distortion, -1.0)))
    known = np.flatnonzero(~np.isnan(distortion))
    order = known[np.argsort(weight[known], kind="stable")]
    if most is not None:
        order = order[max(0, len(order) - check_integer("most", most, minimum=1)) :]
    ax = axes_for(ax, points)
    kind: Any = Line3DCollection if points.shape[1] == 3 else LineCollection
    # Thousands of edges are drawn thinner, and as pixels within a vector file.
    width = min(0.8, max(0.2, 0.8 * (_THICK_EDGES / max(len(order), 1)) ** 0.5))
    many = len(order) > _THICK_EDGES
    lines = kind(points[edges[order]], cmap=_edge_map(), norm=norm, linewidths=width, rasterized=many)
    # Duplicates that the map sets apart are infinitely longer: the end of the scale.
    lines.set_array(np.nan_to_num(distortion[order], posinf=np.finfo(np.float64).max))
    ax.add_collection(lines)
    ax.autoscale_view()
    ax.set_aspect("equal")
    ax.figure.colorbar(lines, ax=ax, label="length in the map / measured - 1", shrink=0.7)
    return ax


def _edge_map() -> Any:
    """From blue by grey, which is seen on white, to red."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list(
        "distortion", ["#3b4cc0", "#8db0fe", "#9aa0a8", "#f4987a", "#b40426"]
    )


def sampled_paths(
    source: Embedding, *, n_rows: int | None = None, random_state: Any = None
) -> tuple[NeighborGraph, FloatArray, GeodesicRows]:
    """Graph and coordinates of the vertices that were embedded, and shortest paths from some of them."""
    from isoweave.metrics import geodesic_rows

    graph, points = source.kept_graph("A Shepard diagram"), source.coordinates
    if not source.is_placed.all():
        placed = np.flatnonzero(source.is_placed)
        graph, points = subgraph(graph, placed), points[placed]
    if len(points) < 2:
        raise ValueError(f"A Shepard diagram needs at least 2 embedded vertices, got {len(points)}.")
    count = min(len(points), _MOST_ROWS if n_rows is None else check_integer("n_rows", n_rows, minimum=1))
    return graph, points, geodesic_rows(graph, n_rows=count, random_state=random_state)


def plot_shepard(
    result: Any,
    ax: Axes | None = None,
    *,
    graph: Any = None,
    n_rows: int | None = None,
    random_state: Any = None,
) -> Axes:
    """Draw distances in the map against shortest paths in the graph (a Shepard diagram); returns the axes.

    On the diagonal lie pairs whose distance the map keeps, below it those it brings closer. Many pairs are
    drawn as a density. Paths start from ``n_rows`` vertices (at most 200 by default), which ``random_state``
    chooses (None: a fixed seed). The other parameters are those of :func:`plot_edges`.
    """
    import_pyplot()
    from matplotlib.colors import LogNorm

    from isoweave.metrics import distance_pairs, pearson_of_pairs, stress_of_pairs

    _, points, rows = sampled_paths(as_embedding(result, graph), n_rows=n_rows, random_state=random_state)
    paths, reached = distance_pairs(rows, points)
    if len(paths) == 0:
        raise ValueError("No path joins any two vertices: there is nothing to compare.")
    ax = new_axes() if ax is None else ax
    if len(paths) <= _MOST_POINTS:
        ax.scatter(paths, reached, s=4, linewidths=0, alpha=0.5)
    else:
        _, _, _, cells = ax.hist2d(paths, reached, bins=_BINS, cmin=1, norm=LogNorm(), cmap="viridis")
        ax.figure.colorbar(cells, ax=ax, label="pairs")
    ends = [0.0, float(max(paths.max(), reached.max()))]
    ax.plot(ends, ends, color="0.4", linewidth=0.8, linestyle="--")
    ax.set(xlabel="shortest path in the graph", ylabel="distance in the map")
    stress, correlation = stress_of_pairs(paths, reached), pearson_of_pairs(paths, reached)
    ax.set_title(f"stress {stress:.3f}, correlation {correlation:.3f}", fontsize="medium")
    return ax


def plot_history(history: Any, ax: Axes | None = None) -> Axes:
    """Draw the energy over the steps of the optimiser, on a logarithmic scale.

    ``history`` is an Embedding, a fitted estimator, or records with ``iteration`` and ``energy``.
    """
    import_pyplot()
    for name in ("history", "history_"):
        history = getattr(history, name, history)
    if hasattr(history, "get_params"):
        raise ValueError(f"{type(history).__name__} is not fitted yet, or has no history_.")
    if len(history) == 0:
        raise ValueError("history is empty: there is no step to draw.")
    ax = new_axes() if ax is None else ax
    ax.plot([record.iteration for record in history], [record.energy for record in history], marker=".")
    # An exactly embeddable graph ends at energy 0, which a logarithm cannot show.
    if all(record.energy > 0 for record in history):
        ax.set_yscale("log")
    ax.set(xlabel="step", ylabel="energy")
    return ax


class Neighborhood(NamedTuple):
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
    order = np.argsort(lengths, kind="stable")[:_MOST_NEIGHBORS]
    vertices = np.concatenate([[vertex], neighbors[order]])
    lengths = np.concatenate([[0.0], lengths[order]])
    after = coordinates[vertices] - coordinates[vertex]
    n_components = coordinates.shape[1]
    distances = dijkstra(graph.to_matrix()[vertices][:, vertices])
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


def plot_neighborhood(
    result: Any, vertex: int, axes: Sequence[Axes] | None = None, *, graph: Any = None, limit: float = 0.25
) -> tuple[Axes, Axes]:
    """Draw a vertex and its neighbours as measured, and beside it as they lie in the map.

    Left, directions come from classical scaling of the neighbourhood's own distances and lengths are the
    measured ones; the whole is rotated onto the map. Lines are coloured by the distortion of the edge, as by
    :func:`plot_edges`. In more than two dimensions both are seen along the two longest axes of the
    neighbourhood in the map. Returns both axes, ``axes`` or those of a new figure.
    """
    plt = import_pyplot()
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
    edges = np.column_stack((np.zeros(len(after) - 1, dtype=int), np.arange(1, len(after))))
    distortion = edge_distortion(edges, found.lengths[1:], found.after)
    given: Any = plt.subplots(1, 2, figsize=(9.0, 4.2), layout="constrained")[1] if axes is None else axes
    if len(given) != 2:
        raise ValueError(f"axes must be two matplotlib Axes, got {len(given)}.")
    left, right = given
    extent = 1.08 * max(float(np.abs(before).max()), float(np.abs(after).max())) or 1.0
    norm = diverging_norm(limit)
    for ax, points, title in ((left, before, f"vertex {vertex}, as measured"), (right, after, "in the map")):
        segments = [[points[0], end] for end in points[1:]]
        lines = LineCollection(segments, cmap=_edge_map(), norm=norm, linewidths=1.5, zorder=1)
        lines.set_array(distortion)
        ax.add_collection(lines)
        ax.scatter(points[1:, 0], points[1:, 1], s=18, color="0.2", zorder=2)
        ax.scatter(points[:1, 0], points[:1, 1], s=50, color="black", marker="s", zorder=3)
        ax.set(xlim=(-extent, extent), ylim=(-extent, extent), title=title)
        ax.set_aspect("equal")
    right.figure.colorbar(lines, ax=[left, right], label="length in the map / measured - 1", shrink=0.8)
    return left, right
