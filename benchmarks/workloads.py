"""What the performance suite runs on: data sets of any size, and graphs with and without a hub."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from cases import RECORDS, hash_folders
from isoweave import datasets
from isoweave.datasets import Dataset
from isoweave.graph import NeighborGraph, graph_from_matrix, knn_graph

SEED = 17
# A hub is joined to one vertex in this many: 100,000 in a million.
HUB_SHARE = 10


@dataclass(frozen=True)
class Workload:
    """A family of data sets, one per size.

    Attributes
    ----------
    name, title : str
    n_neighbors, n_components : int
    load : callable
        Data set of n points.
    sizes : tuple of int
        Sizes of the whole suite.
    is_graph : bool
        Methods are given a distance graph (:func:`graph_of`) and not features.
    most : int or None
        Points there are; None where they can be made.
    """

    name: str
    title: str
    n_neighbors: int
    n_components: int
    load: Callable[[int], Dataset]
    sizes: tuple[int, ...]
    is_graph: bool = False
    most: int | None = None

    def warm_up(self) -> Dataset:
        """A small relative: enough points for every search and start that large ones go through."""
        return first_points(self.load(min(5000, self.most or 5000)), 5000)


def swiss_roll(n: int) -> Dataset:
    return datasets.swiss_roll(n, random_state=SEED)


def rolled_box(n: int) -> Dataset:
    """A solid box rolled up in R^4: three-dimensional, isometric to (arc, y, z)."""
    roll = swiss_roll(n)
    assert roll.truth is not None
    # Thin enough for 1,000 points to lie closer than the sheets of the roll.
    depth = np.random.default_rng(SEED).uniform(0.0, 5.0, size=(n, 1))
    data, truth = np.hstack([roll.data, depth]), np.hstack([roll.truth, depth])
    return Dataset("rolled_box", data, truth, isometric=True)


def difficult(n: int) -> Dataset:
    return datasets.difficult(n, random_state=SEED)


def curved_13(n: int) -> Dataset:
    """Points of a 13-dimensional cube on a quadratic graph in R^64, in place of MNIST."""
    rng = np.random.default_rng(SEED)
    flat = rng.uniform(-1.0, 1.0, size=(n, 13))
    across, bend = rng.normal(size=(13, 64)) / np.sqrt(13), rng.normal(size=(13, 64)) / 13
    return Dataset("curved_13", flat @ across + 0.3 * (flat**2) @ bend, flat)


def mnist(n: int) -> Dataset:
    """The 10,000 test images; above that the training images follow."""
    test = datasets.load_mnist("test")
    if n <= test.n_samples:
        return first_points(test, n)
    train = datasets.load_mnist("train")
    assert test.labels is not None
    assert train.labels is not None
    whole = replace(
        test, data=np.vstack([test.data, train.data]), labels=np.concatenate([test.labels, train.labels])
    )
    return first_points(whole, n)


def first_points(data: Dataset, n: int) -> Dataset:
    """The first n points of a data set."""
    if n >= data.n_samples:
        return data
    parts: dict[str, Any] = {"data": data.data[:n]}
    for name in ("parameters", "labels"):
        array = getattr(data, name)
        parts[name] = None if array is None else array[:n]
    return replace(data, **parts)


def graph_of(workload: Workload, data: Dataset) -> sp.csr_array:
    """Distance graph of a workload whose ``is_graph`` is set: neighbours, and the hub if it has one."""
    matrix = knn_graph(data.data, workload.n_neighbors).to_matrix()
    if workload.name == "hub":
        assert data.truth is not None
        n = data.n_samples
        # In the middle of the sheet, joined at true distances: the graph stays that of a flat sheet.
        centre = int(np.argmin(np.linalg.norm(data.truth - data.truth.mean(axis=0), axis=1)))
        away = np.linalg.norm(data.truth - data.truth[centre], axis=1)
        spokes = np.argsort(away)[1 : n // HUB_SHARE + 1]
        star = sp.coo_array((away[spokes], (np.full(len(spokes), centre), spokes)), shape=(n, n)).tocsr()
        matrix = sp.csr_array(matrix.maximum(star + star.T))
    return matrix


def reference_graph(workload: Workload, data: Dataset) -> NeighborGraph:
    """Graph that maps of every method are scored against; kept on disk, as the search may take minutes."""
    if workload.is_graph:
        return graph_from_matrix(graph_of(workload, data))
    code = hash_folders("graph")
    stamp = hashlib.sha256(np.ascontiguousarray(data.data[:1000]).tobytes()).hexdigest()[:8]
    path = RECORDS / "graphs" / f"{workload.name}-{data.n_samples}-{workload.n_neighbors}-{stamp}-{code}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return NeighborGraph(arrays["indptr"], arrays["indices"], arrays["lengths"])
    graph = knn_graph(data.data, workload.n_neighbors)
    keep_graph(path, graph)
    return graph


def keep_graph(path: Any, graph: NeighborGraph) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and moved, so that a run stopped here leaves no half file.
    partial = path.with_suffix(".part.npz")
    np.savez(partial, indptr=graph.indptr, indices=graph.indices, lengths=graph.lengths)
    partial.rename(path)


_GROWING = (1_000, 10_000, 50_000, 200_000, 1_000_000)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("swiss", "Swiss roll, k = 10, N = 2", 10, 2, swiss_roll, _GROWING),
        Workload("box", "Rolled box in R^4, k = 10, N = 3", 10, 3, rolled_box, (1_000, 10_000, 50_000)),
        Workload("difficult", '"Difficult" set, k = 14, N = 5', 14, 5, difficult, (1_000, 10_000, 50_000)),
        Workload("mnist", "MNIST, k = 15, N = 13", 15, 13, mnist, (10_000, 70_000), most=70_000),
        Workload("mnist-2d", "MNIST, k = 10, N = 2", 10, 2, mnist, (70_000,), most=70_000),
        Workload("curved13", "13-D set in R^64, k = 15, N = 13", 15, 13, curved_13, (10_000, 50_000)),
        Workload("sheet", "Graph of a sheet", 10, 2, swiss_roll, (50_000, 1_000_000), is_graph=True),
        Workload("hub", "The same with a hub", 10, 2, swiss_roll, (50_000, 1_000_000), is_graph=True),
    )
}


def available() -> list[Workload]:
    """MNIST where there is a data folder, otherwise the synthetic set of the same dimension."""
    try:
        datasets.load_mnist("test")
        datasets.load_mnist("train")
        absent = {"curved13"}
    except datasets.DatasetMissingError:
        absent = {"mnist", "mnist-2d"}
    return [workload for workload in WORKLOADS.values() if workload.name not in absent]
