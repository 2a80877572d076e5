"""One NaN put into the output of any stage is met within a step, by an error that names the stage."""

from __future__ import annotations

import pickle
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp

from adversarial_graphs import plane
from isoweave import IsometricEmbedding, _component, embed, embed_graph, estimator, known
from isoweave._parallel import ThreadTeam
from isoweave.energy import EdgeEnergy, _energies, edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import _components, graph_from_matrix
from isoweave.linalg import PoissonState, _methods
from isoweave.optimise import (
    LBFGS,
    Alternating,
    NumericalError,
    Run,
    UnsolvedError,
    _starts,
    build_problem,
    minimise,
)


def spoiled(array, at=-1):
    """A copy with NaN in one place."""
    copy = np.array(array, dtype=float)
    copy.reshape(-1)[at] = np.nan
    return copy


def spoil_field(name, at=-1):
    return lambda value: replace(value, **{name: spoiled(getattr(value, name), at)})


spoil_lengths = spoil_field("lengths")


def spoil_matrix(matrix):
    copy = sp.csr_array(matrix)
    copy.data = spoiled(copy.data)
    return copy


def spoil_result(monkeypatch, owner, name, spoil):
    """Replace a function of a module, or of a table, by one that spoils what it returns."""
    if isinstance(owner, dict):
        original = owner[name]
        monkeypatch.setitem(owner, name, lambda *args: spoil(original(*args)))
    else:
        function = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, **kwargs: spoil(function(*args, **kwargs)))


MATRIX = plane(60, 7, 31)
PAPER, SYNCHRONIZED, COARSE = {"preset": "paper"}, {"start": "synchronized"}, {"start": "coarse"}
LENGTHS = "distance graph: lengths"
INVERSE = "inner product: inverse frames at"
STARTS = _starts._STARTS

# Module and name of the function, how to spoil its result, the settings that call it, what the error says.
STAGES = {
    "graph": (embed, "graph_from_matrix", spoil_lengths, {}, LENGTHS),
    "unit": (_components, "normalise_lengths", lambda v: (v[0], spoil_lengths(v[1])), {}, LENGTHS),
    "merged": (_components, "merge_duplicates", lambda v: (spoil_lengths(v[0]), v[1]), {}, LENGTHS),
    "filtered": (
        _components, "drop_shortcuts", lambda v: (spoil_lengths(v[0]), v[1]), {}, LENGTHS,
    ),
    "frames": (_component, "local_frames", spoil_field("rows"), {}, "local frames: rows at"),
    "spectrum": (_component, "local_frames", spoil_field("spectrum"), {}, "local frames: eigenvalues at"),
    "calibration": (_component, "calibrate_frames", spoil_field("rows"), {}, "calibration: rows at"),
    "weights": (_component, "edge_energy", spoil_field("weights"), {}, "inner product: weights at"),
    "volumes": (_component, "neighborhood_volumes", spoiled, PAPER, "inner product: volumes at"),
    "inverse frames": (_component, "local_frames", spoil_field("inverse"), PAPER, INVERSE),
    "paper product": (_component, "paper_energy", spoil_field("inverse"), PAPER, INVERSE),
    "laplacian": (_energies, "edge_laplacian", spoil_matrix, {}, "laplacian has 1 entries .* not finite"),
    "landmark distances": (
        _starts, "farthest_landmarks", lambda v: (v[0], spoiled(v[1])), {}, "start 'auto'|optimise: start",
    ),
    "landmark start": (_starts, "landmark_start", spoiled, {}, "optimise: start at"),
    "companion graph": (_starts, "geodesic_neighbors", spoil_lengths, SYNCHRONIZED, "synchronized|optimise"),
    "transitions": (
        _starts, "connection_laplacian", spoil_matrix, SYNCHRONIZED, "start 'synchronized'",
    ),
    "synchronized alignments": (
        _starts, "synchronized_alignments", spoiled, SYNCHRONIZED, "rhs must be finite|alignments",
    ),
    "synchronized start": (STARTS, "synchronized", spoiled, SYNCHRONIZED, "optimise: start at"),
    "coarse start": (STARTS, "coarse", spoiled, COARSE, "optimise: start at"),
    "interpolation": (_starts, "prolong", spoiled, COARSE, "optimise: start at"),
    "gradient": (_energies, "divergence", spoiled, {}, "optimise, step 0: gradient at"),
    "scale": (
        _component, "_geodesic_factor", lambda v: np.nan, {"scale": "geodesics"}, "result: coordinates at",
    ),
    "stretch": (_component, "local_stretch", spoiled, {}, "stretch: singular values at"),
}  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_stages(monkeypatch, stage):
    owner, name, spoil, settings, text = STAGES[stage]
    spoil_result(monkeypatch, owner, name, spoil)
    steps = []
    with pytest.raises((NumericalError, ValueError), match=text):
        embed_graph(MATRIX, 2, callback=steps.append, **settings)
    assert not steps or stage in ("scale", "stretch")


def test_features(monkeypatch):
    spoil_result(monkeypatch, estimator, "knn_graph", spoil_lengths)
    with pytest.raises(NumericalError, match=LENGTHS):
        IsometricEmbedding(n_neighbors=5).fit(np.random.default_rng(37).normal(size=(60, 3)))


def test_the_first_bad_entry_is_named(monkeypatch):
    spoil_result(monkeypatch, _component, "local_frames", spoil_field("rows", at=5))
    with pytest.raises(NumericalError, match="local frames: rows at") as caught:
        embed_graph(MATRIX, 2)
    assert caught.value.index == (2, 1)
    assert caught.value.stage in str(caught.value)
    # What it is not: a fault of the input.
    assert not isinstance(caught.value, ValueError)


def test_layout_of_components(monkeypatch):
    spoil_result(monkeypatch, known, "pack_components", lambda shifts: [spoiled(s) for s in shifts])
    with (
        pytest.warns(UserWarning, match="2 connected components"),
        pytest.raises(NumericalError, match="layout: shifts of the components at"),
    ):
        embed_graph(sp.block_diag([MATRIX, MATRIX]), 2)


def problem_of(product="edge"):
    graph, team = graph_from_matrix(MATRIX), ThreadTeam(1)
    raw = local_frames(graph, 2, team=team, with_inverse=True)
    if product == "edge":
        return build_problem(edge_energy(graph, calibrate_frames(graph, raw), team=team))
    return build_problem(paper_energy(graph, raw, np.ones(60), team=team))


RUNS = {"descent": (LBFGS(1e-9, 12), "optimise"), "recursion": (Alternating(1e-12, 12), "recursion")}


def run(name, problem, callback=None, start=None):
    optimiser, stage = RUNS[name]
    start = np.random.default_rng(41).normal(size=(60, 2)) if start is None else start
    return minimise(optimiser, problem, start, stage=stage, run=Run(callback=callback))


OPTIMISERS = pytest.mark.parametrize(
    ("name", "product"), [("descent", "edge"), ("descent", "paper"), ("recursion", "paper")]
)
# Arrays of an evaluation and what the error calls them.
EVALUATED = {"alignments": "alignments", "energies": "energies", "half_gradient": "gradient"}


@OPTIMISERS
@pytest.mark.parametrize("field", EVALUATED)
@pytest.mark.parametrize("step", [0, 3])
def test_evaluations(monkeypatch, name, product, field, step):
    """In the very step in which it happens, whether or not that step goes on to read the array."""
    problem, steps, calls = problem_of(product), [0], []
    original = type(problem).evaluate
    assert problem.mass > 0  # and kept, so that the calls counted are those of the optimiser
    # The recursion evaluates its start and the first sweep from there.
    n_before = 2 if name == "recursion" else 1

    def evaluate(self, x):
        calls.append(x)
        value = original(self, x)
        if (len(calls) > n_before) != (step > 0) or steps[-1] < step - 1:
            return value
        value = replace(value, **{field: spoiled(getattr(value, field))})
        return replace(value, energy=float(np.sum(value.energies)))

    monkeypatch.setattr(type(problem), "evaluate", evaluate)
    with pytest.raises(NumericalError, match=f"step {step}: {EVALUATED[field]} at") as caught:
        run(name, problem, lambda state: steps.append(state.iteration))
    assert steps[-1] == max(step - 1, 0)
    assert caught.value.stage.endswith(f"step {step}")
    assert not isinstance(caught.value, ValueError)


@OPTIMISERS
@pytest.mark.parametrize("step", [0, 3])
def test_poisson_solutions(monkeypatch, name, product, step):
    problem, steps, calls = problem_of(product), [0], []

    def spoil(found):
        calls.append(found)
        # One solve before the first step, one for every step.
        return replace(found, value=spoiled(found.value)) if len(calls) == step + 1 else found

    spoil_result(monkeypatch, PoissonState, "solve", spoil)
    with pytest.raises(NumericalError, match=f"step {step}: (the solution of the Poisson|coordinates)"):
        run(name, problem, lambda state: steps.append(state.iteration))
    assert steps[-1] == max(step - 1, 0)


def test_a_solution_that_overflows_is_a_matter_of_the_data(monkeypatch):
    spoil_result(monkeypatch, PoissonState, "solve", lambda v: replace(v, value=1e200 * v.value))
    with pytest.raises(UnsolvedError, match=r"step 1: the energy overflows at .* remove the extreme ones"):
        run("descent", problem_of())


def test_a_spoiled_factor_is_replaced(monkeypatch):
    """Residuals are measured, so the next solver takes over and the map comes out as it should."""
    expected = embed_graph(MATRIX, 2, solver="jacobi")
    spoil_result(monkeypatch, _methods, "factorise", lambda v: (spoiled(v[0]), v[1]))
    result = embed_graph(MATRIX, 2, solver="direct")
    assert result.solver.startswith("jacobi")
    np.testing.assert_allclose(result.energy, expected.energy, rtol=1e-6)


def test_energy_of_the_collapsed_map(monkeypatch):
    original = EdgeEnergy.evaluate

    def evaluate(self, x):
        value = original(self, x)
        return value if x.any() else replace(value, energy=np.nan)

    monkeypatch.setattr(EdgeEnergy, "evaluate", evaluate)
    with pytest.raises(NumericalError, match="operators: energy of the collapsed map is nan"):
        embed_graph(MATRIX, 2)


@pytest.mark.parametrize("name", RUNS)
def test_starts(name):
    with pytest.raises(NumericalError, match=rf"{RUNS[name][1]}: start at \(59, 1\) is nan"):
        run(name, problem_of("paper"), start=spoiled(np.ones((60, 2))))
    with pytest.raises(ValueError, match=r"start has coordinates of \de\+\d\d times the median"):
        embed_graph(MATRIX, 2, start=np.full((60, 2), 1e90))


def test_dense_algebra_that_fails_has_a_stage(monkeypatch):
    error = np.linalg.LinAlgError("Eigenvalues did not converge")
    monkeypatch.setattr(_component, "local_frames", Mock(side_effect=error))
    with pytest.raises(NumericalError, match="local frames: a decomposition failed .*did not converge"):
        embed_graph(MATRIX, 2)


@pytest.mark.parametrize("name", RUNS)
def test_callbacks_cannot_write_to_the_iterate(name):
    """Those of the optimisers may not, those of the pipeline write to a copy."""

    def tamper(state):
        state.coordinates[:] = np.nan

    with pytest.raises(ValueError, match="read-only"):
        run(name, problem_of("paper"), tamper)
    settings = {"preset": "paper", "tol": 1e-2} if name == "recursion" else {}
    expected, tampered = (embed_graph(MATRIX, 2, callback=c, **settings) for c in (None, tamper))
    np.testing.assert_array_equal(tampered.coordinates, expected.coordinates)


@pytest.mark.parametrize("kind", [NumericalError, UnsolvedError])
def test_errors_travel_between_processes(kind):
    copy = pickle.loads(pickle.dumps(kind("stretch: values at 3 is nan.", "stretch", (3,))))
    assert (type(copy), str(copy)) == (kind, "stretch: values at 3 is nan.")
    assert (copy.stage, copy.index) == ("stretch", (3,))
