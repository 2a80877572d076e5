"""The measured distances themselves as energy: stress on the edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import FloatArray
from isoweave.energy import EdgeInnerProduct, differences, divergence
from isoweave.graph._graph import NeighborGraph
from isoweave.optimise._problem import AlignmentProblem, Evaluation


@dataclass(frozen=True, eq=False)
class DistanceProblem(AlignmentProblem):
    """Weighted squares of ``|phi_j - phi_i| - d_ij`` over the edges, both directions (eq. 22).

    In :class:`AlignmentProblem` the edges at a vertex turn together; here every edge turns for itself, and
    only its length counts. The quadratic part is the same Laplacian, so the same factor serves, and the sweep
    it makes is that of SMACOF restricted to the edges. The minimum is the most likely map under independent
    Gaussian errors of the distances with variances inverse to the weights.
    """

    def _mismatch(self, coordinates: FloatArray) -> Evaluation:
        assert isinstance(self.inner, EdgeInnerProduct)
        graph, weights = self.graph, self.inner.weights
        steps = differences(graph, coordinates)
        lengths = np.sqrt(np.einsum("ec,ec->e", steps, steps))
        excess = lengths - graph.lengths
        # Ends in one place may part in any direction: none is taken.
        pull = np.divide(weights * excess, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        at_vertex = np.bincount(graph.sources, weights * excess * excess, graph.n_vertices)
        energies = np.asarray(at_vertex, dtype=np.float64)
        return Evaluation(
            energy=float(np.sum(energies)),
            half_gradient=divergence(graph, pull[:, None] * steps, self.team),
            alignments=np.empty((0, self.n_components, self.n_components)),
            energies=energies,
        )


def distance_problem(problem: AlignmentProblem, graph: NeighborGraph | None = None) -> DistanceProblem:
    """The distances of a problem with the edge inner product, with its weights, anchors and factor.

    ``graph`` has the measured lengths, if the problem's own graph has others.
    """
    if not isinstance(problem.inner, EdgeInnerProduct):
        raise ValueError("The energy of the distances needs the edge inner product, one weight per edge.")
    return DistanceProblem(
        graph or problem.graph,
        problem.frames,
        problem.inner,
        problem.poisson,
        problem.team,
        problem.anchoring,
    )
