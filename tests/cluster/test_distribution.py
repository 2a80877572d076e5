"""Every rank gets its share of the graph that one machine would embed, and nothing else."""

import numpy as np
import pytest
import scipy.sparse as sp

from fits import cut
from isoweave.cluster import ElsewhereError, Ranks, _output, embed_file
from isoweave.cluster._build import distribute, share_of
from isoweave.cluster._components import components_of
from isoweave.cluster._problem import ClusterSolver
from isoweave.cluster._share import RowRanges
from isoweave.graph import (
    connected_components,
    graph_from_matrix,
    knn_graph,
    merge_duplicates,
    normalise_lengths,
    renumber,
)


def edges(n, i, j, lengths):
    return graph_from_matrix(sp.coo_array((np.asarray(lengths, float), (i, j)), shape=(n, n)))


def shuffled(graph, rng):
    return renumber(graph, rng.permutation(graph.n_vertices))


def graphs():
    rng = np.random.default_rng(0)
    flat = rng.random((400, 2))
    twice = np.concatenate((flat[:150], flat[:150]))
    parts = np.concatenate([rng.random((120, 2)) + 5 * k for k in range(6)] + [rng.random((9, 2)) - 9])
    n = 200
    chain = np.arange(n - 1)
    yield "plane", shuffled(knn_graph(flat, 8), rng)
    yield "cube", shuffled(knn_graph(rng.random((600, 3)), 8), rng)
    yield "duplicates", shuffled(knn_graph(twice, 6), rng)
    yield "components", shuffled(knn_graph(parts, 5), rng)
    yield "path", shuffled(edges(n, chain, chain + 1, np.full(n - 1, 1e-9)), rng)
    yield "hub", edges(n, np.zeros(n - 1, int), chain + 1, rng.random(n - 1) + 0.5)
    yield "one edge", edges(2, [0], [1], [3.0])
    yield "isolated", edges(20, [0, 5], [1, 7], [2.0, 3.0])
    yield "all one point", edges(4, [0, 1, 2], [1, 2, 3], [0.0, 0.0, 0.0])
    yield "no edge", edges(3, [], [], [])


GRAPHS = dict(graphs())


@pytest.mark.parametrize("name", GRAPHS)
def test_shares_are_the_graph_that_one_machine_prepares(comm, name):
    graph, ranks = GRAPHS[name], Ranks(comm)
    # Both directions, in pieces, somewhere.
    mine = np.arange(len(graph.indices))[ranks.rank :: ranks.size]
    given = [graph.sources[mine].astype(np.int64), graph.indices[mine].astype(np.int64), graph.lengths[mine]]
    pieces = [tuple(a[k::3] for a in given) for k in range(3 if ranks.rank == 0 else 1)]
    if ranks.rank:
        pieces = [tuple(given)]
    share, rows = distribute(ranks, pieces, graph.n_vertices)
    unit, normal = normalise_lengths(graph)
    merged, representative = merge_duplicates(normal)
    firsts = np.unique(representative, return_index=True)[1]
    labels = connected_components(merged)[1]
    assert share.unit == unit
    assert share.n_vertices == merged.n_vertices
    ids = np.concatenate(comm.allgather(share.caller_ids))
    number = np.searchsorted(firsts, ids)  # of the merged graph, by distributed number
    assert np.array_equal(np.sort(ids), firsts)
    own = number[share.start : share.start + share.n_owned]
    assert np.array_equal(share.component, labels[own])
    assert np.array_equal(share.component_sizes, np.bincount(labels))
    first, last = rows.offsets[ranks.rank : ranks.rank + 2]
    assert np.array_equal(number[rows.vertex], representative[first:last])
    for k, v in enumerate(own):
        at = slice(*share.indptr[k : k + 2])
        assert (np.diff(share.indices[at]) > 0).all()
        order = np.argsort(number[share.indices[at]])
        there = slice(*merged.indptr[v : v + 2])
        assert np.array_equal(number[share.indices[at]][order], merged.indices[there])
        assert np.array_equal(share.lengths[at][order], merged.lengths[there])


def test_shares_are_balanced_and_cut_few_edges(comm):
    rng = np.random.default_rng(1)
    share = share_of(shuffled(knn_graph(rng.random((3000, 2)), 8), rng), comm)
    work = comm.allgather(len(share.indices) + share.n_owned)
    assert max(work) <= 1.1 * np.mean(work)
    # A random assignment would cut (size - 1) / size of them.
    assert share.facts["cut edges"] <= 0.05 * (comm.size - 1) * share.facts["edges"]


def test_small_components_stay_whole(comm):
    rng = np.random.default_rng(2)
    points = np.concatenate([rng.random((30, 2)) + 9 * k for k in range(40)])
    share = share_of(shuffled(knn_graph(points, 4), rng), comm)
    assert share.facts["cut edges"] == 0
    assert max(comm.allgather(share.n_owned)) <= 1200 / comm.size + 60


def test_components_of_some_of_the_edges(comm):
    graph = GRAPHS["plane"]
    share = share_of(graph, comm)
    keep = share.lengths < np.quantile(graph.lengths, 0.3) / share.unit
    label, sizes = components_of(share, keep)
    short = graph.lengths / share.unit < np.quantile(graph.lengths, 0.3) / share.unit
    links = sp.coo_array((short[short], (graph.sources[short], graph.indices[short])), shape=(400, 400))
    n_groups, reference = sp.csgraph.connected_components(links, directed=False)
    assert len(sizes) == n_groups > 10
    assert np.array_equal(np.sort(np.bincount(reference))[::-1], sizes)
    pairs = {(int(a), int(b)) for a, b in zip(label, reference[share.caller_ids], strict=True)}
    pairs = set().union(*comm.allgather(pairs))
    assert len(pairs) == n_groups


def test_disagreeing_lengths_are_refused_by_one_rank(comm):
    ranks = Ranks(comm)
    ends = np.array([4, 7]), np.array([7, 4])
    pieces = [(*ends, np.array([1.0, 2.0]))] if ranks.rank == ranks.size - 1 else []
    with pytest.raises((ValueError, ElsewhereError)) as caught:
        distribute(ranks, pieces, 9)
    said = comm.allgather(str(caught.value) if isinstance(caught.value, ValueError) else "")
    assert [text for text in said if text] == [
        "The distances of one edge disagree: (4, 7) is there with 1.0 and 2.0; they differ by more than "
        "rounding (rtol = 1e-06). Choose asymmetry='max', 'min' or 'mean' to resolve such edges."
    ]
    for asymmetry, length in (("max", 2.0), ("min", 1.0), ("mean", 1.5)):
        pieces = [(*ends, np.array([1.0, 2.0]))] if ranks.rank == 0 else []
        share, _ = distribute(ranks, pieces, 9, asymmetry=asymmetry)
        assert set(share.lengths * share.unit) <= {length}
        assert ranks.sum(len(share.lengths)) == 2


def test_every_message_is_counted(comm):
    ranks = Ranks(comm)
    rows = RowRanges.even(ranks, 5 * ranks.size)
    halo = rows.halo(np.arange(5 * ranks.size)[::-1].copy())
    before = ranks.sent
    own = rows.own.astype(float)
    assert np.array_equal(halo.fetch(np.column_stack((own, -own)))[:, 1], -np.arange(5.0 * ranks.size)[::-1])
    others = ranks.size - 1
    assert (ranks.sent - before).tolist() == [others, others * 5 * 16]


def test_a_message_of_petsc_is_counted_where_it_is_sent(comm):
    share = cut(edges(60, np.arange(59), np.arange(1, 60), np.ones(59)), comm)
    # On a path with the diagonal alone: in an iteration the first rank has one neighbour, the second two.
    solver = ClusterSolver(share, np.ones(len(share.indices)), 8, np.zeros(share.n_owned), np.empty(0, int))
    rhs = np.ones((share.n_owned, 1)) * share.ranks.rank
    counts = []
    for _ in range(2):
        before = share.ranks.sent[0], solver.iterations
        solver.solve(rhs)
        counts.append((share.ranks.sent[0] - before[0], solver.iterations - before[1]))
    sent, iterations = zip(*share.ranks.gather(counts[1]), strict=True)
    assert len(sent) < 3 or sent[1] - sent[0] == iterations[0] > 0
    assert len(sent) > 1 or sent[0] == 0


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_leaves_what_was_there_before(comm, tmp_path_factory, monkeypatch, is_there):
    folder = comm.bcast(tmp_path_factory.mktemp("full") if comm.rank == 0 else None)
    if comm.rank == 0:
        sp.save_npz(folder / "g.npz", GRAPHS["plane"].to_matrix())
        if is_there:
            (folder / "map").mkdir()
    comm.Barrier()

    def full(file, arrays):
        assert is_there or (folder / "map").is_dir()
        file.write(b"half")
        raise OSError(28, "No space left on device")

    if comm.rank == comm.size - 1:
        monkeypatch.setattr(_output, "write_arrays", full)
    with pytest.raises((OSError, ElsewhereError)):
        embed_file(folder / "g.npz", folder / "map", max_iter=2)
    comm.Barrier()
    assert [path.name for path in sorted(folder.iterdir())] == ["g.npz", "map"][: 1 + is_there]
    assert not is_there or not any((folder / "map").iterdir())
