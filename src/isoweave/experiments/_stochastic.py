"""t-SNE, UMAP and minimum-distortion embedding, by the libraries that have them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from isoweave._parallel import resolve_n_jobs, thread_team
from isoweave._typing import FloatArray
from isoweave.experiments._spectral import all_geodesics, isomap
from isoweave.graph import NeighborGraph, geodesic_neighbors

_PERPLEXITY = 30.0
_LEAST_NEIGHBORS = 5


def tsne(
    graph: NeighborGraph, n_components: int, *, random_state: Any = None, n_jobs: int | None = None
) -> FloatArray:
    """scikit-learn's t-SNE on shortest paths, perplexity 30, started from Isomap's map.

    In more than three dimensions it is the exact, quadratic version. (The usual start from principal
    components needs features; Isomap's map is the same thing for geodesics.)
    """
    from sklearn.manifold import TSNE

    distances = all_geodesics(graph)
    start = isomap(graph, n_components, n_jobs=n_jobs)
    start *= 1e-4 / np.std(start[:, 0])
    is_exact = n_components > 3
    model = TSNE(
        n_components=n_components,
        perplexity=min(_PERPLEXITY, (graph.n_vertices - 1) / 3),
        metric="precomputed",
        init=start.astype(np.float32),
        method="exact" if is_exact else "barnes_hut",
        random_state=random_state,
        n_jobs=n_jobs,
    )
    # Given distances are squared by the approximate version only.
    embedding: FloatArray = model.fit_transform(distances**2 if is_exact else distances)
    return embedding


def umap(
    graph: NeighborGraph,
    n_components: int,
    *,
    n_neighbors: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> FloatArray:
    """umap-learn on the vertices nearest along the graph; for a kNN graph these are its neighbours."""
    with warnings.catch_warnings():
        # On import it tells of a variant that needs another package, and while fitting of what it cannot
        # do with precomputed distances; neither is news to the caller.
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ImportError as error:
            raise ImportError("UMAP needs umap-learn: pip install 'isoweave[baselines]'.") from error
        k = n_neighbors or max(_LEAST_NEIGHBORS, int(graph.degrees.min()))
        k = min(k, graph.n_vertices - 1)
        with thread_team(n_jobs) as team:
            near = geodesic_neighbors(graph, k, team=team).to_matrix()
        seed = check_random_state(random_state).randint(2**31 - 1)
        model = UMAP(
            n_components=n_components, n_neighbors=k, metric="precomputed", random_state=seed, n_jobs=1
        )
        embedding: FloatArray = model.fit_transform(sp.csr_matrix(near))
    return embedding


def mde(
    graph: NeighborGraph, n_components: int, *, random_state: Any = None, n_jobs: int | None = None
) -> FloatArray:
    """pymde's ``preserve_distances`` of the graph: distances along it, kept as well as possible."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pymde
            import torch
        except ImportError as error:
            raise ImportError("MDE needs pymde and torch: pip install 'isoweave[mde]'.") from error
        # The library draws from torch's global generator only; its state is put back.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
            legacy = np.random.get_state()  # noqa: NPY002 (pymde samples edges with numpy's global state)
            threads = torch.get_num_threads()
            try:
                torch.set_num_threads(resolve_n_jobs(n_jobs))
                pymde.seed(int(torch.initial_seed()) % 2**31)
                data = pymde.Graph(sp.csr_matrix(graph.to_matrix()))
                problem = pymde.preserve_distances(data, embedding_dim=n_components)
                found = problem.embed()
            finally:
                torch.set_num_threads(threads)
                np.random.set_state(legacy)  # noqa: NPY002
    embedding: FloatArray = found.cpu().numpy().astype(np.float64)
    return embedding
