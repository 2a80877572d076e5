"""Embedding of many small components at once, each with the bits that it has alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isoweave._component import (
    ENOUGH,
    GLOBAL_TOL,
    MOST_ENERGY,
    MOST_STEPS,
    ComponentResult,
    edge_factors,
    frames_of,
    stretch_of,
)
from isoweave._parallel import ONE_THREAD
from isoweave._typing import FloatArray
from isoweave.graph import NeighborGraph, subgraph
from isoweave.known import Known
from isoweave.linalg import small_choice
from isoweave.optimise import (
    ENDED_EARLY,
    LBFGS,
    Blocks,
    Interrupt,
    IterationResult,
    Problem,
    agreement,
    build_problem,
    flatness,
    globalise_many,
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
    assert options.tol is not None
    assert options.max_iter is not None
    blocks, n_components = Blocks(np.concatenate([[0], np.cumsum(sizes)])), options.n_components
    try:
        energy = frames_of(graph, graph, options, Known(), ONE_THREAD, blocks.starts)
        problem = build_problem(energy, solver="direct")
        optimiser = LBFGS(options.tol, options.max_iter)
        masses, starts, found = minimise_many(problem, blocks, optimiser, options.energy_tol, interrupt)
        x, energies, wanted = np.zeros(problem.shape), np.zeros(len(sizes)), np.zeros(len(sizes), dtype=bool)
        bounds = blocks.starts.tolist()
        for c, led in enumerate(found):
            if led is not None and led.energy <= MOST_ENERGY * masses[c]:
                x[bounds[c] : bounds[c + 1]] = led.coordinates
                energies[c], wanted[c] = led.energy, led.status not in ENDED_EARLY
            else:
                found[c] = None
        optimiser = LBFGS(GLOBAL_TOL * options.energy_tol, options.max_iter)
        how = (options.global_weight, options.refine == "auto", optimiser, interrupt)
        moved = globalise_many(problem, blocks, masses, energies, wanted, x, *how)
    except (ArithmeticError, ValueError, RuntimeError):
        # One of them is to blame.
        half = len(sizes) // 2
        if half == 0:
            return [None]
        shares = (slice(None, half), slice(half, None))
        return [
            one for share in shares for one in embed_many(*_share(graph, sizes, share), options, interrupt)
        ]
    flat, kept = np.zeros(len(sizes)), moved.weights.copy()
    degrees = (np.diff(graph.indptr[blocks.starts]) / blocks.sizes).tolist()
    for c, (mass, led) in enumerate(zip(masses.tolist(), found, strict=True)):
        rows = slice(*bounds[c : c + 2])
        if led is None or moved.is_odd[c]:
            found[c] = None
        elif moved.weights[c] == 0.0:
            if options.refine == "auto" and wanted[c]:
                flat[c] = flatness(degrees[c], n_components, led.energy / mass if mass > 0 else 0.0)
        elif options.global_weight != "auto" or moved.energy[c] <= MOST_ENERGY * mass:
            place = {"coordinates": moved.x[rows], "alignments": moved.alignments[rows]}
            found[c] = replace(led, **place, energy=float(moved.energy[c]), status=moved.statuses[c])
            x[rows] = moved.x[rows]
        else:
            kept[c] = 0.0
    if flat.any():
        x, found, masses = _refine_many(problem, blocks, options, flat, x, found, masses, interrupt)
    if options.keeps_lengths:
        x *= np.repeat(edge_factors(x, energy, graph, blocks.starts), sizes)[:, None]
    stretch, lost = stretch_of(graph, energy, x)
    is_lost = np.logical_or.reduceat(lost, blocks.starts[:-1])
    results: list[ComponentResult | None] = []
    for c, led in enumerate(found):
        if led is None:
            results.append(None)
            continue
        rows, solver = slice(*bounds[c : c + 2]), f"direct: {small_choice(sizes[c]).reason}"
        status = "collapsed" if is_lost[c] and led.status in ("converged", "stalled") else led.status
        led = replace(led, coordinates=x[rows], status=status)
        results.append(ComponentResult(led, stretch[rows], masses[c], starts[c], solver, kept[c]))
    return results


def _share(graph: NeighborGraph, sizes: Sequence[int], share: slice) -> tuple[NeighborGraph, Sequence[int]]:
    """Some consecutive components."""
    first = sum(sizes[: share.start])
    return subgraph(graph, np.arange(first, first + sum(sizes[share]))), sizes[share]


def _refine_many(
    problem: Problem,
    blocks: Blocks,
    options: EmbeddingOptions,
    flat: FloatArray,
    x: FloatArray,
    found: list[IterationResult | None],
    masses: FloatArray,
    interrupt: Interrupt,
) -> tuple[FloatArray, list[IterationResult | None], FloatArray]:
    """Refining where data are flat: coordinates, results and energies of the collapsed maps."""
    assert options.max_iter is not None
    optimiser = LBFGS(options.energy_tol, min(options.max_iter, MOST_STEPS), ENOUGH)
    energies = np.array([0.0 if led is None else led.energy for led in found])
    share = np.divide(energies, masses, out=np.zeros_like(masses), where=masses > 0)
    first = refine_many(problem, blocks, flat, x, optimiser, interrupt)
    before = first.mass * share
    left = np.divide(first.energy, before, out=np.zeros_like(before), where=before > 0)
    agreed = np.where(first.has_ended, flat, flat * [agreement(part) for part in left])
    again = np.where(agreed < flat, agreed, 0.0)
    second = refine_many(problem, blocks, again, x, optimiser, interrupt) if again.any() else first
    taken = [
        None if part == 0.0 else first if part == whole else second
        for part, whole in zip(agreed, flat, strict=True)
    ]
    x, masses, found = x.copy(), masses.copy(), list(found)
    for c, descent in enumerate(taken):
        led = found[c]
        if led is None or flat[c] == 0.0:
            continue
        if first.is_odd[c] or (descent is not None and descent.is_odd[c]):
            found[c] = None
        elif descent is not None:
            ended = descent.has_ended[c] and led.status == "converged"
            status = descent.statuses[c] if ended else led.status
            found[c] = replace(led, energy=float(descent.energy[c]), status=status)
            masses[c] = descent.mass[c]
            x[blocks.starts[c] : blocks.starts[c + 1]] = descent.x[blocks.starts[c] : blocks.starts[c + 1]]
    alignments = problem.evaluate(x).alignments
    for c, descent in enumerate(taken):
        led = found[c]
        if led is not None and descent is not None:
            found[c] = replace(led, alignments=alignments[blocks.starts[c] : blocks.starts[c + 1]])
    return x, found, masses
