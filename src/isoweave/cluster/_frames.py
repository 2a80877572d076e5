"""Local frames of a share, and the energy made of them, evaluated by every rank around its own vertices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.cluster._components import spanning_edges
from isoweave.cluster._patch import Patch, around, kept_edges, patch_for_balls
from isoweave.cluster._share import Ranks, Share
from isoweave.energy import EdgeEnergy, Energy, Evaluation, edge_energy
from isoweave.geometry import (
    HUB_LIMIT,
    ROOM_PER_FRAME,
    LocalFrames,
    calibrate_frames,
    frame_size_by,
    long_edges,
)
from isoweave.graph import NeighborGraph, bypass_doubtful, rows_by_length
from isoweave.optimise import check_finite


@dataclass(frozen=True, eq=False)
class WholeGraph:
    """What the pages of one machine ask of a graph, for all ranks together."""

    n_vertices: int
    indices: range  #: as many as there are stored edges
    lengths: FloatArray  #: the shortest and the longest
    local: NeighborGraph  #: the patch of this rank, with the lengths that were measured


@dataclass(frozen=True, eq=False)
class ShareEnergy:
    """An energy of the edges, evaluated on the patch of every rank; values are those of the whole graph."""

    patch: Patch
    local: Energy
    graph: WholeGraph
    n_components: int

    @property
    def ranks(self) -> Ranks:
        return self.patch.share.ranks

    @property
    def edges(self) -> EdgeEnergy:
        """The energy itself, where it is that of frames."""
        assert isinstance(self.local, EdgeEnergy)
        return self.local

    @property
    def frames(self) -> LocalFrames:
        return self.edges.frames

    @property
    def team(self) -> ThreadTeam:
        return self.edges.team

    remedy = ""

    def evaluate(self, x: FloatArray) -> Evaluation:
        here, own = self.local.evaluate(self.patch.on_vertices(x)), self.patch.own
        energies = here.energies[own]
        alignments = here.alignments[own] if len(here.alignments) else here.alignments
        return Evaluation(self.ranks.total(energies), here.half_gradient[own], alignments, energies)

    @computed_once
    def mass(self) -> float:
        return self.evaluate(np.zeros((self.patch.share.n_owned, self.n_components))).energy

    def suspects(self) -> dict[str, AnyArray]:
        return self.local.suspects()


def share_frames(
    share: Share,
    n_components: int,
    team: ThreadTeam,
    frame_size: int | float | str = "auto",
    *,
    calibrate: str = "rows",
    confidence: FloatArray | None = None,
) -> ShareEnergy:
    """Calibrated frames of a connected graph with one weight per edge, as ``isoweave._component`` makes them.

    ``confidence`` are the weights of the owned edges; doubtful ones are bypassed.
    """
    patch = Patch(share, around(share, 1))
    paths, measured = share, patch.graph
    trust = None if confidence is None else patch.on_edges(confidence, mirrored=True)
    if trust is not None:
        found = bypass_doubtful(patch.graph, trust)
        paths = replace(share, lengths=np.ascontiguousarray(found.lengths[patch.own_edges]))
        patch = Patch(paths, patch.known)
    # The lower quartile of the degrees, as isoweave.geometry.typical_degree.
    at, degrees = 0.25 * (share.n_vertices - 1), np.diff(share.indptr)
    low, high = share.ranks.kth_smallest(degrees, [int(at), min(int(at) + 1, share.n_vertices - 1)])
    typical = float(low + (at - int(at)) * (high - low))
    size = frame_size_by(typical, share.n_vertices, frame_size, n_components)
    near = ~long_edges(patch.graph, n_components, rows_by_length(patch.graph, team))[patch.own_edges]
    frames = _owned_frames(paths, near, size, n_components, team)
    check_finite("local frames", "rows", frames.rows)
    check_finite("local frames", "eigenvalues", frames.spectrum)
    indptr, indices = share.indptr.astype(np.int32), patch.graph.indices[patch.own_edges]
    frames = calibrate_frames(NeighborGraph(indptr, indices, share.lengths), frames, calibrate)
    check_finite("calibration", "rows", frames.rows)
    rows, included = patch.on_edges(frames.rows), patch.on_edges(frames.included)
    here = LocalFrames(rows, included, patch.on_vertices(frames.spectrum), np.empty(0))
    del frames, rows
    middle = share.ranks.median(paths.lengths)
    energy = edge_energy(patch.graph, here, confidence=trust, team=team, median=middle)
    check_finite("inner product", "weights", energy.weights)
    # Of other ranks' edges those that these have found: there, edges are long for what is not here.
    energy = replace(energy, weights=patch.on_edges(energy.weights[patch.own_edges]))
    return ShareEnergy(patch, energy, _whole(share, measured), n_components)


def _whole(share: Share, local: NeighborGraph) -> WholeGraph:
    ranks, lengths = share.ranks, share.lengths
    least, most = ranks.min(lengths.min(initial=np.inf)), ranks.max(lengths.max(initial=0.0))
    n_stored = int(ranks.sum(len(share.indices)))
    return WholeGraph(share.n_vertices, range(n_stored), np.array([least, most]), local)


def _owned_frames(
    share: Share, near: BoolArray, size: int, n_components: int, team: ThreadTeam
) -> LocalFrames:
    """Frames of the owned vertices without the edges that are not near; those have no row."""
    from isoweave.engines.local_mds import local_mds_in

    close = kept_edges(share, near)
    limits = (size + 1, ceil(ROOM_PER_FRAME * size) + 1, max(size, HUB_LIMIT))
    patch = patch_for_balls(close, limits[0] + limits[1], team)
    graph, own, n = patch.graph, patch.own, share.n_owned
    by_length = rows_by_length(graph, team)
    rows = np.empty((len(graph.indices), n_components))
    included, spectrum = np.empty(len(rows), dtype=bool), np.empty((graph.n_vertices, n_components + 1))
    forced = _forced(patch, limits[-1])
    arrays = (graph.indptr, graph.indices, graph.lengths, *by_length, *limits, False, forced)
    outputs = (rows, np.empty((0, n_components)), spectrum, included)

    kernel = local_mds_in(n_components)

    def owned(start: int, stop: int) -> None:
        kernel(own.start + start, own.start + stop, *arrays, *outputs)

    team.run(owned, n, grain=64)
    leading = np.ascontiguousarray(spectrum[own, :-1])
    all_rows, has_row = np.zeros((len(near), n_components)), np.zeros(len(near), dtype=bool)
    all_rows[near], has_row[near] = rows[patch.own_edges], included[patch.own_edges]
    return LocalFrames(all_rows, has_row, leading, np.empty(0))


def _forced(patch: Patch, row_limit: int) -> BoolArray:
    """Edges between two hubs that every frame must hold; see :func:`isoweave.geometry.edges_between_hubs`."""
    graph = patch.graph
    hub = graph.degrees > row_limit
    between = (hub[graph.sources] & hub[graph.indices])[patch.own_edges]
    if not patch.share.ranks.max(bool(between.any())):
        return np.empty(0, dtype=bool)
    return patch.on_edges(between & spanning_edges(patch.share))
