"""Confidence in edges and vertices: identities, what it is good for, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import embed_graph
from isoweave.datasets import sensor_network, swiss_roll
from isoweave.energy import edge_inner_product
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import distance_gap
from reference_problems import make_problem

ROLL = knn_graph(swiss_roll(250, random_state=3).data, 8).to_matrix()


def ones_like(matrix, value=1.0):
    weights = matrix.copy()
    weights.data = np.full(matrix.nnz, value)
    return weights


def symmetric(matrix, seed=5, low=0.2):
    """Random weights with the matrix's pattern."""
    graph = graph_from_matrix(matrix)
    values = np.random.default_rng(seed).uniform(low, 1.0, size=len(graph.indices))
    values = np.maximum(values, values[graph.reverse])
    return sp.csr_array((values, graph.indices, graph.indptr), shape=matrix.shape)


@pytest.mark.parametrize("value", [1.0, 8.0, 2.0**-70])
def test_equal_weights_change_no_bit(value):
    plain = embed_graph(ROLL)
    edges = embed_graph(ROLL, edge_weights=ones_like(ROLL, value))
    vertices = embed_graph(ROLL, vertex_weights=np.full(250, value))
    for other in (edges, vertices):
        np.testing.assert_array_equal(other.coordinates, plain.coordinates)
        np.testing.assert_array_equal(other.alignments, plain.alignments)
        assert other.energy == plain.energy * value
        assert other.relative_energy == plain.relative_energy
        assert other.n_iter == plain.n_iter


def test_only_ratios_count():
    weights = symmetric(ROLL)
    first = embed_graph(ROLL, edge_weights=weights)
    second = embed_graph(ROLL, edge_weights=3.7 * weights)
    assert distance_gap(first.coordinates, second.coordinates) < 1e-6
    assert second.energy == pytest.approx(3.7 * first.energy, rel=1e-6)


def test_weights_multiply_the_inner_product():
    problem, rng = make_problem("hub", 2)
    graph, frames = problem.graph, problem.frames
    confidence = rng.uniform(0.5, 2.0, size=len(graph.indices))
    plain = edge_inner_product(graph, frames, "inverse").weights
    np.testing.assert_array_equal(
        edge_inner_product(graph, frames, "inverse", confidence).weights, plain * confidence
    )


def test_one_direction_both_and_dense_are_the_same():
    weights = symmetric(ROLL)
    both = embed_graph(ROLL, edge_weights=weights)
    one = embed_graph(ROLL, edge_weights=sp.triu(weights, format="csr"))
    dense = embed_graph(ROLL, edge_weights=weights.toarray())
    np.testing.assert_array_equal(one.coordinates, both.coordinates)
    np.testing.assert_array_equal(dense.coordinates, both.coordinates)


def test_vertex_weights_are_edge_weights_of_the_frames():
    """Weights v_i on all vertices but one part: the energy is linear in them."""
    weights = np.random.default_rng(3).uniform(0.5, 1.0, size=250)
    result = embed_graph(ROLL, vertex_weights=weights)
    assert result.status == "converged"
    other = embed_graph(ROLL, vertex_weights=weights, edge_weights=ones_like(ROLL))
    np.testing.assert_array_equal(result.coordinates, other.coordinates)


def damaged_network(factor, seed=7):
    """A sensor network of which one edge in fifteen is wrong by a factor, and weights that tell."""
    net = sensor_network(300, radius=0.13, random_state=seed)
    graph = graph_from_matrix(net.graph)
    rng = np.random.default_rng(seed)
    wrong = rng.uniform(size=len(graph.indices)) < 1 / 30
    wrong |= wrong[graph.reverse]
    lengths = np.where(wrong, factor * graph.lengths, graph.lengths)
    shape = net.graph.shape
    matrix = sp.csr_array((lengths, graph.indices, graph.indptr), shape=shape)
    weights = sp.csr_array((np.where(wrong, 0.01, 1.0), graph.indices, graph.indptr), shape=shape)
    return net, matrix, weights


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_doubtful_edges_pull_less(factor):
    net, matrix, weights = damaged_network(factor)
    for refine in ("none", "distances"):
        blind = embed_graph(matrix, refine=refine)
        warned = embed_graph(matrix, edge_weights=weights, refine=refine)
        assert procrustes_error(net.truth, warned.coordinates) < 0.5 * procrustes_error(
            net.truth, blind.coordinates
        )


def test_paper_product_takes_vertex_weights():
    options = {"inner_product": "paper", "shortcuts": "keep"}
    plain = embed_graph(ROLL, **options)
    same = embed_graph(ROLL, vertex_weights=np.full(250, 2.0), **options)
    np.testing.assert_array_equal(plain.coordinates, same.coordinates)
    other = embed_graph(ROLL, vertex_weights=np.random.default_rng(1).uniform(0.3, 1, size=250), **options)
    assert not np.array_equal(plain.coordinates, other.coordinates)


def test_duplicates_take_the_largest_weight():
    weights = symmetric(ROLL).tolil()
    matrix = ROLL.tolil()
    n = 250
    # Vertex n is a twin of vertex 0, and its copy of the edge to a neighbour has another weight.
    j = int(ROLL.indices[0])
    big, big_weights = sp.lil_array((n + 1, n + 1)), sp.lil_array((n + 1, n + 1))
    big[:n, :n], big_weights[:n, :n] = matrix, weights
    big = big.tocoo()
    rows = np.concatenate([big.row, [n, n]])
    columns = np.concatenate([big.col, [0, j]])
    data = np.concatenate([big.data, [0.0, ROLL[0, j]]])
    twins = sp.coo_array((data, (rows, columns)), shape=(n + 1, n + 1))
    big_weights = big_weights.tocoo()

    def with_weight(value):
        return sp.coo_array(
            (
                np.concatenate([big_weights.data, [1.0, value]]),
                (
                    np.concatenate([big_weights.row, [n, n]]),
                    np.concatenate([big_weights.col, [0, j]]),
                ),
            ),
            shape=(n + 1, n + 1),
        )

    alone = embed_graph(ROLL, edge_weights=weights.tocsr())
    lighter = embed_graph(twins, edge_weights=with_weight(0.1 * weights[0, j]))
    np.testing.assert_array_equal(lighter.coordinates[:n], alone.coordinates)
    heavier = embed_graph(twins, edge_weights=with_weight(5.0))
    assert not np.array_equal(heavier.coordinates[:n], alone.coordinates)


def test_renumbered_and_disconnected_graphs_keep_their_weights(monkeypatch):
    weights = symmetric(ROLL)
    expected = embed_graph(ROLL, edge_weights=weights)
    two = sp.block_diag([ROLL, 2.0 * ROLL], format="csr")
    both = sp.block_diag([weights, weights], format="csr")
    with pytest.warns(UserWarning, match="2 connected components"):
        parts = embed_graph(two, edge_weights=both)
    assert distance_gap(expected.coordinates, parts.coordinates[:250]) < 1e-9
    assert distance_gap(2.0 * expected.coordinates, parts.coordinates[250:]) < 1e-9
    monkeypatch.setattr("isoweave.graph._order.SMALLEST_REORDERED", 10)
    moved = embed_graph(ROLL, edge_weights=weights)
    assert distance_gap(expected.coordinates, moved.coordinates) < 1e-5


def with_entry(row, column, value):
    weights = ones_like(ROLL).tolil()
    weights[row, column] = value
    return weights.tocsr()


def without_edge():
    """The first edge has no weight in either direction."""
    weights = ones_like(ROLL).tolil()
    j = int(ROLL.indices[0])
    weights[0, j] = weights[j, 0] = 0.0
    return weights.tocsr()


FIRST = int(ROLL.indices[0])
STRANGER = int(np.setdiff1d(np.arange(1, 250), ROLL.indices[: ROLL.indptr[1]])[0])


@pytest.mark.parametrize(
    ("weights", "error", "match"),
    [
        ([1.0], TypeError, "sparse matrix with the pattern of the graph"),
        (sp.csr_array((3, 3)), ValueError, r"shape \(250, 250\) as the graph, got \(3, 3\)"),
        (ones_like(ROLL).astype(complex), TypeError, "must be real, got dtype complex"),
        (
            with_entry(0, FIRST, 2.0),
            ValueError,
            rf"symmetric, but edge \(0, {FIRST}\) has 2.0 one way and 1.0",
        ),
        (with_entry(0, FIRST, -1.0), ValueError, rf"edge \(0, {FIRST}\) has -1.0"),
        (with_entry(0, FIRST, np.inf), ValueError, rf"edge \(0, {FIRST}\) has inf"),
        (with_entry(0, FIRST, np.nan), ValueError, rf"NaN at \(0, {FIRST}\)"),
        (
            with_entry(0, STRANGER, 1.0),
            ValueError,
            rf"entry \(0, {STRANGER}\), but the graph has no such edge",
        ),
        (without_edge(), ValueError, rf"edge \(0, {FIRST}\) has none"),
        (sp.block_diag([ROLL[:1, :1], ROLL[1:, 1:]]), ValueError, "has none"),
    ],
)
def test_bad_edge_weights(weights, error, match):
    with pytest.raises(error, match=match):
        embed_graph(ROLL, edge_weights=weights)


def test_weights_too_far_apart():
    weights = with_entry(0, FIRST, 1e-11).tolil()
    weights[FIRST, 0] = 1e-11
    with pytest.raises(ValueError, match="edge_weights span from 1e-11 to 1, a ratio over 1e"):
        embed_graph(ROLL, edge_weights=weights.tocsr())


def test_edges_stored_twice_are_refused():
    weights = ones_like(ROLL).tocoo()
    rows = np.append(weights.row, 0)
    columns = np.append(weights.col, FIRST)
    twice = sp.coo_array((np.append(weights.data, 1.0), (rows, columns)), shape=ROLL.shape)
    with pytest.raises(ValueError, match="more than once"):
        embed_graph(ROLL, edge_weights=twice)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.ones(249), r"shape \(250,\), got shape \(249,\)"),
        (np.ones((250, 1)), r"got shape \(250, 1\)"),
        (np.zeros(250), "that of vertex 0 is 0.0"),
        (np.where(np.arange(250) == 9, np.nan, 1.0), "that of vertex 9 is nan"),
        (np.where(np.arange(250) == 9, 1e-12, 1.0), "ratio over 1e"),
        (np.array(["a"] * 250), "dtype <U1"),
    ],
)
def test_bad_vertex_weights(weights, match):
    with pytest.raises(ValueError, match=match):
        embed_graph(ROLL, vertex_weights=weights)


def test_paper_product_refuses_edge_weights():
    with pytest.raises(ValueError, match="paper's inner product has none"):
        embed_graph(ROLL, edge_weights=ones_like(ROLL), preset="paper")
