"""A graph in shares has the map that one machine makes of it, for any number of ranks."""

import numpy as np
import pytest
from scipy.sparse.csgraph import reverse_cuthill_mckee

from fits import apart, cut, on_all_ranks, on_one, refusals, same
from isoweave import Anchors
from isoweave._parallel import ONE_THREAD
from isoweave.cluster import Ranks, embed_share
from isoweave.cluster._frames import share_frames
from isoweave.cluster._job import agreed_callback
from isoweave.cluster._shortcuts import without_shortcuts
from isoweave.datasets import sphere, swiss_roll
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import assemble_graph, graph_from_matrix, knn_graph, prepare_graph, renumber
from isoweave.optimise import Run
from isoweave.options import resolve_options
from test_awkward_graphs import GRAPHS

TIGHT = {"tol": 1e-10, "max_iter": 5000}


def in_order(graph):
    """Neighbours near each other, so that cuts are short."""
    return renumber(graph, reverse_cuthill_mckee(graph.to_matrix(), symmetric_mode=True))


ROLL = in_order(knn_graph(swiss_roll(700, random_state=3).data, 8))
SPHERE = in_order(knn_graph(sphere(600, random_state=2).data, 10))
WRONG = GRAPHS["long edges"][0]


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (ROLL, {"start": "coarse", "refine": "none"}),
        (ROLL, {"start": "coarse", "refine": "distances"}),
        (SPHERE, {"start": "landmark", "global_weight": "auto"}),
        (SPHERE, {"start": "landmark", "global_weight": 2.0}),
        (WRONG, {"start": "landmark", "loss": "robust", "global_weight": 0.0, "refine": "none"}),
    ],
    ids=["roll", "refined", "sphere", "long distances", "robust"],
)
def test_the_map_is_that_of_one_machine(comm, graph, options):
    share = cut(graph, comm)
    _, facts, one = same(graph, share, **options, **TIGHT)
    assert facts["global_weight"] == pytest.approx(one.global_weight, rel=1e-9)
    assert facts["stretch"] == pytest.approx(one.stretch[share.own], rel=1e-4)


@pytest.mark.parametrize(
    "graph", [ROLL, WRONG, GRAPHS["two hubs"][0]], ids=["roll", "long edges", "two hubs"]
)
def test_frames_and_energies_have_the_bits_of_one_machine(comm, graph):
    share, graph = cut(graph, comm), prepare_graph(graph, False).graph
    here = share_frames(share, 2, ONE_THREAD)
    whole = edge_energy(graph, calibrate_frames(graph, local_frames(graph, 2)))
    x = np.random.default_rng(0).standard_normal((graph.n_vertices, 2))
    own = share.own
    one, mine = whole.evaluate(x), here.evaluate(x[own])
    assert np.array_equal(mine.half_gradient, one.half_gradient[own])
    assert np.array_equal(mine.alignments, one.alignments[own])
    assert mine.energy == pytest.approx(one.energy, rel=1e-13)


def test_a_sample_too_large_for_one_rank_goes_through_its_own_sample(comm, monkeypatch):
    monkeypatch.setattr("isoweave.cluster._starts.GATHERED", 20)
    assert same(ROLL, cut(ROLL, comm), start="coarse", refine="none", **TIGHT)[1]["start"] == "coarse"


def test_the_same_bits_every_time(comm):
    first, second = (on_all_ranks(cut(ROLL, comm))[0] for _ in range(2))
    assert np.array_equal(first, second)


def test_shortcuts_are_those_of_one_machine(comm):
    graph = in_order(knn_graph(swiss_roll(1500, random_state=1).data, 20))
    share, n_dropped = without_shortcuts(cut(graph, comm), ONE_THREAD)
    one = prepare_graph(graph)
    at = slice(*one.graph.indptr[[share.start, share.start + share.n_owned]])
    assert n_dropped == len(one.dropped) > 0
    assert np.array_equal(share.indices, one.graph.indices[at])


def test_small_components_are_embedded_by_one_rank_each(comm):
    rng = np.random.default_rng(4)
    parts = [rng.random((40 + 7 * k, 2)) + 9 * k for k in range(5)]
    graph = knn_graph(rng.permutation(np.concatenate(parts)), 8)
    share = cut(graph, comm)
    x, facts = on_all_ranks(share, alone_up_to=6000)
    one = on_one(graph)
    assert facts["energy"] == pytest.approx(one.energy, rel=1e-9)
    assert facts["start"] == one.start
    labels = one.component_labels
    for c in range(5):
        assert apart(x[labels == c], one.coordinates[labels == c]) < 1e-6


def test_large_components_lie_side_by_side(comm):
    rng = np.random.default_rng(5)
    points = rng.permutation(np.concatenate((rng.random((200, 2)), rng.random((150, 2)) + 3)))
    graph = knn_graph(points, 8)
    x, _, one = same(graph, cut(graph, comm), unique=False, start="coarse", refine="none", **TIGHT)
    labels = one.component_labels
    boxes = [(x[labels == c].min(axis=0), x[labels == c].max(axis=0)) for c in (0, 1)]
    assert (boxes[0][1] < boxes[1][0]).any() or (boxes[1][1] < boxes[0][0]).any()


@pytest.mark.parametrize("components", ["separate", "largest"])
def test_single_vertices_have_a_place_too(comm, components):
    graph = assemble_graph(30, np.array([0, 5, 7]), np.array([1, 7, 9]), np.array([2.0, 3.0, 4.0]))
    x, facts = on_all_ranks(cut(graph, comm), components=components, alone_up_to=6000)
    one = on_one(graph, components=components)
    assert np.array_equal(np.isnan(x), np.isnan(one.coordinates))
    kept = [(5, 7, 3.0), (7, 9, 4.0)] if components == "largest" else [(0, 1, 2.0), (5, 7, 3.0), (7, 9, 4.0)]
    assert [np.linalg.norm(x[i] - x[j]) for i, j, _ in kept] == pytest.approx([gap for *_, gap in kept])
    assert facts["n_dropped"] == 0


@pytest.mark.parametrize("weight", [np.inf, 2.0])
def test_anchors_hold_or_pull(comm, weight):
    rng = np.random.default_rng(6)
    points = rng.random((400, 2)) * 10 + 100
    graph = in_order(graph_from_matrix(knn_graph(points, 8)))
    flat = on_one(graph).coordinates
    index, share = rng.choice(400, 9, replace=False), cut(graph, comm)
    positions = flat[index] + rng.normal(0, 0.05, (9, 2)) + 50
    mine = np.flatnonzero((index >= share.start) & (index < share.start + share.n_owned))
    anchors = (index[mine] - share.start, positions[mine], np.full(len(mine), weight))
    x, facts = on_all_ranks(share, anchors=anchors, start="coarse", refine="distances", **TIGHT)
    known = Anchors(index, positions, None if np.isinf(weight) else weight)
    one = on_one(graph, anchors=known, start="coarse", refine="distances", **TIGHT)
    assert facts["energy"] == pytest.approx(one.energy, rel=1e-8)
    assert x == pytest.approx(one.coordinates, abs=1e-4)
    if np.isinf(weight):
        assert np.array_equal(x[index], positions)


def test_the_weight_is_that_of_the_map_that_was_kept(comm):
    """Lengths over 20 orders of magnitude: long distances would ruin the map, and the local one is kept."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(np.triu((rng.random((60, 60)) < 0.1) | np.eye(60, k=1, dtype=bool), k=1))
    share = cut(assemble_graph(60, i, j, 10.0 ** rng.uniform(-10.0, 10.0, len(i))), comm)
    (x, facts), (local, _) = (on_all_ranks(share, global_weight=weight) for weight in ("auto", 0.0))
    assert np.array_equal(x, local)
    assert facts["global_weight"] == 0.0


def test_a_start_of_ones_own_and_the_scale_of_geodesics(comm):
    begin, share = on_one(ROLL).coordinates, cut(ROLL, comm)
    x, facts = on_all_ranks(share, start=begin[share.own], scale="geodesics", **TIGHT)
    one = on_one(ROLL, start=begin, scale="geodesics", **TIGHT)
    assert facts["start"] == "given"
    assert apart(x, one.coordinates) < 1e-5


def test_one_rank_can_end_the_fit_of_all(comm):
    seen = []

    def last_rank_has_enough(state):
        seen.append(state.coordinates.shape)
        return comm.rank == comm.size - 1 and state.iteration == 3

    share, options = cut(ROLL, comm), resolve_options(2, callback=last_rank_has_enough)
    run = Run(callback=agreed_callback(Ranks(comm), options))
    facts = embed_share(share, options, run=run, alone_up_to=0)[1]
    assert (facts["status"], facts["n_iter"]) == ("stopped", 3)
    assert seen == [(share.n_owned, 2)] * 3


def test_distances_of_any_size(comm):
    """Squares beyond the largest number are infinite, and a map beyond it is refused by one rank."""
    graph = in_order(knn_graph(np.random.default_rng(8).random((150, 2)), 9))
    here = on_all_ranks(cut(graph, comm), max_iter=5)
    large = type(graph)(graph.indptr, graph.indices, np.ldexp(graph.lengths, 600))
    there = on_all_ranks(cut(large, comm), max_iter=5)
    assert np.array_equal(np.ldexp(there[0], -600), here[0])
    assert (there[1]["energy"], there[1]["relative_energy"]) == (np.inf, here[1]["relative_energy"])
    largest = type(graph)(graph.indptr, graph.indices, np.ldexp(graph.lengths, 1025))
    (said,) = refusals(comm, lambda: on_all_ranks(cut(largest, comm), max_iter=5))
    assert "beyond the largest number" in said


def test_stuck_maps_of_exact_distances_are_mended_by_one_rank(comm, monkeypatch):
    u = np.random.default_rng(11).random((600, 2))
    angle, radius = np.pi * (0.15 + 1.7 * u[:, 0]), 1.0 + 0.5 * u[:, 1]
    strip = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    share = cut(in_order(knn_graph(strip, 8)), comm)
    assert on_all_ranks(share, start="coarse")[1]["relative_energy"] < 1e-20
    monkeypatch.setattr("isoweave.cluster._fit.MENDED", 599)
    assert on_all_ranks(share, start="coarse")[1]["relative_energy"] > 1e-8


def test_the_start_at_the_identity(comm):
    options = {"start": "identity", "max_iter": 1, "refine": "none", "global_weight": 0.0}
    _, facts = on_all_ranks(cut(ROLL, comm), **options)
    assert facts["start"] == "identity"
    # After a step that is solved for to five digits.
    assert facts["energy"] == pytest.approx(on_one(ROLL, **options).energy, rel=1e-6)


def test_what_is_not_there_is_refused_with_its_name(comm):
    asked = {"preset": "paper", "components": "bridge", "along_graph": 8, "start": "lifted", "solver": "ic"}
    for name, value in (asked | {"frame_size": "all"}).items():
        with pytest.raises(ValueError, match=rf"{name}.*{value}.* is not supported by engine='petsc'"):
            on_all_ranks(cut(ROLL, comm), **{name: value})
