"""Lengths before and after: edges by distortion, Shepard diagrams; and the energy on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import FloatArray
from isoweave._validation import check_integer
from isoweave.diagnostics import edge_table
from isoweave.graph import subgraph
from isoweave.plot._points import axes_for, diverging_norm, import_pyplot, new_axes, points_to_draw
from isoweave.result import Embedding, as_embedding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Shortest paths from a vertex take about as long as reading the graph a few times.
_MOST_ROWS = 200
# More pairs are drawn as a density.
_MOST_POINTS, _BINS = 5000, 120


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
    result, ax, components
        As in :func:`plot_embedding`; ``ax`` may be one that it has drawn on.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances; needed with plain coordinates.
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
    lines = kind(points[edges[order]], cmap="coolwarm", norm=norm, linewidths=0.8)
    # Duplicates that the map sets apart are infinitely longer: the end of the scale.
    lines.set_array(np.nan_to_num(distortion[order], posinf=np.finfo(np.float64).max))
    ax.add_collection(lines)
    ax.autoscale_view()
    ax.set_aspect("equal")
    ax.figure.colorbar(lines, ax=ax, label="length in the map / measured - 1")
    return ax


def shepard_pairs(
    source: Embedding, *, n_rows: int | None = None, random_state: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Shortest paths and distances in the map of all pairs with an end among some sampled vertices."""
    from isoweave.metrics import distance_pairs, geodesic_rows

    graph, points = source.kept_graph("A Shepard diagram"), source.coordinates
    if not source.is_placed.all():
        placed = np.flatnonzero(source.is_placed)
        graph, points = subgraph(graph, placed), points[placed]
    if len(points) < 2:
        raise ValueError(f"A Shepard diagram needs at least 2 embedded vertices, got {len(points)}.")
    count = min(len(points), _MOST_ROWS if n_rows is None else check_integer("n_rows", n_rows, minimum=1))
    return distance_pairs(geodesic_rows(graph, n_rows=count, random_state=random_state), points)


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
    drawn as a density.

    Parameters
    ----------
    result, ax, graph
        As in :func:`plot_edges`.
    n_rows : int, optional
        Vertices that paths start from, to all others; at most 200 by default, drawn at random.
    random_state : int, RandomState or None
        Chooses the vertices; None is a fixed seed.
    """
    import_pyplot()
    from matplotlib.colors import LogNorm

    from isoweave.metrics import pearson_of_pairs, stress_of_pairs

    paths, reached = shepard_pairs(as_embedding(result, graph), n_rows=n_rows, random_state=random_state)
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
    ax.set_xlabel("shortest path in the graph")
    ax.set_ylabel("distance in the map")
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
    ax.set_xlabel("step")
    ax.set_ylabel("energy")
    return ax
