"""Energies of the frames: how far the differences of an embedding are from rotated frames.

An energy of N-dimensional embeddings x of shape (n, N) has

``evaluate(x)``
    its value, half its gradient, and whatever rotations it found on the way;
``laplacian()``
    the matrix of its quadratic part, the metric in which it is minimised;
``mass``
    its value where all points coincide, the scale of all its values;
``suspects()``
    the arrays it was made from, by name, for the error when a value is not finite.

A sum of energies is an energy (:class:`isoweave.energy.Sum`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.energy._operators import differences, divergence, edge_laplacian, paper_differential
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph

EDGE_WEIGHTS = ("uniform", "inverse", "inverse-square")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An energy at one embedding.

    Attributes
    ----------
    energy : float
    half_gradient : float64 array of shape (n, N)
        For frames ``L x - div(W E Q)``; the gradient of the reduced energy is twice this.
    alignments : float64 array of shape (n, N, N)
        The best Q_i, orthogonal; empty for energies without frames.
    energies : float64 array of shape (n,)
        Share of every vertex.
    """

    energy: float
    half_gradient: FloatArray
    alignments: FloatArray
    energies: FloatArray


class Energy(Protocol):
    """What the optimisers minimise; see the top of this module."""

    @property
    def mass(self) -> float: ...

    def evaluate(self, x: FloatArray) -> Evaluation: ...

    def laplacian(self) -> sp.csr_array: ...

    def suspects(self) -> dict[str, AnyArray]: ...


@dataclass(frozen=True, eq=False)
class EdgeEnergy:
    """Frames with one weight per edge (eqs. 9, 10, 12): ``sum_ij w_ij |x_j - x_i - E_ij Q_i|^2``, best Q.

    Attributes
    ----------
    graph : NeighborGraph
    frames : LocalFrames
    weights : float64 array of shape (m,)
        Not negative; zero where a frame has no row.
    team : ThreadTeam
    """

    graph: NeighborGraph
    frames: LocalFrames
    weights: FloatArray
    team: ThreadTeam
    # Said when its Poisson problems cannot be solved.
    remedy = ""

    @computed_once
    def mass(self) -> float:
        return self.evaluate(np.zeros((self.graph.n_vertices, self.frames.n_components))).energy

    def evaluate(self, x: FloatArray) -> Evaluation:
        from isoweave.engines import alignment as kernels

        return _aligned(self, kernels.align_edges, self.weights, x)

    def laplacian(self) -> sp.csr_array:
        return edge_laplacian(self.graph, self.weights)

    def flux(self, form: FloatArray) -> FloatArray:
        """``W`` applied to values on the edges, shape (m, c)."""
        return self.weights[:, None] * form

    def suspects(self) -> dict[str, AnyArray]:
        return {"frames": self.frames.rows, "inner product": self.weights}


@dataclass(frozen=True, eq=False)
class PaperEnergy:
    """Frames with the paper's inner product ``W_i = P_i P_i^T`` of rank N.

    Attributes
    ----------
    graph : NeighborGraph
    frames : LocalFrames
    inverse : float64 array of shape (m, N)
        Rows of P_i, the volume's root included (eq. 4).
    team : ThreadTeam
    """

    graph: NeighborGraph
    frames: LocalFrames
    inverse: FloatArray
    team: ThreadTeam
    # Its weights go with the inverse squares of the lengths, those of the edge inner product do not.
    remedy = "use inner_product='edge', or "

    @computed_once
    def mass(self) -> float:
        return self.evaluate(np.zeros((self.graph.n_vertices, self.frames.n_components))).energy

    def evaluate(self, x: FloatArray) -> Evaluation:
        from isoweave.engines import alignment as kernels

        return _aligned(self, kernels.align_rank, self.inverse, x)

    def laplacian(self) -> sp.csr_array:
        """``d^T d``, with the pattern of the squared graph."""
        d = paper_differential(self.graph, self.inverse)
        laplacian = sp.csr_array(d.T @ d)
        laplacian.sort_indices()
        return laplacian

    def flux(self, form: FloatArray) -> FloatArray:
        """``W`` applied to values on the edges, shape (m, c)."""
        p, sources = self.inverse, self.graph.sources
        at_vertex = np.zeros((self.graph.n_vertices, p.shape[1], form.shape[1]))
        np.add.at(at_vertex, sources, p[:, :, None] * form[:, None, :])
        return np.einsum("ek,ekc->ec", p, at_vertex[sources])

    def suspects(self) -> dict[str, AnyArray]:
        return {"frames": self.frames.rows, "inner product": self.inverse}


FrameEnergy = EdgeEnergy | PaperEnergy


def _aligned(energy: FrameEnergy, kernel: Any, metric: FloatArray, x: FloatArray) -> Evaluation:
    graph, (n, n_components) = energy.graph, x.shape
    alignments = np.empty((n, n_components, n_components))
    energies = np.empty(n)
    flux = np.empty((len(graph.indices), n_components))
    arrays = (graph.indptr, graph.indices, metric, energy.frames.rows)
    energy.team.run(kernel, n, *arrays, x, alignments, energies, flux)
    return Evaluation(float(np.sum(energies)), divergence(graph, flux, energy.team), alignments, energies)


def edge_energy(
    graph: NeighborGraph,
    frames: LocalFrames,
    weights: str = "uniform",
    confidence: FloatArray | None = None,
    *,
    team: ThreadTeam = ONE_THREAD,
) -> EdgeEnergy:
    """Energy of the frames with a weight per edge: 1, 1/d or 1/d^2, relative to the median length.

    ``confidence``, positive of shape (m,), multiplies it (eq. 18).
    """
    if weights not in EDGE_WEIGHTS:
        raise ValueError(f"edge weights must be one of {EDGE_WEIGHTS}, got {weights!r}.")
    power = EDGE_WEIGHTS.index(weights)
    if power == 0 or len(graph.lengths) == 0:
        values = np.ones(len(graph.lengths))
    else:
        typical = np.median(graph.lengths)
        # Lengths far under the median (near duplicates) must not outweigh everything else.
        values = (typical / np.maximum(graph.lengths, 1e-3 * typical)) ** power
    if confidence is not None:
        values = values * confidence
    return EdgeEnergy(graph, frames, np.where(frames.included, values, 0.0), team)


def paper_energy(
    graph: NeighborGraph, frames: LocalFrames, volumes: FloatArray, *, team: ThreadTeam = ONE_THREAD
) -> PaperEnergy:
    """The paper's energy, from frames with their inverses and the volumes of the neighbourhoods."""
    if frames.inverse is None:
        raise ValueError("The paper's inner product needs frames made with with_inverse=True.")
    return PaperEnergy(graph, frames, np.sqrt(volumes)[graph.sources, None] * frames.inverse, team)


@dataclass(frozen=True, eq=False)
class DistanceEnergy:
    """Weighted squares of ``|x_j - x_i| - d_ij`` over the edges, both directions (eq. 22).

    With frames the edges at a vertex rotate together; here every edge rotates on its own, and only its length
    counts. The quadratic part is the same Laplacian, so the same factor serves, and the sweep it makes is
    that of SMACOF restricted to the edges. The minimum is the most likely embedding under independent
    Gaussian errors of the distances with variances inverse to the weights.

    Attributes
    ----------
    graph : NeighborGraph
        With the measured lengths.
    n_components : int
    weights : float64 array of shape (m,)
    team : ThreadTeam
    """

    graph: NeighborGraph
    n_components: int
    weights: FloatArray
    team: ThreadTeam
    remedy = ""

    @computed_once
    def mass(self) -> float:
        return self.evaluate(np.zeros((self.graph.n_vertices, self.n_components))).energy

    def evaluate(self, x: FloatArray) -> Evaluation:
        graph, weights = self.graph, self.weights
        steps = differences(graph, x)
        lengths = np.sqrt(np.einsum("ec,ec->e", steps, steps))
        excess = lengths - graph.lengths
        # Ends that coincide may part in any direction: none is taken.
        pull = np.divide(weights * excess, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        at_vertex = np.bincount(graph.sources, weights * excess * excess, graph.n_vertices)
        energies = np.asarray(at_vertex, dtype=np.float64)
        return Evaluation(
            energy=float(np.sum(energies)),
            half_gradient=divergence(graph, pull[:, None] * steps, self.team),
            alignments=np.empty((0, self.n_components, self.n_components)),
            energies=energies,
        )

    def laplacian(self) -> sp.csr_array:
        return edge_laplacian(self.graph, self.weights)

    def suspects(self) -> dict[str, AnyArray]:
        return {"lengths": self.graph.lengths, "inner product": self.weights}
