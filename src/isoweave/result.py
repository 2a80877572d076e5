"""A finished map: ours or anybody's, from memory or from a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph import NeighborGraph, graph_from_matrix, is_edge, keep_edges
from isoweave.optimise import StepRecord

if TYPE_CHECKING:
    import pandas

    from isoweave.diagnostics import Diagnosis
    from isoweave.plot import View

_WANTED = "an Embedding, a fitted estimator, a file of one, or coordinates of shape (n, N)"


def _no_edges() -> IntArray:
    return np.empty((0, 2), dtype=np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """Coordinates of a distance graph, and how they were found.

    :func:`isoweave.embed_graph` fills every field; :func:`as_embedding` makes one from any other coordinates,
    where whatever is not known is None or empty.

    Attributes
    ----------
    coordinates : float64 array of shape (n, N)
        One row per vertex of the input, in its order. NaN only for vertices that were not embedded
        (``components="largest"``).
    graph : NeighborGraph or None
        The symmetric graph of measured distances, dropped edges included.
    alignments : float64 array of shape (n, N, N) or None
        Orthogonal Q_i that rotate every local frame into the map.
    stretch : float64 array of shape (n, N) or None
        Singular values of the local differential, largest first: 1 where lengths are kept. The last is 0 at
        both ends of an edge that has no length in the map.
    component_labels : int array of shape (n,) or None
        Connected component of every vertex, largest first.
    dropped_edges : int array of shape (s, 2)
        Edges i < j that the shortcut filter removed.
    energy : float or None
        Remaining energy, pulls of soft anchors included, summed over the components, in squared units of the
        distances (times those of the weights); 0 or infinite where that square is (distances under 1e-154 or
        over 1e154). ``relative_energy`` is always a number.
    relative_energy : float or None
        Energy over that of the collapsed embedding: 0 where every frame fits, 1 where nothing is preserved.
    history : tuple of StepRecord
        Steps of the largest component.
    status : str or None
        "converged", or why the worst component stopped: "max_iter", "stalled", "stopped" (by the callback),
        "interrupted" (by Ctrl-C). "collapsed": converged or stalled, but with edges of no length in the map.
    start, solver : str or None
        The start that won and the solver used (with the reason), of the largest component.
    global_weight : float or None
        How much long distances counted, in the largest component.
    features : array or sparse matrix of n rows, or None
    names : tuple of n str or None
    parameters : dict
    """

    coordinates: FloatArray
    graph: NeighborGraph | None = None
    alignments: FloatArray | None = None
    stretch: FloatArray | None = None
    component_labels: IntArray | None = None
    dropped_edges: IntArray = field(default_factory=_no_edges)
    energy: float | None = None
    relative_energy: float | None = None
    history: tuple[StepRecord, ...] = ()
    status: str | None = None
    start: str | None = None
    solver: str | None = None
    global_weight: float | None = None
    features: Any = None
    names: tuple[str, ...] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        facts = [] if self.graph is None else [f"{self.graph.n_edges:,} edges"]
        facts += [] if self.status is None else [self.status]
        about = f": {', '.join(facts)}" if facts else ""
        return f"<Embedding of {self.n_points:,} points in {self.n_components} dimensions{about}>"

    def _repr_html_(self) -> str:
        from isoweave.report import embedding_html

        return embedding_html(self)

    @property
    def n_points(self) -> int:
        return len(self.coordinates)

    @property
    def n_components(self) -> int:
        return int(self.coordinates.shape[1])

    @property
    def n_iter(self) -> int:
        """Steps of the largest component."""
        return self.history[-1].iteration if self.history else 0

    @property
    def is_placed(self) -> AnyArray:
        """Vertices that have coordinates, shape (n,)."""
        return np.logical_not(np.isnan(self.coordinates).any(axis=1))

    def measured_graph(self, what: str) -> NeighborGraph:
        """The graph, or an error that says what it is needed for."""
        if self.graph is None:
            raise TypeError(
                f"{what} needs the measured distances: pass what embed_graph or IsometricEmbedding returned, "
                "or the coordinates together with graph=, a sparse matrix of distances."
            )
        return self.graph

    def kept_graph(self, what: str) -> NeighborGraph:
        """The measured graph without the dropped edges."""
        graph = self.measured_graph(what)
        if len(self.dropped_edges) == 0:
            return graph
        return keep_edges(graph, ~is_edge(graph, self.dropped_edges))

    def distances(self, rows: Any = None, columns: Any = None) -> FloatArray:
        """Euclidean distances in the map between two selections of points, by default all (n x n numbers)."""
        from scipy.spatial.distance import cdist

        points = self.coordinates
        first = points if rows is None else points[np.atleast_1d(rows)]
        return cdist(first, points if columns is None else points[np.atleast_1d(columns)])

    def evaluate(self, **references: Any) -> dict[str, float]:
        """The metrics of :func:`isoweave.metrics.evaluate` against the measured graph."""
        from isoweave.metrics import evaluate

        return evaluate(self.measured_graph("evaluate"), self.coordinates, **references)

    def diagnose(self, **options: Any) -> Diagnosis:
        """What the map keeps and what to do about the rest: :func:`isoweave.diagnose`."""
        from isoweave.diagnostics import diagnose

        return diagnose(self, **options)

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the interactive page of :func:`isoweave.report.write_report`."""
        from isoweave.report import write_report

        return write_report(self, path, **options)

    def plot(self, **options: Any) -> Any:
        """Draw the map with :func:`isoweave.plot.plot_embedding`; returns matplotlib's axes."""
        from isoweave.plot import plot_embedding

        return plot_embedding(self, **options)

    def view(self, **options: Any) -> View:
        """A picture of clusters, held in place by a flat map: :func:`isoweave.plot.view`."""
        from isoweave.plot import view

        return view(self, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything in one file, which :func:`isoweave.load` reads."""
        from isoweave.persist import save

        save(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """Coordinates x1 .. xN as a pandas data frame, with component and stretch where they are known."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas.") from error
        columns: dict[str, Any] = {f"x{c}": x for c, x in enumerate(self.coordinates.T, 1)}
        if self.component_labels is not None:
            columns["component"] = self.component_labels
        if self.stretch is not None:
            columns["largest_stretch"], columns["smallest_stretch"] = self.stretch[:, 0], self.stretch[:, -1]
        index = None if self.names is None else pandas.Index(self.names, name="vertex")
        return pandas.DataFrame(columns, index=index)


def as_embedding(source: Any, graph: Any = None) -> Embedding:
    """Any map as an :class:`Embedding`.

    Parameters
    ----------
    source : Embedding, fitted estimator, path-like, or array of shape (n, N)
        Any estimator with ``embedding_`` will do. A file is a saved model, the output of ``isoweave embed``,
        or a table of coordinates.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances, in place of those that the source carries.
    """
    if isinstance(source, Embedding):
        found = source
    elif isinstance(source, str | os.PathLike):
        from isoweave.io import read_embedding
        from isoweave.persist import is_store, load

        found = as_embedding(load(source)) if is_store(source) else read_embedding(source)
    elif isinstance(source, bytes | dict) or source is None:
        raise TypeError(f"Expected {_WANTED}, got {type(source).__name__}.")
    elif hasattr(source, "embedding_"):
        found = _from_estimator(source)
    elif hasattr(source, "get_params"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"This {type(source).__name__} instance is not fitted yet; call fit first.")
    else:
        found = Embedding(_checked_coordinates(source))
    if graph is not None:
        # What was measured against the other graph does not hold for this one.
        found = replace(found, graph=graph_from_matrix(graph), dropped_edges=_no_edges(), stretch=None)
    if found.graph is not None and found.graph.n_vertices != found.n_points:
        raise ValueError(
            f"The map has {found.n_points} rows, but the graph has {found.graph.n_vertices} vertices."
        )
    return found


def _from_estimator(estimator: Any) -> Embedding:
    """The fitted attributes of an estimator, where it has them."""
    names = ("alignments", "component_labels", "energy", "relative_energy", "history", "status", "stretch")
    found: dict[str, Any] = {name: getattr(estimator, f"{name}_", None) for name in names}
    if found["stretch"] is not None:
        found["stretch"] = np.asarray(found["stretch"], dtype=np.float64)
    # Only a graph that comes with its dropped edges is ours: ``graph_`` of other packages may hold weights.
    dropped = getattr(estimator, "dropped_edges_", None)
    own = None if dropped is None else getattr(estimator, "graph_", None)
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    return Embedding(
        **{**found, "history": tuple(found["history"] or ())},
        coordinates=_checked_coordinates(estimator.embedding_),
        graph=None if own is None else graph_from_matrix(own),
        dropped_edges=_no_edges() if dropped is None else dropped,
        features=getattr(estimator, "_fit_X", None),
        parameters={name: value for name, value in parameters.items() if name != "callback"},
    )


def _checked_coordinates(points: Any) -> FloatArray:
    array = np.asarray(points)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"Expected {_WANTED}, got {type(points).__name__} of dtype {array.dtype}.")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"Expected {_WANTED}, got an array of shape {array.shape}.")
    array = array.astype(np.float64)
    infinite = np.argwhere(np.isinf(array))
    if len(infinite):
        row, column = infinite[0]
        raise ValueError(f"Coordinates must not be infinite, but entry ({row}, {column}) is.")
    return array
