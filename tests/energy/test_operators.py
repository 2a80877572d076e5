"""Identities of the differential, the divergence and the Laplacian, and their loop versions."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.energy import differences, divergence, edge_energy, paper_differential, paper_energy
from isoweave.geometry import calibrate_frames, local_frames, neighborhood_volumes
from reference_graphs import knn_of, random_sparse, row_of, with_hubs
from reference_operators import (
    differences_at,
    divergence_loop,
    inner_matrix,
    inverse_matrices,
    laplacian_appendix,
    laplacian_loop,
    laplacian_printed,
)

TEAM = ThreadTeam(1)
KINDS = pytest.mark.parametrize("kind", ["edge", "sparse", "paper"])
DIMENSIONS = pytest.mark.parametrize("n_components", [1, 2, 3])


def case(kind, n_components, n=45):
    """An energy whose graph has a hub, or lengths that obey no triangle inequality."""
    rng = np.random.default_rng(307 + n_components)
    graph = random_sparse(n, 30, rng) if kind == "sparse" else with_hubs(rng.normal(size=(n, 3)), 6, [5], rng)
    frames = local_frames(graph, n_components, team=TEAM, frame_size="all", with_inverse=True)
    if kind == "paper":
        return paper_energy(graph, frames, neighborhood_volumes(graph, frames, "hull"), team=TEAM)
    return edge_energy(graph, calibrate_frames(graph, frames, "rows"), "inverse-square", team=TEAM)


@KINDS
@DIMENSIONS
def test_laplacian(kind, n_components):
    """Its definition by loops, matrix-free products, symmetry, semi-definiteness and kernel."""
    energy = case(kind, n_components)
    graph, laplacian = energy.graph, energy.laplacian()
    dense = laplacian.toarray()
    scale = np.abs(dense).max()
    np.testing.assert_allclose(dense, laplacian_loop(graph, energy), atol=1e-12 * scale)
    values = np.random.default_rng(311).normal(size=(graph.n_vertices, 4))
    free = divergence(graph, energy.flux(differences(graph, values)), TEAM)
    assert np.abs(laplacian @ values - free).max() <= 1e-12 * np.abs(free).max()
    np.testing.assert_allclose(dense, dense.T, atol=1e-13 * scale)
    eigenvalues = np.linalg.eigvalsh(dense)
    assert eigenvalues[0] >= -1e-13 * eigenvalues[-1]
    ones = np.full((graph.n_vertices, 1), 7.0)
    assert np.all(differences(graph, ones) == 0.0)
    np.testing.assert_allclose(laplacian @ ones, 0.0, atol=1e-12 * scale)
    if kind == "paper":
        np.testing.assert_allclose(paper_differential(graph, energy.inverse) @ ones, 0.0, atol=1e-12 * scale)
    else:
        # Positive weights on a connected graph: the constants are all of the kernel.
        assert eigenvalues[1] > 1e-6 * eigenvalues[-1]
        assert (dense - np.diag(np.diag(dense))).max() <= 0.0


@DIMENSIONS
def test_all_constructions_of_the_papers_laplacian_agree(n_components):
    """d^T d, the printed formula and the entry-wise one of the appendix."""
    energy = case("paper", n_components, n=25)
    built = energy.laplacian().toarray()
    d = paper_differential(energy.graph, energy.inverse)
    others = laplacian_printed(energy.graph, energy), laplacian_appendix(energy.graph, energy)
    for other in (*others, (d.T @ d).toarray()):
        np.testing.assert_allclose(built, other, atol=1e-12 * np.abs(built).max())


@DIMENSIONS
def test_differential_agrees_with_the_loop(n_components):
    energy = case("paper", n_components)
    graph = energy.graph
    f = np.random.default_rng(313).normal(size=graph.n_vertices)
    found = (paper_differential(graph, energy.inverse) @ f).reshape(graph.n_vertices, n_components)
    for i in range(graph.n_vertices):
        p = energy.inverse[graph.indptr[i] : graph.indptr[i + 1]]
        expected = p.T @ differences_at(graph, i, f)
        np.testing.assert_allclose(found[i], expected, atol=1e-12 * max(1.0, np.abs(found).max()))


def test_differential_of_a_linear_function_is_its_gradient():
    """With exact frames the differential of x -> x . a is a, seen in the frame and weighted."""
    points = np.random.default_rng(317).normal(size=(15, 2))
    graph = knn_of(points, 14)
    frames = local_frames(graph, 2, team=TEAM, with_inverse=True)
    d = paper_differential(graph, paper_energy(graph, frames, np.full(15, 4.0), team=TEAM).inverse)
    for axis in range(2):
        # Two, the root of the volume: the frames are rotations of the coordinate axes.
        found = np.linalg.norm((d @ points[:, axis]).reshape(15, 2), axis=1)
        np.testing.assert_allclose(found, 2.0, rtol=1e-10)


def test_pattern_of_the_papers_matrices():
    energy = case("paper", 2)
    graph, laplacian = energy.graph, energy.laplacian()
    matrices = inverse_matrices(graph, energy)
    for i in range(graph.n_vertices):
        neighbors = {v for _, v, _ in row_of(graph, i)}
        assert set(np.flatnonzero(np.abs(matrices[:, i]).sum(axis=0))) <= neighbors
    links = (graph.to_matrix() != 0).astype(float)
    squared = ((links @ links + links).toarray() > 0) | np.eye(graph.n_vertices, dtype=bool)
    assert not (laplacian.toarray() != 0)[~squared].any()
    assert laplacian.has_sorted_indices


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_divergence_is_the_adjoint_of_the_differences(columns):
    graph = case("edge", 2).graph
    rng = np.random.default_rng(331)
    f = rng.normal(size=(graph.n_vertices, columns))
    z = rng.normal(size=(len(graph.indices), columns))
    found = divergence(graph, z, TEAM)
    np.testing.assert_allclose(np.sum(differences(graph, f) * z), np.sum(f * found), rtol=1e-12)
    np.testing.assert_allclose(found, divergence_loop(graph, z), atol=1e-12)
    # Integrated: what leaves one vertex arrives at others.
    np.testing.assert_allclose(found.sum(axis=0), 0.0, atol=1e-11)


@KINDS
def test_laplacian_is_the_divergence_of_weighted_differences(kind):
    """<f, L g> = sum_i <df, dg>_i with the inner product of 1-forms at i."""
    energy = case(kind, 2)
    graph = energy.graph
    f, g = np.random.default_rng(337).normal(size=(2, graph.n_vertices))
    total = sum(
        differences_at(graph, i, f) @ inner_matrix(graph, energy, i) @ differences_at(graph, i, g)
        for i in range(graph.n_vertices)
    )
    assert f @ (energy.laplacian() @ g) == pytest.approx(total, rel=1e-11)


@pytest.mark.parametrize("kind", ["edge", "paper"])
def test_several_components_have_a_kernel_each(kind):
    rng = np.random.default_rng(347)
    graph = knn_of(np.vstack([rng.normal(size=(12, 2)), rng.normal(size=(9, 2)) + 100.0]), 4)
    frames = local_frames(graph, 2, team=TEAM, frame_size="all", with_inverse=True)
    paper = kind == "paper"
    energy = (
        paper_energy(graph, frames, np.ones(21), team=TEAM)
        if paper
        else edge_energy(graph, frames, team=TEAM)
    )
    left, laplacian = (np.arange(21) < 12).astype(float)[:, None], energy.laplacian()
    np.testing.assert_allclose(laplacian @ left, 0.0, atol=1e-12 * abs(laplacian).max())


def test_threads_do_not_change_the_bits():
    graph = knn_of(np.random.default_rng(349).normal(size=(900, 2)), 5)
    flux = np.random.default_rng(353).normal(size=(len(graph.indices), 2))
    with thread_team(2) as team:
        together = divergence(graph, flux, team)
    np.testing.assert_array_equal(together, divergence(graph, flux, TEAM))
