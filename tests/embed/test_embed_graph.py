"""The whole pipeline on graphs: what it returns, parts, duplicates, odd shapes, stopping."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from sklearn.exceptions import ConvergenceWarning

from isoweave import Embedding, embed_graph
from isoweave.datasets import s_curve, swiss_roll
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import (
    complete_of,
    cycle_graph,
    distance_gap,
    graph_of,
    knn_of,
    path_graph,
    random_sparse,
    random_tree,
    row_of,
    star_graph,
)


def sheet_matrix(n=300, k=8, seed=131):
    return knn_graph(s_curve(n, random_state=seed).data, k).to_matrix()


def parts_matrix(sizes=(30, 20, 12, 1), seed=137):
    """Disjoint planar blobs, vertices shuffled: matrix, and part of each vertex."""
    rng = np.random.default_rng(seed)
    part = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    n = len(part)
    rows, cols, values = [], [], []
    for p in range(len(sizes)):
        members = np.flatnonzero(part == p)
        if len(members) == 1:
            continue
        graph = knn_of(rng.normal(size=(len(members), 2)), min(6, len(members) - 1))
        rows.append(members[graph.sources])
        cols.append(members[graph.indices])
        values.append(graph.lengths)
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))
    return sp.csr_array(sp.coo_array(entries, shape=(n, n))), part


def test_result_describes_itself():
    matrix = sheet_matrix()
    result = embed_graph(matrix, n_components=2)
    assert isinstance(result, Embedding)
    n = matrix.shape[0]
    assert result.coordinates.shape == (n, 2)
    assert result.coordinates.dtype == np.float64
    np.testing.assert_allclose(result.coordinates.mean(axis=0), 0.0, atol=1e-10)
    eye = np.tile(np.eye(2), (n, 1, 1))
    np.testing.assert_allclose(result.alignments @ result.alignments.transpose(0, 2, 1), eye, atol=1e-12)
    assert result.status == "converged"
    assert 0.0 < result.relative_energy < 0.1
    assert result.energy == pytest.approx(result.history[-1].energy)
    assert result.n_iter == result.history[-1].iteration == len(result.history) - 1
    energies = [record.energy for record in result.history]
    assert energies == sorted(energies, reverse=True)
    assert result.component_labels.tolist() == [0] * n
    assert result.stretch.shape == (n, 2)
    assert np.median(result.stretch) == pytest.approx(1.0, abs=0.1)
    assert (result.graph.to_matrix() != matrix).nnz == 0
    assert result.dropped_edges.shape == (0, 2)
    assert result.start in ("landmark", "synchronised")
    assert result.solver.startswith("direct")


@pytest.mark.parametrize("start", ["landmark", "synchronised", "coarse", "identity"])
def test_named_starts(start):
    matrix = sheet_matrix()
    result = embed_graph(matrix, start=start)
    assert np.isfinite(result.coordinates).all()
    # The coarse start may find its sample in pieces, and then goes on with landmarks.
    assert result.start in ((start, "landmark") if start == "coarse" else (start,))


def test_auto_keeps_the_better_start():
    matrix = sheet_matrix(k=6, seed=139)
    landmark, synchronised, auto = (
        embed_graph(matrix, start=start) for start in ("landmark", "synchronised", "auto")
    )
    assert auto.energy in (landmark.energy, synchronised.energy)
    assert auto.energy <= landmark.energy


def test_given_start():
    sheet = s_curve(300, random_state=149)
    matrix = knn_graph(sheet.data, 8).to_matrix()
    result = embed_graph(matrix, start=sheet.truth)
    assert result.start == "given"
    assert procrustes_error(sheet.truth, result.coordinates) < 0.01
    # Integers and float32 are numbers too.
    again = embed_graph(100.0 * matrix, start=np.round(100.0 * sheet.truth).astype(np.int64))
    assert procrustes_error(100.0 * sheet.truth, again.coordinates) < 0.01
    single = embed_graph(matrix, start=sheet.truth.astype(np.float32))
    assert procrustes_error(sheet.truth, single.coordinates) < 0.01


def test_given_start_with_parts_duplicates_and_units():
    matrix, part = parts_matrix((20, 15))
    with pytest.warns(UserWarning, match="2 connected components"):
        reference = embed_graph(1e6 * matrix, tol=1e-6, max_iter=3000)
    with pytest.warns(UserWarning, match="2 connected components"):
        result = embed_graph(1e6 * matrix, start=reference.coordinates, tol=1e-5)
    assert result.n_iter == 0
    for p in range(2):
        gap = distance_gap(reference.coordinates[part == p], result.coordinates[part == p])
        assert gap < 1e-10


@pytest.mark.parametrize("inner_product", ["edge", "paper"])
@pytest.mark.parametrize("solver", ["direct", "amg", "jacobi", "ic"])
def test_solvers_agree(inner_product, solver):
    """Each takes the same steps, to the accuracy of its solves."""
    matrix = sheet_matrix(200)
    expected = embed_graph(matrix, inner_product=inner_product, solver="direct", start="landmark")
    result = embed_graph(matrix, inner_product=inner_product, solver=solver, start="landmark")
    assert result.solver.startswith(solver)
    assert result.energy == pytest.approx(expected.energy, rel=1e-3)
    assert distance_gap(expected.coordinates, result.coordinates) < 1e-2


def test_geodesic_scale_is_one_number():
    matrix = sheet_matrix(k=6)
    edges, geodesics = (embed_graph(matrix, scale=scale) for scale in ("edges", "geodesics"))
    factor = np.linalg.norm(geodesics.coordinates) / np.linalg.norm(edges.coordinates)
    np.testing.assert_allclose(geodesics.coordinates, factor * edges.coordinates, atol=1e-10 * 100)
    np.testing.assert_allclose(geodesics.stretch, factor * edges.stretch, rtol=1e-9)
    # Graph geodesics zig-zag, so they are longer.
    assert 1.0 < factor < 1.2
    distances = dijkstra(matrix)
    straight = np.linalg.norm(geodesics.coordinates[:, None] - geodesics.coordinates, axis=-1)
    assert np.sum(straight * distances) / np.sum(straight**2) == pytest.approx(1.0, abs=0.02)


def test_separate_parts():
    matrix, part = parts_matrix()
    with pytest.warns(UserWarning, match=r"4 connected components \(sizes 30, 20, 12, 1\)") as caught:
        result = embed_graph(matrix)
    assert len(caught) == 1
    assert np.isfinite(result.coordinates).all()
    np.testing.assert_array_equal(result.component_labels, part)
    boxes = [
        (result.coordinates[part == p].min(axis=0), result.coordinates[part == p].max(axis=0))
        for p in range(4)
    ]
    for a in range(4):
        for b in range(a):
            apart = (boxes[a][1] < boxes[b][0]) | (boxes[b][1] < boxes[a][0])
            assert apart.any(), f"parts {a} and {b} overlap"
    # Each part is embedded as if it were alone.
    members = np.flatnonzero(part == 1)
    alone = embed_graph(matrix[members][:, members])
    assert distance_gap(alone.coordinates, result.coordinates[members]) < 1e-9
    assert result.energy > alone.energy


def test_largest_part_only():
    matrix, part = parts_matrix()
    with pytest.warns(UserWarning, match="Only the largest was embedded; the other rows are NaN") as caught:
        result = embed_graph(matrix, components="largest")
    assert len(caught) == 1
    assert np.isfinite(result.coordinates[part == 0]).all()
    assert np.isnan(result.coordinates[part != 0]).all()
    np.testing.assert_array_equal(result.component_labels, part)


def test_parts_can_be_refused():
    matrix, _ = parts_matrix()
    with pytest.raises(ValueError, match=r"4 connected components .*components='separate', 'largest'"):
        embed_graph(matrix, components="error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embed_graph(sheet_matrix(), components="error")


def test_bridges_need_features():
    with pytest.raises(ValueError, match="components='bridge' needs features"):
        embed_graph(parts_matrix()[0], components="bridge")


def test_small_parts_live_in_fewer_dimensions():
    """A part of two vertices in three components."""
    matrix, part = parts_matrix((15, 2, 3))
    with pytest.warns(UserWarning, match="3 connected components"):
        result = embed_graph(matrix, n_components=3)
    assert np.isfinite(result.coordinates).all()
    pair = np.flatnonzero(part == 1)
    assert np.linalg.norm(np.diff(result.coordinates[pair], axis=0)) == pytest.approx(
        matrix[pair[0], pair[1]]
    )


def test_vertices_without_any_edge():
    with pytest.warns(UserWarning, match="5 connected components"):
        result = embed_graph(sp.csr_array((5, 5)))
    assert np.isfinite(result.coordinates).all()
    assert len(np.unique(result.coordinates, axis=0)) == 5
    assert sorted(result.component_labels.tolist()) == [0, 1, 2, 3, 4]


def test_many_parts():
    """More parts than fit one line of a message, and each of them small."""
    edges = [(2 * i, 2 * i + 1, 1.0 + 0.01 * i) for i in range(60)]
    with pytest.warns(UserWarning, match=r"60 connected components \(sizes 2, 2, 2, 2, 2, \.\.\.\)"):
        result = embed_graph(graph_of(edges, 120).to_matrix(), n_components=1)
    lengths = np.abs(np.diff(result.coordinates[:, 0].reshape(60, 2), axis=1)).ravel()
    np.testing.assert_allclose(lengths, [d for _, _, d in edges], rtol=1e-9)


def test_duplicates_get_the_same_coordinates():
    """Stored zeros join duplicates; they survive symmetrisation and merging."""
    points = np.random.default_rng(151).normal(size=(40, 2))
    points[7] = points[3]
    points[21] = points[3]
    graph = knn_of(points, 8)
    assert np.count_nonzero(graph.lengths == 0) == 6
    result = embed_graph(graph.to_matrix())
    assert result.graph.n_edges == graph.n_edges
    np.testing.assert_array_equal(result.coordinates[[3, 3]], result.coordinates[[7, 21]])
    assert len(np.unique(result.coordinates, axis=0)) == 38
    np.testing.assert_array_equal(result.alignments[3], result.alignments[7])


def test_duplicates_by_one_direction_and_by_chain():
    rows, cols = [0, 1, 2, 3, 0], [1, 2, 3, 4, 4]
    values = [0.0, 0.0, 1.0, 1.0, 1.5]
    result = embed_graph(sp.coo_array((values, (rows, cols)), shape=(5, 5)), n_components=1)
    assert result.coordinates[0] == result.coordinates[1] == result.coordinates[2]
    assert len(np.unique(result.coordinates)) == 3


def test_all_points_identical():
    pairs = [(i, j, 0.0) for i in range(6) for j in range(i)]
    for n_components in (1, 2, 5):
        result = embed_graph(graph_of(pairs, 6).to_matrix(), n_components=n_components)
        np.testing.assert_array_equal(result.coordinates, np.zeros((6, n_components)))
        assert result.status == "converged"
        assert result.energy == 0.0


def test_two_vertices():
    result = embed_graph(graph_of([(0, 1, 3.5)], 2).to_matrix(), n_components=1)
    assert abs(result.coordinates[0, 0] - result.coordinates[1, 0]) == pytest.approx(3.5)
    with pytest.raises(
        ValueError, match=r"n_components=2 is more than any neighbourhood can support.*2 distinct"
    ):
        embed_graph(graph_of([(0, 1, 3.5)], 2).to_matrix(), n_components=2)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("n_components", [1, 2, 3])
@pytest.mark.parametrize("n", [4, 5, 9, 30])
@pytest.mark.parametrize("make", [path_graph, cycle_graph, star_graph])
@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
def test_paths_cycles_and_stars_are_finite(make, n, n_components, preset):
    result = embed_graph(make(n).to_matrix(), n_components=n_components, preset=preset, max_iter=50)
    assert np.isfinite(result.coordinates).all()
    assert np.isfinite(result.stretch).all()
    assert np.isfinite(result.energy)


def test_a_path_is_a_line():
    graph = path_graph(12)
    result = embed_graph(graph.to_matrix(), n_components=1)
    true = np.r_[0.0, np.cumsum([row_of(graph, i)[-1][2] for i in range(11)])]
    assert procrustes_error(true[:, None], result.coordinates) < 1e-20


def test_trees_and_random_graphs_are_finite():
    rng = np.random.default_rng(157)
    for graph in (random_tree(60, rng), random_sparse(60, 40, rng), random_sparse(40, 400, rng)):
        result = embed_graph(graph.to_matrix(), n_components=3)
        assert np.isfinite(result.coordinates).all()
        assert 0.0 <= result.relative_energy <= 1.0


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
def test_points_on_a_line_in_two_components(preset):
    """Every neighbourhood has rank one; the second coordinate is free but finite."""
    line = np.sort(np.random.default_rng(163).uniform(size=40))[:, None]
    result = embed_graph(knn_of(line, 6).to_matrix(), n_components=2, preset=preset, max_iter=200)
    assert np.isfinite(result.coordinates).all()
    if preset == "default":
        assert procrustes_error(line, result.coordinates) < 1e-12


def test_a_kink_of_lower_rank_inside_a_sheet():
    """A sheet with a hair: vertices on the hair see one direction only."""
    rng = np.random.default_rng(167)
    sheet = rng.uniform(size=(80, 2))
    hair = np.column_stack([np.linspace(1.05, 2.0, 20), np.full(20, 0.5)])
    result = embed_graph(knn_of(np.vstack([sheet, hair]), 5).to_matrix())
    assert np.isfinite(result.coordinates).all()
    assert result.relative_energy < 0.1


def test_lengths_of_very_different_size():
    points = np.random.default_rng(173).normal(size=(20, 3))
    points[18:] *= 1e60
    result = embed_graph(complete_of(points).to_matrix(), n_components=3)
    assert np.isfinite(result.coordinates).all()
    assert result.relative_energy < 1e-20
    with pytest.raises(
        ValueError, match=r"distances span from 1e-80 to .*rescale or remove the extreme ones"
    ):
        embed_graph(graph_of([(0, 1, 1.0), (1, 2, 1e-80), (0, 2, 1.0)], 3).to_matrix())


@pytest.mark.parametrize("power", [-900, -300, 300, 900])
def test_extreme_units(power):
    matrix = sheet_matrix(150)
    result, scaled = embed_graph(matrix), embed_graph(sp.csr_array(matrix * 2.0**power))
    np.testing.assert_array_equal(scaled.coordinates, np.ldexp(result.coordinates, power))
    assert scaled.relative_energy == result.relative_energy


def test_shortcuts_are_dropped_reported_and_kept_in_the_graph():
    roll = swiss_roll(1500, random_state=179)
    matrix = knn_graph(roll.data, 20).to_matrix()
    result = embed_graph(matrix)
    assert len(result.dropped_edges) > 0
    assert (result.dropped_edges[:, 0] < result.dropped_edges[:, 1]).all()
    assert all(matrix[i, j] > 0 for i, j in result.dropped_edges)
    assert result.graph.n_edges == matrix.nnz // 2
    assert procrustes_error(roll.truth, result.coordinates) < 1e-3
    kept = embed_graph(matrix, shortcuts="keep")
    assert len(kept.dropped_edges) == 0
    assert procrustes_error(roll.truth, kept.coordinates) > 0.05


def test_dropped_edges_of_duplicates_are_listed_for_each():
    roll = swiss_roll(1500, random_state=179)
    first = embed_graph(knn_graph(roll.data, 20).to_matrix()).dropped_edges[0]
    # A twin of one end of a dropped edge: an extra vertex at distance zero with the same edge.
    matrix = sp.coo_array(knn_graph(roll.data, 20).to_matrix())
    twin, (i, j) = 1500, first
    length = matrix.tocsr()[i, j]
    data = np.r_[matrix.data, 0.0, length]
    rows, cols = np.r_[matrix.row, i, twin], np.r_[matrix.col, twin, j]
    result = embed_graph(sp.coo_array((data, (rows, cols)), shape=(1501, 1501)))
    dropped = {tuple(edge) for edge in result.dropped_edges.tolist()}
    assert {(int(i), int(j)), (int(j), twin)} <= dropped


def test_callback_sees_the_users_terms_and_can_stop():
    matrix = 1000.0 * sheet_matrix()
    seen = []

    def look(state):
        seen.append(state)
        return len(seen) == 2

    result = embed_graph(matrix, callback=look, start="landmark")
    assert result.status == "stopped"
    assert len(seen) == 2
    assert seen[-1].iteration == result.n_iter == 2
    assert seen[-1].energy == pytest.approx(result.energy)
    assert seen[-1].coordinates.shape == (300, 2)
    centred = seen[-1].coordinates - seen[-1].coordinates.mean(axis=0)
    np.testing.assert_allclose(centred, result.coordinates, atol=1e-9 * np.abs(centred).max())


def test_callback_stops_under_auto_without_another_start():
    calls = []

    def stop(state):
        calls.append(state.iteration)
        return True

    result = embed_graph(sheet_matrix(), callback=stop)
    assert calls == [1]
    assert result.status == "stopped"


def test_callback_of_the_paper_preset():
    result = embed_graph(sheet_matrix(100), preset="paper", callback=lambda state: state.iteration == 3)
    assert result.status == "stopped"
    assert result.n_iter == 3


def test_callback_knows_the_part_at_work():
    stages = set()
    with pytest.warns(UserWarning, match="connected components"):
        embed_graph(parts_matrix((30, 20))[0], callback=lambda state: stages.add(state.stage))
    assert stages == {"optimise (component 1 of 2)", "optimise (component 2 of 2)"}


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_too_few_iterations_are_announced(preset):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 steps.*raise max_iter or tol") as caught:
        result = embed_graph(sheet_matrix(100), preset=preset, max_iter=1, tol=1e-9)
    assert len(caught) == 1
    assert result.status == "max_iter"
    assert result.n_iter == 1
    assert caught[0].filename == __file__


def test_verbose_prints_a_line_per_stage(capsys):
    embed_graph(sheet_matrix(100), verbose=1)
    assert "[isoweave] start:" in capsys.readouterr().out
    embed_graph(sheet_matrix(100))
    assert capsys.readouterr().out == ""


def test_paper_preset_is_the_papers_method():
    matrix = sheet_matrix(120)
    with pytest.warns(ConvergenceWarning):
        preset = embed_graph(matrix, preset="paper", max_iter=3)
    with pytest.warns(ConvergenceWarning):
        spelt = embed_graph(
            matrix,
            preset="paper",
            start="identity",
            solver="ic",
            inner_product="paper",
            frame_size="all",
            calibrate=False,
            shortcuts=False,
            tol=1e-7,
            max_iter=3,
        )
    np.testing.assert_array_equal(preset.coordinates, spelt.coordinates)
    assert preset.start == "identity"
    assert preset.solver.startswith("ic")
