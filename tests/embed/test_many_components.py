"""Thousands of small components: embedded together with the bits of each alone, and little set-up each."""

import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import Anchors, Checkpoint, _small_components as small_components, embed, embed_graph
from isoweave._component import embed_component
from isoweave._parallel import ONE_THREAD
from isoweave._small_components import embed_many
from isoweave.geometry import typical_degree
from isoweave.graph import graph_from_matrix, prepare_graph, subgraph
from isoweave.known import Known
from isoweave.optimise import Interrupt, _many as many, companion_width
from isoweave.options import resolve_options
from reference_graphs import knn_of, random_tree

HOUSE = str(Path(embed.__file__).parent)

pytestmark = pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")


def crumbs(count, size=20, seed=149):
    """Disjoint graphs of nearest neighbours in the plane."""
    rng = np.random.default_rng(seed)
    kinds = [knn_of(rng.random((size, 2)), 6).to_matrix() for _ in range(10)]
    return sp.block_diag([kinds[c % 10] for c in range(count)], format="csr")


def assorted():
    """Pairs, trees, chains, sheets and solids of 2 to 50 vertices, with lengths of many scales; all pairs."""
    rng, parts = np.random.default_rng(151), []
    for c in range(8):
        n, k = int(rng.integers(3, 51)), int(rng.integers(1, 14))
        matrix = knn_of(rng.random((n, 1 + c % 4)), min(k, n - 1)).to_matrix()
        parts.append(matrix * 10.0 ** rng.integers(-3, 4))
    chain = sp.diags_array([1.0], offsets=[1], shape=(12, 12))
    complete = knn_of(rng.random((50, 2)), 49).to_matrix()
    return sp.block_diag([*parts, chain, sp.csr_array([[0.0, 2.0], [2.0, 0.0]]), complete], format="csr")


def tree(rng, n=30):
    return random_tree(n, rng).to_matrix()


def cycle_of(n, length=1.0):
    return sp.csr_array((np.full(n, length), (np.arange(n), np.roll(np.arange(n), 1))), shape=(n, n))


def unflat():
    """Trees, stars, cycles, balls, hop counts and random graphs of many scales: nothing that is flat."""
    rng, parts = np.random.default_rng(157), []
    for c in range(2):
        n = int(rng.integers(4, 51))
        spokes, others = np.arange(1, n), rng.integers(0, n, (2, 2 * n))
        others = others[:, others[0] != others[1]]
        hops = sp.csr_array((np.ones(len(others[0])), tuple(others)), shape=(n, n))
        hops.data[:] = 1.0
        wild = hops.copy()
        wild.data *= 10.0 ** rng.uniform(-3, 3, len(wild.data))
        star = sp.csr_array((np.ones(n - 1), (spokes, 0 * spokes)), shape=(n, n))
        ball = knn_of(rng.standard_normal((n, 3)), min(6, n - 1)).to_matrix()
        parts += [tree(rng, n), star, cycle_of(n, 0.1 + c), ball, hops, wild]
    return sp.block_diag(parts, format="csr")


def test_a_component_is_its_subgraph():
    matrix = sp.block_diag([crumbs(4, 12), sp.csr_array((2, 2)), crumbs(3)])
    prepared = prepare_graph(graph_from_matrix(matrix))
    assert [len(part) for part in prepared.parts] == [20] * 3 + [12] * 4 + [1] * 2
    for which in ([0], [3], [7], [1, 4, 5], [8, 2, 0]):
        part = prepared.part(*which).to_matrix()
        alone = [subgraph(prepared.graph, prepared.parts[c]).to_matrix() for c in which]
        expected = sp.csr_array(sp.block_diag(alone, format="csr"))
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(part, name), getattr(expected, name))


def test_components_are_taken_out_in_linear_time():
    """Four times as many take about four times as long, not sixteen times."""

    def seconds(count):
        prepared = prepare_graph(graph_from_matrix(crumbs(count)), False)
        prepared.part(0)
        tries = []
        for _ in range(3):
            begin = time.process_time()
            for c in range(count):
                prepared.part(c)
            tries.append(time.process_time() - begin)
        return min(tries)

    assert seconds(4000) < 8 * seconds(1000)


@pytest.mark.parametrize(
    ("make", "n_components", "options"),
    [
        (assorted, 1, {}),
        (assorted, 2, {}),
        (assorted, 2, {"global_weight": 0.5}),
        (assorted, 3, {"calibrate": "none"}),
        (assorted, 5, {"frame_size": "all"}),
        (unflat, 1, {}),
        (unflat, 2, {}),
        (unflat, 2, {"max_iter": 7, "refine": "none"}),
        (unflat, 3, {}),
    ],
)
def test_together_each_has_the_bits_it_has_alone(make, n_components, options):
    resolved = resolve_options(n_components, **options)
    prepared = prepare_graph(graph_from_matrix(make(), asymmetry="max"))
    small = [c for c, vertices in enumerate(prepared.parts) if len(vertices) > 1]
    widths = {c: companion_width(typical_degree(prepared.part(c).degrees), n_components)[0] for c in small}
    n_odd = 0
    for width in sorted(set(widths.values())):
        which = [c for c in small if widths[c] == width]
        sizes = [len(prepared.parts[c]) for c in which]
        found = embed_many(prepared.part(*which), sizes, resolved, Interrupt())
        for c, result in zip(which, found, strict=True):
            if result is None:
                n_odd += 1
                continue
            alone = embed_component(prepared.part(c), resolved, Known(), team=ONE_THREAD)
            for name in ("start", "solver", "mass", "global_weight"):
                assert getattr(result, name) == getattr(alone, name), name
            for name in ("energy", "history", "status"):
                assert getattr(result.iteration, name) == getattr(alone.iteration, name), name
            for name in ("coordinates", "alignments"):
                here, there = getattr(result.iteration, name), getattr(alone.iteration, name)
                np.testing.assert_array_equal(here, there, strict=True)
            np.testing.assert_array_equal(result.stretch, alone.stretch, strict=True)
    # On a line, points of a star or a cycle come to lie on each other.
    assert n_odd < (0.5 if make is unflat and n_components == 1 else 0.1) * len(small)


def test_bits_do_not_depend_on_company_and_threads(monkeypatch):
    whole = embed_graph(assorted(), n_jobs=1)
    monkeypatch.setattr(embed, "AT_ONCE", 3)
    for other in (embed_graph(assorted(), n_jobs=2), embed_graph(assorted(), callback=lambda state: None)):
        np.testing.assert_array_equal(other.coordinates, whole.coordinates)
        assert (other.energy, other.status, other.history) == (whole.energy, whole.status, whole.history)


@pytest.mark.parametrize("kind", ["flat", "tree"])
def test_what_a_small_component_costs(kind):
    """Calls by our functions, which are most of what it takes: a twentieth of those for one alone."""
    trees = [tree(np.random.default_rng(seed % 8)) for seed in range(30)]

    def calls(count):
        matrix = crumbs(count) if kind == "flat" else sp.block_diag(trees[:count], format="csr")
        embed_graph(matrix, n_jobs=1)  # whatever is compiled or loaded on first use
        made = 0

        def count_call(frame, event, argument):
            nonlocal made
            # Old versions of numba look at the types of all arguments in Python.
            made += event in ("call", "c_call") and frame.f_code.co_filename.startswith(HOUSE)

        sys.setprofile(count_call)
        try:
            embed_graph(matrix, n_jobs=1)
        finally:
            sys.setprofile(None)
        return made

    few, many, one = calls(20), calls(30), calls(1)
    assert many - few < 10 * one / 20


def test_components_without_anchors_go_together(monkeypatch):
    """However many others have some; each has the bits that it has without them."""
    matrix, alone = crumbs(12), Mock(wraps=embed.embed_component)
    monkeypatch.setattr(embed, "embed_component", alone)
    plain = embed_graph(matrix)
    assert alone.call_count == 0
    anchored = embed_graph(matrix, anchors=Anchors([45, 50, 55], [[0.0, 0.0], [0.3, 0.0], [0.0, 0.3]]))
    assert alone.call_count == 1
    for c in (0, 1, 3, 11):
        rows = slice(20 * c, 20 * (c + 1))
        here, there = (e.coordinates[rows] - e.coordinates[20 * c] for e in (anchored, plain))
        np.testing.assert_allclose(here, there, atol=1e-12)


def test_one_that_cannot_be_embedded_does_not_send_the_others_home(monkeypatch):
    original = small_components.frames_of

    def failing(*args):
        if (np.diff(args[-1]) == 12).any():
            raise ValueError("no frames")
        return original(*args)

    monkeypatch.setattr(small_components, "frames_of", failing)
    graph = graph_from_matrix(sp.block_diag([crumbs(5), crumbs(1, 12), crumbs(3)]))
    found = embed_many(graph, [20] * 5 + [12] + [20] * 3, resolve_options(2), Interrupt())
    assert [result is None for result in found] == [False] * 5 + [True] + [False] * 3


ROBUST = pytest.param({"loss": "robust"}, marks=pytest.mark.slow)


@pytest.mark.parametrize("options", [{}, {"refine": "distances"}, {"scale": "geodesics"}, ROBUST])
def test_one_of_many_that_are_embedded_alone_has_the_same_bits(options, monkeypatch):
    """Its steps are those of the kernel."""
    rng, used, original = np.random.default_rng(163), [], many.minimise_small
    parts = [knn_of(rng.random((60, 2)), 6).to_matrix(), tree(rng, 55), tree(rng, 9), crumbs(1)]
    matrix = sp.block_diag([*parts, cycle_of(70)], format="csr")

    def counted(*args):
        used.append(original(*args))
        return used[-1]

    monkeypatch.setattr(many, "minimise_small", counted)
    expected = embed_graph(matrix, **options)
    assert not used
    monkeypatch.setattr(embed, "MANY", 1)
    result = embed_graph(matrix, **options)
    assert len(used) > 5
    assert sum(found is None for found in used) < 0.2 * len(used)
    for name in ("coordinates", "alignments", "stretch"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    for name in ("energy", "history", "status"):
        assert getattr(result, name) == getattr(expected, name)


def test_the_synchronized_start_is_tried_where_rotations_disagree(monkeypatch):
    """Of sheets, one in four or fewer."""
    tried = Mock(wraps=many.sample_energy)
    monkeypatch.setattr(many, "sample_energy", tried)
    embed_graph(sp.block_diag([crumbs(10, seed=seed) for seed in range(10)]), n_jobs=1)
    assert 0 < sum(len(call.kwargs["starts"]) - 1 for call in tried.call_args_list) <= 25


def test_interrupted_and_continued(tmp_path, monkeypatch):
    """What was finished is kept, the rest is returned as it is, and another run gives the same bits."""
    whole, original, n_calls = embed_graph(crumbs(12)), embed.embed_many, 0
    monkeypatch.setattr(embed, "AT_ONCE", 4)
    options = {"n_jobs": 1, "checkpoint": Checkpoint(tmp_path / "run.isoweave", resume=True)}

    def interrupted(graph, sizes, resolved, interrupt):
        nonlocal n_calls
        n_calls += 1
        interrupt.is_asked = interrupt.is_asked or n_calls == 2
        return original(graph, sizes, resolved, interrupt)

    monkeypatch.setattr(embed, "embed_many", interrupted)
    result = embed_graph(crumbs(12), on_interrupt="return", **options)
    assert (result.status, n_calls) == ("interrupted", 3)
    assert np.isfinite(result.coordinates).all()
    again = embed_graph(crumbs(12), **options)
    assert (again.status, n_calls) == ("converged", 5)
    np.testing.assert_array_equal(again.coordinates, whole.coordinates)
    n_calls = 0
    with pytest.raises(KeyboardInterrupt, match="kept in"):
        embed_graph(crumbs(13), n_jobs=1, checkpoint=Checkpoint(tmp_path / "other.isoweave"))
    assert n_calls == 2
