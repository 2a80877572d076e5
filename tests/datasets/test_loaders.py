"""Loaders on tiny files of the expected layout, and on the real folder where ISOWEAVE_DATA names one."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets

from isoweave import datasets
from isoweave.datasets import DATA_VARIABLE, MESHES, ROADS, DatasetMissingError, data_path
from isoweave.metrics import local_distance

RNG = np.random.default_rng(12)
Y = np.array([0, 1, 0, 1, 1], dtype=np.int16)
NAMES = np.array(["left", "right"])
COUNTS = {"counts": RNG.integers(0, 9, (5, 3)).astype(np.uint16), "total_counts": np.full(5, 1000)}
IMAGES = {"X": RNG.integers(0, 256, (5, 4, 4)).astype(np.uint8), "y": Y.astype(np.uint8)}
# loader -> file and the arrays it holds
FEATURES = {
    datasets.load_mnist: ("mnist_test", IMAGES),
    datasets.load_fashion_mnist: ("fashion_mnist_test", IMAGES),
    datasets.load_faces: (
        "isomap_faces_32",
        {"X": RNG.integers(0, 65536, (5, 4, 4)).astype(np.uint16), "pose": RNG.normal(size=(5, 3))},
    ),
    datasets.load_coil20: ("coil20_32", IMAGES | {"angle_deg": np.arange(0, 25, 5, dtype=np.int16)}),
    datasets.load_mammoth: ("mammoth_50k", {"X": RNG.normal(size=(5, 3)).astype(np.float32)}),
    datasets.load_world_cities: (
        "world_cities",
        {"lat": np.linspace(-80, 80, 5), "lon": np.linspace(-170, 170, 5), "y": Y, "y_names": NAMES},
    ),
    datasets.load_tcga: (
        "tcga_pancan11_rnaseq",
        {
            "X100": np.array([[-350, 100, 250]] * 5, dtype=np.int16),
            "y": Y,
            "y_names": NAMES,
            "tumour": np.array([0, 0, 1, 1, 0]),
        },
    ),
    datasets.load_tcga_lusc: (
        "tcga_lusc_rnaseq",
        {"X": RNG.normal(size=(5, 3)).astype(np.float32), "y": Y, "y_names": NAMES},
    ),
    datasets.load_pbmc3k: (
        "pbmc3k",
        {
            "data": np.array([1.0, 2.0, 3.0], dtype=np.float32),
            "indices": np.array([2, 0, 1], dtype=np.uint16),
            "indptr": np.array([0, 1, 1, 3, 3, 3], dtype=np.int32),
            "shape": np.array([5, 3]),
            "y": Y,
            "y_names": NAMES,
        },
    ),
    datasets.load_pbmc68k: ("pbmc68k_reduced", {"logX": RNG.normal(size=(5, 3)), "y": Y, "y_names": NAMES}),
    datasets.load_lungline_cells: (
        "lungline_5cl_celseq2",
        COUNTS | {"y": Y, "y_names": NAMES, "doublet": np.array([False, True, False, False, True])},
    ),
    datasets.load_lungline_mixtures: ("lungline_rnamix", COUNTS | {"props": np.eye(5, 3), "y": Y}),
}
SQUARE = {"V": np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=np.float32)}
GRAPHS = {
    datasets.load_road: (
        "road_oldenburg",
        {
            "indptr": np.array([0, 1, 2]),
            "indices": np.array([1, 0]),
            "data": np.array([5.0, 5.0], dtype=np.float32),
            "coords": np.array([[0, 0], [3, 4]], dtype=np.float32),
        },
    ),
    datasets.load_mesh: ("mesh_camelhead", SQUARE | {"F": np.array([[0, 1, 2], [0, 2, 3]], dtype=np.int32)}),
    datasets.load_city_miles: (
        "miles_128cities",
        {
            "D": np.array([[0, 100, 900], [100, 0, 850], [900, 850, 0]], dtype=np.int16),
            "lat": np.array([40.0, 41.0, 45.0]),
            "lon": np.array([-80.0, -81.0, -95.0]),
            "names": np.array(["A", "B", "C"]),
        },
    ),
    datasets.load_protein: (
        "nmr_ns1_noe",
        {
            "i": np.array([0, 1, 2]),
            "j": np.array([1, 0, 1]),
            "d": np.array([3.0, 2.5, 4.0], dtype=np.float32),
            "node_resid": np.array([1, 1, 2]),
            "node_name": np.array(["HA", "HB*", "HN"]),
            "node_coords": np.eye(3),
        },
    ),
}
ALL = FEATURES | GRAPHS


@pytest.fixture
def folder(tmp_path):
    for name, arrays in ALL.values():
        np.savez_compressed(tmp_path / f"{name}.npz", **arrays)
    return tmp_path


@pytest.mark.parametrize("loader", FEATURES)
def test_features_from_a_folder(loader, folder, monkeypatch):
    sample = loader(data_home=folder)
    assert sample.data.dtype == np.float64
    assert len(sample.data) == sample.n_samples == 5
    assert np.isfinite(sample.data).all()
    assert sample.labels is None or sample.labels.shape == (5,)
    assert sample.parameters is None or len(sample.parameters) == 5
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    np.testing.assert_array_equal(loader().data, sample.data)


@pytest.mark.parametrize("loader", GRAPHS)
def test_graphs_from_a_folder(loader, folder):
    sample = loader(data_home=str(folder))
    assert (sample.graph != sample.graph.T).nnz == 0
    assert len(sample.truth) == sample.n_vertices
    assert len(sample.anchors) == 0


def test_values(folder):
    home = {"data_home": folder}
    images = datasets.load_mnist(**home)
    np.testing.assert_allclose(images.data[3], IMAGES["X"][3].ravel() / 255.0)
    assert (images.name, images.label_names[7]) == ("mnist_test", "7")
    np.testing.assert_array_equal(datasets.load_tcga(**home).data[0], [-2.0, 1.0, 2.5])
    np.testing.assert_array_equal(datasets.load_tcga(**home).labels, [0, 2, 1, 3, 2])
    assert datasets.load_tcga(**home).label_names[3] == "right tumour"
    np.testing.assert_array_equal(datasets.load_tcga(tumour=False, **home).labels, Y)
    np.testing.assert_array_equal(datasets.load_pbmc3k(**home).data[2], [2.0, 3.0, 0.0])
    cells = datasets.load_lungline_cells(**home)
    np.testing.assert_allclose(cells.data, np.log1p(COUNTS["counts"] * 10.0))
    assert datasets.load_lungline_cells(doublets=False, **home).n_samples == 3
    cities = datasets.load_world_cities(**home)
    np.testing.assert_allclose(np.linalg.norm(cities.data, axis=1), 6371.0)
    np.testing.assert_allclose(np.degrees(np.arcsin(cities.data[:, 2] / 6371.0)), cities.parameters[:, 0])


def test_graph_values(folder):
    home = {"data_home": folder}
    mesh = datasets.load_mesh(**home)
    assert mesh.graph.nnz == 10  # 5 edges, the diagonal once
    assert mesh.graph[0, 2] == pytest.approx(np.sqrt(2.0))
    assert local_distance(datasets.load_road(**home).graph, datasets.load_road(**home).truth) < 1e-12
    near = datasets.load_city_miles(max_miles=500, **home)
    assert near.graph.nnz == 2
    assert near.vertex_names == ("A", "B", "C")
    # One degree north and one west at 40.5 degrees: sqrt(69.1^2 + (69.1 cos 40.5)^2) miles.
    assert np.linalg.norm(near.truth[0] - near.truth[1]) == pytest.approx(86.8, rel=0.01)
    protein = datasets.load_protein(**home)
    assert (protein.graph[0, 1], protein.graph[1, 2]) == (2.5, 4.0)
    assert protein.vertex_names[1] == "1 HB*"


@pytest.mark.parametrize("loader", ALL)
def test_missing_files_say_where_and_what(loader, tmp_path, monkeypatch):
    file = f"{ALL[loader][0]}.npz"
    with pytest.raises(
        DatasetMissingError, match=f"(?s)Looked for .*{file}: it is not there.*{DATA_VARIABLE}"
    ):
        loader(data_home=tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        loader(data_home=tmp_path / "nowhere")
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(DatasetMissingError, match=f"{file} is needed.*set the environment variable"):
        loader()
    monkeypatch.setenv(DATA_VARIABLE, "")
    with pytest.raises(DatasetMissingError, match="no data folder is known"):
        loader()


def test_wrong_contents(tmp_path):
    np.savez(tmp_path / "mnist_test.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match="has no array 'X' .it has images."):
        datasets.load_mnist(data_home=tmp_path)
    np.savez(tmp_path / "mammoth_50k.npz", X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        datasets.load_mammoth(data_home=tmp_path)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda home: datasets.load_mnist("valid", data_home=home), '"test" or "train", got \'valid\''),
        (lambda home: datasets.load_fashion_mnist("", data_home=home), '"test" or "train"'),
        (lambda home: datasets.load_road("bunny", data_home=home), "oldenburg, .* got 'bunny'"),
        (lambda home: datasets.load_mesh("cow", data_home=home), "camelhead, .* got 'cow'"),
        (lambda home: datasets.load_city_miles(max_miles=0, data_home=home), "must be positive, got 0"),
    ],
)
def test_bad_arguments(call, match, folder):
    with pytest.raises(ValueError, match=match):
        call(folder)


def test_fetch_only_when_asked_and_missing(folder, tmp_path_factory, monkeypatch):
    calls = []

    def fake(name, **options):
        calls.append(name)
        pixels = np.repeat(np.arange(60_003)[:, None] % 256, 4, axis=1)
        return SimpleNamespace(data=pixels, target=np.array([str(i % 10) for i in range(60_003)]))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
    assert datasets.load_mnist(data_home=folder, fetch=True).n_samples == 5
    assert calls == []
    empty = tmp_path_factory.mktemp("empty")
    test = datasets.load_mnist(data_home=empty, fetch=True)
    np.testing.assert_array_equal(test.labels, [0, 1, 2])
    assert datasets.load_fashion_mnist("train", data_home=empty, fetch=True).n_samples == 60_000
    assert calls == ["mnist_784", "Fashion-MNIST"]


def test_digits_are_always_there():
    digits = datasets.load_digits()
    assert digits.data.shape == (1797, 64)
    assert digits.data.max() == 1.0
    assert np.bincount(digits.labels).min() > 170


real = pytest.mark.skipif(
    not os.environ.get(DATA_VARIABLE), reason=f"{DATA_VARIABLE} is not set: no real data to read"
)
SHAPES = {
    datasets.load_mnist: (10_000, 784, 10),
    datasets.load_fashion_mnist: (10_000, 784, 10),
    datasets.load_faces: (698, 1024, 0),
    datasets.load_coil20: (1440, 1024, 20),
    datasets.load_mammoth: (50_000, 3, 0),
    datasets.load_world_cities: (144_563, 3, 246),
    datasets.load_tcga: (1204, 3341, 22),
    datasets.load_tcga_lusc: (518, 391, 2),
    datasets.load_pbmc3k: (2638, 2000, 9),
    datasets.load_pbmc68k: (700, 765, 10),
    datasets.load_lungline_cells: (909, 12_058, 5),
    datasets.load_lungline_mixtures: (636, 11_049, 7),
}


def _skip_if_missing(loader, *arguments):
    try:
        return loader(*arguments)
    except DatasetMissingError as error:
        pytest.skip(str(error))


@real
@pytest.mark.parametrize("loader", SHAPES)
def test_real_features(loader):
    n, width, classes = SHAPES[loader]
    sample = _skip_if_missing(loader)
    assert sample.data.shape == (n, width)
    assert np.isfinite(sample.data).all()
    if classes:
        assert len(np.unique(sample.labels)) == classes
        assert sample.label_names is None or len(sample.label_names) == classes


@real
@pytest.mark.parametrize("name", ROADS)
def test_real_roads(name):
    road = _skip_if_missing(datasets.load_road, name)
    assert (road.graph != road.graph.T).nnz == 0
    # Straight lines, except in Helsinki: lengths along the road are never shorter than the map's.
    error = local_distance(road.graph, road.truth)
    assert error < (0.03 if name == "helsinki_osm" else 1e-6)


@real
@pytest.mark.parametrize("name", [name for name in MESHES if name != "dragon"])
def test_real_meshes(name):
    mesh = _skip_if_missing(datasets.load_mesh, name)
    assert mesh.graph.data.min() > 0.0
    assert len(mesh.faces) > mesh.n_vertices


@real
def test_real_cities_and_protein():
    cities = _skip_if_missing(datasets.load_city_miles)
    i, j = np.triu_indices(128, k=1)
    straight = np.linalg.norm(cities.truth[i] - cities.truth[j], axis=1)
    assert np.median(cities.graph.toarray()[i, j] / straight) == pytest.approx(1.22, abs=0.02)
    assert _skip_if_missing(datasets.load_protein).graph.nnz == 2 * 491
    assert data_path("miles_128cities.npz") == Path(os.environ[DATA_VARIABLE]) / "miles_128cities.npz"
