"""What is drawn: an embedding, a fitted estimator, or plain coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph import NeighborGraph, edge_distortion, graph_from_matrix, is_edge, keep_edges


@dataclass(frozen=True, eq=False)
class MapSource:
    """A map and what is known about it; everything but the coordinates may be missing.

    Attributes
    ----------
    coordinates : float64 array of shape (n, N)
        Rows of NaN were not embedded; nothing is infinite.
    graph : NeighborGraph or None
        Measured distances, dropped edges included.
    stretch : float64 array of shape (n, N) or None
    component_labels : int array of shape (n,) or None
    dropped_edges : int array of shape (s, 2)
    history : tuple of records with ``iteration`` and ``energy``
    status : str or None
    energy, relative_energy : float or None
    parameters : dict of str to object
    features : array or sparse matrix of n rows, or None
    names : tuple of n str or None
    """

    coordinates: FloatArray
    graph: NeighborGraph | None = None
    stretch: FloatArray | None = None
    component_labels: IntArray | None = None
    dropped_edges: IntArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int32))
    history: tuple[Any, ...] = ()
    status: str | None = None
    energy: float | None = None
    relative_energy: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    features: Any = None
    names: tuple[str, ...] | None = None

    @property
    def n_points(self) -> int:
        return len(self.coordinates)

    @property
    def n_components(self) -> int:
        return int(self.coordinates.shape[1])

    @property
    def is_placed(self) -> AnyArray:
        """Vertices that have coordinates, shape (n,)."""
        return np.logical_not(np.isnan(self.coordinates).any(axis=1))

    def needed_graph(self, what: str) -> NeighborGraph:
        """The graph, or an error that says what it is needed for."""
        if self.graph is None:
            raise TypeError(
                f"{what} needs the measured distances: pass what embed_graph or IsometricEmbedding returned, "
                "or the coordinates together with graph=, a sparse matrix of distances."
            )
        return self.graph

    def kept_graph(self, what: str) -> NeighborGraph:
        """The graph that was embedded: without the edges the shortcut filter took out."""
        graph = self.needed_graph(what)
        if len(self.dropped_edges) == 0:
            return graph
        return keep_edges(graph, ~is_edge(graph, self.dropped_edges))


def read_map(result: Any, graph: Any = None) -> MapSource:
    """Take the parts of a result that drawings use.

    Parameters
    ----------
    result : Embedding, fitted estimator, MapSource, or array of shape (n, N)
        Any estimator with ``embedding_`` will do, or any object with ``coordinates``.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances, in place of those the result carries.

    Returns
    -------
    MapSource
    """
    wanted = "an Embedding, a fitted estimator or coordinates of shape (n, N)"
    if isinstance(result, MapSource):
        source = result
    elif isinstance(result, str | bytes | dict) or result is None:
        raise TypeError(f"Expected {wanted}, got {type(result).__name__}.")
    elif hasattr(result, "coordinates"):
        source = _from_attributes(result, "")
    elif hasattr(result, "embedding_"):
        source = _from_attributes(result, "_")
    elif hasattr(result, "get_params"):
        raise ValueError(f"{type(result).__name__} is not fitted yet; call fit first.")
    else:
        source = MapSource(_checked_coordinates(result, wanted))
    if graph is not None:
        none = np.empty((0, 2), dtype=np.int32)
        source = replace(source, graph=graph_from_matrix(graph), dropped_edges=none)
    if source.graph is not None and source.graph.n_vertices != source.n_points:
        raise ValueError(
            f"The map has {source.n_points} rows, but the graph has {source.graph.n_vertices} vertices."
        )
    return source


def _from_attributes(result: Any, end: str) -> MapSource:
    """Parts of an Embedding (no ending) or of an estimator (ending in an underscore), where it has them."""
    wanted = "coordinates of shape (n, N)"
    own = getattr(result, f"graph{end}", None)
    dropped = getattr(result, f"dropped_edges{end}", None)
    parameters = result.get_params(deep=False) if hasattr(result, "get_params") else {}
    return MapSource(
        coordinates=_checked_coordinates(getattr(result, "embedding_" if end else "coordinates"), wanted),
        graph=None if own is None else graph_from_matrix(own),
        stretch=getattr(result, f"stretch{end}", None),
        component_labels=getattr(result, f"component_labels{end}", None),
        dropped_edges=np.empty((0, 2), dtype=np.int32) if dropped is None else dropped,
        history=tuple(getattr(result, f"history{end}", ())),
        status=getattr(result, f"status{end}", None),
        energy=getattr(result, f"energy{end}", None),
        relative_energy=getattr(result, f"relative_energy{end}", None),
        parameters={k: v for k, v in parameters.items() if k != "callback"},
        features=getattr(result, "_fit_X", None),
        names=getattr(result, "names", None),
    )


def _checked_coordinates(points: Any, wanted: str) -> FloatArray:
    array = np.asarray(points)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"Expected {wanted}, got {type(points).__name__} of dtype {array.dtype}.")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"Expected {wanted}, got an array of shape {array.shape}.")
    array = array.astype(np.float64)
    infinite = np.argwhere(np.isinf(array))
    if len(infinite):
        row, column = infinite[0]
        raise ValueError(f"Coordinates must not be infinite, but entry ({row}, {column}) is.")
    return array


def edge_table(graph: NeighborGraph, coordinates: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ends i < j of every edge in the order of the rows, shape (E, 2), their lengths and distortions."""
    once = graph.sources < graph.indices
    edges, lengths = np.column_stack((graph.sources[once], graph.indices[once])), graph.lengths[once]
    return edges, lengths, edge_distortion(edges, lengths, coordinates)


def vertex_errors(graph: NeighborGraph, coordinates: FloatArray) -> FloatArray:
    """Mean of |distortion| over the edges of positive length at every vertex, shape (n,); NaN without any."""
    edges, lengths, distortion = edge_table(graph, coordinates)
    use = (lengths > 0.0) & np.isfinite(distortion)
    ends = edges[use].ravel(order="F")
    values = np.tile(np.abs(distortion[use]), 2)
    count = np.bincount(ends, minlength=graph.n_vertices)
    total = np.bincount(ends, values, minlength=graph.n_vertices)
    return np.divide(total, count, out=np.full(graph.n_vertices, np.nan), where=count > 0)


def main_stretch(stretch: FloatArray) -> FloatArray:
    """The singular value of every vertex whose ratio to 1 is the largest, shape (n,)."""
    values = np.maximum(np.asarray(stretch, dtype=np.float64), np.finfo(np.float64).tiny)
    at = np.argmax(np.abs(np.log(values)), axis=1)
    return np.asarray(stretch, dtype=np.float64)[np.arange(len(values)), at]
