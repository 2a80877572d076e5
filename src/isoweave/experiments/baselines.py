"""Other methods behind one call, all on the same distance graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from isoweave._parallel import resolve_n_jobs
from isoweave._typing import FloatArray
from isoweave._validation import check_integer, check_option
from isoweave.experiments import _spectral, _stochastic
from isoweave.graph import NeighborGraph, connected_components, graph_from_matrix

__all__ = ["BASELINES", "Baseline", "available_baselines", "run_baseline"]

# All distances of this many vertices take 1.1 GiB.
_MOST_DENSE_VERTICES = 12_000


@dataclass(frozen=True)
class Baseline:
    """A method to compare with."""

    name: str
    title: str
    # method(graph, n_components, **some of random_state, n_jobs, n_neighbors) -> (n, N) array
    method: Callable[..., FloatArray]
    # The optional package it needs, and the extra of isoweave that installs it.
    package: str | None = None
    extra: str | None = None
    # Coordinates are in the unit of the distances; other methods have a scale of their own.
    is_metric: bool = False
    # It stores all distances between vertices.
    dense: bool = True


BASELINES: dict[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        Baseline("isomap", "Isomap", _spectral.isomap, is_metric=True),
        Baseline("lle", "LLE", _spectral.lle),
        Baseline("hlle", "Hessian LLE", _spectral.hessian_lle),
        Baseline("ltsa", "LTSA", _spectral.ltsa),
        Baseline("laplacian", "Laplacian eigenmaps", _spectral.laplacian_eigenmaps, dense=False),
        Baseline("diffusion", "Diffusion maps", _spectral.diffusion_maps),
        Baseline("tsne", "t-SNE", _stochastic.tsne),
        Baseline("umap", "UMAP", _stochastic.umap, "umap", "baselines", dense=False),
        Baseline("mde", "MDE", _stochastic.mde, "pymde", "mde", is_metric=True, dense=False),
    )
}


def available_baselines() -> tuple[str, ...]:
    """Names of the baselines that can run here: all but those whose optional package is missing.

    Examples
    --------
    >>> available_baselines()[:4]
    ('isomap', 'lle', 'hlle', 'ltsa')
    """
    return tuple(
        baseline.name
        for baseline in BASELINES.values()
        if baseline.package is None or find_spec(baseline.package) is not None
    )


def run_baseline(
    name: str,
    graph: Any,
    n_components: int,
    *,
    n_neighbors: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """Embed a distance graph by another method.

    ==========  ============================================================================
    isomap      scikit-learn's, on the graph's shortest paths
    lle         weights from local Gram matrices of geodesics, in place of feature vectors
    hlle        Hessian LLE, local coordinates from the same Gram matrices
    ltsa        local tangent space alignment, tangent coordinates from the same matrices
    laplacian   scikit-learn's spectral embedding of the edges' heat kernel
    diffusion   diffusion maps of a Gaussian kernel of all geodesics
    tsne        scikit-learn's t-SNE on the graph's shortest paths
    umap        umap-learn on the nearest vertices along the graph (extra ``baselines``)
    mde         pymde's distance-preserving embedding of the graph (extra ``mde``)
    ==========  ============================================================================

    Parameters
    ----------
    name : str
        One of the above.
    graph : NeighborGraph or scipy sparse matrix of shape (n, n)
        Connected.
    n_components : int
        Dimension N of the embedding.
    n_neighbors : int, optional
        Nearest vertices UMAP uses; the graph's smallest degree, at least 5, by default.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads; all cores by default.

    Returns
    -------
    array of shape (n, N)
        Isomap and MDE keep the unit of the distances. Spectral methods return columns of mean square 1;
        diffusion maps scale them by their eigenvalues.

    Examples
    --------
    >>> from isoweave.experiments.baselines import run_baseline
    >>> from isoweave.datasets import swiss_roll
    >>> from isoweave.graph import knn_graph
    >>> graph = knn_graph(swiss_roll(200, random_state=7).data, 10)
    >>> run_baseline("ltsa", graph, 2, random_state=7).shape
    (200, 2)
    """
    check_option("name", name, tuple(BASELINES))
    baseline = BASELINES[name]
    checked: NeighborGraph = graph_from_matrix(graph)
    n = checked.n_vertices
    n_components = check_integer("n_components", n_components, minimum=1)
    if n_components >= n - 1:
        raise ValueError(f"n_components must be below n - 1 = {n - 1}, got {n_components}.")
    n_parts, labels = connected_components(checked)
    if n_parts > 1:
        outside = np.flatnonzero(labels > 0)[:3].tolist()
        raise ValueError(
            f"Baselines need a connected graph, this one has {n_parts} components (vertices {outside} are "
            "not in the largest); embed them one by one, or join them with bridge_components."
        )
    if baseline.dense and n > _MOST_DENSE_VERTICES:
        raise ValueError(
            f"{baseline.title} stores all distances, which is done for up to {_MOST_DENSE_VERTICES:,} "
            f"vertices; this graph has {n:,}."
        )
    options = {"random_state": random_state, "n_jobs": resolve_n_jobs(n_jobs), "n_neighbors": n_neighbors}
    taken = inspect.signature(baseline.method).parameters
    with threadpool_limits(options["n_jobs"]):
        found = baseline.method(checked, n_components, **{k: v for k, v in options.items() if k in taken})
    embedding: FloatArray = np.ascontiguousarray(found, dtype=np.float64)
    if embedding.shape != (n, n_components) or not np.isfinite(embedding).all():
        raise RuntimeError(
            f"{baseline.title} failed: expected a finite array of shape {(n, n_components)}, "
            f"got shape {embedding.shape} with {np.count_nonzero(~np.isfinite(embedding))} values not finite."
        )
    return embedding
