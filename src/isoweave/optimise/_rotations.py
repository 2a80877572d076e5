"""Rotations at the two ends of an edge, compared by what both frames see."""

from __future__ import annotations

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.energy import FrameEnergy
from isoweave.engines import plain
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph

# Part of what both frames see, of every edge, that rotations explain where no other start wins. Of several
# thousand small graphs of twenty kinds 161 had a better minimum: nearly all with an edge that is mirrored,
# where next to nothing is explained, the others with one whose ends see too little of each other.
_EXPLAINED = 0.5


def frame_transitions(
    graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam
) -> tuple[FloatArray, FloatArray]:
    """Orthogonal maps between the frames at the ends of every edge, and how much they explain (eq. 14)."""
    n_components, m = frames.n_components, len(graph.indices)
    transitions, weights = np.empty((m, n_components, n_components)), np.empty(m)
    arrays = (graph.indptr, graph.indices, frames.rows, frames.included)
    if n_components == 2:
        kernel = plain.choose("alignment.frame_transitions_plane", m)
    else:
        from isoweave.engines.alignment import frame_transitions_in

        kernel = frame_transitions_in(n_components)
    team.run(kernel, graph.n_vertices, *arrays, transitions, weights)
    return transitions, weights


def rotations_agree(frames: FrameEnergy, alignments: FloatArray, starts: AnyArray | None = None) -> AnyArray:
    """Whether no two neighbours lie mirrored or askew in a map with these alignments, by components.

    Of a map that is folded over, and could be better, the frames on the two sides of the fold differ.
    ``starts`` as in :func:`isoweave.geometry.local_frames`.
    """
    graph, (n, n_components, _) = frames.graph, alignments.shape
    transitions, weights = frame_transitions(graph, frames.frames, frames.team)
    there = transitions @ alignments[graph.indices]
    explained = weights * (alignments[graph.sources] * there).sum(axis=(1, 2)) / n_components
    bounds = graph.indptr[np.array([0, n]) if starts is None else starts]
    return np.logical_and.reduceat(explained > _EXPLAINED, bounds[:-1])
