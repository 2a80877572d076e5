"""Where the optimiser begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray, IntArray
from isoweave.energy import edge_inner_product
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, geodesic_neighbors
from isoweave.optimise._coarse import coarsen, prolong
from isoweave.optimise._landmark import farthest_landmarks, landmark_start
from isoweave.optimise._lbfgs import minimize_energy
from isoweave.optimise._problem import AlignmentProblem, build_problem
from isoweave.optimise._records import restore_solver, solver_values
from isoweave.optimise._run import ALONE, Record, Run
from isoweave.optimise._state import IterationResult
from isoweave.optimise._synchronize import synchronized_alignments

N_LANDMARKS = 50
# The companion graph of the synchronised start: frames must overlap well, whatever the graph's own degree.
_FEWEST_COMPANIONS = 20
_MOST_COMPANIONS = 40
# "auto" tries the synchronised start up to this many unknowns (n N) and dimensions: it factors a matrix of
# that order with N x N blocks, which beyond costs more than all the rest. Larger graphs go through a coarser
# one.
SYNCHRONISED_LIMIT = 6_000
LOW_DIMENSION = 3
# The landmark start wins unless the other has clearly less energy: on surfaces that cannot be flattened, near
# ties go with much worse global distances (flat tori: Pearson .69 against .91 at 15 % less energy). Where
# landmarks really fail, on outlines that paths must walk around, the energies differ by factors of 1.4 to 8.
CLEARLY_LESS = 0.75
_COARSE_MAX_ITER = 100
# Statuses of an iteration that was not left to come to its end.
ENDED_EARLY = ("stopped", "interrupted")
# Graphs of geodesic neighbours are denser than kNN graphs; frames need not be as many times their degree.
_SAMPLE_FRAME = 1.5


def optimise_from(
    problem: AlignmentProblem,
    start: str,
    optimise: Callable[[FloatArray, Run], IterationResult],
    *,
    tol: float,
    run: Run = ALONE,
) -> tuple[str, IterationResult]:
    """Run an optimiser from a named start; return the start that won and where it led.

    Parameters
    ----------
    problem : AlignmentProblem
    start : {"auto", "landmark", "synchronised", "coarse", "identity"}
        "auto": the landmark start; in up to three dimensions also the synchronised one, which is taken if it
        ends with less than 0.75 of the energy; where that would be costly (n N > 6,000), the coarse start
        instead, which does the same on a sample of the vertices.
    optimise : callable
        From coordinates (n, N) and their part of the run to an :class:`IterationResult`.
    tol : float
        Tolerance of the auxiliary problems.
    run : Run
        What it belongs to; every start has a place of its own there.
    """
    graph, n_components, team = problem.graph, problem.n_components, problem.team

    def identity() -> FloatArray:
        eye = np.broadcast_to(np.eye(n_components), (graph.n_vertices, n_components, n_components))
        return problem.integrate(eye)

    def landmark() -> FloatArray:
        return find_landmarks(graph, n_components, team=team).start

    def synchronised() -> FloatArray:
        return synchronized_start(
            graph, n_components, team=team, tol=tol, run=run.within("synchronised").within("companion")
        )

    def attempt(name: str, make: Callable[[], FloatArray]) -> IterationResult:
        here = run.within(name)
        coordinates = _start(problem, f"{name} start", make, here)
        assert coordinates is not None
        return optimise(coordinates, here)

    if start == "identity":
        return start, attempt(start, identity)
    if start == "synchronised":
        return start, attempt(start, synchronised)
    low = n_components <= LOW_DIMENSION
    large = graph.n_vertices * n_components > SYNCHRONISED_LIMIT
    if start == "coarse" or (start == "auto" and low and large):
        here = run.within("coarse")
        coordinates = _start(
            problem,
            "coarse start",
            lambda: coarse_start(graph, n_components, team=team, tol=tol, run=here),
            here,
        )
        if coordinates is not None:
            return "coarse", optimise(coordinates, here)
    best = attempt("landmark", landmark)
    exact = best.energy <= 1e-12 * problem.mass
    if start != "auto" or not low or large or exact or best.status in ENDED_EARLY:
        return "landmark", best
    other = attempt("synchronised", synchronised)
    if other.energy < CLEARLY_LESS * best.energy:
        return "synchronised", other
    # The other might have become the better one.
    return "landmark", replace(best, status=other.status) if other.status in ENDED_EARLY else best


def _start(
    problem: AlignmentProblem, name: str, make: Callable[[], FloatArray | None], run: Run
) -> FloatArray | None:
    """Coordinates to start from, as they were kept or new ones."""
    stored = run.load("start")
    if stored is not None:
        restore_solver(problem.poisson, stored)
        return stored.array("coordinates", (problem.graph.n_vertices, problem.n_components))
    if run.has("state"):
        # The iteration has left its start behind.
        return np.zeros((problem.graph.n_vertices, problem.n_components))
    run.stage(name)
    coordinates = make()
    if coordinates is not None:
        run.forget()
        record = Record(solver_values(problem.poisson), {"coordinates": coordinates})
        run.keep("start", lambda: record)
    return coordinates


def coarse_start(
    graph: NeighborGraph, n_components: int, *, team: ThreadTeam, tol: float, run: Run = ALONE
) -> FloatArray | None:
    """Embed a sample of the vertices with its geodesics, and place the others around it, shape (n, N).

    The sample is embedded from its own "auto" start, hence through a sample of the sample if it is large
    itself. None where the sample falls apart.
    """
    level = coarsen(graph, team=team)
    if level.graph.n_vertices <= n_components + 1 or not level.is_connected():
        return None
    raw = local_frames(level.graph, n_components, team=team, frame_size=_SAMPLE_FRAME)
    frames = calibrate_frames(level.graph, raw, "rows")
    problem = build_problem(level.graph, frames, edge_inner_product(level.graph, frames), team=team)

    def optimise(start: FloatArray, here: Run) -> IterationResult:
        return minimize_energy(
            problem, start, tol=tol, max_iter=_COARSE_MAX_ITER, stage="coarse start", run=here
        )

    _, result = optimise_from(problem, "auto", optimise, tol=tol, run=run)
    return prolong(graph, level, result.coordinates, team=team)


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Far-apart vertices with the distances from each to all, and the start they give."""

    vertices: IntArray
    distances: FloatArray
    start: FloatArray


def find_landmarks(graph: NeighborGraph, n_components: int, *, team: ThreadTeam | None = None) -> Landmarks:
    """Landmark start of a connected graph (eq. 13)."""
    vertices, distances = farthest_landmarks(graph, max(N_LANDMARKS, 2 * n_components + 2), team=team)
    return Landmarks(vertices, distances, landmark_start(vertices, distances, n_components))


def synchronized_start(
    graph: NeighborGraph, n_components: int, *, team: ThreadTeam, tol: float, run: Run = ALONE
) -> FloatArray:
    """Synchronised start of a connected graph, shape (n, N) (eqs. 14 to 16).

    Rotations are synchronised and integrated on a denser companion graph (every vertex joined to its
    geodesically nearest ones), and the result is brought to that graph's minimum. Right on flat data of any
    outline, where landmarks fail: a landmark start bends whatever shortest paths have to walk around.
    """
    typical = int(np.percentile(graph.degrees, 25))
    width = max(_FEWEST_COMPANIONS, min(2 * typical, _MOST_COMPANIONS), 2 * n_components)
    companion = geodesic_neighbors(graph, width, team=team)
    frames = calibrate_frames(
        companion, local_frames(companion, n_components, team=team, frame_size=_SAMPLE_FRAME), "rows"
    )
    inner = edge_inner_product(companion, frames)
    problem = build_problem(companion, frames, inner, team=team, solver="auto")
    start = _start(
        problem,
        "synchronised rotations",
        lambda: problem.integrate(synchronized_alignments(companion, frames, team)),
        run,
    )
    assert start is not None
    return minimize_energy(
        problem, start, tol=tol, max_iter=100, stage="synchronised start", run=run
    ).coordinates
