"""Energies: of frames (how far the differences of an embedding are from rotated frames), distances, anchors.

An energy of embeddings x of shape (n, N) has ``evaluate(x)``: its value, half its gradient, and the rotations
it found on the way; ``laplacian()``: the matrix of its quadratic part, the metric in which it is minimised;
``mass``: its value where all points coincide, the scale of all its values; ``suspects()``: the arrays it was
made from, by name, for the error when a value is not finite. A sum of energies is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.energy._operators import divergence, edge_laplacian, paper_differential
from isoweave.engines import plain
from isoweave.geometry import SHORTEST_ROW, LocalFrames, long_edges, rigid_motion
from isoweave.graph import NeighborGraph, rows_by_length

# How much a hard anchor counts beside soft ones when the embedding is laid on them: what the hard ones leave
# open, the soft ones decide.
HARD_SHARE = 1e3
# Square of the ratio of an edge to its frame beyond which a row of zeros means nothing.
_SAME_SIZE = 1e8
_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An energy at one embedding."""

    energy: float
    half_gradient: FloatArray  #: (n, N), for frames ``L x - div(W E Q)``; the gradient is twice this.
    alignments: FloatArray  #: (n, N, N), the best Q_i, orthogonal; empty for energies without frames.
    energies: FloatArray  #: (n,), share of every vertex.


class Energy(Protocol):
    """What the optimisers minimise; see the top of this module."""

    @property
    def mass(self) -> float: ...

    def evaluate(self, x: FloatArray) -> Evaluation: ...

    def laplacian(self) -> sp.csr_array: ...

    def suspects(self) -> dict[str, AnyArray]: ...


@dataclass(frozen=True, eq=False)
class _OnFrames:
    """What energies of frames share: the graph, the frames, and how rotations are found."""

    graph: NeighborGraph
    frames: LocalFrames
    # Said when its Poisson problems cannot be solved.
    remedy = ""

    @computed_once
    def mass(self) -> float:
        return self.evaluate(np.zeros((self.graph.n_vertices, self.frames.n_components))).energy

    def evaluate(self, x: FloatArray) -> Evaluation:
        raise NotImplementedError

    def _measure(self, x: FloatArray, energies: FloatArray, flux: FloatArray) -> None:
        """Put in what the frames do not see."""

    def _aligned(self, kernel: Any, metric: FloatArray, team: ThreadTeam, x: FloatArray) -> Evaluation:
        graph, (n, n_components) = self.graph, x.shape
        alignments = np.empty((n, n_components, n_components))
        energies = np.empty(n)
        flux = np.empty((len(graph.indices), n_components))
        arrays = (graph.indptr, graph.indices, metric, self.frames.rows)
        team.run(kernel, n, *arrays, x, alignments, energies, flux)
        self._measure(x, energies, flux)
        return Evaluation(float(np.sum(energies)), divergence(graph, flux, team), alignments, energies)


@dataclass(frozen=True, eq=False)
class EdgeEnergy(_OnFrames):
    """Frames with one weight per edge (eqs. 9, 10, 12): ``sum_ij w_ij |x_j - x_i - E_ij Q_i|^2``, best Q.

    ``weights`` (m,) are not negative. Edges with a weight and no direction in a frame, a row of zeros, count
    with their lengths alone, ``w_ij (|x_j - x_i| - d_ij)^2`` (eq. 27): else they would be drawn to length 0.
    """

    weights: FloatArray
    team: ThreadTeam

    @computed_once
    def free(self) -> IntArray:
        """Edges without direction, shape (f,)."""
        # Not those far from the size of their frames: there paths are much shorter than the edge, or the edge
        # is too short to be seen.
        is_free = np.empty(len(self.weights), dtype=np.bool_)

        def look(start: int, stop: int) -> None:
            has_none = ~self.frames.rows[start:stop].any(axis=1)
            np.logical_and(self.weights[start:stop] > 0, has_none, out=is_free[start:stop])

        self.team.run(look, len(is_free), grain=_ROWS_AT_ONCE)
        free = np.flatnonzero(is_free).astype(np.int32)
        if len(free) == 0:
            return free
        size, square = self.frames.spectrum[self.graph.sources[free], 0], self.graph.lengths[free] ** 2
        has_row = self.frames.included[free]
        return free[~has_row | ((square <= _SAME_SIZE * size) & (size <= _SAME_SIZE * square))]

    @computed_once
    def seen(self) -> FloatArray:
        """The weights of the other edges."""
        if len(self.free) == 0:
            return self.weights
        seen = self.weights.copy()
        seen[self.free] = 0.0
        return seen

    def evaluate(self, x: FloatArray) -> Evaluation:
        if x.shape[1] == 2:
            kernel = plain.choose("alignment.align_edges_plane", len(self.seen))
        else:
            from isoweave.engines.alignment import align_edges as kernel

        return self._aligned(kernel, self.seen, self.team, x)

    def _measure(self, x: FloatArray, energies: FloatArray, flux: FloatArray) -> None:
        if len(self.free) == 0:
            return
        i, rest, weights = (a[self.free] for a in (self.graph.sources, self.graph.lengths, self.weights))
        steps = x[self.graph.indices[self.free]] - x[i]
        # Column by column, as :mod:`isoweave.engines.together` has it.
        lengths = np.sqrt(sum(column * column for column in steps.T))
        excess = lengths - rest
        # Ends that coincide may part in any direction: none is taken.
        pull = np.divide(weights * excess, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        flux[self.free] = pull[:, None] * steps
        energies += np.bincount(i, weights * excess * excess, len(energies))

    def laplacian(self) -> sp.csr_array:
        return edge_laplacian(self.graph, self.weights, self.team)

    def flux(self, form: FloatArray) -> FloatArray:
        """``W`` applied to values on the edges, shape (m, c)."""
        return self.weights[:, None] * form

    def suspects(self) -> dict[str, AnyArray]:
        return {"frames": self.frames.rows, "inner product": self.weights}


@dataclass(frozen=True, eq=False)
class PaperEnergy(_OnFrames):
    """Frames with the paper's inner product ``W_i = P_i P_i^T`` of rank N.

    ``inverse`` (m, N) has the rows of P_i, the volume's root included (eq. 4).
    """

    inverse: FloatArray
    team: ThreadTeam
    # Its weights go with the inverse squares of the lengths, those of the edge inner product do not.
    remedy = "use inner_product='edge', or "

    def evaluate(self, x: FloatArray) -> Evaluation:
        from isoweave.engines import alignment as kernels

        return self._aligned(kernels.align_rank, self.inverse, self.team, x)

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


def edge_energy(
    graph: NeighborGraph,
    frames: LocalFrames,
    *,
    confidence: FloatArray | None = None,
    team: ThreadTeam = ONE_THREAD,
    starts: AnyArray | None = None,
    median: float | None = None,
) -> EdgeEnergy:
    """Energy of the frames; an edge has the weight 1, or its ``confidence``, positive, shape (m,) (eq. 18).

    ``starts`` as in :func:`isoweave.geometry.local_frames`; ``median`` is that of the lengths, where the
    graph is a part of a larger one.
    """
    given = np.ones(len(graph.lengths)) if confidence is None else confidence
    values, has_row = given, frames.included
    if not has_row.all():
        values = np.where(has_row, given, 0.0)
        lost = ~has_row & ~has_row[graph.reverse]
        if lost.any():
            # Long edges count with their relative error (eq. 27).
            lost &= long_edges(graph, frames.n_components, rows_by_length(graph, team))
            medians = _median_lengths(graph, starts)[lost] if median is None else median
            shares = np.minimum(1.0, (medians / graph.lengths[lost]) ** 2)
            values[lost] = shares * given[lost]
    nowhere = np.empty(len(graph.lengths), dtype=np.bool_)
    sources, size = graph.sources, frames.spectrum[:, 0]

    def look(start: int, stop: int) -> None:
        rows, lengths = frames.rows[start:stop], graph.lengths[start:stop]
        squares, least = np.einsum("ej,ej->e", rows, rows), np.minimum(lengths**2, size[sources[start:stop]])
        nowhere[start:stop] = (squares <= SHORTEST_ROW**2 * least) & (squares > 0)

    team.run(look, len(nowhere), grain=_ROWS_AT_ONCE)
    if nowhere.any():
        frames = replace(frames, rows=np.where(nowhere[:, None], 0.0, frames.rows))
    return EdgeEnergy(graph, frames, values, team)


def _median_lengths(graph: NeighborGraph, starts: AnyArray | None) -> FloatArray:
    """Of its component, for every edge, shape (m,)."""
    bounds = graph.indptr[[0, -1] if starts is None else starts]
    medians = [np.median(graph.lengths[first:last]) for first, last in pairwise(bounds)]
    return np.repeat(medians, np.diff(bounds))


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

    The quadratic part is the Laplacian of the frames, so the same factor serves, and the sweep it makes is
    that of SMACOF restricted to the edges. The minimum is the most likely embedding under independent
    Gaussian errors of the distances (the lengths of ``graph``) with variances inverse to the weights.
    """

    graph: NeighborGraph
    n_components: int
    weights: FloatArray
    team: ThreadTeam

    @computed_once
    def mass(self) -> float:
        return self.evaluate(np.zeros((self.graph.n_vertices, self.n_components))).energy

    def evaluate(self, x: FloatArray) -> Evaluation:
        graph, energies, half_gradient = self.graph, np.empty(len(x)), np.empty(x.shape)
        edges = (graph.indptr, graph.indices, graph.reverse, graph.lengths, self.weights)
        kernel = plain.choose("stress.edge_stress", len(self.weights))
        self.team.run(kernel, len(x), *edges, np.ascontiguousarray(x), energies, half_gradient)
        none = np.empty((0, self.n_components, self.n_components))
        return Evaluation(float(np.sum(energies)), half_gradient, none, energies)

    def laplacian(self) -> sp.csr_array:
        return edge_laplacian(self.graph, self.weights, self.team)

    def suspects(self) -> dict[str, AnyArray]:
        return {"lengths": self.graph.lengths, "inner product": self.weights}


@dataclass(frozen=True, eq=False)
class AnchorEnergy:
    """Known positions of some vertices: soft ones pull, hard ones hold (eqs. 20, 21)."""

    vertices: AnyArray  #: (a,), different from each other, at least one.
    positions: FloatArray  #: (a, N)
    weights: FloatArray  #: (a,), infinite for hard ones; soft ones add ``weight |x - position|^2``.
    n_vertices: int  #: Of the graph.
    mass = 0.0

    @computed_once
    def is_hard(self) -> BoolArray:
        return np.isinf(self.weights)

    @property
    def held(self) -> AnyArray:
        """Vertices with hard anchors."""
        return self.vertices[self.is_hard]

    @property
    def pulled(self) -> AnyArray:
        """Vertices with soft anchors."""
        return self.vertices[~self.is_hard]

    @property
    def pull(self) -> FloatArray:
        """Weights of the soft anchors."""
        return self.weights[~self.is_hard]

    def evaluate(self, x: FloatArray) -> Evaluation:
        """The pulls of the soft anchors."""
        away = x[self.pulled] - self.positions[~self.is_hard]
        half_gradient, energies = np.zeros_like(x), np.zeros(len(x))
        half_gradient[self.pulled] = self.pull[:, None] * away
        squares = self.pull[:, None] * away * away
        energies[self.pulled] = squares.sum(axis=1)
        return Evaluation(float(np.sum(squares)), half_gradient, np.empty((0, *x.shape[1:] * 2)), energies)

    def laplacian(self) -> sp.csr_array:
        """The pulls of the soft anchors on the diagonal; isoweave.linalg.factor_anchored holds the hard."""
        return sp.csr_array(sp.diags_array(np.bincount(self.pulled, self.pull, self.n_vertices)))

    def suspects(self) -> dict[str, AnyArray]:
        return {"anchor positions": self.positions}

    def settle(self, x: FloatArray) -> FloatArray:
        """Copy with the hard anchors in their positions."""
        settled = x.copy()
        settled[self.held] = self.positions[self.is_hard]
        return settled

    def lay_on(self, x: FloatArray) -> FloatArray:
        """The embedding moved rigidly, mirrored if need be, to where it is nearest to the anchors."""
        rotation, shift = self.motion(x[self.vertices])
        return x @ rotation + shift

    def motion(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rotation and shift that bring the places (a, N) of the anchors nearest to their positions."""
        largest = float(self.pull.max(initial=1.0))
        weights = np.where(self.is_hard, HARD_SHARE * largest, self.weights)
        return rigid_motion(places, self.positions, weights)


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of energies; rotations are those of the first."""

    terms: Sequence[Energy]

    @property
    def mass(self) -> float:
        return float(sum(term.mass for term in self.terms))

    def evaluate(self, x: FloatArray) -> Evaluation:
        first, *others = (term.evaluate(x) for term in self.terms)
        energy, half_gradient, energies = first.energy, first.half_gradient, first.energies
        for other in others:
            energy += other.energy
            half_gradient += other.half_gradient
            energies = energies + other.energies
        return Evaluation(energy, half_gradient, first.alignments, energies)

    def laplacian(self) -> sp.csr_array:
        total = self.terms[0].laplacian()
        for term in self.terms[1:]:
            total = total + term.laplacian()
        return sp.csr_array(total)

    def suspects(self) -> dict[str, AnyArray]:
        return {name: array for term in self.terms for name, array in term.suspects().items()}
