"""The CUDA kernels, compiled as C++ for the host, against the numba kernels."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from host_device import HostDevice, needs_compiler
from isoweave import embed_graph
from isoweave._parallel import ONE_THREAD
from isoweave.cuda import embed_on_device, prepare_on_device
from isoweave.cuda._component import _stretch
from isoweave.cuda._frames import (
    DeviceDistances,
    DeviceEdgeEnergy,
    DeviceGlobal,
    calibrated,
    device_energy,
    device_frames,
)
from isoweave.cuda._graph import DeviceGraph
from isoweave.cuda._neighbors import neighbor_graph
from isoweave.cuda._prepare import is_connected, without_shortcuts
from isoweave.cuda._solver import DeviceSolver
from isoweave.cuda._starts import coarsen, device_geodesics, device_landmarks, prolong
from isoweave.datasets import swiss_roll
from isoweave.energy import DistanceEnergy, EdgeEnergy, GlobalEnergy, edge_energy
from isoweave.geometry import calibrate_frames, local_frames, long_edges, rigid_motion
from isoweave.graph import drop_shortcuts, graph_from_matrix, knn_graph, prepare_graph, rows_by_length
from isoweave.known import Known
from isoweave.linalg import factor, prepare_laplacian
from isoweave.linalg._multigrid import Multigrid
from isoweave.optimise import ALONE, find_landmarks
from isoweave.optimise._starts import coarsen as coarsen_on_cpu, prolong as prolong_on_cpu
from isoweave.options import resolve_options

pytestmark = needs_compiler


def cloud(n, d, k, seed=0):
    """A neighbourhood graph of noise, scaled so that directions differ."""
    x = np.random.default_rng(seed).standard_normal((n, d)) * np.linspace(1.0, 0.4, d)
    return knn_graph(x, k)


def roll(n=600):
    return knn_graph(swiss_roll(n, random_state=3).data, 10)


def with_long_edges():
    """A flat patch with edges across it, which have no row in a frame."""
    patch = knn_graph(np.random.default_rng(2).random((200, 2)), 8).to_matrix().tolil()
    for a, b in ((0, 100), (7, 150)):
        patch[a, b] = patch[b, a] = 3.0
    return graph_from_matrix(sp.csr_array(patch))


def two_hubs():
    """Two patches that hang together by an edge between their hubs, none of the nearest of either."""
    x = np.random.default_rng(4).random((320, 2))
    x[160:, 0] += 3.0
    matrix = knn_graph(x, 6).to_matrix().tolil()
    for hub in (0, 160):
        for other in range(hub + 1, hub + 160):
            matrix[hub, other] = matrix[other, hub] = np.linalg.norm(x[hub] - x[other])
    matrix[0, 160] = matrix[160, 0] = 4.0
    return graph_from_matrix(sp.csr_array(matrix))


def on_host(graph, **sizes):
    return DeviceGraph.of(graph, HostDevice(**sizes))


def products(graph, rows):
    """Scalar products of the rows of every frame, which do not depend on its axes."""
    return np.concatenate(
        [(rows[a:b] @ rows[a:b].T).ravel() for a, b in zip(graph.indptr, graph.indptr[1:], strict=False)]
    )


@pytest.mark.parametrize(
    ("graph", "n_components", "shared"),
    [
        (roll(), 2, 2**24),
        (roll(), 2, 4000),
        (cloud(300, 20, 8), 9, 2**24),
        (cloud(250, 30, 6), 9, 40_000),
        (with_long_edges(), 2, 2**24),
        (two_hubs(), 2, 2**14),
    ],
    ids=["surface", "little memory", "nine dimensions", "hubs in little memory", "long edges", "two hubs"],
)
def test_frames(graph, n_components, shared):
    ours, theirs = (
        device_frames(on_host(graph, shared=shared), n_components, "auto"),
        local_frames(graph, n_components),
    )
    assert np.array_equal(ours.included, theirs.included)
    np.testing.assert_allclose(ours.spectrum, theirs.spectrum, rtol=0, atol=1e-12 * theirs.spectrum.max())
    np.testing.assert_allclose(ours.fidelity, theirs.fidelity, atol=1e-12)
    scale = np.max(graph.lengths) ** 2
    np.testing.assert_allclose(
        products(graph, ours.rows), products(graph, theirs.rows), rtol=0, atol=1e-9 * scale
    )


def test_a_row_longer_than_the_limit_is_sorted_too():
    star = sp.lil_array((300, 300))
    star[0, 1:] = np.random.default_rng(0).random(299) + 1.0
    graph = graph_from_matrix(sp.csr_array(star))
    for ours, theirs in zip(on_host(graph).by_length, rows_by_length(graph, ONE_THREAD), strict=True):
        assert np.array_equal(ours, theirs)


def test_long_edges_and_calibration():
    graph = with_long_edges()
    there = on_host(graph)
    on_device = long_edges(there, 2, there.by_length, there.device.xp)
    assert np.array_equal(on_device, long_edges(graph, 2, rows_by_length(graph, ONE_THREAD)))
    assert on_device.any()
    frames = local_frames(graph, 2)
    for mode in ("rows", "vertices", "none"):
        ours, theirs = calibrated(on_host(graph), frames, mode), calibrate_frames(graph, frames, mode)
        np.testing.assert_allclose(ours.rows, theirs.rows, rtol=1e-14)


def energies(graph, n_components):
    """The energy of the CPU's frames on both."""
    frames = calibrate_frames(graph, local_frames(graph, n_components))
    return device_energy(on_host(graph), frames), edge_energy(graph, frames)


def check_energy(ours, theirs, x):
    a, b = ours.evaluate(x), theirs.evaluate(x)
    assert a.energy == pytest.approx(b.energy, rel=1e-12)
    np.testing.assert_allclose(
        a.half_gradient, b.half_gradient, rtol=0, atol=1e-11 * np.abs(b.half_gradient).max()
    )
    np.testing.assert_allclose(a.alignments, b.alignments, rtol=0, atol=1e-10)
    np.testing.assert_allclose(a.energies, b.energies, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("graph", "n_components"),
    [(roll(), 2), (with_long_edges(), 2), (cloud(200, 6, 10), 3), (cloud(150, 20, 14), 9)],
    ids=["N=2", "free edges", "N=3", "N=9"],
)
def test_energy_of_frames(graph, n_components):
    ours, theirs = energies(graph, n_components)
    assert np.array_equal(ours.weights, theirs.weights)
    x = np.random.default_rng(5).standard_normal((graph.n_vertices, n_components))
    check_energy(ours, theirs, x)
    # In one place no rotation is determined: any orthogonal one will do.
    assert ours.mass == pytest.approx(theirs.mass, rel=1e-13)
    # A map that lies in a line leaves rotations open in all directions but one.
    x[:, 1:] = 0.0
    flat = ours.evaluate(x)
    assert flat.energy == pytest.approx(theirs.evaluate(x).energy, rel=1e-12)
    eye = np.einsum("irk,irc->ikc", flat.alignments, flat.alignments)
    np.testing.assert_allclose(eye, np.broadcast_to(np.eye(n_components), eye.shape), atol=1e-12)


def test_energies_of_distances():
    graph, rng = roll(), np.random.default_rng(6)
    weights, x = rng.random(len(graph.indices)), rng.standard_normal((graph.n_vertices, 2))
    x[1] = x[graph.indices[graph.indptr[1]]]
    device_graph = on_host(graph)
    check_energy(DeviceDistances(device_graph, 2, weights), DistanceEnergy(graph, 2, weights, ONE_THREAD), x)
    frames, _ = energies(graph, 2)
    both = DeviceDistances(device_graph, 2, weights, frames)
    alone = DeviceDistances(device_graph, 2, weights).evaluate(x), frames.evaluate(x)
    assert both.evaluate(x).energy == pytest.approx(sum(part.energy for part in alone), rel=1e-13)
    np.testing.assert_allclose(
        both.evaluate(x).half_gradient, alone[0].half_gradient + alone[1].half_gradient
    )


def test_energy_of_long_distances():
    graph, landmarks = roll(), np.array([3, 50, 400], dtype=np.int32)
    geodesics = dijkstra(graph.to_matrix(), indices=landmarks).T.copy()
    x = np.random.default_rng(7).standard_normal((graph.n_vertices, 2))
    ours = DeviceGlobal(landmarks, geodesics, 2.0, ONE_THREAD, on_host(graph))
    theirs = GlobalEnergy(landmarks, geodesics, 2.0, ONE_THREAD)
    check_energy(ours, theirs, x)
    np.testing.assert_allclose(ours.springs(x), theirs.springs(x), rtol=1e-12)
    assert ours.evaluate(np.zeros_like(x)).energy == theirs.evaluate(np.zeros_like(x)).energy


@pytest.mark.parametrize(("n_components", "solver"), [(2, "amg"), (9, "jacobi")])
def test_solver(n_components, solver):
    graph, rng = roll(1500), np.random.default_rng(8)
    weights = rng.random(len(graph.indices)) + 0.1
    both, rhs = weights + weights[graph.reverse], rng.standard_normal((graph.n_vertices, n_components))
    theirs = EdgeEnergy(graph, None, weights, ONE_THREAD).laplacian()
    state = DeviceSolver(on_host(graph), both, n_components)
    assert state.solver == solver
    ours = state.solve(rhs)
    assert (ours.status, state.notes) == ("converged", [])
    assert ours.iterations < (40 if solver == "amg" else 500)
    expected = factor(theirs).solve(rhs).value
    np.testing.assert_allclose(ours.value, expected, rtol=0, atol=1e-7 * np.abs(expected).max())
    assert ours.residual < 1e-10
    pulls = rng.random(graph.n_vertices)
    pulled = DeviceSolver(on_host(graph), both, n_components, pulls).solve(rhs).value
    left = rhs - (theirs @ pulled + pulls[:, None] * pulled)
    assert np.linalg.norm(left) < 1e-9 * np.linalg.norm(rhs)


def with_hub():
    """A sheet with a vertex that is joined to every fifth other."""
    matrix = knn_graph(np.random.default_rng(2).random((1500, 2)), 8).to_matrix().tolil()
    matrix[7, ::5] = matrix[::5, 7] = 1.0
    matrix.setdiag(0.0)
    return graph_from_matrix(sp.csr_array(matrix))


@pytest.mark.parametrize("make", [lambda: roll(1500), with_hub], ids=["roll", "hub"])
def test_the_hierarchy_is_that_of_the_cpu(make):
    graph = make()
    weights = np.random.default_rng(3).random(len(graph.indices)) + 0.1
    both = weights + weights[graph.reverse]
    theirs = Multigrid(
        prepare_laplacian(EdgeEnergy(graph, None, weights, ONE_THREAD).laplacian()), ONE_THREAD
    )
    state = DeviceSolver(on_host(graph), both, 2)
    assert len(state._levels) == len(theirs._levels) > 0
    for ours, level in zip(state._levels, theirs._levels, strict=True):
        for name in ("matrix", "prolong"):
            a, b = getattr(ours, name), getattr(level, name)
            shape = (a.n, level.restrict.n if name == "prolong" else a.n)
            a, b = (sp.csr_array(csr[2::-1], shape=shape).toarray() for csr in (a, b))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(b).max())
    rhs = np.random.default_rng(8).standard_normal((graph.n_vertices, 2))
    assert state.solve(rhs).iterations < 25


def test_a_failing_multigrid_gives_way_to_the_diagonal(monkeypatch):
    import isoweave.cuda._solver as solver

    graph = roll(400)
    monkeypatch.setitem(solver._MOST_ITERATIONS, "amg", 1)
    state = DeviceSolver(on_host(graph), np.full(len(graph.indices), 2.0), 2)
    found = state.solve(np.random.default_rng(0).standard_normal((400, 2)))
    assert (found.status, found.solver, state.ladder) == ("converged", "jacobi", ("jacobi",))
    assert "amg stalled" in state.notes[0]
    assert "went on with jacobi" in state.notes[0]


def test_geodesics_have_the_same_bits():
    graph = roll()
    sources = np.array([0, 17, 333])
    assert np.array_equal(
        device_geodesics(on_host(graph), sources), dijkstra(graph.to_matrix(), indices=sources).T
    )
    landmarks, distances = device_landmarks(on_host(graph), 2)
    theirs = find_landmarks(graph, 2)
    assert np.array_equal(landmarks, theirs.vertices)
    assert np.array_equal(distances.T, theirs.distances)


def test_the_coarse_start_samples_the_same():
    graph = roll(1200)
    theirs = coarsen_on_cpu(graph, team=ONE_THREAD)
    sample, anchors, distances, filled = coarsen(on_host(graph))
    assert np.array_equal(sample.indices, theirs.graph.indices)
    assert np.array_equal(sample.lengths, theirs.graph.lengths)
    assert np.array_equal(filled, theirs.filled)
    used = np.arange(anchors.shape[1]) < filled[:, None]
    assert np.array_equal(anchors[used], theirs.anchors[used])
    assert np.array_equal(distances[used], theirs.distances[used])
    places = np.random.default_rng(1).standard_normal((sample.n_vertices, 2))
    ours = prolong(on_host(graph), anchors, distances, filled, places)
    np.testing.assert_allclose(
        ours, prolong_on_cpu(graph, theirs, places, team=ONE_THREAD), rtol=0, atol=1e-9
    )
    # Without anchors a vertex goes to its nearest neighbour that has some.
    filled, few = filled.copy(), theirs.filled.copy()
    filled[5] = few[5] = 0
    ours = prolong(on_host(graph), anchors, distances, filled, places)
    expected = prolong_on_cpu(graph, replace(theirs, filled=few), places, team=ONE_THREAD)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)


def test_the_graph_is_prepared_alike():
    data = swiss_roll(900, random_state=1, noise=0.6).data
    given = knn_graph(data, 10)
    stages = []
    ours, theirs = prepare_on_device(given, True, HostDevice(), stages.append), prepare_graph(given)
    assert len(theirs.dropped) > 0
    assert (stages, ours.unit) == (["shortcuts"], theirs.unit)
    assert np.array_equal(ours.dropped, theirs.dropped)
    a, b = (p.graph.to_matrix()[p.representative][:, p.representative] for p in (ours, theirs))
    assert (a != b).nnz == 0
    assert graph_from_matrix(ours.graph.to_matrix()).indices.tolist() == ours.graph.indices.tolist()
    # Neighbours lie near each other.
    ends = ours.graph.sources.astype(int) - ours.graph.indices
    assert np.median(np.abs(ends)) < 0.2 * np.median(np.abs(given.sources.astype(int) - given.indices))
    assert np.array_equal(ours.labels, theirs.labels)
    assert DeviceGraph.of(ours.graph, HostDevice()).n_edges == theirs.graph.n_edges
    # Balls that exceed the memory of the first search are searched again.
    normal = DeviceGraph.of(prepare_graph(given, False).graph, HostDevice(shared=2**14))
    assert np.array_equal(without_shortcuts(normal)[1], drop_shortcuts(normal.to_host(), team=ONE_THREAD)[1])


def test_duplicates_and_parts_are_left_to_the_cpu():
    twice = np.concatenate([np.random.default_rng(0).random((40, 2))] * 2)
    assert prepare_on_device(knn_graph(twice, 5), True, HostDevice(), print) is None
    apart = knn_graph(np.concatenate([twice[:40], twice[:40] + 100.0]), 5)
    assert prepare_on_device(apart, True, HostDevice(), print) is None
    assert not is_connected(on_host(apart))
    with pytest.raises(ValueError, match="rescale or remove the extreme ones"):
        prepare_on_device(
            graph_from_matrix(sp.csr_array(np.diag([1e-160, 1e160], 1))), True, HostDevice(), print
        )


def fit(graph, **options):
    """A component on the device that is none, and the embedding on the CPU."""
    theirs = embed_graph(graph, n_jobs=1, **options)
    resolved, prepared = resolve_options(options.pop("n_components", 2), **options), prepare_graph(graph)
    ours = embed_on_device(prepared.graph, resolved, Known(), ONE_THREAD, None, ALONE, HostDevice())
    return ours, theirs, ours.iteration.coordinates[prepared.representative] * prepared.unit


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (roll(900), {"start": "coarse"}),
        (cloud(400, 3, 10), {"start": "landmark", "refine": "distances", "scale": "geodesics"}),
        (cloud(300, 20, 12), {"start": "landmark", "n_components": 9}),
        (roll(700), {"start": "landmark", "global_weight": 4.0}),
        (cloud(200, 3, 10), {"start": "landmark"}),
    ],
    ids=[
        "coarse and refined",
        "distances and geodesics",
        "nine dimensions, global",
        "a surface, global",
        "from above",
    ],
)
def test_whole_fits_agree(graph, options):
    ours, theirs, x = fit(graph, **options)
    assert (ours.start, ours.iteration.status) == (theirs.start, theirs.status)
    assert ours.global_weight == pytest.approx(theirs.global_weight, rel=1e-8)
    energy = ours.iteration.energy / ours.mass
    assert energy == pytest.approx(theirs.relative_energy, rel=1e-9)
    rotation, shift = rigid_motion(x, theirs.coordinates)
    size = np.abs(theirs.coordinates).max()
    np.testing.assert_allclose(x @ rotation + shift, theirs.coordinates, rtol=0, atol=1e-6 * size)
    np.testing.assert_allclose(np.sort(ours.stretch), np.sort(theirs.stretch[: len(ours.stretch)]), atol=1e-6)


def test_a_collapsed_frame_is_told():
    """Edges without length in the map: their vertices have no stretch in the last direction."""
    graph = roll()
    energy = DeviceEdgeEnergy(on_host(graph), local_frames(graph, 2), np.ones(len(graph.indices)))
    x = np.random.default_rng(0).standard_normal((graph.n_vertices, 2))
    x[graph.indices[0]] = x[0]
    stretch, lost = _stretch(energy.graph, energy, x)
    assert lost[0]
    assert lost.sum() == 2
    assert (stretch[lost, -1] == 0.0).all()


@pytest.mark.parametrize(
    ("n", "d", "k"), [(700, 3, 10), (513, 2, 5), (300, 1, 3), (400, 5, 63), (1025, 10, 12)]
)
def test_neighbours_are_those_of_the_cpu(n, d, k):
    x = np.random.default_rng(n).standard_normal((n, d)) * np.logspace(0, -3, d) + 5.0
    # Far from even: half of the points in a thousandth of the extent.
    x[::2] = x[0] + 1e-3 * (x[::2] - x[0])
    ours, theirs = neighbor_graph(x, k, HostDevice()), knn_graph(x, k)
    for name in ("indptr", "indices", "lengths"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize(
    "x",
    [
        np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2),
        np.repeat(np.random.default_rng(0).random((100, 3)), 2, axis=0),
        np.zeros((50, 2)),
        1e-200 * np.random.default_rng(0).random((100, 3)),
    ],
    ids=["ties", "duplicates", "one point", "tiny"],
)
def test_neighbours_that_are_left_to_the_cpu(x):
    assert neighbor_graph(x, 5, HostDevice()) is None
