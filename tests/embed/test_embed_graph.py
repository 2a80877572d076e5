"""The whole pipeline on graphs: exact recovery, what it returns, parts, duplicates, odd shapes, stopping.

What holds of every map, of parts and of duplicates alone is tested on the table of tests/adversarial.
"""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from isoweave import Embedding, IsometricEmbedding, NumericalError, embed_graph
from isoweave.datasets import s_curve, swiss_roll
from isoweave.energy import EdgeEnergy
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import distance_gap, graph_of, knn_of, with_twin


def sheet_matrix(n=300, k=8, seed=131):
    return knn_graph(s_curve(n, random_state=seed).data, k).to_matrix()


def parts_matrix(sizes=(30, 20, 12, 1), seed=137):
    """Disjoint planar blobs, vertices shuffled: matrix, and part of each vertex."""
    rng = np.random.default_rng(seed)
    blobs = [knn_of(rng.normal(size=(size, 2)), min(6, size - 1)).to_matrix() for size in sizes if size > 1]
    single = sp.csr_array((sizes.count(1),) * 2)
    order = rng.permutation(sum(sizes))
    matrix = sp.block_diag([*blobs, single], format="csr")[order][:, order]
    return matrix, np.repeat(np.arange(len(sizes)), sizes)[order]


def complete_matrix(n_components, n=40, thin=1.0):
    """Points of R^N, the last direction ``thin`` times the first, and all their distances."""
    points = np.random.default_rng(811 + n_components).normal(size=(n, n_components))
    points = points * np.geomspace(1.0, thin, n_components)
    return points, sp.csr_array(cdist(points, points))


@pytest.mark.parametrize("n_components", [1, 2, 3, 6, 10])
def test_complete_graphs_give_back_their_points(n_components):
    points, matrix = complete_matrix(n_components)
    result = embed_graph(matrix, n_components=n_components)
    assert procrustes_error(points, result.coordinates) <= 1e-20
    assert result.relative_energy <= 1e-20
    np.testing.assert_allclose(result.stretch, 1.0, atol=1e-9)
    for product, size in (("paper", "all"), ("paper", 1.0), ("edge", "all")):
        result = embed_graph(matrix, n_components, inner_product=product, frame_size=size)
        assert procrustes_error(points, result.coordinates) <= 1e-20
    few, matrix = complete_matrix(n_components, n=n_components + 2)
    found = IsometricEmbedding(n_components=n_components, metric="precomputed").fit_transform(matrix)
    assert procrustes_error(few, found) <= 1e-20
    # Long thin clouds are exact, too few dimensions are not.
    thin, matrix = complete_matrix(n_components, thin=1e-3)
    assert procrustes_error(thin, embed_graph(matrix, n_components).coordinates) <= 1e-20
    points, matrix = complete_matrix(n_components + 1)
    result = embed_graph(matrix, n_components)
    assert procrustes_error(points, result.coordinates) > 1e-3
    assert result.relative_energy > 1e-4


def test_result_describes_itself():
    matrix = sheet_matrix()
    result = embed_graph(matrix, n_components=2, refine="none")
    assert isinstance(result, Embedding)
    assert result.stretch.shape == (300, 2)
    np.testing.assert_allclose(result.coordinates.mean(axis=0), 0.0, atol=1e-10)
    assert 0.0 < result.relative_energy < 0.1
    assert result.energy == pytest.approx(result.history[-1].energy)
    assert result.n_iter == result.history[-1].iteration == len(result.history) - 1
    assert np.median(result.stretch) == pytest.approx(1.0, abs=0.1)
    assert (result.graph.to_matrix() != matrix).nnz == len(result.dropped_edges) == 0
    assert (result.start in ("landmark", "synchronized"), result.solver[:6]) == (True, "direct")
    # The size by shortest paths is one number; they zig-zag, so they are longer.
    scaled = embed_graph(matrix, scale="geodesics", refine="none")
    factor = np.linalg.norm(scaled.coordinates) / np.linalg.norm(result.coordinates)
    np.testing.assert_allclose(scaled.coordinates, factor * result.coordinates, atol=1e-8)
    np.testing.assert_allclose(scaled.stretch, factor * result.stretch, rtol=1e-9)
    assert 1.0 < factor < 1.2
    straight = scaled.distances()
    assert np.sum(straight * dijkstra(matrix)) / np.sum(straight**2) == pytest.approx(1.0, abs=0.02)


def test_named_starts():
    matrix = sheet_matrix(k=6, seed=139)
    named = ("landmark", "synchronized", "coarse", "identity", "auto")
    found = {start: embed_graph(matrix, start=start) for start in named}
    assert all(np.isfinite(result.coordinates).all() for result in found.values())
    for start in ("landmark", "synchronized", "identity"):
        assert found[start].start == start
    # The coarse start may find its sample in pieces, and then goes on with landmarks.
    assert found["coarse"].start in ("coarse", "landmark")
    # "auto" keeps the better one.
    assert found["auto"].energy in (found["landmark"].energy, found["synchronized"].energy)
    assert found["auto"].energy <= found["landmark"].energy


def test_given_starts():
    sheet = s_curve(300, random_state=149)
    matrix = knn_graph(sheet.data, 8).to_matrix()
    starts = sheet.truth, sheet.truth.astype(np.float32), np.round(100.0 * sheet.truth).astype(np.int64)
    for start, unit in zip(starts, (1.0, 1.0, 100.0), strict=True):
        result = embed_graph(unit * matrix, start=start)
        assert result.start == "given"
        assert procrustes_error(sheet.truth, result.coordinates / unit) < 0.01
    matrix, part = parts_matrix((20, 15))
    with pytest.warns(UserWarning, match="2 connected components"):
        reference = embed_graph(1e6 * matrix, tol=1e-6, max_iter=3000, refine="none")
    with pytest.warns(UserWarning, match="2 connected components"):
        result = embed_graph(1e6 * matrix, start=reference.coordinates, tol=1e-5, refine="none")
    # One, to take back the factor that brought its edges to their lengths.
    assert result.n_iter <= 1
    for p in range(2):
        assert distance_gap(reference.coordinates[part == p], result.coordinates[part == p]) < 1e-5


def test_a_start_that_a_large_tol_leaves_alone_is_blamed_on_tol():
    """Distances are blamed (UnsolvedError) only if a solve went wrong."""
    matrix, start = sheet_matrix(60), np.random.default_rng(7).normal(size=(60, 2))
    for tol, size in ((0.99, 1.5), (10.0, 3.0), (10.0, 1e6)):
        with pytest.raises(ValueError, match=f"tol={tol:g} ends the iteration where .*; lower tol") as caught:
            embed_graph(matrix, start=size * start, tol=tol)
        assert not isinstance(caught.value, NumericalError)
    assert embed_graph(matrix, tol=10.0).n_iter == 0


def test_parts():
    matrix, part = parts_matrix()
    with pytest.warns(UserWarning, match=r"4 connected components \(sizes 30, 20, 12, 1\)") as caught:
        result = embed_graph(matrix)
    assert len(caught) == 1
    np.testing.assert_array_equal(result.component_labels, part)
    inside = [result.coordinates[part == p] for p in range(4)]
    for first, second in itertools.combinations(inside, 2):
        apart = (first.min(axis=0) > second.max(axis=0)) | (second.min(axis=0) > first.max(axis=0))
        assert apart.any(), "two parts overlap"
    # Each part is embedded as if it were alone.
    members = np.flatnonzero(part == 1)
    alone = embed_graph(matrix[members][:, members])
    assert distance_gap(alone.coordinates, inside[1]) < 1e-9
    assert result.energy > alone.energy
    with pytest.raises(ValueError, match="components='bridge' needs features"):
        embed_graph(matrix, components="bridge")
    embed_graph(sheet_matrix(), components="error")


def test_small_parts():
    """Two vertices in three components, vertices without edges, more parts than fit into a message."""
    matrix, part = parts_matrix((15, 2, 3))
    with pytest.warns(UserWarning, match="3 connected components"):
        result = embed_graph(matrix, n_components=3)
    pair = np.flatnonzero(part == 1)
    assert result.distances(pair[0], pair[1]) == pytest.approx(matrix[pair[0], pair[1]])
    with pytest.warns(UserWarning, match="5 connected components"):
        lonely = embed_graph(sp.csr_array((5, 5)))
    assert len(np.unique(lonely.coordinates[np.isfinite(lonely.coordinates[:, 0])], axis=0)) == 5
    edges = [(2 * i, 2 * i + 1, 1.0 + 0.01 * i) for i in range(60)]
    with pytest.warns(UserWarning, match=r"60 connected components \(sizes 2, 2, 2, 2, 2, \.\.\.\)"):
        many = embed_graph(graph_of(edges, 120).to_matrix(), n_components=1)
    lengths = np.abs(np.diff(many.coordinates[:, 0].reshape(60, 2), axis=1)).ravel()
    np.testing.assert_allclose(lengths, [d for _, _, d in edges], rtol=1e-9)


def test_duplicates():
    """Stored zeros join duplicates; they survive symmetrisation."""
    points = np.random.default_rng(151).normal(size=(40, 2))
    points[7] = points[21] = points[3]
    graph = knn_of(points, 8)
    assert np.count_nonzero(graph.lengths == 0) == 6
    result = embed_graph(graph.to_matrix())
    assert result.graph.n_edges == graph.n_edges
    np.testing.assert_array_equal(result.coordinates[[3, 3]], result.coordinates[[7, 21]])
    assert len(np.unique(result.coordinates, axis=0)) == 38
    np.testing.assert_array_equal(result.alignments[3], result.alignments[7])


def comb(n, leaf, n_leaves):
    """A path of unit steps, and leaves at each of its vertices."""
    leaves = [(i, n + n_leaves * i + k, leaf) for i in range(n) for k in range(n_leaves)]
    return graph_of([*((i, i + 1, 1.0) for i in range(n - 1)), *leaves], n + n * n_leaves)


def test_edges_without_length_are_neither_converged_nor_isometric(monkeypatch):
    """Three leaves longer than the steps: frames of the plane do not see the path, and its energy is zero."""
    graph = comb(40, 2.0, 3)
    monkeypatch.setattr(EdgeEnergy, "free", np.empty(0, dtype=np.int32))  # were rows all there is
    result = embed_graph(graph.to_matrix(), global_weight=0.0)
    assert result.relative_energy < 1e-20
    lengths = np.linalg.norm(result.coordinates[graph.sources] - result.coordinates[graph.indices], axis=1)
    lost = np.unique(graph.sources[lengths < 1e-6])
    assert len(lost) == 40
    assert result.status == "collapsed"
    assert np.all(result.stretch[lost, -1] == 0.0)
    np.testing.assert_allclose(result.stretch[:, 0], 1.0, atol=1e-6)
    assert embed_graph(comb(12, 0.5, 1).to_matrix()).status == "converged"


def test_refined_maps_have_an_energy_of_their_own_without_calibration():
    """Frames follow the shortest paths: where distances are much longer, they say nothing about the map."""
    lengths = np.triu(np.exp(3.0 * np.random.default_rng(0).normal(size=(40, 40))), 1)
    matrix = sp.csr_array(lengths + lengths.T)
    for calibrate in ("none", "vertices"):
        result = embed_graph(matrix, calibrate=calibrate, refine="distances")
        assert 0.0 < result.relative_energy < 1.0


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
def test_points_of_lower_rank(preset):
    """A line in two components: the second coordinate is free but finite."""
    line = np.sort(np.random.default_rng(163).uniform(size=40))[:, None]
    result = embed_graph(knn_of(line, 6).to_matrix(), n_components=2, preset=preset, max_iter=100)
    assert np.isfinite(result.coordinates).all()
    assert preset == "paper" or procrustes_error(line, result.coordinates) < 1e-12
    # A sheet with a hair, whose vertices see one direction only.
    sheet = np.random.default_rng(167).uniform(size=(80, 2))
    hair = np.column_stack([np.linspace(1.05, 2.0, 20), np.full(20, 0.5)])
    result = embed_graph(knn_of(np.vstack([sheet, hair]), 5).to_matrix(), preset=preset, max_iter=100)
    assert np.isfinite(result.coordinates).all()
    assert result.relative_energy < 0.1


def test_shortcuts_are_dropped_reported_and_kept_in_the_graph():
    roll = swiss_roll(900, random_state=179)
    matrix = knn_graph(roll.data, 20).to_matrix()
    result, kept = embed_graph(matrix), embed_graph(matrix, shortcuts="keep")
    i, j = result.dropped_edges.T
    assert len(i) > 0
    assert (i < j).all()
    assert (matrix[i, j] > 0).all()
    assert result.graph.n_edges == matrix.nnz // 2
    assert procrustes_error(roll.truth, result.coordinates) < 1e-3
    assert len(kept.dropped_edges) == 0
    assert procrustes_error(roll.truth, kept.coordinates) > 0.05
    # A twin of one end of a dropped edge, with the same edge: both are listed.
    i, j = result.dropped_edges[0].tolist()
    twins = embed_graph(with_twin(matrix, i, (j, matrix[i, j])))
    assert {(i, j), (j, 900)} <= {tuple(edge) for edge in twins.dropped_edges.tolist()}


def test_callbacks_see_the_users_terms_know_the_part_and_stop_the_whole_fit():
    seen = []

    def look(state):
        seen.append(state)
        return len(seen) == 2

    result = embed_graph(1000.0 * sheet_matrix(), callback=look, start="landmark")
    last = seen[-1]
    assert (result.status, len(seen), last.iteration, result.n_iter) == ("stopped", 2, 2, 2)
    assert last.energy == pytest.approx(result.energy)
    centred = last.coordinates - last.coordinates.mean(axis=0)
    # But for the factor that brings edges to their lengths at the end.
    factor = np.linalg.norm(result.coordinates) / np.linalg.norm(centred)
    assert factor == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(factor * centred, result.coordinates, atol=1e-9 * np.abs(centred).max())
    for stop, stages in ((True, ["1 of 2"]), (False, ["1 of 2", "2 of 2"])):
        seen.clear()
        matrix = parts_matrix((30, 20))[0]
        with pytest.warns(UserWarning, match="connected components"):
            result = embed_graph(matrix, refine="none", callback=lambda s, stop=stop: seen.append(s) or stop)
        assert list(dict.fromkeys(s.stage for s in seen)) == [f"optimise (component {s})" for s in stages]
        assert (result.status == "stopped") == stop
        assert np.isfinite(result.coordinates).all()


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_too_few_iterations_are_announced(preset):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps.*raise max_iter or tol") as caught:
        result = embed_graph(sheet_matrix(100), preset=preset, max_iter=1, tol=1e-9)
    assert [warning.filename for warning in caught] == [__file__]
    assert (result.status, result.n_iter) == ("max_iter", 1)
