"""Plain numpy instead of compiled kernels: the same bits."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

from isoweave._parallel import ONE_THREAD as TEAM
from isoweave.engines import alignment, local_mds, paths, plain, plain_frames, sparse, stress
from isoweave.graph import graph_from_matrix
from isoweave.graph._graph import rows_by_length

RNG = np.random.default_rng(2031)


def random_graph(n, m):
    """Edges of many lengths, some of them equal, with a hub and vertices without any edge."""
    i, j = RNG.integers(n - 3, size=(2, m))
    i[: n // 3] = 0
    i, j = i[i != j], j[i != j]
    lengths = np.round(RNG.lognormal(size=len(i)), 1) + 0.1
    return graph_from_matrix(sp.coo_array((lengths, (i, j)), shape=(n, n)), asymmetry="min")


@pytest.fixture(params=[(6, 8), (60, 200), (300, 3000)], ids=str)
def graph(request):
    return random_graph(*request.param)


def bits(shapes, *calls):
    """What some calls write into new arrays of these shapes."""
    out = [np.full(shape, np.nan) for shape in shapes]
    for call in calls:
        call(*out)
    return [array.tobytes() for array in out]


def same(compiled, numpy, n, shapes, *arrays):
    """All items at once by the kernel, and in two ranges by its twin."""
    ranges = ((0, 2 * n // 5), (2 * n // 5, n))
    found = bits(shapes, *(partial(numpy, *ends, *arrays) for ends in ranges))
    assert found == bits(shapes, partial(compiled, 0, n, *arrays))


def points_graph(n, dimension, k, digits=16):
    """Nearest neighbours of random points; with few digits many are as far as others."""
    points = RNG.normal(size=(n, dimension))
    distances, columns = cKDTree(points).query(points, k + 1)
    rows, lengths = np.repeat(np.arange(n), k), np.round(distances[:, 1:].ravel(), digits) + 0.1
    matrix = sp.coo_array((lengths, (rows, columns[:, 1:].ravel())), shape=(n, n))
    return graph_from_matrix(matrix, asymmetry="min")


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_energies(graph, width):
    n, m = graph.n_vertices, len(graph.indices)
    x, weights = RNG.normal(size=(n, width)), RNG.random(m) * (RNG.random(m) < 0.9)
    x[-4] = x[-5]
    edges = (graph.indptr, graph.indices, graph.reverse, graph.lengths, weights, x)
    same(stress.edge_stress, plain.edge_stress, n, [(n,), (n, width)], *edges)
    long = RNG.normal(size=(2, 3000, width))
    same(sparse.dot_chunks, plain.dot_chunks, 3, [(3, width)], *long)
    if width != 2:
        return
    rows, included = RNG.normal(size=(m, 2)), RNG.random(m) < 0.8
    for scale in (1.0, 1e-150, 0.0, 1e140):
        shapes = [(n, 2, 2), (n,), (m, 2)]
        arrays = (graph.indptr, graph.indices, weights, scale * rows, x)
        same(alignment.align_edges_plane, plain.align_edges_plane, n, shapes, *arrays)
        arrays = (graph.indptr, graph.indices, min(scale, 1.0) * rows, included)
        shapes = [(m, 2, 2), (m,)]
        same(alignment.frame_transitions_plane, plain.frame_transitions_plane, n, shapes, *arrays)


@pytest.mark.parametrize(("n", "dimension", "k"), [(300, 2, 8), (140, 5, 14), (129, 3, 4), (12, 2, 3)])
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_frames(n, dimension, k, n_components):
    """Also where the iteration gives up, and LAPACK finds all eigenvectors."""
    graph = points_graph(n, dimension, k)
    arrays = (graph.indptr, graph.indices, graph.lengths, *rows_by_length(graph, TEAM))
    size = max(min(int(2.5 * k), n), n_components + 1) + 1
    m = len(graph.indices)
    shapes = ((m, n_components), float), ((n, n_components + 1), float), (m, bool)
    found = [[np.empty(*shape) for shape in shapes] for _ in range(2)]
    rows, spectrum, included = found[0]
    none, inverse = np.empty(0, bool), np.empty((0, n_components))
    limits = (size, 2 * size, 200, False)
    local_mds.local_mds(0, n, *arrays, *limits, none, rows, inverse, spectrum, included)
    assert plain_frames.local_mds(*arrays, *limits[:2], *found[1])
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()


def test_nearest_vertices():
    for digits in (16, 1):
        graph = points_graph(200, 2, 6, digits)
        arrays = (graph.indptr, *rows_by_length(graph, TEAM))
        found = [(np.empty((200, 15), np.int32), np.empty((200, 15))) for _ in range(2)]
        paths.nearest_lists(0, 200, *arrays, *found[0])
        # Where vertices are as far as others, the order is the kernel's.
        assert plain_frames.nearest_lists(*arrays, *found[1]) == (digits == 16)
        if digits == 16:
            np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_sums_over_edges(graph, width):
    n, m = graph.n_vertices, len(graph.indices)
    flux, x = RNG.normal(size=(m, width)), RNG.normal(size=(n, width)) * 10.0 ** RNG.integers(-9, 9, (n, 1))
    found, shapes = partial(alignment.divergence, 0, n, graph.indptr, graph.reverse, flux), [(n, width)]
    assert bits(shapes, found) == bits(shapes, partial(plain.divergence, graph.sources, graph.reverse, flux))
    arrays = (graph.indptr, graph.indices, RNG.normal(size=m), x)
    same(sparse.multiply_rows, plain.multiply_rows, n, shapes, *arrays)
    labels = RNG.integers(3, size=n).astype(np.int32)
    arrays = (labels, np.maximum(np.bincount(labels, minlength=3), 1).astype(float), x)
    assert bits(shapes, partial(sparse.project, *arrays)) == bits(shapes, partial(plain.project, *arrays))


def test_common_neighbours_and_rows_by_length(graph, monkeypatch):
    n, m = graph.n_vertices, len(graph.indices)
    shares = np.zeros(m), np.zeros(m)
    paths.common_neighbors(0, n, graph.indptr, graph.indices, shares[0])
    plain.common_neighbors(graph.sources, graph.indptr, graph.indices, shares[1])
    np.testing.assert_array_equal(*shares)
    assert n < 10 or shares[0].any()
    small = rows_by_length(graph, TEAM)
    monkeypatch.setattr(plain, "FEW", 0)
    for a, b in zip(small, rows_by_length(graph, TEAM), strict=True):
        np.testing.assert_array_equal(a, b)
