"""Local frames against a loop version, and what they do with odd neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest

import reference_graphs as ref
from isoweave.geometry import _local_mds, local_frames, resolve_frame_size
from reference_loops import frame_loop, spanning_forest
from reference_problems import TEAM

RNG = np.random.default_rng(211)
GRAPHS = {
    "knn": ref.knn_of(RNG.normal(size=(70, 2)), 6),
    "knn-5d": ref.knn_of(RNG.normal(size=(60, 5)), 8),
    "sparse": ref.random_sparse(60, 40, RNG),
    "tree": ref.random_tree(50, RNG),
    "complete": ref.complete_of(RNG.normal(size=(14, 3))),
    "hub": ref.with_hubs(RNG.normal(size=(36, 2)), 5, [7], RNG),
    "hubs": ref.with_hubs(RNG.normal(size=(36, 2)), 5, [7, 8, 30], RNG),
}


def assert_same_frames(graph, frames, n_components, **settings):
    """Rows agree up to one orthogonal map per vertex, which their products do not see."""
    for i in range(graph.n_vertices):
        expected = frame_loop(graph, i, n_components, **settings)
        own = ref.row_of(graph, i)
        at = [e for e, v, _ in own if v in expected.neighbors]
        assert [e for e, _, _ in own if frames.included[e]] == at
        scale = max(expected.values[0], 1e-300)
        np.testing.assert_allclose(frames.spectrum[i], expected.values, atol=1e-10 * scale)
        assert frames.fidelity[i] == pytest.approx(min(expected.fidelity, 1.0), rel=1e-9)
        left_out = [e for e, _, _ in own if not frames.included[e]]
        assert np.all(frames.rows[left_out] == 0.0)
        # Rows and inverse rows belong to the same axes.
        found, twin = (frames.rows[at], frames.inverse[at]), (expected.rows, expected.inverse)
        size = np.abs(twin[1] @ twin[1].T).max()
        for a, b, atol in ((0, 0, 1e-9 * scale), (1, 1, 1e-8 * size), (1, 0, 1e-8)):
            np.testing.assert_allclose(found[a] @ found[b].T, twin[a] @ twin[b].T, atol=atol)


CASES = [(name, n, size) for name in [*GRAPHS][:-1] for n in (1, 3) for size in ("auto", "all")]


@pytest.mark.parametrize(("name", "n_components", "size"), CASES + [("knn", 2, s) for s in (4, 9, 1.5, 4.0)])
def test_frames_agree_with_the_loop(name, n_components, size):
    """By geodesic rank, and the paper's: all vertices within two edges, paths through those within three."""
    graph = GRAPHS[name]
    frames = local_frames(graph, n_components, team=TEAM, frame_size=size, with_inverse=True)
    n_frame = resolve_frame_size(graph.degrees, size, n_components) or None
    assert_same_frames(graph, frames, n_components, size=n_frame)
    assert frames.included.all()
    # The comparison can fail: a row turned by itself, not with its frame, is seen.
    frames.rows[5] *= -1.0
    with pytest.raises(AssertionError):
        assert_same_frames(graph, frames, n_components, size=n_frame)


def test_hubs_keep_their_nearest_neighbours_and_every_edge_a_graph_hangs_on(monkeypatch):
    """As two stars joined by a long edge between their centres, both hubs: it is not among the nearest."""
    monkeypatch.setattr(_local_mds, "HUB_LIMIT", 15)
    for graph in (GRAPHS["hub"], GRAPHS["hubs"]):
        assert graph.degrees[7] > 15
        frames = local_frames(graph, 2, team=TEAM, frame_size=3, with_inverse=True)
        assert_same_frames(graph, frames, 2, size=3, row_limit=15)
        assert not frames.included.all()
        assert frames.included[(graph.degrees <= 15)[graph.sources]].all()
    left = [(0, i, 1.0 + 0.01 * i) for i in range(2, 22)]
    right = [(1, i, 1.0 + 0.01 * i) for i in range(22, 42)]
    graph = ref.graph_of([*left, *right, (0, 1, 50.0)], 42)
    frames = local_frames(graph, 2, team=TEAM, frame_size=3, with_inverse=True)
    bridge = np.flatnonzero(graph.lengths == 50.0)
    assert frames.included[bridge].all()
    assert np.linalg.norm(frames.rows[bridge], axis=1).min() > 0.0
    ends = np.sort(np.column_stack([graph.sources, graph.indices])[frames.included], axis=1)
    seen = {tuple(pair) for pair in ends.tolist()}
    assert spanning_forest(ref.edges_of(graph), 42) <= seen


@pytest.mark.parametrize("n_components", [1, 2, 3, 6])
def test_exact_distances_give_back_the_points(n_components):
    points = np.random.default_rng(223 + n_components).normal(size=(n_components + 9, n_components))
    graph = ref.complete_of(points)
    for frame_size in ("auto", "all", 3.0):
        frames = local_frames(graph, n_components, team=TEAM, frame_size=frame_size)
        for i in range(len(points)):
            at = slice(graph.indptr[i], graph.indptr[i + 1])
            steps = points[graph.indices[at]] - points[i]
            np.testing.assert_allclose(frames.rows[at] @ frames.rows[at].T, steps @ steps.T, atol=1e-11)
        np.testing.assert_allclose(frames.fidelity, 1.0, atol=1e-12)


@pytest.mark.parametrize("n_components", [2, 3])
def test_flat_neighbourhoods_lower_the_rank(n_components):
    """Points on a line: one direction, the others exactly zero, nothing infinite."""
    graph = ref.knn_of(np.sort(np.random.default_rng(227).uniform(size=30))[:, None], 6)
    for frame_size in ("auto", "all"):
        frames = local_frames(graph, n_components, team=TEAM, frame_size=frame_size, with_inverse=True)
        assert np.abs(frames.inverse).max() < 1e6
        np.testing.assert_allclose(np.linalg.norm(frames.rows, axis=1), graph.lengths, rtol=1e-7)
        ranks = [np.linalg.matrix_rank(frames.rows[graph.sources == i], tol=1e-5) for i in range(30)]
        assert ranks == [1] * 30


TINY = [ref.path_graph(9), ref.cycle_graph(9), ref.star_graph(9), ref.graph_of([(0, 2, 1.0)], 4)]


@pytest.mark.parametrize("graph", TINY)
@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_tiny_graphs_are_finite(graph, n_components):
    for frame_size in ("auto", "all", 2):
        frames = local_frames(graph, n_components, team=TEAM, frame_size=frame_size, with_inverse=True)
        for array in (frames.rows, frames.inverse, frames.spectrum, frames.fidelity):
            assert np.isfinite(array).all()
        assert 0 <= frames.fidelity.min() <= frames.fidelity.max() <= 1
        if graph.n_edges == 1:
            np.testing.assert_allclose(np.linalg.norm(frames.rows, axis=1), graph.lengths)


def test_resolved_sizes():
    graph = ref.knn_of(np.random.default_rng(239).normal(size=(50, 2)), 8)
    typical = np.percentile(graph.degrees, 25)
    assert resolve_frame_size(graph.degrees, "auto", 2) == int(np.ceil(2.5 * typical))
    assert resolve_frame_size(graph.degrees, 3.0, 2) == int(np.ceil(3 * typical))
    assert resolve_frame_size(graph.degrees, 12, 2) == 12
    assert resolve_frame_size(graph.degrees, 2, 6) == 7
    assert resolve_frame_size(graph.degrees, "all", 2) == 0
    with pytest.raises(ValueError, match=r"frame_size must be 'auto', 'all', an int or a float, got 'some'"):
        resolve_frame_size(graph.degrees, "some", 2)
