"""The energy never rises, and is what it is said to be.

Random graphs of 5 to 24 vertices, both optimisers, both inner products and all solvers, with a tolerance that
only rounding ends. Every step's energy is compared with the one before, and every fiftieth with the energy
that plain numpy finds at the coordinates of the step.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.energy import edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import graph_from_matrix
from isoweave.optimise import LBFGS, Alternating, Run, build_problem, minimise


def random_graph(rng):
    """A connected graph: a random tree and some more edges, lengths from a metric or from none."""
    n = int(rng.integers(5, 25))
    pairs = [(int(rng.integers(i)), i) for i in range(1, n)]
    extra = rng.integers(n, size=(int(rng.integers(0, 3 * n)), 2))
    i, j = np.unique(np.sort(np.vstack([pairs, extra[extra[:, 0] != extra[:, 1]]]), axis=1), axis=0).T
    points = rng.normal(size=(n, int(rng.integers(1, 5))))
    metric, equal = np.linalg.norm(points[i] - points[j], axis=1), np.ones(len(i))
    lengths = (metric, equal, 10.0 ** rng.uniform(-2, 2, len(i)))[rng.integers(3)]
    return graph_from_matrix(sp.coo_array((lengths, (i, j)), shape=(n, n)))


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


def one_run(rng, gaps):
    """Energies of a run; ``gaps`` gets the differences between logged and recomputed ones."""
    graph, team = random_graph(rng), ThreadTeam(1)
    n_components = int(rng.integers(1, 5))
    raw = local_frames(graph, n_components, team=team, with_inverse=True)
    if rng.random() < 0.4:
        energy = paper_energy(graph, raw, rng.uniform(0.5, 2.0, graph.n_vertices), team=team)
    else:
        weights = str(rng.choice(["uniform", "inverse", "inverse-square"]))
        energy = edge_energy(graph, calibrate_frames(graph, raw), weights, team=team)
    solver = str(rng.choice(["direct", "jacobi", "ic", "amg"], p=[0.7, 0.1, 0.1, 0.1]))
    problem = build_problem(energy, solver=solver)

    def watch(state):
        if state.iteration % 50 == 1:
            gaps.append(abs(energy_of(problem, state.coordinates) - state.energy) / problem.mass)

    start = rng.normal(size=(graph.n_vertices, n_components))
    optimiser = (Alternating if rng.random() < 0.6 else LBFGS)(1e-300, 400)
    result = minimise(optimiser, problem, start, run=Run(callback=watch))
    assert np.isfinite(result.coordinates).all()
    return np.array([record.energy for record in result.history])


@pytest.mark.parametrize("n_steps", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_energy_never_rises(n_steps):
    rng, gaps, done = np.random.default_rng(79), [], 0
    with thread_team(1):
        while done < n_steps:
            energies = one_run(rng, gaps)
            assert (np.diff(energies) <= 0).all()
            done += len(energies) - 1
    assert len(gaps) > n_steps / 100
    # The recomputed energy is summed in another order.
    assert max(gaps) < 1e-9
