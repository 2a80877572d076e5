"""Connected components: found, cut out, joined by bridges, laid out side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components as csgraph_components
from sklearn.neighbors import NearestNeighbors

from isoweave._parallel import thread_team
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_integer, check_real
from isoweave.graph._features import FeatureSpace, Metric, prepare_features
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._validate import assemble_graph

# A layout at most about four times as wide as it is high.
_WIDTH_OF_SQUARE = 2.0


def connected_components(graph: NeighborGraph) -> tuple[int, IntArray]:
    """Number of connected components, and the component of each vertex as int32 labels of shape (n,).

    Components are numbered by size, largest first; among equals by smallest vertex.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from isoweave.graph import graph_from_matrix
    >>> matrix = sp.coo_array(([1.0, 1.0], ([1, 3], [2, 1])), shape=(4, 4))
    >>> connected_components(graph_from_matrix(matrix))
    (2, array([1, 0, 0, 0], dtype=int32))
    """
    n = graph.n_vertices
    # Ones for lengths: a zero-length edge connects like any other.
    links = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(n, n))
    n_components, found = csgraph_components(links, directed=False)
    _, smallest, sizes = np.unique(found, return_index=True, return_counts=True)
    number = np.empty(n_components, dtype=np.int32)
    number[np.lexsort((smallest, -sizes))] = np.arange(n_components, dtype=np.int32)
    return int(n_components), number[found]


def bridge_components(
    graph: NeighborGraph,
    X: Any,
    *,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_bridges: int = 3,
    n_jobs: int | None = None,
) -> NeighborGraph:
    """Join the components of a graph by the shortest edges between their points.

    The components joined are those of a minimum spanning tree, where the distance of two components is
    that of their nearest points. Each pair is joined by up to ``n_bridges`` edges, so that one part
    cannot swing around the end of a single edge: the shortest with ends all different, and, where a
    component has too few points for that, the shortest others. A connected graph is returned as it is.

    Parameters
    ----------
    graph : NeighborGraph
    X : array or sparse matrix of shape (n, n_features), or None
        Features of the vertices. A graph alone says nothing about the distance between its components,
        so None is an error unless the graph is connected.
    metric, metric_params, n_jobs
        As in :func:`knn_graph`.
    n_bridges : int
        Edges per joined pair; N + 1 or more for an embedding in N dimensions.
    """
    n_bridges = check_integer("n_bridges", n_bridges, minimum=1)
    n_components, labels = connected_components(graph)
    if n_components == 1:
        return graph
    if X is None:
        raise ValueError(
            f"The graph has {n_components} components and no features to measure the distance between them, "
            "so they cannot be bridged. Add edges between them, or choose components='separate' or 'largest'."
        )
    with thread_team(n_jobs) as team:
        space = prepare_features(X, metric, metric_params, team)
        n = len(space.groups.members)
        if n != graph.n_vertices:
            raise ValueError(f"X has {n} rows, but the graph has {graph.n_vertices} vertices.")
        # The point of each vertex: its row among the distinct ones.
        point = np.empty(n, dtype=np.int32)
        point[space.groups.members] = np.repeat(np.arange(space.groups.n_groups), space.groups.sizes)
        ends = [
            _shortest_pairs(space, point, np.flatnonzero(labels == a), np.flatnonzero(labels == b), n_bridges)
            for a, b in _spanning_tree(space, point, labels, n_components)
        ]
    rows, cols = (np.concatenate(side) for side in zip(*((i, j) for i, j, _ in ends), strict=True))
    lengths = space.to_user(np.concatenate([distances for _, _, distances in ends]))
    one_way = graph.sources < graph.indices
    return assemble_graph(
        n,
        np.concatenate([graph.sources[one_way], rows]),
        np.concatenate([graph.indices[one_way], cols]),
        np.concatenate([graph.lengths[one_way], lengths]),
    )


def _spanning_tree(
    space: FeatureSpace, point: IntArray, labels: IntArray, n_components: int
) -> list[tuple[int, int]]:
    """Pairs of components that a minimum spanning tree over their nearest points joins (Boruvka).

    Each round finds, for every part but the largest, its nearest point outside. Two parts differ in some
    bit of their numbers; so it is enough to search, for each bit, the points with a 0 there among those
    with a 1, and vice versa: log2 of the number of parts searches instead of one per part.
    """
    part_of = np.arange(n_components)
    edges: list[tuple[int, int]] = []
    while True:
        _, part_of, sizes = np.unique(part_of, return_inverse=True, return_counts=True)
        if len(sizes) == 1:
            return edges
        parts = part_of[labels]
        largest = int(np.argmax(np.bincount(parts)))
        nearest = np.full(len(labels), -1)
        distances = np.full(len(labels), np.inf)
        for bit in range((len(sizes) - 1).bit_length()):
            side = (parts >> bit) & 1
            for value in (0, 1):
                queries = np.flatnonzero((side == value) & (parts != largest))
                targets = np.flatnonzero(side != value)
                if len(queries) and len(targets):
                    distance, found = _nearest(space, point[queries], point[targets], 1)
                    closer = distance[:, 0] < distances[queries]
                    distances[queries[closer]] = distance[closer, 0]
                    nearest[queries[closer]] = targets[found[closer, 0]]
        # Shortest first, and only what joins two parts still apart, in case distances tie.
        by_part = np.lexsort((distances, parts))
        best = by_part[np.unique(parts[by_part], return_index=True)[1]]
        best = best[nearest[best] >= 0]
        for i in best[np.argsort(distances[best], kind="stable")]:
            a, b = int(labels[i]), int(labels[nearest[i]])
            if part_of[a] != part_of[b]:
                part_of = np.where(part_of == part_of[b], part_of[a], part_of)
                edges.append((a, b))


def _shortest_pairs(
    space: FeatureSpace, point: IntArray, a: AnyArray, b: AnyArray, n_pairs: int
) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Up to ``n_pairs`` of the shortest pairs between two sets of vertices, ends different if possible."""
    if len(a) > len(b):
        cols, rows, distances = _shortest_pairs(space, point, b, a, n_pairs)
        return rows, cols, distances
    # The vertices of the smaller set that are nearest to the other, each with its nearest ones there.
    distance, _ = _nearest(space, point[a], point[b], 1)
    near = a[np.argsort(distance[:, 0], kind="stable")[:n_pairs]]
    distance, found = _nearest(space, point[near], point[b], min(n_pairs, len(b)))
    rows, cols = np.repeat(near, found.shape[1]), b[found.reshape(-1)]
    flat = distance.reshape(-1)
    order = np.lexsort((cols, rows, flat))
    used: set[int] = set()
    separate: list[int] = []
    rest: list[int] = []
    for e in order.tolist():
        ends = {int(rows[e]), int(cols[e])}
        if used & ends:
            rest.append(e)
        else:
            used |= ends
            separate.append(e)
    chosen = (separate + rest)[:n_pairs]
    return rows[chosen], cols[chosen], flat[chosen]


def _nearest(
    space: FeatureSpace, queries: IntArray, targets: IntArray, k: int
) -> tuple[FloatArray, AnyArray]:
    """Distances to, and positions in ``targets`` of, the ``k`` nearest targets of each query."""
    points = space.points
    search = NearestNeighbors(n_neighbors=k, metric=space.metric, metric_params=space.params or None)
    distances, found = search.fit(points[targets]).kneighbors(points[queries])
    if space.metric == "euclidean" and not sp.issparse(points):
        # From differences, because scikit-learn's formula for wide features loses digits.
        for start in range(0, len(queries), 1024):
            rows = slice(start, start + 1024)
            step = points[queries[rows]][:, None, :] - points[targets[found[rows]]]
            distances[rows] = np.sqrt(np.einsum("ijk,ijk->ij", step, step))
    return distances, found


def pack_components(coordinates: Sequence[FloatArray], gap_ratio: float = 0.2) -> list[FloatArray]:
    """Shifts, one of shape (N,) each, that lay embedded components side by side without overlap.

    Larger components come first, from left to right along the first axis; smaller ones are stacked in
    columns beside them and, when a row gets too wide, in further rows along the second axis. In one
    dimension everything lies in one row. The centroid of all points together ends up at the origin.
    ``gap_ratio`` is the space around each component as a part of its extent; around single points it is
    the typical spacing of points in the largest component.

    Examples
    --------
    >>> import numpy as np
    >>> square = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> shifts = pack_components([square, square], gap_ratio=0.5)
    >>> (shifts[1] - shifts[0]).tolist()
    [1.5, 0.0]
    """
    gap_ratio = check_real("gap_ratio", gap_ratio, minimum=0)
    if not coordinates:
        return []
    lows = np.array([c.min(axis=0) for c in coordinates], dtype=np.float64)
    highs = np.array([c.max(axis=0) for c in coordinates], dtype=np.float64)
    counts = np.array([len(c) for c in coordinates])
    extents = highs - lows
    sides = extents.max(axis=1)
    spacing = (sides.max() or 1.0) / np.sqrt(counts.sum())
    boxes = extents[:, :2] + np.maximum(gap_ratio * sides, spacing)[:, None]
    if boxes.shape[1] == 1:
        corners = _pack_boxes(np.column_stack([boxes, np.ones(len(boxes))]), np.inf)[:, :1]
    else:
        limit = max(boxes[:, 0].max(), _WIDTH_OF_SQUARE * np.sqrt(boxes.prod(axis=1).sum()))
        # Rounding must not push the last of equal boxes into another row.
        corners = _pack_boxes(boxes, limit * (1 + 1e-9))
    centres = np.zeros_like(extents)
    centres[:, :2] = corners + 0.5 * boxes
    shifts = centres - 0.5 * (lows + highs)
    sums = np.array([c.sum(axis=0) for c in coordinates], dtype=np.float64)
    centroid = (sums + counts[:, None] * shifts).sum(axis=0) / counts.sum()
    return list(shifts - centroid)


def _pack_boxes(boxes: FloatArray, limit: float) -> FloatArray:
    """Lower left corners of boxes packed into rows of columns, rows no wider than ``limit``."""
    corners = np.empty_like(boxes)
    row_bottom = row_height = column_left = column_width = column_top = 0.0
    for c in np.argsort(-boxes.max(axis=1), kind="stable"):
        width, height = boxes[c]
        stacks = width <= column_width and column_top + height <= row_bottom + row_height
        if not stacks:
            column_left, column_top, column_width = column_left + column_width, row_bottom, width
            if column_left + width > limit:
                row_bottom, row_height, column_left = row_bottom + row_height, 0.0, 0.0
                column_top = row_bottom
        corners[c] = column_left, column_top
        column_top += height
        row_height = max(row_height, column_top - row_bottom)
    return corners
