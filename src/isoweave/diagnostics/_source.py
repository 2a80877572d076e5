"""What a diagnosis is asked about: an embedding, a fitted estimator, or plain coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._typing import FloatArray, IntArray
from isoweave.embedding import Embedding, resolve_options
from isoweave.graph import NeighborGraph, graph_from_matrix


@dataclass(frozen=True, eq=False)
class Source:
    """A graph, and a map of it if there is one.

    Attributes
    ----------
    graph : NeighborGraph
    n_components : int
    coordinates : float64 array of shape (n, N) or None
        Rows of NaN were not embedded.
    stretch : float64 array of shape (n, N) or None
        If known already.
    dropped : int array of shape (s, 2) or None
        Edges left out; None asks the shortcut filter.
    status : str or None
    frame_size, calibrate
        Of the frames to measure with.
    """

    graph: NeighborGraph
    n_components: int
    coordinates: FloatArray | None
    stretch: FloatArray | None
    dropped: IntArray | None
    status: str | None
    frame_size: int | float | str
    calibrate: str


def read_source(result: Any, graph: Any) -> Source:
    """Take the parts of a result, with another graph if one is given."""
    given = None if graph is None else graph_from_matrix(graph)
    frame_size: int | float | str = "auto"
    calibrate = "rows"
    stretch, dropped, status = None, None, None
    if isinstance(result, Embedding):
        own: NeighborGraph | None = result.graph
        coordinates = np.asarray(result.coordinates, dtype=np.float64)
        stretch, dropped, status = result.stretch, result.dropped_edges, result.status
    elif hasattr(result, "get_params") and hasattr(result, "fit_transform"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(result, "embedding_")
        if not hasattr(result, "graph_") or not hasattr(result, "dropped_edges_"):
            raise TypeError(
                f"diagnose takes an IsometricEmbedding, got {type(result).__name__}; give its coordinates "
                "(embedding_) and the distances as graph instead."
            )
        own = graph_from_matrix(result.graph_)
        coordinates = np.asarray(result.embedding_, dtype=np.float64)
        stretch, dropped, status = result.stretch_, result.dropped_edges_, result.status_
        options = resolve_options(
            coordinates.shape[1],
            preset=result.preset,
            inner_product=result.inner_product,
            frame_size=result.frame_size,
            calibrate=result.calibrate,
        )
        if options.inner_product == "edge":
            frame_size, calibrate = options.frame_size, options.calibrate
    else:
        own, coordinates = None, _checked_coordinates(result)
    if given is None:
        if own is None:
            raise TypeError(
                "Coordinates alone do not tell what they were made from: give the distances as graph, or pass "
                "what embed_graph or IsometricEmbedding returned."
            )
        given = own
    else:
        stretch, dropped = None, None
    if len(coordinates) != given.n_vertices:
        raise ValueError(
            f"The map has {len(coordinates)} rows, but the graph has {given.n_vertices} vertices."
        )
    return Source(given, coordinates.shape[1], coordinates, stretch, dropped, status, frame_size, calibrate)


def _checked_coordinates(result: Any) -> FloatArray:
    wanted = "an Embedding, a fitted IsometricEmbedding or coordinates of shape (n, N)"
    if isinstance(result, str | dict) or result is None:
        raise TypeError(f"diagnose takes {wanted}, got {type(result).__name__}.")
    array = np.asarray(result)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"diagnose takes {wanted}, got {type(result).__name__} of dtype {array.dtype}.")
    if array.ndim != 2 or array.shape[1] < 1:
        raise ValueError(f"diagnose takes {wanted}, got an array of shape {array.shape}.")
    array = array.astype(np.float64)
    infinite = np.argwhere(np.isinf(array))
    if len(infinite):
        row, column = infinite[0]
        raise ValueError(f"Coordinates must not be infinite, but entry ({row}, {column}) is.")
    return array
