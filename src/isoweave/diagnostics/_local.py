"""What needs no transport: neighbourhoods of a graph, and what a map does to single edges and vertices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.diagnostics._result import DimensionFacts, GraphFacts
from isoweave.energy import EdgeEnergy, Evaluation, edge_energy
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, local_stretch, resolve_frame_size
from isoweave.graph import (
    NeighborGraph,
    PreparedGraph,
    edge_distortion,
    intrinsic_dimension_graph,
    prepare_graph,
    subgraph,
)
from isoweave.optimise import sample_vertices
from isoweave.options import EmbeddingOptions
from isoweave.result import Embedding

# A direction of less than this part of those before it is negligible: shortest paths that zig-zag make one of
# 0.05 to 0.06 on flat data of any dimension.
NEGLIGIBLE = 0.1
# Up to this many vertices all spectra are looked at, beyond it those of some balls.
_ALL_SPECTRA = 5000
_BALLS = 12
_BALL = 360
_RANK = 1e-6
_LISTED = 10
# Share of vertices without N directions that makes a graph too sparse.
MANY_DEFICIENT = 0.05
# An edge so many times longer than a detour over one other vertex is outlying. Squared distances and cosines
# break the triangle inequality by a factor of 2 at most.
_OUTLYING = 2.0 + 1e-9
# An edge is torn or folded if its length is off by this factor.
TORN = 1.5


def frames_of(
    graph: NeighborGraph, n_components: int, options: EmbeddingOptions, *, with_frames: bool, team: ThreadTeam
) -> tuple[LocalFrames | None, FloatArray]:
    """Calibrated frames of N directions if asked for, and spectra of N + 1 of all or sampled vertices."""
    frame_size = options.frame_size
    # Not more than one direction beyond N: they are noise, which eigenvalue iterations separate slowly.
    wide = n_components + 1
    if graph.n_vertices > _ALL_SPECTRA:
        region, inner = _regions(graph, team=team)
        size = resolve_frame_size(graph, frame_size, wide) or "all"
        spectrum = local_frames(subgraph(graph, region), wide, team=team, frame_size=size).spectrum[inner]
        frames = local_frames(graph, n_components, team=team, frame_size=frame_size) if with_frames else None
    else:
        more = local_frames(graph, wide, team=team, frame_size=frame_size)
        spectrum = more.spectrum
        rows, first = (np.ascontiguousarray(a[:, :n_components]) for a in (more.rows, more.spectrum))
        frames = replace(more, rows=rows, spectrum=first)
    return None if frames is None else calibrate_frames(graph, frames, options.calibrate), spectrum


def _regions(graph: NeighborGraph, *, team: ThreadTeam) -> tuple[AnyArray, AnyArray]:
    """Vertices of some balls, and the places among them of those well inside, whose frames are whole."""
    matrix = graph.to_matrix()
    balls = [
        breadth_first_order(matrix, int(centre), directed=False, return_predecessors=False)[:_BALL]
        for centre in sample_vertices(graph, _BALLS, team=team)
    ]
    region = np.unique(np.concatenate(balls))
    inner = np.unique(np.concatenate([ball[: _BALL // 3] for ball in balls]))
    return region, np.searchsorted(region, inner)


def dimension_facts(graph: NeighborGraph, spectrum: FloatArray) -> DimensionFacts:
    """Dimension of the neighbourhoods from their spectra, and from the two nearest distances."""
    try:
        estimate: float | None = intrinsic_dimension_graph(graph)
    except ValueError:
        estimate = None
    beyond: tuple[float, ...] = (0.0,) * (spectrum.shape[1] - 1)
    spectrum = spectrum[spectrum[:, 0] > 0.0]
    if len(spectrum):
        before = np.cumsum(spectrum, axis=1)[:, :-1]
        beyond = tuple(float(x) for x in np.median(spectrum[:, 1:] / before, axis=0))
    local = next((d + 1 for d, x in enumerate(beyond) if x < NEGLIGIBLE), len(beyond) + 1)
    return DimensionFacts(estimate, beyond, local)


def graph_facts(
    prepared: PreparedGraph, spectrum: FloatArray, n_directions: int, *, team: ThreadTeam
) -> tuple[GraphFacts, IntArray]:
    """Sizes, degrees and rank of the neighbourhoods, which should have ``n_directions``; outlying edges."""
    from isoweave.engines import cells as kernels

    graph = prepared.graph
    flat = spectrum[:, n_directions - 1] <= _RANK * spectrum[:, 0]
    sizes = [len(vertices) for vertices in prepared.parts]
    detours, counts = np.full(len(graph.indices), np.inf), np.zeros(graph.n_vertices, dtype=np.int64)
    team.run(
        kernels.shortest_detours, len(counts), graph.indptr, graph.indices, graph.lengths, detours, counts
    )
    ratios = graph.lengths / detours
    outlying = np.flatnonzero(ratios > _OUTLYING)
    outlying = outlying[np.argsort(-ratios[outlying], kind="stable")]
    ends = np.column_stack((graph.sources[outlying], graph.indices[outlying]))
    ends = np.sort(prepared.firsts[ends], axis=1)
    listed = zip(*ends[:_LISTED].T.tolist(), ratios[outlying[:_LISTED]].tolist(), strict=True)
    facts = GraphFacts(
        n_distinct=graph.n_vertices,
        part_sizes=tuple(sizes[:_LISTED]),
        n_parts=len(sizes),
        n_dropped=len(prepared.dropped),
        n_outlying=len(ends),
        outlying=tuple(listed),
        low_degree=float(np.percentile(graph.degrees, 25)),
        deficient=float(np.mean(flat)) if len(flat) else 0.0,
        # Every triangle was met at each of its edges.
        triangles_per_edge=int(counts.sum()) // 3 / max(graph.n_edges, 1),
    )
    return facts, ends


def needed_degree(n_components: int) -> int:
    """Neighbours that leave a frame undetermined: a grid's 2 N up to N = 3 (1 on a line), beyond N - 1."""
    if n_components == 1:
        return 1
    return 2 * n_components if n_components <= 3 else n_components - 1


def is_too_sparse(graph: GraphFacts, n_components: int) -> bool:
    """Whether frames of N directions rest on too few neighbours; a handful of vertices is left alone."""
    if graph.n_distinct <= 2 * n_components + 2:
        return False
    return graph.low_degree <= needed_degree(n_components) or graph.deficient >= MANY_DEFICIENT


def edge_table(graph: NeighborGraph, coordinates: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ends i < j of every edge in the order of the rows, shape (E, 2), their lengths and distortions."""
    once = graph.sources < graph.indices
    edges, lengths = np.column_stack((graph.sources[once], graph.indices[once])), graph.lengths[once]
    return edges, lengths, edge_distortion(edges, lengths, coordinates)


def torn_share(distortion: FloatArray) -> float:
    """Share of the edges whose length in a map, over the measured one, is off by half or more."""
    return float(np.mean(np.abs(np.log(np.maximum(1.0 + distortion, 1e-12))) >= np.log(TORN)))


def frame_fit(energy: EdgeEnergy, at: Evaluation, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How every frame lies in a map, evaluated there: its misfit, shape (n,), and its stretch, shape (n, N).

    The misfit is the root of a vertex's share of the energy over that share in the collapsed map: 0 for an
    exact isometry, 1 where nothing is preserved, NaN without a frame.
    """
    collapsed = energy.evaluate(np.zeros_like(coordinates)).energies
    unknown = np.full(len(coordinates), np.nan)
    ratio = np.divide(np.maximum(at.energies, 0.0), collapsed, out=unknown, where=collapsed > 0.0)
    return np.sqrt(ratio), local_stretch(energy.graph, energy.frames, coordinates, team=energy.team)


def local_fit(embedding: Embedding, n_jobs: int | None = None) -> tuple[FloatArray, FloatArray] | None:
    """Misfit and stretch of every vertex by the frames of the default options, for a map by any tool.

    NaN for vertices without edges or coordinates; None where no edge has a positive length.
    """
    n, n_components = embedding.coordinates.shape
    misfit, stretch = np.full(n, np.nan), np.full((n, n_components), np.nan)
    placed = np.flatnonzero(embedding.is_placed)
    graph = subgraph(embedding.kept_graph("misfit"), placed)
    with thread_team(n_jobs) as team:
        prepared = prepare_graph(graph, dropped=False, team=team)
        linked = np.flatnonzero(prepared.graph.degrees > 0)
        if len(linked) == 0:
            return None
        part = subgraph(prepared.graph, linked)
        frames = calibrate_frames(part, local_frames(part, n_components, team=team))
        points = np.ascontiguousarray(embedding.coordinates[placed][prepared.firsts][linked] / prepared.unit)
        energy = edge_energy(part, frames, team=team)
        found = frame_fit(energy, energy.evaluate(points), points)
    position = np.full(prepared.graph.n_vertices, -1)
    position[linked] = np.arange(len(linked))
    at = position[prepared.representative]
    misfit[placed[at >= 0]], stretch[placed[at >= 0]] = (values[at[at >= 0]] for values in found)
    return misfit, stretch
