"""The energy that compares the embedding's differences with rotated frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.energy import InnerProduct, RankInnerProduct, apply_laplacian, build_laplacian, divergence
from isoweave.geometry._frames import LocalFrames
from isoweave.graph._graph import NeighborGraph
from isoweave.linalg import SolverState, factor, factor_anchored
from isoweave.optimise._anchoring import Anchoring


@dataclass(frozen=True, eq=False)
class AlignmentProblem:
    """Everything that stays fixed while the embedding moves. The graph is connected.

    Attributes
    ----------
    graph : NeighborGraph
    frames : LocalFrames
    inner : EdgeInnerProduct or RankInnerProduct
    poisson : SolverState
        Factored Laplacian of ``inner``, with the anchors if there are any.
    team : ThreadTeam
    anchoring : Anchoring or None
        Known places of some vertices.
    """

    graph: NeighborGraph
    frames: LocalFrames
    inner: InnerProduct
    poisson: SolverState
    team: ThreadTeam
    anchoring: Anchoring | None = None

    @property
    def n_components(self) -> int:
        return self.frames.n_components

    @computed_once
    def mass(self) -> float:
        """``sum_i tr(E_i^T W_i E_i)``, the energy of the collapsed embedding: the scale of all energies."""
        return self._mismatch(np.zeros((self.graph.n_vertices, self.n_components))).energy

    def settle(self, coordinates: FloatArray) -> FloatArray:
        """Copy in the place that the energy leaves open: zero mean, or hard anchors where they belong."""
        if self.anchoring is not None:
            return self.anchoring.settle(coordinates)
        return coordinates - coordinates.mean(axis=0)

    def evaluate(self, coordinates: FloatArray) -> Evaluation:
        """Reduced energy ``F = min_Q J``, its minimisers Q and half its gradient (eqs. 9, 10, 12).

        Soft anchors add to energy and gradient (eq. 21), hard ones have no gradient.
        """
        here = self._mismatch(coordinates)
        if self.anchoring is None:
            return here
        return replace(here, energy=self.anchoring.add(here.energy, here.half_gradient, coordinates))

    def _mismatch(self, coordinates: FloatArray) -> Evaluation:
        """The energy of the frames alone."""
        from isoweave.engines import alignment as kernels

        n, n_components = coordinates.shape
        alignments = np.empty((n, n_components, n_components))
        energies = np.empty(n)
        flux = np.empty((len(self.graph.indices), n_components))
        if isinstance(self.inner, RankInnerProduct):
            kernel, metric = kernels.align_rank, self.inner.inverse
        else:
            kernel, metric = kernels.align_edges, self.inner.weights
        arrays = (self.graph.indptr, self.graph.indices, metric, self.frames.rows)
        self.team.run(kernel, n, *arrays, coordinates, alignments, energies, flux)
        return Evaluation(
            energy=float(np.sum(energies)),
            half_gradient=divergence(self.graph, flux, self.team),
            alignments=alignments,
            energies=energies,
        )

    def integrate(self, alignments: FloatArray) -> FloatArray:
        """Embedding that fits given alignments best: the Poisson problem ``L phi = div(W E Q)`` (eq. 11).

        With anchors, under their constraints (eqs. 20, 21).
        """
        rotated = np.einsum("er,erc->ec", self.frames.rows, alignments[self.graph.sources])
        if isinstance(self.inner, RankInnerProduct):
            p = self.inner.inverse
            n = self.graph.n_vertices
            at_vertex = np.zeros((n, p.shape[1], rotated.shape[1]))
            np.add.at(at_vertex, self.graph.sources, p[:, :, None] * rotated[:, None, :])
            flux = np.einsum("ek,ekc->ec", p, at_vertex[self.graph.sources])
        else:
            flux = self.inner.weights[:, None] * rotated
        rhs = divergence(self.graph, flux, self.team)
        anchors = self.anchoring
        if anchors is None:
            return self.poisson.solve(rhs).value
        # From a map with every anchor in its place, soft ones too: their pull is zero there.
        places = np.zeros_like(rhs)
        places[anchors.vertices] = anchors.places
        rhs -= apply_laplacian(self.graph, self.inner, places, self.team)
        return places + self.poisson.solve(rhs).value


def build_problem(
    graph: NeighborGraph,
    frames: LocalFrames,
    inner: InnerProduct,
    *,
    team: ThreadTeam,
    solver: str = "auto",
    anchoring: Anchoring | None = None,
) -> AlignmentProblem:
    """Assemble and factor the Laplacian, once for all steps."""
    laplacian = build_laplacian(graph, inner)
    n_components = frames.n_components
    poisson: SolverState
    if anchoring is None:
        poisson = factor(laplacian, solver=solver, n_components=n_components, team=team)
    else:
        poisson = factor_anchored(
            laplacian,
            anchoring.held,
            anchoring.pulled,
            anchoring.pull,
            solver=solver,
            n_components=n_components,
            team=team,
        )
    return AlignmentProblem(graph, frames, inner, poisson, team, anchoring)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Energy at one embedding.

    Attributes
    ----------
    energy : float
    half_gradient : float64 array of shape (n, N)
        ``L phi - div(W E Q)``; the gradient of the reduced energy is twice this.
    alignments : float64 array of shape (n, N, N)
        The best Q_i, orthogonal.
    energies : float64 array of shape (n,)
        Share of every vertex.
    """

    energy: float
    half_gradient: FloatArray
    alignments: FloatArray
    energies: FloatArray
