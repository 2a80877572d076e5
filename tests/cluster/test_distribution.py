"""Every rank gets its share of the graph that one machine would embed, and nothing else."""

import numpy as np
import pytest
import scipy.sparse as sp

from fits import cut, refusals
from isoweave.cluster import ElsewhereError, Ranks, _output, embed_file
from isoweave.cluster._build import distribute, share_of
from isoweave.cluster._components import components_of
from isoweave.cluster._problem import ClusterSolver
from isoweave.cluster._share import RowRanges
from isoweave.graph import (
    connected_components,
    keep_edges,
    knn_graph,
    merge_duplicates,
    normalise_lengths,
    renumber,
)
from test_awkward_graphs import GRAPHS as AWKWARD, edges


def graphs():
    rng = np.random.default_rng(0)
    for name in ("plane, every edge cut", "cube", "pieces across ranks", "star", "two vertices"):
        yield name, AWKWARD[name][0]
    twice = knn_graph(np.tile(rng.random((150, 2)), (2, 1)), 6)
    yield "duplicates", renumber(twice, rng.permutation(300))
    path = edges(200, np.column_stack((np.arange(199), np.arange(1, 200))), np.full(199, 1e-9))
    yield "short edges", renumber(path, rng.permutation(200))
    yield "isolated", edges(20, [(0, 1), (5, 7)], [2, 3])
    yield "all one point", edges(4, [(0, 1), (1, 2), (2, 3)], [0, 0, 0])
    yield "no edge", edges(3, [])


GRAPHS = dict(graphs())


@pytest.mark.parametrize("name", GRAPHS)
def test_shares_are_the_graph_that_one_machine_prepares(comm, name):
    graph, ranks = GRAPHS[name], Ranks(comm)
    # Both directions, somewhere; in three pieces on the first rank, and in one on the others.
    ends = (graph.sources.astype(np.int64), graph.indices.astype(np.int64))
    given = [array[ranks.rank :: ranks.size] for array in (*ends, graph.lengths)]
    n_pieces = 1 if ranks.rank else 3
    pieces = [tuple(array[k::n_pieces] for array in given) for k in range(n_pieces)]
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
    share = share_of(renumber(knn_graph(rng.random((3000, 2)), 8), rng.permutation(3000)), comm)
    work = comm.allgather(len(share.indices) + share.n_owned)
    assert max(work) <= 1.1 * np.mean(work)
    # A random assignment would cut (size - 1) / size of them.
    assert share.facts["cut edges"] <= 0.05 * (comm.size - 1) * share.facts["edges"]


def test_small_components_stay_whole(comm):
    rng = np.random.default_rng(2)
    points = rng.permutation(np.concatenate([rng.random((30, 2)) + 9 * k for k in range(40)]))
    share = share_of(knn_graph(points, 4), comm)
    assert share.facts["cut edges"] == 0
    assert max(comm.allgather(share.n_owned)) <= 1200 / comm.size + 60


def test_components_of_some_of_the_edges(comm):
    graph = GRAPHS["plane, every edge cut"]
    share, limit = share_of(graph, comm), np.quantile(graph.lengths, 0.3)
    label, sizes = components_of(share, share.lengths * share.unit < limit)
    n_groups, reference = connected_components(keep_edges(graph, graph.lengths < limit))
    assert len(sizes) == n_groups > 10
    assert np.array_equal(np.bincount(reference), sizes)
    pairs = {(int(a), int(b)) for a, b in zip(label, reference[share.caller_ids], strict=True)}
    pairs = set().union(*comm.allgather(pairs))
    assert len(pairs) == n_groups


def test_disagreeing_lengths_are_refused_by_one_rank(comm):
    ranks = Ranks(comm)
    ends = np.array([4, 7]), np.array([7, 4])
    pieces = [(*ends, np.array([1.0, 2.0]))] if ranks.rank == ranks.size - 1 else []
    assert refusals(comm, lambda: distribute(ranks, pieces, 9)) == [
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
    share = cut(AWKWARD["path"][0], comm)
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
def test_a_full_disk_leaves_what_was_there_before(comm, folder, monkeypatch, is_there):
    if comm.rank == 0:
        sp.save_npz(folder / "g.npz", GRAPHS["plane, every edge cut"].to_matrix())
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
