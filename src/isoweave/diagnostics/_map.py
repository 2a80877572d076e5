"""How well a map keeps the graph it was made from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from isoweave._typing import FloatArray
from isoweave.diagnostics._cells import build_cells
from isoweave.diagnostics._hodge import measure_misfit, split_misfit
from isoweave.diagnostics._measure import frame_fit
from isoweave.diagnostics._result import NO_ENERGY, EnergySplit, MapFacts
from isoweave.diagnostics._shape import Shape, torn_share
from isoweave.energy import EdgeEnergy
from isoweave.optimise import build_problem

# Up to this many edges curl and loops are separated on the graph itself, beyond on the sample of its shape.
_MOST_EDGES = 30_000
_MOST_COMPONENTS = 3
_WITHIN = 0.1


@dataclass(frozen=True, eq=False)
class PartMisfit:
    """The map of one component: its energy, and how the frames of its vertices lie in it."""

    mass: float
    split: EnergySplit
    n_used: int
    vertex_misfit: FloatArray
    stretch: FloatArray
    against_relaxed: float | None


def examine_part(energy: EdgeEnergy, coordinates: FloatArray, shape: Shape | None) -> PartMisfit:
    """Energy and stretch of the map of one component, given in the unit of its graph."""
    graph, n_components, team = energy.graph, energy.frames.n_components, energy.team
    problem, at = build_problem(energy), energy.evaluate(coordinates)
    misfit = measure_misfit(problem, at.alignments, coordinates)
    split, n_used = split_misfit(misfit, None), 0
    separated = shape is not None and n_components <= _MOST_COMPONENTS
    if separated and graph.n_edges <= _MOST_EDGES:
        split, n_used = split_misfit(misfit, build_cells(graph, team=team)), graph.n_vertices
    against = None
    if shape is not None and shape.problem is not None and shape.problem.shape[1] == n_components:
        sample = coordinates[shape.vertices]
        on_sample = shape.problem.evaluate(sample)
        against = on_sample.energy / shape.relaxed if shape.relaxed > 1e-12 * shape.problem.mass else None
        if n_used == 0 and separated:
            measured = measure_misfit(shape.problem, on_sample.alignments, sample)
            parts = split_misfit(measured, build_cells(shape.companion, team=team))
            split, n_used = _with_shares(split, parts), len(sample)
    return PartMisfit(misfit.mass, split, n_used, *frame_fit(energy, at, coordinates), against)


def _with_shares(split: EnergySplit, sample: EnergySplit) -> EnergySplit:
    """The irremovable part divided as it is on the sample."""
    assert sample.loops is not None
    share = sample.loops / sample.irremovable if sample.irremovable > 0.0 else 0.0
    curl, loops = (1.0 - share) * split.irremovable, share * split.irremovable
    return replace(split, curl=curl, loops=loops, concentration=sample.concentration)


def map_facts(
    parts: list[PartMisfit], distortion: FloatArray, stretch: FloatArray, local: int, status: str | None
) -> MapFacts:
    """Put the components together.

    ``distortion`` is that of the edges that count, ``stretch`` that of the vertices that were embedded;
    ``local`` is the number of directions that the data have.
    """
    known = distortion[np.isfinite(distortion)]
    known = known if len(known) else np.zeros(1)
    values = stretch[:, : min(local, stretch.shape[1])]
    values = values if len(values) else np.ones((1, 1))
    return MapFacts(
        status=status,
        energy=_total(parts),
        n_used=sum(p.n_used for p in parts),
        edge_error=float(np.mean(np.abs(known))),
        edge_median=float(np.median(known)),
        edge_low=float(np.percentile(known, 5)),
        edge_high=float(np.percentile(known, 95)),
        edge_within=float(np.mean(np.abs(known) <= _WITHIN)),
        torn=torn_share(1.0 + known),
        stretch_median=float(np.median(values)),
        stretch_low=float(np.percentile(values, 5)),
        stretch_high=float(np.percentile(values, 95)),
        stretch_within=float(np.mean(np.all(np.abs(values - 1.0) <= _WITHIN, axis=1))),
        against_relaxed=parts[0].against_relaxed if parts else None,
    )


def _total(parts: list[PartMisfit]) -> EnergySplit:
    """Energies of all components over the sum of their masses."""
    mass = sum(p.mass for p in parts)
    if mass <= 0.0:
        return NO_ENERGY

    def weigh(name: str) -> float | None:
        values = [getattr(p.split, name) for p in parts]
        if any(v is None for v in values):
            return None
        return float(sum(v * p.mass for v, p in zip(values, parts, strict=True)) / mass)

    total = EnergySplit(**{part.name: weigh(part.name) for part in fields(EnergySplit)})  # type: ignore[arg-type]
    return replace(total, concentration=parts[0].split.concentration)
