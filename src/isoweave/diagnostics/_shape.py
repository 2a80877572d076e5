"""What shape a connected graph has (flat, curved, closed, one-sided), found by carrying frames over it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra, minimum_spanning_tree

from isoweave import graph as graphs
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.diagnostics._facts import EnergySplit, ShapeFacts, edge_table, torn_share
from isoweave.diagnostics._hodge import cell_boundaries, list_triangles, measure_misfit, split_misfit
from isoweave.energy import edge_energy
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, assemble_graph, nearest_entries, subgraph
from isoweave.linalg import lowest_eigenvectors
from isoweave.optimise import (
    LBFGS,
    Problem,
    build_problem,
    coarsen,
    connection_laplacian,
    frame_transitions,
    minimise,
    sample_vertices,
)

# Smaller components have no shape worth the name.
FEWEST_VERTICES = 50
# Larger ones are seen through a sample, joined by geodesics.
MOST_VERTICES, _THINNING = 2000, 8
# Neighbours in the graph that frames are carried over, and members of its frames per neighbour.
WIDTH, _FRAME = 16, 1.5
_RELAX_TOL, _RELAX_STEPS = 0.03, 60
# Thresholds; docs/diagnose.md has what they were chosen on and what they were checked on.
COHERENT = 0.93
REFLECTED, TORN_AT_LEAST, TORN_PER_INCOHERENCE = 0.003, 0.003, 3.0
EXCESS, TEARING, IRREMOVABLE, NEGLIGIBLE_ENERGY = 1.2, 1.6, 0.25, 1e-4
LOOPS, LOOPS_SHARE = 0.05, 0.6
ONE_SIDED_LOOPS, ONE_SIDED_SHARE = 0.01, 0.25
# A transition that explains less of the overlap of two frames than this says nothing.
WEAKEST = 0.5
_POWER_SWEEPS = 12
# Balls whose curvature is measured: their size as a part of the vertices, and how many of them.
_BALL_PART, _FEWEST_IN_BALL, _CENTRES = 8, 60, 250
_FILLING_SWEEPS = 30
# Vertices per patch, and divisions of the graph into patches, whose median counts: one of them may be misled
# where frames are doubtful.
_PATCH, _LAYOUTS, _VOTES = 6, 5, 6
# Two patches count as joined by this many edges, of which the majority must exceed the rest by this part.
_FEWEST_JOINS, _MAJORITY = 3, 0.5


class Shape(NamedTuple):
    """Facts about a component, and where the examination of its map continues."""

    facts: ShapeFacts
    vertices: AnyArray  # those of the component that were looked at
    curvature: FloatArray  # of every vertex of the component
    problem: Problem | None  # of the graph of these that frames were carried over; None if incoherent


def find_shape(graph: NeighborGraph, dimension: int, component: int, unit: float, team: ThreadTeam) -> Shape:
    """Carry frames around the loops of a connected graph, and judge what shape it has.

    ``unit`` is that of the graph's lengths; curvature is given in the unit of the input.
    """
    vertices, sampled, nearest = _sample(graph, team=team)
    companion = nearest_along(sampled, max(WIDTH, 2 * dimension), team=team)
    raw = local_frames(companion, dimension, team=team, frame_size=_FRAME)
    frames = calibrate_frames(companion, raw, "rows")
    transitions, weights = frame_transitions(companion, frames, team)
    weights = np.minimum(weights, weights[companion.reverse])
    triangles = list_triangles(companion)
    coherence, reflected = orientation(companion, triangles, transitions, weights, team)
    sizes = (component, graph.n_vertices, len(vertices))
    # On flat shapes it would be noise.
    bend = np.full(len(vertices), np.nan)
    if coherence < COHERENT or len(triangles) == 0:
        facts = ShapeFacts(*sizes, "uncertain", dimension, coherence, reflected)
        return Shape(facts, vertices, bend[nearest], None)
    problem = build_problem(edge_energy(companion, frames, team=team))
    rotations = synchronize(companion, frames, team)
    start = problem.integrate(rotations)
    before = measure_misfit(problem, rotations, start)
    result = minimise(LBFGS(_RELAX_TOL, _RELAX_STEPS), problem, start)
    after = measure_misfit(problem, result.alignments, result.coordinates)
    at_start, relaxed = before.split, after.split
    excess = relaxed.irremovable / relaxed.expected if relaxed.expected > 0.0 else 0.0
    tearing = relaxed.disagreement / at_start.disagreement if at_start.disagreement > 0.0 else 1.0
    torn = torn_share(edge_table(companion, result.coordinates)[2])
    # One orientation may fail to fit because of few doubtful frames; then the map is whole all the same.
    reflects = reflected >= REFLECTED and torn >= max(TORN_AT_LEAST, TORN_PER_INCOHERENCE * (1.0 - coherence))
    # Frames do not fit together by more than their noise, however they are rotated, if the fitted map leaves
    # more that is irremovable than noise explains; if it tore on the way, that is, the ends of edges came to
    # disagree; or if the synchronized rotations were far from fitting. Ratios of energies that hardly exist
    # say nothing: distances may be exact.
    obstructed = (
        (excess >= EXCESS and relaxed.irremovable > NEGLIGIBLE_ENERGY)
        or (tearing >= TEARING and relaxed.disagreement > NEGLIGIBLE_ENERGY)
        or at_start.irremovable >= IRREMOVABLE
    )
    # Loops around holes take a while to find: only where they decide something.
    if reflects or obstructed:
        at_start = split_misfit(before, cell_boundaries(companion, team=team))
    kind = "flat"
    if reflects and _has_loops(at_start, ONE_SIDED_LOOPS, ONE_SIDED_SHARE):
        kind = "non_orientable"
    elif obstructed and _has_loops(at_start, LOOPS, LOOPS_SHARE):
        kind = "closed"
    elif obstructed and dimension > 1:
        # A line has no curvature.
        kind = "curved"
        bend = ball_curvature(companion, frames, transitions, weights >= WEAKEST, team)
        with np.errstate(over="ignore", under="ignore"):
            bend = bend / unit / unit
    curvature = float(np.nanmedian(bend)) if np.isfinite(bend).any() else None
    facts = ShapeFacts(
        *sizes, kind, dimension, coherence, reflected, at_start, relaxed, excess, tearing, torn, curvature
    )
    return Shape(facts, vertices, bend[nearest], problem)


def _sample(graph: NeighborGraph, *, team: ThreadTeam) -> tuple[AnyArray, NeighborGraph, AnyArray]:
    """Vertices to look at (all or some), their graph, and for every vertex one of them near to it."""
    vertices = nearest = np.arange(graph.n_vertices)
    while graph.n_vertices > MOST_VERTICES:
        thinning = min(_THINNING, -(-graph.n_vertices // MOST_VERTICES))
        coarse = coarsen(graph, team=team, thinning=thinning)
        n_parts, labels = graphs.connected_components(coarse.graph)
        kept = np.flatnonzero(labels == 0)
        place = np.zeros(len(labels), dtype=np.int64)
        place[kept] = np.arange(len(kept))
        # A vertex whose nearest sampled vertex fell off with another part goes to any one: few do.
        anchor = np.where(coarse.filled > 0, coarse.anchors[:, 0], kept[0])
        nearest = place[anchor[nearest]]
        vertices = vertices[coarse.sample[kept]]
        graph = coarse.graph if n_parts == 1 else subgraph(coarse.graph, kept)
    return vertices, graph, nearest


def _has_loops(split: EnergySplit, least: float, share: float) -> bool:
    """Whether long loops fail to close: the harmonic part and its share of what is irremovable."""
    return split.loops is not None and split.loops >= max(least, share * split.irremovable)


def nearest_along(graph: NeighborGraph, width: int, *, team: ThreadTeam) -> NeighborGraph:
    """Every vertex joined to the ``width`` nearest along the graph, and by a tree that keeps it connected."""
    tree = minimum_spanning_tree(graph.to_matrix()).tocoo()
    both = zip(nearest_entries(graph, width, team=team), (tree.row, tree.col, tree.data), strict=True)
    return assemble_graph(graph.n_vertices, *(np.concatenate(parts) for parts in both), asymmetry="min")


def synchronize(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> FloatArray:
    """Rotations that agree along as many edges as possible, shape (n, N, N).

    The spectral start (eqs. 15, 16) is improved by projected power iteration, which keeps the rotations of
    whole regions and mends those of single vertices where eigenvectors are small.
    """
    shape = (graph.n_vertices, frames.n_components, frames.n_components)
    laplacian = connection_laplacian(graph, frames, team)
    _, flat = lowest_eigenvectors(laplacian, frames.n_components, rough=True)
    transport = sp.csr_array(sp.diags_array(laplacian.diagonal()) - laplacian)
    for _ in range(_POWER_SWEEPS):
        flat = transport @ _nearest_orthogonal(flat.reshape(shape)).reshape(flat.shape)
    return _nearest_orthogonal(flat.reshape(shape))


def _nearest_orthogonal(blocks: FloatArray) -> FloatArray:
    u, _, vt = np.linalg.svd(blocks)
    return np.asarray(u @ vt)


def ball_curvature(
    graph: NeighborGraph, frames: LocalFrames, transitions: FloatArray, usable: BoolArray, team: ThreadTeam
) -> FloatArray:
    """Curvature around every vertex from the holonomy of a ball, shape (n,) (eq. D8).

    Balls around some of the vertices are measured; the others take the mean of the centres next to them.
    """
    from isoweave.engines import cells as kernels

    n = graph.n_vertices
    centres = sample_vertices(graph, min(n, _CENTRES), team=team)
    size = min(n, max(_FEWEST_IN_BALL, n // _BALL_PART))
    found = np.full(len(centres), np.nan)
    arrays = (graph.indptr, graph.indices, graph.lengths, graph.sources, frames.rows, transitions, usable)
    team.run(kernels.ball_curvature, len(centres), centres, size, *arrays, found, grain=16)
    known, values = np.zeros(n), np.zeros(n)
    known[centres] = ~np.isnan(found)
    values[centres] = np.where(np.isnan(found), 0.0, found)
    links = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(n, n))
    for _ in range(_FILLING_SWEEPS):
        near, total = links @ known, links @ values
        fill = (known == 0.0) & (near > 0.0)
        values = np.where(fill, total / np.where(fill, near, 1.0), values)
        known = np.where(fill, 1.0, known)
    return np.where(known > 0.0, values, np.nan)


def orientation(
    graph: NeighborGraph, triangles: AnyArray, transitions: FloatArray, weights: FloatArray, team: ThreadTeam
) -> tuple[float, float]:
    """Coherence of the frames, and the share of joins between patches that reflect (eq. D9).

    Coherence is the share of the triangles around which frames come back unreflected; the other share is 0
    where one orientation fits all patches. A single vertex with a frame of nearly one direction (at a border,
    in a gap of the sampling) may look reflected from one side only. Patches of a few vertices, each given one
    orientation of its own, outvote such vertices; what is left between patches belongs to the shape.
    """
    n, sign = graph.n_vertices, np.sign(np.linalg.det(transitions))
    known = (weights >= WEAKEST)[triangles].all(axis=1)
    reflects = known & (sign[triangles].prod(axis=1) < 0)
    coherence = 1.0 - int(np.count_nonzero(reflects)) / max(int(np.count_nonzero(known)), 1)
    # Edges in order: in some triangle, and in none that reflects. Triangles name one direction of an edge.
    clear = np.zeros(len(graph.indices), dtype=bool)
    clear[triangles[known].ravel()] = True
    clear[triangles[reflects].ravel()] = False
    if not clear.any():
        return coherence, 0.0
    ends = graph.sources[clear], graph.indices[clear]
    signs, lengths = (sp.csr_array((v[clear], ends), shape=(n, n)) for v in (sign, graph.lengths))
    signs, lengths = sp.csr_array(signs + signs.T), sp.csr_array(lengths + lengths.T)
    taken = np.empty(0, dtype=np.int32)
    found = []
    for layout in range(1, _LAYOUTS + 1):
        sample = sample_vertices(graph, layout * max(n // _PATCH, 1), team=team)
        centres, taken = np.setdiff1d(sample, taken), sample
        found.append(_broken_share(_joins(signs, *_patches(lengths, signs, centres))))
    return coherence, float(np.median(found))


def _pass_on(side: FloatArray, order: AnyArray, before: AnyArray, signs: sp.csr_array) -> None:
    """Sides of vertices in an order, each that of the vertex before it times the sign between the two."""
    # SciPy has its own ideas of no entries at all.
    along = np.sign(np.asarray(signs[before[order], order]).ravel()) if len(order) else np.empty(0)
    for v, s in zip(order, along, strict=True):
        side[v] = s * side[before[v]]


def _patches(lengths: sp.csr_array, signs: sp.csr_array, centres: AnyArray) -> tuple[AnyArray, FloatArray]:
    """Patch of every vertex (-1 for none) and its side (+1, -1; 0 for none) within the patch."""
    n = signs.shape[0]
    distance, before, source = dijkstra(lengths, indices=centres, min_only=True, return_predecessors=True)
    # As small as SciPy's searches of graphs want them, 1.12 at least.
    number = np.full(n, -1, dtype=np.int32)
    number[centres] = np.arange(len(centres))
    reached = np.isfinite(distance)
    owner = np.where(reached, number[np.where(reached, source, 0)], -1)
    side = np.zeros(n)
    side[centres] = 1.0
    order = np.argsort(distance, kind="stable")
    _pass_on(side, order[reached[order] & (before[order] >= 0)], before, signs)
    # Then by the majority of the neighbours within the patch.
    ends = signs.tocoo()
    within = owner[ends.row] == owner[ends.col]
    votes = sp.csr_array((ends.data[within], (ends.row[within], ends.col[within])), shape=(n, n))
    for _ in range(_VOTES):
        total = votes @ side
        side = np.where(total == 0.0, side, np.sign(total))
    return owner, side


def _joins(signs: sp.csr_array, owner: AnyArray, side: FloatArray) -> sp.csr_array:
    """Sum of the signs between the sides of neighbouring patches, where they have a clear majority."""
    ends = signs.tocoo()
    between = (owner[ends.row] != owner[ends.col]) & (owner[ends.row] >= 0) & (owner[ends.col] >= 0)
    rows, columns = ends.row[between], ends.col[between]
    at, shape = (owner[rows], owner[columns]), (int(owner.max()) + 1,) * 2
    # Both have the same entries, zeros included.
    total = sp.csr_array((ends.data[between] * side[rows] * side[columns], at), shape=shape).tocoo()
    count = sp.csr_array((np.ones(len(rows)), at), shape=shape).data
    kept = (count >= _FEWEST_JOINS) & (np.abs(total.data) >= _MAJORITY * count)
    return sp.csr_array((total.data[kept], (total.row[kept], total.col[kept])), shape=shape)


def _broken_share(joins: sp.csr_array) -> float:
    """Least weight of joins whose sign no choice of sides keeps, over the weight of all, as found."""
    ends = joins.tocoo()
    whole = float(np.abs(ends.data).sum())
    if whole == 0.0:
        return 0.0
    # Sides passed along the strongest joins, and sides that agree best in the mean: one wrong join misleads
    # the first, a long thin shape the second.
    weakness = sp.csr_array((1.0 / np.abs(ends.data), (ends.row, ends.col)), shape=joins.shape)
    tree = sp.csr_array(minimum_spanning_tree(weakness))
    signed = sp.csr_array(sp.diags_array(np.abs(joins).sum(axis=1)) - joins)
    least = np.inf
    for start in (_sides(sp.csr_array(tree + tree.T), joins), lowest_eigenvectors(signed, 1)[1][:, 0]):
        side = np.where(start < 0.0, -1.0, 1.0)
        for _ in range(_VOTES):
            broken = ends.data * side[ends.row] * side[ends.col] < 0.0
            least = min(least, float(np.abs(ends.data[broken]).sum()) / whole)
            votes = joins @ side
            side = np.where(votes == 0.0, side, np.sign(votes))
    return least


def _sides(forest: sp.csr_array, signs: sp.csr_array) -> FloatArray:
    """One of +1 and -1 for every vertex, so that the signs along the edges of a forest are kept."""
    side = np.ones(forest.shape[0])
    _, labels = connected_components(forest, directed=False)
    for root in np.unique(labels, return_index=True)[1]:
        order, before = breadth_first_order(forest, root, directed=False)
        _pass_on(side, order[1:], before, signs)
    return side
