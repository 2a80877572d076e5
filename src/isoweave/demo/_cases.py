"""The data sets of the demonstration and what is measured on them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray

_SEED = 7


@dataclass(frozen=True, eq=False)
class DemoCase:
    """One data set and how it is embedded.

    Attributes
    ----------
    name, title : str
        ``name`` is used in file names.
    data : array of shape (n, d)
    color : array of shape (n,)
        What the points are coloured by.
    n_neighbors, n_components : int
    truth : array of shape (n, N) or None
        Isometric coordinates, where known.
    labels : array of shape (n,) or None
    """

    name: str
    title: str
    data: FloatArray
    color: AnyArray
    n_neighbors: int
    n_components: int
    truth: FloatArray | None = None
    labels: AnyArray | None = None


@dataclass(frozen=True, eq=False)
class DemoResult:
    """One method's embedding of one data set, with its scores (see :mod:`isoweave.metrics`)."""

    method: str
    embedding: FloatArray
    f1: float
    local_distance: float
    procrustes_error: float | None
    accuracy: float | None
    seconds: float


def demo_cases() -> tuple[DemoCase, ...]:
    """A swiss roll of 1500 points, and scikit-learn's 1797 handwritten digits."""
    from isoweave.datasets import load_digits, swiss_roll

    roll = swiss_roll(1500, random_state=_SEED)
    digits = load_digits()
    assert roll.truth is not None
    assert digits.labels is not None
    return (
        DemoCase(
            "swiss_roll",
            f"Swiss roll, {roll.n_samples} points",
            roll.data,
            roll.truth[:, 0],
            n_neighbors=10,
            n_components=2,
            truth=roll.truth,
        ),
        DemoCase(
            "digits",
            f"Handwritten digits, {digits.n_samples} images of 8 x 8",
            digits.data,
            digits.labels,
            n_neighbors=10,
            # What n_components="auto" estimates.
            n_components=9,
            labels=digits.labels,
        ),
    )


def compile_kernels() -> None:
    """Embed a little data in every dimension the cases use, so that no clock runs while numba compiles."""
    from isoweave import IsometricEmbedding

    rng = np.random.default_rng(_SEED)
    for n_components in (2, 9):
        IsometricEmbedding(n_components=n_components, n_neighbors=10).fit(
            rng.normal(size=(300, n_components))
        )


def run_case(case: DemoCase) -> tuple[DemoResult, ...]:
    """Embed a data set with this package and with Isomap, and score both against the same graph."""
    from sklearn.manifold import Isomap
    from sklearn.neighbors import kneighbors_graph

    from isoweave import IsometricEmbedding

    k, n_components = case.n_neighbors, case.n_components
    directed = sp.csr_array(kneighbors_graph(case.data, k, mode="distance"))
    graph = directed.maximum(directed.T)
    methods = {
        "isoweave": IsometricEmbedding(n_components, n_neighbors=k, random_state=_SEED),
        "Isomap": Isomap(n_components=n_components, n_neighbors=k),
    }
    return tuple(_run(case, graph, name, method) for name, method in methods.items())


def _run(case: DemoCase, graph: sp.csr_array, name: str, method: Any) -> DemoResult:
    from isoweave.metrics import label_scores, local_distance, neighborhood_scores, procrustes_error

    started = time.perf_counter()
    embedding: FloatArray = method.fit_transform(case.data)
    seconds = time.perf_counter() - started
    k = case.n_neighbors
    return DemoResult(
        method=name,
        embedding=embedding,
        f1=neighborhood_scores(graph, embedding, n_neighbors=k).f1,
        local_distance=local_distance(graph, embedding),
        procrustes_error=None if case.truth is None else procrustes_error(case.truth, embedding),
        accuracy=None
        if case.labels is None
        else label_scores(case.labels, embedding, n_neighbors=k).accuracy,
        seconds=seconds,
    )
