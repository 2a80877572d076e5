"""How every vertex's frame lies in the map: its share of the energy, and its stretch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave.energy import edge_energy
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, local_stretch
from isoweave.graph import NeighborGraph, merge_duplicates, subgraph
from isoweave.plot._source import MapSource


@dataclass(frozen=True, eq=False)
class LocalFit:
    """What the frames of the default options say about a map, by any tool.

    Attributes
    ----------
    misfit : float64 array of shape (n,)
        Root of a vertex's energy over that of the collapsed map: 0 is an exact isometry, 1 is nothing kept.
        NaN for vertices without edges or coordinates.
    stretch : float64 array of shape (n, N)
        Singular values of the local differential (eq. 17); NaN likewise.
    """

    misfit: FloatArray
    stretch: FloatArray


def fit_frames(source: MapSource, n_jobs: int | None = None) -> LocalFit | None:
    """Compare every frame with the map; None where there is no edge of positive length.

    Parameters
    ----------
    source : MapSource
        With a graph.
    n_jobs : int or None
    """
    n, n_components = source.coordinates.shape
    misfit, stretch = np.full(n, np.nan), np.full((n, n_components), np.nan)
    placed = np.flatnonzero(source.is_placed)
    graph = subgraph(source.kept_graph("misfit"), placed)
    merged, representative = merge_duplicates(_normal(graph))
    linked = np.flatnonzero(merged.degrees > 0)
    if len(linked) == 0:
        return None
    unit = float(np.ldexp(1.0, _exponent(graph)))
    firsts = np.unique(representative, return_index=True)[1]
    points = np.ascontiguousarray(source.coordinates[placed][firsts][linked] / unit)
    part = subgraph(merged, linked)
    with thread_team(n_jobs) as team:
        frames = calibrate_frames(part, local_frames(part, n_components, team=team))
        values = local_stretch(part, frames, points, team=team)
        found = _misfit(part, frames, points)
    position = np.full(merged.n_vertices, -1)
    position[linked] = np.arange(len(linked))
    at = position[representative]
    misfit[placed[at >= 0]] = found[at[at >= 0]]
    stretch[placed[at >= 0]] = values[at[at >= 0]]
    return LocalFit(misfit, stretch)


def _exponent(graph: NeighborGraph) -> int:
    positive = graph.lengths[graph.lengths > 0.0]
    return int(np.frexp(np.median(positive))[1]) if len(positive) else 0


def _normal(graph: NeighborGraph) -> NeighborGraph:
    """Lengths in a unit near their median, a power of two."""
    return NeighborGraph(graph.indptr, graph.indices, np.ldexp(graph.lengths, -_exponent(graph)))


def _misfit(graph: NeighborGraph, frames: LocalFrames, points: FloatArray) -> FloatArray:
    """Energy of every vertex at its best orthogonal Q_i (eqs. 9, 10), relative to that of a collapsed map."""
    weights = edge_energy(graph, frames, team=ThreadTeam(1)).weights
    differences = points[graph.indices] - points[graph.sources]
    starts = graph.indptr[:-1]

    def total(values: AnyArray) -> AnyArray:
        return np.add.reduceat(values, starts, axis=0)

    cross = total(weights[:, None, None] * frames.rows[:, :, None] * differences[:, None, :])
    of_frames = total(weights * np.einsum("ij,ij->i", frames.rows, frames.rows))
    of_map = total(weights * np.einsum("ij,ij->i", differences, differences))
    agreement = np.linalg.svd(cross, compute_uv=False).sum(axis=1)
    energy = np.maximum(of_frames + of_map - 2.0 * agreement, 0.0)
    return np.sqrt(np.divide(energy, of_frames, out=np.full(len(energy), np.nan), where=of_frames > 0.0))
