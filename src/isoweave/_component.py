"""Embedding of one connected component: frames, energy, starts, optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from isoweave._edges import NO_LENGTH, at_lost_edges, edge_factors
from isoweave._engine import ComponentResult, Engine, check_start, geodesic_factor
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import AnchorEnergy, FrameEnergy, edge_energy, paper_energy
from isoweave.geometry import (
    calibrate_frames,
    edge_lengths,
    local_frames,
    local_stretch,
    neighborhood_volumes,
)
from isoweave.graph import NeighborGraph, bypass_doubtful, longer_than_detours
from isoweave.known import Known
from isoweave.optimise import (
    ALONE,
    ENDED_EARLY,
    Problem,
    Run,
    build_problem,
    check_finite,
    find_landmarks,
    is_trusted,
    mended,
    numerical_stage,
)
from isoweave.options import EmbeddingOptions

# Of a robust loss: rounds at most, weight of an edge that is surely wrong, change of weights that is none,
# and the relative error of an edge that any map has.
_ROUNDS = 8
_LEAST_TRUST = 1e-6
_SAME_TRUST = 0.05
_SMALL_ERROR = 0.02


def embed_component(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    *,
    team: ThreadTeam,
    start: FloatArray | None = None,
    run: Run = ALONE,
    on_device: bool = False,
) -> ComponentResult:
    """Embed a connected graph of at least two vertices with positive lengths, as often as the loss asks for.

    A robust loss begins without the edges that break the triangle inequality. Then, in rounds, edges have the
    weights ``1 / (1 + (r / 3 s)^2)^2`` of Geman and McClure (eq. 28), with r the error of an edge relative to
    the shorter of its lengths and s 1.5 times the median error.
    """
    check_finite("distance graph", "lengths", graph.lengths)
    check_start(start)
    once: Any = _embed_once
    if on_device:
        from isoweave.cuda import embed_on_device as once
    if options.loss == "squares":
        return once(graph, options, known, team, start, run)
    given = 1.0 if known.edge_weights is None else known.edge_weights

    def weighted(trust: FloatArray, run: Run) -> ComponentResult:
        return once(graph, options, replace(known, edge_weights=given * trust), team, start, run)

    wrong = longer_than_detours(graph)
    return embed_in_rounds(wrong, weighted, lambda x: (edge_lengths(graph, x), graph.lengths), run)


def embed_in_rounds(
    wrong: BoolArray,
    weighted: Callable[[FloatArray, Run], ComponentResult],
    lengths_of: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    run: Run,
    median: Callable[[FloatArray], Any] = np.median,
    most: Callable[[FloatArray], Any] = np.max,
) -> ComponentResult:
    """The rounds of a robust loss; ``lengths_of`` a map are those of its edges, and as they were measured.

    Where edges are in shares, ``median`` and ``most`` are over all of them.
    """
    trust = np.where(wrong, _LEAST_TRUST, 1.0)
    for number in range(_ROUNDS):
        found = weighted(trust, run.within(f"round {number}"))
        before, (lengths, measured) = trust, lengths_of(found.iteration.coordinates)
        error = np.abs(lengths - measured) / np.maximum(np.minimum(lengths, measured), NO_LENGTH)
        typical = max(1.5 * float(median(error)), _SMALL_ERROR)
        trust = np.maximum((1.0 + (error / (3.0 * typical)) ** 2) ** -2, _LEAST_TRUST)
        if found.iteration.status in ENDED_EARLY or most(np.abs(trust - before)) < _SAME_TRUST:
            break
    return found


def _embed_once(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    team: ThreadTeam,
    start: FloatArray | None,
    run: Run,
) -> ComponentResult:
    """The stages in order; what each hands on is checked to be finite, so that an error names the stage."""
    # The same edges, with the lengths that shortest paths go by.
    paths = graph if known.edge_weights is None else bypass_doubtful(graph, known.edge_weights)
    run.stage("frames")
    frames = frames_of(graph, paths, options, known, team)
    is_plain = known.per_edge(graph) is None and known.anchors is None

    def geodesics(x: FloatArray) -> float:
        spread = find_landmarks(paths, options.n_components, team=team)
        return geodesic_factor(x, x[spread.vertices], spread.distances, np.sum)

    engine = Engine(
        *(frames, graph, options, known.anchors, run),
        factored=lambda anchors: _factored(frames, options, anchors),
        far_problem=lambda far, near: build_problem(
            frames, solver=options.solver, anchors=known.anchors, far=far, near=near
        ),
        geodesic_factor=geodesics,
        edge_factor=lambda x: edge_factors(x, frames, graph, np.array([0, graph.n_vertices]))[0],
        stretch=lambda x: stretch_of(graph, frames, x),
        mend=(lambda x: mended(graph, x, team, run)) if is_plain else None,
        is_exact=lambda x: is_plain and is_trusted(graph, x),
    )
    return engine.embed(start)


def stretch_of(graph: NeighborGraph, frames: FrameEnergy, x: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Stretch of every vertex, and those at an edge that has no length in the map."""
    with numerical_stage("stretch"):
        stretch = local_stretch(graph, frames.frames, x, team=frames.team)
    check_finite("stretch", "singular values", stretch)
    lost = at_lost_edges(graph, x, frames.team)
    stretch[lost, -1] = 0.0
    return stretch, lost


def frames_of(
    graph: NeighborGraph,
    paths: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    team: ThreadTeam,
    starts: AnyArray | None = None,
) -> FrameEnergy:
    """Calibrated frames with the inner product that goes with them."""
    is_paper = options.inner_product == "paper"
    with numerical_stage("local frames"):
        sizes: Any = {"frame_size": options.frame_size, "starts": starts}
        raw = local_frames(paths, options.n_components, team=team, with_inverse=is_paper, **sizes)
    check_finite("local frames", "rows", raw.rows)
    check_finite("local frames", "eigenvalues", raw.spectrum)
    frames = calibrate_frames(graph, raw, options.calibrate, team=team)
    check_finite("calibration", "rows", frames.rows)
    if not is_paper:
        edges = edge_energy(paths, frames, confidence=known.per_edge(graph), team=team, starts=starts)
        check_finite("inner product", "weights", edges.weights)
        return edges
    kind = "hull" if options.preset == "paper" else "equal"
    volumes = neighborhood_volumes(graph, raw, kind, seed=options.seed)
    if known.vertex_weights is not None:
        volumes = volumes * known.vertex_weights
    check_finite("inner product", "volumes", volumes)
    paper = paper_energy(paths, frames, volumes, team=team)
    check_finite("inner product", "inverse frames", paper.inverse)
    return paper


def _factored(frames: FrameEnergy, options: EmbeddingOptions, anchors: AnchorEnergy | None) -> Problem:
    problem = build_problem(frames, solver=options.solver, anchors=anchors)
    # Large, and quickly made again.
    vars(frames.graph).pop("sources", None)
    check_finite("operators", "energy of the collapsed map", problem.mass)
    return problem
