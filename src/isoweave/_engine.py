"""The stages of one connected component after its frames, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._typing import FloatArray
from isoweave.energy import AnchorEnergy
from isoweave.optimise import (
    AT_ONCE,
    ENDED_EARLY,
    LBFGS,
    LOW_DIMENSION,
    SYNCHRONIZED_LIMIT,
    Alternating,
    IterationResult,
    Run,
    agreement,
    badly_solved,
    check_finite,
    flatness,
    long_distances,
    mean_degree,
    minimise,
    minimise_from,
    numerical_stage,
    opened,
)
from isoweave.options import EmbeddingOptions

# Coordinates to start from, in units of the median length: beyond, squares of squares overflow.
_LARGEST_START = 1e75
# Energy of an embedding over that of all points in one place. At most 1 but for rounding wherever the Poisson
# problems were solved.
MOST_ENERGY = 1.0 + 1e-6
# Long bends relax last, and the misfit that the tolerance is relative to is large where there are any.
GLOBAL_TOL = 1 / 3
# Larger weights of the long distances that small problems come down from, each to a minimum of its own.
_ABOVE = (100.0, 1000.0)
# Part of their lengths by which edges still move when refine="auto" ends, for up to so many vertices; it
# grows with their number, because every step costs more, a hundred times at most.
ENOUGH, _MANY = 1e-5, 10_000
MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class ComponentResult:
    """Embedding of one component, in the units of its graph."""

    iteration: IterationResult
    stretch: FloatArray
    mass: float
    start: str
    solver: str
    global_weight: float = 0.0


@dataclass(frozen=True, eq=False)
class Engine:
    """One component with its frames, and what an engine does with them; the stages are the same for all."""

    frames: Any  #: their energy
    graph: Any  #: with the measured lengths
    options: EmbeddingOptions
    anchors: AnchorEnergy | None
    run: Run
    factored: Callable[[AnchorEnergy | None], Any]  #: the problem with these anchors
    far_problem: Callable[[Any, Any], Any]  #: with long distances, and their springs at a place in the metric
    geodesic_factor: Callable[[Any], float]  #: that brings a map nearest to the geodesics of landmarks
    edge_factor: Callable[[Any], float]  #: that brings its edges nearest to their lengths
    stretch: Callable[[Any], tuple[Any, Any]]  #: of every vertex, and which are at an edge without a length
    mend: Callable[[Any], Any] | None = None  #: the map with all distances, where these are exact
    is_exact: Callable[[Any], bool] = lambda x: False  #: whether a lifted map meets its distances
    starts: Any = None
    #: as the last parameters of :func:`isoweave.optimise.long_distances`
    long_distances: tuple[Callable[..., Any], ...] = ()
    any_of: Callable[[Any], Any] = np.any

    def embed(self, start: Any) -> ComponentResult:
        """The stages after the frames, from the named start or from these coordinates."""
        options, run = self.options, self.run
        name, problem, result = self._optimised(start)
        solver = f"{problem.metric.solver}: {problem.metric.choice.reason}"
        # Frames know less than exact distances.
        is_exact = name == "lifted" and options.global_weight == "auto" and self.is_exact(result.coordinates)
        dial = 0.0 if is_exact else options.global_weight
        tools = self.long_distances
        weight, part, far = long_distances(self.frames, self.anchors, result, dial, run, *tools)
        kept = weight
        if far is not None:
            # One factor at a time.
            del problem
            local = result
            problem, result = self._globalised(far, part, result)
            kept = 0.0 if result is local else weight
        mass = problem.mass
        if is_exact or result.status in ENDED_EARLY:
            pass
        elif options.refine == "distances":
            mass, result = self._refined(problem, 1.0, result, run.within("refine"))
        elif options.refine == "auto" and weight == 0.0:
            mass, result = self._refined_if_flat(problem, result)
        if is_exact and options.inner_product == "edge":
            mass, result = self._at_exact_distances(problem, result)
        x = result.coordinates
        if options.scale == "geodesics":
            x = x * self.geodesic_factor(x)
        elif options.keeps_lengths and self.anchors is None:
            x = x * self.edge_factor(x)
        check_finite("result", "coordinates", x)
        stretch, lost = self.stretch(x)
        if self.any_of(lost) and result.status in ("converged", "stalled"):
            result = replace(result, status="collapsed")
        return ComponentResult(replace(result, coordinates=x), stretch, mass, name, solver, kept)

    def _optimised(self, start: Any) -> tuple[str, Any, IterationResult]:
        """The name of the start, the problem and where it ended."""
        options, anchors, run = self.options, self.anchors, self.run
        is_paper = options.optimizer == "alternating"
        optimiser = (Alternating if is_paper else LBFGS)(options.tol, options.max_iter)
        stage = "recursion" if is_paper else "optimise"

        def descend(problem: Any, x: Any, place: str) -> IterationResult:
            name = "anchors" if place == "anchors" and not is_paper else stage
            run.stage(place if place == "anchors" else name)
            return minimise(optimiser, problem, x, stage=name, run=run.within(place))

        run.stage("factor")
        if start is not None:
            problem = self.factored(anchors)
            found = descend(problem, start, "given" if anchors is None else "anchors")
            if anchors is None:
                self._check_energy(problem, found)
            return "given", problem, found
        problem = self.factored(None)
        with numerical_stage(f"start {options.start!r}"):
            how = (options.start, options.energy_tol, stage, run, self.starts)
            name, free = minimise_from(problem, optimiser, *how)
        if name != "lifted":
            self._check_energy(problem, free)
        if anchors is None:
            return name, problem, free
        # In the energy from the beginning, anchors would keep a map from unfolding: it is laid on them and
        # goes on with its own rotations, so that what they ask for is spread over their surroundings.
        rotations = problem.evaluate(anchors.lay_on(free.coordinates)).alignments
        # One factor at a time.
        del problem
        run.stage("factor")
        problem = self.factored(anchors)
        x = problem.integrate(rotations)
        check_finite("anchors", "start", x)
        if free.status not in ENDED_EARLY:
            return name, problem, descend(problem, x, "anchors")
        here = problem.evaluate(x)
        return name, problem, IterationResult(x, here.alignments, here.energy, free.history, free.status)

    def _check_energy(self, problem: Any, result: IterationResult) -> None:
        """Refuse an embedding with more energy than all points in one place: a solve or tol is to blame."""
        # The solution x' of the next Poisson problem has at most that energy. F(x) is F(x') plus the square
        # of the step that is left, and L-BFGS ends where that is at most tol^2 F(x).
        is_paper, tol = self.options.optimizer == "alternating", self.options.tol
        share = result.energy / problem.mass if problem.mass > 0 else 0.0
        if share <= MOST_ENERGY or not (is_paper or result.status in ("converged", "stalled")):
            return
        what = f"the map has {share:.1e} times the energy of all points in one place"
        if not is_paper and share * (1.0 - tol**2) <= MOST_ENERGY:
            raise ValueError(f"tol={tol:g} ends the iteration where {what}; lower tol.")
        raise badly_solved(problem, "result", what)

    def _globalised(self, far: Any, part: float, result: IterationResult) -> tuple[Any, IterationResult]:
        """Continue with the long distances in the energy; energy and rotations are those of the frames there.

        ``part`` of the frames' weight goes to the distances. With refine="auto", small problems that are not
        flat are also solved coming from larger weights of the long distances, and the lowest minimum is
        taken. Where they would ruin the map and the weight is "auto", the local result itself is returned.
        """
        options, frames, n_components = self.options, self.frames, self.options.n_components
        optimiser = LBFGS(GLOBAL_TOL * options.energy_tol, options.max_iter)
        is_auto = options.refine == "auto"

        def descend(far: Any, x: Any, name: str) -> tuple[Any, IterationResult]:
            self.run.stage(name)
            problem = self.far_problem(far, x)
            mixed = problem.of_distances(self.graph, part) if is_auto and part > 0.0 else problem
            return problem, minimise(optimiser, mixed, x, stage="global", run=self.run.within(name))

        problem, moved = descend(far, result.coordinates, "global")
        most = SYNCHRONIZED_LIMIT // n_components
        is_small = n_components <= LOW_DIMENSION and AT_ONCE < self.graph.n_vertices <= most
        is_open = opened(frames, result)[1] > 0.0
        for larger in _ABOVE if is_auto and is_open and is_small else ():
            if moved.status in ENDED_EARLY:
                break
            more = replace(far, weight=larger * far.weight)
            _, above = descend(more, result.coordinates, f"from {larger:g}")
            if above.status not in ENDED_EARLY:
                _, above = descend(far, above.coordinates, f"again from {larger:g}")
            if above.status in ENDED_EARLY:
                moved = replace(moved, status=above.status)
            elif above.energy < moved.energy:
                moved = above
        x, here = moved.coordinates, frames.evaluate(moved.coordinates)
        if options.global_weight != "auto" or here.energy <= MOST_ENERGY * frames.mass:
            result = IterationResult(x, here.alignments, here.energy, result.history, moved.status)
        # Else lengths differ by orders of magnitude, and neighbourhoods would be worse than all in one place.
        return replace(problem, far=None), result

    def _refined(
        self, problem: Any, part: float, result: IterationResult, run: Run
    ) -> tuple[float, IterationResult]:
        """Continue with the distances (eq. 22); the energy of the collapsed map, and where it ends."""
        run.stage("refine")
        options, is_auto = self.options, self.options.refine == "auto"
        measured = problem.of_distances(self.graph, part)
        enough = ENOUGH * min(max(self.graph.n_vertices / _MANY, 1.0), 100.0) if is_auto else 0.0
        most = min(options.max_iter, MOST_STEPS) if is_auto else options.max_iter
        optimiser = LBFGS(options.energy_tol, most, enough)
        refined = minimise(optimiser, measured, result.coordinates, stage="refine", run=run)
        x, here = refined.coordinates, problem.evaluate(refined.coordinates)
        # What has converged stays so, however far it can be refined.
        kept = result.status != "converged" or (is_auto and refined.status not in ENDED_EARLY)
        status = result.status if kept else refined.status
        return measured.mass, IterationResult(x, here.alignments, refined.energy, result.history, status)

    def _refined_if_flat(self, problem: Any, result: IterationResult) -> tuple[float, IterationResult]:
        """Let the distances count as far as the data are flat and the distances agree with each other."""
        mass, refined = self._refined_as_far(problem, result)
        whole, n = None, self.graph.n_vertices
        if self.mend and refined is not result and refined.status not in ENDED_EARLY and n > AT_ONCE:
            whole = self.mend(refined.coordinates)
        if whole is None:
            return mass, refined
        return self._at_exact_distances(problem, replace(refined, coordinates=whole))

    def _at_exact_distances(self, problem: Any, result: IterationResult) -> tuple[float, IterationResult]:
        """The energy of the collapsed map, and the map with the energy of its distances."""
        measured, here = problem.of_distances(self.graph), problem.evaluate(result.coordinates)
        energy = measured.evaluate(result.coordinates).energy
        return measured.mass, replace(result, energy=energy, alignments=here.alignments)

    def _refined_as_far(self, problem: Any, result: IterationResult) -> tuple[float, IterationResult]:
        share = result.energy / problem.mass if problem.mass > 0 else 0.0
        part = flatness(mean_degree(self.graph), self.options.n_components, share)
        if part == 0.0:
            return problem.mass, result
        mass, refined = self._refined(problem, part, result, self.run.within("refine"))
        # On curved or noisy data much of the misfit stays, and is better left to neighbourhoods than edges.
        left = refined.energy / (mass * share) if mass * share > 0 else 0.0
        agreed = part * agreement(left)
        if agreed == part or refined.status in ENDED_EARLY:
            return mass, refined
        if agreed == 0.0:
            return problem.mass, result
        return self._refined(problem, agreed, result, self.run.within("refine again"))


def check_start(start: FloatArray | None) -> None:
    """Refuse coordinates to start from that are out of all proportion."""
    largest = 0.0 if start is None else float(np.abs(start).max(initial=0.0))
    if not largest <= _LARGEST_START:
        raise ValueError(
            f"start has coordinates of {largest:.3g} times the median distance, over {_LARGEST_START:g}; "
            "give it in the unit of the distances."
        )


def geodesic_factor(x: Any, landmarks: Any, distances: Any, total: Callable[[Any], Any]) -> float:
    """The one factor that brings distances to landmarks (l, N) nearest to geodesics (l, n), least squares."""
    cross = square = 0.0
    for place, geodesic in zip(landmarks, distances, strict=True):
        straight = np.sqrt(((x - place) ** 2).sum(axis=1))
        cross += float(total(straight * geodesic))
        square += float(total(straight * straight))
    factor = cross / square if square > 0 else 1.0
    check_finite("scale", "factor to the geodesics", factor)
    return factor
