"""One NaN put into the output of any stage is met within a step, by an error that names the stage."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from isoweave.embedding import _component, _embed, _parts, _prepare

from adversarial_graphs import plane
from isoweave import IsometricEmbedding, embed_graph
from isoweave._parallel import ThreadTeam
from isoweave.energy import edge_inner_product, rank_inner_product
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, graph_from_matrix, knn_graph
from isoweave.linalg import _direct, _state
from isoweave.optimise import (
    IterationState,
    _problem,
    _starts,
    _synchronize,
    alternate,
    build_problem,
    minimize_energy,
)
from isoweave.optimise._state import NumericalError, UnsolvedError


def spoiled(array, at=-1):
    """A copy with NaN in one place."""
    copy = np.array(array, dtype=float)
    copy.reshape(-1)[at] = np.nan
    return copy


def spoil_lengths(graph):
    return NeighborGraph(graph.indptr, graph.indices, spoiled(graph.lengths))


def spoil_field(name):
    return lambda value: replace(value, **{name: spoiled(getattr(value, name))})


def spoil_matrix(matrix):
    copy = sp.csr_array(matrix)
    copy.data = spoiled(copy.data)
    return copy


def spoil_result(monkeypatch, module, name, spoil):
    """Replace a function by one that spoils what it returns."""
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **kwargs: spoil(original(*args, **kwargs)))


def report(spoil):
    """Spoil the graph inside a shortcut report."""
    return lambda value: replace(value, graph=spoil(value.graph))


MATRIX = plane(60, 7, 31)
PAPER = {"preset": "paper"}
GEODESICS = {"scale": "geodesics"}
SYNCHRONISED = {"start": "synchronised"}
COARSE = {"start": "coarse"}

# Module and name of the function, how to spoil its result, the settings that call it, what the error says.
STAGES = {
    "graph": (_embed, "graph_from_matrix", spoil_lengths, {}, "distance graph: lengths"),
    "unit": (
        _embed, "normalise_lengths", lambda v: (v[0], spoil_lengths(v[1])), {}, "distance graph: lengths",
    ),
    "merged": (
        _prepare, "merge_duplicates", lambda v: (spoil_lengths(v[0]), v[1]), {}, "distance graph: lengths",
    ),
    "filtered": (_prepare, "drop_shortcuts", report(spoil_lengths), {}, "distance graph: lengths"),
    "frames": (_component, "local_frames", spoil_field("rows"), {}, "local frames: rows at"),
    "spectrum": (_component, "local_frames", spoil_field("spectrum"), {}, "local frames: eigenvalues at"),
    "calibration": (_component, "calibrate_frames", spoil_field("rows"), {}, "calibration: rows at"),
    "weights": (_component, "edge_inner_product", spoil_field("weights"), {}, "inner product: weights at"),
    "volumes": (_component, "neighborhood_volumes", spoiled, PAPER, "inner product: volumes at"),
    "inverse frames": (
        _component, "local_frames", spoil_field("inverse"), PAPER, "inner product: inverse frames at",
    ),
    "rank product": (
        _component, "rank_inner_product", spoil_field("inverse"), PAPER, "inner product: inverse frames at",
    ),
    "laplacian": (_problem, "build_laplacian", spoil_matrix, {}, "laplacian has 1 entries .* not finite"),
    "landmark distances": (
        _starts, "farthest_landmarks", lambda v: (v[0], spoiled(v[1])), {}, "start 'auto'|optimise: start",
    ),
    "landmark start": (_starts, "landmark_start", spoiled, {}, "optimise: start at"),
    "companion graph": (_starts, "geodesic_neighbors", spoil_lengths, SYNCHRONISED, "synchronised|optimise"),
    "transitions": (
        _synchronize, "connection_laplacian", spoil_matrix, SYNCHRONISED, "start 'synchronised'",
    ),
    "synchronised alignments": (
        _starts, "synchronized_alignments", spoiled, SYNCHRONISED, "rhs must be finite|alignments",
    ),
    "synchronised start": (_starts, "synchronized_start", spoiled, SYNCHRONISED, "optimise: start at"),
    "coarse start": (_starts, "coarse_start", spoiled, COARSE, "optimise: start at"),
    "interpolation": (_starts, "prolong", spoiled, COARSE, "optimise: start at"),
    "right-hand side": (_problem, "divergence", spoiled, {}, "optimise, step 0: gradient at"),
    "scale": (_component, "_geodesic_factor", lambda v: np.nan, GEODESICS, "result: coordinates at"),
    "stretch": (_component, "local_stretch", spoiled, {}, "stretch: singular values at"),
}  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_stages(monkeypatch, stage):
    module, name, spoil, settings, text = STAGES[stage]
    spoil_result(monkeypatch, module, name, spoil)
    steps = []
    with pytest.raises((NumericalError, ValueError), match=text):
        embed_graph(MATRIX, 2, callback=steps.append, **settings)
    assert not steps or stage in ("scale", "stretch")


@pytest.mark.parametrize("stage", ["frames", "calibration", "weights"])
def test_the_first_bad_entry_is_named(monkeypatch, stage):
    module, name, _, _, text = STAGES[stage]
    field = "weights" if stage == "weights" else "rows"
    spoil_result(monkeypatch, module, name, lambda v: replace(v, **{field: spoiled(getattr(v, field), at=5)}))
    with pytest.raises(NumericalError, match=text) as caught:
        embed_graph(MATRIX, 2)
    assert caught.value.index == ((5,) if stage == "weights" else (2, 1))
    assert caught.value.stage in str(caught.value)
    # What it is not: a fault of the input.
    assert not isinstance(caught.value, ValueError)


def test_features(monkeypatch):
    estimator = IsometricEmbedding(n_neighbors=5)
    # Wherever the estimator's parts have it from.
    for module in [module for name, module in sys.modules.items() if name.startswith("isoweave")]:
        if getattr(module, "knn_graph", None) is knn_graph:
            spoil_result(monkeypatch, module, "knn_graph", spoil_lengths)
    with pytest.raises(NumericalError, match="distance graph: lengths"):
        estimator.fit(np.random.default_rng(37).normal(size=(60, 3)))


def test_layout_of_components(monkeypatch):
    spoil_result(monkeypatch, _parts, "pack_components", lambda shifts: [spoiled(s) for s in shifts])
    both = sp.block_diag([MATRIX, MATRIX])
    with (
        pytest.warns(UserWarning, match="2 connected components"),
        pytest.raises(NumericalError, match="layout: shifts of the components at"),
    ):
        embed_graph(both, 2)


def problem_of(inner="edge"):
    graph, team = graph_from_matrix(MATRIX), ThreadTeam(1)
    raw = local_frames(graph, 2, team=team, with_inverse=True)
    frames = calibrate_frames(graph, raw)
    if inner == "edge":
        return build_problem(graph, frames, edge_inner_product(graph, frames), team=team)
    return build_problem(graph, raw, rank_inner_product(raw, np.ones(60), graph), team=team)


def run_descent(problem, **settings):
    start = np.random.default_rng(41).normal(size=(60, 2))
    return minimize_energy(problem, start, tol=1e-9, max_iter=12, **settings)


def run_recursion(problem, **settings):
    return alternate(problem, np.tile(np.eye(2), (60, 1, 1)), tol=1e-12, max_iter=12, **settings)


OPTIMISERS = pytest.mark.parametrize(
    ("run", "inner"), [(run_descent, "edge"), (run_descent, "rank"), (run_recursion, "rank")]
)
# Arrays of an evaluation and what the error calls them.
EVALUATED = {"alignments": "alignments", "energies": "energies", "half_gradient": "gradient"}


class Steps:
    """Counts steps as a callback."""

    def __init__(self):
        self.done = 0

    def __call__(self, state):
        self.done = state.iteration


@OPTIMISERS
@pytest.mark.parametrize("field", EVALUATED)
@pytest.mark.parametrize("step", [0, 1, 5])
def test_evaluations(monkeypatch, run, inner, field, step):
    """In the very step in which it happens, whether or not that step goes on to read the array."""
    problem = problem_of(inner)
    steps, calls = Steps(), []
    original = type(problem).evaluate
    assert problem.mass > 0  # and kept, so that the calls counted are those of the optimiser

    def evaluate(self, x):
        calls.append(x)
        value = original(self, x)
        if (len(calls) > 1) != (step > 0) or steps.done < step - 1:
            return value
        value = replace(value, **{field: spoiled(getattr(value, field))})
        return replace(value, energy=float(np.sum(value.energies)))

    monkeypatch.setattr(type(problem), "evaluate", evaluate)
    with pytest.raises(NumericalError, match=f"step {step}: {EVALUATED[field]} at") as caught:
        run(problem, callback=steps)
    assert steps.done == max(step - 1, 0)
    assert caught.value.stage.endswith(f"step {step}")
    assert not isinstance(caught.value, ValueError)


@OPTIMISERS
@pytest.mark.parametrize("step", [0, 1, 5])
def test_poisson_solutions(monkeypatch, run, inner, step):
    problem, steps = problem_of(inner), Steps()
    original = _state.PoissonState.solve
    calls = []

    def solve(self, rhs, **settings):
        calls.append(rhs)
        value = original(self, rhs, **settings)
        # One solve before the first step, one for every step.
        return replace(value, value=spoiled(value.value)) if len(calls) == step + 1 else value

    monkeypatch.setattr(_state.PoissonState, "solve", solve)
    with pytest.raises(NumericalError, match=f"step {step}: (the solution of the Poisson|coordinates)"):
        run(problem, callback=steps)
    assert steps.done == max(step - 1, 0)


def test_a_solution_that_overflows_is_a_matter_of_the_data(monkeypatch):
    problem = problem_of()
    original = _state.PoissonState.solve

    def solve(self, rhs, **settings):
        value = original(self, rhs, **settings)
        return replace(value, value=1e200 * value.value)

    monkeypatch.setattr(_state.PoissonState, "solve", solve)
    with pytest.raises(UnsolvedError, match=r"step 1: the energy overflows at .* remove the extreme ones"):
        run_descent(problem)


def test_a_spoiled_factor_is_replaced(monkeypatch):
    """Residuals are measured, so the next solver takes over and the map comes out as it should."""
    expected = embed_graph(MATRIX, 2, solver="jacobi")
    spoil_result(monkeypatch, _direct, "factorise", lambda v: (spoiled(v[0]), v[1]))
    result = embed_graph(MATRIX, 2, solver="direct")
    assert result.solver.startswith("jacobi")
    np.testing.assert_allclose(result.energy, expected.energy, rtol=1e-6)


def test_energy_of_the_collapsed_map(monkeypatch):
    original = _problem.AlignmentProblem._mismatch

    def evaluate(self, x):
        value = original(self, x)
        return value if x.any() else replace(value, energy=np.nan)

    monkeypatch.setattr(_problem.AlignmentProblem, "_mismatch", evaluate)
    with pytest.raises(NumericalError, match="operators: energy of the collapsed map is nan"):
        embed_graph(MATRIX, 2)


def test_alignments_to_start_from():
    with pytest.raises(NumericalError, match=r"recursion: alignments to start from at \(59, 1, 1\) is nan"):
        alternate(problem_of("rank"), spoiled(np.tile(np.eye(2), (60, 1, 1))))


def test_dense_algebra_that_fails_has_a_stage(monkeypatch):
    def fail(*args, **kwargs):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(_component, "local_frames", fail)
    with pytest.raises(NumericalError, match="local frames: a decomposition failed .*did not converge"):
        embed_graph(MATRIX, 2)


@pytest.mark.parametrize("run", [run_descent, run_recursion])
def test_callbacks_cannot_write_to_the_iterate(run):
    def tamper(state: IterationState):
        state.coordinates[0, 0] = np.nan

    with pytest.raises(ValueError, match="read-only"):
        run(problem_of("rank"), callback=tamper)


def test_callbacks_of_the_pipeline_write_to_a_copy():
    def tamper(state: IterationState):
        state.coordinates[:] = np.nan

    expected = embed_graph(MATRIX, 2)
    np.testing.assert_array_equal(embed_graph(MATRIX, 2, callback=tamper).coordinates, expected.coordinates)


@pytest.mark.parametrize("kind", [NumericalError, UnsolvedError])
def test_errors_travel_between_processes(kind):
    copy = pickle.loads(pickle.dumps(kind("stretch: values at 3 is nan.", "stretch", (3,))))
    assert (type(copy), str(copy)) == (kind, "stretch: values at 3 is nan.")
    assert (copy.stage, copy.index) == ("stretch", (3,))


def test_a_start_too_far_out():
    with pytest.raises(
        ValueError, match=r"start has coordinates of \de\+\d\d times the median distance, over"
    ):
        embed_graph(MATRIX, 2, start=np.full((60, 2), 1e90))
