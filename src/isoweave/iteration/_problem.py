"""The energy that compares the embedding's differences with rotated frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.frames._frames import LocalFrames
from isoweave.graph._graph import NeighborGraph
from isoweave.operators import InnerProduct, RankInnerProduct, build_laplacian, divergence
from isoweave.solvers import PoissonState, factor_laplacian


@dataclass(frozen=True, eq=False)
class AlignmentProblem:
    """Everything that stays fixed while the embedding moves. The graph is connected.

    Attributes
    ----------
    graph : NeighborGraph
    frames : LocalFrames
    inner : EdgeInnerProduct or RankInnerProduct
    poisson : PoissonState
        Factored Laplacian of ``inner``.
    team : ThreadTeam
    """

    graph: NeighborGraph
    frames: LocalFrames
    inner: InnerProduct
    poisson: PoissonState
    team: ThreadTeam

    @property
    def n_components(self) -> int:
        return self.frames.n_components

    @cached_property
    def mass(self) -> float:
        """``sum_i tr(E_i^T W_i E_i)``, the energy of the collapsed embedding: the scale of all energies."""
        return self.evaluate(np.zeros((self.graph.n_vertices, self.n_components))).energy

    def evaluate(self, coordinates: FloatArray) -> Evaluation:
        """Reduced energy ``F = min_Q J``, its minimisers Q and half its gradient (eqs. 9, 10, 12)."""
        from isoweave.backends import _alignment as kernels

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
        """Embedding that fits given alignments best: the Poisson problem ``L phi = div(W E Q)`` (eq. 11)."""
        rotated = np.einsum("er,erc->ec", self.frames.rows, alignments[self.graph.sources])
        if isinstance(self.inner, RankInnerProduct):
            p = self.inner.inverse
            n = self.graph.n_vertices
            at_vertex = np.zeros((n, p.shape[1], rotated.shape[1]))
            np.add.at(at_vertex, self.graph.sources, p[:, :, None] * rotated[:, None, :])
            flux = np.einsum("ek,ekc->ec", p, at_vertex[self.graph.sources])
        else:
            flux = self.inner.weights[:, None] * rotated
        return self.poisson.solve(divergence(self.graph, flux, self.team)).value


def build_problem(
    graph: NeighborGraph, frames: LocalFrames, inner: InnerProduct, *, team: ThreadTeam, solver: str = "auto"
) -> AlignmentProblem:
    """Assemble and factor the Laplacian, once for all steps."""
    laplacian = build_laplacian(graph, inner)
    poisson = factor_laplacian(laplacian, solver=solver, n_components=frames.n_components, team=team)
    return AlignmentProblem(graph, frames, inner, poisson, team)


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
