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
from reference_data import N, tables, write_folder

FILES = tables()
# Loader -> its file, and samples, features and classes of the real one.
FEATURES = {
    datasets.load_mnist: ("mnist_test", 10_000, 784, 10),
    datasets.load_fashion_mnist: ("fashion_mnist_test", 10_000, 784, 10),
    datasets.load_faces: ("isomap_faces_32", 698, 1024, 0),
    datasets.load_coil20: ("coil20_32", 1440, 1024, 20),
    datasets.load_mammoth: ("mammoth_50k", 50_000, 3, 0),
    datasets.load_world_cities: ("world_cities", 144_563, 3, 246),
    datasets.load_tcga: ("tcga_pancan11_rnaseq", 1204, 3341, 22),
    datasets.load_tcga_lusc: ("tcga_lusc_rnaseq", 518, 391, 2),
    datasets.load_pbmc3k: ("pbmc3k", 2638, 2000, 9),
    datasets.load_pbmc68k: ("pbmc68k_reduced", 700, 765, 10),
    datasets.load_lungline_cells: ("lungline_5cl_celseq2", 909, 12_058, 5),
    datasets.load_lungline_mixtures: ("lungline_rnamix", 636, 11_049, 7),
}
GRAPHS = {
    datasets.load_road: "road_oldenburg",
    datasets.load_mesh: "mesh_camelhead",
    datasets.load_city_miles: "miles_128cities",
    datasets.load_protein: "nmr_ns1_noe",
}
LOADERS = {loader: found[0] for loader, found in FEATURES.items()} | GRAPHS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("loader", FEATURES)
def test_features_from_a_folder(loader, folder, monkeypatch):
    sample = loader(data_home=folder)
    assert sample.data.dtype == np.float64
    assert len(sample.data) == sample.n_samples == N
    assert np.isfinite(sample.data).all()
    assert sample.labels is None or sample.labels.shape == (N,)
    assert sample.parameters is None or len(sample.parameters) == N
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
    np.testing.assert_allclose(images.data[3], FILES["mnist_test"]["X"][3].ravel() / 255.0)
    assert (images.name, images.label_names[7]) == ("mnist_test", "7")
    file, tcga = FILES["tcga_pancan11_rnaseq"], datasets.load_tcga(**home)
    assert file["X100"].min() < -200
    np.testing.assert_array_equal(tcga.data, np.maximum(file["X100"] / 100, -2.0))
    np.testing.assert_array_equal(tcga.labels, 2 * file["y"] + file["tumour"])
    assert tcga.label_names[3] == "b tumour"
    np.testing.assert_array_equal(datasets.load_tcga(tumour=False, **home).labels, file["y"])
    np.testing.assert_array_equal(datasets.load_pbmc3k(**home).data[6], [0.0, 0.0, 7.0, 0.0])
    file, cells = FILES["lungline_5cl_celseq2"], datasets.load_lungline_cells(**home)
    np.testing.assert_allclose(cells.data, np.log1p(1e4 * file["counts"] / file["total_counts"][:, None]))
    singles = datasets.load_lungline_cells(doublets=False, **home)
    np.testing.assert_array_equal(singles.data, cells.data[:120])
    np.testing.assert_array_equal(singles.labels, cells.labels[:120])
    cities = datasets.load_world_cities(**home)
    np.testing.assert_allclose(np.linalg.norm(cities.data, axis=1), 6371.0)
    np.testing.assert_allclose(np.degrees(np.arcsin(cities.data[:, 2] / 6371.0)), cities.parameters[:, 0])


def test_graph_values(folder):
    home = {"data_home": folder}
    mesh = datasets.load_mesh(**home)
    # Edges of a grid of 14 x 14 and one diagonal of every square, each stored twice.
    assert mesh.graph.nnz == 2 * (2 * 14 * 13 + 13**2)
    assert mesh.graph[0, 1] == pytest.approx(np.linalg.norm(mesh.truth[0] - mesh.truth[1]))
    road = datasets.load_road(**home)
    assert local_distance(road.graph, road.truth) < 1e-12
    near, all_pairs = datasets.load_city_miles(max_miles=500, **home), datasets.load_city_miles(**home)
    assert all_pairs.graph.nnz == 40 * 39
    assert near.graph.nnz == np.count_nonzero(all_pairs.graph.data <= 500) > 0
    assert near.vertex_names[2] == "city 2"
    # Great circles, which the projection keeps to a few per cent this far from its middle.
    lat, lon = (np.radians(FILES["miles_128cities"][name]) for name in ("lat", "lon"))
    cosines = np.outer(np.cos(lat), np.cos(lat)) * np.cos(lon[:, None] - lon) + np.outer(
        np.sin(lat), np.sin(lat)
    )
    i, j = np.triu_indices(40, k=1)
    straight = np.linalg.norm(near.truth[i] - near.truth[j], axis=1)
    np.testing.assert_allclose(straight, 3958.8 * np.arccos(cosines[i, j]), rtol=0.02)
    protein = datasets.load_protein(**home)
    assert (protein.graph[0, 1], protein.graph[1, 2]) == (2.5, 4.0)
    assert protein.vertex_names[1] == "1 HB*"


@pytest.mark.parametrize("loader", LOADERS)
def test_missing_files_say_where_and_what(loader, tmp_path, monkeypatch):
    file = f"{LOADERS[loader]}.npz"
    with pytest.raises(
        DatasetMissingError, match=f"(?s)Looked for .*{file}: it is not there.*{DATA_VARIABLE}"
    ):
        loader(data_home=tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        loader(data_home=tmp_path / "nowhere")
    monkeypatch.setenv(DATA_VARIABLE, "")
    with pytest.raises(DatasetMissingError, match="no data folder is known"):
        loader()
    monkeypatch.delenv(DATA_VARIABLE)
    with pytest.raises(DatasetMissingError, match=f"{file} is needed.*set the environment variable"):
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
        (lambda home: datasets.load_mnist("valid", data_home=home), "'test', 'train', got 'valid'"),
        (lambda home: datasets.load_fashion_mnist("", data_home=home), "'test', 'train', got ''"),
        (lambda home: datasets.load_road("bunny", data_home=home), "'oldenburg', .* got 'bunny'"),
        (lambda home: datasets.load_mesh("cow", data_home=home), "'camelhead', .* got 'cow'"),
        (lambda home: datasets.load_city_miles(max_miles=0, data_home=home), "max_miles must .* > 0, got 0"),
    ],
)
def test_bad_arguments(call, match, folder):
    with pytest.raises(ValueError, match=match):
        call(folder)


def test_fetch_only_when_asked_and_missing(folder, tmp_path, monkeypatch):
    calls = []

    def fake(name, **options):
        calls.append(name)
        pixels = np.repeat(np.arange(60_003)[:, None] % 256, 4, axis=1)
        return SimpleNamespace(data=pixels, target=np.array([str(i % 10) for i in range(60_003)]))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake)
    assert datasets.load_mnist(data_home=folder, fetch=True).n_samples == N
    assert calls == []
    test = datasets.load_mnist(data_home=tmp_path, fetch=True)
    np.testing.assert_array_equal(test.labels, [0, 1, 2])
    assert datasets.load_fashion_mnist("train", data_home=tmp_path, fetch=True).n_samples == 60_000
    assert calls == ["mnist_784", "Fashion-MNIST"]


def test_digits_are_always_there():
    digits = datasets.load_digits()
    assert digits.data.shape == (1797, 64)
    assert digits.data.max() == 1.0
    assert np.bincount(digits.labels).min() > 170


real = pytest.mark.skipif(
    not os.environ.get(DATA_VARIABLE), reason=f"{DATA_VARIABLE} is not set: no real data to read"
)


def load_real(loader, *arguments):
    try:
        return loader(*arguments)
    except DatasetMissingError as error:
        pytest.skip(str(error))


@real
@pytest.mark.parametrize("loader", FEATURES)
def test_real_features(loader):
    _, n, width, classes = FEATURES[loader]
    sample = load_real(loader)
    assert sample.data.shape == (n, width)
    assert np.isfinite(sample.data).all()
    if classes:
        assert len(np.unique(sample.labels)) == classes
        assert sample.label_names is None or len(sample.label_names) == classes


@real
@pytest.mark.parametrize("name", ROADS)
def test_real_roads(name):
    road = load_real(datasets.load_road, name)
    assert (road.graph != road.graph.T).nnz == 0
    # Straight lines, except in Helsinki: lengths along the road are never shorter than the map's.
    assert local_distance(road.graph, road.truth) < (0.03 if name == "helsinki_osm" else 1e-6)


@real
@pytest.mark.parametrize("name", [name for name in MESHES if name != "dragon"])
def test_real_meshes(name):
    mesh = load_real(datasets.load_mesh, name)
    assert mesh.graph.data.min() > 0.0
    assert len(mesh.faces) > mesh.n_vertices


@real
def test_real_cities_and_protein():
    cities = load_real(datasets.load_city_miles)
    i, j = np.triu_indices(128, k=1)
    straight = np.linalg.norm(cities.truth[i] - cities.truth[j], axis=1)
    assert np.median(cities.graph.toarray()[i, j] / straight) == pytest.approx(1.22, abs=0.02)
    assert load_real(datasets.load_protein).graph.nnz == 2 * 491
    assert data_path("miles_128cities.npz") == Path(os.environ[DATA_VARIABLE]) / "miles_128cities.npz"
