"""The graph as later stages work on it: duplicates merged, components found, bridged or laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam, thread_team
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_integer
from isoweave.graph._assembly import bounds_of, inverse_of
from isoweave.graph._features import FeatureSpace, Metric, Params, prepare_features, row_norms
from isoweave.graph._graph import (
    NeighborGraph,
    assemble_graph,
    edges_of,
    graph_from_matrix,
    is_edge,
    join,
    join_along,
    keep_edges,
    local_order,
    renumber,
)
from isoweave.graph._shortcuts import drop_shortcuts

# A layout at most about four times as wide as it is high.
_WIDTH_OF_SQUARE = 2.0
# Space around a component as a part of its extent.
_GAP = 0.2
# Beyond this ratio of lengths fourth powers overflow, and nothing at the small end would be visible.
_LARGEST_RATIO = 1e70


def connected_components(graph: NeighborGraph) -> tuple[int, IntArray]:
    """Number of components, and the label of each vertex: largest first, among equals by smallest vertex."""
    if graph.is_connected:
        return 1, np.zeros(graph.n_vertices, dtype=np.int32)
    n_components, labels = join(graph.n_vertices, graph.sources, graph.indices)
    number = inverse_of(np.argsort(-np.bincount(labels), kind="stable"))
    return n_components, number[labels]


def members_of(labels: IntArray) -> list[AnyArray]:
    """Vertices of every label, in rising order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def merge_duplicates(graph: NeighborGraph) -> tuple[NeighborGraph, IntArray]:
    """Merge vertices joined by edges of length zero, directly or through others.

    Returns the graph with one vertex per group of duplicates, numbered by the smallest member (the same
    object if there is nothing to merge), and the vertex of it that stands for each vertex, shape (n,). The
    edge between two groups has the smallest length among their members' edges.
    """
    n = graph.n_vertices
    zero = graph.lengths == 0
    if not zero.any():
        return graph, np.arange(n, dtype=np.int32)
    n_groups, representative = join(n, graph.sources[zero], graph.indices[zero])
    rows, cols = representative[graph.sources], representative[graph.indices]
    # One direction is enough, and between groups only: the assembly adds the other.
    keep = rows < cols
    reduced = assemble_graph(n_groups, rows[keep], cols[keep], graph.lengths[keep], asymmetry="min")
    return reduced, representative


def geodesic_neighbors(
    graph: Any, n_neighbors: int = 10, *, asymmetry: str = "error", n_jobs: int | None = None
) -> sp.csr_array:
    """Join every vertex of a distance graph to those nearest along it, at the lengths of the paths.

    For graphs in which hardly any neighbours are neighbours of each other, such as roads and grids: local
    frames rest on the distances among neighbours, and here they find them. Embed the result, or let
    ``along_graph=n_neighbors`` of :func:`isoweave.embed_graph` do the same, which keeps the measured edges
    apart from the paths.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n) or NeighborGraph
        As given to :func:`isoweave.embed_graph`.
    n_neighbors : int
    asymmetry : {"error", "max", "min", "mean"}
    n_jobs : int or None

    Returns
    -------
    csr_array of shape (n, n)
        Symmetric. Edges of the graph are kept, with the length of their detour where that is shorter.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> square = sp.coo_array(([3.0, 4.0, 3.0, 4.0], ([0, 1, 2, 3], [1, 2, 3, 0])), shape=(4, 4))
    >>> geodesic_neighbors(square, 3).toarray()[0]
    array([0., 3., 7., 4.])
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    given = graph_from_matrix(graph, asymmetry=asymmetry)
    merged, representative = merge_duplicates(given)
    with thread_team(n_jobs) as team:
        wide = join_along(merged, k, team=team)
    first = np.unique(representative, return_index=True)[1]
    rows = np.concatenate((given.sources, first[wide.sources]))
    cols = np.concatenate((given.indices, first[wide.indices]))
    lengths = np.concatenate((given.lengths, wide.lengths))
    return assemble_graph(given.n_vertices, rows, cols, lengths, asymmetry="min").to_matrix()


def bridge_components(
    graph: NeighborGraph,
    X: Any,
    *,
    metric: Metric = "euclidean",
    metric_params: Params = None,
    n_bridges: int = 3,
    n_jobs: int | None = None,
) -> NeighborGraph:
    """Join the components of a graph by the shortest edges between their points.

    The components joined are those of a minimum spanning tree, where the distance of two components is
    that of their nearest points, in the metric of ``X`` (see :func:`knn_graph`). Each pair is joined by up to
    ``n_bridges`` edges (N + 1 or more for an embedding in N dimensions), so that one part cannot rotate about
    the end of a single edge: the shortest with ends all different, and, where a component has too few points
    for that, the shortest others. A connected graph is returned as it is.
    """
    n_bridges = check_integer("n_bridges", n_bridges, minimum=1)
    n_components, labels = connected_components(graph)
    if n_components == 1:
        return graph
    with thread_team(n_jobs) as team:
        space = prepare_features(X, metric, metric_params, team)
        n = len(space.groups.members)
        if n != graph.n_vertices:
            raise ValueError(f"X has {n} rows, but the graph has {graph.n_vertices} vertices.")
        # Every vertex with its own row, duplicates too.
        point, sizes = np.empty(n, dtype=np.int32), np.diff(space.groups.starts)
        point[space.groups.members] = np.repeat(np.arange(len(sizes)), sizes)
        space, parts = replace(space, points=space.points[point]), members_of(labels)
        tree = _spanning_tree(space, labels, n_components)
        bridges = [_shortest_pairs(space, parts[a], parts[b], n_bridges) for a, b in tree]
    given = (graph.sources, graph.indices, graph.lengths)
    return assemble_graph(n, *(np.concatenate(side) for side in zip(given, *bridges, strict=True)))


def _spanning_tree(space: FeatureSpace, labels: IntArray, n_components: int) -> list[tuple[int, int]]:
    """Pairs of components that a minimum spanning tree over their nearest points joins (Boruvka)."""
    # Each round finds, for every part but the largest, its nearest point outside. Two parts differ in some
    # bit of their numbers: for each bit, zeros are searched among ones and vice versa.
    part_of = np.arange(n_components)
    edges: list[tuple[int, int]] = []
    while len(edges) < n_components - 1:
        part_of = np.unique(part_of, return_inverse=True)[1]
        parts = part_of[labels]
        largest = int(np.argmax(np.bincount(parts)))
        nearest, distances = np.full(len(labels), -1), np.full(len(labels), np.inf)
        for bit in range(int(part_of.max()).bit_length()):
            side = (parts >> bit) & 1
            for value in (0, 1):
                queries = np.flatnonzero((side == value) & (parts != largest))
                targets = np.flatnonzero(side != value)
                if len(queries) and len(targets):
                    distance, found = _nearest(space, queries, targets, 1)
                    closer = distance[:, 0] < distances[queries]
                    distances[queries[closer]] = distance[closer, 0]
                    nearest[queries[closer]] = targets[found[closer, 0]]
        # Shortest first, and only what joins two parts still apart, in case distances tie.
        by_part = np.lexsort((distances, parts))
        best = by_part[np.unique(parts[by_part], return_index=True)[1]]
        best = best[nearest[best] >= 0]
        if len(best) == 0:
            raise ValueError(
                "components='bridge' found no finite distance between components: the metric gives infinity "
                "or NaN for every pair of their points. Use components='separate', or another metric."
            )
        for i in best[np.argsort(distances[best], kind="stable")]:
            a, b = int(labels[i]), int(labels[nearest[i]])
            if part_of[a] != part_of[b]:
                part_of = np.where(part_of == part_of[b], part_of[a], part_of)
                edges.append((a, b))
    return edges


def _shortest_pairs(space: FeatureSpace, a: AnyArray, b: AnyArray, n_pairs: int) -> tuple[AnyArray, ...]:
    """Up to ``n_pairs`` of the shortest pairs between two sets of vertices, ends different if possible."""
    if len(a) > len(b):
        a, b = b, a
    # The vertices of the smaller set that are nearest to the other, each with its nearest ones there.
    distance, _ = _nearest(space, a, b, 1)
    near = a[np.argsort(distance[:, 0], kind="stable")[:n_pairs]]
    distance, found = _nearest(space, near, b, min(n_pairs, len(b)))
    rows, cols, lengths = np.repeat(near, found.shape[1]), b[found.reshape(-1)], distance.reshape(-1)
    used: set[int] = set()
    separate: list[int] = []
    ranked = np.lexsort((cols, rows, lengths)).tolist()
    for e in ranked:
        ends = {int(rows[e]), int(cols[e])}
        if not used & ends:
            separate.append(e)
            used |= ends
    chosen = [*separate, *(e for e in ranked if e not in separate)][:n_pairs]
    return rows[chosen], cols[chosen], space.to_user(lengths[chosen])


def _nearest(space: FeatureSpace, queries: AnyArray, targets: AnyArray, k: int) -> tuple[AnyArray, AnyArray]:
    """Distances to, and positions in ``targets`` of, the ``k`` nearest targets of each query."""
    from sklearn.neighbors import NearestNeighbors

    points = space.points
    search = NearestNeighbors(n_neighbors=k, metric=space.metric, metric_params=space.params or None)
    distances, found = search.fit(points[targets]).kneighbors(points[queries])
    if space.metric == "euclidean" and not space.is_sparse:
        # From differences, because scikit-learn's formula for wide features loses digits.
        steps = points[np.repeat(queries, k)] - points[targets[found.reshape(-1)]]
        distances = row_norms(steps).reshape(found.shape)
    return distances, found


def pack_components(coordinates: Sequence[FloatArray]) -> list[FloatArray]:
    """Shifts, one of shape (N,) each, that lay embedded components side by side without overlap.

    Larger ones come first, from left to right; smaller ones are stacked in columns beside them and, when a
    row gets too wide, in further rows. The space around each is a fifth of its extent, around single points
    the typical spacing in the largest component. The centroid of all points ends up at the origin.
    """
    counts, points = np.array([len(c) for c in coordinates]), np.concatenate(coordinates, dtype=np.float64)
    starts = np.cumsum(counts) - counts
    sums = np.array([c.sum(axis=0) for c in coordinates], dtype=np.float64)
    bounds = (np.minimum.reduceat(points, starts), np.maximum.reduceat(points, starts))
    return list(pack_boxes(*bounds, sums, counts))


def pack_boxes(lows: FloatArray, highs: FloatArray, sums: FloatArray, counts: AnyArray) -> FloatArray:
    """The same shifts, shape (k, N), from the bounds, sums (k, N) and numbers (k,) of the points."""
    extents = highs - lows
    sides = extents.max(axis=1)
    spacing = (sides.max() or 1.0) / np.sqrt(counts.sum())
    boxes = extents[:, :2] + np.maximum(_GAP * sides, spacing)[:, None]
    if boxes.shape[1] == 1:
        corners = _pack_boxes(np.column_stack([boxes, np.ones(len(boxes))]), np.inf)[:, :1]
    else:
        limit = max(boxes[:, 0].max(), _WIDTH_OF_SQUARE * np.sqrt(boxes.prod(axis=1).sum()))
        # Rounding must not push the last of equal boxes into another row.
        corners = _pack_boxes(boxes, limit * (1 + 1e-9))
    centres = np.zeros_like(extents)
    centres[:, :2] = corners + 0.5 * boxes
    shifts = centres - 0.5 * (lows + highs)
    centroid = (sums + counts[:, None] * shifts).sum(axis=0) / counts.sum()
    return shifts - centroid


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


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A graph in a unit of its own, duplicates merged, ordered for the cache, shortcuts removed.

    Where neighbours along the graph were asked for, ``graph`` has them and ``given`` has not.
    """

    given: NeighborGraph  #: What the caller passed, in the caller's unit and numbering.
    unit: float  #: A power of two near the median length; lengths of ``graph`` are multiples of it.
    graph: NeighborGraph  #: Of the distinct vertices, with positive lengths.
    representative: IntArray  #: Distinct vertex of every given one.
    dropped: IntArray  #: Edges i < j of ``given`` that were left out as shortcuts, shape (s, 2).

    @computed_once
    def firsts(self) -> AnyArray:
        """First given vertex of every distinct one."""
        return np.unique(self.representative, return_index=True)[1]

    @computed_once
    def labels(self) -> IntArray:
        """Connected component of every distinct vertex, largest first."""
        return connected_components(self.graph)[1]

    @computed_once
    def parts(self) -> list[AnyArray]:
        """Distinct vertices of every component, largest first."""
        return members_of(self.labels)

    def degrees_of(self, components: list[int]) -> tuple[IntArray, AnyArray]:
        """Of the vertices of several components, one after the other, and where each begins."""
        vertices = [self.parts[c] for c in components]
        return self.graph.degrees[np.concatenate(vertices)], np.cumsum([0, *map(len, vertices)])

    def part(self, *components: int) -> NeighborGraph:
        """Graph of one component, or of several, one after the other; in the time of their own sizes."""
        graph = self.graph
        if len(self.parts) == 1:
            return graph
        vertices = np.concatenate([self.parts[c] for c in components])
        number = np.empty(graph.n_vertices, dtype=np.int32)
        number[vertices] = np.arange(len(vertices), dtype=np.int32)
        # A component has all edges of its vertices.
        at = edges_of(graph.indptr, vertices)
        return NeighborGraph(bounds_of(graph.degrees[vertices]), number[graph.indices[at]], graph.lengths[at])


def normalise_lengths(graph: NeighborGraph) -> tuple[float, NeighborGraph]:
    """A power of two near the median length, and the graph in that unit: nothing over- or underflows."""
    positive = graph.lengths[graph.lengths > 0]
    if len(positive) == 0:
        return 1.0, graph
    # The upper of the two middle lengths, because their mean may overflow; the unit must be a number too.
    middle = np.partition(positive, len(positive) // 2)[len(positive) // 2]
    exponent = min(int(np.frexp(middle)[1]), np.finfo(np.float64).maxexp - 1)
    check_ratio(positive.min(), positive.max())
    lengths = np.ldexp(graph.lengths, -exponent)
    return float(np.ldexp(1.0, exponent)), graph.with_lengths(lengths)


def check_ratio(low: float, high: float) -> None:
    """Refuse lengths that are out of all proportion."""
    if high / _LARGEST_RATIO > low:
        raise ValueError(
            f"distances span from {low:.3g} to {high:.3g}, a ratio over {_LARGEST_RATIO:.0g}; rescale or "
            "remove the extreme ones."
        )


def prepare_graph(
    graph: NeighborGraph,
    dropped: bool | AnyArray = True,
    *,
    along: int | None = None,
    team: ThreadTeam = ONE_THREAD,
    on_stage: Callable[[str], object] = lambda name: None,
) -> PreparedGraph:
    """Choose the unit, merge duplicates, order the vertices, remove shortcuts, join vertices along the graph.

    ``dropped`` is True to ask the shortcut filter, False to keep every edge, or names the edges (s, 2) to
    leave out; ``along`` is how many vertices nearest along the graph to join every vertex to, after that: the
    filter has nothing to say about paths. ``on_stage`` is told when "order", "shortcuts" and "paths" begin.
    """
    on_stage("order")
    unit, normal = normalise_lengths(graph)
    gone = np.zeros(len(graph.indices), dtype=np.bool_)
    if not isinstance(dropped, bool) and len(dropped):
        gone = is_edge(graph, dropped)
        normal = keep_edges(normal, ~gone)
    merged, representative = merge_duplicates(normal)
    order = local_order(merged)
    if order is not None:
        merged = renumber(merged, order, team)
        representative = inverse_of(order)[representative]
    if dropped is True and merged.n_edges:
        on_stage("shortcuts")
        merged, pairs = drop_shortcuts(merged, team=team)
        if len(pairs):
            # Given edges between the groups of duplicates whose merged edge went.
            n, ends = merged.n_vertices, np.sort(representative[[graph.sources, graph.indices]], axis=0)
            gone = np.isin(ends[0] * np.int64(n) + ends[1], pairs[:, 0] * np.int64(n) + pairs[:, 1])
    once = np.empty((0, 2), dtype=np.int32)
    if gone.any():
        gone &= graph.sources < graph.indices
        once = np.column_stack((graph.sources[gone], graph.indices[gone]))
    if along is not None and merged.n_edges:
        on_stage("paths")
        merged = join_along(merged, along, team=team)
    return PreparedGraph(graph, unit, merged, representative, once)
