"""Axes to draw on, and maps as points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_real
from isoweave.diagnostics import edge_table, scale_sentence
from isoweave.geometry import rigid_motion
from isoweave.graph import NeighborGraph
from isoweave.result import Embedding, as_embedding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# As on the page of a report; the first eight can be told apart by colour-blind eyes (Okabe and Ito).
PALETTE = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#b8a800", "#7a5fc0", "#8c564b"),
    *("#17becf", "#e377c2", "#7f7f7f", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#9edae5"),
    *("#dbdb8d", "#ffbb78"),
)
_COLORINGS = ("stretch", "edge_error", "component")
_MOST_IN_LEGEND = 20


def import_pyplot() -> Any:
    """matplotlib.pyplot, or an error that names the extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'isoweave[plot]'.") from error
    return plt


def new_axes(*, is_3d: bool = False) -> Axes:
    """Axes on a new figure."""
    figure = import_pyplot().figure(layout="constrained")
    axes: Axes = figure.add_subplot(projection="3d" if is_3d else None)
    return axes


def points_to_draw(coordinates: FloatArray, components: Sequence[int] | None) -> FloatArray:
    """The columns to draw, shape (n, 2) or (n, 3); a single column gets height 0."""
    n_components = coordinates.shape[1]
    if components is None and n_components > 3:
        raise ValueError(
            f"embedding must have shape (n, 1), (n, 2) or (n, 3), got {coordinates.shape}; "
            "choose columns to draw, for example components=(0, 1)."
        )
    chosen = [int(c) for c in (range(n_components) if components is None else components)]
    if not 1 <= len(chosen) <= 3 or not all(0 <= c < n_components for c in chosen):
        raise ValueError(
            f"components must be one to three columns from 0 to {n_components - 1}, got {components!r}."
        )
    points = coordinates[:, chosen]
    return np.column_stack([points, np.zeros(len(points))]) if len(chosen) == 1 else points


def principal_axes(points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean of the points that are known, their principal axes as columns, and the shares of the variance."""
    known = points[~np.isnan(points).any(axis=1)]
    mean = known.mean(axis=0) if len(known) else np.zeros(points.shape[1])
    values, axes = np.linalg.eigh((known - mean).T @ (known - mean))
    values = np.maximum(values[::-1], 0.0)
    return mean, axes[:, ::-1], values / (values.sum() or 1.0)


def by_variance(source: Embedding) -> tuple[Embedding, str]:
    """A map of more than two dimensions with its principal axes as columns, and what the first two show."""
    count = source.n_components
    if count <= 2:
        return source, scale_sentence(source)
    mean, axes, shares = principal_axes(source.coordinates)
    turned = replace(source, coordinates=(source.coordinates - mean) @ axes)
    return turned, f"Two principal axes of a {count}-dimensional map: {shares[:2].sum():.0%} of the variance"


def turned_towards(source: Embedding, known: FloatArray) -> Embedding:
    """The map, rotated, mirrored and moved towards known positions, some of which may be NaN."""
    n, n_components = source.coordinates.shape
    if known.ndim != 2 or len(known) != n or not 1 <= known.shape[1] <= n_components:
        raise ValueError(
            f"align must have shape ({n}, d) with d from 1 to {n_components}, got {known.shape}."
        )
    use = source.is_placed & np.isfinite(known).all(axis=1)
    if use.sum() < 2:
        raise ValueError("align knows fewer than two points that have coordinates.")
    wide = np.pad(known, ((0, 0), (0, n_components - known.shape[1])))
    turn, shift = rigid_motion(source.coordinates[use], wide[use])
    return replace(source, coordinates=source.coordinates @ turn + shift)


def axes_for(ax: Axes | None, points: FloatArray) -> Axes:
    """The axes given, if they are of the right kind, or new ones."""
    is_3d = points.shape[1] == 3
    if ax is None:
        ax = new_axes(is_3d=is_3d)
        if not is_3d:
            # Positions along an axis mean nothing, only distances do.
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
        return ax
    if is_3d != (ax.name == "3d"):
        raise ValueError(f"a {points.shape[1]}-D embedding cannot be drawn on axes of type {ax.name!r}.")
    return ax


def diverging_norm(limit: float) -> Any:
    """Colours from -limit to limit."""
    from matplotlib.colors import Normalize

    limit = check_real("limit", limit, minimum=0.0, include_minimum=False)
    return Normalize(-limit, limit)


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
    """Draw an embedding as points, with the same scale on every axis; returns the axes.

    Parameters
    ----------
    embedding : Embedding, fitted estimator, or array of shape (n, N)
        N from 1 to 3, or any N with ``components``; a line of points is drawn at height 0.
    color : color, array of shape (n,), or {"stretch", "edge_error", "component"}, optional
        One colour for all; a word per point, drawn as classes with a legend; or a number per point, drawn as
        classes, too, where all are whole and at most twenty differ, otherwise on a continuous scale.
        "stretch": how many times longer lengths are in the map than measured, in the direction where that is
        farthest from 1. "edge_error": mean relative error of a vertex's edges. "component": the connected
        component.
    ax : matplotlib Axes, optional
        Drawn on a new figure by default. Must be 3-D for N = 3.
    components : one to three columns to draw, optional
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances, for "edge_error" with plain coordinates.
    size : float, optional
        Area of a point in square typographic points; by default smaller for more points.
    cmap : name of a matplotlib colour map, by default one that suits ``color``
    colorbar : bool, by default for "stretch" and "edge_error"; True for whole numbers that are no classes
    title : str, optional
    """
    import_pyplot()
    from matplotlib.colors import LogNorm
    from matplotlib.lines import Line2D

    source = as_embedding(embedding, graph)
    points = points_to_draw(source.coordinates, components)
    is_ours, ax = ax is None, axes_for(ax, points)
    found = _colors(source, color, quantities=bool(colorbar))
    area = float(np.clip(2e4 / max(len(points), 1), 0.5, 20.0)) if size is None else size
    scatter: Any = ax.scatter  # 3-D axes take a third coordinate, which the type of Axes does not know
    style: Any = {"c": found.values, "cmap": cmap or found.cmap, "norm": found.norm, "linewidths": 0}
    dots = scatter(*points.T, s=area, plotnonfinite=True, **style)
    if len(found.levels) in range(1, _MOST_IN_LEGEND + 1):
        colors = [dots.cmap(dots.norm(k)) for k in range(len(found.levels))]
        handles = [Line2D([], [], color=each, marker="o", linestyle="", markersize=5) for each in colors]
        # On a figure of ours there is room for the legend beside the points.
        owner, loc = (ax.figure, "outside right center") if is_ours else (ax, "best")
        legend: Any = owner.legend
        legend(handles, found.levels, frameon=False, fontsize="small", loc=loc)
    if colorbar or (colorbar is None and found.label):
        if dots.get_array() is None:
            raise ValueError("colorbar=True needs a number per point as color.")
        bar = ax.figure.colorbar(dots, ax=ax, label=found.label, shrink=0.7)
        if isinstance(found.norm, LogNorm):
            # Powers of ten say nothing about ratios near 1.
            ticks = [float(found.norm.vmax or 1.0) ** power for power in (-1.0, -0.5, 0.0, 0.5, 1.0)]
            bar.set_ticks(ticks, labels=[f"{tick:.2f}" for tick in ticks])
            bar.minorticks_off()
    ax.set_aspect("equal")
    if title is not None:
        ax.set_title(title)
    return ax


class _Colors(NamedTuple):
    """What matplotlib colours by; of classes their names, of numbers with a colour bar its label."""

    values: Any
    cmap: Any = None
    norm: Any = None
    levels: Sequence[str] = ()
    label: str = ""


def _colors(source: Embedding, color: Any, *, quantities: bool) -> _Colors:
    from matplotlib.colors import LogNorm

    if color is None or (isinstance(color, str) and color not in _COLORINGS):
        return _Colors(color)
    if isinstance(color, str):
        if color == "edge_error":
            errors = vertex_errors(source.kept_graph("color='edge_error'"), source.coordinates)
            return _Colors(errors, label="mean relative error of edges")
        if color == "component" and source.component_labels is not None:
            return _colors(source, source.component_labels, quantities=quantities)
        if color == "stretch" and source.stretch is not None:
            stretch = main_stretch(source.stretch)
            return _Colors(stretch, "coolwarm", LogNorm(*_around_one(stretch)), label="stretch")
        raise TypeError(f"color={color!r} needs an Embedding or a fitted IsometricEmbedding.")
    words, n = _words(color), source.n_points
    if words is not None:
        if len(words) != n:
            raise ValueError(f"color has {len(words)} labels, but the map has {n} points.")
        levels, codes = natural_levels(words)
        return _classes(codes, levels)
    shape = np.shape(color)
    # A colour as three or four numbers, or one such row per point, is matplotlib's business.
    if len(shape) == 1 and shape[0] != n and shape[0] not in (3, 4):
        raise ValueError(f"color has {shape[0]} values, but the map has {n} points.")
    numbers = np.asarray(color)
    if shape == (n,) and not quantities and numbers.dtype.kind in "biuf":
        found = whole_classes(numbers)
        if found is not None:
            return _classes(*found)
    return _Colors(color)


def _classes(codes: AnyArray, levels: list[str]) -> _Colors:
    """A colour of its own for each of up to twenty classes; what is missing lies below the first."""
    from matplotlib.colors import ListedColormap, Normalize

    cmap: Any = None
    if len(levels) <= len(PALETTE):
        # Older versions of matplotlib take a tuple of two for a colour and its opacity.
        cmap = ListedColormap(list(PALETTE[: len(levels)]), name=f"{len(levels)} classes")
        cmap = cmap.with_extremes(under="#b8b8b8")
    return _Colors(codes, cmap, Normalize(0, max(len(levels) - 1, 1)), levels)


def whole_classes(values: AnyArray) -> tuple[AnyArray, list[str]] | None:
    """Places among the distinct values, -1 where missing, and their names: few whole numbers are classes."""
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    levels = np.unique(numbers[known])
    if not 0 < len(levels) <= _MOST_IN_LEGEND or np.any(levels != np.round(levels)):
        return None
    return np.where(known, np.searchsorted(levels, numbers), -1), [f"{level:.0f}" for level in levels]


def natural_levels(words: AnyArray) -> tuple[list[str], AnyArray]:
    """Distinct words, those with numbers in the order of the numbers (1, 2, 10), and the place of each."""
    found, codes = np.unique(words, return_inverse=True)
    order = sorted(range(len(found)), key=lambda k: _natural(str(found[k])))
    rank = np.empty(len(found), dtype=np.intp)
    rank[order] = np.arange(len(found))
    return [str(found[k]) for k in order], rank[codes.reshape(-1)]


def _natural(word: str) -> list[tuple[int, int, str]]:
    parts = [part for part in re.split(r"(\d+)", word) if part]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts]


def vertex_errors(graph: NeighborGraph, coordinates: FloatArray) -> FloatArray:
    """Mean absolute distortion of the edges of positive length at every vertex, shape (n,); NaN without."""
    edges, lengths, distortion = edge_table(graph, coordinates)
    use = (lengths > 0.0) & np.isfinite(distortion)
    ends = edges[use].ravel(order="F")
    values = np.tile(np.abs(distortion[use]), 2)
    count = np.bincount(ends, minlength=graph.n_vertices)
    total = np.bincount(ends, values, minlength=graph.n_vertices)
    return np.divide(total, count, out=np.full(graph.n_vertices, np.nan), where=count > 0)


def main_stretch(stretch: FloatArray) -> FloatArray:
    """The singular value of every vertex whose ratio to 1 is the largest, shape (n,)."""
    at = np.argmax(np.abs(np.log(np.maximum(stretch, np.finfo(np.float64).tiny))), axis=1)
    return np.take_along_axis(np.asarray(stretch, dtype=np.float64), at[:, None], axis=1)[:, 0]


def _words(color: Any) -> AnyArray | None:
    """Labels that are words, and not names of colours; None for anything else."""
    from matplotlib.colors import is_color_like

    values = np.asarray(color)
    if values.ndim != 1 or not all(isinstance(value, str) for value in values.tolist()):
        return None
    words = values.astype(str)
    return None if all(is_color_like(word) for word in np.unique(words)) else words


def _around_one(values: FloatArray) -> tuple[float, float]:
    """Limits 1/r and r that leave out one point in fifty, at least 2 % from 1."""
    known = values[np.isfinite(values) & (values > 0.0)]
    ratio = max(float(np.exp(np.percentile(np.abs(np.log(known)), 98))) if len(known) else 1.0, 1.02)
    return 1.0 / ratio, ratio
