"""Scatter plots of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.plot._axes import axes_for, import_pyplot, points_to_draw
from isoweave.plot._source import MapSource, main_stretch, read_map, vertex_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORINGS = ("stretch", "edge_error", "component")
_MOST_IN_LEGEND = 20


def plot_embedding(
    embedding: Any,
    color: Any = None,
    ax: Axes | None = None,
    *,
    components: Sequence[int] | None = None,
    graph: Any = None,
    size: float | None = None,
    cmap: str | None = None,
    colorbar: bool | None = None,
    title: str | None = None,
) -> Axes:
    """Draw an embedding as points, with the same scale on every axis.

    Parameters
    ----------
    embedding : Embedding, fitted estimator, or array of shape (n, N)
        N from 1 to 3, or any N with ``components``; a line of points is drawn at height 0.
    color : color, array of shape (n,), or {"stretch", "edge_error", "component"}, optional
        One colour for all; a number per point, of which integers of few distinct values are drawn as classes
        and anything else on a continuous scale; or a word per point, drawn as classes with a legend.
        "stretch": how many times longer lengths are in the map than measured, in the direction where that is
        farthest from 1. "edge_error": mean relative error of a vertex's edges. "component": the connected
        component.
    ax : matplotlib Axes, optional
        Drawn on a new figure by default. Must be 3-D for N = 3.
    components : sequence of int, optional
        Columns to draw, one to three.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances, for "edge_error" with plain coordinates.
    size : float, optional
        Area of a point in square typographic points; by default smaller for more points.
    cmap : str, optional
        Name of a matplotlib colour map; by default one that suits ``color``.
    colorbar : bool, optional
        By default for "stretch" and "edge_error".
    title : str, optional

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> ax = plot_embedding(np.random.default_rng(7).normal(size=(50, 2)), color=np.arange(50.0))
    >>> ax.get_aspect()
    1.0
    """
    import_pyplot()
    from matplotlib.colors import LogNorm

    source = read_map(embedding, graph)
    points = points_to_draw(source.coordinates, components)
    ax = axes_for(ax, points)
    values, levels, norm, label = _values(source, color)
    area = float(np.clip(2e4 / max(len(points), 1), 0.5, 20.0)) if size is None else size
    scatter: Any = ax.scatter  # 3-D axes take a third coordinate, which the type of Axes does not know
    chosen = cmap or ("coolwarm" if norm is not None else _default_map(values, len(points), levels))
    dots = scatter(*points.T, c=values, s=area, cmap=chosen, norm=norm, linewidths=0, plotnonfinite=True)
    if levels is not None and len(levels) <= _MOST_IN_LEGEND:
        handles, _ = dots.legend_elements(num=None)
        ax.legend(handles, levels, frameon=False, fontsize="small")
    if colorbar or (colorbar is None and label is not None):
        if dots.get_array() is None:
            raise ValueError("colorbar=True needs a number per point as color.")
        bar = ax.figure.colorbar(dots, ax=ax, label=label or "")
        if isinstance(norm, LogNorm):
            # Powers of ten say nothing about ratios near 1.
            ticks = [float(norm.vmax or 1.0) ** power for power in (-1.0, -0.5, 0.0, 0.5, 1.0)]
            bar.set_ticks(ticks, labels=[f"{tick:.2f}" for tick in ticks])
            bar.minorticks_off()
    ax.set_aspect("equal")
    if title is not None:
        ax.set_title(title)
    return ax


def _values(source: MapSource, color: Any) -> tuple[Any, list[str] | None, Any, str | None]:
    """What matplotlib colours by; the classes' names, a norm, and a label of the colour bar, where needed."""
    from matplotlib.colors import LogNorm

    if isinstance(color, str) and color == "stretch":
        if source.stretch is None:
            raise TypeError("color='stretch' needs an Embedding or a fitted IsometricEmbedding.")
        stretch = main_stretch(source.stretch)
        return stretch, None, LogNorm(*_around_one(stretch)), "stretch"
    if isinstance(color, str) and color == "edge_error":
        errors = vertex_errors(source.kept_graph("color='edge_error'"), source.coordinates)
        return errors, None, None, "mean relative error of edges"
    if isinstance(color, str) and color == "component":
        if source.component_labels is None:
            raise TypeError("color='component' needs an Embedding or a fitted IsometricEmbedding.")
        return source.component_labels, None, None, None
    words = None if color is None or isinstance(color, str) else _words(color)
    if words is None:
        _check_length(color, source.n_points)
        return color, None, None, None
    if len(words) != source.n_points:
        raise ValueError(f"color has {len(words)} labels, but the map has {source.n_points} points.")
    levels, codes = np.unique(words, return_inverse=True)
    return codes.reshape(-1), [str(level) for level in levels], None, None


def _words(color: Any) -> AnyArray | None:
    """Labels that are words, and not names of colours; None for anything else."""
    from matplotlib.colors import is_color_like

    values = np.asarray(color)
    if values.ndim != 1 or values.dtype.kind not in "UO":
        return None
    if values.dtype.kind == "O" and not all(isinstance(value, str) for value in values):
        return None
    words = values.astype(str)
    return None if all(is_color_like(word) for word in np.unique(words)) else words


def _check_length(color: Any, n: int) -> None:
    if color is None or isinstance(color, str):
        return
    shape = np.shape(color)
    # A colour as three or four numbers, or one such row per point, is matplotlib's business.
    if len(shape) == 1 and shape[0] != n and shape[0] not in (3, 4):
        raise ValueError(f"color has {shape[0]} values, but the map has {n} points.")


def _around_one(values: FloatArray) -> tuple[float, float]:
    """Limits 1/r and r that leave out one point in fifty, at least 2 % from 1."""
    known = values[np.isfinite(values) & (values > 0.0)]
    ratio = float(np.exp(np.percentile(np.abs(np.log(known)), 98))) if len(known) else 1.0
    ratio = max(ratio, 1.02)
    return 1.0 / ratio, ratio


def _default_map(color: Any, n: int, levels: list[str] | None) -> str | None:
    """A qualitative map for up to ten (words: twenty) classes, a continuous one for other numbers."""
    if levels is not None:
        return "tab10" if len(levels) <= 10 else "tab20" if len(levels) <= 20 else "viridis"
    if color is None or isinstance(color, str) or np.shape(color) != (n,):
        return None
    values = np.asarray(color)
    if values.dtype.kind not in "biuf":
        return None
    return "tab10" if values.dtype.kind in "biu" and len(np.unique(values)) <= 10 else "viridis"
