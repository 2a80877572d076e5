"""Energies and operators: loops, finite differences, identities; edges that count with their lengths only."""

from dataclasses import replace

import numpy as np
import pytest

import reference_loops as loops
from isoweave import embed_graph, energy as module
from isoweave._parallel import thread_team
from isoweave.datasets import swiss_roll
from isoweave.energy import (
    AnchorEnergy,
    DistanceEnergy,
    Sum,
    differences,
    divergence,
    edge_energy,
    paper_energy,
)
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, neighborhood_volumes
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.metrics import procrustes_error
from isoweave.optimise import build_problem
from reference_graphs import edges_of, graph_of, knn_of, random_rotations, random_sparse, with_hubs
from reference_problems import TEAM, assert_gradient, descend, make_problem

FRAMES = pytest.mark.parametrize(
    ("kind", "n_components"), [("edge", 1), ("edge", 5), ("hub", 2), ("paper", 1), ("paper", 3)]
)


def energy_of(kind, n_components):
    """An energy of 50 vertices: frames of a kind, distances, anchors, or sums of these."""
    problem, rng = make_problem(kind if kind in ("edge", "hub", "paper") else "edge", n_components)
    frames = problem.frames
    vertices = np.array([3, 20, 5, 33, 41])
    weights = np.array([np.inf, np.inf, *rng.uniform(0.5, 3.0, size=3)])
    anchors = AnchorEnergy(vertices, rng.normal(size=(5, n_components)), weights, 50)
    distances = DistanceEnergy(frames.graph, n_components, getattr(frames, "weights", None), TEAM)
    sums = {"sum": Sum((frames, anchors)), "sum of distances": Sum((distances, anchors))}
    return ({"distances": distances, "anchors": anchors} | sums).get(kind, frames), rng


ALL = pytest.mark.parametrize(
    "kind", ["edge", "hub", "paper", "distances", "anchors", "sum", "sum of distances"]
)
DIMENSIONS = pytest.mark.parametrize("n_components", [1, 3])


@ALL
@DIMENSIONS
def test_half_gradient_mass_and_laplacian(kind, n_components):
    """Finite differences; mass is the value where all points coincide, anchors are a diagonal of pulls."""
    energy, rng = energy_of(kind, n_components)
    x = rng.normal(size=(50, n_components))
    here = energy.evaluate(x)
    assert here.energies.sum() == pytest.approx(here.energy, rel=1e-12)
    assert_gradient(lambda y: energy.evaluate(y).energy, here.half_gradient, x, rng, rel=1e-5, abs=1e-5)
    is_sum, laplacian = kind.startswith("sum"), energy.laplacian().toarray()
    main = energy.terms[0] if is_sum else energy
    zero = main.evaluate(np.zeros((50, n_components))).energy
    assert energy.mass == (0.0 if kind == "anchors" else pytest.approx(zero, rel=1e-12))
    np.testing.assert_allclose(laplacian, laplacian.T, atol=1e-13 * np.abs(laplacian).max())
    pulls = np.zeros(50)
    if kind == "anchors" or is_sum:
        anchors = energy.terms[1] if is_sum else energy
        pulls[anchors.pulled] = anchors.pull
        assert anchors.pulled.tolist() == [5, 33, 41]
        assert anchors.held.tolist() == [3, 20]
    np.testing.assert_allclose(laplacian @ np.ones(50), pulls, atol=1e-12 * np.abs(laplacian).max())
    assert all(np.isfinite(array).all() for array in energy.suspects().values())


@pytest.mark.parametrize("n_components", [1, 2, 3, 8])
@pytest.mark.parametrize("kind", [module.EdgeEnergy, module.PaperEnergy])
def test_frames_agree_with_the_loop(kind, n_components):
    """Values, gradient, rotations that no others beat, mass; a hub, and edges without a row."""
    rng = np.random.default_rng(400 + n_components)
    # Degrees well above N, so that every best rotation is unique.
    graph = with_hubs(rng.normal(size=(25, 2)), max(9, 2 * n_components + 4), [3], rng)
    m = len(graph.indices)
    included = rng.uniform(size=m) < 0.9
    rows = np.where(included[:, None], rng.normal(size=(m, n_components)), 0.0)
    frames = LocalFrames(rows, included, np.zeros((25, n_components)), np.ones(25))
    weights = np.where(included, rng.uniform(0.5, 2.0, size=m), 0.0)
    metric = weights if kind is module.EdgeEnergy else rng.normal(size=(m, n_components))
    energy, x = kind(graph, frames, metric, TEAM), rng.normal(size=(25, n_components))
    here = energy.evaluate(x)
    energies, rotations, half_gradient = loops.energy_loop(graph, frames, energy, x)
    np.testing.assert_allclose(here.alignments, rotations, atol=1e-9)
    np.testing.assert_allclose(here.energies, energies, rtol=1e-11)
    np.testing.assert_allclose(here.half_gradient, half_gradient, atol=1e-10)
    squares = here.alignments.transpose(0, 2, 1) @ here.alignments
    np.testing.assert_allclose(squares, np.tile(np.eye(n_components), (25, 1, 1)), atol=1e-12)
    for others in random_rotations(125, n_components, rng).reshape(5, 25, n_components, n_components):
        assert np.all(loops.energy_loop(graph, frames, energy, x, others)[0] >= here.energies * (1 - 1e-12))
    mass = 0.0
    for i in range(25):
        own = rows[graph.indptr[i] : graph.indptr[i + 1]]
        mass += np.trace(own.T @ loops.inner_matrix(graph, energy, i) @ own)
    assert energy.mass == pytest.approx(mass, rel=1e-11)


@FRAMES
def test_no_common_rotation_is_left_after_integration(kind, n_components):
    """L x = div(W E Q): the sum of the rotated B_i is x^T L x, symmetric and positive semi-definite."""
    problem, rng = make_problem(kind, n_components)
    energy, graph = problem.frames, problem.graph
    rotations, total = random_rotations(50, n_components, rng), 0.0
    x = problem.integrate(rotations)
    half_gradient = loops.energy_loop(graph, energy.frames, energy, x, rotations)[2]
    np.testing.assert_allclose(half_gradient, 0.0, atol=1e-9 * np.abs(energy.laplacian() @ x).max())
    for i in range(50):
        rows = energy.frames.rows[graph.indptr[i] : graph.indptr[i + 1]]
        inner = loops.inner_matrix(graph, energy, i)
        total = total + rotations[i].T @ rows.T @ inner @ loops.differences_at(graph, i, x)
    scale = np.abs(total).max()
    np.testing.assert_allclose(total, x.T @ (energy.laplacian() @ x), atol=1e-9 * scale)
    assert np.linalg.eigvalsh(0.5 * (total + total.T))[0] >= -1e-9 * scale


@FRAMES
def test_rigid_motions_and_axes_of_frames_do_not_matter(kind, n_components):
    energy, rng = energy_of(kind, n_components)
    x = rng.normal(size=(50, n_components))
    here = energy.evaluate(x)
    turn = random_rotations(1, n_components, rng)[0]
    moved = energy.evaluate(x @ turn + 3.0)
    assert moved.energy == pytest.approx(here.energy, rel=1e-11)
    np.testing.assert_allclose(moved.alignments, here.alignments @ turn, atol=1e-8)
    turns = random_rotations(50, n_components, rng)
    rows = np.einsum("er,erc->ec", energy.frames.rows, turns[energy.graph.sources])
    there = replace(energy, frames=replace(energy.frames, rows=rows)).evaluate(x)
    np.testing.assert_allclose(there.energies, here.energies, rtol=1e-9)
    np.testing.assert_allclose(there.half_gradient, here.half_gradient, atol=1e-9)


def test_weights_and_volumes():
    """Confidence is the weight, nothing without a row; volumes enter by their root."""
    problem, rng = make_problem("edge", 2)
    graph, frames = problem.graph, problem.frames.frames
    np.testing.assert_array_equal(edge_energy(graph, frames).weights, 1.0)
    confidence = rng.uniform(0.5, 2.0, size=len(graph.indices))
    included = confidence < 1.0
    np.testing.assert_array_equal(edge_energy(graph, frames, confidence=confidence).weights, confidence)
    partial = edge_energy(graph, replace(frames, included=included), confidence=confidence).weights
    np.testing.assert_array_equal(partial, np.where(included, confidence, 0.0))
    energy, volumes = energy_of("paper", 2)[0], rng.uniform(0.5, 2.0, size=50)
    graph, frames = energy.graph, energy.frames
    found = paper_energy(graph, frames, volumes, team=TEAM).inverse
    np.testing.assert_allclose(found, np.sqrt(volumes)[graph.sources][:, None] * frames.inverse)
    with pytest.raises(ValueError, match="with_inverse=True"):
        paper_energy(graph, replace(frames, inverse=None), volumes, team=TEAM)


@DIMENSIONS
def test_distances_agree_with_the_loop(n_components):
    energy, rng = energy_of("distances", n_components)
    graph, x = energy.graph, rng.normal(size=(50, n_components))
    pairs = zip(graph.sources.tolist(), graph.indices.tolist(), strict=True)
    weight = dict(zip(pairs, energy.weights, strict=True))
    expected = sum(
        (weight[i, j] + weight[j, i]) * (np.linalg.norm(x[i] - x[j]) - d) ** 2 for i, j, d in edges_of(graph)
    )
    assert energy.evaluate(x).energy == pytest.approx(expected, rel=1e-12)
    assert energy.mass == pytest.approx(np.sum(energy.weights * graph.lengths**2))
    # Ends in one place do not divide by zero.
    x[7] = x[graph.indices[graph.indptr[7]]]
    assert np.isfinite(energy.evaluate(x).half_gradient).all()


def test_the_truth_costs_nothing():
    """Summed from residuals, not from a difference of norms: exact data reach rounding squared."""
    rng = np.random.default_rng(12)
    points = rng.normal(size=(40, 2))
    graph = knn_of(points, 39)
    energy = edge_energy(graph, local_frames(graph, 2, team=TEAM), team=TEAM)
    assert energy.evaluate(points).energy < 1e-25 * energy.mass
    problem = build_problem(energy).of_distances()
    assert problem.evaluate(points).energy < 1e-25
    result = descend(problem, points + 0.05 * rng.normal(size=points.shape), tol=1e-10)
    assert result.energy < 1e-16 * problem.mass
    with pytest.raises(ValueError, match="edge inner product"):
        make_problem("paper", 2)[0].of_distances()


def case(kind, n_components, n=45):
    """An energy whose graph has a hub, or lengths that obey no triangle inequality."""
    rng = np.random.default_rng(307 + n_components)
    graph = random_sparse(n, 30, rng) if kind == "sparse" else with_hubs(rng.normal(size=(n, 3)), 6, [5], rng)
    frames = local_frames(graph, n_components, team=TEAM, frame_size="all", with_inverse=True)
    if kind == "paper":
        return paper_energy(graph, frames, neighborhood_volumes(graph, frames, "hull"), team=TEAM)
    return edge_energy(graph, calibrate_frames(graph, frames), confidence=graph.lengths**-2, team=TEAM)


@pytest.mark.parametrize("kind", ["edge", "sparse", "paper"])
@DIMENSIONS
def test_laplacian(kind, n_components):
    """Its definition by loops, matrix-free products, semi-definiteness and kernel."""
    energy = case(kind, n_components)
    graph, laplacian, n = energy.graph, energy.laplacian(), energy.graph.n_vertices
    dense = laplacian.toarray()
    scale = np.abs(dense).max()
    np.testing.assert_allclose(dense, loops.laplacian_loop(graph, energy), atol=1e-12 * scale)
    values = np.random.default_rng(311).normal(size=(n, 4))
    free = divergence(graph, energy.flux(differences(graph, values)), TEAM)
    assert np.abs(laplacian @ values - free).max() <= 1e-12 * np.abs(free).max()
    eigenvalues = np.linalg.eigvalsh(dense)
    assert eigenvalues[0] >= -1e-13 * eigenvalues[-1]
    np.testing.assert_allclose(laplacian @ np.ones(n), 0.0, atol=1e-12 * scale)
    if kind != "paper":
        # Positive weights on a connected graph: the constants are all of the kernel.
        assert eigenvalues[1] > 1e-6 * eigenvalues[-1]
        assert (dense - np.diag(np.diag(dense))).max() <= 0.0
        return
    assert laplacian.has_sorted_indices
    d = module.paper_differential(graph, energy.inverse)
    for other in (loops.laplacian_printed(graph, energy), (d.T @ d).toarray()):
        np.testing.assert_allclose(dense, other, atol=1e-12 * scale)
    found = (d @ values[:, 0]).reshape(n, n_components)
    for i in range(n):
        steps = loops.differences_at(graph, i, values[:, 0])
        expected = energy.inverse[graph.indptr[i] : graph.indptr[i + 1]].T @ steps
        np.testing.assert_allclose(found[i], expected, atol=1e-12 * max(1.0, np.abs(found).max()))


@pytest.mark.parametrize("columns", [1, 2, 5, 8, 13, 16])
def test_divergence_is_the_adjoint_of_the_differences(columns):
    rng = np.random.default_rng(331)
    graph = knn_of(rng.normal(size=(300, 2)), 5)
    f, z = rng.normal(size=(300, columns)), rng.normal(size=(len(graph.indices), columns))
    found = divergence(graph, z, TEAM)
    np.testing.assert_allclose(np.sum(differences(graph, f) * z), np.sum(f * found), rtol=1e-11)
    np.testing.assert_allclose(found, loops.divergence_loop(graph, z), atol=1e-12)
    # Integrated: what leaves one vertex arrives at others.
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-11)
    with thread_team(2) as team:
        np.testing.assert_array_equal(divergence(graph, z, team), found)


def with_hub(points, graph, n_far, rng):
    """The graph, and true distances from its vertex 0 to so many others."""
    matrix = graph.to_matrix().tolil()
    for j in rng.choice(np.arange(1, len(points)), n_far, replace=False):
        matrix[0, j] = matrix[j, 0] = np.linalg.norm(points[j] - points[0])
    return graph_from_matrix(matrix.tocsr())


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
    assert_gradient(lambda y: energy.evaluate(y).energy, here.half_gradient, x, rng, rel=1e-6, abs=1e-6)
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
@pytest.mark.parametrize(("spine", "n_leaves", "length"), [(150, 3, 3.0), (150, 2, 2.0)])
def test_the_spine_of_a_caterpillar_keeps_its_length(spine, n_leaves, length):
    """A path of unit edges with leaves at every vertex."""
    leaves = [(k % spine, spine + k, length) for k in range(spine * n_leaves)]
    tree = graph_of([*((i, i + 1, 1.0) for i in range(spine - 1)), *leaves], spine * (n_leaves + 1))
    found = embed_graph(tree.to_matrix(), 2)
    assert found.status != "collapsed"
    x = found.coordinates[:spine]
    lengths = np.linalg.norm(np.diff(x, axis=0), axis=1)
    assert 0.5 < lengths.min() <= np.mean(lengths) < 1.1
    # Laid out, not folded: along the spine, distances are geodesics.
    steps = np.linalg.norm(x[:, None] - x, axis=2).ravel()
    hops = np.abs(np.subtract.outer(np.arange(spine), np.arange(spine))).ravel()
    assert np.corrcoef(steps, hops)[0, 1] > 0.98
