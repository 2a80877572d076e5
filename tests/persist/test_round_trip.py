from __future__ import annotations

import dataclasses
import os
import stat
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from isoweave import IsometricEmbedding
from isoweave.graph import NeighborGraph
from isoweave.optimise import StepRecord
from isoweave.persist import StoreError, load, load_estimator, read_store, save, write_store
from isoweave.persist._decode import Decoder
from isoweave.persist._encode import Encoder


def assert_same(found, wanted, where=""):
    """Equal to the last bit, and of the same type."""
    assert type(found) is type(wanted), f"{where}: {type(found)} instead of {type(wanted)}"
    if sp.issparse(wanted):
        assert found.shape == wanted.shape
        for part in ("data", "indices", "indptr", "row", "col"):
            if hasattr(wanted, part):
                assert_same(getattr(found, part), getattr(wanted, part), f"{where}.{part}")
    elif isinstance(wanted, np.ndarray):
        assert found.shape == wanted.shape, where
        if wanted.dtype.kind in "OU":
            assert found.dtype.kind == wanted.dtype.kind, where
            assert found.tolist() == wanted.tolist(), where
        else:
            assert found.dtype == wanted.dtype, where
            assert found.tobytes() == wanted.tobytes(), where
            assert found.flags.f_contiguous == wanted.flags.f_contiguous, where
    elif isinstance(wanted, np.random.RandomState):
        for a, b in zip(found.get_state(), wanted.get_state(), strict=True):
            assert_same(a, b, where)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted), where
        for key in wanted:
            assert_same(found[key], wanted[key], f"{where}.{key}")
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), where
        for at, (a, b) in enumerate(zip(found, wanted, strict=True)):
            assert_same(a, b, f"{where}.{at}")
    elif dataclasses.is_dataclass(wanted):
        for field in dataclasses.fields(wanted):
            name = field.name
            assert_same(getattr(found, name), getattr(wanted, name), f"{where}.{name}")
    elif isinstance(wanted, float | np.floating):
        assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes() or found != found, where
    else:
        assert found == wanted, where


def fitted_parts(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize("mmap", [False, True])
def test_embedding(tmp_path, embedding, mmap):
    save(embedding, tmp_path / "map")
    found = load(tmp_path / "map", mmap=mmap)
    assert_same(found, embedding)
    assert found.coordinates.flags.writeable != mmap


def test_estimator(tmp_path, fitted, features):
    save(fitted, tmp_path / "model")
    found = load(tmp_path / "model")
    assert_same(fitted_parts(found), fitted_parts(fitted))
    assert_same(found.get_params(), fitted.get_params())
    np.testing.assert_array_equal(found.fit_transform(features), fitted.embedding_)
    assert clone(found).get_params() == fitted.get_params()


def test_float32_names_and_output(tmp_path, features):
    frame = pd.DataFrame(features.astype(np.float32), columns=["a", "b, c", "é\0"])
    model = IsometricEmbedding(n_neighbors=8).set_output(transform="pandas")
    model.fit(frame)
    save(model, tmp_path / "model")
    found = load(tmp_path / "model")
    assert found.embedding_.dtype == np.float32
    assert_same(fitted_parts(found), fitted_parts(model))
    assert found.feature_names_in_.dtype == object
    pd.testing.assert_frame_equal(found.fit_transform(frame), model.fit_transform(frame))


@pytest.mark.parametrize(
    "parameters",
    [
        {"start": np.random.default_rng(8).normal(size=(60, 2))},
        {"start": np.asfortranarray(np.random.default_rng(8).normal(size=(60, 2)))},
        {"metric": "seuclidean", "metric_params": {"V": np.array([1.0, 4.0, 0.25])}},
        {"metric": "minkowski", "metric_params": {"p": 3}},
        {"n_components": np.int64(2), "tol": np.float32(0.01), "calibrate": np.bool_(True)},
        {"frame_size": 2.5, "shortcuts": False, "max_iter": 7, "tol": 5e-324},
        {"random_state": np.random.RandomState(12)},
    ],
    ids=lambda parameters: "-".join(parameters),
)
def test_parameters(tmp_path, features, parameters):
    model = IsometricEmbedding(n_neighbors=9).set_params(**parameters)
    save(model, tmp_path / "new")
    assert_same(load(tmp_path / "new").get_params(), model.get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seven steps are not enough
        model.fit(features)
    save(model, tmp_path / "fitted")
    found = load(tmp_path / "fitted")
    assert_same(found.get_params(), model.get_params())
    assert_same(fitted_parts(found), fitted_parts(model))


def test_functions_are_refused_by_name(tmp_path):
    def distance(a, b):
        return abs(a - b).sum()

    with pytest.raises(
        TypeError, match=r"parameter metric is a function and cannot be stored.*set_params\(metr"
    ):
        save(IsometricEmbedding(metric=distance), tmp_path / "model")
    with pytest.raises(TypeError, match=r"parameter metric_params\.f is a function"):
        save(IsometricEmbedding(metric_params={"f": distance}), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_callback_is_left_out_with_a_warning(tmp_path, features):
    model = IsometricEmbedding(n_neighbors=8, callback=lambda state: None).fit(features)
    with pytest.warns(UserWarning, match="callback is not saved; give it again after loading"):
        save(model, tmp_path / "model")
    assert load(tmp_path / "model").callback is None


def test_attributes_a_class_declares(tmp_path, features):
    class Model(IsometricEmbedding):
        _stored_attributes_ = ("_training",)

        def _check_stored_(self):
            if hasattr(self, "_training") and len(self._training) != len(self.embedding_):
                raise ValueError("_training: wrong number of rows")

    model = Model(n_neighbors=8).fit(features)
    model._training, model._cache, model.extra_ = features, object(), {"list": [1, (2.5, None)], "s": "é"}
    save(model, tmp_path / "model")
    found = load_estimator(Model, tmp_path / "model")
    assert type(found) is Model
    assert_same(found._training, features)
    assert_same(found.extra_, model.extra_)
    assert not hasattr(found, "_cache")
    with pytest.raises(StoreError, match=r"scalars\.class: must be 'IsometricEmbedding', found 'Model'"):
        load(tmp_path / "model")
    model._training = features[:5]
    save(model, tmp_path / "model")
    with pytest.raises(StoreError, match=r"_training: wrong number of rows"):
        load_estimator(Model, tmp_path / "model")
    model.extra_ = object()
    with pytest.raises(TypeError, match="extra_ is of type object and cannot be stored"):
        save(model, tmp_path / "model")


def graph():
    return NeighborGraph(
        np.array([0, 1, 3, 4], dtype=np.int32),
        np.array([1, 0, 2, 1], dtype=np.int32),
        np.array([0.5, 0.5, 0.0, 0.0]),
    )


VALUES = {
    "none": None,
    "numbers": [0, -1, 2**70, True, False, 0.1, -0.0, 5e-324, 1.7976931348623157e308],
    "not finite": [float("nan"), float("inf"), float("-inf")],
    "text": ["", "é\n\0\ud800", "$type"],
    "nested": {"a": [(), (1, [2, (3,)]), {}], "b": {"c": None}},
    "numpy scalars": [np.int8(-3), np.uint64(2**64 - 1), np.float16(0.1), np.float32("nan"), np.bool_(False)],
    "empty": [
        np.empty((0, 2), np.int32),
        np.empty((3, 0)),
        np.array([], dtype=object),
        np.array([], dtype=str),
    ],
    "scalar array": np.array(3.5),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": np.arange(20)[::3],
    "bits": np.array([np.nan, -np.nan, -0.0, np.inf]),
    "dtypes": [np.arange(3).astype(code) for code in "?bBhHiIlLqQefdFD"],
    "strings": [np.array(["a", "", "long é"]), np.array([["x\0", "\ud800"]], dtype=object)],
    "sparse": [
        sp.random(5, 4, 0.5, "csr", random_state=3),
        sp.csc_array(np.eye(3)),
        sp.coo_array(([1.0, 0.0], ([0, 1], [1, 1])), shape=(2, 9)),
        sp.csr_array((3, 3)),
    ],
    "graph": graph(),
    "history": (StepRecord(0, 2.0, float("nan"), 0.0), StepRecord(1, 1.0, 0.1, 1.0)),
    "no history": (),
    "step": [StepRecord(3, 1.0, 0.5, 0.25)],
}


@pytest.mark.parametrize("name", VALUES)
def test_values(tmp_path, name):
    encoder = Encoder()
    encoded = encoder.encode(VALUES[name], "value")
    write_store(tmp_path / "s", "example", scalars={"value": encoded}, arrays=encoder.arrays)
    for mmap in (False, True):
        store = read_store(tmp_path / "s", mmap=mmap)
        found = Decoder(store.path, store.arrays).decode(store.scalars["value"], "value")
        if name == "strided":
            assert found.tolist() == VALUES[name].tolist()
        else:
            assert_same(found, VALUES[name])


def test_wide_indices_stay_wide(tmp_path):
    matrix = sp.csr_array(np.eye(4))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    encoder = Encoder()
    encoded = encoder.encode(matrix, "m")
    found = Decoder(tmp_path, encoder.arrays).decode(encoded, "m")
    assert found.indices.dtype == found.indptr.dtype == np.int64


def test_big_endian_arrays_become_little(tmp_path):
    write_store(tmp_path / "s", "example", arrays={"x": np.arange(5, dtype=">f8")})
    found = read_store(tmp_path / "s").arrays["x"]
    assert found.dtype == np.float64
    assert found.tolist() == [0, 1, 2, 3, 4]


def test_files_open_with_numpy(tmp_path):
    arrays = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.array(True),
        "c": np.empty((0, 3)),
    }
    write_store(tmp_path / "s", "example", arrays=arrays)
    for name, array in arrays.items():
        assert_same(np.load(tmp_path / "s" / f"{name}.npy", allow_pickle=False), array)


def test_an_array_met_twice_is_kept_once():
    shared = np.arange(6.0)
    encoder = Encoder()
    encoder.encode({"a": shared, "b": shared, "part": shared[:3], "copy": shared.copy()}, "value")
    assert sorted(encoder.arrays) == ["value.a", "value.copy", "value.part"]


def test_an_array_met_often_is_kept_again(tmp_path):
    """A reader does not follow more than eight references to one array."""
    shared = np.arange(6.0)
    encoder = Encoder()
    encoded = encoder.encode([shared] * 20, "value")
    assert len(encoder.arrays) == 3
    assert_same(Decoder(tmp_path, encoder.arrays).decode(encoded, "value"), [shared] * 20)


def test_names_of_arrays_never_clash():
    encoder = Encoder()
    values = {"x": np.zeros(1), "X": np.ones(1), "a/b": np.zeros(2), "a_b": np.zeros(3), "é": np.zeros(4)}
    encoder.encode(values, "")
    assert len(encoder.arrays) == len({name.lower() for name in encoder.arrays}) == 5


def test_the_same_contents_give_the_same_bytes(tmp_path, embedding):
    for name in ("a", "b"):
        save(embedding, tmp_path / name)
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert files == sorted(file.name for file in (tmp_path / "b").iterdir())
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"bytes", "value is of type bytes"),
        ({1: 2}, r"value has the key 1"),
        ({"$type": "array"}, r"value has the key '\$type'"),
        ([{"x": {1, 2}}], r"value\.0\.x is of type set"),
        (np.array([1, None], dtype=object), "value is an array of objects, 1 among them"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "value is an array of datetime64"),
        (np.zeros(2, dtype=[("a", "f8")]), "value is an array of"),
        (np.zeros(2, dtype=np.longdouble), "value is an array of"),
        (np.complex128(1j), "value is a numpy scalar of type complex128"),
        (sp.lil_array((2, 2)), "value is a sparse lil_array"),
        (np.random.default_rng(3), "value is of type Generator"),
        (len, "value is a function"),
    ],
)
def test_what_cannot_be_stored(value, message):
    with pytest.raises(TypeError, match=message):
        Encoder().encode(value, "value")


def test_limits_of_what_can_be_stored(tmp_path):
    deep = []
    for _ in range(20):
        deep = [deep]
    with pytest.raises(ValueError, match="nested more than 12 levels deep"):
        Encoder().encode(deep, "value")
    with pytest.raises(ValueError, match="an integer of 3001 bits"):
        Encoder().encode(2**3000, "value")
    with pytest.raises(ValueError, match="one of 20000 strings has 300 characters"):
        Encoder().encode(np.array(["x" * 300] + [""] * 19_999), "value")
    with pytest.raises(ValueError, match="more than the 4,194,304 bytes"):
        write_store(tmp_path / "s", "example", scalars={"x": "y" * (5 << 20)})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_store(tmp_path / "s", "example", scalars={"x": float("nan")})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_store(tmp_path / "s", "example", scalars={"x": object()})
    with pytest.raises(
        TypeError, match="array 'x' must be a numpy array of plain numbers or booleans, got object"
    ):
        write_store(tmp_path / "s", "example", arrays={"x": np.array([None])})
    with pytest.raises(
        TypeError, match="array 'x' must be a numpy array of plain numbers or booleans, got list"
    ):
        write_store(tmp_path / "s", "example", arrays={"x": [1]})
    for name in ("", "a/b", "../a", ".hidden", "é", "x" * 200):
        with pytest.raises(ValueError, match="an array's name must be"):
            write_store(tmp_path / "s", "example", arrays={name: np.zeros(1)})
    with pytest.raises(ValueError, match="arrays 'x' and 'X' would share a file"):
        write_store(tmp_path / "s", "example", arrays={"x": np.zeros(1), "X": np.zeros(1)})
    with pytest.raises(ValueError, match="kind must be lower-case"):
        write_store(tmp_path / "s", "Example")
    assert list(tmp_path.iterdir()) == []


def test_save_refuses_other_things(tmp_path):
    for value in (np.zeros(3), {}, IsometricEmbedding):
        with pytest.raises(TypeError, match="save takes an Embedding or an IsometricEmbedding, got"):
            save(value, tmp_path / "x")


def test_load_refuses_other_things(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(2))
    with pytest.raises(StoreError, match=r"x\.npz: is a file; a store is a folder"):
        load(tmp_path / "x.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"empty: manifest\.json: file manifest\.json is missing"):
        load(tmp_path / "empty")
    write_store(tmp_path / "s", "checkpoint")
    with pytest.raises(StoreError, match="kind: 'checkpoint' is not a kind that load returns"):
        load(tmp_path / "s")
    with pytest.raises(StoreError, match="kind: must be 'estimator', found 'checkpoint'"):
        load_estimator(IsometricEmbedding, tmp_path / "s")


class TestWhereAStoreGoes:
    def test_only_a_store_is_replaced(self, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        write_store(folder, "example")  # empty
        write_store(folder, "example")  # a store
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(OSError, match=r"holds notes\.txt; only a store is replaced"):
            write_store(folder, "example")
        (folder / "notes.txt").unlink()
        (folder / "sub.npy").mkdir()
        with pytest.raises(OSError, match=r"holds sub\.npy; only a store"):
            write_store(folder, "example")
        (folder / "sub.npy").rmdir()
        (folder / "manifest.json").write_text('{"format": "something else"}')
        with pytest.raises(OSError, match=r"has no manifest\.json of a store"):
            write_store(folder, "example")
        assert (folder / "manifest.json").exists()

    def test_arrays_of_a_user_are_not_a_store(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros(3))
        with pytest.raises(OSError, match=r"has no manifest\.json of a store"):
            write_store(tmp_path, "example")

    def test_damaged_stores_are_replaced(self, tmp_path):
        path = tmp_path / "s"
        write_store(path, "example", arrays={"x": np.zeros(3)})
        (path / "x.npy").write_text("")
        (path / "manifest.sha256").unlink()
        write_store(path, "example", scalars={"a": 1})
        assert read_store(path).scalars == {"a": 1}

    def test_a_file_is_not_replaced(self, tmp_path):
        (tmp_path / "x").write_text("mine")
        with pytest.raises(OSError, match="a file has that name; a store is a folder"):
            write_store(tmp_path / "x", "example")

    def test_missing_parents_and_long_names(self, tmp_path):
        with pytest.raises(OSError, match="folder .*none does not exist"):
            write_store(tmp_path / "none" / "s", "example")
        with pytest.raises(OSError, match="the name is too long"):
            write_store(tmp_path / ("x" * 300), "example")
        with pytest.raises(OSError, match="a store needs a name"):
            write_store("/", "example")
        write_store(tmp_path / ("é" * 120), "example")
        write_store(tmp_path / ("é" * 120), "example")
        assert len(list(tmp_path.iterdir())) == 1

    def test_links_keep_pointing(self, tmp_path):
        write_store(tmp_path / "real", "example", scalars={"a": 1})
        (tmp_path / "link").symlink_to("real")
        write_store(tmp_path / "link", "example", scalars={"a": 2})
        assert (tmp_path / "link").is_symlink()
        assert read_store(tmp_path / "real").scalars == read_store(tmp_path / "link").scalars == {"a": 2}

    def test_permissions(self, tmp_path):
        old = os.umask(0o027)
        try:
            write_store(tmp_path / "s", "example", arrays={"x": np.zeros(2)})
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o750
            assert stat.S_IMODE((tmp_path / "s" / "x.npy").stat().st_mode) == 0o640
            (tmp_path / "s").chmod(0o705)
            write_store(tmp_path / "s", "example")
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o705
        finally:
            os.umask(old)

    def test_write_protection_is_kept(self, tmp_path, monkeypatch):
        write_store(tmp_path / "s", "example")
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do anything
        with pytest.raises(OSError, match="the store is write-protected"):
            write_store(tmp_path / "s", "example")
