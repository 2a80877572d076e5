"""Feature sets and distance graphs read from the data folder; nothing is bundled with the package.

Every loader takes ``data_home``, the data folder (the environment variable ``ISOWEAVE_DATA`` names it by
default), and raises DatasetMissingError when its file is not there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_option, check_real
from isoweave.datasets._dataset import DataHome, Dataset, DatasetMissingError, GraphDataset, load_arrays
from isoweave.datasets._generators import symmetric_graph

ROADS = ("oldenburg", "usa78k", "helsinki_osm")
"""Names :func:`load_road` knows."""
MESHES = ("bunny", "camelhead", "dragon")
"""Names :func:`load_mesh` knows."""
_DIGITS = tuple("0123456789")
_GARMENTS = (
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
_EARTH_RADIUS_MILES = 3958.8
_EARTH_RADIUS_KM = 6371.0
_CSR = ("data", "indices", "indptr")
_NO_ANCHORS = np.empty(0, dtype=np.intp)


def load_mnist(subset: str = "test", *, data_home: DataHome = None, fetch: bool = False) -> Dataset:
    """MNIST digits of 28 x 28, pixels divided by 255; 10,000 (test) or 60,000 (train).

    Reads ``mnist_test.npz`` or ``mnist_train.npz`` (arrays ``X`` uint8 (n, 28, 28), ``y``).

    Parameters
    ----------
    subset : {"test", "train"}
    data_home : path, optional
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.
    fetch : bool
        When the file is missing, fetch the set from OpenML through scikit-learn (needs a network;
        scikit-learn keeps its own cache).
    """
    return _images("mnist", "mnist_784", subset, _DIGITS, data_home, fetch)


def load_fashion_mnist(subset: str = "test", *, data_home: DataHome = None, fetch: bool = False) -> Dataset:
    """Fashion-MNIST, from ``fashion_mnist_*.npz``; layout and parameters of :func:`load_mnist`."""
    return _images("fashion_mnist", "Fashion-MNIST", subset, _GARMENTS, data_home, fetch)


def load_digits() -> Dataset:
    """scikit-learn's 1,797 digits of 8 x 8, pixels divided by 16: always there."""
    from sklearn.datasets import load_digits as load

    bunch: Any = load()
    return Dataset("digits", bunch.data / 16.0, None, bunch.target.astype(np.intp), _DIGITS)


def load_faces(*, data_home: DataHome = None) -> Dataset:
    """The 698 faces of the Isomap paper, 32 x 32, with light, pan and tilt; from ``isomap_faces_32.npz``."""
    arrays = load_arrays("isomap_faces_32.npz", ("X", "pose"), data_home)
    return Dataset("isomap_faces", _rows(arrays["X"], 65535.0), arrays["pose"].astype(np.float64))


def load_coil20(*, data_home: DataHome = None) -> Dataset:
    """COIL-20: 1,440 images of 20 objects, 32 x 32, and the turntable's angle; from ``coil20_32.npz``."""
    arrays = load_arrays("coil20_32.npz", ("X", "y", "angle_deg"), data_home)
    return _labelled("coil20", _rows(arrays["X"], 255.0), arrays, arrays["angle_deg"][:, None])


def load_mammoth(*, data_home: DataHome = None) -> Dataset:
    """3-D scan of a mammoth's skeleton, 50,000 points, from ``mammoth_50k.npz``."""
    return Dataset("mammoth", load_arrays("mammoth_50k.npz", ("X",), data_home)["X"].astype(np.float64))


def load_world_cities(*, data_home: DataHome = None) -> Dataset:
    """Positions in km, on a ball, of 144,563 places in 246 countries, from ``world_cities.npz``."""
    arrays = load_arrays("world_cities.npz", ("lat", "lon", "y", "y_names"), data_home)
    place = np.column_stack([arrays["lat"], arrays["lon"]]).astype(np.float64)
    lat, lon = np.radians(place).T
    ball = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return _labelled("world_cities", _EARTH_RADIUS_KM * ball, arrays, place)


def load_tcga(*, tumour: bool = True, data_home: DataHome = None) -> Dataset:
    """Bulk RNA-seq of 11 TCGA cohorts, 1,204 samples x 3,341 genes, log2 scale.

    Reads ``tcga_pancan11_rnaseq.npz``. Values are raised to -2 where lower: nine of the eleven cohorts
    have that floor, and without it two cohorts differ from the rest by a convention. The 22 classes are
    cohort x (normal, tumour); with ``tumour=False``, the 11 cohorts.
    """
    arrays = load_arrays("tcga_pancan11_rnaseq.npz", ("X100", "y", "y_names", "tumour"), data_home)
    if tumour:
        arrays["y"] = 2 * arrays["y"].astype(np.intp) + arrays["tumour"]
        kinds = ("normal", "tumour")
        arrays["y_names"] = np.array([f"{cohort} {kind}" for cohort in arrays["y_names"] for kind in kinds])
    return _labelled("tcga_pancan11", np.maximum(arrays["X100"].astype(np.float64) / 100.0, -2.0), arrays)


def load_tcga_lusc(*, data_home: DataHome = None) -> Dataset:
    """TCGA lung squamous carcinoma, 518 samples (45 normal) x 391 genes, from ``tcga_lusc_rnaseq.npz``."""
    arrays = load_arrays("tcga_lusc_rnaseq.npz", ("X", "y", "y_names"), data_home)
    return _labelled("tcga_lusc", arrays["X"], arrays)


def load_pbmc3k(*, data_home: DataHome = None) -> Dataset:
    """Single cells of blood, 2,638 cells x 2,000 variable genes, 9 cell types, from ``pbmc3k.npz``."""
    arrays = load_arrays("pbmc3k.npz", (*_CSR, "shape", "y", "y_names"), data_home)
    return _labelled("pbmc3k", _csr(arrays, tuple(arrays["shape"].tolist())).toarray(), arrays)


def load_pbmc68k(*, data_home: DataHome = None) -> Dataset:
    """Single cells of blood, 700 cells x 765 genes, 10 populations, from ``pbmc68k_reduced.npz``."""
    arrays = load_arrays("pbmc68k_reduced.npz", ("logX", "y", "y_names"), data_home)
    return _labelled("pbmc68k", arrays["logX"], arrays)


def load_lungline_cells(*, doublets: bool = True, data_home: DataHome = None) -> Dataset:
    """Single cells of 5 lung-cancer cell lines, 909 wells x 12,058 genes, log1p of counts per 10,000.

    Reads ``lungline_5cl_celseq2.npz``. With ``doublets=False`` the 338 wells that the source flags
    as two cells are left out.
    """
    names = ("counts", "total_counts", "y", "y_names", "doublet")
    arrays = load_arrays("lungline_5cl_celseq2.npz", names, data_home)
    if not doublets:
        arrays |= {name: arrays[name][~arrays["doublet"]] for name in ("counts", "total_counts", "y")}
    return _labelled("lungline_cells", _log_counts(arrays), arrays)


def load_lungline_mixtures(*, data_home: DataHome = None) -> Dataset:
    """RNA of 3 lung-cancer cell lines in 7 known mixtures, 636 samples x 11,049 genes.

    Reads ``lungline_rnamix.npz``; log1p of counts per 10,000. ``parameters`` is the share of each
    line, shape (n, 3), on a triangle; the label is the mixture.
    """
    arrays = load_arrays("lungline_rnamix.npz", ("counts", "total_counts", "props", "y"), data_home)
    return _labelled("lungline_mixtures", _log_counts(arrays), arrays, arrays["props"])


def load_road(name: str = "oldenburg", *, data_home: DataHome = None) -> GraphDataset:
    """A road network; ``truth`` is the map, in the unit of the edge lengths.

    Roads have hardly any triangles, so distances between a vertex's neighbours are those of the network.

    Parameters
    ----------
    name : {"oldenburg", "usa78k", "helsinki_osm"}
        6,105, 78,040 and 2,538 vertices; reads ``road_<name>.npz``. Lengths are straight lines, except
        in Helsinki, where they are measured along the road.
    data_home : path, optional
    """
    check_option("name", name, ROADS)
    arrays = load_arrays(f"road_{name}.npz", (*_CSR, "coords"), data_home)
    truth = arrays["coords"].astype(np.float64)
    graph = _csr(arrays, (len(truth), len(truth))).astype(np.float64)
    graph.sort_indices()
    return GraphDataset(f"road_{name}", graph, truth, _NO_ANCHORS)


def load_mesh(name: str = "camelhead", *, data_home: DataHome = None) -> GraphDataset:
    """A triangle mesh as the graph of its edges; ``truth`` is the positions of its vertices in R^3.

    Parameters
    ----------
    name : {"bunny", "camelhead", "dragon"}
        34,834, 11,381 (a topological disk) and 435,545 vertices; reads ``mesh_<name>.npz``.
    data_home : path, optional
    """
    check_option("name", name, MESHES)
    arrays = load_arrays(f"mesh_{name}.npz", ("V", "F"), data_home)
    vertices, faces = arrays["V"].astype(np.float64), arrays["F"]
    sides = np.sort(np.vstack([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    pairs = np.unique(sides, axis=0)
    lengths = np.linalg.norm(vertices[pairs[:, 0]] - vertices[pairs[:, 1]], axis=1)
    graph = symmetric_graph(pairs, lengths, len(vertices))
    return GraphDataset(f"mesh_{name}", graph, vertices, _NO_ANCHORS, faces=faces)


def load_city_miles(*, max_miles: float | None = None, data_home: DataHome = None) -> GraphDataset:
    """Highway miles between 128 North American cities; ``truth`` is a map in miles.

    Reads ``miles_128cities.npz``. The map is the azimuthal equidistant projection about the middle of
    the cities. Roads are longer than straight lines (median 1.22 times), so compare with it by
    :func:`isoweave.metrics.parameter_error`.

    Parameters
    ----------
    max_miles : float, optional
        Keep only pairs up to this distance; all pairs by default.
    data_home : path, optional
    """
    arrays = load_arrays("miles_128cities.npz", ("D", "lat", "lon", "names"), data_home)
    miles = arrays["D"].astype(np.float64)
    pairs = np.column_stack(np.triu_indices(len(miles), k=1))
    lengths = miles[pairs[:, 0], pairs[:, 1]]
    if max_miles is not None:
        check_real("max_miles", max_miles, minimum=0, include_minimum=False)
        pairs, lengths = pairs[lengths <= max_miles], lengths[lengths <= max_miles]
    truth = _map_in_miles(arrays["lat"].astype(np.float64), arrays["lon"].astype(np.float64))
    graph = symmetric_graph(pairs, lengths, len(miles))
    return GraphDataset(
        "city_miles", graph, truth, _NO_ANCHORS, vertex_names=tuple(map(str, arrays["names"]))
    )


def load_protein(*, data_home: DataHome = None) -> GraphDataset:
    """NMR distance restraints of a 73-residue protein; ``truth`` is the refined model, in Angstrom.

    Reads ``nmr_ns1_noe.npz``: 252 sites in five components. A pair restrained more than once keeps its
    smallest distance. Restraints are loose bounds, not measurements.
    """
    names = ("i", "j", "d", "node_resid", "node_name", "node_coords")
    arrays = load_arrays("nmr_ns1_noe.npz", names, data_home)
    pairs = np.column_stack([arrays["i"], arrays["j"]])
    graph = symmetric_graph(pairs, arrays["d"], len(arrays["node_coords"]))
    sites = tuple(f"{r} {n}" for r, n in zip(arrays["node_resid"], arrays["node_name"], strict=True))
    truth = arrays["node_coords"].astype(np.float64)
    return GraphDataset("protein_ns1", graph, truth, _NO_ANCHORS, vertex_names=sites)


def _images(
    name: str, openml_name: str, subset: str, label_names: tuple[str, ...], data_home: DataHome, fetch: bool
) -> Dataset:
    check_option("subset", subset, ("test", "train"))
    try:
        arrays = load_arrays(f"{name}_{subset}.npz", ("X", "y"), data_home)
    except DatasetMissingError:
        if not fetch:
            raise
        from sklearn.datasets import fetch_openml

        bunch: Any = fetch_openml(openml_name, version=1, as_frame=False, parser="auto")
        # OpenML keeps both parts in one table, the 60,000 training images first.
        part = slice(60_000, None) if subset == "test" else slice(0, 60_000)
        arrays = {"X": bunch.data[part], "y": bunch.target[part]}
    labels = arrays["y"].astype(np.intp)
    return Dataset(f"{name}_{subset}", _rows(arrays["X"], 255.0), None, labels, label_names)


def _labelled(
    name: str, data: AnyArray, arrays: dict[str, Any], parameters: AnyArray | None = None
) -> Dataset:
    """Labels are the array ``y``, their names ``y_names`` where the file has them."""
    known = None if parameters is None else parameters.astype(np.float64)
    names = tuple(map(str, arrays["y_names"])) if "y_names" in arrays else None
    return Dataset(name, data.astype(np.float64), known, arrays["y"].astype(np.intp), names)


def _rows(images: AnyArray, white: float) -> FloatArray:
    """Images flattened to rows of float64 in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float64) / white


def _csr(arrays: dict[str, AnyArray], shape: tuple[int, ...]) -> sp.csr_array:
    # The searches of SciPy 1.12 take no larger numbers.
    data, indices, indptr = (arrays[name] for name in _CSR)
    return sp.csr_array((data, indices.astype(np.int32), indptr.astype(np.int32)), shape=shape)


def _log_counts(arrays: dict[str, AnyArray]) -> FloatArray:
    return np.log1p(arrays["counts"] / arrays["total_counts"][:, None] * 1e4)


def _map_in_miles(lat_degrees: AnyArray, lon_degrees: AnyArray) -> FloatArray:
    """Azimuthal equidistant projection about the middle of the given places, shape (n, 2)."""
    lat, lon = np.radians(lat_degrees), np.radians(lon_degrees)
    lat0, lon0 = lat.mean(), lon.mean()
    east = np.cos(lat) * np.sin(lon - lon0)
    north = np.cos(lat0) * np.sin(lat) - np.sin(lat0) * np.cos(lat) * np.cos(lon - lon0)
    up = np.sin(lat0) * np.sin(lat) + np.cos(lat0) * np.cos(lat) * np.cos(lon - lon0)
    sine = np.hypot(east, north)
    stretch = np.arctan2(sine, up) / np.where(sine > 0.0, sine, 1.0)
    return _EARTH_RADIUS_MILES * np.column_stack([east * stretch, north * stretch])
