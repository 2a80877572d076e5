"""What a map does to single edges and vertices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from isoweave._parallel import thread_team
from isoweave._typing import FloatArray, IntArray
from isoweave.energy import EdgeEnergy, Evaluation, edge_energy
from isoweave.geometry import calibrate_frames, local_frames, local_stretch
from isoweave.graph import NeighborGraph, edge_distortion, prepare_graph, subgraph

if TYPE_CHECKING:
    from isoweave.result import Embedding


def edge_table(graph: NeighborGraph, coordinates: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ends i < j of every edge in the order of the rows, shape (E, 2), their lengths and distortions."""
    once = graph.sources < graph.indices
    edges, lengths = np.column_stack((graph.sources[once], graph.indices[once])), graph.lengths[once]
    return edges, lengths, edge_distortion(edges, lengths, coordinates)


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
