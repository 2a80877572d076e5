"""Facts that need no transport: degrees, directions of the neighbourhoods, suspicious edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.diagnostics._cells import list_triangles
from isoweave.diagnostics._prepare import Part, Prepared
from isoweave.diagnostics._result import DimensionFacts, GraphFacts
from isoweave.diagnostics._shape import Shape
from isoweave.frames import LocalFrames, calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, intrinsic_dimension_graph

# Directions beyond N that are looked at.
_MORE = 3
# A direction of less than this part of those before it is negligible: shortest paths that zig-zag make one of
# 0.05 to 0.06 on flat data of any dimension.
NEGLIGIBLE = 0.1
_RANK = 1e-6
# An edge is suspicious if its ends are this many times farther apart along the nearest neighbours.
_DETOUR = 4.0
_LISTED_PARTS = 10


def frames_of(
    part: Part, n_components: int, frame_size: int | float | str, calibrate: str, *, team: ThreadTeam
) -> tuple[LocalFrames, FloatArray]:
    """Calibrated frames of N directions, and the spectra of N + 3, shape (n, N + 3)."""
    more = local_frames(part.graph, n_components + _MORE, team=team, frame_size=frame_size)
    frames = replace(
        more,
        rows=np.ascontiguousarray(more.rows[:, :n_components]),
        spectrum=np.ascontiguousarray(more.spectrum[:, :n_components]),
    )
    return calibrate_frames(part.graph, frames, calibrate), more.spectrum


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
    prepared: Prepared, spectra: list[FloatArray], n_components: int, n_suspicious: int, *, team: ThreadTeam
) -> GraphFacts:
    """Sizes, degrees and rank of the neighbourhoods."""
    graph = prepared.graph
    spectrum = np.concatenate(spectra) if spectra else np.empty((0, n_components))
    flat = spectrum[:, n_components - 1] <= _RANK * spectrum[:, 0]
    sizes = [len(part.vertices) for part in prepared.parts]
    return GraphFacts(
        n_distinct=graph.n_vertices,
        part_sizes=tuple(sizes[:_LISTED_PARTS]),
        n_parts=len(sizes),
        n_dropped=prepared.n_dropped,
        n_suspicious=n_suspicious,
        low_degree=float(np.percentile(graph.degrees, 25)),
        median_degree=float(np.median(graph.degrees)),
        deficient=float(np.mean(flat)) if len(flat) else 0.0,
        triangles_per_edge=len(list_triangles(graph, team=team)) / max(graph.n_edges, 1),
    )


def suspicious_edges(part: Part, shape: Shape) -> AnyArray:
    """Edges of a component, i < j, whose ends lie far apart along the nearest neighbours, shape (s, 2).

    Only for graphs with more neighbours than the companion, and small enough not to be sampled.
    """
    graph, companion = part.graph, shape.companion
    none = np.empty((0, 2), dtype=np.int64)
    if len(shape.level.vertices) < graph.n_vertices:
        return none
    n = graph.n_vertices
    ours = graph.sources.astype(np.int64) * n + graph.indices
    theirs = companion.sources.astype(np.int64) * n + companion.indices
    extra = np.flatnonzero((graph.sources < graph.indices) & ~np.isin(ours, theirs))
    if len(extra) == 0:
        return none
    matrix: sp.csr_array = companion.to_matrix()
    far = np.zeros(len(extra), dtype=bool)
    starts, first = np.unique(graph.sources[extra], return_index=True)
    for i, lo, hi in zip(starts, first, [*first[1:], len(extra)], strict=True):
        mine = extra[lo:hi]
        limit = _DETOUR * float(graph.lengths[mine].max())
        along = dijkstra(matrix, indices=int(i), limit=limit)[graph.indices[mine]]
        far[lo:hi] = along > _DETOUR * graph.lengths[mine]
    return np.column_stack((graph.sources[extra[far]], graph.indices[extra[far]]))
