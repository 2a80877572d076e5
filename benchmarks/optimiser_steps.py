"""A table of docs/choices.md: steps of the recursion and of L-BFGS from the same start, on both energies.

Run by choices.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from cases import ROWS, Records, mark, markdown_table, mean
from isoweave._parallel import ThreadTeam
from isoweave.energy import FrameEnergy, edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames, neighborhood_volumes
from isoweave.graph import NeighborGraph, knn_graph
from isoweave.optimise import (
    LBFGS,
    Alternating,
    IterationResult,
    Problem,
    build_problem,
    find_landmarks,
    minimise,
)

ROW_NAMES = ("swiss10", "klein", "torus")
PRODUCTS = {"edge": "edge", "paper": "paper's"}
WITHIN = (0.01, 0.001, 0.0001)
SEEDS = (31, 32, 33)


def run_optimisers(records: Records, n_seeds: int) -> None:
    """Count steps until the energy is near the one each optimiser ends with."""
    for name in ROW_NAMES:
        for product in PRODUCTS:
            for seed in SEEDS[:n_seeds]:
                if (f"steps {name}", seed, product) not in records:
                    records.add(f"steps {name}", seed, product, _count(name, product, seed))


def _count(name: str, product: str, seed: int) -> dict[str, float]:
    row = ROWS[name]
    graph = knn_graph(row.load(seed).data, row.n_neighbors, n_jobs=1)
    problem = _problem(graph, row.n_components, product)
    start = find_landmarks(graph, row.n_components).start
    results = {
        "lbfgs": minimise(LBFGS(1e-6, 2000), problem, start),
        "recursion": minimise(Alternating(1e-9, 4000), problem, start),
    }
    values = {f"{method} {part:g}": _steps(r, part) for method, r in results.items() for part in WITHIN}
    return {**values, "energy ratio": results["recursion"].energy / results["lbfgs"].energy}


def _problem(graph: NeighborGraph, n_components: int, product: str) -> Problem:
    team = ThreadTeam(1)
    energy: FrameEnergy
    if product == "paper":
        frames = local_frames(graph, n_components, team=team, frame_size="all", with_inverse=True)
        energy = paper_energy(graph, frames, neighborhood_volumes(graph, frames), team=team)
    else:
        frames = calibrate_frames(graph, local_frames(graph, n_components, team=team))
        energy = edge_energy(graph, frames, team=team)
    return build_problem(energy, solver="direct")


def _steps(result: IterationResult, part: float) -> int:
    """First step within ``part`` of the energy at the end."""
    return next(r.iteration for r in result.history if r.energy <= (1.0 + part) * result.energy)


def optimiser_section(records: Records) -> Iterator[str]:
    """The table of the optimisers."""
    cells = []
    for name in ROW_NAMES:
        for product, label in PRODUCTS.items():
            found = records.of(f"steps {name}", product)
            if found:
                counts = [
                    f"{mean(found, f'recursion {part:g}'):.0f} / {mean(found, f'lbfgs {part:g}'):.0f}"
                    for part in WITHIN
                ]
                cells.append(
                    (mark(ROWS[name].title, found), label, *counts, f"{mean(found, 'energy ratio'):.3f}")
                )
    if cells:
        yield "## Optimisers"
        yield ""
        yield "Steps of the paper's recursion / of L-BFGS from the landmark start until the energy is within"
        yield "a part of what that optimiser ends with (at most 4,000 and 2,000 steps); one Poisson solve per"
        yield "step. Last column: energy at the end, recursion over L-BFGS."
        yield ""
        head = ("data", "inner product", *(f"within {part:.2%}" for part in WITHIN), "energies")
        yield from markdown_table(head, cells)
