from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from isoweave._parallel import ThreadTeam
from isoweave.graph import _duplicates as module
from isoweave.graph import graph_from_matrix, merge_duplicates
from isoweave.graph._duplicates import PointGroups, group_equal_rows, spread_neighbors


def graph_of(entries, n):
    rows, cols, values = zip(*entries, strict=True) if entries else ((), (), ())
    return graph_from_matrix(
        sp.coo_array(
            (np.array(values, dtype=float), (np.array(rows, int), np.array(cols, int))), shape=(n, n)
        ),
        asymmetry="max",
    )


def loop_twin(graph):
    """Merge by repeated relabelling and dictionaries."""
    n = graph.n_vertices
    triples = list(zip(graph.sources.tolist(), graph.indices.tolist(), graph.lengths.tolist(), strict=True))
    smallest = list(range(n))
    changed = True
    while changed:
        changed = False
        for i, j, d in triples:
            if d == 0 and smallest[i] != smallest[j]:
                smallest[i] = smallest[j] = min(smallest[i], smallest[j])
                changed = True
    number = {v: k for k, v in enumerate(sorted(set(smallest)))}
    representative = [number[v] for v in smallest]
    edges: dict[tuple[int, int], float] = {}
    for i, j, d in triples:
        a, b = representative[i], representative[j]
        if a != b:
            edges[a, b] = min(d, edges.get((a, b), np.inf))
    return edges, representative


ENTRY = st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.5]))


@settings(deadline=None, max_examples=150)
@given(st.lists(ENTRY.filter(lambda e: e[0] != e[1]), max_size=20))
def test_merge_agrees_with_loop_twin(entries):
    graph = graph_of(entries, 8)
    reduced, representative = merge_duplicates(graph)
    edges, expected = loop_twin(graph)
    assert representative.dtype == np.int32
    assert representative.tolist() == expected
    assert reduced.n_vertices == max(expected) + 1
    found = zip(reduced.sources.tolist(), reduced.indices.tolist(), reduced.lengths.tolist(), strict=True)
    assert {(i, j): d for i, j, d in found} == edges
    assert np.all(reduced.lengths > 0)


def test_nothing_to_merge_returns_the_graph_itself():
    graph = graph_of([(0, 1, 1.0), (1, 2, 2.0)], 4)
    reduced, representative = merge_duplicates(graph)
    assert reduced is graph
    assert representative.tolist() == [0, 1, 2, 3]


def test_everything_collapses_to_one_vertex():
    graph = graph_of([(0, 1, 0.0), (1, 2, 0.0), (0, 2, 5.0)], 3)
    reduced, representative = merge_duplicates(graph)
    assert (reduced.n_vertices, reduced.n_edges) == (1, 0)
    assert reduced.indptr.tolist() == [0, 0]
    assert representative.tolist() == [0, 0, 0]


@pytest.mark.parametrize("sparse", [False, True])
def test_equal_rows_form_groups_that_do_not_depend_on_order(sparse):
    rng = np.random.default_rng(91)
    points = rng.integers(0, 3, size=(400, 4)).astype(float)
    shuffle = rng.permutation(len(points))

    def grouped(rows):
        return group_equal_rows(sp.csr_array(rows) if sparse else rows, ThreadTeam(1))

    groups, shuffled = grouped(points), grouped(points[shuffle])
    assert groups.n_groups == len(np.unique(points, axis=0)) < len(points)
    for g in range(groups.n_groups):
        members = groups.members[groups.starts[g] : groups.starts[g + 1]]
        assert np.all(np.diff(members) > 0)
        assert np.all(points[members] == points[members[0]])
    np.testing.assert_array_equal(points[groups.first], points[shuffle][shuffled.first])


def test_colliding_hashes_are_noticed(monkeypatch):
    calls = []

    def weak(start, stop, bits, seed, hashes):
        calls.append(int(seed))
        if seed < 2:
            hashes[start:stop] = 7
        else:
            hashes[start:stop] = bits[start:stop, 0]

    monkeypatch.setattr(module, "hash_rows", weak)
    groups = group_equal_rows(np.array([[1.0], [2.0], [1.0]]), ThreadTeam(1))
    assert calls == [0, 1, 2]
    assert sorted(np.split(groups.members, groups.starts[1:-1])[0].tolist()) in ([0, 2], [1])
    assert groups.n_groups == 2


def test_spread_without_duplicates_is_a_renaming():
    groups = PointGroups(np.array([2, 0, 1], dtype=np.int32), np.array([0, 1, 2, 3], dtype=np.int32))
    neighbors = np.array([[1], [2], [1]], dtype=np.int32)
    rows, cols, lengths = spread_neighbors(groups, neighbors, np.array([[5.0], [6.0], [6.0]]), 1)
    assert list(zip(rows.tolist(), cols.tolist(), lengths.tolist(), strict=True)) == [
        (2, 0, 5.0),
        (0, 1, 6.0),
        (1, 0, 6.0),
    ]


@pytest.mark.parametrize("n_neighbors", [1, 2, 3, 5])
def test_spread_keeps_its_promises(n_neighbors):
    # Groups of 1, 4, 2 and 1 points on a line.
    position = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 7.0])
    groups = PointGroups(np.arange(8, dtype=np.int32), np.array([0, 1, 5, 7, 8], dtype=np.int32))
    places = position[groups.first]
    gaps = np.abs(places[:, None] - places)
    k = min(n_neighbors, 3)
    order = np.argsort(gaps + np.diag([np.inf] * 4), axis=1)[:, :k].astype(np.int32)
    rows, cols, lengths = spread_neighbors(groups, order, np.take_along_axis(gaps, order, 1), n_neighbors)
    np.testing.assert_array_equal(lengths, np.abs(position[rows] - position[cols]))
    assert np.all(rows != cols)
    assert len({*zip(rows.tolist(), cols.tolist(), strict=True)}) == len(rows)
    for i in range(8):
        listed = cols[rows == i]
        assert len(listed) >= min(n_neighbors, 7)
        # As near as plain nearest neighbours, and k distinct places.
        plain = np.sort(np.abs(position - position[i]))[1 : n_neighbors + 1]
        np.testing.assert_array_equal(np.sort(lengths[rows == i])[:n_neighbors], plain)
        elsewhere = len(set(position[listed]) - {position[i]})
        is_first = i in groups.first
        assert elsewhere == (k if is_first or np.sum(position == position[i]) <= n_neighbors else 0)
    joined, _ = module.group_pairs(8, rows[lengths == 0], cols[lengths == 0])
    assert joined == 4
