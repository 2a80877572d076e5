"""What an embedding may not depend on: numbering, motions, units, seeds, twins, axes of the frames."""

from dataclasses import replace
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from scipy.spatial.distance import cdist

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import klein_bottle, s_curve, swiss_roll
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import connected_components, knn_graph
from isoweave.metrics import procrustes_error
from isoweave.optimise import build_problem
from reference_graphs import (
    distance_gap,
    edges_of,
    graph_of,
    knn_of,
    permuted,
    random_rotations,
    random_sparse,
)
from reference_problems import TEAM, descend

# Steps are the same ones up to rounding, which a few dozen of them amplify.
CLOSE = 1e-7


@st.composite
def clouds(draw):
    """Points of a curved line, a curved sheet or of space with no ties, and k and N to go with them."""
    rng = np.random.default_rng(draw(st.integers(1, 100_000)))
    n_components = draw(st.integers(1, 3))
    n = draw(st.integers(25, 60))
    points = rng.normal(size=(n, n_components + 1))
    if n_components == 1:
        # More than a line has no sound order on one: signs of the frames flip by rounding alone.
        points[:, 0] = rng.permutation(np.arange(n)) + rng.uniform(0.0, 0.8, size=n)
        points[:, 1] = 10.0 * np.sin(points[:, 0] / 10.0)
    else:
        points[:, -1] *= draw(st.sampled_from([0.1, 1.0]))
    k = draw(st.integers(n_components + 3, 10))
    return points, k, n_components, rng


@st.composite
def graphs(draw):
    """Connected graphs: of points, or random ones whose lengths obey no triangle inequality."""
    points, k, n_components, rng = draw(clouds())
    graph = knn_of(points, k)
    if connected_components(graph)[0] > 1 or (n_components > 1 and draw(st.booleans())):
        graph = random_sparse(40, draw(st.integers(40, 200)), rng)
        n_components = max(n_components, 2)
    return graph, n_components, rng


@given(graphs())
@settings(max_examples=6)
def test_numbering_of_the_vertices(case):
    graph, n_components, rng = case
    order = rng.permutation(graph.n_vertices)
    here = embed_graph(graph.to_matrix(), n_components)
    there = embed_graph(permuted(graph, order).to_matrix(), n_components)
    assert here.energy == pytest.approx(there.energy, rel=CLOSE, abs=1e-20)
    assert (here.n_iter, here.status, here.start) == (there.n_iter, there.status, there.start)
    assert distance_gap(here.coordinates[order], there.coordinates) < CLOSE
    np.testing.assert_allclose(here.stretch[order], there.stretch, atol=1e-5)


@pytest.mark.parametrize("start", ["landmark", "synchronized", "coarse"])
@pytest.mark.parametrize(("make", "n_components"), [(swiss_roll, 2), (klein_bottle, 3)])
def test_numbering_with_every_start(start, make, n_components):
    """All but identity, which takes the frames' own axes for aligned; "auto" is tried above."""
    graph = knn_graph(make(300, random_state=7).data, 8)
    order = np.random.default_rng(269).permutation(300)
    here = embed_graph(graph.to_matrix(), n_components, start=start)
    there = embed_graph(permuted(graph, order).to_matrix(), n_components, start=start)
    assert distance_gap(here.coordinates[order], there.coordinates) < 1e-4


def test_numbering_of_a_grid():
    """Equal lengths everywhere: which of the vertices at one distance come first must not matter."""
    places = np.array([(i, j) for i in range(12) for j in range(9)], dtype=float)
    between = cdist(places, places)
    matrix = sp.csr_array(np.where(between < 1.5, between, 0.0))
    order = np.random.default_rng(271).permutation(108)
    here, there = embed_graph(matrix, tol=1e-4), embed_graph(matrix[order][:, order], tol=1e-4)
    assert here.energy == pytest.approx(there.energy, rel=1e-3)
    assert distance_gap(here.coordinates[order], there.coordinates) < 1e-3


@pytest.mark.filterwarnings("ignore:The graph has:UserWarning")
@given(clouds(), st.floats(-50.0, 50.0))
@settings(max_examples=5)
def test_order_and_motion_of_the_points(case, shift):
    points, k, n_components, rng = case
    order, turn = rng.permutation(len(points)), random_rotations(1, points.shape[1], rng)[0]
    model = IsometricEmbedding(n_components, n_neighbors=k, components="largest")
    here, there, moved = (model.fit_transform(p) for p in (points, points[order], points @ turn + shift))
    inside = ~np.isnan(here[:, 0])
    np.testing.assert_array_equal(np.isnan(there[:, 0]), ~inside[order])
    assert distance_gap(here[order][inside[order]], there[inside[order]]) < CLOSE
    # A shift of 50 costs two digits of the lengths.
    assert distance_gap(here[inside], moved[inside]) < 1e-5


@given(graphs(), st.floats(1e-12, 1e12))
@settings(max_examples=6)
def test_any_unit_to_rounding(case, factor):
    graph, n_components, _ = case
    matrix = graph.to_matrix()
    here, there = embed_graph(matrix, n_components), embed_graph(sp.csr_array(matrix * factor), n_components)
    assert there.n_iter == here.n_iter
    assert distance_gap(factor * here.coordinates, there.coordinates) < CLOSE
    assert there.relative_energy == pytest.approx(here.relative_energy, rel=1e-6, abs=1e-20)
    # The energy never rises, and is at most that of all points in one place.
    energies = [record.energy for record in here.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))
    assert 0.0 <= here.relative_energy <= 1.0
    assert np.isfinite(here.coordinates).all()


def test_any_unit_for_graphs_that_are_sampled():
    """Which vertices are sampled for the coarse start may not depend on the unit either."""
    matrix = knn_graph(s_curve(1500, random_state=277).data, 8).to_matrix()
    here, there = (embed_graph(sp.csr_array(matrix * factor), start="coarse") for factor in (1.0, 3.3))
    assert procrustes_error(3.3 * here.coordinates, there.coordinates) < 1e-12


@given(graphs())
@settings(max_examples=4)
def test_a_twin_changes_no_bit(case):
    graph, n_components, rng = case
    n, v = graph.n_vertices, int(rng.integers(graph.n_vertices))
    result = embed_graph(graph.to_matrix(), n_components)
    wider = embed_graph(graph_of([*edges_of(graph), (v, n, 0.0)], n + 1).to_matrix(), n_components)
    np.testing.assert_array_equal(wider.coordinates, result.coordinates[[*range(n), v]])
    assert wider.energy == result.energy


@given(graphs())
@settings(max_examples=6)
def test_axes_of_the_frames(case):
    """One orthogonal map per vertex, injected between the stages: same minimum, same coordinates."""
    graph, n_components, rng = case
    frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM))
    turns = random_rotations(graph.n_vertices, n_components, rng)
    turned = replace(frames, rows=np.einsum("er,erc->ec", frames.rows, turns[graph.sources]))
    start = rng.normal(size=(graph.n_vertices, n_components))
    first, second = (
        descend(build_problem(edge_energy(graph, version, team=TEAM)), start, tol=0.02)
        for version in (frames, turned)
    )
    assert first.energy == pytest.approx(second.energy, rel=1e-6, abs=1e-18)
    scale = np.abs(first.coordinates).max()
    np.testing.assert_allclose(first.coordinates, second.coordinates, atol=1e-5 * scale)


@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
def test_the_seed_changes_what_is_random_and_nothing_else():
    """Hull volumes in eight dimensions are estimated from random projections."""
    sheet = knn_graph(s_curve(300, random_state=227).data, 9).to_matrix()
    kept, before = sheet.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = embed_graph(sheet, random_state=1)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(8)  # noqa: NPY002
    again = embed_graph(sheet, random_state=2)
    for name in ("coordinates", "alignments", "stretch"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.history, first.start, first.solver) == (again.history, again.start, again.solver)
    assert (kept != sheet).nnz == 0
    matrix = knn_graph(np.random.default_rng(223).normal(size=(20, 9)), 9).to_matrix()
    options = {"n_components": 8, "preset": "paper", "max_iter": 3}
    first, again, other = (embed_graph(matrix, random_state=s, **options).coordinates for s in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
