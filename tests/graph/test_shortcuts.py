"""The shortcut filter: its rule edge by edge, what it finds and what it leaves alone."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.csgraph import dijkstra

import reference_graphs as ref
from isoweave._parallel import ThreadTeam, thread_team
from isoweave.datasets import difficult, flat_torus, klein_bottle, swiss_roll
from isoweave.graph import bypass_doubtful, connected_components, drop_shortcuts, keep_edges, knn_graph
from isoweave.graph._shortcuts import TRUSTED_MORE, _support_threshold, shared_neighborhood
from reference_loops import dropped_loop, suspects_loop

TEAM = ThreadTeam(1)


def pairs(array):
    return [tuple(edge) for edge in array.tolist()]


def strip_with_shortcuts(seed, n=500, k=9, n_shortcuts=6):
    """A long strip in the plane and edges that jump far along it."""
    rng = np.random.default_rng(seed)
    graph = ref.knn_of(rng.uniform(size=(n, 2)) * [30.0, 4.0], k)
    edges = {(i, j): d for i, j, d in ref.edges_of(graph)}
    distances = dijkstra(graph.to_matrix())
    added = []
    while len(added) < n_shortcuts:
        i, j = sorted(rng.choice(n, size=2, replace=False).tolist())
        if (i, j) not in edges and 15.0 < distances[i, j] < np.inf:
            edges[i, j] = float(rng.uniform(0.3, 1.2))
            added.append((i, j))
    return ref.graph_of([(i, j, d) for (i, j), d in edges.items()], n), sorted(added)


@pytest.mark.parametrize(("seed", "n"), [(541, 500), (547, 320)])
def test_agrees_with_the_loop_on_planted_shortcuts(seed, n):
    """Also where all edges across a thin place are suspect (the last): its own reconnect it, no shortcut.

    A shortcut taken for the bridge would serve as detour for the others, and the good edges would go.
    """
    graph, added = strip_with_shortcuts(seed, n=n)
    left, dropped = drop_shortcuts(graph, team=TEAM)
    assert pairs(dropped) == dropped_loop(graph)
    assert set(added) <= set(pairs(dropped))
    assert len(dropped) <= len(added) + 3
    assert dropped.dtype == left.indices.dtype == left.indptr.dtype == np.int32
    gone = set(pairs(dropped))
    assert ref.edges_of(left) == [edge for edge in ref.edges_of(graph) if edge[:2] not in gone]
    assert (left.to_matrix() != left.to_matrix().T).nnz == 0


@pytest.mark.parametrize(("k", "seed"), [(16, 73), (20, 101)])
def test_shortcuts_of_a_roll_with_many_neighbours_are_found(k, seed):
    """An edge between sheets is one whose ends are far apart in the unrolled sheet."""
    roll = swiss_roll(1500, random_state=seed)
    graph = knn_graph(roll.data, k)
    ends, lengths = np.column_stack((graph.sources, graph.indices)), graph.lengths
    false = np.linalg.norm(roll.truth[ends[:, 0]] - roll.truth[ends[:, 1]], axis=1) > 3.0 * lengths
    _, dropped = drop_shortcuts(graph, team=TEAM)
    assert pairs(dropped) == pairs(ends[false & (ends[:, 0] < ends[:, 1])])
    assert seed != 101 or len(dropped) > 0
    with thread_team(2) as team:
        np.testing.assert_array_equal(drop_shortcuts(graph, team=team)[1], dropped)


@pytest.mark.parametrize(
    ("make", "k"), [(swiss_roll, 6), (flat_torus, 10), (klein_bottle, 8), (difficult, 14)]
)
def test_clean_graphs_are_left_alone(make, k):
    graph = knn_graph(make(1500, random_state=97 if make is klein_bottle else 89).data, k)
    left, dropped = drop_shortcuts(graph, team=TEAM)
    assert len(dropped) == 0
    assert left is graph
    if make is klein_bottle:
        # The second test matters: the first one alone would have dropped good edges here.
        share = shared_neighborhood(graph, TEAM)
        assert (share < _support_threshold(graph, share, TEAM)).any()


LADDER = [(i, i + s, float(s)) for i in range(18) for s in (1, 2)] + [(18, 19, 1.0), (0, 19, 0.1)]
NOTHING_TO_COMPARE = {
    "tree": ref.random_tree(40, np.random.default_rng(593)),
    "cycle": ref.cycle_graph(12),
    "complete": ref.complete_of(np.random.default_rng(599).normal(size=(30, 3))),
    "edge": ref.graph_of([(0, 1, 1.0)], 2),
    "few triangles": ref.graph_of(LADDER, 20),
    "no edges": keep_edges(ref.path_graph(3), np.zeros(4, bool)),
}


@pytest.mark.parametrize("graph", NOTHING_TO_COMPARE.values(), ids=NOTHING_TO_COMPARE)
def test_graphs_with_nothing_to_compare_are_left_alone(graph):
    left, dropped = drop_shortcuts(graph, team=TEAM)
    assert left is graph
    assert dropped.shape == (0, 2)


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
    return ref.graph_of([(i, j, d) for (i, j), d in edges.items()], n)


@settings(max_examples=25)
@given(random_graphs(), st.integers(1, 10_000), st.sampled_from([0.125, 1.0, 1024.0]))
def test_never_disconnects_in_any_numbering_or_unit(graph, seed, unit):
    left, dropped = drop_shortcuts(graph, team=TEAM)
    assert pairs(dropped) == dropped_loop(graph)
    before, after = connected_components(graph), connected_components(left)
    np.testing.assert_array_equal(before[1], after[1])
    assert left.n_edges + len(dropped) == graph.n_edges
    order = np.random.default_rng(seed).permutation(graph.n_vertices)
    moved = ref.permuted(graph, order)
    _, found = drop_shortcuts(type(moved)(moved.indptr, moved.indices, unit * moved.lengths), team=TEAM)
    assert sorted(map(sorted, order[found].tolist())) == dropped.tolist()


def test_never_disconnects_when_the_rounds_run_out(monkeypatch):
    """Two overlapping cliques with an edge that a detour restores, and a third clique on a single bridge."""
    points = np.random.default_rng(601).normal(size=(35, 2))
    cliques = [range(14), range(7, 21), range(21, 35)]
    edges = {(i, j) for clique in cliques for i in clique for j in clique if i < j} | {(0, 20), (0, 21)}
    graph = ref.graph_of([(i, j, float(np.linalg.norm(points[i] - points[j]))) for i, j in sorted(edges)], 35)
    assert suspects_loop(graph) == {(0, 20), (0, 21)}
    for rounds in (200, 1):
        monkeypatch.setattr("isoweave.graph._shortcuts._MAX_ROUNDS", rounds)
        assert connected_components(drop_shortcuts(graph, team=TEAM)[0])[0] == 1


def bypass_loop(graph, weights):
    """Every edge, every common neighbour."""
    at = {(i, j): e for i in range(graph.n_vertices) for e, j, _ in ref.row_of(graph, i)}
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


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_doubtful_edges_agree_with_the_loop(at_once, monkeypatch):
    monkeypatch.setattr("isoweave.graph._shortcuts._PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(31)
    for graph in (ref.knn_of(rng.normal(size=(60, 2)), 7), ref.random_sparse(40, 120, rng)):
        weights = 10.0 ** rng.uniform(-3.0, 0.0, size=len(graph.indices))
        weights = np.maximum(weights, weights[graph.reverse])
        found = bypass_doubtful(graph, weights)
        expected = bypass_loop(graph, weights)
        assert (expected != graph.lengths).any()
        np.testing.assert_array_equal(found.lengths, expected)
        np.testing.assert_array_equal(found.lengths, found.lengths[graph.reverse])
        assert found.indices is graph.indices


def test_nothing_doubtful_is_the_same_object():
    rng = np.random.default_rng(32)
    graph = ref.knn_of(rng.normal(size=(80, 2)), 8)
    # Inverse squares of true distances never make an edge doubtful.
    for weights in (np.ones(len(graph.indices)), graph.lengths**-2.0):
        assert bypass_doubtful(graph, weights) is graph
    # Nor is an edge without trusted neighbours.
    tree = ref.random_sparse(30, 0, np.random.default_rng(33))
    weights = np.where((tree.sources == 0) | (tree.indices == 0), 1e-3, 1.0)
    assert bypass_doubtful(tree, weights) is tree
