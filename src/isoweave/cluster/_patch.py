"""What a rank sees around its share: rows of other ranks' vertices, in a numbering of its own.

A :class:`Patch` is a :class:`~isoweave.graph.NeighborGraph` of the owned vertices, some of other ranks with
all their edges (known), and of those that the edges of these lead to: the rim, of whose edges only these are
there. The compiled kernels of one machine work on it as on any graph; what they find at owned vertices is
what they would find in the whole graph as long as they do not get to the rim.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray
from isoweave.cluster._share import Halo, RowRanges, Share, spread
from isoweave.graph import NeighborGraph, edges_of

BALLS_AT_ONCE = 8192
# Layers of vertices, counted from the rim inwards, without a ball that reaches it, after which none does.
_QUIET_LAYERS = 2


class Patch:
    """The graph around a share; vertices keep the order of the distributed numbering.

    ``known`` are sorted vertices of other ranks whose rows are wanted. ``ids`` (n,) are the vertices in the
    distributed numbering, ``own`` and ``own_edges`` are where the owned ones and their edges stand, ``rim``
    (n,) says which vertices have only some of their edges here.
    """

    def __init__(self, share: Share, known: AnyArray) -> None:
        self.share, self.known = share, known
        first, last = share.start, share.start + share.n_owned
        degrees, self._rows = _rows_of(share, known)
        indices = self._rows.fetch(share.indices)
        away = [ends[share.are_away(ends)] for ends in (known, share.indices, indices)]
        others = np.unique(np.concatenate(away))
        n_below = int(np.searchsorted(others, first))
        self.ids: Any = np.concatenate((others[:n_below], share.own, others[n_below:]))
        self.own = slice(n_below, n_below + share.n_owned)
        self._others = share.halo(others)

        def local(vertices: AnyArray) -> AnyArray:
            found = (vertices - (first - n_below)).astype(np.int32)
            away = np.flatnonzero(share.are_away(vertices))
            beyond = np.where(vertices[away] >= last, share.n_owned, 0)
            found[away] = np.searchsorted(others, vertices[away]) + beyond
            return found

        n, rows, columns, theirs = len(self.ids), local(known), local(share.indices), local(indices)
        self.rim = np.ones(n, dtype=bool)
        self.rim[self.own] = self.rim[rows] = False
        # Edges to the rim, by their far ends: they are the rows of the rim.
        out, out_theirs = np.flatnonzero(self.rim[columns]), np.flatnonzero(self.rim[theirs])
        near = np.searchsorted(share.indptr, out, side="right") - 1 + n_below
        near = np.concatenate((near, rows[np.searchsorted(np.cumsum(degrees), out_theirs, side="right")]))
        far = np.concatenate((columns[out], theirs[out_theirs]))
        order = np.lexsort((near, far))
        counts = np.bincount(far, minlength=n)
        counts[self.own], counts[rows] = np.diff(share.indptr), degrees
        starts = np.concatenate(([0], np.cumsum(counts)))
        self.own_edges = slice(int(starts[self.own.start]), int(starts[self.own.stop]))
        self._theirs = spread(starts[rows], degrees)
        rim = np.flatnonzero(self.rim)
        self._back = spread(starts[rim], counts[rim])
        ends, lengths = np.empty(int(starts[-1]), dtype=np.int32), np.empty(int(starts[-1]))
        ends[self.own_edges], ends[self._theirs], ends[self._back] = columns, theirs, near[order]
        fetched = self._rows.fetch(share.lengths)
        back = np.concatenate((share.lengths[out], fetched[out_theirs]))[order]
        lengths[self.own_edges], lengths[self._theirs], lengths[self._back] = share.lengths, fetched, back
        self.graph = NeighborGraph(starts.astype(np.int32), ends, lengths)

    def on_vertices(self, values: AnyArray) -> AnyArray:
        """Values of all vertices here, from those that every rank has of its own."""
        fetched, n_below = self._others.fetch(values), self.own.start
        return np.concatenate((fetched[:n_below], values, fetched[n_below:]))

    def on_edges(self, values: AnyArray, *, mirrored: bool = False) -> AnyArray:
        """Values of the stored edges here; the rim's are zero, or those of the other direction."""
        found = np.zeros((len(self.graph.indices), *values.shape[1:]), dtype=values.dtype)
        found[self.own_edges], found[self._theirs] = values, self._rows.fetch(values)
        if mirrored:
            found[self._back] = found[self.graph.reverse[self._back]]
        return found

    def layers(self) -> Any:
        """Owned vertices at one edge from the rim, at two, and so on."""
        graph, seen = self.graph, self.rim.copy()
        front = np.flatnonzero(seen)
        while len(front):
            front = np.unique(graph.indices[edges_of(graph.indptr, front)])
            front = front[~seen[front]]
            seen[front] = True
            yield front[(front >= self.own.start) & (front < self.own.stop)]


def _rows_of(share: Share, vertices: AnyArray) -> tuple[AnyArray, Halo]:
    """Degrees of vertices of other ranks, and a halo for the values on their edges, row after row."""
    entries, halo = RowRanges.of(share.ranks, len(share.indices)), share.halo(vertices)
    degrees = halo.fetch(np.diff(share.indptr))
    starts = halo.fetch(share.indptr[:-1] + entries.start)
    return degrees, entries.halo(spread(starts, degrees))


def around(share: Share, n_hops: int) -> AnyArray:
    """Vertices of other ranks within so many edges of the owned ones, sorted."""
    front, found = share.indices, np.empty(0, dtype=np.int64)
    for hop in range(n_hops):
        front = np.unique(front[share.are_away(front)])
        front = np.setdiff1d(front, found, assume_unique=True)
        found = np.union1d(found, front)
        if hop < n_hops - 1:
            front = _rows_of(share, front)[1].fetch(share.indices)
    return found


def patch_for_balls(share: Share, size: int, team: ThreadTeam, n_hops: int = 3) -> Patch:
    """A patch in which the ``size`` vertices nearest to every owned one, with their edges, are known."""
    patch = Patch(share, around(share, n_hops))
    while True:
        reached = _reached(patch, min(size, share.n_vertices), team)
        if int(share.ranks.sum(len(reached))) == 0:
            return patch
        patch = Patch(share, np.union1d(patch.known, reached))


def _reached(patch: Patch, size: int, team: ThreadTeam) -> AnyArray:
    """Vertices of the rim that balls of ``size`` vertices around owned ones reach, distributed numbering."""
    found, quiet = [np.empty(0, dtype=np.int64)], 0
    for layer in patch.layers():
        members, _, counts = balls(patch.graph, layer, patch.rim, len(patch.ids), size, team)
        inside = np.arange(size) < counts[:, None]
        hit = np.unique(members[inside & patch.rim[np.where(inside, members, 0)]])
        found.append(patch.ids[hit])
        quiet = 0 if len(hit) else quiet + (len(layer) > 0)
        if quiet == _QUIET_LAYERS:
            break
    return np.unique(np.concatenate(found))


def balls(
    graph: NeighborGraph, centres: AnyArray, marked: BoolArray, n_wanted: int, size: int, team: ThreadTeam
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Up to ``size`` vertices nearest to each centre, until so many other marked ones; how far; how many."""
    from isoweave.engines import coarse as kernels

    shape = (len(centres), size)
    members, distances = np.empty(shape, dtype=np.int32), np.empty(shape)
    counts = np.empty(len(centres), dtype=np.int64)
    flags = marked.astype(np.int32)
    for lo in range(0, len(centres), BALLS_AT_ONCE):
        at = slice(lo, lo + BALLS_AT_ONCE)
        arrays = (centres[at].astype(np.int32), flags, n_wanted, graph.indptr, graph.indices, graph.lengths)
        some = (members[at], distances[at], counts[at])
        no_places = np.empty((len(some[2]), 0), dtype=np.int32)
        team.run(kernels.sample_balls, len(some[2]), *arrays, *some, no_places, grain=32)
    return members, distances, counts


def restricted(share: Share, inside: BoolArray) -> Share:
    """The share of a part of the vertices that has all edges of its own, such as a component."""
    kept = RowRanges.of(share.ranks, np.count_nonzero(inside))
    number = np.cumsum(inside) - 1 + kept.start
    degrees = np.diff(share.indptr)
    keep = np.repeat(inside, degrees)
    indices = share.fetch(share.indices[keep], number)
    starts = np.concatenate(([0], np.cumsum(degrees[inside])))
    weights = None if share.weights is None else share.weights[keep]
    label = share.component[inside]
    sizes = np.array([kept.n_vertices])
    return replace(
        share, offsets=kept.offsets, indptr=starts, indices=indices, lengths=share.lengths[keep],
        weights=weights, caller_ids=share.caller_ids[inside], component=np.zeros_like(label),
        component_sizes=sizes,
    )  # fmt: skip


def kept_edges(share: Share, keep: BoolArray) -> Share:
    """The share with the stored edges where ``keep``, the same in both directions, is true."""
    if bool(share.ranks.min(bool(keep.all()))):
        return share
    before = np.concatenate(([0], np.cumsum(keep)))
    weights = None if share.weights is None else share.weights[keep]
    return replace(
        share, indptr=before[share.indptr], indices=share.indices[keep], lengths=share.lengths[keep],
        weights=weights,
    )  # fmt: skip
