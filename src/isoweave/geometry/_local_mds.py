"""Local frames from distances: multidimensional scaling of every vertex's neighbourhood."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.engines import plain, plain_frames
from isoweave.geometry._frames import LocalFrames
from isoweave.graph import NeighborGraph, edge_keys, is_edge, keep_edges, rows_by_length

# Of the default frame: members per typical degree, and how many more vertices paths may lead through.
FRAME_PER_NEIGHBOR = 2.5
ROOM_PER_FRAME = 2.0
# A frame holds at most this many of a vertex's own neighbours (or the frame's size, if that is more): beyond
# it a vertex is a hub, and the rows of its far neighbours come from the other ends of the edges. The
# automatic size goes no further either: in dense graphs the neighbours alone are plenty.
HUB_LIMIT = 128
# Second-order frames of the paper are cut here: a dense matrix of this order is made per vertex.
ALL_FRAME_LIMIT = 1000
ALL_ROOM_LIMIT = 1500
# An edge is long that has this many times the length of those a frame needs at either end: so many shortest
# ones per direction, and at least so many.
_LONG = 4.0
_EDGES_AT_ONCE = 2**16
_NEEDED_PER_DIRECTION = 2
_NEEDED = 6


def typical_degree(degrees: IntArray) -> float:
    """The lower quartile, which is the k of a kNN graph, in a tenth of the time of np.percentile."""
    at, ordered = 0.25 * (len(degrees) - 1), np.sort(degrees)
    first, second = int(ordered[int(at)]), int(ordered[min(int(at) + 1, len(ordered) - 1)])
    return first + (at - int(at)) * (second - first)


def typical_degrees(degrees: IntArray, starts: AnyArray) -> FloatArray:
    """The same for components that begin at ``starts``, whose last is the number of vertices."""
    sizes = np.diff(starts)
    ordered = degrees[np.lexsort((degrees, np.repeat(np.arange(len(sizes)), sizes)))]
    at = 0.25 * (sizes - 1)
    low = at.astype(np.int64)
    first, second = (ordered[starts[:-1] + np.minimum(low + step, sizes - 1)] for step in (0, 1))
    return first + (at - low) * (second - first)


def resolve_frame_size(degrees: IntArray, frame_size: int | float | str, n_components: int) -> int:
    """Number of vertices in a frame, the centre not counted, in a connected graph of these degrees.

    ``frame_size`` is an int, taken as it is; a float, a multiple of the graph's lower-quartile degree (the k
    of a kNN graph); "auto", ``2.5`` of them; or "all", the whole second-order neighbourhood (returns 0). A
    frame never has fewer than ``n_components + 1`` members.
    """
    return frame_size_by(
        typical_degree(degrees) if len(degrees) else 1.0, len(degrees), frame_size, n_components
    )


def frame_size_by(typical: float, n: int, frame_size: int | float | str, n_components: int) -> int:
    """The same by the typical degree of a component of n vertices."""
    typical = max(typical, 1.0)
    if frame_size == "all":
        return 0
    if frame_size == "auto":
        size = min(FRAME_PER_NEIGHBOR * typical, HUB_LIMIT)
    elif isinstance(frame_size, str):
        raise ValueError(f"frame_size must be 'auto', 'all', an int or a float, got {frame_size!r}.")
    else:
        size = frame_size * typical if isinstance(frame_size, float) else frame_size
    return max(ceil(min(size, n)), n_components + 1)


def local_frames(
    graph: NeighborGraph,
    n_components: int,
    *,
    team: ThreadTeam = ONE_THREAD,
    frame_size: int | float | str = "auto",
    with_inverse: bool = False,
    starts: AnyArray | None = None,
) -> LocalFrames:
    """Coordinates of every vertex's neighbours in axes of its own (eqs. 1 to 4).

    The frame of vertex i scales i, its neighbours and the vertices geodesically nearest to it, up to
    ``frame_size`` (see :func:`resolve_frame_size`); distances among them are shortest paths through twice as
    many. With "all" the frame is the second-order neighbourhood and paths stay inside the third, as in the
    paper (up to 1,000 and 1,500 vertices). Long edges, over four times as long as those that a frame needs,
    have no row: paths to their far ends lead over the centre, opposite to everything else.

    All lengths are positive: merge duplicates first. ``with_inverse`` adds V S^(-1/2), which the paper's
    inner product needs. Exact distances of points of R^N give back those points up to an orthogonal map. Time
    per vertex, O(frame^2 (room + N)), does not depend on the degrees. A graph of many small components has
    the first vertex of each, and the number of all, in ``starts``: each gets the frames it would get alone.
    """
    parts = [(0, graph.n_vertices, resolve_frame_size(graph.degrees, frame_size, n_components))]
    if starts is not None:
        sizes = zip(typical_degrees(graph.degrees, starts).tolist(), np.diff(starts).tolist(), strict=True)
        each = [frame_size_by(typical, size, frame_size, n_components) for typical, size in sizes]
        firsts = np.flatnonzero(np.diff(each, prepend=-1)).tolist()
        bounds = starts.tolist()
        parts = [(bounds[a], bounds[b], each[a]) for a, b in pairwise([*firsts, len(each)])]
    whole, near, by_length = graph, np.ones(len(graph.indices), dtype=bool), rows_by_length(graph, team)
    if frame_size != "all" and not with_inverse:
        near = ~long_edges(graph, n_components, by_length, team=team)
        if not near.all():
            graph = keep_edges(whole, near)
            by_length = rows_by_length(graph, team)
    n, m = graph.n_vertices, len(graph.indices)
    rows = np.empty((m, n_components))
    inverse = np.empty((m if with_inverse else 0, n_components))
    spectrum = np.empty((n, n_components + 1))
    included = np.empty(m, dtype=bool)
    arrays = (graph.indptr, graph.indices, graph.lengths, *by_length)
    for lo, hi, size in parts:
        limits = (size + 1, ceil(ROOM_PER_FRAME * size) + 1, max(size, HUB_LIMIT))
        if size == 0:
            limits = ALL_FRAME_LIMIT, ALL_ROOM_LIMIT, ALL_FRAME_LIMIT
        # Small components, of which there may be many, have no hubs.
        hubs = edges_between_hubs(graph, limits[-1]) if starts is None else np.empty(0, dtype=bool)
        more = (*limits, size == 0, hubs, rows, inverse, spectrum, included)
        is_plain = starts is None and size > 0 and not with_inverse and graph.degrees.max() <= limits[-1]
        is_plain &= n_components < plain.SEVERAL
        if (
            is_plain
            and plain.is_spared("local_mds.local_mds", m)
            and plain_frames.local_mds(*arrays, *limits[:2], rows, spectrum, included)
        ):
            break
        # Compiled code is imported where it is used: importing isoweave must stay cheap.
        from isoweave.engines.local_mds import local_mds_in

        kernel = local_mds_in(n_components)
        if starts is None:
            team.run(kernel, n, *arrays, *more, grain=64)
        else:
            kernel(lo, hi, *arrays, *more)
    leading, power = spectrum[:, :-1], spectrum[:, -1]
    explained = np.einsum("ij,ij->i", leading, leading)
    fidelity = np.divide(explained, power, out=np.ones(n), where=power > 0)
    leading, fidelity = np.ascontiguousarray(leading), np.minimum(fidelity, 1.0)
    if graph is not whole:
        kept, rows = rows, np.zeros((len(whole.indices), n_components))
        rows[near] = kept
    near[near] = included
    return LocalFrames(rows, near, leading, fidelity, inverse if with_inverse else None)


def long_edges(
    graph: Any, n_components: int, by_length: tuple[Any, Any], xp: Any = np, team: ThreadTeam = ONE_THREAD
) -> Any:
    """Edges that are long for their surroundings, and whose direction nothing tells, shape (m,).

    ``by_length`` are the rows of the graph in order of length. Where N + 1 of the nearest neighbours of both
    ends have edges to the other end too, the direction is known however long the edge is. Edges between two
    hubs are not looked at: of these, frames have the shortest. ``xp`` is numpy, or what stands for it on the
    device where the graph is.
    """
    degrees, needed = graph.degrees, max(_NEEDED, _NEEDED_PER_DIRECTION * n_components)
    found = xp.zeros(len(graph.indices), dtype=bool)
    if not bool((degrees > needed).any()):
        return found
    neighbors, lengths = by_length
    count = xp.minimum(needed, degrees)
    reach = xp.where(degrees > 0, lengths[xp.maximum(graph.indptr[:-1] + count - 1, 0)], 0.0)
    hub, sources, indices = degrees > HUB_LIMIT, graph.sources, graph.indices

    def look(start: int, stop: int) -> None:
        i, j = sources[start:stop], indices[start:stop]
        is_long = graph.lengths[start:stop] > _LONG * xp.maximum(reach[i], reach[j])
        found[start:stop] = is_long & ~(hub[i] & hub[j])

    team.run(look, len(found), grain=_EDGES_AT_ONCE)
    candidates = xp.flatnonzero(found)
    if len(candidates) == 0:
        return found
    keys = edge_keys(graph)
    i, j = sources[candidates], indices[candidates]
    joined = xp.zeros(len(candidates), dtype=xp.int32)
    for a in range(needed):
        others = neighbors[xp.minimum(graph.indptr[i] + a, graph.indptr[i + 1] - 1)]
        wanted = others.astype(xp.int64) * graph.n_vertices + j
        at = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
        joined += (keys[at] == wanted) & (a < count[i])
    found[candidates] = joined <= n_components
    return found | found[graph.reverse]


def edges_between_hubs(graph: NeighborGraph, row_limit: int) -> BoolArray:
    """Edges that every frame must hold so that no edge the graph hangs on loses both its rows."""
    # An edge between two hubs may be outside the nearest neighbours of both: a spanning forest is forced.
    hub = graph.degrees > row_limit
    between = hub[graph.sources] & hub[graph.indices] if hub.any() else hub[:0]
    if not between.any():
        return np.empty(0, dtype=bool)
    tree = minimum_spanning_tree(graph.to_matrix()).tocoo()
    return between & is_edge(graph, np.column_stack((tree.row, tree.col)))
