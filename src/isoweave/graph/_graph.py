"""The distance graph every later stage reads: from checked matrices, cut, put in order, walked along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from isoweave._lazy import LazyModule, computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave._validation import check_integer, check_option, check_real
from isoweave.engines import plain, plain_frames
from isoweave.graph._assembly import (
    LONGEST_INSERTED,
    MANY_ENTRIES,
    MAX_STORED_EDGES,
    bounds_of,
    counting_argsort,
    inverse_of,
    merge_entries,
    row_starts,
    sort_entries,
    sort_long_rows,
)
from isoweave.graph._euclidean import block_rows, nearest_of_all
from isoweave.graph._features import PointGroups, spread_neighbors

kernels = LazyModule("isoweave.engines.paths")
# Smaller graphs fit into the cache in any order.
_SMALLEST_REORDERED = 20_000
# Attributes that lengths do not change, as long as the same ones are zero.
_OF_PATTERN = ("degrees", "sources", "reverse", "search_order", "is_connected")
# Geodesics from which searching from several sources together is worth another kernel.
_MANY_GEODESICS = 2_000_000


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """An undirected graph whose edges carry distances, in compressed sparse rows.

    Both directions of every edge are stored with the same length; there are no self edges; column indices
    are sorted within each row. Arrays are C-contiguous and must not be edited. Made by
    :func:`isoweave.graph.graph_from_matrix`, which checks its input; the constructor does not.
    """

    indptr: IntArray  #: int32, shape (n + 1,)
    indices: IntArray  #: int32, shape (m,)
    lengths: FloatArray  #: Finite and non-negative, shape (m,). Zeros (duplicates) are edges like any other.

    @property
    def n_vertices(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return len(self.indices) // 2

    @computed_once
    def degrees(self) -> IntArray:
        return np.diff(self.indptr)

    @computed_once
    def sources(self) -> IntArray:
        """Row of every stored edge, shape (m,)."""
        return np.repeat(np.arange(self.n_vertices, dtype=np.int32), self.degrees)

    @computed_once
    def reverse(self) -> IntArray:
        """Position of the opposite edge (j, i) for every stored edge (i, j), shape (m,)."""
        # Rows and columns are sorted: listed by (column, row), the opposite edges come in storage order.
        here, shape = np.arange(len(self.indices), dtype=np.int32), (self.n_vertices,) * 2
        return np.asarray(sp.csr_array((here, self.indices, self.indptr), shape=shape).tocsc().data)

    @computed_once
    def search_order(self) -> IntArray:
        """The vertices that a search from the first finds, in its order."""
        return np.asarray(csgraph.breadth_first_order(self.to_matrix(), 0, return_predecessors=False))

    @computed_once
    def is_connected(self) -> bool:
        """Whether it finds all. Where csgraph does not see edges of length zero, the answer may be no."""
        return self.n_vertices > 0 and len(self.search_order) == self.n_vertices

    def with_lengths(self, lengths: FloatArray) -> NeighborGraph:
        """The same edges with other lengths, zero where they were, and what is known of the pattern."""
        other = NeighborGraph(self.indptr, self.indices, lengths)
        vars(other).update((name, vars(self)[name]) for name in _OF_PATTERN if name in vars(self))
        return other

    def to_matrix(self) -> sp.csr_array:
        """The graph as a scipy sparse array that shares its memory; zero lengths stay explicit."""
        return sp.csr_array((self.lengths, self.indices, self.indptr), shape=(self.n_vertices,) * 2)


def assemble_graph(
    n: int,
    rows: AnyArray,
    cols: AnyArray,
    values: FloatArray,
    *,
    asymmetry: str = "max",
    rtol: float = 0.0,
    team: ThreadTeam = ONE_THREAD,
) -> NeighborGraph:
    """Graph of n vertices from entries whose ends differ; repeated ones as :func:`graph_from_matrix` says."""
    found = None
    if len(rows) > MANY_ENTRIES and 2 * len(rows) <= MAX_STORED_EDGES:
        found = merge_entries(n, rows, cols, values, asymmetry, rtol, team)
    return NeighborGraph(*(found or sort_entries(n, rows, cols, values, asymmetry, rtol)))


def graph_from_matrix(matrix: Any, *, asymmetry: str = "error", rtol: float = 1e-6) -> NeighborGraph:
    """Check a sparse matrix of distances and turn it into an undirected graph.

    Every stored entry off the diagonal is an edge, **explicit zeros included**: they join duplicates.
    (In the DIA and BSR formats zeros fill up diagonals and blocks; there they are no edges.) An edge
    stored in one direction only counts in both, which is the max-symmetrisation of a kNN graph. An edge
    stored several times keeps its length if all values agree to ``rtol``; otherwise ``asymmetry`` decides.
    Repeated entries are never summed. The matrix is not modified and shares no memory with the result.

    Parameters
    ----------
    matrix : scipy sparse matrix or array of shape (n, n)
        Real or integer, in any format.
    asymmetry : {"error", "max", "min", "mean"}
        What to do with an edge whose stored values differ: refuse, take the largest, the smallest, or
        the mean of the largest and the smallest.
    rtol : float
        Relative difference that counts as rounding (the larger value is then taken). Raised to 16 units
        of rounding of the matrix's own type: 2e-6 for float32.
    """
    check_option("asymmetry", asymmetry, ("error", "max", "min", "mean"))
    rtol = check_real("rtol", rtol, minimum=0, maximum=1, include_maximum=False)
    if isinstance(matrix, NeighborGraph):
        return matrix
    if type(matrix).__name__ == "AnnData":
        raise TypeError(
            "Expected a scipy sparse matrix of distances, got AnnData: call isoweave.tl.embed(adata), or "
            "pass adata.obsp['distances']."
        )
    if not sp.issparse(matrix):
        raise TypeError(
            f"Expected a scipy sparse matrix of distances, got {type(matrix).__name__}. A dense array does "
            "not say which zeros are edges: pass scipy.sparse.csr_array(matrix) if none is, or give the full "
            "distance matrix to the estimator with metric='precomputed'."
        )
    _check_kind(matrix)
    if matrix.dtype.kind == "f":
        rtol = max(rtol, 16 * float(np.finfo(matrix.dtype).eps))
    coo = checked_sparse(matrix)
    rows, cols, values = coo.row, coo.col, coo.data
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        what = "NaN" if np.isnan(values[at]) else "infinite" if np.isinf(values[at]) else "negative"
        raise ValueError(
            f"Entry ({rows[at]}, {cols[at]}) is {values[at]}: {what} distances are not allowed. Leave out "
            "pairs whose distance is unknown instead of storing them."
        )
    diagonal = rows == cols
    if values[diagonal].any():
        i, value = rows[diagonal & (values != 0)][0], values[diagonal & (values != 0)][0]
        raise ValueError(
            f"Diagonal entry ({i}, {i}) is {value:g}; the distance of a vertex to itself must be zero. "
            "Remove the diagonal, for example with matrix.setdiag(0)."
        )
    if diagonal.any():
        rows, cols, values = rows[~diagonal], cols[~diagonal], values[~diagonal]
    return assemble_graph(matrix.shape[0], rows, cols, values, asymmetry=asymmetry, rtol=rtol)


def _check_kind(matrix: Any) -> None:
    """Refuse what is not a square matrix of real numbers for at least two vertices."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Distances must form a square matrix, got shape {matrix.shape}.")
    if matrix.shape[0] < 2:
        raise ValueError(f"Distances are needed of at least 2 vertices, got shape {matrix.shape}.")
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: distances must be real, got dtype {matrix.dtype}.")
    if matrix.dtype.kind not in "fiu":
        hint = " A boolean adjacency has no lengths: multiply it by them." if matrix.dtype == bool else ""
        raise TypeError(f"Distances must be real numbers, got a matrix of dtype {matrix.dtype}.{hint}")


def checked_sparse(matrix: Any) -> sp.coo_array:
    """The stored entries of a sparse matrix, float64 and in storage order, all of them inside it."""
    form, shape = matrix.format, matrix.shape
    # A signalling NaN of float32 is no warning; it is named later with its place.
    with np.errstate(invalid="ignore"):
        try:
            # A matrix made by hand may point outside itself, which would crash compiled code.
            if form in ("csr", "csc"):
                if (matrix.indptr[1:] < matrix.indptr[:-1]).any():  # scipy subtracts, and numbers wrap around
                    raise ValueError("indptr must be a non-decreasing sequence")
                data = np.asarray(matrix.data).astype(np.float64, copy=False)
                matrix = getattr(sp, f"{form}_array")((data, matrix.indices, matrix.indptr), shape=shape)
                matrix.check_format(full_check=True)
            coo = matrix.tocoo(copy=False)
            values = np.asarray(coo.data).astype(np.float64, copy=False)
            filled = values != 0 if form == "bsr" else slice(None)
            return sp.coo_array((values[filled], (coo.row[filled], coo.col[filled])), shape=shape)
        except ValueError as error:
            raise ValueError(
                f"The matrix is not a valid {form.upper()} matrix: {error}. Build it again from its entries."
            ) from error


def knn_from_distances(D: Any, n_neighbors: int = 10) -> NeighborGraph:
    """Nearest-neighbour graph of points known by all their distances.

    Distances are finite and symmetric, zero on the diagonal, up to the square root of the type's precision
    times the largest one, which is the error of the usual formula. Lengths are the larger of the two entries.
    Duplicates (entries of exactly zero) count once, as in :func:`knn_graph`. Ties for the last place are
    settled by the points' other distances, not by their numbers.

    Examples
    --------
    >>> knn_from_distances([[0, 1, 3], [1, 0, 2], [3, 2, 0]], n_neighbors=1).lengths
    array([1., 1., 2., 2.])
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    if sp.issparse(D):
        raise TypeError(
            f"Expected a dense distance matrix, got {type(D).__name__}; pass sparse matrices to "
            "graph_from_matrix."
        )
    matrix = np.asarray(D)
    _check_kind(matrix)
    n = len(matrix)
    if k >= n:
        raise ValueError(f"n_neighbors must be less than the number of points, got {k} for {n} points.")
    keys, zeros = _check_distances(matrix)
    n_groups, labels = join(n, *zeros.T)
    # Groups in the order of a function of their distances, so that ties are settled by geometry.
    number = np.argsort(np.argsort(keys[np.unique(labels, return_index=True)[1]], kind="stable"))[labels]
    members = counting_argsort(number, n_groups).astype(np.int32)
    groups = PointGroups(members, row_starts(number, n_groups))
    first, own = groups.first, np.arange(n_groups, dtype=np.int32)

    def to_all(lo: int, hi: int) -> FloatArray:
        return np.ascontiguousarray(matrix[first[lo:hi]][:, first], dtype=np.float64)

    found = nearest_of_all(to_all, own, min(k, n_groups - 1), ONE_THREAD, block_rows(n))
    rows, cols, _ = spread_neighbors(groups, *found, k, ONE_THREAD)
    lengths = np.maximum(np.maximum(matrix[rows, cols], matrix[cols, rows]).astype(np.float64), 0.0)
    return assemble_graph(n, rows, cols, lengths)


def _check_distances(matrix: AnyArray) -> tuple[FloatArray, AnyArray]:
    """Check all entries; return a key of each row to settle ties by, and the pairs at distance zero."""
    n, step = len(matrix), block_rows(len(matrix))
    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else np.float64).eps
    # Not a number, and then no test but the first fails, if an entry is none.
    tol = float(np.sqrt(precision)) * float(np.maximum(matrix.max(), 0))
    keys, zeros = np.empty(n), []
    for lo in range(0, n, step):

        def refuse(bad: AnyArray, why: str, lo: int = lo) -> None:
            if bad.any():
                i, j = np.argwhere(bad)[0] + np.array([lo, 0])
                why = why.format(f"({j}, {i}) is {matrix[j, i]}")
                raise ValueError(f"Entry ({i}, {j}) of the distance matrix is {matrix[i, j]}; {why}.")

        block = matrix[lo : lo + step].astype(np.float64)
        own = np.eye(len(block), n, lo, dtype=np.bool_)
        refuse(~np.isfinite(block), "distances must be finite")
        refuse(block < -tol, "Negative values in data: distances must not be negative")
        refuse(own & (block > tol), "the diagonal must be zero")
        refuse(np.abs(block - matrix[:, lo : lo + step].T) > tol, "entry {}: distances must be symmetric")
        # Roots, because plain sums of whole numbers are often equal.
        keys[lo : lo + step] = np.sqrt(np.maximum(block, 0)).sum(axis=1)
        zeros.append(np.argwhere((block <= 0) & ~own) + np.array([lo, 0]))
    return keys, np.concatenate(zeros)


def join(n: int, rows: AnyArray, cols: AnyArray) -> tuple[int, IntArray]:
    """Number of groups that the pairs join ``0 .. n`` into, and the group of each, by smallest member."""
    # Ones for lengths, because csgraph reads stored zeros differently from version to version.
    links = sp.coo_array((np.ones(len(rows)), (rows, cols)), shape=(n, n)).tocsr()
    n_groups, labels = csgraph.connected_components(links, directed=False)
    return int(n_groups), labels


def keep_edges(graph: NeighborGraph, mask: BoolArray) -> NeighborGraph:
    """The graph with the stored edges where ``mask`` is true; the mask is the same for both directions."""
    starts = row_starts(graph.sources[mask], graph.n_vertices)
    return NeighborGraph(starts, graph.indices[mask], graph.lengths[mask])


def subgraph(graph: NeighborGraph, vertices: AnyArray) -> NeighborGraph:
    """Subgraph induced by sorted, distinct vertices: vertex i of it is ``vertices[i]`` of ``graph``."""
    matrix = graph.to_matrix()[vertices][:, vertices]
    return NeighborGraph(matrix.indptr, matrix.indices, matrix.data)


def edges_of(indptr: IntArray, vertices: AnyArray) -> AnyArray:
    """Positions of all edges of these vertices, row after row."""
    counts = indptr[vertices + 1] - indptr[vertices]
    ends = np.cumsum(counts, dtype=np.int32)
    return np.arange(ends[-1], dtype=np.int32) + np.repeat(indptr[vertices] - ends + counts, counts)


def is_edge(graph: NeighborGraph, pairs: AnyArray) -> BoolArray:
    """Stored edges that are among the given pairs, in either direction, shape (m,)."""
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    both = np.concatenate((ends, ends[:, ::-1]))
    return np.isin(edge_keys(graph), both[:, 0] * graph.n_vertices + both[:, 1])


def edge_keys(graph: NeighborGraph) -> AnyArray:
    """One number per stored edge, rising."""
    return graph.sources.astype(np.int64) * graph.n_vertices + graph.indices


def positions_of(sorted_keys: AnyArray, keys: AnyArray) -> IntArray:
    """Where each key stands among the sorted ones, -1 where it does not."""
    at = np.searchsorted(sorted_keys, keys)
    hit = at < len(sorted_keys)
    hit[hit] = sorted_keys[at[hit]] == keys[hit]
    return np.where(hit, at, -1)


def edge_distortion(edges: AnyArray, lengths: FloatArray, points: FloatArray) -> FloatArray:
    """Length in a map over given length, minus 1, of edges (E, 2), shape (E,).

    0 for duplicates that coincide, infinite for duplicates that do not, NaN where an end has no coordinates.
    """
    steps = points[edges[:, 1]] - points[edges[:, 0]]
    # Divided first: squares of very large or small coordinates are no numbers.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.linalg.norm(steps / lengths[:, None], axis=1)
    apart = np.where((steps == 0.0).all(axis=1), 0.0, np.inf)
    apart[np.isnan(steps).any(axis=1)] = np.nan
    return np.where(lengths == 0.0, apart, ratio - 1.0)


def rows_by_length(graph: NeighborGraph, team: ThreadTeam) -> tuple[IntArray, FloatArray]:
    """Neighbours and lengths of every row in order of length, shapes (m,)."""
    if len(graph.indices) <= plain.FEW:
        order = np.lexsort((graph.lengths, graph.sources))
        return graph.indices[order], graph.lengths[order]
    arrays = (graph.indptr, graph.indices, graph.lengths)
    near_indices, near_lengths = np.empty_like(graph.indices), np.empty_like(graph.lengths)
    near = (near_indices, near_lengths)
    team.run(kernels.sort_rows_by_length, graph.n_vertices, LONGEST_INSERTED, *arrays, *near)
    for i in np.flatnonzero(graph.degrees > LONGEST_INSERTED):
        first, last = graph.indptr[i : i + 2]
        order = first + np.argsort(graph.lengths[first:last], kind="stable")
        near_indices[first:last], near_lengths[first:last] = graph.indices[order], graph.lengths[order]
    return near_indices, near_lengths


def sums_of_lengths(graph: NeighborGraph, team: ThreadTeam) -> FloatArray:
    """Sum of the lengths at every vertex, shape (n,), the same bits in every numbering of the vertices."""
    sums = np.zeros(graph.n_vertices)
    filled = graph.degrees > 0
    sums[filled] = np.add.reduceat(rows_by_length(graph, team)[1], graph.indptr[:-1][filled])
    return sums


def local_order(graph: NeighborGraph) -> AnyArray | None:
    """A numbering in which neighbours are near each other in memory; None where it would gain nothing."""
    if graph.n_vertices < _SMALLEST_REORDERED:
        return None
    # The order of a search from anywhere is found in a third of the time of the other and does as well.
    if graph.is_connected:
        return graph.search_order
    return np.asarray(csgraph.reverse_cuthill_mckee(graph.to_matrix(), symmetric_mode=True))


def renumber(graph: NeighborGraph, order: AnyArray, team: ThreadTeam = ONE_THREAD) -> NeighborGraph:
    """The same graph with vertex ``order[r]`` in place r."""
    from isoweave.engines.assembly import take_rows

    place, starts = inverse_of(order), bounds_of(graph.degrees[order])
    indices, lengths = np.empty_like(graph.indices), np.empty_like(graph.lengths)
    old = (graph.indptr, graph.indices, graph.lengths)
    arrays = (order.astype(np.int32, copy=False), place, *old, starts, indices, lengths)
    team.run(take_rows, graph.n_vertices, LONGEST_INSERTED, *arrays)
    sort_long_rows(starts, indices, lengths)
    found = NeighborGraph(starts, indices, lengths)
    if "is_connected" in vars(graph):
        vars(found)["is_connected"] = graph.is_connected
    return found


def geodesics(graph: NeighborGraph, sources: Any = None) -> FloatArray:
    """Shortest-path distances from some vertices (all by default), shape (r, n), or (n,) for a single one.

    Infinite between components. A path summed from its other end may differ in the last bit.
    """
    return np.asarray(csgraph.dijkstra(graph.to_matrix(), indices=sources))


def geodesics_from(graph: NeighborGraph, sources: AnyArray, *, team: ThreadTeam = ONE_THREAD) -> FloatArray:
    """As :func:`geodesics`, on the threads of a team; sources int32 of shape (r,)."""
    distances = np.empty((len(sources), graph.n_vertices))
    arrays = (sources, graph.indptr, graph.indices, graph.lengths, distances)
    if distances.size > _MANY_GEODESICS:
        team.run(kernels.geodesics_together, -(-len(sources) // kernels.LANES), *arrays, grain=1)
    else:
        team.run(kernels.geodesics_from, len(sources), *arrays, grain=1)
    return distances


def join_along(
    graph: NeighborGraph, n_neighbors: int, *, thinned: bool = False, team: ThreadTeam = ONE_THREAD
) -> NeighborGraph:
    """Join every vertex to the ``n_neighbors`` vertices nearest along the graph, at their path lengths.

    Frames on sparse graphs, such as road networks without triangles, overlap in too few vertices to be
    aligned with each other reliably; on this graph they overlap more. The graph, of positive lengths, keeps
    its edges, and shortest paths keep their lengths. If ``thinned``, as suits dense graphs, only the edges of
    a minimum spanning forest are kept beside the nearest ones: what was connected is.
    """
    # The graph's own edges stay: a hub has more of them than it has nearest vertices, and what hangs on one
    # long edge must not fall off.
    own: tuple[AnyArray, ...] = (graph.sources, graph.indices, graph.lengths)
    if thinned:
        tree = csgraph.minimum_spanning_tree(graph.to_matrix()).tocoo()
        own = (tree.row, tree.col, tree.data)
    both = zip(nearest_entries(graph, n_neighbors, team=team), own, strict=True)
    rows, cols, lengths = (np.concatenate(pair) for pair in both)
    # The shorter of an edge and its path; a path summed from its two ends may also differ in the last bit.
    return assemble_graph(graph.n_vertices, rows, cols, lengths, asymmetry="min", rtol=1e-6)


def nearest_entries(
    graph: NeighborGraph, n_neighbors: int, *, team: ThreadTeam = ONE_THREAD
) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Every vertex with those nearest to it along the graph, and the lengths of the paths."""
    n, width = graph.n_vertices, min(n_neighbors, graph.n_vertices - 1)
    columns, distances = np.empty((n, width), dtype=np.int32), np.empty((n, width))
    arrays = (graph.indptr, *rows_by_length(graph, team), columns, distances)
    is_plain = plain.is_spared("paths.nearest_lists", len(graph.indices))
    if not (is_plain and plain_frames.nearest_lists(*arrays)):
        team.run(kernels.nearest_lists, n, *arrays)
    found = columns >= 0
    return np.nonzero(found)[0].astype(np.int32), columns[found], distances[found]
