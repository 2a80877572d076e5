"""Scatter plots of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave.plotting._axes import import_pyplot, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_embedding(
    embedding: Any,
    color: Any = None,
    ax: Axes | None = None,
    *,
    size: float | None = None,
    cmap: str | None = None,
    title: str | None = None,
) -> Axes:
    """Draw an embedding as points, with the same scale on every axis.

    Parameters
    ----------
    embedding : array of shape (n, N)
        N from 1 to 3; a line of points is drawn at height 0.
    color : color, or array of shape (n,), optional
        One colour for all, or a number per point: integers of few distinct values are drawn as classes,
        anything else on a continuous scale.
    ax : matplotlib Axes, optional
        Drawn on a new figure by default. Must be 3-D for N = 3.
    size : float, optional
        Area of a point in square typographic points; by default smaller for more points.
    cmap : str, optional
        Name of a matplotlib colour map; by default one that suits ``color``.
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
    points = np.asarray(embedding)
    if points.ndim != 2 or not 1 <= points.shape[1] <= 3:
        raise ValueError(
            f"embedding must have shape (n, 1), (n, 2) or (n, 3), got {points.shape}; "
            "choose columns to draw, for example embedding[:, :3]."
        )
    is_3d = points.shape[1] == 3
    if points.shape[1] == 1:
        points = np.column_stack([points, np.zeros(len(points))])
    if ax is None:
        ax = new_axes(is_3d=is_3d)
    elif is_3d != (ax.name == "3d"):
        raise ValueError(f"a {points.shape[1]}-D embedding cannot be drawn on axes of type {ax.name!r}.")
    area = float(np.clip(2e4 / max(len(points), 1), 0.5, 20.0)) if size is None else size
    scatter: Any = ax.scatter  # 3-D axes take a third coordinate, which the type of Axes does not know
    scatter(*points.T, c=color, s=area, cmap=cmap or _default_map(color, len(points)), linewidths=0)
    ax.set_aspect("equal")
    if title is not None:
        ax.set_title(title)
    return ax


def _default_map(color: Any, n: int) -> str | None:
    """A qualitative map for up to ten classes, a continuous one for other numbers, none for a colour."""
    if color is None or isinstance(color, str) or np.shape(color) != (n,):
        return None
    values = np.asarray(color)
    if values.dtype.kind not in "biuf":
        return None
    return "tab10" if values.dtype.kind in "biu" and len(np.unique(values)) <= 10 else "viridis"
