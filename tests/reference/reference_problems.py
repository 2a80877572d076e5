"""Energies and problems to try the optimisers on."""

from itertools import pairwise

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.energy import edge_energy, paper_energy
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, neighborhood_volumes
from isoweave.optimise import LBFGS, Alternating, Run, build_problem, minimise
from reference_graphs import knn_of, random_rotations, with_hubs

TEAM = ThreadTeam(1)


def make_problem(kind, n_components):
    """A curved point set, so that no map is exact; the paper's product comes with second-order frames."""
    rng = np.random.default_rng(401 + n_components)
    points = rng.normal(size=(50, n_components + 1))
    points[:, -1] = 0.3 * np.sum(points[:, :-1] ** 2, axis=1)
    graph = knn_of(points, n_components + 5)
    if kind == "hub":
        graph = with_hubs(points, n_components + 5, [9], rng)
    if kind == "paper":
        frames = local_frames(graph, n_components, team=TEAM, frame_size="all", with_inverse=True)
        energy = paper_energy(graph, frames, neighborhood_volumes(graph, frames, "hull"), team=TEAM)
    else:
        frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM, frame_size=6), "rows")
        energy = edge_energy(graph, frames, confidence=1.0 / graph.lengths, team=TEAM)
    return build_problem(energy, solver="direct"), rng


def assert_gradient(value, half_gradient, x, rng, h=1e-5, **tolerance):
    """Central differences of a smooth function: the error is of the order h^2 plus rounding over h."""
    directions = [*rng.normal(size=(6, *x.shape)), *np.eye(x.size)[[0, x.size // 2, -1]].reshape(3, *x.shape)]
    for direction in directions:
        slope = (value(x + h * direction) - value(x - h * direction)) / (2 * h)
        assert slope == pytest.approx(2.0 * np.sum(half_gradient * direction), **tolerance)


def descend(problem, start, tol=0.03, max_iter=500, stage="optimise", callback=None):
    """L-BFGS from ``start``."""
    return minimise(LBFGS(tol, max_iter), problem, start, stage=stage, run=Run(callback=callback))


def recur(problem, start, tol=1e-7, max_iter=1000, callback=None):
    """The paper's recursion from the best rotations of ``start``."""
    return minimise(Alternating(tol, max_iter), problem, start, stage="recursion", run=Run(callback=callback))


def exact_frames(graph, points, rng, with_inverse=False):
    """Frames from true positions in random axes per vertex: what exact second-order distances give."""
    n, n_components = points.shape
    turns = random_rotations(n, n_components, rng)
    steps = points[graph.indices] - points[graph.sources]
    rows = np.einsum("ec,erc->er", steps, turns[graph.sources])
    blocks = [rows[lo:hi] for lo, hi in pairwise(graph.indptr)]
    inverse = np.concatenate([np.linalg.pinv(block).T for block in blocks]) if with_inverse else None
    ones = np.ones(len(rows), dtype=bool)
    return LocalFrames(rows, ones, np.ones((n, n_components)), np.ones(n), inverse), turns
