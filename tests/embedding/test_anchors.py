"""Vertices with known positions: hard and soft, in all kinds of graphs, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from isoweave import embed_graph
from isoweave.datasets import sensor_network
from isoweave.optimise import rigid_motion
from reference_graphs import distance_gap, random_rotations

RADIUS = 0.16
NET = sensor_network(220, radius=RADIUS, n_anchors=8, random_state=4)
NOISY = sensor_network(220, radius=RADIUS, n_anchors=8, noise=0.05, random_state=4)
TRUTH, ANCHORS = NET.truth, NET.anchors
AT = TRUTH[ANCHORS]


def rmse(found, truth=TRUTH):
    return float(np.sqrt(np.mean(np.sum((found - truth) ** 2, axis=1))))


@pytest.fixture(scope="module")
def free():
    """The map without anchors."""
    return embed_graph(NET.graph)


def test_hard_anchors_stay_to_the_last_bit():
    for shift in (0.0, 4e6 + 0.1):
        result = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT + shift)
        np.testing.assert_array_equal(result.coordinates[ANCHORS], AT + shift)
        assert rmse(result.coordinates - shift) < 0.25 * RADIUS
        assert result.status == "converged"


def test_the_map_is_in_the_anchors_coordinates(free):
    """Free of anchors it is turned, mirrored and shifted; with them it is not."""
    result = embed_graph(NET.graph, anchors=ANCHORS, anchor_positions=AT)
    assert rmse(free.coordinates) > 0.3
    assert rmse(result.coordinates) < 0.1 * RADIUS


def test_noise_free_ranges_give_the_truth():
    result = embed_graph(NET.graph, anchors=ANCHORS, anchor_positions=AT, refine="distances", tol=1e-6)
    assert rmse(result.coordinates) < 1e-6


@pytest.mark.parametrize("weight", [None, 5.0])
def test_moving_the_anchors_moves_the_map(weight):
    turn = random_rotations(1, 2, np.random.default_rng(2))[0]
    known = {"anchors": ANCHORS, "anchor_weight": weight, "tol": 1e-5}
    first = embed_graph(NOISY.graph, anchor_positions=AT, **known)
    second = embed_graph(NOISY.graph, anchor_positions=AT @ turn + 7.0, **known)
    np.testing.assert_allclose(second.coordinates, first.coordinates @ turn + 7.0, atol=2e-3 * RADIUS)
    assert second.energy == pytest.approx(first.energy, rel=1e-5)


def test_a_huge_weight_is_hard():
    hard = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, tol=1e-5)
    soft = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, anchor_weight=1e8, tol=1e-5)
    infinite = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, anchor_weight=np.inf, tol=1e-5)
    np.testing.assert_array_equal(hard.coordinates, infinite.coordinates)
    np.testing.assert_allclose(soft.coordinates, hard.coordinates, atol=2e-3 * RADIUS)
    assert not np.array_equal(soft.coordinates[ANCHORS], AT)


def test_a_tiny_weight_only_lays_the_map_down():
    soft = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, anchor_weight=1e-9, tol=1e-4)
    free = embed_graph(NOISY.graph, tol=1e-4)
    assert distance_gap(soft.coordinates, free.coordinates) < 1e-3
    turn, shift = rigid_motion(free.coordinates[ANCHORS], AT)
    np.testing.assert_allclose(soft.coordinates, free.coordinates @ turn + shift, atol=0.02 * RADIUS)


def test_weights_of_edges_and_anchors_scale_together():
    ones = NOISY.graph.copy()
    ones.data = np.full(ones.nnz, 1.0)
    known = {"anchors": ANCHORS, "anchor_positions": AT, "tol": 1e-5}
    first = embed_graph(NOISY.graph, anchor_weight=2.0, **known)
    second = embed_graph(NOISY.graph, edge_weights=8.0 * ones, anchor_weight=16.0, **known)
    np.testing.assert_array_equal(first.coordinates, second.coordinates)
    assert second.energy == 8.0 * first.energy


def test_hard_and_soft_side_by_side():
    weights = np.where(np.arange(8) < 4, np.inf, 3.0)
    result = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, anchor_weight=weights)
    np.testing.assert_array_equal(result.coordinates[ANCHORS[:4]], AT[:4])
    assert np.abs(result.coordinates[ANCHORS[4:]] - AT[4:]).max() > 0.0
    assert rmse(result.coordinates) < 0.25 * RADIUS


def test_mask_and_order_do_not_matter():
    mask = np.zeros(220, dtype=bool)
    mask[ANCHORS] = True
    first = embed_graph(NET.graph, anchors=mask, anchor_positions=AT)
    order = np.random.default_rng(1).permutation(8)
    second = embed_graph(NET.graph, anchors=ANCHORS[order], anchor_positions=AT[order])
    np.testing.assert_allclose(first.coordinates, second.coordinates, atol=1e-9)
    np.testing.assert_array_equal(second.coordinates[ANCHORS], AT)


@pytest.mark.parametrize("n_anchors", [1, 2])
def test_few_anchors_fix_what_they_can(free, n_anchors):
    """One or two points of the plane leave the shape alone."""
    chosen = ANCHORS[:n_anchors]
    places = free.coordinates[chosen] + 5.0
    result = embed_graph(NET.graph, anchors=chosen, anchor_positions=places, tol=1e-4)
    assert distance_gap(free.coordinates, result.coordinates) < 0.02
    np.testing.assert_array_equal(result.coordinates[chosen], places)


def test_contradicting_anchors_stay_put(free):
    """Twice as far apart as the distances say: they stay, and the map is stretched between them."""
    result = embed_graph(NET.graph, anchors=ANCHORS, anchor_positions=2.0 * AT)
    np.testing.assert_array_equal(result.coordinates[ANCHORS], 2.0 * AT)
    assert np.isfinite(result.coordinates).all()
    assert result.relative_energy > 10 * free.relative_energy
    soft = embed_graph(NET.graph, anchors=ANCHORS, anchor_positions=2.0 * AT, anchor_weight=1e-3)
    assert np.ptp(soft.coordinates, axis=0).max() == pytest.approx(1.0, abs=0.15)


def test_no_anchors_are_none(free):
    empty = embed_graph(NET.graph, anchors=[], anchor_positions=np.zeros((0, 2)))
    np.testing.assert_array_equal(empty.coordinates, free.coordinates)


def test_every_vertex_an_anchor():
    result = embed_graph(NET.graph, anchors=np.arange(220), anchor_positions=TRUTH)
    np.testing.assert_array_equal(result.coordinates, TRUTH)
    assert result.alignments.shape == (220, 2, 2)


@pytest.mark.parametrize("solver", ["jacobi", "amg", "ic"])
def test_solvers_agree(solver):
    known = {"anchors": ANCHORS, "anchor_positions": AT, "anchor_weight": np.where(ANCHORS % 2, 4.0, np.inf)}
    first = embed_graph(NOISY.graph, solver="direct", **known)
    second = embed_graph(NOISY.graph, solver=solver, **known)
    np.testing.assert_allclose(first.coordinates, second.coordinates, atol=1e-6)


def test_threads_change_no_bit():
    known = {"anchors": ANCHORS, "anchor_positions": AT, "refine": "distances"}
    one, three = (embed_graph(NOISY.graph, n_jobs=n_jobs, **known) for n_jobs in (1, 3))
    np.testing.assert_array_equal(one.coordinates, three.coordinates)


def test_paper_preset_takes_anchors():
    result = embed_graph(
        NET.graph, preset="paper", start="landmark", tol=1e-3, anchors=ANCHORS, anchor_positions=AT
    )
    np.testing.assert_array_equal(result.coordinates[ANCHORS], AT)
    assert rmse(result.coordinates) < 0.3 * RADIUS


def test_given_start_is_in_the_anchors_coordinates():
    start = TRUTH + 40.0 + 0.01 * np.random.default_rng(3).normal(size=TRUTH.shape)
    result = embed_graph(NET.graph, start=start, anchors=ANCHORS, anchor_positions=AT + 40.0)
    assert result.start == "given"
    assert rmse(result.coordinates - 40.0) < 0.1 * RADIUS


def test_callback_sees_stages_and_places():
    seen = []

    def look(state):
        seen.append((state.stage, state.coordinates.copy()))

    embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT + 9.0, refine="distances", callback=look)
    stages = [stage for stage, _ in seen]
    assert sorted(set(stages), key=stages.index) == ["optimise", "anchors", "refine"]
    np.testing.assert_allclose(seen[-1][1][ANCHORS], AT + 9.0, atol=1e-12)


def test_stopped_early_the_map_is_on_its_anchors():
    result = embed_graph(NET.graph, anchors=ANCHORS, anchor_positions=AT, callback=lambda state: True)
    assert result.status == "stopped"
    np.testing.assert_array_equal(result.coordinates[ANCHORS], AT)


def two_networks():
    """Two copies, the second shifted to the right; with a lone vertex at the end."""
    matrix = sp.block_diag([NET.graph, NET.graph, sp.csr_array((1, 1))], format="csr")
    truth = np.vstack([TRUTH, TRUTH + np.array([3.0, 0.0]), [[-1.0, -1.0]]])
    return matrix, truth


def test_components_come_to_their_anchors():
    matrix, truth = two_networks()
    chosen = np.concatenate([ANCHORS, ANCHORS + 220, [440]])
    result = embed_graph(matrix, anchors=chosen, anchor_positions=truth[chosen])
    assert rmse(result.coordinates, truth) < 0.1 * RADIUS
    np.testing.assert_array_equal(result.coordinates[chosen], truth[chosen])


def test_components_without_anchors_are_laid_beside():
    matrix, truth = two_networks()
    with pytest.warns(UserWarning, match="2 of them without anchors were laid beside"):
        result = embed_graph(matrix, anchors=ANCHORS, anchor_positions=AT)
    assert rmse(result.coordinates[:220]) < 0.1 * RADIUS
    gap = cdist(result.coordinates[:220], result.coordinates[220:]).min()
    assert gap > 0.02
    assert distance_gap(result.coordinates[220:440], truth[220:440]) < 0.1


def test_largest_component_with_anchors():
    matrix, _ = two_networks()
    bigger = sp.block_diag([matrix[:220, :220], matrix[220:440, 220:440][:200, :200]], format="csr")
    with pytest.warns(UserWarning, match="only the largest|Only the largest"):
        result = embed_graph(bigger, components="largest", anchors=ANCHORS, anchor_positions=AT)
    assert rmse(result.coordinates[:220]) < 0.1 * RADIUS
    assert np.isnan(result.coordinates[220:]).all()


def with_twin(of=None):
    """The network with one more vertex at distance zero of an anchor."""
    of = int(ANCHORS[0]) if of is None else of
    coo = NET.graph.tocoo()
    rows, columns = (np.append(c, [220 if k == 0 else of]) for k, c in enumerate((coo.row, coo.col)))
    return sp.coo_array((np.append(coo.data, 0.0), (rows, columns)), shape=(221, 221))


def test_duplicates_of_anchors_lie_with_them():
    result = embed_graph(with_twin(), anchors=ANCHORS, anchor_positions=AT)
    np.testing.assert_array_equal(result.coordinates[220], AT[0])
    both = embed_graph(with_twin(), anchors=[*ANCHORS, 220], anchor_positions=np.vstack([AT, AT[:1]]))
    np.testing.assert_allclose(both.coordinates, result.coordinates, atol=1e-12)


def test_duplicates_that_contradict():
    chosen, places = [*ANCHORS, 220], np.vstack([AT, AT[:1] + 0.5])
    with pytest.raises(ValueError, match=rf"Vertices {ANCHORS[0]} and 220 are duplicates .* differ by 0.5"):
        embed_graph(with_twin(), anchors=chosen, anchor_positions=places)
    # Soft ones meet at their weighted mean.
    weights = np.array([*[np.inf] * 8, 1.0])
    weights[0] = 3.0
    soft = embed_graph(with_twin(), anchors=chosen, anchor_positions=places, anchor_weight=weights)
    mean = AT.copy()
    mean[0] = AT[0] + 0.125
    expected = embed_graph(
        NET.graph, anchors=ANCHORS, anchor_positions=mean, anchor_weight=[4.0, *[np.inf] * 7]
    )
    np.testing.assert_allclose(soft.coordinates[:220], expected.coordinates, atol=1e-9)
    # A hard one does not mind a soft one elsewhere.
    weights[0] = np.inf
    mixed = embed_graph(with_twin(), anchors=chosen, anchor_positions=places, anchor_weight=weights)
    np.testing.assert_array_equal(mixed.coordinates[[ANCHORS[0], 220]], AT[[0, 0]])


def test_renumbered_graphs(monkeypatch):
    expected = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, tol=1e-5)
    monkeypatch.setattr("isoweave.graph._order.SMALLEST_REORDERED", 10)
    found = embed_graph(NOISY.graph, anchors=ANCHORS, anchor_positions=AT, tol=1e-5)
    np.testing.assert_allclose(found.coordinates, expected.coordinates, atol=2e-3 * RADIUS)
    np.testing.assert_array_equal(found.coordinates[ANCHORS], AT)


def test_three_dimensions():
    net = sensor_network(300, n_dims=3, n_anchors=10, random_state=3)
    at = net.truth[net.anchors]
    result = embed_graph(net.graph, 3, anchors=net.anchors, anchor_positions=at, refine="distances")
    radius = net.graph.data.max()
    assert rmse(result.coordinates, net.truth) < 0.05 * radius


def test_refinement_lowers_the_stress():
    def stress(coordinates):
        edges = sp.triu(NOISY.graph).tocoo()
        rows, columns = edges.row, edges.col
        return np.sum((np.linalg.norm(coordinates[rows] - coordinates[columns], axis=1) - edges.data) ** 2)

    known = {"anchors": ANCHORS, "anchor_positions": AT}
    plain = embed_graph(NOISY.graph, **known)
    refined = embed_graph(NOISY.graph, refine="distances", **known)
    assert stress(refined.coordinates) < 0.8 * stress(plain.coordinates)
    assert refined.energy > plain.energy
    np.testing.assert_array_equal(refined.coordinates[ANCHORS], AT)
    with pytest.raises(ValueError, match="refine='distances' needs one weight per edge"):
        embed_graph(NOISY.graph, refine="distances", preset="paper")


BAD = {
    "no positions": ({"anchors": ANCHORS}, ValueError, "anchors was given without anchor_positions"),
    "no anchors": ({"anchor_positions": AT}, ValueError, "anchor_positions was given without anchors"),
    "weight alone": ({"anchor_weight": 1.0}, ValueError, "anchor_weight was given without anchors"),
    "floats": ({"anchors": [0.5]}, TypeError, "vertex numbers or a mask, got shape .* float64"),
    "two-dimensional": ({"anchors": [[1]]}, TypeError, r"got shape \(1, 1\)"),
    "mask": ({"anchors": np.ones(3, dtype=bool)}, ValueError, r"mask must have shape \(220,\), got \(3,\)"),
    "outside": ({"anchors": [0, 220]}, ValueError, "in 0 .. 219, but entry 1 is 220"),
    "negative": ({"anchors": [-1]}, ValueError, "in 0 .. 219, but entry 0 is -1"),
    "repeated": ({"anchors": [4, 5, 4]}, ValueError, "names vertex 4 more than once"),
    "rows": (
        {"anchors": ANCHORS, "anchor_positions": AT[1:]},
        ValueError,
        r"shape \(8, 2\), one row per anchor .* got \(7, 2\)",
    ),
    "columns": (
        {"anchors": ANCHORS, "anchor_positions": np.zeros((8, 3))},
        ValueError,
        r"shape \(8, 2\).* got \(8, 3\)",
    ),
    "text": (
        {"anchors": ANCHORS, "anchor_positions": [["a", "b"]] * 8},
        TypeError,
        "real array, got dtype <U1",
    ),
    "nan": (
        {"anchors": ANCHORS, "anchor_positions": np.where(np.arange(16).reshape(8, 2) == 5, np.nan, AT)},
        ValueError,
        rf"row 2 \(vertex {ANCHORS[2]}\), column 1 is nan",
    ),
    "far": (
        {"anchors": ANCHORS, "anchor_positions": 1e90 * AT},
        ValueError,
        "times the median distance apart",
    ),
    "zero weight": (
        {"anchors": ANCHORS, "anchor_positions": AT, "anchor_weight": 0.0},
        ValueError,
        "anchor_weight must be a finite number > 0",
    ),
    "nan weight": (
        {"anchors": ANCHORS, "anchor_positions": AT, "anchor_weight": [np.nan] + [1.0] * 7},
        ValueError,
        "entry 0 is nan",
    ),
    "weights": (
        {"anchors": ANCHORS, "anchor_positions": AT, "anchor_weight": [1.0, 2.0]},
        ValueError,
        r"shape \(8,\), one per anchor, got shape \(2,\)",
    ),
    "scale": (
        {"anchors": ANCHORS, "anchor_positions": AT, "scale": "geodesics"},
        ValueError,
        "scale='geodesics' would move the map off its anchors",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_anchors(case):
    arguments, error, match = BAD[case]
    if "anchors" in arguments and "anchor_positions" not in arguments and case != "no positions":
        arguments = {"anchor_positions": np.zeros((len(arguments["anchors"]), 2)), **arguments}
    with pytest.raises(error, match=match):
        embed_graph(NET.graph, **arguments)
