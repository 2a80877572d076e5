"""A map that grows: where to begin when vertices and edges have come or gone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.embed import embed, running
from isoweave.geometry import rigid_motion
from isoweave.graph import NeighborGraph, connected_components, members_of, merge_duplicates, subgraph
from isoweave.optimise import ENDED_EARLY, find_landmarks
from isoweave.options import EmbeddingOptions
from isoweave.place._place import FinishedMap, finished_map, place_points
from isoweave.result import Embedding

logger = logging.getLogger("isoweave")

# Patches of new points that reach far out of the old embedding can fold; then the misfit rises by more than
# other points of the same data explain, and a fresh start is tried as well.
_WORSE = 1.2


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

    ``previous`` is NaN for new vertices, ``misfit`` is the relative energy of the former map, ``factors`` is
    how much longer than its edges that was around each of its vertices, the first ones of the graph.
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
        result = embed(graph, replace(options, start=start), run=run)
        assert result.relative_energy is not None
        if result.relative_energy > _WORSE * misfit + 1e-9 and result.status not in ENDED_EARLY:
            logger.info("misfit rose from %.3g to %.3g: fitting afresh too", misfit, result.relative_energy)
            fresh = embed(graph, options, run=run)
            assert result.energy is not None
            assert fresh.energy is not None
            result = result if result.energy <= fresh.energy else fresh
    assert result.alignments is not None
    assert result.component_labels is not None
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
        rest = subgraph(graph, lost)
        for part in members_of(connected_components(rest)[1]):
            result[lost[part]] = _begin(subgraph(rest, part), known.shape[1], embed_rest, team)
    return result


def _begin(
    graph: NeighborGraph,
    n_components: int,
    embed_rest: Callable[[NeighborGraph], FloatArray],
    team: ThreadTeam,
) -> FloatArray:
    """Coordinates of a connected graph; of one too small for N dimensions by landmarks."""
    merged, representative = merge_duplicates(graph)
    if merged.n_vertices > n_components:
        return embed_rest(graph)
    if merged.n_vertices == 1:
        return np.zeros((graph.n_vertices, n_components))
    return find_landmarks(merged, n_components, team=team).start[representative]


def _fill(placed: FinishedMap, coordinates: FloatArray, team: ThreadTeam) -> None:
    """Give every distinct vertex that can be reached a place, in place."""
    indptr, near, lengths = placed.indptr, placed.near, placed.near_lengths
    degrees = np.diff(indptr)
    done = _has_place(coordinates)
    rows = np.repeat(np.arange(len(done)), degrees)
    count = np.bincount(rows[done[near]], minlength=len(done))
    enough = coordinates.shape[1] + 1
    while True:
        ready = ~done & (count >= enough)
        if not ready.any():
            most = count[~done].max(initial=0)
            if most == 0:
                return
            ready = ~done & (count == most)
        chosen = np.flatnonzero(ready)
        edges = _edges_of(indptr, chosen)
        use = done[near[edges]]
        bounds = np.concatenate(([0], np.cumsum(use)))[np.concatenate(([0], np.cumsum(degrees[chosen])))]
        here = placed.of_distinct(coordinates)
        step = place_points(here, bounds, near[edges][use], lengths[edges][use], team=team)
        coordinates[chosen] = step.coordinates
        done[chosen] = True
        np.add.at(count, near[edges], 1)


def _has_place(coordinates: FloatArray) -> BoolArray:
    return np.asarray(~np.isnan(coordinates[:, 0]))


def _edges_of(indptr: IntArray, vertices: AnyArray) -> AnyArray:
    """Positions of all edges of the given vertices, row after row."""
    counts = np.diff(indptr)[vertices]
    skip = np.repeat(indptr[vertices] - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
    return np.arange(counts.sum()) + skip


def settle_on(
    previous: FloatArray, coordinates: FloatArray, alignments: FloatArray, labels: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Move every component of a new map rigidly to where its vertices were, so that old ones do not jump.

    ``previous`` is NaN for new vertices; components without old ones are laid beside the others. Returns
    coordinates of shape (n, N) and alignments of shape (n, N, N).
    """
    moved, rotated = coordinates.copy(), alignments.copy()
    stays = _has_place(previous) & _has_place(coordinates)
    fresh = []
    parts = members_of(labels)
    for part in parts:
        anchors = part[stays[part]]
        if len(anchors) == 0:
            fresh.append(part)
            continue
        rotation, shift = rigid_motion(coordinates[anchors], previous[anchors])
        moved[part] = coordinates[part] @ rotation + shift
        rotated[part] = alignments[part] @ rotation
    if 0 < len(fresh) < len(parts):
        _lay_beside(moved, fresh)
    return moved, rotated


def _lay_beside(coordinates: FloatArray, parts: list[Any]) -> None:
    """Shift the parts, as they lie among each other, to the right of all else."""
    inside = np.concatenate(parts)
    rest = np.ones(len(coordinates), dtype=np.bool_)
    rest[inside] = False
    other, own = coordinates[rest], coordinates[inside]
    other, own = other[_has_place(other)], own[_has_place(own)]
    if len(other) == 0 or len(own) == 0:
        return
    shift = 0.5 * (other.min(axis=0) + other.max(axis=0) - own.min(axis=0) - own.max(axis=0))
    gap = 0.1 * max(float(np.ptp(other[:, 0])), float(np.ptp(own[:, 0])))
    shift[0] = other[:, 0].max() + gap - own[:, 0].min()
    coordinates[inside] += shift
