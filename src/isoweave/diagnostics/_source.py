"""What a diagnosis is asked about: a graph, an embedding, a fitted estimator, or plain coordinates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import FloatArray, IntArray
from isoweave._validation import check_integer, check_option
from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.options import resolve_options
from isoweave.result import Embedding

_WANTED = (
    "an Embedding, a fitted IsometricEmbedding, coordinates of shape (n, N) with graph=..., or a distance "
    "graph (sparse matrix)"
)


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
    coordinates: FloatArray | None = None
    stretch: FloatArray | None = None
    dropped: IntArray | None = None
    status: str | None = None
    frame_size: int | float | str = "auto"
    calibrate: str = "rows"


def read_source(
    result: Any, graph: Any, n_components: int | None, shortcuts: str | bool, asymmetry: str
) -> Source:
    """Take the parts of a result, with another graph if one is given."""
    if isinstance(shortcuts, bool | np.bool_):
        shortcuts = "drop" if shortcuts else "keep"
    check_option("shortcuts", shortcuts, ("auto", "drop", "keep"))
    if n_components is not None:
        n_components = check_integer("n_components", n_components, minimum=1)
    dropped = np.empty((0, 2), dtype=np.int32) if shortcuts == "keep" else None
    given = None if graph is None else _checked_graph(graph, asymmetry)
    if isinstance(result, NeighborGraph) or sp.issparse(result):
        if given is not None:
            raise TypeError("diagnose got two graphs and no map: give the map first, then graph=...")
        return Source(_checked_graph(result, asymmetry), n_components or 2, dropped=dropped)
    source = _read_map(result, given)
    if given is not None:
        source = replace(source, graph=given, stretch=None, dropped=dropped)
    assert source.coordinates is not None
    n_rows, n_vertices = len(source.coordinates), source.graph.n_vertices
    if n_rows != n_vertices:
        raise ValueError(f"The map has {n_rows} rows, but the graph has {n_vertices} vertices.")
    if n_components is not None and n_components != source.n_components:
        raise ValueError(
            f"n_components={n_components}, but the map has {source.n_components} columns; leave it out."
        )
    return source


def _checked_graph(graph: Any, asymmetry: str) -> NeighborGraph:
    return graph if isinstance(graph, NeighborGraph) else graph_from_matrix(graph, asymmetry=asymmetry)


def _read_map(result: Any, given: NeighborGraph | None) -> Source:
    """A map with the graph it was made from, or with the one given if it is bare coordinates."""
    if isinstance(result, Embedding):
        coordinates = np.asarray(result.coordinates, dtype=np.float64)
        parts = (result.stretch, result.dropped_edges, result.status)
        return Source(result.measured_graph("diagnose"), coordinates.shape[1], coordinates, *parts)
    if not (hasattr(result, "get_params") and hasattr(result, "fit_transform")):
        coordinates = _checked_coordinates(result)
        if given is None:
            raise TypeError(
                "Coordinates alone do not tell what they were made from: give the distances as graph, or "
                "pass what embed_graph or IsometricEmbedding returned."
            )
        return Source(given, coordinates.shape[1], coordinates)
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(result, "embedding_")
    if not hasattr(result, "graph_") or not hasattr(result, "dropped_edges_"):
        raise TypeError(
            f"diagnose takes an IsometricEmbedding, got {type(result).__name__}; give its coordinates "
            "(embedding_) and the distances as graph instead."
        )
    coordinates = np.asarray(result.embedding_, dtype=np.float64)
    parts = (np.asarray(result.stretch_, dtype=np.float64), result.dropped_edges_, result.status_)
    source = Source(graph_from_matrix(result.graph_), coordinates.shape[1], coordinates, *parts)
    options = resolve_options(
        coordinates.shape[1],
        preset=result.preset,
        inner_product=result.inner_product,
        frame_size=result.frame_size,
        calibrate=result.calibrate,
    )
    if options.inner_product == "edge":
        source = replace(source, frame_size=options.frame_size, calibrate=options.calibrate)
    return source


def _checked_coordinates(result: Any) -> FloatArray:
    if isinstance(result, str | dict) or result is None:
        raise TypeError(f"diagnose takes {_WANTED}, got {type(result).__name__}.")
    array = np.asarray(result)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"diagnose takes {_WANTED}, got {type(result).__name__} of dtype {array.dtype}.")
    if array.ndim != 2 or array.shape[1] < 1:
        raise ValueError(f"diagnose takes {_WANTED}, got an array of shape {array.shape}.")
    array = array.astype(np.float64)
    infinite = np.argwhere(np.isinf(array))
    if len(infinite):
        row, column = infinite[0]
        raise ValueError(f"Coordinates must not be infinite, but entry ({row}, {column}) is.")
    return array
