"""Distance graphs read from the data folder: roads, meshes, city miles, protein restraints."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave.datasets._dataset import GraphDataset
from isoweave.datasets._folder import DataHome, load_arrays
from isoweave.datasets._sensors import symmetric_graph

ROADS = ("oldenburg", "usa78k", "helsinki_osm")
"""Names :func:`load_road` knows."""
MESHES = ("bunny", "camelhead", "dragon")
"""Names :func:`load_mesh` knows."""
_EARTH_RADIUS_MILES = 3958.8
_NO_ANCHORS = np.empty(0, dtype=np.intp)


def load_road(name: str = "oldenburg", *, data_home: DataHome = None) -> GraphDataset:
    """A road network; ``truth`` is the map, in the unit of the edge lengths.

    Parameters
    ----------
    name : {"oldenburg", "usa78k", "helsinki_osm"}
        6,105, 78,040 and 2,538 vertices; reads ``road_<name>.npz``. Lengths are straight lines, except
        in Helsinki, where they are measured along the road.
    data_home : path, optional
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.

    Notes
    -----
    Roads have hardly any triangles, so distances between a vertex's neighbours are those of the network.
    """
    _check_name(name, ROADS)
    arrays = load_arrays(f"road_{name}.npz", ("indptr", "indices", "data", "coords"), data_home)
    truth = arrays["coords"].astype(np.float64)
    parts = (
        arrays["data"].astype(np.float64),
        arrays["indices"].astype(np.int32),
        arrays["indptr"].astype(np.int32),
    )
    graph = sp.csr_array(parts, shape=(len(truth), len(truth)))
    graph.sort_indices()
    return GraphDataset(f"road_{name}", graph, truth, _NO_ANCHORS)


def load_mesh(name: str = "camelhead", *, data_home: DataHome = None) -> GraphDataset:
    """A triangle mesh as the graph of its edges; ``truth`` is the positions of its vertices in R^3.

    Parameters
    ----------
    name : {"bunny", "camelhead", "dragon"}
        34,834, 11,381 (a topological disk) and 435,545 vertices; reads ``mesh_<name>.npz``.
    data_home : path, optional
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.
    """
    _check_name(name, MESHES)
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
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.
    """
    arrays = load_arrays("miles_128cities.npz", ("D", "lat", "lon", "names"), data_home)
    miles = arrays["D"].astype(np.float64)
    pairs = np.column_stack(np.triu_indices(len(miles), k=1))
    lengths = miles[pairs[:, 0], pairs[:, 1]]
    if max_miles is not None:
        if not max_miles > 0.0:
            raise ValueError(f"max_miles must be positive, got {max_miles!r}.")
        pairs, lengths = pairs[lengths <= max_miles], lengths[lengths <= max_miles]
    truth = _map_in_miles(arrays["lat"].astype(np.float64), arrays["lon"].astype(np.float64))
    names = tuple(str(name) for name in arrays["names"])
    graph = symmetric_graph(pairs, lengths, len(miles))
    return GraphDataset("city_miles", graph, truth, _NO_ANCHORS, vertex_names=names)


def load_protein(*, data_home: DataHome = None) -> GraphDataset:
    """NMR distance restraints of a 73-residue protein; ``truth`` is the refined model, in Angstrom.

    Reads ``nmr_ns1_noe.npz``: 252 sites in five components. A pair restrained more than once keeps its
    smallest distance. Restraints are loose bounds, not measurements.
    """
    names = ("i", "j", "d", "node_resid", "node_name", "node_coords")
    arrays = load_arrays("nmr_ns1_noe.npz", names, data_home)
    low, high = np.minimum(arrays["i"], arrays["j"]), np.maximum(arrays["i"], arrays["j"])
    order = np.lexsort((arrays["d"], high, low))
    pairs = np.column_stack([low, high])[order]
    _, first = np.unique(pairs, axis=0, return_index=True)
    graph = symmetric_graph(pairs[first], arrays["d"][order][first], len(arrays["node_coords"]))
    sites = tuple(f"{r} {n}" for r, n in zip(arrays["node_resid"], arrays["node_name"], strict=True))
    truth = arrays["node_coords"].astype(np.float64)
    return GraphDataset("protein_ns1", graph, truth, _NO_ANCHORS, vertex_names=sites)


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


def _check_name(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(known)}, got {name!r}.")
