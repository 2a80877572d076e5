"""Figures of embeddings; matplotlib (extra ``plot``) is imported on first use.

Every function takes an :class:`~isoweave.Embedding`, a fitted estimator or plain coordinates, draws on the
axes it is given or on a new figure, and returns the axes.
"""

from isoweave.plot._distances import plot_edges, plot_history, plot_neighborhood, plot_shepard, shepard_pairs
from isoweave.plot._points import main_stretch, plot_embedding, vertex_errors

__all__ = [
    "main_stretch",
    "plot_edges",
    "plot_embedding",
    "plot_history",
    "plot_neighborhood",
    "plot_shepard",
    "shepard_pairs",
    "vertex_errors",
]
