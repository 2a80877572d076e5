"""Where the optimiser begins, and which of several beginnings wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.energy import EdgeEnergy, edge_energy
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, typical_degree
from isoweave.graph import NeighborGraph, assemble_graph, join_along, sums_of_lengths
from isoweave.linalg import lowest_eigenvectors
from isoweave.optimise._blocks import Blocks, farthest_first, geodesic_tables
from isoweave.optimise._lifted import is_trusted, lifted
from isoweave.optimise._optimisers import LBFGS, Optimiser, keep_start, minimise, restore_solver
from isoweave.optimise._problem import Problem, build_problem, check_finite
from isoweave.optimise._rotations import frame_transitions, rotations_agree
from isoweave.optimise._run import ALONE, IterationResult, Run, StepRecord

N_LANDMARKS = 50
# The companion graph of the synchronized start: frames must overlap well, whatever the graph's own degree.
_FEWEST_COMPANIONS = 20
_MOST_COMPANIONS = 40
# From this degree on (lower quartile) the companion has fewer edges than the graph: with all of them, frames
# and factor would cost the cube of the degree, minutes for 600 vertices of degree 180.
DENSE_DEGREE = 80
# "auto" tries the synchronized start up to this many unknowns (n N) and dimensions: beyond, its factor costs
# more than all the rest, and graphs go through a coarser one.
SYNCHRONIZED_LIMIT = 6_000
LOW_DIMENSION = 3
# On surfaces that cannot be flattened near ties go with much worse global distances (flat tori: Pearson .69
# against .91 at 15 % less energy); where landmarks really fail, energies differ by factors of 1.4 to 8.
CLEARLY_LESS = 0.75
# Part of its own size by which every neighbourhood misfits at most, and of its mean width that its narrowest
# direction has at least, where no other start is tried. Where another one won, some neighbourhood misfitted
# by .25 or was narrower: folded over, a strip misfits little (benchmarks/second_start.py).
_MISFIT, _NARROW = 0.125, 0.1
_AUXILIARY_STEPS = 100
# Statuses of an iteration that was ended from outside: nothing is built on it.
ENDED_EARLY = ("stopped", "interrupted")
# Graphs of geodesic neighbours are denser than kNN graphs; frames need not be as many times their degree.
SAMPLE_FRAME = 1.5
# One vertex in this many is sampled: paths between its neighbours stay so short that they hardly zig-zag.
THINNING = 8
# Neighbours of a sampled vertex in the sample's graph, and anchors by which the other vertices are placed.
_SAMPLE_NEIGHBORS = 14
_ANCHORS = 8
_BALL_SLACK = 3
_FEWEST_BALLS, _BALLS_OF_A_THREAD = 8192, 2048  # at once
_SMOOTHING_SWEEPS = 5


def minimise_from(
    problem: Any,
    optimiser: Optimiser,
    start: str,
    tol: float,
    stage: str = "optimise",
    run: Run = ALONE,
    starts: Mapping[str, Callable[[Any, float, Run], Any]] | None = None,
) -> tuple[str, IterationResult]:
    """Minimise from a named start; return the start that won and where it led.

    "auto" is the landmark start; in up to three dimensions also the synchronized one, which is taken if it
    ends with less than 0.75 of the energy, and not tried where all neighbourhoods fit, or the rotations of up
    to 50 vertices agree; where it would be costly (n N > 6,000), the coarse start instead, which does the
    same on a sample of the vertices. ``tol`` is that of the auxiliary problems. A lifted start that nearly
    meets the distances is the map itself. ``starts`` are those of another engine.
    """
    n, n_components = problem.graph.n_vertices, problem.shape[1]

    def attempt(name: str) -> Any:
        here = run.within(name)
        x = _start(problem, f"{name} start", lambda: (starts or _STARTS)[name](problem, tol, here), here)
        if x is None:
            return None
        run.stage(stage)
        if name == "lifted" and is_trusted(problem.graph, x):
            return _as_it_is(problem, x)
        return minimise(optimiser, problem, x, stage=stage, run=here)

    low, large = n_components <= LOW_DIMENSION, n * n_components > SYNCHRONIZED_LIMIT
    large |= "synchronized" not in (starts or _STARTS)
    if start in ("identity", "synchronized", "lifted"):
        return start, attempt(start)
    if start == "coarse" or (start == "auto" and low and large):
        found = attempt("coarse")
        if found is not None:
            return "coarse", found
    best = attempt("landmark")
    exact = best.energy <= 1e-12 * problem.mass
    if start != "auto" or not low or large or exact or best.status in ENDED_EARLY:
        return "landmark", best
    # Of few vertices rotations agree more often than all neighbourhoods fit; of many rarely all of them.
    is_small = n <= N_LANDMARKS
    if is_small and rotations_agree(problem.frames, best.alignments):
        return "landmark", best
    if not is_small and fits_everywhere(problem, best.coordinates):
        return "landmark", best
    other = attempt("synchronized")
    if other.energy < CLEARLY_LESS * best.energy:
        return "synchronized", other
    # The other might have become the better one.
    return "landmark", replace(best, status=other.status) if other.status in ENDED_EARLY else best


def fits_everywhere(problem: Problem, x: FloatArray) -> bool:
    """Whether no neighbourhood is far from its frame in this map, nor so narrow that a fold hardly shows."""
    here, collapsed = (problem.evaluate(place).energies for place in (x, np.zeros_like(x)))
    sizes = problem.frames.frames.spectrum[:, : problem.shape[1]]
    is_wide = sizes.min(axis=1) >= _NARROW * sizes.mean(axis=1)
    return bool(is_wide.all() and (here <= _MISFIT * collapsed).all())


def _start(problem: Problem, name: str, make: Callable[[], FloatArray | None], run: Run) -> Any:
    """Coordinates to start from, as they were kept or new ones."""
    stored = run.load("start")
    if stored is not None:
        restore_solver(problem, stored)
        return stored.array("coordinates", problem.shape)
    if run.load("state") is not None:
        # The iteration has left its start behind.
        return np.zeros(problem.shape)
    run.stage(name)
    x = make()
    if x is not None:
        keep_start(problem, x, run)
    return x


def _identity(problem: Problem, tol: float, run: Run) -> FloatArray:
    n, n_components = problem.shape
    return problem.integrate(np.broadcast_to(np.eye(n_components), (n, n_components, n_components)))


def _lifted(problem: Problem, tol: float, run: Run) -> FloatArray:
    graph, team = problem.graph, problem.frames.team
    return lifted(
        graph, problem.shape[1], lambda width: find_landmarks(graph, width, team=team).start, team, run
    )


def _as_it_is(problem: Problem, x: FloatArray) -> IterationResult:
    x = problem.settle(x)
    here = problem.evaluate(x)
    return IterationResult(
        x, here.alignments, here.energy, (StepRecord(0, here.energy, 0.0, 0.0),), "converged"
    )


def _coarse(problem: Problem, tol: float, run: Run) -> FloatArray | None:
    """A sample embedded with its geodesics, the others placed around it; None if the sample falls apart."""
    graph, n_components, team = problem.graph, problem.shape[1], problem.frames.team
    level = coarsen(graph, team=team)
    if level.graph.n_vertices <= n_components + 1 or not level.graph.is_connected:
        return None
    sample = build_problem(sample_energy(level.graph, n_components, team=team))
    optimiser = LBFGS(tol, _AUXILIARY_STEPS)
    # From its own "auto" start, hence through a sample of the sample if it is large itself.
    _, result = minimise_from(sample, optimiser, "auto", tol, "coarse start", run.aside())
    return prolong(graph, level, result.coordinates, team=team)


def _synchronized(problem: Problem, tol: float, run: Run) -> FloatArray:
    """Rotations synchronized and integrated on a denser companion graph, then its minimum (eqs. 14 to 16)."""
    # Right on flat data of any outline: landmarks bend whatever shortest paths have to walk around.
    graph, n_components, team = problem.graph, problem.shape[1], problem.frames.team
    width, thinned = companion_width(typical_degree(graph.degrees), n_components)
    companion = join_along(graph, width, thinned=thinned, team=team)
    check_finite("start 'synchronized'", "distances along the graph", companion.lengths)
    energy = sample_energy(companion, n_components, team=team)
    dense, here = build_problem(energy), run.aside("companion")

    def integrated() -> FloatArray:
        return dense.integrate(synchronized_alignments(companion, energy.frames, team))

    x = _start(dense, "synchronized rotations", integrated, here)
    return minimise(LBFGS(tol, _AUXILIARY_STEPS), dense, x, stage="synchronized start", run=here).coordinates


def companion_width(typical: float, n_components: int) -> tuple[int, bool]:
    """Neighbours of every vertex in the companion graph, and whether it leaves out edges of the graph.

    ``typical`` is the graph's :func:`isoweave.geometry.typical_degree`.
    """
    typical = int(typical)
    width = max(_FEWEST_COMPANIONS, min(2 * typical, _MOST_COMPANIONS), 2 * n_components)
    return width, typical > DENSE_DEGREE


_STARTS: dict[str, Callable[[Problem, float, Run], FloatArray | None]] = {
    "identity": _identity,
    "landmark": lambda problem, tol, run: (
        find_landmarks(problem.graph, problem.shape[1], team=problem.frames.team).start
    ),
    "coarse": _coarse,
    "synchronized": _synchronized,
    "lifted": _lifted,
}


def sample_energy(
    graph: NeighborGraph, n_components: int, *, team: ThreadTeam, starts: AnyArray | None = None
) -> EdgeEnergy:
    """Energy of a graph of geodesic neighbours: calibrated frames, equal weights."""
    raw = local_frames(graph, n_components, team=team, frame_size=SAMPLE_FRAME, starts=starts)
    return edge_energy(graph, calibrate_frames(graph, raw, "rows", team=team), team=team, starts=starts)


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Far-apart vertices (l,) with the distances from each to all (l, n), and the start they give (n, N)."""

    vertices: IntArray
    distances: FloatArray
    start: FloatArray


def find_landmarks(graph: NeighborGraph, n_components: int, *, team: ThreadTeam = ONE_THREAD) -> Landmarks:
    """Landmark start of a connected graph: classical scaling of a few, the others triangulated (eq. 13)."""
    vertices, distances = farthest_landmarks(graph, max(N_LANDMARKS, 2 * n_components + 2), team=team)
    return Landmarks(vertices, distances, landmark_start(vertices, distances, n_components))


def farthest_landmarks(
    graph: NeighborGraph, n_landmarks: int, *, team: ThreadTeam = ONE_THREAD
) -> tuple[IntArray, FloatArray]:
    """Vertices far from each other, shape (l,), and the shortest paths from them to all, shape (l, n).

    The first is farthest from the most crowded vertex (by the mean length of its edges), a property of the
    graph and not of its numbering; each next one is farthest from those before.
    """
    if graph.lengths.min() == 0.0:
        raise ValueError("Landmarks need positive lengths: merge duplicates first.")
    if n_landmarks >= graph.n_vertices:
        blocks = Blocks(np.array([0, graph.n_vertices]))
        ((_, landmarks, distances),) = all_landmarks(graph, blocks, team)
        return landmarks[0], distances[0]
    matrix, distances = graph.to_matrix(), np.empty((n_landmarks, graph.n_vertices))

    def away(a: int, at: AnyArray) -> FloatArray:
        distances[a] = dijkstra(matrix, directed=True, indices=at[0])
        return distances[a : a + 1]

    nearest = dijkstra(matrix, directed=True, indices=[np.argmin(crowding(graph, team))])
    return farthest_first(nearest, away, n_landmarks)[0], distances


def all_landmarks(
    graph: NeighborGraph, blocks: Blocks, team: ThreadTeam
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """The same with every vertex: which components of equal size, their (k, n) and their (k, n, n)."""
    mean_lengths = crowding(graph, team)
    for (which, lo, hi, n), table in zip(blocks.runs, geodesic_tables(graph, blocks), strict=True):

        def away(a: int, at: AnyArray, table: FloatArray = table) -> FloatArray:
            return table[np.arange(len(at)), at]

        crowded = np.argmin(mean_lengths[lo:hi].reshape(-1, n), axis=1)
        landmarks = farthest_first(away(0, crowded), away, n)
        yield which, landmarks, np.take_along_axis(table, landmarks[:, :, None], axis=1)


def crowding(graph: NeighborGraph, team: ThreadTeam) -> FloatArray:
    """Mean length of the edges of every vertex, infinite without any."""
    means = sums_of_lengths(graph, team) / np.maximum(graph.degrees, 1)
    return np.where(graph.degrees > 0, means, np.inf)


def landmark_start(landmarks: IntArray, distances: FloatArray, n_components: int) -> FloatArray:
    """Coordinates (n, N) from distances to the landmarks, or stacks; zero where no eigenvalue is positive."""
    between = np.take_along_axis(distances, landmarks[..., None, :], axis=-1)
    means, projector = landmark_projector(between, n_components)
    return -0.5 * (distances**2 - means[..., :, None]).swapaxes(-1, -2) @ projector


def landmark_projector(between: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """What squared distances to the landmarks (l,) are compared with, and multiplied by (l, N), in stacks."""
    squared = between**2
    squared = 0.5 * (squared + squared.swapaxes(-1, -2))
    means = squared.mean(axis=-1)
    overall = means.mean(axis=-1)[..., None, None]
    gram = -0.5 * (squared - means[..., :, None] - means[..., None, :] + overall)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[..., ::-1][..., :n_components], vectors[..., ::-1][..., :n_components]
    keep = values > 1e-12 * np.maximum(values[..., :1], 0.0)
    scales = np.where(keep, 1.0 / np.sqrt(np.where(keep, values, 1.0)), 0.0)
    projector = np.zeros((*means.shape, n_components))
    projector[..., : values.shape[-1]] = vectors * scales[..., None, :]
    return means, projector


def connection_laplacian(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> sp.csr_array:
    """Quadratic form ``sum_ij w_ij |Q_i - O_ij Q_j|^2`` as a sparse matrix of shape (n N, n N) (eq. 15).

    Its kernel has dimension N exactly when the transitions O_ij agree around every loop, as on flat data.
    """
    n, n_components = graph.n_vertices, frames.n_components
    entries, degree = _connection(graph, frames, team)
    off = sp.bsr_array((entries, graph.indices, graph.indptr), shape=(n * n_components, n * n_components))
    return sp.csr_array(sp.csr_array(off) + sp.diags_array(np.repeat(degree, n_components)))


def _connection(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> tuple[FloatArray, FloatArray]:
    """The blocks of that matrix at the edges, shape (m, N, N), and its diagonal, shape (n,)."""
    transitions, weights = frame_transitions(graph, frames, team)
    # Frames of hubs hold only some of their neighbours, so the two directions may see different overlaps.
    weights = 0.5 * (weights + weights[graph.reverse])
    agreed = 0.5 * (transitions + transitions[graph.reverse].transpose(0, 2, 1))
    degree: AnyArray = np.bincount(graph.sources, weights=weights, minlength=graph.n_vertices)
    return -weights[:, None, None] * agreed, degree


def synchronized_alignments(
    graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam, blocks: Blocks | None = None
) -> FloatArray:
    """Orthogonal Q_i that agree along as many edges as possible, shape (n, N, N) (eq. 16).

    Each vertex's block of the connection Laplacian's eigenvectors is projected to O(N) on its own. LAPACK
    computes those of small graphs or components: the set-up of anything else takes longer.
    """
    n, n_components = graph.n_vertices, frames.n_components
    if blocks is None and n > N_LANDMARKS:
        vectors = lowest_eigenvectors(connection_laplacian(graph, frames, team), n_components)[1]
    else:
        entries, degree = _connection(graph, frames, team)
        vectors = np.empty((n, n_components, n_components))
        for _, lo, hi, size in (blocks or Blocks(np.array([0, n]))).runs:
            edges, width = slice(graph.indptr[lo], graph.indptr[hi]), size * n_components
            dense = np.zeros((hi - lo, n_components, size, n_components))
            dense[graph.sources[edges] - lo, :, (graph.indices[edges] - lo) % size] = entries[edges]
            for k in range(n_components):
                dense[np.arange(hi - lo), k, np.arange(hi - lo) % size, k] = degree[lo:hi]
            found = np.linalg.eigh(dense.reshape(-1, width, width))[1][..., :n_components]
            vectors[lo:hi] = found.reshape(-1, n_components, n_components)
    u, _, vt = np.linalg.svd(vectors.reshape(n, n_components, n_components))
    return u @ vt


@dataclass(frozen=True, eq=False)
class CoarseLevel:
    """A sample of the vertices, shape (s,), and its graph: the nearest sampled ones at geodesic distances.

    ``anchors`` and ``distances``, shape (n, a), are the nearest sampled vertices (numbered within the sample)
    of every vertex, nearest first, and how far they are; ``filled``, shape (n,), how many there are.
    """

    sample: IntArray
    graph: NeighborGraph
    anchors: IntArray
    distances: FloatArray
    filled: IntArray


def coarsen(graph: NeighborGraph, *, team: ThreadTeam, thinning: int = THINNING) -> CoarseLevel:
    """Sample a connected graph and measure geodesics around the sample."""
    from isoweave.engines import coarse as kernels

    n = graph.n_vertices
    sample = sample_vertices(graph, max(n // thinning, 2), team=team)
    n_sample = len(sample)
    number = np.full(n, -1, dtype=np.int32)
    number[sample] = np.arange(n_sample, dtype=np.int32)
    is_sample = (number >= 0).astype(np.int32)
    anchors, nearest = np.empty((n, _ANCHORS), dtype=np.int32), np.empty((n, _ANCHORS))
    filled = np.zeros(n, dtype=np.int32)
    width = min(n, _BALL_SLACK * _SAMPLE_NEIGHBORS * thinning)
    edges: list[tuple[FloatArray, AnyArray, AnyArray]] = []
    at_once = max(_FEWEST_BALLS, _BALLS_OF_A_THREAD * team.n_threads)
    for lo in range(0, n_sample, at_once):
        centres = sample[lo : lo + at_once]
        shape = (len(centres), width)
        members, distances = np.empty(shape, dtype=np.int32), np.empty(shape)
        counts = np.empty(len(centres), dtype=np.int64)
        others = np.empty((len(centres), _SAMPLE_NEIGHBORS), dtype=np.int32)
        arrays = (centres, is_sample, _SAMPLE_NEIGHBORS, graph.indptr, graph.indices, graph.lengths)
        # Every range has scratch as long as the graph.
        grain = max(32, -(-len(centres) // (2 * team.n_threads)))
        balls = (members, distances, counts)
        team.run(kernels.sample_balls, len(centres), *arrays, *balls, others, grain=grain)
        # Every range looks at all balls.
        lists, each = (members, distances, anchors, nearest, filled), -(-n // team.n_threads)
        team.run(kernels.keep_nearest, n, lo, counts, *lists, grain=each)
        ball, position = np.nonzero(others >= 0)
        at = ball, others[ball, position]
        edges.append((distances[at], lo + ball, number[members[at]]))
    lengths, rows, columns = (np.concatenate(parts) for parts in zip(*edges, strict=True))
    # The two balls of a pair measure the same path, up to the last bit.
    near = assemble_graph(n_sample, rows, columns, lengths, asymmetry="min", rtol=1e-6, team=team)
    return CoarseLevel(sample, near, anchors, nearest, filled)


def prolong(graph: NeighborGraph, level: CoarseLevel, places: FloatArray, *, team: ThreadTeam) -> FloatArray:
    """Coordinates of all vertices, shape (n, N), from those of the sample, shape (s, N).

    Every vertex is triangulated from its nearest anchors, and the noise of that is averaged away: left in,
    it would fold neighbourhoods over, and folds are local minima of the energy.
    """
    from isoweave.engines import coarse as kernels

    n = graph.n_vertices
    x, around = np.zeros((2, n, places.shape[1]))
    arrays = (level.filled, level.anchors, level.distances, np.ascontiguousarray(places))
    team.run(kernels.triangulate, n, *arrays, x)
    missing = level.filled == 0
    if missing.any():
        # Off the beaten track: the place of the nearest vertex that has one.
        _, _, nearest = dijkstra(
            graph.to_matrix(), indices=np.flatnonzero(~missing), min_only=True, return_predecessors=True
        )
        x[missing] = x[nearest[missing]]
    for _ in range(_SMOOTHING_SWEEPS):
        team.run(kernels.smooth_around, n, graph.indptr, graph.indices, x, around)
        x, around = around, x
    return x


def sample_vertices(graph: NeighborGraph, size: int, *, team: ThreadTeam) -> IntArray:
    """A sample spread like the vertices themselves that does not depend on their numbering.

    Vertices are ranked by a scramble of the lengths around them, which all numberings share. Where lengths
    are all alike (grids) the ranks tie, and a random order decides.
    """
    sums = sums_of_lengths(graph, team)
    scramble = np.modf(sums / np.median(sums) * (1e6 * np.sqrt(2.0)))[0]
    last = np.partition(scramble, size - 1)[size - 1]
    chosen, tied = np.flatnonzero(scramble < last), np.flatnonzero(scramble == last)
    if len(chosen) + len(tied) > size:
        ties = np.random.default_rng(11).permutation(graph.n_vertices)
        tied = tied[np.argsort(ties[tied])[: size - len(chosen)]]
    return np.sort(np.concatenate((chosen, tied))).astype(np.int32)
