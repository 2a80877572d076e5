"""Embeddings and estimators come back with the same bits; what cannot be stored is refused by name."""

import dataclasses
import math
import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import isoweave
from attacker import SAMPLES, take_apart
from isoweave import IsometricEmbedding, load, save
from isoweave.graph import NeighborGraph
from isoweave.optimise import StepRecord
from isoweave.persist import StoreError


def plain(value):
    """What may be compared: equal to the last bit, and of the same type."""
    if sp.issparse(value):
        return type(value), value.shape, [plain(getattr(value, p)) for p in ("data", "indices", "indptr")]
    if isinstance(value, np.ndarray):
        numbers = value.tolist() if value.dtype.kind == "O" else value.tobytes()
        return value.dtype, value.shape, value.flags.f_contiguous, numbers
    if isinstance(value, dict):
        return [(key, plain(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return type(value), plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    return type(value), repr(value)


def fitted_parts(model):
    return plain({name: value for name, value in vars(model).items() if name.endswith("_")})


@pytest.mark.parametrize("mmap", [False, True])
def test_embeddings_and_estimators(tmp_path, fitted, embedding, features, mmap):
    beside = {".map.0123abcd.isoweave-tmp", "map.lock"}
    for name in (*beside, "map"):
        (tmp_path / name).write_text("mine")
    known = isoweave.as_embedding(features)
    more = {"names": tuple(f"é{i}" for i in range(60)), "features": sp.csr_array(features)}
    for result in (embedding, known, dataclasses.replace(known, **more)):
        result.save(tmp_path / "map")
        found = isoweave.load(tmp_path / "map", mmap=mmap)
        assert plain(found) == plain(dataclasses.replace(result, parameters=found.parameters))
        assert found.coordinates.flags.writeable != mmap
        assert plain(isoweave.as_embedding(tmp_path / "map").coordinates) == plain(result.coordinates)
    with pytest.raises(StoreError, match="kind: must be 'estimator', found 'embedding'"):
        IsometricEmbedding.load(tmp_path / "map")
    fitted.save(tmp_path / "model")
    assert {(tmp_path / name).read_text() for name in beside} == {"mine"}
    assert set(os.listdir(tmp_path)) == {"map", "model", *beside}
    found = IsometricEmbedding.load(tmp_path / "model", mmap=mmap)
    # An attribute added to the estimator is stored without a word, or this says that it is not.
    assert fitted_parts(found) == fitted_parts(fitted)
    assert plain(found.get_params()) == plain(fitted.get_params())
    new = features[:5] + 0.01
    np.testing.assert_array_equal(found.transform(new), fitted.transform(new))
    np.testing.assert_array_equal(found.fit_transform(features), fitted.embedding_)
    assert clone(found).get_params() == fitted.get_params()
    assert plain(isoweave.as_embedding(tmp_path / "model").graph) == plain(embedding.graph)


@pytest.mark.filterwarnings("ignore:The optimiser stopped")
def test_parameters_names_output_and_subclasses(tmp_path, features):
    class Model(IsometricEmbedding):
        pass

    frame = pd.DataFrame(features.astype(np.float32), columns=["a", "b, c", "é\0"])
    model = Model(
        n_neighbors=9,
        start=np.asfortranarray(np.random.default_rng(8).normal(size=(60, 2))),
        metric="seuclidean",
        metric_params={"V": np.array([1.0, 4.0, 0.25])},
        n_components=np.int64(2),
        tol=np.float32(0.01),
        max_iter=7,
        frame_size=2.5,
    ).set_output(transform="pandas")
    for made in (model, clone(model).fit(frame)):
        save(made, tmp_path / "model")
        found = Model.load(tmp_path / "model")
        assert type(found) is Model
        assert plain(found.get_params()) == plain(made.get_params())
        assert fitted_parts(found) == fitted_parts(made)
    assert found.embedding_.dtype == np.float32
    pd.testing.assert_frame_equal(found.fit_transform(frame), made.fit_transform(frame))
    with pytest.raises(StoreError, match=r"content\.class: must be 'IsometricEmbedding', found 'Model'"):
        load(tmp_path / "model")


def test_functions_are_refused_and_what_watched_a_fit_is_left_out(tmp_path):
    with pytest.raises(TypeError, match=r"parameter metric is a function and cannot .*set_params\(metric"):
        save(IsometricEmbedding(metric=min), tmp_path / "model")
    with pytest.raises(TypeError, match=r"parameter metric_params\.f is a function"):
        save(IsometricEmbedding(metric_params={"f": min}), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    model = IsometricEmbedding(callback=min, checkpoint=isoweave.Checkpoint("x"))
    model.random_state = np.random.RandomState(3)
    with pytest.warns(UserWarning, match="(callback|random_state) is not saved; give it again after") as said:
        save(model, tmp_path / "model")
    assert len(said) == 2
    found = load(tmp_path / "model")
    assert (found.callback, found.checkpoint, found.random_state) == (None, None, None)


def int64_indices():
    matrix = sp.csr_array(np.eye(4))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


GRAPH = NeighborGraph(
    np.array([0, 1, 3, 4], dtype=np.int32), np.array([1, 0, 2, 1], np.int32), np.array([0.5, 0.5, 0.0, 0.0])
)
VALUES = {
    "plain": [None, 0, -1, 2**70, True, False, 0.1, -0.0, 5e-324, 1.7976931348623157e308],
    "not finite": [float("nan"), float("inf"), float("-inf")],
    "text": ["", "é\n\0\ud800", "$type"],
    "nested": {"a": [(), (1, [2, (3,)]), {}], "b": {"c": None}},
    "numpy scalars": [np.int8(-3), np.uint64(2**64 - 1), np.float16(0.1), np.float32("nan"), np.bool_(False)],
    "empty": [np.empty((0, 2), np.int32), np.empty((3, 0)), np.array([], object)],
    "arrays": [np.array(3.5), np.asfortranarray(np.arange(12.0).reshape(3, 4)), np.array([np.nan, -np.nan])],
    "dtypes": [np.arange(3).astype(code) for code in "?bBhHiIlLqQefd"],
    "strings": np.array([["x\0", "\ud800"]], dtype=object),
    "sparse": [sp.random(5, 4, 0.5, "csr", random_state=3), sp.csr_array((3, 3)), int64_indices()],
    "graph": GRAPH,
    "history": (StepRecord(0, 2.0, float("nan"), 0.0), StepRecord(1, 1.0, 0.1, 1.0)),
    "names": {"a/b": np.zeros(2), "a_b": np.zeros(3), "é": GRAPH, "__metadata__": np.ones(4)},
}


def test_values(tmp_path):
    model = IsometricEmbedding()
    model.value_ = VALUES
    save(model, tmp_path / "model")
    for mmap in (False, True):
        found = load(tmp_path / "model", mmap=mmap).value_
        for name in VALUES:
            assert plain(found[name]) == plain(VALUES[name]), name
    # The same contents give the same bytes: there is no date in a file.
    before = (tmp_path / "model").read_bytes()
    save(model, tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == before
    # Strides, byte order and cells of text become plain.
    model.value_ = [np.arange(20)[::3], np.arange(5, dtype=">f8"), np.array(["a", "long é"])]
    save(model, tmp_path / "model")
    found = [(value.dtype, value.tolist()) for value in load(tmp_path / "model").value_]
    texts = (object, ["a", "long é"])
    assert found == [(np.int64, [*range(0, 20, 3)]), (np.float64, [0, 1, 2, 3, 4]), texts]


def test_other_programs_can_read_the_arrays(tmp_path, fitted):
    """The format is safetensors', as its own package reads it; the widest come first, so all are aligned."""
    safetensors = pytest.importorskip("safetensors")
    fitted.columns_ = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    save(fitted, tmp_path / "model")
    with safetensors.safe_open(tmp_path / "model", "numpy") as file:
        assert file.metadata()["format"] == "isoweave"
        np.testing.assert_array_equal(file.get_tensor("embedding_"), fitted.embedding_)
        np.testing.assert_array_equal(file.get_tensor("graph_.indices"), fitted.graph_.indices)
    header, _ = take_apart((tmp_path / "model").read_bytes())
    starts = {entry["dtype"]: entry["data_offsets"][0] for name, entry in header.items() if "dtype" in entry}
    assert starts["F64"] % 8 == starts["I32"] % 4 == 0


REFUSED = [
    (b"bytes", "value_ is of type bytes"),
    ({1: 2}, r"value_ has the key 1"),
    ({"$type": "array"}, r"value_ has the key '\$type'"),
    ([{"x": {1, 2}}], r"value_\.0\.x is of type set"),
    (np.array([1, None], dtype=object), "value_ is an array of objects, 1 among them"),
    (np.array(["2020-01-01"], dtype="M8[D]"), "value_ is an array of datetime64"),
    (np.zeros(2, dtype=[("a", "f8")]), "value_ is an array of"),
    (np.zeros(2, dtype=np.longdouble), "value_ is an array of"),
    (np.complex128(1j), "value_ is an array of complex128"),
    (sp.csc_array((2, 2)), "value_ is a sparse csc_array .* convert it to csr_array"),
    (np.random.default_rng(3), "value_ is of type Generator"),
    (len, "value_ is a function"),
    (2**3000, "an integer of 3001 bits"),
    (eval("[" * 20 + "]" * 20), "nested more than 12 levels deep"),
    ("y" * (17 << 20), "bytes of values and 0 arrays are more than a file may hold"),
]


def test_what_cannot_be_stored(tmp_path):
    model = IsometricEmbedding()
    for value, message in REFUSED:
        model.value_ = value
        with pytest.raises((TypeError, ValueError), match=message):
            save(model, tmp_path / "x")
    for value in (np.zeros(3), {}, IsometricEmbedding):
        with pytest.raises(TypeError, match="save takes an Embedding or an IsometricEmbedding, got"):
            save(value, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_samples():
    """These files were written once and are never changed: what they hold must come out as it did then."""
    result = load(SAMPLES / "embedding.isoweave")
    assert (result.coordinates.shape, result.coordinates.dtype) == ((11, 2), np.float64)
    assert result.coordinates[3].tolist() == [-1.1081014573046821, 0.7653142946967811]
    assert result.energy.hex() == "0x1.3f32948c40000p-94"
    assert result.component_labels.tolist() == [0] * 9 + [1, 1]
    assert (result.graph.n_vertices, result.graph.n_edges) == (11, 37)
    assert [step.iteration for step in result.history] == list(range(result.n_iter + 1))
    assert (result.status, result.solver) == ("converged", "direct: 9 vertices, at most 3000")
    assert plain(load(SAMPLES / "embedding.isoweave", mmap=True)) == plain(result)
    model = load(SAMPLES / "estimator.isoweave")
    assert model.metric_params["V"].tolist() == [1.0, 2.0, 0.5]
    assert type(model.n_components) is np.int64
    assert model.embedding_.dtype == np.float32
    assert model.embedding_[7].tolist() == [-0.9001391530036926, 0.5873034596443176]
    assert model.feature_names_in_.tolist() == ["x", "y", "größe"]
    assert model.notes_ == {"list": [1, 2.5, (None, True)], "limit": math.inf}
    assert (model.n_iter_, model.graph_.shape, model.graph_.nnz) == (6, (20, 20), 156)
    model = load(SAMPLES / "placing.isoweave")
    found = model.transform(np.array([[0.1, -0.2, 0.3], [0.5, 0.5, -0.5]]))
    # How points are placed may be refined; the places stay.
    np.testing.assert_allclose(found, [[-0.131, -0.106], [-0.909, 0.238]], atol=0.05)
    np.testing.assert_array_equal(model.transform(model._fit_X), model.embedding_)
