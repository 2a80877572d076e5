"""Whole fits on a GPU; skipped where there is none."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import embed_graph
from isoweave._parallel import ONE_THREAD
from isoweave.cuda import knn_on_device
from isoweave.cuda._device import CudaDevice, DeviceError
from isoweave.cuda._frames import DeviceDistances, device_energy
from isoweave.cuda._graph import DeviceGraph
from isoweave.cuda._solver import DeviceSolver
from isoweave.datasets import swiss_roll
from isoweave.energy import DistanceEnergy, EdgeEnergy, edge_energy
from isoweave.geometry import calibrate_frames, local_frames, rigid_motion
from isoweave.graph import graph_from_matrix, knn_graph

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


@pytest.mark.parametrize("n_components", [1, 2, 3, 5])
def test_what_warps_add_up_for_hubs(n_components):
    rng, device = np.random.default_rng(4), CudaDevice()
    points = rng.random((4000, n_components))
    matrix = knn_graph(points, 10).to_matrix().tolil()
    for hub in (5, 77):
        matrix[hub, ::3] = matrix[::3, hub] = np.linalg.norm(points[::3] - points[hub], axis=1) + 1e-3
        matrix[hub, hub] = 0.0
    graph = graph_from_matrix(sp.csr_array(matrix), asymmetry="max")
    weights, x = rng.random(len(graph.indices)) + 0.1, rng.standard_normal((4000, n_components))
    local = calibrate_frames(graph, local_frames(graph, n_components))
    moved = {name: device.put(getattr(local, name)) for name in ("rows", "included", "spectrum", "fidelity")}
    there, x_there = DeviceGraph.of(graph, device), device.put(x)
    assert len(there.long_rows) == 2
    frames = edge_energy(graph, local)
    ours = [
        device_energy(there, replace(local, **moved)),
        DeviceDistances(there, n_components, device.put(weights)),
    ]
    for one, other in zip(
        ours, [frames, DistanceEnergy(graph, n_components, weights, ONE_THREAD)], strict=True
    ):
        a, b = one.evaluate(x_there), other.evaluate(x)
        assert a.energy == pytest.approx(b.energy, rel=1e-11)
        size = np.abs(b.half_gradient).max()
        np.testing.assert_allclose(device.get(a.half_gradient), b.half_gradient, rtol=0, atol=1e-10 * size)
    both, laplacian = (
        weights + weights[graph.reverse],
        EdgeEnergy(graph, None, weights, ONE_THREAD).laplacian(),
    )
    value = device.get(DeviceSolver(there, device.put(both), n_components).solve(x_there).value)
    wanted = x - x.mean(axis=0)
    assert np.linalg.norm(laplacian @ value - wanted) < 1e-9 * np.linalg.norm(wanted)


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
    for name in ("indptr", "indices", "lengths"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
