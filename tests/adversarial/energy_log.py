"""Counts steps that raise the energy, over as many steps as asked for.

Run ``python tests/adversarial/energy_log.py --steps 1000000`` (about half an hour at work).

Random graphs of 5 to 24 vertices, both optimisers, both inner products and all solvers, with a tolerance that
only rounding ends. Every step's energy is compared with the one before, and every fiftieth with the energy
that plain numpy finds at the coordinates of the step.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.energy import edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import connected_components, graph_from_matrix
from isoweave.optimise import LBFGS, Alternating, Run, build_problem, minimise

SOLVERS = ("direct", "jacobi", "ic", "amg")
CHECKED_EVERY = 50
MAX_ITER = 400


@dataclass
class Log:
    """What was counted.

    ``rises`` are steps after which the energy is larger than before, ``gap`` the largest difference between a
    logged energy and the one recomputed, over the energy of the collapsed map.
    """

    steps: int = 0
    runs: int = 0
    rises: int = 0
    recomputed: int = 0
    gap: float = 0.0


def random_graph(rng):
    """A connected graph: a random tree and some more edges, lengths from a metric or from none."""
    n = int(rng.integers(5, 25))
    pairs = {(int(rng.integers(i)), i) for i in range(1, n)}
    extra = rng.integers(n, size=(int(rng.integers(0, 3 * n)), 2))
    pairs |= {(int(min(p)), int(max(p))) for p in extra if p[0] != p[1]}
    i, j = np.array(sorted(pairs)).T
    kind = rng.integers(3)
    if kind == 0:
        points = rng.normal(size=(n, int(rng.integers(1, 5))))
        lengths = np.linalg.norm(points[i] - points[j], axis=1)
    else:
        lengths = np.ones(len(i)) if kind == 1 else 10.0 ** rng.uniform(-2, 2, len(i))
    graph = graph_from_matrix(sp.coo_array((lengths, (i, j)), shape=(n, n)))
    assert connected_components(graph)[0] == 1
    return graph


def energy_of(problem, x):
    """The reduced energy by numpy's singular values, vertex by vertex."""
    graph, energy, total = problem.graph, problem.frames, 0.0
    for i in range(graph.n_vertices):
        row = slice(graph.indptr[i], graph.indptr[i + 1])
        frame, steps = energy.frames.rows[row], x[graph.indices[row]] - x[i]
        root = np.diag(np.sqrt(energy.weights[row])) if hasattr(energy, "weights") else energy.inverse[row].T
        seen, wanted = root @ steps, root @ frame
        u, _, vt = np.linalg.svd(wanted.T @ seen)
        total += float(((seen - wanted @ (u @ vt)) ** 2).sum())
    return total


def one_run(rng, log):
    graph, team = random_graph(rng), ThreadTeam(1)
    n_components = int(rng.integers(1, 5))
    raw = local_frames(graph, n_components, team=team, with_inverse=True)
    paper, recursion = rng.random() < 0.4, rng.random() < 0.6
    if paper:
        energy = paper_energy(graph, raw, rng.uniform(0.5, 2.0, graph.n_vertices), team=team)
    else:
        weights = str(rng.choice(["uniform", "inverse", "inverse-square"]))
        energy = edge_energy(graph, calibrate_frames(graph, raw), weights, team=team)
    solver = SOLVERS[int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))]
    problem = build_problem(energy, solver=solver)

    def watch(state):
        if state.iteration % CHECKED_EVERY == 1:
            log.recomputed += 1
            log.gap = max(log.gap, abs(energy_of(problem, state.coordinates) - state.energy) / problem.mass)

    start = rng.normal(size=(graph.n_vertices, n_components))
    optimiser = (Alternating if recursion else LBFGS)(1e-300, MAX_ITER)
    result = minimise(optimiser, problem, start, run=Run(callback=watch))
    energies = np.array([record.energy for record in result.history])
    assert np.isfinite(energies).all()
    assert np.isfinite(result.coordinates).all()
    log.steps += len(energies) - 1
    log.rises += int(np.count_nonzero(energies[1:] > energies[:-1]))
    log.runs += 1


def log_steps(n_steps, seed):
    log, rng = Log(), np.random.default_rng(seed)
    with thread_team(1):
        while log.steps < n_steps:
            one_run(rng, log)
    return log


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=73)
    arguments = parser.parse_args()
    begun = time.process_time()
    log = log_steps(arguments.steps, arguments.seed)
    print(json.dumps(asdict(log) | {"cpu_seconds": round(time.process_time() - begun)}))


if __name__ == "__main__":
    main()
