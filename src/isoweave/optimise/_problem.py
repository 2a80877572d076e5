"""An energy together with the metric in which it is minimised."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isoweave._lazy import computed_once
from isoweave._typing import FloatArray
from isoweave.energy import (
    AnchorEnergy,
    DistanceEnergy,
    EdgeEnergy,
    Energy,
    Evaluation,
    FrameEnergy,
    Sum,
    differences,
    divergence,
)
from isoweave.graph import NeighborGraph
from isoweave.linalg import PoissonState, factor, factor_anchored


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that stays fixed while the embedding moves. The graph is connected.

    Attributes
    ----------
    frames : EdgeEnergy or PaperEnergy
        The frames, their weights and their graph.
    metric : PoissonState
        Factored Laplacian of the energy, with the anchors if there are any.
    anchors : AnchorEnergy or None
        Known positions of some vertices.
    measured : DistanceEnergy or None
        Minimised in place of the frames' energy.
    """

    frames: FrameEnergy
    metric: PoissonState
    anchors: AnchorEnergy | None = None
    measured: DistanceEnergy | None = None

    @property
    def graph(self) -> NeighborGraph:
        return self.frames.graph

    @property
    def shape(self) -> tuple[int, int]:
        """Of an embedding: (n, N)."""
        return self.graph.n_vertices, self.frames.frames.n_components

    @computed_once
    def energy(self) -> Energy:
        main: Energy = self.frames if self.measured is None else self.measured
        return main if self.anchors is None else Sum((main, self.anchors))

    @computed_once
    def mass(self) -> float:
        """Energy of the collapsed embedding, ``sum_i tr(E_i^T W_i E_i)``: the scale of all energies."""
        return self.energy.mass

    def settle(self, x: FloatArray) -> FloatArray:
        """Copy in the position that the energy leaves open: zero mean, or hard anchors where they belong."""
        return x - x.mean(axis=0) if self.anchors is None else self.anchors.settle(x)

    def evaluate(self, x: FloatArray) -> Evaluation:
        """The energy and half its gradient, which is zero at hard anchors."""
        here = self.energy.evaluate(x)
        if self.anchors is not None:
            here.half_gradient[self.anchors.held] = 0.0
        return here

    def solve(self, rhs: FloatArray, tol: float | None = None) -> FloatArray:
        """The inverse of the metric applied to ``rhs``."""
        return self.metric.solve(rhs, tol=tol).value

    @staticmethod
    def dot(a: FloatArray, b: FloatArray) -> float:
        return float(np.sum(a * b))

    def integrate(self, alignments: FloatArray) -> FloatArray:
        """Embedding that fits given alignments best: the Poisson problem ``L x = div(W E Q)`` (eq. 11).

        With anchors, under their constraints (eqs. 20, 21).
        """
        graph, team = self.graph, self.frames.team
        rotated = np.einsum("er,erc->ec", self.frames.frames.rows, alignments[graph.sources])
        rhs = divergence(graph, self.frames.flux(rotated), team)
        if self.anchors is None:
            return self.solve(rhs)
        # From an embedding with every anchor in its position, soft ones too: their pull is zero there.
        placed = np.zeros_like(rhs)
        placed[self.anchors.vertices] = self.anchors.positions
        rhs -= divergence(graph, self.frames.flux(differences(graph, placed)), team)
        return placed + self.solve(rhs)

    def of_distances(self, graph: NeighborGraph | None = None) -> Problem:
        """The same weights, anchors and metric with the energy of the distances (eq. 22).

        ``graph`` has the measured lengths, if the problem's own graph has others.
        """
        if not isinstance(self.frames, EdgeEnergy):
            raise ValueError("The energy of the distances needs the edge inner product, one weight per edge.")
        measured = DistanceEnergy(graph or self.graph, self.shape[1], self.frames.weights, self.frames.team)
        return replace(self, measured=measured)


def build_problem(
    frames: FrameEnergy, *, solver: str = "auto", anchors: AnchorEnergy | None = None
) -> Problem:
    """Assemble and factor the Laplacian, once for all steps."""
    laplacian, n_components, team = frames.laplacian(), frames.frames.n_components, frames.team
    metric: PoissonState
    if anchors is None:
        metric = factor(laplacian, solver=solver, n_components=n_components, team=team)
    else:
        metric = factor_anchored(
            laplacian,
            anchors.held,
            anchors.pulled,
            anchors.pull,
            solver=solver,
            n_components=n_components,
            team=team,
        )
    return Problem(frames, metric, anchors)
