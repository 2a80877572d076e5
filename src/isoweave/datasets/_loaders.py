"""Feature sets read from the data folder; nothing is bundled with the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave.datasets._dataset import Dataset
from isoweave.datasets._folder import DataHome, DatasetMissingError, load_arrays

_GARMENTS = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
_EARTH_RADIUS_KM = 6371.0


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

    Raises
    ------
    DatasetMissingError
        When the file is missing and ``fetch`` is False; the message says where it was looked for.
    """
    names = tuple(str(digit) for digit in range(10))
    return _images("mnist", "mnist_784", subset, names, data_home, fetch)


def load_fashion_mnist(subset: str = "test", *, data_home: DataHome = None, fetch: bool = False) -> Dataset:
    """Fashion-MNIST, from ``fashion_mnist_test.npz`` or ``fashion_mnist_train.npz``.

    See :func:`load_mnist`, which has the same layout and parameters.
    """
    return _images("fashion_mnist", "Fashion-MNIST", subset, _GARMENTS, data_home, fetch)


def load_faces(*, data_home: DataHome = None) -> Dataset:
    """The 698 rendered faces of the Isomap paper at 32 x 32, intensities in [0, 1].

    Reads ``isomap_faces_32.npz``. ``parameters`` is the pose: light, pan, tilt, standardised.
    """
    arrays = load_arrays("isomap_faces_32.npz", ("X", "pose"), data_home)
    return Dataset("isomap_faces", _rows(arrays["X"], 65535.0), arrays["pose"].astype(np.float64))


def load_coil20(*, data_home: DataHome = None) -> Dataset:
    """COIL-20: 20 objects on a turntable, 1,440 images of 32 x 32, pixels divided by 255.

    Reads ``coil20_32.npz``. ``parameters`` is the turntable's angle in degrees, shape (n, 1).
    """
    arrays = load_arrays("coil20_32.npz", ("X", "y", "angle_deg"), data_home)
    angle = arrays["angle_deg"].astype(np.float64)[:, None]
    return Dataset("coil20", _rows(arrays["X"], 255.0), angle, arrays["y"].astype(np.intp))


def load_mammoth(*, data_home: DataHome = None) -> Dataset:
    """3-D scan of a mammoth's skeleton, 50,000 points, from ``mammoth_50k.npz``."""
    arrays = load_arrays("mammoth_50k.npz", ("X",), data_home)
    return Dataset("mammoth", arrays["X"].astype(np.float64))


def load_world_cities(*, data_home: DataHome = None) -> Dataset:
    """Positions in km, on a ball, of 144,563 populated places, from ``world_cities.npz``.

    ``parameters`` is (latitude, longitude) in degrees, labels are countries.
    """
    arrays = load_arrays("world_cities.npz", ("lat", "lon", "y", "y_names"), data_home)
    place = np.column_stack([arrays["lat"], arrays["lon"]]).astype(np.float64)
    lat, lon = np.radians(place).T
    ball = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return Dataset(
        "world_cities",
        _EARTH_RADIUS_KM * ball,
        place,
        arrays["y"].astype(np.intp),
        _names(arrays["y_names"]),
    )


def load_tcga(*, tumour: bool = True, data_home: DataHome = None) -> Dataset:
    """Bulk RNA-seq of 11 TCGA cohorts, 1,204 samples x 3,341 genes, log2 scale.

    Reads ``tcga_pancan11_rnaseq.npz``. Values are raised to -2 where lower: nine of the eleven cohorts
    have that floor, and without it two cohorts differ from the rest by a convention.

    Parameters
    ----------
    tumour : bool
        True: 22 classes, cohort x (normal, tumour). False: the 11 cohorts.
    data_home : path, optional
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.
    """
    arrays = load_arrays("tcga_pancan11_rnaseq.npz", ("X100", "y", "y_names", "tumour"), data_home)
    data = np.maximum(arrays["X100"].astype(np.float64) / 100.0, -2.0)
    names = _names(arrays["y_names"])
    labels = arrays["y"].astype(np.intp)
    if tumour:
        labels = 2 * labels + arrays["tumour"].astype(np.intp)
        names = tuple(f"{cohort} {kind}" for cohort in names for kind in ("normal", "tumour"))
    return Dataset("tcga_pancan11", data, labels=labels, label_names=names)


def load_tcga_lusc(*, data_home: DataHome = None) -> Dataset:
    """TCGA lung squamous carcinoma, 518 samples (45 normal) x 391 standardised genes.

    Reads ``tcga_lusc_rnaseq.npz``.
    """
    arrays = load_arrays("tcga_lusc_rnaseq.npz", ("X", "y", "y_names"), data_home)
    return _labelled("tcga_lusc", arrays["X"], arrays)


def load_pbmc3k(*, data_home: DataHome = None) -> Dataset:
    """Single cells of blood, 2,638 cells x 2,000 variable genes, log-normalised, 9 cell types.

    Reads ``pbmc3k.npz`` (a CSR matrix); the data is returned dense.
    """
    names = ("data", "indices", "indptr", "shape", "y", "y_names")
    arrays = load_arrays("pbmc3k.npz", names, data_home)
    parts = (arrays["data"], arrays["indices"].astype(np.int32), arrays["indptr"].astype(np.int32))
    matrix = sp.csr_array(parts, shape=tuple(int(side) for side in arrays["shape"]))
    return _labelled("pbmc3k", matrix.toarray(), arrays)


def load_pbmc68k(*, data_home: DataHome = None) -> Dataset:
    """Single cells of blood, 700 cells x 765 genes, log scale, 10 sorted populations.

    Reads ``pbmc68k_reduced.npz``.
    """
    arrays = load_arrays("pbmc68k_reduced.npz", ("logX", "y", "y_names"), data_home)
    return _labelled("pbmc68k", arrays["logX"], arrays)


def load_lungline_cells(*, doublets: bool = True, data_home: DataHome = None) -> Dataset:
    """Single cells of 5 lung-cancer cell lines, 909 wells x 12,058 genes, log1p of counts per 10,000.

    Reads ``lungline_5cl_celseq2.npz``. With ``doublets=False`` the 338 wells that the source flags
    as two cells are left out.
    """
    names = ("counts", "total_counts", "y", "y_names", "doublet")
    arrays = load_arrays("lungline_5cl_celseq2.npz", names, data_home)
    whole = _labelled("lungline_cells", _log_counts(arrays), arrays)
    if doublets or whole.labels is None:
        return whole
    keep = ~arrays["doublet"]
    return Dataset(whole.name, whole.data[keep], labels=whole.labels[keep], label_names=whole.label_names)


def load_lungline_mixtures(*, data_home: DataHome = None) -> Dataset:
    """RNA of 3 lung-cancer cell lines in 7 known mixtures, 636 samples x 11,049 genes.

    Reads ``lungline_rnamix.npz``; log1p of counts per 10,000. ``parameters`` is the share of each
    line, shape (n, 3), on a triangle; the label is the mixture.
    """
    arrays = load_arrays("lungline_rnamix.npz", ("counts", "total_counts", "props", "y"), data_home)
    shares = arrays["props"].astype(np.float64)
    return Dataset("lungline_mixtures", _log_counts(arrays), shares, arrays["y"].astype(np.intp))


def load_digits() -> Dataset:
    """scikit-learn's 1,797 digits of 8 x 8, pixels divided by 16: always there."""
    from sklearn.datasets import load_digits as load

    bunch: Any = load()
    names = tuple(str(name) for name in bunch.target_names)
    return Dataset("digits", bunch.data / 16.0, labels=bunch.target.astype(np.intp), label_names=names)


def _images(
    name: str, openml_name: str, subset: str, label_names: tuple[str, ...], data_home: DataHome, fetch: bool
) -> Dataset:
    if subset not in ("test", "train"):
        raise ValueError(f'subset must be "test" or "train", got {subset!r}.')
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


def _labelled(name: str, data: AnyArray, arrays: dict[str, AnyArray]) -> Dataset:
    names = _names(arrays["y_names"])
    return Dataset(name, data.astype(np.float64), None, arrays["y"].astype(np.intp), names)


def _rows(images: AnyArray, white: float) -> FloatArray:
    """Images flattened to rows of float64 in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float64) / white


def _log_counts(arrays: dict[str, AnyArray]) -> FloatArray:
    return np.log1p(arrays["counts"] / arrays["total_counts"][:, None] * 1e4)


def _names(array: AnyArray) -> tuple[str, ...]:
    return tuple(str(name) for name in array)
