"""Plain numpy instead of compiled kernels: the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD as TEAM
from isoweave.engines import alignment, cholesky, neighbors, paths, plain, sparse
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


def both(compiled, numpy, shape, *arrays, rows=None):
    """Bits of either, into arrays of some shapes."""
    found = []
    for function, first in ((compiled, (0, rows) if rows is not None else ()), (numpy, ())):
        out = [np.full(s, np.nan) for s in shape]
        function(*first, *arrays[function is numpy], *out)
        found.append([a.tobytes() for a in out])
    assert found[0] == found[1]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_sums_over_edges(graph, width):
    n, m = graph.n_vertices, len(graph.indices)
    flux, x = RNG.normal(size=(m, width)), RNG.normal(size=(n, width)) * 10.0 ** RNG.integers(-9, 9, (n, 1))
    indptr, indices, sources = graph.indptr, graph.indices, graph.sources
    arrays = (indptr, graph.reverse, flux), (sources, graph.reverse, flux)
    both(alignment.divergence, plain.divergence, [(n, width)], *arrays, rows=n)
    data = RNG.normal(size=m)
    arrays = (indptr, indices, data, x)
    both(sparse.multiply_rows, plain.multiply, [(n, width)], arrays, arrays, rows=n)
    rest = (indices, RNG.random(m) < 0.8, flux, x)
    square = [(n, width, width)] * 2
    both(
        alignment.normal_equations, plain.normal_equations, square, (indptr, *rest), (sources, *rest), rows=n
    )
    labels = RNG.integers(3, size=n).astype(np.int32)
    arrays = (labels, np.maximum(np.bincount(labels, minlength=3), 1).astype(float), x)
    both(sparse.project, plain.project, [(n, width)], arrays, arrays)


def test_orders_counts_and_hashes(graph, monkeypatch):
    n, m = graph.n_vertices, len(graph.indices)
    order = RNG.permutation(n)[: n - 2].astype(np.int32)
    arrays = (graph.indptr, graph.indices, order)
    for a, b in zip(cholesky.permute(*arrays), plain.permute(*arrays), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    shares = np.zeros(m), np.zeros(m)
    paths.common_neighbors(0, n, graph.indptr, graph.indices, shares[0])
    plain.common_neighbors(graph.sources, graph.indptr, graph.indices, shares[1])
    np.testing.assert_array_equal(*shares)
    assert n < 10 or shares[0].any()
    bits = RNG.integers(2**63, size=(n, 4)).astype(np.uint64)
    hashes = np.empty((2, n), np.uint64)
    neighbors.hash_rows(0, n, bits, hashes[0])
    plain.hash_rows(bits, hashes[1])
    np.testing.assert_array_equal(*hashes)
    small = rows_by_length(graph, TEAM)
    monkeypatch.setattr(plain, "FEW", 0)
    for a, b in zip(small, rows_by_length(graph, TEAM), strict=True):
        np.testing.assert_array_equal(a, b)
