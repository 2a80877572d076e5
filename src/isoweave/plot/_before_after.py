"""The input beside the map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import FloatArray
from isoweave.plot._axes import import_pyplot, points_to_draw, two_axes
from isoweave.plot._embedding import plot_embedding
from isoweave.plot._source import read_map

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_before_after(
    result: Any,
    color: Any = None,
    axes: Sequence[Axes] | None = None,
    *,
    features: Any = None,
    components: Sequence[int] | None = None,
    size: float | None = None,
    cmap: str | None = None,
) -> tuple[Axes, Axes]:
    """Draw the input features and, beside them, the map, both in the same colours.

    Parameters
    ----------
    result : Embedding, fitted estimator, or array of shape (n, N)
    color
        As in :func:`plot_embedding`.
    axes : two matplotlib Axes, optional
        On a new figure by default. The first must be 3-D for features of three columns or more.
    features : array of shape (n, d), optional
        By default those the estimator was fitted on. More than three columns are drawn along their three
        principal axes.
    components : sequence of int, optional
        Columns of the map to draw.
    size, cmap
        As in :func:`plot_embedding`.

    Returns
    -------
    pair of matplotlib Axes
        Before and after.
    """
    import_pyplot()
    source = read_map(result)
    given = source.features if features is None else features
    if given is None:
        raise TypeError("plot_before_after needs the input: give features=, an array of shape (n, d).")
    before = _drawable(given)
    if len(before) != source.n_points:
        raise ValueError(f"features have {len(before)} rows, but the map has {source.n_points} points.")
    points = points_to_draw(source.coordinates, components)
    left, right = two_axes(axes, (before.shape[1] == 3, points.shape[1] == 3))
    if isinstance(color, str) and color in ("stretch", "edge_error", "component"):
        plot_embedding(source, color, right, components=components, size=size, cmap=cmap, title="map")
        drawn = right.collections[0]
        scatter: Any = left.scatter
        area = drawn.get_sizes()[0]  # type: ignore[attr-defined]
        scatter(*before.T, c=drawn.get_array(), s=area, cmap=drawn.get_cmap(), norm=drawn.norm, linewidths=0)
        left.set(title="input", aspect="equal")
        return left, right
    plot_embedding(before, color, left, size=size, cmap=cmap, title="input")
    plot_embedding(source, color, right, components=components, size=size, cmap=cmap, title="map")
    return left, right


def _drawable(features: Any) -> FloatArray:
    """Features of one to three columns as they are, more along their principal axes."""
    if sp.issparse(features):
        raise TypeError("sparse features cannot be drawn; give features= as an array, or reduce them first.")
    array = np.asarray(features)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"features must be numbers of shape (n, d), got {array.dtype} of {array.shape}.")
    array = array.astype(np.float64)
    if array.shape[1] <= 3:
        return points_to_draw(array, None)
    centred = array - array.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ axes[:, :-4:-1])
