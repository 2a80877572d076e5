from __future__ import annotations

import numpy as np
import pytest

from isoweave.datasets import add_shortcuts, sensor_network, swiss_roll
from isoweave.graph import geodesics, knn_graph


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_unit_disk_graph(n_dims):
    net = sensor_network(120, n_dims=n_dims, n_anchors=5, random_state=3)
    distances = np.linalg.norm(net.truth[:, None] - net.truth[None, :], axis=2)
    dense = net.graph.toarray()
    radius = dense.max()
    inside = (distances <= radius) & ~np.eye(120, dtype=bool)
    np.testing.assert_allclose(dense, np.where(inside, distances, 0.0), rtol=1e-12)
    assert net.n_vertices == 120
    assert len(np.unique(net.anchors)) == 5


@pytest.mark.parametrize(("n", "hole", "n_dims"), [(4000, 0.0, 2), (3000, 0.3, 2), (3000, 0.3, 3)])
def test_default_radius_gives_twenty_neighbors(n, hole, n_dims):
    """Away from all borders, that of the hole included, which is empty."""
    net = sensor_network(n, hole=hole, n_dims=n_dims, random_state=4)
    from_centre = np.linalg.norm(net.truth - 0.5, axis=1)
    assert from_centre.min() >= hole
    assert ((net.truth >= 0.0) & (net.truth <= 1.0)).all()
    inner = np.all(np.abs(net.truth - 0.5) < 0.4, axis=1) & (from_centre > (0.4 if hole else 0.0))
    assert np.diff(net.graph.indptr)[inner].mean() == pytest.approx(20.0, rel=0.1 if hole else 0.05)


def test_noise_is_relative_symmetric_and_positive():
    clean = sensor_network(400, n_anchors=7, random_state=5)
    noisy = sensor_network(400, n_anchors=7, noise=0.1, random_state=5)
    np.testing.assert_array_equal(clean.truth, noisy.truth)
    np.testing.assert_array_equal(clean.graph.indices, noisy.graph.indices)
    ratio = noisy.graph.data / clean.graph.data
    assert ratio.mean() == pytest.approx(1.0, abs=0.01)
    assert ratio.std() == pytest.approx(0.1, rel=0.1)
    assert (noisy.graph != noisy.graph.T).nnz == 0
    assert sensor_network(400, noise=3.0, random_state=5).graph.data.min() > 0.0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"radius": 0.0}, "radius must be a finite number > 0, got 0.0"),
        ({"n_anchors": 501}, "n_anchors must be an integer from 0 to 500, got 501"),
        ({"n_dims": 0}, "n_dims must be an integer >= 1, got 0"),
        ({"noise": -1.0}, "got -1.0"),
        ({"hole": 0.5}, "hole must .* < 0.5, got 0.5"),
        ({"hole": -0.1}, "got -0.1"),
    ],
)
def test_bad_networks(arguments, match):
    with pytest.raises(ValueError, match=match):
        sensor_network(**arguments)


@pytest.fixture
def roll():
    sample = swiss_roll(600, random_state=6)
    return sample.data, knn_graph(sample.data, 6).to_matrix()


def test_shortcuts_jump_between_sheets(roll):
    data, graph = roll
    cut, edges = add_shortcuts(graph, data, 5, random_state=7)
    assert edges.shape == (5, 2)
    assert cut.nnz == graph.nnz + 10
    assert (cut != cut.T).nnz == 0
    for i, j in edges:
        straight = np.linalg.norm(data[i] - data[j])
        assert cut[i, j] == pytest.approx(straight)
        assert graph[i, j] == 0.0
        assert geodesics(graph, int(i))[j] > 5.0 * straight
    again, _ = add_shortcuts(graph, data, 5, random_state=7)
    assert (again != cut).nnz == 0


def test_shortcuts_keep_zero_edges(roll):
    data, graph = roll
    partner = int(graph.indices[0])
    graph[0, partner] = graph[partner, 0] = 0.0
    assert np.sum(graph.data == 0.0) == 2
    cut, _ = add_shortcuts(graph, data, 2, random_state=8)
    assert cut.nnz == graph.nnz + 4
    assert np.sum(cut.data == 0.0) == 2


def test_shortcut_errors(roll):
    data, graph = roll
    with pytest.raises(ValueError, match="only 0 vertices have a point .* over 1e\\+06 times"):
        add_shortcuts(graph, data, 3, detour=1e6, random_state=9)
    with pytest.raises(ValueError, match=r"shape \(600, D\), one row per vertex, got \(599, 3\)"):
        add_shortcuts(graph, data[:-1], 3, random_state=9)
