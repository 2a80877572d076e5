"""Distances in the map against distances along the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import FloatArray
from isoweave._validation import check_integer
from isoweave.graph import subgraph
from isoweave.plot._axes import import_pyplot, new_axes
from isoweave.plot._source import MapSource, read_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Shortest paths from a vertex take about as long as reading the graph a few times.
MOST_ROWS = 200


@dataclass(frozen=True, eq=False)
class ShepardPairs:
    """Pairs of vertices with a path between them.

    Attributes
    ----------
    graph, map : float64 arrays of shape (p,)
        Length of the shortest path; distance in the map.
    stress, pearson : float
        Relative root mean square difference, and correlation; NaN where undefined.
    """

    graph: FloatArray
    map: FloatArray
    stress: float
    pearson: float


def shepard_pairs(source: MapSource, *, n_rows: int | None = None, random_state: Any = None) -> ShepardPairs:
    """Pairs with an end among some sampled vertices; edges that the shortcut filter took out are not used.

    Parameters
    ----------
    source : MapSource
    n_rows : int, optional
        Vertices that paths start from; at most 200 by default.
    random_state : int, RandomState or None
        Chooses them; None is a fixed seed.
    """
    from isoweave.metrics import distance_pairs, geodesic_rows, pearson_of_pairs, stress_of_pairs

    graph = source.kept_graph("A Shepard diagram")
    points = source.coordinates
    if not source.is_placed.all():
        placed = np.flatnonzero(source.is_placed)
        graph, points = subgraph(graph, placed), points[placed]
    if len(points) < 2:
        raise ValueError(f"A Shepard diagram needs at least 2 embedded vertices, got {len(points)}.")
    count = min(len(points), MOST_ROWS if n_rows is None else check_integer("n_rows", n_rows, minimum=1))
    d, e = distance_pairs(geodesic_rows(graph, n_rows=count, random_state=random_state), points)
    return ShepardPairs(d, e, stress_of_pairs(d, e), pearson_of_pairs(d, e))


def plot_shepard(
    result: Any,
    ax: Axes | None = None,
    *,
    graph: Any = None,
    n_rows: int | None = None,
    max_points: int = 5000,
    bins: int = 120,
    random_state: Any = None,
) -> Axes:
    """Draw distances in the map against shortest paths in the graph (a Shepard diagram).

    On the diagonal lie pairs whose distance the map keeps, below it those it brings closer. Many pairs are
    drawn as a density.

    Parameters
    ----------
    result : Embedding, fitted estimator, or array of shape (n, N)
    ax : matplotlib Axes, optional
        Drawn on a new figure by default.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances; needed with plain coordinates.
    n_rows : int, optional
        Vertices that paths start from, to all others; at most 200 by default, drawn at random.
    max_points : int
        Up to so many pairs are drawn as points, more as a density.
    bins : int
        Cells of the density along each axis.
    random_state : int, RandomState or None
        Chooses the vertices; None is a fixed seed.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> graph = sp.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    >>> ax = plot_shepard([[0.0], [1.0], [3.0]], graph=graph)
    >>> sorted(ax.collections[0].get_offsets().tolist())
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    """
    import_pyplot()
    from matplotlib.colors import LogNorm

    max_points = check_integer("max_points", max_points, minimum=0)
    bins = check_integer("bins", bins, minimum=2)
    pairs = shepard_pairs(read_map(result, graph), n_rows=n_rows, random_state=random_state)
    if len(pairs.graph) == 0:
        raise ValueError("No path joins any two vertices: there is nothing to compare.")
    ax = new_axes() if ax is None else ax
    longest = float(max(pairs.graph.max(), pairs.map.max()))
    if len(pairs.graph) <= max_points:
        ax.scatter(pairs.graph, pairs.map, s=4, linewidths=0, alpha=0.5)
    else:
        _, _, _, cells = ax.hist2d(pairs.graph, pairs.map, bins=bins, cmin=1, norm=LogNorm(), cmap="viridis")
        ax.figure.colorbar(cells, ax=ax, label="pairs")
    ax.plot([0.0, longest], [0.0, longest], color="0.4", linewidth=0.8, linestyle="--")
    ax.set_xlabel("shortest path in the graph")
    ax.set_ylabel("distance in the map")
    ax.set_title(f"stress {pairs.stress:.3f}, correlation {pairs.pearson:.3f}", fontsize="medium")
    return ax
