"""Edges of the graph drawn in the map, coloured by what became of their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._validation import check_integer
from isoweave.plot._axes import axes_for, diverging_norm, import_pyplot, points_to_draw
from isoweave.plot._source import edge_table, read_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_edges(
    result: Any,
    ax: Axes | None = None,
    *,
    graph: Any = None,
    components: Sequence[int] | None = None,
    limit: float = 0.25,
    most: int | None = None,
    dropped: bool = False,
    linewidth: float = 0.8,
    colorbar: bool = True,
) -> Axes:
    """Draw the graph's edges in the map, red where they became longer and blue where shorter.

    Parameters
    ----------
    result : Embedding, fitted estimator, or array of shape (n, N)
    ax : matplotlib Axes, optional
        For example one that :func:`plot_embedding` has drawn on; on a new figure by default.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances; needed with plain coordinates.
    components : sequence of int, optional
        Columns to draw, one to three; needed for more than three.
    limit : float
        Distortion (length in the map over measured length, minus 1) at the ends of the colour scale.
    most : int, optional
        Draw so many edges only, those of the largest distortion.
    dropped : bool
        Whether edges that the shortcut filter took out are drawn too.
    linewidth : float
    colorbar : bool

    Returns
    -------
    matplotlib Axes
        Its last collection holds the lines, with the distortions as its array, the largest on top.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> graph = sp.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    >>> ax = plot_edges([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], graph=graph)
    >>> ax.collections[-1].get_array().tolist()
    [0.0, -0.5]
    """
    import_pyplot()
    from matplotlib.collections import LineCollection

    source = read_map(result, graph)
    used = source.needed_graph("plot_edges") if dropped else source.kept_graph("plot_edges")
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
    segments: Any = points[edges[order]]
    if points.shape[1] == 3:
        from mpl_toolkits.mplot3d.art3d import Line3DCollection

        lines: Any = Line3DCollection(segments, cmap="coolwarm", norm=norm, linewidths=linewidth)
    else:
        lines = LineCollection(segments, cmap="coolwarm", norm=norm, linewidths=linewidth)
    # Duplicates that the map sets apart are infinitely longer: the end of the scale.
    lines.set_array(np.nan_to_num(distortion[order], posinf=np.finfo(np.float64).max))
    ax.add_collection(lines)
    ax.autoscale_view()
    ax.set_aspect("equal")
    if colorbar:
        ax.figure.colorbar(lines, ax=ax, label="length in the map / measured - 1")
    return ax
