"""Annotated data of single cells, as scanpy keeps them: neighbour distances out, coordinates in."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave.graph import graph_from_matrix
from isoweave.interop._graphs import NamedDistances


def from_anndata(adata: Any, key: str = "distances", *, asymmetry: str = "max") -> NamedDistances:
    """Distances between neighbouring cells, as ``scanpy.pp.neighbors`` leaves them in ``obsp``.

    Each row of scanpy's matrix holds the nearest neighbours of one cell, so most pairs are stored in one
    direction only. Here each counts in both, as in every nearest-neighbour graph of isoweave.

    Parameters
    ----------
    adata : anndata.AnnData
    key : str
        Entry of ``adata.obsp``. Connectivities are similarities and are refused.
    asymmetry : {"max", "min", "mean", "error"}
        For pairs stored in both directions with different lengths, as approximate searches may leave them.

    Returns
    -------
    NamedDistances
        ``distances`` (symmetric, n_obs x n_obs) and ``names`` (``adata.obs_names``).

    Examples
    --------
    With scanpy::

        sc.pp.neighbors(adata, n_neighbors=15)
        distances, names = isoweave.from_anndata(adata)
        isoweave.to_anndata(adata, isoweave.embed_graph(distances, n_components=2))
        sc.pl.embedding(adata, "isoweave", color="leiden")
    """
    obsp = getattr(adata, "obsp", None)
    if obsp is None:
        raise TypeError(f"Expected an AnnData object, got {type(adata).__name__}.")
    if key not in obsp:
        raise ValueError(
            f"obsp has no {key!r}; it has {sorted(obsp.keys())}. Compute the neighbour graph first, for "
            "example with scanpy.pp.neighbors(adata), or name another entry with key=."
        )
    if key.endswith("connectivities"):
        raise ValueError(
            f"obsp[{key!r}] holds connectivities, which are similarities: near cells have large values. "
            "Distances are needed; scanpy keeps them in obsp['distances']."
        )
    matrix = obsp[key]
    if hasattr(matrix, "to_memory"):
        # Backed by a file that is open.
        matrix = matrix.to_memory()
    if not sp.issparse(matrix):
        raise TypeError(
            f"obsp[{key!r}] is a {type(matrix).__name__}, not a sparse matrix. A matrix of all distances can "
            "be given to IsometricEmbedding(metric='precomputed'), which takes n_neighbors of each row."
        )
    graph = graph_from_matrix(matrix, asymmetry=asymmetry)
    return NamedDistances(graph.to_matrix(), tuple(adata.obs_names))


def to_anndata(adata: Any, result: Any, key_added: str = "X_isoweave") -> None:
    """Write a map into ``adata.obsm``, where ``scanpy.pl.embedding`` finds it.

    Parameters
    ----------
    adata : anndata.AnnData
        Changed in place.
    result : Embedding, fitted IsometricEmbedding, or array of shape (n_obs, N)
        Rows in the order of ``adata.obs_names``. Of an embedding or an estimator, ``status``,
        ``relative_energy`` and ``n_iter`` go into ``adata.uns`` as well.
    key_added : str
        Key in ``adata.obsm``; without a leading ``X_`` it is the key in ``adata.uns``.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from isoweave.interop import to_anndata
    >>> adata = SimpleNamespace(n_obs=3, obsm={}, uns={})
    >>> to_anndata(adata, np.eye(3))
    >>> sorted(adata.obsm)
    ['X_isoweave']
    """
    if not (hasattr(adata, "obsm") and hasattr(adata, "n_obs")):
        raise TypeError(f"Expected an AnnData object, got {type(adata).__name__}.")
    ending = "_" if hasattr(result, "embedding_") else ""
    found = getattr(result, "embedding_" if ending else "coordinates", result)
    coordinates = np.asarray(found)
    facts = {}
    if found is not result:
        facts = {name: getattr(result, name + ending) for name in ("status", "relative_energy", "n_iter")}
    if coordinates.ndim != 2 or len(coordinates) != adata.n_obs:
        raise ValueError(
            f"The map has the shape {coordinates.shape}, but adata has {adata.n_obs} observations; there "
            "must be one row for each, in their order."
        )
    adata.obsm[key_added] = coordinates
    if facts:
        adata.uns[key_added.removeprefix("X_")] = facts
