"""Where the optimiser begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray, IntArray
from isoweave.frames import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, geodesic_neighbors
from isoweave.iteration._landmark import farthest_landmarks, landmark_start
from isoweave.iteration._lbfgs import minimize_energy
from isoweave.iteration._problem import build_problem
from isoweave.iteration._synchronize import synchronized_alignments
from isoweave.operators import edge_inner_product

N_LANDMARKS = 50
# The companion graph of the synchronised start: frames must overlap well, whatever the graph's own degree.
_FEWEST_COMPANIONS = 20


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Far-apart vertices with the distances from each to all, and the start they give."""

    vertices: IntArray
    distances: FloatArray
    start: FloatArray


def find_landmarks(graph: NeighborGraph, n_components: int) -> Landmarks:
    """Landmark start of a connected graph (eq. 13)."""
    vertices, distances = farthest_landmarks(graph, max(N_LANDMARKS, 2 * n_components + 2))
    return Landmarks(vertices, distances, landmark_start(vertices, distances, n_components))


def synchronized_start(
    graph: NeighborGraph, n_components: int, *, team: ThreadTeam, tol: float
) -> FloatArray:
    """Synchronised start of a connected graph, shape (n, N) (eqs. 14 to 16).

    Rotations are synchronised and integrated on a denser companion graph (every vertex joined to its geodesically nearest
    ones), and the result is brought to that graph's minimum. Right on flat data of any outline, where landmarks fail: a
    landmark start bends whatever shortest paths have to walk around.
    """
    typical = int(np.percentile(graph.degrees, 25))
    companion = geodesic_neighbors(graph, max(2 * typical, _FEWEST_COMPANIONS, 2 * n_components), team=team)
    frames = calibrate_frames(
        companion, local_frames(companion, n_components, team=team, frame_size=1.5), "rows"
    )
    alignments = synchronized_alignments(companion, frames, team)
    inner = edge_inner_product(companion, frames)
    problem = build_problem(companion, frames, inner, team=team, solver="auto")
    start = problem.integrate(alignments)
    return minimize_energy(problem, start, tol=tol, max_iter=100).coordinates
