"""One NaN put into the output of any stage is met within a step, by an error that names the stage."""

import pickle
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp

import isoweave.optimise._starts as starts
from adversarial_graphs import plane
from isoweave import IsometricEmbedding, _component, embed, embed_graph, graph as graphs
from isoweave._parallel import ThreadTeam
from isoweave.energy import EdgeEnergy, _energies, edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import _components, graph_from_matrix
from isoweave.linalg import PoissonState, _methods
from isoweave.optimise import LBFGS, Alternating, NumericalError, Run, UnsolvedError, build_problem, minimise


def spoiled(array, at=-1):
    """A copy with NaN in one place."""
    copy = np.array(array, dtype=float)
    copy.reshape(-1)[at] = np.nan
    return copy


def field(name, at=-1):
    return lambda value: replace(value, **{name: spoiled(getattr(value, name), at)})


def item(at, spoil):
    return lambda values: (*values[:at], spoil(values[at]), *values[at + 1 :])


def matrix_data(matrix):
    copy = sp.csr_array(matrix)
    copy.data = spoiled(copy.data)
    return copy


def spoil_result(monkeypatch, owner, name, spoil):
    """Replace a function of a module, or of a table, by one that spoils what it returns."""
    function = owner[name] if isinstance(owner, dict) else getattr(owner, name)
    replaced = lambda *args, **kwargs: spoil(function(*args, **kwargs))  # noqa: E731
    (monkeypatch.setitem if isinstance(owner, dict) else monkeypatch.setattr)(owner, name, replaced)


MATRIX = plane(60, 7, 31)
PAPER, SYNCHRONIZED, COARSE = {"preset": "paper"}, {"start": "synchronized"}, {"start": "coarse"}
LENGTHS, INVERSE, START = "distance graph: lengths", "inner product: inverse frames at", "optimise: start at"
SCALE = {"scale": "geodesics"}
# Module and name of the function, how to spoil its result, the settings that call it, what the error says.
STAGES = [
    (embed, "graph_from_matrix", field("lengths"), {}, LENGTHS),
    (_components, "normalise_lengths", item(1, field("lengths")), {}, LENGTHS),
    (_components, "merge_duplicates", item(0, field("lengths")), {}, LENGTHS),
    (_components, "drop_shortcuts", item(0, field("lengths")), {}, LENGTHS),
    (_component, "local_frames", field("rows"), {}, "local frames: rows at"),
    (_component, "local_frames", field("spectrum"), {}, "local frames: eigenvalues at"),
    (_component, "calibrate_frames", field("rows"), {}, "calibration: rows at"),
    (_component, "edge_energy", field("weights"), {}, "inner product: weights at"),
    (_component, "neighborhood_volumes", spoiled, PAPER, "inner product: volumes at"),
    (_component, "local_frames", field("inverse"), PAPER, INVERSE),
    (_component, "paper_energy", field("inverse"), PAPER, INVERSE),
    (_energies, "edge_laplacian", matrix_data, {}, "laplacian has 1 entries .* not finite"),
    (starts, "farthest_landmarks", item(1, spoiled), {}, "start 'auto'|optimise: start"),
    (starts, "landmark_start", spoiled, {}, START),
    (starts, "join_along", field("lengths"), SYNCHRONIZED, "synchronized|optimise"),
    (starts, "connection_laplacian", matrix_data, SYNCHRONIZED, "start 'synchronized'"),
    (starts, "synchronized_alignments", spoiled, SYNCHRONIZED, "rhs must be finite|alignments"),
    (starts._STARTS, "synchronized", spoiled, SYNCHRONIZED, START),
    (starts._STARTS, "coarse", spoiled, COARSE, START),
    (starts, "prolong", spoiled, COARSE, START),
    (_energies, "divergence", spoiled, {}, "optimise, step 0: gradient at"),
    (_component, "geodesic_factor", lambda v: np.nan, SCALE, "result: coordinates at"),
    (_component, "local_stretch", spoiled, {}, "stretch: singular values at"),
]


@pytest.mark.parametrize(("owner", "name", "spoil", "settings", "text"), STAGES)
def test_stages(monkeypatch, owner, name, spoil, settings, text):
    spoil_result(monkeypatch, owner, name, spoil)
    steps = []
    with pytest.raises((NumericalError, ValueError), match=text):
        embed_graph(MATRIX, 2, callback=steps.append, **settings)
    assert not steps or name in ("geodesic_factor", "local_stretch")


def test_features_layout_and_the_entry_that_is_named(monkeypatch):
    with monkeypatch.context() as patch:
        spoil_result(patch, graphs, "knn_graph", field("lengths"))
        with pytest.raises(NumericalError, match=LENGTHS):
            IsometricEmbedding(n_neighbors=5).fit(np.random.default_rng(37).normal(size=(60, 3)))
    with monkeypatch.context() as patch:
        spoil_result(patch, graphs, "pack_components", lambda shifts: [spoiled(s) for s in shifts])
        text = "layout: shifts of the components at"
        with pytest.warns(UserWarning, match="2 conn"), pytest.raises(NumericalError, match=text):
            embed_graph(sp.block_diag([MATRIX, MATRIX]), 2)
    spoil_result(monkeypatch, _component, "local_frames", field("rows", at=5))
    with pytest.raises(NumericalError, match="local frames: rows at") as caught:
        embed_graph(MATRIX, 2)
    assert caught.value.index == (2, 1)
    assert caught.value.stage in str(caught.value)
    # What it is not: a fault of the input.
    assert not isinstance(caught.value, ValueError)
    error = np.linalg.LinAlgError("Eigenvalues did not converge")
    monkeypatch.setattr(_component, "local_frames", Mock(side_effect=error))
    with pytest.raises(NumericalError, match="local frames: a decomposition failed .*did not converge"):
        embed_graph(MATRIX, 2)


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


@pytest.mark.parametrize(
    ("name", "product"), [("descent", "edge"), ("descent", "paper"), ("recursion", "paper")]
)
@pytest.mark.parametrize("spoil", ["alignments", "energies", "half_gradient", "solution"])
@pytest.mark.parametrize("step", [0, 3])
def test_evaluations_and_solutions(monkeypatch, name, product, spoil, step):
    """In the very step in which it happens, whether or not that step goes on to read the array."""
    problem, steps = problem_of(product), [0]
    assert problem.mass > 0  # and kept, so that it is not spoiled

    def spoil_evaluation(value):
        value = field(spoil)(value)
        return replace(value, energy=float(np.sum(value.energies)))

    found = (PoissonState, "solve", field("value")), (type(problem), "evaluate", spoil_evaluation)
    owner, method, spoiler = found[spoil != "solution"]
    # From this step on.
    spoil_result(monkeypatch, owner, method, lambda v: spoiler(v) if steps[-1] >= step - 1 else v)
    what = {"half_gradient": "gradient at", "solution": "(the solution of the Poisson|coordinates)"}
    with pytest.raises(NumericalError, match=f"step {step}: {what.get(spoil, f'{spoil} at')}") as caught:
        run(name, problem, lambda state: steps.append(state.iteration))
    assert steps[-1] == max(step - 1, 0)
    assert caught.value.stage.endswith(f"step {step}")


def test_spoiled_factors_and_solutions_that_overflow(monkeypatch):
    """Residuals are measured, so the next solver takes over and the map comes out as it should."""
    with monkeypatch.context() as patch:
        spoil_result(patch, PoissonState, "solve", lambda v: replace(v, value=1e200 * v.value))
        with pytest.raises(UnsolvedError, match=r"step 1: the energy overflows .* remove the extreme ones"):
            run("descent", problem_of())
    expected = embed_graph(MATRIX, 2, solver="jacobi")
    spoil_result(monkeypatch, _methods, "factorise", lambda f: f._replace(values=spoiled(f.values)))
    result = embed_graph(MATRIX, 2, solver="direct")
    assert result.solver.startswith("jacobi")
    np.testing.assert_allclose(result.energy, expected.energy, rtol=1e-6)
    # The energy of the collapsed map.
    original = EdgeEnergy.evaluate

    def evaluate(self, x):
        return original(self, x) if x.any() else replace(original(self, x), energy=np.nan)

    monkeypatch.setattr(EdgeEnergy, "evaluate", evaluate)
    with pytest.raises(NumericalError, match="operators: energy of the collapsed map is nan"):
        embed_graph(MATRIX, 2)


@pytest.mark.parametrize("name", RUNS)
def test_starts_and_callbacks(name):
    """Callbacks of the optimisers may not write to the iterate, those of the pipeline write to a copy."""
    with pytest.raises(NumericalError, match=rf"{RUNS[name][1]}: start at \(59, 1\) is nan"):
        run(name, problem_of("paper"), start=spoiled(np.ones((60, 2))))
    with pytest.raises(ValueError, match=r"start has coordinates of \de\+\d\d times the median"):
        embed_graph(MATRIX, 2, start=np.full((60, 2), 1e90))

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
