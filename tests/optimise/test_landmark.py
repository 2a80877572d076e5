"""The landmark start against loops, and where it is exact."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from isoweave.metrics import procrustes_error
from isoweave.optimise import classical_scaling, farthest_landmarks, find_landmarks, landmark_start
from reference_graphs import complete_of, distance_gap, graph_of, knn_of, path_graph, permuted, random_sparse
from reference_starts import all_distances, landmark_start_loop, landmarks_loop


def graphs():
    rng = np.random.default_rng(419)
    return [
        knn_of(rng.normal(size=(60, 2)), 6),
        random_sparse(50, 30, rng),
        complete_of(rng.normal(size=(20, 3))),
    ]


@pytest.mark.parametrize("graph", graphs())
@pytest.mark.parametrize("n_landmarks", [2, 7, 15])
def test_landmarks_agree_with_the_loop(graph, n_landmarks):
    vertices, distances = farthest_landmarks(graph, n_landmarks)
    chosen, expected = landmarks_loop(graph, n_landmarks)
    assert vertices.tolist() == chosen
    assert vertices.dtype == np.int32
    np.testing.assert_allclose(distances, expected, rtol=1e-12)


@pytest.mark.parametrize("graph", graphs())
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_start_agrees_with_the_loop(graph, n_components):
    vertices, distances = farthest_landmarks(graph, 15)
    found = landmark_start(vertices, distances, n_components)
    expected = landmark_start_loop(vertices.tolist(), distances, n_components)
    # Eigenvectors have no sign.
    signs = np.sign(np.sum(found * expected, axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("n_components", [1, 2, 5])
def test_exact_on_exact_distances(n_components):
    points = np.random.default_rng(421).normal(size=(80, n_components))
    landmarks = find_landmarks(complete_of(points), n_components)
    assert procrustes_error(points, landmarks.start) < 1e-22


def test_classical_scaling_reproduces_the_distances():
    points = np.random.default_rng(431).normal(size=(12, 3))
    squared = cdist(points, points) ** 2
    coordinates, projector, means = classical_scaling(squared, 3)
    np.testing.assert_allclose(cdist(coordinates, coordinates) ** 2, squared, atol=1e-11)
    np.testing.assert_allclose(coordinates.mean(axis=0), 0.0, atol=1e-13)
    np.testing.assert_allclose(means, squared.mean(axis=0))
    np.testing.assert_allclose(projector.T @ coordinates, np.eye(3), atol=1e-11)


def test_missing_directions_are_zero():
    line = np.arange(6.0)[:, None]
    coordinates, projector, _ = classical_scaling(cdist(line, line) ** 2, 3)
    assert np.isfinite(projector).all()
    np.testing.assert_allclose(coordinates[:, 1:], 0.0, atol=1e-7)
    # More components than landmarks.
    wide, _, _ = classical_scaling(np.array([[0.0, 4.0], [4.0, 0.0]]), 3)
    assert wide.shape == (2, 3)
    np.testing.assert_allclose(np.abs(wide[:, 0]), 1.0)
    # No positive eigenvalue at all.
    flat, _, _ = classical_scaling(np.zeros((3, 3)), 2)
    assert np.all(flat == 0.0)


def test_more_landmarks_than_vertices():
    graph = path_graph(4)
    vertices, distances = farthest_landmarks(graph, 50)
    assert sorted(vertices.tolist()) == [0, 1, 2, 3]
    np.testing.assert_allclose(distances, all_distances(graph)[vertices])


def test_numbering_does_not_matter():
    rng = np.random.default_rng(433)
    graph = knn_of(rng.normal(size=(80, 2)), 6)
    order = rng.permutation(80)
    here = find_landmarks(graph, 2)
    there = find_landmarks(permuted(graph, order), 2)
    assert order[there.vertices].tolist() == here.vertices.tolist()
    assert distance_gap(here.start[order], there.start) < 1e-10


def test_zero_lengths_are_refused():
    with pytest.raises(ValueError, match="positive lengths: merge duplicates first"):
        farthest_landmarks(graph_of([(0, 1, 0.0), (1, 2, 1.0)], 3), 2)
