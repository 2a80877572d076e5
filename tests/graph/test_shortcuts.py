"""The shortcut filter: its rule edge by edge, what it finds and what it leaves alone."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.datasets import add_shortcuts, difficult, flat_torus, klein_bottle, swiss_roll
from isoweave.graph import _shortcuts as module
from isoweave.graph import (
    bypass_doubtful,
    connected_components,
    drop_shortcuts,
    graph_from_matrix,
    keep_edges,
    knn_graph,
)
from isoweave.graph._shortcuts import TRUSTED_MORE, shared_neighborhood
from reference_graphs import (
    complete_of,
    cycle_graph,
    edges_of,
    graph_of,
    knn_of,
    permuted,
    random_sparse,
    random_tree,
    row_of,
)
from reference_shortcuts import dropped_loop, suspects_loop

TEAM = ThreadTeam(1)


def pairs(array):
    return [tuple(edge) for edge in array.tolist()]


def strip_with_shortcuts(seed, n=500, k=9, n_shortcuts=6):
    """A long strip in the plane and edges that jump far along it."""
    rng = np.random.default_rng(seed)
    graph = knn_of(rng.uniform(size=(n, 2)) * [30.0, 4.0], k)
    edges = {(i, j): d for i, j, d in edges_of(graph)}
    distances = dijkstra(graph.to_matrix())
    added = []
    while len(added) < n_shortcuts:
        i, j = sorted(rng.choice(n, size=2, replace=False).tolist())
        if (i, j) not in edges and 15.0 < distances[i, j] < np.inf:
            edges[i, j] = float(rng.uniform(0.3, 1.2))
            added.append((i, j))
    return graph_of([(i, j, d) for (i, j), d in edges.items()], n), sorted(added)


@pytest.mark.parametrize("seed", [541, 547, 557])
def test_agrees_with_the_loop_on_planted_shortcuts(seed):
    graph, added = strip_with_shortcuts(seed)
    report = drop_shortcuts(graph, team=TEAM)
    assert pairs(report.dropped) == dropped_loop(graph)
    assert set(added) <= set(pairs(report.dropped))
    assert len(report.dropped) <= len(added) + 3
    assert report.n_suspects == len(suspects_loop(graph))
    assert report.dropped.dtype == np.int32


def test_a_thin_place_is_bridged_by_its_own_edges():
    """Where all edges across a gap are suspect, one of them reconnects the sides, not a shortcut from afar.

    A shortcut taken for the bridge would serve as detour for the others, and the good edges would go.
    """
    graph, added = strip_with_shortcuts(547, n=320)
    dropped = set(pairs(drop_shortcuts(graph, team=TEAM).dropped))
    assert set(added) <= dropped
    assert len(dropped) <= len(added) + 3


@pytest.mark.parametrize("seed", range(563, 575))
def test_agrees_with_the_loop_on_odd_graphs(seed):
    """Noisy rolls, graphs without geometry, uneven density: whatever the rule says, both say it."""
    rng = np.random.default_rng(seed)
    kind = seed % 4
    if kind == 0:
        graph = knn_of(swiss_roll(160, noise=1.0, random_state=seed).data, 11)
    elif kind == 1:
        graph = random_sparse(70, 500, rng)
    elif kind == 2:
        blobs = np.vstack(
            [rng.normal(size=(50, 2)), 0.05 * rng.normal(size=(50, 2)) + 2.5, rng.normal(size=(9, 2)) * 9]
        )
        graph = knn_of(blobs, 9)
    else:
        graph = strip_with_shortcuts(seed, n=150, n_shortcuts=25)[0]
    report = drop_shortcuts(graph, team=TEAM)
    assert pairs(report.dropped) == dropped_loop(graph)
    assert connected_components(report.graph)[0] == connected_components(graph)[0]


def test_what_is_left_is_the_graph_without_the_dropped_edges():
    graph, _ = strip_with_shortcuts(577)
    report = drop_shortcuts(graph, team=TEAM)
    gone = set(pairs(report.dropped))
    assert edges_of(report.graph) == [edge for edge in edges_of(graph) if edge[:2] not in gone]
    matrix = report.graph.to_matrix()
    assert (matrix != matrix.T).nnz == 0
    assert report.graph.indices.dtype == report.graph.indptr.dtype == np.int32


def test_share_of_common_neighbours():
    graph = knn_of(np.random.default_rng(587).normal(size=(50, 2)), 6)
    share = shared_neighborhood(graph, TEAM)
    around = [{v for _, v, _ in row_of(graph, i)} for i in range(50)]
    for i in range(50):
        for e, j, _ in row_of(graph, i):
            assert share[e] == len(around[i] & around[j]) / min(len(around[i]), len(around[j]))


def test_kept_edges():
    graph = graph_of([(0, 1, 1.0), (1, 2, 2.0), (0, 2, 3.0), (2, 3, 0.0)], 5)
    mask = graph.lengths != 2.0
    assert edges_of(keep_edges(graph, mask)) == [(0, 1, 1.0), (0, 2, 3.0), (2, 3, 0.0)]
    assert keep_edges(graph, mask).n_vertices == 5


@pytest.mark.parametrize("seed", [61, 67, 71])
def test_planted_shortcuts_of_a_roll_are_found(seed):
    roll = swiss_roll(800, random_state=seed)
    clean = knn_graph(roll.data, 8)
    matrix, added = add_shortcuts(clean.to_matrix(), roll.data, 20, detour=4.0, random_state=seed)
    report = drop_shortcuts(graph_from_matrix(matrix), team=TEAM)
    assert {tuple(edge) for edge in added.tolist()} <= set(pairs(report.dropped))
    # The edges the roll itself has too many of count as shortcuts as well; nothing else does.
    assert len(report.dropped) <= len(added) + 3


@pytest.mark.parametrize("k", [16, 20])
@pytest.mark.parametrize("seed", [73, 79, 83])
def test_shortcuts_of_a_roll_with_many_neighbours_are_found(k, seed):
    """An edge between sheets is one whose ends are far apart in the unrolled sheet."""
    roll = swiss_roll(1500, random_state=seed)
    graph = knn_graph(roll.data, k)
    apart = np.linalg.norm(roll.truth[graph.sources] - roll.truth[graph.indices], axis=1)
    false = (apart > 3.0 * graph.lengths) & (graph.sources < graph.indices)
    expected = set(zip(graph.sources[false].tolist(), graph.indices[false].tolist(), strict=True))
    report = drop_shortcuts(graph, team=TEAM)
    assert set(pairs(report.dropped)) == expected


@pytest.mark.parametrize(
    ("make", "k"), [(swiss_roll, 10), (swiss_roll, 6), (flat_torus, 10), (klein_bottle, 8), (difficult, 14)]
)
def test_clean_graphs_are_left_alone(make, k):
    graph = knn_graph(make(1500, random_state=89).data, k)
    report = drop_shortcuts(graph, team=TEAM)
    assert len(report.dropped) == 0
    assert report.graph is graph or edges_of(report.graph) == edges_of(graph)


def test_torus_and_roll_keep_their_suspects():
    """The second test matters: the first one alone would have dropped good edges here."""
    graph = knn_graph(klein_bottle(1500, random_state=97).data, 8)
    report = drop_shortcuts(graph, team=TEAM)
    assert report.n_suspects > 0
    assert len(report.dropped) == 0


@pytest.mark.parametrize(
    "graph",
    [
        random_tree(40, np.random.default_rng(593)),
        cycle_graph(12),
        complete_of(np.random.default_rng(599).normal(size=(30, 3))),
        graph_of([(0, 1, 1.0)], 2),
        graph_of(
            [(i, i + 1, 1.0) for i in range(19)] + [(i, i + 2, 2.0) for i in range(18)] + [(0, 19, 0.1)], 20
        ),
    ],
    ids=["tree", "cycle", "complete", "edge", "few triangles"],
)
def test_graphs_with_nothing_to_compare_are_left_alone(graph):
    report = drop_shortcuts(graph, team=TEAM)
    assert report.graph is graph
    assert len(report.dropped) == 0


@st.composite
def random_graphs(draw):
    """Clumps of vertices, dense inside, with a few edges between them and any lengths."""
    rng = np.random.default_rng(draw(st.integers(1, 10_000)))
    sizes = draw(st.lists(st.integers(1, 14), min_size=1, max_size=6))
    density = draw(st.floats(0.3, 1.0))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n = len(labels)
    edges = {}
    for i in range(n):
        for j in range(i):
            if rng.uniform() < (density if labels[i] == labels[j] else 0.03):
                edges[j, i] = float(rng.uniform(0.1, 10.0) ** draw(st.sampled_from([1, 3])))
    if not edges:
        edges[0, n] = 1.0
        n += 1
    return graph_of([(i, j, d) for (i, j), d in edges.items()], n)


@given(random_graphs())
@settings(max_examples=40)
def test_never_disconnects(graph):
    report = drop_shortcuts(graph, team=TEAM)
    before, after = connected_components(graph), connected_components(report.graph)
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    assert report.graph.n_edges + len(report.dropped) == graph.n_edges


def test_never_disconnects_when_the_rounds_run_out(monkeypatch):
    """Two overlapping cliques with an edge that a detour restores, and a third clique on a single bridge."""
    points = np.random.default_rng(601).normal(size=(35, 2))
    cliques = [range(14), range(7, 21), range(21, 35)]
    edges = {(i, j) for clique in cliques for i in clique for j in clique if i < j} | {(0, 20), (0, 21)}
    graph = graph_of([(i, j, float(np.linalg.norm(points[i] - points[j]))) for i, j in sorted(edges)], 35)
    assert suspects_loop(graph) == {(0, 20), (0, 21)}
    for rounds in (200, 1):
        monkeypatch.setattr(module, "_MAX_ROUNDS", rounds)
        report = drop_shortcuts(graph, team=TEAM)
        assert connected_components(report.graph)[0] == 1


@settings(max_examples=15)
@given(random_graphs(), st.integers(1, 10_000), st.sampled_from([0.125, 1.0, 1024.0]))
def test_numbering_and_unit_do_not_matter(graph, seed, unit):
    order = np.random.default_rng(seed).permutation(graph.n_vertices)
    moved = permuted(graph, order)
    moved = type(moved)(moved.indptr, moved.indices, unit * moved.lengths)
    expected = {tuple(sorted(edge)) for edge in pairs(drop_shortcuts(graph, team=TEAM).dropped)}
    found = drop_shortcuts(moved, team=TEAM).dropped
    assert {tuple(sorted(edge)) for edge in pairs(order[found])} == expected


def test_threads_do_not_change_the_result():
    graph = knn_graph(swiss_roll(1500, random_state=101).data, 20)
    with thread_team(2) as team:
        together = drop_shortcuts(graph, team=team)
    np.testing.assert_array_equal(together.dropped, drop_shortcuts(graph, team=TEAM).dropped)
    assert len(together.dropped) > 0


def random_weights(graph, rng):
    weights = 10.0 ** rng.uniform(-3.0, 0.0, size=len(graph.indices))
    return np.maximum(weights, weights[graph.reverse])


def bypass_loop(graph, weights):
    """Every edge, every common neighbour."""
    at = {(i, j): e for i in range(graph.n_vertices) for e, j, _ in row_of(graph, i)}
    lengths = graph.lengths.copy()
    for (i, j), e in at.items():
        ways = [
            graph.lengths[at[i, k]] + graph.lengths[at[j, k]]
            for k in range(graph.n_vertices)
            if (i, k) in at
            and (j, k) in at
            and min(weights[at[i, k]], weights[at[j, k]]) >= TRUSTED_MORE * weights[e]
        ]
        if ways:
            lengths[e] = min(ways)
    return lengths


@pytest.mark.parametrize("at_once", [1, 50, 1 << 20])
def test_doubtful_edges_agree_with_the_loop(at_once, monkeypatch):
    monkeypatch.setattr("isoweave.graph._shortcuts._PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(31)
    for graph in (knn_of(rng.normal(size=(60, 2)), 7), random_sparse(40, 120, rng)):
        weights = random_weights(graph, rng)
        found = bypass_doubtful(graph, weights)
        expected = bypass_loop(graph, weights)
        assert (expected != graph.lengths).any()
        np.testing.assert_array_equal(found.lengths, expected)
        np.testing.assert_array_equal(found.lengths, found.lengths[graph.reverse])
        assert found.indices is graph.indices


def test_nothing_doubtful_is_the_same_object():
    rng = np.random.default_rng(32)
    points = rng.normal(size=(80, 2))
    graph = knn_of(points, 8)
    assert bypass_doubtful(graph, np.ones(len(graph.indices))) is graph
    assert bypass_doubtful(graph, rng.uniform(0.2, 1.0) * np.ones(len(graph.indices))) is graph
    # Inverse squares of true distances never make an edge doubtful.
    assert bypass_doubtful(graph, graph.lengths**-2.0) is graph


def test_an_edge_without_trusted_neighbours_keeps_its_length():
    graph = random_sparse(30, 0, np.random.default_rng(33))
    weights = np.where((graph.sources == 0) | (graph.indices == 0), 1e-3, 1.0)
    assert bypass_doubtful(graph, weights) is graph
