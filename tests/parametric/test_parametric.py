"""A map as a network: training, what it promises to scikit-learn, files, exports."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from isoweave import Checkpoint, CheckpointError, IsometricEmbedding
from isoweave.datasets import swiss_roll
from isoweave.energy import DistanceEnergy, edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import knn_graph, prepare_graph
from isoweave.persist import StoreError

torch = pytest.importorskip("torch", reason="needs the extra parametric (make test-parametric)")
from isoweave.parametric import ParametricIsometry, _training  # noqa: E402
from isoweave.parametric._network import Standardized, folded, residual_network  # noqa: E402
from isoweave.parametric._training import _DISTANCES, Beside, GraphEnergy  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
ROLL = swiss_roll(700, random_state=5).data.astype(np.float32)
SMALL = {
    "hidden_layer_sizes": (48, 48, 48),
    "max_epochs": 24,
    "random_state": 3,
    "n_jobs": 1,
    "device": "cpu",
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model():
    return ParametricIsometry(2, **SMALL).fit(ROLL[:600])


def quick(**options):
    return ParametricIsometry(2, **{**SMALL, "max_epochs": 2, "hidden_layer_sizes": (16, 16), **options})


def test_new_points_keep_their_distances(model):
    """A folded network would be off by far more than a tenth."""
    distances, near = NearestNeighbors(n_neighbors=5).fit(ROLL[:600]).kneighbors(ROLL[600:])
    steps = model.transform(ROLL[600:])[:, None] - model.transform(ROLL[:600])[near]
    assert np.mean(np.abs(np.linalg.norm(steps, axis=2) / distances - 1)) < 0.1
    assert -0.1 < model.score(ROLL) < 0
    assert {step["phase"] for step in model.history_} == {"map", "energy"}


def test_fine_tuning_brings_distances_closer(model):
    rough = ParametricIsometry(2, **SMALL, fine_tune_epochs=0).fit(ROLL[:600])
    assert model.score(ROLL[:600]) > rough.score(ROLL[:600])


def test_the_energy_of_a_batch_is_that_of_the_frames_and_distances():
    prepared = prepare_graph(knn_graph(ROLL[:200].astype(np.float64), 8))
    graph, n = prepared.graph, prepared.graph.n_vertices
    energy = GraphEnergy(prepared, np.arange(200), np.zeros(200, dtype=np.bool_), 2)
    x = np.random.default_rng(1).normal(size=(n, 2))
    rows, _, edges, _ = energy.batch(np.arange(n), "cpu", is_test=False)
    at = np.empty_like(x)
    at[:] = x[prepared.representative[rows]]
    frames = edge_energy(graph, calibrate_frames(graph, local_frames(graph, 2)))
    distances = DistanceEnergy(graph, 2, frames.weights, frames.team)
    whole = frames.evaluate(x / prepared.unit).energy
    whole += _DISTANCES * distances.evaluate(x / prepared.unit).energy
    mass = np.sum(frames.weights[:, None] * frames.frames.rows**2)
    mass += _DISTANCES * np.sum(frames.weights * graph.lengths**2)
    # Single precision.
    assert float(energy.value(torch.tensor(at, dtype=torch.float32), edges)) == pytest.approx(
        whole / mass, rel=1e-4
    )


def test_the_gradient_is_exact_although_rotations_are_constants():
    prepared = prepare_graph(knn_graph(ROLL[:60].astype(np.float64), 6))
    energy = GraphEnergy(prepared, np.arange(60), np.zeros(60, dtype=np.bool_), 2)
    _, _, edges, _ = energy.batch(np.arange(20), "cpu", is_test=False)
    edges = tuple(part.double() if part.is_floating_point() else part for part in edges)
    torch.set_default_dtype(torch.float64)
    try:
        x = torch.randn(
            (int(edges[2].max()) + 1, 2), generator=torch.Generator().manual_seed(1), requires_grad=True
        )
        assert torch.autograd.gradcheck(lambda y: energy.value(y, edges), (x,), eps=1e-6, atol=1e-6)
    finally:
        torch.set_default_dtype(torch.float32)


def test_points_beside_the_rows_know_what_is_nearest():
    """Rows that are nearest to a point, their distances, and that these are like those of rows left out."""
    data = np.random.default_rng(1).normal(size=(300, 6)).astype(np.float32)
    prepared = prepare_graph(knn_graph(data.astype(np.float64), 8))
    held = np.arange(300) % 5 == 0
    energy = GraphEnergy(prepared, np.arange(300), held, 2)
    vertices = np.flatnonzero(~energy.held)[:40]
    points, near, distances = Beside(energy, data, 1.0, 1).batch(vertices, np.random.default_rng(1))
    rows, is_held, _, there = energy.batch(vertices, "cpu", is_test=False, also=near)
    assert not is_held.any()
    assert not held[rows].any()
    steps = points[:, None] - data[rows][there.numpy()]
    assert np.linalg.norm(steps, axis=2) == pytest.approx(distances, rel=1e-5)
    search = NearestNeighbors(n_neighbors=near.shape[1]).fit(data[~held])
    assert search.kneighbors(points)[0] == pytest.approx(distances, rel=1e-5)
    assert distances.mean() == pytest.approx(search.kneighbors(data[held])[0].mean(), rel=0.25)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_scales_inside_the_layers_change_nothing(shift):
    rows = ROLL + np.float32(shift)
    torch.manual_seed(1)
    network = Standardized(residual_network(3, 2, (16, 16)), 3, 2)
    network.adapt(rows, 50 * ROLL[:, :2])
    with torch.no_grad():
        found, wanted = (n(torch.from_numpy(rows)).numpy() for n in (folded(network), network))
    assert np.allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())
    alien = Standardized(torch.nn.ReLU(), 3, 3)
    assert folded(alien) is alien


@pytest.mark.parametrize("n_done", [2, 6, 9])
def test_a_killed_training_continues_to_the_same_bits(n_done, tmp_path, few_batches):
    """Killed in the first, the second and the last phase; the state is that of the last epoch written."""
    options = {"max_epochs": 4, "fine_tune_epochs": 3, "decoder": True, "n_iter_no_change": 2}
    dropout = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))
    torch.manual_seed(4)
    options["encoder"] = dropout if n_done == 2 else None
    whole = quick(**options).fit(ROLL[:90])
    seen = []

    def kill(step):
        seen.append(step)
        if len(seen) > n_done:
            raise RuntimeError("killed")

    path = tmp_path / "run"
    with pytest.raises(RuntimeError, match="killed"):
        quick(**options, callback=kill, checkpoint=Checkpoint(path, every=0)).fit(ROLL[:90])
    for change in ({"batch_size": 7}, {"map_options": {"n_neighbors": 6}}):
        with pytest.raises(CheckpointError, match="another run"):
            quick(**options | change, checkpoint=Checkpoint(path, resume=True)).fit(ROLL[:90])
    for _ in range(2):  # the second finds it finished
        again = quick(**options, checkpoint=Checkpoint(path, every=0, resume=True)).fit(ROLL[:90])
        assert again.history_ == whole.history_
        for name in ("weights_", "decoder_weights_"):
            one, two = getattr(whole, name), getattr(again, name)
            assert all(np.array_equal(one[key], two[key]) for key in one)


def test_rows_that_are_not_finite_have_no_place(model):
    for value in (np.nan, np.inf, -np.inf):
        rows = ROLL[:5].copy()
        rows[3, 1] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.transform(rows)


def test_a_place_does_not_depend_on_the_batch(model):
    whole = model.transform(ROLL)
    assert whole.dtype == np.float32
    scale = np.abs(whole).max()
    for part in (model.transform(ROLL[:3]), model.transform(ROLL, batch_size=7)[:3]):
        assert np.allclose(part, whole[:3], atol=1e-5 * scale)


@pytest.fixture
def few_batches(monkeypatch):
    monkeypatch.setattr(_training, "_FEWEST_BATCHES", 2)


def test_same_seed_same_bits_and_the_global_generator_is_left_alone(few_batches):
    torch.manual_seed(11)
    before = torch.random.get_rng_state()
    one, two, other = (quick(random_state=seed).fit(ROLL[:150]) for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(np.array_equal(one.weights_[name], two.weights_[name]) for name in one.weights_)
    assert not np.array_equal(one.transform(ROLL), other.transform(ROLL))


def bent_sheet(n):
    u, v = np.random.default_rng(7).uniform(size=(2, n))
    return np.column_stack([np.sin(2 * u), np.cos(2 * u), v]).astype(np.float32)


def test_the_inverse_returns_to_the_data(tmp_path):
    sheet = bent_sheet(300)
    model = ParametricIsometry(2, decoder=True, **SMALL).fit(sheet)
    back = model.inverse_transform(model.transform(sheet))
    assert np.linalg.norm(back - sheet, axis=1).mean() < 0.1
    model.save(tmp_path / "map")
    loaded = ParametricIsometry.load(tmp_path / "map")
    assert np.array_equal(loaded.inverse_transform(sheet[:, :2]), model.inverse_transform(sheet[:, :2]))
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        model.inverse_transform(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="NaN"):
        model.inverse_transform([[0.0, np.nan]])


def test_another_fit_without_a_decoder_has_no_inverse(few_batches):
    model = quick(decoder=True).fit(ROLL[:60])
    assert model.inverse_transform([[0, 0]]).shape == (1, 3)
    with pytest.raises(ValueError, match="decoder=True"):
        model.set_params(decoder=False).fit(ROLL[:60]).inverse_transform([[0, 0]])


def test_a_saved_model_has_the_same_bits_and_no_data(model, tmp_path):
    model.save(tmp_path / "map.safetensors")
    assert (tmp_path / "map.safetensors").stat().st_size < 200_000
    loaded = ParametricIsometry.load(tmp_path / "map.safetensors")
    assert np.array_equal(loaded.transform(ROLL), model.transform(ROLL))
    with pytest.raises(ValueError, match="decoder=True"):
        loaded.inverse_transform(ROLL[:, :2])
    with pytest.raises(AttributeError, match="no map"):
        loaded.partial_fit(ROLL)
    copy.copy(model).set_params(device="cuda").save(tmp_path / "map.safetensors")
    assert ParametricIsometry.load(tmp_path / "map.safetensors").device == "auto"


@pytest.mark.parametrize("damage", ["shape", "nan", "name", "type"])
def test_damaged_weights_are_refused(damage, tmp_path):
    model = quick(max_epochs=0).fit(ROLL[:50])
    name = "network.0.weight"
    if damage == "shape":
        model.weights_[name] = model.weights_[name][:3]
    elif damage == "nan":
        model.weights_[name][0, 0] = np.nan
    elif damage == "name":
        model.weights_["evil"] = model.weights_.pop(name)
    else:
        model.weights_ = [1, 2]
    model.save(tmp_path / "m")
    with pytest.raises(StoreError):
        ParametricIsometry.load(tmp_path / "m")


def test_a_module_of_ones_own_is_trained_as_a_copy_and_given_again(tmp_path):
    layers = (
        torch.nn.Unflatten(1, (1, 3)),
        torch.nn.Conv1d(1, 4, 2),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 2),
    )
    module = torch.nn.Sequential(*layers)
    before = module[3].weight.detach().clone()
    model = quick(encoder=module).fit(ROLL[:100])
    assert torch.equal(before, module[3].weight)
    assert not np.array_equal(before.numpy(), model.weights_["network.3.weight"])
    model.save(tmp_path / "m")
    assert np.array_equal(
        ParametricIsometry.load(tmp_path / "m", encoder=module).transform(ROLL), model.transform(ROLL)
    )
    with pytest.raises(ValueError, match="encoder=module"):
        ParametricIsometry.load(tmp_path / "m")


def test_exports_give_the_same_coordinates(model, tmp_path, caplog):
    onnxruntime = pytest.importorskip("onnxruntime")
    model.to_onnx(tmp_path / "map.onnx")
    assert "torchvision" not in caplog.text
    session = onnxruntime.InferenceSession(str(tmp_path / "map.onnx"))
    for rows in (ROLL[:1], ROLL[600:]):
        (found,) = session.run(["coordinates"], {"features": rows})
        assert np.allclose(found, model.transform(rows), rtol=1e-5, atol=1e-5 * np.abs(found).max())
    model.to_torch(tmp_path / "map.pt2")
    program = torch.export.load(tmp_path / "map.pt2").module()
    assert np.allclose(program(torch.from_numpy(ROLL)).detach().numpy(), model.transform(ROLL), atol=1e-4)


def test_rows_that_come_later():
    model = quick(max_epochs=5).partial_fit(ROLL[:200])
    n, before = len(model.history_), model.weights_["network.0.weight"].copy()
    model.partial_fit(ROLL[200:300])
    assert len(model.history_) > n
    assert not np.array_equal(before, model.weights_["network.0.weight"])
    assert np.isfinite(model.transform(ROLL)).all()


def test_a_memory_map_of_more_rows_than_the_map_takes(tmp_path):
    ROLL.tofile(tmp_path / "rows")
    rows = np.memmap(tmp_path / "rows", dtype=np.float32, mode="r", shape=ROLL.shape)
    model = quick(map_samples=200, checkpoint=Checkpoint(tmp_path / "run", every=0)).fit(rows)
    assert len(model.map_.embedding_) == 200
    assert np.isfinite(model.transform(rows)).all()


def test_awkward_rows(few_batches):
    doubled = np.repeat(ROLL[:40], 3, axis=0)
    constant = np.column_stack([doubled, np.full(len(doubled), 7.0)])
    places = quick().fit_transform(constant)
    assert np.isfinite(places).all()
    assert np.allclose(places[0], places[1], atol=1e-4)
    for value in (0.0, 0.1):
        assert np.isfinite(quick().fit_transform(np.full((13, 3), value))).all()


@pytest.mark.parametrize(
    ("change", "rows", "words"),
    [
        ({"map_options": {"metric": "precomputed"}}, ROLL, "transform\\(D_new\\)"),
        ({"map_options": {"components": "largest"}}, ROLL, "separate"),
        ({"map_options": {"n_components": 3}}, ROLL, "not one of map_options"),
        ({"map_options": ["metric"]}, ROLL, "dict"),
        ({"encoder": "mlp"}, ROLL, "torch.nn.Module"),
        # Broadcasting would hide this one.
        ({"encoder": torch.nn.Linear(3, 1)}, ROLL, "rows of 2 numbers; of two rows it made the shape"),
        ({"encoder": torch.nn.Linear(4, 2)}, ROLL, "cannot read rows of 3"),
        ({"encoder": torch.nn.Linear(3, 2).requires_grad_(False)}, ROLL, "could be trained"),
        ({"decoder": torch.nn.Linear(2, 9)}, ROLL, "decoder must make rows of 3"),
        ({"hidden_layer_sizes": (8, 0)}, ROLL, "hidden_layer_sizes"),
        ({"device": "gpu"}, ROLL, "device must be"),
        ({"callback": 3}, ROLL, "callback"),
        ({"validation_fraction": 0.9}, ROLL, "validation_fraction"),
        ({"learning_rate": 0.0}, ROLL, "learning_rate"),
        ({"batch_size": 0}, ROLL, "batch_size"),
        ({"checkpoint": "run.ckpt"}, ROLL, "isoweave.Checkpoint"),
        ({}, np.full((9, 3), np.nan), "NaN"),
    ],
)
def test_errors_say_what_to_do(change, rows, words, monkeypatch):
    """And before the map is made, which is what takes long."""
    monkeypatch.setattr(IsometricEmbedding, "fit", None)
    with pytest.raises((ValueError, TypeError), match=words):
        quick(**change).fit(rows[:60])


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_numbers_that_single_precision_cannot_square_are_refused(scale):
    with pytest.raises(ValueError, match="divide X"):
        quick().fit(ROLL[:60].astype(np.float64) * scale)


def test_sparse_rows_are_refused():
    with pytest.raises(TypeError, match="TruncatedSVD"):
        quick().fit(sp.csr_array(ROLL))


def test_a_callback_ends_every_phase(few_batches):
    seen = []
    quick(max_epochs=9, callback=lambda step: seen.append(step) or True).fit(ROLL[:60])
    assert [(step["phase"], step["epoch"]) for step in seen] == [("map", 1), ("energy", 1)]


def test_in_a_pipeline_with_named_columns(few_batches):
    chain = make_pipeline(StandardScaler(), clone(quick())).set_output(transform="pandas")
    places = chain.fit_transform(ROLL[:80])
    assert list(places.columns) == ["parametricisometry0", "parametricisometry1"]


def test_without_torch_the_error_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import isoweave.parametric"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "pip install 'isoweave[parametric]'" in done.stderr


@pytest.mark.filterwarnings("ignore:The graph has")
@parametrize_with_checks(
    [quick(max_epochs=1, fine_tune_epochs=1, hidden_layer_sizes=(8,), batch_size=64, n_neighbors=4)]
)
def test_scikit_learns_checks(estimator, check, few_batches):
    check(estimator)
