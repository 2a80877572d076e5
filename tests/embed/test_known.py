"""What is known beside the distances: anchors hard and soft, confidence in edges and vertices."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from isoweave import Anchors, Weights, embed_graph
from isoweave.datasets import sensor_network, swiss_roll
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import distance_gap, random_rotations, with_twin

RADIUS = 0.16
NET = sensor_network(220, radius=RADIUS, n_anchors=8, random_state=4)
NOISY = sensor_network(220, radius=RADIUS, n_anchors=8, noise=0.05, random_state=4).graph
TRUTH, CHOSEN = NET.truth, NET.anchors
AT = TRUTH[CHOSEN]
ROLL = knn_graph(swiss_roll(250, random_state=3).data, 8).to_matrix()


def anchored(matrix=NET.graph, at=AT, weight=None, index=CHOSEN, **options):
    return embed_graph(matrix, anchors=Anchors(index, at, weight), **options)


def with_values(matrix, values=1.0):
    """The pattern of a matrix with other values."""
    return sp.csr_array((np.zeros(matrix.nnz) + values, matrix.indices, matrix.indptr), shape=matrix.shape)


def rmse(found, truth=TRUTH):
    return float(np.sqrt(np.mean(np.sum((found - truth) ** 2, axis=1))))


def stress(coordinates):
    edges = NOISY.tocoo()
    found = np.linalg.norm(coordinates[edges.row] - coordinates[edges.col], axis=1)
    return np.sum((found - edges.data) ** 2)


@pytest.fixture(scope="module")
def free():
    """The map without anchors."""
    return embed_graph(NET.graph)


def test_the_map_is_in_the_anchors_coordinates(free):
    """To the last bit, however far from zero. Without them it is turned, mirrored and shifted."""
    for shift in (0.0, 4e6 + 0.1):
        result = anchored(NOISY, AT + shift)
        np.testing.assert_array_equal(result.coordinates[CHOSEN], AT + shift)
        assert rmse(result.coordinates - shift) < 0.25 * RADIUS
        assert result.status == "converged"
    assert rmse(free.coordinates) > 0.3
    assert rmse(anchored(refine="distances", tol=1e-6).coordinates) < 1e-6
    # Moving the anchors moves the map.
    turn = random_rotations(1, 2, np.random.default_rng(2))[0]
    for weight in (None, 5.0):
        first, second = (anchored(NOISY, at, weight, tol=1e-5) for at in (AT, AT @ turn + 7.0))
        np.testing.assert_allclose(second.coordinates, first.coordinates @ turn + 7.0, atol=2e-3 * RADIUS)
        assert second.energy == pytest.approx(first.energy, rel=1e-5)


def test_weights_from_tiny_to_infinite():
    weights = (None, np.inf, 1e8, 1e-9)
    hard, infinite, huge, tiny = (anchored(NOISY, weight=w, tol=1e-5).coordinates for w in weights)
    np.testing.assert_array_equal(hard, infinite)
    np.testing.assert_allclose(huge, hard, atol=2e-3 * RADIUS)
    assert not np.array_equal(huge[CHOSEN], AT)
    # Next to nothing only lays the map down; the size of a map without anchors follows its edges.
    free = embed_graph(NOISY, tol=1e-5).coordinates
    turn, shift = rigid_motion(free[CHOSEN], AT)
    np.testing.assert_allclose(tiny, free @ turn + shift, atol=0.02 * RADIUS)
    # Weights scale together; neither masks nor the order matter.
    first = anchored(NOISY, weight=2.0, tol=1e-5)
    second = anchored(NOISY, weight=16.0, weights=with_values(NOISY, 8.0), tol=1e-5)
    np.testing.assert_array_equal(first.coordinates, second.coordinates)
    assert second.energy == 8.0 * first.energy
    order = np.random.default_rng(1).permutation(8)
    for index, at in ((np.isin(np.arange(220), CHOSEN), AT), (CHOSEN[order], AT[order])):
        found = anchored(NOISY, at, index=index, tol=1e-5).coordinates
        np.testing.assert_allclose(found, hard, atol=1e-9)


def test_hard_and_soft_side_by_side_with_every_solver():
    solvers, weight = ("direct", "jacobi", "amg", "ic"), np.where(np.arange(8) < 4, np.inf, 3.0)
    found = {solver: anchored(NOISY, weight=weight, solver=solver, tol=1e-8) for solver in solvers}
    first = found["direct"].coordinates
    np.testing.assert_array_equal(first[CHOSEN[:4]], AT[:4])
    assert np.abs(first[CHOSEN[4:]] - AT[4:]).max() > 0.0
    assert rmse(first) < 0.25 * RADIUS
    for solver, other in found.items():
        assert other.solver.startswith(solver)
        np.testing.assert_allclose(first, other.coordinates, atol=1e-6)


def test_few_many_and_contradicting_anchors(free):
    """One or two points of the plane leave the shape alone; all of them are the map."""
    for n_anchors in (0, 1, 2):
        chosen, tol = CHOSEN[:n_anchors], 1e-4 if n_anchors else None
        places = free.coordinates[chosen] + 5.0
        result = anchored(at=places, index=chosen, tol=tol)
        assert distance_gap(free.coordinates, result.coordinates) < 0.02
        np.testing.assert_array_equal(result.coordinates[chosen], places)
        assert n_anchors or np.array_equal(result.coordinates, free.coordinates)
    result = anchored(at=TRUTH, index=np.arange(220))
    np.testing.assert_array_equal(result.coordinates, TRUTH)
    assert result.alignments.shape == (220, 2, 2)
    # Twice as far apart as the distances say: they stay, and the map is stretched between them.
    result = anchored(at=2.0 * AT)
    np.testing.assert_array_equal(result.coordinates[CHOSEN], 2.0 * AT)
    assert np.isfinite(result.coordinates).all()
    assert result.relative_energy > 10 * free.relative_energy
    soft = anchored(at=2.0 * AT, weight=1e-3)
    assert np.ptp(soft.coordinates, axis=0).max() == pytest.approx(1.0, abs=0.15)


def test_refinement_lowers_the_stress_whatever_the_threads_and_tells_its_stages():
    seen = []
    plain, same = anchored(NOISY, refine="none"), anchored(NOISY, refine="distances", n_jobs=3)
    refined = anchored(NOISY, refine="distances", n_jobs=1, callback=seen.append)
    np.testing.assert_array_equal(refined.coordinates, same.coordinates)
    assert stress(refined.coordinates) < 0.8 * stress(plain.coordinates)
    assert refined.relative_energy < plain.relative_energy  # that of the distances
    np.testing.assert_array_equal(refined.coordinates[CHOSEN], AT)
    assert list(dict.fromkeys(state.stage for state in seen)) == ["optimise", "anchors", "refine"]
    np.testing.assert_allclose(seen[-1].coordinates[CHOSEN], AT, atol=1e-12)
    stopped = anchored(callback=lambda state: True)
    assert stopped.status == "stopped"
    np.testing.assert_array_equal(stopped.coordinates[CHOSEN], AT)
    # With the paper's recursion; with a start, which is in the anchors' coordinates; and in space.
    paper = anchored(preset="paper", start="landmark", tol=1e-3).coordinates
    np.testing.assert_array_equal(paper[CHOSEN], AT)
    assert rmse(paper) < 0.3 * RADIUS
    start = TRUTH + 40.0 + 0.01 * np.random.default_rng(3).normal(size=TRUTH.shape)
    given = anchored(at=AT + 40.0, start=start)
    assert given.start == "given"
    assert rmse(given.coordinates - 40.0) < 0.1 * RADIUS
    net = sensor_network(200, n_dims=3, n_anchors=10, random_state=3)
    at = net.truth[net.anchors]
    result = anchored(net.graph, at, index=net.anchors, n_components=3, refine="distances")
    assert rmse(result.coordinates, net.truth) < 0.05 * net.graph.data.max()


def test_components_and_anchors():
    """Two copies, the second to the right, and a lone vertex: to their anchors, or beside the others."""
    matrix = sp.block_diag([NET.graph, NET.graph, sp.csr_array((1, 1))], format="csr")
    truth = np.vstack([TRUTH, TRUTH + np.array([3.0, 0.0]), [[-1.0, -1.0]]])
    chosen = np.concatenate([CHOSEN, CHOSEN + 220, [440]])
    result = anchored(matrix, truth[chosen], index=chosen).coordinates
    assert rmse(result, truth) < 0.1 * RADIUS
    np.testing.assert_array_equal(result[chosen], truth[chosen])
    with pytest.warns(UserWarning, match="2 of them without anchors were laid beside"):
        result = anchored(matrix).coordinates
    assert rmse(result[:220]) < 0.1 * RADIUS
    assert cdist(result[:220], result[220:]).min() > 0.02
    assert distance_gap(result[220:440], truth[220:440]) < 0.1
    unequal = sp.block_diag([NET.graph, NET.graph[:200, :200]], format="csr")
    with pytest.warns(UserWarning, match="only the largest|Only the largest"):
        result = anchored(unequal, components="largest").coordinates
    assert rmse(result[:220]) < 0.1 * RADIUS
    assert np.isnan(result[220:]).all()


def test_duplicates_of_anchors():
    twins, both = with_twin(NET.graph, int(CHOSEN[0])), [*CHOSEN, 220]
    alone = anchored(twins).coordinates
    np.testing.assert_array_equal(alone[220], AT[0])
    agreeing = anchored(twins, np.vstack([AT, AT[:1]]), index=both).coordinates
    np.testing.assert_allclose(agreeing, alone, atol=1e-12)
    places = np.vstack([AT, AT[:1] + 0.5])
    with pytest.raises(ValueError, match=rf"Vertices {CHOSEN[0]} and 220 are duplicates .* differ by 0.5"):
        anchored(twins, places, index=both)
    # Soft ones meet at their weighted mean; a hard one does not mind a soft one elsewhere.
    weights, mean = np.array([3.0, *[np.inf] * 7, 1.0]), AT.copy()
    mean[0] = AT[0] + 0.125
    soft = anchored(twins, places, weights, both).coordinates[:220]
    np.testing.assert_allclose(soft, anchored(at=mean, weight=[4.0, *[np.inf] * 7]).coordinates, atol=1e-9)
    weights[0] = np.inf
    mixed = anchored(twins, places, weights, both).coordinates
    np.testing.assert_array_equal(mixed[[CHOSEN[0], 220]], AT[[0, 0]])


RANDOM = with_values(ROLL, np.random.default_rng(5).uniform(0.2, 1.0, size=ROLL.nnz))
RANDOM = RANDOM.maximum(RANDOM.T)


@pytest.fixture(scope="module")
def weighted():
    return embed_graph(ROLL, weights=RANDOM)


def test_equal_weights_change_no_bit_and_only_ratios_count(weighted):
    plain = embed_graph(ROLL)
    for value in (8.0, 2.0**-70):
        edges, vertices = with_values(ROLL, value), np.full(250, value)
        for weights in (edges, vertices, Weights(edges, np.ones(250))):
            other = embed_graph(ROLL, weights=weights)
            np.testing.assert_array_equal(other.coordinates, plain.coordinates)
            np.testing.assert_array_equal(other.alignments, plain.alignments)
            assert other.energy == plain.energy * value
            assert (other.relative_energy, other.n_iter) == (plain.relative_energy, plain.n_iter)
    twice = sp.coo_array(RANDOM)
    twice = sp.coo_array((np.tile(twice.data, 2), (np.tile(twice.row, 2), np.tile(twice.col, 2))), ROLL.shape)
    for form in (sp.triu(RANDOM, format="csr"), RANDOM.toarray(), Weights(edges=RANDOM), twice):
        np.testing.assert_array_equal(embed_graph(ROLL, weights=form).coordinates, weighted.coordinates)
    scaled = embed_graph(ROLL, weights=3.7 * RANDOM)
    assert distance_gap(weighted.coordinates, scaled.coordinates) < 1e-6
    assert scaled.energy == pytest.approx(3.7 * weighted.energy, rel=1e-6)


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_doubtful_edges_pull_less(factor):
    """A sensor network of which one edge in fifteen is wrong by a factor, and weights that tell."""
    net = sensor_network(300, radius=0.13, random_state=7)
    wrong = with_values(net.graph, np.random.default_rng(7).uniform(size=net.graph.nnz) < 1 / 30)
    wrong = wrong.maximum(wrong.T).toarray()[net.graph.nonzero()] > 0
    matrix = with_values(net.graph, np.where(wrong, factor, 1.0) * net.graph.data)
    weights = with_values(matrix, np.where(wrong, 0.01, 1.0))
    for refine in ("none", "distances"):
        found = (embed_graph(matrix, weights=w, refine=refine) for w in (None, weights))
        blind, warned = (procrustes_error(net.truth, each.coordinates) for each in found)
        assert warned < 0.5 * blind


def test_vertex_weights():
    """Alone or with edges of weight one; in the paper's product they multiply the volumes."""
    weights = np.random.default_rng(3).uniform(0.5, 1.0, size=250)
    result, both = (embed_graph(ROLL, weights=w) for w in (weights, Weights(with_values(ROLL), weights)))
    np.testing.assert_array_equal(result.coordinates, both.coordinates)
    options = {"inner_product": "paper", "shortcuts": "keep"}
    maps = (embed_graph(ROLL, weights=w, **options) for w in (None, np.full(250, 2.0), weights))
    plain, same, other = (each.coordinates for each in maps)
    np.testing.assert_array_equal(plain, same)
    assert not np.array_equal(plain, other)


def test_weights_of_duplicates_renumbered_and_disconnected_graphs(weighted, monkeypatch):
    """Of duplicates the largest weight counts."""
    j = int(ROLL.indices[0])
    for value, is_same in ((0.1 * RANDOM[0, j], True), (5.0, False)):
        weights = with_twin(RANDOM, 0, (j, value))
        weights.data[RANDOM.nnz] = 1.0
        found = embed_graph(with_twin(ROLL, 0, (j, ROLL[0, j])), weights=weights).coordinates[:250]
        assert np.array_equal(found, weighted.coordinates) == is_same
    two, both = (sp.block_diag(pair, format="csr") for pair in ((ROLL, 2.0 * ROLL), (RANDOM, RANDOM)))
    with pytest.warns(UserWarning, match="2 connected components"):
        parts = embed_graph(two, weights=both)
    assert distance_gap(weighted.coordinates, parts.coordinates[:250]) < 1e-9
    assert distance_gap(2.0 * weighted.coordinates, parts.coordinates[250:]) < 1e-9
    before = anchored(NOISY, tol=1e-5).coordinates
    monkeypatch.setattr("isoweave.graph._graph._SMALLEST_REORDERED", 10)
    assert distance_gap(weighted.coordinates, embed_graph(ROLL, weights=RANDOM).coordinates) < 1e-5
    found = anchored(NOISY, tol=1e-5).coordinates
    np.testing.assert_allclose(found, before, atol=2e-3 * RADIUS)
    np.testing.assert_array_equal(found[CHOSEN], AT)


def at_zero(index):
    return Anchors(index, np.zeros((len(index), 2)))


SPOILED = np.where(np.arange(16).reshape(8, 2) == 5, np.nan, AT)
BAD_ANCHORS = [
    (CHOSEN, TypeError, r"anchors must be isoweave.Anchors\(index, positions\).* got ndarray"),
    (at_zero([0.5]), TypeError, "vertex numbers or a mask, got shape .* float64"),
    (at_zero([[1]]), TypeError, r"got shape \(1, 1\)"),
    (at_zero(np.ones(3, dtype=bool)), ValueError, r"mask must have shape \(220,\), got \(3,\)"),
    (at_zero([0, 220]), ValueError, "in 0 .. 219, but entry 1 is 220"),
    (at_zero([-1]), ValueError, "in 0 .. 219, but entry 0 is -1"),
    (at_zero([4, 5, 4]), ValueError, "names vertex 4 more than once"),
    (Anchors(CHOSEN, AT[1:]), ValueError, r"\(8, 2\), one row per anchor .* got shape \(7, 2\)"),
    (Anchors(CHOSEN, np.zeros((8, 3))), ValueError, r"shape \(8, 2\).* got shape \(8, 3\)"),
    (Anchors(CHOSEN, [["a", "b"]] * 8), ValueError, "real array .* dtype <U1"),
    (Anchors(CHOSEN, SPOILED), ValueError, rf"row 2 \(vertex {CHOSEN[2]}\), column 1 is nan"),
    (Anchors(CHOSEN, 1e90 * AT), ValueError, "times the median distance apart"),
    (Anchors(CHOSEN, AT, 0.0), ValueError, "weight of anchors must be positive .* entry 0 is 0.0"),
    (Anchors(CHOSEN, AT, [np.nan] + [1.0] * 7), ValueError, "entry 0 is nan"),
    (Anchors(CHOSEN, AT, [1.0, 2.0]), ValueError, r"\(8,\), one per anchor, .* got shape \(2,\)"),
]


def with_entries(*entries):
    weights = with_values(ROLL).tolil()
    for row, column, value in entries:
        weights[row, column] = value
    return weights.tocsr()


FIRST = int(ROLL.indices[0])
STRANGER = int(np.setdiff1d(np.arange(1, 250), ROLL.indices[: ROLL.indptr[1]])[0])
NINTH = np.arange(250) == 9
EDGE = rf"edge \(0, {FIRST}\)"
BAD_WEIGHTS = [
    (Weights(edges=[1.0]), TypeError, "sparse matrix with the pattern of the graph"),
    (sp.csr_array((3, 3)), ValueError, r"shape \(250, 250\) like the graph, got \(3, 3\)"),
    (with_values(ROLL).astype(complex), TypeError, "must be real, got dtype complex"),
    (with_entries((0, FIRST, 2.0)), ValueError, f"symmetric, but {EDGE} has both 1.0 and 2.0"),
    *((with_entries((0, FIRST, x)), ValueError, f"{EDGE} is {x}") for x in (-1.0, np.inf, np.nan)),
    (with_entries((0, STRANGER, 1.0)), ValueError, rf"given for \(0, {STRANGER}\)"),
    (with_entries((0, FIRST, 0.0), (FIRST, 0, 0.0)), ValueError, rf"missing for \(0, {FIRST}\)"),
    (with_entries((0, FIRST, 1e-11), (FIRST, 0, 1e-11)), ValueError, "span from 1e-11 to 1, a ratio over 1e"),
    (np.ones(249), ValueError, r"shape \(250,\), got shape \(249,\)"),
    (Weights(vertices=np.ones((250, 1))), ValueError, r"got shape \(250, 1\)"),
    (np.zeros(250), ValueError, "that of vertex 0 is 0.0"),
    (np.where(NINTH, np.nan, 1.0), ValueError, "that of vertex 9 is nan"),
    (np.where(NINTH, 1e-12, 1.0), ValueError, "ratio over 1e"),
    (np.array(["a"] * 250), ValueError, "dtype <U1"),
]
HARD = Anchors(CHOSEN, AT)
BAD_TOGETHER = [
    ({"anchors": HARD, "scale": "geodesics"}, ValueError, "scale='geodesics' would move the map off its"),
    ({"weights": with_values(NOISY), "preset": "paper"}, ValueError, "per edge, which the paper's does"),
    ({"refine": "distances", "preset": "paper"}, ValueError, "refine='distances' needs one weight per edge"),
    ({"loss": "robust", "preset": "paper"}, ValueError, "loss='robust' needs one weight per edge"),
]


def test_what_is_refused():
    refused = [({"anchors": anchors}, *said) for anchors, *said in BAD_ANCHORS]
    refused += [({"weights": weights}, *said) for weights, *said in BAD_WEIGHTS]
    for options, error, match in refused + BAD_TOGETHER:
        with pytest.raises(error, match=match):
            embed_graph(ROLL if [*options] == ["weights"] else NOISY, **options)
