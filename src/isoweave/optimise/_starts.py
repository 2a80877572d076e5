"""Where the optimiser begins, and which of several beginnings wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.energy import EdgeEnergy, edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, geodesic_neighbors
from isoweave.optimise._coarse import coarsen, prolong
from isoweave.optimise._driver import Optimiser, keep_start, minimise, restore_solver
from isoweave.optimise._landmark import find_landmarks
from isoweave.optimise._lbfgs import LBFGS
from isoweave.optimise._problem import Problem, build_problem
from isoweave.optimise._run import ALONE, Run
from isoweave.optimise._state import IterationResult
from isoweave.optimise._synchronize import synchronized_alignments

# The companion graph of the synchronized start: frames must overlap well, whatever the graph's own degree.
_FEWEST_COMPANIONS = 20
_MOST_COMPANIONS = 40
# "auto" tries the synchronized start up to this many unknowns (n N) and dimensions: it factors a matrix of
# that order with N x N blocks, which beyond costs more than all the rest. Larger graphs go through a coarser
# one.
SYNCHRONIZED_LIMIT = 6_000
LOW_DIMENSION = 3
# The landmark start wins unless the other has clearly less energy: on surfaces that cannot be flattened, near
# ties go with much worse global distances (flat tori: Pearson .69 against .91 at 15 % less energy). Where
# landmarks really fail, on outlines that paths must walk around, the energies differ by factors of 1.4 to 8.
CLEARLY_LESS = 0.75
_AUXILIARY_STEPS = 100
# Statuses of an iteration that was ended from outside: nothing is built on it.
ENDED_EARLY = ("stopped", "interrupted")
# Graphs of geodesic neighbours are denser than kNN graphs; frames need not be as many times their degree.
_SAMPLE_FRAME = 1.5


@dataclass(frozen=True)
class Plan:
    """How a problem is minimised.

    Attributes
    ----------
    optimiser : LBFGS or Alternating
    start : {"auto", "landmark", "synchronized", "coarse", "identity"}
        "auto": the landmark start; in up to three dimensions also the synchronized one, which is taken if it
        ends with less than 0.75 of the energy; where that would be costly (n N > 6,000), the coarse start
        instead, which does the same on a sample of the vertices.
    tol : float
        Tolerance of the auxiliary problems.
    stage : str
        Name of the iterations.
    """

    optimiser: Optimiser
    start: str
    tol: float
    stage: str = "optimise"


def minimise_from(problem: Problem, plan: Plan, run: Run = ALONE) -> tuple[str, IterationResult]:
    """Minimise from a named start; return the start that won and where it led."""
    start, (n, n_components) = plan.start, problem.shape

    def attempt(name: str) -> IterationResult | None:
        here = run.within(name)
        x = _start(problem, f"{name} start", lambda: _STARTS[name](problem, plan.tol, here), here)
        if x is None:
            return None
        run.stage(plan.stage)
        return minimise(plan.optimiser, problem, x, stage=plan.stage, run=here)

    low, large = n_components <= LOW_DIMENSION, n * n_components > SYNCHRONIZED_LIMIT
    if start in ("identity", "synchronized"):
        found = attempt(start)
        assert found is not None
        return start, found
    if start == "coarse" or (start == "auto" and low and large):
        found = attempt("coarse")
        if found is not None:
            return "coarse", found
    best = attempt("landmark")
    assert best is not None
    exact = best.energy <= 1e-12 * problem.mass
    if start != "auto" or not low or large or exact or best.status in ENDED_EARLY:
        return "landmark", best
    other = attempt("synchronized")
    assert other is not None
    if other.energy < CLEARLY_LESS * best.energy:
        return "synchronized", other
    # The other might have become the better one.
    return "landmark", replace(best, status=other.status) if other.status in ENDED_EARLY else best


def _start(problem: Problem, name: str, make: Callable[[], FloatArray | None], run: Run) -> FloatArray | None:
    """Coordinates to start from, as they were kept or new ones."""
    stored = run.load("start")
    if stored is not None:
        restore_solver(problem, stored)
        return stored.array("coordinates", problem.shape)
    if run.has("state"):
        # The iteration has left its start behind.
        return np.zeros(problem.shape)
    run.stage(name)
    x = make()
    if x is not None:
        keep_start(problem, x, run)
    return x


def sample_energy(graph: NeighborGraph, n_components: int, *, team: ThreadTeam) -> EdgeEnergy:
    """Energy of a graph of geodesic neighbours: calibrated frames, equal weights."""
    raw = local_frames(graph, n_components, team=team, frame_size=_SAMPLE_FRAME)
    return edge_energy(graph, calibrate_frames(graph, raw, "rows"), team=team)


def _identity(problem: Problem, tol: float, run: Run) -> FloatArray:
    n, n_components = problem.shape
    return problem.integrate(np.broadcast_to(np.eye(n_components), (n, n_components, n_components)))


def _landmark(problem: Problem, tol: float, run: Run) -> FloatArray:
    return find_landmarks(problem.graph, problem.shape[1], team=problem.frames.team).start


def _coarse(problem: Problem, tol: float, run: Run) -> FloatArray | None:
    """Embed a sample of the vertices with its geodesics, and place the others around it, shape (n, N).

    The sample is embedded from its own "auto" start, hence through a sample of the sample if it is large
    itself. None where the sample falls apart.
    """
    graph, n_components, team = problem.graph, problem.shape[1], problem.frames.team
    level = coarsen(graph, team=team)
    if level.graph.n_vertices <= n_components + 1 or not level.is_connected():
        return None
    sample = build_problem(sample_energy(level.graph, n_components, team=team))
    plan = Plan(LBFGS(tol, _AUXILIARY_STEPS), "auto", tol, stage="coarse start")
    _, result = minimise_from(sample, plan, run.aside())
    return prolong(graph, level, result.coordinates, team=team)


def _synchronized(problem: Problem, tol: float, run: Run) -> FloatArray:
    """Rotations synchronized and integrated on a denser companion graph, then its minimum (eqs. 14 to 16).

    The companion joins every vertex to its geodesically nearest ones. Right on flat data of any outline,
    where landmarks fail: a landmark start bends whatever shortest paths have to walk around.
    """
    graph, n_components, team = problem.graph, problem.shape[1], problem.frames.team
    typical = int(np.percentile(graph.degrees, 25))
    width = max(_FEWEST_COMPANIONS, min(2 * typical, _MOST_COMPANIONS), 2 * n_components)
    companion = geodesic_neighbors(graph, width, team=team)
    energy = sample_energy(companion, n_components, team=team)
    dense = build_problem(energy)
    here = run.aside("companion")
    x = _start(
        dense,
        "synchronized rotations",
        lambda: dense.integrate(synchronized_alignments(companion, energy.frames, team)),
        here,
    )
    assert x is not None
    return minimise(LBFGS(tol, _AUXILIARY_STEPS), dense, x, stage="synchronized start", run=here).coordinates


_STARTS: dict[str, Callable[[Problem, float, Run], FloatArray | None]] = {
    "identity": _identity,
    "landmark": _landmark,
    "coarse": _coarse,
    "synchronized": _synchronized,
}
