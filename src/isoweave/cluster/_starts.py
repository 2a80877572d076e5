"""Where the optimiser begins: the map of a sample, gathered once it fits, or landmarks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._build import by_rows
from isoweave.cluster._components import components_of
from isoweave.cluster._frames import share_frames
from isoweave.cluster._landmarks import far_vertices, landmark_start
from isoweave.cluster._patch import BALLS_AT_ONCE, Patch, around, balls
from isoweave.cluster._problem import ClusterProblem, cluster_problem
from isoweave.cluster._share import RowRanges, Share, first_of_each, scrambled, spread
from isoweave.graph import NeighborGraph, edges_of, row_starts, sums_of_lengths
from isoweave.optimise import (
    ALONE,
    LBFGS,
    SAMPLE_FRAME,
    THINNING,
    Run,
    build_problem,
    minimise_from,
    sample_energy,
)

# Samples up to this size are solved by one rank with the engine of one machine.
GATHERED = 50_000
_AUXILIARY_STEPS = 100
_SAMPLE_NEIGHBORS, _ANCHORS, _BALL_SLACK = 14, 8, 3
_SMOOTHING_SWEEPS = 5


def _landmark(problem: ClusterProblem, tol: float, run: Run) -> FloatArray:
    share, width = problem.frames.patch.share, problem.shape[1]
    return landmark_start(share, *far_vertices(share, width, problem.frames.team), width)


def _identity(problem: ClusterProblem, tol: float, run: Run) -> FloatArray:
    n, width = problem.shape
    return problem.integrate(np.broadcast_to(np.eye(width), (n, width, width)))


@dataclass(frozen=True, eq=False)
class ShareLevel:
    """A sample of the vertices as a share of its own.

    ``anchors`` and ``distances``, shape (n_owned, 8), are the nearest sampled vertices (numbered within the
    sample) of the owned vertices, nearest first, and how far they are; ``filled`` how many there are.
    """

    share: Share
    anchors: AnyArray
    distances: FloatArray
    filled: AnyArray


def _coarse(problem: ClusterProblem, tol: float, run: Run) -> FloatArray | None:
    """A sample embedded with its geodesics, the others placed around it; None if the sample falls apart."""
    share, width, team = problem.frames.patch.share, problem.shape[1], problem.frames.team
    level = coarsen(share, team)
    sample = level.share
    if sample.n_vertices <= width + 1:
        return None
    if sample.n_vertices <= GATHERED:
        places = _on_one_rank(sample, width, tol, team)
    elif len(components_of(sample)[1]) > 1:
        return None
    else:
        there = cluster_problem(share_frames(sample, width, team, SAMPLE_FRAME))
        how = (LBFGS(tol, _AUXILIARY_STEPS), "auto", tol, "coarse start", ALONE, STARTS)
        places = minimise_from(there, *how)[1].coordinates
    return None if places is None else prolong(problem.frames.patch, level, places, team)


STARTS: dict[str, Any] = {"coarse": _coarse, "landmark": _landmark, "identity": _identity}


def _on_one_rank(sample: Share, width: int, tol: float, team: ThreadTeam) -> FloatArray | None:
    graph, found = gathered(sample), None
    if graph is not None and graph.is_connected:
        here = build_problem(sample_energy(graph, width, team=team))
        optimiser = LBFGS(tol, _AUXILIARY_STEPS)
        found = minimise_from(here, optimiser, "auto", tol, "coarse start", ALONE)[1].coordinates
    return to_owners(sample, found, width)


def to_owners(share: Share, found: FloatArray | None, width: int) -> FloatArray | None:
    """The owned ones of rows that the first rank has; None where it has none."""
    if not share.ranks.comm.bcast(found is not None, root=0):
        return None
    counts, rows = (0 * share.offsets[1:], np.empty((0, width)))
    if found is not None:
        counts, rows = np.diff(share.offsets), found
    return share.ranks.exchange(counts, rows)[1][0]


def gathered(share: Share) -> NeighborGraph | None:
    """The whole graph on the first rank, None on the others. For graphs that are known to fit."""
    edges = (share.sources + share.start, share.indices, share.lengths)
    rows, columns, lengths = share.ranks.send(np.zeros(len(share.indices), dtype=np.int64), *edges)
    if share.ranks.rank:
        return None
    return NeighborGraph(row_starts(rows, share.n_vertices), columns.astype(np.int32), lengths)


def sampled(share: Share, sums: FloatArray, size: int) -> AnyArray:
    """Which owned vertices are among ``size`` sampled ones, as :func:`isoweave.optimise.sample_vertices`."""
    ranks = share.ranks
    scramble = np.modf(sums / ranks.median(sums) * (1e6 * np.sqrt(2.0)))[0]
    limit = ranks.kth_smallest(scramble, [size - 1])[0]
    chosen = scramble < limit
    # Where lengths are all alike the ranks tie, and a scramble of the numbers decides.
    tied = np.flatnonzero(scramble == limit)
    places = scrambled(share.caller_ids[tied])
    wanted = size - int(ranks.sum(int(np.count_nonzero(chosen))))
    chosen[tied[places <= ranks.kth_smallest(places, [wanted - 1])[0]]] = True
    return chosen


def coarsen(share: Share, team: ThreadTeam, thinning: int = THINNING) -> ShareLevel:
    """As :func:`isoweave.optimise.coarsen`: sample a connected graph, measure geodesics around the sample."""
    from isoweave.engines import coarse as kernels

    ranks, width = share.ranks, min(share.n_vertices, _BALL_SLACK * _SAMPLE_NEIGHBORS * thinning)
    patch = Patch(share, around(share, 4))
    sums = sums_of_lengths(patch.graph, team)[patch.own]
    chosen = sampled(share, sums, max(share.n_vertices // thinning, 2))
    kept = RowRanges.of(ranks, np.count_nonzero(chosen))
    number = np.where(chosen, np.cumsum(chosen) - 1 + kept.start, -1)
    waiting = share.own[chosen]
    triples: list[tuple[AnyArray, ...]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    lists: list[tuple[AnyArray, ...]] = []
    mine: Any = None
    while True:
        numbers = patch.on_vertices(number)
        n = len(patch.ids)
        anchors, nearest = np.empty((n, _ANCHORS), dtype=np.int32), np.empty((n, _ANCHORS))
        filled = np.zeros(n, dtype=np.int32)
        unfinished, reached = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for lo in range(0, len(waiting), BALLS_AT_ONCE):
            centres = np.searchsorted(patch.ids, waiting[lo : lo + BALLS_AT_ONCE])
            members, distances, counts = balls(
                patch.graph, centres, numbers >= 0, _SAMPLE_NEIGHBORS, width, team
            )
            inside = np.arange(width) < counts[:, None]
            outside = inside & patch.rim[np.where(inside, members, 0)]
            again = outside.any(axis=1)
            unfinished.append(patch.ids[centres[again]])
            reached.append(patch.ids[np.unique(members[outside])])
            counts[again] = 0
            kernels.keep_nearest(0, n, lo, counts, members, distances, anchors, nearest, filled)
            ball, position = np.nonzero(np.arange(width) < counts[:, None])
            there, apart = numbers[members[ball, position]], distances[ball, position]
            hit = (there >= 0) & (apart > 0)
            triples.append((numbers[centres[ball[hit]]], there[hit], apart[hit]))
        ball_numbers = np.append(numbers[np.searchsorted(patch.ids, waiting)], 0)
        if mine is None:
            own = patch.own
            used = np.arange(_ANCHORS) < filled[own, None]
            mine = (ball_numbers[np.where(used, anchors[own], -1)], nearest[own].copy(), filled[own].copy())
            filled[own] = 0
        vertex, place = np.nonzero(np.arange(_ANCHORS) < filled[:, None])
        lists.append((patch.ids[vertex], ball_numbers[anchors[vertex, place]], nearest[vertex, place]))
        waiting = np.concatenate(unfinished)
        if not ranks.max(len(waiting)):
            break
        patch = Patch(share, np.union1d(patch.known, np.unique(np.concatenate(reached))))
    sample = _joined(share, kept, number, *(np.concatenate(part) for part in zip(*triples, strict=True)))
    vertices, numbers, distances = (np.concatenate(part) for part in zip(*lists, strict=True))
    found = ranks.send(share.owner_of(vertices), vertices, numbers, distances)
    return ShareLevel(sample, *_merged(*mine, found[0] - share.start, *found[1:]))


def _merged(
    anchors: AnyArray, nearest: FloatArray, filled: AnyArray, *entries: AnyArray
) -> tuple[AnyArray, FloatArray, AnyArray]:
    """Lists of the nearest anchors with those that entries (vertex, anchor, distance) add to them."""
    rows = np.unique(entries[0])
    row, place = np.nonzero(np.arange(_ANCHORS) < filled[rows, None])
    old = (rows[row], anchors[rows[row], place], nearest[rows[row], place])
    vertices, numbers, distances = (np.concatenate(two) for two in zip(old, entries, strict=True))
    order, counts = np.lexsort((numbers, distances, vertices)), np.bincount(vertices, minlength=len(filled))
    place = spread(np.zeros_like(counts), counts)
    order, place = order[place < _ANCHORS], place[place < _ANCHORS]
    at = (vertices[order], place)
    anchors[at], nearest[at], filled[rows] = (
        numbers[order],
        distances[order],
        np.minimum(counts[rows], _ANCHORS),
    )
    return anchors, nearest, filled


def _joined(
    share: Share, kept: RowRanges, number: AnyArray, rows: AnyArray, columns: AnyArray, lengths: FloatArray
) -> Share:
    """The share of a sample's graph, of which each edge was found from one end or both."""
    both = ((rows, columns), (columns, rows), (lengths, lengths))
    edges = by_rows(kept, *map(np.concatenate, both))
    alike, sizes = np.zeros(kept.n_owned, dtype=np.int64), np.array([kept.n_vertices])
    return replace(
        share, offsets=kept.offsets, indptr=edges.indptr, indices=edges.indices, lengths=edges.lengths,
        caller_ids=share.caller_ids[number >= 0], component=alike, component_sizes=sizes, weights=None,
    )  # fmt: skip


def prolong(patch: Patch, level: ShareLevel, places: FloatArray, team: ThreadTeam) -> FloatArray:
    """As :func:`isoweave.optimise.prolong`: coordinates of the owned vertices from those of the sample."""
    from isoweave.engines import coarse as kernels

    needed, at = np.unique(level.anchors, return_inverse=True)
    anchors = at.reshape(level.anchors.shape).astype(np.int32)
    x, places = np.zeros((len(anchors), places.shape[1])), level.share.fetch(needed, places)
    team.run(kernels.triangulate, len(x), level.filled, anchors, level.distances, places, x)
    x = _placed_beside(patch, x, level.filled == 0)
    graph, ones = patch.graph, np.ones(len(patch.graph.indices))
    links = sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.n_vertices,) * 2)[patch.own]
    degrees = np.maximum(graph.degrees[patch.own], 1)[:, None]
    for _ in range(_SMOOTHING_SWEEPS):
        x = 0.5 * x + 0.5 * (links @ patch.on_vertices(x)) / degrees
    return x


def _placed_beside(patch: Patch, x: FloatArray, missing: AnyArray) -> FloatArray:
    """Vertices off the beaten track get the place of a neighbour that has one, the nearest."""
    graph, first = patch.graph, patch.own.start
    while patch.share.ranks.max(bool(missing.any())):
        has_place, places = patch.on_vertices(~missing), patch.on_vertices(x)
        edges = edges_of(graph.indptr, np.flatnonzero(missing) + first)
        edges = edges[has_place[graph.indices[edges]]]
        best = edges[first_of_each(graph.sources[edges], graph.lengths[edges])]
        rows = graph.sources[best] - first
        x[rows], missing[rows] = places[graph.indices[best]], False
    return x
