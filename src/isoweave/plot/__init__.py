"""Figures of embeddings; matplotlib (extra ``plot``) is imported on first use.

Every function takes an :class:`~isoweave.Embedding`, a fitted estimator or plain coordinates, draws on the
axes it is given or on a new figure, and returns the axes.
"""

from isoweave.plot._before_after import plot_before_after
from isoweave.plot._edges import plot_edges
from isoweave.plot._embedding import plot_embedding
from isoweave.plot._history import plot_history
from isoweave.plot._neighborhood import plot_neighborhood
from isoweave.plot._shepard import plot_shepard

__all__ = [
    "plot_before_after",
    "plot_edges",
    "plot_embedding",
    "plot_history",
    "plot_neighborhood",
    "plot_shepard",
]
