"""How well a map keeps the graph it was made from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.diagnostics._cells import build_cells
from isoweave.diagnostics._hodge import Misfit, measure_misfit, split_misfit
from isoweave.diagnostics._prepare import Part
from isoweave.diagnostics._result import EnergySplit, MapFacts
from isoweave.diagnostics._shape import TORN, Shape
from isoweave.energy import edge_energy
from isoweave.geometry import LocalFrames, local_stretch
from isoweave.optimise import build_problem

# Up to so many edges curl and loops are told apart on the graph itself, beyond on the sample of its shape.
MOST_EDGES = 30_000
MOST_COMPONENTS = 3
WITHIN = 0.1


@dataclass(frozen=True, eq=False)
class PartMisfit:
    """A component's part in the energy of a map."""

    misfit: Misfit
    split: EnergySplit
    n_used: int
    stretch: FloatArray
    against_relaxed: float | None


def examine_part(
    part: Part, frames: LocalFrames, coordinates: FloatArray, shape: Shape | None, *, team: ThreadTeam
) -> PartMisfit:
    """Energy and stretch of the map of one component.

    Parameters
    ----------
    part : Part
    frames : LocalFrames
        Of N directions, calibrated.
    coordinates : float64 array of shape (n, N)
        In the unit of the part.
    shape : Shape or None
    team : ThreadTeam
    """
    graph, n_components = part.graph, frames.n_components
    problem = build_problem(edge_energy(graph, frames, team=team))
    at = problem.evaluate(coordinates)
    misfit = measure_misfit(problem, at.alignments, coordinates)
    split, n_used = split_misfit(misfit, None), 0
    told_apart = shape is not None and n_components <= MOST_COMPONENTS
    if told_apart and graph.n_edges <= MOST_EDGES:
        split, n_used = split_misfit(misfit, build_cells(graph, team=team)), graph.n_vertices
    against = None
    if shape is not None and shape.problem is not None and shape.problem.shape[1] == n_components:
        sample = coordinates[shape.level.vertices]
        on_sample = shape.problem.evaluate(sample)
        against = on_sample.energy / shape.relaxed if shape.relaxed > 1e-12 * shape.problem.mass else None
        if n_used == 0 and told_apart:
            measured = measure_misfit(shape.problem, on_sample.alignments, sample)
            parts = split_misfit(measured, build_cells(shape.companion, team=team))
            split, n_used = _with_shares(split, parts), len(sample)
    stretch = local_stretch(graph, frames, coordinates, team=team)
    return PartMisfit(misfit, split, n_used, stretch, against)


def _with_shares(split: EnergySplit, sample: EnergySplit) -> EnergySplit:
    """The irremovable part divided as it is on the sample."""
    assert sample.loops is not None
    share = sample.loops / sample.irremovable if sample.irremovable > 0.0 else 0.0
    return EnergySplit(
        total=split.total,
        removable=split.removable,
        disagreement=split.disagreement,
        irremovable=split.irremovable,
        expected=split.expected,
        curl=(1.0 - share) * split.irremovable,
        loops=share * split.irremovable,
        concentration=sample.concentration,
    )


def map_facts(
    parts: list[PartMisfit],
    distortion: FloatArray,
    stretch: FloatArray,
    local: int,
    status: str | None,
) -> MapFacts:
    """Put the components together.

    Parameters
    ----------
    parts : list of PartMisfit
    distortion : float64 array
        Of the edges that count: embedded, not dropped, of positive length.
    stretch : float64 array of shape (n, N)
        Of the vertices that were embedded.
    local : int
        Directions the data have.
    status : str or None
    """
    known = distortion[np.isfinite(distortion)]
    known = known if len(known) else np.zeros(1)
    values = stretch[:, : min(local, stretch.shape[1])]
    values = values if len(values) else np.ones((1, 1))
    ratio = np.maximum(1.0 + known, 1e-12)
    return MapFacts(
        status=status,
        energy=_total(parts),
        n_used=sum(p.n_used for p in parts),
        edge_error=float(np.mean(np.abs(known))),
        edge_median=float(np.median(known)),
        edge_low=float(np.percentile(known, 5)),
        edge_high=float(np.percentile(known, 95)),
        edge_within=float(np.mean(np.abs(known) <= WITHIN)),
        torn=float(np.mean(np.abs(np.log(ratio)) >= np.log(TORN))),
        stretch_median=float(np.median(values)),
        stretch_low=float(np.percentile(values, 5)),
        stretch_high=float(np.percentile(values, 95)),
        stretch_within=float(np.mean(np.all(np.abs(values - 1.0) <= WITHIN, axis=1))),
        against_relaxed=parts[0].against_relaxed if parts else None,
    )


def _total(parts: list[PartMisfit]) -> EnergySplit:
    """Energies of all components over the sum of their masses."""
    mass = sum(p.misfit.mass for p in parts)
    if mass <= 0.0:
        return EnergySplit(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def weigh(name: str) -> float | None:
        values = [getattr(p.split, name) for p in parts]
        if any(v is None for v in values):
            return None
        return float(sum(v * p.misfit.mass for v, p in zip(values, parts, strict=True)) / mass)

    largest = parts[0].split
    return EnergySplit(
        total=weigh("total") or 0.0,
        removable=weigh("removable") or 0.0,
        disagreement=weigh("disagreement") or 0.0,
        irremovable=weigh("irremovable") or 0.0,
        expected=weigh("expected") or 0.0,
        curl=weigh("curl"),
        loops=weigh("loops"),
        concentration=largest.concentration,
    )
