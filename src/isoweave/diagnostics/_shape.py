"""What kind of shape a connected graph is: flat, curved, closed, one-sided."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.diagnostics._hodge import cell_boundaries, list_triangles, measure_misfit, split_misfit
from isoweave.diagnostics._local import edge_table, torn_share
from isoweave.diagnostics._result import EnergySplit, ShapeFacts
from isoweave.diagnostics._transport import WEAKEST, ball_curvature, nearest_along, orientation, synchronize
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, connected_components, subgraph
from isoweave.optimise import LBFGS, Problem, build_problem, coarsen, frame_transitions, minimise

# Smaller components have no shape worth the name.
FEWEST_VERTICES = 50
# Larger ones are seen through a sample, joined by geodesics.
MOST_VERTICES = 2000
_THINNING = 8
# Neighbours in the graph that frames are carried over, and members of its frames per neighbour.
WIDTH = 16
_FRAME = 1.5
_RELAX_TOL = 0.03
_RELAX_STEPS = 60

# Thresholds; docs/diagnose.md has what they were chosen on and what they were checked on.
COHERENT = 0.93
REFLECTED = 0.003
TORN_AT_LEAST = 0.003
TORN_PER_INCOHERENCE = 3.0
EXCESS = 1.2
TEARING = 1.6
IRREMOVABLE = 0.25
NEGLIGIBLE_ENERGY = 1e-4
LOOPS = 0.05
LOOPS_SHARE = 0.6
ONE_SIDED_LOOPS = 0.01
ONE_SIDED_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class Shape:
    """Facts about a component, and where the examination of its map continues."""

    facts: ShapeFacts
    vertices: AnyArray  # those of the component that were looked at
    curvature: FloatArray  # of every vertex of the component
    problem: Problem | None  # of the graph of these that frames were carried over; None if incoherent


def find_shape(
    graph: NeighborGraph, dimension: int, component: int, unit: float, *, team: ThreadTeam
) -> Shape:
    """Carry frames around the loops of a connected graph, and judge what shape it has.

    ``unit`` is that of the graph's lengths; curvature is given in the unit of the input.
    """
    vertices, sampled, nearest = _sample(graph, team=team)
    companion = nearest_along(sampled, max(WIDTH, 2 * dimension), team=team)
    raw = local_frames(companion, dimension, team=team, frame_size=_FRAME)
    frames = calibrate_frames(companion, raw, "rows")
    transitions, weights = frame_transitions(companion, frames, team)
    weights = np.minimum(weights, weights[companion.reverse])
    triangles = list_triangles(companion, team=team)
    coherence, reflected = orientation(companion, triangles, transitions, weights, team=team)
    sizes = (component, graph.n_vertices, len(vertices))
    facts = ShapeFacts(*sizes, "uncertain", dimension, coherence, reflected)
    # On flat shapes it would be noise.
    bend = np.full(len(vertices), np.nan)
    if coherence < COHERENT or len(triangles) == 0:
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
    facts = replace(
        facts,
        kind=kind,
        synchronized=at_start,
        relaxed=relaxed,
        excess=excess,
        tearing=tearing,
        torn=torn,
        curvature=float(np.nanmedian(bend)) if np.isfinite(bend).any() else None,
    )
    return Shape(facts, vertices, bend[nearest], problem)


def _sample(graph: NeighborGraph, *, team: ThreadTeam) -> tuple[AnyArray, NeighborGraph, AnyArray]:
    """Vertices to look at (all or some), their graph, and for every vertex one of them near to it."""
    vertices = nearest = np.arange(graph.n_vertices)
    while graph.n_vertices > MOST_VERTICES:
        thinning = min(_THINNING, -(-graph.n_vertices // MOST_VERTICES))
        coarse = coarsen(graph, team=team, thinning=thinning)
        n_parts, labels = connected_components(coarse.graph)
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
