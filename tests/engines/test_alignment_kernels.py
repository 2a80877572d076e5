"""The orthogonal polar factor, and the kernels of the energy against loops."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ONE_THREAD
from isoweave.energy import EdgeEnergy, PaperEnergy
from isoweave.engines.alignment import align_edges, align_rank, divergence
from isoweave.engines.polar import newton_polar, polar
from isoweave.geometry import LocalFrames
from reference_graphs import knn_of, random_rotations, with_hubs
from reference_operators import divergence_loop, energy_loop

each_size = pytest.mark.parametrize("n", range(1, 14))


def polar_of(matrix):
    n = len(matrix)
    q = np.full((n, n), np.nan)
    polar(np.ascontiguousarray(matrix, dtype=float), q, np.empty((n, n)), np.empty((n, n)))
    return q


def assert_best_orthogonal(matrix):
    """Orthogonal, and with the largest possible trace: the sum of the singular values."""
    q = polar_of(matrix)
    values = np.linalg.svd(matrix, compute_uv=False)
    np.testing.assert_allclose(q.T @ q, np.eye(len(matrix)), atol=1e-13)
    np.testing.assert_allclose(q @ q.T, np.eye(len(matrix)), atol=1e-13)
    # Singular values below 1e-13 of the largest are taken for zero.
    assert np.sum(q * matrix) == pytest.approx(values.sum(), rel=1e-12, abs=1e-300)


@each_size
def test_polar_of_random_matrices(n):
    rng = np.random.default_rng(300 + n)
    for _ in range(20):
        assert_best_orthogonal(rng.normal(size=(n, n)))
    matrix = rng.normal(size=(n, n)) + 2.0 * np.eye(n)
    u, _, vt = np.linalg.svd(matrix)
    np.testing.assert_allclose(polar_of(matrix), u @ vt, atol=1e-11)


@each_size
def test_polar_of_reflections_keeps_them(n):
    """Orthogonal matrices of either determinant are their own polar factor."""
    (q,) = random_rotations(1, n, np.random.default_rng(340 + n))
    for sign in (1.0, -1.0):
        q[:, 0] *= sign * np.sign(np.linalg.det(q))
        assert np.linalg.det(q) == pytest.approx(sign)
        np.testing.assert_allclose(polar_of(3.0 * q), q, atol=1e-13)


@each_size
def test_polar_of_rank_deficient_matrices(n):
    rng = np.random.default_rng(360 + n)
    for rank in range(n):
        assert_best_orthogonal(rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n)))
        # Zero rows and columns, which leave whole directions untouched.
        block = np.zeros((n, n))
        block[:rank, :rank] = rng.normal(size=(rank, rank))
        assert_best_orthogonal(block)
        assert_best_orthogonal(block[::-1])
    q = polar_of(np.zeros((n, n)))
    np.testing.assert_array_equal(q @ q.T, np.eye(n))


@pytest.mark.parametrize("n", [2, 3, 6, 11])
@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e60, 1e140])
def test_polar_does_not_see_the_scale(n, scale):
    matrix = np.random.default_rng(380 + n).normal(size=(n, n))
    np.testing.assert_allclose(polar_of(scale * matrix), polar_of(matrix), atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 5, 9, 13])
def test_polar_of_ill_conditioned_matrices(n):
    u, v = random_rotations(2, n, np.random.default_rng(390 + n))
    for smallest in (1e-4, 1e-8, 1e-11, 1e-13, 1e-15, 1e-20):
        assert_best_orthogonal((u * np.geomspace(1.0, smallest, n)) @ v)
    # A pair of equal singular values, and parallel columns.
    assert_best_orthogonal((u * np.r_[1.0, 1.0, np.full(n - 2, 0.5)]) @ v)
    assert_best_orthogonal(np.ones((n, n)))


@pytest.mark.parametrize("n", [3, 8, 13])
@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-6])
def test_newton_finds_the_same_factor(n, smallest):
    u, v = random_rotations(2, n, np.random.default_rng(430 + n))
    q = np.empty((n, n))
    assert newton_polar((u * np.geomspace(1.0, smallest, n)) @ v, q, *np.empty((2, n, n)))
    np.testing.assert_allclose(q, u @ v, atol=1e-14 / smallest)
    np.testing.assert_allclose(q.T @ q, np.eye(n), atol=1e-13)


@pytest.mark.parametrize("matrix", [np.zeros((8, 8)), np.ones((8, 8)), np.diag([1.0] * 7 + [1e-9])])
def test_newton_gives_up_on_what_is_nearly_singular(matrix):
    assert not newton_polar(matrix, *np.empty((3, 8, 8)))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_newton_gives_up_or_is_right_at_the_ends_of_the_number_range(scale):
    matrix = scale * (np.random.default_rng(441).normal(size=(9, 9)) + 3.0 * np.eye(9))
    q = np.empty((9, 9))
    if newton_polar(matrix, q, *np.empty((2, 9, 9))):
        np.testing.assert_allclose(q, polar_of(matrix), atol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("kind", ["edge", "rank"])
def test_kernels_agree_with_loops(kind, n_components):
    """Random frames and metrics on a graph with a hub; some edges have no row."""
    rng = np.random.default_rng(400 + n_components)
    # Degrees well above N, so that every best rotation is unique.
    graph = with_hubs(rng.normal(size=(25, 2)), max(9, 2 * n_components + 4), [3], rng)
    n, m = graph.n_vertices, len(graph.indices)
    included = rng.uniform(size=m) < 0.9
    rows = np.where(included[:, None], rng.normal(size=(m, n_components)), 0.0)
    frames = LocalFrames(rows, included, np.zeros((n, n_components)), np.ones(n))
    if kind == "edge":
        kernel, metric = align_edges, np.where(included, rng.uniform(0.5, 2.0, size=m), 0.0)
        energy = EdgeEnergy(graph, frames, metric, ONE_THREAD)
    else:
        kernel, metric = align_rank, rng.normal(size=(m, n_components))
        energy = PaperEnergy(graph, frames, metric, ONE_THREAD)
    coordinates = rng.normal(size=(n, n_components))
    found = (np.full((n, n_components, n_components), np.nan), np.full(n, np.nan))
    flux, out = np.full((m, n_components), np.nan), np.full((n, n_components), np.nan)
    # Two ranges, as two threads would have them.
    for lo, hi in ((0, 11), (11, n)):
        kernel(lo, hi, graph.indptr, graph.indices, metric, rows, coordinates, *found, flux)
    divergence(0, n, graph.indptr, graph.reverse, flux, out)
    energies, rotations, half_gradient = energy_loop(graph, frames, energy, coordinates)
    np.testing.assert_allclose(found[0], rotations, atol=1e-9)
    np.testing.assert_allclose(found[1], energies, rtol=1e-11)
    np.testing.assert_allclose(out, half_gradient, atol=1e-10)


def test_divergence_agrees_with_the_loop():
    graph = knn_of(np.random.default_rng(431).normal(size=(30, 2)), 4)
    flux = np.random.default_rng(433).normal(size=(len(graph.indices), 3))
    out = np.full((30, 3), np.nan)
    divergence(0, 30, graph.indptr, graph.reverse, flux, out)
    np.testing.assert_allclose(out, divergence_loop(graph, flux), atol=1e-13)
