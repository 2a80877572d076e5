"""Whole fits on a GPU; skipped where there is none."""

import numpy as np
import pytest

from isoweave import embed_graph
from isoweave.cuda import knn_on_device
from isoweave.cuda._device import CudaDevice, DeviceError
from isoweave.datasets import swiss_roll
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph
from reference_graphs import assert_same_graph

try:
    CudaDevice()
    REASON = ""
except DeviceError as error:
    REASON = str(error)

pytestmark = [pytest.mark.device, pytest.mark.skipif(bool(REASON), reason=REASON)]


def sphere(n):
    x = np.random.default_rng(0).standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1)[:, None]


CASES = {
    "roll": (swiss_roll(8000, random_state=1).data, 10, {}),
    "roll with shortcuts": (swiss_roll(8000, random_state=1, noise=0.6).data, 10, {}),
    "cube": (np.random.default_rng(0).random((5000, 3)), 10, {"n_components": 3}),
    "sphere": (sphere(6000), 10, {}),
    "ten dimensions": (np.random.default_rng(1).standard_normal((3000, 20)), 12, {"n_components": 10}),
    "refined": (swiss_roll(6000, random_state=2).data, 8, {"refine": "distances", "start": "landmark"}),
    "robust": (swiss_roll(5000, random_state=3).data, 10, {"loss": "robust"}),
}


@pytest.mark.parametrize("name", CASES)
def test_fits_agree_with_the_cpu(name):
    points, k, options = CASES[name]
    graph = knn_graph(points, k)
    # Both solve exactly; by default the CPU does so up to 3,000 vertices only.
    theirs = embed_graph(graph, engine="cpu", solver="direct", **options)
    ours = embed_graph(graph, engine="cuda", **options)
    assert "device" in ours.solver
    assert (ours.start, ours.status, len(ours.history)) == (theirs.start, theirs.status, len(theirs.history))
    assert np.array_equal(ours.dropped_edges, theirs.dropped_edges)
    assert ours.energy == pytest.approx(theirs.energy, rel=1e-9)
    rotation, shift = rigid_motion(ours.coordinates, theirs.coordinates)
    size = np.abs(theirs.coordinates).max()
    moved = ours.coordinates @ rotation + shift
    np.testing.assert_allclose(moved, theirs.coordinates, rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(ours.stretch, theirs.stretch, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["roll", "ten dimensions"])
def test_the_same_bits_every_time(name):
    points, k, options = CASES[name]
    graph = knn_graph(points, k)
    first, second = (embed_graph(graph, engine="cuda", **options) for _ in range(2))
    assert np.array_equal(first.coordinates, second.coordinates)
    assert np.array_equal(first.stretch, second.stretch)
    assert first.energy == second.energy


def test_callbacks_see_coordinates_on_the_host():
    graph, seen = knn_graph(CASES["roll"][0], 10), []

    def look(state):
        seen.append(state.coordinates)
        return len(seen) == 2

    result = embed_graph(graph, engine="cuda", callback=look)
    assert result.status == "stopped"
    assert all(isinstance(x, np.ndarray) and np.isfinite(x).all() for x in seen)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_neighbours_of_features_are_those_of_the_cpu(d):
    x = np.random.default_rng(d).standard_normal((30_000, d))
    ours, theirs = knn_on_device(x, 10, "euclidean", None), knn_graph(x, 10)
    assert ours is not None
    assert_same_graph(ours, theirs)
