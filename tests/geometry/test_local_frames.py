"""Local frames: against loops, of odd neighbourhoods, calibrated, compared with maps; volumes."""

import numpy as np
import pytest

import reference_graphs as ref
from isoweave.geometry import (
    LocalFrames,
    _local_mds,
    calibrate_frames,
    local_frames,
    local_stretch,
    neighborhood_volumes,
    resolve_frame_size,
    rigid_motion,
)
from reference_loops import frame_loop, spanning_forest
from reference_problems import TEAM, exact_frames

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
    """Points on a line: one direction, the others exactly zero, nothing infinite, their stretch one."""
    line = np.sort(np.random.default_rng(227).uniform(size=30))[:, None]
    graph, stretched = ref.knn_of(line, 6), 2.0 * line * (np.arange(n_components) == 0)
    for frame_size in ("auto", "all"):
        frames = local_frames(graph, n_components, team=TEAM, frame_size=frame_size, with_inverse=True)
        assert np.abs(frames.inverse).max() < 1e6
        np.testing.assert_allclose(np.linalg.norm(frames.rows, axis=1), graph.lengths, rtol=1e-7)
        ranks = [np.linalg.matrix_rank(frames.rows[graph.sources == i], tol=1e-5) for i in range(30)]
        assert ranks == [1] * 30
        found = local_stretch(graph, frames, stretched)
        np.testing.assert_allclose(
            found, np.where(np.arange(n_components) == 0, 2.0, [[1.0]] * 30), rtol=1e-6
        )


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
    sizes = [("auto", 2, 2.5 * typical), (3.0, 2, 3 * typical), (12, 2, 12), (2, 6, 7), ("all", 2, 0)]
    for frame_size, n_components, expected in sizes:
        assert resolve_frame_size(graph.degrees, frame_size, n_components) == int(np.ceil(expected))
    with pytest.raises(ValueError, match=r"frame_size must be 'auto', 'all', an int or a float, got 'some'"):
        resolve_frame_size(graph.degrees, "some", 2)


def calibrated_loop(graph, frames, mode):
    rows = frames.rows.copy()
    for i in range(graph.n_vertices):
        own = [(e, d) for e, _, d in ref.row_of(graph, i) if frames.included[e]]
        norms = [np.linalg.norm(rows[e]) for e, _ in own]
        if mode == "vertices":
            factor = sum(x * d for x, (_, d) in zip(norms, own, strict=True)) / sum(x * x for x in norms)
        for x, (e, d) in zip(norms, own, strict=True):
            rows[e] *= d / x if mode == "rows" else factor
    return rows


@pytest.mark.parametrize("mode", ["rows", "vertices"])
def test_calibration(mode):
    """Against the loop. A vanishing row, or one of rounding only, would be blown up to nonsense."""
    rng = np.random.default_rng(251)
    graph = ref.with_hubs(rng.normal(size=(60, 3)), 6, [4], rng)
    frames = local_frames(graph, 2, team=TEAM, frame_size=5)
    before = frames.rows.copy()
    result = calibrate_frames(graph, frames, mode)
    np.testing.assert_allclose(result.rows, calibrated_loop(graph, frames, mode), rtol=1e-12, atol=1e-14)
    assert not np.allclose(result.rows, frames.rows)
    np.testing.assert_array_equal(frames.rows, before)
    assert np.array_equal(calibrate_frames(graph, frames).rows, result.rows) == (mode == "rows")
    assert calibrate_frames(graph, frames, "none") is frames
    with pytest.raises(ValueError, match=r"calibrate must be one of .*'rows'.* got 'columns'"):
        calibrate_frames(graph, frames, "columns")
    graph = ref.knn_of(np.random.default_rng(257).normal(size=(12, 2)), 4)
    rows = np.random.default_rng(263).normal(size=(len(graph.indices), 2))
    rows[3], rows[5] = 0.0, [1e-12, 0.0]
    rows[graph.sources == 7] = 0.0
    frames = LocalFrames(rows, np.ones(len(rows), bool), np.ones((12, 2)), np.ones(12))
    result = calibrate_frames(graph, frames, mode).rows
    assert np.isfinite(result).all()
    assert np.all(result[graph.sources == 7] == 0.0)
    assert np.linalg.norm(result[5]) < 1e-9
    graph = ref.complete_of(np.random.default_rng(269).normal(size=(30, 2)))
    frames = local_frames(graph, 2, team=TEAM)
    np.testing.assert_allclose(calibrate_frames(graph, frames, mode).rows, frames.rows, atol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_stretch_agrees_with_least_squares_and_linear_maps_of_exact_frames(n_components):
    rng = np.random.default_rng(467)
    graph = ref.with_hubs(rng.normal(size=(50, 3)), 7, [6], rng)
    frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM, frame_size=5))
    coordinates = rng.normal(size=(50, n_components))
    found = local_stretch(graph, frames, coordinates)
    for i in range(50):
        at = np.arange(graph.indptr[i], graph.indptr[i + 1])
        at = at[frames.included[at]]
        steps = coordinates[graph.indices[at]] - coordinates[i]
        fit = np.linalg.lstsq(frames.rows[at], steps, rcond=None)[0]
        np.testing.assert_allclose(found[i], np.linalg.svd(fit, compute_uv=False), rtol=1e-7, atol=1e-9)
    points = rng.normal(size=(30, n_components))
    graph = ref.complete_of(points)
    frames, _ = exact_frames(graph, points, rng)
    turn = ref.random_rotations(1, n_components, rng)[0]
    np.testing.assert_allclose(local_stretch(graph, frames, points @ turn + 2.0), 1.0, atol=1e-10)
    for factors in (np.linspace(3.0, 0.5, n_components), np.zeros(n_components)):
        found = local_stretch(graph, frames, (points * factors) @ turn)
        np.testing.assert_allclose(found, np.tile(factors, (30, 1)), rtol=1e-9, atol=1e-12)


def test_rigid_motions_rotate_no_more_than_they_must():
    rng = np.random.default_rng(659)
    points, rotation, shift = rng.normal(size=(20, 5)), ref.random_rotations(1, 5, rng)[0], rng.normal(size=5)
    # Two points fix one direction; the others stay. One fixes none.
    two, one = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.array([[3.0, 4.0, 5.0]])
    for source, target, expected in (
        (points, points @ rotation + shift, rotation),
        (two, two[::-1], np.diag([-1.0, 1.0, 1.0])),
        (one, one + 1.0, np.eye(3)),
    ):
        q, t = rigid_motion(source, target)
        np.testing.assert_allclose(q, expected, atol=1e-8)
        np.testing.assert_allclose(source @ q + t, target, atol=1e-8)
    # Heavy points are preferred.
    target = points.copy()
    target[5] += 1.0
    q, t = rigid_motion(points[:6], target[:6], np.array([1e6] * 5 + [1.0]))
    np.testing.assert_allclose((points @ q + t)[:5], target[:5], atol=1e-4)
    same, _ = rigid_motion(points, target, np.full(20, 3.0))
    np.testing.assert_allclose(same, rigid_motion(points, target)[0], atol=1e-12)


def stars(shapes):
    """Graph of disjoint stars whose frames are the given shapes, and their centres; leaves see nothing."""
    centres, edges, dimension = [], [], shapes[0].shape[1]
    for shape in shapes:
        centres.append(len(edges) + len(centres))
        edges += [(centres[-1], centres[-1] + 1 + a, 1.0) for a in range(len(shape))]
    n = len(edges) + len(centres)
    graph = ref.graph_of(edges, n)
    table = np.zeros((len(graph.indices), dimension))
    table[graph.sources < graph.indices] = np.vstack(shapes)
    return graph, LocalFrames(table, np.ones(len(table), bool), np.ones((n, dimension)), np.ones(n)), centres


def test_equal_flat_and_unknown_volumes():
    graph, frames, _ = stars([np.eye(2)])
    np.testing.assert_array_equal(neighborhood_volumes(graph, frames), np.ones(graph.n_vertices))
    with pytest.raises(ValueError, match=r"volumes must be one of .*'hull'.* got 'sphere'"):
        neighborhood_volumes(graph, frames, "sphere")
    # Nothing but flat neighbourhoods.
    graph, frames, _ = stars([np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0]])])
    np.testing.assert_array_equal(neighborhood_volumes(graph, frames, "hull"), np.ones(4))


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 6, 8, 10])
def test_ratios_of_known_shapes(dimension):
    """Simplices with a corner at the vertex: side^N / N!, from 8 dimensions on by their projections."""
    sides = np.array([1.0, 2.0, 0.5])
    graph, frames, centres = stars([s * np.vstack([np.eye(dimension), np.eye(dimension) / 2]) for s in sides])
    volumes = neighborhood_volumes(graph, frames, "hull")
    assert volumes.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(volumes[centres] / volumes[centres[0]], sides**dimension, rtol=1e-7)
    # Leaves see one neighbour: no volume, so the smallest there is.
    others = np.setdiff1d(np.arange(graph.n_vertices), centres)
    assert dimension == 1 or np.ptp(np.append(volumes[others], volumes[centres].min())) < 1e-12
    assert (volumes > 0).all()
