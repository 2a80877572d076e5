"""How the optimiser went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isoweave.plot._axes import import_pyplot, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_history(history: Any, ax: Axes | None = None) -> Axes:
    """Draw the energy over the steps of the optimiser, on a logarithmic scale.

    Parameters
    ----------
    history : Embedding, fitted estimator, or sequence of records
        Each record has ``iteration`` and ``energy``.
    ax : matplotlib Axes, optional
        Drawn on a new figure by default.

    Returns
    -------
    matplotlib Axes
    """
    import_pyplot()
    for name in ("history", "history_"):
        history = getattr(history, name, history)
    if hasattr(history, "get_params"):
        raise ValueError(f"{type(history).__name__} is not fitted yet, or keeps no history_.")
    if len(history) == 0:
        raise ValueError("history is empty: there is no step to draw.")
    if ax is None:
        ax = new_axes()
    ax.plot([record.iteration for record in history], [record.energy for record in history], marker=".")
    # An exactly embeddable graph ends at energy 0, which a logarithm cannot show.
    if all(record.energy > 0 for record in history):
        ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel("energy")
    return ax
