"""Access to matplotlib, axes to draw on, and colour scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import FloatArray
from isoweave._validation import check_real

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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


def two_axes(axes: Sequence[Axes] | None, is_3d: tuple[bool, bool] = (False, False)) -> tuple[Axes, Axes]:
    """The two axes given, or two side by side on a new figure."""
    if axes is None:
        figure = import_pyplot().figure(figsize=(9.0, 4.2), layout="constrained")
        kinds = ["3d" if flag else None for flag in is_3d]
        return figure.add_subplot(1, 2, 1, projection=kinds[0]), figure.add_subplot(
            1, 2, 2, projection=kinds[1]
        )
    given = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(given) != 2:
        raise ValueError(f"axes must be two matplotlib Axes, got {len(given)}.")
    return given[0], given[1]


def points_to_draw(
    coordinates: FloatArray, components: Sequence[int] | None, name: str = "embedding"
) -> FloatArray:
    """The columns to draw, shape (n, 2) or (n, 3); a single column gets height 0."""
    n_components = coordinates.shape[1]
    if components is None:
        if n_components > 3:
            raise ValueError(
                f"{name} must have shape (n, 1), (n, 2) or (n, 3), got {coordinates.shape}; "
                "choose columns to draw, for example components=(0, 1)."
            )
        points = coordinates
    else:
        chosen = [int(c) for c in components]
        if not 1 <= len(chosen) <= 3 or not all(0 <= c < n_components for c in chosen):
            raise ValueError(
                f"components must be one to three columns from 0 to {n_components - 1}, got {components!r}."
            )
        points = coordinates[:, chosen]
    if points.shape[1] == 1:
        points = np.column_stack([points, np.zeros(len(points))])
    return points


def axes_for(ax: Axes | None, points: FloatArray) -> Axes:
    """The axes given, if they are of the right kind, or new ones."""
    is_3d = points.shape[1] == 3
    if ax is None:
        return new_axes(is_3d=is_3d)
    if is_3d != (ax.name == "3d"):
        raise ValueError(f"a {points.shape[1]}-D embedding cannot be drawn on axes of type {ax.name!r}.")
    return ax


def diverging_norm(limit: float) -> Any:
    """Colours from -limit to limit."""
    from matplotlib.colors import Normalize

    limit = check_real("limit", limit, minimum=0.0, include_minimum=False)
    return Normalize(-limit, limit)
