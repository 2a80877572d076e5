"""Getting hold of matplotlib and of axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
