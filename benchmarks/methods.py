"""The methods of the performance suite: isoweave and its peers, each on the same threads and neighbours.

All take ``n_neighbors`` neighbours per point. t-SNE is told by its perplexity, of which it takes three times
as many neighbours: a third of ``n_neighbors``, well below its default, which makes it faster. Peers that run
on one thread when seeded are not seeded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workloads import Workload

Fit = Callable[[Any, Workload, int], np.ndarray]


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes
    ----------
    name, title : str
    fit : callable
        From features, workload and number of threads to coordinates.
    package : str
        Distribution whose version a record depends on.
    most : dict of str to int
        Largest size per workload ("*" for the others) that is worth waiting for.
    most_standard : int
        The same for everything when the suite is not run in full.
    max_components : int
        Largest N it can do.
    scale_free : bool
        The unit of its map means nothing: scored after the best rescaling of its edges.
    warm_up : int
        Points of the run before the clock: a few for imports, thousands for methods that compile.
    """

    name: str
    title: str
    fit: Fit
    package: str
    most: dict[str, int]
    most_standard: int
    max_components: int = 1000
    scale_free: bool = True
    warm_up: int = 300

    def takes(self, workload: Workload, n: int, *, full: bool) -> bool:
        """Whether the case is in the suite."""
        if workload.is_graph and self.name != "isoweave":
            return False
        limit = self.most.get(workload.name, self.most["*"])
        limit = limit if full else min(limit, self.most_standard)
        return n <= limit and workload.n_components <= self.max_components


def fit_isoweave(data: Any, workload: Workload, n_jobs: int, **options: Any) -> Any:
    """The fitted estimator."""
    from isoweave import IsometricEmbedding

    metric = "precomputed" if workload.is_graph else "euclidean"
    model = IsometricEmbedding(
        workload.n_components, n_neighbors=workload.n_neighbors, metric=metric, n_jobs=n_jobs, **options
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has .* connected components")
        return model.fit(data)


def _isoweave(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    return np.asarray(fit_isoweave(data, workload, n_jobs).embedding_)


def _isomap(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    from sklearn.manifold import Isomap

    model = Isomap(n_neighbors=workload.n_neighbors, n_components=workload.n_components, n_jobs=n_jobs)
    return np.asarray(model.fit_transform(data))


def _ltsa(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    from sklearn.manifold import LocallyLinearEmbedding

    model = LocallyLinearEmbedding(
        n_neighbors=workload.n_neighbors,
        n_components=workload.n_components,
        method="ltsa",
        random_state=3,
        n_jobs=n_jobs,
    )
    return np.asarray(model.fit_transform(data))


def _tsne(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    from sklearn.manifold import TSNE

    model = TSNE(workload.n_components, perplexity=workload.n_neighbors / 3, random_state=3, n_jobs=n_jobs)
    return np.asarray(model.fit_transform(data))


def _umap(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    from umap import UMAP

    model = UMAP(n_neighbors=workload.n_neighbors, n_components=workload.n_components, n_jobs=n_jobs)
    return np.asarray(model.fit_transform(data))


def _opentsne(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    from openTSNE import TSNE

    model = TSNE(workload.n_components, perplexity=workload.n_neighbors / 3, n_jobs=n_jobs, random_state=3)
    return np.asarray(model.fit(np.asarray(data)))


def _pacmap(data: Any, workload: Workload, n_jobs: int) -> np.ndarray:
    from pacmap import PaCMAP

    model = PaCMAP(n_components=workload.n_components, n_neighbors=workload.n_neighbors)
    return np.asarray(model.fit_transform(np.asarray(data, dtype=np.float32)))


METHODS = {
    method.name: method
    for method in (
        Method(
            "isoweave",
            "isoweave",
            _isoweave,
            "isoweave",
            {"*": 10**7},
            50_000,
            scale_free=False,
            warm_up=5000,
        ),
        Method(
            "isomap",
            "Isomap (scikit-learn)",
            _isomap,
            "scikit-learn",
            {"*": 10_000},
            10_000,
            scale_free=False,
        ),
        Method("ltsa", "LTSA (scikit-learn)", _ltsa, "scikit-learn", {"*": 10_000}, 10_000),
        Method(
            "tsne",
            "t-SNE (scikit-learn)",
            _tsne,
            "scikit-learn",
            {"*": 10_000, "swiss": 50_000},
            10_000,
            max_components=3,
        ),
        Method("umap", "umap-learn", _umap, "umap-learn", {"*": 200_000}, 50_000, warm_up=5000),
        Method(
            "opentsne",
            "openTSNE",
            _opentsne,
            "openTSNE",
            {"*": 50_000, "mnist-2d": 70_000},
            50_000,
            max_components=2,
        ),
        Method("pacmap", "PaCMAP", _pacmap, "pacmap", {"*": 200_000}, 50_000, warm_up=2000),
    )
}
