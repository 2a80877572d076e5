"""Feature sets and distance graphs read from the data folder; nothing is bundled with the package.

Every loader takes ``data_home``, the data folder (the environment variable ``ISOWEAVE_DATA`` names it by
default), and raises DatasetMissingError when its file is not there.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_option, check_real
from isoweave.datasets._generators import Dataset, GraphDataset, symmetric_graph

DATA_VARIABLE = "ISOWEAVE_DATA"
"""Environment variable that names the data folder."""

DataHome: TypeAlias = str | os.PathLike[str] | None
_DIGITS = tuple("0123456789")
_GARMENTS = (
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
_EARTH_RADIUS_MILES = 3958.8
_BACKBONES = ("1ppt", "2erl", "1crn", "1ptq", "1hoe", "1pht", "1mbn", "1rgs", "1bpm", "1n4w", "1mqq", "2e7z")
_HEAVY_ATOMS = ("1hpv", "il2", "1a8o", "2beg")


class DatasetMissingError(FileNotFoundError):
    """A data set's file is not in the data folder, or no folder was named."""


def load_arrays(filename: str, names: tuple[str, ...], data_home: DataHome = None) -> dict[str, AnyArray]:
    """The named arrays of one ``.npz`` file of the data folder (pickles are refused)."""
    home = data_home if data_home is not None else os.environ.get(DATA_VARIABLE) or None
    cure = f"set the environment variable {DATA_VARIABLE} to the folder that holds it, or pass data_home."
    if home is None:
        raise DatasetMissingError(f"{filename} is needed, but no data folder is known: {cure}")
    path = Path(home).expanduser() / filename
    if not path.is_file():
        reason = "no such file" if path.parent.is_dir() else "no such folder"
        raise DatasetMissingError(f"Looked for {path}: {reason}; {cure}")
    # The user's own data folder is trusted as to sizes (SECURITY.md).
    with np.load(path, allow_pickle=False) as archive:  # noqa: TID251
        for name in names:
            if name not in archive.files:
                said = f"{path} has no array {name!r} (it has {', '.join(archive.files)})"
                raise ValueError(f"{said}; is it the file this loader expects?")
        return {name: archive[name] for name in names}


def load_mnist(subset: str = "test", *, data_home: DataHome = None, fetch: bool = False) -> Dataset:
    """MNIST digits of 28 x 28, pixels divided by 255; 10,000 ("test") or 60,000 ("train").

    Reads ``mnist_<subset>.npz`` (arrays ``X`` uint8 (n, 28, 28), ``y``). Where it is missing, ``fetch=True``
    gets the set from OpenML through scikit-learn, which keeps its own cache.
    """
    return _images("mnist", "mnist_784", _DIGITS, subset, data_home, fetch)


def load_fashion_mnist(subset: str = "test", *, data_home: DataHome = None, fetch: bool = False) -> Dataset:
    """Fashion-MNIST, from ``fashion_mnist_*.npz``; layout and parameters of :func:`load_mnist`."""
    return _images("fashion_mnist", "Fashion-MNIST", _GARMENTS, subset, data_home, fetch)


def load_digits() -> Dataset:
    """scikit-learn's 1,797 digits of 8 x 8, pixels divided by 16: always there."""
    from sklearn.datasets import load_digits as load

    bunch: Any = load()
    return Dataset("digits", bunch.data / 16.0, None, bunch.target.astype(np.intp), _DIGITS)


def load_faces(*, data_home: DataHome = None) -> Dataset:
    """The 698 faces of the Isomap paper, 32 x 32, with light, pan and tilt; from ``isomap_faces_32.npz``."""
    arrays = load_arrays("isomap_faces_32.npz", ("X", "pose"), data_home)
    return Dataset("isomap_faces", _flat(arrays["X"]) / 65535.0, arrays["pose"].astype(np.float64))


def load_tcga(*, data_home: DataHome = None) -> Dataset:
    """Bulk RNA-seq of 11 TCGA cohorts, 1,204 samples x 3,341 genes, log2, from ``tcga_pancan11_rnaseq.npz``.

    The 22 classes are cohort x (normal, tumour). Values are raised to -2 where lower: nine of the eleven
    cohorts have that floor, and without it two cohorts differ from the rest by a convention.
    """
    arrays = load_arrays("tcga_pancan11_rnaseq.npz", ("X100", "y", "y_names", "tumour"), data_home)
    arrays["y"] = 2 * arrays["y"].astype(np.intp) + arrays["tumour"]
    kinds = ("normal", "tumour")
    arrays["y_names"] = np.array([f"{cohort} {kind}" for cohort in arrays["y_names"] for kind in kinds])
    return _labelled("tcga_pancan11", np.maximum(arrays["X100"].astype(np.float64) / 100.0, -2.0), arrays)


def load_tcga_lusc(*, data_home: DataHome = None) -> Dataset:
    """TCGA lung squamous carcinoma, 518 samples (45 normal) x 391 genes, from ``tcga_lusc_rnaseq.npz``."""
    arrays = load_arrays("tcga_lusc_rnaseq.npz", ("X", "y", "y_names"), data_home)
    return _labelled("tcga_lusc", arrays["X"], arrays)


def load_lungline_cells(*, data_home: DataHome = None) -> Dataset:
    """Single cells of 5 lung-cancer cell lines, 909 wells x 12,058 genes, log1p of counts per 10,000.

    Reads ``lungline_5cl_celseq2.npz``; 338 of the wells, by the source's flag, hold two cells.
    """
    arrays = load_arrays("lungline_5cl_celseq2.npz", ("counts", "total_counts", "y", "y_names"), data_home)
    return _labelled("lungline_cells", _log_counts(arrays), arrays)


def load_lungline_mixtures(*, data_home: DataHome = None) -> Dataset:
    """RNA of 3 lung-cancer cell lines in 7 mixtures, 636 samples x 11,049 genes, log1p of counts per 10,000.

    Reads ``lungline_rnamix.npz``; ``parameters`` is the share of each line, shape (n, 3), on a triangle.
    """
    arrays = load_arrays("lungline_rnamix.npz", ("counts", "total_counts", "props", "y"), data_home)
    data = _labelled("lungline_mixtures", _log_counts(arrays), arrays)
    return replace(data, parameters=arrays["props"].astype(np.float64))


def load_road(name: str = "oldenburg", *, data_home: DataHome = None) -> GraphDataset:
    """A road network from ``road_<name>.npz``; ``truth`` is the map, in the unit of the edge lengths.

    "oldenburg", "usa78k" and "helsinki_osm" have 6,105, 78,040 and 2,538 vertices. Lengths are straight
    lines, in Helsinki measured along the road.
    """
    check_option("name", name, ("oldenburg", "usa78k", "helsinki_osm"))
    arrays = load_arrays(f"road_{name}.npz", ("data", "indices", "indptr", "coords"), data_home)
    truth = arrays["coords"].astype(np.float64)
    # The searches of SciPy 1.12 take no larger numbers.
    indices, indptr = (arrays[name].astype(np.int32) for name in ("indices", "indptr"))
    lengths = arrays["data"].astype(np.float64)
    graph = sp.csr_array((lengths, indices, indptr), shape=(len(truth), len(truth)))
    graph.sort_indices()
    return GraphDataset(f"road_{name}", graph, truth)


def load_mesh(name: str = "camelhead", *, data_home: DataHome = None) -> GraphDataset:
    """The edges of a triangle mesh, from ``mesh_<name>.npz``; ``truth`` is its vertices in R^3.

    "bunny", "camelhead" (a topological disk) and "dragon" have 34,834, 11,381 and 435,545 vertices.
    """
    check_option("name", name, ("bunny", "camelhead", "dragon"))
    arrays = load_arrays(f"mesh_{name}.npz", ("V", "F"), data_home)
    vertices, faces = arrays["V"].astype(np.float64), arrays["F"]
    sides = np.sort(np.vstack([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    pairs = np.unique(sides, axis=0)
    lengths = np.linalg.norm(vertices[pairs[:, 0]] - vertices[pairs[:, 1]], axis=1)
    return GraphDataset(f"mesh_{name}", symmetric_graph(pairs, lengths, len(vertices)), vertices)


def load_city_miles(*, max_miles: float | None = None, data_home: DataHome = None) -> GraphDataset:
    """Highway miles, up to ``max_miles`` where given, between 128 cities, from ``miles_128cities.npz``.

    ``truth`` is a map in miles: the azimuthal equidistant projection about the middle of the cities. Roads
    are longer than straight lines (median 1.22 times): compare by :func:`isoweave.metrics.parameter_error`.
    """
    arrays = load_arrays("miles_128cities.npz", ("D", "lat", "lon"), data_home)
    miles = arrays["D"].astype(np.float64)
    pairs = np.column_stack(np.triu_indices(len(miles), k=1))
    lengths = miles[pairs[:, 0], pairs[:, 1]]
    if max_miles is not None:
        check_real("max_miles", max_miles, minimum=0, include_minimum=False)
        pairs, lengths = pairs[lengths <= max_miles], lengths[lengths <= max_miles]
    truth = _map_in_miles(arrays["lat"].astype(np.float64), arrays["lon"].astype(np.float64))
    return GraphDataset("city_miles", symmetric_graph(pairs, lengths, len(miles)), truth)


def load_protein(name: str = "1crn", *, data_home: DataHome = None) -> GraphDataset:
    """Distances between atoms of a protein, exact, in Angstrom.

    Backbones (1ppt, 2erl, 1crn, 1ptq, 1hoe, 1pht, 1mbn, 1rgs, 1bpm, 1n4w, 1mqq, 2e7z: 108 to 2,907 atoms)
    have all below 5 and no ``truth``, from ``protein_backbones.npz``; heavy atoms (1hpv, il2, 1a8o, 2beg: 524
    to 1,516) all below 6, from ``protein_atoms.npz``.
    """
    check_option("name", name, (*_BACKBONES, *_HEAVY_ATOMS))
    if name in _HEAVY_ATOMS:
        truth = load_arrays("protein_atoms.npz", (name,), data_home)[name].astype(np.float64)
        pairs = cKDTree(truth).query_pairs(6.0, output_type="ndarray")
        lengths = np.linalg.norm(truth[pairs[:, 0]] - truth[pairs[:, 1]], axis=1)
        return GraphDataset(f"protein_{name}", symmetric_graph(pairs, lengths, len(truth)), truth)
    names = (f"{name}_edges", f"{name}_lengths")
    pairs, lengths = load_arrays("protein_backbones.npz", names, data_home).values()
    graph = symmetric_graph(pairs.astype(np.intp), lengths, int(pairs.max()) + 1)
    return GraphDataset(f"protein_{name}", graph, None)


def _images(
    name: str, openml: str, names: tuple[str, ...], subset: str, home: DataHome, fetch: bool
) -> Dataset:
    check_option("subset", subset, ("test", "train"))
    try:
        arrays = load_arrays(f"{name}_{subset}.npz", ("X", "y"), home)
    except DatasetMissingError:
        if not fetch:
            raise
        from sklearn.datasets import fetch_openml

        bunch: Any = fetch_openml(openml, version=1, as_frame=False, parser="auto")
        # OpenML keeps both parts in one table, the 60,000 training images first.
        part = slice(60_000, None) if subset == "test" else slice(0, 60_000)
        arrays = {"X": bunch.data[part], "y": bunch.target[part]}
    labels = arrays["y"].astype(np.intp)
    return Dataset(f"{name}_{subset}", _flat(arrays["X"]) / 255.0, None, labels, names)


def _labelled(name: str, data: AnyArray, arrays: dict[str, Any]) -> Dataset:
    """Labels are the array ``y``, their names ``y_names`` where the file has them."""
    names = tuple(map(str, arrays["y_names"])) if "y_names" in arrays else None
    return Dataset(name, data.astype(np.float64), None, arrays["y"].astype(np.intp), names)


def _flat(images: AnyArray) -> FloatArray:
    return images.reshape(len(images), -1).astype(np.float64)


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
