"""Embedding of many small components at once, each with the bits that it has alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isoweave._component import frames_of, stretch_of
from isoweave._edges import edge_factors
from isoweave._engine import ENOUGH, GLOBAL_TOL, MOST_ENERGY, MOST_STEPS, ComponentResult
from isoweave._parallel import ONE_THREAD
from isoweave._typing import FloatArray
from isoweave.graph import NeighborGraph, subgraph
from isoweave.known import Known
from isoweave.linalg import small_choice
from isoweave.optimise import (
    ENDED_EARLY,
    LBFGS,
    Blocks,
    Fits,
    Interrupt,
    IterationResult,
    Problem,
    agreement,
    build_problem,
    flatness,
    globalise_many,
    mean_degrees,
    minimise_many,
    refine_many,
)
from isoweave.options import EmbeddingOptions


def embed_many(
    graph: NeighborGraph, sizes: Sequence[int], options: EmbeddingOptions, interrupt: Interrupt
) -> list[ComponentResult | None]:
    """Embed small components, one after the other in a graph, all at once, in one thread.

    Each has the bits of :func:`embed_component`, or None if it has to be embedded alone: where something is
    unusual, or wrong, which is then said of the component by name.
    """
    blocks = Blocks(np.concatenate([[0], np.cumsum(sizes)]))
    try:
        energy = frames_of(graph, graph, options, Known(), ONE_THREAD, blocks.starts)
        problem = build_problem(energy, solver="direct")
        optimiser = LBFGS(options.tol, options.max_iter)
        found = minimise_many(problem, blocks, optimiser, options.energy_tol, interrupt)
        found.is_odd[~(found.energy <= MOST_ENERGY * found.mass)] = True
        optimiser = LBFGS(GLOBAL_TOL * options.energy_tol, options.max_iter)
        how = (options.global_weight, options.refine == "auto", MOST_ENERGY, optimiser, interrupt)
        tried, kept = globalise_many(problem, blocks, found, *how)
        if options.refine == "auto":
            _refine_many(problem, blocks, options, tried, found, interrupt)
    except (ArithmeticError, ValueError, RuntimeError):
        # One of them is to blame.
        half = len(sizes) // 2
        if half == 0:
            return [None]
        vertices = np.split(np.arange(graph.n_vertices), [sum(sizes[:half])])
        halves = zip(vertices, (sizes[:half], sizes[half:]), strict=True)
        return [r for at, part in halves for r in embed_many(subgraph(graph, at), part, options, interrupt)]
    x = found.x
    if options.keeps_lengths:
        x *= np.repeat(edge_factors(x, energy, graph, blocks.starts), sizes)[:, None]
    stretch, lost = stretch_of(graph, energy, x)
    is_lost, bounds = np.logical_or.reduceat(lost, blocks.starts[:-1]), blocks.starts.tolist()
    energies, masses, weights = found.energy.tolist(), found.mass.tolist(), kept.tolist()
    results: list[ComponentResult | None] = [None] * len(sizes)
    for c in np.flatnonzero(~found.is_odd).tolist():
        rows, solver = slice(*bounds[c : c + 2]), f"direct: {small_choice(sizes[c]).reason}"
        status = found.statuses[c]
        status = "collapsed" if is_lost[c] and status in ("converged", "stalled") else status
        led = IterationResult(x[rows], found.alignments[rows], energies[c], found.histories[c], status)
        results[c] = ComponentResult(led, stretch[rows], masses[c], found.starts[c], solver, weights[c])
    return results


def _refine_many(
    problem: Problem,
    blocks: Blocks,
    options: EmbeddingOptions,
    tried: FloatArray,
    found: Fits,
    interrupt: Interrupt,
) -> None:
    """Refine where data are flat and no long distances have been ``tried``."""
    share = found.share
    flat = np.array([
        0.0 if weight > 0.0 or status in ENDED_EARLY else flatness(degree, options.n_components, part)
        for weight, status, degree, part in zip(
            tried.tolist(), found.statuses, mean_degrees(problem.graph, blocks), share.tolist(), strict=True
        )
    ])  # fmt: skip
    flat[found.is_odd] = 0.0
    if not flat.any():
        return
    optimiser = LBFGS(options.energy_tol, min(options.max_iter, MOST_STEPS), ENOUGH)
    first = refine_many(problem, blocks, flat, found.x, optimiser, interrupt)
    before = first.mass * share
    left = np.divide(first.energy, before, out=np.zeros_like(before), where=before > 0)
    agreed = np.where(first.has_ended, flat, flat * [agreement(part) for part in left.tolist()])
    again = np.where(agreed < flat, agreed, 0.0)
    second = refine_many(problem, blocks, again, found.x, optimiser, interrupt) if again.any() else first
    found.is_odd[(flat > 0.0) & (first.is_odd | ((again > 0.0) & second.is_odd))] = True
    for descent, chosen in ((first, (flat > 0.0) & (agreed == flat)), (second, again > 0.0)):
        rows = np.repeat(chosen, blocks.sizes)
        found.x[rows] = descent.x[rows]
        found.energy[chosen], found.mass[chosen] = descent.energy[chosen], descent.mass[chosen]
        for c in np.flatnonzero(chosen & descent.has_ended).tolist():
            if found.statuses[c] == "converged":
                found.statuses[c] = descent.statuses[c]
    rows = np.repeat(agreed > 0.0, blocks.sizes)
    found.alignments[rows] = problem.evaluate(found.x).alignments[rows]
