"""Cells of a graph, and the energy of a map split over them (docs/theory.md, eqs. D2 to D6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.diagnostics._facts import EnergySplit
from isoweave.energy import EdgeEnergy
from isoweave.engines.plain import repeat_and_count
from isoweave.graph import NeighborGraph, edge_keys, positions_of
from isoweave.linalg import symmetric_solver
from isoweave.optimise import Problem, sample_vertices

# Loops among this many nearest vertices of some vertex are local, or among this part of all vertices if that
# is less; longer ones belong to the shape.
_BALL, _BALL_PART = 150, 10
# One vertex in three is the centre of a ball (up to _SMALL every one): balls overlap widely.
_CENTRE_PART, _SMALL = 3, 600
_LOOPS_PER_BALL, _LONGEST_LOOP = 24, 24
# Curls are projected out with this part of their mean square as regularisation: small against the smoothest
# curl a graph of a few thousand vertices can have (about 1e-4), large against rounding.
_REGULARISATION = 1e-9
_CONCENTRATED = 0.01


def cell_boundaries(graph: NeighborGraph, *, team: ThreadTeam, ball: int | None = None) -> sp.csr_array:
    """Triangles of a graph and loops that fill the small holes between them, shape (cells, E).

    +1 where the loop of a cell runs along an edge from i to j > i, -1 where against it. Applied to a 1-form
    on the edges this is the curl; the curl of differences is zero. Every loop among the ``ball`` nearest
    vertices of a centre is a sum of triangles, which come first, and of the loops listed. Cost is linear for
    bounded degrees.
    """
    from isoweave.engines import cells as kernels

    n = graph.n_vertices
    edges = np.flatnonzero(graph.sources < graph.indices)
    number = np.empty(len(graph.indices), dtype=np.int64)
    number[edges] = np.arange(len(edges))
    number[graph.reverse[edges]] = np.arange(len(edges))
    triangles = list_triangles(graph)
    if ball is None:
        ball = min(_BALL, -(-n // _BALL_PART))
    centres = np.arange(n, dtype=np.int32)
    if n > _SMALL:
        centres = sample_vertices(graph, n // _CENTRE_PART, team=team)
    loops = np.empty((len(centres), _LOOPS_PER_BALL, _LONGEST_LOOP), dtype=np.int32)
    counts = np.empty(len(centres), dtype=np.int32)
    arrays = (graph.indptr, graph.indices, graph.lengths, graph.sources)
    team.run(kernels.hole_loops, len(centres), centres, min(ball, n), *arrays, loops, counts, grain=64)
    kept = loops[np.arange(_LOOPS_PER_BALL) < counts[:, None]]
    cell, step = np.nonzero(kept != -1)
    along = kept[cell, step] >= 0
    stored = np.where(along, kept[cell, step], -2 - kept[cell, step])
    upwards = graph.sources[stored] < graph.indices[stored]
    rows = np.concatenate((np.repeat(np.arange(len(triangles)), 3), len(triangles) + cell))
    columns = np.concatenate((number[triangles].ravel(), number[stored]))
    signs = np.concatenate((np.tile((1.0, 1.0, -1.0), len(triangles)), np.where(along == upwards, 1.0, -1.0)))
    shape = (len(triangles) + len(kept), len(edges))
    return sp.csr_array((signs, (rows, columns)), shape=shape)


def list_triangles(graph: NeighborGraph) -> AnyArray:
    """Stored edges (i, j), (j, k), (i, k) of all triangles i < j < k, shape (n_triangles, 3)."""
    first = np.flatnonzero(graph.sources < graph.indices)
    i, j = graph.sources[first], graph.indices[first]
    which, rank = repeat_and_count(graph.degrees[j])
    second = graph.indptr[j][which] + rank
    third = positions_of(edge_keys(graph), i[which] * np.int64(graph.n_vertices) + graph.indices[second])
    found = (third >= 0) & (graph.indices[second] > j[which])
    return np.column_stack((first[which], second, third))[found].astype(np.int32)


@dataclass(frozen=True, eq=False)
class Misfit:
    """The energy of a map, and its irremovable part edge by edge, which :func:`split_misfit` divides."""

    mass: float  # the energy of the collapsed map
    split: EnergySplit
    # The irremovable part on the undirected edges, times the roots of the weights; no exact part is left.
    form: FloatArray
    # Of the undirected edges, both directions together.
    weights: FloatArray


def measure_misfit(problem: Problem, alignments: FloatArray, coordinates: FloatArray) -> Misfit:
    """Take out of J what one Poisson solve would remove, and what the ends of the edges disagree about."""
    graph, energy = problem.graph, problem.frames
    assert isinstance(energy, EdgeEnergy), "the split is defined for the edge inner product only"
    up = np.flatnonzero(graph.sources < graph.indices)
    down = graph.reverse[up]
    ends = graph.sources[up], graph.indices[up]
    w_up, w_down = energy.weights[up], energy.weights[down]
    weights = w_up + w_down
    safe = np.where(weights > 0.0, weights, 1.0)
    form = np.einsum("er,erc->ec", energy.frames.rows, alignments[graph.sources])
    both = (w_up * w_down / safe)[:, None] * (form[up] + form[down]) ** 2
    one_form = (w_up[:, None] * form[up] - w_down[:, None] * form[down]) / safe[:, None]
    best = problem.integrate(alignments)
    # With the roots of the weights in the values, inner products are plain ones.
    root = np.sqrt(weights)[:, None]
    misfit = root * (one_form - (coordinates[ends[1]] - coordinates[ends[0]]))
    closed = root * (one_form - (best[ends[1]] - best[ends[0]]))
    disagreement = float(np.sum(both))
    # Independent errors of the two directions go in equal parts into their sum and their difference; the
    # difference loses what a map can follow, n - 1 of E dimensions.
    paired = max(int(np.count_nonzero((w_up > 0.0) & (w_down > 0.0))), 1)
    free = max(int(np.count_nonzero(weights)) - (graph.n_vertices - 1), 0)
    mass, irremovable = float(np.sum(energy.weights[:, None] * form * form)), float(np.sum(closed**2))
    total, scale = disagreement + float(np.sum(misfit**2)), mass or np.inf
    split = EnergySplit(
        total=total / scale,
        removable=max(total - disagreement - irremovable, 0.0) / scale,
        disagreement=disagreement / scale,
        irremovable=irremovable / scale,
        expected=disagreement * free / paired / scale,
        concentration=_concentration(np.sum(closed**2, axis=1)),
    )
    return Misfit(mass, split, closed, weights)


def split_misfit(misfit: Misfit, boundary: sp.csr_array) -> EnergySplit:
    """Relative energies, the irremovable one divided into the curl of cells and what long loops leave."""
    harmonic = np.sum(without_curl(misfit.form, boundary, misfit.weights) ** 2, axis=1)
    loops = min(float(np.sum(harmonic)) / (misfit.mass or np.inf), misfit.split.irremovable)
    curl = misfit.split.irremovable - loops
    return replace(misfit.split, curl=curl, loops=loops, concentration=_concentration(harmonic))


def _concentration(energies: FloatArray) -> float:
    """Share of the energy that one edge in a hundred has."""
    most = np.sort(energies)[::-1][: max(1, int(_CONCENTRATED * len(energies)))]
    whole = float(np.sum(energies))
    return float(np.sum(most)) / whole if whole > 0.0 else 0.0


def without_curl(form: FloatArray, boundary: sp.csr_array, weights: FloatArray) -> FloatArray:
    """Project 1-forms, in the unit of the weights' roots, on those whose curl around every cell is zero.

    ``form`` has no exact part. The span of the cells' loops, the columns of B, is removed by
    ``e (B B^T + e)^-1 form`` with a small e.
    """
    seen: BoolArray = weights > 0.0
    out = np.zeros_like(form)
    if not seen.all():
        # An edge that no frame sees has no value, and neither has the curl of its cells.
        blind = np.abs(boundary) @ (~seen).astype(float) > 0
        boundary = boundary[np.flatnonzero(~blind)][:, np.flatnonzero(seen)]
    loops = sp.csr_array(boundary @ sp.diags_array(1.0 / np.sqrt(weights[seen])))
    gram = sp.csr_array(loops.T @ loops)
    scale = float(gram.diagonal().mean()) if gram.nnz else 0.0
    if scale == 0.0:
        return form
    small = _REGULARISATION * scale
    with symmetric_solver(gram, small) as solve:
        out[seen] = small * solve(form[seen])
    return out
