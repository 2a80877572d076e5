"""What an embedding returns."""

from __future__ import annotations

from dataclasses import dataclass

from isoweave._typing import FloatArray, IntArray
from isoweave.graph._graph import NeighborGraph
from isoweave.optimise import StepRecord


@dataclass(frozen=True, eq=False)
class Embedding:
    """Coordinates of a distance graph and how they were found.

    Attributes
    ----------
    coordinates : float64 array of shape (n, N)
        One row per vertex of the input, in its order. NaN only for vertices outside the largest component
        with ``components="largest"``.
    alignments : float64 array of shape (n, N, N)
        Orthogonal Q_i that turn every local frame into the map.
    energy : float
        Energy left, pulls of soft anchors included, summed over the components, in squared units of the
        distances (times those of the weights); 0 or infinite where that
        square is (distances under 1e-154 or over 1e154). ``relative_energy`` is a number always.
    relative_energy : float
        Energy over that of the collapsed map: 0 is an exact isometry, 1 is nothing preserved.
    history : tuple of StepRecord
        Steps of the largest component.
    n_iter : int
        Number of those steps.
    status : str
        "converged", or why the worst component stopped: "max_iter", "stalled", "stopped"
        (by the callback), "interrupted" (by Ctrl-C).
    component_labels : int32 array of shape (n,)
        Connected component of every vertex, largest first.
    stretch : float64 array of shape (n, N)
        Singular values of the local differential, largest first: 1 where lengths are kept.
    dropped_edges : int32 array of shape (s, 2)
        Edges the shortcut filter took out, i < j.
    graph : NeighborGraph
        The symmetric graph that was embedded, dropped edges included.
    start : str
        The start that won, of the largest component.
    solver : str
        The solver used for the largest component, with the reason.
    """

    coordinates: FloatArray
    alignments: FloatArray
    energy: float
    relative_energy: float
    history: tuple[StepRecord, ...]
    n_iter: int
    status: str
    component_labels: IntArray
    stretch: FloatArray
    dropped_edges: IntArray
    graph: NeighborGraph
    start: str
    solver: str
