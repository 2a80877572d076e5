"""Facts that need no transport: degrees and directions of the neighbourhoods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.diagnostics._cells import count_triangles
from isoweave.diagnostics._result import DimensionFacts, GraphFacts
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, resolve_frame_size
from isoweave.graph import NeighborGraph, PreparedGraph, intrinsic_dimension_graph, subgraph
from isoweave.optimise import sample_vertices

# Directions beyond N that are looked at. Each more costs as much as all before it: they are noise, which
# eigenvalue iterations separate slowly.
_MORE = 1
# A direction of less than this part of those before it is negligible: shortest paths that zig-zag make one of
# 0.05 to 0.06 on flat data of any dimension.
NEGLIGIBLE = 0.1
# Up to this many vertices all spectra are looked at, beyond it those of some balls.
_ALL_SPECTRA = 5000
_BALLS = 12
_BALL = 360
_RANK = 1e-6
_LISTED_PARTS = 10
# Share of vertices without N directions that makes a graph too sparse.
MANY_DEFICIENT = 0.05


def frames_of(
    graph: NeighborGraph,
    n_components: int,
    frame_size: int | float | str,
    calibrate: str,
    *,
    with_frames: bool,
    team: ThreadTeam,
) -> tuple[LocalFrames | None, FloatArray]:
    """Calibrated frames of N directions if asked for, and spectra of N + 1 of all or sampled vertices."""
    wide = n_components + _MORE
    if graph.n_vertices > _ALL_SPECTRA:
        region, inner = _regions(graph, team=team)
        size = resolve_frame_size(graph, frame_size, wide) or "all"
        spectrum = local_frames(subgraph(graph, region), wide, team=team, frame_size=size).spectrum[inner]
        frames = local_frames(graph, n_components, team=team, frame_size=frame_size) if with_frames else None
    else:
        more = local_frames(graph, wide, team=team, frame_size=frame_size)
        spectrum = more.spectrum
        frames = replace(
            more,
            rows=np.ascontiguousarray(more.rows[:, :n_components]),
            spectrum=np.ascontiguousarray(more.spectrum[:, :n_components]),
        )
    return None if frames is None else calibrate_frames(graph, frames, calibrate), spectrum


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


def dimension_facts(graph: NeighborGraph, spectra: list[FloatArray], n_components: int) -> DimensionFacts:
    """Dimension of the neighbourhoods from their spectra, and from the two nearest distances."""
    try:
        estimate: float | None = intrinsic_dimension_graph(graph)
    except ValueError:
        estimate = None
    beyond: tuple[float, ...] = (0.0,) * (n_components + _MORE - 1)
    spectrum = np.concatenate(spectra) if spectra else np.empty((0, n_components + _MORE))
    spectrum = spectrum[spectrum[:, 0] > 0.0]
    if len(spectrum):
        before = np.cumsum(spectrum, axis=1)[:, :-1]
        beyond = tuple(float(x) for x in np.median(spectrum[:, 1:] / before, axis=0))
    local = next((d + 1 for d, x in enumerate(beyond) if x < NEGLIGIBLE), len(beyond) + 1)
    return DimensionFacts(estimate, beyond, local)


def graph_facts(
    prepared: PreparedGraph, spectra: list[FloatArray], n_directions: int, *, team: ThreadTeam
) -> GraphFacts:
    """Sizes, degrees and rank of the neighbourhoods, which should have ``n_directions``."""
    graph = prepared.graph
    spectrum = np.concatenate(spectra) if spectra else np.empty((0, n_directions))
    flat = spectrum[:, n_directions - 1] <= _RANK * spectrum[:, 0]
    sizes = [len(vertices) for vertices in prepared.parts]
    return GraphFacts(
        n_distinct=graph.n_vertices,
        part_sizes=tuple(sizes[:_LISTED_PARTS]),
        n_parts=len(sizes),
        n_dropped=len(prepared.dropped),
        low_degree=float(np.percentile(graph.degrees, 25)),
        median_degree=float(np.median(graph.degrees)),
        deficient=float(np.mean(flat)) if len(flat) else 0.0,
        triangles_per_edge=int(count_triangles(graph, team=team).sum()) / max(graph.n_edges, 1),
    )


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
