"""Figures of embeddings; matplotlib (extra ``plot``) is imported on first use.

Every function takes an :class:`~isoweave.Embedding`, a fitted estimator or plain coordinates, draws on the
axes it is given or on a new figure, and returns the axes.
"""

from isoweave.plot._distances import (
    plot_edges as plot_edges,
    plot_history as plot_history,
    plot_neighborhood as plot_neighborhood,
    plot_shepard as plot_shepard,
    sampled_paths as sampled_paths,
)
from isoweave.plot._points import (
    PALETTE as PALETTE,
    by_variance as by_variance,
    main_stretch as main_stretch,
    natural_levels as natural_levels,
    plot_embedding as plot_embedding,
    principal_axes as principal_axes,
    turned_towards as turned_towards,
    vertex_errors as vertex_errors,
    whole_classes as whole_classes,
)
from isoweave.plot._view import View as View, view as view
