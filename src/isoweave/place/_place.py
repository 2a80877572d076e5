"""New points in a finished map, from their distances to its points, and maps that grow with their graph."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave import graph as graphs
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.embed import embed, running
from isoweave.geometry import HUB_LIMIT, rigid_motion
from isoweave.graph import NeighborGraph, merge_duplicates
from isoweave.optimise import ENDED_EARLY, find_landmarks
from isoweave.options import EmbeddingOptions
from isoweave.result import Embedding

logger = logging.getLogger("isoweave")

# In units of the map's median edge; squares of squares of more would overflow.
_LONGEST = 1e70
# Patches of new points that reach far out of the old embedding can fold; then the misfit rises by more than
# other points of the same data explain, and a fresh start is tried as well.
_WORSE = 1.2


@dataclass(frozen=True, eq=False)
class FinishedMap:
    """A map that new points can be placed in. Made by :func:`finished_map`."""

    coordinates: FloatArray  #: of the g distinct vertices, in ``unit``, shape (g, N); NaN where it has none
    indptr: IntArray  #: of the graph of the distinct vertices, every row in order of length
    near: IntArray  #: its neighbours
    near_lengths: FloatArray  #: its lengths in ``unit``, multiplied by ``factors``
    labels: IntArray  #: component of every distinct vertex
    representative: IntArray  #: distinct vertex of every vertex of the input, shape (n,)
    factors: FloatArray  #: size of the map against the distances around a vertex: 1 where it keeps them
    unit: float  #: a power of two near the median length


@dataclass(frozen=True, eq=False)
class Placement:
    """Where m new points lie in a map, and how far to trust it."""

    coordinates: AnyArray  #: shape (m, N); NaN for points whose neighbours have no coordinates
    #: Root mean square mismatch of the distances and directions to the neighbours, relative to the distances:
    #: 0 is an exact fit. Infinite where fewer than N neighbours (or only one) leave the place open, NaN where
    #: the coordinates are.
    residual: FloatArray
    n_iter: IntArray  #: steps of the refinement
    n_used: IntArray  #: neighbours the point was placed by; 1 if it coincides with one of the map
    #: Distinct neighbours it has, 128 at most. Where ``n_used`` is smaller, the others lie on another sheet
    #: or component of the map.
    n_given: IntArray


def finished_map(
    graph: NeighborGraph,
    coordinates: Any,
    *,
    team: ThreadTeam = ONE_THREAD,
    labels: IntArray | None = None,
    keeps_lengths: bool = True,
) -> FinishedMap:
    """Prepare the map of a graph, coordinates (n, N), for :func:`place_points`; once for all new points.

    ``labels`` (n,) are connected components; by default all vertices belong together. Unless the map was made
    to keep the lengths of edges (not so with ``scale="geodesics"`` or without calibration) its size against
    them is measured, component by component, and new distances are multiplied by it.
    """
    places = np.asarray(coordinates, dtype=np.float64)
    if places.ndim != 2 or len(places) != graph.n_vertices:
        raise ValueError(
            f"coordinates must have one row for each of the {graph.n_vertices} vertices, got shape "
            f"{places.shape}."
        )
    unit, normal = graphs.normalise_lengths(graph)
    merged, representative = merge_duplicates(normal)
    firsts = np.unique(representative, return_index=True)[1]
    places = np.ascontiguousarray(places[firsts] / unit)
    parts = np.zeros(len(firsts), dtype=np.int32) if labels is None else labels[firsts].astype(np.int32)
    factors = np.ones(len(firsts)) if keeps_lengths else _map_factors(merged, places, parts)
    near, near_lengths = graphs.rows_by_length(merged, team)
    lengths = near_lengths * factors[merged.sources]
    return FinishedMap(places, merged.indptr, near, lengths, parts, representative, factors, unit)


def _map_factors(graph: NeighborGraph, coordinates: FloatArray, labels: IntArray) -> FloatArray:
    """Least-squares size of each component of the map against the lengths of its edges, per vertex."""
    apart = np.linalg.norm(coordinates[graph.indices] - coordinates[graph.sources], axis=1)
    of_edge = labels[graph.sources]
    cross = np.bincount(of_edge, np.nan_to_num(apart * graph.lengths), minlength=int(labels.max()) + 1)
    square = np.bincount(of_edge, graph.lengths * graph.lengths, minlength=len(cross))
    # Without any edge, all points being one, counts have no weights and are integers.
    found = np.divide(cross, square, out=np.ones(len(cross)), where=(cross > 0) & (square > 0))
    return found[labels]


def place_points(
    placed: FinishedMap, indptr: Any, indices: Any, distances: Any, *, team: ThreadTeam = ONE_THREAD
) -> Placement:
    """Place new points by their distances to points of the map (docs/new_points.md, N1 to N4).

    Every neighbour j sees the new point in some direction, which least squares in its own neighbourhood give;
    the new point is put where these directions and the distances fit best, the map held fixed. Points do not
    see each other: a point has the same bits alone and in any batch, on any number of threads.

    Row i of the sparse matrix of distances, ``indptr[i]`` to ``indptr[i + 1]`` of ``indices`` and
    ``distances``, has the neighbours of new point i among the vertices of the map, at least one. A distance
    of zero gives it that vertex's own place. Of more than 128 neighbours the nearest are used.
    """
    from isoweave.engines import placing as kernels

    starts, given, neighbors, lengths = _checked_rows(placed, indptr, indices, distances)
    m, n_components = len(given), placed.coordinates.shape[1]
    places, residual = np.empty((m, n_components)), np.empty(m)
    n_iter, n_used = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    graph = (placed.indptr, placed.near, placed.near_lengths, HUB_LIMIT, placed.coordinates, placed.labels)
    rows = (starts, given, neighbors, lengths)
    team.run(kernels.place_rows, m, *rows, *graph, places, residual, n_iter, n_used, grain=64)
    return Placement(places * placed.unit, residual, n_iter, n_used, given)


def _checked_rows(
    placed: FinishedMap, indptr: Any, indices: Any, distances: Any
) -> tuple[AnyArray, IntArray, IntArray, FloatArray]:
    """Rows over the distinct vertices, each once, nearest first, in the map's unit; ties go by vertex."""
    bounds, columns, values = np.asarray(indptr), np.asarray(indices), np.asarray(distances, dtype=np.float64)
    rises = bounds.ndim == 1 and len(bounds) > 0 and bounds[0] == 0 and np.all(np.diff(bounds) >= 0)
    if not rises or not bounds[-1] == len(columns) == len(values):
        raise ValueError(
            f"indptr must rise from 0 to the number of distances; it ends with {bounds[-1:]} for "
            f"{len(columns)} indices and {len(values)} distances."
        )
    rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    for at in np.flatnonzero(~((values >= 0) & (values <= _LONGEST * placed.unit)))[:1]:
        raise ValueError(
            f"The distance of new point {rows[at]} to point {columns[at]} of the map is {values[at]}; it "
            f"must be finite, not negative and at most {_LONGEST * placed.unit:.0g}. Leave out pairs whose "
            "distance is unknown."
        )
    for at in np.flatnonzero((columns < 0) | (columns >= len(placed.representative)))[:1]:
        raise ValueError(
            f"New point {rows[at]} has a distance to point {columns[at]}, but the map has the points 0 .. "
            f"{len(placed.representative) - 1}."
        )
    empty = np.flatnonzero(np.diff(bounds) == 0)
    if len(empty):
        raise ValueError(
            f"New points need at least one neighbour each, but row {empty[0]} of the new distances has none "
            f"({len(empty)} such rows). Leave them out or give them distances."
        )
    vertices = placed.representative[columns]
    lengths = values / placed.unit * placed.factors[vertices]
    keys = rows * np.int64(len(placed.coordinates)) + vertices
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    lengths = np.minimum.reduceat(lengths[order], first)
    rows, vertices = rows[order[first]], vertices[order[first]]
    by_length = np.lexsort((lengths, rows))
    counts = np.bincount(rows, minlength=len(bounds) - 1)
    starts, given = np.cumsum(counts) - counts, np.minimum(counts, HUB_LIMIT).astype(np.int32)
    return starts, given, vertices[by_length], lengths[by_length]


def sparse_rows(matrix: Any) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Rows of a sparse matrix of distances as ``indptr, indices, distances``; nothing stored is summed."""
    if matrix.dtype.kind not in "fiu":
        raise TypeError(f"Distances must be real numbers, got a matrix of dtype {matrix.dtype}.")
    entries = graphs.checked_sparse(matrix).tocoo(copy=False)
    order = np.argsort(entries.row, kind="stable")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(entries.row, minlength=matrix.shape[0]))))
    return indptr, entries.col[order], entries.data[order]


def nearest_columns(matrix: AnyArray, columns: IntArray, k: int) -> tuple[AnyArray, AnyArray, FloatArray]:
    """The ``k`` nearest of the given columns in every row of a finite dense matrix of distances.

    ``columns`` has one for every distinct point: duplicates must not take the places of others. Negative
    values within rounding (the root of the type's precision times the row's largest) are zero.
    """
    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else np.float64).eps

    def to_all(lo: int, hi: int) -> FloatArray:
        block = np.ascontiguousarray(matrix[lo:hi], dtype=np.float64)
        limit = -np.sqrt(precision) * np.abs(block).max(axis=1, keepdims=True)
        if (block < limit).any():
            i, j = np.argwhere(block < limit)[0]
            raise ValueError(
                f"Negative values in data: the distance of new point {lo + i} to point {j} is {block[i, j]}; "
                "distances must not be negative."
            )
        return np.ascontiguousarray(np.maximum(block, 0.0)[:, columns])

    m, k, step = len(matrix), min(k, len(columns)), graphs.block_rows(matrix.shape[1])
    nobody = np.full(m, -1, dtype=np.int32)
    nearest, distances = graphs.nearest_of_all(to_all, nobody, k, ONE_THREAD, step)
    return np.arange(m + 1) * k, columns[nearest.reshape(-1)], distances.reshape(-1)


def neighbors_apart(
    indptr: AnyArray, indices: AnyArray, distances: FloatArray
) -> tuple[AnyArray, AnyArray, AnyArray, FloatArray]:
    """Row, rank in it, index and distance of all neighbours at a distance; rows without any do not count."""
    apart = distances > 0
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))[apart]
    _, rows, counts = np.unique(rows, return_inverse=True, return_counts=True)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows, rank, indices[apart], distances[apart]


def embed_again(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    previous: FloatArray,
    misfit: float,
    factors: FloatArray | None = None,
    *,
    team: ThreadTeam,
) -> Embedding:
    """Embed a graph of which some vertices had a position before, and move the result to where they were.

    ``previous`` is NaN for new vertices, ``misfit`` the relative energy of the former map, ``factors`` its
    size against the edges around its vertices, the first ones of the graph.
    """
    if not isinstance(options.start, str):
        # It was for the former vertices.
        options = replace(options, start="auto")
    quiet = replace(options, verbose=0, callback=None)
    known = previous.copy()
    if factors is not None:
        known[: len(factors)] /= factors[:, None]
    start = warm_start(graph, known, team=team, embed_rest=lambda part: embed(part, quiet).coordinates)
    with running(options) as run:
        result: Any = embed(graph, replace(options, start=start), run=run)
        if result.relative_energy > _WORSE * misfit + 1e-9 and result.status not in ENDED_EARLY:
            logger.info("misfit rose from %.3g to %.3g: fitting afresh too", misfit, result.relative_energy)
            result = min(result, embed(graph, options, run=run), key=lambda found: found.energy)
    places, alignments = settle_on(previous, result.coordinates, result.alignments, result.component_labels)
    return replace(result, coordinates=places, alignments=alignments)


def warm_start(
    graph: NeighborGraph,
    known: FloatArray,
    *,
    team: ThreadTeam,
    embed_rest: Callable[[NeighborGraph], FloatArray],
) -> FloatArray:
    """Coordinates of all vertices, shape (n, N), from the known ones of some (NaN for the others).

    The others are placed in rounds, each by its neighbours that have a place (:func:`place_points`): first
    all that have N + 1 such neighbours; when there is none, those that have the most. This fills a patch of
    new vertices from its rim inwards. ``embed_rest`` makes coordinates of a connected graph that is out of
    reach of the known vertices.
    """
    placed = finished_map(graph, known, team=team)
    # A duplicate knows what any of its twins knows.
    coordinates = np.full_like(placed.coordinates, np.nan)
    has_place = _has_place(known)
    vertices = np.flatnonzero(has_place)[::-1]
    coordinates[placed.representative[vertices]] = known[vertices] / placed.unit
    _fill(placed, coordinates, team)
    result = coordinates[placed.representative] * placed.unit
    result[has_place] = known[has_place]
    lost = np.flatnonzero(~_has_place(result))
    if len(lost):
        rest = graphs.subgraph(graph, lost)
        for part in graphs.members_of(graphs.connected_components(rest)[1]):
            alone = graphs.subgraph(rest, part)
            merged, representative = merge_duplicates(alone)
            if merged.n_vertices > known.shape[1]:
                result[lost[part]] = embed_rest(alone)
            elif merged.n_vertices > 1:
                # Too small for N dimensions.
                result[lost[part]] = find_landmarks(merged, known.shape[1], team=team).start[representative]
            else:
                result[lost[part]] = 0.0
    return result


def _fill(placed: FinishedMap, coordinates: FloatArray, team: ThreadTeam) -> None:
    """Give every distinct vertex that can be reached a place, in place."""
    indptr, near, lengths = placed.indptr, placed.near, placed.near_lengths
    degrees = np.diff(indptr)
    done = _has_place(coordinates)
    rows = np.repeat(np.arange(len(done)), degrees)
    count = np.bincount(rows[done[near]], minlength=len(done))
    enough, own = coordinates.shape[1] + 1, np.arange(len(done), dtype=np.int32)
    while True:
        ready = ~done & (count >= enough)
        if not ready.any():
            most = count[~done].max(initial=0)
            if most == 0:
                return
            ready = ~done & (count == most)
        chosen = np.flatnonzero(ready)
        edges = graphs.edges_of(indptr, chosen)
        use = done[near[edges]]
        bounds = np.concatenate(([0], np.cumsum(use)))[np.concatenate(([0], np.cumsum(degrees[chosen])))]
        here = replace(placed, coordinates=coordinates.copy(), representative=own, unit=1.0)
        step = place_points(here, bounds, near[edges][use], lengths[edges][use], team=team)
        coordinates[chosen] = step.coordinates
        done[chosen] = True
        np.add.at(count, near[edges], 1)


def _has_place(coordinates: FloatArray) -> BoolArray:
    return np.asarray(~np.isnan(coordinates[:, 0]))


def settle_on(
    previous: FloatArray, coordinates: FloatArray, alignments: FloatArray, labels: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Coordinates and alignments of a map whose components are moved rigidly to where they were.

    ``previous`` is NaN for new vertices; components without old ones are laid beside the others.
    """
    moved, rotated = coordinates.copy(), alignments.copy()
    stays = _has_place(previous) & _has_place(coordinates)
    is_fresh = _has_place(coordinates)
    for part in graphs.members_of(labels):
        anchors = part[stays[part]]
        if len(anchors):
            rotation, shift = rigid_motion(coordinates[anchors], previous[anchors])
            moved[part] = coordinates[part] @ rotation + shift
            rotated[part] = alignments[part] @ rotation
            is_fresh[part] = False
    other, own = moved[_has_place(moved) & ~is_fresh], moved[is_fresh]
    if len(other) and len(own):
        # New parts, as they lie among each other, to the right of all else.
        shift = 0.5 * (other.min(axis=0) + other.max(axis=0) - own.min(axis=0) - own.max(axis=0))
        gap = 0.1 * max(float(np.ptp(other[:, 0])), float(np.ptp(own[:, 0])))
        shift[0] = other[:, 0].max() + gap - own[:, 0].min()
        moved[is_fresh] += shift
    return moved, rotated
