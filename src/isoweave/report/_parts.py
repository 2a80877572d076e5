"""The numbers of a page: graph, metrics, verdicts, Shepard diagram."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from isoweave._typing import FloatArray
from isoweave.graph import is_edge, subgraph
from isoweave.plot._shepard import shepard_pairs
from isoweave.plot._source import MapSource, edge_table
from isoweave.report._columns import Column
from isoweave.report._encode import encode, encode_numbers

# Beyond this many edges a page would become too large to open with ease; neighbourhoods are left out then.
MOST_EDGES = 4_000_000
# Vertices that shortest paths start from: all of a small graph, few of a large one, where each takes long.
_ALL_ROWS, _SAMPLED_ROWS, _FEW_ROWS = 1_000, 200, 40
_LARGE = 20_000
_SHEPARD_POINTS = 5_000
_SHEPARD_BINS = 100
_MOST_LABELS = 100


def graph_payload(source: MapSource) -> dict[str, Any] | None:
    """Edges i < j by rows, their lengths, and the positions of those the shortcut filter took out."""
    graph = source.graph
    if graph is None or graph.n_edges > MOST_EDGES:
        return None
    edges, lengths, _ = edge_table(graph, source.coordinates)
    counts = np.bincount(edges[:, 0], minlength=graph.n_vertices)
    indptr = np.zeros(graph.n_vertices + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    dropped = np.flatnonzero(is_edge(graph, source.dropped_edges)[graph.sources < graph.indices])
    return {
        "indptr": encode(indptr),
        "indices": encode(edges[:, 1].astype(np.int32)),
        "lengths": encode_numbers(lengths),
        "dropped": encode(dropped.astype(np.int32)),
    }


def principal_axes(coordinates: FloatArray) -> dict[str, Any] | None:
    """Axes of the map by variance, for maps that a picture cannot show whole; None below three dimensions."""
    placed = coordinates[~np.isnan(coordinates).any(axis=1)]
    if coordinates.shape[1] < 3 or len(placed) < 2:
        return None
    mean = placed.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov((placed - mean).T))
    values, axes = np.maximum(values[::-1], 0.0), axes[:, ::-1]
    shares = values / (values.sum() or 1.0)
    return {"mean": mean.tolist(), "axes": axes.T.tolist(), "shares": shares.tolist()}


def _n_rows(n: int) -> int:
    if n <= _ALL_ROWS:
        return n
    return _SAMPLED_ROWS if n <= _LARGE else _FEW_ROWS


def shepard_payload(source: MapSource) -> dict[str, Any] | None:
    """Sampled pairs as points, or many of them as counts on a grid."""
    n = int(source.is_placed.sum())
    if source.graph is None or n < 2:
        return None
    pairs = shepard_pairs(source, n_rows=_n_rows(n))
    if len(pairs.graph) == 0:
        return None
    payload: dict[str, Any] = {"n_pairs": len(pairs.graph)}
    if len(pairs.graph) <= _SHEPARD_POINTS:
        return payload | {"graph": encode_numbers(pairs.graph), "map": encode_numbers(pairs.map)}
    ends = (float(pairs.graph.max()) or 1.0, float(pairs.map.max()) or 1.0)
    counts, _, _ = np.histogram2d(
        pairs.graph, pairs.map, bins=_SHEPARD_BINS, range=((0.0, ends[0]), (0.0, ends[1]))
    )
    # Rows of an image run along the vertical axis.
    return payload | {"counts": encode(counts.T.astype(np.int32)), "bins": _SHEPARD_BINS, "ends": list(ends)}


def measure(source: MapSource, columns: list[Column]) -> tuple[dict[str, float], str | None]:
    """Metrics of the vertices that were embedded, and the column whose labels were voted for, if any."""
    from isoweave.metrics import evaluate

    if source.graph is None:
        return {}, None
    graph, points = source.kept_graph("metrics"), source.coordinates
    placed = np.flatnonzero(source.is_placed)
    if len(placed) < 3:
        return {}, None
    if len(placed) < len(points):
        graph, points = subgraph(graph, placed), points[placed]
    labelled = next(
        (
            c
            for c in columns
            if c.levels is not None and 2 <= len(c.levels) <= _MOST_LABELS and (c.values[placed] >= 0).all()
        ),
        None,
    )
    labels = None if labelled is None else labelled.values[placed]
    scores = evaluate(graph, points, labels=labels, n_rows=_n_rows(len(placed)))
    return scores, None if labelled is None else labelled.name


def find_verdict(
    source: MapSource, result: Any, diagnosis: Any, n_jobs: int | None
) -> tuple[Any, str | None]:
    """A diagnosis, or None and the reason why there is none."""
    if diagnosis is None or diagnosis is False:
        return None, "No diagnosis was asked for."
    if diagnosis is not True:
        if not hasattr(diagnosis, "verdicts"):
            raise TypeError(
                f"diagnosis must be True, False or what isoweave.diagnose returns, got {diagnosis!r}."
            )
        return diagnosis, None
    if source.graph is None:
        return None, "A diagnosis needs the measured distances, which were not given."
    if source.n_points < 3:
        return None, f"A map of {source.n_points} points is too small for a diagnosis."
    try:
        diagnose = import_module("isoweave.diagnostics").diagnose
    except ImportError:
        return None, "This installation has no diagnostics."
    carries_graph = hasattr(result, "alignments") or hasattr(result, "alignments_")
    try:
        if carries_graph:
            return diagnose(result, n_jobs=n_jobs), None
        return diagnose(source.coordinates, graph=source.graph, n_jobs=n_jobs), None
    except (ValueError, ArithmeticError) as error:
        # The rest of the page is worth having.
        return None, f"The diagnosis could not be made: {error}"
