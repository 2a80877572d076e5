"""Figures of embeddings; matplotlib (extra ``plot``) is imported on first use.

Every function takes an :class:`~isoweave.Embedding`, a fitted estimator or plain coordinates, draws on the
axes it is given or on a new figure, and returns the axes.
"""

from isoweave.plot._distances import plot_edges, plot_history, plot_shepard, shepard_pairs
from isoweave.plot._neighborhood import plot_neighborhood
from isoweave.plot._points import main_stretch, plot_before_after, plot_embedding, vertex_errors

__all__ = [
    "main_stretch",
    "plot_before_after",
    "plot_edges",
    "plot_embedding",
    "plot_history",
    "plot_neighborhood",
    "plot_shepard",
    "shepard_pairs",
    "vertex_errors",
]
