"""Components of a graph in shares: small ones embedded by one rank each, all of them laid side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isoweave._engine import ComponentResult
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._share import Share
from isoweave.embed import embed_parts
from isoweave.energy import AnchorEnergy
from isoweave.graph import NeighborGraph, PreparedGraph, pack_boxes
from isoweave.known import Known
from isoweave.optimise import ALONE, check_finite
from isoweave.options import EmbeddingOptions


def embed_alone(
    share: Share,
    components: list[int],
    options: EmbeddingOptions,
    anchors: AnchorEnergy | None,
    start: FloatArray | None,
    team: ThreadTeam,
    x: FloatArray,
    stretch: FloatArray,
) -> dict[int, ComponentResult]:
    """Embed each small component on the rank of its first vertex, as on one machine; fills x and stretch."""
    ranks, width, n = share.ranks, options.n_components, share.n_owned
    first = np.full(len(share.component_sizes), share.n_vertices)
    np.minimum.at(first, share.component, share.own)
    to = share.owner_of(ranks.min(first))
    chosen = np.zeros(len(first), dtype=bool)
    chosen[components] = True
    rows = np.flatnonzero(chosen[share.component])
    degrees = np.diff(share.indptr)
    edges = np.flatnonzero(np.repeat(chosen[share.component], degrees))
    to_vertex, to_edge = to[share.component[rows]], np.repeat(to[share.component[rows]], degrees[rows])
    begin = np.zeros((n, width)) if start is None else start
    pinned, places = np.full(n, -1.0), np.zeros((n, width))
    if anchors is not None:
        pinned[anchors.vertices], places[anchors.vertices] = anchors.weights, anchors.positions
    mine = (rows + share.start, share.component[rows], degrees[rows], begin[rows], pinned[rows], places[rows])
    ids, labels, counts, begin, pinned, places = ranks.send(to_vertex, *mine)
    weights = np.ones(len(share.indices)) if share.weights is None else share.weights
    ends, lengths, weights = ranks.send(to_edge, share.indices[edges], share.lengths[edges], weights[edges])
    found: dict[int, ComponentResult] = {}
    values = np.zeros((len(ids), 2 * width))
    if len(ids):
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        graph = NeighborGraph(starts, np.searchsorted(ids, ends).astype(np.int32), lengths)
        everyone = np.arange(len(ids), dtype=np.int32)
        prepared = PreparedGraph(graph, 1.0, graph, everyone, np.empty((0, 2), dtype=np.int32))
        at = np.flatnonzero(pinned >= 0)
        pins = AnchorEnergy(at.astype(np.int32), places[at], pinned[at], len(ids)) if len(at) else None
        known = Known(None if share.weights is None else weights, None, pins)
        options = replace(options, components="separate", engine="cpu", checkpoint=None)
        arguments = (prepared, known, known, options, None if start is None else begin, team, ALONE, False)
        for vertices, result in zip(prepared.parts, embed_parts(*arguments), strict=True):
            assert result is not None
            values[vertices] = np.hstack((result.iteration.coordinates, result.stretch))
            found[int(labels[vertices[0]])] = result
    home, values = ranks.send(share.owner_of(ids), ids, values)
    x[home - share.start], stretch[home - share.start] = values[:, :width], values[:, width:]
    return found


def laid_out(share: Share, x: FloatArray, anchors: AnchorEnergy | None, sizes: AnyArray) -> FloatArray:
    """Components side by side, those without anchors beside those with some."""
    if len(sizes) == 1:
        return x
    ranks, x, has_anchor = share.ranks, x.copy(), np.zeros(len(sizes), dtype=bool)
    if anchors is not None:
        label = share.component[anchors.vertices]
        alone = sizes[label] == 1
        x[anchors.vertices[alone]] = anchors.positions[alone]
        has_anchor[label] = True
    has_anchor = ranks.max(has_anchor)
    is_fixed = bool(has_anchor.any())
    # Those with anchors are one box, the first, which stays where it is.
    box = np.where(has_anchor, 0, np.cumsum(~has_anchor) - (not is_fixed))
    at, shape = box[share.component], (int(box.max()) + 1, x.shape[1])
    lows, highs, sums = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    np.minimum.at(lows, at, x)
    np.maximum.at(highs, at, x)
    np.add.at(sums, at, x)
    shifts = pack_boxes(ranks.min(lows), ranks.max(highs), ranks.sum(sums), np.bincount(box, sizes))
    check_finite("layout", "shifts of the components", shifts)
    return x + (shifts - shifts[0] if is_fixed else shifts)[at]
