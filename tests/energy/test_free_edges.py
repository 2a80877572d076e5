"""Edges without a direction: long ones, and those that a frame cannot place, count with their lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import embed_graph
from isoweave.datasets import swiss_roll
from isoweave.energy import edge_energy
from isoweave.geometry import local_frames
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import knn_of


def with_hub(points, graph, n_far, rng):
    """The graph, and true distances from its vertex 0 to so many others."""
    matrix = graph.to_matrix().tolil()
    for j in rng.choice(np.arange(1, len(points)), n_far, replace=False):
        matrix[0, j] = matrix[j, 0] = np.linalg.norm(points[j] - points[0])
    return graph_from_matrix(matrix.tocsr())


def caterpillar(spine, n_leaves, length):
    """A path of unit edges with leaves at every vertex."""
    leaves = spine + np.arange(spine * n_leaves)
    i = np.concatenate((np.arange(spine - 1), np.repeat(np.arange(spine), n_leaves)))
    j = np.concatenate((np.arange(1, spine), leaves))
    d = np.concatenate((np.ones(spine - 1), np.full(len(leaves), length)))
    matrix = sp.coo_array((d, (i, j)), shape=(spine + len(leaves),) * 2).tocsr()
    return matrix + matrix.T


def test_only_long_edges_lose_their_rows():
    rng = np.random.default_rng(941)
    points = rng.random((300, 2))
    plain = knn_of(points, 8)
    graph = with_hub(points, plain, 100, rng)
    assert local_frames(plain, 2).included.all()
    frames = local_frames(graph, 2)
    assert 50 < np.sum(~frames.included) / 2 < 100
    nearest, reach, joined = [], [], [set(graph.indices[graph.sources == i].tolist()) for i in range(300)]
    for i in range(300):
        own = graph.sources == i
        order = np.argsort(graph.lengths[own])[:6]
        nearest.append(graph.indices[own][order].tolist())
        reach.append(graph.lengths[own][order].max())
    for e, (i, j) in enumerate(zip(graph.sources, graph.indices, strict=True)):
        told = min(len(joined[b].intersection(nearest[a])) for a, b in ((i, j), (j, i)))
        assert frames.included[e] == (graph.lengths[e] <= 4 * max(reach[i], reach[j]) or told > 2)
    np.testing.assert_array_equal(frames.rows[~frames.included], 0.0)
    # Of a complete graph every direction is known, however thin it is.
    thin = knn_of(rng.normal(size=(30, 2)) * [1.0, 1e-3], 29)
    assert local_frames(thin, 2).included.all()


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_free_edges_agree_with_the_loop(n_components):
    rng = np.random.default_rng(947)
    graph = knn_of(rng.normal(size=(40, 3)), 6)
    frames = local_frames(graph, n_components)
    rows = frames.rows.copy()
    free = rng.choice(len(rows), 30, replace=False)
    rows[free] *= 1e-9 * rng.integers(0, 2, size=(30, 1))
    confidence = rng.uniform(0.5, 2.0, size=len(rows))
    energy = edge_energy(graph, replace(frames, rows=rows), confidence=confidence)
    assert set(energy.free) == set(free)
    x = rng.normal(size=(40, n_components))
    here = energy.evaluate(x)
    total = np.zeros(40)
    for e, (i, j) in enumerate(zip(graph.sources, graph.indices, strict=True)):
        step = x[j] - x[i]
        off = np.linalg.norm(step) - graph.lengths[e] if e in free else step - rows[e] @ here.alignments[i]
        total[i] += confidence[e] * np.sum(off**2)
    np.testing.assert_allclose(here.energies, total, rtol=1e-12)
    squares = np.where(np.isin(np.arange(len(rows)), free), graph.lengths**2, (rows**2).sum(1))
    assert energy.mass == pytest.approx(np.sum(confidence * squares))
    for _ in range(5):
        direction, h = rng.normal(size=x.shape), 1e-6
        up, down = (energy.evaluate(x + side * direction).energy for side in (h, -h))
        slope = (up - down) / (2 * h)
        assert slope == pytest.approx(2 * np.sum(here.half_gradient * direction), rel=1e-6, abs=1e-6)
    # One sweep of the recursion never raises the energy: the Laplacian bounds it from above.
    laplacian = energy.laplacian().toarray()
    swept = x - np.linalg.pinv(laplacian) @ here.half_gradient
    assert energy.evaluate(swept).energy <= here.energy


def test_true_distances_to_far_vertices_help():
    """A vertex joined to 300 far ones: without care, the map bends (procrustes .05)."""
    roll = swiss_roll(2000, random_state=953)
    graph = with_hub(roll.parameters, knn_graph(roll.data, 10), 300, np.random.default_rng(953))
    found = embed_graph(graph.to_matrix(), 2)
    assert found.global_weight == 0.0
    assert procrustes_error(roll.parameters, found.coordinates) < 1e-3


@pytest.mark.filterwarnings("ignore:The optimiser stopped")  # a tree bends freely, so there is no one minimum
@pytest.mark.parametrize(("spine", "n_leaves", "length"), [(300, 3, 3.0), (200, 2, 2.0)])
def test_the_spine_of_a_caterpillar_keeps_its_length(spine, n_leaves, length):
    found = embed_graph(caterpillar(spine, n_leaves, length), 2)
    assert found.status != "collapsed"
    x = found.coordinates[:spine]
    lengths = np.linalg.norm(np.diff(x, axis=0), axis=1)
    assert 0.5 < lengths.min() <= np.mean(lengths) < 1.1
    # Laid out, not folded: along the spine, distances are geodesics.
    steps = np.linalg.norm(x[:, None] - x, axis=2).ravel()
    hops = np.abs(np.subtract.outer(np.arange(spine), np.arange(spine))).ravel()
    assert np.corrcoef(steps, hops)[0, 1] > 0.98
