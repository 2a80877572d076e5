"""Graph objects of networkx and igraph as sparse distance matrices."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from isoweave.graph import graph_from_matrix


class NamedDistances(NamedTuple):
    """A distance graph and the names of its vertices.

    Attributes
    ----------
    distances : csr_array of shape (n, n)
        Symmetric; every stored entry is an edge, explicit zeros included.
    names : tuple of length n
        What the other library calls the vertices, in the order of the rows.
    """

    distances: sp.csr_array
    names: tuple[Any, ...]


def from_networkx(
    G: Any, weight: str | Callable[..., Any] | None = "weight", *, asymmetry: str = "error"
) -> NamedDistances:
    """Distances along the edges of a networkx graph.

    Self-loops say nothing about distances and are left out. In directed graphs one direction of an edge is
    enough; two directions, or parallel edges, of different lengths are resolved by ``asymmetry``.

    Parameters
    ----------
    G : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        At least two nodes; isolated ones are components of their own.
    weight : str, callable or None
        Edge attribute that holds the **length** (not a similarity); or a function of ``(u, v, data)`` that
        returns it; None gives every edge the length 1.
    asymmetry : {"error", "max", "min", "mean"}
        As in :func:`isoweave.graph.graph_from_matrix`.

    Returns
    -------
    NamedDistances
        ``distances`` and ``names``, which unpack like a pair; rows are in the order of ``G.nodes``. An edge
        without a length, or with one that is negative or not finite, is an error that names it.

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
    names = tuple(G.nodes)
    position = {name: i for i, name in enumerate(names)}
    edges = list(G.edges(data=True))
    ends = [(position[u], position[v]) for u, v, _ in edges]
    if callable(weight):
        lengths = [weight(u, v, data) for u, v, data in edges]
    else:
        lengths = [1.0 if weight is None else data.get(weight) for _, _, data in edges]
    return _assembled(names, ends, lengths, weight, asymmetry)


def from_igraph(
    G: Any, weight: str | Callable[..., Any] | None = "weight", *, asymmetry: str = "error"
) -> NamedDistances:
    """Distances along the edges of an igraph graph.

    Parameters
    ----------
    G : igraph.Graph
        Directed or not; loops and parallel edges as in :func:`from_networkx`.
    weight : str, callable or None
        Edge attribute that holds the **length**; or a function of an ``igraph.Edge`` that returns it; None
        gives every edge the length 1.
    asymmetry : {"error", "max", "min", "mean"}
        As in :func:`isoweave.graph.graph_from_matrix`.

    Returns
    -------
    NamedDistances
        ``distances`` and ``names``: the vertex attribute "name" where there is one, else 0 to n - 1.
    """
    if not all(hasattr(G, part) for part in ("vs", "es", "get_edgelist")):
        raise TypeError(f"Expected an igraph graph, got {type(G).__name__}.")
    named = "name" in G.vs.attributes()
    names = tuple(G.vs["name"]) if named else tuple(range(G.vcount()))
    ends = G.get_edgelist()
    if callable(weight):
        lengths = [weight(edge) for edge in G.es]
    elif weight in G.es.attributes():
        lengths = list(G.es[weight])
    else:
        lengths = [1.0 if weight is None else None] * len(ends)
    return _assembled(names, ends, lengths, weight, asymmetry)


def distances_of(X: Any) -> Any:
    """The distance matrix of a graph of networkx or igraph; anything else as it is.

    Lengths are the edge attribute "weight". The estimator passes what it is given through here if
    ``metric="precomputed"``.
    """
    for base in type(X).__mro__:
        library = base.__module__.partition(".")[0]
        if library == "networkx" and hasattr(X, "adj"):
            return from_networkx(X).distances
        if library == "igraph" and hasattr(X, "get_edgelist"):
            return from_igraph(X).distances
    return X


def _assembled(
    names: tuple[Any, ...], ends: Sequence[tuple[int, int]], lengths: list[Any], weight: Any, asymmetry: str
) -> NamedDistances:
    values = np.empty(len(ends))
    for e, length in enumerate(lengths):
        if type(length) is not float:
            _check_real(names, ends[e], length, weight)
        values[e] = length
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        u, v = ends[bad[0]]
        raise ValueError(
            f"Edge ({names[u]!r}, {names[v]!r}) has the length {values[bad[0]]}; lengths must be finite and "
            "not negative. Leave out edges of unknown length."
        )
    pairs = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
    apart = pairs[:, 0] != pairs[:, 1]
    matrix = sp.coo_array((values[apart], tuple(pairs[apart].T)), shape=(len(names), len(names)))
    try:
        return NamedDistances(graph_from_matrix(matrix, asymmetry=asymmetry).to_matrix(), names)
    except ValueError as error:
        raise ValueError(f"{error} Entries are numbered in the order of the graph's vertices.") from error


def _check_real(names: tuple[Any, ...], ends: tuple[int, int], length: Any, weight: Any) -> None:
    edge = f"Edge ({names[ends[0]]!r}, {names[ends[1]]!r})"
    if length is None:
        where = f"attribute {weight!r}" if isinstance(weight, str) else "length"
        raise ValueError(
            f"{edge} has no {where}. Name the attribute that holds the lengths with weight=..., or pass "
            "weight=None to give every edge the length 1."
        )
    if not isinstance(length, numbers.Real) or isinstance(length, bool | np.bool_):
        raise TypeError(f"{edge} has the length {length!r} of type {type(length).__name__}; give a number.")
