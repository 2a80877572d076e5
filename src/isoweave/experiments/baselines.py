"""Other methods behind one call, all on the same distance graph.

LLE, Hessian LLE and LTSA build a positive semi-definite matrix from neighbourhoods and embed by its smallest
eigenvectors. scikit-learn's versions take feature vectors only; the formulas here are theirs, read from Gram
matrices of geodesics.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from isoweave import graph as graphs
from isoweave._parallel import resolve_n_jobs, thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer, check_option
from isoweave.graph import NeighborGraph, graph_from_matrix

__all__ = ["BASELINES", "Baseline", "available_baselines", "run_baseline"]

# All distances of this many vertices take 1.1 GiB.
_MOST_DENSE_VERTICES = 12_000
# Above, the sparse solver is faster.
_DENSE_EIGENVECTORS = 2_000


def all_geodesics(graph: NeighborGraph) -> FloatArray:
    """Shortest-path distances between all vertices of a connected graph, shape (n, n), symmetric."""
    distances = graphs.geodesics(graph)
    # A path summed from its other end may differ in the last bit.
    return np.minimum(distances, distances.T)


def _isomap(graph: NeighborGraph, n_components: int, *, n_jobs: int) -> FloatArray:
    """scikit-learn's Isomap on the edges of the graph: classical MDS of its shortest paths."""
    from sklearn.manifold import Isomap
    from sklearn.neighbors import sort_graph_by_row_values

    # Zero lengths are raised a little, lest a stored zero be read as no edge.
    positive = graph.lengths[graph.lengths > 0.0]
    least = 1e-9 * float(np.median(positive)) if len(positive) else 1.0
    matrix = sp.csr_matrix(graph.to_matrix().copy())
    matrix.data = np.maximum(matrix.data, least)
    matrix = sort_graph_by_row_values(matrix, copy=True, warn_when_not_sorted=False)
    # An infinite radius takes every stored edge, however many a vertex has.
    options = {"n_neighbors": None, "radius": np.inf, "metric": "precomputed"}
    return Isomap(n_components=n_components, n_jobs=n_jobs, **options).fit_transform(matrix)


def _laplacian_eigenmaps(graph: NeighborGraph, n_components: int, *, random_state: Any) -> FloatArray:
    """scikit-learn's spectral embedding; affinity ``exp(-d^2 / (2 s^2))``, s the median edge length."""
    from sklearn.manifold import SpectralEmbedding

    width = float(np.median(graph.lengths)) or 1.0
    affinity = sp.csr_matrix(graph.to_matrix().copy())
    # An edge far longer than the rest would underflow and cut the graph.
    affinity.data = np.maximum(np.exp(-0.5 * (affinity.data / width) ** 2), 1e-12)
    options = {"affinity": "precomputed", "eigen_solver": "arpack", "random_state": random_state}
    vectors = SpectralEmbedding(n_components=n_components, **options).fit_transform(affinity)
    return vectors / np.sqrt(np.mean(vectors**2, axis=0))


def _diffusion_maps(graph: NeighborGraph, n_components: int) -> FloatArray:
    """Right eigenvectors of the transition matrix times their eigenvalues: diffusion maps, one step.

    The kernel's width is the median geodesic; the density of the sampling is divided out (alpha = 1).
    """
    distances = all_geodesics(graph)
    n = len(distances)
    width = float(np.median(distances[np.triu_indices(n, k=1)])) or 1.0
    kernel = np.exp(-0.5 * (distances / width) ** 2)
    density = kernel.sum(axis=1)
    kernel /= density[:, None] * density
    degree = np.sqrt(kernel.sum(axis=1))
    kernel /= degree[:, None] * degree
    values, vectors = scipy.linalg.eigh(kernel, subset_by_index=(n - 1 - n_components, n - 1))
    right = (vectors / degree[:, None])[:, ::-1]
    # The first one is constant; dividing by it makes the scale that of the stationary distribution.
    coordinates = right[:, 1:] / right[:, :1]
    return coordinates * _signs(coordinates) * values[::-1][1:]


def _lle(graph: NeighborGraph, n_components: int) -> FloatArray:
    """Locally linear embedding: every point as the weighted mean of its neighbours.

    Weights solve ``G_i w = 1`` with ``G_i`` the regularised Gram matrix of the geodesics seen from i.
    """
    distances = all_geodesics(graph)
    residual = np.eye(graph.n_vertices)
    for i, members in neighborhoods(graph, distances, n_components + 1):
        to_i = distances[i, members] ** 2
        among = distances[np.ix_(members, members)] ** 2
        values, vectors = np.linalg.eigh(0.5 * (to_i[:, None] + to_i - among))
        # Grams of shortest paths have negative eigenvalues; weights need a positive definite matrix.
        values = np.maximum(values, 0.0)
        # scikit-learn's regularisation: a multiple of the trace on the diagonal.
        values += 1e-3 * values.sum() if values[-1] > 0.0 else 1.0
        solved = vectors @ ((vectors.T @ np.ones(len(members))) / values)
        residual[i, members] -= solved / solved.sum()
    sparse = sp.csr_array(residual)
    return smallest_eigenvectors((sparse.T @ sparse).toarray(), n_components)


def _ltsa(graph: NeighborGraph, n_components: int) -> FloatArray:
    """Local tangent space alignment: what an affine function of tangent coordinates leaves, summed."""
    distances = all_geodesics(graph)
    total = np.zeros_like(distances)
    for i, others in neighborhoods(graph, distances, n_components + 2):
        members = np.append(others, i)
        tangent = _tangent_coordinates(members, distances, n_components)
        basis = np.column_stack([np.full(len(members), len(members) ** -0.5), tangent])
        total[np.ix_(members, members)] += np.eye(len(members)) - basis @ basis.T
    return smallest_eigenvectors(total, n_components)


def _hessian_lle(graph: NeighborGraph, n_components: int) -> FloatArray:
    """Hessian eigenmaps: second derivatives in tangent coordinates, squared and summed.

    A neighbourhood needs more than ``N (N + 3) / 2`` neighbours and is filled up to that number.
    """
    distances = all_geodesics(graph)
    total = np.zeros_like(distances)
    first, second = np.triu_indices(n_components)
    n_affine = 1 + n_components
    for _, members in neighborhoods(graph, distances, n_affine + len(first)):
        tangent = _tangent_coordinates(members, distances, n_components)
        design = np.column_stack([np.ones(len(members)), tangent, tangent[:, first] * tangent[:, second]])
        hessian = np.linalg.qr(design)[0][:, n_affine:]
        sums = hessian.sum(axis=0)
        hessian = hessian / np.where(np.abs(sums) < 1e-4, 1.0, sums)
        total[np.ix_(members, members)] += hessian @ hessian.T
    return smallest_eigenvectors(total, n_components)


def neighborhoods(
    graph: NeighborGraph, distances: FloatArray, n_least: int
) -> Iterator[tuple[int, AnyArray]]:
    """Every vertex with its neighbours, filled up to ``n_least`` by the vertices nearest along the graph."""
    # The methods were made for k nearest neighbours with k free; some have no answer below a certain k.
    n_least = min(n_least, graph.n_vertices - 1)
    for i in range(graph.n_vertices):
        members = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(members) < n_least:
            away = distances[i].copy()
            away[[i, *members]] = -1.0  # stay in, whatever is nearer
            order = np.argsort(away, kind="stable")
            members = np.setdiff1d(order[: n_least + 1], [i])
        yield i, members


def _tangent_coordinates(members: AnyArray, distances: FloatArray, n_components: int) -> FloatArray:
    """Leading eigenvectors (d, N) of the members' centred Gram matrix: classical MDS, columns orthonormal."""
    squared = distances[np.ix_(members, members)] ** 2
    means = squared.mean(axis=0)
    _, vectors = np.linalg.eigh(-0.5 * (squared - means - means[:, None] + means.mean()))
    return vectors[:, ::-1][:, :n_components]


def smallest_eigenvectors(matrix: FloatArray, n_vectors: int) -> FloatArray:
    """Eigenvectors (n, n_vectors) of the smallest eigenvalues of a matrix whose kernel holds the constants.

    The constant is left out; columns are orthogonal, of mean square 1, their largest entry positive.
    """
    n = len(matrix)
    if n <= _DENSE_EIGENVECTORS:
        _, vectors = scipy.linalg.eigh(matrix, subset_by_index=(0, n_vectors))
    else:
        # A shift just below zero: the matrix itself is singular.
        shift = -1e-10 * float(matrix.diagonal().mean())
        start = np.random.RandomState(0).uniform(-1.0, 1.0, n)
        values, vectors = eigsh(sp.csc_array(matrix), n_vectors + 1, sigma=shift, v0=start)
        vectors = vectors[:, np.argsort(values)]
    # Where the kernel is larger than the constants they are mixed with the rest of it: take them out first.
    overlap = vectors.T @ np.full((n, 1), n**-0.5)
    rotation, _ = np.linalg.qr(np.hstack([overlap, np.eye(n_vectors + 1)]))
    found = vectors @ rotation[:, 1:] if abs(overlap[0, 0]) < 0.999 else vectors[:, 1:]
    return found * (_signs(found) * np.sqrt(n))


def _signs(vectors: FloatArray) -> FloatArray:
    """Factors 1 or -1 that make the largest entry of every column positive."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _tsne(graph: NeighborGraph, n_components: int, *, random_state: Any, n_jobs: int) -> FloatArray:
    """scikit-learn's t-SNE on shortest paths, perplexity 30, exact in more than three dimensions.

    The usual start from principal components needs features; Isomap's map is the same for geodesics.
    """
    from sklearn.manifold import TSNE

    distances = all_geodesics(graph)
    start = _isomap(graph, n_components, n_jobs=n_jobs)
    start *= 1e-4 / np.std(start[:, 0])
    is_exact = n_components > 3
    options: Any = {"metric": "precomputed", "method": "exact" if is_exact else "barnes_hut"}
    options |= {"perplexity": min(30.0, (graph.n_vertices - 1) / 3), "init": start.astype(np.float32)}
    model = TSNE(n_components=n_components, random_state=random_state, n_jobs=n_jobs, **options)
    # Given distances are squared by the approximate version only.
    return model.fit_transform(distances**2 if is_exact else distances)


def _umap(
    graph: NeighborGraph, n_components: int, *, n_neighbors: int | None, random_state: Any, n_jobs: int
) -> FloatArray:
    """umap-learn on the vertices nearest along the graph; for a kNN graph these are its neighbours."""
    from umap import UMAP

    k = min(n_neighbors or max(5, int(graph.degrees.min())), graph.n_vertices - 1)
    with thread_team(n_jobs) as team:
        near = graphs.join_along(graph, k, team=team).to_matrix()
    seed = check_random_state(random_state).randint(2**31 - 1)
    options = {"metric": "precomputed", "random_state": seed, "n_jobs": 1}
    return UMAP(n_components=n_components, n_neighbors=k, **options).fit_transform(sp.csr_matrix(near))


def _mde(graph: NeighborGraph, n_components: int, *, random_state: Any, n_jobs: int) -> FloatArray:
    """pymde's ``preserve_distances`` of the graph: distances along it, kept as well as possible."""
    import pymde
    import torch

    # The library draws from torch's and numpy's global generators only; their states are put back.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
        legacy, threads = np.random.get_state(), torch.get_num_threads()  # noqa: NPY002
        try:
            torch.set_num_threads(n_jobs)
            pymde.seed(int(torch.initial_seed()) % 2**31)
            data = pymde.Graph(sp.csr_matrix(graph.to_matrix()))
            return pymde.preserve_distances(data, embedding_dim=n_components).embed().cpu().numpy()
        finally:
            torch.set_num_threads(threads)
            np.random.set_state(legacy)  # noqa: NPY002


@dataclass(frozen=True)
class Baseline:
    """A method to compare with."""

    title: str
    method: Callable[..., FloatArray]  # of graph, n_components, and some of random_state, n_jobs, n_neighbors
    dense: bool = True  # stores all distances between vertices
    package: str | None = None  # the optional one it needs
    extra: str | None = None  # of isoweave, which installs it


BASELINES: dict[str, Baseline] = {
    "isomap": Baseline("Isomap", _isomap),
    "lle": Baseline("LLE", _lle),
    "hlle": Baseline("Hessian LLE", _hessian_lle),
    "ltsa": Baseline("LTSA", _ltsa),
    "laplacian": Baseline("Laplacian eigenmaps", _laplacian_eigenmaps, dense=False),
    "diffusion": Baseline("Diffusion maps", _diffusion_maps),
    "tsne": Baseline("t-SNE", _tsne),
    "umap": Baseline("UMAP", _umap, dense=False, package="umap", extra="baselines"),
    "mde": Baseline("MDE", _mde, dense=False, package="pymde", extra="mde"),
}


def available_baselines() -> tuple[str, ...]:
    """Names of the baselines that can run here: all but those whose optional package is missing."""
    return tuple(name for name, b in BASELINES.items() if b.package is None or find_spec(b.package))


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

    Parameters
    ----------
    name : str
        ``isomap``, ``laplacian`` (of the edges' heat kernel) and ``tsne`` are scikit-learn's, on shortest
        paths; ``lle``, ``hlle`` and ``ltsa`` follow their formulas with Gram matrices of geodesics in place
        of features; ``diffusion`` has a Gaussian kernel of all geodesics; ``umap`` takes the nearest vertices
        along the graph (extra ``baselines``); ``mde`` is pymde's ``preserve_distances`` (extra ``mde``).
    graph : NeighborGraph or scipy sparse matrix of shape (n, n), connected
    n_components : int
    n_neighbors : int, optional
        Nearest vertices UMAP uses; the graph's smallest degree, at least 5, by default.
    random_state : int, RandomState or None
    n_jobs : int, optional; all cores by default

    Returns
    -------
    array of shape (n, N)
        Isomap and MDE keep the unit of the distances. Spectral methods return columns of mean square 1;
        diffusion maps scale them by their eigenvalues.
    """
    check_option("name", name, tuple(BASELINES))
    baseline = BASELINES[name]
    if name not in available_baselines():
        needed = f"the package {baseline.package}: pip install 'isoweave[{baseline.extra}]'"
        raise ImportError(f"{baseline.title} needs {needed}.")
    checked: NeighborGraph = graph_from_matrix(graph)
    n = checked.n_vertices
    n_components = check_integer("n_components", n_components, minimum=1)
    if n_components >= n - 1:
        raise ValueError(f"n_components must be below n - 1 = {n - 1}, got {n_components}.")
    n_parts, labels = graphs.connected_components(checked)
    if n_parts > 1:
        outside = np.flatnonzero(labels > 0)[:3].tolist()
        said = f"{n_parts} components (vertices {outside} are not in the largest)"
        cure = "embed them one by one, or join them with bridge_components"
        raise ValueError(f"Baselines need a connected graph, this one has {said}; {cure}.")
    if baseline.dense and n > _MOST_DENSE_VERTICES:
        most = f"which is done for up to {_MOST_DENSE_VERTICES:,} vertices; this graph has {n:,}"
        raise ValueError(f"{baseline.title} stores all distances, {most}.")
    options = {"random_state": random_state, "n_jobs": resolve_n_jobs(n_jobs), "n_neighbors": n_neighbors}
    taken = inspect.signature(baseline.method).parameters
    with threadpool_limits(options["n_jobs"]), warnings.catch_warnings():
        if baseline.package is not None:
            # They warn on import of variants they lack, and of what they cannot do with given distances.
            warnings.simplefilter("ignore")
        found = baseline.method(checked, n_components, **{k: v for k, v in options.items() if k in taken})
    embedding: FloatArray = np.ascontiguousarray(found, dtype=np.float64)
    if embedding.shape != (n, n_components) or not np.isfinite(embedding).all():
        got = f"shape {embedding.shape} with {np.count_nonzero(~np.isfinite(embedding))} values not finite"
        raise RuntimeError(
            f"{baseline.title}: expected finite values of shape {(n, n_components)}, got {got}."
        )
    return embedding
