"""Identities of the differential, the divergence and the Laplacian, and their loop versions."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.energy import (
    RankInnerProduct,
    apply_laplacian,
    build_differential,
    build_laplacian,
    differences,
    divergence,
    edge_inner_product,
    rank_inner_product,
)
from isoweave.geometry import calibrate_frames, local_frames, neighborhood_volumes
from reference_graphs import knn_of, random_sparse, row_of, with_hubs
from reference_operators import (
    differences_at,
    divergence_loop,
    inverse_matrices,
    laplacian_appendix,
    laplacian_loop,
    laplacian_printed,
)

TEAM = ThreadTeam(1)


def case(kind, n_components, n=45):
    """Graph and inner product; the graph has a hub that leaves rows out for the edge product."""
    rng = np.random.default_rng(307 + n_components)
    graph = with_hubs(rng.normal(size=(n, 3)), 6, [5], rng)
    if kind == "sparse":
        graph = random_sparse(n, 30, rng)
    frames = local_frames(graph, n_components, team=TEAM, frame_size="all", with_inverse=True)
    if kind == "paper":
        return graph, rank_inner_product(frames, neighborhood_volumes(graph, frames, "hull"), graph)
    frames = calibrate_frames(graph, frames, "rows")
    return graph, edge_inner_product(graph, frames, "inverse-square")


KINDS = pytest.mark.parametrize("kind", ["edge", "sparse", "paper"])
DIMENSIONS = pytest.mark.parametrize("n_components", [1, 2, 3])


@KINDS
@DIMENSIONS
def test_constants_are_in_the_kernel(kind, n_components):
    graph, inner = case(kind, n_components)
    laplacian = build_laplacian(graph, inner)
    scale = abs(laplacian).max()
    ones = np.full((graph.n_vertices, 1), 7.0)
    assert np.all(differences(graph, ones) == 0.0)
    assert np.all(apply_laplacian(graph, inner, ones, TEAM) == 0.0)
    np.testing.assert_allclose(laplacian @ ones, 0.0, atol=1e-12 * scale)
    if isinstance(inner, RankInnerProduct):
        np.testing.assert_allclose(build_differential(graph, inner) @ ones, 0.0, atol=1e-12 * scale)


@KINDS
@DIMENSIONS
def test_laplacian_is_symmetric_and_positive_semidefinite(kind, n_components):
    graph, inner = case(kind, n_components)
    dense = build_laplacian(graph, inner).toarray()
    np.testing.assert_allclose(dense, dense.T, atol=1e-13 * np.abs(dense).max())
    values = np.linalg.eigvalsh(dense)
    assert values[0] >= -1e-13 * values[-1]
    if kind != "paper":
        # Positive weights on a connected graph: the constants are all of the kernel.
        assert values[1] > 1e-6 * values[-1]
        off = dense - np.diag(np.diag(dense))
        assert off.max() <= 0.0


@KINDS
@DIMENSIONS
def test_laplacian_agrees_with_its_definition(kind, n_components):
    graph, inner = case(kind, n_components)
    expected = laplacian_loop(graph, inner)
    np.testing.assert_allclose(
        build_laplacian(graph, inner).toarray(), expected, atol=1e-12 * np.abs(expected).max()
    )


@KINDS
@DIMENSIONS
def test_assembled_and_matrix_free_products_agree(kind, n_components):
    graph, inner = case(kind, n_components)
    values = np.random.default_rng(311).normal(size=(graph.n_vertices, 4))
    product = build_laplacian(graph, inner) @ values
    free = apply_laplacian(graph, inner, values, TEAM)
    assert np.abs(product - free).max() <= 1e-12 * np.abs(product).max()


@DIMENSIONS
def test_both_constructions_of_the_papers_laplacian_agree(n_components):
    """d^T d, the printed formula and the entry-wise one of the appendix."""
    graph, inner = case("paper", n_components, n=25)
    built = build_laplacian(graph, inner).toarray()
    atol = 1e-12 * np.abs(built).max()
    np.testing.assert_allclose(built, laplacian_printed(graph, inner), atol=atol)
    np.testing.assert_allclose(built, laplacian_appendix(graph, inner), atol=atol)
    d = build_differential(graph, inner)
    np.testing.assert_allclose(built, (d.T @ d).toarray(), atol=atol)


@DIMENSIONS
def test_differential_agrees_with_the_loop(n_components):
    graph, inner = case("paper", n_components)
    f = np.random.default_rng(313).normal(size=graph.n_vertices)
    found = (build_differential(graph, inner) @ f).reshape(graph.n_vertices, n_components)
    for i in range(graph.n_vertices):
        p = inner.inverse[graph.indptr[i] : graph.indptr[i + 1]]
        expected = p.T @ differences_at(graph, i, f)
        np.testing.assert_allclose(found[i], expected, atol=1e-12 * max(1.0, np.abs(found).max()))


def test_differential_of_a_linear_function_is_its_gradient():
    """With exact frames the differential of x -> x . a is a, seen in the frame and weighted."""
    points = np.random.default_rng(317).normal(size=(15, 2))
    graph = knn_of(points, 14)
    frames = local_frames(graph, 2, team=TEAM, with_inverse=True)
    inner = rank_inner_product(frames, np.full(15, 4.0), graph)
    d = build_differential(graph, inner)
    for axis in range(2):
        found = (d @ points[:, axis]).reshape(15, 2)
        # Two, the root of the volume: the frames are rotations of the coordinate axes.
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 2.0, rtol=1e-10)


def test_pattern_of_the_papers_matrices():
    graph, inner = case("paper", 2)
    matrices = inverse_matrices(graph, inner)
    for i in range(graph.n_vertices):
        neighbors = {v for _, v, _ in row_of(graph, i)}
        assert set(np.flatnonzero(np.abs(matrices[:, i]).sum(axis=0))) <= neighbors
    laplacian = build_laplacian(graph, inner)
    links = (graph.to_matrix() != 0).astype(float)
    squared = ((links @ links + links).toarray() > 0) | np.eye(graph.n_vertices, dtype=bool)
    assert not (laplacian.toarray() != 0)[~squared].any()
    assert laplacian.has_sorted_indices


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_divergence_is_the_adjoint_of_the_differences(columns):
    graph, _ = case("edge", 2)
    rng = np.random.default_rng(331)
    f = rng.normal(size=(graph.n_vertices, columns))
    z = rng.normal(size=(len(graph.indices), columns))
    np.testing.assert_allclose(
        np.sum(differences(graph, f) * z), np.sum(f * divergence(graph, z, TEAM)), rtol=1e-12
    )
    np.testing.assert_allclose(divergence(graph, z, TEAM), divergence_loop(graph, z), atol=1e-12)
    # Integrated: what leaves one vertex arrives at others.
    np.testing.assert_allclose(divergence(graph, z, TEAM).sum(axis=0), 0.0, atol=1e-11)


@KINDS
def test_laplacian_is_the_divergence_of_weighted_differences(kind):
    """<f, L g> = sum_i <df, dg>_i with the inner product of 1-forms at i."""
    graph, inner = case(kind, 2)
    rng = np.random.default_rng(337)
    f, g = rng.normal(size=(2, graph.n_vertices))
    total = 0.0
    for i in range(graph.n_vertices):
        at = slice(graph.indptr[i], graph.indptr[i + 1])
        df, dg = differences_at(graph, i, f), differences_at(graph, i, g)
        if isinstance(inner, RankInnerProduct):
            total += (inner.inverse[at].T @ df) @ (inner.inverse[at].T @ dg)
        else:
            total += np.sum(inner.weights[at] * df * dg)
    assert f @ (build_laplacian(graph, inner) @ g) == pytest.approx(total, rel=1e-11)


@KINDS
def test_several_components_have_a_kernel_each(kind):
    rng = np.random.default_rng(347)
    points = np.vstack([rng.normal(size=(12, 2)), rng.normal(size=(9, 2)) + 100.0])
    graph = knn_of(points, 4)
    frames = local_frames(graph, 2, team=TEAM, frame_size="all", with_inverse=True)
    volumes = np.ones(graph.n_vertices)
    inner = (
        rank_inner_product(frames, volumes, graph) if kind == "paper" else edge_inner_product(graph, frames)
    )
    left = (np.arange(21) < 12).astype(float)[:, None]
    laplacian = build_laplacian(graph, inner)
    np.testing.assert_allclose(laplacian @ left, 0.0, atol=1e-12 * abs(laplacian).max())


def test_threads_do_not_change_the_bits():
    points = np.random.default_rng(349).normal(size=(900, 2))
    graph = knn_of(points, 5)
    flux = np.random.default_rng(353).normal(size=(len(graph.indices), 2))
    with thread_team(2) as team:
        together = divergence(graph, flux, team)
    np.testing.assert_array_equal(together, divergence(graph, flux, TEAM))
