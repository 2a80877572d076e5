"""Graphs of other libraries in, coordinates back: networkx, igraph, geopandas and AnnData.

None of them is imported here: objects are read through their own methods, so none needs to be installed.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.result import Embedding, as_embedding


class NamedDistances(NamedTuple):
    """A distance graph and the names of its vertices.

    ``distances`` is a symmetric csr_array of shape (n, n) in which every stored entry is an edge, explicit
    zeros included; ``names`` are what the other library calls the vertices, in the order of the rows.
    """

    distances: sp.csr_array
    names: tuple[Any, ...]


def from_networkx(
    G: Any, weight: str | Callable[..., Any] | None = "weight", *, asymmetry: str = "error"
) -> NamedDistances:
    """Distances along the edges of a networkx graph.

    Rows are in the order of ``G.nodes``; self-loops are left out. In directed graphs one direction of an
    edge is enough. An edge whose length is missing, negative or not finite is an error that names it.

    Parameters
    ----------
    G : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
    weight : str, callable or None
        Edge attribute that holds the **length** (not a similarity); or a function of ``(u, v, data)`` that
        returns it; None gives every edge the length 1.
    asymmetry : {"error", "max", "min", "mean"}
        What becomes of two directions, or parallel edges, of different lengths.

    Examples
    --------
    >>> import networkx as nx
    >>> from isoweave import embed_graph, from_networkx
    >>> G = nx.Graph()
    >>> G.add_weighted_edges_from([("a", "b", 3.0), ("b", "c", 4.0), ("a", "c", 5.0)])
    >>> distances, names = from_networkx(G)
    >>> names, embed_graph(distances).coordinates.shape
    (('a', 'b', 'c'), (3, 2))
    """
    if not all(hasattr(G, part) for part in ("nodes", "edges", "adj")):
        raise TypeError(f"Expected a networkx graph, got {type(G).__name__}.")
    position = {name: i for i, name in enumerate(G.nodes)}
    edges = list(G.edges(data=True))
    ends = [(position[u], position[v]) for u, v, _ in edges]
    lengths = [weight(*edge) if callable(weight) else edge[2].get(weight) for edge in edges]
    return _assembled(tuple(position), ends, lengths, weight, asymmetry)


def from_igraph(
    G: Any, weight: str | Callable[..., Any] | None = "weight", *, asymmetry: str = "error"
) -> NamedDistances:
    """Distances along the edges of an igraph graph, as :func:`from_networkx`.

    A function given as ``weight`` takes an ``igraph.Edge``. ``names`` are the vertex attribute "name" where
    there is one, else 0 to n - 1.
    """
    if not all(hasattr(G, part) for part in ("vs", "es", "get_edgelist")):
        raise TypeError(f"Expected an igraph graph, got {type(G).__name__}.")
    names = tuple(G.vs["name"] if "name" in G.vs.attributes() else range(G.vcount()))
    if callable(weight):
        lengths = [weight(edge) for edge in G.es]
    else:
        lengths = list(G.es[weight]) if weight in G.es.attributes() else [None] * G.ecount()
    return _assembled(names, G.get_edgelist(), lengths, weight, asymmetry)


def from_geopandas(roads: Any, *, length: str | None = None, digits: int = 6) -> NamedDistances:
    """Distances along the lines of a GeoDataFrame, between the points where they end or meet.

    Lines that share an end meet there; lines that cross elsewhere do not. Vertices are named by their
    coordinates.

    Parameters
    ----------
    roads : geopandas.GeoDataFrame or GeoSeries
        Of LineString and MultiLineString, as ``geopandas.read_file("roads.gpkg")`` returns it, in a projected
        coordinate system (``roads.to_crs(...)``): degrees are no lengths.
    length : str, optional
        Column with the length of every line; by default that of its geometry.
    digits : int
        Decimals to which ends must agree to be one point.

    Of two lines between the same two points the shorter one counts.
    """
    crs = getattr(roads, "crs", None)
    if not hasattr(roads, "geometry") or not hasattr(roads, "explode"):
        raise TypeError(f"Expected a GeoDataFrame or GeoSeries, got {type(roads).__name__}.")
    if crs is not None and crs.is_geographic and length is None:
        raise ValueError(
            f"The coordinates are degrees ({crs.name}), which are no lengths: project them first, such as "
            "with roads.to_crs(roads.estimate_utm_crs()), or name a column with length=."
        )
    parts = roads.explode(index_parts=False)
    kinds = set(parts.geometry.geom_type) - {"LineString", "LinearRing"}
    if kinds:
        raise ValueError(f"Expected lines, but there is a {sorted(map(str, kinds))[0]}.")
    position: dict[Any, int] = {}
    ends, lengths = [], []
    measured = parts.geometry.length if length is None else parts[length]
    for line, far in zip(parts.geometry, measured, strict=True):
        first, *_, last = ((round(x, digits), round(y, digits)) for x, y, *_ in line.coords)
        start = position.setdefault(first, len(position))
        ends.append((start, position.setdefault(last, len(position))))
        lengths.append(float(far))
    return _assembled(tuple(position), ends, lengths, length or "length", "min")


def distances_of(X: Any, precomputed: bool = True) -> Any:
    """The distances ("weight") of a graph of networkx or igraph, if asked for; anything else as it is."""
    libraries = _libraries(X)
    if precomputed and "networkx" in libraries and hasattr(X, "adj"):
        return from_networkx(X).distances
    if precomputed and "igraph" in libraries and hasattr(X, "get_edgelist"):
        return from_igraph(X).distances
    if "anndata" in libraries:
        raise TypeError(
            "fit takes features or distances, not AnnData: call isoweave.tl.embed(adata), or fit "
            "adata.obsm['X_pca'], or with metric='precomputed' adata.obsp['distances']."
        )
    return X


def _libraries(given: Any) -> set[str]:
    """The packages that an object's classes come from, none of which is imported for that."""
    return {base.__module__.partition(".")[0] for base in type(given).__mro__}


def _assembled(
    names: tuple[Any, ...], ends: Sequence[tuple[int, int]], lengths: list[Any], weight: Any, asymmetry: str
) -> NamedDistances:
    if weight is None:
        lengths = [1.0] * len(ends)
    for (u, v), length in zip(ends, lengths, strict=True):
        if type(length) is float and 0 <= length < np.inf:
            continue
        edge = f"Edge ({names[u]!r}, {names[v]!r})"
        if length is None:
            where = f"attribute {weight!r}" if isinstance(weight, str) else "length"
            hint = (
                "Name the attribute with the lengths by weight=..., or give every edge length 1: weight=None"
            )
            raise ValueError(f"{edge} has no {where}. {hint}.")
        if not isinstance(length, numbers.Real) or isinstance(length, bool | np.bool_):
            kind = type(length).__name__
            raise TypeError(f"{edge} has the length {length!r} of type {kind}, not a number.")
        if not 0 <= float(length) < np.inf:
            said = f"{edge} has the length {float(length)}; lengths must be finite and not negative"
            raise ValueError(f"{said}. Leave out edges of unknown length.")
    pairs = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
    values = np.asarray(lengths, dtype=np.float64)
    apart = pairs[:, 0] != pairs[:, 1]
    matrix = sp.coo_array((values[apart], tuple(pairs[apart].T)), shape=(len(names), len(names)))
    try:
        return NamedDistances(graph_from_matrix(matrix, asymmetry=asymmetry).to_matrix(), names)
    except ValueError as error:
        raise ValueError(f"{error} Entries are numbered in the order of the graph's vertices.") from error


def from_anndata(adata: Any, key: str = "distances", *, asymmetry: str = "max") -> NamedDistances:
    """Distances between neighbouring cells, as ``scanpy.pp.neighbors`` leaves them in ``obsp``.

    Each row of ``adata.obsp[key]`` holds the nearest neighbours of one cell, so most pairs are stored in one
    direction only; here each counts in both. ``asymmetry`` is for pairs stored in both with different
    lengths, as approximate searches may leave them. Connectivities are similarities and are refused.
    """
    obsp = getattr(adata, "obsp", None)
    if obsp is None:
        raise TypeError(f"Expected an AnnData object, got {type(adata).__name__}.")
    if key not in obsp:
        cure = (
            "Compute the neighbour graph, as by scanpy.pp.neighbors(adata), or name another entry with key="
        )
        raise ValueError(f"obsp has no {key!r}; it has {sorted(obsp.keys())}. {cure}.")
    if key.endswith("connectivities"):
        cure = "Distances are needed; scanpy keeps them in obsp['distances']"
        raise ValueError(f"obsp[{key!r}] holds similarities: near cells have large values. {cure}.")
    matrix = obsp[key]
    if hasattr(matrix, "to_memory"):  # backed by a file that is open
        matrix = matrix.to_memory()
    if not sp.issparse(matrix):
        cure = "Give a matrix of all distances to IsometricEmbedding(metric='precomputed', n_neighbors=...)"
        raise TypeError(f"obsp[{key!r}] is a {type(matrix).__name__}, not a sparse matrix. {cure}.")
    graph = graph_from_matrix(matrix, asymmetry=asymmetry)
    return NamedDistances(graph.to_matrix(), tuple(adata.obs_names))


def features_of(adata: Any, name: str) -> Any:
    """The entry of ``obsm`` of this name; "X" is ``adata.X``."""
    if name != "X" and name not in adata.obsm:
        raise ValueError(
            f"obsm has no {name!r}; it has {sorted(adata.obsm)}. Run scanpy.pp.pca, or use_rep='X'."
        )
    return adata.X if name == "X" else adata.obsm[name]


def is_anndata(given: Any) -> bool:
    """Whether it is annotated data."""
    return "anndata" in _libraries(given)


def map_of_anndata(
    adata: Any, columns: Any = None, key: str = "isoweave"
) -> tuple[Embedding, dict[str, Any]]:
    """The map that :func:`isoweave.tl.embed` left in annotated data, and columns of ``obs`` and genes.

    ``columns`` are names of columns of ``obs`` and of genes (``var_names``), by default all of ``obs``.
    """
    if f"X_{key}" not in adata.obsm:
        raise ValueError(
            f"obsm has no 'X_{key}'; it has {sorted(adata.obsm.keys())}. Run isoweave.tl.embed(adata) first, "
            "or give the coordinates: write_report(adata.obsm['X_umap'], path, columns=adata.obs)."
        )
    made = dict(adata.uns.get(key, {}).get("params", {}))
    graph: Any = None
    if "distances_key" in made:
        graph = graph_from_matrix(from_anndata(adata, made["distances_key"]).distances)
    elif "use_rep" in made:
        features, k = features_of(adata, made["use_rep"]), int(made.get("n_neighbors", 10))
        graph = knn_graph(features, k, metric=made.get("metric", "euclidean"))
    found = replace(as_embedding(np.asarray(adata.obsm[f"X_{key}"])), graph=graph, parameters=made)
    if columns is not None and not all(isinstance(name, str) for name in columns):
        raise TypeError(
            "columns of annotated data are names, of columns of obs and of genes: ['louvain', 'CD3D']."
        )
    chosen: dict[str, Any] = {}
    for name in list(adata.obs) if columns is None else columns:
        if name in adata.obs:
            chosen[name] = adata.obs[name]
        elif name in adata.var_names:
            values = adata[:, [name]].X
            chosen[name] = np.asarray(values.toarray() if sp.issparse(values) else values).ravel()
        else:
            known = ", ".join(map(str, adata.obs))
            raise ValueError(f"{name!r} is neither a gene nor a column of obs, which has {known or 'none'}.")
    return replace(found, names=tuple(map(str, adata.obs_names))), chosen


def to_anndata(adata: Any, result: Any, key_added: str = "X_isoweave") -> None:
    """Write a map into ``adata.obsm[key_added]``, where ``scanpy.pl.embedding`` finds it.

    ``result`` is an array of shape (n_obs, N), an Embedding or a fitted IsometricEmbedding; of these,
    ``status``, ``relative_energy`` and ``n_iter`` go into ``adata.uns`` too, under the key without ``X_``.
    """
    if not (hasattr(adata, "obsm") and hasattr(adata, "n_obs")):
        raise TypeError(f"Expected an AnnData object, got {type(adata).__name__}.")
    ending = "_" if hasattr(result, "embedding_") else ""
    found = getattr(result, "embedding_" if ending else "coordinates", result)
    coordinates = np.asarray(found)
    if coordinates.ndim != 2 or len(coordinates) != adata.n_obs:
        said = f"The map has the shape {coordinates.shape}, but adata has {adata.n_obs} observations"
        raise ValueError(f"{said}; there must be one row for each, in their order.")
    adata.obsm[key_added] = coordinates
    if found is not result:
        facts = {name: getattr(result, name + ending) for name in ("status", "relative_energy", "n_iter")}
        adata.uns[key_added.removeprefix("X_")] = facts
