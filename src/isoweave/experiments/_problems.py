"""The methods, the experiments of catalog.toml, and the loaders of their rows: data sets to problems."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from isoweave import datasets, graph as graphs
from isoweave._typing import AnyArray, FloatArray
from isoweave.datasets import Dataset
from isoweave.experiments.baselines import BASELINES, run_baseline
from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.metrics import GeodesicRows, geodesic_rows

N_SAMPLES, GROUP_SIZE = 1500, 1000
# Components of single-cell counts that are kept: beyond them distances are noise.
N_PRINCIPAL = 50
WEIGHTS = ("0", "0.1", "0.3", "1", "3", "10", "30", "100", "auto")
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper-energy": {"inner_product": "paper", "start": "landmark"},
    # A thousand solves with one matrix: a factor gives the same recursion five times sooner.
    "paper": {"preset": "paper", "solver": "direct"},
    # Points of the curves of the front, and of no table.
    **{f"weight {w}": {"global_weight": w if w == "auto" else float(w)} for w in WEIGHTS},
}
"""Of ``embed_graph``, for the methods that are ours."""
METHODS: dict[str, str] = {
    "default": "isoweave",
    "paper-energy": "paper's energy, good start",
    "paper": "paper as printed",
    **{name: baseline.title for name, baseline in BASELINES.items()},
}
"""Titles of all methods, in the order of the tables."""
# Seeds of those that take longer than all the others together.
SLOW = {"tsne": 5, "mde": 3}


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run: most points, seeds and steps of the paper's slow recursion.

    The name is kept in every record, so that quick results are never taken for full ones.
    """

    name: str
    n_samples: int | None = None
    n_seeds: int | None = None
    all_rows: bool = True
    paper_steps: int | None = None

    @property
    def note(self) -> str:
        """What a reader must know about a run that is not the full one; empty for that."""
        if self.name == "full":
            return ""
        steps = f", the paper's recursion cut at {self.paper_steps} steps" if self.paper_steps else ""
        return (
            f"{self.name.capitalize()} run: seeds per row at most {self.n_seeds}, points at most "
            f"{self.n_samples}, not all rows{steps}. A first look, not the paper's setting; do not quote."
        )


FULL = Scale("full")
"""Everything, as the paper did it."""
QUICK = Scale("quick", n_samples=600, n_seeds=2, all_rows=False, paper_steps=100)
"""Few seeds and points: minutes on two cores, and no more than a first look."""


@dataclass(frozen=True)
class Request:
    """What a row's loader is asked for: a seed, the most points, the data folder, leave to fetch images."""

    seed: int
    n_samples: int | None = None
    data_home: str | Path | None = None
    fetch: bool = False

    def size(self, usual: int) -> int:
        """Number of points: the usual one, unless fewer are asked for."""
        return usual if self.n_samples is None else min(usual, self.n_samples)


@dataclass(frozen=True, eq=False)
class DataProblem:
    """A connected distance graph to embed, and all that maps of it are compared with."""

    graph: NeighborGraph
    n_neighbors: int
    n_components: int
    truth: FloatArray | None = None  # isometric coordinates
    parameters: FloatArray | None = None  # to be recovered up to an affine map; by default the truth
    labels: AnyArray | None = None
    # Scores are against this graph rather than the one that is embedded (added shortcuts, noise).
    clean_graph: NeighborGraph | None = None
    distances: FloatArray | None = None  # for global scores, in place of geodesics (short-circuited graphs)
    color: AnyArray | None = None  # of the points of a figure
    note: str = ""  # what a reader of the table should know

    @property
    def scored_graph(self) -> NeighborGraph:
        return self.clean_graph or self.graph

    @cached_property
    def reference(self) -> GeodesicRows | FloatArray:
        """What global scores are against: shortest paths, unless the problem brings true distances."""
        return geodesic_rows(self.scored_graph) if self.distances is None else self.distances


def connected_knn(data: AnyArray, n_neighbors: int, n_components: int) -> tuple[NeighborGraph, str]:
    """Graph of nearest neighbours; parts are joined by the shortest edges between them, which is noted."""
    graph = graphs.knn_graph(data, n_neighbors, n_jobs=1)
    n_parts, _ = graphs.connected_components(graph)
    if n_parts == 1:
        return graph, ""
    joined = graphs.bridge_components(graph, data, n_bridges=n_components + 1, n_jobs=1)
    return joined, f"{n_parts} components joined by {joined.n_edges - graph.n_edges} edges"


def from_features(data: Dataset, n_neighbors: int, n_components: int) -> DataProblem:
    """The usual problem: kNN graph, scored against itself and whatever is known."""
    n_neighbors = min(n_neighbors, data.n_samples - 1)
    graph, note = connected_knn(data.data, n_neighbors, n_components)
    color = data.labels if data.parameters is None else data.parameters[:, 0]
    known = (data.truth, data.parameters, data.labels)
    return DataProblem(graph, n_neighbors, n_components, *known, color=color, note=note)


def sampled(request: Request, generator: str, k: int, n: int) -> DataProblem:
    data = getattr(datasets, generator)(request.size(N_SAMPLES), random_state=request.seed)
    return from_features(data, k, n)


def swiss(n_neighbors: int, request: Request) -> DataProblem:
    """With many neighbours some graphs are short-circuited; there the true distances are the reference."""
    problem = sampled(request, "swiss_roll", n_neighbors, 2)
    return replace(problem, distances=cdist(problem.truth, problem.truth)) if n_neighbors >= 16 else problem


def klein(request: Request) -> DataProblem:
    """As in the paper, maps are compared with Isomap's."""
    problem = sampled(request, "klein_bottle", 8, 3)
    return replace(problem, parameters=run_baseline("isomap", problem.graph, 3, n_jobs=1))


def image_group(request: Request, loader: str) -> DataProblem:
    """Disjoint groups of 1,000 test images; the seed is the number of the group."""
    whole = getattr(datasets, loader)("test", data_home=request.data_home, fetch=request.fetch)
    first = request.seed * GROUP_SIZE
    members = _shuffled(whole)[first : first + request.size(GROUP_SIZE)]
    return from_features(_taken(whole, members), 13, 13)


def expression(request: Request, loader: str, principal: bool) -> DataProblem:
    """Gene expression; k = N = the two-nearest-neighbour estimate of the dimension, as in the paper."""
    whole = getattr(datasets, loader)(data_home=request.data_home)
    data, note = whole.data, ""
    if principal:
        from sklearn.decomposition import PCA

        data = PCA(min(N_PRINCIPAL, *data.shape), svd_solver="full").fit_transform(data)
        note = f"first {data.shape[1]} principal components; "
    n_components = max(2, round(graphs.intrinsic_dimension(data)))
    members = np.arange(len(data))
    if request.size(len(data)) < len(data):
        members = _shuffled(whole)[: request.size(len(data))]
        n_components = min(n_components, len(members) // 10)
    labels = whole.labels[members]
    problem = from_features(Dataset("", data[members], labels=labels), max(n_components, 5), n_components)
    n_classes = len(np.unique(labels))
    size = f"{len(members):,} samples, {n_classes} classes, k = {problem.n_neighbors}, N = {n_components}"
    return replace(problem, note="; ".join(filter(None, (note + size, problem.note))))


def shortcut_roll(n_shortcuts: int, request: Request) -> DataProblem:
    """A swiss roll's true neighbours with false edges between its sheets; scored without them."""
    data = datasets.swiss_roll(request.size(N_SAMPLES), random_state=request.seed)
    assert data.truth is not None
    # Neighbours of the flat sheet: those of the roll may hold shortcuts of their own.
    problem = from_features(replace(data, data=data.truth), 10, 2)
    if n_shortcuts == 0:
        return problem
    matrix = problem.graph.to_matrix()
    matrix, _ = datasets.add_shortcuts(matrix, data.data, n_shortcuts, random_state=request.seed)
    return replace(problem, graph=graph_from_matrix(matrix), clean_graph=problem.graph)


def noisy_roll(noise: float, request: Request) -> DataProblem:
    """A swiss roll with Gaussian noise; scored against the graph of the same points without it."""
    data = datasets.swiss_roll(request.size(N_SAMPLES), noise=noise, random_state=request.seed)
    problem = from_features(data, 10, 2)
    assert data.truth is not None
    clean, _ = connected_knn(data.truth, 10, 2)
    return replace(problem, clean_graph=clean, distances=cdist(data.truth, data.truth))


def cities(request: Request, max_miles: float | None = None) -> DataProblem:
    """128 cities by road miles; the map is to be recovered up to an affine map (roads are not straight).

    Local scores are against each city's eight nearest by road, global ones against all the miles.
    """
    whole = datasets.load_city_miles(data_home=request.data_home)
    part = datasets.load_city_miles(max_miles=max_miles, data_home=request.data_home)
    graph = graph_from_matrix(part.graph)
    assert whole.truth is not None
    miles, truth = whole.graph.toarray(), whole.truth
    near, note = graphs.knn_from_distances(miles, 8), f"{graph.n_edges:,} edges"
    return DataProblem(graph, 8, 2, None, truth, None, near, miles, truth[:, 0], note)


def camelhead(request: Request) -> DataProblem:
    """A surface to be flattened: the edges of its triangles. Fewer vertices: a disk around one of them."""
    data = datasets.load_mesh("camelhead", data_home=request.data_home)
    graph = graph_from_matrix(data.graph)
    assert data.truth is not None
    color: FloatArray = data.truth[:, 1]
    if request.size(graph.n_vertices) < graph.n_vertices:
        nearest = np.argsort(graphs.geodesics(graph, 0), kind="stable")
        members = np.sort(nearest[: request.size(graph.n_vertices)])
        graph, color = graphs.subgraph(graph, members), color[members]
    return DataProblem(graph, 6, 2, color=color, note=f"{graph.n_vertices:,} vertices")


def digits(request: Request) -> DataProblem:
    """Nine dimensions are what n_components="auto" estimates."""
    whole = datasets.load_digits()
    return from_features(_taken(whole, np.arange(request.size(whole.n_samples))), 10, 9)


def faces(request: Request) -> DataProblem:
    whole = datasets.load_faces(data_home=request.data_home)
    data = _taken(whole, np.sort(_shuffled(whole)[: request.size(whole.n_samples)]))
    assert data.parameters is not None
    return replace(from_features(data, 8, 3), color=data.parameters[:, 1])


def _taken(data: Dataset, members: AnyArray) -> Dataset:
    parts = {name: getattr(data, name) for name in ("data", "parameters", "labels")}
    return replace(data, **{name: part[members] for name, part in parts.items() if part is not None})


def _shuffled(data: Dataset) -> AnyArray:
    return np.random.default_rng(7).permutation(data.n_samples)


@dataclass(frozen=True)
class Setting:
    """A row of the tables: problems that are averaged, of several seeds."""

    name: str
    title: str
    load: Callable[[Request], DataProblem]  # raises DatasetMissingError where its file is not there
    seeds: tuple[int, ...]  # none of those from 501 on was used while the defaults were chosen
    curve: str | None = None  # the row is a point of this curve, at this abscissa
    value: float = float("nan")
    quick: bool = True  # part of a quick run
    without: tuple[str, ...] = ()  # methods of the experiment that cannot run here, or not on all seeds
    fewer_seeds: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Rows, the methods left out by default, and what is shown of them."""

    name: str
    title: str
    about: str
    rows: tuple[Setting, ...]
    metrics: tuple[str, ...]
    without: tuple[str, ...] = ()
    draw_maps: bool = False  # keep the maps of each row's first seed and draw them
    reference: str | None = None  # whose own map the parameter error is against: its zero wins nothing
    printed: dict[str, dict[str, float]] = field(default_factory=dict)  # by the paper: method, metric, value

    def rows_for(self, scale: Scale) -> tuple[Setting, ...]:
        return tuple(row for row in self.rows if row.quick or scale.all_rows)


def _settings(entry: dict[str, Any]) -> Iterator[Setting]:
    """The row of an entry, or the rows of a curve."""
    load = partial(globals()[entry.pop("load")], **entry.pop("arguments", {}))
    seeds = tuple(range(*entry.pop("seeds", (0, 1))))
    if "curve" not in entry:
        yield Setting(load=load, seeds=seeds, **entry)
        return
    curve, title, quick = entry["curve"], entry["title"], entry["quick"]
    for v in entry["values"]:
        yield Setting(f"{curve}{v:g}", title.format(v), partial(load, v), seeds, curve, v, v in quick)


def _experiment(name: str, entry: dict[str, Any]) -> Experiment:
    rows = tuple(setting for row in entry.pop("rows") for setting in _settings(row))
    printed = entry.pop("printed", {})
    metrics = printed.pop("metrics", ())
    by_metric = {method: dict(zip(metrics, values, strict=True)) for method, values in printed.items()}
    return Experiment(name, rows=rows, printed=by_metric, **entry)


_CATALOG = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
TITLES: dict[str, str] = _CATALOG.pop("titles")
EXPERIMENTS: dict[str, Experiment] = {name: _experiment(name, entry) for name, entry in _CATALOG.items()}
