"""The forecast: what is counted, the solver, and the refusal of fits that would not fit."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

import isoweave
from isoweave import embed_graph, estimate_resources
from isoweave._parallel import ThreadTeam
from isoweave.datasets import difficult, flat_torus, swiss_roll
from isoweave.embedding import _forecast, _limits, _survey, resolve_options
from isoweave.embedding._memory import Ledger, growth_by_stage
from isoweave.embedding._survey import bound, factor_size, pattern_of_laplacian, survey
from isoweave.energy import EdgeInnerProduct, build_laplacian
from isoweave.graph import connected_components, graph_from_matrix, knn_graph, merge_duplicates
from isoweave.linalg import prepare_laplacian
from isoweave.linalg._direct import Direct


@pytest.fixture(scope="module")
def roll():
    return knn_graph(swiss_roll(4000, random_state=811).data, 9)


@pytest.fixture(scope="module")
def solid():
    return knn_graph(np.random.default_rng(821).uniform(size=(3500, 3)), 10)


# --- counting


def test_a_ledger_keeps_the_most_of_every_stage():
    ledger = Ledger()
    ledger.enter("first")
    ledger.hold(100, spike=50)
    with ledger.scope():
        ledger.enter("second")
        ledger.hold(30)
        ledger.spike(5)
    ledger.enter("third")
    ledger.hold(1)
    assert ledger.peaks == {"first": 150, "second": 135, "third": 101}
    assert ledger.live == 101


@pytest.mark.parametrize("fixture", ["roll", "solid"])
def test_the_factor_is_counted_exactly(fixture, request):
    """The sizes told from the pattern are those of the factor that a solver makes."""
    graph = request.getfixturevalue(fixture)
    counted = factor_size(pattern_of_laplacian(graph, "edge"))
    laplacian = prepare_laplacian(build_laplacian(graph, EdgeInnerProduct(np.ones(len(graph.indices)))))
    made = Direct(laplacian, ThreadTeam(1))
    assert counted.fill == laplacian.elimination.fill
    assert counted.values == len(made._values)
    assert counted.rows == len(made._symbolic.rows)
    assert counted.workspace == made._symbolic.stack_size + made._symbolic.front_size


def _pieces():
    one = knn_graph(swiss_roll(900, random_state=967).data, 8).to_matrix()
    return graph_from_matrix(sp.block_diag([one, one[:700][:, :700]], format="csr"))


CASES = {
    "plane": (lambda: knn_graph(swiss_roll(3300, random_state=823).data, 9), 2, {}),
    "space": (lambda: knn_graph(flat_torus(900, random_state=827).data, 10), 3, {}),
    "5-D": (lambda: knn_graph(difficult(3200, random_state=829).data, 12), 5, {}),
    "9-D": (lambda: knn_graph(np.random.default_rng(839).normal(size=(3100, 9)), 18), 9, {"frame_size": 12}),
    "asked": (lambda: knn_graph(swiss_roll(600, random_state=853).data, 9), 2, {"solver": "jacobi"}),
    "pieces": (_pieces, 3, {"start": "landmark"}),
    "paper": (lambda: knn_graph(swiss_roll(300, random_state=857).data, 8), 2, {"preset": "paper"}),
}


@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_the_solver_is_the_one_the_fit_takes(name, monkeypatch):
    make, n_components, options = CASES[name]
    if name in ("5-D", "9-D"):
        # As if the factors of these small graphs were those of large ones.
        monkeypatch.setattr("isoweave.linalg._state.MAX_FILL_RATIO", 5.0)
    graph = make()
    estimate = estimate_resources(graph, n_components, **options)
    result = embed_graph(graph, n_components, max_iter=1, **options)
    assert result.solver == f"{estimate.solver}: {estimate.solver_reason}"
    others = {"5-D": "amg", "9-D": "jacobi", "asked": "jacobi", "paper": "ic"}
    assert estimate.solver == others.get(name, "direct")
    assert (estimate.n_vertices, estimate.n_edges) == (graph.n_vertices, graph.n_edges)


def test_an_estimate_adds_up(roll):
    estimate = estimate_resources(roll, 2, n_jobs=2)
    names = [stage.name for stage in estimate.stages]
    assert names == ["graph", "shortcuts", "frames", "solver", "start", "optimise", "result"]
    assert (
        estimate.growth_bytes == estimate.fullest.growth_bytes == max(s.growth_bytes for s in estimate.stages)
    )
    assert estimate.cpu_seconds == pytest.approx(sum(stage.cpu_seconds for stage in estimate.stages))
    assert estimate.seconds < estimate.cpu_seconds
    resident = estimate.peak_bytes - estimate.growth_bytes
    assert resident == pytest.approx(_limits.resident_bytes(), rel=0.2)
    assert estimate.fits
    assert not estimate_resources(roll, 2, memory_limit=resident).fits
    assert estimate_resources(roll, 2, memory_limit="none").limit_bytes is None


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"n_components": 2}, {"n_components": 3}),
        ({"n_components": 3, "start": "landmark"}, {"n_components": 9, "start": "landmark"}),
        ({"n_jobs": 1}, {"n_jobs": 8}),
        ({"solver": "jacobi"}, {"solver": "amg"}),
        ({"frame_size": 20}, {"frame_size": 1500}),
    ],
)
def test_more_of_anything_takes_more_memory(solid, less, more):
    assert estimate_resources(solid, **less).growth_bytes < estimate_resources(solid, **more).growth_bytes


def test_a_matrix_is_counted_with_the_graph_made_of_it(roll):
    of_graph, of_matrix = (estimate_resources(g, 2) for g in (roll, roll.to_matrix()))
    assert of_matrix.growth_bytes > of_graph.growth_bytes + 12 * len(roll.indices)


def test_components_and_duplicates_are_seen():
    points = swiss_roll(500, random_state=859).data
    one = knn_graph(points, 8).to_matrix()
    two = sp.block_diag([one, one[:200][:, :200]], format="csr")
    # A vertex at distance zero of the first.
    twin = sp.coo_array(([0.0, 0.0], ([0, 700], [700, 0])), shape=(701, 701))
    both = sp.coo_array(sp.block_diag([two, sp.coo_array((1, 1))]))
    matrix = sp.coo_array(
        (
            np.concatenate([both.data, twin.data]),
            (np.concatenate([both.row, twin.row]), np.concatenate([both.col, twin.col])),
        ),
        shape=(701, 701),
    )
    graph = graph_from_matrix(matrix)
    fit = survey(graph, resolve_options(2), 1)
    merged, _ = merge_duplicates(graph)
    n_parts, labels = connected_components(merged)
    assert (fit.n_given, fit.n, fit.n_parts) == (701, 700, n_parts)
    assert [part.n for part in fit.parts] == [size for size in np.bincount(labels).tolist() if size > 1]
    assert sum(part.m for part in fit.parts) == fit.m
    alone = survey(graph, resolve_options(2, components="largest"), 1)
    assert len(alone.parts) == 1


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("solver", ["auto", "direct", "jacobi", "amg", "ic"])
def test_the_bound_is_a_bound(name, solver):
    make, n_components, options = CASES[name]
    graph = make()
    resolved = resolve_options(n_components, **{**options, "solver": solver})
    most = max(growth_by_stage(bound(graph, resolved, 2)).values())
    assert most >= max(growth_by_stage(survey(graph, resolved, 2)).values())


def test_patches_tell_the_factor_of_a_surface(roll):
    """As on large graphs, where counting would take too long; what fills in fast is left to counting."""
    counted, told = factor_size(pattern_of_laplacian(roll, "edge")), _survey._factor_of_a_surface(roll)
    assert 0.8 <= told.fill / counted.fill <= 1.6
    assert 0.8 <= told.values / counted.values <= 1.8
    assert _survey._factor_of_a_surface(knn_graph(difficult(4000, random_state=947).data, 14)) is None


def test_large_graphs_are_told_from_patches(roll, monkeypatch):
    exact = survey(roll, resolve_options(2), 1)
    monkeypatch.setattr(_survey, "_LARGE", 1000)
    monkeypatch.setattr(_survey, "choose_solver", lambda *_: pytest.fail("was counted"))
    told = survey(roll, resolve_options(2), 1)
    assert (told.parts[0].solver, exact.parts[0].solver) == ("direct", "direct")
    assert told.reason.endswith("times the entries of the Laplacian, at most 50")
    ratio = max(growth_by_stage(told).values()) / max(growth_by_stage(exact).values())
    assert 0.95 < ratio < 1.2


@pytest.mark.parametrize("start", ["landmark", "synchronised", "coarse", "identity", "array"])
def test_every_start_is_counted(roll, start):
    given = np.zeros((roll.n_vertices, 2)) if start == "array" else start
    assert estimate_resources(roll, 2, start=given).growth_bytes > 10e6


def test_a_graph_without_edges_is_no_trouble():
    empty = sp.csr_array((5, 5))
    assert estimate_resources(empty, 1).n_edges == 0


# --- refusing


def test_refused_before_any_work(roll, monkeypatch):
    estimate = estimate_resources(roll, 2)
    monkeypatch.setattr(
        isoweave.embedding._embed, "normalise_lengths", lambda graph: pytest.fail("work was begun")
    )
    limit = estimate.peak_bytes - estimate.growth_bytes // 2
    with pytest.raises(MemoryError, match=r"^The fit would need .* of memory in its stage '\w+'") as caught:
        embed_graph(roll, 2, memory_limit=limit)
    message = str(caught.value)
    assert f"the limit is {_limits.show_bytes(limit)} (memory_limit)" in message
    for knob in ("solver='jacobi'", "solver='amg'", "n_neighbors", "n_components=1", "n_jobs", "frame_size"):
        assert knob in message
    assert re.search(r"To lower it: .*half the edges \(n_neighbors\) saves [\d.]+ MB", message)
    assert "Or raise memory_limit" in message


def test_knobs_say_what_they_save(roll):
    """What the message promises for a setting is what an estimate with that setting gives."""
    options, limit = resolve_options(3), _limits.MemoryLimit(1.0, "test")
    fit = survey(roll, options, 1)
    message = _forecast.refusal(fit, 0, limit)
    now = max(growth_by_stage(fit).values())
    other = max(growth_by_stage(survey(roll, resolve_options(3, solver="jacobi"), 1)).values())
    assert f"solver='jacobi' saves {_limits.show_bytes(now - other)}" in message
    assert "enough" not in message
    enough = _forecast.refusal(fit, 0, _limits.MemoryLimit(other, "test"))
    assert re.search(r"solver='jacobi' saves [\d.]+ MB, enough", enough)


def test_limits_around_the_peak(roll):
    estimate = estimate_resources(roll, 2, n_jobs=1)
    # Resident memory moves by some MB from one call to the next.
    with pytest.raises(MemoryError):
        embed_graph(roll, 2, n_jobs=1, memory_limit=estimate.peak_bytes - 30e6)
    assert embed_graph(roll, 2, n_jobs=1, memory_limit=estimate.peak_bytes + 60e6).status == "converged"


def test_the_limit_changes_no_bit(roll):
    results = [embed_graph(roll, 2, memory_limit=limit) for limit in (None, "none", "900GB")]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].coordinates, other.coordinates)


def test_small_fits_are_not_looked_at(monkeypatch):
    """Far below the limit the graph is not counted: the check costs next to nothing."""
    graph = knn_graph(swiss_roll(300, random_state=863).data, 8)
    monkeypatch.setattr(_forecast, "survey", lambda *_: pytest.fail("looked at the graph"))
    embed_graph(graph, 2, max_iter=500)
