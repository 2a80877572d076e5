"""Generators; loaders on tiny files of the expected layout, and on the real ones where they are."""

from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import sklearn.datasets
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist, pdist

from isoweave import datasets
from isoweave.datasets import DATA_VARIABLE, DatasetMissingError, add_shortcuts, sensor_network, swiss_roll
from isoweave.graph import geodesics, knn_graph
from isoweave.metrics import local_distance
from reference_data import N, tables, write_folder

GENERATORS = {
    swiss_roll: (3, 2),
    datasets.s_curve: (3, 2),
    datasets.sphere: (3, 3),
    datasets.flat_torus: (4, 2),
    datasets.klein_bottle: (3, 2),
    datasets.difficult: (10, 5),
}


@pytest.mark.parametrize("generator", GENERATORS)
def test_common_contract(generator):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = generator(50, random_state=3)
    assert first.name == generator.__name__
    width, depth = GENERATORS[generator]
    assert (first.data.shape, first.parameters.shape) == ((50, width), (50, depth))
    assert first.labels is None
    assert first.truth is (first.parameters if generator in (swiss_roll, datasets.s_curve) else None)
    assert first.data.dtype == first.parameters.dtype == np.float64
    np.testing.assert_array_equal(first.data, generator(50, random_state=3).data)
    assert not np.array_equal(generator(50).data, generator(50).data)
    assert generator().n_samples == 1500
    # numpy's global generator is left alone; noise moves points and keeps parameters.
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    clean, noisy = generator(3000, random_state=5), generator(3000, noise=0.3, random_state=5)
    np.testing.assert_array_equal(clean.parameters, noisy.parameters)
    assert np.std(noisy.data - clean.data) == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("generator", [swiss_roll, datasets.s_curve])
def test_scikit_learns_points_and_an_isometric_truth(generator):
    theirs, _ = getattr(sklearn.datasets, f"make_{generator.__name__}")(80, random_state=6)
    np.testing.assert_allclose(generator(80, random_state=6).data, theirs, rtol=1e-13)
    sample = generator(8_000, random_state=7)
    i, j = cKDTree(sample.truth).query_pairs(0.01 * np.ptp(sample.truth), output_type="ndarray").T
    chord, along = (np.linalg.norm(x[i] - x[j], axis=1) for x in (sample.data, sample.truth))
    assert len(i) > 1000
    # A chord falls short of its arc by at most (arc / radius)^2 / 24.
    assert np.all(chord <= along * (1.0 + 1e-9))
    assert np.min(chord / along) > 0.995


def test_formulas():
    sample = datasets.flat_torus(100, random_state=8)
    angles = np.arctan2(sample.data[:, 1::2], sample.data[:, ::2]) % (2 * np.pi)
    np.testing.assert_allclose(angles, sample.parameters)
    radii = np.hypot(sample.data[:, ::2], sample.data[:, 1::2])
    np.testing.assert_allclose(radii - [2.0, 1.0], 0.0, atol=1e-14)
    # Each circle of constant u lies about the centre curve at radius 4 (1 - cos(u) / 2).
    sample = datasets.klein_bottle(400, random_state=9)
    u, _ = sample.parameters.T
    assert 100 < (u <= np.pi).sum() < 300
    centre = np.column_stack([6 * np.cos(u) * (1 + np.sin(u)), 16 * np.sin(u), np.zeros(400)])
    np.testing.assert_allclose(np.linalg.norm(sample.data - centre, axis=1), 4 * (1 - 0.5 * np.cos(u)))
    ball = datasets.sphere(60, radius=2.5, random_state=2).data
    np.testing.assert_allclose(np.linalg.norm(ball, axis=1), 2.5)
    sample = datasets.difficult(60, random_state=2)
    assert 0.0 <= sample.parameters.min() <= sample.parameters.max() <= 1.0
    t1, t2, t3, t4, t5 = sample.parameters[17]
    expected = [np.cos(t1), np.tanh(3 * t2), t1 + t3, t4 * np.sin(t2), np.sin(t1 + t5)]
    expected += [t5 * np.cos(t2), t5 + t4, t2, t3 * t4, t1]
    np.testing.assert_allclose(sample.data[17], expected)


@pytest.mark.parametrize("generator", [*GENERATORS, sensor_network])
def test_bad_arguments(generator):
    cases = [
        ("n_samples", 0, ValueError, ">= 1, got 0"),
        ("n_samples", 10.0, TypeError, "must be an integer, got 10.0"),
        ("noise", -0.1, ValueError, ">= 0, got -0.1"),
        ("noise", np.nan, ValueError, ">= 0, got nan"),
        ("radius", 0.0, ValueError, "radius must be a finite number > 0, got 0.0"),
        ("n_anchors", 501, ValueError, "n_anchors must be an integer from 0 to 500, got 501"),
        ("n_dims", 0, ValueError, "n_dims must be an integer >= 1, got 0"),
        ("hole", 0.5, ValueError, "hole must .* < 0.5, got 0.5"),
        ("hole", -0.1, ValueError, "got -0.1"),
    ]
    for name, value, error, match in cases if generator is sensor_network else cases[:4]:
        with pytest.raises(error, match=match):
            generator(**{name: value})


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_unit_disk_graph(n_dims):
    net = sensor_network(120, n_dims=n_dims, n_anchors=5, random_state=3)
    distances, dense = cdist(net.truth, net.truth), net.graph.toarray()
    np.testing.assert_allclose(dense, np.where(distances <= dense.max(), distances, 0.0), rtol=1e-12)
    assert (net.n_vertices, len(np.unique(net.anchors))) == (120, 5)
    # Noise is relative, symmetric and leaves lengths positive.
    noisy = sensor_network(120, n_dims=n_dims, n_anchors=5, noise=0.1, random_state=3)
    np.testing.assert_array_equal(net.truth, noisy.truth)
    np.testing.assert_array_equal(net.graph.indices, noisy.graph.indices)
    ratio = noisy.graph.data / net.graph.data
    assert (ratio.mean(), ratio.std()) == pytest.approx((1.0, 0.1), abs=0.01)
    assert (noisy.graph != noisy.graph.T).nnz == 0
    assert sensor_network(120, noise=3.0, random_state=5).graph.data.min() > 0.0
    # By default a sensor away from all borders, that of the hole included, which is empty, has 20 neighbours.
    for hole in (0.0, 0.3) if n_dims > 1 else ():
        net = sensor_network(3000, hole=hole, n_dims=n_dims, random_state=4)
        from_centre = np.linalg.norm(net.truth - 0.5, axis=1)
        assert from_centre.min() >= hole
        assert 0.0 <= net.truth.min() <= net.truth.max() <= 1.0
        inner = np.all(np.abs(net.truth - 0.5) < 0.4, axis=1) & (from_centre > (0.4 if hole else 0.0))
        assert np.diff(net.graph.indptr)[inner].mean() == pytest.approx(20.0, rel=0.1)


def test_shortcuts_jump_between_sheets():
    data = swiss_roll(600, random_state=6).data
    graph = knn_graph(data, 6).to_matrix()
    cut, edges = add_shortcuts(graph, data, 5, random_state=7)
    assert (edges.shape, cut.nnz) == ((5, 2), graph.nnz + 10)
    assert (cut != cut.T).nnz == 0
    for i, j in edges:
        straight = np.linalg.norm(data[i] - data[j])
        assert cut[i, j] == pytest.approx(straight)
        assert graph[i, j] == 0.0
        assert geodesics(knn_graph(data, 6), int(i))[j] > 5.0 * straight
    assert (add_shortcuts(graph, data, 5, random_state=7)[0] != cut).nnz == 0
    # Edges of length zero stay.
    partner = int(graph.indices[0])
    graph[0, partner] = graph[partner, 0] = 0.0
    cut, _ = add_shortcuts(graph, data, 2, random_state=8)
    assert (cut.nnz, np.sum(cut.data == 0.0)) == (graph.nnz + 4, 2)
    with pytest.raises(ValueError, match="only 0 vertices have a point .* over 1e\\+06 times"):
        add_shortcuts(graph, data, 3, detour=1e6, random_state=9)
    with pytest.raises(ValueError, match=r"shape \(600, D\), one row per vertex, got \(599, 3\)"):
        add_shortcuts(graph, data[:-1], 3, random_state=9)


FILES = tables()
# Loader -> its file, and samples, features and classes of the real one.
FEATURES = {
    datasets.load_mnist: ("mnist_test", 10_000, 784, 10),
    datasets.load_fashion_mnist: ("fashion_mnist_test", 10_000, 784, 10),
    datasets.load_faces: ("isomap_faces_32", 698, 1024, 0),
    datasets.load_tcga: ("tcga_pancan11_rnaseq", 1204, 3341, 22),
    datasets.load_tcga_lusc: ("tcga_lusc_rnaseq", 518, 391, 2),
    datasets.load_lungline_cells: ("lungline_5cl_celseq2", 909, 12_058, 5),
    datasets.load_lungline_mixtures: ("lungline_rnamix", 636, 11_049, 7),
}
GRAPHS = {
    datasets.load_road: "road_oldenburg",
    datasets.load_mesh: "mesh_camelhead",
    datasets.load_city_miles: "miles_128cities",
}
LOADERS = {loader: found[0] for loader, found in FEATURES.items()} | GRAPHS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("loader", LOADERS)
def test_found_and_missing(loader, folder, tmp_path, monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    for home, words in (
        (tmp_path, f"(?s)Looked for .*{LOADERS[loader]}.npz: no such file.*{DATA_VARIABLE}"),
        (tmp_path / "nowhere", "no such folder"),
        (None, f"{LOADERS[loader]}.npz is needed, but no data folder is known: set the environment variable"),
    ):
        with pytest.raises(DatasetMissingError, match=words):
            loader(data_home=home)
    sample = loader(data_home=folder)
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    again = loader()
    if loader in GRAPHS:
        assert (sample.graph != sample.graph.T).nnz == (sample.graph != again.graph).nnz == 0
        assert (len(sample.truth), len(sample.anchors)) == (sample.n_vertices, 0)
    else:
        assert (sample.data.dtype, len(sample.data), sample.n_samples) == (np.float64, N, N)
        assert np.isfinite(sample.data).all()
        assert all(known is None or len(known) == N for known in (sample.labels, sample.parameters))
        np.testing.assert_array_equal(again.data, sample.data)


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
    file, cells = FILES["lungline_5cl_celseq2"], datasets.load_lungline_cells(**home)
    np.testing.assert_allclose(cells.data, np.log1p(1e4 * file["counts"] / file["total_counts"][:, None]))
    digits = datasets.load_digits()  # always there
    assert (digits.data.shape, digits.data.max()) == ((1797, 64), 1.0)
    assert np.bincount(digits.labels).min() > 170
    mesh = datasets.load_mesh(**home)
    # Edges of a grid of 14 x 14 and one diagonal of every square, each stored twice.
    assert mesh.graph.nnz == 2 * (2 * 14 * 13 + 13**2)
    assert mesh.graph[0, 1] == pytest.approx(np.linalg.norm(mesh.truth[0] - mesh.truth[1]))
    road = datasets.load_road(**home)
    assert local_distance(road.graph, road.truth) < 1e-12
    near, all_pairs = datasets.load_city_miles(max_miles=500, **home), datasets.load_city_miles(**home)
    assert all_pairs.graph.nnz == 40 * 39
    assert near.graph.nnz == np.count_nonzero(all_pairs.graph.data <= 500) > 0
    # Great circles, which the projection keeps to a few per cent this far from its middle.
    lat, lon = (np.radians(FILES["miles_128cities"][name]) for name in ("lat", "lon"))
    ball = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    np.testing.assert_allclose(pdist(near.truth), 3958.8 * 2.0 * np.arcsin(pdist(ball) / 2.0), rtol=0.02)


def test_wrong_contents_and_names(folder, tmp_path):
    np.savez(tmp_path / "mnist_test.npz", images=np.zeros(3))
    np.savez(tmp_path / "fashion_mnist_test.npz", X=np.array([{"a": 1}], dtype=object), y=np.zeros(1))
    for loader, arguments, match in (
        (datasets.load_mnist, {"data_home": tmp_path}, "has no array 'X' .it has images."),
        (datasets.load_fashion_mnist, {"data_home": tmp_path}, "pickle"),
        (datasets.load_mnist, {"subset": "valid"}, "'test', 'train', got 'valid'"),
        (datasets.load_fashion_mnist, {"subset": ""}, "'test', 'train', got ''"),
        (datasets.load_road, {"name": "bunny"}, "'oldenburg', .* got 'bunny'"),
        (datasets.load_mesh, {"name": "cow"}, "'camelhead', .* got 'cow'"),
        (datasets.load_city_miles, {"max_miles": 0}, "max_miles must .* > 0, got 0"),
    ):
        with pytest.raises(ValueError, match=match):
            loader(**{"data_home": folder} | arguments)


def test_fetch_only_when_asked_and_missing(folder, tmp_path, monkeypatch):
    target = (np.arange(60_003) % 10).astype(str)
    fetch = Mock(return_value=SimpleNamespace(data=np.zeros((60_003, 4)), target=target))
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    assert datasets.load_mnist(data_home=folder, fetch=True).n_samples == N
    assert not fetch.called
    assert datasets.load_mnist(data_home=tmp_path, fetch=True).labels.tolist() == [0, 1, 2]
    assert datasets.load_fashion_mnist("train", data_home=tmp_path, fetch=True).n_samples == 60_000
    assert [call.args[0] for call in fetch.call_args_list] == ["mnist_784", "Fashion-MNIST"]


# Error of the edges; lengths along the road are never shorter than the map's.
REAL = {("load_road", "oldenburg"): 1e-6, ("load_road", "helsinki_osm"): 0.03, ("load_mesh", "bunny"): 1e-6}


def test_real_files():
    try:
        check_real_files()
    except DatasetMissingError as error:
        pytest.skip(str(error))


def check_real_files():
    for loader, (_, n, width, classes) in FEATURES.items():
        sample = loader()
        assert sample.data.shape == (n, width)
        assert np.isfinite(sample.data).all()
        assert classes == (0 if sample.labels is None else len(np.unique(sample.labels)))
        assert sample.label_names is None or len(sample.label_names) == classes
    for (loader, name), error in REAL.items():
        found = getattr(datasets, loader)(name)
        assert (found.graph != found.graph.T).nnz == 0
        assert found.graph.data.min() > 0.0
        assert local_distance(found.graph, found.truth) < error
    cities = datasets.load_city_miles()
    miles = cities.graph.toarray()[np.triu_indices(128, k=1)]
    assert np.median(miles / pdist(cities.truth)) == pytest.approx(1.22, abs=0.02)


def test_proteins(tmp_path):
    atoms = np.random.default_rng(11).uniform(0.0, 12.0, size=(50, 3))
    pairs = np.array([[0, 1], [1, 2], [0, 2]], dtype=np.int32)
    np.savez(tmp_path / "protein_atoms.npz", il2=atoms)
    np.savez(
        tmp_path / "protein_backbones.npz", **{"1crn_edges": pairs, "1crn_lengths": np.array([3.0, 4.0, 5.0])}
    )
    heavy = datasets.load_protein("il2", data_home=tmp_path)
    assert heavy.graph.nnz == 2 * np.count_nonzero(pdist(atoms) <= 6.0)
    assert local_distance(heavy.graph, heavy.truth) < 1e-15
    backbone = datasets.load_protein(data_home=tmp_path)
    assert (backbone.truth, backbone.graph[2, 0], backbone.graph.nnz) == (None, 5.0, 6)
    with pytest.raises(ValueError, match="name must be one of '1ppt', .*, got 'titin'"):
        datasets.load_protein("titin", data_home=tmp_path)
    with pytest.raises(DatasetMissingError, match=r"protein_atoms\.npz: no such file"):
        datasets.load_protein("2beg", data_home=tmp_path / "..")
